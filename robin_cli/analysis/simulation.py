"""The paper's experiment: schedulers on recorded ratings, many runs side by side.

A simulated judge answers with one of a pair's recorded ratings, drawn with replacement; a pair's true score is the mean of
its recorded ratings. Every run starts anew with draws of its own.

What is asked is what :class:`~robin_cli.scheduling.scheduler.HeapScheduler` asks at one call at a time, where nobody waits for
answers and every answer holds a rating: whole rounds as long as the warm-up lasts, then the smallest key, with refits at the
same numbers of ratings. A contract test holds the two equal, call by call, for every policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.refits import next_refit
from robin_cli.policies.base import Policy
from robin_cli.scheduling.keys import NEVER, adaptive_key

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
    state = _State(ratings, policy, runs, rng, worlds)
    snapshots = []
    for budget in sorted(set(budgets)):
        state.ask_evenly(min(budget, len(ratings.sizes) // worlds * policy.warm_up))
        state.ask_adaptively(budget)
        snapshots.append(state.snapshot())
    return snapshots


class _State:
    """Sums of every run, flat: run r's pair i is at r · width + i, the width padded to whole blocks.

    The smallest key is found in two steps, among the smallest of each block and then in that block: 2√K comparisons where
    the paper's scan makes K.
    """

    def __init__(self, ratings: Ratings, policy: Policy, runs: int, rng: np.random.Generator, worlds: int) -> None:
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
        self._key: FloatArray | None = None
        self._least = np.empty(0)
        self._policy = policy
        self._refit_at = next_refit(0, self._pairs) if policy.refits else NEVER

    def ask_evenly(self, budget: int) -> None:
        """Go on in whole rounds, the pairs in order, up to ``budget`` calls a run."""
        while self._budget < budget:
            start = self._budget % self._pairs
            end = int(min(self._pairs, start + min(budget, self._refit_at) - self._budget))
            pairs = np.arange(start, end)
            ratings = self._ratings.draw(self._first_row[:, None] + pairs, self._rng).ravel()
            at = (self._first[:, None] + pairs).ravel()
            self.n[at] += 1.0
            self.total[at] += ratings
            self.total_sq[at] += ratings * ratings
            self._budget += end - start
            self._key = None
            if self._budget >= self._refit_at:
                self._refit()

    def ask_adaptively(self, budget: int) -> None:
        """Go on by the policy, one call of each run at a time, up to ``budget`` calls a run."""
        while self._budget < budget:
            steps = min(_DRAWS_AT_A_TIME, budget - self._budget)
            luck = self._rng.random((steps, self._runs))
            for step in range(steps):
                if self._key is None:
                    self._build()
                self._step(luck[step])
                self._budget += 1
                if self._budget >= self._refit_at:
                    self._refit()

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
        assert self._key is not None  # noqa: S101  # _build came first
        block = self._least.argmin(axis=1)
        rows = np.arange(self._runs)
        in_block = self._key[rows, block]
        place = in_block.argmin(axis=1)
        pair = block * _BLOCK + place
        row = self._first_row + pair
        rating = self._ratings.values[row, (luck * self._ratings.sizes[row]).astype(np.int64)]
        at = self._first + pair
        n = self.n[at] + 1.0
        total = self.total[at] + rating
        total_sq = self.total_sq[at] + rating * rating
        self.n[at], self.total[at], self.total_sq[at] = n, total, total_sq
        in_block[rows, place] = adaptive_key(self._policy, n, np.zeros(self._runs), total, total_sq, row)
        self._key[rows, block] = in_block
        self._least[rows, block] = in_block.min(axis=1)

    def _build(self) -> None:
        n, total, total_sq = self._sums()
        rows = self._first_row[:, None] + np.arange(self._pairs)
        key = np.full((self._runs, self._width), NEVER)
        key[:, : self._pairs] = adaptive_key(self._policy, n, np.zeros(n.shape), total, total_sq, rows)
        self._key = key.reshape(self._runs, self._blocks, _BLOCK)
        self._least = self._key.min(axis=2)

    def _refit(self) -> None:
        self._policy = self._policy.fitted(*self._sums())
        self._refit_at = next_refit(self._budget, self._pairs)
        self._key = None

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """n, Σx and Σx², shape (runs, K)."""
        shape = (self._runs, self._width)
        n, total, total_sq = (each.reshape(shape)[:, : self._pairs] for each in (self.n, self.total, self.total_sq))
        return n, total, total_sq
