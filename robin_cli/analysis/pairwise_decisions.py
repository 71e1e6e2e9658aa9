"""The best response to each prompt of a pairwise run: the leader, and whether it is certified.

A response is the best if it is preferred to each of the others in at least ½ − ε of all verdicts, orders and judges with equal
weight. The evidence for that, against one other, comes from bets on their own comparison
(:func:`~robin_cli.analysis.intervals.log_sum_evidence`); against all, it is the least of these. Of r responses the tested one
is the leader, which the same verdicts select: so the evidence is divided by the number of selections that may be wrong, r, or 1
of two. e-BH certifies decisions over all prompts together (:func:`~robin_cli.analysis.evidence.certified`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import Certainty, CountsAt, Sums
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.intervals import ALPHA, Part, log_sum_evidence
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.matches import Matches
from robin_cli.model.rivals import Rivals
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class Best:
    """The best response to each prompt, in order of the prompts' first appearance in the data; shape (prompts,) each.

    Attributes:
        prompt: number as in :attr:`Matches.prompt`.
        leader: the leading response, as in :attr:`Matches.response`; −1 if no comparison has a preference.
        comparison, side: a comparison with it, and whether it is A (0) or B (1) there.
        certified: whether it is certified as the best, all prompts together at the error rate.
        stuck: whether no further call can certify it, as two responses were given up or are not compared in the data.
        margin: the least preference of the leader over another, less ½; nan without one.
    """

    prompt: IntArray
    leader: IntArray
    comparison: IntArray
    side: IntArray
    certified: NDArray[np.bool_]
    stuck: NDArray[np.bool_]
    margin: FloatArray

    @property
    def decided(self) -> int:
        """Number of prompts whose best response is certified."""
        return int(self.certified.sum())

    @property
    def is_over(self) -> bool:
        """Whether every decision that can be certified is."""
        return bool((self.certified | self.stuck).all())


class _Lead(NamedTuple):
    """For some prompts: the leader's place among the responses, ln of the evidence, what is stuck, and the least margin."""

    leader: IntArray
    log: FloatArray
    stuck: NDArray[np.bool_]
    margin: FloatArray


class DuelEvidence(Certainty):
    """The evidence for the best response to each prompt of one run.

    Args:
        error_rate: δ: on average at most this share of what is certified is wrong.
        margin: ε, a probability.
    """

    def __init__(
        self, matches: Matches, *, error_rate: float = ALPHA, margin: float = DEFAULT_MARGIN
    ) -> None:
        self._matches = matches
        self._rivals = rivals = Rivals(matches)
        self._margin = margin
        super().__init__(
            error_rate,
            rivals.of[matches.space.pair],
            rivals.members.reshape(len(rivals.members), -1),
        )

    def _update(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> None:
        found = self._leads(contest, counts_at, (sums[0][0], sums[1][0], sums[2][0]), given_up[0])
        self.log[run, contest], self.stuck[run, contest] = found.log, found.stuck

    def outcome(self, arms: Arms, counts: LevelCounts) -> Best:
        """Return the best response to each prompt."""
        matches, rivals = self._matches, self._rivals
        every = np.arange(len(rivals.members))
        sums = (arms.counts, arms.totals, arms.totals_sq)
        found = self._leads(every, lambda _run, arm: counts.of_arms(arm), sums, arms.retired_mask)
        is_leader = (rivals.side == found.leader[:, None, None]) & (rivals.side >= 0)
        place = is_leader.reshape(len(every), -1).argmax(axis=1)
        sure = certified(found.log, self.error_rate)
        whole = matches.space.by_pair(arms.counts > 0).all(axis=1)
        has_any = np.bincount(rivals.of, whole, len(every)) > 0
        known = ~np.isneginf(found.log) | ~np.isnan(found.margin) | has_any
        return Best(
            prompt=matches.prompt[rivals.rows[:, 0]],
            leader=np.where(known, rivals.responses[every, found.leader], -1),
            comparison=rivals.rows[every, place // 2],
            side=place % 2,
            certified=sure,
            stuck=found.stuck & ~sure,
            margin=found.margin,
        )

    def _leads(
        self, prompts: IntArray, counts_at: CountsAt, sums: Sums, gone: NDArray[np.bool_]
    ) -> _Lead:
        """Return the leader of each of ``prompts``, shape (N,), with the evidence that none is better."""
        matches, rivals, margin = self._matches, self._rivals, self._margin
        side, rows = rivals.side[prompts], rivals.rows[prompts]
        there = rows >= 0
        scale = matches.space.scales[0]
        with np.errstate(invalid="ignore"):
            points = (sums[1] / sums[0] - scale.low) / (scale.high - scale.low)
        preference = np.where(there, matches.space.by_pair(points).mean(axis=1)[rows], np.nan)
        leader = rivals.leaders(preference, prompts)
        is_a = np.asarray(there & (side[..., 0] == leader[:, None]))
        is_b = np.asarray(there & (side[..., 1] == leader[:, None]))
        row, place = np.nonzero(is_a | is_b)
        ahead = np.where(is_a, preference - 0.5, 0.5 - preference)
        least = np.full(len(prompts), np.inf)
        np.minimum.at(least, row, np.where(np.isnan(ahead[row, place]), -np.inf, ahead[row, place]))
        needed = self.needed
        found = np.full(len(row), -np.inf)
        hopeful = np.flatnonzero(least[row] > -margin)
        found[hopeful] = self._evidence(
            rows[row, place][hopeful], is_b[row, place][hopeful], counts_at
        )
        count = rivals.count[prompts]
        log = np.full(len(prompts), np.inf)
        np.minimum.at(log, row, found)
        log -= np.where(count > 2, np.log(np.maximum(count, 1)), 0.0)
        missing = rivals.missing[prompts, leader] > 0
        log[missing] = -np.inf
        given_up = np.asarray(matches.space.by_pair(gone).any(axis=1))
        lost = given_up[rows[row, place]] & (found - np.log(np.maximum(count, 1))[row] < needed)
        stuck = missing.copy()
        np.logical_or.at(stuck, row, lost)
        return _Lead(leader, log, stuck, np.where(np.isfinite(least), least, np.nan))

    def _evidence(
        self, comparison: IntArray, is_b: NDArray[np.bool_], counts_at: CountsAt
    ) -> FloatArray:
        """Return ln of the evidence that A of each comparison, or B, is preferred in more than ½ − ε."""
        if not len(comparison):
            return np.zeros(0)
        space = self._matches.space
        arms = space.by_pair(np.arange(len(space)))[comparison]
        alone = np.zeros(len(arms), dtype=np.int64)
        parts = []
        for column in arms.T:
            levels = counts_at(alone, column)
            parts.append(
                Part(
                    np.where(is_b[:, None], levels[:, ::-1], levels), 0.0, 1.0, 1.0 / arms.shape[1]
                )
            )
        return log_sum_evidence(parts, 0.5 - self._margin, enough=self.needed)


def run_best(run: RunData) -> Best:
    """Return the best responses of a pairwise run made with --decide best."""
    own = run.manifest.own_settings
    margin = DEFAULT_MARGIN if own["margin"] is None else float(own["margin"])
    return DuelEvidence(run.matches, error_rate=own["error_rate"], margin=margin).outcome(
        run.fold.arms, LevelCounts.of(run)
    )
