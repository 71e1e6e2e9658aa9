"""A plan for people: its answer, the table of budgets, and the details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE
from robin_cli.render.terminal import print_table
from robin_cli.render.text import plain
from robin_cli.results.columns import PLANNED
from robin_cli.results.tables import Column, Table
from robin_cli.results.words import (
    AT_TARGET,
    dollars,
    duration,
    error_text,
    significant,
    target_text,
)
from robin_cli.simulation.forecast import RUNS, SHARE_WITHIN, Needed
from robin_cli.views.plan import Plan

_FIGURES = {
    "worst_error": "largest error",
    "mean_error": "average",
    "calls": "spent",
    "wrong": "wrong %",
    "certified": "certified %",
}
"""Headers of the figures."""


def print_page(plan: Plan, *, details: bool) -> None:
    """Print a plan at the terminal; ``details``: all that it knows."""
    console, facts = Console(), plan.facts
    lines = [*_goal_line(plan), _headline(plan), *_assumptions(plan)]
    console.print(Text(plain("\n".join(lines))))
    print_table(console, plan_table(plan, details=details))
    if details:
        notes = [*_of_calls(plan, facts), *_of_forecast(plan, facts), "Nothing was sent."]
        console.print(Text(plain("\n".join(["", *notes]))))
    else:
        console.print("--details says more. Nothing was sent.")


def plan_table(plan: Plan, *, details: bool = False) -> Table:
    """Return a row for each budget; people see an even spread with ``details``."""
    rows = plan.rows
    names = [name for name in _FIGURES if name in rows[0]]
    even = names if details and plan.scheduler != BASELINE else []
    texts = {
        "calls": [f"{row['budget']:,}" for row in rows],
        "money": [_money(row) if details else _short(row["cost_usd_about"]) for row in rows],
        "time": [duration(row["seconds"]) for row in rows],
        **{_FIGURES[name]: [_figure(plan, name, row[name]) for row in rows] for name in names},
        **{
            f"evenly: {_FIGURES[name]}": [_figure(plan, name, row[f"even_{name}"]) for row in rows]
            for name in even
        },
    }
    columns = [
        Column(f"{label} for people", form="word", label=label, hide="empty", for_people=True)
        for label in texts
    ]
    values = {name: [row[name] for row in rows] for name in rows[0]}
    people = {column.name: texts[column.label] for column in columns}
    return PLANNED.of({**values, **people}, *columns, terminal=list(people))


def _figure(plan: Plan, name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name.endswith("error"):
        return error_text(value, as_share=plan.space.has_several_scales)
    return f"{value:,.0f}" if name == "calls" else significant(100 * value, 2)


def _goal_line(plan: Plan) -> list[str]:
    """Return how many calls reach the goal, if there is one."""
    if plan.needed is None:
        return []
    mine, evenly = plan.needed
    beside = "" if plan.scheduler == BASELINE else f" (spread evenly: {_calls_text(evenly)})"
    if plan.config.target_error is None:
        often = f" or fewer in {10 * SHARE_WITHIN:.0f} of 10 simulated runs"
        takes = f"{_calls_text(mine)}{often * (mine.relation == 'about')}{beside}"
        return [f"To decide everything ({plan.config.decide}) takes {takes}."]
    error = target_text(plan.config.target_error, as_share=plan.space.has_several_scales)
    return [f"For a largest error of {error} you need {_calls_text(mine)}{beside}."]


def _calls_text(needed: Needed) -> str:
    return f"{needed.relation} {number_of(needed.calls, 'call')}"


def _headline(plan: Plan) -> str:
    """Return what the budget takes, and what it brings."""
    row = next(row for row in plan.rows if row["budget"] == plan.budget)
    calls = f"{number_of(plan.budget, 'call')}{' at most' * plan.goal.ends}"
    time = f"take {'at most' if plan.config.batch else 'about'} {duration(row['seconds'])}"
    cost = _money(row)
    takes = f"cost about {cost} and {time}" if cost else time
    unknown = "" if cost else "; their price is not known (--price-in, --price-out)"
    then = f" Then {row['known_then']}." if row["known_then"] else ""
    return f"{calls} {takes}{unknown}.{then}"


def _assumptions(plan: Plan) -> list[str]:
    """Return what is planned, and what the plan assumes where nothing is measured."""
    space, cost = plan.space, plan.cost
    judges = f" × {len(space.judges)} judges" * (len(space.judges) > 1)
    what = f"{number_of(len(space.pair_ids), plan.goal.rows[:-1])} ({', '.join(space.attributes)}){judges}"
    lines = [
        f"{what}, {plan.budget / len(space):.1f} calls per {plan.goal.results[:-1]}, by {plan.scheduler}."
    ]
    if plan.is_simulated:
        lines.append(f"How ratings vary: {plan.prior}.")
    tokens = ["answers of 100 tokens"] * (cost.completion is None and cost.usual is not None)
    pace = [cost.pace.removeprefix("assumed: ")] * cost.pace.startswith("assumed: ")
    if tokens or (pace and not plan.config.batch):
        lines.append(f"Assumed: {' and '.join([*tokens, *pace])}.")
    return lines


def _of_calls(plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    """Return the requests, tokens and prices, and the reason for the scheduler."""
    out, config = facts["completion_tokens"], plan.config
    most = f"at most {facts['completion_tokens_at_most']:,} out (--max-tokens)"
    answers = most if out is None else f"{out:,} out"
    lines = [
        f"Requests: {facts['requests']:,}; time: {facts['seconds_from']}.",
        f"Tokens: about {facts['prompt_tokens']:,} in, {answers}; {facts['tokens_from']}.",
        f"Price: {facts['price'] or 'not known (--price-in, --price-out)'}.",
    ]
    if config.batch:
        rounds = number_of(config.rounds, "round")
        lines.append(f"--batch: {rounds} of up to 24 hours. The forecast is that of single calls.")
    if facts["max_cost_calls_about"] is not None:
        paid = number_of(facts["max_cost_calls_about"], "call")
        lines.append(f"--max-cost {dollars(facts['max_cost_usd'])} pays for about {paid}.")
    if facts["scheduler_because"]:
        why = f"{facts['scheduler']}; {facts['scheduler_because']}"
        lines.append(f"--scheduler {facts['scheduler_asked']}: {why}.")
    return lines


def _of_forecast(plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    """Return what the figures of the forecast mean."""
    if not plan.is_simulated:
        return []
    simulated, arms = facts["simulated_arms"], facts["arms"]
    some = f", of {simulated:,} of the {arms:,} scores" * (simulated < arms)
    lines = [f"Simulated: the mean of {RUNS} runs{some}, with two digits; no guarantee."]
    if plan.goal.ends:
        lines.append("spent: on average, because a run ends when everything is decided.")
        lines.append("wrong: of all decisions by the mean ratings, by more than the margin.")
    else:
        lines.append("largest error: of the worst score, from the judge's own mean.")
    if plan.config.target_error is not None:
        lines.append(f"--target-error: robin judge stops there; {AT_TARGET}.")
    if plan.config.variances is None:
        lines.append("Without ratings of these pairs (--variances RUN) this is a rough forecast.")
    return lines


def _money(row: Mapping[str, Any]) -> str:
    """Return a row's cost and its range; "" without a price."""
    low, about, high = (row[f"cost_usd_{end}"] for end in ("at_least", "about", "at_most"))
    if low is None or low == high:
        return _short(about)
    return f"{_short(about)} ({_short(low)}–{_short(high)[1:]})"


def _short(amount: float | None) -> str:
    if amount is None:
        return ""
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:.2g}"
