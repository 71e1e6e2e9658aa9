"""How far scores and human ratings agree, against scipy, scikit-learn and evalica, and a bootstrap spelt out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from robin_cli.model.records import Scale
from robin_cli.stats.agreement import (
    COEFFICIENTS,
    FEWEST_PROMPTS,
    Agreement,
    agreement,
    among,
    bins_of,
    calibration,
    correlations,
    levels_of,
    off_scale,
    reliability,
    resampled,
    resamples_for,
    sides_of,
)

CORRELATIONS: dict[str, Any] = {
    "pearson": stats.pearsonr,
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
}
SCALE = Scale(0, 4)


def each_its_own(pairs: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(pairs)


def by_name(found: list[Agreement]) -> dict[str, Agreement]:
    return {each.coefficient: each for each in found}


def textbook(a: Any, b: Any, levels: list[int]) -> tuple[float, float]:
    """Weighted κ and ordinal α of libraries."""
    import evalica
    from sklearn.metrics import cohen_kappa_score

    kappa = cohen_kappa_score(a, b, labels=levels, weights="quadratic")
    return float(kappa), evalica.alpha(pd.DataFrame([a, b]), distance="ordinal").alpha


def test_agrees_with_the_textbook_on_every_coefficient() -> None:
    import evalica

    rng = np.random.default_rng(1)
    x = rng.integers(0, 9, 300) / 2
    y = np.clip(x + rng.normal(0, 1, 300), 0, 4)
    for few in (60, 300):
        by_scipy = [each(x[:few], y[:few]).statistic for each in CORRELATIONS.values()]
        assert correlations(x[:few], y[:few]) == pytest.approx(by_scipy)
    x, y = x[:60], y[:60]
    y[:5] = np.nan
    x[5] = np.nan
    refused = by_name(agreement(x, y, each_its_own(60) // 2, SCALE, resamples=0))
    for name in ("kappa", "alpha_ordinal"):
        assert np.isnan(refused[name].value)
        assert (
            "have a value halfway between two levels; --what agreement --round" in refused[name].why
        )
    found = by_name(agreement(x, y, each_its_own(60) // 2, SCALE, rounds=True))
    both = ~np.isnan(x + y)
    for name, coefficient in CORRELATIONS.items():
        assert found[name].value == pytest.approx(coefficient(x[both], y[both]).statistic)
    interval = evalica.alpha(pd.DataFrame([x[both], y[both]]), distance="interval").alpha
    assert found["alpha"].value == refused["alpha"].value == pytest.approx(interval)
    a, b = (np.floor(values[both] + 0.5).astype(int) for values in (x, y))
    assert (found["kappa"].value, found["alpha_ordinal"].value) == pytest.approx(
        textbook(a, b, [0, 1, 2, 3, 4])
    )
    assert list(found) == list(COEFFICIENTS)
    for told in found.values():
        assert (told.n, told.n_prompts, told.resamples, told.why) == (54, 27, 1000, "")
        assert told.ci_low < told.value < told.ci_high
        assert told.rounding == "half up" * (told.coefficient in {"kappa", "alpha_ordinal"})


def test_agrees_with_krippendorffs_own_example_of_four_people_with_gaps() -> None:
    # "Computing Krippendorff's alpha-reliability", 2011, part C: 12 units; α .815 ordinal, .849 interval
    people = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    values = np.array(people, dtype=np.float64).T
    interval, ordinal = among(values, each_its_own(12))
    assert (round(interval.value, 3), round(ordinal.value, 3)) == (0.849, 0.815)
    assert interval.n == 11  # the last has one label
    assert interval.why == "no interval below 20 prompts; this run has 11"
    (interval, _) = among(np.tile(values, (4, 1)), each_its_own(48), resamples=100)
    assert interval.ci_low < interval.value < interval.ci_high
    (none, _) = among(values[:, :1], each_its_own(12))
    assert none.why == "3 prompts with a shared rating are needed; this run has 0"


LEVELS = st.integers(-2, 9)


@given(st.lists(st.tuples(LEVELS, LEVELS), min_size=20, max_size=60))
@settings(max_examples=12)
def test_agrees_with_the_textbook_on_levels_whatever_they_are(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    found = by_name(agreement(a + 0.0, b + 0.0, each_its_own(len(a)), Scale(-2, 9), resamples=0))
    if np.isnan(found["pearson"].value):
        assert np.ptp(a) == 0 or np.ptp(b) == 0
    else:
        values = (found["kappa"].value, found["alpha_ordinal"].value)
        assert values == pytest.approx(textbook(a, b, list(range(-2, 10))), abs=1e-9)


def test_states_no_agreement_of_levels_where_all_round_to_one() -> None:
    scores, human = np.linspace(2.6, 3.4, 24), np.linspace(3.4, 2.6, 24)
    found = by_name(agreement(scores, human, each_its_own(24), SCALE, resamples=200))
    assert found["pearson"].value == pytest.approx(-1)
    for name in ("kappa", "alpha_ordinal"):
        assert np.isnan([found[name].value, found[name].ci_low]).all()
        assert found[name].why == "all values round to one level"
    scores[0] = 2.2  # 36 % of the resamples leave this pair out
    found = by_name(agreement(scores, human, each_its_own(24), SCALE, resamples=200))
    assert all(
        np.isfinite(found[name].ci_low) and found[name].why == ""
        for name in ("kappa", "alpha_ordinal")
    )


def test_takes_halves_up_to_the_next_level() -> None:
    assert levels_of(
        np.array([0.0, 0.49, 0.5, 1.5, 2.5, 2.5 - 1e-12, 3.51, -0.5, -1.5])
    ).tolist() == ([0, 0, 1, 2, 3, 3, 4, 0, -1])


def test_resamples_prompts_with_all_their_pairs() -> None:
    prompt = np.array([7, 3, 7, 9, 3, 7])
    rows_of = {7: [0, 2, 5], 3: [1, 4], 9: [3]}
    seen = set()
    for rows in resampled(prompt, 200, np.random.default_rng(3)):
        left = rows.tolist()
        drawn = []
        while left:
            drawn.append(int(prompt[left[0]]))
            whole = rows_of[drawn[-1]]
            assert left[: len(whole)] == whole
            left = left[len(whole) :]
        assert len(drawn) == 3
        seen |= {tuple(sorted(drawn))}
    assert len(seen) == 10  # of three, with replacement: all there are


def test_has_the_intervals_of_a_bootstrap_over_prompts() -> None:
    rng = np.random.default_rng(4)
    prompt = np.repeat(np.arange(30), 4)
    of_prompt = rng.normal(0, 1, 30)[prompt]
    x = np.clip(2 + 0.7 * of_prompt + rng.normal(0, 0.4, 120), 0, 4)
    y = np.clip(2 + 0.7 * of_prompt + rng.normal(0, 0.4, 120), 0, 4)
    mixed = rng.permutation(120)
    found = by_name(agreement(x[mixed], y[mixed], prompt[mixed], SCALE))["pearson"]
    grouped = [np.flatnonzero(prompt == each) for each in range(30)]
    drawn = []
    for _ in range(2000):
        rows = np.concatenate([grouped[each] for each in rng.integers(30, size=30)])
        drawn.append(np.corrcoef(x[rows], y[rows])[0, 1])
    low, high = np.quantile(drawn, [0.0188, 0.9812])  # see below
    # by chance a bootstrap of 1,000 is some .01 off; that over pairs would be .05 off at each end
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=0.025)
    over_pairs = by_name(agreement(x, y, each_its_own(120), SCALE, resamples=300))["pearson"]
    assert over_pairs.ci_high - over_pairs.ci_low < 0.85 * (high - low)


def test_widens_the_percentiles_of_few_prompts() -> None:
    rng, prompts = np.random.default_rng(5), 20
    x = rng.uniform(0, 4, prompts)
    y = np.clip(x + rng.normal(0, 1, prompts), 0, 4)
    found = by_name(agreement(x, y, each_its_own(prompts), SCALE))["pearson"]
    picks = resampled(each_its_own(prompts), 1000, np.random.default_rng(0))
    drawn = [np.corrcoef(x[rows], y[rows])[0, 1] for rows in picks]
    outside = stats.norm.cdf(-np.sqrt(prompts / (prompts - 1)) * stats.t.ppf(0.975, prompts - 1))
    assert outside == pytest.approx(0.0159, abs=5e-5)
    assert (found.ci_low, found.ci_high) == pytest.approx(
        tuple(np.quantile(drawn, [outside, 1 - outside]))
    )


def test_states_no_correlation_on_thin_or_constant_data() -> None:
    thin = agreement(
        np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.0, 3.0]), each_its_own(3), SCALE
    )
    assert all(np.isnan(each.value) and np.isnan(each.ci_low) for each in thin)
    assert [(each.n, each.n_prompts, each.resamples) for each in thin] == [(2, 2, 0)] * len(
        COEFFICIENTS
    )
    assert {each.why for each in thin} == {
        "3 prompts with a score and a human rating are needed; this run has 2"
    }
    values = np.arange(100.0) % 5
    for prompts, few in (
        (FEWEST_PROMPTS - 1, "no interval below 20 prompts; this run has 19"),
        (FEWEST_PROMPTS, ""),
    ):
        told = agreement(values, values[::-1], np.arange(100) % prompts, SCALE, resamples=20)
        assert {each.why for each in told} == {few}
        assert {bool(np.isnan(each.ci_low)) for each in told} == {prompts < FEWEST_PROMPTS}
        assert not np.isnan([each.value for each in told]).any()
    for scores, human, said in (
        (np.ones(30), np.arange(30.0) % 5, "scores"),
        (np.arange(30.0) % 5, np.ones(30), "human ratings"),
    ):
        constant = agreement(scores, human, each_its_own(30), SCALE)
        assert all(np.isnan(each.value) for each in constant)
        assert {each.why for each in constant} == {f"all {said} are alike"}
        assert np.isnan(correlations(scores, human)).all()


@pytest.mark.parametrize(("apart", "known"), [(1, True), (2, False)])
def test_states_no_interval_where_most_resamples_are_of_pairs_all_alike(
    apart: int, known: bool
) -> None:
    # one score of twenty differs: 36 % of the resamples leave it out. If one human rating of another pair does, too: 60 %
    x, y = np.zeros(20), np.zeros(20)
    x[0] = y[apart - 1] = 1.0
    for each in agreement(x, y, each_its_own(20), SCALE)[1:4]:
        assert np.isfinite(each.value)
        assert np.isfinite([each.ci_low, each.ci_high]).all() == known
        assert each.why == (
            "" if known else "too many of the resamples are of pairs that are all alike"
        )


def test_states_values_alone_where_nothing_is_resampled() -> None:
    x, y = np.arange(24.0), np.arange(24.0) ** 2
    (_, pearson, *_) = agreement(x, y, each_its_own(24), Scale(0, 600), resamples=0)
    assert pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)
    assert np.isnan([pearson.ci_low, pearson.ci_high]).all()
    y[20:] = np.nan
    told = [coefficient(x[:20], y[:20]).statistic for coefficient in CORRELATIONS.values()]
    assert correlations(x, y) == pytest.approx(told)
    assert np.isnan(correlations(x[1:], y[1:])).all()  # 19 have both


def test_resamples_less_where_there_are_more_pairs() -> None:
    for pairs, times in ((10, 1000), (5000, 1000), (10_000, 500), (50_000, 100), (1_000_000, 100)):
        assert resamples_for(pairs) == times, (pairs, times)


def test_says_how_many_human_ratings_are_off_the_scale() -> None:
    human = np.array([np.nan, 1, 7, 0.5, 7.5, 4])
    assert (
        off_scale(human, Scale(1, 7))
        == "2 of 5 human ratings are off the scale 1-7 (they go from 0.5 to 7.5)"
    )
    assert off_scale(np.array([1.0, 7, np.nan]), Scale(1, 7)) == ""


def test_states_nothing_where_a_human_rating_is_off_the_scale_be_it_of_a_pair_without_a_score() -> (
    None
):
    human = np.arange(30.0) % 5
    scores, human[3] = human.copy(), 50
    scores[3] = np.nan
    found = agreement(scores, human, each_its_own(30), SCALE)
    assert {each.why for each in found} == {
        "1 of 30 human ratings are off the scale 0-4 (they go from 0 to 50)"
    }
    assert {each.n for each in found} == {29}


def test_says_the_same_of_preferences_whichever_response_is_called_a() -> None:
    rng = np.random.default_rng(4)
    preference = rng.integers(0, 5, 60) / 4
    people = np.where(
        rng.random(60) < 0.3, rng.integers(0, 3, 60) / 2, np.round(preference * 2) / 2
    )
    of_a, of_b = (
        agreement(x, y, np.arange(60), Scale(0, 1), of_two=True, resamples=20)
        for x, y in ((preference, people), (1 - preference, 1 - people))
    )
    assert [each.value for each in of_a] == pytest.approx([each.value for each in of_b])
    alike = np.sign(preference - 0.5) == np.sign(people - 0.5)
    assert of_a[-1].value == pytest.approx(alike.mean())
    assert sides_of(np.array([0.0, 0.1 + 0.2 + 0.2, 0.51])).tolist() == [0, 1, 2]


PAIRS, EACH = 60, 6


def rated(seed: int, noise: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ratings of 60 pairs, six each."""
    rng = np.random.default_rng(seed)
    return rng.normal(2, 1, (PAIRS, 1)) + rng.normal(0, noise, (PAIRS, EACH))


def of_one(ratings: list[np.ndarray[Any, Any]]) -> tuple[Any, Any, Any]:
    """Scores, numbers of ratings and variances, of ratings of each pair."""
    variances = [[each.var(ddof=1) if len(each) > 1 else np.nan] for each in ratings]
    return (
        np.array([each.mean() for each in ratings]),
        np.array([[len(each)] for each in ratings]),
        np.array(variances),
    )


def test_agrees_with_the_analysis_of_variance() -> None:
    ratings = rated(1, 1.5)
    found = by_name(reliability(*of_one(list(ratings)), np.arange(PAIRS) // 2))
    # one-way, from sums of squares
    between = EACH * ((ratings.mean(axis=1) - ratings.mean()) ** 2).sum() / (PAIRS - 1)
    within = ((ratings - ratings.mean(axis=1, keepdims=True)) ** 2).sum() / (PAIRS * (EACH - 1))
    assert found["icc"].value == pytest.approx((between - within) / (between + (EACH - 1) * within))
    assert found["reliability"].value == pytest.approx((between - within) / between)
    assert found["ceiling"].value == pytest.approx(np.sqrt(found["reliability"].value))
    for told in found.values():
        assert (told.n, told.n_prompts, told.resamples, told.why) == (60, 30, 1000, "")
        assert told.ci_low < told.value < told.ci_high


def test_draws_the_variance_of_each_pair_toward_the_mean_of_those_asked_twice() -> None:
    rng = np.random.default_rng(3)
    counts = [1] * 20 + [2] * 20 + [9] * 20
    ratings = [rng.normal(2, 1) + rng.normal(0, 0.2 * count, count) for count in counts]
    found = by_name(reliability(*of_one(ratings), np.arange(60), resamples=0))
    squares = [float(((each - each.mean()) ** 2).sum()) for each in ratings]
    typical = np.mean(
        [square / (count - 1) for square, count in zip(squares, counts, strict=True) if count > 1]
    )
    within = [
        (square + 4 * typical) / (count + 3) for square, count in zip(squares, counts, strict=True)
    ]
    total = np.var([each.mean() for each in ratings], ddof=1)
    between = total - np.mean([each / count for each, count in zip(within, counts, strict=True)])
    assert 0 < between < 0.95 * total
    assert found["reliability"].value == pytest.approx(between / total)
    assert found["icc"].value == pytest.approx(between / (between + np.mean(within)))


def test_says_what_asking_as_often_again_would_correlate_with() -> None:
    # unequal numbers of ratings, unequal noise, many pairs: the scores of two runs correlate as the one run says
    rng = np.random.default_rng(2)
    pairs = 20_000
    truth, noise, n = (
        rng.normal(0, 1, pairs),
        rng.uniform(0.2, 3, pairs),
        rng.integers(1, 12, pairs),
    )
    first, second = (
        [
            mean + spread * rng.normal(0, 1, count)
            for mean, spread, count in zip(truth, noise, n, strict=True)
        ]
        for _ in range(2)
    )
    scores, counts, variances = of_one(first)
    found = by_name(reliability(scores, counts, variances, np.arange(pairs), resamples=0))
    again = [each.mean() for each in second]
    assert found["reliability"].value == pytest.approx(np.corrcoef(scores, again)[0, 1], abs=0.02)
    assert found["ceiling"].value == pytest.approx(np.corrcoef(scores, truth)[0, 1], abs=0.02)
    one = np.corrcoef([each[0] for each in first], [each[0] for each in second])[0, 1]
    assert found["icc"].value == pytest.approx(one, abs=0.02)


def test_takes_the_noise_anew_in_each_resample() -> None:
    # as the one way of doing it spelt out; with the noise held fixed the interval would be a third as wide
    rng = np.random.default_rng(5)
    counts = np.array([2] * 40 + [1] * 260)
    ratings = [rng.normal(2, 1) + rng.normal(0, 0.9, count) for count in counts]
    scores, n, variances = of_one(ratings)
    told = by_name(reliability(scores, n, variances, np.arange(300)))["reliability"]
    drawn: list[float] = []
    fixed: list[float] = []
    typical = np.nanmean(variances)
    for _ in range(1000):
        rows = rng.integers(300, size=300)
        for found, mine in ((drawn, np.nanmean(variances[rows])), (fixed, typical)):
            within = (np.nan_to_num(variances[rows]) * (n[rows] - 1) + 4 * mine) / (n[rows] + 3)
            found.append(1 - (within / n[rows]).mean() / scores[rows].var(ddof=1))
    # 40 prompts say how noisy the judge is
    tail = stats.norm.cdf(-np.sqrt(40 / 39) * stats.t.ppf(0.975, 39))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    assert (told.ci_low, told.ci_high) == pytest.approx((low, high), abs=0.04)
    assert told.ci_high - told.ci_low > 2 * np.ptp(np.quantile(fixed, [0.025, 0.975]))


def test_states_nothing_where_too_few_pairs_were_asked_twice() -> None:
    for counts, why in (
        ([1] * 200, "0 further ratings of pairs already rated, 30 are needed"),
        ([2] + [1] * 199, "1 further rating of pairs already rated, 30 are needed"),
        ([2] * 29 + [1] * 171, "29 further ratings of pairs already rated, 30 are needed"),
        ([2] * 30 + [1] * 170, ""),
        ([9] * 20 + [1] * 180, ""),
    ):
        rng = np.random.default_rng(6)
        ratings = [rng.normal(2, 1) + rng.normal(0, 0.5, count) for count in counts]
        found = reliability(*of_one(ratings), np.arange(200))
        few = "too few pairs were asked twice to know the judge's noise: "
        assert {each.why for each in found} == {few + why if why else ""}, (counts, why)
        assert {bool(np.isnan([each.value, each.ci_low]).all()) for each in found} == {bool(why)}, (
            counts,
            why,
        )


@pytest.mark.parametrize(
    ("scores", "variance", "value", "why"),
    [
        (
            np.tile([1.0, 2.0], 20),
            2.0,
            0.0,
            "noise alone explains how these scores differ, so the variance of the pairs themselves is unknown",
        ),
        (np.arange(40.0), 0.0, 1.0, "no two ratings of a pair differ, so their noise is unknown"),
    ],
)
def test_states_no_interval_of_pure_noise_or_of_none(
    scores: np.ndarray[Any, Any], variance: float, value: float, why: str
) -> None:
    found = reliability(scores, np.full((40, 1), 2), np.full((40, 1), variance), np.arange(40))
    assert [each.value for each in found] == [value] * 3
    assert np.isnan([(each.ci_low, each.ci_high) for each in found]).all()
    assert {each.why for each in found} == {why}


def test_adds_the_noise_of_the_judges_of_a_panel_and_leaves_out_what_has_no_score() -> None:
    rng = np.random.default_rng(8)
    scores = np.append(np.arange(40.0), [np.nan] * 3)
    n, variances = np.tile([2, 5], (43, 1)), rng.uniform(1, 9, (43, 2))
    found = reliability(scores, n, variances, np.arange(43), resamples=0)
    total = np.arange(40).var(ddof=1)
    noise = (variances[:40, 0].mean() / 2 + variances[:40, 1].mean() / 5) / 4
    assert {each.coefficient: each.value for each in found} == pytest.approx(
        {"reliability": (total - noise) / total, "ceiling": np.sqrt((total - noise) / total)}
    )
    assert {(each.n, each.n_prompts) for each in found} == {(40, 40)}
    n[:, 1], variances[:, 1] = 1, np.nan
    few = "too few pairs were asked twice to know the noise of each judge: 0 further ratings of pairs already rated"
    assert {each.why for each in reliability(scores, n, variances, np.arange(43))} == {
        f"{few}, 30 are needed"
    }


def test_states_nothing_on_few_prompts_or_scores_all_alike() -> None:
    twice, ones = np.full((40, 1), 2), np.ones((40, 1))
    no = "no interval below 20 prompts"
    few = reliability(np.arange(40.0), twice, ones, np.arange(40) % 19)
    assert {each.why for each in few} == {f"{no}; this run has 19"}
    once = reliability(np.arange(40.0), np.r_[twice[:19] + 1, twice[19:] - 1], ones, np.arange(40))
    assert {each.why for each in once} == {
        f"{no} with a pair that was asked twice; this run has 19"
    }
    assert all(np.isfinite(each.value) and np.isnan(each.ci_low) for each in (*few, *once))
    alike = reliability(np.ones(40), twice, ones, np.arange(40))
    assert {each.why for each in alike} == {"all scores are alike"}
    assert all(np.isnan([each.value, each.ci_low]).all() for each in alike)


def test_has_the_mean_and_students_interval_where_each_pair_has_a_prompt() -> None:
    scores = np.array([0.5, 1.4, 1.0, 1.1, 2.5, 3.0, np.nan, 3.2])
    human = np.array([0.0, 1.5, 1.0, 2.0, 2.0, 3.0, 4.0, np.nan])
    one, three = calibration(scores, human, np.arange(8), SCALE)
    assert (one.level, one.n, one.n_prompts) == (1, 4, 4)
    assert (three.level, three.n, three.n_prompts) == (3, 2, 2)
    assert (one.mean_score, one.mean_human) == pytest.approx((1.0, 1.125))
    low, high = stats.t.interval(0.95, 3, loc=1.125, scale=stats.sem(human[:4]))
    assert (one.ci_low, one.ci_high) == pytest.approx((max(0, low), high))
    # t of one degree reaches beyond the scale
    assert (three.mean_human, three.ci_low, three.ci_high) == (2.5, 0, 4)


def test_takes_pairs_of_one_prompt_for_one() -> None:
    rng = np.random.default_rng(1)
    human = np.clip(rng.normal(2, 0.5, 25), 0, 4)
    prompt = rng.permutation(np.repeat(np.arange(25), 3))
    (told,) = calibration(np.full(75, 2.0), human[prompt], prompt, SCALE)
    (single,) = calibration(np.full(25, 2.0), human, np.arange(25), SCALE)
    assert (told.n, told.n_prompts) == (75, 25)
    assert (told.ci_low, told.ci_high) == pytest.approx((single.ci_low, single.ci_high))


def test_is_as_wide_as_a_bootstrap_over_prompts_of_many_sizes() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, 200)
    prompt = np.repeat(np.arange(200), sizes)
    human = np.clip(2 + rng.normal(0, 0.5, 200)[prompt] + rng.normal(0, 0.3, len(prompt)), 0, 4)
    (told,) = calibration(np.full(len(prompt), 2.0), human, prompt, SCALE)
    sums = np.bincount(prompt, human)
    picks = rng.integers(200, size=(5000, 200))
    low, high = np.quantile(sums[picks].sum(axis=1) / sizes[picks].sum(axis=1), [0.025, 0.975])
    assert told.ci_low == pytest.approx(low, abs=0.012)
    assert told.ci_high == pytest.approx(high, abs=0.012)


def test_states_no_interval_of_one_prompt_or_of_ratings_all_alike() -> None:
    scores = np.array([0, 0, 1, 1, 2, 2])
    human = np.array([1, 2, 3.3, 3.3, 1, 3])
    prompt = np.array([0, 0, 1, 2, 3, 4])
    one, alike, told = calibration(scores + 0.0, human, prompt, SCALE)
    assert (one.n_prompts, alike.n_prompts) == (1, 2)
    assert np.isnan([one.ci_low, one.ci_high, alike.ci_low, alike.ci_high]).all()
    assert (told.ci_low, told.ci_high) == (0, 4)


def test_takes_the_levels_of_a_long_scale_in_bins_of_round_widths() -> None:
    for low, high, starts in (
        (0, 4, [0, 1, 2, 3, 4]),
        (0, 10, list(range(11))),
        (1, 12, [1, 2, 4, 6, 8, 10]),
        (0, 20, list(range(0, 20, 2))),
        (1, 50, [1, *range(5, 50, 5)]),
        (0, 100, list(range(0, 100, 10))),
        (1, 100, [1, *range(10, 100, 10)]),
        (-7, 93, [-7, *range(0, 93, 10)]),
        (0, 99, list(range(0, 100, 10))),
        (0, 1000, list(range(0, 1000, 100))),
    ):
        assert bins_of(Scale(low, high)) == starts, (low, high, starts)


def test_tells_of_a_long_scale_what_its_bins_have() -> None:
    scores = np.array([0.0, 9.4, 9.5, 19.4, 55.0, 89.6, 100.0, 97.0])
    human = np.array([0, 20, 10, 40, 50, 90, 70, 80])
    found = calibration(scores, human + 0.0, np.arange(8), Scale(0, 100))
    assert [(each.level, each.to_level, each.n) for each in found] == [
        (0, 9, 2),
        (10, 19, 2),
        (50, 59, 1),
        (90, 100, 3),
    ]
    assert [each.mean_human for each in found] == [10, 25, 50, 80]
    assert [each.mean_score for each in found] == pytest.approx([4.7, 14.45, 55, 95.5333], abs=1e-3)
    low, high = stats.t.interval(0.95, 2, loc=80, scale=stats.sem([90, 70, 80]))
    assert (found[-1].ci_low, found[-1].ci_high) == pytest.approx((low, min(high, 100)))
    short = calibration(scores / 25, human / 25, np.arange(8), SCALE)
    assert all(each.level == each.to_level for each in short)


def test_takes_preferences_by_quarters_alike_whichever_response_is_called_a() -> None:
    preference = np.array([0.0, 0.125, 0.375, 0.5, 0.625, 0.875, 1.0])
    own, turned = (
        calibration(x, x, np.arange(7), Scale(0, 1), of_two=True)
        for x in (preference, 1 - preference)
    )
    assert [(each.level, each.to_level, each.n) for each in own] == [
        (0.0, 0.0, 2),
        (0.5, 0.5, 3),
        (1.0, 1.0, 2),
    ]
    assert [1 - each.mean_human for each in reversed(turned)] == pytest.approx(
        [each.mean_human for each in own]
    )
