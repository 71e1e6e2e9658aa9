"""A plan of a comparison for people: a table by calls a response, and how to go on."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.model.errors import typed
from robin_cli.model.records import COMPARE, number_of
from robin_cli.views.messages import print_json
from robin_cli.views.plan.view import money
from robin_cli.views.text import duration, plain

_SPREADS_SHOWN = 6


def print_difference_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    """Print what :func:`robin_cli.views.plan.differences.difference_plan_of` found."""
    if as_json:
        print_json(plan, indent=True)
        return
    console = Console()
    console.print(Text(plain("\n".join(_head(plan)))))
    console.print(_table(plan))
    console.print(Text(plain("\n".join([*_answer(plan), *_explained(plan)]))))


def _head(plan: dict[str, Any]) -> list[str]:
    first, known, systems = plan["rows"][0], plan["known_from"], plan["systems"]
    which = " and ".join(systems) if len(systems) == 2 else f"any two of {len(systems)} systems"
    wanted = f"a difference of {_points(plan, plan['compare'])} between {which} ({', '.join(plan['attributes'])})"
    there = f"The data has {number_of(plan['prompts'], 'prompt')} that two systems or more answered"
    spreads = plan["spreads"] if len(plan["spreads"]) <= _SPREADS_SHOWN else []
    calls, out = number_of(first["calls"], "call"), first["completion_tokens"]
    tokens = f"about {first['prompt_tokens'] / first['calls']:,.0f} in" + (
        "" if out is None else f", {out / first['calls']:,.0f} out"
    )
    return [
        f"To see {wanted} takes {number_of(first['prompts'], 'prompt')} at a call a response: {calls}.",
        "",
        f"{there}; each takes {plan['calls_a_prompt']:.3g} calls to be asked about once.",
        f"How differences vary over prompts: as in {number_of(known['calls'], 'call')} of {known['run']}.",
        *(_spread(plan, each) for each in spreads),
        f"Tokens: {tokens}; {plan['tokens_from']}. Price: {plan['price'] or 'not known (--price-in, --price-out)'}.",
    ]


def _spread(plan: dict[str, Any], spread: dict[str, Any]) -> str:
    """How a difference varies, and by whose doing."""
    total, noise = spread["variance_at_one_call"], spread["noise"]
    of_judge = "" if noise is None or not total else f", {100 * noise / total:.0f} % of its variance the judge's noise"
    which = f"{spread['attribute']}, {spread['a']} − {spread['b']}"
    over = number_of(spread["prompts"], "prompt")
    return f"  {which}: standard deviation {_points(plan, total**0.5)} over {over}{of_judge}."


def _table(plan: dict[str, Any]) -> Table:
    rows = [row for row in plan["rows"] if row["prompts"] is not None]
    columns: list[tuple[str, Any]] = [
        ("calls each", lambda row: f"{row['calls_a_response']}"),
        ("prompts", lambda row: f"{row['prompts']:,}"),
        ("calls", lambda row: f"{row['calls']:,}"),
        ("money", money),
        ("time", lambda row: duration(row["seconds"])),
        ("all show", lambda row: _points(plan, row["all_prompts_show"])),
        ("", lambda row: _mark(plan, row)),
    ]
    there = {"money": rows[0]["cost_usd_at_least"] is not None, "time": rows[0]["seconds"] is not None}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    chosen = [(name, text) for name, text in columns if there.get(name, True)]
    for name, _ in chosen:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        is_cheapest = row["calls_a_response"] == plan["cheapest"]
        table.add_row(*(text(row) for _, text in chosen), style="bold" if is_cheapest else "")
    return table


def _mark(plan: dict[str, Any], row: dict[str, Any]) -> str:
    if row["calls_a_response"] == plan["cheapest"]:
        return "cheapest"
    return "" if row["enough_prompts"] else "too many"


def _answer(plan: dict[str, Any]) -> list[str]:
    """Whether the prompts of the data do, and what a budget shows."""
    there, budget = plan["prompts"], plan["budget"]
    cheapest = _cheapest(plan)
    lines = []
    if cheapest is None:
        last = [row for row in plan["rows"] if row["prompts"] is not None][-1]
        calls, shows = number_of(last["calls_a_response"], "call"), _points(plan, last["all_prompts_show"])
        lines.append(
            f"The data has too few prompts: with {calls} a response, all {there:,} show a difference of {shows}."
        )
        lines.append("More prompts help more than more calls.")
    elif cheapest["prompts"] < there:
        lines.append(
            f"The data has more than it takes: --objective {COMPARE} asks about prompts in random order, one after the other."
        )
    if budget is not None and budget["shows"] is not None:
        times = f"{budget['calls_a_response']:.2g} times" if budget["calls_a_response"] > 1 else "once"
        lines.append(
            f"A budget of {number_of(budget['calls'], 'call')} asks about {number_of(budget['prompts'], 'prompt')} {times}: it "
            f"shows a difference of {_points(plan, budget['shows'])}."
        )
    return lines


def _explained(plan: dict[str, Any]) -> list[str]:
    """What the words mean, and how to go on."""
    rows, known, cheapest = plan["rows"], plan["known_from"], _cheapest(plan)
    fewest, (low, high) = plan["known_from"]["prompts"], plan["times_as_many"]
    power, level = (f"{100 * each:g} %" for each in (plan["power"], 1 - plan["alpha"]))
    lines = [
        "",
        f"To see, to show: with a chance of {power}, the difference's interval at {level} (t over prompts) leaves 0 out.",
        f"calls each: of each judge for each response; all show: the difference that all {plan['prompts']:,} prompts show.",
        f"How differences vary is known from {number_of(fewest, 'prompt')}: it may take {low:.2g} to {high:.2g} times as many.",
    ]
    if len(plan["spreads"]) > 1:
        lines.append(
            "Prompts are those for the systems and the attribute that take the most, each difference by itself."
        )
    if rows[-1]["prompts"] is None:
        lines.append("Nothing was asked twice there, so what repeats would bring is not known.")
    if rows[0]["cost_usd_at_least"] != rows[0]["cost_usd_at_most"]:
        lines.append("money: from answers of no length to answers of --max-tokens each.")
    calls = plan["budget"]["calls"] if plan["budget"] else cheapest["calls"] if cheapest else 0
    if known["is_beginning"] and calls > known["calls"]:
        lines.append(f"To spend it: robin resume {typed(known['run'])} --budget {calls}")
    elif calls and not known["is_beginning"]:
        lines.append(f"To spend it: robin judge DATA … --objective {COMPARE} --budget {calls}")
    return lines


def _cheapest(plan: dict[str, Any]) -> dict[str, Any] | None:
    return next((row for row in plan["rows"] if row["calls_a_response"] == plan["cheapest"]), None)


def _points(plan: dict[str, Any], value: float) -> str:
    return f"{value:.3g}" if plan["differences_are"] == "points" else f"{100 * value:.3g} % of the scale"
