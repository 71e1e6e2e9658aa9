"""Scores and decisions of a run as tables; files have further columns of the data, and texts, behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.goals.decided import margin_text, promise
from robin_cli.goals.found import Found, View, judged_by
from robin_cli.goals.rows import beside, shown_intervals, with_data
from robin_cli.model.arms import FloatArray
from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import PROMPT_ID
from robin_cli.run.reader import RunReader
from robin_cli.show.columns import DECISIONS, SCORES
from robin_cli.show.tables import Column, Sort, Table
from robin_cli.stats.decided import Decided
from robin_cli.stats.scores import DECISION_COLUMNS, Scores, interval_widths, score


def score_table(
    scores: Scores, run: RunReader, view: View, agreed: NDArray[np.bool_] | None = None
) -> Table:
    """Return the scores, of all judges together or of each; files have the data's columns behind those of the contract.

    A row of a wide table is a pair, and each attribute has columns of its own, ``helpfulness_score`` and so on; each attribute
    and judge, if ``scores`` are those of each judge.

    Args:
        agreed: the decisions that people agree with.
    """
    values, intervals = shown_intervals(scores.columns, "pairs", guaranteed=view.guaranteed)
    if agreed is not None and scores.decided is not None:
        values["agreed"] = _of_rows(scores.decided, agreed)
    hidden = {"attribute"} if len(run.manifest.attributes) == 1 else set()
    of_panel = {"variance"} if "judge_spread" in values else set()
    by_judge = " --what judge-scores" if "judge" in values and len(run.space.judges) > 1 else ""
    table = SCORES.of(
        values,
        terminal=[name for name in SCORES.terminal if name not in hidden | of_panel],
        ids=run.space.pair[scores.arm] + 1,
        beside=beside(run, run.space.pair[scores.arm], view.show),
        bar=np.asarray(scores.columns["n"]),
        sort=_sort(scores, run),
        notes=[intervals, *_decision_notes(scores)],
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)}{by_judge}",
    )
    pairs = None if view.wide else run.space.pair[scores.arm]
    if view.wide:
        # One decision a pair, whatever its attributes, is shown once; of groups each attribute has its own.
        once = (
            ("pair_id", "group") if "group" in values else ("pair_id", "decision", "likely_wrong")
        )
        table = table.wide(run.space.by_pair(np.arange(len(scores))), scores.facets, once)
    return table.having(
        lambda: with_data(
            _with_prompts(table.arrow(), run, pairs), run, pairs, with_text=view.with_text
        )
    )


def _with_prompts(table: pa.Table, run: RunReader, pairs: NDArray[Any] | None) -> pa.Table:
    """Return ``table`` with the name of each pair's prompt, if several share one; the file has their intervals then."""
    if not (run.pairs.is_shared.any() or PROMPT_ID in run.column_names):
        return table
    numbers, names = run.pairs.prompts
    names_of_rows = names.column.take(pa.array(numbers if pairs is None else numbers[pairs]))
    return table.append_column(PROMPT_ID, names_of_rows)


def scores_as_asked(found: Found, view: View, *, by_judge: bool = False) -> Table:
    """Return the scores with the options of ``view``, of all judges together or of each."""
    scores = score(found.run, by_judge=True) if by_judge else found.scores
    agreed = None if by_judge else found.agreed_in(view)
    return score_table(scores, found.run, view, agreed)


def _of_rows(decided: Decided, agreed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether each row is part of a decision that people agree with."""
    return np.asarray((decided.number >= 0) & agreed[decided.number])


def decision_table(found: Found, view: View) -> Table:
    """Return the decisions: a row for each pair with the scores of all attributes, or for the best a row for each score.

    Raises:
        InputError: the run decides nothing.
    """
    scores, run, agreed = found.scores, found.run, found.agreed_in(view)
    if (decided := scores.decided) is None:
        raise InputError(
            f"{run.name}: decides nothing; make a run with --decide (in Python decide=…), such as 'score>=3'"
        )
    columns = (
        dict(scores.columns)
        if agreed is None
        else {**scores.columns, "agreed": _of_rows(decided, agreed)}
    )
    names = [name for name in ("group", *DECISION_COLUMNS, "agreed") if name in columns]
    if decided.task.group is not None:
        table = DECISIONS.of(
            {name: columns[name] for name in ("pair_id", "attribute", *names, "score")}
        )
        pairs = run.space.pair[scores.arm]
    else:
        rows, pairs = decided.first, run.space.pair[scores.arm][decided.first]
        each = zip(run.space.attributes, run.space.by_pair(scores.columns["score"]).T, strict=True)
        of_pairs = SCORES.of({name: columns[name] for name in ("pair_id", *names)}).data.take(
            pa.array(rows)
        )
        values = {name: of_pairs[name] for name in of_pairs.column_names}
        of_each = [Column(f"{name}_score", form="number") for name in run.space.attributes]
        table = DECISIONS.of(values | {f"{name}_score": score for name, score in each}, *of_each)
    return table.having(lambda: with_data(table.arrow(), run, pairs, with_text=view.with_text))


def _sort(scores: Scores, run: RunReader) -> Sort:
    """Return the order of scores; with attributes on several scales, shares of the scales are compared."""
    if scores.decided is None:
        return Sort("widest interval first", lambda: interval_widths(scores, run.space))
    first = "the most uncertain decision first"
    if scores.decided.task.decision.is_best:
        first = "the most uncertain group first"
    return Sort(first, lambda: most_uncertain_first(scores))


def most_uncertain_first(scores: Scores) -> FloatArray:
    """Return a number for each row, the larger the earlier it comes: by the chance that its decision is wrong.

    The rows of a group stay together, the best first. Rows without a decision come last.
    """
    decided = scores.decided
    assert decided is not None  # noqa: S101  # the caller looked
    chance = np.asarray(scores.columns["likely_wrong"], dtype=np.float64)
    place, score = np.empty(len(chance)), np.zeros(len(chance))
    if decided.task.decision.is_best:
        score = np.nan_to_num(scores.numbers("score"), nan=-np.inf)
    uncertain_first = np.nan_to_num(-chance, nan=1.0)
    order = np.lexsort((-score, decided.decision != BEST, decided.number, uncertain_first))
    place[order] = np.arange(float(len(chance)))
    return -place


def _decision_notes(scores: Scores) -> list[str]:
    if (decided := scores.decided) is None:
        return []
    task = decided.task
    rate = task.decision.error_rate
    said = "" if rate is None else f"; certified: {promise(rate)}"
    return [f"decisions ({task.decision}), {margin_text(task)}{said}"]
