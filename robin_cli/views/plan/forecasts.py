"""Plans of scores and of decisions: the run simulated, and an even spread of the same calls beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.analysis.decisions import decide
from robin_cli.analysis.forecast import (
    RUNS,
    Expected,
    Known,
    Needed,
    Outlook,
    budget_for,
    calls_for,
    calls_of_a_search,
    calls_to_the_end,
    foresee,
)
from robin_cli.analysis.goals import Goal, goal_of
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.rating_model import draw_distributions
from robin_cli.analysis.simulation import round_ends_of
from robin_cli.model.arms import FloatArray, mean
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import Scale, number_of
from robin_cli.policies.registry import BASELINE, policy_named
from robin_cli.settings.table import Settings
from robin_cli.views.plan.asked import SEED, Asked, figures
from robin_cli.views.plan.calls import Calls, bought, taken, ways_of
from robin_cli.views.plan.page import UNKNOWN, Columns, Row, Sheet, listed, ways_sheet

_MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_SHOWN_FROM = 0.5
_ERRORS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""

_WRONG = (0.01, 0.001)
"""Shares of wrong decisions to find the calls for."""

_ERROR_FIGURES = {
    "worst_error": ("worst", "mean"),
    "worst_error_sem": ("worst", "sem"),
    "mean_error": ("mean", "mean"),
}
_DECISION_FIGURES = {
    f"{name}{'_sem' * (statistic == 'sem')}": (name, statistic)
    for name in ("calls", "wrong", "certified")
    for statistic in ("mean", "sem")
}
_NOISE = f"Simulated, mean of {RUNS} runs; ± is the simulation's own noise, no guarantee."


class _Forecast:
    """What a run with a budget, its parts and its multiples comes to.

    Attributes:
        asked: the run, with the budget that is planned for.
        calls: what they take.
    """

    asked: Asked
    calls: Calls

    @property
    def goal(self) -> Goal:
        """What the run is to find."""
        return goal_of(task=self.asked.task)

    @property
    def names(self) -> list[str]:
        """The scheduler, and that of an even spread."""
        return list(dict.fromkeys((self.asked.config.scheduler, BASELINE)))

    @property
    def is_even(self) -> bool:
        """Whether the scheduler is an even spread itself."""
        return policy_named(self.scheduler).evenly

    @property
    def scheduler(self) -> str:
        """The scheduler of the run."""
        return self.asked.scheduler_at(self.asked.budget)

    @property
    def asked_about(self) -> str:
        """What is rated, and how often."""
        asked = self.asked
        of = f"{number_of(len(asked.space.pair_ids), 'pair')} ({', '.join(asked.space.attributes)})"
        judges = f" × {len(asked.space.judges)} judges" if len(asked.space.judges) > 1 else ""
        return f"{of}{judges}, {asked.budget / len(asked.space):.1f} calls per score, by {self.scheduler}"

    def budgets(self) -> tuple[list[int], list[int]]:
        """The budgets to show, rising, and all multiples of the budget, at no fewer calls than were spent already."""
        budget, least = self.asked.budget, self.asked.least
        ends = bought(self.asked.config, self.calls)
        multiples = {max(least, round(budget * each)) for each in _MULTIPLES}
        stops = {each for each in ends[:1] if each is not None and ends[0] == ends[1]}
        shown = {each for each in multiples if each >= _SHOWN_FROM * budget}
        return sorted(shown | {each for each in stops if least <= each <= max(multiples)}), sorted(multiples)

    def words(self, error: float) -> str:
        """Write an error in the unit of the errors."""
        return f"{error:.2f}" if not self.asked.space.has_several_scales else f"{100 * error:.1f} % of the scale"

    def simulated(self, asked: Asked, name: str, budgets: list[int]) -> Outlook:
        """What the scheduler ``name`` comes to; the same for the same run."""
        return foresee(
            *(asked.belief, asked.policy_at(name), budgets, np.random.default_rng(SEED)),
            least=asked.least,
            evenly=policy_named(name).evenly,
            rounds=asked.rounds,
        )

    def common(self) -> dict[str, Any]:
        """Facts that plans of scores and of decisions have."""
        asked, config = self.asked, self.asked.config
        by_text = config.scoring == "text" and (asked.run is None or asked.run.manifest.scoring == "text")
        policy = asked.policy(asked.budget, np.ones(len(asked.space)))
        warm_up = 0 if policy is None or policy.evenly else policy.warm_up
        return {
            "errors_are": "shares of the scale" if asked.space.has_several_scales else "points",
            "variances_from": config.variances if asked.is_warm else None,
            "simulated_runs": RUNS,
            "by_text": by_text,
            "calls_an_arm": asked.budget / len(asked.space),
            "below_warm_up": warm_up * len(asked.space) > asked.budget,
        }

    def further(self) -> list[str]:
        """What else is to be known of the scheduler and of the answers."""
        lines = []
        facts = self.common()
        if facts["variances_from"]:
            lines.append(f"The scheduler begins with the variances of {facts['variances_from']}.")
        if facts["below_warm_up"]:
            sooner = "; --scheduler two-priors adapts sooner" * (self.asked.task is None)
            lines.append(f"This budget is below {self.scheduler.upper()}'s warm-up, so it is spread evenly{sooner}.")
        if not facts["by_text"]:
            fewer = "they are smaller" if self.asked.task is None else "they take fewer calls"
            what = "errors of scores" if self.asked.task is None else "decisions"
            lines.append(f"These are {what} by the text; by log probabilities {fewer}.")
        return lines


class Scores(_Forecast):
    """A plan of scores."""

    def __init__(self, asked: Asked, for_error: float | None) -> None:
        error = asked.config.target_error if for_error is None else for_error
        self.is_average = for_error is not None and asked.config.wanted_objective == "mean-error"
        self.target = None if error is None else self._target(asked, error)
        if asked.config.budget is None and self.target is not None:
            asked = asked.with_budget(max(asked.least, self.target["calls"]))
        self.asked, self.calls = asked, asked.calls()
        self.shown, multiples = self.budgets()
        budgets = sorted({*self.shown, *multiples})
        self.expected = {name: self.simulated(asked, name, budgets).expected for name in self.names}
        self.rows = [self._row(each) for each in self.shown]
        self.spent = asked.budget

    def _target(self, asked: Asked, error: float) -> dict[str, Any]:
        """The budget for an error, and that of an even spread; of the largest error where the run would stop at it."""
        unsaid = Asked(**{**vars(asked), "config": _without_budget(asked.config)})
        measure = "mean" if self.is_average else "worst"
        mine, evenly = (
            budget_for(
                *(error, asked.belief, unsaid.policy_at(name), np.random.default_rng(SEED)),
                least=asked.least,
                measure=measure,
                evenly=policy_named(name).evenly,
                rounds=asked.rounds,
            )
            for name in (asked.config.scheduler, BASELINE)
        )
        return {
            "error": error,
            "of": measure,
            "calls": mine.needed.calls,
            "calls_are": mine.needed.relation,
            "calls_low": mine.low.calls,
            "calls_high": None if mine.high.relation == "more than" else mine.high.calls,
            "even_calls": evenly.needed.calls,
            "even_calls_are": evenly.needed.relation,
            "searched_to": max(asked.least, calls_of_a_search(len(asked.space))),
        }

    def _row(self, budget: int) -> dict[str, Any]:
        mine, evenly = (self.expected[name].get(budget) for name in (self.asked.config.scheduler, BASELINE))
        return {
            "budget": budget,
            **taken(self.asked.config, self.calls, budget),
            "calls_an_arm": budget / len(self.asked.space),
            "scheduler": self.asked.scheduler_at(budget),
            **figures(mine, _ERROR_FIGURES),
            **figures(evenly, _ERROR_FIGURES, "even_"),
            **self._paper_bound(budget),
        }

    def _paper_bound(self, budget: int) -> dict[str, Any]:
        """The paper's bound, for the schedulers that its theorems cover, with variances drawn from what is known."""
        asked, space = self.asked, self.asked.space
        theorem = policy_named(asked.config.scheduler).theorem(asked.config.mode)
        policy = asked.policy(budget, None) if theorem is not None and theorem > 1 else None
        if theorem is None or (theorem > 1 and policy is None):
            return {"bound": None, "assumes": None}
        rng = np.random.default_rng(SEED)
        drawn = [_drawn_variances(each, space.scale_of(place), rng) for place, each in enumerate(asked.known)]
        variances = np.stack(drawn, axis=1).ravel() / space.units**2
        warm_up = 0 if policy is None else policy.warm_up
        bound, assumes = theorem_bound(theorem, variances, budget, asked.config.delta, warm_up)
        return {"bound": bound, "assumes": assumes}

    def _needed(self, share: float) -> dict[str, Any]:
        scale = self.asked.space.scales[0]
        width = 1.0 if self.asked.space.has_several_scales else float(scale.high - scale.low)
        target = float(f"{share * width:.1g}")
        calls, evenly = (calls_for(target, self.expected[name]) for name in (self.asked.config.scheduler, BASELINE))
        return {
            "worst_error": target,
            "calls": calls.calls,
            "calls_are": calls.relation,
            "even_calls": evenly.calls,
            "even_calls_are": evenly.relation,
        }

    def _way(self, config: Settings) -> dict[str, Any]:
        """What the budget comes to by another way to make the calls."""
        budget, way = self.asked.budget, Asked(**{**vars(self.asked), "config": config})
        if way.rounds == self.asked.rounds:
            expected = self.expected[config.scheduler].get(budget)
        else:
            expected = self.simulated(way, config.scheduler, [budget]).expected.get(budget)
        policy, rounds = way.policy(budget, np.ones(len(way.space))), way.rounds
        if policy is not None and rounds is not None:  # what it wants before it looks at any answer makes one
            rounds = len(round_ends_of(policy, budget, len(way.space), rounds))
        return {"scheduler": way.scheduler_at(budget), "rounds": rounds, **figures(expected, _ERROR_FIGURES)}

    @cached_property
    def ways(self) -> list[dict[str, Any]]:
        """The ways to make the same calls."""
        return ways_of(self.asked.config, self.calls, self.asked.budget, self._way)

    @cached_property
    def needed(self) -> list[dict[str, Any]]:
        """The calls for some errors."""
        return [self._needed(share) for share in _ERRORS]

    def facts(self) -> dict[str, Any]:
        """The facts of scores alone."""
        return {
            **self.common(),
            "for_error": self.target,
            "decide": None,
            "calls_for": self.needed,
            "ways": self.ways,
        }

    @property
    def first(self) -> list[str]:
        """The budget for an error, first of all: who asks for it wants nothing else."""
        target = self.target
        if target is None:
            return []
        error = f"{'an average' if self.is_average else 'a largest'} error of {self._point(target['error'])}"
        about = [] if self.is_even else [f"spread evenly: {target['even_calls_are']} {target['even_calls']:,}"]
        calls = f"{target['calls_are']} {number_of(target['calls'], 'call')}"
        if target["calls_are"] == "more than":
            calls = f"more than {number_of(target['searched_to'], 'call')}, up to which it was searched"
            if target["calls_low"] < target["calls"]:
                about.insert(0, f"by the simulation's own noise, {target['calls_low']:,} may do")
        elif target["calls_are"] == "about":
            high = "more" if target["calls_high"] is None else f"{target['calls_high']:,}"
            about.insert(0, f"95 %: {target['calls_low']:,} to {high}")
        return [f"For {error} you need {calls}{_in_brackets(about)}."]

    def _point(self, error: float) -> str:
        return f"{error:g}" if not self.asked.space.has_several_scales else f"{100 * error:g} %"

    def _with_sem(self, name: str) -> Columns:
        """A column of an error, with its noise where that is known."""

        def text(row: Row) -> str:
            if row[name] is None:
                return UNKNOWN
            times, unit, digits = (100, " %", 1) if self.asked.space.has_several_scales else (1, "", 2)
            sem = row.get(f"{name}_sem")
            return (
                f"{times * row[name]:.{digits}f}" + (f" ± {times * sem:.{digits}f}" if sem is not None else "") + unit
            )

        return {_HEADS[name]: text}

    @property
    def columns(self) -> Columns:
        """What the screen has of each budget."""
        return {**self._with_sem("worst_error"), **self._with_sem("mean_error")}

    @property
    def all_columns(self) -> Columns:
        """What the details have beside these."""
        evenly = {} if self.is_even else self._with_sem("even_worst_error")
        bound = self._with_sem("bound") if any(row["bound"] is not None for row in self.rows) else {}
        return {**self._with_sem("worst_error"), **evenly, **self._with_sem("mean_error"), **bound}

    def details(self) -> list[Sheet | str]:
        """What errors take, and what is meant by them."""
        asked, config = self.asked, self.asked.config
        lines: list[Sheet | str] = ways_sheet(self.ways, asked.budget, self.columns)
        if lines and "--price-in" in (self.calls.price or ""):
            lines.append("Where the endpoint has them: they are taken to cost half.")
        if self.target is None:
            lines.append("")
            lines += [self._needed_text(each) for each in self.needed]
            if beyond := [each for each in self.needed if each["calls_are"] == "more than"]:
                lines.append(f"--for-error {beyond[0]['worst_error']:g} looks for it beyond the largest budget here.")
        if config.target_error is not None:
            bound = "; these errors are the estimated ones: the bound of --guaranteed is larger, and takes more calls"
            lines.append(
                f"--target-error {config.target_error:g}: robin judge stops there, and what is left of the budget is not "
                f"spent{bound * config.guaranteed}."
            )
        lines += [
            "largest error: how far the worst score is from the judge's own mean rating; average: over all pairs.",
            _NOISE,
        ]
        if asked.space.has_several_scales:
            lines.append("These attributes have several scales: errors are shares of the width of each one's own.")
        if others := [row for row in self.rows if row["worst_error"] and row["scheduler"] != self.scheduler]:
            calls = listed(f"{row['budget']:,}" for row in others)
            lines.append(
                f"With {calls} calls, --scheduler {config.scheduler} is {others[0]['scheduler']}, in a run that begins with "
                "that budget."
            )
        if len(asked.space.judges) > 1:
            lines.append("These are errors of each judge's scores; those of the panel are smaller.")
        lines += sorted({f"paper's bound: assumes {row['assumes']}" for row in self.rows if row["assumes"]})
        return [*lines, *self.further()]

    def _needed_text(self, needed: dict[str, Any]) -> str:
        evenly = [] if self.is_even else [f"spread evenly: {needed['even_calls_are']} {needed['even_calls']:,}"]
        error, calls = self._point(needed["worst_error"]), number_of(needed["calls"], "call")
        return f"For a largest error of {error} you need {needed['calls_are']} {calls}{_in_brackets(evenly)}."


_HEADS = {
    "worst_error": "largest error",
    "even_worst_error": "spread evenly",
    "mean_error": "average",
    "bound": "paper's bound",
}


def _in_brackets(parts: list[str]) -> str:
    return f" ({'; '.join(parts)})" if parts else ""


def _without_budget(config: Settings) -> Settings:
    from dataclasses import replace

    return replace(config, budget=None)


def _drawn_variances(known: Known, scale: Scale, rng: np.random.Generator) -> FloatArray:
    """Variances of arms drawn from what is known of them, shape (arms,), in squared points."""
    drawn = draw_distributions(known.counts, known.weights, rng)
    levels = np.arange(scale.low, scale.high + 1, dtype=np.float64)
    return np.asarray(drawn @ levels**2 - (drawn @ levels) ** 2)


class Decisions(_Forecast):
    """A plan of decisions, whose run ends when everything is decided."""

    def __init__(self, asked: Asked) -> None:
        assert asked.task is not None  # noqa: S101  # there is something to decide
        self.task = asked.task
        if asked.config.budget is None:
            begun = asked.with_budget(asked.least)
            end = self.simulated(begun, asked.config.scheduler, [asked.least]).end
            assert end is not None  # noqa: S101  # decisions have one
            asked = asked.with_budget(max(asked.least, end.needed.calls))
        self.asked, self.calls = asked, asked.calls()
        self.shown, _ = self.budgets()
        self.outlooks = {name: self.simulated(asked, name, self.shown) for name in self.names}
        self.rows = [self._row(each) for each in self.shown]
        self.spent = self._calls_spent(asked.budget)

    def _calls_spent(self, budget: int) -> int:
        """Calls that a run with ``budget`` spends on average, which ends when all is decided."""
        expected = self.outlooks[self.asked.config.scheduler].expected.get(budget)
        return max(self.asked.least, budget if expected is None else min(budget, round(expected.mean("calls"))))

    def _row(self, budget: int) -> dict[str, Any]:
        found = {"budget": budget, **taken(self.asked.config, self.calls, self._calls_spent(budget))}
        found |= {"calls_an_arm": budget / len(self.asked.space), "scheduler": self.asked.scheduler_at(budget)}
        for prefix, name in (("", self.asked.config.scheduler), ("even_", BASELINE)):
            expected = self.outlooks[name].expected.get(budget)
            found |= figures(expected, _DECISION_FIGURES, prefix)
            found[f"{prefix}decisions_simulated"] = None if expected is None else expected.decisions
        return found

    @cached_property
    def decided(self) -> dict[str, Any]:
        """What is to be decided, and when everything is."""
        asked, least, task = self.asked, self.asked.least, self.task
        mine, evenly = (self.outlooks[name].end for name in (asked.config.scheduler, BASELINE))
        assert mine is not None  # noqa: S101  # decisions have one
        assert evenly is not None  # noqa: S101
        return {
            "decide": asked.config.decide,
            "of": "pairs" if task.group is None else "groups",
            "decisions": task.decisions,
            "margins": dict(zip(task.space.attributes, task.decision.margins, strict=True)),
            "error_rate": task.decision.error_rate,
            "calls_to_end": max(least, mine.needed.calls),
            "calls_to_end_are": mine.needed.relation,
            "calls_to_end_low": max(least, mine.low.calls),
            "calls_to_end_high": None if mine.high.relation == "more than" else max(least, mine.high.calls),
            "even_calls_to_end": max(least, evenly.needed.calls),
            "even_calls_to_end_are": evenly.needed.relation,
            "searched_to": calls_to_the_end(len(asked.space)),
            "by_pilot": asked.pilot is not None and self._is_over(),
        }

    def _is_over(self) -> bool:
        """Whether the pilot decided everything."""
        run = self.asked.run
        if run is None or run.task is None:
            return False
        arms = run.fold.arms
        means = run.task.space.by_judge(mean(arms.counts, arms.totals)).mean(axis=1)
        return decide(run.task, means, LevelCounts.of(run), arms).is_over

    @cached_property
    def needed(self) -> list[dict[str, Any]]:
        """The calls for shares of wrong decisions; None where all is decided before it comes to so few."""
        found = []
        for wrong in _WRONG:
            needed: dict[str, Any] = {"wrong": wrong}
            for prefix, name in (("", self.asked.config.scheduler), ("even_", BASELINE)):
                calls = _calls_for_wrong(wrong, self.outlooks[name])
                needed |= {f"{prefix}calls": None if calls is None else calls.calls}
                needed |= {f"{prefix}calls_are": "never" if calls is None else calls.relation}
            found.append(needed)
        return found

    def facts(self) -> dict[str, Any]:
        """The facts of decisions alone."""
        return {
            **self.common(),
            "for_error": None,
            "decide": self.decided,
            "calls_for": self.needed,
            "ways": [],
        }

    @property
    def first(self) -> list[str]:
        """When everything is decided, first of all: it is what such a run ends by."""
        decided = self.decided
        what = f"{decided['decide']}, for {number_of(decided['decisions'], decided['of'][:-1])}"
        even = decided["even_calls_to_end_are"], decided["even_calls_to_end"]
        says_more = even[0] == "about" or even[1] > decided["calls_to_end"]
        about = [f"spread evenly: {even[0]} {even[1]:,}"] if says_more and not self.is_even else []
        if decided["calls_to_end_are"] == "about":
            about.insert(0, f"95 %: {decided['calls_to_end_low']:,} to {decided['calls_to_end_high']:,}")
        calls = f"{decided['calls_to_end_are']} {number_of(decided['calls_to_end'], 'call')}"
        return [f"To decide everything ({what}) takes {calls}{_in_brackets(about)}."]

    @property
    def columns(self) -> Columns:
        """What the screen has of each budget."""
        return {"spent": _spent, "wrong %": _wrong(""), "certified %": _certified("")}

    @property
    def all_columns(self) -> Columns:
        """What the details have beside these."""
        if self.is_even:
            return self.columns
        evenly = {"evenly": _wrong("even_")}, {"evenly ": _certified("even_")}
        return {"spent": _spent, "wrong %": _wrong(""), **evenly[0], "certified %": _certified(""), **evenly[1]}

    def details(self) -> list[Sheet | str]:
        """What shares of wrong decisions take, and what is meant by them."""
        asked, task = self.asked, self.task
        margins = list(dict.fromkeys(task.decision.margins))
        margin = f"the margin of {margins[0]:g}" if len(margins) == 1 else "its margin"
        late = "most of them come at once, near the end, for till then calls go where it is least clear"
        lines: list[Sheet | str] = ["", *filter(None, map(self._needed_text, self.needed))]
        lines += [
            "spent: on average, for a run ends when everything is decided.",
            f"wrong: of all decisions by the mean ratings alone, by more than {margin}"
            + "; evenly: by an even spread of the calls." * (not self.is_even),
            f"certified: at most {100 * task.decision.error_rate:g} % of these are wrong on average, guaranteed"
            + f"; {late}" * policy_named(self.scheduler).whole
            + ".",
            _NOISE,
        ]
        if asked.told_by is None:
            lines.append("Without ratings of these pairs this is a rough forecast.")
        return [*lines, *self.further()]

    def _needed_text(self, needed: dict[str, Any]) -> str:
        """The calls for a share of wrong decisions; "" where it does not come to so few."""
        if needed["calls"] is None:
            return ""
        says_more = not self.is_even and needed["even_calls"] is not None
        evenly = [f"spread evenly: {needed['even_calls_are']} {needed['even_calls']:,}"] if says_more else []
        calls = f"{needed['calls_are']} {number_of(needed['calls'], 'call')}{_in_brackets(evenly)}"
        return f"For {100 * needed['wrong']:g} % of wrong decisions you need {calls}."

    @property
    def over(self) -> str | None:
        """What is said where the pilot left nothing to be spent."""
        if not self.decided["by_pilot"]:
            return None
        return (
            f"The pilot decided everything: nothing is left to be spent. robin export {typed(self.asked.pilot)} has it."
        )


def _calls_for_wrong(wrong: float, outlook: Outlook) -> Needed | None:
    """The calls for a share of wrong decisions; None where all is decided before it comes to so few."""
    by_calls: Mapping[int, Expected] = {max(1, round(each.mean("calls"))): each for each in outlook.expected.values()}
    if not by_calls:
        raise InputError("--scheduler: refuses every budget that is planned for; take another")
    read_off = calls_for(wrong, dict(sorted(by_calls.items())), "wrong")
    ends = outlook.end is not None and outlook.end.needed.relation == "about"
    return None if read_off.relation == "more than" and ends else read_off


_SHOWN_SEM = 0.00005


def _spent(row: Row) -> str:
    return UNKNOWN if row["calls"] is None else f"{row['calls']:,.0f}"


def _wrong(prefix: str) -> Any:
    def text(row: Row) -> str:
        share, sem = row[f"{prefix}wrong"], row[f"{prefix}wrong_sem"]
        if share is None:
            return UNKNOWN
        if not share:  # none of so many: fewer than 3 in as many, with 95 %
            return f"< {300 / row[f'{prefix}decisions_simulated']:.1g}"
        return f"{100 * share:.2f}" + (f" ± {100 * sem:.2f}" if sem >= _SHOWN_SEM else "")

    return text


def _certified(prefix: str) -> Any:
    def text(row: Row) -> str:
        share, sem = row[f"{prefix}certified"], row[f"{prefix}certified_sem"]
        if share is None:
            return UNKNOWN
        return f"{100 * share:.0f}" + (f" ± {100 * sem:.0f}" if sem >= 100 * _SHOWN_SEM else "")

    return text
