"""What a mean over pairs is made of, by value: the scores of a run, or the first ratings where it was to decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robin_cli.stats.scores import score
from robin_cli.stats.summaries import pair_means
from tests.stats.test_scores import RATINGS, Rated, rated, run_of


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
