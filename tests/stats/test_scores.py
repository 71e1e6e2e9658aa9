"""The scores of a run by value: from the ratings themselves with numpy, and with the intervals that they are said to have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import StorageError
from robin_cli.model.records import RETIRE_AFTER, Judgment, Pair, Scale
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from robin_cli.stats.intervals import Part, mean_intervals, sum_intervals
from robin_cli.stats.moderated import skewed
from robin_cli.stats.scores import (
    _told_apart,
    between_judges,
    interval_widths,
    score,
    spread_between,
)
from tests.run.test_store import SETTINGS, judgment, manifest

ATTRIBUTES = ("style", "stars")
JUDGES = ("a", "b")
ENDS = {"style": (1, 5), "stars": (1, 10)}

# by pair, attribute and judge: ratings; None is an answer without one
Rated = dict[tuple[str, str, str], list[int | None]]
RATINGS: Rated = {
    ("p0", "style", "a"): [1, 5, 3],
    ("p0", "style", "b"): [2, 2, None, 4, 4],
    ("p0", "stars", "a"): [10, 7],
    ("p0", "stars", "b"): [1, 1, 1, 1],
    ("p1", "style", "a"): [5, 5],
    ("p1", "style", "b"): [1],
    ("p1", "stars", "a"): [],
    ("p1", "stars", "b"): [3, 6],
}


def run_of(
    path: Path,
    ratings: dict[tuple[str, str, str], list[int | None]],
    *,
    ends: Any = None,
    more: Sequence[Judgment] = (),
    human: dict[str, dict[str, float]] | None = None,
    prompts: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
) -> RunReader:
    """A run with these ratings, on disk and read back; the prompts are the pairs' names, or these."""
    names, attributes, judges = (
        tuple(dict.fromkeys(key[place] for key in ratings)) for place in range(3)
    )
    pairs = [
        Pair(name, (prompts or {}).get(name, name), "response", (human or {}).get(name, {}))
        for name in names
    ]
    scale = {name: (ends or ENDS)[name] for name in attributes}
    made = manifest(
        settings={**SETTINGS, "model": judges, **(settings or {})},
        attributes=attributes,
        budget=1000,
        scale=scale if len(set(scale.values())) > 1 else next(iter(scale.values())),
    )
    rows = [
        replace(
            judgment(0, status="unparsed" if value is None else "ok"),
            pair_id=name,
            attribute=attribute,
            judge=judge,
            draw=draw,
            rating=value,
        )
        for (name, attribute, judge), values in ratings.items()
        for draw, value in enumerate(values)
    ]
    with RunWriter.create(path / "r", made, pairs) as store:
        store.append([*rows, *more])
    return read_run(path / "r", JUDGMENTS.names)


def rated(ratings: list[int | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([each for each in ratings if each is not None], dtype=np.float64)


def interval(ratings: list[int | None], low: int, high: int, alpha: float) -> tuple[float, float]:
    counts = np.array([[list(rated(ratings)).count(level) for level in range(low, high + 1)]])
    lower, upper = mean_intervals(counts, low, high, alpha=alpha)
    return float(lower[0]), float(upper[0])


def error_variance(key: tuple[str, str, str]) -> float:
    """V/n by its definition: the pair's sum of squares and 4 ratings of the variance pooled over its attribute and judge."""
    alike = [rated(values) for other, values in RATINGS.items() if other[1:] == key[1:]]
    low, high = ENDS[key[1]]
    squares = (
        sum(((x - x.mean()) ** 2).sum() for x in alike if len(x)) + np.arange(low, high + 1).var()
    )
    pooled = squares / (sum(max(0, len(x) - 1) for x in alike) + 1)
    x = rated(RATINGS[key])
    return (
        float((((x - x.mean()) ** 2).sum() + 4 * pooled) / (len(x) + 3) / len(x))
        if len(x)
        else math.nan
    )


def skew(key: tuple[str, str, str], alpha: float) -> FloatArray:
    """How much wider than by t the likely interval is below and above, by the ratings of its attribute and judge."""
    alike = [other for other in RATINGS if other[1:] == key[1:]]
    low, high = ENDS[key[1]]
    counts = [
        [list(rated(RATINGS[other])).count(level) for level in range(low, high + 1)]
        for other in alike
    ]
    return skewed(np.array(counts, dtype=float), Scale(low, high), alpha=alpha)[:, alike.index(key)]


def likely_ends(
    t: tuple[float, float], factors: FloatArray, low: float, high: float
) -> list[float]:
    """The interval by t, each side as much wider, nowhere beyond the guaranteed one."""
    center = sum(t) / 2
    return [
        max(center - factors[0] * (center - t[0]), low),
        min(center + factors[1] * (t[1] - center), high),
    ]


def test_scores_each_judges_ratings(tmp_path: Path) -> None:
    run = run_of(tmp_path, RATINGS)
    scores = score(run, alpha=0.1, by_judge=True)
    columns = scores.columns
    keys = list(zip(columns["pair_id"], columns["attribute"], columns["judge"], strict=True))
    assert sorted(keys) == sorted(RATINGS)
    for row, (key, (low, high)) in enumerate((key, ENDS[str(key[1])]) for key in keys):
        all_of_them = RATINGS[key]
        x = rated(all_of_them)
        told = {name: values[row] for name, values in columns.items()}
        assert (told["n"], told["n_unparsed"]) == (len(x), len(all_of_them) - len(x))
        assert told["score"] == pytest.approx(x.mean() if len(x) else math.nan, nan_ok=True)
        assert told["variance"] == pytest.approx(
            x.var(ddof=1) if len(x) > 1 else math.nan, nan_ok=True
        )
        noise = error_variance(key)
        assert told["std_error"] == pytest.approx(math.sqrt(noise), nan_ok=True)
        guaranteed = interval(all_of_them, low, high, 0.1)
        assert (told["guaranteed_low"], told["guaranteed_high"]) == pytest.approx(guaranteed)
        likely = [math.nan, math.nan]
        if len(x):
            t = stats.t.interval(0.9, len(x) + 3, loc=x.mean(), scale=math.sqrt(noise))
            likely = likely_ends(t, skew(key, 0.1), *guaranteed)
        assert [told["ci_low"], told["ci_high"]] == pytest.approx(likely, nan_ok=True)
        assert run.space.pair[scores.arm[row]] == int(str(key[0])[1:])
    assert scores.facets == ["style_a", "style_b", "stars_a", "stars_b"]


def test_a_panel_counts_its_judges_alike_and_bets_on_all_of_them_together(tmp_path: Path) -> None:
    alpha = 0.08
    run = run_of(tmp_path, RATINGS)
    scores = score(run, alpha=alpha)
    columns = scores.columns
    assert scores.facets == ATTRIBUTES
    for row, (name, attribute) in enumerate(
        zip(columns["pair_id"], columns["attribute"], strict=True)
    ):
        low, high = ENDS[str(attribute)]
        each = [RATINGS[str(name), str(attribute), judge] for judge in JUDGES]
        x = [rated(one) for one in each]
        told = {name: values[row] for name, values in columns.items()}
        assert (told["n"], told["judges"]) == (sum(map(len, x)), sum(len(one) > 0 for one in x))
        assert told["n_unparsed"] == sum(one.count(None) for one in each)
        every = all(len(one) for one in x)
        assert told["score"] == pytest.approx(
            np.mean([one.mean() for one in x]) if every else math.nan, nan_ok=True
        )
        counts = [[[list(one).count(level) for level in range(low, high + 1)]] for one in x]
        (lower,), (upper,) = sum_intervals(
            [Part(np.array(one), low, high, 0.5) for one in counts], alpha=alpha
        )
        assert (told["guaranteed_low"], told["guaranteed_high"]) == pytest.approx((lower, upper))
        noise = [error_variance((str(name), str(attribute), judge)) for judge in JUDGES]
        assert told["std_error"] == pytest.approx(math.sqrt(sum(noise)) / 2, nan_ok=True)
        if every:
            freedom = sum(noise) ** 2 / sum(
                a**2 / (len(one) + 3) for a, one in zip(noise, x, strict=True)
            )
            center = np.mean([one.mean() for one in x])
            t = stats.t.interval(1 - alpha, freedom, loc=center, scale=math.sqrt(sum(noise)) / 2)
            skews = np.array([skew((str(name), str(attribute), judge), alpha) for judge in JUDGES])
            factors = np.sqrt(np.average(skews**2, axis=0, weights=noise))
            likely = likely_ends(t, factors, lower, upper)
            assert [told["ci_low"], told["ci_high"]] == pytest.approx(likely)
        if all(len(one) > 1 for one in x):
            unbiased = [one.var(ddof=1) / len(one) for one in x]
            between = np.var([one.mean() for one in x], ddof=1) - np.mean(unbiased)
            assert told["variance"] == pytest.approx(np.mean([one.var(ddof=1) for one in x]))
            assert told["judge_spread"] == pytest.approx(math.sqrt(max(0.0, between)))
            assert scores.between is not None
            assert scores.between[row] == pytest.approx(between / (high - low) ** 2)
        else:
            assert math.isnan(told["variance"])  # type: ignore[arg-type]
        assert run.space.pair[scores.arm[row]] == int(str(name)[1:])


def failed(number: int, reason: str, **change: Any) -> list[Judgment]:
    rows = [judgment(0, status="failed", reason=reason) for _ in range(number)]
    return [replace(row, attribute="style", draw=90 + k, **change) for k, row in enumerate(rows)]


def test_says_of_arms_given_up_why(tmp_path: Path) -> None:
    ratings: dict[tuple[str, str, str], list[int | None]] = {
        ("p0", "style", "a"): [1, 5, 3],
        ("p0", "style", "b"): [2, 2],
        ("p1", "style", "a"): [],
        ("p1", "style", "b"): [4, 4],
    }
    gone = failed(RETIRE_AFTER, "context_length", pair_id="p1", judge="a")
    run = run_of(tmp_path, ratings, more=gone)

    each, together = score(run, by_judge=True), score(run)

    assert each.columns["given_up"] == ["", "", "context_length", ""]
    assert together.columns["given_up"] == ["", "a: context_length"]
    assert each.retired.tolist() == [False, False, True, False]
    assert together.retired.tolist() == [False, True]


def test_spreads_an_expected_rating_over_the_levels_beside_it(tmp_path: Path) -> None:
    values = [3.25, 2.0, 4.984375]
    rows = [
        replace(
            judgment(0),
            pair_id="p0",
            attribute="style",
            judge="a",
            draw=k,
            rating=3,
            expected_rating=value,
        )
        for k, value in enumerate(values)
    ]
    scores = score(run_of(tmp_path, {("p0", "style", "a"): []}, more=rows), alpha=0.1)
    assert scores.columns["score"][0] == pytest.approx(np.mean(values))
    # sixteen steps to a point: 3.25 is the 36th, 4.984375 a quarter of the 63rd and three of the 64th
    counts = np.zeros((1, 65))
    counts[0, [36, 16, 63, 64]] = 1, 1, 0.25, 0.75
    low, high = mean_intervals(counts, 1, 5, alpha=0.1)
    assert (
        scores.columns["guaranteed_low"][0],
        scores.columns["guaranteed_high"][0],
    ) == pytest.approx((low[0], high[0]))


@pytest.mark.parametrize("rating", [0, 6])
def test_refuses_ratings_outside_the_scale(tmp_path: Path, rating: int) -> None:
    with pytest.raises(StorageError, match="outside the scale 1-5"):
        score(run_of(tmp_path, {("p0", "style", "a"): [rating]}))
    assert score(run_of(tmp_path / "b", {("p0", "style", "a"): [1, 5]})).columns["score"][0] == 3


def test_a_panel_of_three_has_a_row_a_pair_and_its_human_ratings(tmp_path: Path) -> None:
    ratings: Rated = {
        (f"p{k}", "style", judge): [k + 1, 1] for k in range(2) for judge in ("a", "b", "c")
    }
    scores = score(run_of(tmp_path, ratings, human={"p0": {"style": 4.0}, "p1": {"style": 2.0}}))
    assert {"judges", "judge_spread"} <= scores.columns.keys()
    assert (scores.columns["pair_id"], list(scores.columns["human"])) == (["p0", "p1"], [4.0, 2.0])
    assert list(scores.columns["judges"]) == [3, 3]


def test_one_judge_has_the_columns_of_one(tmp_path: Path) -> None:
    run = run_of(tmp_path, {("p0", "style", "a"): [1]})
    assert "judge" not in score(run).columns
    assert "judge" in score(run, by_judge=True).columns


def test_compares_likely_intervals_on_several_scales_by_their_shares(tmp_path: Path) -> None:
    run = run_of(tmp_path, RATINGS)
    for scores in (score(run), score(run, by_judge=True)):
        columns = scores.columns
        widths = interval_widths(scores, run.space)
        assert math.inf in widths  # p1's stars, which a did not rate
        assert len(widths) == len(scores)
        for row, (low, high) in enumerate(zip(columns["ci_low"], columns["ci_high"], strict=True)):
            bottom, top = ENDS[columns["attribute"][row]]
            share = (high - low) / (top - bottom)
            assert widths[row] == (math.inf if math.isnan(share) else pytest.approx(share))


def test_names_columns_that_would_be_called_alike_by_their_place() -> None:
    assert _told_apart(["a_b_c", "x", "a_b_c"]) == ["a_b_c_1", "x", "a_b_c_3"]


@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_tells_the_spread_between_judges_from_the_noise_within_one(spread: float) -> None:
    rng = np.random.default_rng(5)
    rows, judges = 20_000, 3
    n = np.array([[4, 9, 25]] * rows)
    true = rng.normal(2.0, spread, (rows, judges))
    noise = np.array([0.5, 1.0, 2.0])
    means = true + rng.normal(0.0, 1.0, (rows, judges)) * np.sqrt(noise / n)
    variances = noise * rng.chisquare(n - 1) / (n - 1)

    between = between_judges(means, variances / n)

    error = between.std(ddof=1) / math.sqrt(rows)
    assert abs(between.mean() - spread**2) < 4 * error
    assert abs(spread_between(between) - spread) < 0.03


def test_does_not_know_the_spread_where_a_judge_has_no_rating() -> None:
    assert math.isnan(
        spread_between(between_judges(np.array([[1.0, np.nan]]), np.array([[0.05, np.nan]])))
    )
