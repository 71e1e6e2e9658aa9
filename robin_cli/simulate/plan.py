"""The calls, tokens, money and time of a budget, and what it is expected to bring, before it is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

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
from robin_cli.simulate.call_cost import CallCost, call_cost, earlier_run, priced_judges
from robin_cli.simulate.experiment import MeasuredRuns, World
from robin_cli.simulate.forecast import Forecast, Known, Needed

_MULTIPLES = (0.5, 1.0, 2.0)
_OF_POLICIES = ("delta", "mode", "margin")


class Plan:
    """The plan of one run; it calls no judge.

    Attributes:
        config: the settings of the run; without --model they name one judge.
        models: the judges that were named.
        budget: the calls that are planned.
        scheduler: the policy's name.
        because: why it was chosen; None if it was asked for.
        cost: what a call takes.

    Args:
        notify: called with notes on the data.

    Raises:
        InputError: bad settings, as ``robin judge`` would say.
    """

    def __init__(self, config: Settings, dataset: Dataset, notify: Callable[[str], None]) -> None:
        self.models = config.model
        self.config = config = replace(config, model=config.model or ("judge",))
        prompts = prompts_of(config)
        dataset = checked_data(dataset, config, prompts, notify)
        judges, prices = priced_judges(config)
        self.space = space_of([judge.name for judge in judges], prompts, dataset.pairs.ids)
        self.goal: Goal = wanted_goal(config, self.space, dataset.pairs, notify)
        self._simulated: dict[str, dict[int, MeasuredRuns]] = {}
        self._reached: Needed | None = None
        run = earlier_run(config.variances)
        cost_of = partial(call_cost, config, prompts, dataset, self.space, run)
        if config.budget is None and config.max_cost is not None:
            answer = cost_of(1, 1.0).completion
            self.budget = calls_paid_for(
                *(config.max_cost, prices, config.max_tokens, self.goal),
                *(dataset.pairs, prompts, answer),
            )
        else:
            self.budget = config.budget or self._calls_for_goal()
        self.goal.check_reach(self.budget)
        self.scheduler, self.because = self._choice(config.scheduler, self.budget)
        self._policy(config.scheduler, self.budget)  # refuses what a run would refuse
        self.cost: CallCost = cost_of(self.goal.first_visit, self.budget / len(self.space))

    @property
    def is_simulated(self) -> bool:
        """Whether the goal has a forecast, and not calls, tokens, money and time alone."""
        return bool(self.goal.figures)

    @property
    def budgets(self) -> list[int]:
        """The budgets of the forecast, rising; theory mode has no smaller one than its own."""
        multiples = (1.0,) if self.config.mode == "theory" else _MULTIPLES
        least = self.goal.least_calls
        return sorted({max(least, round(self.budget * each)) for each in multiples})

    @property
    def simulated_arms(self) -> int | None:
        """The arms of a simulated run; None if the goal is not simulated."""
        return self._forecast.simulated_arms(max(self.budgets)) if self.is_simulated else None

    @cached_property
    def needed(self) -> tuple[Needed, Needed] | None:
        """The calls that reach the goal, by the scheduler and by an even spread; None without a goal to reach."""
        by_policy = self._reached or self._needed(self.scheduler, self._expected(self.scheduler))
        evenly = self._needed(BASELINE, self._expected(BASELINE))
        return None if by_policy is None or evenly is None else (by_policy, evenly)

    def figures(self, budget: int) -> dict[str, float]:
        """Return what ``budget`` brings, and an even spread of it; two digits, as more are the noise of the simulation."""
        figures = {
            f"{prefix}{name}": float(f"{self._expected(scheduler)[budget].figure(column):.2g}")
            for scheduler, prefix in ((self.scheduler, ""), (BASELINE, "even_"))
            for name, column in self.goal.figures.items()
        }
        if "calls" in figures:  # rounded, they may exceed the budget
            figures["calls"] = min(figures["calls"], float(budget))
        return figures

    def spent(self, budget: int) -> int:
        """Return the average calls of a run with ``budget``, which may end early."""
        if not self.is_simulated or not self.goal.ends:
            return budget
        calls = self._expected(self.scheduler)[budget].figure("calls_mean")
        return max(len(self.space), min(budget, round(calls)))

    @cached_property
    def _forecast(self) -> Forecast:
        source, space = self.config.variances, self.space
        if source is not None:
            rng = np.random.default_rng(0)
            return Forecast(
                [Known.from_counts(counts, rng) for counts in known_counts(source, space)],
                self.goal,
            )
        known = [
            Known.nothing(len(space.pair_ids), space.scale_of(arm), space.attribute_of(arm))
            for arm in space.arms_of_pair(0)
        ]
        return Forecast(known, self.goal)

    def _expected(self, scheduler: str) -> dict[int, MeasuredRuns]:
        """Return the simulated results of ``scheduler`` by budget; nothing if the goal is not simulated."""
        if self.is_simulated and scheduler not in self._simulated:
            self._simulated[scheduler] = self._forecast.expected(
                partial(self._policy, scheduler), self.budgets
            )
        return self._simulated.get(scheduler, {})

    def _calls_for_goal(self) -> int:
        """Return the calls that reach the goal, or one of each arm if that is not simulated."""
        if not self.is_simulated:
            return len(self.space)
        self._reached = self._needed(self.config.scheduler, {})
        if self._reached is None:
            raise InputError(
                "--budget is missing: say what budget to plan for, for example --budget 50000, or what to reach, for example "
                "--target-error 0.2"
            )
        return self._reached.calls

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
        of_policies = {name: getattr(self.config, name) for name in _OF_POLICIES}
        if world is not None:
            return world.goal.setup(of_policies, budget, world.ratings.variances)
        # the scheduler robin wants any variances before the simulation has its own
        variances = np.ones(len(self.space)) if self.config.variances else None
        return self.goal.setup(of_policies, budget, variances)
