"""The ways to make the same calls, which differ in money, hours and exactness: one at a time, flex, and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from robin_cli.analysis.forecast import Expected
from robin_cli.analysis.simulation import round_ends_of
from robin_cli.model.records import BATCH
from robin_cli.views.plan.calls import Calls, at_tier
from robin_cli.views.plan.prospect import Prospect

_WINDOW_S = 24 * 3600.0
"""In which a batch is answered, or comes back in part: the only ``completion_window`` that OpenAI has."""

_FLEX = "flex"
_PLAIN: dict[str, Any] = {"service_tier": None, "tier_fallback": False, "batch": False, "batch_files": None}
_WAYS: dict[str | None, dict[str, Any]] = {
    None: _PLAIN,
    _FLEX: {**_PLAIN, "service_tier": _FLEX},
    BATCH: {**_PLAIN, "batch": True},
}
"""By the service tier at which they are paid, what is set for them."""


def ways_of(prospect: Prospect, calls: Calls, budget: int, expected: Mapping[int, Expected]) -> list[dict[str, Any]]:
    """What ``budget`` calls take and reach by each way of which a price is known; nothing where that leaves no choice.

    Nor where the budget is of money, of which each way makes another number of calls, or goes out in files.

    Args:
        expected: errors of the way that is planned, by budget.
    """
    config = prospect.config
    if not config.model or config.budget_usd is not None or config.batch_files is not None:
        return []
    found: dict[str | None, tuple[Calls, Expected | None, Prospect]] = {}
    errors: dict[int | None, Expected | None] = {prospect.rounds: expected.get(budget)}
    for tier, changed in _WAYS.items():
        if (paid := at_tier(calls, config, tier)) is not None:
            way = prospect if tier == config.tier else replace(prospect, config=replace(config, **changed))
            if way.rounds not in errors:
                errors[way.rounds] = way.expected(config.scheduler, [budget]).get(budget)
            found[tier] = paid, errors[way.rounds], way
    if len(found) < 2:
        return []
    return [_row(tier, *each, budget, is_planned=tier == config.tier) for tier, each in found.items()]


def _row(
    tier: str | None, calls: Calls, expected: Expected | None, way: Prospect, budget: int, *, is_planned: bool
) -> dict[str, Any]:
    low, high = calls.dollars(budget)
    rounds = None if way.rounds is None else _rounds(way, way.rounds, budget)
    # A pilot's pace is that of the way it was made, and at flex nobody knows: it depends on how much room there is.
    seconds = calls.time(budget) if is_planned or not (tier == _FLEX or calls.already.calls) else None
    if rounds is not None:
        seconds = rounds * _WINDOW_S
    return {
        "way": tier or "one call at a time",
        "is_planned": is_planned,
        "scheduler": way.scheduler_at(budget),
        "rounds": rounds,
        "cost_usd_at_least": low,
        "cost_usd_at_most": high,
        "seconds": seconds,
        "seconds_are": "about" if rounds is None else "at most",
        "worst_error": expected and expected.worst,
        "worst_error_sem": expected and expected.worst_sem,
        "mean_error": expected and expected.mean,
    }


def _rounds(way: Prospect, rounds: int, budget: int) -> int:
    """How many there are: what a policy wants before it looks at any answer makes one."""
    policy = way.policy(way.config.scheduler, budget, np.ones(way.arms))
    return rounds if policy is None else len(round_ends_of(policy, budget, way.arms, rounds))
