"""``robin plan``: the answer, the table of budgets, and the details; for people and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.text import Text

from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE
from robin_cli.show.columns import PLANNED
from robin_cli.show.tables import Column, Table
from robin_cli.show.terminal import print_table, stdout_console
from robin_cli.show.text import plain
from robin_cli.show.words import duration, error_text, share_text, significant, target_text
from robin_cli.simulate.forecast import RUNS, SHARE_WITHIN, Needed
from robin_cli.simulate.plan import Plan
from robin_cli.stats.repeats import FEWEST

_HEADERS = {
    "worst_error": "worst score",
    "mean_error": "average",
    "calls": "spent",
    "wrong": "wrong %",
    "likely_wrong": "likely wrong %",
}
_ERRORS, _SHARES = {"worst_error", "mean_error"}, {"wrong", "likely_wrong"}
_EXPECTED = {"logprobs", "decisions"}
_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")


def facts_of(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    config, space, cost, goal = plan.config, plan.space, plan.cost, None
    if plan.needed is not None:
        by_policy, evenly = plan.needed
        goal = {"calls": by_policy.calls, "calls_are": by_policy.relation}
        goal |= {"even_calls": evenly.calls, "even_calls_are": evenly.relation}
    calls, out = plan.spent(plan.budget), cost.completion
    return {
        "pairs": len(space.pair_ids),
        "attributes": list(space.attributes),
        "judges": list(plan.models),
        "arms": len(space),
        "scheduler": plan.scheduler,
        "scheduler_asked": config.scheduler,
        "scheduler_because": plan.because,
        "budget": plan.budget,
        "max_cost_usd": config.max_cost,
        "requests": round(calls / cost.a_request),
        "ratings_per_prompt": cost.a_request,
        "prompt_tokens": round(calls * cost.prompt),
        "completion_tokens": None if out is None else round(calls * out),
        "completion_tokens_at_most": calls * config.max_tokens,
        "tokens_from": cost.source,
        "price": cost.price,
        "seconds_from": cost.pace,
        "ratings_vary_as": _prior(plan) if plan.is_simulated else None,
        "simulated_runs": RUNS if plan.is_simulated else None,
        "simulated_arms": plan.simulated_arms,
        "errors_are": "shares of the scale" if space.has_several_scales else "points",
        "decide": config.decide,
        "target_error": config.target_error,
        "goal": goal,
        "forecast": rows_of(plan),
    }


def rows_of(plan: Plan) -> list[dict[str, Any]]:
    """Return what each budget takes and brings, rising."""
    words = partial(error_text, as_share=plan.space.has_several_scales)
    rows = []
    for budget in plan.budgets:
        figures = plan.figures(budget)
        rows.append(
            {
                "budget": budget,
                **plan.cost.figures(plan.spent(budget), plan.config),
                "calls_an_arm": budget / len(plan.space),
                **figures,
                "known_then": plan.goal.known_then(figures, words) if figures else "",
            }
        )
    return rows


def print_plan(plan: Plan, facts: Mapping[str, Any], *, details: bool) -> None:
    """Print a plan and its :func:`facts_of` at the terminal; ``details``: all that it knows."""
    console, rows = stdout_console(), facts["forecast"]
    lines = [*_goal_line(plan), _headline(plan, rows), *_assumptions(plan)]
    console.print(Text(plain("\n".join(lines))))
    print_table(console, plan_table(plan, rows, details=details))
    price = [f"Price: {facts['price']}."] * (plan.config.max_cost is not None)
    notes = ["", *_notes(plan, facts), "Nothing was sent."]
    lines = notes if details else [*price, "--details says more. Nothing was sent."]
    console.print(Text(plain("\n".join(lines))))


def plan_table(plan: Plan, rows: list[dict[str, Any]], *, details: bool = False) -> Table:
    """Return the ``rows`` of the budgets; people see an even spread with ``details``."""
    undeclared = [name for name in plan.goal.figures if name not in PLANNED.columns]
    headers = _HEADERS | {name: name.replace("_", " ") for name in undeclared}
    names = [name for name in headers if name in rows[0]]
    even = names if details and plan.scheduler != BASELINE else []
    texts = {
        "calls": [f"{row['budget']:,}" for row in rows],
        "money": [_money(row) if details else _short(row["cost_usd_about"]) for row in rows],
        "time": [duration(row["seconds"]) for row in rows],
        **{headers[name]: [_figure(plan, name, row[name]) for row in rows] for name in names},
        **{
            f"evenly: {headers[name]}": [_figure(plan, name, row[f"even_{name}"]) for row in rows]
            for name in even
        },
    }
    columns = [
        Column(f"{label} for people", form="word", label=label, hide="empty", for_people=True)
        for label in texts
    ]
    columns += [
        Column(f"{prefix}{name}", form="number") for name in undeclared for prefix in ("", "even_")
    ]
    values = {name: [row[name] for row in rows] for name in rows[0]}
    people = {column.name: texts[column.label] for column in columns if column.for_people}
    return PLANNED.with_values({**values, **people}, *columns, terminal=list(people))


def _figure(plan: Plan, name: str, value: float) -> str:
    if name in _ERRORS:
        return error_text(value, as_share=plan.space.has_several_scales)
    if name == "calls":
        return f"{value:,.0f}"
    return significant(100 * value if name in _SHARES else value, 2)


def _goal_line(plan: Plan) -> list[str]:
    """Return how many calls reach the goal, if there is one."""
    if plan.needed is None:
        return []
    by_policy, evenly = plan.needed
    takes, even = _calls_text(by_policy), _calls_text(evenly)
    beside = "" if plan.scheduler == BASELINE else f" (spread evenly: {even})"
    if plan.config.target_error is not None:
        error = target_text(plan.config.target_error, as_share=plan.space.has_several_scales)
        return [f"For an expected error of {error} of the worst score you need {takes}{beside}."]
    often = f", or fewer, in {10 * SHARE_WITHIN:.0f} of 10 runs" * (by_policy.relation == "about")
    target = plan.goal.target_wrong
    what = f"have {share_text(target)} of the decisions likely wrong" if target else "certify all"
    return [f"To {what} ({plan.config.decide}) takes {takes}{often}{beside}."]


def _calls_text(needed: Needed) -> str:
    return f"{needed.relation} {number_of(needed.calls, 'call')}"


def _headline(plan: Plan, rows: list[dict[str, Any]]) -> str:
    """Return what the budget takes, and what it brings."""
    row = next(row for row in rows if row["budget"] == plan.budget)
    calls = f"{number_of(plan.budget, 'call')}{' at most' * plan.goal.ends}"
    time = f"take {'at most' if plan.config.batch else 'about'} {duration(row['seconds'])}"
    cost = _money(row)
    takes = f"cost about {cost} and {time}" if cost else time
    unknown = "" if cost else "; their price is not known (--price-in, --price-out)"
    limit = "" if row["within_max_cost"] in {None, True} else " --max-cost does not pay for them."
    then = f" Then {row['known_then']} (in {RUNS} simulated runs)." if row["known_then"] else ""
    return f"{calls} {takes}{unknown}.{limit}{then}"


def _prior(plan: Plan) -> str:
    """Return what the plan takes the ratings to vary like."""
    if plan.config.variances is not None:
        return f"as in {plan.config.variances}"
    asked = plan.space.attributes
    rated = asked if set(asked) <= set(_PAPER_RATED) else _PAPER_RATED
    alike = "; the responses of a group are no more alike than others"
    agree = "; the judges differ by noise alone" * (len(plan.space.judges) > 1)
    known = f"as those of the paper's two judges do, at {', '.join(rated)}"
    return f"{known}{alike * (plan.goal.groups is not None)}{agree}"


def _assumptions(plan: Plan) -> list[str]:
    """Return what is planned, and what the plan assumes where nothing is measured."""
    space, cost, answers = plan.space, plan.cost, set(plan.config.answers)
    judges = f" × {len(space.judges)} judges" * (len(space.judges) > 1)
    what = f"{number_of(len(space.pair_ids), plan.goal.rows[:-1])} ({', '.join(space.attributes)}){judges}"
    calls = f"{plan.budget / len(space):.1f} calls per {plan.goal.results[:-1]}"
    lines = [f"{what}, {calls}, by {plan.scheduler}."]
    assumed = []
    if plan.is_simulated and plan.config.variances is None:
        assumed.append(f"ratings vary {_prior(plan)}")
    elif plan.is_simulated:
        lines.append(f"Ratings vary {_prior(plan)}.")
    if answers & _EXPECTED:
        calls = f"{len(space) + FEWEST * space.arms_per_pair:,}"
        about = f", after about {calls} calls" * (answers <= _EXPECTED)
        assumed.append(
            f"ratings as by text, while a run by expectations ends once 59 repeats agree{about}"
        )
    if cost.completion is None and cost.price:
        assumed.append("answers have 100 tokens")
    if cost.pace.startswith("assumed: ") and not plan.config.batch:
        assumed.append(cost.pace.removeprefix("assumed: "))
    return [*lines, f"Assumed: {'; '.join(assumed)}."] if assumed else lines


def _notes(plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    """Return the requests, tokens and prices, the reason for the scheduler, and the extent of the simulation."""
    config, out, per_prompt = plan.config, facts["completion_tokens"], facts["ratings_per_prompt"]
    answers = f"at most {facts['completion_tokens_at_most']:,}" if out is None else f"{out:,}"
    several = f" of {per_prompt:.1f} ratings, if the endpoint takes n" if per_prompt > 1 else ""
    lines = [
        f"Requests: {facts['requests']:,}{several}; time: {facts['seconds_from']}.",
        f"Tokens: about {facts['prompt_tokens']:,} in, {answers} out; {facts['tokens_from']}.",
        f"Price: {facts['price'] or 'not known (--price-in, --price-out)'}.",
    ]
    if config.batch:
        rounds = number_of(config.rounds, "round")
        lines.append(f"--batch: {rounds} of up to 24 hours. The forecast is that of single calls.")
    if plan.because:
        lines.append(f"--scheduler {config.scheduler}: {plan.scheduler}; {plan.because}.")
    if plan.is_simulated:
        some = f"{facts['simulated_arms']:,} of {number_of(facts['arms'], 'score')}"
        lines.append(f"Simulated: {RUNS} runs of {some}; figures have two digits.")
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
