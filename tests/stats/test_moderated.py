"""What few ratings say of a judge's noise, with the help of all pairs: against its definition, and against the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import optimize, stats

from robin_cli.goals.scores import ScoresGoal
from robin_cli.model.arms import FloatArray, Sums, WritableArms
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.stats.moderated import (
    freedom_of_sum,
    likely_half_widths,
    likely_intervals,
    moderated,
    skewed,
)
from robin_cli.stats.worst_error import worst_error


def space_of(pairs: int, *scales: Scale, judges: int = 1) -> ArmSpace:
    names = [f"a{k}" for k in range(len(scales))]
    return ArmSpace(
        [f"p{k}" for k in range(pairs)], names, [f"j{k}" for k in range(judges)], list(scales)
    )


def sums(ratings: Sequence[Sequence[float]]) -> Sums:
    powers = ([float(sum(x**power for x in each)) for each in ratings] for power in (0, 1, 2))
    return Sums(*map(np.array, powers))


# Of two pairs the ratings on 0-4 by two judges, then on 1-10 by the same two.
RATINGS = [[0, 4, 4, 2], [3, 3], [10, 1, 1], [5], [4, 4, 4], [], [8, 9], [5, 6, 6]]
SPACE = space_of(2, Scale(0, 4), Scale(1, 10), judges=2)


def variance_of(arm: int) -> float:
    """By the definition: the sum of squares of the arm, and 4 ratings of the variance pooled over one attribute and judge."""
    alike = [k for k in range(8) if k % 4 == arm % 4]
    squares = {k: sum((x - np.mean(RATINGS[k])) ** 2 for x in RATINGS[k]) for k in alike}
    freedom = sum(max(0, len(RATINGS[k]) - 1) for k in alike)
    levels = np.arange(0, 5) if arm % 4 < 2 else np.arange(1, 11)
    pooled = (sum(squares.values()) + levels.var()) / (freedom + 1)
    return float((squares[arm] + 4 * pooled) / (len(RATINGS[arm]) + 3))


def likely_ends(
    space: ArmSpace, sums: Sums, skew: FloatArray, *, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """The likely intervals of arms, where only the scale itself is guaranteed."""
    found = moderated(space, sums)
    with np.errstate(invalid="ignore"):
        center = sums[1] / sums[0]
    return likely_intervals(
        center, found.error_variance, found.freedom, skew, np.stack(space.ends), alpha=alpha
    )


def test_moderates_each_variance_by_that_of_all_pairs_of_its_attribute_and_judge() -> None:
    found = moderated(SPACE, sums(RATINGS))
    for arm, ratings in enumerate(RATINGS):
        if not ratings:
            assert math.isnan(found.variance[arm])
            continue
        assert found.variance[arm] == pytest.approx(variance_of(arm))
        assert found.error_variance[arm] == pytest.approx(variance_of(arm) / len(ratings))
        assert found.freedom[arm] == len(ratings) + 3


def test_sees_no_certainty_in_ratings_that_all_agree() -> None:
    found = moderated(space_of(2, Scale(0, 4)), sums([[4, 4, 4], [2, 2, 2]]))
    assert np.all(found.variance > 0)
    # an even draw's
    assert np.all(
        moderated(space_of(2, Scale(0, 4)), sums([[4], [2]])).variance == pytest.approx(2.0)
    )


def test_likely_intervals_are_students_within_the_scale() -> None:
    low, high = likely_ends(SPACE, sums(RATINGS), np.ones((2, 8)), alpha=0.1)
    for arm, ratings in enumerate(RATINGS):
        if not ratings:
            assert math.isnan(low[arm])
            assert math.isnan(high[arm])
            continue
        bottom, top = (0, 4) if arm % 4 < 2 else (1, 10)
        spread = math.sqrt(variance_of(arm) / len(ratings))
        lower, upper = stats.t.interval(0.9, len(ratings) + 3, loc=np.mean(ratings), scale=spread)
        assert (low[arm], high[arm]) == pytest.approx((max(bottom, lower), min(top, upper)))


def test_a_sum_of_errors_has_the_degrees_of_freedom_of_welch_and_satterthwaite() -> None:
    a, b = [1.0, 3.0, 2.5, 4.0], [2.0, 2.0, 7.0, 1.0, 3.0, 5.5]
    errors = np.array([[np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 6]])
    freedom = freedom_of_sum(errors, np.array([[3.0, 5.0]]))
    welch = stats.ttest_ind(a, b, equal_var=False)
    assert freedom[0] == pytest.approx(welch.df)
    half = likely_half_widths(errors.sum(axis=1), freedom, alpha=0.05)
    assert half[0] == pytest.approx(
        (welch.confidence_interval().high - welch.confidence_interval().low) / 2
    )


def test_the_expected_worst_error_is_the_median_of_the_largest() -> None:
    rated = [arm for arm, ratings in enumerate(RATINGS) if ratings]
    kept = np.array([bool(ratings) for ratings in RATINGS])
    widths = [4 if arm % 4 < 2 else 9 for arm in rated]  # on several scales errors are shares
    scales = [
        math.sqrt(variance_of(arm) / len(RATINGS[arm])) / w
        for arm, w in zip(rated, widths, strict=True)
    ]
    freedom = [len(RATINGS[arm]) + 3 for arm in rated]

    told = worst_error(SPACE, sums(RATINGS), kept)

    def no_larger(x: float) -> float:
        return math.prod(
            2 * stats.t.cdf(x / scale, df) - 1 for scale, df in zip(scales, freedom, strict=True)
        )

    assert told == pytest.approx(
        optimize.brentq(lambda x: no_larger(x) - 0.5, 0.001, 1.0), abs=1e-6
    )


def test_the_expected_worst_error_counts_arms_that_are_alike_each() -> None:
    many, one = space_of(500, Scale(0, 4)), [1, 2, 2, 2]
    told = worst_error(many, sums([one] * 500), np.ones(500, dtype=bool))
    spread = math.sqrt(moderated(many, sums([one] * 500)).error_variance[0])
    assert told == pytest.approx(spread * stats.t.ppf(0.5 + 0.5 * 0.5 ** (1 / 500), 7), abs=1e-5)


def test_the_expected_worst_error_is_no_wider_than_the_scale_and_known_once_all_are_rated() -> None:
    space = space_of(2, Scale(10, 18))
    both = np.ones(2, dtype=bool)
    assert worst_error(space, sums([[18], [10]]), both) <= 8.0
    assert math.isnan(worst_error(space, sums([[18], []]), both))
    assert worst_error(space, sums([[18], []]), np.array([True, False])) > 0
    assert math.isnan(worst_error(space, sums([[18], [10]]), ~both))


def test_numbers_that_changed_while_they_were_read_make_no_small_error() -> None:
    space, both = space_of(2, Scale(0, 4)), np.ones(2, dtype=bool)
    changed = Sums(np.array([2.0, 50.0]), np.array([4.0, 300.0]), np.array([16.0, 900.0]))
    assert worst_error(space, changed, both) > 0.5


@pytest.mark.parametrize("calls", [3, 5, 20])
def test_likely_intervals_hold_on_average_over_pairs(calls: int) -> None:
    # simulated: 2,000 pairs whose judges differ in noise; 95 % of 2,000 is known to half a percent
    rng = np.random.default_rng(calls)
    p = rng.dirichlet(np.full(5, 0.5), 2000)
    counts = rng.multinomial(calls, p)
    levels = np.arange(5.0)
    some = Sums(counts.sum(axis=1).astype(float), counts @ levels, counts @ levels**2)
    space = space_of(2000, Scale(0, 4))
    low, high = likely_ends(space, some, np.ones((2, 2000)), alpha=0.05)
    covered = (low <= p @ levels) & (p @ levels <= high)
    assert 0.94 < covered.mean() < 0.99


def test_reaches_further_where_rare_ratings_are_skewed_as_the_binomial_says() -> None:
    size, share, arms = 20, 0.05, 50  # every arm: one 0 and nineteen 4s
    counts = np.tile([1.0, 0, 0, 0, size - 1], (arms, 1))
    shrunk = math.sqrt(size / (size - 1))
    values = np.array([-4 * (1 - share), 4 * share]) * shrunk
    within = arms * 16 * share * (1 - share) * size
    # an even scale of five levels has a variance of 2
    pooled = (within + 2.0) / (arms * (size - 1) + 1)

    def statistic(zeros: int) -> float:
        drawn = np.repeat(values, [zeros, size - zeros])
        variance = (drawn.var() * size + 4 * pooled) / (size + 3)
        return float(drawn.mean() / math.sqrt(variance / size))

    zeros = stats.binom(size, share)
    # so the upper end is that of no 0, and the lower that of as many as 2.5 % exceed
    assert zeros.pmf(0) > 0.03
    most = int(zeros.isf(0.025))
    kurtosis = (share * values[0] ** 4 + (1 - share) * values[1] ** 4) / (
        share * values[0] ** 2 + (1 - share) * values[1] ** 2
    ) ** 2
    caution = 1 + 0.75 * math.sqrt((kurtosis - 1) / (arms * size))
    t = stats.t(size + 3).ppf(0.975)
    below, above = skewed(counts, Scale(0, 4), alpha=0.05)
    assert below == pytest.approx(np.full(arms, max(1, caution * statistic(0) / t)))
    assert above == pytest.approx(np.full(arms, max(1, -caution * statistic(most) / t)))
    assert below[0] > 1


def test_reaches_no_further_where_ratings_agree_or_are_few() -> None:
    agreeing = np.array([[0.0, 0, 7, 0, 0], [0, 3, 0, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])
    assert (skewed(agreeing, Scale(0, 4), alpha=0.05) == 1).all()
    once = np.eye(5)  # a table of scores with a guessed scale has no repeats
    assert (skewed(once, Scale(0, 4, is_guessed=True), alpha=0.05) == 1).all()
    even = np.random.default_rng(0).multinomial(5, np.full(5, 0.2), size=200).astype(float)
    assert skewed(even, Scale(0, 4), alpha=0.05).max() < 1.05


def test_holds_most_means_where_all_pairs_flip_at_the_same_low_rate() -> None:
    rng, space, covered = np.random.default_rng(3), space_of(300, Scale(0, 4)), []
    for _ in range(5):
        counts = rng.multinomial(50, [0.03, 0, 0, 0, 0.97], size=300).astype(float)
        some = Sums(counts.sum(axis=1), counts[:, 4] * 4, counts[:, 4] * 16)
        low, high = likely_ends(space, some, skewed(counts, Scale(0, 4), alpha=0.05), alpha=0.05)
        covered.append(((low <= 4 * 0.97) & (high >= 4 * 0.97)).mean())
    assert np.mean(covered) > 0.88  # by t alone .79


def test_is_not_reached_while_a_score_is_not_known() -> None:
    goal = ScoresGoal(ArmSpace(["p0", "p1"], ["a"], ["m"], [Scale(0, 4)]))
    arms = WritableArms(2)
    assert not goal.is_reached(arms.read_only(), 3.9)
    for _ in range(50):
        arms.add_rating(0, 2.0)
    assert not goal.is_reached(arms.read_only(), 3.9)
    for _ in range(RETIRE_AFTER):
        arms.add_unparsed(1)
    # What was given up without a rating has no score to be off.
    assert goal.is_reached(arms.read_only(), 3.9)
