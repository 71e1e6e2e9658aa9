"""The comparisons and the ranking of a pairwise run, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.pairwise import PairwiseScores, Ranked, judge_preferences, pairwise_scores, ranked_systems
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import number_of
from robin_cli.settings.table import TABLE
from robin_cli.storage.reader import RunData
from robin_cli.views.fitting import Column, Fitted, fit
from robin_cli.views.pairwise import check_ranked, notes_on
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
    fitted = fit(_columns(scores, rows, by_judge=by_judge), console.width, GAP)
    counts = np.asarray(scores.columns["n"])
    print_fitted(console, fitted, counts[rows] / max(1, counts.max(initial=0)), scores.retired[rows])
    what = " --what judge-scores" if by_judge else ""
    print_notes(console, _notes(scores, run, fitted, view, console.width, what))


def print_ranking(console: Console, run: RunData, view: View, *, by_length: bool = False) -> None:
    """Print the ranking of the systems of ``run`` as a table. InputError where there is none."""
    found = ranked_systems(run, by_length=by_length)
    check_ranked(found, run)
    fitted = fit(_ranking_columns(found, found.order[: view.top]), console.width, GAP)
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


def _columns(scores: PairwiseScores, rows: IntArray, *, by_judge: bool) -> list[Column]:
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


def _ranking_columns(found: Ranked, order: Sequence[int]) -> list[Column]:
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
