"""A plan of a pairwise run: how many comparisons a budget asks, what that takes, and how sure it makes them.

A preference, the mean of its verdicts in both orders, is what the judge would say of the two responses if asked without end,
which varies over prompts with the variance ``between``, and the chance of its verdicts, ``within`` with one of each judge in
each order. Comparisons of one response with others of its prompt hang together: of what varies over prompts half is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.paired import student_factor
from robin_cli.analysis.pairwise import matches_of_run, order_means
from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.checks import check_together
from robin_cli.goals.making import wanted_goal
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import chance
from robin_cli.model.errors import InputError, shown, typed
from robin_cli.model.matches import Matches
from robin_cli.model.records import BATCH, ORDERS, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import chosen
from robin_cli.results.words import dollars, duration, finite
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.money import paid_for
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import RunData, read_run
from robin_cli.views.plan.calls import TAKEN, Calls, at_tier, calls_of
from robin_cli.views.plan.facts import length_of_answers, taken
from robin_cli.views.plan.view import hours, money, show, way

FEWEST = 10
"""Comparisons with a preference that tell how preferences vary."""

_DIFFERS = 0.8
"""Of systems that are equal: by how much, in log odds, a response is better or worse than its system (a standard deviation)."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True, slots=True)
class Scatter:
    """How preferences vary: variances, see above; of how many ``comparisons`` they were told, 0 for none."""

    between: float
    within: float
    comparisons: int = 0


def usual_scatter(judges: int) -> Scatter:
    """That of equal systems, whose responses differ as those of ``configs/demo`` do; without ties, without an order effect."""
    p = chance(math.sqrt(2.0) * _DIFFERS * _NODES)
    weight = _WEIGHTS / _WEIGHTS.sum()
    within = float(weight @ (p * (1.0 - p)))
    return Scatter(float(weight @ (p - 0.5) ** 2), within / (len(ORDERS) * judges))


def scatter_of(run: RunData) -> Scatter | None:
    """That of a pairwise run; None where FEWEST comparisons have no preference.

    What is by chance is told by how the orders differ beyond the order's effect.
    """
    matches = matches_of_run(run)
    means = order_means(run).mean(axis=2)
    known = ~np.isnan(means).any(axis=1)
    if known.sum() < FEWEST:
        return None
    preference, apart = means[known].mean(axis=1), 0.5 * (means[known, 0] - means[known, 1])
    chance_of = float(np.var(apart, ddof=1))
    # About the mean of each two systems, where they are named.
    couple = matches.opponents[1] if len(matches.names) > 1 else np.zeros(len(matches), dtype=np.int64)
    total = _variance_within(preference, couple[known])
    verdicts = run.space.by_pair(run.fold.arms.counts)[known]
    within = chance_of / float(np.mean(1.0 / verdicts))
    return Scatter(max(0.0, total - chance_of), within, int(known.sum()))


def _variance_within(values: FloatArray, group: IntArray) -> float:
    """About the mean of each group; about a half where each has one value."""
    _, place = np.unique(group, return_inverse=True)
    n = np.bincount(place)
    squares = float((values**2).sum() - (np.bincount(place, values) ** 2 / n).sum())
    freedom = len(values) - len(n)
    return squares / freedom if freedom else float(np.mean((values - 0.5) ** 2))


def win_rate_half_width(scatter: Scatter, matches: Matches, asked: float, calls: float) -> float:
    """Half of the 95 % interval of the win rate of that system which is in the fewest comparisons; nan on one prompt.

    Args:
        asked: comparisons that are asked, drawn at random.
        calls: of each arm of those.
    """
    place = matches.system.ravel()
    each = np.bincount(place, minlength=len(matches.names))
    fewest = int(each.argmin())
    prompts = len(np.unique(np.repeat(matches.prompt, 2)[place == fewest]))
    share = min(1.0, asked / len(matches))
    n = float(each[fewest]) * share
    together = (each[fewest] / prompts - 1.0) * share * 0.5 * scatter.between
    over = int(min(prompts, n))
    if over < 2:
        return math.nan
    error = math.sqrt((scatter.between + scatter.within / calls + together) / n)
    return min(0.5, student_factor(over, ALPHA) * error)


def preference_half_width(scatter: Scatter, calls: float) -> float:
    """Half of the likely interval of a single preference after so many calls of each arm."""
    return min(0.5, student_factor(10**6, ALPHA) * math.sqrt(scatter.within / calls))


_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
_FEWEST = 2 * FEWEST
"""Of a pilot: a scheduler may repeat some, and some answers have no verdict."""
_WINDOW_S = 24 * 3600.0
_WAYS = {None: "one call at a time", "flex": "flex", BATCH: BATCH}


def check_asked(config: Settings, for_error: float | None, compare: float | None) -> None:
    """InputError for what a plan of comparisons cannot answer."""
    check_together(config)
    told = (
        "a plan of comparisons says how far off a system's win rate may be, for each budget; leave one of the two out"
    )
    if for_error is not None:
        raise InputError(f"--for-error: finds the budget for an error of ratings, and --pairwise has none; {told}")
    if compare is not None:
        raise InputError(f"--compare: is a difference of ratings, and --pairwise has none; {told}")


def plan_of(config: Settings, dataset: Dataset, *, pilot: Path | None = None) -> dict[str, Any]:
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
    space = ArmSpace(ids, prompts.attributes, judges, prompts.scales, prompts.kind.variants)
    goal = wanted_goal(config, space, dataset.pairs, lambda _: None)
    matches = goal.matches
    assert matches is not None  # noqa: S101  # they are wanted
    run = None if pilot is None else read_run(pilot, TAKEN)
    paid = None
    if config.budget_usd is not None:
        paid = paid_for(config, goal, dataset.pairs, prompts, length_of_answers(run))
    least = 0 if run is None else run.fold.arms.spent
    budget = config.budget or (len(space) if paid is None else paid.calls)
    goal.check_reach(budget)
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


_SYSTEMS_SHOWN = 6


def print_plan(plan: dict[str, Any]) -> None:
    """Print what :func:`plan_of` found."""
    tables = [_table(plan["forecast"], _columns(plan), lambda row: row["budget"] == plan["budget"])]
    if plan["ways"]:
        columns: Columns = {number_of(plan["budget"], "call"): way, "money": money, "time": hours}
        tables.append(_table(plan["ways"], columns, lambda row: row["is_planned"]))
    show(_head(plan), *tables, _tail(plan))


def _head(plan: dict[str, Any]) -> Iterator[str]:
    names = ", ".join(shown(name) for name in plan["systems"][:_SYSTEMS_SHOWN])
    more = ", …" * (len(plan["systems"]) > _SYSTEMS_SHOWN)
    systems = f" of {number_of(len(plan['systems']), 'system')} ({names}{more})" if plan["systems"] else ""
    judges = f" × {len(plan['judges'])} judges" if len(plan["judges"]) > 1 else ""
    yield f"{number_of(plan['comparisons'], 'comparison')}{systems}, {number_of(plan['prompts'], 'prompt')}."
    yield f"To ask all once takes {number_of(plan['calls_once'], 'call')}: 2 orders{judges}."
    if plan["scheduler_because"]:
        yield f"--scheduler {plan['scheduler_asked']}: {plan['scheduler']}; {plan['scheduler_because']}."
    out = plan["completion_tokens"]
    answers = f"{out:,} out" if out is not None else f"at most {plan['completion_tokens_at_most']:,} out (--max-tokens)"
    asked = number_of(plan["budget"], "call")
    yield f"Tokens of {asked}: about {plan['prompt_tokens']:,} in, {answers}; {plan['tokens_from']}."
    if plan["budget_usd"] is not None:
        yield f"{dollars(plan['budget_usd'])} (--budget-usd) pay for about so many calls."
    yield f"Price: {plan['price'] or 'not known (--price-in, --price-out)'}."
    told = plan["preferences_vary"]["told_by"]
    too_few = "" if plan["pilot"] is None else "not told by the pilot, which has too few verdicts; "
    yield "How preferences vary: " + (
        f"as in {number_of(told, 'comparison')} of the pilot."
        if told
        else f"{too_few}as those of systems that are equal, and differ from prompt to prompt as simulated ones do."
    )
    yield (
        "Nothing was sent."
        if plan["pilot"] is None
        else f"The pilot's {number_of(plan['pilot']['spent'], 'call')} count: they are part of each budget."
    )


Columns = dict[str, Callable[[dict[str, Any]], str]]


def _columns(plan: dict[str, Any]) -> Columns:
    rows = plan["forecast"]
    columns: Columns = {
        "calls": lambda row: f"{row['budget']:,}",
        "compared": lambda row: f"{row['comparisons_asked']:,}",
        "× each": lambda row: f"{row['calls_of_each']:.1f}",
        "money": money,
        "time": lambda row: duration(row["seconds"]),
        "win rate": lambda row: _half(row["win_rate_half_width"]),
        "preference": lambda row: _half(row["preference_half_width"]),
    }
    shown_ = {
        "money": rows[0]["cost_usd_at_least"] is not None,
        "time": rows[0]["seconds"] is not None,
        "win rate": any(row["win_rate_half_width"] is not None for row in rows),
    }
    return {name: text for name, text in columns.items() if shown_.get(name, True)}


def _half(value: float | None) -> str:
    return "–" if value is None else f"± {100 * value:.0f} %"


def _table(rows: list[dict[str, Any]], columns: Columns, is_planned: Callable[[dict[str, Any]], bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, text in columns.items():
        table.add_column(name, justify="left" if text is way else "right", no_wrap=True)
    for row in rows:
        style = "bold" if is_planned(row) else "dim" if row.get("within_max_cost") is False else ""
        table.add_row(*(text(row) for text in columns.values()), style=style)
    return table


def _tail(plan: dict[str, Any]) -> Iterator[str]:
    if any(row["win_rate_half_width"] is not None for row in plan["forecast"]):
        yield "win rate: half of the 95 % interval, over prompts, of how often a system is preferred to others."
    yield "compared: how many comparisons; × each: how often in each order, by each judge."
    yield "preference: half of the likely 95 % interval of one comparison that is asked."
    if plan["ranks_systems"]:
        yield (
            "With three systems and more not all comparisons need be asked: --scheduler tournament asks more between systems "
            "that are close. These figures are those of an even spread."
        )
    elif plan["decide"]:
        yield "The run ends when the best response to each prompt is certain; these figures are those of an even spread."
    if (limit := plan["max_cost_usd"]) is not None:
        beyond = [f"{row['budget']:,}" for row in plan["forecast"] if row["within_max_cost"] is False]
        yield f"--max-cost {dollars(limit)} stops {', '.join(beyond) if beyond else 'none of these budgets'}."
    if any(row["cost_usd_at_least"] != row["cost_usd_at_most"] for row in plan["forecast"]):
        yield "money: from answers of no length to answers of --max-tokens each."
    if plan["budget_usd"] is not None:
        return
    if plan["pilot"] is None:
        yield "--pilot 50 asks about 50 comparisons in both orders, and plans by the answers, their cost and their pace."
    else:
        yield f"To spend it: robin resume {typed(plan['pilot']['run'])} --budget {plan['budget']}"
