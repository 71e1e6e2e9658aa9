"""Distributions of true means: against EM over every single rating, and against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task
from robin_cli.stats.likely_wrong import is_enough_asked, likely_wrong
from robin_cli.stats.true_means import fitted

FIVE = Scale(1, 5)
WIDTHS = [0.0043 * 3.4**k for k in range(7)]
RATINGS = [[3, 4, 4], [5], [1, 5], [], [3], [5], [2, 2, 3, 2, 1]]


def sums_of(ratings: list[list[int]]) -> Sums:
    columns = [[len(each), sum(each), sum(x * x for x in each)] for each in ratings]
    return Sums(*np.array(columns, dtype=np.float64).T)


def shares_of(centers: list[float]) -> FloatArray:
    """The probability of each level, by width (the waverers last) and center."""
    levels = range(1, 6)
    normal = [
        [[math.exp(-((x - center) ** 2) / (2 * v)) for x in levels] for center in centers]
        for v in WIDTHS
    ]
    wavering = [
        [math.exp(6 / 16 * (x - 3) ** 2 + (center - 3) * (x - 3)) for x in levels]
        for center in centers
    ]
    share = np.array([*normal, wavering])
    return np.asarray(share / share.sum(axis=2, keepdims=True))


def by_every_rating(ratings: list[list[int]]) -> tuple[FloatArray, FloatArray]:
    """The means of all components and, by row, the chance of each, with five steps of EM over either mixture, eight times."""
    share = shares_of([1 + k / 10 for k in range(-24, 65)])
    likelihood = np.array(
        [
            [share[..., x - 1] for x in row] and np.prod([share[..., x - 1] for x in row], axis=0)
            if row
            else np.ones(share.shape[:2])
            for row in ratings
        ]
    )
    ratings_of = np.array([len(row) for row in ratings])
    usual = np.array([*(min(v * 81 / 16, 16 / 81 / v) for v in WIDTHS), 0.1])
    usual /= usual.sum()
    width, center = np.full(8, 1 / 8), np.full(89, 1 / 89)
    for step in range(80):
        each = likelihood * np.outer(width, center)
        each /= each.sum(axis=(1, 2), keepdims=True)
        if step % 10 < 5:
            tell = np.where(
                ratings_of > 1, 1, (ratings_of > 0) * min(1, 4 * 3 / 6)
            )  # 3 of 6 repeat
            width = (each * tell[:, None, None]).sum(axis=(0, 2)) + 4 * usual
            width /= width.sum()
        else:
            center = each[ratings_of > 0].sum(axis=(0, 1)) + 50 / 89
            center /= center.sum()
    after = likelihood * np.outer(width, center)
    after /= after.sum(axis=(1, 2), keepdims=True)
    return share @ np.arange(1, 6), after


def test_chances_are_those_of_em_over_every_single_rating() -> None:
    value, after = by_every_rating(RATINGS)
    found = fitted(FIVE, sums_of(RATINGS))
    ends = shares_of([1 + k / 10 - 0.05 for k in range(-24, 66)]) @ np.arange(1, 6)
    for at in (1.4, 2.9, 3.1, 4.55):
        part = np.array([np.interp(at, row, np.arange(90.0)) for row in ends])
        inside = np.clip(part[:, None] - np.arange(89), 0, 1)
        exact = 0.999 * (after * inside).sum(axis=(1, 2)) + 0.001 * (at - 1) / 4
        np.testing.assert_allclose(found.at_most(np.array([at]))[0], exact, rtol=1e-4)
    median = found.quantiles(np.array([0.5]), np.arange(len(RATINGS)))[:, 0]
    chance = np.array(
        [(after[row] * (value <= median[row] + 0.05)).sum() for row in range(len(RATINGS))]
    )
    assert (chance >= 0.5).all()
    assert (np.diag(found.at_most(median - 0.1)) <= 0.5).all()


def test_a_first_rating_counts_for_much_only_where_repeats_agree() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(1, 6, 400)
    agreeing = [[int(x)] * (2 if k < 100 else 1) for k, x in enumerate(level)]
    noisy = [[min(5, max(1, x + int(rng.integers(-2, 3)))) for x in row] for row in agreeing]
    last = slice(100, None)
    doubt = [
        np.mean(
            fitted(FIVE, sums_of(each)).at_most(np.array([2.9]))[0, last][
                np.array([row[0] for row in each[last]]) >= 3
            ]
        )
        for each in (agreeing, noisy)
    ]
    assert doubt[0] < 0.04
    assert doubt[1] > 4 * doubt[0]


@pytest.mark.parametrize("high", [1, 4, 100])
def test_holds_for_about_as_many_true_means_as_it_says(high: int) -> None:
    """Of a made-up judge with binomial ratings, four of three in ten pairs and one of the others."""
    rng, scale = np.random.default_rng(3), Scale(0, high)
    true = high * rng.beta(3.0, 2.0, 3_000)
    spread = rng.binomial(high, true[:, None] / high, (3_000, 4)).astype(float)
    given = np.arange(4) < np.where(rng.random(3_000) < 0.3, 4, 1)[:, None]
    found = fitted(scale, Sums(*(np.where(given, spread**k, 0.0).sum(axis=1) for k in range(3))))
    for share in (0.4, 0.6, 0.8):
        assert found.at_most(np.array([share * high])).mean() == pytest.approx(
            (true <= share * high).mean(), abs=0.12 if high == 1 else 0.06
        )


@pytest.mark.parametrize(("levels", "usual"), [(2, 0.25), (3, 0.125), (5, 16 / 81), (10, 1.0)])
def test_ratings_vary_as_is_usual_for_their_scale(levels: int, usual: float) -> None:
    assert Scale(0, levels - 1).usual_variance == pytest.approx(usual)


def test_one_rating_of_each_pair_by_yes_or_no_leaves_much_wrong() -> None:
    rng, pairs = np.random.default_rng(0), 2_000
    chance = rng.beta(0.5, 0.5, pairs)  # of a yes; most pairs are clear
    ratings = (rng.random(pairs) < chance).astype(np.float64)
    scale = Scale(0, 1)
    space = ArmSpace([str(k) for k in range(pairs)], ["a"], ["j"], [scale])
    task = Task(decision_of("a>=0.5", ["a"], [scale], margin=None, error_rate=None), space)

    stated = likely_wrong(task, Sums(np.ones(pairs), ratings, ratings), np.zeros(pairs, np.bool_))

    margin = task.decision.margins[0]
    wrong = np.where(ratings > 0, chance < 0.5 - margin, chance >= 0.5 + margin).mean()
    assert 0.7 * wrong < stated.mean() < 1.6 * wrong


def test_a_run_ends_once_all_are_rated_and_a_fifth_are_rated_twice() -> None:
    scale = Scale(0, 4)
    space = ArmSpace([str(k) for k in range(11)], ["a"], ["j"], [scale])
    task = Task(decision_of("a>=2", ["a"], [scale], margin=None, error_rate=None), space)
    gone = np.arange(11) == 10
    counts = np.array([2, 2, *[1] * 8, 0])
    assert is_enough_asked(task, counts, gone)
    assert not is_enough_asked(task, counts, np.zeros(11, np.bool_)), "one may still be rated"
    assert not is_enough_asked(task, np.minimum(counts, [2, *[1] * 10]), gone), "one was repeated"
