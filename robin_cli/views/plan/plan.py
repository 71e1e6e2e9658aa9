"""Make the plan for the goal in settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.checks import check_error, check_target, check_together
from robin_cli.model.errors import InputError
from robin_cli.model.records import COMPARE, Scale
from robin_cli.settings.table import TABLE, Settings
from robin_cli.simulation.scatter import FEWEST
from robin_cli.views.plan.decisions import Decisions
from robin_cli.views.plan.differences import Differences
from robin_cli.views.plan.forecast import Plan
from robin_cli.views.plan.known import asked_of
from robin_cli.views.plan.rankings import Rankings
from robin_cli.views.plan.scores import Scores

_PLANS: Sequence[type[Plan]] = (Decisions, Differences, Rankings, Scores, Plan)
"""The first that is for the goal is taken; the last is for any."""

_FEWEST = 2 * FEWEST
"""Of a pilot: a scheduler may repeat some, and some answers have no verdict."""


_ASKS = {
    "--for-error": "finds the calls that an error of scores takes",
    "--compare": "plans a comparison of systems",
}
_SAYS = {
    "--for-error": "something else",
    "--pairwise": "has no ratings; its plan says how far off a system's win rate may be, for each budget",
    TABLE[
        "decide"
    ].flag: "something else: a plan with it says how many calls it takes until everything is decided",
    "--max-cost": "says them",
}


def check_plan(
    config: Settings, for_error: float | None, difference: float | None, scales: Sequence[Scale]
) -> None:
    """Raise InputError for a question that no plan answers, before a pilot is paid for.

    Args:
        for_error: to find the budget for.
        difference: of two systems, which is to show.
    """
    check_together(config)
    check_target(config, scales)
    asked = {"--for-error": for_error, "--compare": difference}
    for flag, error in asked.items():
        if error is None:
            continue
        for other, is_given in (
            ("--for-error", flag == "--compare" and for_error is not None),
            ("--pairwise", config.pairwise),
            (TABLE["decide"].flag, config.decide is not None),
            (
                "--max-cost",
                flag == "--for-error" and config.budget is None and config.max_cost is not None,
            ),
        ):
            if is_given:
                raise InputError(
                    f"{flag}: {_ASKS[flag]}, and {other} {_SAYS[other]}; leave one of the two out"
                )
        check_error(flag, error, scales)
    finds_it = (config.pairwise, config.decide, for_error, difference, config.target_error)
    if not (config.budget or config.max_cost or config.objective == COMPARE or any(finds_it)):
        raise InputError(
            "--budget is missing: say what budget to plan for, for example --budget 50000, or --for-error 0.2 to find one"
        )


def pilot_calls(count: int, dataset: Dataset, settings: Settings, attributes: int) -> int:
    """Return a pilot's calls: ``count`` for each arm, or with --pairwise comparisons in both orders by all judges.

    InputError if the comparisons are too few for any result.
    """
    a_pair = max(1, len(settings.model))
    if not settings.pairwise:
        return count * attributes * a_pair * len(dataset.pairs)
    if count < _FEWEST:
        raise InputError(
            f"--pilot {count}: with --pairwise so many comparisons are asked, and {_FEWEST} are needed; give more"
        )
    return 2 * a_pair * min(count, len(dataset.pairs))


def plan_of(
    config: Settings,
    dataset: Dataset,
    notify: Callable[[str], None],
    *,
    pilot: Path | None = None,
    for_error: float | None = None,
    difference: float | None = None,
) -> Plan:
    """Return the plan of ``config``; it calls no judge.

    Args:
        notify: called with notes on ``--variances`` and on the data.
        pilot: a run on the same data by the same judge; its answers also tell tokens, money and time.
        for_error: find the budget that brings the error to this: the largest, or the average with ``--objective mean-error``.
            It is the budget where none is given. None: the largest error at which ``config`` would stop, if there is one.
        difference: of two systems, find what it takes until it shows.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a budget that the pilot has spent already.
    """
    config = replace(config, objective=config.wanted_objective if difference is None else "compare")
    asked = replace(
        asked_of(config, dataset, notify, pilot), for_error=for_error, difference=difference
    )
    return next(plan for plan in _PLANS if isinstance(asked.goal, plan.kind))(asked)
