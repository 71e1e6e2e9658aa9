"""Goal: the ranking of three systems or more, by comparisons of two responses at a time."""

from __future__ import annotations

from typing import ClassVar, Self

from robin_cli.goals.preferring import Preferring
from robin_cli.goals.sources import Source


class Rank(Preferring):
    """The order of the systems."""

    asks_each: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Source) -> Self | None:
        """Return the goal where three systems or more are compared."""
        if not source.is_pairwise or source.own["decide"] is not None or not source.matches.ranks_systems:
            return None
        return cls(source.space, source.matches)

    @property
    def fewest(self) -> tuple[int, str]:
        """A comparison for each system but one."""
        count = len(self.matches.names)
        return count - 1, f"a comparison for each of {count} systems but one"
