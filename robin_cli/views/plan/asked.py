"""A run that is planned: what it is to find, what is known before it, and the policies that it would have."""

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
from robin_cli.simulation.forecast import ALIKE, Known, PolicyAt, RatingsBelief
from robin_cli.storage.reader import RunData

SEED = 0
"""The same plan says the same."""

_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")


@dataclass(frozen=True)
class Asked:
    """A run that is planned.

    Attributes:
        config: with the budget that is planned for, as soon as there is one.
        told_by: the run, or pool, whose ratings say how these vary; None where a prior is taken.
        pilot: the run that is its beginning.
        run: the one of ``told_by``, if it is one.
        paid: what a budget of money pays for.
        goal: of the run.
        kept: the scheduler that a run made before keeps, where the choice is left to robin.
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
    kept: str | None = None
    known: Sequence[Known] = ()
    for_error: float | None = None
    difference: float | None = None

    @property
    def scheduler(self) -> str:
        """The name of the scheduler that is asked for, or kept."""
        return self.kept or self.config.scheduler

    @property
    def least(self) -> int:
        """The fewest calls that are planned: one an arm where all are rated, and what the pilot spent."""
        spent = 0 if self.run is None or self.pilot is None else self.run.fold.arms.spent
        return max(self.space.asked_once if self.goal.asks_all else 0, spent)

    @property
    def budget(self) -> int:
        """The calls that are planned for."""
        return self.config.budget or self.least

    @property
    def belief(self) -> RatingsBelief:
        """What is known of the judge."""
        return RatingsBelief(self.known, self.goal)

    @property
    def is_warm(self) -> bool:
        """Whether the scheduler begins with variances of an earlier run."""
        return bool(self.known) and self.known[0].variances is not None

    @property
    def rounds(self) -> int | None:
        """In which the calls go out; None where they are made one at a time."""
        return self.config.rounds if self.config.in_rounds else None

    def setup(self, budget: int) -> Setup:
        """What a policy is told of a run with ``budget``."""
        config = self.config
        own = {name: getattr(config, name) for name in ("delta", "mode", "margin", "prefer")}
        return self.goal.setup({**own, "objective": config.wanted_objective}, budget)

    def choice(self, budget: int) -> Choice | None:
        """The scheduler that a run with ``budget`` would get, where the one asked for only chooses; InputError if it cannot."""
        return chosen(self.scheduler, self.setup(budget))

    def scheduler_at(self, budget: int) -> str:
        """The name of the scheduler that a run with ``budget`` would have."""
        choice = self.choice(budget)
        return self.scheduler if choice is None else choice.name

    def policy_at(self, name: str) -> PolicyAt:
        """The policy called ``name`` for each budget; None where theory mode refuses a part of the budget planned for."""

        def policy(budget: int, variances: FloatArray | None, goal: Goal) -> Policy | None:
            setup, space = self.setup(budget), goal.space
            share = len(space) / setup.arms
            part = replace(setup, arms=len(space), budget=round(share * budget), variances=variances, task=goal.task)
            try:
                choice = chosen(name, setup)  # by all of the arms, which have all of the budget
                named = name if choice is None else choice.name
                return policy_by_scale(named, part, variances if self.is_warm else None, space.by_scale())
            except InputError:
                if self.config.budget is not None and budget >= self.config.budget:
                    raise
                return None

        return policy

    def policy(self, budget: int, variances: FloatArray | None) -> Policy | None:
        """The policy of the run itself, which may know ``variances``."""
        return self.policy_at(self.scheduler)(budget, variances, self.goal)  # type: ignore[arg-type]

    def with_budget(self, budget: int) -> Asked:
        """The same with ``budget``."""
        return replace(self, config=replace(self.config, budget=budget))

    @property
    def prior(self) -> str:
        """What is taken for granted of how the ratings vary, in words."""
        alike = ", the responses of a prompt no more alike than others"
        if self.space.settles and self.told_by is None:
            alike += f", the means of both judges correlated by {ALIKE:g}"
        if self.told_by is not None:
            return (
                f"as in the {'pilot' if self.pilot else 'ratings of'} {self.told_by}{alike * (not self.goal.asks_all)}"
            )
        rated = [attribute for attribute in self.space.attributes if attribute in _PAPER_RATED]
        where = ", ".join(rated if len(rated) == len(self.space.attributes) else _PAPER_RATED)
        of_prompts = self.goal.groups is not None or not self.goal.asks_all
        return f"assumed: as with the two judges of the paper, at {where}{alike * of_prompts}"
