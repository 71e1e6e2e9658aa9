"""Plans of scores and of decisions: the run simulated, and an even spread of the same calls beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.analysis.decisions import decide
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.goals.deciding import Deciding
from robin_cli.goals.own.estimate import Estimate
from robin_cli.model.arms import mean
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE, policy_named
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import (
    RUNS,
    Expected,
    Found,
    Needed,
    Outlook,
    budget_for,
    calls_for,
    calls_of_a_search,
    calls_to_the_end,
    foresee,
)
from robin_cli.simulation.rating_model import draw_distributions
from robin_cli.simulation.runs import round_ends_of
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.calls import Calls, bought, calls_of, taken, ways_of
from robin_cli.views.plan.page import Planned, Row, figure, listed, ways_sheet

_MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_SHOWN_FROM = 0.5
_ERRORS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""

_WRONG = (0.01, 0.001)
"""Shares of wrong decisions to find the calls for."""

Figures = dict[str, Callable[[Expected], float]]

_ERROR_FIGURES: Figures = {
    "worst_error": lambda found: found.mean("worst"),
    "worst_error_sem": lambda found: found.sem("worst"),
    "mean_error": lambda found: found.mean("mean"),
}
_DECISION_FIGURES: Figures = {
    "calls": lambda found: found.mean("calls"),
    "calls_sem": lambda found: found.sem("calls"),
    "wrong": lambda found: found.mean("wrong"),
    "wrong_sem": lambda found: found.sem("wrong"),
    "certified": lambda found: found.mean("certified"),
    "certified_sem": lambda found: found.sem("certified"),
    "decisions_simulated": lambda found: found.decisions,
}
_NOISE = f"Simulated, mean of {RUNS} runs; ± is the simulation's own noise, no guarantee."


def scores(asked: Asked, goal: Estimate) -> Planned:  # noqa: ARG001
    """The plan of a run that estimates scores, at the budget for an error where that is asked for."""
    target = _target(asked)
    if asked.config.budget is None and target is not None:
        asked = asked.with_budget(max(asked.least, target["calls"]))
    calls, budget = calls_of(asked), asked.budget
    shown, multiples = _budgets(asked, calls)
    outlooks = _outlooks(asked, sorted({*shown, *multiples}))
    rows = _rows(asked, calls, shown, outlooks, _ERROR_FIGURES)
    rows = [{**row, **_paper_bound(asked, row["budget"])} for row in rows]
    scale = asked.space.scales[0]
    width = 1.0 if asked.space.has_several_scales else float(scale.high - scale.low)
    errors = [float(f"{share * width:.1g}") for share in _ERRORS]
    needed = [
        _needed("worst_error", each, outlooks, lambda outlook, error: calls_for(error, outlook.expected))
        for each in errors
    ]

    def reached(config: Settings) -> dict[str, Any]:
        """What the budget comes to by another way to make the calls."""
        way, rounds = replace(asked, config=config), config.rounds
        same = way.rounds == asked.rounds
        outlook = outlooks[0] if same else _simulated(way, config.scheduler, [budget])
        policy = way.policy(budget, np.ones(len(way.space)))
        if policy is not None and way.rounds is not None:  # what it wants before it looks at any answer makes one
            rounds = len(round_ends_of(policy, budget, len(way.space), rounds))
        found = _figures(outlook.expected.get(budget), _ERROR_FIGURES)
        return {"scheduler": way.scheduler_at(budget), "rounds": rounds if config.in_rounds else None, **found}

    ways = ways_of(asked.config, calls, budget, reached)
    unit: tuple[float, int, str] = (100, 1, " %") if asked.space.has_several_scales else (1, 2, "")
    largest, average = {"largest error": figure("worst_error", *unit)}, {"average": figure("mean_error", *unit)}
    evenly = {} if _is_even(asked) else {"spread evenly": figure("even_worst_error", *unit)}
    return Planned(
        *(asked, calls, rows, budget),
        first=[] if target is None else [_target_text(asked, target)],
        about=_about(asked),
        columns={**largest, **average},
        all_columns={**largest, **evenly, **average, "paper's bound": figure("bound", *unit)},
        words=lambda error: f"{100 * error:.1f} % of the scale" if asked.space.has_several_scales else f"{error:.2f}",
        facts={**_common(asked), "for_error": target, "decide": None, "calls_for": needed, "ways": ways},
        details=[
            *ways_sheet(ways, budget, {**largest, **average}),
            *["Where the endpoint has them: they are taken to cost half."]
            * (bool(ways) and "--price-in" in str(calls.price)),
            "",
            *([] if target is not None else [_needed_text(asked, each) for each in needed]),
            *_of_errors(asked, rows, needed if target is None else []),
            *_further(asked),
        ],
    )


def _target(asked: Asked) -> dict[str, Any] | None:
    """The budget for an error, and that of an even spread; of the largest error where the run would stop at it."""
    error = asked.config.target_error if asked.for_error is None else asked.for_error
    if error is None:
        return None
    average = asked.for_error is not None and asked.config.wanted_objective == "mean-error"
    unsaid = replace(asked, config=replace(asked.config, budget=None))
    mine, evenly = (
        budget_for(
            *(error, asked.belief, unsaid.policy_at(name), np.random.default_rng(SEED)),
            least=asked.least,
            measure="mean" if average else "worst",
            evenly=policy_named(name).evenly,
            rounds=asked.rounds,
        )
        for name in (asked.config.scheduler, BASELINE)
    )
    return {
        "error": error,
        "of": "mean" if average else "worst",
        **_found("calls", mine, evenly, 0),
        "searched_to": max(asked.least, calls_of_a_search(len(asked.space))),
    }


def _target_text(asked: Asked, target: dict[str, Any]) -> str:
    """The budget for an error, first of all: who asks for it wants nothing else."""
    error = f"{'an average' if target['of'] == 'mean' else 'a largest'} error of {_point(asked, target['error'])}"
    if target["calls_are"] != "more than":
        return f"For {error} you need {_found_text('calls', target, says_even=not _is_even(asked))}."
    noise = f"; by the simulation's own noise, {target['calls_low']:,} may do" * (target["calls_low"] < target["calls"])
    evenly = "" if _is_even(asked) else f"; spread evenly: {target['even_calls_are']} {target['even_calls']:,}"
    calls = number_of(target["searched_to"], "call")
    return f"For {error} you need more than {calls}: up to there it was searched{noise}{evenly}."


def _found(name: str, mine: Found, evenly: Found, least: int) -> dict[str, Any]:
    """Facts of calls for something, by the scheduler and by an even spread; of ``least`` or more."""
    return {
        name: max(least, mine.needed.calls),
        f"{name}_are": mine.needed.relation,
        f"{name}_low": max(least, mine.low.calls),
        f"{name}_high": None if mine.high.relation == "more than" else max(least, mine.high.calls),
        f"even_{name}": max(least, evenly.needed.calls),
        f"even_{name}_are": evenly.needed.relation,
    }


def _found_text(name: str, facts: dict[str, Any], *, says_even: bool) -> str:
    """The same in words."""
    about = []
    if f"{name}_low" in facts and facts[f"{name}_are"] == "about":
        high = "more" if facts[f"{name}_high"] is None else f"{facts[f'{name}_high']:,}"
        about.append(f"95 %: {facts[f'{name}_low']:,} to {high}")
    if says_even:
        about.append(f"spread evenly: {facts[f'even_{name}_are']} {facts[f'even_{name}']:,}")
    calls = f"{facts[f'{name}_are']} {number_of(facts[name], 'call')}"
    return f"{calls} ({'; '.join(about)})" if about else calls


def _paper_bound(asked: Asked, budget: int) -> dict[str, Any]:
    """The paper's bound, for the schedulers that its theorems cover, with variances drawn from what is known."""
    space, config = asked.space, asked.config
    theorem = policy_named(config.scheduler).theorem(config.mode)
    policy = asked.policy(budget, None) if theorem is not None and theorem > 1 else None
    if theorem is None or (theorem > 1 and policy is None):
        return {"bound": None, "assumes": None}
    rng, drawn = np.random.default_rng(SEED), []
    for place, known in enumerate(asked.known):
        p, scale = draw_distributions(known.counts, known.weights, rng), space.scale_of(place)
        levels = np.arange(scale.low, scale.high + 1, dtype=np.float64)
        drawn.append(p @ levels**2 - (p @ levels) ** 2)
    variances = np.stack(drawn, axis=1).ravel() / space.units**2
    bound, assumes = theorem_bound(theorem, variances, budget, config.delta, 0 if policy is None else policy.warm_up)
    return {"bound": bound, "assumes": assumes}


def _of_errors(asked: Asked, rows: Sequence[Row], needed: Sequence[Row]) -> list[str]:
    """What is meant by errors, and by this run's."""
    config, lines = asked.config, []
    if beyond := [each for each in needed if each["calls_are"] == "more than"]:
        lines.append(f"--for-error {beyond[0]['worst_error']:g} looks for it beyond the largest budget here.")
    if config.target_error is not None:
        bound = "; these errors are the estimated ones: the bound of --guaranteed is larger, and takes more calls"
        lines.append(
            f"--target-error {config.target_error:g}: robin judge stops there, and what is left of the budget is not spent"
            f"{bound * config.guaranteed}."
        )
    lines += [
        "largest error: how far the worst score is from the judge's own mean rating; average: over all pairs.",
        _NOISE,
    ]
    if asked.space.has_several_scales:
        lines.append("These attributes have several scales: errors are shares of the width of each one's own.")
    if others := [row for row in rows if row["worst_error"] and row["scheduler"] != asked.scheduler_at(asked.budget)]:
        lines.append(
            f"With {listed(format(row['budget'], ',') for row in others)} calls, --scheduler {config.scheduler} is "
            f"{others[0]['scheduler']}, in a run that begins with that budget."
        )
    if len(asked.space.judges) > 1:
        lines.append("These are errors of each judge's scores; those of the panel are smaller.")
    return lines + sorted({f"paper's bound: assumes {row['assumes']}" for row in rows if row["assumes"]})


def decisions(asked: Asked, goal: Deciding) -> Planned:
    """The plan of a run that decides, and ends when everything is decided: the budget where none is given."""
    if asked.config.budget is None:
        begun = asked.with_budget(asked.least)
        end = _simulated(begun, asked.config.scheduler, [asked.least]).end
        asked = asked.with_budget(asked.least if end is None else max(asked.least, end.needed.calls))
    calls = calls_of(asked)
    shown, _ = _budgets(asked, calls)
    outlooks = _outlooks(asked, shown)
    rows = _rows(asked, calls, shown, outlooks, _DECISION_FIGURES)
    decided = _decided(asked, goal, outlooks)
    needed = [_needed("wrong", each, outlooks, _calls_for_wrong) for each in _WRONG]
    spent = {"spent": lambda row: f"{row['calls']:,.0f}"}
    wrong, certified = {"wrong %": figure("wrong", 100)}, {"certified %": figure("certified", 100, 0)}
    even = not _is_even(asked)
    also = (
        {"evenly": figure("even_wrong", 100)} if even else {},
        {"evenly ": figure("even_certified", 100, 0)} if even else {},
    )
    over = None
    if decided["by_pilot"]:
        over = f"The pilot decided everything: nothing is left to be spent. robin export {typed(asked.pilot)} has it."
    return Planned(
        *(asked, calls, rows, _calls_spent(asked, outlooks[0], asked.budget)),
        first=[_end_text(asked, decided)],
        about=_about(asked),
        columns={**spent, **wrong, **certified},
        all_columns={**spent, **wrong, **also[0], **certified, **also[1]},
        facts={**_common(asked), "for_error": None, "decide": decided, "calls_for": needed, "ways": []},
        details=[
            *(_needed_text(asked, each) for each in needed if each["calls"] is not None),
            *_of_decisions(asked, goal),
        ],
        way_on=over,
    )


def _decided(asked: Asked, goal: Deciding, outlooks: Sequence[Outlook]) -> dict[str, Any]:
    """What is to be decided, and when everything is."""
    task, (mine, evenly) = goal.task, (each.end for each in outlooks)
    assert mine is not None  # noqa: S101  # decisions have an end
    assert evenly is not None  # noqa: S101
    return {
        "decide": asked.config.decide,
        "of": "pairs" if task.group is None else "groups",
        "decisions": task.decisions,
        "margins": dict(zip(task.space.attributes, task.decision.margins, strict=True)),
        "error_rate": task.decision.error_rate,
        **_found("calls_to_end", mine, evenly, asked.least),
        "searched_to": calls_to_the_end(len(asked.space)),
        "by_pilot": asked.pilot is not None and _is_over(asked),
    }


def _is_over(asked: Asked) -> bool:
    """Whether the pilot decided everything."""
    run = asked.run
    if run is None or run.task is None:
        return False
    arms = run.fold.arms
    means = run.task.space.by_rater(mean(arms.counts, arms.totals)).mean(axis=1)
    return decide(run.task, means, LevelCounts.of(run), arms).is_over


def _end_text(asked: Asked, decided: dict[str, Any]) -> str:
    """When everything is decided, first of all: it is what such a run ends by."""
    what = f"{decided['decide']}, for {number_of(decided['decisions'], decided['of'][:-1])}"
    later = decided["even_calls_to_end_are"] == "about" or decided["even_calls_to_end"] > decided["calls_to_end"]
    calls = _found_text("calls_to_end", decided, says_even=later and not _is_even(asked))
    return f"To decide everything ({what}) takes {calls}."


def _of_decisions(asked: Asked, goal: Deciding) -> list[str]:
    """What is meant by the figures of decisions."""
    task = goal.task
    margins = sorted(set(task.decision.margins))
    margin = f"the margin of {margins[0]:g}" if len(margins) == 1 else "its margin"
    late = "; most of them come at once, near the end, for till then calls go where it is least clear"
    is_late = policy_named(asked.scheduler_at(asked.budget)).whole
    lines = [
        "spent: on average, for a run ends when everything is decided.",
        f"wrong: of all decisions by the mean ratings alone, by more than {margin}; evenly: by an even spread of the calls.",
        f"certified: at most {100 * task.decision.error_rate:g} % of these are wrong on average, guaranteed{late * is_late}.",
        _NOISE,
    ]
    if asked.told_by is None:
        lines.append("Without ratings of these pairs this is a rough forecast.")
    return [*lines, *_further(asked)]


def _budgets(asked: Asked, calls: Calls) -> tuple[list[int], list[int]]:
    """The budgets to show, rising, and all multiples of the budget, at no fewer calls than were spent already."""
    ends = bought(asked.config, calls)
    multiples = {max(asked.least, round(asked.budget * each)) for each in _MULTIPLES}
    stops = {each for each in ends[:1] if each is not None and ends[0] == ends[1]}
    shown = {each for each in multiples if each >= _SHOWN_FROM * asked.budget}
    return sorted(shown | {each for each in stops if asked.least <= each <= max(multiples)}), sorted(multiples)


def _simulated(asked: Asked, name: str, budgets: list[int]) -> Outlook:
    """What the scheduler ``name`` comes to; the same for the same run."""
    return foresee(
        *(asked.belief, asked.policy_at(name), budgets, np.random.default_rng(SEED)),
        least=asked.least,
        evenly=policy_named(name).evenly,
        rounds=asked.rounds,
    )


def _outlooks(asked: Asked, budgets: list[int]) -> tuple[Outlook, Outlook]:
    """What the scheduler comes to, and an even spread."""
    found = {name: _simulated(asked, name, budgets) for name in {asked.config.scheduler, BASELINE}}
    return found[asked.config.scheduler], found[BASELINE]


def _figures(expected: Expected | None, figures: Figures, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}{name}": None if expected is None else read(expected) for name, read in figures.items()}


def _rows(
    asked: Asked, calls: Calls, budgets: Sequence[int], outlooks: tuple[Outlook, Outlook], figures: Figures
) -> list[dict[str, Any]]:
    """What each budget comes to, by the scheduler and by an even spread."""
    return [
        {
            "budget": budget,
            **taken(asked.config, calls, _calls_spent(asked, outlooks[0], budget)),
            "calls_an_arm": budget / len(asked.space),
            "scheduler": asked.scheduler_at(budget),
            **_figures(outlooks[0].expected.get(budget), figures),
            **_figures(outlooks[1].expected.get(budget), figures, "even_"),
        }
        for budget in budgets
    ]


def _calls_spent(asked: Asked, outlook: Outlook, budget: int) -> int:
    """Calls that a run with ``budget`` spends on average, which may end by itself."""
    expected = outlook.expected.get(budget)
    ends = outlook.end is not None and expected is not None
    return max(asked.least, min(budget, round(expected.mean("calls")))) if ends and expected is not None else budget


def _needed(
    name: str, value: float, outlooks: Sequence[Outlook], read: Callable[[Outlook, float], Needed | None]
) -> dict[str, Any]:
    """The calls for an error, by the scheduler and by an even spread; None where it never comes to that."""
    found: dict[str, Any] = {name: value}
    for prefix, outlook in zip(("", "even_"), outlooks, strict=True):
        calls = read(outlook, value) if outlook.expected else None
        found |= {f"{prefix}calls": None if calls is None else calls.calls}
        found |= {f"{prefix}calls_are": "never" if calls is None else calls.relation}
    return found


def _calls_for_wrong(outlook: Outlook, wrong: float) -> Needed | None:
    """The calls for a share of wrong decisions; None where all is decided before it comes to so few."""
    by_calls = {max(1, round(each.mean("calls"))): each for each in outlook.expected.values()}
    read_off = calls_for(wrong, dict(sorted(by_calls.items())), "wrong")
    ends = outlook.end is not None and outlook.end.needed.relation == "about"
    return None if read_off.relation == "more than" and ends else read_off


def _needed_text(asked: Asked, needed: dict[str, Any]) -> str:
    calls = _found_text("calls", needed, says_even=not _is_even(asked) and needed["even_calls"] is not None)
    if "wrong" in needed:
        return f"For {100 * needed['wrong']:g} % of wrong decisions you need {calls}."
    return f"For a largest error of {_point(asked, needed['worst_error'])} you need {calls}."


def _point(asked: Asked, error: float) -> str:
    return f"{error:g}" if not asked.space.has_several_scales else f"{100 * error:g} %"


def _is_even(asked: Asked) -> bool:
    return policy_named(asked.scheduler_at(asked.budget)).evenly


def _about(asked: Asked) -> str:
    """What is rated, and how often."""
    of = f"{number_of(len(asked.space.pair_ids), 'pair')} ({', '.join(asked.space.attributes)})"
    judges = f" × {len(asked.space.judges)} judges" if len(asked.space.judges) > 1 else ""
    return f"{of}{judges}, {asked.budget / len(asked.space):.1f} calls per score, by {asked.scheduler_at(asked.budget)}"


def _common(asked: Asked) -> dict[str, Any]:
    """Facts that plans of scores and of decisions have."""
    config = asked.config
    policy = asked.policy(asked.budget, np.ones(len(asked.space)))
    warm_up = 0 if policy is None or policy.evenly else policy.warm_up
    return {
        "errors_are": "shares of the scale" if asked.space.has_several_scales else "points",
        "variances_from": config.variances if asked.is_warm else None,
        "simulated_runs": RUNS,
        "by_text": config.scoring == "text" and (asked.run is None or asked.run.manifest.scoring == "text"),
        "calls_an_arm": asked.budget / len(asked.space),
        "below_warm_up": warm_up * len(asked.space) > asked.budget,
    }


def _further(asked: Asked) -> list[str]:
    """What else is to be known of the scheduler and of the answers."""
    facts, lines, scores = _common(asked), [], not asked.goal.ends
    if facts["variances_from"]:
        lines.append(f"The scheduler begins with the variances of {facts['variances_from']}.")
    if facts["below_warm_up"]:
        name, sooner = asked.scheduler_at(asked.budget).upper(), "; --scheduler two-priors adapts sooner" * scores
        lines.append(f"This budget is below {name}'s warm-up, so it is spread evenly{sooner}.")
    if not facts["by_text"]:
        what = ("errors of scores", "they are smaller") if scores else ("decisions", "they take fewer calls")
        lines.append(f"These are {what[0]} by the text; by log probabilities {what[1]}.")
    return lines
