"""Plans of what a simulation measures: the run simulated, and an even spread of the same calls beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.goals.own.estimate import Estimate
from robin_cli.model.records import number_of
from robin_cli.policies.registry import BASELINE, policy_named
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import (
    RUNS,
    Expected,
    Needed,
    Outlook,
    budget_for,
    calls_for,
    calls_of_a_search,
    foresee,
)
from robin_cli.simulation.rating_model import draw_distributions
from robin_cli.simulation.runs import round_ends_of
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.base import Plan
from robin_cli.views.plan.calls import ways_of
from robin_cli.views.plan.page import Sheet, figure, listed, ways_sheet

_MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_SHOWN_FROM = 0.5
_ERRORS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""

NOISE = f"Simulated, mean of {RUNS} runs; ± is the simulation's own noise, no guarantee."


class Forecast(Plan):
    """The plan of any goal: its figures by the run's scheduler, and by an even spread of the same calls."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        space, scheduler = self.space, asked.scheduler_at(asked.budget)
        self.is_even = policy_named(scheduler).evenly  # the run itself is an even spread
        of = f"{number_of(len(space.pair_ids), 'pair')} ({', '.join(space.attributes)})"
        judges = f" × {len(space.judges)} judges" * (len(space.judges) > 1)
        self.about = f"{of}{judges}, {asked.budget / len(space):.1f} calls per score, by {scheduler}"

    @property
    def budgets(self) -> Sequence[int]:
        """Half the budget and more, and where ``--max-cost`` ends the run; at no fewer calls than were spent already."""
        multiples, ends = self.all_budgets, self.calls.bought
        stops = {each for each in ends[:1] if each is not None and ends[0] == ends[1]}
        shown = {each for each in multiples if each >= _SHOWN_FROM * self.asked.budget}
        return sorted(shown | {each for each in stops if self.asked.least <= each <= max(multiples)})

    @property
    def all_budgets(self) -> Sequence[int]:
        """All multiples of the budget."""
        return sorted({max(self.asked.least, round(self.asked.budget * each)) for each in _MULTIPLES})

    @cached_property
    def outlooks(self) -> tuple[Outlook, Outlook]:
        """What the scheduler comes to, and an even spread."""
        budgets = self.budgets if self.goal.ends else sorted({*self.budgets, *self.all_budgets})
        found = {name: simulated(self.asked, name, budgets) for name in {self.asked.scheduler, BASELINE}}
        return found[self.asked.scheduler], found[BASELINE]

    def figures(self, budget: int) -> dict[str, Any]:
        """Return the figures of the goal, by the scheduler and by an even spread."""
        mine, evenly = (each.expected.get(budget) for each in self.outlooks)
        return {
            "calls_an_arm": budget / len(self.space),
            "scheduler": self.asked.scheduler_at(budget),
            **self.measured(mine),
            **{f"even_{name}": value for name, value in self.measured(evenly).items()},
        }

    def measured(self, expected: Expected | None) -> dict[str, Any]:
        """Return the figures of the goal in what is expected; None where nothing is."""
        return {
            name: None if expected is None else expected.figure(column) for name, column in self.goal.figures.items()
        }

    def own_facts(self) -> dict[str, Any]:
        """Return what all plans of ratings say."""
        asked, config, budget = self.asked, self.config, self.asked.budget
        policy = asked.policy(budget, np.ones(len(self.space)))
        warm_up = 0 if policy is None or policy.evenly else policy.warm_up
        return {
            "errors_are": "shares of the scale" if self.space.has_several_scales else "points",
            "variances_from": config.variances if asked.is_warm else None,
            "simulated_runs": RUNS,
            "by_text": config.scoring == "text" and (asked.run is None or asked.run.manifest.scoring == "text"),
            "calls_an_arm": budget / len(self.space),
            "below_warm_up": warm_up * len(self.space) > budget,
            "for_error": None,
            "decide": None,
            "calls_for": self.calls_for,
            "ways": [],
        }

    @cached_property
    def calls_for(self) -> list[dict[str, Any]]:
        """The calls that some errors take."""
        return []

    def needed(self, name: str, value: float, read: Callable[[Outlook, float], Needed | None]) -> dict[str, Any]:
        """Return the calls for a ``value``, by the scheduler and by an even spread; None where it never comes to that."""
        mine, evenly = (read(each, value) if each.expected else None for each in self.outlooks)
        return {name: value, **_facts_of("calls", mine), **_facts_of("even_calls", evenly)}

    def calls_text(self, name: str, facts: Mapping[str, Any], *, says_even: bool = True) -> str:
        """Return calls and what noise leaves open in words; of an even spread, unless that is what the run is."""
        about = []
        if f"{name}_low" in facts and facts[f"{name}_are"] == "about":
            high = "more" if facts[f"{name}_high"] is None else f"{facts[f'{name}_high']:,}"
            about.append(f"95 %: {facts[f'{name}_low']:,} to {high}")
        if says_even and not self.is_even and facts[f"even_{name}"] is not None:
            about.append(f"spread evenly: {facts[f'even_{name}_are']} {facts[f'even_{name}']:,}")
        calls = f"{facts[f'{name}_are']} {number_of(facts[name], 'call')}"
        return f"{calls} ({'; '.join(about)})" if about else calls

    def details(self) -> Sequence[Sheet | str]:
        """Return what else is to be known of the scheduler and of the answers."""
        facts, ends, lines = self.facts, self.goal.ends, []
        if facts["variances_from"]:
            lines.append(f"The scheduler begins with the variances of {facts['variances_from']}.")
        if facts["below_warm_up"]:
            name, sooner = facts["scheduler"].upper(), "; --scheduler two-priors adapts sooner" * (not ends)
            lines.append(f"This budget is below {name}'s warm-up, so it is spread evenly{sooner}.")
        if not facts["by_text"]:
            what = ("decisions", "they take fewer calls") if ends else ("errors of scores", "they are smaller")
            lines.append(f"These are {what[0]} by the text; by log probabilities {what[1]}.")
        return lines


def simulated(asked: Asked, name: str, budgets: Sequence[int]) -> Outlook:
    """Return what the scheduler ``name`` comes to; the same for the same run."""
    return foresee(
        *(asked.belief, asked.policy_at(name), budgets, np.random.default_rng(SEED)),
        least=asked.least,
        evenly=policy_named(name).evenly,
        rounds=asked.rounds,
    )


def found(name: str, mine: Needed, evenly: Needed, least: int = 0) -> dict[str, Any]:
    """Return facts of calls that were searched for, ``least`` or more, with what noise leaves open."""
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


class Scores(Forecast):
    """The plan of a run that estimates scores, at the budget for an error where that is asked for."""

    kind = Estimate

    def __init__(self, asked: Asked) -> None:
        self.target = _target(asked)
        if asked.config.budget is None and self.target is not None:
            asked = asked.with_budget(max(asked.least, self.target["calls"]))
        super().__init__(asked)
        self.first = [] if self.target is None else [self._target_text(self.target)]
        names = {"worst_error": "largest error", "even_worst_error": "spread evenly", "mean_error": "average"}
        names["bound"] = "paper's bound"
        unit: tuple[float, int, str] = (100, 1, " %") if asked.space.has_several_scales else (1, 2, "")
        every = {label: figure(name, *unit) for name, label in names.items()}
        self.columns = {label: every[label] for label in ("largest error", "average")}
        self.all_columns = {
            label: each for label, each in every.items() if not self.is_even or label != "spread evenly"
        }

    def figures(self, budget: int) -> dict[str, Any]:
        """Return the figures of the goal, and the paper's bound."""
        return {**super().figures(budget), **self._paper_bound(budget)}

    def _paper_bound(self, budget: int) -> dict[str, Any]:
        """Return the bound, for the schedulers that its theorems cover, with variances drawn from what is known."""
        asked, space, config = self.asked, self.space, self.config
        theorem = policy_named(asked.scheduler).theorem(config.mode)
        policy = asked.policy(budget, None) if theorem is not None and theorem > 1 else None
        if theorem is None or (theorem > 1 and policy is None):
            return {"bound": None, "assumes": None}
        rng, drawn = np.random.default_rng(SEED), []
        for place, known in enumerate(asked.known):
            p, scale = draw_distributions(known.counts, known.weights, rng), space.scale_of(place)
            levels = np.arange(scale.low, scale.high + 1, dtype=np.float64)
            drawn.append(p @ levels**2 - (p @ levels) ** 2)
        variances = np.stack(drawn, axis=1).ravel() / space.units**2
        bound, assumes = theorem_bound(
            theorem, variances, budget, config.delta, 0 if policy is None else policy.warm_up
        )
        return {"bound": bound, "assumes": assumes}

    def own_facts(self) -> dict[str, Any]:
        """Return the budget for an error, and the ways to make the calls, too."""
        return {**super().own_facts(), "for_error": self.target, "ways": self.ways}

    @cached_property
    def calls_for(self) -> list[dict[str, Any]]:
        """The calls that some errors take."""
        scale = self.space.scales[0]
        width = 1.0 if self.space.has_several_scales else float(scale.high - scale.low)
        errors = [float(f"{share * width:.1g}") for share in _ERRORS]
        return [
            self.needed("worst_error", each, lambda outlook, error: calls_for(error, outlook.expected))
            for each in errors
        ]

    @cached_property
    def ways(self) -> list[dict[str, Any]]:
        """What the budget comes to by each way to make the calls."""
        return ways_of(self.calls, self.asked.budget, self._reached)

    def _reached(self, config: Settings) -> dict[str, Any]:
        way, rounds, budget = replace(self.asked, config=config), config.rounds, self.asked.budget
        same = way.rounds == self.asked.rounds
        outlook = self.outlooks[0] if same else simulated(way, way.scheduler, [budget])
        policy = way.policy(budget, np.ones(len(self.space)))
        if policy is not None and way.rounds is not None:  # what it wants before it looks at any answer makes one
            rounds = len(round_ends_of(policy, budget, len(self.space), rounds))
        return {
            "scheduler": way.scheduler_at(budget),
            "rounds": rounds if config.in_rounds else None,
            **self.measured(outlook.expected.get(budget)),
        }

    def details(self) -> Sequence[Sheet | str]:
        """Return the ways, the calls for some errors, and what is meant by errors, and by this run's."""
        config, space, lines = self.config, self.space, []
        needed = [] if self.target is not None else self.calls_for
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
            NOISE,
        ]
        if space.has_several_scales:
            lines.append("These attributes have several scales: errors are shares of the width of each one's own.")
        if others := [row for row in self.rows if row["worst_error"] and row["scheduler"] != self.facts["scheduler"]]:
            lines.append(
                f"With {listed(format(row['budget'], ',') for row in others)} calls, --scheduler {self.asked.scheduler} is "
                f"{others[0]['scheduler']}, in a run that begins with that budget."
            )
        if len(space.judges) > 1:
            lines.append("These are errors of each judge's scores; those of the panel are smaller.")
        lines += sorted({f"paper's bound: assumes {row['assumes']}" for row in self.rows if row["assumes"]})
        half = "Where the endpoint has them: they are taken to cost half."
        return [
            *ways_sheet(self.ways, self.asked.budget, self.columns),
            *[half] * (bool(self.ways) and "--price-in" in str(self.calls.price)),
            "",
            *(
                f"For a largest error of {self._point(each['worst_error'])} you need {self.calls_text('calls', each)}."
                for each in needed
            ),
            *lines,
            *super().details(),
        ]

    def _target_text(self, target: Mapping[str, Any]) -> str:
        """Return the budget for an error, first of all: who asks for it wants nothing else."""
        error = f"{'an average' if target['of'] == 'mean' else 'a largest'} error of {self._point(target['error'])}"
        if target["calls_are"] != "more than":
            return f"For {error} you need {self.calls_text('calls', target)}."
        is_open = target["calls_low"] < target["calls"]
        noise = f"; by the simulation's own noise, {target['calls_low']:,} may do" * is_open
        evenly = "" if self.is_even else f"; spread evenly: {target['even_calls_are']} {target['even_calls']:,}"
        calls = number_of(target["searched_to"], "call")
        return f"For {error} you need more than {calls}: up to there it was searched{noise}{evenly}."

    def _point(self, error: float) -> str:
        return f"{100 * error:g} %" if self.space.has_several_scales else f"{error:g}"


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
        for name in (asked.scheduler, BASELINE)
    )
    return {
        "error": error,
        "of": "mean" if average else "worst",
        **found("calls", mine, evenly),
        "searched_to": max(asked.least, calls_of_a_search(len(asked.space))),
    }
