"""robin is as sure of a decision as the bets on it have won, and certifies no more of them than it may."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from robin_cli.stats.evidence import certified, log_evidence
from robin_cli.stats.intervals import Part, log_sum_evidence

SMALLER = [1 / (1 + math.exp(-k)) for k in range(-3, 5)]
STAKES = [*SMALLER, 1 - 1e-9]
MONEY = [*(0.7 * each / sum(SMALLER) for each in SMALLER), 0.3]

ratings_0_to_4 = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def wealth(ratings: list[int], m: float) -> float:
    """W⁺(m), bet by bet, of ratings from 0 up."""
    return sum(
        money * math.prod(1 + stake * (x / m - 1) for x in ratings)
        for stake, money in zip(STAKES, MONEY, strict=True)
    )


def counts(ratings: list[int], levels: int = 5) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.bincount(ratings, minlength=levels)[None, :]


@given(ratings_0_to_4, st.sampled_from([0.5, 2.0, 3.0, 3.5]), st.sampled_from([0.05, 0.1, 0.4]))
def test_bets_on_either_side_of_a_threshold_less_the_margin(
    ratings: list[int], threshold: float, margin: float
) -> None:
    above, below = log_evidence(counts(ratings), 0, 4, threshold, margin)
    shifted, _ = log_evidence(counts(ratings), 3, 7, 3 + threshold, margin)

    assert above[0] == pytest.approx(
        math.log(wealth(ratings, threshold - margin)), rel=1e-9, abs=1e-9
    )
    assert below[0] == pytest.approx(
        math.log(wealth([4 - x for x in ratings], 4 - threshold - margin)), rel=1e-9, abs=1e-9
    )
    assert shifted[0] == pytest.approx(above[0])


@pytest.mark.parametrize("shares", [[0.5, 0, 0, 0, 0.5], [0, 0.5, 0, 0.5, 0], [0.9, 0, 0, 0, 0.1]])
def test_is_wrong_about_a_mean_at_the_edge_of_the_margin_at_most_as_often_as_it_may_whenever_one_looks(
    shares: list[float],
) -> None:
    rng, runs, error_rate = np.random.default_rng(0), 600, 0.1
    mean = float(np.dot(shares, range(5)))
    seen, passed = np.zeros((runs, 5)), np.zeros((runs, 2), dtype=bool)
    for _ in range(120):
        seen[np.arange(runs), rng.choice(5, runs, p=shares)] += 1
        for side, threshold in enumerate(
            (mean + 0.2, mean - 0.2)
        ):  # the mean is at its lower edge, and at its upper one
            passed[:, side] |= log_evidence(seen, 0, 4, threshold, 0.2)[side] >= -math.log(
                error_rate
            )

    assert passed.mean(axis=0).max() <= error_rate + 3 * math.sqrt(
        error_rate * (1 - error_rate) / runs
    )
    assert passed.any(), "a test that never fires would show nothing"


@given(st.lists(st.floats(-3, 12), max_size=30), st.sampled_from([0.01, 0.05, 0.5]))
@example([3.2], 0.05)
@example([3.7, 1.0], 0.05)
def test_certifies_the_largest_number_of_decisions_whose_evidence_suffices_for_so_many(
    logs: list[float], error_rate: float
) -> None:
    count = len(logs)
    ranked = sorted(logs, reverse=True)
    most = max(
        (k for k in range(1, count + 1) if ranked[k - 1] >= math.log(count / (error_rate * k))),
        default=0,
    )

    sure = certified(np.array(logs), error_rate)

    assert sure.tolist() == [most > 0 and each >= ranked[most - 1] for each in logs]
    together = certified(np.stack([logs, [-9.0] * count, logs]), error_rate)
    assert together.tolist() == [sure.tolist(), [False] * count, sure.tolist()]


def test_keeps_the_share_of_wrong_decisions_below_the_error_rate() -> None:
    rng, runs, pairs, error_rate = np.random.default_rng(1), 60, 40, 0.2
    shares = []
    for _ in range(runs):
        # Half of the pairs are at the edge of the margin, where every decision against it is wrong; half are clear.
        seen = np.zeros((pairs, 5))
        for _ in range(30):
            edge = rng.random(pairs) < 0.5
            rating = np.where(np.arange(pairs) % 2 == 0, np.where(edge, 4, 0), 4)
            seen[np.arange(pairs), rating] += 1
        above, below = log_evidence(seen, 0, 4, 2.2, 0.2)
        sure = certified(np.maximum(above, below), error_rate)
        wrong = sure & (above > below) & (np.arange(pairs) % 2 == 0)
        shares.append(wrong.sum() / max(1, sure.sum()))

    assert np.mean(shares) <= error_rate


def least_product(first: list[int], second: list[int], at: float, kept: float) -> float:
    """ln of inf over m of W⁺(m) of the first and W⁻(m − at) of the second, a part of the money kept: by a search."""

    def money(x: list[int], m: float) -> float:
        return math.log(kept + (1 - kept) * wealth(x, m)) if m > 0 else math.inf

    def product(m: float) -> float:
        return money(first, m) + money([4 - x for x in second], 4 - (m - at))

    highest = min(4.0, 4.0 + at)
    found = [
        minimize_scalar(
            product,
            bounds=(low, min(low + 0.5, highest)),
            method="bounded",
            options={"xatol": 1e-9},
        ).fun
        for low in np.arange(max(0.0, at), highest, 0.5)
    ]
    return float(min(found))


@settings(max_examples=12)
@given(ratings_0_to_4, ratings_0_to_4, st.sampled_from([-0.1, -0.5, 0.0, 0.7]))
def test_bets_that_one_mean_is_above_another_come_to_their_least_product(
    first: list[int], second: list[int], at: float
) -> None:
    parts = [Part(counts(first), 0, 4, 1.0), Part(counts(second), 0, 4, -1.0)]

    (found,) = log_sum_evidence(parts, at)

    exact = least_product(first, second, at, 0.3)
    assert found <= exact + 1e-9, "never more than was won"
    if exact > 1:  # less is never compared with anything
        assert found >= 0.97 * exact - 0.1


def test_bets_on_the_mean_of_a_panel_come_to_their_least_product() -> None:
    first, second, at = [4, 4, 3, 4, 4, 4], [3, 4, 4, 4, 3, 4], 3.0

    (found,) = log_sum_evidence([Part(counts(each), 0, 4, 0.5) for each in (first, second)], at)

    def product(m: float) -> float:
        return sum(
            math.log(0.15 + 0.85 * wealth(x, each))
            for x, each in ((first, m), (second, 2 * at - m))
        )

    exact = minimize_scalar(product, bounds=(2.0, 4.0), method="bounded").fun
    assert exact - 0.05 <= found <= exact + 1e-9
    assert found > max(math.log(wealth(x, at)) for x in (first, second)), (
        "two judges say more than either"
    )
