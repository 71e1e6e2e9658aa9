"""What the goals of a pairwise run have in common: each call compares two responses in one order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from robin_cli.goals.base import Conclusion, Counts, Fact, Goal, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Compared, Matches
from robin_cli.model.records import number_of
from robin_cli.model.space import ArmSpace
from robin_cli.planning.costs import Per
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


@dataclass(frozen=True)
class Preferring(Goal):
    """What comparisons of two responses say, each asked in both orders."""

    noun: ClassVar[str] = "verdict"
    asks_all: ClassVar[bool] = False
    asks_each: ClassVar[bool] = True
    """Whether a comparison that is not asked is missed."""

    space: ArmSpace
    matches: Matches

    @property
    def data(self) -> Mapping[str, Any]:
        """How many systems the data names."""
        return {"systems": len(self.matches.names)} if self.matches.names else {}

    @property
    def fewest(self) -> tuple[int, str]:
        """The fewest comparisons that say anything at all, and what they are."""
        return 1, "one comparison"

    def check_reach(self, budget: int) -> None:
        """InputError if ``budget`` calls do not ask enough comparisons in both orders to say anything at all."""
        comparisons, what = self.fewest
        if budget < (least := self.space.arms_per_pair * comparisons):
            judges = f" by {len(self.space.judges)} judges" if len(self.space.judges) > 1 else ""
            raise InputError(
                f"--budget {budget}: does not pay for {what} in both orders{judges}; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        """Return how many comparisons ``budget`` calls ask, where that is not all."""
        asked = budget // self.space.arms_per_pair
        if asked >= len(self.matches) or not self.asks_each:
            return ""
        return (
            f"the budget of {budget:,} asks {asked:,} of {number_of(len(self.matches), 'comparison')} in both orders, drawn at "
            "random; the others get no preference"
        )

    @property
    def per(self) -> Per:
        """By what all arms of a comparison cost."""
        return Per.PAIR

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Watch how many comparisons were asked."""
        del counts, own, target, guaranteed  # settings refuse an error to stop at beside comparisons
        return ComparisonsWatch(self.matches)
