"""The paper's experiment: schedulers on recorded ratings, many runs side by side.

A simulated judge answers with one of a pair's recorded ratings, drawn with replacement; a pair's true score is the mean of
its recorded ratings. Every run starts anew with draws of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.allocation.policies import GROWTH, SPREAD, Policy, PooledPolicy, Uniform

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
    """

    budget: int
    n: IntArray
    estimates: FloatArray
    wce: FloatArray
    mean_error: FloatArray


def simulate(
    ratings: Ratings, policy: Policy, budgets: Sequence[int], runs: int, rng: np.random.Generator, *, worlds: int = 1
) -> list[Snapshot]:
    """Run ``policy`` for the largest of ``budgets``, ``runs`` times at once, one call after another.

    Args:
        worlds: ``ratings`` holds so many sets of K pairs, one after another, and run r is made on set r mod ``worlds``; then a
            policy that knows variances knows those of all sets, shape (worlds · K,).

    Returns:
        A snapshot at each of ``budgets``, in rising order.
    """
    state = _State(ratings, runs, rng, worlds)
    snapshots = []
    warm = len(ratings.sizes) // worlds * policy.warm_up
    for budget in sorted(set(budgets)):
        state.ask_evenly(budget if isinstance(policy, Uniform) else min(budget, warm))
        if budget > warm and not isinstance(policy, Uniform):
            state.ask_adaptively(policy, budget)
        snapshots.append(state.snapshot())
    return snapshots


class _State:
    """Sums of every run, flat: run r's pair i is at r · width + i, the width padded to whole blocks.

    The largest priority is found in two steps, among the largest of each block and then in that block: 2√K comparisons
    where the paper's scan makes K.
    """

    def __init__(self, ratings: Ratings, runs: int, rng: np.random.Generator, worlds: int) -> None:
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
        self._budget = 0
        self._first = np.arange(runs) * self._width
        self._priority: FloatArray | None = None
        self._best = np.empty(0)
        self._policy: Policy | None = None
        self._refit_at = 0.0

    def ask_evenly(self, budget: int) -> None:
        """Go on in whole rounds, the pairs in order, up to ``budget`` calls a run."""
        while self._budget < budget:
            start = self._budget % self._pairs
            end = min(self._pairs, start + budget - self._budget)
            pairs = np.arange(start, end)
            ratings = self._ratings.draw(self._first_row[:, None] + pairs, self._rng)
            self._count((self._first[:, None] + pairs).ravel(), ratings.ravel())
            self._budget += end - start

    def ask_adaptively(self, policy: Policy, budget: int) -> None:
        """Go on by ``policy``, one call of each run at a time, up to ``budget`` calls a run."""
        while self._budget < budget:
            steps = min(_DRAWS_AT_A_TIME, budget - self._budget)
            luck = self._rng.random((steps, self._runs))
            for step in range(steps):
                if self._priority is None or (isinstance(policy, PooledPolicy) and self._budget >= self._refit_at):
                    self._prioritise(policy)
                self._step(luck[step])
                self._budget += 1

    def snapshot(self) -> Snapshot:
        shape = (self._runs, self._width)
        n = self.n.reshape(shape)[:, : self._pairs]
        with np.errstate(invalid="ignore"):
            estimates = self.total.reshape(shape)[:, : self._pairs] / n
        errors = np.abs(estimates - self._ratings.means.reshape(-1, self._pairs)[self._world])
        if self._ratings.units is not None:
            errors /= self._ratings.units.reshape(-1, self._pairs)[self._world]
        return Snapshot(self._budget, n.astype(np.int64), estimates, errors.max(axis=1), errors.mean(axis=1))

    def _step(self, luck: FloatArray) -> None:
        assert self._priority is not None  # noqa: S101  # _prioritise came first
        assert self._policy is not None  # noqa: S101
        block = self._best.argmax(axis=1)
        rows = np.arange(self._runs)
        in_block = self._priority[rows, block]
        place = in_block.argmax(axis=1)
        pair = block * _BLOCK + place
        row = self._first_row + pair
        rating = self._ratings.values[row, (luck * self._ratings.sizes[row]).astype(np.int64)]
        at = self._first + pair
        n = self.n[at] + 1.0
        total = self.total[at] + rating
        total_sq = self.total_sq[at] + rating * rating
        self.n[at], self.total[at], self.total_sq[at] = n, total, total_sq
        priority = self._policy.priority(n, np.zeros(self._runs), total, total_sq, row)
        in_block[rows, place] = priority + SPREAD / n
        self._priority[rows, block] = in_block
        self._best[rows, block] = in_block.max(axis=1)

    def _prioritise(self, policy: Policy) -> None:
        shape = (self._runs, self._width)
        n, total, total_sq = (each.reshape(shape)[:, : self._pairs] for each in (self.n, self.total, self.total_sq))
        rows = self._first_row[:, None] + np.arange(self._pairs)
        if isinstance(policy, PooledPolicy):
            policy = policy.fitted(n, total, total_sq)
            self._refit_at = self._budget * GROWTH
        priority = np.full(shape, -np.inf)
        self._policy = policy
        priority[:, : self._pairs] = policy.priority(n, np.zeros(n.shape), total, total_sq, rows) + SPREAD / n
        self._priority = priority.reshape(self._runs, self._blocks, _BLOCK)
        self._best = self._priority.max(axis=2)

    def _count(self, at: IntArray, rating: FloatArray) -> None:
        self.n[at] += 1.0
        self.total[at] += rating
        self.total_sq[at] += rating * rating
        self._priority = None
