"""Means and differences that labels correct, by value: against ppi_py, and against sums over prompts one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.clustered import clusters_of, mean_bounds
from robin_cli.stats.labelled import FEWEST_LABELLED, Corrected, corrected

NAN = math.nan


def evenly(count: int) -> FloatArray:
    return np.full((1, count), 1 / count)


def drawn(
    prompts: int, labels: int, seed: int = 0, each: int = 1
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Scores, labels of some pairs and prompts; the judge half a point too high."""
    rng = np.random.default_rng(seed)
    prompt = np.repeat(np.arange(prompts), each)
    quality = 2 + 0.7 * rng.normal(size=prompts)[prompt] + 0.5 * rng.normal(size=len(prompt))
    scores = np.clip(np.round(quality + 0.5 + 0.5 * rng.normal(size=len(prompt))), 0, 4)
    human = np.clip(np.round(quality), 0, 4)
    return scores, np.where(rng.permutation(len(prompt)) < labels, human, NAN), prompt


@pytest.mark.parametrize(("prompts", "labels"), [(60, 25), (200, 190), (5000, 300)])
def test_agrees_with_ppi_py_where_each_prompt_has_a_pair(prompts: int, labels: int) -> None:
    import ppi_py

    scores, given, prompt = drawn(prompts, labels)
    known = ~np.isnan(given)
    sample: tuple[Any, ...] = (given[known], scores[known], scores[~known])
    found = corrected(scores, given, 0.3, prompt, evenly(prompts))

    assert found.estimate == pytest.approx(
        ppi_py.ppi_mean_pointestimate(*sample, lam=found.lam).item(), abs=1e-12
    )
    low, high = (
        float(end.item()) for end in ppi_py.ppi_mean_ci(*sample, alpha=0.05, lam=found.lam)
    )
    squared = ((high - low) / 2 / stats.norm.ppf(0.975)) ** 2
    of_scores = found.lam**2 * np.var(scores[~known]) / (prompts - labels)
    # it divides squares by n and takes z; here mean and slope cost two degrees of freedom of the labelled, the mean of the
    # others one, and t takes the place of z
    error = squared - of_scores
    assert found.std_error**2 == pytest.approx(
        error * labels / (labels - 2) + of_scores * (prompts - labels) / (prompts - labels - 1),
        rel=1e-9,
    )
    half = stats.t.ppf(0.975, labels - 2) * found.std_error
    assert (found.low, found.high) == pytest.approx(
        (found.estimate - half, found.estimate + half), abs=1e-9
    )
    assert (found.n_labels, found.n_prompts, found.why) == (labels, labels, "")
    if labels == 300:  # its λ takes one variance of all scores, and this one that of each part
        assert found.lam == pytest.approx(_lam_of_ppi_py(*sample), abs=0.05)


def _lam_of_ppi_py(y: FloatArray, of_labelled: FloatArray, of_others: FloatArray) -> float:
    """The λ that ppi_py takes: its estimate is a straight line in λ."""
    import ppi_py

    at = [
        ppi_py.ppi_mean_pointestimate(y, of_labelled, of_others, lam=lam).item() for lam in (0, 1)
    ]
    chosen = ppi_py.ppi_mean_pointestimate(y, of_labelled, of_others).item()
    return float((chosen - at[0]) / (at[1] - at[0]))


def by_hand(
    scores: FloatArray,
    labels: FloatArray,
    probability: FloatArray,
    prompt: IntArray,
    weights: FloatArray,
    lam: float,
) -> tuple[float, float]:
    """Estimate and variance at ``lam`` (not PPI++'s), prompt by prompt."""
    estimate, residuals, labelled, alike = 0.0, dict.fromkeys(prompt.tolist(), 0.0), set(), math.inf
    for row in weights:
        sign = math.copysign(1, row.sum())
        mine = [k for k in range(len(row)) if row[k] and not math.isnan(labels[k])]
        total = sum(abs(row[k]) / probability[k] for k in mine)
        d = {k: abs(row[k]) / probability[k] / total for k in mine}
        y = sum(d[k] * labels[k] for k in mine)
        f = sum(d[k] * scores[k] for k in mine)
        mean = sum(abs(row[k]) * scores[k] for k in range(len(row)) if row[k])
        estimate += sign * (y - lam * (f - mean))
        of_prompt: dict[int, float] = {}
        for k in range(len(row)):
            if row[k]:
                residuals[int(prompt[k])] += sign * lam * abs(row[k]) * (scores[k] - mean)
        for k in mine:
            residuals[int(prompt[k])] += sign * d[k] * (labels[k] - y - lam * (scores[k] - f))
            labelled.add(int(prompt[k]))
            of_prompt[int(prompt[k])] = of_prompt.get(int(prompt[k]), 0.0) + d[k]
        alike = min(alike, 1 / sum(each**2 for each in of_prompt.values()))
    variance = 0.0
    for own, factor in ((True, alike / (alike - 2)), (False, None)):
        values = [each for name, each in residuals.items() if (name in labelled) == own]
        center = sum(values) / len(values)
        times = factor or len(values) / (len(values) - 1)
        variance += times * sum((each - center) ** 2 for each in values)
    return estimate, variance


def some_world(seed: int) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Prompts of one to five pairs of two systems, some of them labelled with any probability."""
    rng = np.random.default_rng(seed)
    prompt = rng.permutation(np.repeat(np.arange(90), rng.integers(1, 6, 90)))
    probability = rng.uniform(0.2, 0.9, len(prompt))
    system = rng.integers(0, 2, len(prompt))
    human = np.round(rng.normal(2 + 0.5 * system + rng.normal(size=90)[prompt], 0.7))
    scores = human + rng.normal(0.5, 0.8, len(prompt))
    return (
        scores,
        np.where(rng.random(len(prompt)) < probability, human, NAN),
        probability,
        prompt,
        system,
    )


@pytest.mark.parametrize("of", ["mean", "prompt means", "difference"])
def test_sums_residuals_by_prompt_and_takes_the_lambda_of_the_least_variance(of: str) -> None:
    scores, labels, probability, prompt, system = some_world(0)
    sizes = np.bincount(prompt)
    weights = {
        "mean": evenly(len(prompt)),
        "prompt means": (1 / (90 * sizes[prompt]))[None],
        "difference": np.stack(
            [(system == 0) / (system == 0).sum(), (system == 1) / -(system == 1).sum()]
        ),
    }[of]
    found = corrected(scores, labels, probability, prompt, weights)

    share = np.mean([np.abs(row)[~np.isnan(labels)].sum() for row in weights])
    lam = found.lam / (1 - share)
    estimate, variance = by_hand(scores, labels, probability, prompt, weights, lam)
    assert found.estimate == pytest.approx(estimate, abs=1e-12)
    assert found.std_error == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert 0 < found.lam < 1
    for other in (lam - 0.01, lam + 0.01):
        assert by_hand(scores, labels, probability, prompt, weights, other)[1] > variance


def test_leaves_out_pairs_without_a_weight_and_takes_any_prompt_numbers(
    subtests: pytest.Subtests,
) -> None:
    scores, labels, probability, prompt, system = some_world(5)
    mine = system == 1
    weights = np.where(mine, 1 / mine.sum(), 0.0)[None]
    alone = corrected(
        scores[mine], labels[mine], probability[mine], prompt[mine], evenly(int(mine.sum()))
    )
    unrated = np.where(mine, scores, NAN)
    found = corrected(unrated, labels, probability, 1000 - 3 * prompt, weights)
    for one, other in zip(astuple(found), astuple(alone), strict=True):
        assert one == pytest.approx(other)


def astuple(found: Corrected) -> tuple[Any, ...]:
    return tuple(getattr(found, name) for name in Corrected.__slots__)


def test_is_the_mean_of_the_labels_where_all_pairs_have_one() -> None:
    scores, labels, prompt = drawn(50, 200, each=4)
    found = corrected(scores, labels, np.linspace(0.1, 1, 200), prompt, evenly(200))
    clusters = clusters_of(labels, prompt)
    assert found.lam == 0
    assert found.estimate == pytest.approx(labels.mean())
    assert found.std_error == pytest.approx(math.sqrt(clusters.variance))
    half = stats.t.ppf(0.975, 49) * found.std_error
    assert (found.low, found.high) == pytest.approx((found.estimate - half, found.estimate + half))


def test_states_a_mean_where_one_prompt_alone_has_no_label() -> None:
    scores, labels, prompt = drawn(60, 59)
    found = corrected(scores, labels, 1.0, prompt, evenly(60))
    assert found.low < np.nanmean(labels) < found.high
    assert found.std_error == pytest.approx(np.nanstd(labels) / math.sqrt(57), rel=0.05)


def test_does_not_rely_on_a_judge_that_says_nothing_or_the_contrary() -> None:
    scores, labels, prompt = drawn(300, 80)
    alone = corrected(np.full(300, 3.0), labels, 1.0, prompt, evenly(300))
    known = labels[~np.isnan(labels)]
    assert (alone.estimate, alone.lam) == pytest.approx((known.mean(), 0.0))
    assert alone.std_error == pytest.approx(known.std(ddof=0) / math.sqrt(78))
    assert corrected(-scores, labels, 1.0, prompt, evenly(300)) == alone


def test_relies_on_a_judge_as_far_as_on_people_where_it_says_the_same() -> None:
    scores, labels, prompt = drawn(300, 80)
    scores = np.where(np.isnan(labels), scores, labels)
    found = corrected(scores, labels, 1.0, prompt, evenly(300))
    assert found.lam == pytest.approx(220 / 300, abs=0.05)
    assert found.std_error > 0.9 * scores.std() / math.sqrt(300)


def test_refuses_a_mean_of_labels_that_do_not_carry_it() -> None:
    for labels, probability, why in (
        ([2.0, 3.0] * 12, 1.0, f"24 prompts with a label; {FEWEST_LABELLED} are needed"),
        ([3.0], 1.0, "1 prompt with a label; 25 are needed"),
        ([], 1.0, "0 prompts with a label; 25 are needed"),
        ([4.0] * 30, 1.0, "all labels are 4, so the error of their mean is unknown"),
        (
            [1.0, 4.0] * 20,
            [1e-4] + [1.0] * 99,
            "the labels' probabilities differ so much that 40 prompts count as 1; 10",
        ),
    ):
        given = np.concatenate([labels, np.full(100 - len(labels), NAN)])
        scores = np.tile([1.0, 3.0], 50)
        found = corrected(scores, given, np.asarray(probability), np.arange(100), evenly(100))
        assert found.why.startswith(why), (labels, probability, why)
        assert np.isnan(
            [found.estimate, found.low, found.high, found.std_error, found.lam]
        ).all(), (labels, probability, why)
        assert (found.n_labels, found.n_prompts) == (len(labels), len(labels)), (
            labels,
            probability,
            why,
        )


def test_refuses_a_mean_that_would_seem_certain() -> None:
    labels = np.concatenate([np.tile([1.0, 3.0], 20), np.full(10, NAN)])
    found = corrected(np.nan_to_num(labels, nan=2.0), labels, 1.0, np.arange(50), evenly(50))
    assert found.why == "labels and scores agree without a residual, so the error is unknown"
    assert math.isnan(found.estimate)


def test_a_difference_is_no_wider_than_by_its_labels_alone_unless_few_of_them_carry_it() -> None:
    rng, prompts, labelled = np.random.default_rng(1), 300, 50
    people = np.clip(rng.normal(2, 0.8, prompts) + rng.normal(0, 0.5, (2, prompts)), 0, 4)
    scores = np.clip(people + rng.normal(0, 0.3, people.shape), 0, 4).ravel()
    weights = np.kron(np.array([[1.0, 0.0], [0.0, -1.0]]), np.full(prompts, 1 / prompts))

    def width(labels: FloatArray) -> tuple[float, float]:
        given = np.where(np.arange(prompts) < labelled, labels, NAN).ravel()
        found = corrected(
            scores, given, 1.0, np.tile(np.arange(prompts), 2), weights, ends=(0.0, 4.0)
        )
        apart = (labels[0] - labels[1])[:labelled]
        t = stats.ttest_1samp(apart, 0.0).confidence_interval()
        return found.high - found.low, float(t.high - t.low)

    mine, alone = width(people)
    assert mine < 0.9 * alone
    rare = people.copy()
    rare[:, 0] = 0.0, 4.0  # which the judge does not see
    mine, alone = width(rare)
    assert mine > alone


def test_refuses_a_difference_of_which_a_system_has_few_labels_or_alike_ones() -> None:
    scores, labels, _, prompt, system = some_world(1)
    weights = np.stack([(system == 0) / (system == 0).sum(), (system == 1) / -(system == 1).sum()])
    rows = np.flatnonzero((system == 1) & ~np.isnan(labels))
    few = labels.copy()
    few[rows[10:]] = NAN
    assert (
        "prompts of each system with a label; 25 are needed"
        in corrected(scores, few, 1.0, prompt, weights).why
    )
    alike = np.where((system == 1) & ~np.isnan(labels), 2.0, labels)
    why = "all labels of a system are 2, so the error of their mean is unknown"
    assert corrected(scores, alike, 1.0, prompt, weights).why == why


def test_reaches_as_far_as_errors_may_that_are_in_no_label() -> None:
    scores, given, prompt = drawn(300, 25, seed=3)
    scores, given = np.minimum(scores + 1, 4.0), np.minimum(given + 1, 4.0)
    by_t = corrected(scores, given, 1.0, prompt, evenly(300))
    found = corrected(scores, given, 1.0, prompt, evenly(300), ends=(0.0, 4.0))
    lam = found.lam / (1 - 25 / 300)
    rest = given - lam * (scores - scores.mean())
    known = ~np.isnan(given)
    ends = (0.0 - lam * (scores.max() - scores.mean()), 4.0 + lam * (scores.mean() - scores.min()))
    low, high = mean_bounds(clusters_of(rest[known], prompt[known]), *ends, alpha=0.2)
    assert found.estimate == pytest.approx(rest[known].mean())
    assert low < by_t.low
    assert (found.low, found.high) == pytest.approx((min(low, by_t.low), max(high, by_t.high)))
    assert "fewer than 50 labelled prompts" in found.caution
    assert corrected(*drawn(300, 60)[:2], 1.0, prompt, evenly(300)).caution == ""
    wild = np.where(known, 4.0 * (np.random.default_rng(2).random(300) < 0.5), NAN)
    wide = corrected(scores, wild, 1.0, prompt, evenly(300), ends=(0.0, 4.0))
    assert wide.caution.startswith(
        f"the interval is {wide.high - wide.low:.2f} points wide, because scores say little of"
    )
    # not so a difference that many carry: the second system always 1, with labels at the same prompts
    ones = np.where(known, 1.0, NAN) + np.where(prompt % 2, 0.0, 0.5)
    weights = np.asarray(np.kron(np.diag([1.0, -1.0]), evenly(300)), dtype=np.float64)
    two = [
        corrected(
            np.append(scores, np.ones(300)),
            np.append(given, ones),
            1.0,
            np.tile(prompt, 2),
            weights,
            ends=each,
        )
        for each in ((0.0, 4.0), None)
    ]
    assert (two[0].low, two[0].high) == (two[1].low, two[1].high)
