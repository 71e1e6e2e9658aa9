"""A planned run: its goal, prior knowledge, and candidate policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Choice, Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import chosen
from robin_cli.questions.rubrics import PromptSet
from robin_cli.runner.money import Paid
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import Known, PolicyAt, RatingsBelief
from robin_cli.storage.reader import RunData

SEED = 0
"""The same plan says the same."""

_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")


@dataclass(frozen=True)
class Asked:
    """A planned run.

    Attributes:
        config: with the budget that is planned for, as soon as there is one.
        told_by: the run, or pool, whose ratings say how these vary; None where a prior is taken.
        pilot: the run that is its beginning.
        run: the one of ``told_by``, if it is one.
        paid: the costs that a budget of money covers.
        goal: the run's goal.
        for_error: find the budget that brings the error to this, if anything.
        difference: of two systems, find what it takes until it shows, if anything.
        known: of the ratings of each attribute and judge; nothing for verdicts.
    """

    config: Settings
    dataset: Dataset
    prompts: PromptSet
    space: ArmSpace
    told_by: str | Path | None
    pilot: Path | None
    run: RunData | None
    paid: Paid | None
    goal: Goal
    known: Sequence[Known] = ()
    for_error: float | None = None
    difference: float | None = None

    @property
    def scheduler(self) -> str:
        """Return the name of the requested scheduler."""
        return self.config.scheduler

    @property
    def least(self) -> int:
        """Return the fewest calls of the plan: one for each arm if all are rated, and the pilot's calls."""
        spent = 0 if self.run is None or self.pilot is None else self.run.fold.arms.spent
        return max(len(self.space) if self.goal.asks_all else 0, spent)

    @property
    def budget(self) -> int:
        """Return the planned calls."""
        return self.config.budget or self.least

    @property
    def budget_usd(self) -> float | None:
        """Return the planned money if that is the budget."""
        return None if self.paid is None else self.config.max_cost

    @property
    def belief(self) -> RatingsBelief:
        """Return the knowledge about the judge."""
        return RatingsBelief(self.known, self.goal)

    @property
    def is_warm(self) -> bool:
        """Return whether the scheduler starts with variances of an earlier run."""
        return bool(self.known) and self.known[0].variances is not None

    @property
    def rounds(self) -> int | None:
        """Return the number of rounds of the calls; None if they are made one at a time."""
        return self.config.rounds if self.config.batch else None

    def setup(self, budget: int) -> Setup:
        """Return a policy's input for a run with ``budget``."""
        config = self.config
        own = {name: getattr(config, name) for name in ("delta", "mode", "margin")}
        return self.goal.setup({**own, "objective": config.wanted_objective}, budget)

    def choice(self, budget: int) -> Choice | None:
        """Return the scheduler for a run with ``budget``, after the requested one's choice. InputError if it does not fit."""
        return chosen(self.scheduler, self.setup(budget))

    def scheduler_at(self, budget: int) -> str:
        """Return the name of the scheduler for a run with ``budget``."""
        choice = self.choice(budget)
        return self.scheduler if choice is None else choice.name

    def policy_at(self, name: str) -> PolicyAt:
        """Return the policy ``name`` for each budget; None if theory mode refuses a part of the planned budget."""

        def policy(budget: int, variances: FloatArray | None, goal: Goal) -> Policy | None:
            setup, space = self.setup(budget), goal.space
            share = len(space) / setup.arms
            part = replace(
                setup,
                arms=len(space),
                budget=round(share * budget),
                variances=variances,
                task=goal.task,
            )
            try:
                choice = chosen(name, setup)  # by all of the arms, which have all of the budget
                named = name if choice is None else choice.name
                return policy_by_scale(named, part, space.by_scale())
            except InputError:
                if self.config.budget is not None and budget >= self.config.budget:
                    raise
                return None

        return policy

    def policy(self, budget: int, variances: FloatArray | None) -> Policy | None:
        """Return the policy of the run itself, which may use ``variances``."""
        return self.policy_at(self.scheduler)(budget, variances, self.goal)  # type: ignore[arg-type]

    def with_budget(self, budget: int) -> Asked:
        """Return a copy with ``budget``."""
        return replace(self, config=replace(self.config, budget=budget))

    @property
    def prior(self) -> str:
        """Return the assumption about the ratings' variance, in words."""
        alike = ", the responses of a prompt no more alike than others"
        if self.told_by is not None:
            return f"as in the {'pilot' if self.pilot else 'ratings of'} {self.told_by}{alike * (not self.goal.asks_all)}"
        rated = [attribute for attribute in self.space.attributes if attribute in _PAPER_RATED]
        where = ", ".join(rated if len(rated) == len(self.space.attributes) else _PAPER_RATED)
        of_prompts = self.goal.groups is not None or not self.goal.asks_all
        return f"assumed: as with the two judges of the paper, at {where}{alike * of_prompts}"
