"""Two runs beside each other, and how sure one run was as it went on, from the ratings themselves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from robin_cli.stats import curve as curve_module
from robin_cli.stats.curve import error_curve
from robin_cli.stats.intervals import Part, sum_intervals
from robin_cli.stats.moderated import moderated
from robin_cli.stats.side_by_side import side_by_side
from tests.stats.test_scores import rated, run_of

Rated = dict[tuple[str, str, str], list[int | None]]
A: Rated = {
    ("p0", "style", "a"): [1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    ("p0", "stars", "a"): [1, 10],
    ("p1", "style", "a"): [5] * 30,
    ("p1", "stars", "a"): [3],
    ("p2", "style", "a"): [2],
    ("p2", "stars", "a"): [2, 2],
}
B: Rated = {
    ("p1", "style", "a"): [1] * 30,
    ("p1", "stars", "a"): [9, 8],
    ("p0", "style", "a"): [5] * 25,
    ("p0", "stars", "a"): [10, 1, 1],
}


def test_compares_what_both_runs_score_with_intervals_that_hold_together(tmp_path: Path) -> None:
    found = side_by_side(run_of(tmp_path / "a", A), run_of(tmp_path / "b", B)).to_pylist()
    keys = [key for key in A if key in B]
    ends = {"style": (1, 5), "stars": (1, 10)}
    for row, key in zip(found, keys, strict=True):
        low, high = ends[key[1]]
        parts = [
            Part(
                np.array([[list(rated(each[key])).count(level) for level in range(low, high + 1)]]),
                low,
                high,
                weight,
            )
            for each, weight in ((A, 1.0), (B, -1.0))
        ]
        (lower,), (upper,) = sum_intervals(parts, alpha=0.05)
        assert (f"p{row['what']}", row["attribute"]) == key[:2]
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((lower, upper))
        assert row["difference"] == pytest.approx(rated(A[key]).mean() - rated(B[key]).mean())
        assert (row["n_a"], row["n_b"]) == (len(A[key]), len(B[key]))
        assert row["differ"] == (lower > 0 or upper < 0)
    # p0's style rose, p1's fell; of the stars little is known
    assert [row["differ"] for row in found] == [True, False, True, False]


def test_says_how_sure_each_run_was_as_its_calls_were_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings: Rated = {
        ("p0", "style", "a"): [1, 5, 3, 3, 2, 4, 1, 1, 5, 2, 2, 3],
        ("p1", "style", "a"): [2, None, 2, 2],
        ("p2", "style", "a"): [],
    }
    monkeypatch.setattr(curve_module, "_POINTS", 3)
    run = run_of(tmp_path, ratings)
    curve = error_curve(run)
    arms = run.fold.arms
    found = moderated(run.space, arms.sums)
    deviation, freedom = np.sqrt(found.variance[:2]), found.freedom[:2]
    # from twice the arms that have ratings up to all ratings, evenly in logarithms; the answers came arm by arm
    assert curve.calls.tolist() == [4, round(math.sqrt(4 * 15)), 15]
    for at, calls in enumerate(curve.calls.tolist()):
        n = np.array([min(calls, 12), calls - min(calls, 12)])
        evenly = np.array([calls - calls // 2, calls // 2])
        for error, spread in ((curve.run, n), (curve.even, evenly)):
            if np.all(spread):  # the median of the larger of two errors
                inside = 1 - 2 * stats.t.sf(error[at] / (deviation / np.sqrt(spread)), freedom)
                assert np.prod(inside) == pytest.approx(0.5, abs=1e-4)
            else:
                assert math.isnan(error[at])


def test_counts_errors_in_shares_where_there_are_several_scales(tmp_path: Path) -> None:
    ratings: Rated = {("p0", "style", "a"): [1, 5, 3], ("p0", "stars", "a"): [1, 10, 4, 5]}
    curve = error_curve(run_of(tmp_path, ratings))
    assert 0 < curve.run[-1] < 1


def test_has_twelve_points_where_there_are_ratings_enough(tmp_path: Path) -> None:
    assert (
        len(error_curve(run_of(tmp_path, {("p0", "style", "a"): [1, 2, 3, 4, 5] * 100})).calls)
        == 12
    )


def test_has_no_curve_where_nothing_was_rated(tmp_path: Path) -> None:
    curve = error_curve(run_of(tmp_path, {("p0", "style", "a"): [None, None]}))
    assert (len(curve.calls), len(curve.run)) == (0, 0)
