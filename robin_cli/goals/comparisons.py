"""The comparisons of a pairwise run, those of each judge, and the ranking of its systems, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.goals.checks import check_view
from robin_cli.goals.decided import promise
from robin_cli.goals.found import View, judged_by, larger_budget
from robin_cli.goals.rows import beside, shown_intervals, with_data
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.model.space import Coordinates
from robin_cli.policies.matches import Matches
from robin_cli.run.reader import RunReader
from robin_cli.show.columns import COMPARISONS, RANKING
from robin_cli.show.tables import Sort, Table
from robin_cli.stats.pairwise import Ranked, pairwise_scores
from robin_cli.stats.pairwise_decisions import Best
from robin_cli.stats.scores import Scores

if TYPE_CHECKING:
    from robin_cli.goals.preferences import Preferences

_TEXTS = {"prompt": "prompt", "response_a": "response", "response_b": OTHER_COLUMN}
"""Columns of the texts of a comparison, and their names in pairs.parquet."""


def comparison_table(found: Preferences, view: View, *, by_judge: bool = False) -> Table:
    """Return the comparisons of a run; files have the data's columns behind those of the contract.

    Args:
        found: the run's results.
        by_judge: a row for each comparison and judge.
    """
    check_view(wide=view.wide)
    run = found.run
    scores = pairwise_scores(run, by_judge=True) if by_judge else found.scores
    agreed = None if by_judge else found.agreed_in(view)
    table = comparisons_of(found, scores, by_judge=by_judge, agreed=agreed, view=view)
    rows = run.space.pair[scores.arm] if by_judge else None
    return table.having(
        lambda: with_data(
            table.arrow(), run, rows, with_text=view.with_text, texts=_TEXTS, told=SYSTEM_COLUMNS
        )
    )


def comparisons_of(
    found: Preferences,
    scores: Scores,
    *,
    by_judge: bool = False,
    agreed: NDArray[np.bool_] | None = None,
    view: View,
) -> Table:
    """Return the table of ``scores``, with the options of ``view``."""
    run, matches, best = found.run, found.matches, found.best
    named = {name: scores.columns[name] for name in COMPARISONS.columns if name in scores.columns}
    values, intervals = shown_intervals(named, "comparisons", guaranteed=view.guaranteed)
    values |= _named_in_part(run, matches, scores)
    if best is not None:
        values |= _best_columns(matches, run.space.pair[scores.arm], best)
        if agreed is not None:
            sure = np.isin(matches.prompt, best.prompt[agreed])
            values["agreed"] = sure[run.space.pair[scores.arm]]
    is_named = bool(matches.names)
    return COMPARISONS.of(
        values,
        terminal=[name for name in COMPARISONS.terminal if is_named or name not in SYSTEM_COLUMNS],
        ids=run.space.pair[scores.arm] + 1,
        beside=beside(run, run.space.pair[scores.arm], view.show),
        bar=np.asarray(scores.columns["n"]),
        sort=_sort(scores, values),
        notes=[intervals, *_comparison_notes(scores, best, run.manifest.error_rate)],
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)}{' --what judge-scores' * by_judge}",
    )


def _best_columns(matches: Matches, comparison: Coordinates, best: Best) -> dict[str, Any]:
    """Return which of the two responses, A or B, is the best of all to its prompt, the chance that it is not, and the rest."""
    is_best = np.isin(matches.response, best.leader)
    which = np.select([is_best[:, 0], is_best[:, 1]], ["A", "B"], "").astype(object)
    of = np.searchsorted(best.prompt, matches.prompt)
    values = {"best": which, "likely_wrong": best.likely_wrong[of]}
    if best.certified is not None:
        values["certified"] = best.certified[of]
    return {name: each[comparison] for name, each in values.items()}


def _named_in_part(run: RunReader, matches: Matches, scores: Scores) -> dict[str, Any]:
    """Return the systems of the responses if the data names only some, so that the run has no names of systems."""
    if matches.names:
        return {}
    known = set(run.column_names)
    nobody: list[str | None] = [None] * len(run.space.pair_ids)
    sides = {name: run.column(name) if name in known else nobody for name in SYSTEM_COLUMNS}
    return {
        name: pa.array(values, pa.large_string()).take(pa.array(run.space.pair[scores.arm]))
        for name, values in sides.items()
    }


def _sort(scores: Scores, values: Mapping[str, Any]) -> Sort:
    """Return the order of comparisons: where a best is looked for, those of the most uncertain prompt come first."""
    low, high = (np.asarray(scores.columns[name]) for name in ("ci_low", "ci_high"))
    if "likely_wrong" not in values:
        return Sort("widest interval first", lambda: high - low)
    chance = np.nan_to_num(values["likely_wrong"], nan=-1.0)
    return Sort("the most uncertain prompt first", lambda: chance + (values["best"] != "") * 1e-9)


def _comparison_notes(scores: Scores, best: Best | None, rate: float) -> list[str]:
    notes = [
        "order ±: how much more a response is preferred if it comes first, taken out of the preference"
    ]
    if best is not None and best.certified is not None:
        notes.append(f"certified: {promise(rate)}")
    if without := int(np.isnan(np.asarray(scores.columns["preference"])).sum()):
        notes.append(f"{without:,} without a preference: no verdict of every judge in both orders")
    return notes


_OF_SYSTEMS = (
    "95 % intervals, of each system by itself; ranks: those that are not ruled out; wins: against each other system "
    "with equal weight"
)


def ranking_table(found: Preferences, view: View) -> Table:
    """Return the ranking of the systems of a run.

    Raises:
        InputError: there is no ranking, with the reason.
    """
    run, ranked = found.run, found.ranked
    _check_ranked(ranked, run)
    for line in _notes_on(ranked):
        view.notify(line)
    return replace(
        ranking_of(ranked),
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)} --what ranking",
    )


def ranking_of(found: Ranked) -> Table:
    """Return the systems, the best first; no rows without a ranking."""
    ranking, order = found.ranking, found.order
    if ranking is None:
        return RANKING.of({"system": []})
    each = {name: getattr(ranking, name, None) for name in RANKING.columns} | {
        "n_votes": found.n_votes
    }
    values: dict[str, Any] = {"system": [found.names[system] for system in order]}
    values |= {name: array[order] for name, array in each.items() if isinstance(array, np.ndarray)}
    return RANKING.of(
        values, noun="system", bar=found.n_votes[order], notes=[*_notes_on(found), _OF_SYSTEMS]
    )


def _check_ranked(found: Ranked, run: RunReader) -> None:
    """Raise InputError if ``run`` has no ranking, with the reason and the next step."""
    if found.ranking is not None:
        return
    more = f": robin resume {typed(run.name)} {larger_budget(run.manifest)}" if found.parts else ""
    raise InputError(f"{run.name}: has no ranking of systems: {found.why}; {found.step}{more}")


def _notes_on(found: Ranked) -> list[str]:
    """Return the notes on a ranking."""
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
    if told := found.circle_text:
        notes.append(told)
    return notes
