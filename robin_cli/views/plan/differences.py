"""A plan of a comparison: how many prompts, and calls of each response, a difference of two systems needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from robin_cli.analysis.goals import Goal, goal_of
from robin_cli.analysis.paired import PairedSpread, difference_shown, paired_spreads, prompts_for, variance_range
from robin_cli.analysis.rating_model import spread_of
from robin_cli.analysis.run_compare import as_they_are
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, number_of
from robin_cli.model.systems import FEWEST_PROMPTS
from robin_cli.settings.addresses import judge_name
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import Already, taken
from robin_cli.views.plan.page import UNKNOWN, Columns, Row, Sheet, money, time

ALPHA, POWER = 0.05, 0.8
_CALLS = (1, 2, 3, 5, 10)
"""Of each judge for each response."""

_SPREADS_SHOWN = 6


class Differences:
    """A plan of a comparison: of the difference that is to show, or of what a budget shows."""

    over: str | None = None

    def __init__(self, asked: Asked, difference: float | None) -> None:
        assert asked.systems is not None  # noqa: S101  # they are wanted
        self.systems, self.difference, self.calls = asked.systems, difference, asked.calls()
        self.is_asked = asked.config.budget is not None
        self.spreads = _assumed(asked) if asked.run is None else _spreads(asked.run, asked)
        self.there = int(self.systems.is_shared.sum())
        self.a_prompt = self.systems.calls_for(self.there) / self.there
        self.asked = asked
        self.by_calls = [self._of_calls(each) for each in _CALLS]
        enough = [row for row in self.by_calls if row["enough_prompts"]]
        self.cheapest = min(enough, key=lambda row: int(row["calls"]), default=None)
        once = math.ceil(self.there * self.a_prompt)
        least = max(asked.least, self.systems.calls_for(min(self.there, FEWEST_PROMPTS)))
        budget = asked.config.budget or max(least, once if self.cheapest is None else self.cheapest["calls"])
        self.asked, self.spent = asked.with_budget(budget), budget
        self.rows = [self._row(each) for each in sorted({max(least, round(budget * k)) for k in (0.5, 1.0, 2.0)})]

    @property
    def goal(self) -> Goal:
        """What the run is to find."""
        return goal_of(systems=self.systems)

    @property
    def scheduler(self) -> str:
        """The scheduler of the run."""
        return self.asked.scheduler_at(self.asked.budget)

    def _widest(self, calls: float) -> PairedSpread | None:
        """The two systems and the attribute that need the most prompts; None where there is no telling."""
        if any(math.isnan(each.noise_at(calls)) for each in self.spreads):
            return None
        return max(self.spreads, key=lambda each: each.between + each.noise_at(calls))

    def _shows(self, prompts: int, calls: float) -> float | None:
        """The difference that so many prompts and calls of each response show; None where there is no telling."""
        widest = self._widest(calls)
        if widest is None:
            return None
        return difference_shown(prompts, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER)

    def _of_calls(self, calls: int) -> dict[str, Any]:
        """What so many calls a response take, until the difference shows."""
        widest, alone = self._widest(calls), replace(self.calls, already=Already())
        row: dict[str, Any] = {
            "calls_a_response": calls,
            "prompts": None,
            "calls": None,
            "all_prompts_show": self._shows(self.there, calls),
            "enough_prompts": False,
            **dict.fromkeys(("prompt_tokens", "completion_tokens")),
            **dict.fromkeys(taken(self.asked.config, alone, 1)),
        }
        if widest is None or self.difference is None:
            return row
        needed = prompts_for(self.difference, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER)
        spent = math.ceil(needed * self.a_prompt) * calls
        tokens = alone.tokens(spent)
        return {
            **row,
            "prompts": int(needed),
            "calls": spent,
            "enough_prompts": needed <= self.there,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            **taken(self.asked.config, alone, spent),
        }

    def _row(self, budget: int) -> dict[str, Any]:
        """What a budget shows, which asks about as many prompts as it reaches, and then again about all."""
        prompts = min(self.there, math.floor(budget / self.a_prompt))
        calls = max(1.0, budget / (self.there * self.a_prompt))
        return {
            "budget": budget,
            **taken(self.asked.config, self.calls, budget),
            "prompts": prompts,
            "calls_a_response": calls,
            "shows": self._shows(prompts, calls),
        }

    def facts(self) -> dict[str, Any]:
        """The facts of differences alone."""
        asked, run = self.asked, self.asked.run
        fewest = min(each.prompts for each in self.spreads)
        at = next(row for row in self.rows if row["budget"] == asked.budget)
        return {
            "compare": self.difference,
            "differences_are": "shares of the scale" if asked.space.has_several_scales else "points",
            "alpha": ALPHA,
            "power": POWER,
            "systems": list(self.systems.names),
            "prompts": self.there,
            "calls_a_prompt": self.a_prompt,
            "known_from": {
                "run": None if run is None else str(asked.told_by),
                "calls": 0 if run is None else run.fold.arms.spent,
                "prompts": fewest,
                "is_beginning": self._is_beginning,
            },
            "spreads": [_told(each) for each in self.spreads],
            "times_as_many": None if run is None else list(variance_range(fewest)),
            "rows": self.by_calls,
            "cheapest": None if self.cheapest is None else self.cheapest["calls_a_response"],
            "budget": {"calls": at["budget"], **{name: at[name] for name in ("prompts", "calls_a_response", "shows")}}
            if self.is_asked
            else None,
            "ways": [],
        }

    @property
    def _is_beginning(self) -> bool:
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

    @property
    def prior(self) -> str:
        """What is taken for granted of how differences vary over prompts."""
        run = self.asked.run
        if run is None:
            return self.asked.prior
        return f"as in {number_of(run.fold.arms.spent, 'call')} of {self.asked.told_by}"

    @property
    def first(self) -> list[str]:
        """What the difference takes, first of all."""
        if self.difference is None:
            return []
        names, first = self.systems.names, self.by_calls[0]
        which = " and ".join(names) if len(names) == 2 else f"any two of {len(names)} systems"
        wanted = (
            f"a difference of {self.words(self.difference)} between {which} ({', '.join(self.asked.space.attributes)})"
        )
        prompts = number_of(first["prompts"], "prompt")
        return [f"To see {wanted} takes {prompts} at a call a response: {number_of(first['calls'], 'call')}."]

    @property
    def asked_about(self) -> str:
        """What is compared on."""
        of = f"{number_of(self.there, 'prompt')} that two systems or more answered"
        return f"{of}, each {self.a_prompt:.3g} calls, by {self.scheduler}"

    @property
    def columns(self) -> Columns:
        """What the screen has of each budget."""
        return {
            "prompts": lambda row: f"{row['prompts']:,}",
            "calls each": lambda row: f"{row['calls_a_response']:.2g}",
            "shows": lambda row: UNKNOWN if row["shows"] is None else self.words(row["shows"]),
        }

    all_columns = columns

    def details(self) -> list[Sheet | str]:
        """How differences vary, what it takes by each number of calls, and what is meant by it."""
        spreads = self.spreads if len(self.spreads) <= _SPREADS_SHOWN else []
        lines: list[Sheet | str] = ["", *(self._spread_text(each) for each in spreads)]
        if self.difference is not None:
            known = [row for row in self.by_calls if row["prompts"] is not None]
            columns: Columns = {
                "calls each": lambda row: f"{row['calls_a_response']}",
                "prompts": lambda row: f"{row['prompts']:,}",
                "calls": lambda row: f"{row['calls']:,}",
                "money": money,
                "time": time,
                "all show": lambda row: self.words(row["all_prompts_show"]),
                "": self._mark,
            }
            lines += [Sheet(known, columns, lambda row: row is self.cheapest), *self._verdict(known)]
        power, level = (f"{100 * each:g} %" for each in (POWER, 1 - ALPHA))
        lines += [
            f"To see, to show: with a chance of {power}, the difference's interval at {level} (t over prompts) leaves 0 out.",
            f"calls each: of each judge for each response; all show: the difference that all {self.there:,} prompts show.",
        ]
        if self.asked.run is not None:
            fewest = min(each.prompts for each in self.spreads)
            low, high = variance_range(fewest)
            lines.append(
                f"How differences vary is known from {number_of(fewest, 'prompt')}: it may take {low:.2g} to {high:.2g} times "
                "as many."
            )
        if len(self.spreads) > 1:
            lines.append(
                "Prompts are those for the systems and the attribute that take the most, each difference by itself."
            )
        if self._widest(_CALLS[-1]) is None:
            lines.append("Nothing was asked twice there, so what repeats would bring is not known.")
        return lines

    def _verdict(self, known: Sequence[Row]) -> list[str]:
        """Whether the prompts of the data do."""
        if self.cheapest is None:
            last = known[-1]
            calls, shows = number_of(last["calls_a_response"], "call"), self.words(last["all_prompts_show"])
            few = f"The data has too few prompts: with {calls} a response, all {self.there:,} show a difference of {shows}."
            return [f"{few} More prompts help more than more calls."]
        if self.cheapest["prompts"] < self.there:
            return [f"The data has more than it takes: --objective {COMPARE} asks about prompts in random order."]
        return []

    def _spread_text(self, spread: PairedSpread) -> str:
        """How a difference varies, and by whose doing."""
        total = spread.between + spread.noise_at(1)
        is_known = not math.isnan(spread.noise) and total > 0
        of_judge = f", {100 * spread.noise / total:.0f} % of its variance the judge's noise" if is_known else ""
        over = f" over {number_of(spread.prompts, 'prompt')}" if spread.prompts else ""
        return (
            f"{spread.attribute}, {spread.a} − {spread.b}: standard deviation {self.words(total**0.5)}{over}{of_judge}."
        )

    def _mark(self, row: Row) -> str:
        if row is self.cheapest:
            return "cheapest"
        return "" if row["enough_prompts"] else "too many"

    @property
    def way_on(self) -> str:
        """How to spend what was planned."""
        run = self.asked.run
        calls = self.asked.budget if self.is_asked else 0 if self.cheapest is None else self.cheapest["calls"]
        if run is not None and self._is_beginning and calls > run.fold.arms.spent:
            return f"To spend it: robin resume {typed(run.path)} --budget {calls}"
        if calls and not self._is_beginning:
            return f"To spend it: robin judge DATA … --objective {COMPARE} --budget {calls}"
        return ""


def _assumed(asked: Asked) -> list[PairedSpread]:
    """How differences vary where nothing is known of these systems: their responses are no more alike than others."""
    spreads = []
    assert asked.systems is not None  # noqa: S101  # they are wanted
    judges = len(asked.space.judges)
    for place, (attribute, scale) in enumerate(zip(asked.space.attributes, asked.space.scales, strict=True)):
        unit = float(scale.high - scale.low) if asked.space.has_several_scales else 1.0
        of_means, of_ratings = spread_of(asked.known[place * judges].weights, scale)
        between, noise = 2.0 * of_means / unit**2, 2.0 * of_ratings / judges / unit**2
        for a, b in list(combinations(asked.systems.names, 2))[:1]:
            spreads.append(PairedSpread(attribute, a, b, 0, 0.0, between + noise, noise, noise))
    return spreads


def _spreads(run: RunData, asked: Asked) -> list[PairedSpread]:
    """How the differences of the systems vary in ``run``; of all its systems, where it has not two of these."""
    assert asked.systems is not None  # noqa: S101  # they are wanted
    place, space = f"--variances {typed(run.path)}", asked.space
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
        spreads += [each for each in every if {each.a, each.b} <= {*asked.systems.names}] or every
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
