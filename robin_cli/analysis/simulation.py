"""The paper's experiment: schedulers on recorded ratings, many runs side by side.

A simulated judge answers with one of a pair's recorded ratings, drawn with replacement; a pair's true score is the mean of
its recorded ratings. Every run starts anew with draws of its own.

What is asked is what :class:`~robin_cli.scheduling.scheduler.HeapScheduler` asks at one call at a time, where nobody waits for
answers and every answer holds a rating: whole rounds as long as the warm-up lasts, then the smallest key, with refits at the
same numbers of ratings, and decisions looked at after the same numbers of calls. Or what it asks in rounds, where all answers
of one come before the next is chosen. Contract tests hold the two equal, call by call, for every policy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.court import Court, Verdict
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.refits import next_refit
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy
from robin_cli.scheduling.eligibility import ASKED_FOR_EACH_KNOWN, NO_END
from robin_cli.scheduling.heap import NEVER, adaptive_key, contest_keys
from robin_cli.scheduling.rounds import round_ends
from robin_cli.scheduling.stopping import next_look

_DRAWS_AT_A_TIME = 4096
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Ratings:
    """Recorded ratings of K pairs, laid out for drawing.

    Attributes:
        values: shape (K, M), rows padded; ``sizes`` says how many of a row count.
        sizes: ratings of each pair, shape (K,), at least 1.
        units: what errors of each pair are counted in, in points of its scale, shape (K,); None for points.
    """

    values: FloatArray
    sizes: IntArray
    units: FloatArray | None = None

    @classmethod
    def of(cls, ratings: Sequence[NDArray[np.int64]]) -> Ratings:
        """Lay out one array of ratings a pair."""
        sizes = np.array([len(each) for each in ratings], dtype=np.int64)
        values = np.zeros((len(ratings), int(sizes.max())))
        for row, each in zip(values, ratings, strict=True):
            row[: len(each)] = each
        return cls(values, sizes)

    @property
    def means(self) -> FloatArray:
        """True scores s_i, shape (K,)."""
        return np.asarray(self.values.sum(axis=1) / self.sizes)

    @property
    def variances(self) -> FloatArray:
        """True variances σ_i² (1/n), shape (K,)."""
        spread = self.values - self.means[:, None]
        inside = np.arange(self.values.shape[1]) < self.sizes[:, None]
        return np.asarray((np.where(inside, spread, 0.0) ** 2).sum(axis=1) / self.sizes)

    def draw(self, pairs: IntArray, rng: np.random.Generator) -> FloatArray:
        """One rating of each of ``pairs``, of any shape."""
        return self.values[pairs, (rng.random(pairs.shape) * self.sizes[pairs]).astype(np.int64)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All runs of one simulation after ``budget`` calls.

    Attributes:
        budget: calls spent by each run.
        n: ratings of each pair, shape (runs, K).
        estimates: mean ratings, shape (runs, K); nan for a pair not asked yet.
        wce: max_i |s_i − ŝ_i|, the paper's worst-case error, in units, shape (runs,); nan while a pair is not asked yet.
        mean_error: the mean of |s_i − ŝ_i| over the pairs, shape (runs,); nan likewise.
        verdict: where something is to be decided.
    """

    budget: int
    n: IntArray
    estimates: FloatArray
    wce: FloatArray
    mean_error: FloatArray
    verdict: Verdict | None = None


def simulate(
    ratings: Ratings,
    policy: Policy,
    budgets: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    *,
    worlds: int = 1,
    task: Task | None = None,
    rounds: int | None = None,
    first_fit: int | None = None,
) -> list[Snapshot]:
    """Run ``policy`` for the largest of ``budgets``, ``runs`` times at once, one call after another.

    Args:
        worlds: ``ratings`` holds so many sets of K pairs, one after another, and run r is made on set r mod ``worlds``; then a
            policy that knows variances knows those of all sets, shape (worlds · K,).
        task: what is to be decided of each set; a run ends when it is.
        rounds: in which calls go out; each of ``budgets`` is then that of a run of its own. None: one call at a time.
        first_fit: ratings at which a pooled policy is fitted first; None: as many as pairs.

    Returns:
        A snapshot at each of ``budgets``, in rising order.
    """
    if rounds is not None:
        return [
            _State(ratings, policy, runs, rng, worlds, task, first_fit).in_rounds(budget, rounds)
            for budget in sorted(set(budgets))
        ]
    state = _State(ratings, policy, runs, rng, worlds, task, first_fit)
    snapshots = []
    for budget in sorted(set(budgets)):
        state.ask_evenly(min(budget, len(ratings.sizes) // worlds * policy.warm_up))
        state.ask_adaptively(budget)
        snapshots.append(state.snapshot(budget))
    return snapshots


def _contest_of(members: IntArray, arms: int) -> IntArray:
    """Which contest each arm is in, shape (arms,)."""
    there = members >= 0
    found = np.empty(arms, dtype=np.int64)
    found[members[there]] = np.nonzero(there)[0]
    return found


def round_ends_of(
    policy: Policy, budget: int, arms: int, rounds: int, *, may_end_early: bool = False
) -> tuple[int, ...]:
    """Calls spent at the end of each round, as a run by ``policy`` has them: an even spread is one, unless it may end early."""
    first = 1 if policy.evenly and may_end_early else policy.warm_up
    return round_ends(budget, arms, rounds, warm_up=first)


class _State:
    """Sums of every run, flat: run r's pair i is at r · width + i, the width padded to whole blocks.

    The smallest key is found in two steps, among the smallest of each block and then in that block: 2√K comparisons where
    the paper's scan makes K.
    """

    def __init__(
        self,
        ratings: Ratings,
        policy: Policy,
        runs: int,
        rng: np.random.Generator,
        worlds: int,
        task: Task | None,
        first_fit: int | None,
    ) -> None:
        self._ratings = ratings
        self._rng = rng
        self._runs = runs
        self._pairs = len(ratings.sizes) // worlds
        self._world = np.arange(runs) % worlds
        self._first_row = self._world * self._pairs
        self._blocks = -(-self._pairs // _BLOCK)
        self._width = self._blocks * _BLOCK
        self.n = np.zeros(runs * self._width)
        self.total = np.zeros(runs * self._width)
        self.total_sq = np.zeros(runs * self._width)
        self.pending = np.zeros(runs * self._width)
        self._asked_for_each_known = NO_END if task is None else ASKED_FOR_EACH_KNOWN
        self._room = np.zeros(runs)  # calls that each run may still make in this round
        self._budget = 0
        self._first = np.arange(runs) * self._width
        self._key: FloatArray | None = None
        self._least = np.empty(0)
        self._policy = policy
        self._first_fit = self._pairs if first_fit is None else first_fit
        self._refit_at = next_refit(0, self._first_fit) if policy.refits else NEVER
        self._court = None if task is None else Court(task, runs)
        self._looks_at: float = NEVER if task is None else next_look(0, self._pairs)
        turn = np.arange(self._pairs) if policy.turn is None else policy.turn
        self._round = np.argsort(turn)
        self._contests = policy.contests
        self._contest_of = np.empty(0, dtype=np.int64)
        if self._contests is not None:
            self._contest_of = _contest_of(self._contests, self._pairs)

    def _is_over(self) -> bool:
        return self._court is not None and bool(self._court.done.all())

    def ask_evenly(self, budget: int) -> None:
        """Go on in whole rounds, the pairs in their turn, up to ``budget`` calls a run."""
        while self._budget < budget and not self._is_over():
            start = self._budget % self._pairs
            end = int(min(self._pairs, start + min(budget, self._refit_at, self._looks_at) - self._budget))
            pairs = self._round[start:end]
            ratings = self._ratings.draw(self._first_row[:, None] + pairs, self._rng).ravel()
            self._add(np.repeat(np.arange(self._runs), len(pairs)), np.tile(pairs, self._runs), ratings)
            self._budget += end - start
            self._key = None
            self._now_and_then()

    def ask_adaptively(self, budget: int) -> None:
        """Go on by the policy, one call of each run at a time, up to ``budget`` calls a run."""
        while self._budget < budget and not self._is_over():
            steps = min(_DRAWS_AT_A_TIME, budget - self._budget)
            luck = self._rng.random((steps, self._runs))
            for step in range(steps):
                if self._key is None:
                    self._build()
                self._step(luck[step])
                self._budget += 1
                self._now_and_then()
                if self._is_over():
                    break

    def in_rounds(self, budget: int, rounds: int) -> Snapshot:
        """All of ``budget`` in rounds, the first of them even."""
        ends = round_ends_of(self._policy, budget, self._pairs, rounds, may_end_early=self._court is not None)
        even = self._pairs * max(self._policy.warm_up, -(-ends[0] // self._pairs)) if self._policy.warm_up else 0
        self._refit_at = self._looks_at = NEVER  # but when a round begins
        for end in itertools.chain(ends, itertools.repeat(budget)):  # again, for what could not be asked at once
            self._begin_round()
            if self._is_over():
                break
            if self._budget < min(even, budget):
                self.ask_evenly(end)
            elif not self._ask_a_round(end):
                break
        return self.snapshot(budget)

    def _ask_a_round(self, end: int) -> bool:
        """Ask until ``end`` calls of each run are spent, or no arm of it may be asked any more; whether any was."""
        self._room = end - self._sums()[0].sum(axis=1)
        if self._court is not None:
            self._room[self._court.done] = 0.0
        self._build()
        while self._room.any():
            self._step(None)
        asked = bool(self.pending.any())
        self._budget = end
        self._answer()
        return asked

    def _begin_round(self) -> None:
        if self._court is not None and self._budget:
            self._court.look(self._sums())
        if self._policy.refits and self._budget >= self._first_fit:
            self._policy = self._policy.fitted(*self._sums())

    def _answer(self) -> None:
        """Add a rating for each call under way, those of a pair one after another."""
        while len(at := np.flatnonzero(self.pending)):
            self.pending[at] -= 1.0
            run, pair = np.divmod(at, self._width)
            self._add(run, pair, self._ratings.draw(self._first_row[run] + pair, self._rng))

    def snapshot(self, budget: int) -> Snapshot:
        """All runs as they stand, which is with ``budget`` calls, or with fewer where everything was decided before."""
        shape = (self._runs, self._width)
        n = self.n.reshape(shape)[:, : self._pairs]
        with np.errstate(invalid="ignore"):
            estimates = self.total.reshape(shape)[:, : self._pairs] / n
        errors = np.abs(estimates - self._ratings.means.reshape(-1, self._pairs)[self._world])
        if self._ratings.units is not None:
            errors /= self._ratings.units.reshape(-1, self._pairs)[self._world]
        verdict = None
        if self._court is not None:
            truth = self._ratings.means.reshape(-1, self._pairs)[self._world]
            verdict = self._court.verdict(self._sums(), truth)
        return Snapshot(budget, n.astype(np.int64), estimates, errors.max(axis=1), errors.mean(axis=1), verdict)

    def _step(self, luck: FloatArray | None) -> None:
        """Make the next call of each run; ``luck`` is how it is answered, None where it is not yet, and only in some runs."""
        assert self._key is not None  # noqa: S101  # _build came first
        block = self._least.argmin(axis=1)
        rows = np.arange(self._runs)
        in_block = self._key[rows, block]
        place = in_block.argmin(axis=1)
        pair = block * _BLOCK + place
        row = self._first_row + pair
        if luck is None:
            at = self._first + pair
            self._room[in_block[rows, place] == NEVER] = 0.0
            self.pending[at] += self._room > 0
            self._room = np.maximum(self._room - 1.0, 0.0)
        else:
            rating = self._ratings.values[row, (luck * self._ratings.sizes[row]).astype(np.int64)]
            at = self._add(rows, pair, rating)
        if self._contests is not None:
            self._place_contests(self._contests[self._contest_of[pair]])
            return
        n, pending, total, total_sq = self.n[at], self.pending[at], self.total[at], self.total_sq[at]
        keys = adaptive_key(self._policy, n, pending, total, total_sq, row)
        in_block[rows, place] = np.where(pending < self._asked_for_each_known * np.maximum(n, 0.5), keys, NEVER)
        self._key[rows, block] = in_block
        self._least[rows, block] = in_block.min(axis=1)

    def _add(self, run: IntArray, pair: IntArray, rating: FloatArray) -> IntArray:
        """Add a rating of each pair of each run, but those that are over; where they are among the sums."""
        at = self._first[run] + pair
        if self._court is None:
            self.n[at] += 1.0
            self.total[at] += rating
            self.total_sq[at] += rating * rating
            return at
        on = ~self._court.done[run]
        self._court.add(run[on], pair[on], rating[on])
        self.n[at] += on
        self.total[at] += on * rating
        self.total_sq[at] += on * (rating * rating)
        return at

    def _place_contests(self, members: IntArray) -> None:
        """Compute the keys of one contest of each run anew; ``members``: its arms, shape (runs, responses, judges)."""
        assert self._key is not None  # noqa: S101  # _build came first
        there, arms = members >= 0, np.where(members >= 0, members, 0)
        run = np.arange(self._runs)[:, None, None]
        at = self._first[:, None, None] + arms
        columns = (self.n, self.pending, self.total, self.total_sq)
        n, pending, total, total_sq = (np.where(there, each[at], 0.0) for each in columns)
        keys = contest_keys(self._policy, n, pending, total, total_sq, self._first_row[:, None, None] + arms)
        keys = np.where(pending < self._asked_for_each_known * np.maximum(n, 0.5), keys, NEVER)
        if self._court is not None:
            keys = np.where(self._court.settled[run, arms], NEVER, keys)
        runs, arms = np.broadcast_to(run, arms.shape)[there], arms[there]
        self._key[runs, arms // _BLOCK, arms % _BLOCK] = keys[there]
        self._least[runs, arms // _BLOCK] = self._key[runs, arms // _BLOCK].min(axis=1)

    def _now_and_then(self) -> None:
        """Decide anew and fit the policy anew, if it is time."""
        if self._court is not None and self._budget >= self._looks_at:
            self._looks_at = next_look(self._budget, self._pairs)
            if self._court.look(self._sums()):
                self._key = None
        if self._budget >= self._refit_at:
            self._refit()

    def _build(self) -> None:
        n, total, total_sq = self._sums()
        rows = self._first_row[:, None] + np.arange(self._pairs)
        key = np.full((self._runs, self._width), NEVER)
        if self._contests is None:
            key[:, : self._pairs] = adaptive_key(self._policy, n, np.zeros(n.shape), total, total_sq, rows)
        else:
            there, arms = self._contests >= 0, np.where(self._contests >= 0, self._contests, 0)
            n, total, total_sq = (np.where(there, each[:, arms], 0.0) for each in (n, total, total_sq))
            rows = self._first_row[:, None, None, None] + arms
            keys = contest_keys(self._policy, n, np.zeros(n.shape), total, total_sq, rows)
            key[:, arms[there]] = keys[:, there]
        if self._court is not None:
            key[:, : self._pairs][self._court.settled] = NEVER
        self._key = key.reshape(self._runs, self._blocks, _BLOCK)
        self._least = self._key.min(axis=2)

    def _refit(self) -> None:
        self._policy = self._policy.fitted(*self._sums())
        self._refit_at = next_refit(self._budget, self._first_fit)
        self._key = None

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """n, Σx and Σx², shape (runs, K)."""
        shape = (self._runs, self._width)
        n, total, total_sq = (each.reshape(shape)[:, : self._pairs] for each in (self.n, self.total, self.total_sq))
        return n, total, total_sq
