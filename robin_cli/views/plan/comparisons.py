"""The facts of a plan of a pairwise run: how many comparisons a budget asks, what that takes, and how sure it makes them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robin_cli.analysis.comparison_forecast import (
    FEWEST,
    Scatter,
    preference_half_width,
    scatter_of,
    usual_scatter,
    win_rate_half_width,
)
from robin_cli.datasets.pairs import Dataset
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import BATCH
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import chosen
from robin_cli.runner.aims import check_together
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.money import paid_for
from robin_cli.runner.pairwise import check_comparisons
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import read_run
from robin_cli.views.plan.calls import TAKEN, Calls, at_tier, calls_of
from robin_cli.views.plan.facts import length_of_answers, taken
from robin_cli.views.text import finite

_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
_FEWEST = 2 * FEWEST
"""Of a pilot: a scheduler may repeat some, and some answers have no verdict."""
_WINDOW_S = 24 * 3600.0
_WAYS = {None: "one call at a time", "flex": "flex", BATCH: BATCH}


def check_comparisons_plan(config: Settings, for_error: float | None, compare: float | None) -> None:
    """InputError for what a plan of comparisons cannot answer."""
    check_together(config)
    told = (
        "a plan of comparisons says how far off a system's win rate may be, for each budget; leave one of the two out"
    )
    if for_error is not None:
        raise InputError(f"--for-error: finds the budget for an error of ratings, and --pairwise has none; {told}")
    if compare is not None:
        raise InputError(f"--compare: is a difference of ratings, and --pairwise has none; {told}")


def comparisons_plan_of(config: Settings, dataset: Dataset, *, pilot: Path | None = None) -> dict[str, Any]:
    """What the pairwise ``config`` would do with its budget, as JSON values; asks nobody.

    Without a budget that is planned which asks every comparison once in both orders.

    Args:
        pilot: a run on the same comparisons by the same judge; its answers tell tokens, money, time and how preferences vary.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a pilot that spent the budget or says too little.
    """
    prompts = prompts_of(config)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    ids = dataset.pairs.ids
    space = ArmSpace(ids, prompts.attributes, judges, prompts.scales, is_pairwise=True)
    matches = matches_of(space, dataset.pairs, config.seed, wants_best=config.decide is not None)
    run = None if pilot is None else read_run(pilot, TAKEN)
    paid = None
    if config.budget_usd is not None:
        paid = paid_for(config, space, dataset.pairs, prompts, length_of_answers(run))
    least = 0 if run is None else run.fold.arms.spent
    budget = config.budget or (len(space) if paid is None else paid.calls)
    check_comparisons(budget, matches)
    if budget < least:
        raise InputError(f"--budget {budget}: the pilot {pilot} has spent {least:,} calls already; plan for more")
    choice = chosen(config.scheduler, _setup_of(config, space, matches, budget))
    calls = calls_of(config, dataset, prompts, a_request=1.0, pilot=run, earlier=run)
    if paid is not None:
        calls = replace(calls, cost=paid.usually if paid.least == paid.most else None, least=paid.least, most=paid.most)
    scatter = (None if run is None else scatter_of(run)) or usual_scatter(len(judges))
    budgets = sorted({max(least, space.arms_per_pair, round(budget * each)) for each in _MULTIPLES} | {budget})
    tokens = calls.tokens(budget)
    return {
        "pairwise": True,
        "comparisons": len(matches),
        "prompts": len(np.unique(matches.prompt)),
        "systems": list(matches.names),
        "judges": list(config.model),
        "calls_a_comparison": space.arms_per_pair,
        "calls_once": len(space),
        "ranks_systems": matches.ranks_systems,
        "decide": config.decide,
        "budget": budget,
        "budget_usd": config.budget_usd,
        "scheduler": config.scheduler if choice is None else choice.name,
        "scheduler_asked": config.scheduler,
        "scheduler_because": None if choice is None else choice.why,
        "pilot": None if run is None else {"run": str(pilot), "spent": least},
        "preferences_vary": {"between": scatter.between, "within": scatter.within, "told_by": scatter.comparisons},
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "completion_tokens_at_most": config.max_tokens * budget,
        "tokens_from": calls.source,
        "price": calls.price,
        "service_tier": config.tier,
        "max_cost_usd": config.max_cost,
        "forecast": [_row(each, matches, scatter, config, calls) for each in budgets],
        "ways": _ways(config, calls, budget),
    }


def pilot_calls(count: int, dataset: Dataset, settings: Settings) -> int:
    """How many calls ask ``count`` comparisons in both orders, by all judges; of all, where there are not as many.

    InputError where these would tell too little.
    """
    if count < _FEWEST:
        raise InputError(
            f"--pilot {count}: with --pairwise so many comparisons are asked, and {_FEWEST} are needed; give more"
        )
    return 2 * max(1, len(settings.model)) * min(count, len(dataset.pairs))


def _setup_of(config: Settings, space: ArmSpace, matches: Matches, budget: int) -> Setup:
    return Setup(
        arms=len(space),
        budget=budget,
        scale=space.scales[0],
        delta=config.delta,
        mode=config.mode,
        objective=config.wanted_objective,
        by_money=config.budget_usd is not None,
        matches=matches,
        rounds=config.rounds if config.in_rounds else None,
    )


def _row(budget: int, matches: Matches, scatter: Scatter, config: Settings, calls: Calls) -> dict[str, Any]:
    """What ``budget`` calls take and reach, spread evenly over comparisons drawn at random."""
    an_arm = budget / len(matches.space)
    asked = min(len(matches), budget // matches.space.arms_per_pair)
    ranked = len(matches.names) > 1 and not matches.wants_best
    wins = win_rate_half_width(scatter, matches, asked, max(1.0, an_arm)) if ranked else math.nan
    return {
        "budget": budget,
        "comparisons_asked": asked,
        "calls_of_each": max(1.0, an_arm),
        **taken(config, calls, budget),
        "win_rate_half_width": finite(wins),
        "preference_half_width": preference_half_width(scatter, max(1.0, an_arm)),
    }


def _ways(config: Settings, calls: Calls, budget: int) -> list[dict[str, Any]]:
    """What the same calls cost, and how long they take, by each way of which a price is known; nothing without a choice."""
    if not config.model or config.budget_usd is not None or config.batch_files is not None:
        return []
    found = {tier: paid for tier in _WAYS if (paid := at_tier(calls, config, tier)) is not None}
    if len(found) < 2:
        return []
    rows = []
    for tier, paid in found.items():
        low, high = paid.dollars(budget)
        is_planned, rounds = tier == config.tier, config.rounds if tier == BATCH else None
        # A pilot's pace is that of the way it was made, and at flex nobody knows: it depends on how much room there is.
        seconds = paid.time(budget) if is_planned or not (tier == "flex" or calls.already.calls) else None
        rows.append(
            {
                "way": _WAYS[tier],
                "is_planned": is_planned,
                "rounds": rounds,
                "cost_usd_at_least": low,
                "cost_usd_at_most": high,
                "seconds": seconds if rounds is None else rounds * _WINDOW_S,
                "seconds_are": "about" if rounds is None else "at most",
            }
        )
    return rows
