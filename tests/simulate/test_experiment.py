"""The paper's experiment."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from robin_cli.data.pools import Pool
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.simulate import jobs
from robin_cli.simulate.experiment import RecordedSet, Row, checked, conduct
from robin_cli.simulate.pools import subject_of
from robin_cli.simulate.settings import SimulationSettings
from tests.stats.paper import paper_pools

SCALE = Scale(0, 4)


def design(schedulers: tuple[str, ...], budget: tuple[int, ...], **more: Any) -> SimulationSettings:
    return SimulationSettings(schedulers=schedulers, budget=budget, **more)


def subject(ratings: Sequence[NDArray[np.int64]], human: FloatArray | None = None) -> RecordedSet:
    pool = Pool("s", tuple(map(str, range(len(ratings)))), tuple(ratings), human)
    return subject_of(pool, SimulationSettings(), SCALE)


def of_paper(name: str = "gpt-4.1-nano/helpfulness", pairs: int | None = None) -> RecordedSet:
    return subject_of(paper_pools()[name], SimulationSettings(limit=pairs), SCALE)


def wces(row: Row) -> list[float]:
    found: list[float] = row.measured["wce"].tolist()
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4.1-nano/helpfulness", {"uniform": 0.443, "robin-hood": 0.274, "robin": 0.287}),
        pytest.param(
            *("llama-3-1-8b/complexity", {"uniform": 0.452, "robin-hood": 0.302, "robin": 0.317}),
            marks=pytest.mark.whole,
        ),
    ],
)
def test_reproduces_the_papers_table_on_the_digitised_pools(
    name: str, expected: dict[str, float]
) -> None:
    # figures of an independent implementation at 50,000 calls; means of 50 runs; these of 3
    made = of_paper(name)
    for scheduler, told in expected.items():
        given = design((scheduler,), (50_000,), runs=3, seed=1)
        (row,) = conduct([made], given, lambda *_: None)
        assert abs(row.figure("wce_mean") - told) < 3 * np.hypot(row.figure("wce_sem"), 0.03 * told)


def test_gives_the_same_table_for_the_same_seed_only() -> None:
    made = of_paper(pairs=40)
    tables = [
        conduct([made], design(("robin-hood",), (1200,), runs=4, seed=s), lambda *_: None)
        for s in (1, 1, 2)
    ]
    assert (
        tables[0][0].figure("wce_mean")
        == tables[1][0].figure("wce_mean")
        != tables[2][0].figure("wce_mean")
    )


@pytest.mark.parametrize("runs", [1, 2, 3, 7])
def test_tells_the_mean_over_runs_with_its_error_and_each_runs_own(runs: int) -> None:
    made = of_paper(pairs=40)
    (row,) = conduct([made], design(("uniform",), (400,), runs=runs), lambda *_: None)
    assert len(wces(row)) == row.runs == runs
    assert row.figure("wce_mean") == pytest.approx(np.mean(wces(row)))
    spread = statistics.stdev(wces(row)) if runs > 1 else math.nan  # of one run nothing is known
    assert (row.figure("wce_std"), row.figure("wce_sem")) == pytest.approx(
        (spread, spread / math.sqrt(runs)), nan_ok=True
    )


def test_tells_how_the_scores_agree_with_people_on_average_over_runs() -> None:
    # which never vary, but the last
    ratings = tuple(np.full(3, level) for level in 2 * (0, 1, 2, 3, 4, 1, 2, 3, 0, 4))
    human = np.array(2 * [0, 1, 2, 3, 4, 2, 1, 3, 1, 4], dtype=np.float64)
    (row,) = conduct(
        [subject((*ratings[:-1], np.array([4, 3])), human)],
        design(("uniform",), (40,)),
        lambda *_: None,
    )
    exact = np.corrcoef([each.mean() for each in ratings], human)[0, 1]
    assert (row.correlations or {})["pearson"] == pytest.approx(exact, abs=0.02)


def test_simulates_further_budgets_for_the_baseline_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_FEW_CALLS", 0)
    made = of_paper(pairs=20)
    two = ("uniform", "two-priors")
    told: list[tuple[int, int]] = []
    rows = conduct(
        [made], design(two, (100,), runs=2), lambda done, of: told.append((done, of)), (150, 200)
    )
    assert [(row.scheduler, row.budget) for row in rows] == [
        ("uniform", 100),
        ("uniform", 150),
        ("uniform", 200),
        ("two-priors", 100),
    ]
    assert told == [(1, 2), (2, 2)]
    (alone,) = conduct([made], design(two[1:], (100,), runs=2), lambda *_: None)
    assert wces(alone) == wces(rows[3])  # in another process as in this one


def end(_: int) -> list[int]:
    os._exit(1)


def test_says_that_another_process_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)  # with one, this process would end
    with pytest.raises(ChildProcessError, match="is there too little memory"):
        jobs.rows_of_jobs([1, 2], end, lambda *_: None, calls=10**9)


def test_simulates_a_budget_that_reaches_every_pair_once() -> None:
    made = of_paper(pairs=20)
    checked([made], design(("uniform",), (20,)))
    with pytest.raises(InputError, match="reaches 19 of 20 pairs once"):
        checked([made], design(("uniform",), (19,)))


def test_takes_for_each_budget_the_policy_that_it_would_get() -> None:
    made = of_paper(pairs=20)
    together, few, many = (
        conduct([made], design(("auto",), budgets, runs=2), lambda *_: None)
        for budgets in ((100, 200, 1000), (100, 200), (1000,))
    )
    assert [row.budget for row in together] == [100, 200, 1000]
    assert [wces(row) for row in together[:2]] == [wces(row) for row in few]
    other = conduct([made], design(("auto",), (600, 700), runs=2), lambda *_: None)[0]
    assert wces(together[0]) != wces(other)
    assert many[0].scheduler == "auto"


@pytest.mark.parametrize(
    ("ratings", "given", "said"),
    [
        ([[1], [2]], design(("uniform",), (10,)), "one rating for each pair"),
        ([[1, 9], [2, 2]], design(("uniform",), (10,)), "outside the scale 0-4"),
        ([[1, 2], [2, 2]], design(("uniform",), (1,)), "reaches 1 of 2 pairs once"),
        ([[1, 2], [2, 2]], design(("robbin",), (10,)), "known schedulers"),
        ([[1, 2], [2, 2]], design(("robin-hood",), (10,), delta=0), "at most 1"),
    ],
)
def test_refuses_what_cannot_be_simulated(
    ratings: list[list[int]], given: SimulationSettings, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        checked([subject([np.array(each) for each in ratings])], given)
