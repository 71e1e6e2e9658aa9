"""Two runs over the same pairs: how far their scores are apart, and where that is more than noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.intervals import sum_intervals
from robin_cli.analysis.scores import Scores, rated_parts, score
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs, A and B, say of what both rate: shape (rows,) each, in A's order.

    Attributes:
        scores: all of A's, of which ``rows`` are in both.
        alone: how many scores only A, and only B, has.
        a, b, n_a, n_b: the scores and how many ratings each has.
        low, high: the ends of the interval for A − B, at least 95 %, each row for itself.
    """

    scores: Scores
    rows: IntArray
    alone: tuple[int, int]
    a: FloatArray
    b: FloatArray
    n_a: FloatArray
    n_b: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def difference(self) -> FloatArray:
        """A − B."""
        return self.a - self.b

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Where the interval does not contain 0."""
        return (self.low > 0) | (self.high < 0)

    def by_attribute(self) -> dict[str, Comparison]:
        """Each attribute by itself: a mean over attributes, perhaps of different scales, says nothing."""
        names = np.array(self.scores.columns["attribute"])[self.rows]
        arrays = ("rows", "a", "b", "n_a", "n_b", "low", "high")
        return {
            str(name): replace(self, **{each: getattr(self, each)[names == name] for each in arrays})
            for name in dict.fromkeys(names.tolist())
        }


def compare(a: RunData, b: RunData) -> Comparison:
    """The scores that both runs have, by pair and attribute."""
    mine, theirs = score(a), score(b)
    known = _by_name(theirs)
    both = [(row, known[name]) for name, row in _by_name(mine).items() if name in known]
    rows_a, rows_b = np.array(both, dtype=np.int64).reshape(-1, 2).T
    (mean_a, n_a), (mean_b, n_b) = (
        [np.asarray(scores.columns[name], dtype=np.float64)[rows] for name in ("score", "n")]
        for scores, rows in ((mine, rows_a), (theirs, rows_b))
    )
    alone = (len(mine) - len(both), len(theirs) - len(both))
    low, high = _differences(a, b, rows_a, rows_b)
    return Comparison(mine, rows_a, alone, mean_a, mean_b, n_a, n_b, low, high)


def _differences(a: RunData, b: RunData, rows_a: IntArray, rows_b: IntArray) -> tuple[FloatArray, FloatArray]:
    """The intervals of A − B for these rows of each; rows of one scale at a time."""
    low, high = np.empty(len(rows_a)), np.empty(len(rows_a))
    of_b = list(rated_parts(b))
    for theirs, positive in rated_parts(a):
        for others, negative in of_b:
            both = np.flatnonzero(np.isin(rows_a, theirs) & np.isin(rows_b, others))
            if len(both):
                at_a, at_b = np.searchsorted(theirs, rows_a[both]), np.searchsorted(others, rows_b[both])
                parts = [replace(each, counts=each.counts[at_a]) for each in positive]
                parts += [replace(each, counts=each.counts[at_b], weight=-each.weight) for each in negative]
                low[both], high[both] = sum_intervals(parts)
    return low, high


def _by_name(scores: Scores) -> dict[tuple[str, str], int]:
    names = zip(scores.columns["pair_id"], scores.columns["attribute"], strict=True)
    return {(str(pair), str(attribute)): row for row, (pair, attribute) in enumerate(names)}
