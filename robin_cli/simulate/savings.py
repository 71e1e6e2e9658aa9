"""The share of uniform's calls that another scheduler saves at equal error, read from uniform's curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def saved(rows: Sequence[Row], attribute: str, scheduler: str, budget: int) -> Saving:
    """Return the share of uniform's calls that ``scheduler`` saves at the error it reaches with ``budget``.

    It is 1 − budget / B' for the B' at which uniform's mean WCE is the scheduler's at ``budget``. B' is interpolated on
    uniform's curve, linearly in logarithms. The share is negative if uniform is better. The interval is a percentile bootstrap
    over runs: those of uniform, each with its whole curve, and those of the scheduler.
    """
    curve = sorted(
        (row for row in rows if (row.attribute, row.scheduler) == (attribute, BASELINE)),
        key=lambda row: row.budget,
    )
    mine = next(
        row
        for row in rows
        if (row.attribute, row.scheduler, row.budget) == (attribute, scheduler, budget)
    )
    budgets = np.log(np.array([row.budget for row in curve], dtype=np.float64))
    evenly, errors = np.array([row.measured["wce"] for row in curve]), mine.measured["wce"]
    share = _share(
        budgets, np.log(evenly.mean(axis=1)), math.log(errors.mean()), budget, beyond=np.nan
    )
    if np.isnan(share) or len(errors) < _FEWEST_RUNS:
        return Saving(share, np.nan, np.nan)
    rng = np.random.default_rng(0)
    picks = (rng.integers(len(errors), size=(2, len(errors))) for _ in range(_RESAMPLES))
    shares = [
        _share(
            budgets,
            np.log(evenly[:, one].mean(axis=1)),
            math.log(errors[other].mean()),
            budget,
            beyond=None,
        )
        for one, other in picks
    ]
    low, high = np.quantile(shares, [0.025, 0.975])
    return Saving(share, float(low), float(high))


def _share(
    budgets: FloatArray, evenly: FloatArray, error: float, budget: int, *, beyond: float | None
) -> float:
    """Return the share saved, from logarithms; beyond uniform's curve ``beyond``, or for None the curve's end."""
    falling = np.minimum.accumulate(evenly)  # noise may lift a later point; more calls never hurt
    if beyond is not None and not falling[-1] <= error <= falling[0]:
        return beyond
    return float(1 - budget / np.exp(np.interp(-error, -falling, budgets)))
