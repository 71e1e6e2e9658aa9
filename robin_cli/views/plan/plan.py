"""A plan: the facts of what a budget, its half and its double come to, and the page that says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_error, check_target, check_together
from robin_cli.goals.deciding import Deciding
from robin_cli.goals.own.compare import Compare
from robin_cli.goals.preferring import Preferring
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, Scale, number_of
from robin_cli.results.words import dollars
from robin_cli.runner.inputs import prompts_of
from robin_cli.settings.table import TABLE, Settings
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import bought
from robin_cli.views.plan.differences import differences
from robin_cli.views.plan.forecasts import decisions, scores
from robin_cli.views.plan.known import asked_of
from robin_cli.views.plan.page import (
    UNKNOWN,
    Columns,
    Page,
    Planned,
    Row,
    Sheet,
    listed,
    money,
    money_about,
    money_alone,
    time,
    time_about,
)
from robin_cli.views.plan.rankings import rankings

_PLANS: Mapping[type, Callable[[Asked, Any], Planned]] = {
    Deciding: decisions,
    Compare: differences,
    Preferring: rankings,
    Goal: scores,
}


@dataclass(frozen=True)
class Plan:
    """A plan: ``facts`` as JSON values, and the ``page`` for people."""

    facts: dict[str, Any]
    page: Page


_ASKS = {"--for-error": "finds the calls that an error of scores takes", "--compare": "plans a comparison of systems"}
_SAYS = {
    "--for-error": "something else",
    "--pairwise": "has no ratings; its plan says how far off a system's win rate may be, for each budget",
    TABLE["decide"].flag: "something else: a plan with it says how many calls it takes until everything is decided",
    "--budget-usd": "says them",
}


def check_plan(config: Settings, for_error: float | None, difference: float | None, scales: Sequence[Scale]) -> None:
    """InputError for what no plan answers: before a pilot is paid for.

    Args:
        for_error: to find the budget for.
        difference: of two systems, which is to show.
    """
    check_together(config)
    check_target(config, scales)
    asked = {"--for-error": for_error, "--compare": difference}
    for flag, error in asked.items():
        if error is None:
            continue
        for other, is_given in (
            ("--for-error", flag == "--compare" and for_error is not None),
            ("--pairwise", config.pairwise),
            (TABLE["decide"].flag, config.decide is not None),
            ("--budget-usd", flag == "--for-error" and config.budget_usd is not None),
        ):
            if is_given:
                raise InputError(f"{flag}: {_ASKS[flag]}, and {other} {_SAYS[other]}; leave one of the two out")
        check_error(flag, error, scales)
    finds_it = (config.pairwise, config.decide, for_error, difference, config.target_error)
    if not (config.budget or config.budget_usd or config.objective == COMPARE or any(finds_it)):
        raise InputError(
            "--budget is missing: say what budget to plan for, for example --budget 50000, or --for-error 0.2 to find one"
        )


def plan_of(
    config: Settings,
    dataset: Dataset,
    notify: Callable[[str], None],
    *,
    pilot: Path | None = None,
    for_error: float | None = None,
    difference: float | None = None,
) -> Plan:
    """What ``config`` would do with its budget; asks nobody.

    Args:
        notify: is told what to know of ``--variances`` and of the data.
        pilot: a run on the same data by the same judge; its answers also tell tokens, money and time.
        for_error: find the budget that brings the error to this: the largest, or the average with ``--objective mean-error``.
            It is the budget where none is given. None: the largest error at which ``config`` would stop, if there is one.
        difference: of two systems, find what it takes until it shows.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a budget that the pilot has spent already.
    """
    check_plan(config, for_error, difference, prompts_of(config).scales)
    config = replace(config, objective="compare" if difference is not None else config.wanted_objective)
    asked = asked_of(config, dataset, notify, pilot)
    asked = replace(asked, for_error=for_error, difference=difference)
    planned = next(plan for kind, plan in _PLANS.items() if isinstance(asked.goal, kind))(asked, asked.goal)
    facts = _facts(planned, config)
    return Plan(facts, _page(planned, facts))


def _facts(planned: Planned, config: Settings) -> dict[str, Any]:
    asked, calls, budget = planned.asked, planned.calls, planned.asked.budget
    choice = asked.choice(budget)
    tokens, ends = calls.tokens(planned.spent), bought(config, calls)
    return {
        "pairs": len(asked.space.pair_ids),
        "attributes": list(asked.space.attributes),
        "judges": list(config.model),
        "arms": len(asked.space),
        "scheduler": asked.scheduler_at(budget),
        "scheduler_asked": config.scheduler,
        "scheduler_because": None if choice is None else choice.why,
        "pilot": None if asked.pilot is None else {"run": str(asked.pilot), "spent": calls.already.calls},
        "ratings_known": asked.told_by is not None,
        "ratings_vary_as": planned.prior or asked.prior,
        "tokens_from": calls.source,
        "price": calls.price,
        "service_tier": config.tier,
        "target_error": config.target_error,
        "target_guaranteed": config.guaranteed,
        "budget": budget,
        "budget_usd": config.budget_usd,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "completion_tokens_at_most": config.max_tokens * planned.spent,
        "max_cost_usd": config.max_cost,
        "max_cost_calls_at_least": ends[0],
        "max_cost_calls_at_most": ends[1],
        "forecast": [{**row, "known_then": planned.asked.goal.known_then(row, planned.words)} for row in planned.rows],
        **planned.facts,
    }


def _page(planned: Planned, facts: dict[str, Any]) -> Page:
    asked, rows = planned.asked, facts["forecast"]

    def is_planned(row: Row) -> bool:
        return bool(row["budget"] == asked.budget)

    (at,) = filter(is_planned, rows)
    wanted = {max(rows[0]["budget"], round(asked.budget * times)) for times in (0.5, 1.0, 2.0)}
    budgets: Columns = {"calls": lambda row: f"{row['budget']:,}"}
    screen = Sheet(
        [row for row in rows if row["budget"] in wanted],
        {**budgets, "money": money_alone, "time": time_about, **planned.columns},
        is_planned,
    )
    whole = Sheet(rows, {**budgets, "money": money, "time": time, **planned.all_columns}, is_planned)
    sent = "Nothing was sent."
    if asked.pilot is not None:
        sent = f"The pilot's {number_of(facts['pilot']['spent'], 'call')} count: they are part of each budget."
    taken = _taken_for_granted(planned, at)
    return Page(
        answer=[
            *planned.first,
            _headline(planned, at),
            f"{planned.about}.",
            f"How ratings vary: {facts['ratings_vary_as']}.",
            f"{taken}{sent}",
        ],
        sheet=screen,
        ways_on=[f"--details says more. {_way_on(planned)}".strip()],
        details=["", whole, "", *_of_calls(planned, facts), *planned.details],
    )


def _headline(planned: Planned, at: Row) -> str:
    """What the budget takes, and what is known then."""
    config, calls = planned.asked.config, number_of(planned.asked.budget, "call")
    at_most = " at most" * planned.asked.goal.ends
    takes = f"take about {time_about(at)}"
    if config.in_rounds:
        takes = f"take {time_about(at)} at most"
    cost = money_about(at)
    if config.budget_usd is not None:
        said = f"{dollars(config.budget_usd)} (--budget-usd) pay for about {calls}, which {takes}"
    elif cost == UNKNOWN:
        said = f"{calls}{at_most} {takes}; their price is not known (--price-in, --price-out)"
    else:
        said = f"{calls}{at_most} cost about {cost} and {takes}"
    known = planned.asked.goal.known_then(at, planned.words)
    return f"{said}. Then {known}." if known else f"{said}."


def _taken_for_granted(planned: Planned, at: Row) -> str:
    """What money and time were reckoned by, where nothing tells."""
    calls, granted = planned.calls, []
    if calls.completion is None and at["cost_usd_about"] is not None:
        granted.append("answers of 100 tokens")
    if at["seconds"] is None and not planned.asked.config.in_rounds:
        granted.append(f"a call every {calls.seconds_assumed:.2g} s")
    return f"Assumed: {listed(granted)}. " if granted else ""


def _way_on(planned: Planned) -> str:
    """The next command."""
    asked = planned.asked
    if asked.config.budget_usd is not None:
        return ""
    if planned.way_on is not None:
        return planned.way_on
    if asked.pilot is None:
        return (
            "--pilot 50 asks 50 comparisons first, and plans by them."
            if asked.goal.noun == "verdict"
            else "--pilot 3 asks three times a pair first, and plans by that."
        )
    until = "" if asked.config.target_error is None else f" --target-error {asked.config.target_error:g}"
    until += " --guaranteed" * asked.config.guaranteed
    return f"To spend it: robin resume {typed(asked.pilot)} --budget {asked.budget}{until}"


def _of_calls(planned: Planned, facts: dict[str, Any]) -> list[str]:
    """What the calls take, and why the scheduler is this one."""
    config = planned.asked.config
    out = facts["completion_tokens"]
    answers = (
        f"{out:,} out" if out is not None else f"at most {facts['completion_tokens_at_most']:,} out (--max-tokens)"
    )
    unpriced = "not known (--price-in, --price-out)"
    if config.tier is not None:
        unpriced = f"none is known by {config.tier}: the model may not be offered so; if it is, give --price-in and --price-out"
    lines = [f"Tokens: about {facts['prompt_tokens']:,} in, {answers}; {facts['tokens_from']}."]
    lines.append(f"Price: {facts['price'] or unpriced}.")
    if facts["scheduler_because"]:
        lines.append(f"--scheduler {facts['scheduler_asked']}: {facts['scheduler']}; {facts['scheduler_because']}.")
    if config.budget_usd is not None:
        lines.append(
            "These figures are those of as many calls at one cost: what choosing by the dollar brings is not in them."
        )
    lines += _max_cost(facts)
    if any(row["cost_usd_at_least"] != row["cost_usd_at_most"] for row in planned.rows):
        lines.append("money: from answers of no length to answers of --max-tokens each.")
    return lines


def _max_cost(facts: dict[str, Any]) -> list[str]:
    """Where ``--max-cost`` would end this run, and which of the budgets shown."""
    limit, least, most = (facts[f"max_cost_{name}"] for name in ("usd", "calls_at_least", "calls_at_most"))
    if limit is None or least is None:
        return []
    if not most and most is not None:
        return [f"--max-cost {dollars(limit)} does not pay for one call, for the most that it may cost must be there."]
    end = f"{number_of(least, 'call')} or more" if most is None else f"{least:,} to {number_of(most, 'call')}"
    end = number_of(least, "call") if least == most else end
    stopped = {
        verdict: [f"{row['budget']:,}" for row in facts["forecast"] if row["within_max_cost"] is within]
        for verdict, within in (("stops", False), ("may stop", None))
    }
    told = [f"{verdict} {listed(budgets)}" for verdict, budgets in stopped.items() if budgets]
    of_these = f"of these budgets it {', '.join(told)}" if told else "it stops none of these budgets"
    return [f"--max-cost {dollars(limit)} pays for about {end}: {of_these}."]
