"""A plan of a comparison: how many prompts, and calls of each response, a difference of two systems needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from robin_cli.analysis.paired import PairedSpread, difference_shown, paired_spreads, prompts_for, variance_range
from robin_cli.analysis.run_compare import as_they_are
from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.checks import check_error
from robin_cli.goals.making import wanted_goal
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import FEWEST_PROMPTS, Systems
from robin_cli.questions.rubrics import PromptSet
from robin_cli.results.words import duration
from robin_cli.runner.inputs import prompts_of
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.manifest import FILE
from robin_cli.storage.reader import RunData, read_run
from robin_cli.views.plan.calls import TAKEN, Already, Calls, calls_of
from robin_cli.views.plan.facts import taken
from robin_cli.views.plan.view import money, show

ALPHA, POWER = 0.05, 0.8
_CALLS = (1, 2, 3, 5, 10)
"""Of each judge for each response."""


def check_difference(config: Settings, difference: float, for_error: float | None, prompts: PromptSet) -> None:
    """InputError where ``--compare`` asks for a difference that there is not, or for something else, too."""
    others = {"--for-error": for_error, TABLE["decide"].flag: config.decide}
    if other := next((name for name, value in others.items() if value is not None), None):
        raise InputError(
            f"--compare: plans a comparison of systems, and {other} something else; leave one of the two out"
        )
    check_error("--compare", difference, prompts.scales)


def check_told(config: Settings, *, pilot: bool) -> None:
    """InputError where nothing tells how far systems differ from prompt to prompt."""
    if pilot or (config.variances and (Path(config.variances) / FILE).is_file()):
        return
    fact = (
        f"--variances {config.variances}: is no run, and only a run says which system answered"
        if config.variances
        else "--compare: how far the systems differ from prompt to prompt is not known yet"
    )
    raise InputError(
        f"{fact}; ask about some prompts first, robin judge DATA … --objective {COMPARE} --budget 200 --run RUN, and plan with "
        "--variances RUN, or let --pilot 2 ask about all"
    )


def plan_of(
    config: Settings,
    dataset: Dataset,
    notify: Callable[[str], None],
    *,
    difference: float,
    pilot: Path | None = None,
) -> dict[str, Any]:
    """What it takes until a ``difference`` of two systems would show, as JSON values; asks nobody.

    Args:
        config: with the objective to compare.
        pilot: a run on the same pairs by the same judge; its answers also tell tokens, money and time.

    Raises:
        InputError: what cannot be compared; a run that does not tell of these attributes.
    """
    prompts = prompts_of(config)
    prompts.check_references(dataset.pairs)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    space = ArmSpace(dataset.pairs.ids, prompts.attributes, judges, prompts.scales)
    goal = wanted_goal(config, space, dataset.pairs, notify if pilot is None else lambda _: None)
    systems = goal.systems
    assert systems is not None  # noqa: S101  # they are wanted
    if config.budget is not None:
        goal.check_reach(config.budget)
    told_by = pilot or Path(config.variances or "")
    run = read_run(told_by, TAKEN)
    spreads = _spreads(run, systems)
    calls = calls_of(config, dataset, prompts, a_request=1.0, pilot=run if pilot else None, earlier=run)
    there, fewest = int(systems.is_shared.sum()), min(each.prompts for each in spreads)
    a_prompt = systems.calls_for(there) / there
    rows = [_row(each, difference, spreads, there, a_prompt, config, calls) for each in _CALLS]
    enough = [row for row in rows if row["enough_prompts"]]
    cheapest = min(enough, key=lambda row: row["calls"], default=None)
    return {
        "compare": difference,
        "differences_are": "shares of the scale" if space.has_several_scales else "points",
        "alpha": ALPHA,
        "power": POWER,
        "systems": list(systems.names),
        "prompts": there,
        "pairs": len(dataset.pairs),
        "attributes": list(prompts.attributes),
        "judges": list(config.model),
        "calls_a_prompt": a_prompt,
        "known_from": {
            "run": str(told_by),
            "calls": run.fold.arms.spent,
            "prompts": fewest,
            "is_beginning": pilot is not None or _is_beginning(run, config, dataset),
        },
        "spreads": [_told(each) for each in spreads],
        "times_as_many": list(variance_range(fewest)),
        "rows": rows,
        "cheapest": None if cheapest is None else cheapest["calls_a_response"],
        "budget": None if config.budget is None else _with_budget(config.budget, spreads, there, a_prompt),
        "tokens_from": calls.source,
        "price": calls.price,
        "max_cost_usd": config.max_cost,
    }


def _is_beginning(run: RunData, config: Settings, dataset: Dataset) -> bool:
    """Whether the run could be gone on with: it compares systems of the same data."""
    return (
        run.manifest.compares
        and run.manifest.data["sha256"] == dataset.sha256
        and (not config.model or run.manifest.judges == tuple(map(judge_name, config.model)))
    )


def _spreads(run: RunData, systems: Systems) -> list[PairedSpread]:
    """How the differences of the systems vary in ``run``; of all its systems, where it has not two of these."""
    place, space = f"--variances {typed(run.path)}", systems.space
    theirs = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))
    for attribute, scale in zip(space.attributes, space.scales, strict=True):
        if theirs.get(attribute) != scale:
            has = f"is on {theirs[attribute]} there" if attribute in theirs else f"it has {', '.join(theirs)}"
            raise InputError(
                f"{place}: does not tell of {attribute} on the scale {scale} ({has}); name a run that rates it so"
            )
    found = as_they_are([run], lambda _: None, by=SYSTEM_COLUMN)
    spreads: list[PairedSpread] = []
    for attribute, scale in zip(space.attributes, space.scales, strict=True):
        unit = float(scale.high - scale.low) if space.has_several_scales else 1.0
        every = paired_spreads(attribute, found.systems, found.responses[attribute], unit=unit)
        if not every:
            raise InputError(
                f"{place}: no two systems have ratings of {attribute} for {FEWEST_PROMPTS} prompts that both answered; ask "
                f"about more: robin resume {typed(run.path)} --budget MORE"
            )
        spreads += [each for each in every if {each.a, each.b} <= {*systems.names}] or every
    return spreads


def _widest(spreads: Sequence[PairedSpread], calls: float) -> PairedSpread | None:
    """The two systems and the attribute that need the most prompts; None where there is no telling."""
    if any(math.isnan(each.noise_at(calls)) for each in spreads):
        return None
    return max(spreads, key=lambda each: each.between + each.noise_at(calls))


def _row(
    calls_each: int,
    difference: float,
    spreads: Sequence[PairedSpread],
    there: int,
    a_prompt: float,
    config: Settings,
    calls: Calls,
) -> dict[str, Any]:
    """What so many calls a response take."""
    widest = _widest(spreads, calls_each)
    if widest is None:
        return {
            "calls_a_response": calls_each,
            **dict.fromkeys(("prompts", "calls", "all_prompts_show", "prompt_tokens", "completion_tokens")),
            "enough_prompts": False,
            **dict.fromkeys(("cost_usd_at_least", "cost_usd_at_most", "within_max_cost", "seconds")),
        }
    noise = widest.noise_at(calls_each)
    needed = prompts_for(difference, widest.between, noise, alpha=ALPHA, power=POWER)
    spent = math.ceil(needed * a_prompt) * calls_each
    alone = replace(calls, already=Already())
    tokens = alone.tokens(spent)
    return {
        "calls_a_response": calls_each,
        "prompts": int(needed),
        "calls": spent,
        "all_prompts_show": difference_shown(there, widest.between, noise, alpha=ALPHA, power=POWER),
        "enough_prompts": needed <= there,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        **taken(config, alone, spent),
    }


def _with_budget(budget: int, spreads: Sequence[PairedSpread], there: int, a_prompt: float) -> dict[str, Any]:
    """What a budget would show that asks about as many prompts as it reaches, and then again about all."""
    prompts = min(there, math.floor(budget / a_prompt))
    calls = max(1.0, budget / (there * a_prompt))
    widest, shows = _widest(spreads, calls), None
    if widest is not None:
        shows = difference_shown(prompts, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER)
    return {"calls": budget, "prompts": prompts, "calls_a_response": calls, "shows": shows}


def _told(spread: PairedSpread) -> dict[str, Any]:
    is_known = not math.isnan(spread.noise)
    return {
        "attribute": spread.attribute,
        "a": spread.a,
        "b": spread.b,
        "prompts": spread.prompts,
        "difference": spread.difference,
        "variance_between": spread.between if is_known else None,
        "noise": spread.noise if is_known else None,
        "variance_at_one_call": spread.between + spread.noise_at(1),
    }


_SPREADS_SHOWN = 6


def print_plan(plan: dict[str, Any]) -> None:
    """Print what :func:`plan_of` found."""
    show(_head(plan), _table(plan), [*_answer(plan), *_explained(plan)])


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
