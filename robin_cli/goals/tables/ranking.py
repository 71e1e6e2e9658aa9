"""The ranking of the systems of a pairwise run, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from robin_cli.analysis.pairwise import Ranked, ranked_systems
from robin_cli.goals.judges import judged_by
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import number_of
from robin_cli.results.columns import RANKING
from robin_cli.results.tables import Table
from robin_cli.storage.reader import RunData

if TYPE_CHECKING:
    from robin_cli.goals.preferences import Preferences

Notify = Callable[[str], None]

_OF_SYSTEMS = (
    "95 % intervals, of each system by itself; ranks: those that are not ruled out; wins: against each other system "
    "alike"
)


def ranking_table(
    found: Preferences, notify: Notify = lambda _line: None, *, by_length: bool = False, in_python: bool = False
) -> Table:
    """The ranking of the systems of a run.

    Args:
        found: what the run says.
        notify: is told what the ranking is of, and what it leaves out.
        by_length: take out what preferences go by length; the covariate, how much they do and its interval are columns.

    Raises:
        InputError: there is no ranking, and why.
    """
    run, ranked = found.run, ranked_systems(found.run, by_length=True) if by_length else found.ranked
    check_ranked(ranked, run, in_python=in_python)
    for line in notes_on(ranked):
        notify(line)
    length = " --length-control" if by_length else ""
    return replace(
        ranking_of(ranked),
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)} --what ranking{length}",
    )


def ranking_of(found: Ranked) -> Table:
    """The systems, the best first; no rows without a ranking."""
    ranking, order = found.ranking, found.order
    if ranking is None:
        return RANKING.of({"system": []})
    each = {name: getattr(ranking, name, None) for name in RANKING.columns} | {"n_votes": found.n_votes}
    values: dict[str, Any] = {"system": [found.names[system] for system in order]}
    values |= {name: array[order] for name, array in each.items() if isinstance(array, np.ndarray)}
    if (covariate := ranking.covariate) is not None:
        values["covariate"] = [covariate.name] * len(order)
        told = (covariate.coefficient, covariate.ci_low, covariate.ci_high)
        for name, value in zip(("covariate_effect", "covariate_low", "covariate_high"), told, strict=True):
            values[name] = np.full(len(order), value)
    return RANKING.of(
        values,
        noun="system",
        bar=found.n_votes[order],
        notes=[*notes_on(found), _OF_SYSTEMS],
    )


def check_ranked(found: Ranked, run: RunData, *, in_python: bool = False) -> None:
    """InputError where ``run`` has no ranking; it says why, and how to come by one."""
    if found.ranking is not None:
        return
    again = "Run.resume(budget=N)" if in_python else f"robin resume {typed(run.name)} --budget MORE"
    more = f": {again}" if found.parts else ""
    raise InputError(f"{run.name}: has no ranking of systems: {found.why}; {found.step}{more}")


def notes_on(found: Ranked) -> list[str]:
    """What a reader of a ranking should know of it."""
    ranking = found.ranking
    if ranking is None:
        return []
    by = f"{number_of(ranking.n_comparisons, 'comparison')} of {number_of(ranking.n_prompts, 'prompt')}"
    without = f"; {ranking.n_without:,} without a preference left out" if ranking.n_without else ""
    notes = [f"{number_of(len(found.names), 'system')} by {by}{without}"]
    if not ranking.is_bounded:
        notes.append(
            "some systems won, or lost, against all others: half a tie is added for every two that were compared, or their "
            "strengths would have no end"
        )
    if (covariate := ranking.covariate) is not None:
        notes.append(
            f"length control: strengths at equal length; {covariate.name} is no cause of preferences that could be told from "
            "the systems, and nothing was taken out"
            if math.isnan(covariate.coefficient)
            else f"length control: strengths at equal length; a far longer response has {covariate.coefficient:+.2f} "
            f"[{covariate.ci_low:+.2f}, {covariate.ci_high:+.2f}] log odds for its {covariate.name}"
        )
    return notes
