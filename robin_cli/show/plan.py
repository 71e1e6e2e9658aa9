"""``robin plan``: the calls, tokens, money and time of a budget, and what it is expected to bring, before it is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from robin_cli.data.pairs import Dataset
from robin_cli.goals.base import Goal
from robin_cli.goals.registry import wanted_goal
from robin_cli.model.errors import InputError
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import BASELINE, chosen, make_policy
from robin_cli.run.variances import known_counts
from robin_cli.session.inputs import checked_data, space_of
from robin_cli.session.money import calls_paid_for
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.table import Settings
from robin_cli.show.plan_calls import CallCost, call_cost, earlier_run, priced_judges
from robin_cli.show.words import error_text
from robin_cli.simulate.experiment import MeasuredRuns, World
from robin_cli.simulate.forecast import RUNS, Forecast, Known, Needed

_MULTIPLES = (0.5, 1.0, 2.0)
_OF_POLICIES = ("delta", "mode", "margin")
_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")


class Plan:
    """The plan of one run; it calls no judge.

    Attributes:
        config: the settings of the run; without --model they name one judge.
        budget: the calls that are planned.
        scheduler: the policy's name.
        because: why it was chosen; None if it was asked for.

    Args:
        notify: called with notes on the data.

    Raises:
        InputError: bad settings, as ``robin judge`` would say.
    """

    def __init__(self, config: Settings, dataset: Dataset, notify: Callable[[str], None]) -> None:
        self._models = config.model
        self.config = config = replace(config, model=config.model or ("judge",))
        prompts = prompts_of(config)
        dataset = checked_data(dataset, config, prompts, notify)
        judges, prices = priced_judges(config)
        self.space = space_of([judge.name for judge in judges], prompts, dataset.pairs.ids)
        self.goal: Goal = wanted_goal(config, self.space, dataset.pairs, notify)
        self._simulated: dict[str, dict[int, MeasuredRuns]] = {}
        self._found: Needed | None = None
        # the scheduler robin wants any variances before the simulation has its own
        self._variances = np.ones(len(self.space)) if config.variances else None
        run = earlier_run(config.variances)
        cost_of = partial(call_cost, config, prompts, dataset, self.space, run)
        if config.budget is None and config.max_cost is not None:
            answer = cost_of(1, 1.0).completion
            self.budget = calls_paid_for(
                config.max_cost,
                prices,
                config.max_tokens,
                self.goal,
                dataset.pairs,
                prompts,
                answer,
            )
        else:
            self.budget = config.budget or self._calls_for_goal()
        self.goal.check_reach(self.budget)
        self.scheduler, self.because = self._choice(config.scheduler, self.budget)
        self._policy(config.scheduler, self.budget)  # refuses what a run would refuse
        calls_an_arm = self.budget / len(self.space)
        self.cost: CallCost = cost_of(self.goal.first_visit, calls_an_arm)

    @property
    def is_simulated(self) -> bool:
        """Whether the goal has a forecast, and not calls, tokens, money and time alone."""
        return bool(self.goal.figures)

    @cached_property
    def needed(self) -> tuple[Needed, Needed] | None:
        """The calls that reach the goal, by the scheduler and by an even spread; None without a goal to reach."""
        mine = self._found or self._needed(self.scheduler, self.expected(self.scheduler))
        evenly = self._needed(BASELINE, self.expected(BASELINE))
        return None if mine is None or evenly is None else (mine, evenly)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What each budget takes and brings, rising."""
        return [self._row(budget) for budget in self._budgets]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The plan as JSON values."""
        config, goal, calls = self.config, None, self.spent(self.budget)
        if self.needed is not None:
            mine, evenly = self.needed
            goal = {"calls": mine.calls, "calls_are": mine.relation}
            goal |= {"even_calls": evenly.calls, "even_calls_are": evenly.relation}
        arms = self._forecast.simulated_arms(max(self._budgets)) if self.is_simulated else None
        return {
            "pairs": len(self.space.pair_ids),
            "attributes": list(self.space.attributes),
            "judges": list(self._models),
            "arms": len(self.space),
            "scheduler": self.scheduler,
            "scheduler_asked": config.scheduler,
            "scheduler_because": self.because,
            "budget": self.budget,
            "max_cost_usd": config.max_cost,
            **self.cost.facts(calls, config),
            "ratings_vary_as": arms and self.prior,
            "simulated_runs": arms and RUNS,
            "simulated_arms": arms,
            "errors_are": "shares of the scale" if self.space.has_several_scales else "points",
            "decide": config.decide,
            "target_error": config.target_error,
            "goal": goal,
            "forecast": self.rows,
        }

    def expected(self, scheduler: str) -> dict[int, MeasuredRuns]:
        """Return the simulated results of ``scheduler`` by budget; nothing if the goal is not simulated."""
        if self.is_simulated and scheduler not in self._simulated:
            self._simulated[scheduler] = self._forecast.expected(
                partial(self._policy, scheduler), self._budgets
            )
        return self._simulated.get(scheduler, {})

    def spent(self, budget: int) -> int:
        """Return the average calls of a run with ``budget``, which may end early."""
        if not self.is_simulated or not self.goal.ends:
            return budget
        calls = self.expected(self.scheduler)[budget].figure("calls_mean")
        return max(len(self.space), min(budget, round(calls)))

    @property
    def prior(self) -> str:
        """What the plan takes the ratings to vary like, in words."""
        if self.config.variances is not None:
            return f"as in {self.config.variances}"
        asked = self.space.attributes
        rated = asked if set(asked) <= set(_PAPER_RATED) else _PAPER_RATED
        alike = "; the responses of a group are no more alike than others"
        agree = "; the judges differ by noise alone" * (len(self.space.judges) > 1)
        known = f"as those of the paper's two judges do, at {', '.join(rated)}"
        return f"{known}{alike * (self.goal.groups is not None)}{agree}"

    @cached_property
    def _forecast(self) -> Forecast:
        source, space = self.config.variances, self.space
        if source is not None:
            rng = np.random.default_rng(0)
            known = [Known.of(counts, rng) for counts in known_counts(source, space)]
        else:
            known = [
                Known.nothing(len(space.pair_ids), space.scale_of(arm), space.attribute_of(arm))
                for arm in space.arms_of_pair(0)
            ]
        return Forecast(known, self.goal)

    @property
    def _budgets(self) -> list[int]:
        """The budgets of the table; theory mode has no smaller one than its own."""
        multiples = (1.0,) if self.config.mode == "theory" else _MULTIPLES
        least = self.goal.least_calls
        return sorted({max(least, round(self.budget * each)) for each in multiples})

    def _calls_for_goal(self) -> int:
        """Return the calls that reach the goal, or one of each arm if that is not simulated."""
        if not self.is_simulated:
            return len(self.space)
        self._found = self._needed(self.config.scheduler, {})
        if self._found is None:
            raise InputError(
                "--budget is missing: say what budget to plan for, for example --budget 50000, or what to reach, for example "
                "--target-error 0.2"
            )
        return self._found.calls

    def _needed(self, scheduler: str, expected: dict[int, MeasuredRuns]) -> Needed | None:
        """Return the calls that reach the goal; None without one, and in theory mode, which takes no smaller budget."""
        policy_at, error = partial(self._policy, scheduler), self.config.target_error
        if not self.is_simulated or self.config.mode == "theory":
            return None
        if self.goal.ends:
            return self._forecast.calls_to_end(policy_at, expected)
        return None if error is None else self._forecast.calls_for_error(policy_at, error)

    def _policy(self, scheduler: str, budget: int, world: World | None = None) -> Policy:
        """Return the policy that ``scheduler`` becomes with ``budget``, of the run or of its part in ``world``."""
        name, _ = self._choice(scheduler, budget)
        space = self.space if world is None else world.goal.space
        part = round(budget * len(space) / len(self.space))
        return make_policy(name, self._setup(part, world))

    def _choice(self, scheduler: str, budget: int) -> tuple[str, str | None]:
        """Return the name of the policy that ``scheduler`` becomes, and why; None if it stays."""
        choice = chosen(scheduler, self._setup(budget))
        return (scheduler, None) if choice is None else (choice.name, choice.why)

    def _setup(self, budget: int, world: World | None = None) -> Setup:
        own = {name: getattr(self.config, name) for name in _OF_POLICIES}
        if world is None:
            return self.goal.setup(own, budget, self._variances)
        return world.goal.setup(own, budget, world.ratings.variances)

    def _row(self, budget: int) -> dict[str, Any]:
        """Return what ``budget`` takes and brings; figures have two digits, as more are the noise of the simulation."""
        figures = {
            f"{prefix}{name}": float(f"{self.expected(scheduler)[budget].figure(column):.2g}")
            for scheduler, prefix in ((self.scheduler, ""), (BASELINE, "even_"))
            for name, column in self.goal.figures.items()
        }
        if "calls" in figures:  # rounded, they may exceed the budget
            figures["calls"] = min(figures["calls"], float(budget))
        words = partial(error_text, as_share=self.space.has_several_scales)
        return {
            "budget": budget,
            **self.cost.figures(self.spent(budget), self.config),
            "calls_an_arm": budget / len(self.space),
            **figures,
            "known_then": self.goal.known_then(figures, words) if figures else "",
        }
