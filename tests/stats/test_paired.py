"""Differences of two systems, paired by prompt: by value against scipy, and honest where there is little to tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.api import OLS
from statsmodels.stats.multitest import multipletests

from robin_cli.model.arms import FloatArray
from robin_cli.policies.systems import FEWEST_PROMPTS
from robin_cli.stats.clustered import (
    bounds_over_prompts,
    clusters_of,
    lower_bound,
    mean_bounds,
    probability_beyond,
)
from robin_cli.stats.paired import (
    ENOUGH_FOR_RARE,
    MORE_CALLS,
    Difference,
    Responses,
    differences,
    holm,
    prompts_for,
    prompts_needed,
    times_needed,
)

ALPHA = 0.05


def responses(scores: FloatArray, *, noise: float = 0.01, ratings: float = 3.0) -> Responses:
    """Scores of shape (systems, prompts, responses), on 0 to 4."""
    systems, prompts, each = scores.shape
    system, prompt, _ = np.indices(scores.shape)
    count = systems * prompts * each
    return Responses(
        scores.ravel(),
        np.full(count, noise),
        np.full(count, ratings),
        prompt.ravel(),
        system.ravel(),
        0.0,
        4.0,
    )


def one(scores: FloatArray, **known: float) -> Difference:
    return differences(responses(scores, **known), 2)[0]


def drawn(seed: int, shape: tuple[int, ...] = (2, 30, 4)) -> FloatArray:
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 4, shape)
    scores[0] = np.minimum(4.0, scores[0] + 0.4)
    return scores


def bounded(values: FloatArray, alpha: float = ALPHA) -> tuple[float, float]:
    """What bounds of bounded values make of differences, with the farther end of Student's interval."""
    low, high = mean_bounds(clusters_of(values, np.arange(len(values))), -4.0, 4.0, alpha=alpha)
    t_low, t_high = stats.ttest_1samp(values, 0.0).confidence_interval(1 - alpha)
    return max(-4.0, min(float(t_low), low)), min(4.0, max(float(t_high), high))


def doubted(values: FloatArray) -> float:
    """The level at which these leave 0 out."""
    return probability_beyond(clusters_of(values, np.arange(len(values))), -4.0, 4.0, at=0.0)


def test_a_difference_is_that_of_the_paired_t_test() -> None:
    scores = drawn(0)
    found = one(scores)
    a, b = scores.mean(axis=2)
    told = stats.ttest_rel(a, b)
    model = OLS(a - b, np.ones(30)).fit()
    assert (found.n_prompts, found.is_widened) == (30, False)
    assert [found.mean_a, found.mean_b] == pytest.approx([a.mean(), b.mean()])
    assert [found.difference, found.std_error] == pytest.approx([model.params[0], model.bse[0]])
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(told.confidence_interval()))
    assert [found.p, found.p_adjusted] == pytest.approx([told.pvalue, model.pvalues[0]])
    assert found.effect_size == pytest.approx(told.statistic / math.sqrt(30))
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue)
    np.testing.assert_allclose(found.by_prompt, a - b)


def far_off(count: int, prompts: int = 100) -> FloatArray:
    """Scores whose differences are -4 at ``count`` prompts and .2 at the others."""
    a = np.where(np.arange(prompts) < count, 0.0, 4.0)
    return np.stack([a, np.where(a == 0.0, 4.0, 3.8)])[..., None]


@pytest.mark.parametrize("count", [1, 3, 4, 8, -4])
def test_widens_where_one_prompt_carries_half_of_the_variance_or_three_on_one_side(
    count: int,
) -> None:
    scores = far_off(abs(count))
    if count < 0:  # half of them on the other side
        scores[:, :2] = scores[::-1, :2].copy()
    found, values = one(scores), (scores[0] - scores[1])[:, 0]
    assert found.is_widened == (count in {1, 3})
    t = stats.ttest_1samp(values, 0.0)
    ends = bounded(values) if found.is_widened else tuple(t.confidence_interval())
    assert (found.ci_low, found.ci_high) == pytest.approx(ends)
    assert found.p == pytest.approx(max(t.pvalue, doubted(values) if found.is_widened else 0.0))
    robust = differences(responses(scores), 2, is_robust=True)[0]
    assert (robust.ci_low, robust.ci_high) == pytest.approx(bounded(values))
    assert robust.p == pytest.approx(max(t.pvalue, doubted(values)))


@pytest.mark.parametrize(("off", "prompts"), [(1, 50), (2, 100), (2, 200), (5, 100), (12, 200)])
def test_says_how_few_prompts_cannot_show_rare_differences(off: int, prompts: int) -> None:
    found = one(far_off(off, prompts))
    assert found.may_miss_rare(4.0) == (prompts < ENOUGH_FOR_RARE)
    assert not one(drawn(1)).may_miss_rare(4.0)


@pytest.mark.parametrize("shape", ["even", "ends", "one far off"])
def test_of_many_prompts_the_nearest_count_as_one_in_wide_bounds(shape: str) -> None:
    rng = np.random.default_rng(12)
    values = {
        "even": rng.uniform(-1, 1, 3000),
        "ends": rng.choice([-4.0, 4.0], 12),
        "one far off": np.append(np.full(24, 0.2), -4.0),
    }[shape]
    clusters = clusters_of(values, np.arange(len(values)))
    found = bounds_over_prompts(clusters, -4.0, 4.0, alpha=ALPHA, is_robust=True)
    assert found == pytest.approx(bounded(values), abs=1e-5)


def test_prompts_that_only_one_system_answered_and_unequal_numbers_of_responses_are_taken_as_they_are() -> (
    None
):
    whole = responses(drawn(1, (2, 12, 3)))
    rng = np.random.default_rng(2)
    kept = rng.random(72) < 0.7
    kept[(whole.prompt == 3) & (whole.system == 1)] = False
    part = Responses(
        whole.score[kept],
        whole.noise[kept],
        whole.ratings[kept],
        whole.prompt[kept],
        whole.system[kept],
        low=0.0,
        high=4.0,
    )
    found = differences(part, 2)[0]
    each: dict[tuple[int, int], list[float]] = {}
    for score, prompt, system in zip(part.score, part.prompt, part.system, strict=True):
        each.setdefault((int(system), int(prompt)), []).append(score)
    both = [prompt for prompt in range(12) if (0, prompt) in each and (1, prompt) in each]
    a, b = (np.array([np.mean(each[system, prompt]) for prompt in both]) for system in (0, 1))
    assert found.prompts.tolist() == both
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_the_share_of_noise_is_that_of_the_scores_error_variances_in_the_variance_of_the_difference() -> (
    None
):
    scores, v, n = drawn(3), 0.5, 4.0
    found = one(scores, noise=v / n, ratings=n)
    variance = found.by_prompt.var(ddof=1) / 30
    noise = 2 * 30 * (4 * v / n / 4**2) / 30**2
    assert found.std_error**2 == pytest.approx(variance)
    assert found.noise_share == pytest.approx(noise / variance)
    then = 2 * 30 * (4 * v / (n + MORE_CALLS) / 4**2) / 30**2
    shorter = 1 - math.sqrt((variance - noise + then) / variance)
    assert found.shorter == pytest.approx(shorter)
    assert 0 < found.shorter < 1 - math.sqrt(1 - found.noise_share)


def test_the_share_of_noise_is_all_at_most_and_unknown_where_hardly_a_response_was_rated_twice() -> (
    None
):
    assert one(drawn(4), noise=50.0).noise_share == 1.0
    once = one(drawn(4), ratings=1.0)
    assert math.isnan(once.noise_share)
    assert math.isnan(once.shorter)
    assert math.isnan(one(drawn(4), ratings=1 + 29 / 240).noise_share)
    assert not math.isnan(one(drawn(4), ratings=1 + 31 / 240).noise_share)


def test_says_how_many_prompts_would_settle_it_were_the_difference_as_large_as_it_looks() -> None:
    scores = drawn(5)
    scores[0] = scores[1] + np.random.default_rng(6).normal(0.05, 1.0, scores[0].shape)
    found = one(scores)
    assert not found.is_settled
    by_t = prompts_for(found.difference, float(found.by_prompt.var(ddof=1)), alpha=ALPHA)
    assert by_t <= found.prompts_needed < 1.5 * by_t
    assert found.prompts_needed > 30
    settled = one(drawn(5) + np.array([1.0, 0.0])[:, None, None])
    assert settled.is_settled
    assert math.isnan(settled.prompts_needed)
    level = drawn(7)
    level[0] = level[1] + np.tile([0.5, -0.5], 15)[:, None]
    assert math.isnan(one(level).prompts_needed)


def test_below_five_prompts_nothing_is_told_but_the_means() -> None:
    few = one(drawn(8, (2, FEWEST_PROMPTS - 1, 4)))
    assert few.n_prompts == 4
    assert not math.isnan(few.difference)
    assert all(
        math.isnan(each)
        for each in (few.ci_low, few.ci_high, few.p, few.p_adjusted, few.prompts_needed)
    )
    assert not few.is_settled
    assert not math.isnan(one(drawn(8, (2, FEWEST_PROMPTS, 4))).p)
    apart = responses(drawn(8))
    none = Responses(
        apart.score,
        apart.noise,
        apart.ratings,
        apart.prompt + 100 * apart.system,
        apart.system,
        0.0,
        4.0,
    )
    assert differences(none, 2)[0].n_prompts == 0


@pytest.mark.parametrize("shift", [0.0, 1.0, -4.0])
def test_differences_that_are_all_alike_get_the_bounds_of_bounded_values_in_place_of_no_width(
    shift: float,
) -> None:
    scores = np.full((2, 20, 1), 2.0)
    scores[0] += max(shift, 0.0) / 2
    scores[1] -= max(shift, 0.0) / 2
    if shift == -4.0:
        scores[0], scores[1] = 0.0, 4.0
    found = one(scores)
    assert (found.ci_low, found.ci_high) == mean_bounds(
        clusters_of(np.full(20, shift), np.arange(20)), -4.0, 4.0, alpha=ALPHA
    )
    assert found.ci_low <= shift <= found.ci_high
    assert found.ci_high - found.ci_low > 0.5
    assert found.p_wilcoxon == (1.0 if shift == 0 else stats.wilcoxon(found.by_prompt).pvalue)
    assert found.p == (1.0 if shift == 0 else pytest.approx(_p_by_search(shift), rel=1e-4))


def _p_by_search(shift: float) -> float:
    """The α at which the bound reaches 0."""
    clusters = clusters_of(np.full(20, abs(shift)), np.arange(20))
    found = optimize.brentq(
        lambda log: lower_bound(clusters, -4.0, alpha=math.exp(log) / 2), -60, -0.01, xtol=1e-9
    )
    return math.exp(found)


def test_the_probability_beyond_a_value_is_the_level_at_which_the_bounds_leave_it_out() -> None:
    clusters = clusters_of(np.random.default_rng(9).uniform(0, 4, 40), np.arange(40) // 2)
    for at in (1.2, 2.9):
        p = probability_beyond(clusters, 0.0, 4.0, at=at)
        low, high = mean_bounds(clusters, 0.0, 4.0, alpha=p)
        assert at == pytest.approx(low if at < clusters.mean else high, abs=1e-6)
    assert probability_beyond(clusters, 0.0, 4.0, at=clusters.mean) == 1.0


def test_intervals_never_leave_the_differences_that_there_can_be() -> None:
    scores = np.array([[[4.0]] * 6 + [[0.0]], [[0.0]] * 7])
    found = one(scores)
    assert found.ci_high == 4.0


def test_holm_steps_down_as_the_paper_says() -> None:
    rows = np.array([[0.01, 0.04, 0.03, 0.005], [0.02, math.nan, 0.04, math.nan]])
    wanted = [[0.03, 0.06, 0.06, 0.02], [0.04, math.nan, 0.04, math.nan]]
    assert holm(rows) == pytest.approx(np.array(wanted), nan_ok=True)
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert not holm(np.empty(0)).size


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_largest_of_what_is_tested_before(p: list[float]) -> None:
    order = sorted(p)
    wanted = [
        max(min(1.0, (len(p) - rank) * value) for rank, value in enumerate(order) if value <= each)
        for each in p
    ]
    assert holm(np.array(p)) == pytest.approx(wanted)


def test_every_two_systems_are_compared_the_earlier_minus_the_later_with_p_corrected_together() -> (
    None
):
    scores = drawn(10, (3, 40, 2))
    found = differences(responses(scores), 3)
    assert [(each.a, each.b) for each in found] == [(0, 1), (0, 2), (1, 2)]
    means = scores.mean(axis=2)
    told = [stats.ttest_rel(means[a], means[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    p = [each.pvalue for each in told]
    assert [each.p for each in found] == pytest.approx(p)
    assert [each.p_adjusted for each in found] == pytest.approx(multipletests(p, method="holm")[1])
    together = [tuple(each.confidence_interval(1 - ALPHA / 3)) for each in told]
    assert [(each.ci_low, each.ci_high) for each in found] == [pytest.approx(x) for x in together]
    assert [each.is_settled for each in found] == (3 * np.array(p) < ALPHA).tolist()
    open_ = next(each for each in found if not each.is_settled)
    variance = float(open_.by_prompt.var(ddof=1))
    assert open_.prompts_needed >= max(41, prompts_for(open_.difference, variance, alpha=ALPHA / 3))


def test_no_system_is_better_whose_interval_holds_0_whatever_holm_says() -> None:
    between = []
    for seed in range(60):
        scores = np.random.default_rng(seed).uniform(0, 4, (3, 20, 1))
        scores[0] = np.minimum(scores[0] + 0.9, 4.0)
        found = differences(responses(scores), 3)
        assert [each.is_settled for each in found] == [3 * each.p < ALPHA for each in found]
        between += [each for each in found if each.p_adjusted < ALPHA < 3 * each.p]
    assert [each.ci_low < 0 < each.ci_high for each in between] == [True] * max(1, len(between))


def test_names_the_one_or_two_prompts_that_carry_the_variance() -> None:
    def carried(*values: float, prompts: int = 40) -> tuple[list[int], float]:
        spread = np.tile([0.1, -0.1], prompts // 2)
        spread[5 : 5 + len(values)] = values
        found, share = one(2.0 + np.stack([spread, -spread])[..., None] / 2).carriers()
        return found.tolist(), share

    far = np.append(np.tile([0.1, -0.1], 20)[:-1], -3.0)
    far -= far.mean()
    found, share = carried(-3.0)
    assert found == [5]
    assert share == pytest.approx(far[-1] ** 2 / (far @ far))
    assert sorted(carried(-2.0, 2.0)[0]) == [5, 6]
    assert carried(-2.0, 2.0, -2.0, 2.0, -2.0)[0] == []
    assert carried()[0] == []
    assert carried(-3.0, prompts=18)[0] == [5]
    assert carried(-2.0, 2.0, prompts=18)[0] == []


def test_says_how_many_calls_settle_a_difference_where_noise_is_most_of_it() -> None:
    rng, prompts, settled, told = np.random.default_rng(0), 200, 0, 0
    system, prompt = np.repeat([0, 1], prompts), np.tile(np.arange(prompts), 2)

    def found(means: FloatArray, n: int) -> Difference:
        ratings = np.clip(np.rint(rng.normal(means[:, None], 2.5, (2 * prompts, n))), 0, 9)
        noise = np.full(2 * prompts, ratings.var(axis=1, ddof=1).mean() / n)
        n_each = np.full(2 * prompts, float(n))
        known = Responses(ratings.mean(axis=1), noise, n_each, prompt, system, 0.0, 9.0)
        return differences(known, 2)[0]

    while told < 20:
        means = np.tile(rng.normal(4.5, 1, prompts), 2) + rng.normal(0, 0.2, 2 * prompts)
        one = found(means + np.where(system == 0, 0.15, -0.15), 2)
        if math.isinf(one.times_needed) or not 0.25 < one.difference < 0.35:
            continue  # "if the difference is as large as it looks"
        told += 1
        again = found(means + np.where(system == 0, 0.15, -0.15), math.ceil(2 * one.times_needed))
        settled += again.is_settled
    assert 12 <= settled <= 20


def power_of(prompts: float, difference: float, variance: float, alpha: float) -> float:
    """The chance that a two-sided t test of the paired differences sees it."""
    freedom, off = prompts - 1, abs(difference) / math.sqrt(variance / prompts)
    limit = stats.t.ppf(1 - alpha / 2, freedom)
    return float(stats.nct.sf(limit, freedom, off) + stats.nct.cdf(-limit, freedom, off))


def test_takes_as_many_prompts_as_the_noncentral_t_but_for_one_or_two() -> None:
    for alpha in (0.01, 0.05):
        for difference in (0.05, -0.2, 1.0, 3.0):
            found = prompts_for(difference, 0.7, alpha=alpha)
            exact = next(
                n
                for n in range(max(2, int(found) - 5), 10**6)
                if power_of(n, difference, 0.7, alpha) >= 0.8
            )
            assert -1 <= found - exact <= 2, (alpha, difference)
            assert found == int(found), (alpha, difference)


def test_needs_endless_prompts_for_no_difference_and_two_where_nothing_varies() -> None:
    assert prompts_for(0.0, 0.5, alpha=0.05) == math.inf
    assert prompts_for(0.1, 0.0, alpha=0.05) == 2
    assert prompts_for(1e-8, 0.6, alpha=0.05) == pytest.approx(
        (1.959964 + 0.841621) ** 2 * 0.6 * 1e16, rel=1e-5
    )


def test_proposes_a_prompt_and_no_calls_where_one_more_prompt_would_settle_it() -> None:
    def prompts(values: FloatArray) -> float:
        return prompts_needed(values, -4.0, 4.0, ALPHA)

    near, far = np.array([1.1, 1.2, 0.5]), np.array([1.0, 0.2, 0.9])
    assert stats.ttest_1samp(near, 0.0).pvalue > ALPHA
    assert prompts(near) == 4
    assert times_needed(near, 0.9, prompts) == math.inf
    assert prompts(far) == 6
    assert 1 < times_needed(far, 0.9, prompts) < 2
