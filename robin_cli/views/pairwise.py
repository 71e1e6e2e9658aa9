"""Results of a pairwise run as tables: its comparisons, those of each judge, and the ranking of its systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from robin_cli.analysis.pairwise import (
    COLUMNS,
    PairwiseScores,
    Ranked,
    judge_preferences,
    matches_of_run,
    pairwise_scores,
    ranked_systems,
)
from robin_cli.analysis.pairwise_decisions import run_best
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.storage.reader import RunData
from robin_cli.views.export import Results, column_of, with_data

TEXTS = {"prompt": "prompt", "response_a": "response", "response_b": OTHER_COLUMN}
"""Columns of the texts of a comparison, and what they are called among the run's pairs."""

CONTRACT = ("pair_id", *SYSTEM_COLUMNS, "preference", "n", "n_ties", "ci_low", "ci_high", "order_effect")
_BEHIND = tuple(name for name in COLUMNS if name not in CONTRACT)

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


def comparison_rows(run: RunData, *, with_text: bool = False, by_judge: bool = False) -> Results:
    """A row a comparison in the order of the data, with the columns of the contract and the further columns of the data.

    Args:
        with_text: add prompt, response_a and response_b.
        by_judge: a row a comparison and judge, of which a column tells.
    """
    scores = judge_preferences(run) if by_judge else pairwise_scores(run)
    names = [*CONTRACT, *_BEHIND]
    if by_judge:
        names.insert(1, "judge")
    columns = {name: column_of(scores.columns[name]) for name in names}
    columns |= _named_in_part(run, scores)
    if matches_of_run(run).wants_best:
        columns |= _best_columns(run, scores)
    rows = scores.comparison if by_judge else None
    return with_data(pa.table(columns), run, rows, with_text=with_text, texts=TEXTS, told=SYSTEM_COLUMNS)


def _best_columns(run: RunData, scores: PairwiseScores) -> dict[str, pa.Array]:
    """Which of the two responses, A or B, is the best of all to its prompt, where one is, and whether that is certain."""
    matches, best = matches_of_run(run), run_best(run)
    is_best = np.isin(matches.response, best.leader)
    sure = np.isin(matches.prompt, best.prompt[best.certified])
    which = np.select([is_best[:, 0], is_best[:, 1]], ["A", "B"], "")[scores.comparison]
    return {"best": column_of(which.tolist()), "best_certified": column_of(sure[scores.comparison])}


def _named_in_part(run: RunData, scores: PairwiseScores) -> dict[str, pa.Array]:
    """Whose the responses are where the data says it of some alone, so that the run has no names of systems."""
    if matches_of_run(run).names:
        return {}
    known = set(run.column_names)
    nobody: list[str | None] = [None] * len(run.space.pair_ids)
    sides = {name: run.column(name) if name in known else nobody for name in SYSTEM_COLUMNS}
    return {
        name: pa.array(values, pa.large_string()).take(pa.array(scores.comparison)) for name, values in sides.items()
    }


def ranking_table(
    run: RunData, notify: Notify = lambda _line: None, *, by_length: bool = False, in_python: bool = False
) -> pa.Table:
    """A row a system, the best first, with the columns of the contract, and its win rate behind them.

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
    return _ranking_columns(found)


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


def _ranking_columns(found: Ranked) -> pa.Table:
    ranking, order = found.ranking, found.order
    if ranking is None:
        raise ValueError(found.why)
    values: Mapping[str, Any] = {
        "strength": ranking.strength,
        "ci_low": ranking.ci_low,
        "ci_high": ranking.ci_high,
        "rank": ranking.rank,
        "rank_low": ranking.rank_low,
        "rank_high": ranking.rank_high,
        "n_votes": found.n_votes,
        "win_rate": ranking.win_rate,
        "win_low": ranking.win_low,
        "win_high": ranking.win_high,
    }
    columns = {"system": column_of([found.names[each] for each in order])}
    columns |= {name: column_of(each[order]) for name, each in values.items()}
    if (covariate := ranking.covariate) is not None:
        columns["covariate"] = column_of([covariate.name] * len(order))
        told = (covariate.coefficient, covariate.ci_low, covariate.ci_high)
        for name, value in zip(("covariate_effect", "covariate_low", "covariate_high"), told, strict=True):
            columns[name] = column_of(np.full(len(order), value))
    return pa.table(columns)
