"""A plan of decisions: the calls until everything is decided, and the share of wrong decisions before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from robin_cli.goals.own.decide import Deciding
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.policies.registry import DEFAULT
from robin_cli.simulation.forecast import SHARE_WITHIN, Needed, Outlook, calls_for, calls_to_the_end
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.forecast import NOISE, Plan, foreseen, found
from robin_cli.views.plan.page import Part, figure, whole

_WRONG = (0.01, 0.001)
"""Shares of wrong decisions to find the calls for."""


class Decisions(Plan):
    """The plan of a run that decides, and ends when everything is decided; those calls are the default budget."""

    kind = Deciding

    def __init__(self, asked: Asked) -> None:
        if asked.config.budget is None:
            asked = asked.with_budget(asked.least)
            end = foreseen(asked, asked.scheduler, [asked.least]).end
            asked = asked.with_budget(asked.least if end is None else max(asked.least, end.calls))
        super().__init__(asked)
        assert isinstance(asked.goal, Deciding)  # noqa: S101  # see ``kind``
        self.task = asked.goal.task
        wrong, certified = figure("wrong", 100), figure("certified", 100, 0)
        self.columns = {"spent": whole("calls"), "wrong %": wrong, "certified %": certified}
        self.evenly = {
            "wrong %": figure("even_wrong", 100),
            "certified %": figure("even_certified", 100, 0),
        }
        self.first = [self._first()]

    def spent(self, budget: int) -> int:
        """Return the average calls of a run with ``budget``, which may end early."""
        expected = self.outlooks[0].expected.get(budget)
        return (
            budget
            if expected is None
            else max(self.asked.least, min(budget, round(expected.figure("calls_mean"))))
        )

    def own_facts(self) -> dict[str, Any]:
        """Return the decisions to make, and the calls until all are made."""
        return {**super().own_facts(), "decide": self.decided}

    @cached_property
    def decided(self) -> dict[str, Any]:
        """Return the decisions to make, and the calls until all are made."""
        task, asked, (mine, evenly) = self.task, self.asked, (each.end for each in self.outlooks)
        assert mine is not None  # noqa: S101  # decisions have an end
        assert evenly is not None  # noqa: S101
        return {
            "decide": self.config.decide,
            "of": "pairs" if task.group is None else "groups",
            "decisions": task.decisions,
            "margins": dict(zip(task.space.attributes, task.decision.margins, strict=True)),
            "error_rate": task.decision.error_rate,
            **found("calls_to_end", mine, evenly, asked.least),
            "searched_to": calls_to_the_end(len(self.space)),
            "by_pilot": asked.pilot is not None
            and asked.run is not None
            and self.goal.found(asked.run).is_over,
        }

    @cached_property
    def calls_for(self) -> list[dict[str, Any]]:
        """Return the calls for some shares of wrong decisions."""
        return [self.needed("wrong", each, _calls_for_wrong) for each in _WRONG]

    def _first(self) -> str:
        """Return the calls until everything is decided, when such a run ends."""
        decided = self.decided
        what = f"{decided['decide']}, for {number_of(decided['decisions'], decided['of'][:-1])}"
        later = (
            decided["even_calls_to_end_are"] == "about"
            or decided["even_calls_to_end"] > decided["calls_to_end"]
        )
        often = f" or fewer in {10 * SHARE_WITHIN:.0f} of 10 cases"
        calls = self.calls_text("calls_to_end", decided, says_even=later, within=often)
        return f"To decide everything ({what}) takes {calls}."

    def details(self) -> Sequence[Part]:
        """Return the calls for some shares of wrong decisions, and the meaning of the figures."""
        margins = sorted(set(self.task.decision.margins))
        margin = f"the margin of {margins[0]:g}" if len(margins) == 1 else "its margin"
        late = "; most of them come at once, near the end, for till then calls go where it is least clear"
        evenly = "evenly: by an even spread of the calls"
        is_late, rate = self.facts["scheduler"] == DEFAULT, self.task.decision.error_rate
        return [
            *(
                f"For {100 * each['wrong']:g} % of wrong decisions you need {self.calls_text('calls', each)}."
                for each in self.calls_for
                if each["calls"] is not None
            ),
            "spent: on average, for a run ends when everything is decided.",
            f"wrong: of all decisions by the mean ratings alone, by more than {margin}; {evenly}.",
            f"certified: at most {100 * rate:g} % of these are wrong on average, guaranteed{late * is_late}.",
            NOISE,
            *["Without ratings of these pairs this is a rough forecast."]
            * (self.asked.told_by is None),
            *super().details(),
        ]

    def way_on(self) -> str:
        """Return the next command; none if the pilot decided everything."""
        if self.decided["by_pilot"]:
            over = "The pilot decided everything: nothing is left to be spent."
            return f"{over} robin export {typed(self.asked.pilot)} has it."
        return super().way_on()


def _calls_for_wrong(outlook: Outlook, wrong: float) -> Needed | None:
    """Return the calls for a share of wrong decisions; None if all is decided before the share is reached."""
    by_calls = {
        max(1, round(each.figure("calls_mean"))): each for each in outlook.expected.values()
    }
    read_off = calls_for(wrong, dict(sorted(by_calls.items())), "wrong")
    ends = outlook.end is not None and outlook.end.relation == "about"
    return None if read_off.relation == "more than" and ends else read_off
