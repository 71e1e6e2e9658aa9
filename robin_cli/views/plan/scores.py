"""A plan of scores: their errors, and the budget for an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.goals.own.estimate import Estimate
from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE, policy_named
from robin_cli.results.words import AT_TARGET
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import budget_for, calls_for, calls_of_a_search
from robin_cli.simulation.runs import round_ends_of
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.calls import ways_of
from robin_cli.views.plan.forecast import NOISE, Plan, foreseen, found
from robin_cli.views.plan.page import Part, figure, ways_sheet

_ERRORS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""


class Scores(Plan):
    """The plan of a run that estimates scores; its budget may be that for an error."""

    kind = Estimate
    multiples = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)

    def __init__(self, asked: Asked) -> None:
        self.target = _target(asked)
        if asked.config.budget is None and self.target is not None:
            asked = asked.with_budget(max(asked.least, self.target["calls"]))
        super().__init__(asked)
        self.first = [] if self.target is None else [self._target_text(self.target)]
        unit: tuple[float, int, str] = (
            (100, 1, " %") if asked.space.has_several_scales else (1, 2, "")
        )
        self.columns = {
            "largest error": figure("worst_error", *unit),
            "average": figure("mean_error", *unit),
        }
        self.evenly = {"largest error": figure("even_worst_error", *unit)}

    def own_facts(self) -> dict[str, Any]:
        """Return the budget for an error, and the ways to make the calls, too."""
        return {**super().own_facts(), "for_error": self.target, "ways": self.ways}

    @cached_property
    def calls_for(self) -> list[dict[str, Any]]:
        """Return the calls for some errors."""
        scale = self.space.scales[0]
        width = 1.0 if self.space.has_several_scales else float(scale.high - scale.low)
        errors = [float(f"{share * width:.1g}") for share in _ERRORS]
        return [
            self.needed(
                "worst_error", each, lambda outlook, error: calls_for(error, outlook.expected)
            )
            for each in errors
        ]

    @cached_property
    def ways(self) -> list[dict[str, Any]]:
        """Return the results of the budget with each way to make the calls."""
        return ways_of(self.calls, self.asked.budget, self._reached)

    def _reached(self, config: Settings) -> dict[str, Any]:
        way, rounds, budget = replace(self.asked, config=config), config.rounds, self.asked.budget
        same = way.rounds == self.asked.rounds
        outlook = self.outlooks[0] if same else foreseen(way, way.scheduler, [budget])
        policy = way.policy(budget, np.ones(len(self.space)))
        if (
            policy is not None and way.rounds is not None
        ):  # what it wants before it looks at any answer makes one
            rounds = len(round_ends_of(policy, budget, len(self.space), rounds))
        return {
            "scheduler": way.scheduler_at(budget),
            "rounds": rounds if config.batch else None,
            **self.measured(outlook.expected.get(budget)),
        }

    def details(self) -> Sequence[Part]:
        """Return the ways, the calls for some errors, and the meaning of errors and of this run's."""
        config, space, lines = self.config, self.space, []
        needed = [] if self.target is not None else self.calls_for
        if beyond := [each for each in needed if each["calls_are"] == "more than"]:
            lines.append(
                f"--for-error {beyond[0]['worst_error']:g} looks for it beyond the largest budget here."
            )
        if config.target_error is not None:
            lines.append(
                f"--target-error {config.target_error:g}: robin judge stops there, and what is left of the budget is not spent"
                f"; {AT_TARGET}."
            )
        lines += [
            "largest error: how far the worst score is from the judge's own mean rating; average: over all pairs.",
            NOISE,
        ]
        if space.has_several_scales:
            lines.append(
                "These attributes have several scales: errors are shares of the width of each one's own."
            )
        if len(space.judges) > 1:
            lines.append("These are errors of each judge's scores; those of the panel are smaller.")
        half = "Where the endpoint has them: they are taken to cost half."
        return [
            *ways_sheet(self.ways, self.asked.budget, self.columns),
            *[half] * (bool(self.ways) and "--price-in" in str(self.calls.price)),
            "",
            *(
                f"For a largest error of {self._point(each['worst_error'])} you need {self.calls_text('calls', each)}."
                for each in needed
            ),
            *lines,
            *super().details(),
        ]

    def _target_text(self, target: Mapping[str, Any]) -> str:
        """Return the budget for an error, first of all, because the user asked for only that."""
        error = f"{'an average' if target['of'] == 'mean' else 'a largest'} error of {self._point(target['error'])}"
        if target["calls_are"] != "more than":
            return f"For {error} you need {self.calls_text('calls', target)}."
        is_open = target["calls_low"] < target["calls"]
        noise = f"; by the simulation's own noise, {target['calls_low']:,} may do" * is_open
        evenly = (
            ""
            if self.is_even
            else f"; spread evenly: {target['even_calls_are']} {target['even_calls']:,}"
        )
        calls = number_of(target["searched_to"], "call")
        return (
            f"For {error} you need more than {calls}: up to there it was searched{noise}{evenly}."
        )

    def _point(self, error: float) -> str:
        return f"{100 * error:g} %" if self.space.has_several_scales else f"{error:g}"


def _target(asked: Asked) -> dict[str, Any] | None:
    """Return the budget for an error, and that of an even spread; for the largest error if the run would stop at it."""
    error = asked.config.target_error if asked.for_error is None else asked.for_error
    if error is None:
        return None
    average = asked.for_error is not None and asked.config.wanted_objective == "mean-error"
    unsaid = replace(asked, config=replace(asked.config, budget=None))
    mine, evenly = (
        budget_for(
            *(error, asked.belief, unsaid.policy_at(name), np.random.default_rng(SEED)),
            least=asked.least,
            measure="mean" if average else "worst",
            evenly=policy_named(name).evenly,
            rounds=asked.rounds,
        )
        for name in (asked.scheduler, BASELINE)
    )
    return {
        "error": error,
        "of": "mean" if average else "worst",
        **found("calls", mine, evenly),
        "searched_to": max(asked.least, calls_of_a_search(len(asked.space))),
    }
