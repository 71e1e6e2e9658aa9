"""Tournament: of many systems, the comparisons that settle most about which of two is stronger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Columns, Policy, Setup, of_arms, pooled_variance, squares_within
from robin_cli.policies.bradley_terry import (
    PRIOR,
    fit,
    information,
    of_differences,
    win_chances,
    wins_of,
)
from robin_cli.policies.circles import circle
from robin_cli.policies.matches import Matches

_DISPERSION = 0.6
"""φ of a verdict in each order; the two verdicts are correlated a little."""

_PRIOR_COMPARISONS = 16.0
_TIE = 1e-9
_FEW_SYSTEMS = 200


@dataclass(frozen=True, slots=True)
class Tournament(Policy):
    """The comparison, on a prompt not yet used for its two systems, after which the order of all systems is most certain.

    Strengths are those of Bradley and Terry, with half a tie of every two systems beside the votes, so that the first verdicts
    never separate two systems for good. With p the chance of one system against another, I = Σ n p (1 − p) (e_k − e_l)(e_k −
    e_l)ᵀ, and φ the scatter of preferences over that of one vote (it may be less than 1, as each is of several verdicts), a
    difference Δ has the variance s² = φ (e_i − e_j)ᵀ I⁻¹ (e_i − e_j). A comparison of k and l lowers it by
    φ p (1 − p) ((e_i − e_j)ᵀ I⁻¹ (e_k − e_l))². The gain is the sum of that over every two systems i and j, with weights
    h = 1 / (s² (1 + |Δ|/s)³).

    The chance of a wrong order falls like a normal tail, but this h only as a power of |Δ|/s: a system that is unlucky at
    first is still asked about. benchmarks/tournaments.py compares other choices.

    While no strengths explain the preferences (:mod:`robin_cli.policies.circles`), they depend on which matchups were asked
    most, and the matchup with the fewest comparisons is next.

    Between two fits the t-th further comparison of k and l has the share 1 / (1 + t p (1 − p) s²/φ)² of the gain, the rest
    after the t before it. So matchups are filled up evenly, in a random order of the prompts. Repeats come when the prompts are
    used up: of the variance φ p (1 − p) of a preference, they lower only the chance part within each order, V/2.

    Source: Chen, Bennett, Collins-Thompson and Horvitz, "Pairwise ranking aggregation in a crowdsourced setting", WSDM 2013,
    with the information matrix, as in the optimal design of paired comparisons, in place of their expected gain.

    Attributes:
        fresh: the priority of an arm without a call, shape (K,), in simulation (runs, K).
        again: that of one with n calls, times n (n + 1); likewise.
    """

    matches: Matches
    fresh: FloatArray
    again: FloatArray
    warm_up: int = 0

    @property
    def fits_long(self) -> bool:
        """Whether a fit takes more than some hundredths of a second, as there are many systems."""
        return len(self.matches.names) > _FEW_SYSTEMS

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        matches = setup.matches
        assert matches is not None  # noqa: S101  # the goal ranks systems
        nothing = np.zeros(len(matches.space))
        return cls(matches, *_gains(matches, nothing, nothing, nothing))

    def priority(self, arms: Columns) -> FloatArray:
        """Return the priority of the last fit, falling with the calls of the arm."""
        made, arm = arms.made, arms.arm % self.fresh.shape[-1]
        falling = of_arms(self.again, arm) / np.maximum(made * (made + 1.0), 1.0)
        return np.where(made < 1, of_arms(self.fresh, arm), falling)

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Self:
        columns = (column.reshape(-1, n.shape[-1]) for column in (n, total, total_sq))
        of_runs = [_gains(self.matches, *of_run) for of_run in zip(*columns, strict=True)]
        fresh, again = (np.stack(gains).reshape(n.shape) for gains in zip(*of_runs, strict=True))
        return replace(self, fresh=fresh, again=again)


def _gains(
    matches: Matches, n: FloatArray, total: FloatArray, total_sq: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ``fresh`` and ``again`` of all arms, shape (K,) each."""
    space, (matchups, matchup) = matches.space, matches.opponents
    scale = space.scales[0]
    width, arms_of_one = float(scale.high - scale.low), space.arms_per_pair
    rated = space.by_pair(n > 0)
    points = (space.by_pair(np.where(n > 0, total / np.maximum(n, 1.0), 0.0)) - scale.low) / width
    is_whole, is_begun = np.asarray(rated.all(axis=1)), np.asarray(rated.any(axis=1))
    preference = points.mean(axis=1)[is_whole]
    gain, falls, chance, dispersion = _of_matchups(matches, preference, matches.system[is_whole])
    # V/2 of a preference
    freedom, squares = np.maximum(n - 1.0, 0.0), squares_within(n, total, total_sq)
    within = pooled_variance(freedom, squares, scale.even_variance) / width**2 / arms_of_one
    i, j = matchups.T
    noise = np.minimum(within / (dispersion * chance[i, j] * chance[j, i]), 1.0)[matchup]
    gain, falls = gain[i, j][matchup], falls[i, j][matchup]
    # Before each comparison of a matchup come this many of its comparisons without, and with, a preference.
    order, starts = matches.by_opponents
    left, done = np.empty(len(matches)), np.empty(len(matches))
    for into, counted in ((left, ~is_whole), (done, is_whole)):
        before: FloatArray = np.cumsum(counted[order], dtype=np.float64) - counted[order]
        into[order] = before - before[starts][matchup[order]]
    all_left = np.bincount(matchup, ~is_whole, len(matchups))[matchup]
    fresh = gain / (1.0 + falls * left) ** 2
    again = gain * noise / (1.0 + falls * (all_left + noise * done)) ** 2
    # half a comparison has no preference
    fresh = np.where(is_begun & ~is_whole, 2.0 * fresh.max(initial=0.0), fresh)
    in_turn = 1.0 - _TIE * matches.turn / len(space)
    return np.repeat(fresh, arms_of_one) * in_turn, np.repeat(again, arms_of_one) * in_turn


def _of_matchups(
    matches: Matches, preference: FloatArray, system: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return the gain of a further comparison of every two systems, its fall, the chance of one against the other, and φ."""
    m = len(matches.names)
    wins = wins_of(preference, system, m) + 0.5 * PRIOR
    np.fill_diagonal(wins, 0.0)
    votes = wins + wins.T
    strength = fit(wins).values
    chance = win_chances(strength)
    expected = chance[system[:, 0], system[:, 1]]
    scatter = ((preference - expected) ** 2).sum() + _PRIOR_COMPARISONS * 0.25 * _DISPERSION
    dispersion = float(scatter / ((expected * (1.0 - expected)).sum() + _PRIOR_COMPARISONS * 0.25))
    if circle(preference, system, m, strength) is not None:
        # one more has the gain of the next
        return (1.0 / (1.0 + votes) ** 2, 1.0 / (1.0 + votes), chance, dispersion)
    inverse: FloatArray = np.asarray(
        np.linalg.inv(information(votes, chance) + 1.0 / m) - 1.0 / m, np.float64
    )
    variance = dispersion * of_differences(inverse) + np.eye(m)
    z = np.abs(strength[:, None] - strength) / np.sqrt(variance)
    counted = 1.0 / (variance * (1.0 + z) ** 3)
    np.fill_diagonal(counted, 0.0)
    # Σ h ((e_i − e_j)ᵀ I⁻¹ (e_k − e_l))² over i and j is a quadratic form in h's Laplacian.
    spread: FloatArray = inverse @ (np.diag(counted.sum(axis=1)) - counted) @ inverse
    weight = chance * chance.T
    return (
        dispersion * weight * of_differences(spread),
        weight * variance / dispersion,
        chance,
        dispersion,
    )
