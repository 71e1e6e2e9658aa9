"""The paper's experiment: schedulers on recorded ratings, many runs side by side.

A simulated judge answers with one of a pair's recorded ratings, drawn with replacement; a pair's true score is the mean of its
recorded ratings. Every run draws its own ratings.

The calls are those of :class:`~robin_cli.session.planner.Planner` if every answer holds a rating and comes before the next
visit begins: whole rounds during the warm-up, then blocks of the most urgent arms, with refits at the same numbers of
ratings, and decisions tested after the same numbers of calls. Contract tests hold the two equal, call by call, for every
policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.policies.base import Policy
from robin_cli.policies.milestones import (
    LOOK_GROWTH,
    TEST_GROWTH,
    Milestones,
    fits_from,
    looks_at,
)
from robin_cli.policies.task import contest_of
from robin_cli.session.asking import (
    IN_WARM_UP,
    NEVER,
    RATINGS_FOR_EACH_CALL,
    block_of,
    urgency_by,
    visit_of,
)
from robin_cli.simulate.choices import most_urgent_of_runs, turns_of_runs
from robin_cli.stats.court import Court, Snapshot


@dataclass(frozen=True, slots=True)
class DrawnRatings:
    """Recorded ratings of K pairs, laid out for drawing.

    Attributes:
        values: shape (K, M); rows are padded.
        sizes: ratings of each pair, shape (K,), at least 1.
        units: units of each pair's error, in points of its scale, shape (K,); None for points.
    """

    values: FloatArray
    sizes: IntArray
    units: FloatArray | None = None

    @classmethod
    def of(cls, ratings: Sequence[NDArray[np.int64]]) -> DrawnRatings:
        """Lay out one array of ratings for each pair."""
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
        """Draw one rating of each of ``pairs``, of any shape."""
        return self.values[pairs, (rng.random(pairs.shape) * self.sizes[pairs]).astype(np.int64)]


def simulate(
    ratings: DrawnRatings,
    policy: Policy,
    budgets: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    *,
    worlds: int = 1,
    court: Callable[[int], Court | None] = lambda _: None,
    first_fit: int | None = None,
    block: int | None = None,
    first_visit: int = 1,
    longest_visit: int = LONGEST_VISIT,
    look_growth: float = LOOK_GROWTH,
) -> list[Snapshot]:
    """Run ``policy`` for the largest of ``budgets``, ``runs`` times at once.

    Args:
        worlds: number of sets of K pairs in ``ratings``, one after another; run r is made on set r mod ``worlds``. A policy
            that knows variances then knows those of all sets, shape (worlds · K,).
        court: returns the decisions of as many runs, or None without decisions. A run ends when everything is decided.
        first_fit: ratings at which a pooled policy is fitted first; None for the number of pairs.
        block: pairs chosen at once; None for the number in a run, which is one below 65 pairs.
        first_visit, longest_visit: calls of the first visit of a pair, and the most of any.
        look_growth: growth of the calls from one look at decisions to the next.

    Returns:
        A snapshot at each of ``budgets``, in rising order.
    """
    decides = court(runs)
    visits = np.array(
        [visit_of(n, first_visit) for n in range(LONGEST_VISIT * RATINGS_FOR_EACH_CALL + 1)]
    )
    if policy.evenly and decides is None:
        visits[:] = [RETIRE_AFTER, *[LONGEST_VISIT] * (len(visits) - 1)]
    visits = np.minimum(visits, longest_visit)
    state = _State(
        *(ratings, policy, runs, rng, worlds, first_fit, block, visits, look_growth, decides)
    )
    snapshots = []
    for budget in sorted(set(budgets)):
        state.ask_evenly(budget)
        state.ask_adaptively(budget)
        snapshots.append(state.snapshot(budget))
    return snapshots


class _State:
    """Sums of every run, shape (runs, pairs) each, and the urgency of each pair in it."""

    def __init__(
        self,
        ratings: DrawnRatings,
        policy: Policy,
        runs: int,
        rng: np.random.Generator,
        worlds: int,
        first_fit: int | None,
        block: int | None,
        visits: IntArray,
        look_growth: float,
        court: Court | None,
    ) -> None:
        self._ratings = ratings
        self._rng = rng
        self._runs = np.arange(runs)[:, None]
        self._pairs = len(ratings.sizes) // worlds
        self._world = np.arange(runs) % worlds
        self._first_row = self._world[:, None] * self._pairs
        self._block = block_of(self._pairs) if block is None else block
        self.n, self.total, self.total_sq = (np.zeros((runs, self._pairs)) for _ in range(3))
        self._visits = visits
        self._made = np.zeros(runs, dtype=np.int64)  # visits of each run
        self._spent = np.zeros(runs, dtype=np.int64)
        self._urgency: FloatArray | None = None
        self._nearness = np.empty(0)
        self._policy = policy
        self._first_fit = self._pairs if first_fit is None else first_fit
        self._refit_at = self._first_fit if policy.refits else np.inf
        self._court = court
        self._look_growth = look_growth
        certifies = court is not None and court.certifies
        self._looks = looks_at(self._pairs, look_growth)
        self._looks_at = self._looks.first if certifies else np.inf
        self._tests_at = court.first if court is not None and court.target else np.inf
        turn = np.arange(self._pairs) if policy.turn is None else policy.turn
        self._round = np.argsort(turn)
        # Calls of each pair in whole rounds, the place in the next round, and the calls of a visit in it.
        self._depth = self._place = self._visit = 0
        self._contests = policy.contests
        self._contest_of = np.empty(0, dtype=np.int64)
        if self._contests is not None:
            self._contest_of = contest_of(self._contests, self._pairs)

    @property
    def _next_stop(self) -> float:
        """The calls at which the policy is fitted, the decisions are looked at, or the target is tested next."""
        return min(self._refit_at, self._looks_at, self._tests_at)

    def _is_over(self) -> bool:
        return self._court is not None and bool(self._court.done.all())

    def ask_evenly(self, budget: int) -> None:
        """Ask in whole rounds, the pairs in their turn, until the warm-up ends or ``budget`` calls of each run are made."""
        even = budget // self._pairs
        while self._depth < self._policy.warm_up and not self._is_over():
            if not self._place:
                self._visit = min(
                    int(self._visits[min(self._depth, len(self._visits) - 1)]),
                    max(1, even - self._depth),
                )
            left = budget - self._depth * self._pairs - self._place * self._visit
            if left <= 0:
                return
            until = min(left, self._next_stop - budget + left)
            end = min(self._pairs, self._place + -(-int(until) // self._visit))
            pair = np.broadcast_to(
                self._round[self._place : end], (len(self._runs), end - self._place)
            )
            self._ask(pair, np.full(pair.shape, self._visit))
            self._place = end % self._pairs
            self._depth += self._visit * (end == self._pairs)
            self._urgency = None
            self._refit_and_decide()

    def ask_adaptively(self, budget: int) -> None:
        """Ask by the policy, a block of each run at a time, up to ``budget`` calls of each run."""
        until = 0
        while until < budget and not self._is_over():
            until = int(min(self._next_stop, budget))
            while self._goes_on(until).any():
                pair = self._chosen()
                self._ask(pair, self._calls(pair, until, budget))
                self._look_at(pair)
            self._refit_and_decide()

    def _goes_on(self, until: int) -> NDArray[np.bool_]:
        """Return whether each run has fewer than ``until`` calls, and is not over."""
        return (self._spent < until) & (True if self._court is None else ~self._court.done)

    def _calls(self, pair: IntArray, until: int, budget: int) -> IntArray:
        """Return the calls of the visits of these pairs, shape (runs, pairs): those after ``until`` calls are not made."""
        assert self._urgency is not None  # noqa: S101  # the pairs were chosen by it
        urgency = self._urgency[self._runs, pair]
        calls = self._visits[
            np.minimum(self.n[self._runs, pair], len(self._visits) - 1).astype(np.int64)
        ]
        is_first = urgency > IN_WARM_UP  # a block holds first calls, or later ones
        may_be_asked = (urgency > NEVER) | (self._nearness[self._runs, pair] > NEVER)
        may_be_asked[:, 0] = True
        calls *= may_be_asked & (is_first == is_first[:, :1]) & self._goes_on(until)[:, None]
        before = self._spent[:, None] + calls.cumsum(axis=1) - calls
        return np.asarray(np.minimum(calls, np.maximum(0, budget - before)) * (before < until))

    def snapshot(self, budget: int) -> Snapshot:
        """Return all runs as they stand at ``budget`` calls, or at fewer if everything was decided before."""
        with np.errstate(invalid="ignore"):
            estimates = self.total / self.n
        truth = self._ratings.means.reshape(-1, self._pairs)[self._world]
        errors = np.abs(estimates - truth)
        if self._ratings.units is not None:
            errors /= self._ratings.units.reshape(-1, self._pairs)[self._world]
        court, sums = self._court, self._sums()
        measured = {} if court is None else court.measured(sums, truth)
        return Snapshot(
            budget,
            self._made.copy(),
            self.n.astype(np.int64),
            estimates,
            estimates if court is None else court.scores(sums),
            errors.max(axis=1),
            errors.mean(axis=1),
            measured,
        )

    def _ask(self, pair: IntArray, calls: IntArray) -> None:
        """Make so many calls of each of these pairs, shape (runs, pairs), in the runs that are not over."""
        if self._court is not None:
            calls = calls * ~self._court.done[:, None]
        self._made += (calls > 0).sum(axis=1)
        self._spent += calls.sum(axis=1)
        run, pair = (
            np.repeat(each.ravel(), calls.ravel()) for each in np.broadcast_arrays(self._runs, pair)
        )
        rating = self._ratings.draw(self._first_row[run, 0] + pair, self._rng)
        if self._court is not None:
            self._court.add(run, pair, rating)
        np.add.at(self.n, (run, pair), 1.0)
        np.add.at(self.total, (run, pair), rating)
        np.add.at(self.total_sq, (run, pair), rating * rating)

    def _refit_and_decide(self) -> None:
        """Fit the policy and decide, if every run has come so far."""
        if self._is_over():
            return
        spent = int(self._spent[self._goes_on(2**62)].min())
        if spent >= self._refit_at:
            self._policy = self._policy.fitted(*self._sums())
            self._refit_at = fits_from(self._first_fit).after(spent)
            self._urgency = None
        if self._court is not None and spent >= self._tests_at:
            growth = max(TEST_GROWTH, self._look_growth)
            self._tests_at = Milestones(self._court.first, growth).after(spent)
            self._court.test(self._sums(), skips=self._look_growth > LOOK_GROWTH)
        if self._court is not None and spent >= self._looks_at:
            self._looks_at = self._looks.after(spent)
            if self._court.look(self._sums(), self._policy):
                self._urgency = None

    def _chosen(self) -> IntArray:
        """Return the next block of pairs of each run, shape (runs, pairs)."""
        urgency = self._urgencies()
        if self._court is None or self._court.seen is None:
            return most_urgent_of_runs(urgency, self._block)
        part = self._court.seen.part
        return turns_of_runs(urgency, self._nearness, self._block, self._made, part)

    def _urgencies(self) -> FloatArray:
        """Return the urgency of each pair of each run, shape (runs, pairs)."""
        if self._urgency is None:
            columns = list(self._sums())
            arms, place = np.arange(self._pairs), np.arange(self._pairs)
            if self._contests is not None:
                there, arms = self._contests >= 0, np.maximum(self._contests, 0)
                place = np.flatnonzero(there)[np.argsort(self._contests[there])]
                columns = [np.where(there, np.take(each, arms, axis=1), 0.0) for each in columns]
            found = self._computed(columns, self._first_row.reshape(-1, *[1] * arms.ndim) + arms)
            self._urgency, self._nearness = (
                each.reshape(len(each), -1)[:, place] for each in found
            )
            self._hold_back(slice(None), slice(None))
        return self._urgency

    def _look_at(self, pair: IntArray) -> None:
        """Compute the urgency of these pairs of each run, shape (runs, …), and of those in contests with them."""
        assert self._urgency is not None  # noqa: S101  # _urgencies came first
        run, first_row, there = self._runs, self._first_row, None
        if self._contests is not None:
            members = self._contests[self._contest_of[pair]]
            there, pair = members >= 0, np.maximum(members, 0)
            run, first_row = (
                np.broadcast_to(each[:, :, None, None], pair.shape) for each in (run, first_row)
            )
        columns = [each[run, pair] for each in self._sums()]
        if there is not None:
            columns = [np.where(there, each, 0.0) for each in columns]
        found = self._computed(columns, first_row + pair)
        if there is not None:
            run, pair, found = (
                np.broadcast_to(run, pair.shape)[there],
                pair[there],
                [each[there] for each in found],
            )
        self._urgency[run, pair], self._nearness[run, pair] = found
        self._hold_back(run, pair)

    def _computed(self, columns: list[FloatArray], arm: IntArray) -> list[FloatArray]:
        """How urgent arms are, and how near to certain."""
        seen = None if self._court is None else self._court.seen
        n, total, total_sq = columns
        urgency, nearness = urgency_by(
            self._policy, seen, n, np.zeros_like(n), total, total_sq, arm
        )
        return [urgency, np.full(urgency.shape, NEVER) if nearness is None else nearness]

    def _hold_back(self, run: IntArray | slice, pair: IntArray | slice) -> None:
        """Mark those of these pairs that are settled as never urgent."""
        assert self._urgency is not None  # noqa: S101  # they were computed
        if self._court is not None and self._court.settled is not None:
            is_settled = self._court.settled[run, pair]
            self._urgency[run, pair] = np.where(is_settled, NEVER, self._urgency[run, pair])

    def _sums(self) -> Sums:
        """Return n, Σx and Σx², shape (runs, K)."""
        return Sums(self.n, self.total, self.total_sq)
