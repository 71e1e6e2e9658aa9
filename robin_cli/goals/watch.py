"""What a session watches while its run goes on."""

from __future__ import annotations

import math
from collections.abc import Callable

from robin_cli.goals.base import Goal
from robin_cli.model.arms import Arms
from robin_cli.run.manifest import Manifest
from robin_cli.show.words import Bars
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.evidence import certified
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.repeats import Repeats

Standing = tuple[str, str]
"""A name and a value, for displays."""

Counts = Callable[[], LevelCounts]
"""Reads how often each arm got each level; called only for certified decisions."""


def repeats_of(manifest: Manifest, goal: Goal) -> Repeats | None:
    """Return what finds the judges of a run that repeat themselves; None if it asks them for certified decisions."""
    if manifest.own_settings["certify"]:
        return None
    asks_all = goal.asks_all and goal.least_calls == len(goal.space)
    return Repeats(goal.space, manifest.expected, asks_all=asks_all, ends=goal.ends)


class Watch:
    """Watches the goal of a run while a session goes on.

    Args:
        target: the error, or the share of likely wrong decisions, at which the session ends; None or 0 for none.

    Attributes:
        verdicts: the certified decisions by the ratings so far; None without any.
        stop: returns whether the run is over before its budget is spent; None: never.
        decides: whether the run decides.
        repeats: finds judges that repeat themselves; None to ask them all the same.
    """

    def __init__(self, goal: Goal, counts: Counts, target: float | None) -> None:
        evidence = goal.evidence()
        self._goal, self._target, self._bars = goal, target or 0.0, Bars()
        self.verdicts = None if evidence is None else RunVerdicts(evidence, counts())
        self.stop = goal.stopping(self._target) if self._target else None
        self.decides = goal.decides
        self.repeats: Repeats | None = None

    @property
    def may_end_early(self) -> bool:
        """Whether the run may be over before its budget is spent."""
        return self.verdicts is not None or self.stop is not None

    def is_over(self, arms: Arms) -> bool:
        if self._goal.is_reached(arms, self._target):
            return True
        return self.verdicts is not None and self._goal.is_certified(arms, self.verdicts)

    def standing(self, arms: Arms) -> list[Standing]:
        lines = []
        for fact in self._goal.standing(arms, self._target):
            is_known = fact.value is not None and not math.isnan(fact.value)
            course = self._bars.with_next(fact.value) if is_known else ""
            lines.append((fact.label, f"{fact.sentence}{course}"))
        if self.verdicts is not None:
            evidence = self.verdicts.evidence
            sure = int(certified(evidence.log[0], evidence.error_rate).sum())
            lines.append(("certified", f"{sure:,} of {self._goal.things}"))
        return lines
