"""The paper's experiment, its bounds and its coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robin_cli.allocation.policies import Policy, Robin, Setup, Uniform, robin_hood
from robin_cli.data.pools import load_pools
from robin_cli.errors import InputError
from robin_cli.records import Scale
from robin_cli.statistics.agreement import agreement
from robin_cli.statistics.bounds import robin_bound, robin_hood_bound
from robin_cli.statistics.experiment import Design, Subject, check, conduct
from robin_cli.statistics.simulation import Ratings, simulate
from tests.conftest import ROOT

POOLS = load_pools(ROOT / "configs" / "pools" / "paper_digitised.parquet")
SCALE = Scale(0, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4.1-nano/helpfulness", {"uniform": 0.443, "robin-hood": 0.274, "robin": 0.287}),
        ("llama-3-1-8b/complexity", {"uniform": 0.452, "robin-hood": 0.302, "robin": 0.317}),
    ],
)
def test_reproduces_the_papers_table_on_the_digitised_pools(name: str, expected: dict[str, float]) -> None:
    # figures of an independent implementation at 50,000 calls; both are means of 50 runs
    subject = Subject(name, POOLS[name].ratings, SCALE)
    rows = conduct([subject], Design(tuple(expected), (50_000,), seed=1), lambda done, of: None)
    for row in rows:
        assert abs(row.wce_mean - expected[row.scheduler]) < 3 * np.hypot(row.wce_sem, 0.03 * expected[row.scheduler])


def test_simulates_the_scheduler_that_runs_use() -> None:
    from tests.allocation.test_scheduler import play

    ratings = [[0, 4], [2, 2], [1, 2], [3, 3]]
    constant = Ratings.of([np.array([each[0]]) for each in ratings])
    policy: Policy = Robin(np.array([4.0, 0.0, 1.0, 2.0]))
    (snapshot,) = simulate(constant, policy, [57], 3, np.random.default_rng(0))
    asked = np.bincount(play(policy, [[each[0]] for each in ratings], 57), minlength=4)
    assert (snapshot.n == asked).all()


def test_spends_each_budget_to_the_call_and_asks_evenly_when_uniform() -> None:
    ratings = Ratings.of(POOLS["gpt-4.1-nano/helpfulness"].ratings[:50])
    for policy in (Uniform(), robin_hood(Setup(50, 3000, SCALE)), Robin(ratings.variances)):
        snapshots = simulate(ratings, policy, [130, 1000, 1777], 4, np.random.default_rng(2))
        assert [(each.n.sum(axis=1) == each.budget).all() for each in snapshots] == [True] * 3
        if isinstance(policy, Uniform):
            assert np.ptp(snapshots[-1].n) == 1


def test_gives_the_same_table_for_the_same_seed_only() -> None:
    subject = Subject("s", POOLS["gpt-4.1-nano/helpfulness"].ratings[:40], SCALE)
    tables = [conduct([subject], Design(("robin-hood",), (1200,), runs=4, seed=s), lambda *_: None) for s in (1, 1, 2)]
    assert tables[0][0].wce_mean == tables[1][0].wce_mean != tables[2][0].wce_mean


@pytest.mark.slow
def test_breaks_the_papers_bounds_in_at_most_their_share_of_runs() -> None:
    # simulated: 200 runs; Theorem 2 covers the theory mode alone
    delta = 0.2
    ratings = Ratings.of(POOLS["gpt-4.1-nano/helpfulness"].ratings[:30])
    budget = 12_000
    oracle = simulate(ratings, Robin(ratings.variances), [budget], 200, np.random.default_rng(4))[0]
    assert (oracle.wce > robin_bound(ratings.variances, budget, delta)).mean() <= delta
    policy = robin_hood(Setup(30, budget, SCALE, delta=delta, mode="theory"))
    hood = simulate(ratings, policy, [budget], 200, np.random.default_rng(5))[0]
    assert (hood.wce > robin_hood_bound(ratings.variances, budget, delta, policy.warm_up)).mean() <= delta


def test_states_no_bound_before_the_warm_up_is_over() -> None:
    assert robin_bound(np.ones(10), 10, 0.1) == np.inf
    assert robin_hood_bound(np.ones(10), 200, 0.1, 20) == np.inf
    assert robin_bound(np.ones(10), 110, 0.1) == pytest.approx(np.sqrt(2 * 10 / 100 * np.log(200)))


@pytest.mark.parametrize(
    ("ratings", "design", "said"),
    [
        ([[1], [2]], Design(("uniform",), (10,)), "one rating a pair"),
        ([[1, 9], [2, 2]], Design(("uniform",), (10,)), "outside the scale 0-4"),
        ([[1, 2], [2, 2]], Design(("uniform",), (1,)), "reaches 1 of the 2 pairs"),
        ([[1, 2], [2, 2]], Design(("robbin",), (10,)), "known schedulers"),
        ([[1, 2], [2, 2]], Design(("robin-hood",), (10,), delta=0), "at most at 1"),
    ],
)
def test_refuses_what_cannot_be_simulated(ratings: list[list[int]], design: Design, said: str) -> None:
    subject = Subject("s", tuple(np.array(each) for each in ratings), SCALE)
    with pytest.raises(InputError, match=said):
        check([subject], design)


def test_agrees_with_the_textbook_on_correlations() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 5, 60).astype(float)
    y = x + rng.normal(0, 2, 60)
    y[:5] = np.nan
    found = {each.coefficient: each for each in agreement(x, y)}
    both = ~np.isnan(y)
    assert found["pearson"].value == pytest.approx(stats.pearsonr(x[both], y[both]).statistic)
    assert found["spearman"].value == pytest.approx(stats.spearmanr(x[both], y[both]).statistic)
    assert found["kendall"].value == pytest.approx(stats.kendalltau(x[both], y[both]).statistic)
    assert all(each.ci_low < each.value < each.ci_high and each.n == 55 for each in found.values())


def test_states_no_correlation_on_thin_or_constant_data() -> None:
    thin = agreement(np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.0, 3.0]))
    constant = agreement(np.ones(30), np.arange(30.0))
    assert all(np.isnan(each.value) and np.isnan(each.ci_low) for each in thin + constant)
    assert [each.n for each in thin] == [2, 2, 2]
    assert np.isnan(agreement(np.arange(9.0), np.arange(9.0))[0].value)
    assert agreement(np.arange(10.0), np.arange(10.0))[0].value == pytest.approx(1.0)
    assert {each.why for each in constant} == {"all scores are alike"}
