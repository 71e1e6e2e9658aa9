"""A plan of a comparison: the prompts, and calls for each response, that a difference of two systems needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from robin_cli.analysis.paired import (
    PairedSpread,
    difference_shown,
    paired_spreads,
    prompts_for,
    variance_range,
)
from robin_cli.analysis.run_compare import compared
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.own.compare import Compare
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, number_of
from robin_cli.model.systems import FEWEST_PROMPTS, Systems
from robin_cli.results.words import significant, target_text
from robin_cli.settings.addresses import judge_name
from robin_cli.simulation.rating_model import spread_of
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import Already
from robin_cli.views.plan.forecast import Plan
from robin_cli.views.plan.page import Columns, Part, Row, known, money, sheet, time, whole

ALPHA, POWER = 0.05, 0.8
_CALLS = (1, 2, 3, 5, 10)
"""Of each judge for each response."""

_SPREADS_SHOWN = 6


class Differences(Plan):
    """The plan of a comparison: for a given difference, or of the differences that a budget shows.

    No answer changes who is asked first, so that a simulation would say what :func:`difference_shown` says at once.
    """

    kind = Compare

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        assert isinstance(asked.goal, Compare)  # noqa: S101  # see ``kind``
        run, systems = asked.run, asked.goal.systems
        self.systems, self.difference = systems, asked.difference
        self.spreads = _assumed(asked, systems) if run is None else _spreads(run, asked, systems)
        self.there = int(systems.is_shared.sum())
        self.a_prompt = systems.calls_for(self.there) / self.there
        self.least = max(asked.least, systems.calls_for(min(self.there, FEWEST_PROMPTS)))
        once = math.ceil(self.there * self.a_prompt)
        usual = max(self.least, once if self.cheapest is None else self.cheapest["calls"])
        self.asked = asked.with_budget(asked.config.budget or usual)
        prompts, scheduler = (
            number_of(self.there, "prompt"),
            self.asked.scheduler_at(self.asked.budget),
        )
        self.about = f"{prompts} that two systems or more answered, each {significant(self.a_prompt, 3)} calls, by {scheduler}"
        if run is not None:
            self.prior = f"as in {number_of(run.fold.arms.spent, 'call')} of {asked.told_by}"
        self.columns = {
            "prompts": whole("prompts"),
            "calls each": lambda row: significant(row["calls_a_response"], 2),
            "shows": known("shows", self.words),
        }
        if self.difference is not None:
            self.first = [self._first(self.difference, self.by_calls[0])]

    def _widest(self, calls: float) -> PairedSpread | None:
        """Return the two systems and the attribute that need the most prompts; None if unknown."""
        if any(math.isnan(each.noise_at(calls)) for each in self.spreads):
            return None
        return max(self.spreads, key=lambda each: each.between + each.noise_at(calls))

    def _shows(self, prompts: int, calls: float) -> float | None:
        """Return the difference that a number of prompts and of calls for each response shows; None if unknown."""
        widest = self._widest(calls)
        if widest is None:
            return None
        return difference_shown(
            prompts, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER
        )

    @cached_property
    def by_calls(self) -> list[dict[str, Any]]:
        """The cost of a number of calls for each response, until the difference shows."""
        return [self._of_calls_each(each) for each in _CALLS]

    @property
    def cheapest(self) -> dict[str, Any] | None:
        """Return the fewest calls at which the difference shows with the available prompts; None if it does not."""
        enough = (row for row in self.by_calls if row["enough_prompts"])
        return min(enough, key=lambda row: int(row["calls"]), default=None)

    def _of_calls_each(self, calls: int) -> dict[str, Any]:
        widest, alone = self._widest(calls), replace(self.calls, already=Already())
        needed = spent = None
        if widest is not None and self.difference is not None:
            needed = prompts_for(
                self.difference, widest.between, widest.noise_at(calls), alpha=ALPHA, power=POWER
            )
            spent = math.ceil(needed * self.a_prompt) * calls
        costs, tokens = alone.taken(spent or 0), alone.tokens(spent or 0)
        return {
            "calls_a_response": calls,
            "prompts": None if needed is None else int(needed),
            "calls": spent,
            "all_prompts_show": self._shows(self.there, calls),
            "enough_prompts": needed is not None and needed <= self.there,
            "prompt_tokens": None if spent is None else tokens[0],
            "completion_tokens": None if spent is None else tokens[1],
            **(dict.fromkeys(costs) if spent is None else costs),
        }

    @property
    def budgets(self) -> Sequence[int]:
        """Return the planned calls, enough for the fewest prompts of a comparison."""
        return sorted({max(self.least, each) for each in super().budgets})

    def figures(self, budget: int) -> dict[str, Any]:
        """Return the differences that a budget shows; it covers as many prompts as possible before any is repeated."""
        prompts = min(self.there, math.floor(budget / self.a_prompt))
        calls = max(1.0, budget / (self.there * self.a_prompt))
        return {"prompts": prompts, "calls_a_response": calls, "shows": self._shows(prompts, calls)}

    def words(self, error: float) -> str:
        """Write a difference in its unit."""
        return target_text(error, as_share=self.space.has_several_scales)

    def own_facts(self) -> dict[str, Any]:
        """Return the cost of the difference, the variance of differences, and the differences that a budget shows."""
        run, fewest = self.asked.run, min(each.prompts for each in self.spreads)
        (at,) = filter(self.is_planned, self.rows)
        shown = {
            "calls": at["budget"],
            **{name: at[name] for name in ("prompts", "calls_a_response", "shows")},
        }
        return {
            "compare": self.difference,
            "differences_are": "shares of the scale" if self.space.has_several_scales else "points",
            "alpha": ALPHA,
            "power": POWER,
            "systems": list(self.systems.names),
            "prompts": self.there,
            "calls_a_prompt": self.a_prompt,
            "known_from": {
                "run": None if run is None else str(self.asked.told_by),
                "calls": 0 if run is None else run.fold.arms.spent,
                "prompts": fewest,
                "is_beginning": self._is_beginning,
            },
            "spreads": [_told(each) for each in self.spreads],
            "times_as_many": None if run is None else list(variance_range(fewest)),
            "rows": self.by_calls,
            "cheapest": None if self.cheapest is None else self.cheapest["calls_a_response"],
            "budget": shown if self.config.budget is not None else None,
            "ways": [],
        }

    @property
    def _is_beginning(self) -> bool:
        """Return whether the known run could continue: it compares systems on the same data."""
        asked, run = self.asked, self.asked.run
        if run is None or asked.pilot is not None:
            return run is not None
        return (
            isinstance(goal_of_run(run), Compare)
            and run.manifest.data["sha256"] == asked.dataset.sha256
            and (
                not self.config.model
                or run.manifest.judges == tuple(map(judge_name, self.config.model))
            )
        )

    def _first(self, difference: float, first: Row) -> str:
        """Return the cost of the difference, first of all."""
        names = self.systems.names
        which = " and ".join(names) if len(names) == 2 else f"any two of {len(names)} systems"
        wanted = f"a difference of {self.words(difference)} between {which} ({', '.join(self.space.attributes)})"
        prompts, calls = number_of(first["prompts"], "prompt"), number_of(first["calls"], "call")
        return f"To see {wanted} takes {prompts} at a call a response: {calls}."

    def details(self) -> list[Part]:
        """Return the cost for each number of calls, the variance of differences, and the meaning of the words."""
        rows = [row for row in self.by_calls if row["prompts"] is not None]
        power, level = (f"{100 * each:g} %" for each in (POWER, 1 - ALPHA))
        fewest = min(each.prompts for each in self.spreads)
        lines = (
            [self._spread_text(each) for each in self.spreads]
            if len(self.spreads) <= _SPREADS_SHOWN
            else []
        )
        lines += [
            f"To see, to show: with a chance of {power}, the difference's interval at {level} (t over prompts) leaves 0 out.",
            f"calls each: of each judge for each response; all show: the difference that all {self.there:,} prompts show.",
        ]
        if fewest:
            low, high = variance_range(fewest)
            times = f"it may take {significant(low, 2)} to {significant(high, 2)} times as many"
            lines.append(
                f"How differences vary is known from {number_of(fewest, 'prompt')}: {times}."
            )
        if len(self.spreads) > 1:
            lines.append(
                "Prompts are those for the systems and the attribute that take the most, each difference by itself."
            )
        if self._widest(_CALLS[-1]) is None:
            lines.append("Nothing was asked twice there, so what repeats would bring is not known.")
        return [*(self._by_calls(rows) if self.difference is not None and rows else []), *lines]

    def _by_calls(self, rows: Sequence[Row]) -> list[Part]:
        """Return the cost until the difference shows, and whether the data has enough prompts."""
        cheapest = self.cheapest

        def mark(row: Row) -> str:
            return "cheapest" if row is cheapest else "" if row["enough_prompts"] else "too many"

        columns: Columns = {
            "calls each": whole("calls_a_response"),
            "prompts": whole("prompts"),
            "calls": whole("calls"),
            "money": money,
            "time": time,
            "all show": lambda row: self.words(row["all_prompts_show"]),
            "": mark,
        }
        table = sheet(rows, columns)
        if cheapest is None:
            calls, shows = (
                number_of(rows[-1]["calls_a_response"], "call"),
                self.words(rows[-1]["all_prompts_show"]),
            )
            few = f"The data has too few prompts: with {calls} a response, all {self.there:,} show a difference of {shows}."
            return [table, f"{few} More prompts help more than more calls."]
        more = f"The data has more than it takes: --objective {COMPARE} asks about prompts in random order."
        return [table, *[more] * bool(cheapest["prompts"] < self.there)]

    def _spread_text(self, spread: PairedSpread) -> str:
        """Return the variance of a difference, and its sources."""
        total = spread.between + spread.noise_at(1)
        is_known = not math.isnan(spread.noise) and total > 0
        of_judge = (
            f", {100 * spread.noise / total:.0f} % of its variance the judge's noise"
            if is_known
            else ""
        )
        over = f" over {number_of(spread.prompts, 'prompt')}" if spread.prompts else ""
        deviation = f"standard deviation {self.words(total**0.5)}"
        return f"{spread.attribute}, {spread.a} − {spread.b}: {deviation}{over}{of_judge}."

    def way_on(self) -> str:
        """Return how to spend the planned calls."""
        run, calls = (
            self.asked.run,
            self.config.budget or (0 if self.cheapest is None else self.cheapest["calls"]),
        )
        if run is not None and self._is_beginning and calls > run.fold.arms.spent:
            return f"To spend it: robin resume {typed(run.path)} --budget {calls}"
        spend = f"To spend it: robin judge DATA … --objective {COMPARE} --budget {calls}"
        return spend * (calls > 0 and not self._is_beginning)


def _assumed(asked: Asked, systems: Systems) -> list[PairedSpread]:
    """Return the variance of differences without data on these systems: their responses are as different as any others."""
    spreads, (a, b) = [], systems.names[:2]
    judges = len(asked.space.judges)
    for place, (attribute, scale) in enumerate(
        zip(asked.space.attributes, asked.space.scales, strict=True)
    ):
        unit = float(scale.high - scale.low) if asked.space.has_several_scales else 1.0
        of_means, of_ratings = spread_of(asked.known[place * judges].weights, scale)
        between, noise = 2.0 * of_means / unit**2, 2.0 * of_ratings / judges / unit**2
        spreads.append(PairedSpread(attribute, a, b, 0, 0.0, between + noise, noise, noise))
    return spreads


def _spreads(run: RunData, asked: Asked, systems: Systems) -> list[PairedSpread]:
    """Return the variance of the systems' differences in ``run``; of all its systems if it lacks these two."""
    place, space = f"--variances {typed(run.path)}", asked.space
    theirs = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))
    for attribute, scale in zip(space.attributes, space.scales, strict=True):
        if theirs.get(attribute) != scale:
            has = (
                f"is on {theirs[attribute]} there"
                if attribute in theirs
                else f"it has {', '.join(theirs)}"
            )
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
        **{
            name: getattr(spread, name) for name in ("attribute", "a", "b", "prompts", "difference")
        },
        "variance_between": spread.between if is_known else None,
        "noise": spread.noise if is_known else None,
        "variance_at_one_call": spread.between + spread.noise_at(1),
    }
