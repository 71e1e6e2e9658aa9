"""A plan of a pairwise run for people: what budgets ask, take and tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.model.errors import shown, typed
from robin_cli.model.records import number_of
from robin_cli.views.messages import print_json
from robin_cli.views.plan.view import hours, money, way
from robin_cli.views.text import dollars, duration, plain

_SYSTEMS_SHOWN = 6


def print_comparisons_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    """Print what :func:`robin_cli.views.plan.comparisons.comparisons_plan_of` found."""
    if as_json:
        print_json(plan, indent=True)
        return
    console = Console()
    console.print(Text(plain("\n".join(_head(plan)))))
    console.print(_table(plan["forecast"], _columns(plan), lambda row: row["budget"] == plan["budget"]))
    if plan["ways"]:
        columns: Columns = {number_of(plan["budget"], "call"): way, "money": money, "time": hours}
        console.print(_table(plan["ways"], columns, lambda row: row["is_planned"]))
    console.print(Text(plain("\n".join(_tail(plan)))))


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
