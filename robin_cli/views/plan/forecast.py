"""A plan for any goal: simulated results of a budget, its half and its double."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from robin_cli.goals.base import Goal
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE, policy_named
from robin_cli.results.columns import PLANNED
from robin_cli.results.tables import Table
from robin_cli.results.words import dollars, error_text
from robin_cli.simulation.forecast import RUNS, Belief, Expected, Needed, Outlook, foresee
from robin_cli.views.plan import page
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.calls import Calls, calls_of
from robin_cli.views.plan.page import Columns, Part, Row

_MULTIPLES = (0.5, 1.0, 2.0, 4.0)
_SCREEN = (0.5, 1.0, 2.0)
NOISE = f"Simulated, mean of {RUNS} runs; ± is the simulation's own noise, no guarantee."


class Plan:
    """The results of a run's budgets. A subclass adds the parts of its goal.

    Attributes:
        kind: of goals that it is for.
        multiples: of the budget, of which smaller ones than half are only looked at.
        how_to_pilot: the next command without a pilot.
        asked: the run, with the budget that is planned for.
        belief: the knowledge about the judge.
        first: the lines before all others, with the answer.
        about: the data and the scheduler.
        prior: the assumption about the answers' variance.
        columns: the figures that the screen shows of each row.
        evenly: those of an even spread, by the header of the figure that they stand beside in the details.
        further: what the details have behind these.
    """

    kind: ClassVar[type] = Goal
    multiples: ClassVar[tuple[float, ...]] = _MULTIPLES
    how_to_pilot: ClassVar[str] = "--pilot 3 asks three times a pair first, and plans by that."

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.config, self.goal, self.space = asked.config, asked.goal, asked.space
        self.belief: Belief = asked.belief
        self.first: Sequence[str] = ()
        scheduler, space = asked.scheduler_at(asked.budget), self.space
        self.is_even = policy_named(scheduler).evenly
        of = f"{number_of(len(space.pair_ids), 'pair')} ({', '.join(space.attributes)})"
        judges = f" × {len(space.judges)} judges" * (len(space.judges) > 1)
        self.about = (
            f"{of}{judges}, {asked.budget / len(space):.1f} calls per score, by {scheduler}"
        )
        self.prior = asked.prior
        names = [name for name in self.goal.figures if not name.endswith("_sem")]
        self.columns: Columns = {name.replace("_", " "): page.figure(name) for name in names}
        self.evenly: Columns = {}
        self.further: Columns = {}

    @cached_property
    def calls(self) -> Calls:
        """Return the costs of the calls."""
        return calls_of(self.asked)

    @property
    def simulated(self) -> Sequence[int]:
        """Return the budgets to simulate, rising, at least the calls spent already; none if the plan needs no simulation."""
        return sorted(
            {max(self.asked.least, round(self.asked.budget * each)) for each in self.multiples}
        )

    @property
    def budgets(self) -> Sequence[int]:
        """Return the planned budgets: half the budget and more, and the end by ``--max-cost``."""
        asked, ends = self.asked, self.calls.bought
        shown = {max(asked.least, round(asked.budget * each)) for each in _MULTIPLES}
        stops = {each for each in ends[:1] if each is not None and ends[0] == ends[1]}
        return sorted(shown | {each for each in stops if asked.least <= each <= max(shown)})

    def foresee(self, scheduler: str, budgets: Sequence[int]) -> Outlook:
        """Return the results of ``scheduler``; the same for the same run."""
        return foreseen(self.asked, scheduler, budgets, self.belief)

    @cached_property
    def outlooks(self) -> tuple[Outlook, Outlook]:
        """Return the results of the scheduler, and of an even spread."""
        budgets = self.budgets if self.goal.ends else sorted({*self.budgets, *self.simulated})
        found = {name: self.foresee(name, budgets) for name in {self.asked.scheduler, BASELINE}}
        return found[self.asked.scheduler], found[BASELINE]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Return the results of each budget, rising."""
        found = [
            {"budget": each, **self.calls.taken(self.spent(each)), **self.figures(each)}
            for each in self.budgets
        ]
        return [{**row, "known_then": self.goal.known_then(row, self.words)} for row in found]

    def spent(self, budget: int) -> int:
        """Return the average calls of a run with ``budget``."""
        return budget

    def figures(self, budget: int) -> dict[str, Any]:
        """Return the expected results of ``budget``, for the scheduler and an even spread; None for unknown ones."""
        mine, evenly = (self.measured(each.expected.get(budget)) for each in self.outlooks)
        return {
            "calls_an_arm": budget / len(self.space),
            "scheduler": self.asked.scheduler_at(budget),
            **mine,
            **{f"even_{name}": value for name, value in evenly.items()},
        }

    def measured(self, expected: Expected | None) -> dict[str, Any]:
        """Return the goal's figures from the expected results; None without any."""
        return {
            name: None if expected is None else expected.figure(column)
            for name, column in self.goal.figures.items()
        }

    def words(self, error: float) -> str:
        """Write an error in its unit."""
        return error_text(error, as_share=self.space.has_several_scales)

    def own_facts(self) -> dict[str, Any]:
        """Return the facts special to this goal, as JSON values."""
        asked, config, budget = self.asked, self.config, self.asked.budget
        policy = asked.policy(budget, np.ones(len(self.space)))
        warm_up = 0 if policy is None or policy.evenly else policy.warm_up
        return {
            "errors_are": "shares of the scale" if self.space.has_several_scales else "points",
            "variances_from": config.variances if asked.is_warm else None,
            "simulated_runs": RUNS,
            "by_text": config.answers != "logprobs"
            and (asked.run is None or asked.run.manifest.answers != "logprobs"),
            "calls_an_arm": budget / len(self.space),
            "below_warm_up": warm_up * len(self.space) > budget,
            "for_error": None,
            "decide": None,
            "calls_for": self.calls_for,
            "ways": [],
        }

    @cached_property
    def calls_for(self) -> list[dict[str, Any]]:
        """Return the calls for some errors."""
        return []

    def needed(
        self, name: str, value: float, read: Callable[[Outlook, float], Needed | None]
    ) -> dict[str, Any]:
        """Return the calls for a ``value``, by the scheduler and by an even spread; None if it is never reached."""
        mine, evenly = (read(each, value) if each.expected else None for each in self.outlooks)
        return {name: value, **_facts_of("calls", mine), **_facts_of("even_calls", evenly)}

    def calls_text(
        self, name: str, facts: Mapping[str, Any], *, says_even: bool = True, within: str = ""
    ) -> str:
        """Return calls and their noise in words; also of an even spread, unless the run is one.

        Args:
            within: of a quantile, how often no more are taken.
        """
        about = []
        if f"{name}_low" in facts and facts[f"{name}_are"] == "about":
            high = "more" if facts[f"{name}_high"] is None else f"{facts[f'{name}_high']:,}"
            about.append(f"95 %: {facts[f'{name}_low']:,} to {high}")
        if says_even and not self.is_even and facts[f"even_{name}"] is not None:
            about.append(f"spread evenly: {facts[f'even_{name}_are']} {facts[f'even_{name}']:,}")
        calls = f"{facts[f'{name}_are']} {number_of(facts[name], 'call')}{within * (facts[f'{name}_are'] == 'about')}"
        return f"{calls} ({'; '.join(about)})" if about else calls

    def details(self) -> Sequence[Part]:
        """Return further notes."""
        facts, ends, lines = self.facts, self.goal.ends, []
        if facts["variances_from"]:
            lines.append(f"The scheduler begins with the variances of {facts['variances_from']}.")
        if facts["below_warm_up"]:
            name, sooner = (
                facts["scheduler"].upper(),
                "; --scheduler two-priors adapts sooner" * (not ends),
            )
            lines.append(f"This budget is below {name}'s warm-up, so it is spread evenly{sooner}.")
        if not facts["by_text"]:
            what = (
                ("decisions", "they take fewer calls")
                if ends
                else ("errors of scores", "they are smaller")
            )
            lines.append(f"These are {what[0]} by the text; by log probabilities {what[1]}.")
        return lines

    def way_on(self) -> str:
        """Return the next command."""
        asked, config = self.asked, self.config
        if asked.pilot is None:
            return self.how_to_pilot
        until = "" if config.target_error is None else f" --target-error {config.target_error:g}"
        return f"To spend it: robin resume {typed(asked.pilot)} --budget {asked.budget}{until}"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        asked, calls, config, budget = self.asked, self.calls, self.config, self.asked.budget
        choice, spent = asked.choice(budget), self.spent(budget)
        tokens, ends = calls.tokens(spent), calls.bought
        return {
            "pairs": len(self.space.pair_ids),
            "attributes": list(self.space.attributes),
            "judges": list(config.model),
            "arms": len(self.space),
            "scheduler": asked.scheduler_at(budget),
            "scheduler_asked": config.scheduler,
            "scheduler_because": None if choice is None else choice.why,
            "pilot": None
            if asked.pilot is None
            else {"run": str(asked.pilot), "spent": calls.already.calls},
            "ratings_known": asked.told_by is not None,
            "ratings_vary_as": self.prior,
            "tokens_from": calls.source,
            "price": calls.price,
            "target_error": config.target_error,
            "budget": budget,
            "budget_usd": self.asked.budget_usd,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "completion_tokens_at_most": config.max_tokens * spent,
            "max_cost_usd": config.max_cost,
            "max_cost_calls_at_least": ends[0],
            "max_cost_calls_at_most": ends[1],
            "forecast": self.whole_table.records(),
            **self.own_facts(),
        }

    @property
    def whole_table(self) -> Table:
        """Return the results of each budget, with all details."""
        shown: dict[str, Callable[[Row], str]] = {}
        for header, text in self.columns.items():
            shown[header] = text
            if header in self.evenly and not self.is_even:
                shown[f"evenly{' ' * len(shown)}"] = self.evenly[header]
        return self._table(self.rows, {**shown, **self.further}, page.money)

    def _table(self, rows: Sequence[Row], columns: Columns, priced: Callable[[Row], str]) -> Table:
        takes: Columns = {"calls": page.whole("budget"), "money": priced, "time": page.time_about}
        return page.sheet(rows, {**takes, **columns}, PLANNED)

    def lines(self, *, details: bool) -> list[Part]:
        """Return a screen that begins with the answer, or with ``details`` the whole plan."""
        (at,) = filter(self.is_planned, self.rows)
        wanted = {
            max(self.rows[0]["budget"], round(self.asked.budget * times)) for times in _SCREEN
        }
        sent = "Nothing was sent."
        if self.asked.pilot is not None:
            sent = f"The pilot's {number_of(self.calls.already.calls, 'call')} count: they are part of each budget."
        way_on = "" if self.asked.budget_usd is not None else self.way_on()
        shown = [row for row in self.rows if row["budget"] in wanted]
        screen: list[Part] = [
            *self.first,
            self._headline(at),
            f"{self.about}.",
            f"How ratings vary: {self.prior}.",
            f"{self._granted(at)}{sent}",
            self.whole_table if details else self._table(shown, self.columns, page.money_alone),
        ]
        if not details:
            return [*screen, f"--details says more. {way_on}".strip()]
        return [*screen, "", *self._of_calls(), *self.details(), *filter(None, [way_on])]

    def show(self, *, details: bool) -> None:
        """Print the plan."""
        page.print_page(self.lines(details=details))

    def is_planned(self, row: Row) -> bool:
        """Return whether a row is that of the planned budget."""
        return bool(row["budget"] == self.asked.budget)

    def _headline(self, at: Row) -> str:
        """Return the budget's cost, and its results."""
        config, calls, cost = (
            self.config,
            number_of(self.asked.budget, "call"),
            page.money_about(at),
        )
        takes = (
            f"take {page.time_about(at)} at most"
            if config.batch
            else f"take about {page.time_about(at)}"
        )
        at_most = " at most" * self.goal.ends
        if self.asked.budget_usd is not None:
            said = f"{dollars(self.asked.budget_usd)} (--max-cost) pay for about {calls}, which {takes}"
        elif not cost:
            said = f"{calls}{at_most} {takes}; their price is not known (--price-in, --price-out)"
        else:
            said = f"{calls}{at_most} cost about {cost} and {takes}"
        return f"{said}. Then {at['known_then']}." if at["known_then"] else f"{said}."

    def _granted(self, at: Row) -> str:
        """Return the assumptions about money and time, if there are no data."""
        granted = ["answers of 100 tokens"] * (
            self.calls.completion is None and at["cost_usd_about"] is not None
        )
        if at["seconds"] is None and not self.config.batch:
            granted.append(f"a call every {self.calls.seconds_assumed:.2g} s")
        return f"Assumed: {page.listed(granted)}. " if granted else ""

    def _of_calls(self) -> list[str]:
        """Return the costs of the calls, and the reason for the scheduler."""
        config, facts, out = self.config, self.facts, self.facts["completion_tokens"]
        answers = (
            f"{out:,} out"
            if out is not None
            else f"at most {facts['completion_tokens_at_most']:,} out (--max-tokens)"
        )
        unpriced, prices = "not known (--price-in, --price-out)", "--price-in and --price-out"
        if config.batch:
            unpriced = (
                f"none is known by batch: the model may not be offered so; if it is, give {prices}"
            )
        lines = [
            f"Tokens: about {facts['prompt_tokens']:,} in, {answers}; {facts['tokens_from']}.",
            f"Price: {facts['price'] or unpriced}.",
        ]
        choice = self.asked.choice(self.asked.budget)
        if choice is not None:
            lines.append(f"{choice.text(self.asked.scheduler)}.")
        lines += self._max_cost()
        if any(row["cost_usd_at_least"] != row["cost_usd_at_most"] for row in self.rows):
            lines.append("money: from answers of no length to answers of --max-tokens each.")
        return lines

    def _max_cost(self) -> list[str]:
        """Return the point at which ``--max-cost`` would end this run, and which of the shown budgets."""
        limit, (least, most) = self.config.max_cost, self.calls.bought
        if limit is None or least is None:
            return []
        if not most and most is not None:
            return [
                f"--max-cost {dollars(limit)} does not pay for one call, for the most that it may cost must be there."
            ]
        end = (
            f"{number_of(least, 'call')} or more"
            if most is None
            else f"{least:,} to {number_of(most, 'call')}"
        )
        end = number_of(least, "call") if least == most else end
        stopped = {
            verdict: [f"{row['budget']:,}" for row in self.rows if row["within_max_cost"] is within]
            for verdict, within in (("stops", False), ("may stop", None))
        }
        told = [
            f"{verdict} {page.listed(budgets)}" for verdict, budgets in stopped.items() if budgets
        ]
        of_these = (
            f"of these budgets it {', '.join(told)}" if told else "it stops none of these budgets"
        )
        return [f"--max-cost {dollars(limit)} pays for about {end}: {of_these}."]


def foreseen(
    asked: Asked, name: str, budgets: Sequence[int], belief: Belief | None = None
) -> Outlook:
    """Return the simulated results of the scheduler ``name``; the same for the same run."""
    return foresee(
        *(belief or asked.belief, asked.policy_at(name), budgets, np.random.default_rng(SEED)),
        least=asked.least,
        evenly=policy_named(name).evenly,
        rounds=asked.rounds,
        end_spread=asked.belief.end_spread,
    )


def found(name: str, mine: Needed, evenly: Needed, least: int = 0) -> dict[str, Any]:
    """Return facts about the calls found by a search, ``least`` or more, with the noise of the simulation."""
    low, high = (None if each is None else max(least, each) for each in (mine.low, mine.high))
    return {
        **_facts_of(name, mine, least),
        f"{name}_low": low,
        f"{name}_high": high,
        **_facts_of(f"even_{name}", evenly, least),
    }


def _facts_of(name: str, calls: Needed | None, least: int = 0) -> dict[str, Any]:
    return {
        name: None if calls is None else max(least, calls.calls),
        f"{name}_are": "never" if calls is None else calls.relation,
    }
