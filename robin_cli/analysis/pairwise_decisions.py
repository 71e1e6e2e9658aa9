"""The best response to each prompt of a pairwise run: which leads, and whether it is certain that no other beats it.

A response is the best if it is preferred to each of the others in at least ½ − ε of all verdicts, orders and judges counting
alike. The evidence that a response is that, against one other, is what bets on their own comparison have come to
(:func:`~robin_cli.analysis.intervals.log_sum_evidence`); against all, the least of these. Of r responses the one is looked at
that leads, which the same verdicts say: so the evidence is divided by the number of them that may be wrong, r, or 1 of two.
What holds over all prompts together is certified by e-BH (:func:`~robin_cli.analysis.evidence.certified`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import SETTLED
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.intervals import ALPHA, Part, log_sum_evidence
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.matches import Matches
from robin_cli.model.rivals import Rivals
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.storage.reader import RunData

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Best:
    """The best response to each prompt, in the order in which prompts first are in the data; shape (prompts,) each.

    Attributes:
        prompt: by number, as :attr:`Matches.prompt` has it.
        leader: the response that leads, as :attr:`Matches.response` has it; −1 where no comparison has a preference.
        comparison, side: one in which it is, and whether it is A (0) or B (1) there.
        certified: it is the best, all prompts together at the error rate.
        stuck: no further call can certify it, because two responses were given up or are not compared in the data.
        margin: the least preference of the leader over another, less ½; nan where one has none.
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
        """Prompts whose best response is certain."""
        return int(self.certified.sum())

    @property
    def is_over(self) -> bool:
        """Whether everything is decided that can be."""
        return bool((self.certified | self.stuck).all())


class _Lead(NamedTuple):
    """Of some prompts: the leader's place among the responses, ln of the evidence, what is stuck, and the least margin."""

    leader: IntArray
    log: FloatArray
    stuck: NDArray[np.bool_]
    margin: FloatArray


class DuelVerdicts:
    """The best responses of a run under way, as :class:`~robin_cli.planning.stopping.Verdicts` has decisions.

    Args:
        counts: of the ratings so far, to which it adds those to come.
        error_rate: δ: at most this share of what is certified is wrong, on average.
        margin: ε, a probability.

    Attributes:
        settled: arms on which no open decision hangs, shape (K,).
        all_decided: every decision holds, all of them at once, but for those that no further call can settle.
    """

    def __init__(
        self, matches: Matches, counts: LevelCounts, *, error_rate: float = ALPHA, margin: float = DEFAULT_MARGIN
    ) -> None:
        self.settled = np.zeros(len(matches.space), dtype=np.bool_)
        self.all_decided = False
        self._matches = matches
        self._rivals = Rivals(matches)
        self._counts = counts
        self._error_rate = error_rate
        self._margin = margin
        prompts = len(self._rivals.members)
        self._changed = np.ones(prompts, dtype=np.bool_)
        self._log = np.full(prompts, -np.inf)
        self._stuck = np.zeros(prompts, dtype=np.bool_)
        self._is_settled = np.zeros(prompts, dtype=np.bool_)

    def add(self, arm: int, ratings: Iterable[float]) -> None:
        """Take further ratings of ``arm``."""
        self._counts.add(arm, ratings)
        self._changed[self._rivals.of[self._matches.space.pair[arm]]] = True

    def look(self, arms: Arms) -> IntArray:
        """Decide anew by all ratings so far; the arms that became settled, or are not settled any more."""
        changed = np.flatnonzero(self._changed)
        self._changed[changed] = False
        found = _leads(self._matches, self._rivals, changed, arms, self._counts, self._error_rate, self._margin)
        self._log[changed], self._stuck[changed] = found.log, found.stuck
        count = len(self._log)
        least = math.log(count / max(count - int(self._stuck.sum()), 1)) - math.log(self._error_rate)
        self.all_decided = bool(((self._log >= least + _ROUNDING) | self._stuck).all())
        needed = np.where(self._is_settled, least, least + math.log(SETTLED))
        self._is_settled = (self._log >= needed) | self._stuck
        before = self.settled
        of_pair = self._is_settled[self._rivals.of]
        self.settled = np.asarray(of_pair[self._matches.space.pair])
        return np.flatnonzero(self.settled != before)

    @property
    def decided(self) -> tuple[int, int]:
        """How many prompts have a best response that is certain, by the last looks, and of how many."""
        return int(certified(self._log, self._error_rate).sum()), len(self._log)

    def best(self, arms: Arms) -> Best:
        """What the ratings so far come to."""
        return best_responses(self._matches, arms, self._counts, error_rate=self._error_rate, margin=self._margin)


def run_best(run: RunData) -> Best:
    """The best responses of a pairwise run made with --decide best."""
    settings = run.manifest.settings
    return best_responses(
        run.matches,
        run.fold.arms,
        LevelCounts.of(run),
        error_rate=settings.get("error_rate") or ALPHA,
        margin=DEFAULT_MARGIN if settings.get("margin") is None else float(settings["margin"]),
    )


def best_responses(
    matches: Matches, arms: Arms, counts: LevelCounts, *, error_rate: float = ALPHA, margin: float = DEFAULT_MARGIN
) -> Best:
    """The best response to each prompt.

    Args:
        arms, counts: of all ratings.
        error_rate, margin: as for :class:`DuelVerdicts`.
    """
    rivals = Rivals(matches)
    every = np.arange(len(rivals.members))
    found = _leads(matches, rivals, every, arms, counts, error_rate, margin)
    is_leader = (rivals.side == found.leader[:, None, None]) & (rivals.side >= 0)
    place = is_leader.reshape(len(every), -1).argmax(axis=1)
    prompt = matches.prompt[rivals.rows[:, 0]]
    sure = certified(found.log, error_rate)
    known = ~np.isneginf(found.log) | ~np.isnan(found.margin) | _any_preference(matches, rivals, arms)
    return Best(
        prompt=prompt,
        leader=np.where(known, rivals.responses[every, found.leader], -1),
        comparison=rivals.rows[every, place // 2],
        side=place % 2,
        certified=sure,
        stuck=found.stuck & ~sure,
        margin=found.margin,
    )


def _any_preference(matches: Matches, rivals: Rivals, arms: Arms) -> NDArray[np.bool_]:
    whole = matches.space.by_pair(arms.counts > 0).all(axis=1)
    return np.asarray(np.bincount(rivals.of, whole, len(rivals.members)) > 0)


def _leads(
    matches: Matches,
    rivals: Rivals,
    prompts: IntArray,
    arms: Arms,
    counts: LevelCounts,
    error_rate: float,
    margin: float,
) -> _Lead:
    """Who leads in each of ``prompts``, shape (N,), and how sure it is that none is better."""
    side, rows = rivals.side[prompts], rivals.rows[prompts]
    there = rows >= 0
    preference = np.where(there, _preferences(matches, arms)[rows], np.nan)
    leader = rivals.leaders(preference, prompts)
    is_a = np.asarray(there & (side[..., 0] == leader[:, None]))
    is_b = np.asarray(there & (side[..., 1] == leader[:, None]))
    row, place = np.nonzero(is_a | is_b)
    ahead = np.where(is_a, preference - 0.5, 0.5 - preference)
    least = np.full(len(prompts), np.inf)
    np.minimum.at(least, row, np.where(np.isnan(ahead[row, place]), -np.inf, ahead[row, place]))
    needed = -math.log(error_rate)
    found = np.full(len(row), -np.inf)
    hopeful = np.flatnonzero(least[row] > -margin)
    found[hopeful] = _evidence(
        matches, rows[row, place][hopeful], is_b[row, place][hopeful], counts, 0.5 - margin, enough=needed
    )
    count = rivals.count[prompts]
    log = np.full(len(prompts), np.inf)
    np.minimum.at(log, row, found)
    log -= np.where(count > 2, np.log(np.maximum(count, 1)), 0.0)
    missing = rivals.missing[prompts, leader] > 0
    log[missing] = -np.inf
    given_up = np.asarray(matches.space.by_pair(arms.retired_mask).any(axis=1))
    gone = given_up[rows[row, place]] & (found - np.log(np.maximum(count, 1))[row] < needed)
    stuck = missing.copy()
    np.logical_or.at(stuck, row, gone)
    return _Lead(leader, log, stuck, np.where(np.isfinite(least), least, np.nan))


def _preferences(matches: Matches, arms: Arms) -> FloatArray:
    """The preference of each comparison, shape (comparisons,); nan where an order or a judge has no verdict."""
    scale = matches.space.scales[0]
    with np.errstate(invalid="ignore"):
        points = (arms.totals / arms.counts - scale.low) / (scale.high - scale.low)
    return np.asarray(matches.space.by_pair(points).mean(axis=1))


def _evidence(
    matches: Matches, comparison: IntArray, is_b: NDArray[np.bool_], counts: LevelCounts, at: float, *, enough: float
) -> FloatArray:
    """ln of the bets that A of each comparison, or B, is preferred in more than ``at``."""
    if not len(comparison):
        return np.zeros(0)
    arms = matches.space.by_pair(np.arange(len(matches.space)))[comparison]
    parts = []
    for column in arms.T:
        levels = counts.of_arms(column)
        parts.append(Part(np.where(is_b[:, None], levels[:, ::-1], levels), 0.0, 1.0, 1.0 / arms.shape[1]))
    return log_sum_evidence(parts, at, enough=enough)
