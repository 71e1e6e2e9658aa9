"""What schedulers are tried on: the arms of a run, what is known of them, and what is to be decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.analysis.decision_forecast import Outlook, foresee
from robin_cli.analysis.forecast import Expected, Known, forecast
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import chosen
from robin_cli.settings.table import Settings

SEED = 0
"""The same plan says the same."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the schedulers are tried on."""

    config: Settings
    space: ArmSpace
    known: Sequence[Known]
    task: Task | None = None

    @property
    def arms(self) -> int:
        """How many there are."""
        return len(self.space)

    @property
    def width(self) -> float:
        """The largest error there is, in the unit of the errors."""
        scale = self.space.scales[0]
        return 1.0 if self.space.has_several_scales else float(scale.high - scale.low)

    @property
    def warm(self) -> bool:
        """Whether the scheduler begins with variances of an earlier run."""
        return self.known[0].variances is not None

    @property
    def rounds(self) -> int | None:
        """In which the calls go out; None where they are made one at a time."""
        return self.config.rounds if self.config.in_rounds else None

    def setup(self, budget: int) -> Setup:
        """What a policy is told of a run with ``budget``."""
        config = self.config
        return Setup(
            arms=self.arms,
            budget=budget,
            scale=self.space.scales[0],
            delta=config.delta,
            mode=config.mode,
            objective=config.wanted_objective,
            by_money=config.budget_usd is not None,
            task=self.task,
            to_target=config.target_error is not None,
            rounds=self.rounds,
        )

    def scheduler_at(self, budget: int) -> str:
        """The name of the scheduler that a run with ``budget`` would have."""
        try:
            choice = chosen(self.config.scheduler, self.setup(budget))
        except InputError:  # which does not take so small a part of the budget
            choice = None
        return self.config.scheduler if choice is None else choice.name

    def policy(
        self,
        name: str,
        budget: int,
        variances: FloatArray | None,
        groups: Sequence[tuple[Scale, IntArray]] | None = None,
        task: Task | None = None,
    ) -> Policy | None:
        """The policy for ``budget``; None where theory mode refuses a part of the budget that is planned for.

        ``variances``: those it begins with, where it begins with any. ``groups``: the arms of each scale, where a part of all
        is simulated; ``task``: what is to be decided of this part.
        """
        groups = (self.space if task is None else task.space).by_scale() if groups is None else groups
        setup = self.setup(budget)
        arms = sum(len(arms) for _, arms in groups)
        part = replace(setup, arms=arms, variances=variances, task=task or self.task)
        try:
            choice = chosen(name, setup)  # by all of the arms, which have all of the budget
            named = name if choice is None else choice.name
            return policy_by_scale(named, part, variances if self.warm else None, groups)
        except InputError:
            if self.config.budget is not None and budget >= self.config.budget:
                raise
            return None

    def expected(self, name: str, budgets: Sequence[int]) -> Mapping[int, Expected]:
        """What the scheduler ``name`` reaches with each of ``budgets``; the same for the same prospect."""
        rng = np.random.default_rng(SEED)
        return forecast(
            self.known,
            lambda b, variances, groups: self.policy(name, b, variances, groups),
            budgets,
            rng,
            rounds=self.rounds,
        )

    def decisions(self, name: str, budgets: Sequence[int], least: int) -> Outlook:
        """What the scheduler ``name`` decides with each of ``budgets``, and when it ends; the same for the same prospect.

        ``least``: calls from which on it is looked at.
        """
        assert self.task is not None  # noqa: S101  # there is something to decide
        rng = np.random.default_rng(SEED)
        return foresee(
            self.known,
            self.task,
            lambda budget, variances, task: self.policy(name, budget, variances, task=task),
            budgets,
            rng,
            least=least,
        )
