"""What a pairwise run says, by value: from its ratings with numpy, and from the parts that it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.goals.preferences import Preferences
from robin_cli.goals.registry import goal_of_run
from robin_cli.model.records import RETIRE_AFTER, Pair, Scale
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from robin_cli.show.report.preferences import warnings_of
from robin_cli.stats.intervals import Part, sum_intervals
from robin_cli.stats.moderated import skewed
from robin_cli.stats.pairwise import order_means, pairwise_scores, preferences_of, ranked_systems
from robin_cli.stats.ranking import order_effects, ranking
from tests.run.test_store import SETTINGS, judgment, manifest

Given = Sequence[float | None]

# by comparison, order and judge: points of A; None is an answer without a verdict
POINTS: dict[tuple[str, str, str], Given] = {
    ("c0", "a-first", "x"): [2, 2, 1],
    ("c0", "b-first", "x"): [0, 1],
    ("c0", "a-first", "y"): [2],
    ("c0", "b-first", "y"): [2, None, 2],
    ("c1", "a-first", "x"): [0, 0],
    ("c1", "b-first", "x"): [0],
    ("c1", "a-first", "y"): [1, 0],
    ("c1", "b-first", "y"): [0],
    ("c2", "a-first", "x"): [2],
    ("c2", "b-first", "x"): [2],
    ("c2", "a-first", "y"): [1],
    ("c2", "b-first", "y"): [None] * RETIRE_AFTER,
}
SYSTEMS = {"c0": ("one", "two"), "c1": ("two", "three"), "c2": ("one", "three")}


def run_of(
    path: Path,
    points: Mapping[tuple[str, str, str], Given],
    systems: Mapping[str, tuple[str, str]] = SYSTEMS,
    scale: tuple[int, int] = (0, 2),
    *,
    scoring: str = "text",
) -> RunReader:
    """A pairwise run with these ratings, on disk and read back; comparison cN is of prompt N // 3."""
    names = tuple(dict.fromkeys(key[0] for key in points))
    judges = tuple(dict.fromkeys(key[2] for key in points))
    pairs = [
        Pair(
            name,
            f"prompt {int(name[1:]) // 3}",
            f"A of {name}",
            other=f"B of {name}" + "!" * place,
            columns=dict(zip(("system_a", "system_b"), systems[name], strict=True))
            if systems
            else {},
        )
        for place, name in enumerate(names)
    ]
    made = manifest(
        settings={**SETTINGS, "model": judges, "pairwise": True},
        attributes=(PREFERENCE,),
        budget=1000,
        scale=scale,
    )
    rows = [
        replace(
            judgment(0, status="unparsed" if value is None else "ok"),
            pair_id=name,
            attribute=order,
            judge=judge,
            draw=draw,
            rating=None if value is None else round(value),
            expected_rating=value if scoring == "logprobs" else None,
            scoring=scoring,
        )
        for (name, order, judge), values in points.items()
        for draw, value in enumerate(values)
    ]
    with RunWriter.create(path / "r", made, pairs) as store:
        store.append(rows)
    return read_run(path / "r", JUDGMENTS.names)


def found_in(run: RunReader) -> Preferences:
    found = goal_of_run(run).result(run)
    assert isinstance(found, Preferences)
    return found


def rated(given: Given) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([each for each in given if each is not None], dtype=np.float64)


def parts_of(name: str, judges: Sequence[str]) -> list[Part]:
    weight = 1 / (2 * len(judges))
    return [
        Part(
            np.array(
                [[rated(POINTS[name, order, judge]).tolist().count(level) for level in range(3)]]
            ),
            0.0,
            1.0,
            weight,
        )
        for order in ORDERS
        for judge in judges
    ]


def test_gives_orders_and_judges_equal_weight_however_often_each_was_asked(tmp_path: Path) -> None:
    run = run_of(tmp_path, POINTS)
    scores = pairwise_scores(run, alpha=0.1)
    assert list(scores.columns["pair_id"]) == list(SYSTEMS)
    assert list(zip(scores.columns["system_a"], scores.columns["system_b"], strict=True)) == list(
        SYSTEMS.values()
    )
    for row, name in enumerate(SYSTEMS):
        told = {column: values[row] for column, values in scores.columns.items()}
        mine = {key[1:]: rated(values) for key, values in POINTS.items() if key[0] == name}
        means = [x.mean() / 2 if len(x) else math.nan for x in mine.values()]
        assert told["preference"] == pytest.approx(np.mean(means), nan_ok=True)
        assert told["n"] == sum(len(x) for x in mine.values())
        assert told["n_ties"] == sum((x == 1).sum() for x in mine.values())
        assert told["n_unparsed"] == sum(list(POINTS[name, *key]).count(None) for key in mine)
        low, high = sum_intervals(parts_of(name, "xy"), alpha=0.1)
        assert (told["guaranteed_low"], told["guaranteed_high"]) == pytest.approx((low[0], high[0]))
        effects = [
            (mine["a-first", judge].mean() - mine["b-first", judge].mean()) / 4
            for judge in "xy"
            if name != "c2"
        ]
        assert told["order_effect"] == pytest.approx(
            np.mean(effects) if effects else math.nan, nan_ok=True
        )
    assert preferences_of(run) == pytest.approx(
        np.asarray(scores.columns["preference"]), nan_ok=True
    )
    assert list(scores.columns["given_up"]) == ["", "", "b-first · y: missing"]
    assert scores.retired.tolist() == [False, False, True]


def test_has_likely_intervals_of_variances_within_orders(tmp_path: Path) -> None:
    run = run_of(tmp_path, POINTS)
    scores = pairwise_scores(run, alpha=0.1)
    errors, freedoms, skews = [], [], []
    for order in ORDERS:
        for judge in "xy":
            alike = [rated(values) for key, values in POINTS.items() if key[1:] == (order, judge)]
            counts = np.array(
                [[(x == level).sum() for level in range(3)] for x in alike], dtype=float
            )
            names = [key[0] for key in POINTS if key[1:] == (order, judge)]
            skews.append(skewed(counts, Scale(0, 2), alpha=0.1)[:, names.index("c0")])
            squares = sum(((x - x.mean()) ** 2).sum() for x in alike if len(x)) + np.arange(3).var()
            pooled = squares / (sum(max(0, len(x) - 1) for x in alike) + 1)
            x = rated(POINTS["c0", order, judge])
            variance = (((x - x.mean()) ** 2).sum() + 4 * pooled) / (len(x) + 3)
            errors.append(variance / len(x) / 8**2)
            freedoms.append(len(x) + 3)
    freedom = sum(errors) ** 2 / sum(
        each**2 / own for each, own in zip(errors, freedoms, strict=True)
    )
    center = float(np.asarray(scores.columns["preference"])[0])
    below, above = np.sqrt(np.average(np.square(skews), axis=0, weights=errors))
    half = stats.t(freedom).ppf(0.95) * math.sqrt(sum(errors))
    low, high = (
        float(np.asarray(scores.columns[name])[0]) for name in ("guaranteed_low", "guaranteed_high")
    )
    likely = max(center - below * half, low), min(center + above * half, high)
    found = [np.asarray(scores.columns[name])[0] for name in ("ci_low", "ci_high")]
    assert found == pytest.approx(likely)


def test_scores_each_judge_by_itself(tmp_path: Path) -> None:
    run = run_of(tmp_path, POINTS)
    scores = pairwise_scores(run, by_judge=True, alpha=0.1)
    assert "judge" in scores.columns
    keys = list(zip(scores.columns["pair_id"], scores.columns["judge"], strict=True))
    assert keys == [(name, judge) for name in SYSTEMS for judge in "xy"]
    for row, (name, judge) in enumerate(keys):
        first, second = (rated(POINTS[str(name), order, str(judge)]) / 2 for order in ORDERS)
        has_both = len(first) and len(second)
        expected = (first.mean() + second.mean()) / 2 if has_both else math.nan
        assert np.asarray(scores.columns["preference"])[row] == pytest.approx(expected, nan_ok=True)
        low, high = sum_intervals(parts_of(str(name), str(judge)), alpha=0.1)
        assert np.asarray(scores.columns["guaranteed_low"])[row] == pytest.approx(low[0])
        assert np.asarray(scores.columns["guaranteed_high"])[row] == pytest.approx(high[0])
    assert list(scores.columns["given_up"])[-1] == "b-first · y: missing"


def test_reads_votes_without_ties_and_expected_ratings(tmp_path: Path) -> None:
    points: dict[tuple[str, str, str], Given] = {
        ("c0", "a-first", "x"): [0.75, 0.5],
        ("c0", "b-first", "x"): [0.25],
    }
    run = run_of(tmp_path, points, {"c0": ("one", "two")}, (0, 1), scoring="logprobs")
    columns = pairwise_scores(run).columns
    assert np.asarray(columns["preference"])[0] == pytest.approx((0.625 + 0.25) / 2)
    assert np.asarray(columns["order_effect"])[0] == pytest.approx((0.625 - 0.25) / 2)
    assert np.asarray(columns["n"])[0] == 3


def test_counts_as_ties_what_judges_said_also_where_probabilities_count(tmp_path: Path) -> None:
    points: dict[tuple[str, str, str], Given] = {
        ("c0", "a-first", "x"): [1.25, 1.75],
        ("c0", "b-first", "x"): [0.9],
    }
    run = run_of(tmp_path, points, {"c0": ("one", "two")}, scoring="logprobs")
    # 1.25 and 0.9 are of answers that said tie
    assert np.asarray(pairwise_scores(run).columns["n_ties"]).tolist() == [2]


def test_needs_no_names_of_systems(tmp_path: Path) -> None:
    run = run_of(tmp_path, {key: given for key, given in POINTS.items() if key[2] == "x"}, {})
    columns = pairwise_scores(run).columns
    assert list(columns["system_a"]) == [""] * 3
    assert np.asarray(columns["preference"]) == pytest.approx([(5 / 6 + 0.25) / 2, 0.0, 1.0])


def test_ranks_and_finds_the_orders_effect_by_what_the_run_holds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points: dict[tuple[str, str, str], Given] = {}
    systems = {}
    for number in range(30):
        for order in ORDERS:
            points[f"c{number}", order, "x"] = rng.integers(0, 3, 2).tolist()
        systems[f"c{number}"] = [("one", "two"), ("three", "two"), ("one", "three")][number % 3]
    run = run_of(tmp_path, points, systems)
    means = np.array(
        [
            [[np.mean(points[f"c{number}", order, "x"]) / 2] for order in ORDERS]  # type: ignore[arg-type]
            for number in range(30)
        ]
    )
    assert order_means(run) == pytest.approx(means)
    prompt = np.arange(30) // 3
    assert found_in(run).order_effects == order_effects(means, prompt)
    matches = found_in(run).matches
    numbers = np.array([[matches.names.index(name) for name in two] for two in systems.values()])
    preference = means.mean(axis=(1, 2))
    found, expected = ranked_systems(run).ranking, ranking(preference, numbers, prompt, 3)
    assert found is not None
    assert found.strength == pytest.approx(expected.strength)
    assert found.ci_low == pytest.approx(expected.ci_low)
    assert found.rank_high.tolist() == expected.rank_high.tolist()


def test_names_three_systems_that_go_in_a_circle_and_says_whether_they_are_asked_evenly(
    tmp_path: Path,
) -> None:
    points: dict[tuple[str, str, str], Given] = {}
    beats = [("one", "two"), ("two", "three"), ("three", "one")]
    systems = {f"c{number}": beats[number % 3] for number in range(60)}
    for number, name in enumerate(systems):
        points[name, "a-first", "x"] = points[name, "b-first", "x"] = [0 if number % 15 > 11 else 2]
    run = run_of(tmp_path, points, systems)
    found = found_in(run)
    assert (told := found.facts()["circle"]) is not None
    assert (told["systems"], told["rates"]) == (["one", "two", "three"], pytest.approx([0.8] * 3))
    line = found.lines()["circle"]
    assert line == found.answer[-1]
    assert (
        "in a circle: one is preferred to two in 80 %, two is preferred to three in 80 %, three is preferred to"
        in line
    )
    assert "evenly" not in line
    assert "asked equally often" not in line
    by_tournament = replace(found.ranked, were_chosen=True)
    assert "every two systems are asked equally often" in by_tournament.circle_text
    shown: Any = SimpleNamespace(ranked=by_tournament)
    assert warnings_of(shown)[0].startswith("In a circle: ")
    assert "circle" not in found_in(run_of(tmp_path / "other", POINTS)).lines()
