"""Decisions while a run goes on: the evidence for each, the certified ones, and the arms that are settled."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray, Sums
from robin_cli.model.decision import RELATIONS
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

_MANY = 64.0
"""Times as many ratings as there are stand for as many as one likes."""

CountsAt = Callable[[IntArray, IntArray], FloatArray]
"""How often some arms of some runs got each level, shape (N, levels), given both as numbers, shape (N,); all on one scale."""


class Certainty(ABC):
    """How sure it is of each decision of one run, or of several runs side by side, brought up to date contest by contest.

    Attributes:
        error_rate: δ: at most this share of what is certified is wrong, on average.
        log: ln of the evidence for each decision, shape (runs, decisions); comparable with ln 1/δ. What is below that, and
            certifies nothing, may be too large.
        stuck: decisions that no further call can settle, because an arm that they hang on was given up; shape as ``log``.
        gone: decisions of which no arm is asked any more, because it was given up; shape as ``log``.
        closed: decisions that no further call can certify: stuck ones, and gone ones with too little evidence beside these.
        contest: which contest each arm is in: those whose ratings are looked at together, shape (K,).
        members: the arms that each decision hangs on, shape (decisions, most); −1 where one has fewer.
        seen: what the last look is to the policy, see :meth:`~robin_cli.policies.base.Policy.sight`.
    """

    def __init__(
        self, error_rate: float, contest: Coordinates | IntArray, members: IntArray, runs: int = 1
    ) -> None:
        self.error_rate = error_rate
        self.contest, self.members = contest, members
        there = members >= 0
        # which hangs on each arm; behind the last: none
        self._decision = np.full(len(contest), len(members))
        self._decision[members[there]] = np.nonzero(there)[0]
        self.log = np.full((runs, len(members)), -np.inf)
        self.seen: Seen | None = None
        self.stuck, self.gone, self.closed = (
            np.zeros((runs, len(members)), dtype=np.bool_) for _ in range(3)
        )

    @property
    def needed(self) -> float:
        """ln 1/δ, without which nothing is certified."""
        return -math.log(self.error_rate)

    @property
    def of_contests(self) -> FloatArray:
        """ln of the evidence for what each contest leans to, shape (runs, contests); inf where no call can help."""
        return np.where(self.closed, np.inf, self.log)

    def look(self, policy: Policy, sums: Sums, spent: FloatArray) -> None:
        """Have the policy see how the decisions stand; ``sums``: of all ratings, ``spent``: calls, shape (runs, 1)."""
        # copies: calls go on meanwhile
        columns = [np.array(each, dtype=np.float64) for each in sums]
        of_all = (columns[0], columns[1], columns[2])
        self.seen = policy.sight(self.of_contests, self.settled_at, of_all, spent, self.seen)

    @property
    def needed_by_all(self) -> FloatArray:
        """What e-BH certifies all decisions with that are not closed, shape (runs, 1): ln 1/δ where none is."""
        count = max(1, self.log.shape[1])
        return np.asarray(
            self.needed
            + np.log(count / np.maximum(count - self.closed.sum(axis=1, keepdims=True), 1))
        )

    @property
    def settled_at(self) -> FloatArray:
        """The evidence at which a decision is settled, shape (runs, 1)."""
        return self.needed_by_all + math.log(SETTLED)

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Arms on which no open decision hangs, shape (runs, K)."""
        found = (self.log >= self.settled_at) | self.closed
        return np.asarray(np.pad(found, ((0, 0), (0, 1)), constant_values=True)[:, self._decision])

    def _closed(self) -> NDArray[np.bool_]:
        closed, count = self.stuck.copy(), max(1, self.log.shape[1])
        more = self.gone
        while more.any():
            able = np.maximum(count - closed.sum(axis=1, keepdims=True), 1)
            more = self.gone & ~closed & (self.log < self.needed + np.log(count / able))
            closed |= more
        return closed

    def update(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_] | None = None,
    ) -> None:
        """Look at some contests of some runs, shape (N,) both, each once.

        Args:
            sums: of all ratings.
            given_up: arms that are asked no more because they cannot be rated, shape (runs, K); None where there are none.
        """
        if len(contest):
            gone = np.zeros(np.shape(sums[0]), dtype=np.bool_) if given_up is None else given_up
            self._update(run, contest, counts_at, sums, gone)
            self.log = rounded(self.log)
            self.closed = self._closed()

    @abstractmethod
    def _update(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> None: ...


class Evidence(Certainty):
    """How sure it is of each decision of a task.

    Attributes:
        side: thresholds: whether a pair is rather kept. Else which response of the group leads. Shape (runs, decisions).
        other: the same for the other side of thresholds; both may be sure of a mean within the margin. Shape as ``log``.
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
        self._good, self._bad = (np.zeros((runs, len(task.contests))) for _ in range(2))

    def _update(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> None:
        parts = (slice(start, start + AT_ONCE) for start in range(0, len(contest), AT_ONCE))
        if self.task.group is None:
            for part in parts:
                self._update_pairs(run[part], contest[part], counts_at, sums, given_up)
        else:
            for part in parts:
                self._update_best(run[part], contest[part], counts_at, sums, given_up)

    @property
    def of_contests(self) -> FloatArray:
        """That of each threshold of a pair, at least that of the pair; or of each group, inf of groups of one."""
        found = super().of_contests
        if self.task.group is None:
            return np.maximum(
                np.maximum(self._good, self._bad),
                found[:, self.task.space.pair[self.task.contests[:, 0, 0]]],
            )
        return np.pad(
            found, ((0, 0), (0, self._good.shape[1] - found.shape[1])), constant_values=np.inf
        )

    def _update_pairs(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> None:
        """Each threshold, and the pairs that these are of, by what is known of their other thresholds by then."""
        attribute = self.task.space.attribute[self.task.contests[contest][:, 0, 0]]
        for each in self.task.decision.criteria:
            place = list(self.task.space.attributes).index(each.attribute)
            mine = np.flatnonzero(attribute == place)
            if len(mine):
                above, below = self._of_threshold(
                    run[mine], self.task.contests[contest[mine]][:, 0, 0], counts_at
                )
                good, bad = (above, below) if each.above else (below, above)
                self._good[run[mine], contest[mine]], self._bad[run[mine], contest[mine]] = (
                    good,
                    bad,
                )
        pair = self.task.space.pair[self.task.contests[contest][:, 0, 0]].astype(np.int64)
        of_pairs = [
            each.reshape(*self.log.shape, -1)[run, pair] for each in (self._good, self._bad)
        ]
        # Kept is a pair where all hold: each has to be shown. Dropped, where one does not: an average of bets on each shows it.
        keep = of_pairs[0].min(axis=1)
        drop = np.logaddexp.reduce(of_pairs[1], axis=1) - math.log(len(self.task.decision.criteria))
        self.log[run, pair], self.side[run, pair] = np.maximum(keep, drop), keep >= drop
        self.other[run, pair] = np.minimum(keep, drop)
        self.stuck[run, pair] = self._is_stuck(run, pair, of_pairs[0], sums, given_up)
        if given_up.any():
            arms = self.task.space.by_pair(self.task.contests[:, 0])[pair]
            self.gone[run, pair] = (given_up[run[:, None], arms] | (arms < 0)).all(axis=1)

    def _is_stuck(
        self,
        run: IntArray,
        pair: IntArray,
        good: FloatArray,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Pairs that cannot be kept, because a threshold can be shown no further, while nothing speaks for dropping them."""
        if not given_up.any():
            return np.zeros(len(pair), dtype=np.bool_)
        space, criteria = self.task.space, self.task.decision.criteria
        columns = [list(space.attributes).index(each.attribute) for each in criteria]
        rows = space.by_pair(np.arange(len(self.task.contests)))[pair][:, columns]
        arms = self.task.contests[rows, 0]
        gone = given_up[run[:, None, None], arms].any(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (np.asarray(sums[1]) / sums[0])[run[:, None, None], arms].mean(axis=2)
        holds = [
            RELATIONS[each.relation](means[:, place], each.threshold)
            for place, each in enumerate(criteria)
        ]
        is_against = ~np.isnan(means) & ~np.stack(holds, axis=1)
        blocked = gone & (good[:, columns] < self.needed)
        return np.asarray(blocked.any(axis=1) & ~(is_against & ~gone).any(axis=1))

    def _of_threshold(
        self, run: IntArray, arms: IntArray, counts_at: CountsAt
    ) -> tuple[FloatArray, FloatArray]:
        """ln of the evidence that means are above a threshold, and below."""
        task, first = self.task, arms[0]
        scale, at, margin = (
            task.space.scale_of(int(first)),
            task.threshold[first],
            task.margin[first],
        )
        return log_evidence(counts_at(run, arms), scale.low, scale.high, at, margin)

    def _update_best(
        self,
        run: IntArray,
        contest: IntArray,
        counts_at: CountsAt,
        sums: Sums,
        given_up: NDArray[np.bool_],
    ) -> None:
        """Test the leader of each group against its rivals; a response that could not be rated is none."""
        task = self.task
        kept = contest < task.decisions
        run, contest = run[kept], contest[kept]
        arms = task.contests[contest]
        means, errors = self._responses(run, arms, sums)
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
        self.side[run, contest], self.log[run, contest] = lead, -np.inf
        nearest = ahead.argmin(axis=1)
        has_rivals = rivals.any(axis=1)
        log_rivals = np.log(np.maximum(rivals.sum(axis=1), 1))
        gone = is_gone[every, lead] | is_gone[every, nearest]
        one = np.flatnonzero((is_gone[every, lead] != is_gone[every, nearest]) & has_rivals)
        self.stuck[run, contest] = gone | ~has_rivals

        def with_many(of: IntArray, arm: IntArray) -> FloatArray:
            return counts_at(of, arm) * np.where(given_up[of, arm], 1.0, _MANY)[:, None]

        # With the other of them asked as often as one likes it may be decided all the same.
        then = self._over(run[one], arms[one], lead[one], nearest[one], with_many) - log_rivals[one]
        self.stuck[run[one], contest[one]] = then < self.needed
        near = np.flatnonzero((ahead.min(axis=1) >= _CLEAR) & has_rivals)
        found = (
            self._over(run[near], arms[near], lead[near], nearest[near], counts_at)
            - log_rivals[near]
        )
        self.log[run[near], contest[near]] = found
        sure = near[found >= self.needed]
        others = rivals[sure] & (np.arange(arms.shape[1]) != nearest[sure, None])
        row, rival = np.nonzero(others)
        if len(row):
            each = (
                self._over(run[sure][row], arms[sure][row], lead[sure][row], rival, counts_at)
                - log_rivals[sure][row]
            )
            least = self.log[run[sure], contest[sure]]
            np.minimum.at(least, row, each)
            self.log[run[sure], contest[sure]] = least

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
            mean, of_mean = (
                (total / n).mean(axis=2),
                flat_variance(n, total, total_sq, low, high) / n,
            )
        return mean, of_mean.sum(axis=2) / arms.shape[2] ** 2

    def _over(
        self, run: IntArray, arms: IntArray, lead: IntArray, rival: IntArray, counts_at: CountsAt
    ) -> FloatArray:
        """ln of the evidence that leaders are above rivals, or below them by less than the margin.

        Below what the one rival that there is at least would need, it may be too large.
        """
        found = np.empty(len(run))
        every = np.arange(len(run))
        own, others = arms[every, lead], arms[every, rival]
        attribute = self.task.space.attribute[own[:, 0]]
        for place in np.unique(attribute):
            mine = np.flatnonzero(attribute == place)
            scale, margin = self.task.space.scales[place], self.task.decision.margins[place]
            share = 1.0 / arms.shape[2]
            parts = [
                Part(counts_at(run[mine], column), scale.low, scale.high, weight)
                for side, weight in ((own[mine], share), (others[mine], -share))
                for column in side.T
            ]
            found[mine] = log_sum_evidence(parts, -margin, enough=self.needed)
        return found


class RunVerdicts:
    """The decisions of a run under way.

    Attributes:
        evidence: of one run.
        counts: its ratings by level.
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
        sums = arms.sums.by(lambda column: column[None, :])
        given_up = arms.is_retired[None, :]
        self.evidence.update(
            np.zeros_like(changed),
            changed,
            lambda _run, arm: self.counts.of_arms(arm),
            sums,
            given_up,
        )
        self.all_decided = bool(all_decided(self.evidence)[0])
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
    """Whether all decisions of each run hold at once, but for those that are stuck; shape (runs,)."""
    return np.asarray(
        ((evidence.log >= evidence.needed_by_all + _ROUNDING) | evidence.closed).all(axis=1)
    )
