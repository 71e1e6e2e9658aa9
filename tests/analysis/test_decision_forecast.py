"""What a forecast says of decisions beforehand, against what then happens."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from robin_cli.analysis import decision_forecast
from robin_cli.analysis.decision_forecast import Outlook, _Sample, foresee
from robin_cli.analysis.forecast import Known
from robin_cli.analysis.rating_model import fit_mixture
from robin_cli.analysis.simulation import Ratings, Snapshot, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from tests.analysis.paper import paper_pools

SCALE = Scale(0, 4)


def to_decide(
    text: str, pairs: int, *, group: IntArray | None = None, attributes: int = 1, judges: int = 1, margin: float = 0.2
) -> Task:
    names = tuple("abcdef"[:attributes])
    scales = (SCALE,) * attributes
    space = ArmSpace([str(number) for number in range(pairs)], names, [str(j) for j in range(judges)], scales)
    return Task(decision_of(text, names, scales, margin=margin, error_rate=0.05), space, group)


def by(name: str, budget: int, variances: FloatArray, task: Task) -> Policy:
    setup = Setup(len(task.space), budget, SCALE, variances=variances, task=task)
    return policy_by_scale(name, setup, None, task.space.by_scale())


def rated(truth: Ratings, times: int, rng: np.random.Generator) -> IntArray:
    drawn = truth.draw(np.repeat(np.arange(len(truth.sizes))[:, None], times, axis=1), rng)
    return np.stack([(drawn == level).sum(axis=1) for level in range(5)], axis=1)


def foreseen(scheduler: str, counts: IntArray, task: Task, budgets: list[int]) -> Outlook:
    known = [Known(counts, fit_mixture(counts), SCALE)]
    return foresee(known, task, lambda *of: by(scheduler, *of), budgets, np.random.default_rng(3))


def made(scheduler: str, truth: Ratings, task: Task, budgets: list[int], runs: int) -> list[Snapshot]:
    policy = by(scheduler, budgets[-1], truth.variances, task)
    return simulate(truth, policy, budgets, runs, np.random.default_rng(4), task=task)


@pytest.mark.parametrize(("scheduler", "text"), [("apt", "a>=3"), ("uniform", "a>=3"), ("lucb", "best")])
def test_foresees_wrong_and_certified_decisions_and_the_end_from_a_pilot(
    scheduler: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pilots of 3 calls over pools of the paper: 0.7 to 2.5 times the wrong ones, see docs/budget.md.
    pairs, margin, runs = (200, 0.2, 30) if text == "a>=3" else (40, 0.6, 12)  # the best of groups takes longer
    monkeypatch.setattr(decision_forecast, "RUNS", runs)
    truth = Ratings.of(paper_pools()["gpt-4.1-nano/helpfulness"].ratings[::5][:pairs])
    task = to_decide(text, pairs, group=np.arange(pairs) // 4 if text == "best" else None, margin=margin)
    budgets = [each * pairs for each in (3, 6, 100)]

    told = foreseen(scheduler, rated(truth, 10, np.random.default_rng(5)), task, budgets)
    seen = [each.verdict for each in made(scheduler, truth, task, budgets, runs)]

    for budget, verdict in zip(budgets, seen, strict=True):
        assert verdict is not None
        expected = told.expected[budget]
        slack = 4 * np.hypot(expected.wrong_sem, verdict.wrong.std() / np.sqrt(runs))
        assert abs(expected.wrong - verdict.wrong.mean()) <= max(slack, 0.6 * verdict.wrong.mean())
        assert abs(expected.certified - verdict.certified.mean()) < 0.15
        assert expected.calls == pytest.approx(verdict.calls.mean(), rel=0.3)
    last = seen[-1]
    assert last is not None
    if scheduler != "uniform":
        assert told.end.needed.relation == "about"
        assert told.end.low.calls < told.end.needed.calls < told.end.high.calls
        assert told.end.needed.calls == pytest.approx(last.calls.mean(), rel=0.3)


def test_foresees_the_share_of_wrong_decisions_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_forecast, "_CALLS_AN_ARM_AT_MOST", 20)  # it is not about the end
    pairs = 400
    boundaries = (np.arange(1, 5) - 0.5) / 4  # a rounded normal variable, as the mixture has them
    p = np.diff([0.0, *stats.norm.cdf(boundaries, 0.5525, 0.02 * 200 ** (10 / 19)), 1.0])
    counts = np.tile((20_000 * p).round().astype(np.int64), (pairs, 1))
    sum_of_nine = [1.0]
    for _ in range(9):
        sum_of_nine = np.convolve(sum_of_nine, p).tolist()
    wrong = sum(sum_of_nine[: 9 * 2])  # below the threshold of 2, where the mean is above

    told = foreseen("uniform", counts, to_decide("a>=2", pairs, margin=0.1), [9 * pairs]).expected[9 * pairs]

    assert 0.2 < wrong < 0.4
    assert told.simulated == 300 * 30
    assert told.wrong == pytest.approx(wrong, abs=4 * told.wrong_sem)
    assert told.wrong_sem == pytest.approx(np.sqrt(wrong * (1 - wrong) / 300 / 30), rel=0.5)


def test_pairs_that_are_clear_at_once_are_never_wrong_and_end_the_run_early() -> None:
    counts = np.tile([[0, 0, 0, 0, 40]], (60, 1))
    told = foreseen("apt", counts, to_decide("a>=2", 60), [600, 60_000])

    assert told.expected[60_000].wrong == 0
    assert told.expected[60_000].certified == 1
    assert told.end.needed.relation == "about"
    assert told.expected[60_000].calls < 20 * 60
    assert told.end.needed.calls == pytest.approx(told.expected[60_000].calls, rel=0.01)


def test_says_where_it_looks_no_further_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_forecast, "_CALLS_AN_ARM_AT_MOST", 300)
    counts = np.tile([[20, 0, 0, 0, 20]], (40, 1))  # the costliest ratings, at the threshold, and hardly any margin
    told = foreseen("apt", counts, to_decide("a>=2", 40, margin=0.01), [400])

    assert told.end.needed.relation == "more than"
    assert told.end.needed.calls >= 300 * 40 * 0.5
    assert told.expected[400].calls == 400


def test_an_even_spread_goes_on_until_the_last_so_more_pairs_than_are_simulated_take_longer() -> None:
    counts = np.tile([[0, 1, 2, 9, 28]], (2000, 1))
    few, many = (foreseen("uniform", counts[:pairs], to_decide("a>=2", pairs), [5 * pairs]) for pairs in (200, 2000))

    assert few.end.needed.relation == "about"
    assert many.end.needed.relation == "more than"


def test_simulates_whole_groups_of_all_sizes_in_their_proportions() -> None:
    sizes = np.repeat([1, 2, 5], [200, 400, 200])
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(800), sizes))
    sample = _Sample(to_decide("best", len(group), group=group, attributes=2, judges=3, margin=0.1), 400 * 6)

    drawn = sample.pairs(np.random.default_rng(1))

    assert sample.task.group is not None
    taken = np.bincount(sample.task.group)
    assert len(drawn) == len(set(drawn.tolist())) == taken.sum()
    assert taken.sum() * 6 <= 1000  # arms are simulated at most, however many are asked for
    assert Counter(taken.tolist()) == {
        size: pytest.approx(part, abs=1) for size, part in ((1, 16.6), (2, 33.3), (5, 16.6))
    }
    for number, size in enumerate(taken):
        (mine,) = set(group[drawn[sample.task.group == number]].tolist())
        assert np.bincount(group)[mine] == size


def test_a_part_has_something_to_decide_however_few_groups_have() -> None:
    group = np.append(np.arange(5000), 4999)
    sample = _Sample(to_decide("best", len(group), group=group, margin=0.1), 20)
    assert sample.task.decisions == 1


def test_foresees_panels_of_several_attributes() -> None:
    pairs = 30
    task = to_decide("a>=2,b<=2", pairs, attributes=2, judges=2)
    high, low = np.tile([[0, 0, 0, 10, 30]], (pairs, 1)), np.tile([[30, 10, 0, 0, 0]], (pairs, 1))
    known = [Known(counts, fit_mixture(counts), SCALE) for counts in (high, high, low, low)]
    budgets = [2 * 4 * pairs, 40 * 4 * pairs]

    told = foresee(known, task, lambda *of: by("apt", *of), budgets, np.random.default_rng(3))

    assert told.expected[budgets[1]].certified == 1  # kept by both: each judge's arms were simulated as they are
    assert told.expected[budgets[1]].wrong == 0
    assert told.end.needed.calls < budgets[1]


def test_leaves_out_budgets_that_the_scheduler_refuses() -> None:
    counts = np.tile([[0, 0, 0, 0, 9]], (10, 1))
    known = [Known(counts, fit_mixture(counts), SCALE)]

    told = foresee(known, to_decide("a>=2", 10), lambda *_: None, [20], np.random.default_rng(0))

    assert not told.expected
    assert told.end.needed.relation == "more than"
