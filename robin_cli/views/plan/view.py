"""A plan for people: a table of budgets, and what an error would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.policies.registry import policy_named
from robin_cli.render.text import plain
from robin_cli.results.words import dollars, duration


def show(*parts: Table | Iterable[str]) -> None:
    """Print tables and lines of text, one under the other."""
    console = Console()
    for part in parts:
        console.print(part if isinstance(part, Table) else Text(plain("\n".join(part))))


def print_plan(plan: dict[str, Any]) -> None:
    """Print what :func:`robin_cli.views.plan.facts.plan_of` found."""
    show(_head(plan), _table(plan), *([_ways(plan)] if plan["ways"] else []), _tail(plan))


def _head(plan: dict[str, Any]) -> list[str]:
    out = plan["completion_tokens"]
    answers = f"{out:,} out" if out is not None else f"at most {plan['completion_tokens_at_most']:,} out (--max-tokens)"
    pilot = plan["pilot"]
    sent = "Nothing was sent."
    if pilot is not None:
        sent = f"The pilot's {number_of(pilot['spent'], 'call')} count: they are part of each budget."
    arms = f"{number_of(plan['pairs'], 'pair')} ({plan['attributes'][0]})"
    if plan["arms"] > plan["pairs"]:
        judges = f" × {len(plan['judges'])} judges" if len(plan["judges"]) > 1 else ""
        arms = f"{plan['arms']:,} scores ({number_of(plan['pairs'], 'pair')} × {', '.join(plan['attributes'])}{judges})"
    target = plan["for_error"]
    who, at_most = plan["scheduler"], " at most" * (plan["decide"] is not None)
    return [
        *([] if target is None else [_target(plan, target), ""]),
        *([] if plan["decide"] is None else [_end(plan, plan["decide"]), ""]),
        f"{number_of(plan['budget'], 'call')}{at_most} over {arms}, {plan['calls_an_arm']:.1f} each on average, by {who}.",
        *(
            [f"--scheduler {plan['scheduler_asked']}: {plan['scheduler_because']}."]
            if plan["scheduler_because"]
            else []
        ),
        f"Tokens: about {plan['prompt_tokens']:,} in, {answers}; {plan['tokens_from']}.",
        *_by_money(plan),
        f"Price: {plan['price'] or _no_price(plan)}.",
        f"How ratings vary: {plan['ratings_vary_as']}.",
        *([f"The scheduler begins with the variances of {plan['variances_from']}."] if plan["variances_from"] else []),
        sent,
    ]


def _no_price(plan: dict[str, Any]) -> str:
    if plan["service_tier"] is None:
        return "not known (--price-in, --price-out)"
    at = plan["service_tier"]
    return f"none is known by {at}: the model may not be offered so there; if it is, give --price-in and --price-out"


def _by_money(plan: dict[str, Any]) -> list[str]:
    """That the calls are an estimate, where the budget is of money."""
    if plan["budget_usd"] is None:
        return []
    paid = f"{dollars(plan['budget_usd'])} (--budget-usd) pay for about so many calls."
    return [
        f"{paid} These errors are those of as many calls at one cost: what choosing by the dollar brings is not in them."
    ]


def _table(plan: dict[str, Any]) -> Table:
    rows = plan["forecast"]
    columns: list[tuple[str, Any]] = [
        ("calls", lambda row: f"{row['budget']:,}"),
        ("a pair" if plan["arms"] == plan["pairs"] else "a score", lambda row: f"{row['calls_an_arm']:.1f}"),
        ("spent", _spent),
        ("money", money),
        ("time", lambda row: duration(row["seconds"])),
        *(_errors(plan) if plan["decide"] is None else _DECISIONS),
    ]
    shown = {
        **dict.fromkeys(("a pair", "a score"), plan["decide"] is None),  # there are columns enough
        "spent": any(row.get("calls") is not None for row in rows),
        "money": rows[0]["cost_usd_at_least"] is not None,
        "time": rows[0]["seconds"] is not None,
        **dict.fromkeys(("spread evenly", "evenly"), not policy_named(plan["scheduler"]).evenly),
        "paper's bound": any(row.get("bound") is not None for row in rows),
    }
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    chosen = [(name, text) for name, text in columns if shown.get(name, True)]
    for name, _ in chosen:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        mark = "bold" if row["budget"] == plan["budget"] else "dim" if row["within_max_cost"] is False else ""
        table.add_row(*(text(row) for _, text in chosen), style=mark)
    return table


def _ways(plan: dict[str, Any]) -> Table:
    """The same calls one at a time, by flex and by batches; the one planned stands out."""
    columns: dict[str, Any] = {
        number_of(plan["budget"], "call"): way,
        "money": money,
        "time": hours,
        "largest error": lambda row: _error(plan, row["worst_error"], row["worst_error_sem"]),
        "average": lambda row: _error(plan, row["mean_error"], None),
    }
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, text in columns.items():
        table.add_column(name, justify="left" if text is way else "right", no_wrap=True)
    for row in plan["ways"]:
        table.add_row(*(text(row) for text in columns.values()), style="bold" if row["is_planned"] else "")
    return table


def way(row: dict[str, Any]) -> str:
    """How the calls of a row are made."""
    if row["rounds"] is not None:
        return f"--batch, {number_of(row['rounds'], 'round')}"
    return f"--service-tier {row['way']}" if row["way"] == "flex" else str(row["way"])


def hours(row: dict[str, Any]) -> str:
    """How long they take."""
    if row["seconds"] is None:
        return "slower" if row["way"] == "flex" else "–"
    return f"≤ {row['seconds'] / 3600:.0f} h" if row["seconds_are"] == "at most" else duration(row["seconds"])


def _of_ways(plan: dict[str, Any]) -> list[str]:
    """What is taken for granted of the ways."""
    lines = []
    for row in plan["ways"]:
        if row["way"] == "flex":
            lines.append(
                "--service-tier flex: slower than the normal tier, by how much nobody says; a request may take 15 minutes, and "
                "wait where there is no room."
            )
        if row["rounds"] is not None:
            other = f", by {row['scheduler']}" * (row["scheduler"] != plan["ways"][0]["scheduler"])
            lines.append(
                f"--batch: each round may take 24 hours, and all of it is chosen by the answers of the rounds before{other}."
            )
    if lines and "--price-in" in (plan["price"] or ""):
        lines.append("Where the endpoint has them: they are taken to cost half.")
    return lines


def _errors(plan: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("largest error", lambda row: _error(plan, row["worst_error"], row["worst_error_sem"])),
        ("spread evenly", lambda row: _error(plan, row["even_worst_error"], row["even_worst_error_sem"])),
        ("average", lambda row: _error(plan, row["mean_error"], None)),
        ("paper's bound", lambda row: _error(plan, row["bound"], None)),
    ]


def _spent(row: dict[str, Any]) -> str:
    return "–" if row["calls"] is None else f"{row['calls']:,.0f}"


def _wrong(row: dict[str, Any], prefix: str = "") -> str:
    share: float | None
    sem: float
    share, sem = row[f"{prefix}wrong"], row[f"{prefix}wrong_sem"]
    if share is None:
        return "–"
    if not share:  # none of so many: fewer than 3 in as many, with 95 %
        return f"< {300 / row[f'{prefix}decisions_simulated']:.1g}"
    return f"{100 * share:.2f}" + (f" ± {100 * sem:.2f}" if sem >= _SHOWN_SEM else "")


def _certified(row: dict[str, Any], prefix: str = "") -> str:
    share: float | None
    sem: float
    share, sem = row[f"{prefix}certified"], row[f"{prefix}certified_sem"]
    if share is None:
        return "–"
    return f"{100 * share:.0f}" + (f" ± {100 * sem:.0f}" if sem >= 100 * _SHOWN_SEM else "")


_SHOWN_SEM = 0.00005
_DECISIONS: list[tuple[str, Any]] = [
    ("wrong %", _wrong),
    ("evenly", lambda row: _wrong(row, "even_")),
    ("certified %", _certified),
    ("evenly", lambda row: _certified(row, "even_")),
]


def money(row: dict[str, Any]) -> str:
    """What a row of a plan costs."""
    low, high = row["cost_usd_at_least"], row["cost_usd_at_most"]
    return dollars(low) if low == high else f"{_short(low)}–{_short(high)[1:]}"


def _short(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:.2g}"


def _error(plan: dict[str, Any], value: float | None, sem: float | None) -> str:
    if value is None:
        return "–"
    if plan["errors_are"] != "points":
        return f"{100 * value:.1f}" + ("" if sem is None else f" ± {100 * sem:.1f}") + " %"
    return f"{value:.2f}" + ("" if sem is None else f" ± {sem:.2f}")


def _tail(plan: dict[str, Any]) -> list[str]:
    return [*(_of_errors(plan) if plan["decide"] is None else _of_decisions(plan, plan["decide"])), *_further(plan)]


def _of_errors(plan: dict[str, Any]) -> list[str]:
    lines = [] if plan["for_error"] else [_needed(plan, each) for each in plan["calls_for"]]
    if beyond := [each for each in plan["calls_for"] if each["calls_are"] == "more than" and not plan["for_error"]]:
        lines.append(f"--for-error {beyond[0]['worst_error']:g} looks for it beyond the largest budget here.")
    lines += [
        *_max_cost(plan),
        *_stop(plan),
        "",
        "largest error: how far the worst score is from the judge's own mean rating; average: over all pairs.",
        f"Simulated, mean of {plan['simulated_runs']} runs; ± is the simulation's own noise, no guarantee.",
    ]
    if plan["errors_are"] != "points":
        lines.append("These attributes have several scales: errors are shares of the width of each one's own.")
    if not plan["by_text"]:
        lines.append("These are errors of scores by the text; by log probabilities they are smaller.")
    if others := [row for row in plan["forecast"] if row["worst_error"] and row["scheduler"] != plan["scheduler"]]:
        calls = _listed([f"{row['budget']:,}" for row in others])
        lines.append(
            f"With {calls} calls, --scheduler {plan['scheduler_asked']} is {others[0]['scheduler']}, in a run that begins with "
            "that budget."
        )
    if len(plan["judges"]) > 1:
        lines.append("These are errors of each judge's scores; those of the panel are smaller.")
    lines += sorted({f"paper's bound: assumes {row['assumes']}" for row in plan["forecast"] if row["assumes"]})
    return lines


def _of_decisions(plan: dict[str, Any], decide: dict[str, Any]) -> list[str]:
    lines = [each for needed in plan["calls_for"] if (each := _for_wrong(plan, needed))]
    margins = list(dict.fromkeys(decide["margins"].values()))
    margin = f"the margin of {margins[0]:g}" if len(margins) == 1 else "its margin"
    evenly = "" if policy_named(plan["scheduler"]).evenly else "; evenly: by an even spread of the calls"
    guaranteed = f"certified: at most {100 * decide['error_rate']:g} % of these are wrong on average, guaranteed"
    late = "most of them come at once, near the end, for till then calls go where it is least clear"
    lines += [
        *_max_cost(plan),
        "",
        "spent: on average, for a run ends when everything is decided.",
        f"wrong: of all decisions by the mean ratings alone, by more than {margin}{evenly}.",
        f"{guaranteed}{f'; {late}' if policy_named(plan['scheduler']).whole else ''}.",
        f"Simulated, mean of {plan['simulated_runs']} runs; ± is the simulation's own noise, no guarantee.",
    ]
    if plan["pilot"] is None and not plan["ratings_known"]:
        alike = ", which takes the responses of a group to be no more alike than others" * (decide["of"] == "groups")
        lines.append(f"Without ratings of these pairs this is a rough forecast{alike}.")
    if not plan["by_text"]:
        lines.append("These are decisions by the text; by log probabilities they take fewer calls.")
    return lines


def _further(plan: dict[str, Any]) -> list[str]:
    """What the money is of, and how to go on."""
    lines = []
    if any(row["cost_usd_at_least"] != row["cost_usd_at_most"] for row in plan["forecast"]):
        lines.append("money: from answers of no length to answers of --max-tokens each.")
    if plan["below_warm_up"]:
        lines.append(
            f"This budget is below {plan['scheduler'].upper()}'s warm-up, so it is spread evenly"
            + "; --scheduler two-priors adapts sooner" * (plan["decide"] is None)
            + "."
        )
    if plan["budget_usd"] is not None:
        return lines
    lines += _of_ways(plan)
    if plan["pilot"] is None:
        lines.append(
            "--pilot 3 asks your judge three times a pair, and plans by its answers, their cost and their pace."
        )
    elif plan["decide"] is not None and plan["decide"]["by_pilot"]:
        lines.append(
            f"The pilot decided everything: nothing is left to be spent. robin export {typed(plan['pilot']['run'])} has it."
        )
    else:
        until = "" if plan["target_error"] is None else f" --target-error {plan['target_error']:g}"
        until += " --guaranteed" * plan["target_guaranteed"]
        lines.append(f"To spend it: robin resume {typed(plan['pilot']['run'])} --budget {plan['budget']}{until}")
    return lines


def _needed(plan: dict[str, Any], needed: dict[str, Any]) -> str:
    evenly = (
        ""
        if policy_named(plan["scheduler"]).evenly
        else f" (spread evenly: {needed['even_calls_are']} {needed['even_calls']:,})"
    )
    error = _told(plan, needed["worst_error"])
    return (
        f"For a largest error of {error} you need {needed['calls_are']} {number_of(needed['calls'], 'call')}{evenly}."
    )


def _told(plan: dict[str, Any], error: float) -> str:
    """An error to reach, in the unit of the errors."""
    return f"{error:g}" if plan["errors_are"] == "points" else f"{100 * error:g} %"


def _target(plan: dict[str, Any], target: dict[str, Any]) -> str:
    """The budget for an error, first of all: who asks for it wants nothing else."""
    error = f"{'an average' if target['of'] == 'mean' else 'a largest'} error of {_told(plan, target['error'])}"
    evenly = f"spread evenly: {target['even_calls_are']} {target['even_calls']:,}"
    about = [] if policy_named(plan["scheduler"]).evenly else [evenly]
    if target["calls_are"] == "more than":
        some = target["calls_low"] < target["calls"]
        noise = f" (by the simulation's own noise, {target['calls_low']:,} may do)" if some else ""
        return (
            f"For {error} you need more than {number_of(target['searched_to'], 'call')}: up to there it was searched{noise}"
            f"{'; ' * bool(about)}{evenly * bool(about)}."
        )
    if target["calls_are"] == "about":
        high = "more" if target["calls_high"] is None else f"{target['calls_high']:,}"
        about.insert(0, f"95 %: {target['calls_low']:,} to {high}")
    return f"For {error} you need {target['calls_are']} {number_of(target['calls'], 'call')}" + (
        f" ({'; '.join(about)})." if about else "."
    )


def _end(plan: dict[str, Any], decide: dict[str, Any]) -> str:
    """When everything is decided, first of all: it is what such a run ends by."""
    what = number_of(decide["decisions"], decide["of"][:-1])
    what = f"{decide['decide']}, for {what}"
    evenly = f"spread evenly: {decide['even_calls_to_end_are']} {decide['even_calls_to_end']:,}"
    says_more = decide["even_calls_to_end_are"] == "about" or decide["even_calls_to_end"] > decide["calls_to_end"]
    about = [evenly] if says_more and not policy_named(plan["scheduler"]).evenly else []
    if decide["calls_to_end_are"] == "about":
        about.insert(0, f"95 %: {decide['calls_to_end_low']:,} to {decide['calls_to_end_high']:,}")
    calls = f"{decide['calls_to_end_are']} {number_of(decide['calls_to_end'], 'call')}"
    return f"To decide everything ({what}) takes {calls}" + (f" ({'; '.join(about)})." if about else ".")


def _for_wrong(plan: dict[str, Any], needed: dict[str, Any]) -> str:
    """The calls for a share of wrong decisions; "" where it does not come to so few."""
    if needed["calls"] is None:
        return ""
    evenly = ""
    if not policy_named(plan["scheduler"]).evenly and needed["even_calls"] is not None:
        evenly = f" (spread evenly: {needed['even_calls_are']} {needed['even_calls']:,})"
    calls = f"{needed['calls_are']} {number_of(needed['calls'], 'call')}"
    return f"For {100 * needed['wrong']:g} % of wrong decisions you need {calls}{evenly}."


def _stop(plan: dict[str, Any]) -> list[str]:
    """What ``--target-error`` does to the run, and what of it is forecast."""
    if plan["target_error"] is None:
        return []
    stops = (
        f"--target-error {plan['target_error']:g}: robin judge stops there, and what is left of the budget is not spent"
    )
    bound = "; these errors are the estimated ones: the bound of --guaranteed is larger, and takes more calls"
    return [f"{stops}{bound * plan['target_guaranteed']}."]


def _max_cost(plan: dict[str, Any]) -> list[str]:
    """Where ``--max-cost`` would end this run, and which of the budgets shown."""
    limit, least, most = (plan[name] for name in ("max_cost_usd", "max_cost_calls_at_least", "max_cost_calls_at_most"))
    if limit is None or least is None:
        return []
    if not most and most is not None:
        return [f"--max-cost {dollars(limit)} does not pay for one call, for the most that it may cost must be there."]
    end = (
        number_of(least, "call")
        if least == most
        else f"{number_of(least, 'call')} or more"
        if most is None
        else f"{least:,} to {number_of(most, 'call')}"
    )
    stopped = {
        verdict: [f"{row['budget']:,}" for row in plan["forecast"] if row["within_max_cost"] is within]
        for verdict, within in (("stops", False), ("may stop", None))
    }
    told = [f"{verdict} {_listed(budgets)}" for verdict, budgets in stopped.items() if budgets]
    of_these = f"of these budgets it {', '.join(told)}" if told else "it stops none of these budgets"
    return [f"--max-cost {dollars(limit)} pays for about {end}: {of_these}."]


def _listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: "2, 3 and 4"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
