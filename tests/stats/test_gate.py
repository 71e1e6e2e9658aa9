"""Verdicts on requirements: by value, wrong at most so often as they say, and settled by what they say would settle them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import Criterion
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.stats.clustered import clusters_of, mean_bounds
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.gate import Measured, Settling, Verdict, judged, measured, together
from robin_cli.stats.intervals import Part, log_sum_evidence
from robin_cli.stats.requirement import Requirement
from robin_cli.stats.scores import score
from tests.stats.test_scores import RATINGS, run_of

LEVELS = np.arange(5.0)
Ratings = Callable[[float], FloatArray]
MEAN = Requirement("mean", Criterion("a", ">=", 3.0))
SHARE = Requirement("share", Criterion("a", ">=", 3.0), 0.1, ">=", 0.5)
ALL = Requirement("all", Criterion("a", ">=", 3.0), 0.1)


def of(
    counts: Sequence[Sequence[int]] | IntArray | FloatArray,
    prompt: Sequence[int] | IntArray | None = None,
) -> Measured:
    """Pairs with so many ratings of each level 0 to 4; a prompt each, if nothing else is said."""
    given = np.asarray(counts, dtype=np.float64)
    n = given.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = given @ LEVELS / n
        squares = np.nansum(given @ LEVELS**2 - n * mean**2)
        noise: FloatArray = (squares + 0.1) / (np.maximum(n - 1, 0).sum() + 1) / n
    place = np.arange(len(given)) if prompt is None else np.asarray(prompt)
    is_asked = np.ones(len(given), dtype=np.bool_)
    return Measured(mean, noise, place, [Part(given, 0, 4, 1.0)], is_asked, 0.0, 4.0, int(n.sum()))


def verdict(requirement: Requirement, known: Measured, error_rate: float = 0.05) -> Verdict:
    return judged(requirement, known, error_rate=error_rate, settle=True)


def test_passes_and_fails_a_mean_by_its_interval_over_prompts() -> None:
    rng = np.random.default_rng(0)
    known, prompt = rng.multinomial(6, [0, 0.1, 0.2, 0.4, 0.3], 80), np.arange(80) // 2
    found = verdict(MEAN, of(known, prompt))
    scores = known @ LEVELS / 6
    assert (found.pairs, found.prompts, found.unrated) == (80, 40, 0)
    assert found.estimate == pytest.approx(scores.mean())
    by_t = stats.ttest_1samp(scores.reshape(40, 2).mean(axis=1), 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(by_t))
    for threshold, states in (
        (found.low, ["pass", "inconclusive", "inconclusive", "fail"]),
        (found.low - 0.01, ["pass", "pass", "fail", "fail"]),
        (found.high + 0.01, ["fail", "fail", "pass", "pass"]),
        (found.estimate, ["inconclusive"] * 4),
    ):
        told = [
            judged(
                Requirement("mean", Criterion("a", relation, threshold)),
                of(known, prompt),
                error_rate=0.05,
            ).state
            for relation in (">=", ">", "<=", "<")
        ]
        assert told == states


def test_bounds_a_share_exactly_and_by_prompt() -> None:
    met, unmet = [0, 0, 0, 1, 4], [3, 1, 1, 0, 0]
    known = of([met] * 52 + [unmet] * 8)
    found = verdict(SHARE, known)
    exact = stats.binomtest(52, 60).proportion_ci(method="exact")  # Clopper and Pearson
    assert (found.estimate, found.state) == (52 / 60, "pass")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    turned = replace(SHARE, criterion=Criterion("a", "<", 3.0), relation="<")
    mirrored = verdict(turned, known)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high))
    of_pairs = verdict(SHARE, of([met] * 52 + [unmet] * 8, np.arange(60) // 4))
    meets = np.repeat([1.0, 0.0], [52, 8])
    ends = mean_bounds(clusters_of(meets, np.arange(60) // 4), 0.0, 1.0, alpha=0.05)
    assert (of_pairs.low, of_pairs.high) == ends
    assert of_pairs.low < found.low  # responses to a prompt are alike


def test_counts_a_pair_without_a_score_against_either_side_of_a_share_and_asks_for_it() -> None:
    met, none = [0, 0, 0, 1, 4], [0, 0, 0, 0, 0]
    found = verdict(SHARE, of([met] * 20 + [none] * 30))
    assert found.state == "inconclusive"
    assert found.low == pytest.approx(stats.binomtest(20, 50).proportion_ci(method="exact").low)
    assert found.high == 1.0
    assert found.settling == Settling(calls=30.0)


def test_says_how_many_prompts_would_settle_a_share() -> None:
    rng, required = np.random.default_rng(6), replace(SHARE, share=0.7)
    is_met = np.arange(50) < 40
    found = verdict(required, of(np.where(is_met[:, None], [0, 0, 0, 1, 4], [4, 1, 0, 0, 0])))
    assert (found.state, found.estimate) == ("inconclusive", 0.8)
    assert found.settling is not None
    assert found.settling.calls is None
    count = 50 + math.ceil(found.settling.prompts or 0)
    shares = rng.binomial(count, 0.8, 1000) / count
    enough = [
        stats.binomtest(round(share * count), count).proportion_ci(method="exact").low >= 0.7
        for share in shares
    ]
    assert np.mean(enough) == pytest.approx(0.8, abs=0.06)  # 4 times in 5


def test_passes_all_where_each_is_certified_and_names_those_that_are_not() -> None:
    sure, low, open_ = [0, 0, 0, 0, 40], [40, 0, 0, 0, 0], [0, 0, 1, 1, 1]
    assert judged(ALL, of([sure] * 5), error_rate=0.05).state == "pass"
    found = judged(ALL, of([sure, open_, sure, open_]), error_rate=0.05)
    assert (found.state, found.open) == ("inconclusive", [1, 3])
    found = judged(ALL, of([open_, sure, low]), error_rate=0.05)
    assert (found.state, found.open, found.against) == ("fail", [0], [2])
    certified = next(
        k
        for k in range(1, 60)
        if log_evidence(np.array([[0, 0, 0, 0, k]]), 0, 4, 3.0, 0.1)[0][0] >= math.log(20)
    )
    assert judged(ALL, of([[0, 0, 0, 0, certified]]), error_rate=0.05).state == "pass"
    assert judged(ALL, of([[0, 0, 0, 0, certified - 1]]), error_rate=0.05).state == "inconclusive"


def test_holds_pairs_without_a_rating_for_nothing() -> None:
    sure, none = [0, 0, 0, 0, 40], [0, 0, 0, 0, 0]
    known = of([sure] * 30 + [none] * 30)
    assert judged(MEAN, known, error_rate=0.05).state == "pass"
    assert judged(MEAN, known, error_rate=0.05).unrated == 30
    assert judged(SHARE, known, error_rate=0.05).state == "inconclusive"
    found = judged(ALL, known, error_rate=0.05)
    assert (found.state, len(found.open), found.unrated) == ("inconclusive", 30, 30)
    given_up = replace(known, is_asked=np.arange(60) < 30)
    assert verdict(ALL, given_up).settling == Settling()
    for requirement in (MEAN, SHARE):
        found = verdict(requirement, of([none] * 3))
        assert (found.state, found.pairs, found.settling) == ("inconclusive", 0, None)


def test_fails_together_where_one_fails_and_passes_where_all_do() -> None:
    assert together(["pass", "inconclusive", "fail"]) == "fail"
    assert together(["pass", "inconclusive"]) == "inconclusive"
    assert together(["pass", "pass"]) == "pass"


def flips(mean: float) -> FloatArray:
    """Ratings of 0 and 4: the bets that lose least often."""
    return np.array([1 - mean / 4, 0, 0, 0, mean / 4])


def near(mean: float) -> FloatArray:
    return np.maximum(0.0, 1.0 - np.abs(LEVELS - mean))


def test_widens_a_mean_whose_variance_few_prompts_carry() -> None:
    pairs = np.repeat(np.eye(5, dtype=np.int64) * 5, [2, 0, 0, 0, 38], axis=0)
    found, scores = verdict(MEAN, of(pairs)), pairs @ LEVELS / 5
    low = mean_bounds(clusters_of(scores, np.arange(40)), 0.0, 4.0, alpha=0.05)[0]
    by_t = stats.ttest_1samp(scores, 0.0).confidence_interval()
    assert (found.low, found.high) == (min(by_t.low, low), 4.0)
    assert found.low < by_t.low


def rarely(wrong: int, runs: int, error_rate: float) -> bool:
    return wrong <= error_rate * runs + 2 * math.sqrt(error_rate * (1 - error_rate) * runs)


# benchmarks/gate.py counts over more prompts, populations and runs.


@pytest.mark.parametrize("make", [flips, near])
def test_decides_all_wrongly_no_more_often_than_it_says(make: Ratings) -> None:
    rng, runs = np.random.default_rng(10), 300
    one_below = np.stack([make(2.9), *[flips(4.0)] * 9])
    passed = sum(
        judged(ALL, of(rng.multinomial(30, one_below)), error_rate=0.2).state == "pass"
        for _ in range(runs)
    )
    failed = sum(
        judged(ALL, of(rng.multinomial(30, make(3.1), 10)), error_rate=0.2).state == "fail"
        for _ in range(runs)
    )
    assert rarely(passed, runs, 0.2)
    assert rarely(failed, runs, 0.2)


def test_says_how_many_prompts_would_settle_a_mean_whose_prompts_differ() -> None:
    # nearly without noise
    pairs = np.repeat(np.eye(5, dtype=np.int64) * 50, [1, 1, 2, 8, 8], axis=0)
    found = verdict(MEAN, of(pairs))
    assert found.state == "inconclusive"
    assert found.settling is not None
    assert found.settling.calls is None
    assert found.settling.prompts is not None
    more = 1 + math.ceil(found.settling.prompts / 20)
    again = of(np.tile(pairs, (more, 1)))
    assert judged(MEAN, again, error_rate=0.05).state == "pass"
    fewer = of(np.tile(pairs, (math.floor(more * 0.4), 1)))
    assert judged(MEAN, fewer, error_rate=0.05).state == "inconclusive"


def test_says_how_many_prompts_would_settle_a_mean_that_one_of_them_carries() -> None:
    rng = np.random.default_rng(0)
    scores = np.append(rng.normal(3.6, 0.2, 19), 0.3).clip(0, 4)
    known = replace(of(np.ones((20, 5))), scores=scores, error_variances=np.zeros(20))
    found = verdict(MEAN, known)
    assert found.settling is not None
    assert found.settling.prompts is not None
    many = 20 + int(found.settling.prompts)

    def again() -> Verdict:
        scores = rng.choice(known.scores, many)
        more = replace(of(np.ones((many, 5))), scores=scores, error_variances=np.zeros(many))
        return judged(MEAN, more, error_rate=0.05)

    passed = [again().state == "pass" for _ in range(60)]
    assert np.mean(passed) > 0.65  # a third, if the widened interval did not count


def test_says_how_many_calls_would_settle_a_mean_where_noise_is_what_leaves_it_open() -> None:
    requirement, rng = Requirement("mean", Criterion("a", ">=", 2.95)), np.random.default_rng(2)
    found = verdict(requirement, of(rng.multinomial(2, flips(3.2), 60)))
    assert found.state == "inconclusive"
    assert found.settling is not None
    assert found.settling.prompts is None
    assert found.settling.calls is not None
    assert 60 < found.settling.calls < 1000
    for times, least, most in (
        (1.0, 14, 20),
        (0.0, 0, 12),
    ):  # as many calls as it says, and none
        ratings = round(2 + times * found.settling.calls / 60)
        runs = [of(rng.multinomial(ratings, flips(3.2), 60)) for _ in range(20)]
        assert (
            least
            <= [judged(requirement, each, error_rate=0.05).state for each in runs].count("pass")
            <= most
        )


def test_asks_where_pairs_are_open_as_long_as_they_can_be_rated() -> None:
    known = of([[0, 0, 1, 2, 1]] * 3)
    assert verdict(ALL, known).settling == Settling(is_open=True)
    assert (
        verdict(ALL, replace(known, is_asked=np.array([True, False, True]))).settling == Settling()
    )


def test_names_nothing_that_would_settle_a_share_exactly_at_its_threshold() -> None:
    found = verdict(SHARE, of([[0, 0, 0, 0, 9], [9, 0, 0, 0, 0]] * 10))
    assert found.state == "inconclusive"
    assert found.settling is not None
    assert found.settling.calls is found.settling.prompts is None


def test_asks_for_prompts_where_pairs_are_certain() -> None:
    found = verdict(replace(SHARE, share=0.8), of([[0, 0, 0, 0, 60]] * 12))
    assert found.state == "inconclusive"
    assert found.settling is not None
    assert found.settling.calls is None
    assert found.settling.prompts == math.ceil(math.log(0.025) / math.log(0.8)) - 12


def test_takes_a_panels_scores_and_the_evidence_of_all_its_judges(tmp_path: Path) -> None:
    run = run_of(tmp_path, RATINGS, prompts={"p0": "same", "p1": "same"})
    scores = score(run)
    found = measured(run, scores, "style", "all")
    rows = [0, 2]
    assert found.scores.tolist() == np.asarray(scores.columns["score"])[rows].tolist() == [3.0, 3.0]
    assert found.error_variances == pytest.approx(
        np.asarray(scores.columns["std_error"], dtype=np.float64)[rows] ** 2
    )
    assert found.prompt.tolist() == [0, 0]
    assert (found.low, found.high, found.calls) == (1.0, 5.0, 3 + 5 + 2 + 1)
    assert [np.asarray(part.counts).tolist() for part in found.parts] == [
        [[1, 0, 1, 0, 1], [0, 0, 0, 0, 2]],
        [[0, 2, 0, 2, 0], [1, 0, 0, 0, 0]],
    ]
    assert [part.weight for part in found.parts] == [0.5, 0.5]
    panel = of([[0] * 5])
    parts = [
        Part(np.array([[0, 0, 0, 0, 30.0]]), 0, 4, 0.5),
        Part(np.array([[0, 0, 0, 30.0, 0]]), 0, 4, 0.5),
    ]
    known = replace(panel, scores=np.array([3.5]), parts=parts)
    assert log_sum_evidence(parts, 2.9)[0] >= math.log(20)
    assert judged(ALL, known, error_rate=0.05).state == "pass"
    below = replace(ALL, criterion=Criterion("a", "<=", 3.0))
    assert judged(below, known, error_rate=0.05).state == "fail"


def test_leaves_out_of_more_calls_what_was_given_up(tmp_path: Path) -> None:
    ratings: dict[tuple[str, str, str], list[int | None]] = {
        ("p0", "style", "a"): [5, 5],
        ("p1", "style", "a"): [None] * RETIRE_AFTER,
    }
    run = run_of(tmp_path, ratings)
    found = measured(run, score(run), "style", "all")
    assert found.is_asked.tolist() == [True, False]
    assert found.is_rated.tolist() == [True, False]
    assert found.calls == 2 + RETIRE_AFTER
