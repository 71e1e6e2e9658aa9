"""The best response to each prompt of a pairwise run: the leader, the chance that it is wrong, and whether it is certified.

A response is the best if it is preferred to each of the others in at least ½ − ε of all verdicts, orders and judges with equal
weight. The evidence for that, against one other, comes from bets on their own comparison
(:func:`~robin_cli.stats.intervals.log_sum_evidence`); against all, it is the least of these. Of r responses the tested one
is the leader, which the same verdicts select: so the evidence is divided by the number of selections that may be wrong, r, or 1
of two. e-BH certifies decisions over all prompts together (:func:`~robin_cli.stats.evidence.certified`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray, Sums, mean
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.policies.matches import Matches, Rivals
from robin_cli.run.reader import RunReader
from robin_cli.stats.decisions import Certainty, CountsAt, Ratings
from robin_cli.stats.evidence import certified
from robin_cli.stats.intervals import ALPHA, Part, log_sum_evidence
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.likely_wrong import share_of
from robin_cli.stats.moderated import chance_below, freedom_of_sum, moderated


@dataclass(frozen=True, slots=True)
class Best:
    """The best response to each prompt, in order of the prompts' first appearance in the data; shape (prompts,) each.

    Attributes:
        prompt: number as in :attr:`Matches.prompt`.
        leader: the leading response, as in :attr:`Matches.response`; −1 if no comparison has a preference.
        comparison, side: a comparison with it, and whether it is A (0) or B (1) there.
        likely_wrong: see :func:`likely_wrong_bests`.
        certified: whether it is certified, all prompts together at the error rate; None without --certify.
        is_over: whether every decision that can be certified is; False without --certify.
    """

    prompt: IntArray
    leader: IntArray
    comparison: IntArray
    side: IntArray
    likely_wrong: FloatArray
    certified: NDArray[np.bool_] | None = None
    is_over: bool = False

    @property
    def share_wrong(self) -> float:
        return share_of(self.likely_wrong)


def best_responses(
    rivals: Rivals, arms: Arms, margin: float, evidence: DuelEvidence | None = None
) -> Best:
    """Return the best response to each prompt by the preferences so far.

    ``margin``: ε, a probability. ``evidence``: by all verdicts so far; None without --certify.
    """
    matches, sums = rivals.matches, arms.copied_sums()
    preference = _preferences(matches, sums)
    leader = _leaders(rivals, preference)
    every = np.arange(len(leader))
    is_leader = (rivals.side == leader[:, None, None]) & (rivals.side >= 0)
    place = is_leader.reshape(len(every), -1).argmax(axis=1)
    has_any = np.bincount(rivals.prompt, ~np.isnan(preference), len(every)) > 0
    found = Best(
        prompt=matches.prompt[rivals.rows[:, 0]],
        leader=np.where(has_any, rivals.responses[every, leader], -1),
        comparison=rivals.rows[every, place // 2],
        side=place % 2,
        likely_wrong=likely_wrong_bests(rivals, sums, arms.is_retired, margin),
    )
    if evidence is None:
        return found
    sure = certified(evidence.log[0], evidence.error_rate)
    return replace(found, certified=sure, is_over=bool((sure | evidence.closed[0]).all()))


def likely_wrong_bests(
    rivals: Rivals, sums: Sums, given_up: NDArray[np.bool_], margin: float
) -> FloatArray:
    """Return the chance that a response is preferred to the leader of its prompt by more than ``margin``, shape (prompts,).

    1 − Π P(preference for the leader ≥ ½ − ε), over its comparisons, by Student's t with moderated variances; verdicts vary
    more than ratings do, so these start at an even spread. One that was not asked, or is not in the data, counts as ½. nan
    if no comparison of a prompt has a preference, and none can be asked any more.
    """
    space, scale = rivals.matches.space, rivals.matches.space.scales[0]
    preference = _preferences(rivals.matches, sums)
    varied = moderated(space, sums)
    errors, freedom = (space.by_pair(each) for each in (varied.error_variance, varied.freedom))
    spread = np.sqrt(errors.sum(axis=1)) / errors.shape[1] / (scale.high - scale.low)
    degrees = freedom_of_sum(errors, freedom)
    for_a, for_b = (
        np.nan_to_num(chance_below((ahead + margin) / spread, degrees), nan=0.5)
        for ahead in (preference - 0.5, 0.5 - preference)
    )
    leader, rows = _leaders(rivals, preference), np.maximum(rivals.rows, 0)
    is_a, is_b = (rivals.side[..., which] == leader[:, None] for which in (0, 1))
    there = rivals.rows >= 0
    good = np.where(there & is_a, for_a[rows], np.where(there & is_b, for_b[rows], 1.0))
    chance = good.prod(axis=1) * 0.5 ** rivals.missing[np.arange(len(leader)), leader]
    is_gone = np.asarray(space.by_pair(given_up).any(axis=1)) & np.isnan(preference)
    return np.where((is_gone[rows] | ~there).all(axis=1), np.nan, 1.0 - chance)


def _preferences(matches: Matches, sums: Sums) -> FloatArray:
    """Return the preference for A of each comparison, orders and judges with equal weight; nan if one has no verdict."""
    scale = matches.space.scales[0]
    points = (mean(sums.n, sums.total) - scale.low) / (scale.high - scale.low)
    return np.asarray(matches.space.by_pair(points).mean(axis=1))


def _leaders(rivals: Rivals, preference: FloatArray) -> IntArray:
    there = rivals.rows >= 0
    of_prompts = np.where(there, preference[np.maximum(rivals.rows, 0)], np.nan)
    return rivals.leaders(of_prompts, np.arange(len(rivals.rows)))


class DuelEvidence(Certainty):
    """The certainty of the best response to each prompt of one run; ``margin``: ε, a probability."""

    def __init__(
        self, rivals: Rivals, *, error_rate: float = ALPHA, margin: float = DEFAULT_MARGIN
    ) -> None:
        self.rivals, self.margin = rivals, margin
        members = rivals.members.reshape(len(rivals.members), -1)
        super().__init__(error_rate, rivals.prompt[rivals.matches.space.pair], members)

    def _update(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None:
        """Test the leader of each prompt against every other response."""
        rivals, matches, margin = self.rivals, self.rivals.matches, self.margin
        side, rows, count = rivals.side[contest], rivals.rows[contest], rivals.count[contest]
        there = rows >= 0
        sums, given_up = ratings.sums.by(itemgetter(0)), ratings.given_up[0]
        preference = np.where(there, _preferences(matches, sums)[rows], np.nan)
        leader = rivals.leaders(preference, contest)
        is_a, is_b = (there & (side[..., which] == leader[:, None]) for which in (0, 1))
        row, place = np.nonzero(is_a | is_b)
        ahead = np.where(is_a, preference - 0.5, 0.5 - preference)[row, place]
        least = np.full(len(contest), np.inf)
        np.minimum.at(least, row, np.where(np.isnan(ahead), -np.inf, ahead))
        found, hopeful = np.full(len(row), -np.inf), least[row] > -margin
        comparison = rows[row, place]
        found[hopeful] = self._evidence(
            comparison[hopeful], is_b[row, place][hopeful], ratings.counts_at
        )
        log, log_count = np.full(len(contest), np.inf), np.log(np.maximum(count, 1))
        np.minimum.at(log, row, found)
        log -= np.where(count > 2, log_count, 0.0)
        blocked = rivals.missing[contest, leader] > 0
        log[blocked] = -np.inf
        is_gone = np.asarray(matches.space.by_pair(given_up).any(axis=1))[comparison]
        np.logical_or.at(blocked, row, is_gone)
        self.log[run, contest], self.blocked[run, contest] = log, blocked

    def _evidence(
        self, comparison: IntArray, is_b: NDArray[np.bool_], counts_at: CountsAt
    ) -> FloatArray:
        """Return ln of the evidence that A of each comparison, or B, is preferred in more than ½ − ε."""
        if not len(comparison):
            return np.zeros(0)
        space, parts = self.rivals.matches.space, []
        arms = space.by_pair(np.arange(len(space)))[comparison]
        for column in arms.T:
            levels = counts_at(np.zeros_like(column), column)
            levels = np.where(is_b[:, None], levels[:, ::-1], levels)
            parts.append(Part(levels, 0.0, 1.0, 1.0 / arms.shape[1]))
        return log_sum_evidence(parts, 0.5 - self.margin, enough=self.needed)


def run_best(run: RunReader) -> Best:
    settings, rivals, arms, evidence = (
        run.manifest.own_settings,
        run.matches.rivals,
        run.fold.arms,
        None,
    )
    margin = DEFAULT_MARGIN if settings["margin"] is None else float(settings["margin"])
    if settings["certify"]:
        evidence = DuelEvidence(rivals, error_rate=settings["error_rate"], margin=margin)
        evidence.of_run(LevelCounts.from_run(run), arms)
    return best_responses(rivals, arms, margin, evidence)
