"""Decisions while a run goes on: the evidence for each, the certified ones, and the arms that are settled."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray, Sums, mean
from robin_cli.model.space import ArmSpace, Coordinates
from robin_cli.policies.base import Policy, Seen, flat_variance, rounded
from robin_cli.policies.task import Task
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.intervals import Part, log_sum_evidence
from robin_cli.stats.level_counts import Counted, LevelCounts

SETTLED = 1.25
"""A decision is settled, and its arms are asked no more, as long as its evidence is this many times 1/δ.

The calls under way then may take some of it back; and once four fifths of all decisions are there, e-BH certifies them.
There is no second level at which it is open again: what is settled follows from the ratings alone, also after a stop.
"""

_CLEAR = 2.0
"""Where the leader of a group is nearer than so many standard errors to a rival, no bet can have won enough yet."""

_ROUNDING = 1e-9

AT_ONCE = 2**16
"""Contests that are looked at together: what is computed between takes a hundred numbers of each."""

CountsAt = Callable[[IntArray, IntArray], FloatArray]
"""How often some arms of some runs got each level, shape (N, levels), given both as numbers, shape (N,); all on one scale."""


class Ratings(NamedTuple):
    """All ratings of some runs; ``given_up``: arms that are asked no more as they cannot be rated, shape (runs, K)."""

    counts_at: CountsAt
    sums: Sums
    given_up: NDArray[np.bool_]


class Certainty(ABC):
    """The certainty of each decision of one run, or of several runs side by side, brought up to date contest by contest.

    Attributes:
        error_rate: δ: at most this share of what is certified is wrong, on average.
        log: ln of the evidence for each decision, shape (runs, decisions); comparable with ln 1/δ. Values
            below ln 1/δ are upper bounds only, or −inf where none was computed.
        blocked: decisions that hang on an arm that was given up; shape as ``log``.
        closed: blocked ones with too little evidence, which are asked no more.
        contest: which contest each arm is in: those whose ratings are looked at together, shape (K,).
        members: the arms that each decision hangs on, shape (decisions, most); −1 where one has fewer.
        seen: what the last look is to the policy, see :meth:`~robin_cli.policies.base.Policy.sight`.
    """

    def __init__(
        self, error_rate: float, contest: Coordinates | IntArray, members: IntArray, runs: int = 1
    ) -> None:
        self.error_rate, self.contest, self.members = error_rate, contest, members
        self.needed = -math.log(error_rate)
        there = members >= 0
        # which hangs on each arm; behind the last: none
        self._decision = np.full(len(contest), len(members))
        self._decision[members[there]] = np.nonzero(there)[0]
        self.log = np.full((runs, len(members)), -np.inf)
        self.seen: Seen | None = None
        self.blocked, self.closed = np.zeros((2, *self.log.shape), dtype=np.bool_)

    @property
    def of_contests(self) -> FloatArray:
        """ln of the evidence for the current leader of each contest, shape (runs, contests); inf where no call can help."""
        return np.where(self.closed, np.inf, self.log)

    def look(self, policy: Policy, sums: Sums, spent: FloatArray) -> None:
        """Have the policy see how the decisions stand; ``sums``: of all ratings, ``spent``: calls, shape (runs, 1)."""
        sums = sums.by(lambda column: np.array(column, dtype=np.float64))  # calls go on
        settled_at = self.needed_by_all + math.log(SETTLED)
        self.seen = policy.sight(self.of_contests, settled_at, sums, spent, self.seen)

    @property
    def needed_by_all(self) -> FloatArray:
        """What e-BH certifies all decisions with that are not closed, shape (runs, 1): ln 1/δ where none is."""
        count, closed = max(1, self.log.shape[1]), self.closed.sum(axis=1, keepdims=True)
        return np.asarray(self.needed + np.log(count / np.maximum(count - closed, 1)))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Arms on which no open decision hangs, shape (runs, K)."""
        found = (self.log >= self.needed_by_all + math.log(SETTLED)) | self.closed
        return np.asarray(np.pad(found, ((0, 0), (0, 1)), constant_values=True)[:, self._decision])

    def of_run(self, counts: LevelCounts, arms: Arms, contest: IntArray | None = None) -> Self:
        """Look at some contests of a single run, or at all."""
        if contest is None:
            contest = np.arange(int(self.contest.max(initial=-1)) + 1)
        sums = arms.sums.by(lambda column: column[None, :])
        ratings = Ratings(lambda _run, arm: counts.of_arms(arm), sums, arms.is_retired[None, :])
        self.update(np.zeros_like(contest), contest, ratings)
        return self

    def update(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None:
        """Look at some contests of some runs, shape (N,) both, each once."""
        if not len(contest):
            return
        for start in range(0, len(contest), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            self._update(run[part], contest[part], ratings)
        self.log, self.closed = rounded(self.log), np.zeros_like(self.closed)
        more = self.blocked
        while more.any():  # each one that is closed leaves less room for the others
            more = self.blocked & ~self.closed & (self.log < self.needed_by_all)
            self.closed |= more

    @abstractmethod
    def _update(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None: ...


class Evidence(Certainty):
    """The certainty of each decision of a task.

    Attributes:
        side: whether a pair is rather kept; or which response of the group leads. Shape (runs, decisions).
        other: ``log`` of the other side of thresholds; both may be sure of a mean within the margin.
    """

    def __init__(self, task: Task, runs: int = 1) -> None:
        self.task = task
        if task.group is None:
            members = task.space.by_pair(np.arange(len(task.space)))
        else:
            members = task.contests[: task.decisions].reshape(
                task.decisions, math.prod(task.contests.shape[1:])
            )
        error_rate = task.decision.error_rate
        assert error_rate is not None  # noqa: S101  # only certified decisions take evidence
        super().__init__(error_rate, task.contest, members, runs)
        self.side = np.zeros((runs, task.decisions), dtype=np.int16)
        self.other = np.full((runs, task.decisions), -np.inf)
        self._good, self._bad = np.zeros((2, runs, len(task.contests)))

    def _update(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None:
        if self.task.group is None:
            self._update_pairs(run, contest, ratings)
        else:
            is_group = contest < self.task.decisions
            self._update_best(run[is_group], contest[is_group], ratings)

    @property
    def of_contests(self) -> FloatArray:
        """The log-evidence of each threshold, not below its pair's; or of each group, inf for groups of one."""
        found, task = super().of_contests, self.task
        if task.group is None:
            of_pair = found[:, task.space.pair[task.contests[:, 0, 0]]]
            return np.maximum(np.maximum(self._good, self._bad), of_pair)
        alone = self._good.shape[1] - found.shape[1]
        return np.pad(found, ((0, 0), (0, alone)), constant_values=np.inf)

    def _update_pairs(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None:
        """Update the evidence of each threshold, then of its pair."""
        task, space = self.task, self.task.space
        arm = task.contests[contest][:, 0, 0]
        for each in task.decision.criteria:
            place = list(space.attributes).index(each.attribute)
            rows = np.flatnonzero(space.attribute[arm] == place)
            if len(rows):
                arms, scale = arm[rows], space.scales[place]
                above, below = log_evidence(
                    ratings.counts_at(run[rows], arms),
                    *(scale.low, scale.high, task.threshold[arms[0]], task.margin[arms[0]]),
                )
                cell = run[rows], contest[rows]
                self._good[cell], self._bad[cell] = (above, below) if each.above else (below, above)
        pair = space.pair[arm].astype(np.int64)
        good, bad = (
            each.reshape(*self.log.shape, -1)[run, pair] for each in (self._good, self._bad)
        )
        # Kept is a pair where all hold: each has to be shown. Dropped, where one does not: an average of bets on each shows it.
        keep = good.min(axis=1)
        drop = np.logaddexp.reduce(bad, axis=1) - math.log(len(task.decision.criteria))
        self.log[run, pair], self.side[run, pair] = np.maximum(keep, drop), keep >= drop
        self.other[run, pair] = np.minimum(keep, drop)
        arms = space.by_pair(task.contests[:, 0])[pair]
        self.blocked[run, pair] = (ratings.given_up[run[:, None], arms] & (arms >= 0)).any(axis=1)

    def _update_best(self, run: IntArray, contest: IntArray, ratings: Ratings) -> None:
        """Test the leader of each group against its rivals; a response that could not be rated is none."""
        task, given_up = self.task, ratings.given_up
        arms = task.contests[contest]
        means, errors = self._responses(run, arms, ratings.sums)
        there = ~np.isnan(means)
        lead = np.where(there, means, -np.inf).argmax(axis=1)
        every = np.arange(len(contest))
        margin = task.margin[arms[every, lead, 0]]
        with np.errstate(invalid="ignore"):
            ahead = (means[every, lead, None] - means + margin[:, None]) / np.sqrt(
                errors[every, lead, None] + errors
            )
        is_gone = np.asarray((given_up[run[:, None, None], arms] & (arms >= 0)).any(axis=2))
        rivals = (
            (arms[:, :, 0] >= 0) & (np.arange(arms.shape[1]) != lead[:, None]) & (there | ~is_gone)
        )
        # unrated, it may be the best
        ahead = np.where(rivals & there, ahead, np.where(rivals, -np.inf, np.inf))
        nearest, has_rivals = ahead.argmin(axis=1), rivals.any(axis=1)
        log_rivals = np.log(np.maximum(rivals.sum(axis=1), 1))

        def over(rows: IntArray, rival: IntArray) -> FloatArray:
            leaders, rivals = arms[rows, lead[rows]], arms[rows, rival]
            log = self._over(run[rows], leaders, rivals, ratings.counts_at)
            return np.asarray(log - log_rivals[rows])

        is_blocked = is_gone[every, lead] | is_gone[every, nearest] | ~has_rivals
        log = np.full(len(contest), -np.inf)
        near = np.flatnonzero((ahead.min(axis=1) >= _CLEAR) & has_rivals)
        log[near] = over(near, nearest[near])
        sure = near[log[near] >= self.needed]
        row, rival = np.nonzero(rivals[sure] & (np.arange(arms.shape[1]) != nearest[sure, None]))
        np.minimum.at(log, sure[row], over(sure[row], rival))
        self.side[run, contest], self.log[run, contest] = lead, log
        self.blocked[run, contest] = is_blocked

    def _responses(
        self, run: IntArray, arms: IntArray, sums: Sums
    ) -> tuple[FloatArray, FloatArray]:
        """Mean ratings of responses over their judges and the variances of these; nan unless each judge rated it.

        By the ratings of the group alone: what others are rated since changes nothing that is known of it.
        """
        n, total, total_sq = (
            np.where(arms >= 0, each[run[:, None, None], arms], 0.0) for each in sums
        )
        low, high = (each[arms] for each in self.task.space.ends)
        with np.errstate(invalid="ignore", divide="ignore"):
            of_mean = flat_variance(n, total, total_sq, low, high) / n
        return mean(n, total).mean(axis=2), of_mean.sum(axis=2) / arms.shape[2] ** 2

    def _over(
        self, run: IntArray, lead: IntArray, rival: IntArray, counts_at: CountsAt
    ) -> FloatArray:
        """ln of the evidence that leaders are above rivals, or below them by less than the margin; arms of both.

        Below ``needed`` it is an upper bound.
        """
        found, space, share = np.empty(len(run)), self.task.space, 1.0 / lead.shape[1]
        attribute = space.attribute[lead[:, 0]]
        for place in np.unique(attribute):
            rows = np.flatnonzero(attribute == place)
            scale, margin = space.scales[place], self.task.decision.margins[place]
            parts = [
                Part(counts_at(run[rows], column), scale.low, scale.high, weight)
                for side, weight in ((lead[rows], share), (rival[rows], -share))
                for column in side.T
            ]
            found[rows] = log_sum_evidence(parts, -margin, enough=self.needed)
        return found


class RunVerdicts:
    """The decisions of a run under way.

    Attributes:
        settled: arms on which no open decision hangs, shape (K,).
        all_decided: every decision holds, all of them at once.
        seen: what the last look is to the policy.
    """

    def __init__(self, evidence: Certainty, counts: LevelCounts) -> None:
        self.evidence = evidence
        self.settled = evidence.settled[0]
        self.all_decided = False
        self.seen: Seen | None = None
        self.counts = counts
        self._contests = int(evidence.contest.max(initial=-1)) + 1
        self._is_new = True
        self._asked: list[int] = []  # since the last look

    def add(self, arm: int, ratings: Iterable[float | None]) -> None:
        """Add ratings of ``arm``, None for an answer without one; empty if no answer came."""
        self.counts.add(arm, ratings)
        self._asked.append(arm)

    def begin(self, space: ArmSpace, counted: Counted, arms: Arms, policy: Policy) -> None:
        """Begin as after a look at ``arms``, of which so many ratings of each level were ``counted``."""
        self.counts = LevelCounts.by(space, counted)
        self.look(arms, policy)

    def look(self, arms: Arms, policy: Policy) -> IntArray:
        """Decide anew by all ratings so far; return the arms whose urgency may have changed."""
        asked, contest = self._asked[:], self.evidence.contest
        del self._asked[: len(asked)]  # another thread may add meanwhile
        is_changed = np.full(self._contests, self._is_new)
        is_changed[contest[asked]] = True
        changed, self._is_new = np.flatnonzero(is_changed), False
        self.evidence.of_run(self.counts, arms, changed)
        self.all_decided = bool(all_decided(self.evidence)[0])
        sums = arms.sums.by(lambda column: column[None, :])
        self.evidence.look(policy, sums, np.array([[arms.spent]]))
        before, last, seen = self.settled, self.seen, self.evidence.seen
        self.settled = self.evidence.settled[0]
        if seen is None:
            return np.flatnonzero(self.settled != before)
        self.seen = Seen(seen.log[0], seen.n[0], seen.level[0], seen.part[0])
        if last is None or (last.level != self.seen.level).any():
            return np.arange(len(contest))
        # What is known of a pair is known of each of its thresholds.
        return np.flatnonzero(
            (self.settled != before) | (is_changed | (last.log != self.seen.log))[contest]
        )


def all_decided(evidence: Certainty) -> NDArray[np.bool_]:
    """Whether all decisions of each run hold at once, but for those that are blocked; shape (runs,)."""
    return np.asarray(
        ((evidence.log >= evidence.needed_by_all + _ROUNDING) | evidence.closed).all(axis=1)
    )
