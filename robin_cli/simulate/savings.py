"""The share of uniform's calls that another scheduler saves at equal error, read from uniform's curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.policies.registry import BASELINE
from robin_cli.simulate.experiment import Row

_FEWEST_RUNS = 10
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Saving:
    """A share of calls saved, with a 95 % interval over the simulated runs.

    Attributes:
        share: nan if uniform's curve does not reach the error.
        low, high: nan if ``share`` is, or with fewer than 10 runs.
    """

    share: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def saved(rows: Sequence[Row], row: Row) -> Saving:
    """Return the share of uniform's calls that the scheduler of ``row`` saves at the error it reaches.

    It is 1 − budget / B' for the B' at which uniform's mean WCE is the row's. B' is interpolated on uniform's curve, linearly
    in logarithms. The share is negative if uniform is better. The interval is a percentile bootstrap over runs: those of
    uniform, each with its whole curve, and those of the scheduler; beyond uniform's curve it takes the curve's end.
    """
    evenly = [
        other for other in rows if (other.attribute, other.scheduler) == (row.attribute, BASELINE)
    ]
    evenly.sort(key=attrgetter("budget"))
    budgets = np.log([float(even.budget) for even in evenly])
    curve, errors = np.array([even.measured["wce"] for even in evenly]), row.measured["wce"]

    def share(curve: FloatArray, errors: FloatArray, *, is_first: bool) -> float:
        # noise may lift a later point; more calls never hurt
        falling = np.minimum.accumulate(np.log(curve.mean(axis=1)))
        error = math.log(errors.mean())
        if is_first and not falling[-1] <= error <= falling[0]:
            return np.nan
        return float(1 - row.budget / np.exp(np.interp(-error, -falling, budgets)))

    of_all = share(curve, errors, is_first=True)
    if np.isnan(of_all) or len(errors) < _FEWEST_RUNS:
        return Saving(of_all, np.nan, np.nan)
    rng = np.random.default_rng(0)
    picks = (rng.integers(len(errors), size=(2, len(errors))) for _ in range(_RESAMPLES))
    shares = [share(curve[:, a], errors[b], is_first=False) for a, b in picks]
    low, high = np.quantile(shares, [0.025, 0.975])
    return Saving(of_all, float(low), float(high))
