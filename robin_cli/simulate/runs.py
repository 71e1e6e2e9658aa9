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
from robin_cli.policies.base import Columns, Policy
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
    by_turns,
    most_urgent,
    urgency_by,
    visit_of,
)
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
    def from_ratings(cls, ratings: Sequence[NDArray[np.int64]]) -> DrawnRatings:
        """Lay out one array of ratings for each pair."""
        sizes = np.array([len(of_pair) for of_pair in ratings], dtype=np.int64)
        values = np.zeros((len(ratings), int(sizes.max())))
        for row, of_pair in zip(values, ratings, strict=True):
            row[: len(of_pair)] = of_pair
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
    pairs = len(ratings.sizes) // worlds
    state = _State(
        *(ratings, policy, np.arange(runs) % worlds, pairs, rng, decides, visits),
        first_fit=pairs if first_fit is None else first_fit,
        block=block_of(pairs) if block is None else block,
        look_growth=look_growth,
    )
    snapshots = []
    for budget in sorted(set(budgets)):
        state.ask_evenly(budget)
        state.ask_adaptively(budget)
        snapshots.append(state.snapshot(budget))
    return snapshots


class _State:
    """Sums of every run, shape (runs, pairs) each, and the urgency of each pair in it.

    Args:
        world: of each run, shape (runs,).
        visits: calls of the next visit of a pair, by its ratings.
    """

    def __init__(
        self,
        ratings: DrawnRatings,
        policy: Policy,
        world: IntArray,
        pairs: int,
        rng: np.random.Generator,
        court: Court | None,
        visits: IntArray,
        *,
        first_fit: int,
        block: int,
        look_growth: float,
    ) -> None:
        self._ratings, self._policy, self._court, self._rng = ratings, policy, court, rng
        self._world, self._pairs, self._visits, self._block = world, pairs, visits, block
        self._runs = np.arange(len(world))[:, None]
        self._first_row = world[:, None] * pairs
        n, total, total_sq = np.zeros((3, len(world), pairs))
        self._sums = Sums(n, total, total_sq)
        self._made, self._spent = np.zeros((2, len(world)), dtype=np.int64)  # visits and calls
        self._urgency, self._nearness = np.full((2, len(world), pairs), NEVER)
        self._is_stale = True
        self._contests = policy.contests
        self._set_of = np.arange(pairs)  # which arms have their urgencies computed together
        if self._contests is not None:
            self._set_of = contest_of(self._contests, pairs)
        self._look_growth = look_growth
        certifies = court is not None and court.certifies
        self._fits, self._looks = fits_from(first_fit), looks_at(pairs, look_growth)
        self._refit_at = first_fit if policy.refits else np.inf
        self._looks_at = self._looks.first if certifies else np.inf
        self._tests_at = court.first if court is not None and court.target else np.inf
        turn = np.arange(pairs) if policy.turn is None else policy.turn
        self._round = np.argsort(turn)
        # Calls of each pair in whole rounds, the place in the next round, and the calls of a visit in it.
        self._depth = self._place = self._visit = 0

    @property
    def _next_stop(self) -> float:
        """The calls at which the policy is fitted, the decisions are looked at, or the target is tested next."""
        return min(self._refit_at, self._looks_at, self._tests_at)

    def _goes_on(self, until: float = np.inf) -> NDArray[np.bool_]:
        """Return whether each run has fewer than ``until`` calls, and is not over."""
        return (self._spent < until) & (True if self._court is None else ~self._court.done)

    def ask_evenly(self, budget: int) -> None:
        """Ask in whole rounds, the pairs in their turn, until the warm-up ends or ``budget`` calls of each run are made."""
        even = budget // self._pairs
        while self._depth < self._policy.warm_up and self._goes_on().any():
            if not self._place:
                visit = int(self._visits[min(self._depth, len(self._visits) - 1)])
                self._visit = min(visit, max(1, even - self._depth))
            left = budget - self._depth * self._pairs - self._place * self._visit
            if left <= 0:
                return
            until = min(left, self._next_stop - budget + left)
            end = min(self._pairs, self._place + -(-int(until) // self._visit))
            some = self._round[self._place : end]
            pair = np.broadcast_to(some, (len(self._runs), len(some)))
            self._ask(pair, np.full(pair.shape, self._visit))
            self._place = end % self._pairs
            self._depth += self._visit * (end == self._pairs)
            self._is_stale = True
            self._refit_and_decide()

    def ask_adaptively(self, budget: int) -> None:
        """Ask by the policy, a block of each run at a time, up to ``budget`` calls of each run."""
        until = 0
        while until < budget and self._goes_on().any():
            until = int(min(self._next_stop, budget))
            while self._goes_on(until).any():
                if self._is_stale:
                    sets = np.arange(self._set_of.max() + 1)
                    self._refresh(np.broadcast_to(sets, (len(self._runs), len(sets))))
                    self._is_stale = False
                pair = self._chosen()
                self._ask(pair, self._calls(pair, until, budget))
                self._refresh(self._set_of[pair])
            self._refit_and_decide()

    def _calls(self, pair: IntArray, until: int, budget: int) -> IntArray:
        """Return the calls of the visits of these pairs, shape (runs, pairs): those after ``until`` calls are not made."""
        urgency, n = self._urgency[self._runs, pair], self._sums.n[self._runs, pair]
        calls = self._visits[np.minimum(n, len(self._visits) - 1).astype(np.int64)]
        is_first = urgency > IN_WARM_UP  # a block holds first calls, or later ones
        may_be_asked = (urgency > NEVER) | (self._nearness[self._runs, pair] > NEVER)
        may_be_asked[:, 0] = True
        calls *= may_be_asked & (is_first == is_first[:, :1]) & self._goes_on(until)[:, None]
        before = self._spent[:, None] + calls.cumsum(axis=1) - calls
        return np.asarray(np.minimum(calls, np.maximum(0, budget - before)) * (before < until))

    def snapshot(self, budget: int) -> Snapshot:
        """Return all runs as they stand at ``budget`` calls, or at fewer if everything was decided before."""
        court, sums = self._court, self._sums
        with np.errstate(invalid="ignore"):
            estimates = sums.total / sums.n
        truth = self._ratings.means.reshape(-1, self._pairs)[self._world]
        errors = np.abs(estimates - truth)
        if self._ratings.units is not None:
            errors /= self._ratings.units.reshape(-1, self._pairs)[self._world]
        return Snapshot(
            budget,
            self._made.copy(),
            sums.n.astype(np.int64),
            estimates,
            estimates if court is None else court.scores(sums),
            errors.max(axis=1),
            errors.mean(axis=1),
            {} if court is None else court.measured(sums, truth),
        )

    def _ask(self, pair: IntArray, calls: IntArray) -> None:
        """Make so many calls of each of these pairs, shape (runs, pairs), in the runs that are not over."""
        if self._court is not None:
            calls = calls * ~self._court.done[:, None]
        self._made += (calls > 0).sum(axis=1)
        self._spent += calls.sum(axis=1)
        run, pair = (
            np.repeat(place.ravel(), calls.ravel())
            for place in np.broadcast_arrays(self._runs, pair)
        )
        rating = self._ratings.draw(self._first_row[run, 0] + pair, self._rng)
        if self._court is not None:
            self._court.add(run, pair, rating)
        np.add.at(self._sums.n, (run, pair), 1.0)
        np.add.at(self._sums.total, (run, pair), rating)
        np.add.at(self._sums.total_sq, (run, pair), rating * rating)

    def _refit_and_decide(self) -> None:
        """Fit the policy and decide, if every run has come so far."""
        if not (goes_on := self._goes_on()).any():
            return
        spent, court = int(self._spent[goes_on].min()), self._court
        if spent >= self._refit_at:
            self._policy = self._policy.fitted(*self._sums)
            self._refit_at = self._fits.after(spent)
            self._is_stale = True
        if court is not None and spent >= self._tests_at:
            growth = max(TEST_GROWTH, self._look_growth)
            self._tests_at = Milestones(court.first, growth).after(spent)
            court.test(self._sums, skips=self._look_growth > LOOK_GROWTH)
        if court is not None and spent >= self._looks_at:
            self._looks_at = self._looks.after(spent)
            self._is_stale |= court.look(self._sums, self._policy)

    def _chosen(self) -> IntArray:
        """Return the next block of pairs of each run, shape (runs, pairs)."""
        seen = None if self._court is None else self._court.seen
        if seen is None:
            return most_urgent_of_runs(self._urgency, self._block)
        return turns_of_runs(self._urgency, self._nearness, self._block, self._made, seen.part)

    def _refresh(self, sets: IntArray) -> None:
        """Compute the urgency of these contests of each run, shape (runs, …); without contests, of these pairs."""
        members = sets if self._contests is None else self._contests[sets]
        is_there, pair = members >= 0, np.maximum(members, 0)
        run, first_row = (
            np.broadcast_to(column.reshape(-1, *[1] * (pair.ndim - 1)), pair.shape)
            for column in (self._runs, self._first_row)
        )
        n, total, total_sq = (np.where(is_there, column[run, pair], 0.0) for column in self._sums)
        columns = Columns(n, np.zeros(n.shape), total, total_sq, first_row + pair)
        seen = None if self._court is None else self._court.seen
        urgency, nearness = urgency_by(self._policy, seen, columns)
        at = run[is_there], pair[is_there]
        self._urgency[at] = urgency[is_there]
        self._nearness[at] = NEVER if nearness is None else nearness[is_there]
        if self._court is not None and self._court.settled is not None:
            self._urgency[at] = np.where(self._court.settled[at], NEVER, self._urgency[at])


def most_urgent_of_runs(urgency: FloatArray, count: int) -> IntArray:
    """Return the ``count`` most urgent of each row, the most urgent first and ties to the lower index.

    Args:
        urgency: shape (rows, arms).
        count: at least 1, and no more than arms.
    """
    if count == 1:
        return np.asarray(urgency.argmax(axis=1))[:, None]
    rows = -urgency  # np.partition is slow on many equal values at the low end
    last = np.partition(rows, count - 1)[:, count - 1, None]
    row, arm = np.nonzero(rows <= last)
    order = np.lexsort((rows[row, arm], row))
    starts = np.searchsorted(row, np.arange(len(rows)))[:, None]
    return np.asarray(arm[order[starts + np.arange(count)]])


def turns_of_runs(
    urgency: FloatArray, nearness: FloatArray, count: int, made: IntArray, part: FloatArray
) -> IntArray:
    """Return ``count`` arms of each row, :func:`by_turns`; once neither finds any more, the lowest indices follow.

    Args:
        urgency, nearness: shape (rows, arms); NEVER for an arm that may not be asked.
        count: at least 1, and no more than arms.
        made: visits made before, shape (rows,).
        part: as for :func:`by_turns`, shape (rows, 1).
    """
    chosen = []
    for row in range(len(urgency)):
        urgent, near = most_urgent(urgency[row], count), most_urgent(nearness[row], count)
        first = by_turns(urgent, near, made.item(row), part.item(row), count)
        chosen.append(list(dict.fromkeys([*first.tolist(), *range(urgency.shape[1])]))[:count])
    return np.array(chosen)
