"""What a session looks at that asks comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from robin_cli.goals.watching import Conclusion, Fact, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.matches import Compared, Matches
from robin_cli.results.words import compared_text


@dataclass(frozen=True, slots=True)
class ComparisonsEnding:
    """How many comparisons were asked."""

    compared: Compared
    is_over: bool = False

    def lines(self, at: Conclusion) -> list[str]:
        """Return how many comparisons were asked, and how to go on."""
        return [f"{compared_text(self.compared)}; {at.left if self.is_over else f'to go on: {at.again()}'}"]


class ComparisonsWatch(Watch):
    """Watches how many comparisons were asked."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches

    def ending(self, arms: Arms) -> ComparisonsEnding:
        """Return how far the run came."""
        return ComparisonsEnding(self._matches.compared(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return how many comparisons were asked."""
        return [("compared", compared_text(self._matches.compared(arms)))]
