"""The facts of a plan of decisions: how many will be wrong, how many certified, and when everything is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from robin_cli.analysis.decision_forecast import Decisions, Outlook, most_calls
from robin_cli.analysis.decisions import decide
from robin_cli.analysis.forecast import calls_for
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import mean
from robin_cli.model.task import Task
from robin_cli.policies.registry import BASELINE
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.prospect import Prospect

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
    means = task.space.by_judge(mean(arms.counts, arms.totals)).mean(axis=1)
    return decide(task, means, LevelCounts.of(pilot), arms).is_over
