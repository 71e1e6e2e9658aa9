"""A plan: what a budget, its half and its double come to, as facts for scripts and as a page for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from robin_cli.goals.base import Goal
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.results.words import dollars, error_text
from robin_cli.views.plan.asked import Asked
from robin_cli.views.plan.calls import Calls, calls_of
from robin_cli.views.plan.page import (
    UNKNOWN,
    Columns,
    Row,
    Sheet,
    figure,
    listed,
    money,
    money_about,
    money_alone,
    show,
    time,
    time_about,
)


class Plan:
    """What the budgets of a run come to. A subclass has the figures of a goal, and says them.

    Attributes:
        kind: of goals that it is for.
        multiples: of the budget, which are planned, too.
        how_to_pilot: the next command without a pilot.
        asked: the run, with the budget that is planned for.
        first: lines that stand before all others, with what was asked for.
        about: what is judged, and by which scheduler.
        prior: what is taken for granted of how answers vary.
        columns: the figures that the screen shows of each row; ``all_columns``: those of the details.
    """

    kind: ClassVar[type] = Goal
    multiples: ClassVar[tuple[float, ...]] = (0.5, 1.0, 2.0)
    how_to_pilot: ClassVar[str] = "--pilot 3 asks three times a pair first, and plans by that."

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.config, self.goal, self.space = asked.config, asked.goal, asked.space
        self.first: Sequence[str] = ()
        self.about, self.prior = "", asked.prior
        names = [name for name in self.goal.figures if not name.endswith("_sem")]
        self.columns: Columns = {name.replace("_", " "): figure(name) for name in names}
        self.all_columns = self.columns

    @cached_property
    def calls(self) -> Calls:
        """What they take."""
        return calls_of(self.asked)

    @property
    def budgets(self) -> Sequence[int]:
        """What is planned, rising, at no fewer calls than were spent already."""
        return sorted({max(self.asked.least, round(self.asked.budget * each)) for each in self.multiples})

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What each budget comes to, rising."""
        found = [{"budget": each, **self.calls.taken(self.spent(each)), **self.figures(each)} for each in self.budgets]
        return [{**row, "known_then": self.goal.known_then(row, self.words)} for row in found]

    def spent(self, budget: int) -> int:
        """Return the calls that a run with ``budget`` makes on average."""
        return budget

    def figures(self, budget: int) -> dict[str, Any]:
        """Return what is known when ``budget`` is spent, by name; None for what is not."""
        raise NotImplementedError

    def words(self, error: float) -> str:
        """Write an error in its unit."""
        return error_text(error, as_share=self.space.has_several_scales)

    def own_facts(self) -> dict[str, Any]:
        """Return the facts of this goal alone, as JSON values."""
        raise NotImplementedError

    def details(self) -> Sequence[Sheet | str]:
        """Return what else there is to be said."""
        raise NotImplementedError

    def way_on(self) -> str:
        """Return the next command."""
        asked, config = self.asked, self.config
        if asked.pilot is None:
            return self.how_to_pilot
        until = "" if config.target_error is None else f" --target-error {config.target_error:g}"
        until += " --guaranteed" * config.guaranteed
        return f"To spend it: robin resume {typed(asked.pilot)} --budget {asked.budget}{until}"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The plan as JSON values."""
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
            "pilot": None if asked.pilot is None else {"run": str(asked.pilot), "spent": calls.already.calls},
            "ratings_known": asked.told_by is not None,
            "ratings_vary_as": self.prior,
            "tokens_from": calls.source,
            "price": calls.price,
            "service_tier": config.tier,
            "target_error": config.target_error,
            "target_guaranteed": config.guaranteed,
            "budget": budget,
            "budget_usd": config.budget_usd,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "completion_tokens_at_most": config.max_tokens * spent,
            "max_cost_usd": config.max_cost,
            "max_cost_calls_at_least": ends[0],
            "max_cost_calls_at_most": ends[1],
            "forecast": self.rows,
            **self.own_facts(),
        }

    def show(self, *, details: bool) -> None:
        """Print the plan: a screen that begins with the answer, and the details for those who ask for them."""
        (at,) = filter(self.is_planned, self.rows)
        wanted = {max(self.rows[0]["budget"], round(self.asked.budget * times)) for times in (0.5, 1.0, 2.0)}
        budgets: Columns = {"calls": lambda row: f"{row['budget']:,}"}
        sent = "Nothing was sent."
        if self.asked.pilot is not None:
            sent = f"The pilot's {number_of(self.calls.already.calls, 'call')} count: they are part of each budget."
        way_on = "" if self.config.budget_usd is not None else self.way_on()
        screen = {**budgets, "money": money_alone, "time": time_about, **self.columns}
        show(
            [
                *self.first,
                self._headline(at),
                f"{self.about}.",
                f"How ratings vary: {self.prior}.",
                f"{self._granted(at)}{sent}",
                Sheet([row for row in self.rows if row["budget"] in wanted], screen, self.is_planned),
                f"--details says more. {way_on}".strip(),
            ]
        )
        if details:
            whole = {**budgets, "money": money, "time": time, **self.all_columns}
            show(["", Sheet(self.rows, whole, self.is_planned), "", *self._of_calls(), *self.details()])

    def is_planned(self, row: Row) -> bool:
        """Whether a row is that of the budget planned for."""
        return bool(row["budget"] == self.asked.budget)

    def _headline(self, at: Row) -> str:
        """What the budget takes, and what is known then."""
        config, calls, cost = self.config, number_of(self.asked.budget, "call"), money_about(at)
        takes = f"take {time_about(at)} at most" if config.in_rounds else f"take about {time_about(at)}"
        at_most = " at most" * self.goal.ends
        if config.budget_usd is not None:
            said = f"{dollars(config.budget_usd)} (--budget-usd) pay for about {calls}, which {takes}"
        elif cost == UNKNOWN:
            said = f"{calls}{at_most} {takes}; their price is not known (--price-in, --price-out)"
        else:
            said = f"{calls}{at_most} cost about {cost} and {takes}"
        return f"{said}. Then {at['known_then']}." if at["known_then"] else f"{said}."

    def _granted(self, at: Row) -> str:
        """What money and time were reckoned by, where nothing tells."""
        granted = ["answers of 100 tokens"] * (self.calls.completion is None and at["cost_usd_about"] is not None)
        if at["seconds"] is None and not self.config.in_rounds:
            granted.append(f"a call every {self.calls.seconds_assumed:.2g} s")
        return f"Assumed: {listed(granted)}. " if granted else ""

    def _of_calls(self) -> list[str]:
        """What the calls take, and why the scheduler is this one."""
        config, facts, out = self.config, self.facts, self.facts["completion_tokens"]
        answers = (
            f"{out:,} out" if out is not None else f"at most {facts['completion_tokens_at_most']:,} out (--max-tokens)"
        )
        unpriced, prices = "not known (--price-in, --price-out)", "--price-in and --price-out"
        if config.tier is not None:
            unpriced = f"none is known by {config.tier}: the model may not be offered so; if it is, give {prices}"
        lines = [
            f"Tokens: about {facts['prompt_tokens']:,} in, {answers}; {facts['tokens_from']}.",
            f"Price: {facts['price'] or unpriced}.",
        ]
        if facts["scheduler_because"]:
            lines.append(f"--scheduler {facts['scheduler_asked']}: {facts['scheduler']}; {facts['scheduler_because']}.")
        if config.budget_usd is not None:
            lines.append(
                "These figures are those of as many calls at one cost: what choosing by the dollar brings is not in them."
            )
        lines += self._max_cost()
        if any(row["cost_usd_at_least"] != row["cost_usd_at_most"] for row in self.rows):
            lines.append("money: from answers of no length to answers of --max-tokens each.")
        return lines

    def _max_cost(self) -> list[str]:
        """Where ``--max-cost`` would end this run, and which of the budgets shown."""
        limit, (least, most) = self.config.max_cost, self.calls.bought
        if limit is None or least is None:
            return []
        if not most and most is not None:
            return [
                f"--max-cost {dollars(limit)} does not pay for one call, for the most that it may cost must be there."
            ]
        end = f"{number_of(least, 'call')} or more" if most is None else f"{least:,} to {number_of(most, 'call')}"
        end = number_of(least, "call") if least == most else end
        stopped = {
            verdict: [f"{row['budget']:,}" for row in self.rows if row["within_max_cost"] is within]
            for verdict, within in (("stops", False), ("may stop", None))
        }
        told = [f"{verdict} {listed(budgets)}" for verdict, budgets in stopped.items() if budgets]
        of_these = f"of these budgets it {', '.join(told)}" if told else "it stops none of these budgets"
        return [f"--max-cost {dollars(limit)} pays for about {end}: {of_these}."]
