"""A plan of a pairwise run: how many comparisons a budget asks, what that takes, and how sure it makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from robin_cli.analysis.pairwise import order_means
from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.preferring import Preferring
from robin_cli.model.errors import InputError, shown
from robin_cli.model.matches import Matches
from robin_cli.model.records import number_of
from robin_cli.results.words import finite
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import RUNS, Expected, foresee
from robin_cli.simulation.scatter import (
    FEWEST,
    Scatter,
    VerdictsBelief,
    preference_half_width,
    scatter_of,
    usual_scatter,
    win_rate_half_width,
)
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.calls import calls_of, taken, ways_of
from robin_cli.views.plan.page import UNKNOWN, Columns, Planned, figure, ways_sheet

_MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
_FEWEST = 2 * FEWEST
"""Of a pilot: a scheduler may repeat some, and some answers have no verdict."""

_CALLS_AT_MOST = 20_000
_SYSTEMS_SHOWN = 6


def pilot_calls(count: int, dataset: Dataset, settings: Settings) -> int:
    """How many calls ask ``count`` comparisons in both orders, by all judges; of all, where there are not as many.

    InputError where these would tell too little.
    """
    if count < _FEWEST:
        raise InputError(
            f"--pilot {count}: with --pairwise so many comparisons are asked, and {_FEWEST} are needed; give more"
        )
    return 2 * max(1, len(settings.model)) * min(count, len(dataset.pairs))


def rankings(asked: Asked, goal: Preferring) -> Planned:
    """The plan of a pairwise run. Without a budget that is planned which asks every comparison once in both orders."""
    matches, space, judges = goal.matches, asked.space, len(asked.space.judges)
    asked = asked.with_budget(asked.config.budget or max(len(space), asked.least))
    asked.goal.check_reach(asked.budget)
    calls, scatter, preferences = calls_of(asked), usual_scatter(judges), None
    if asked.run is not None and (told := scatter_of(asked.run)) is not None:
        scatter, preferences = told, order_means(asked.run).mean(axis=(1, 2))
    budgets = sorted({max(asked.least, space.arms_per_pair, round(asked.budget * each)) for each in _MULTIPLES})
    simulated = _simulated(asked, VerdictsBelief(goal, scatter, preferences), budgets[1:4])
    rows = [
        {**taken(asked.config, calls, each), **_row(each, matches, scatter, simulated.get(each))} for each in budgets
    ]
    prompts = len(np.unique(matches.prompt))
    ways = ways_of(asked.config, calls, asked.budget, lambda _: {})
    systems = f" of {number_of(len(matches.names), 'system')}" if matches.names else ""
    columns: Columns = {
        "compared": lambda row: f"{row['comparisons_asked']:,}",
        "win rate": lambda row: _half(row["win_rate_half_width"]),
        "wrong %": figure("wrong", 100, 1),
    }
    too_few = "" if asked.pilot is None else "the pilot has too few verdicts; "
    return Planned(
        *(asked, calls, rows, asked.budget),
        about=f"{number_of(len(matches), 'comparison')}{systems}, {number_of(prompts, 'prompt')}, by "
        f"{asked.scheduler_at(asked.budget)}",
        prior=f"as in {number_of(scatter.comparisons, 'comparison')} of the pilot"
        if scatter.comparisons
        else f"{too_few}assumed: as those of systems that are not far apart",
        columns=columns,
        all_columns={
            **columns,
            "× each": lambda row: f"{row['calls_of_each']:.1f}",
            "preference": lambda row: _half(row["preference_half_width"]),
        },
        facts={
            "pairwise": True,
            "attributes": list(asked.config.attributes),
            "comparisons": len(matches),
            "prompts": prompts,
            "systems": list(matches.names),
            "calls_a_comparison": space.arms_per_pair,
            "calls_once": len(space),
            "ranks_systems": matches.ranks_systems,
            "decide": asked.config.decide,
            "preferences_vary": {"between": scatter.between, "within": scatter.within, "told_by": scatter.comparisons},
            "simulated_runs": RUNS,
            "ways": ways,
        },
        details=[*ways_sheet(ways, asked.budget, {}), *_explained(asked, matches)],
    )


def _simulated(asked: Asked, belief: VerdictsBelief, budgets: list[int]) -> Mapping[int, Expected]:
    """What is wrong with each budget, where that can be simulated in some seconds."""
    wanted = [each for each in budgets if each <= _CALLS_AT_MOST]
    if not wanted or not belief.is_small:
        return {}
    policy_at, rng = asked.policy_at(asked.config.scheduler), np.random.default_rng(SEED)
    return foresee(belief, policy_at, wanted, rng, rounds=asked.rounds).expected


def _row(budget: int, matches: Matches, scatter: Scatter, simulated: Expected | None) -> dict[str, Any]:
    an_arm = max(1.0, budget / len(matches.space))
    compared = min(len(matches), budget // matches.space.arms_per_pair)
    ranked = len(matches.names) > 1 and not matches.wants_best
    return {
        "budget": budget,
        "comparisons_asked": compared,
        "calls_of_each": an_arm,
        "win_rate_half_width": finite(win_rate_half_width(scatter, matches, compared, an_arm)) if ranked else None,
        "preference_half_width": preference_half_width(scatter, an_arm),
        "wrong": None if simulated is None else simulated.mean("wrong"),
        "wrong_sem": None if simulated is None else simulated.sem("wrong"),
    }


def _explained(asked: Asked, matches: Matches) -> list[str]:
    """What is meant by the figures."""
    judges = len(matches.space.judges)
    lines, names = [], [shown(name) for name in matches.names[:_SYSTEMS_SHOWN]]
    if names:
        lines.append(f"Systems: {', '.join(names)}{', …' * (len(matches.names) > len(names))}.")
    orders = f"2 orders{f' × {judges} judges' * (judges > 1)}"
    lines += [
        f"To ask all once takes {number_of(len(matches.space), 'call')}: {orders}.",
        "win rate: half of the 95 % interval, over prompts, of how often a system is preferred, by an even spread.",
        "compared: how many comparisons; × each: how often in each order, by each judge.",
        "preference: half of the likely 95 % interval of one comparison that is asked.",
        f"wrong: simulated, mean of {RUNS} runs; ± is the simulation's own noise. Large plans go without.",
    ]
    if matches.ranks_systems:
        lines.append(
            "With three systems and more not all comparisons need be asked: --scheduler tournament asks more between close "
            "ones."
        )
    elif asked.config.decide:
        lines.append("The run ends when the best response to each prompt is certain.")
    return lines


def _half(value: float | None) -> str:
    return UNKNOWN if value is None else f"± {100 * value:.0f} %"
