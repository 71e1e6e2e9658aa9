"""A plan of a comparison: how many prompts, and calls of each response, a difference of two systems needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from robin_cli.analysis.paired import PairedSpread, difference_shown, paired_spreads, prompts_for, variance_range
from robin_cli.analysis.run_compare import compared
from robin_cli.goals.own.compare import Compare
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, number_of
from robin_cli.model.systems import FEWEST_PROMPTS, Systems
from robin_cli.settings.addresses import judge_name
from robin_cli.simulation.rating_model import spread_of
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import Already, Calls, calls_of, taken
from robin_cli.views.plan.page import UNKNOWN, Columns, Planned, Row, Sheet, money, time

ALPHA, POWER = 0.05, 0.8
_CALLS = (1, 2, 3, 5, 10)
"""Of each judge for each response."""

_SPREADS_SHOWN = 6


@dataclass(frozen=True)
class _Differences:
    """Differences of systems over prompts: how they vary by ``spreads``, over ``there`` prompts of ``a_prompt`` calls each."""

    asked: Asked
    calls: Calls
    spreads: Sequence[PairedSpread]
    there: int
    a_prompt: float

    def widest(self, calls: float) -> PairedSpread | None:
        """The two systems and the attribute that need the most prompts; None where there is no telling."""
        if any(math.isnan(each.noise_at(calls)) for each in self.spreads):
            return None
        return max(self.spreads, key=lambda each: each.between + each.noise_at(calls))

    def shows(self, prompts: int, calls: float) -> float | None:
        """The difference that so many prompts and calls of each response show; None where there is no telling."""
        widest = self.widest(calls)
        if widest is None:
            return None
        return difference_shown(prompts, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER)

    def of_calls(self, calls: int, difference: float | None) -> dict[str, Any]:
        """What so many calls a response take, until the difference shows."""
        widest, alone = self.widest(calls), replace(self.calls, already=Already())
        needed = spent = None
        if widest is not None and difference is not None:
            needed = prompts_for(difference, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER)
            spent = math.ceil(needed * self.a_prompt) * calls
        costs, tokens = taken(self.asked.config, alone, spent or 0), alone.tokens(spent or 0)
        return {
            "calls_a_response": calls,
            "prompts": None if needed is None else int(needed),
            "calls": spent,
            "all_prompts_show": self.shows(self.there, calls),
            "enough_prompts": needed is not None and needed <= self.there,
            "prompt_tokens": None if spent is None else tokens[0],
            "completion_tokens": None if spent is None else tokens[1],
            **(dict.fromkeys(costs) if spent is None else costs),
        }

    def of_budget(self, budget: int) -> dict[str, Any]:
        """What a budget shows, which asks about as many prompts as it reaches, and then again about all."""
        prompts = min(self.there, math.floor(budget / self.a_prompt))
        calls = max(1.0, budget / (self.there * self.a_prompt))
        costs = taken(self.asked.config, self.calls, budget)
        return {
            "budget": budget,
            **costs,
            "prompts": prompts,
            "calls_a_response": calls,
            "shows": self.shows(prompts, calls),
        }

    @property
    def is_beginning(self) -> bool:
        """Whether the run that is known could be gone on with: it compares systems of the same data."""
        asked, run = self.asked, self.asked.run
        if run is None or asked.pilot is not None:
            return run is not None
        return (
            run.manifest.compares
            and run.manifest.data["sha256"] == asked.dataset.sha256
            and (not asked.config.model or run.manifest.judges == tuple(map(judge_name, asked.config.model)))
        )

    def words(self, error: float) -> str:
        """Write a difference in its unit."""
        return f"{100 * error:.3g} % of the scale" if self.asked.space.has_several_scales else f"{error:.3g}"


def differences(asked: Asked, goal: Compare) -> Planned:
    """The plan of a comparison: of the difference that is to show, or of what a budget shows."""
    systems, difference = goal.systems, asked.difference
    run, is_asked = asked.run, asked.config.budget is not None
    there = int(systems.is_shared.sum())
    spreads = _assumed(asked, systems) if run is None else _spreads(run, asked, systems)
    found = _Differences(asked, calls_of(asked), spreads, there, systems.calls_for(there) / there)
    by_calls = [found.of_calls(each, difference) for each in _CALLS]
    cheapest = min((row for row in by_calls if row["enough_prompts"]), key=lambda row: int(row["calls"]), default=None)
    least = max(asked.least, systems.calls_for(min(there, FEWEST_PROMPTS)))
    once = math.ceil(there * found.a_prompt)
    asked = asked.with_budget(asked.config.budget or max(least, once if cheapest is None else cheapest["calls"]))
    rows = [found.of_budget(each) for each in sorted({max(least, round(asked.budget * k)) for k in (0.5, 1.0, 2.0)})]
    at = next(row for row in rows if row["budget"] == asked.budget)
    fewest = min(each.prompts for each in spreads)
    columns: Columns = {
        "prompts": lambda row: f"{row['prompts']:,}",
        "calls each": lambda row: f"{row['calls_a_response']:.2g}",
        "shows": lambda row: UNKNOWN if row["shows"] is None else found.words(row["shows"]),
    }
    shown = {"calls": at["budget"], **{name: at[name] for name in ("prompts", "calls_a_response", "shows")}}
    spent = 0 if run is None else run.fold.arms.spent
    known = {"run": None if run is None else str(asked.told_by), "calls": spent}
    return Planned(
        *(asked, found.calls, rows, asked.budget),
        first=[] if difference is None else [_first(found, systems, difference, by_calls[0])],
        about=f"{number_of(there, 'prompt')} that two systems or more answered, each {found.a_prompt:.3g} calls, by "
        f"{asked.scheduler_at(asked.budget)}",
        prior="" if run is None else f"as in {number_of(spent, 'call')} of {known['run']}",
        columns=columns,
        all_columns=columns,
        words=found.words,
        facts={
            "compare": difference,
            "differences_are": "shares of the scale" if asked.space.has_several_scales else "points",
            "alpha": ALPHA,
            "power": POWER,
            "systems": list(systems.names),
            "prompts": there,
            "calls_a_prompt": found.a_prompt,
            "known_from": {**known, "prompts": fewest, "is_beginning": found.is_beginning},
            "spreads": [_told(each) for each in spreads],
            "times_as_many": None if run is None else list(variance_range(fewest)),
            "rows": by_calls,
            "cheapest": None if cheapest is None else cheapest["calls_a_response"],
            "budget": shown if is_asked else None,
            "ways": [],
        },
        details=[*_by_calls(found, by_calls, cheapest, difference), *_explained(found)],
        way_on=_way_on(found, asked.budget if is_asked else 0 if cheapest is None else cheapest["calls"]),
    )


def _first(found: _Differences, systems: Systems, difference: float, first: Row) -> str:
    """What the difference takes, first of all."""
    which = " and ".join(systems.names) if len(systems.names) == 2 else f"any two of {len(systems.names)} systems"
    wanted = f"a difference of {found.words(difference)} between {which} ({', '.join(systems.space.attributes)})"
    prompts, calls = number_of(first["prompts"], "prompt"), number_of(first["calls"], "call")
    return f"To see {wanted} takes {prompts} at a call a response: {calls}."


def _by_calls(
    found: _Differences, rows: Sequence[Row], cheapest: Row | None, difference: float | None
) -> list[Sheet | str]:
    """What it takes until the difference shows by each number of calls, and whether the prompts of the data do."""
    known = [row for row in rows if row["prompts"] is not None]
    if difference is None or not known:
        return []

    def mark(row: Row) -> str:
        return "cheapest" if row is cheapest else "" if row["enough_prompts"] else "too many"

    columns: Columns = {
        "calls each": lambda row: f"{row['calls_a_response']}",
        "prompts": lambda row: f"{row['prompts']:,}",
        "calls": lambda row: f"{row['calls']:,}",
        "money": money,
        "time": time,
        "all show": lambda row: found.words(row["all_prompts_show"]),
        "": mark,
    }
    verdict = f"The data has more than it takes: --objective {COMPARE} asks about prompts in random order."
    if cheapest is None:
        calls, shows = number_of(known[-1]["calls_a_response"], "call"), found.words(known[-1]["all_prompts_show"])
        few = (
            f"The data has too few prompts: with {calls} a response, all {found.there:,} show a difference of {shows}."
        )
        verdict = f"{few} More prompts help more than more calls."
    says = cheapest is None or cheapest["prompts"] < found.there
    return [Sheet(known, columns, lambda row: row is cheapest), *([verdict] if says else [])]


def _explained(found: _Differences) -> list[str]:
    """How differences vary, and what the words mean."""
    power, level = (f"{100 * each:g} %" for each in (POWER, 1 - ALPHA))
    fewest = min(each.prompts for each in found.spreads)
    lines = [_spread_text(found, each) for each in found.spreads] if len(found.spreads) <= _SPREADS_SHOWN else []
    lines += [
        f"To see, to show: with a chance of {power}, the difference's interval at {level} (t over prompts) leaves 0 out.",
        f"calls each: of each judge for each response; all show: the difference that all {found.there:,} prompts show.",
    ]
    if fewest:
        low, high = variance_range(fewest)
        times = f"it may take {low:.2g} to {high:.2g} times as many"
        lines.append(f"How differences vary is known from {number_of(fewest, 'prompt')}: {times}.")
    if len(found.spreads) > 1:
        lines.append(
            "Prompts are those for the systems and the attribute that take the most, each difference by itself."
        )
    if found.widest(_CALLS[-1]) is None:
        lines.append("Nothing was asked twice there, so what repeats would bring is not known.")
    return lines


def _spread_text(found: _Differences, spread: PairedSpread) -> str:
    """How a difference varies, and by whose doing."""
    total = spread.between + spread.noise_at(1)
    is_known = not math.isnan(spread.noise) and total > 0
    of_judge = f", {100 * spread.noise / total:.0f} % of its variance the judge's noise" if is_known else ""
    over = f" over {number_of(spread.prompts, 'prompt')}" if spread.prompts else ""
    return f"{spread.attribute}, {spread.a} − {spread.b}: standard deviation {found.words(total**0.5)}{over}{of_judge}."


def _way_on(found: _Differences, calls: int) -> str:
    """How to spend what was planned."""
    run = found.asked.run
    if run is not None and found.is_beginning and calls > run.fold.arms.spent:
        return f"To spend it: robin resume {typed(run.path)} --budget {calls}"
    return f"To spend it: robin judge DATA … --objective {COMPARE} --budget {calls}" * (
        calls > 0 and not found.is_beginning
    )


def _assumed(asked: Asked, systems: Systems) -> list[PairedSpread]:
    """How differences vary where nothing is known of these systems: their responses are no more alike than others."""
    spreads, (a, b) = [], systems.names[:2]
    judges = len(asked.space.judges)
    for place, (attribute, scale) in enumerate(zip(asked.space.attributes, asked.space.scales, strict=True)):
        unit = float(scale.high - scale.low) if asked.space.has_several_scales else 1.0
        of_means, of_ratings = spread_of(asked.known[place * judges].weights, scale)
        between, noise = 2.0 * of_means / unit**2, 2.0 * of_ratings / judges / unit**2
        spreads.append(PairedSpread(attribute, a, b, 0, 0.0, between + noise, noise, noise))
    return spreads


def _spreads(run: RunData, asked: Asked, systems: Systems) -> list[PairedSpread]:
    """How the differences of the systems vary in ``run``; of all its systems, where it has not two of these."""
    place, space = f"--variances {typed(run.path)}", asked.space
    theirs = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))
    for attribute, scale in zip(space.attributes, space.scales, strict=True):
        if theirs.get(attribute) != scale:
            has = f"is on {theirs[attribute]} there" if attribute in theirs else f"it has {', '.join(theirs)}"
            raise InputError(
                f"{place}: does not tell of {attribute} on the scale {scale} ({has}); name a run that rates it so"
            )
    found = compared([run], lambda _: None, by=SYSTEM_COLUMN, as_they_are=True)
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
