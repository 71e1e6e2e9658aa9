"""What the goals of a pairwise run have in common: each call compares two responses in one order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_view, no_ratings
from robin_cli.goals.comparisons_watch import ComparisonsWatch
from robin_cli.goals.found import Builder, Found, View
from robin_cli.goals.preferences import Preferences, headlines
from robin_cli.goals.tables.comparisons import comparison_table
from robin_cli.goals.tables.preferences import preferred_table
from robin_cli.goals.tables.ranking import ranking_table
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches
from robin_cli.model.records import number_of
from robin_cli.model.space import ArmSpace
from robin_cli.planning.costs import Per
from robin_cli.results.tables import Table
from robin_cli.storage.reader import RunData


def _comparisons(found: Preferences, view: View, *, by_judge: bool) -> Table:
    check_view(sort=view.sort, wide=view.wide)
    return comparison_table(found, with_text=view.with_text, by_judge=by_judge)


@dataclass(frozen=True)
class Preferring(Goal):
    """What comparisons of two responses say, each asked in both orders."""

    noun: ClassVar[str] = "verdict"
    rows: ClassVar[str] = "comparisons"
    results: ClassVar[str] = "preferences"
    asks_all: ClassVar[bool] = False
    asks_each: ClassVar[bool] = True
    """Whether a comparison that is not asked is missed."""

    space: ArmSpace
    matches: Matches

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": partial(_comparisons, by_judge=False),
        "judge-scores": partial(_comparisons, by_judge=True),
        "ranking": lambda found, view: ranking_table(
            found, view.notify, by_length=view.by_length, in_python=view.in_python
        ),
        "preferences": lambda found, view: preferred_table(found, view.notify, messages=view.messages),
    }

    def found(self, run: RunData) -> Found:
        """Return what ``run`` says."""
        return Preferences(run, self)

    def headline(self, read: Callable[[], RunData]) -> list[str]:
        """Return the order's effect, and who leads."""
        return headlines(self.found(read()).facts())

    def has_none(self, run: RunData, what: str, *, in_python: bool) -> str:
        """Say why there is no table of ratings, and what there is."""
        return no_ratings(run.path, what, in_python=in_python)

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
