"""What schedulers are tried on: a run's arms, what is known of them, what is to be decided; and how much of that will be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robin_cli.analysis.decision_forecast import Decisions, Outlook, foresee, most_calls
from robin_cli.analysis.decisions import decide
from robin_cli.analysis.forecast import Expected, Known, calls_for, forecast
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import BASELINE, chosen
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import RunData

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


_TARGETS = (0.01, 0.001)
"""Shares of wrong decisions to find the calls for."""


def calls_to_end(prospect: Prospect, least: int) -> int:
    """About how many calls it takes until everything is decided; as many as were looked at, where it takes more."""
    begun = replace(prospect, config=replace(prospect.config, budget=least))
    return max(least, begun.decisions(prospect.config.scheduler, [least], least).end.needed.calls)


def outlooks_of(prospect: Prospect, budgets: Sequence[int], least: int) -> dict[str, Outlook]:
    """What the scheduler decides with each of ``budgets``, and an even spread."""
    return {
        name: prospect.decisions(name, budgets, least) for name in dict.fromkeys((prospect.config.scheduler, BASELINE))
    }


def expected_calls(outlook: Outlook, budget: int) -> int:
    """Calls that a run with ``budget`` spends on average, which ends when all is decided."""
    expected = outlook.expected.get(budget)
    return budget if expected is None else min(budget, round(expected.calls))


def decision_row(prospect: Prospect, budget: int, outlooks: Mapping[str, Outlook]) -> dict[str, Any]:
    """What is decided with ``budget``."""
    mine, evenly = (outlooks[name].expected.get(budget) for name in (prospect.config.scheduler, BASELINE))
    return {
        "calls_an_arm": budget / prospect.arms,
        "scheduler": prospect.scheduler_at(budget),
        **_told(mine, ""),
        **_told(evenly, "even_"),
    }


def _told(expected: Decisions | None, prefix: str) -> dict[str, Any]:
    named = {
        "calls": "calls",
        "calls_sem": "calls_sem",
        "wrong": "wrong",
        "wrong_sem": "wrong_sem",
        "certified": "certified",
        "certified_sem": "certified_sem",
        "decisions_simulated": "simulated",
    }
    return {f"{prefix}{name}": expected and getattr(expected, field) for name, field in named.items()}


def decided_of(
    prospect: Prospect, least: int, outlooks: Mapping[str, Outlook], pilot: RunData | None
) -> dict[str, Any]:
    """What is to be decided, and when everything is.

    Args:
        pilot: the beginning of the run, which spent ``least`` calls or fewer.
    """
    task, config = prospect.task, prospect.config
    assert task is not None  # noqa: S101  # who asks has looked
    chosen, evenly = outlooks[config.scheduler].end, outlooks[BASELINE].end
    high = chosen.high
    return {
        "decide": config.decide,
        "of": "pairs" if task.group is None else "groups",
        "decisions": task.decisions,
        "margins": dict(zip(task.space.attributes, task.decision.margins, strict=True)),
        "error_rate": task.decision.error_rate,
        "calls_to_end": max(least, chosen.needed.calls),
        "calls_to_end_are": chosen.needed.relation,
        "calls_to_end_low": max(least, chosen.low.calls),
        "calls_to_end_high": None if high.relation == "more than" else max(least, high.calls),
        "even_calls_to_end": max(least, evenly.needed.calls),
        "even_calls_to_end_are": evenly.needed.relation,
        "searched_to": most_calls(prospect.arms),
        "by_pilot": pilot is not None and _is_over(pilot),
    }


def decision_calls_for(prospect: Prospect, outlooks: Mapping[str, Outlook]) -> list[dict[str, Any]]:
    """The calls for shares of wrong decisions; None where all is decided before it comes to so few."""
    found = []
    for wrong in _TARGETS:
        needed: dict[str, Any] = {"wrong": wrong}
        for prefix, name in (("", prospect.config.scheduler), ("even_", BASELINE)):
            outlook = outlooks[name]
            by_calls = {max(1, round(each.calls)): each for each in outlook.expected.values()}
            read_off = calls_for(wrong, dict(sorted(by_calls.items())), "wrong")
            never = read_off.relation == "more than" and outlook.end.needed.relation == "about"
            needed |= {f"{prefix}calls": None if never else read_off.calls}
            needed |= {f"{prefix}calls_are": "never" if never else read_off.relation}
        found.append(needed)
    return found


def _is_over(pilot: RunData) -> bool:
    """Whether the pilot decided everything."""
    task: Task | None = pilot.task
    if task is None:
        return False
    arms = pilot.fold.arms
    means = task.space.by_rater(mean(arms.counts, arms.totals)).mean(axis=1)
    return decide(task, means, LevelCounts.of(pilot), arms).is_over
