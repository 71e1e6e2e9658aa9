"""The expected error of the worst score of a run, and whether it has reached its target."""

from __future__ import annotations

from dataclasses import dataclass

from robin_cli.analysis.moderated import expected_worst_error, is_likely_beyond
from robin_cli.model.arms import Arms
from robin_cli.model.space import ArmSpace


def worst_error(space: ArmSpace, arms: Arms) -> float:
    """Return :func:`expected_worst_error` of the arms that are not given up; nan while unknown."""
    return expected_worst_error(space, ~arms.retired_mask, arms.counts, arms.totals, arms.totals_sq)


@dataclass(frozen=True, slots=True)
class Aim:
    """A target for the expected error of the worst score, and its present value.

    Attributes:
        error: the target, in points of the scale, or shares of it if there are several.
        now: the expected error of the worst score, in the same unit; nan while unknown.
        as_share: whether these are shares of the scale.
    """

    error: float
    now: float
    as_share: bool

    @property
    def reached(self) -> bool:
        """Whether it has reached the target."""
        return self.now <= self.error


def has_reached(space: ArmSpace, arms: Arms, error: float) -> bool:
    """Return whether :func:`worst_error` is at most ``error``; part of the arms usually shows that it is not."""
    kept, sums = ~arms.retired_mask, (arms.counts, arms.totals, arms.totals_sq)
    return not is_likely_beyond(space, kept, *sums, error) and worst_error(space, arms) <= error
