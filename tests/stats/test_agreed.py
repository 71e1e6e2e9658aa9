"""Which decisions people agree with: the promise is kept, and its bounds are those of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robin_cli.stats.agreed import Agreed, agreed
from robin_cli.stats.judge_quality import (
    JudgeQuality,
    chance_of_so_few,
    design_effect,
    share_bounds,
)
from robin_cli.stats.stances import Stances

_N = 1_000


def stances(rng: np.random.Generator, labels: int, worst: float) -> tuple[Stances, np.ndarray]:
    """Decisions whose doubt rises evenly, and people disagree with the doubtful ones as often as that says."""
    doubt = np.linspace(0.0, worst, _N)
    right = rng.random(_N) >= doubt
    said = np.full(_N, np.nan)
    drawn = rng.choice(_N, labels, replace=False)
    said[drawn] = right[drawn]
    return Stances(doubt, said, np.arange(_N)), right


def test_keeps_the_promise_as_often_as_it_says_and_certifies_the_surest() -> None:
    rng, broken, shares = np.random.default_rng(1), 0, []
    for _ in range(200):
        given, right = stances(rng, 400, 0.3)
        found = agreed(given, 0.9, 0.9)
        shares.append(found.agreed.mean())
        broken += bool(found.agreed.any() and (~right[found.agreed]).mean() > 0.1)
        assert not np.diff(found.agreed.astype(int)).clip(0).any(), (
            "the surest, and no gap among them"
        )
    assert broken / 200 <= 0.1 + 2 * np.sqrt(0.09 / 200)
    assert 0.2 < np.mean(shares) < 0.67  # with a share of 0.67 a tenth of them are wrong


def test_a_disagreement_among_the_surest_does_not_end_it() -> None:
    rng = np.random.default_rng(6)
    most = []
    for _ in range(100):
        labels = np.full(300, np.nan)
        drawn = rng.choice(300, 150, replace=False)
        labels[drawn] = rng.random(150) >= 0.03
        most.append(agreed(Stances(np.linspace(0, 0.3, 300), labels, np.arange(300)), 0.9))
    assert np.mean([found.agreed.mean() >= 0.9 for found in most]) >= 0.85


def test_the_largest_part_that_passes_at_a_fifth_of_the_error_is_agreed() -> None:
    labels = np.full(500, np.nan)
    labels[::2] = 1.0
    labels[[2, 4, 6]] = 0.0
    labels[400::4] = 0.0
    known = ~np.isnan(labels)
    found = agreed(Stances(np.linspace(0, 0.3, 500), labels, np.arange(500)), 0.9)
    passes = [
        stats.binom.cdf((labels[:end] == 0).sum(), known[:end].sum(), 0.1) <= 0.1 / 5
        for end in (100, 200, 300, 400, 500)
    ]
    assert found.agreed.sum() == 100 * (1 + np.flatnonzero(passes)[-1])
    assert passes == [False, True, True, True, False]


def test_more_labels_certify_more_and_too_few_say_how_many_it_would_take() -> None:
    def share(labels: int) -> float:
        return float(
            np.mean([agreed(stances(rng, labels, 0.45)[0], 0.9).agreed.mean() for _ in range(20)])
        )

    rng = np.random.default_rng(2)
    assert share(800) > share(300) > 0
    none = agreed(stances(rng, 30, 0.0)[0], 0.96)
    assert not none.agreed.any()
    more = np.log(0.02) / np.log(0.96) - 30  # without a disagreement
    assert none.why.startswith("30 labels cannot carry the promise; about ")
    assert int(none.why.split()[7]) == pytest.approx(more, abs=2)
    assert agreed(stances(rng, 20, 0.1)[0], 0.9).why == "20 decisions with a label, 25 are needed"
    hopeless = Stances(np.zeros(_N), np.zeros(_N), np.arange(_N))
    assert agreed(hopeless, 0.9).why.startswith("people disagree too often even with the surest")


def certified(found: Agreed) -> int:
    """How many decisions are agreed."""
    return int(found.agreed.sum())


def test_labels_of_one_prompt_count_for_less() -> None:
    rng = np.random.default_rng(3)
    given, _ = stances(rng, 400, 0.3)
    by_fours = Stances(given.likely_wrong, np.repeat(given.agrees[::4], 4), np.arange(_N) // 4)
    apart = Stances(given.likely_wrong, by_fours.agrees, np.arange(_N))
    assert certified(agreed(by_fours, 0.9)) < certified(agreed(apart, 0.9))


def test_bounds_are_those_of_scipy() -> None:
    those, n = np.array([0.0, 3.0, 10.0, 50.0]), np.array([25.0, 40.0, 60.0, 50.0])
    assert chance_of_so_few(those, n, 0.1) == pytest.approx(stats.binom.cdf(those, n, 0.1))
    found = share_bounds(0.9, 50, alpha=0.05)
    direct = stats.binomtest(45, 50).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((direct.low, direct.high))
    assert share_bounds(1.0, 30, alpha=0.1).low == pytest.approx(0.05 ** (1 / 30))


def test_the_design_effect_is_one_of_single_labels_and_the_size_of_prompts_that_are_of_one_mind() -> (
    None
):
    rng = np.random.default_rng(4)
    single = rng.random(400) < 0.3
    assert design_effect(single, np.ones(400), np.arange(400)) == 1.0
    prompt = np.repeat(np.arange(400), 5)
    assert design_effect(np.repeat(single, 5), np.ones(2000), prompt) == pytest.approx(
        5.0, rel=0.01
    )
    assert design_effect(rng.random(2000) < 0.3, np.ones(2000), prompt) < 1.3
    assert design_effect(np.ones(2000, bool), np.ones(2000), prompt) == pytest.approx(5.0, rel=0.01)


def test_says_how_good_a_judge_is_as_counted_by_hand() -> None:
    judge = np.array([1] * 40 + [1] * 10 + [0] * 5 + [0] * 45 + [1] * 300 + [0] * 600, bool)
    people = np.array([1] * 40 + [0] * 10 + [1] * 5 + [0] * 45 + [np.nan] * 900, float)
    found = JudgeQuality.from_answers(judge, people, np.ones(1000), np.arange(1000))
    assert (found.both, found.judge_alone, found.people_alone, found.neither) == (40, 10, 5, 45)
    shares = (found.accuracy, found.tpr, found.tnr, found.precision, found.f1, found.kappa)
    by_hand = (0.85, 40 / 45, 45 / 55, 40 / 50, 2 * 40 / (2 * 40 + 10 + 5), (0.85 - 0.5) / 0.5)
    assert [each.value for each in shares] == pytest.approx(by_hand)
    assert all(each.low < each.value < each.high for each in shares)
    direct = stats.binomtest(40, 45).proportion_ci(0.95, method="exact")
    assert (found.tpr.low, found.tpr.high) == pytest.approx((direct.low, direct.high))
    slope = np.cov(judge[:100], people[:100])[0, 1] / np.var(judge[:100], ddof=1)
    true = 0.45 - slope * 0.9 * (0.5 - 0.35)  # the power of nine unlabelled in ten
    assert found.share == pytest.approx(0.35)
    assert found.corrected.value == pytest.approx(true, abs=0.02)


def test_the_corrected_share_holds_the_truth_that_the_judge_misses() -> None:
    rng, held, naive = np.random.default_rng(5), 0, 0
    for _ in range(200):
        truth = rng.random(800) < 0.3
        judge = np.where(truth, rng.random(800) < 0.9, rng.random(800) < 0.2)
        people = np.full(800, np.nan)
        people[:100] = truth[:100]
        found = JudgeQuality.from_answers(judge, people, np.ones(800), np.arange(800)).corrected
        held += found.low <= truth.mean() <= found.high
        naive += abs(judge.mean() - truth.mean()) < 0.05
    assert held / 200 > 0.92
    assert naive / 200 < 0.05


def test_a_corrected_share_is_that_of_the_labels_if_all_have_one_and_unknown_below_fifty() -> None:
    judge, people = np.arange(80) % 2 == 0, (np.arange(80) % 5 == 0).astype(float)
    found = JudgeQuality.from_answers(judge, people, np.ones(80), np.arange(80)).corrected
    direct = stats.binomtest(16, 80).proportion_ci(0.95, method="exact")
    assert (found.value, found.low, found.high) == pytest.approx((0.2, direct.low, direct.high))
    for labels, is_known in ((50, True), (49, False)):
        some = np.where(np.arange(80) < labels, people, np.nan)
        few = JudgeQuality.from_answers(judge, some, np.ones(80), np.arange(80)).corrected
        assert np.isnan(few.value) != is_known
