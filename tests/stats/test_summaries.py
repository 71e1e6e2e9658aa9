"""Means by attribute and column, by value: against pandas, Cochran's formula and sums over prompts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robin_cli.data.given_labels import GivenLabels, Label
from robin_cli.run.reader import RunReader
from robin_cli.stats.clustered import clusters_of, mean_bounds
from robin_cli.stats.labelled import corrected
from robin_cli.stats.run_labels import Labels, labels_of
from robin_cli.stats.scores import score
from robin_cli.stats.summaries import Estimate, Summary, pair_means, summaries
from tests.stats.test_scores import RATINGS, Rated, rated, run_of

PAIRS = 120
SYSTEMS = [("ours", "theirs", None)[k % 5 % 3] for k in range(PAIRS)]
PROMPTS = {f"p{k}": f"prompt {k % 37}" for k in range(PAIRS)}


def made(
    folder: Path, *, human: dict[str, dict[str, float]] | None = None, **settings: object
) -> RunReader:
    """120 pairs of 37 prompts on two attributes, the last pairs without a rating on stars."""
    rng = np.random.default_rng(4)
    ratings: Rated = {}
    for k in range(PAIRS):
        ratings[f"p{k}", "style", "a"] = (1 + rng.binomial(4, 0.3 + 0.01 * (k % 37), 3)).tolist()
        ratings[f"p{k}", "stars", "a"] = [] if k > 110 else (1 + rng.binomial(9, 0.5, 2)).tolist()
    return run_of(folder, ratings, prompts=PROMPTS, human=human, settings=settings)


def found_in(run: RunReader, *, given: GivenLabels | None = None, **more: object) -> list[Summary]:
    return summaries(run, score(run), labels_of(run, given), **more)  # type: ignore[arg-type]


def by_hand(values: list[float], prompts: list[str]) -> tuple[float, float, float]:
    """Mean and t interval over prompts, prompt by prompt."""
    mean = sum(values) / len(values)
    of: dict[str, float] = {}
    for value, prompt in zip(values, prompts, strict=True):
        of[prompt] = of.get(prompt, 0.0) + value - mean
    count = len(of)
    error = math.sqrt(count / (count - 1) * sum(each**2 for each in of.values())) / len(values)
    half = float(stats.t.ppf(0.975, count - 1)) * error
    return mean, mean - half, mean + half


def test_takes_the_mean_over_pairs_with_an_interval_over_prompts(tmp_path: Path) -> None:
    run = made(tmp_path)
    frame = pd.DataFrame(
        {name: score(run).columns[name] for name in ("pair_id", "attribute", "score")}
    ).dropna()
    for each in found_in(run):
        mine = frame[frame.attribute == each.attribute]
        prompts = [PROMPTS[name] for name in mine.pair_id]
        assert (each.pairs, each.prompts) == (len(mine), len(set(prompts)))
        assert (each.mean.value, each.mean.low, each.mean.high) == pytest.approx(
            by_hand(mine.score.tolist(), prompts)
        )
        assert (each.group, each.share, each.corrected, each.labels) == (None, None, None, None)
    assert [each.attribute for each in found_in(run)] == ["style", "stars"]


def test_groups_pairs_by_a_column_and_leaves_out_those_without_a_value(tmp_path: Path) -> None:
    run = made(tmp_path)
    frame = pd.DataFrame(
        {name: score(run).columns[name] for name in ("pair_id", "attribute", "score")}
    )
    frame["system"] = [SYSTEMS[int(name[1:])] for name in frame.pair_id]
    grouped = frame.groupby(["attribute", "system"]).score
    means, counts = grouped.mean().to_dict(), grouped.count().to_dict()
    found = found_in(run, groups=SYSTEMS, threshold=3.0)
    assert [(each.attribute, each.group) for each in found] == [
        (attribute, system) for attribute in ("style", "stars") for system in ("ours", "theirs")
    ]
    for each in found:
        key = (each.attribute, each.group)
        assert (each.mean.value, each.pairs) == pytest.approx((means[key], counts[key]))
        mine = frame[(frame.attribute == each.attribute) & (frame.system == each.group)].dropna(
            subset="score"
        )
        prompts = [PROMPTS[name] for name in mine.pair_id]
        assert (each.mean.low, each.mean.high) == pytest.approx(
            by_hand(mine.score.tolist(), prompts)[1:]
        )
        clusters = clusters_of(
            (mine.score >= 3).to_numpy().astype(np.float64),
            np.unique(prompts, return_inverse=True)[1],
        )
        assert each.share is not None
        assert each.share.value == pytest.approx((mine.score >= 3).mean())
        assert (each.share.low, each.share.high) == pytest.approx(
            mean_bounds(clusters, 0, 1, alpha=0.05)
        )


def test_states_no_interval_of_fewer_than_five_prompts_and_no_mean_of_nothing(
    tmp_path: Path,
) -> None:
    ratings: Rated = {(f"p{k}", "style", "a"): [k % 4 + 1] for k in range(8)}
    ratings |= {("p8", "style", "a"): []}
    run = run_of(tmp_path, ratings, prompts={f"p{k}": f"prompt {k % 4}" for k in range(9)})
    (few,) = found_in(run, threshold=2)
    assert few.share is not None
    assert (few.prompts, few.mean.value, few.share.value) == (4, 2.5, 0.75)
    assert np.isnan([few.mean.low, few.mean.high, few.share.low, few.share.high]).all()
    groups = ["a"] * 8 + ["b"]
    nothing = found_in(run, groups=groups, threshold=2)[1]
    assert (nothing.group, nothing.pairs, nothing.prompts) == ("b", 0, 0)
    assert nothing.share is not None
    assert np.isnan(
        [nothing.mean.value, nothing.mean.low, nothing.share.value, nothing.share.high]
    ).all()


def test_makes_no_point_of_prompts_that_are_all_alike(tmp_path: Path) -> None:
    run = run_of(tmp_path, {(f"p{k}", "style", "a"): [5, 5] for k in range(12)})
    (each,) = found_in(run, threshold=5)
    # as if one more prompt in 13 had the lowest score: the 2.5 % quantile of its weight
    share = float(stats.beta.ppf(0.025, 12, 1))
    assert each.share == Estimate(1.0, pytest.approx(share), 1.0)  # type: ignore[arg-type]
    assert each.mean == Estimate(5.0, pytest.approx(1 + 4 * share), 5.0)  # type: ignore[arg-type]


def test_keeps_an_interval_on_the_scale(tmp_path: Path) -> None:
    run = run_of(tmp_path, {(f"p{k}", "style", "a"): [5 if k else 1] for k in range(6)})
    (each,) = found_in(run)
    assert by_hand([1, 5, 5, 5, 5, 5], list("abcdef"))[2] > 5
    assert each.mean.high == 5


def test_takes_means_of_first_ratings_where_a_run_was_to_decide_and_shares_of_scores(
    tmp_path: Path,
) -> None:
    ratings: Rated = {(f"p{k}", "style", "a"): [2, 4, 5, 5, 5] for k in range(6)}
    run = run_of(tmp_path, ratings, settings={"decide": "score>=3", "margin": 0.1})
    (each,) = found_in(run, threshold=4)
    assert each.share is not None
    assert (each.mean.value, each.share.value) == (3.0, 1.0)


HUMAN = {f"p{k}": {"style": float(1 + k % 5)} for k in range(PAIRS) if k % 4}


def given(labels: dict[str, float], probability: float | None = None) -> GivenLabels:
    style = {name: Label(value, probability, "labels.csv:1") for name, value in labels.items()}
    return GivenLabels("labels.csv", {"style": style, "stars": {}})


def test_corrects_means_by_the_human_ratings_of_the_data(tmp_path: Path) -> None:
    run = made(tmp_path, human=HUMAN)
    means = pair_means(run, score(run), "style").scores
    human = np.array([HUMAN.get(f"p{k}", {}).get("style", math.nan) for k in range(PAIRS)])
    style, stars = found_in(run)
    assert style.corrected == corrected(
        means, human, 1.0, run.prompts, np.full((1, PAIRS), 1 / PAIRS), ends=(1.0, 5.0)
    )
    assert style.labels is not None
    assert style.labels.of_data
    assert (style.corrected.n_labels, stars.corrected, stars.labels) == (90, None, None)
    of_group = found_in(run, groups=SYSTEMS)[0].corrected
    assert of_group is not None
    assert 0 < of_group.n_labels < 90
    mine = np.array([system == "ours" for system in SYSTEMS])
    assert of_group == corrected(
        means, human, 1.0, run.prompts, mine[None] / mine.sum(), ends=(1.0, 5.0)
    )


def test_lets_given_labels_take_the_place_of_the_datas_ratings_of_an_attribute(
    tmp_path: Path,
) -> None:
    run = made(tmp_path, human=HUMAN)
    labels = {f"p{k}": 1.0 + k % 3 for k in range(40)}
    style, stars = found_in(run, given=given(labels, 0.25))
    assert style.corrected is not None
    assert (style.corrected.n_labels, stars.corrected) == (40, None)
    own = labels_of(run, given(labels, 0.25))["style"]
    assert not own.of_data
    assert set(own.probability[own.known].tolist()) == {0.25}
    assert labels_of(run, given({}))["style"].of_data


def test_uses_no_human_ratings_that_are_off_the_scale(tmp_path: Path) -> None:
    run = made(tmp_path, human=HUMAN | {"p0": {"style": 7.0}})
    style, _ = found_in(run)
    assert style.corrected is None
    assert style.labels is not None
    assert style.labels.why == "1 of 91 human ratings are off the scale 1-5 (they go from 1 to 7)"


def test_keeps_a_corrected_mean_on_the_scale(tmp_path: Path) -> None:
    ratings: Rated = {(f"p{k}", "style", "a"): [1 + k % 5] for k in range(200)}
    run = run_of(tmp_path, ratings)
    labels = {f"p{k}": (5.0 if k % 13 else 4.0) for k in range(26)}
    (each,) = summaries(run, score(run), labels_of(run, given(labels)))
    assert each.corrected is not None
    assert each.corrected.high == 5.0
    assert each.corrected.low < each.corrected.estimate < 5.0


def test_corrects_a_group_without_a_score_by_nothing(tmp_path: Path) -> None:
    run = made(tmp_path)
    labels = labels_of(run, None)
    values = np.where(np.arange(PAIRS) < 30, 2.0, math.nan)
    own = {**labels, "stars": Labels(values, np.ones(PAIRS), of_data=False)}
    groups = ["rated" if k <= 110 else "not" for k in range(PAIRS)]
    stars = summaries(run, score(run), own, groups=groups)[-1]
    assert stars.corrected is not None
    assert (stars.pairs, stars.corrected.why) == (0, "no pair has a score")
    assert math.isnan(stars.mean.value)


def test_takes_the_scores_of_a_run_and_the_variances_of_their_noise(tmp_path: Path) -> None:
    run = run_of(tmp_path, RATINGS)
    scores = score(run)
    for attribute in ("style", "stars"):
        found = pair_means(run, scores, attribute)
        mine = [row for row, name in enumerate(scores.columns["attribute"]) if name == attribute]
        assert found.first is None
        np.testing.assert_array_equal(found.scores, np.asarray(scores.columns["score"])[mine])
        np.testing.assert_allclose(
            found.error_variances, np.asarray(scores.columns["std_error"])[mine] ** 2
        )
    assert np.isnan(pair_means(run, scores, "stars").scores).tolist() == [False, True]


@pytest.mark.parametrize("judges", [("a",), ("a", "b")])
def test_takes_the_first_ratings_of_the_first_judge_that_no_doubt_led_to(
    tmp_path: Path, judges: tuple[str, ...]
) -> None:
    given: dict[str, list[int | None]] = {
        "p0": [1, None, 2, 5, 5, 5],
        "p1": [4, 4],
        "p2": [3],
        "p3": [],
    }
    ratings: Rated = {
        (name, "style", judge): [
            None if each is None else each - (judge == "b" and each > 1) for each in values
        ]
        for name, values in given.items()
        for judge in judges
    }
    run = run_of(tmp_path, ratings, settings={"decide": "score>=3", "margin": 0.1})
    found = pair_means(run, score(run), "style")

    count = 2 if len(judges) == 1 else 1  # a second opinion asks for the first judge's second
    first = {
        key: [each for each in values if each is not None][:count]
        for key, values in ratings.items()
    }
    expected, noise = [], []
    for name in given:
        means, errors = [], []
        for judge in judges[:1]:
            alike = [
                np.array(values)
                for (_, _, other), values in first.items()
                if other == judge and values
            ]
            squares = sum(((x - x.mean()) ** 2).sum() for x in alike)
            pooled = (squares + np.arange(1, 6).var()) / (sum(len(x) - 1 for x in alike) + 1)
            x = np.array(first[name, "style", judge])
            means.append(x.mean() if len(x) else np.nan)
            errors.append(
                (((x - x.mean()) ** 2).sum() + 4 * pooled) / (len(x) + 3) / len(x)
                if len(x)
                else np.nan
            )
        expected.append(np.mean(means))
        noise.append(np.sum(errors))
    assert found.first == count
    np.testing.assert_allclose(found.scores, expected)
    np.testing.assert_allclose(found.error_variances, noise)


def test_of_an_adaptive_run_it_is_the_first_ratings_that_nearly_all_pairs_have(
    tmp_path: Path,
) -> None:
    ratings: dict[tuple[str, str, str], list[int | None]] = {
        (f"p{k}", "style", "a"): [5, 5, 4] if k % 2 else [5, 4, 5, 1, 1, 1] for k in range(40)
    }
    ratings["p3", "style", "a"] = [2]
    for scheduler, first in (("two-priors", 3), ("uniform", None), ("robin-hood", 3)):
        (tmp_path / scheduler).mkdir()
        run = run_of(tmp_path / scheduler, ratings, settings={"scheduler": scheduler})
        scores = score(run)
        found, own = pair_means(run, scores, "style"), pair_means(run, scores, "style", of_all=True)
        assert (found.first, own.first) == (first, None)
        assert found.scores.tolist() == pytest.approx(
            [rated(each[:first]).mean() for each in ratings.values()]
        )
        assert own.scores.tolist() == pytest.approx(
            [rated(each).mean() for each in ratings.values()]
        )
