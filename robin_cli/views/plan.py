"""``robin plan``: the calls, tokens, money and time of a budget, and what it is expected to bring, before it is spent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.base import Goal
from robin_cli.goals.making import wanted_goal
from robin_cli.model.errors import InputError
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import BASELINE, chosen
from robin_cli.results.words import error_text
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.variances import known_counts
from robin_cli.settings.table import Settings
from robin_cli.simulation.experiment import World
from robin_cli.simulation.forecast import RUNS, Expected, Forecast, Known, Needed, PolicyAt
from robin_cli.views.plan_calls import CallCost, call_cost, check_plan, earlier_run, planned_space

_MULTIPLES = (0.5, 1.0, 2.0)
_USUAL_CALLS = 10.0
"""Calls per arm by which a request is estimated before the budget is known."""

_OF_POLICIES = ("delta", "mode", "margin")
_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")


class Plan:
    """The plan of one run; it calls no judge.

    Attributes:
        config: the settings of the run.
        goal: its goal.
        needed: the calls that reach the goal, by the scheduler and by an even spread; None without a goal to reach.

    Args:
        notify: called with notes on the data.

    Raises:
        InputError: bad settings, as ``robin judge`` would say.
    """

    def __init__(self, config: Settings, dataset: Dataset, notify: Callable[[str], None]) -> None:
        self._prompts, self._dataset = prompts_of(config), dataset
        check_plan(config, self._prompts.scales)
        self._prompts.check_references(dataset.pairs)
        self.config = config
        self.space = planned_space(config, self._prompts, dataset)
        self.goal: Goal = wanted_goal(self.config, self.space, dataset.pairs, notify)
        self.run = earlier_run(config.variances)
        self._found: Needed | None = None
        self.budget = self._wanted_budget()
        self.goal.check_reach(self.budget)
        self.scheduler, self._policy = self._chosen(config.scheduler, self._setup(self.budget))
        self.cost = self._cost(self._policy, self.budget / len(self.space))

    @property
    def is_simulated(self) -> bool:
        """Whether the goal has a forecast, and not calls, tokens, money and time alone."""
        return bool(self.goal.figures)

    @cached_property
    def needed(self) -> tuple[Needed, Needed] | None:
        mine = self._found or self._needed(self.scheduler, self.expected(self.scheduler))
        evenly = self._needed(BASELINE, self.expected(BASELINE))
        return None if mine is None or evenly is None else (mine, evenly)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What each budget takes and brings, rising."""
        mine, evenly = self.expected(self.scheduler), self.expected(BASELINE)
        return [self._row(budget, mine.get(budget), evenly.get(budget)) for budget in self._budgets]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The plan as JSON values."""
        config, budget = self.config, self.budget
        choice = chosen(config.scheduler, self._setup(budget))
        return {
            "pairs": len(self.space.pair_ids),
            "attributes": list(self.space.attributes),
            "judges": list(config.model),
            "arms": len(self.space),
            "scheduler": self.scheduler,
            "scheduler_asked": config.scheduler,
            "scheduler_because": None if choice is None else choice.why,
            "budget": budget,
            "max_cost_usd": config.max_cost,
            "max_cost_calls_about": config.max_cost and self.cost.calls_for(config.max_cost),
            **self.cost.facts(self.spent(budget)),
            "ratings_vary_as": self.prior if self.is_simulated else None,
            "simulated_runs": RUNS if self.is_simulated else None,
            "simulated_arms": self._forecast.simulated_arms(max(self._budgets))
            if self.is_simulated
            else None,
            "errors_are": "shares of the scale" if self.space.has_several_scales else "points",
            "decide": config.decide,
            "target_error": config.target_error,
            "goal": None if self.needed is None else _needed_facts(*self.needed),
            "forecast": self.rows,
        }

    def expected(self, scheduler: str) -> dict[int, Expected]:
        """Return the simulated results of ``scheduler`` by budget; nothing if the goal is not simulated."""
        if not self.is_simulated:
            return {}
        if scheduler not in self._simulated:
            self._simulated[scheduler] = self._forecast.expected(
                self._policy_at(scheduler), self._budgets
            )
        return self._simulated[scheduler]

    def spent(self, budget: int) -> int:
        """Return the average calls of a run with ``budget``, which may end early."""
        expected = self.expected(self.scheduler).get(budget)
        if expected is None or not self.goal.ends:
            return budget
        return max(len(self.space), min(budget, round(expected.figure("calls_mean"))))

    @property
    def prior(self) -> str:
        """What the plan takes the ratings to vary like, in words."""
        if self.config.variances is not None:
            return f"as in {self.config.variances}"
        known = [name for name in self.space.attributes if name in _PAPER_RATED]
        rated = known if len(known) == len(self.space.attributes) else _PAPER_RATED
        alike = "; the responses of a group are no more alike than others"
        return f"assumed: as with the two judges of the paper, at {', '.join(rated)}{alike * (self.goal.groups is not None)}"

    @cached_property
    def _simulated(self) -> dict[str, dict[int, Expected]]:
        return {}

    @cached_property
    def _forecast(self) -> Forecast:
        source, space = self.config.variances, self.space
        if source is not None:
            rng = np.random.default_rng(0)
            return Forecast(
                [Known.of(each, rng) for each in known_counts(source, space)], self.goal
            )
        arms, pairs = space.arms_of_pair(0), len(space.pair_ids)
        known = [Known.nothing(pairs, space.scale_of(arm), space.attribute_of(arm)) for arm in arms]
        return Forecast(known, self.goal)

    @property
    def _budgets(self) -> list[int]:
        least = len(self.space) if self.goal.asks_all else 1
        return sorted({max(least, round(self.budget * each)) for each in _MULTIPLES})

    def _wanted_budget(self) -> int:
        """Return the budget given, or the one that the money pays for, or the one that reaches the goal."""
        config = self.config
        if config.budget is not None:
            return config.budget
        if config.max_cost is not None:
            paid = self._cost(None, _USUAL_CALLS).calls_for(config.max_cost)
            if paid is None:
                raise InputError("--max-cost: calls cost nothing at these prices; give --budget")
            return paid
        self._found = self._needed(config.scheduler, {}) if self.is_simulated else None
        return len(self.space) if self._found is None else self._found.calls

    def _needed(self, scheduler: str, expected: dict[int, Expected]) -> Needed | None:
        """Return the calls that reach the goal; None without one."""
        if self.is_simulated and self.goal.ends:
            return self._forecast.calls_to_end(self._policy_at(scheduler), expected)
        if self.config.target_error is None:
            return None
        return self._forecast.calls_for_error(self._policy_at(scheduler), self.config.target_error)

    def _setup(self, budget: int) -> Setup:
        """Return a policy's input for a run with ``budget``; the scheduler robin needs any variances here."""
        variances = np.ones(len(self.space)) if self.config.variances else None
        return self.goal.setup(self._own_settings, budget, variances)

    @property
    def _own_settings(self) -> dict[str, Any]:
        return {name: getattr(self.config, name) for name in _OF_POLICIES}

    def _chosen(self, name: str, setup: Setup) -> tuple[str, Policy]:
        choice = chosen(name, setup)
        name = name if choice is None else choice.name
        return name, policy_by_scale(name, setup, self.space.by_scale())

    def _policy_at(self, scheduler: str) -> PolicyAt:
        """Return the policy of simulated runs for each budget; None if theory mode refuses a budget beside the planned one."""

        def policy_at(budget: int, world: World) -> Policy | None:
            goal = world.goal
            part = round(budget * len(goal.space) / len(self.space))
            setup = goal.setup(self._own_settings, part, world.ratings.variances)
            try:
                choice = chosen(scheduler, self._setup(budget))
                name = scheduler if choice is None else choice.name
                return policy_by_scale(name, setup, goal.space.by_scale())
            except InputError:
                if budget == self.config.budget:
                    raise
                return None

        return policy_at

    def _cost(self, policy: Policy | None, calls_an_arm: float) -> CallCost:
        several = policy if self.goal.asks_all else None
        return call_cost(self.config, self._dataset, self._prompts, self.run, several, calls_an_arm)

    def _row(self, budget: int, mine: Expected | None, evenly: Expected | None) -> dict[str, Any]:
        found = {**self._figures(mine, ""), **self._figures(evenly, "even_")}
        words = partial(error_text, as_share=self.space.has_several_scales)
        return {
            "budget": budget,
            **self.cost.figures(self.spent(budget), self.config),
            "calls_an_arm": budget / len(self.space),
            **found,
            "known_then": self.goal.known_then(found, words) if found else "",
        }

    def _figures(self, expected: Expected | None, prefix: str) -> dict[str, Any]:
        """Return the goal's figures with two digits: more are the noise of the simulation. None if not simulated."""
        return {
            f"{prefix}{name}": None if expected is None else float(f"{expected.figure(column):.2g}")
            for name, column in self.goal.figures.items()
        }


def _needed_facts(mine: Needed, evenly: Needed) -> dict[str, Any]:
    calls = {"calls": mine.calls, "calls_are": mine.relation}
    return {**calls, "even_calls": evenly.calls, "even_calls_are": evenly.relation}
