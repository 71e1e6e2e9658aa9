"""A plan of a pairwise run: the comparisons of a budget, their cost, and the accuracy of the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robin_cli.analysis.pairwise import order_means
from robin_cli.goals.preferring import Preferring
from robin_cli.model.errors import shown
from robin_cli.model.records import number_of
from robin_cli.results.words import finite
from robin_cli.simulation.forecast import RUNS, Outlook
from robin_cli.simulation.scatter import (
    VerdictsBelief,
    preference_half_width,
    scatter_of,
    usual_scatter,
    win_rate_half_width,
)
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import ways_of
from robin_cli.views.plan.forecast import Plan
from robin_cli.views.plan.page import Part, figure, known, ways_sheet, whole

_CALLS_AT_MOST = 20_000
_SYSTEMS_SHOWN = 6


class Rankings(Plan):
    """The plan of a pairwise run. The default budget judges every comparison once in both orders."""

    kind = Preferring
    how_to_pilot = "--pilot 50 asks 50 comparisons first, and plans by them."

    def __init__(self, asked: Asked) -> None:
        super().__init__(
            asked.with_budget(asked.config.budget or max(len(asked.space), asked.least))
        )
        self.goal.check_reach(self.asked.budget)
        assert isinstance(asked.goal, Preferring)  # noqa: S101  # see ``kind``
        self.preferring, self.matches = asked.goal, asked.goal.matches
        told = None if asked.run is None else scatter_of(asked.run)
        pilot = (
            None if asked.run is None or told is None else order_means(asked.run).mean(axis=(1, 2))
        )
        self.scatter = told or usual_scatter(len(asked.space.judges))
        self.belief = self.verdicts = VerdictsBelief(asked.goal, self.scatter, pilot)
        matches, compared = self.matches, self.scatter.comparisons
        systems = f" of {number_of(len(matches.names), 'system')}" * bool(matches.names)
        prompts = number_of(len(np.unique(matches.prompt)), "prompt")
        scheduler = self.asked.scheduler_at(self.asked.budget)
        self.about = f"{number_of(len(matches), 'comparison')}{systems}, {prompts}, by {scheduler}"
        too_few = "the pilot has too few verdicts; " * (asked.pilot is not None)
        self.prior = f"{too_few}assumed: as those of systems that are not far apart"
        if compared:
            self.prior = f"as in {number_of(compared, 'comparison')} of the pilot"
        self.columns = {
            "compared": whole("comparisons_asked"),
            "win rate": known("win_rate_half_width", _half),
            "wrong %": figure("wrong", 100, 1),
        }
        self.evenly = {"wrong %": figure("even_wrong", 100, 1)}
        self.further = {"preference": known("preference_half_width", _half)}

    def foresee(self, scheduler: str, budgets: Sequence[int]) -> Outlook:
        """Return the share of wrong results for some budgets, if the simulation takes only seconds."""
        some = [each for each in budgets if self.space.arms_per_pair <= each <= _CALLS_AT_MOST]
        return super().foresee(scheduler, some) if some and self.verdicts.is_small else Outlook({})

    def figures(self, budget: int) -> dict[str, Any]:
        """Return the comparisons, the widths of win rates and preferences, and the share of wrong results.

        Widths are by formula: large plans, which would take minutes to simulate, have them too.
        """
        matches, an_arm = self.matches, max(1.0, budget / len(self.space))
        compared = min(len(matches), budget // self.space.arms_per_pair)
        width = (
            win_rate_half_width(self.scatter, matches, compared, an_arm)
            if self.preferring.has_win_rates
            else np.nan
        )
        return {
            "comparisons_asked": compared,
            "calls_of_each": an_arm,
            "win_rate_half_width": finite(width),
            "preference_half_width": preference_half_width(self.scatter, an_arm),
            **super().figures(budget),
        }

    def own_facts(self) -> dict[str, Any]:
        """Return the things compared, the variance of preferences, and the ways to make the calls."""
        matches, scatter = self.matches, self.scatter
        return {
            "pairwise": True,
            "attributes": list(self.config.attributes),
            "comparisons": len(matches),
            "prompts": len(np.unique(matches.prompt)),
            "systems": list(matches.names),
            "calls_a_comparison": self.space.arms_per_pair,
            "calls_once": len(self.space),
            "ranks_systems": matches.ranks_systems,
            "decide": self.config.decide,
            "preferences_vary": {
                "between": scatter.between,
                "within": scatter.within,
                "told_by": scatter.comparisons,
            },
            "simulated_runs": RUNS,
            "ways": ways_of(self.calls, self.asked.budget, lambda _: {}),
        }

    def details(self) -> Sequence[Part]:
        """Return the ways to make the calls, and the meaning of the figures."""
        judges, systems = len(self.space.judges), [shown(name) for name in self.matches.names]
        some = ", ".join(systems[:_SYSTEMS_SHOWN]) + ", …" * (len(systems) > _SYSTEMS_SHOWN)
        orders = f"2 orders{f' × {judges} judges' * (judges > 1)}"
        return [
            *ways_sheet(self.facts["ways"], self.asked.budget, {}),
            *[f"Systems: {some}."] * bool(systems),
            f"To ask all once takes {number_of(len(self.space), 'call')}: {orders}.",
            "win rate: half of the 95 % interval, over prompts, of how often a system is preferred, by an even spread.",
            "compared: how many comparisons; evenly: by an even spread of the calls.",
            "preference: half of the likely 95 % interval of one comparison that is asked.",
            f"wrong: simulated, mean of {RUNS} runs; ± is the simulation's own noise. Large plans go without.",
            *[self.preferring.aside] * bool(self.preferring.aside),
        ]


def _half(width: float) -> str:
    return f"± {100 * width:.0f} %"
