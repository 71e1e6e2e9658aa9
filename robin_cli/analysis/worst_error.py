"""The largest error of the scores of a run, estimated or bounded, and whether it has reached its target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from robin_cli.analysis.intervals import ALPHA, largest_reach
from robin_cli.analysis.moderated import is_likely_beyond, likely_worst_error
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace


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
    # All arms but those given up without a rating may be off; all arms before the first rating.
    is_score = (arms.counts > 0) | ~arms.retired_mask
    if not is_score.any():
        is_score = ~is_score
    bound = 0.0
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


@dataclass(frozen=True, slots=True)
class Aim:
    """A target for the worst error, and its present value.

    Attributes:
        error: the target, in points of the scale, or shares of it if there are several.
        now: the estimated worst error, in the same unit; nan while unknown.
        as_share: whether these are shares of the scale.
    """

    error: float
    now: float
    as_share: bool

    @property
    def reached(self) -> bool:
        """Whether the worst error has reached the target."""
        return self.now <= self.error


def has_reached(space: ArmSpace, arms: Arms, error: float) -> bool:
    """Return whether the estimated worst error is at most ``error``; part of the arms usually shows that it is not."""
    kept, sums = ~arms.retired_mask, (arms.counts, arms.totals, arms.totals_sq)
    return not is_likely_beyond(space, kept, *sums, error) and estimated_error(space, arms) <= error
