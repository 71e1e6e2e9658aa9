"""The largest error of the scores of a run, estimated or bounded, and whether it has reached its target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.intervals import ALPHA, largest_reach, reaches_beyond
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import is_likely_beyond, likely_worst_error
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace

_ROWS_AT_A_TIME = 2**11


def estimated_error(space: ArmSpace, arms: Arms) -> float:
    """Return the likely worst error of the arms that are not given up, see :func:`likely_worst_error`; nan while unknown."""
    return likely_worst_error(space, ~arms.retired_mask, arms.counts, arms.totals, arms.totals_sq)


def error_bound(
    space: ArmSpace, arms: Arms, counts: Iterable[tuple[Scale, IntArray, FloatArray]]
) -> float:
    """Return a bound on the error of all scores, with probability at least 1 − ALPHA whenever you look; in their units.

    Args:
        counts: those of :func:`~robin_cli.storage.fold.counts_by_scale`.
    """
    bound, is_score = 0.0, _have_scores(arms)
    for scale, mine, of_levels in counts:
        # For all arms at once: each scale may fail in proportion to its share of them.
        there = is_score[mine]
        if there.any():
            rows = of_levels if there.all() else of_levels[there]
            reach = largest_reach(
                rows, scale.low, scale.high, alpha=ALPHA * there.sum() / is_score.sum()
            )
            bound = max(bound, float(reach / space.units[mine[0]]))
    return bound


def _have_scores(arms: Arms) -> NDArray[np.bool_]:
    """Return which arms have a score that may be off: all but those given up without a rating; all before the first rating."""
    there = (arms.counts > 0) | ~arms.retired_mask
    return there if there.any() else ~there


@dataclass(frozen=True, slots=True)
class Aim:
    """A target for the worst error, and its present value.

    Attributes:
        error: the target, in points of the scale, or shares of it if there are several.
        guaranteed: whether it is for the bound on all scores at once, not for the estimate.
        now: in the same unit; nan while unknown.
        as_share: whether these are shares of the scale.
    """

    error: float
    guaranteed: bool
    now: float
    as_share: bool

    @property
    def reached(self) -> bool:
        """Whether the worst error has reached the target."""
        return self.now <= self.error


class Target:
    """A target for the worst error, tested often: a part of the arms usually shows that it is not reached.

    Attributes:
        error: in the units of ``space``.
        guaranteed: whether it is for the bound on all scores at once, not for the estimate.

    Args:
        counts: of the arms' ratings, kept up to date; None for the estimate.
    """

    def __init__(self, space: ArmSpace, error: float, counts: LevelCounts | None) -> None:
        self.error = error
        self.guaranteed = counts is not None
        self._space = space
        self._counts = counts
        self._distance = [error * float(space.units[mine[0]]) for _, mine in space.by_scale()]
        # For each scale, the rows beyond the target at the last full look, less those found within since.
        self._beyond = [np.arange(len(mine)) for _, mine in space.by_scale()]

    def worst_error(self, arms: Arms) -> float:
        """Return the error to compare with the target, as the run's status shows it: nan while unknown."""
        if self._counts is None:
            return estimated_error(self._space, arms)
        return error_bound(self._space, arms, self._counts.by_scale())

    def aim(self, arms: Arms) -> Aim:
        """Return the target with its present value."""
        return Aim(
            self.error, self.guaranteed, self.worst_error(arms), self._space.has_several_scales
        )

    def is_reached(self, arms: Arms) -> bool:
        """Return whether the worst error is at most the target."""
        if self._counts is None:
            kept, sums = ~arms.retired_mask, (arms.counts, arms.totals, arms.totals_sq)
            is_beyond = is_likely_beyond(self._space, kept, *sums, self.error)
        else:
            is_beyond = self._is_beyond(self._counts, _have_scores(arms))
        return not is_beyond and self.worst_error(arms) <= self.error

    def _is_beyond(self, counts: LevelCounts, is_score: NDArray[np.bool_]) -> bool:
        """Return whether an arm's bound is above the target: earlier ones are tested first, and one is enough."""
        alpha = ALPHA / is_score.sum()
        groups = list(zip(counts.by_scale(), self._distance, strict=True))

        def beyond_among(number: int, rows: IntArray) -> IntArray:
            (scale, mine, of_levels), distance = groups[number]
            rows = rows[is_score[mine[rows]]]
            return rows[
                reaches_beyond(of_levels[rows], scale.low, scale.high, distance, alpha=alpha)
            ]

        for number in range(len(groups)):
            while len(rows := self._beyond[number]):
                found = beyond_among(number, rows[:_ROWS_AT_A_TIME])
                self._beyond[number] = np.concatenate([found, rows[_ROWS_AT_A_TIME:]])
                if len(found):
                    return True
        for number, ((_, mine, _), _) in enumerate(groups):
            starts = range(0, len(mine), _ROWS_AT_A_TIME)
            parts = (np.arange(start, min(start + _ROWS_AT_A_TIME, len(mine))) for start in starts)
            self._beyond[number] = np.concatenate([beyond_among(number, part) for part in parts])
        return any(map(len, self._beyond))
