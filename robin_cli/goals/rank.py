"""Goal: the ranking of three systems or more, by comparisons of two responses at a time."""

from __future__ import annotations

from typing import ClassVar

from robin_cli.goals.preferring import Preferring


class Rank(Preferring):
    """The order of the systems."""

    asks_each: ClassVar[bool] = False

    @property
    def fewest(self) -> tuple[int, str]:
        """A comparison for each system but one."""
        count = len(self.matches.names)
        return count - 1, f"a comparison for each of {count} systems but one"
