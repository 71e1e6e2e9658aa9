"""A plan of a pairwise run: how many comparisons a budget asks, what that takes, and how sure it makes them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.analysis.forecast import RUNS, foresee
from robin_cli.analysis.goals import Goal, goal_of
from robin_cli.analysis.pairwise import order_means
from robin_cli.analysis.scatter import (
    FEWEST,
    VerdictsBelief,
    preference_half_width,
    scatter_of,
    usual_scatter,
    win_rate_half_width,
)
from robin_cli.datasets.pairs import Dataset
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import number_of
from robin_cli.runner.pairwise import check_comparisons
from robin_cli.settings.table import Settings
from robin_cli.views.plan.asked import SEED, Asked, figures
from robin_cli.views.plan.calls import taken, ways_of
from robin_cli.views.plan.page import UNKNOWN, Columns, Row, Sheet, ways_sheet
from robin_cli.views.text import finite

_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
_FEWEST = 2 * FEWEST
"""Of a pilot: a scheduler may repeat some, and some answers have no verdict."""

_CALLS_AT_MOST = 20_000
_SYSTEMS_SHOWN = 6


def pilot_calls(count: int, dataset: Dataset, settings: Settings) -> int:
    """How many calls ask ``count`` comparisons in both orders, by all judges; of all, where there are not as many.

    InputError where these would tell too little.
    """
    if count < _FEWEST:
        raise InputError(
            f"--pilot {count}: with --pairwise so many comparisons are asked, and {_FEWEST} are needed; give more"
        )
    return 2 * max(1, len(settings.model)) * min(count, len(dataset.pairs))


class Rankings:
    """A plan of comparisons. Without a budget that is planned which asks every comparison once in both orders."""

    def __init__(self, asked: Asked) -> None:
        assert asked.matches is not None  # noqa: S101  # the run is pairwise
        self.matches = asked.matches
        asked = asked.with_budget(asked.config.budget or max(len(asked.space), asked.least))
        check_comparisons(asked.budget, self.matches)
        self.asked, self.calls, self.spent = asked, asked.calls(), asked.budget
        self.scatter = usual_scatter(len(asked.space.judges))
        preferences = None
        if asked.run is not None and (told := scatter_of(asked.run)) is not None:
            self.scatter, preferences = told, order_means(asked.run).mean(axis=(1, 2))
        self.belief = VerdictsBelief(self.matches, self.scatter, preferences)
        budgets = sorted(
            {max(asked.least, asked.space.arms_per_pair, round(asked.budget * each)) for each in _MULTIPLES}
        )
        self.simulated = self._simulated(budgets[1:4])
        self.rows = [self._row(each) for each in budgets]

    @property
    def goal(self) -> Goal:
        """What the run is to find."""
        return goal_of(matches=self.matches)

    @cached_property
    def scheduler(self) -> str:
        """The scheduler of the run."""
        return self.asked.scheduler_at(self.asked.budget)

    def _simulated(self, budgets: list[int]) -> Any:
        """What is wrong with each budget, where that can be simulated in some seconds."""
        wanted = [each for each in budgets if each <= _CALLS_AT_MOST]
        if not wanted or not self.belief.is_small:
            return {}
        policy_at, rng = self.asked.policy_at(self.asked.config.scheduler), np.random.default_rng(SEED)
        return foresee(self.belief, policy_at, wanted, rng, rounds=self.asked.rounds).expected

    def _row(self, budget: int) -> dict[str, Any]:
        matches, an_arm = self.matches, max(1.0, budget / len(self.matches.space))
        compared = min(len(matches), budget // matches.space.arms_per_pair)
        ranked = len(matches.names) > 1 and not matches.wants_best
        wins = win_rate_half_width(self.scatter, matches, compared, an_arm) if ranked else math.nan
        return {
            "budget": budget,
            "comparisons_asked": compared,
            "calls_of_each": an_arm,
            **taken(self.asked.config, self.calls, budget),
            "win_rate_half_width": finite(wins),
            "preference_half_width": preference_half_width(self.scatter, an_arm),
            **figures(self.simulated.get(budget), {"wrong": ("wrong", "mean"), "wrong_sem": ("wrong", "sem")}),
        }

    @cached_property
    def ways(self) -> list[dict[str, Any]]:
        """The ways to make the same calls."""
        return ways_of(self.asked.config, self.calls, self.asked.budget, lambda _: {})

    def facts(self) -> dict[str, Any]:
        """The facts of comparisons alone."""
        matches, scatter = self.matches, self.scatter
        return {
            "pairwise": True,
            "comparisons": len(matches),
            "prompts": len(np.unique(matches.prompt)),
            "systems": list(matches.names),
            "calls_a_comparison": matches.space.arms_per_pair,
            "calls_once": len(matches.space),
            "ranks_systems": matches.ranks_systems,
            "decide": self.asked.config.decide,
            "preferences_vary": {
                "between": scatter.between,
                "within": scatter.within,
                "told_by": scatter.comparisons,
            },
            "simulated_runs": RUNS,
            "ways": self.ways,
        }

    first: tuple[str, ...] = ()

    def words(self, error: float) -> str:
        """Write a probability."""
        return f"{100 * error:.0f} %"

    @property
    def asked_about(self) -> str:
        """What is compared."""
        names = self.matches.names
        systems = f" of {number_of(len(names), 'system')}" if names else ""
        of = f"{number_of(len(self.matches), 'comparison')}{systems}"
        return f"{of}, {number_of(len(np.unique(self.matches.prompt)), 'prompt')}, by {self.scheduler}"

    @property
    def prior(self) -> str:
        """What is taken for granted of how preferences vary."""
        if self.scatter.comparisons:
            return f"as in {number_of(self.scatter.comparisons, 'comparison')} of the pilot"
        too_few = "" if self.asked.pilot is None else "the pilot has too few verdicts; "
        return f"{too_few}assumed: as those of systems that are not far apart"

    @property
    def columns(self) -> Columns:
        """What the screen has of each budget."""
        return {
            "compared": lambda row: f"{row['comparisons_asked']:,}",
            "win rate": lambda row: _half(row["win_rate_half_width"]),
            "wrong %": _wrong,
        }

    @property
    def all_columns(self) -> Columns:
        """What the details have beside these."""
        return {
            **self.columns,
            "× each": lambda row: f"{row['calls_of_each']:.1f}",
            "preference": lambda row: _half(row["preference_half_width"]),
        }

    def details(self) -> list[Sheet | str]:
        """What is meant by the figures."""
        judges = f" × {len(self.asked.space.judges)} judges" if len(self.asked.space.judges) > 1 else ""
        lines = ways_sheet(self.ways, self.asked.budget, {})
        names = [shown(name) for name in self.matches.names[:_SYSTEMS_SHOWN]]
        if names:
            lines.append(f"Systems: {', '.join(names)}{', …' * (len(self.matches.names) > len(names))}.")
        lines.append(f"To ask all once takes {number_of(len(self.matches.space), 'call')}: 2 orders{judges}.")
        if any(row["win_rate_half_width"] is not None for row in self.rows):
            lines.append(
                "win rate: half of the 95 % interval, over prompts, of how often a system is preferred to others, by an even "
                "spread."
            )
        goal: Any = self.goal
        lines += [
            "compared: how many comparisons; × each: how often in each order, by each judge.",
            "preference: half of the likely 95 % interval of one comparison that is asked.",
            f"wrong: of the {goal.what}; simulated, mean of {RUNS} runs, as far as that takes some seconds.",
        ]
        if self.matches.ranks_systems:
            lines.append(
                "With three systems and more not all comparisons need be asked: --scheduler tournament asks more between those "
                "that are close."
            )
        elif self.asked.config.decide:
            lines.append("The run ends when the best response to each prompt is certain.")
        return lines

    over: str | None = None


def _half(value: float | None) -> str:
    return UNKNOWN if value is None else f"± {100 * value:.0f} %"


def _wrong(row: Row) -> str:
    return UNKNOWN if row["wrong"] is None else f"{100 * row['wrong']:.1f} ± {100 * row['wrong_sem']:.1f}"
