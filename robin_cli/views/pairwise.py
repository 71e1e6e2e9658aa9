"""Results of a pairwise run as tables: its comparisons, those of each judge, and the ranking of its systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.text import Text

from robin_cli.analysis.intervals import ALPHA
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
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.settings.table import TABLE
from robin_cli.storage.reader import RunData
from robin_cli.views.export import Results, column_of, with_data
from robin_cli.views.fitting import Column, Fitted, fit
from robin_cli.views.table import (
    ALL_ROWS,
    DASH,
    GAP,
    View,
    judged_by,
    left_out_notes,
    names_column,
    numbered_notes,
    print_fitted,
    print_notes,
)
from robin_cli.views.text import one_line

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


_SORTED_BY = {
    "width": "widest likely interval first",
    "score": "highest preference for A first",
    "data": "in the order of the data",
}
_CERTAIN = "*"
_RANKS = {
    name: 9 - place for place, name in enumerate(("likely", "guaranteed", "verdicts", "order", "ties", "unparsed"))
}
"""Columns by what goes last where there is no room for all."""


def check_view(*, sort: str, wide: bool) -> None:
    """InputError for a table that comparisons do not make."""
    if wide:
        raise InputError(
            "--wide: is for several attributes, and comparisons have none; leave it out (each judge in rows of its own: "
            "robin export RUN --what judge-scores)"
        )
    if sort not in _SORTED_BY:
        raise InputError(
            f"--sort {sort}: comparisons have none; sort by {', '.join(_SORTED_BY)} (score: preference for A)"
        )


def print_comparisons(console: Console, run: RunData, view: View, *, by_judge: bool = False) -> None:
    """Print the comparisons of the pairwise run ``run`` that come first as a table, and what to know of it under it.

    Args:
        by_judge: a row a comparison and judge.
    """
    scores = judge_preferences(run) if by_judge else pairwise_scores(run)
    rows = _order(scores, view.sort)[: view.top]
    fitted = fit(_shown_columns(scores, rows, by_judge=by_judge), console.width, GAP)
    counts = np.asarray(scores.columns["n"])
    print_fitted(console, fitted, counts[rows] / max(1, counts.max(initial=0)), scores.retired[rows])
    what = " --what judge-scores" if by_judge else ""
    print_notes(console, _notes(scores, run, fitted, view, console.width, what))


def print_ranking(console: Console, run: RunData, view: View, *, by_length: bool = False) -> None:
    """Print the ranking of the systems of ``run`` as a table. InputError where there is none."""
    found = ranked_systems(run, by_length=by_length)
    check_ranked(found, run)
    fitted = fit(_ranking_shown(found, found.order[: view.top]), console.width, GAP)
    votes = found.n_votes[found.order[: view.top]]
    print_fitted(console, fitted, votes / max(1, found.n_votes.max(initial=0)), np.zeros(len(votes), dtype=np.bool_))
    notes = [*left_out_notes(fitted, console.width), *notes_on(found)]
    notes.append(
        "95 % intervals, of each system by itself; ranks: those that are not ruled out; wins: against each other system alike"
    )
    if (more := len(found.names)) > view.top:
        length = " --length-control" if by_length else ""
        command = f"robin export {typed(run.path)} --what ranking{length} --format table --top {more}"
        notes += [f"{view.top:,} of {number_of(more, 'system')}", f"{ALL_ROWS} {command}"]
    print_notes(console, [*notes, f"judge: {judged_by(run.manifest)}"])


def print_results(console: Console, run: RunData, view: View) -> None:
    """Print the comparisons, and under them the ranking where there is one."""
    print_comparisons(console, run, view)
    if ranked_systems(run).ranking is not None:
        console.print(Text())
        print_ranking(console, run, View(top=view.top))


def _order(scores: PairwiseScores, sort: str) -> IntArray:
    """The rows by what comes first; those without a preference last, but in the order of the data."""
    preference, low, high = (np.asarray(scores.columns[name]) for name in ("preference", "likely_low", "likely_high"))
    if sort == "data":
        return np.arange(len(scores))
    key = high - low if sort == "width" else preference
    return np.asarray(np.argsort(np.nan_to_num(-key, nan=np.inf), kind="stable"))


def _shown_columns(scores: PairwiseScores, rows: IntArray, *, by_judge: bool) -> list[Column]:
    told = scores.columns

    def of(name: str) -> list[float]:
        values: list[float] = np.asarray(told[name], dtype=np.float64)[rows].tolist()
        return values

    def names(name: str) -> list[str]:
        return [str(told[name][row]) for row in rows]

    pairs = [one_line(each) for each in names("pair_id")]
    columns = [Column("comparison", pairs, numbers=(scores.comparison[rows] + 1).tolist())]
    if by_judge:
        columns.append(names_column("judge", names("judge")))
    if any(names("system_a")):
        columns += [names_column("A", names("system_a")), names_column("B", names("system_b"))]
    sure = np.asarray(told["certified"])[rows].tolist()
    preference = [_share(value) + _CERTAIN * is_sure for value, is_sure in zip(of("preference"), sure, strict=True)]
    columns.append(Column("A preferred", preference))
    for name, low, high in (("likely", "likely_low", "likely_high"), ("guaranteed", "ci_low", "ci_high")):
        columns.append(Column(name, _ranges(of(low), of(high)), _RANKS[name]))
    columns.append(Column("order ±", [_signed(value) for value in of("order_effect")], _RANKS["order"]))
    for shown, name in (("ties", "n_ties"), ("unparsed", "n_unparsed")):
        if np.any(np.asarray(told[name])):
            columns.append(Column(shown, [f"{value:,.0f}" for value in of(name)], _RANKS[shown]))
    if any(told["given_up"]):
        columns.append(names_column("given up", names("given_up"), 1))
    columns.append(Column("verdicts", [f"{value:,.0f}" for value in of("n")], _RANKS["verdicts"]))
    return columns


def _ranking_shown(found: Ranked, order: Sequence[int]) -> list[Column]:
    ranking = found.ranking
    if ranking is None:
        raise ValueError(found.why)
    ranks = zip(ranking.rank_low[order].tolist(), ranking.rank_high[order].tolist(), strict=True)
    return [
        names_column("system", [found.names[each] for each in order]),
        Column("rank", [f"{rank}" for rank in ranking.rank[order].tolist()]),
        Column("ranks", [f"{low}" if low == high else f"{low} – {high}" for low, high in ranks]),
        Column("strength", [f"{value:+.2f}" for value in ranking.strength[order].tolist()]),
        Column("95 %", _ranges(ranking.ci_low[order].tolist(), ranking.ci_high[order].tolist(), "{:+.2f}"), 1),
        Column("wins", [_share(value) for value in ranking.win_rate[order].tolist()], 2),
        Column("wins 95 %", _ranges(ranking.win_low[order].tolist(), ranking.win_high[order].tolist()), 4),
        Column("verdicts", [f"{value:,}" for value in found.n_votes[order].tolist()], 3),
    ]


def _notes(scores: PairwiseScores, run: RunData, fitted: Fitted, view: View, width: int, what: str) -> list[str]:
    notes = left_out_notes(fitted, width)
    notes.append(
        "95 % intervals: likely, on average over the comparisons; guaranteed, for each of them. order ±: how much more a "
        "response is preferred where it comes first, taken out of the preference"
    )
    if np.any(np.asarray(scores.columns["certified"])):
        rate = run.manifest.settings.get("error_rate") or ALPHA
        notes.append(f"{_CERTAIN} certified: at most {100 * rate:g} % of these lead wrongly, on average")
    notes += numbered_notes(fitted)
    without = int(np.isnan(np.asarray(scores.columns["preference"])).sum())
    if without:
        notes.append(f"{without:,} without a preference: no verdict of every judge in both orders")
    lines, shown = len(scores), min(view.top, len(scores))
    rest = f"{shown:,} of {number_of(lines, 'row')}, " if shown < lines else ""
    others = "|".join(name for name in _SORTED_BY if name != view.sort)
    notes.append(f"{rest}{_SORTED_BY[view.sort]} (another order: --sort {others})")
    if shown < lines:
        order = "" if view.sort == TABLE["sort"].default else f" --sort {view.sort}"
        command = f"robin export {typed(run.path)}{what} --format table{order} --top {lines}"
        notes.append(f"{ALL_ROWS} {command}")
    return [*notes, f"judge: {judged_by(run.manifest)}"]


def _share(value: float) -> str:
    return DASH if math.isnan(value) else f"{value:.2f}"


def _signed(value: float) -> str:
    return DASH if math.isnan(value) else f"{value:+.2f}"


def _ranges(low: Sequence[float], high: Sequence[float], form: str = "{:.2f}") -> list[str]:
    ends = zip(low, high, strict=True)
    return [DASH if math.isnan(bottom) else f"{form.format(bottom)} – {form.format(top)}" for bottom, top in ends]
