"""The comparisons of a pairwise run, those of each judge, and the ranking of its systems, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.pairwise import (
    Ranked,
    pairwise_scores,
    ranked_systems,
)
from robin_cli.analysis.pairwise_decisions import Best, run_best
from robin_cli.analysis.scores import Scores, score
from robin_cli.goals.decided import OPEN
from robin_cli.model.errors import InputError, typed
from robin_cli.model.matches import Matches
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.model.space import Coordinates
from robin_cli.results.columns import COMPARISONS, RANKING
from robin_cli.results.tables import Sort, Table
from robin_cli.storage.reader import RunData
from robin_cli.views.data_columns import with_data
from robin_cli.views.scores import judged_by, score_table

_TEXTS = {"prompt": "prompt", "response_a": "response", "response_b": OTHER_COLUMN}
"""Columns of the texts of a comparison, and what they are called among the run's pairs."""

Notify = Callable[[str], None]


def check_of_ratings(run: RunData, what: str, *, in_python: bool = False) -> None:
    """InputError where ``run`` is pairwise: then it has no ratings, which ``what`` is of."""
    if run.manifest.is_pairwise:
        instead = "Run.scores(), Run.ranking(), Run.preferences()"
        if not in_python:
            instead = (
                f"robin export {typed(run.path)} (--what ranking, --what preferences), robin status {typed(run.path)}"
            )
        raise InputError(
            f"{run.path}: compares responses and rates none by itself, so that {what} has nothing to go by; what it says: "
            f"{instead}"
        )


def check_pairwise_run(run: RunData, what: str) -> None:
    """InputError where ``run`` holds ratings: then it has no comparisons, which ``what`` is of."""
    if not run.manifest.is_pairwise:
        raise InputError(
            f"{run.path}: rates responses one by one, so that {what} has nothing to go by; systems that ratings are of are "
            "compared by robin compare, and two responses at a time by a run of robin judge --pairwise"
        )


def check_view(*, sort: str | None, wide: bool) -> None:
    """InputError for a table that comparisons do not make."""
    if wide:
        raise InputError(
            "--wide: is for several attributes, and comparisons have none; leave it out (each judge in rows of its own: "
            "robin export RUN --what judge-scores)"
        )
    if sort is not None and sort not in _SORTS:
        raise InputError(f"--sort {sort}: comparisons have none; sort by {', '.join(_SORTS)} (score: preference for A)")


def table_of_scores(
    run: RunData, *, sort: str | None = None, with_text: bool = False, wide: bool = False, by_judge: bool = False
) -> Table:
    """Return the scores of ``run``: of what its question asks for.

    Args:
        sort: what people want to see first; None for files alone.
        with_text: files have prompt and response, or both responses.
        wide: a row a pair, in which each attribute has columns of its own.
        by_judge: those of each judge.

    Raises:
        InputError: an order, or ``wide``, that comparisons do not have.
    """

    def rated() -> Table:
        return score_table(score(run, by_judge=by_judge), run, sort=sort, with_text=with_text, wide=wide)

    def compared() -> Table:
        check_view(sort=sort, wide=wide)
        return comparison_table(run, with_text=with_text, by_judge=by_judge)

    return {"rate": rated, "prefer": compared}[run.manifest.kind.name]()


def tables_beside(run: RunData) -> list[Table]:
    """Return what people see beside the scores: the ranking of systems, where there is one."""

    def rankings() -> list[Table]:
        return [ranking_table(run)] if ranked_systems(run).ranking is not None else []

    tables: Mapping[str, Callable[[], list[Table]]] = {"rate": list, "prefer": rankings}
    return tables[run.manifest.kind.name]()


def comparison_table(run: RunData, *, with_text: bool, by_judge: bool) -> Table:
    """The comparisons of ``run``; behind the columns of the contract files have those of the data.

    Args:
        with_text: files have prompt, response_a and response_b.
        by_judge: a row a comparison and judge.
    """
    scores = pairwise_scores(run, by_judge=by_judge)
    best = run_best(run) if run.matches.wants_best else None
    table = comparisons_of(run, scores, best, by_judge=by_judge)
    rows = run.space.pair[scores.arm] if by_judge else None
    return table.having(
        lambda: with_data(table.arrow(), run, rows, with_text=with_text, texts=_TEXTS, told=SYSTEM_COLUMNS)
    )


def comparisons_of(run: RunData, scores: Scores, best: Best | None, *, by_judge: bool = False) -> Table:
    """The table of ``scores`` of ``run``; ``best``: of its prompts, where it looks for it."""
    values: dict[str, Any] = {name: scores.columns[name] for name in COMPARISONS.columns if name in scores.columns}
    values |= _named_in_part(run, scores)
    if best is not None:
        values |= _best_columns(run.matches, run.space.pair[scores.arm], best)
    is_named = bool(run.matches.names)
    return COMPARISONS.of(
        values,
        terminal=[name for name in COMPARISONS.terminal if is_named or name not in SYSTEM_COLUMNS],
        ids=run.space.pair[scores.arm] + 1,
        bar=np.asarray(scores.columns["n"]),
        dim=scores.retired,
        sorts=_sorts(scores),
        notes=_comparison_notes(scores, run),
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.path)}{' --what judge-scores' * by_judge}",
    )


def _best_columns(matches: Matches, comparison: Coordinates, best: Best) -> dict[str, Any]:
    """Which of the two responses, A or B, is the best of all to its prompt, where one is, and whether that is certain."""
    is_best = np.isin(matches.response, best.leader)
    which = np.select([is_best[:, 0], is_best[:, 1]], ["A", "B"], "").astype(object)
    sure = np.isin(matches.prompt, best.prompt[best.certified])
    told = np.where(sure | (which == ""), which, which + OPEN)
    return {name: each[comparison] for name, each in {"best": which, "best_certified": sure, "told": told}.items()}


def _named_in_part(run: RunData, scores: Scores) -> dict[str, Any]:
    """Whose the responses are where the data says it of some alone, so that the run has no names of systems."""
    if run.matches.names:
        return {}
    known = set(run.column_names)
    nobody: list[str | None] = [None] * len(run.space.pair_ids)
    sides = {name: run.column(name) if name in known else nobody for name in SYSTEM_COLUMNS}
    return {
        name: pa.array(values, pa.large_string()).take(pa.array(run.space.pair[scores.arm]))
        for name, values in sides.items()
    }


_OF_SYSTEMS = (
    "95 % intervals, of each system by itself; ranks: those that are not ruled out; wins: against each other system "
    "alike"
)
_SORTS = {
    "width": "widest likely interval first",
    "score": "highest preference for A first",
    "data": "in the order of the data",
}


def _sorts(scores: Scores) -> Mapping[str, Sort]:
    preference, low, high = (np.asarray(scores.columns[name]) for name in ("preference", "likely_low", "likely_high"))
    keys = {"width": high - low, "score": preference, "data": -np.arange(float(len(scores)))}
    return {
        name: Sort(words, partial(np.asarray, keys[name]), "likely_low" if name == "width" else "")
        for name, words in _SORTS.items()
    }


def _comparison_notes(scores: Scores, run: RunData) -> list[str]:
    intervals = (
        "95 % intervals: likely, on average over the comparisons; guaranteed, for each of them. order ±: how much more a "
        "response is preferred where it comes first, taken out of the preference"
    )
    notes = [intervals]
    if np.any(np.asarray(scores.columns["certified"])):
        rate = run.manifest.settings.get("error_rate") or ALPHA
        notes.append(f"* certified: at most {100 * rate:g} % of these lead wrongly, on average")
    if without := int(np.isnan(np.asarray(scores.columns["preference"])).sum()):
        notes.append(f"{without:,} without a preference: no verdict of every judge in both orders")
    return notes


def ranking_table(
    run: RunData, notify: Notify = lambda _line: None, *, by_length: bool = False, in_python: bool = False
) -> Table:
    """The ranking of the systems of ``run``.

    Args:
        notify: is told what the ranking is of, and what it leaves out.
        by_length: take out what preferences go by length; the covariate, how much they do and its interval are columns.

    Raises:
        InputError: there is no ranking, and why.
    """
    check_pairwise_run(run, "Run.ranking()" if in_python else "--what ranking")
    found = ranked_systems(run, by_length=by_length)
    check_ranked(found, run, in_python=in_python)
    for line in notes_on(found):
        notify(line)
    table = ranking_of(found)
    length = " --length-control" if by_length else ""
    return replace(
        table,
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.path)} --what ranking{length}",
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
    again = "Run.resume(budget=N)" if in_python else f"robin resume {typed(run.path)} --budget MORE"
    more = f": {again}" if found.parts else ""
    raise InputError(f"{run.path}: has no ranking of systems: {found.why}; {found.step}{more}")


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
