"""Scores and decisions as tables; files have further columns of the data, and texts, behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.goals.deciding import margin_text, promise
from robin_cli.goals.result import Result, View, judged_by
from robin_cli.goals.rows import beside, with_data
from robin_cli.model.arms import FloatArray
from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import PROMPT_ID
from robin_cli.run.reader import RunReader
from robin_cli.show.columns import DECISIONS, SCORES
from robin_cli.show.tables import Column, Sort, Table
from robin_cli.stats.decided import Decided
from robin_cli.stats.scores import DECISION_COLUMNS, Scores, interval_widths, score


def scores_as_asked(result: Result, view: View, *, by_judge: bool = False) -> Table:
    """Return the scores with the options of ``view``, of all judges together or of each."""
    scores = score(result.run, by_judge=True) if by_judge else result.scores
    return score_table(scores, result.run, view, None if by_judge else result.agreed_in(view))


def score_table(
    scores: Scores, run: RunReader, view: View, agreed: NDArray[np.bool_] | None = None
) -> Table:
    """Return the scores, of all judges together or of each.

    A row of a wide table is a pair, and each attribute has columns of its own, ``helpfulness_score`` and so on; each attribute
    and judge, if ``scores`` are those of each judge.

    Args:
        agreed: the decisions that people agree with.
    """
    values, notes = dict(scores.columns), list[str]()
    hidden = {"attribute"} if len(run.manifest.attributes) == 1 else set()
    hidden |= {"variance"} if "judge_spread" in values else set()
    sort = Sort("widest interval first", lambda: interval_widths(scores, run.space))
    if (decided := scores.decided) is not None:
        task, rate = decided.task, decided.task.decision.error_rate
        certain = "" if rate is None else f"; certified: {promise(rate)}"
        notes.append(f"decisions ({task.decision}), {margin_text(task)}{certain}")
        what = "group" if task.decision.is_best else "decision"
        sort = Sort(f"the most uncertain {what} first", lambda: most_uncertain_first(scores))
        if agreed is not None:
            values["agreed"] = _of_rows(decided, agreed)
    of_judges = "judge" in values and len(run.space.judges) > 1
    table = filled(SCORES, values, run, scores, view, hidden, sort, notes, of_judges=of_judges)
    if view.wide:
        # One decision a pair, whatever its attributes, is shown once; of groups each attribute has its own.
        in_groups = "group" in values
        once = ("pair_id", "group") if in_groups else ("pair_id", "decision", "likely_wrong")
        table = table.wide(run.space.by_pair(np.arange(len(scores))), scores.facets, once)
    pair = None if view.wide else run.space.pair[scores.arm]

    def for_files() -> pa.RecordBatchReader:
        with_prompts = _with_prompts(table.arrow(), run, pair)
        return with_data(with_prompts, run, pair, with_text=view.with_text)

    return table.having(for_files)


def filled(
    table: Table,
    values: Mapping[str, Any],
    run: RunReader,
    scores: Scores,
    view: View,
    hidden: Collection[str],
    sort: Sort,
    notes: Sequence[str],
    *,
    of_judges: bool,
) -> Table:
    rows = "pairs" if table is SCORES else "comparisons"
    note = f"95 % intervals hold on average over the {rows}"
    if view.guaranteed:
        note = f"{note}; guaranteed ones for each of them, at any stop"
    else:
        values = {name: values[name] for name in values if not name.startswith("guaranteed_")}
    pair = run.space.pair[scores.arm]
    return table.with_values(
        values,
        terminal=[name for name in table.terminal if name not in hidden],
        ids=pair + 1,
        beside=beside(run, pair, view.show),
        bar=np.asarray(scores.columns["n"]),
        sort=sort,
        notes=[note, *notes],
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)}{' --what judge-scores' * of_judges}",
    )


def _with_prompts(table: pa.Table, run: RunReader, pair: NDArray[Any] | None) -> pa.Table:
    """Return ``table`` with the name of each pair's prompt, if several share one; the file has their intervals then."""
    if not (run.pairs.is_shared.any() or PROMPT_ID in run.column_names):
        return table
    numbers, names = run.pairs.prompts
    of_rows = names.column.take(pa.array(numbers if pair is None else numbers[pair]))
    return table.append_column(PROMPT_ID, of_rows)


def _of_rows(decided: Decided, agreed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray((decided.number >= 0) & agreed[decided.number])


def decision_table(result: Result, view: View) -> Table:
    """Return the decisions: a row for each pair with the scores of all attributes, or for the best a row for each score.

    InputError: the run decides nothing.
    """
    scores, run, agreed = result.scores, result.run, result.agreed_in(view)
    space, columns = run.space, dict(scores.columns)
    if (decided := scores.decided) is None:
        raise InputError(
            f"{run.name}: decides nothing; make a run with --decide (in Python decide=…), such as 'score>=3'"
        )
    if agreed is not None:
        columns["agreed"] = _of_rows(decided, agreed)
    names = [name for name in ("group", *DECISION_COLUMNS, "agreed") if name in columns]
    pair = space.pair[scores.arm]
    if decided.task.group is not None:
        wanted = ("pair_id", "attribute", *names, "score")
        table = DECISIONS.with_values({name: columns[name] for name in wanted})
    else:
        rows, pair = decided.first, pair[decided.first]
        of_scores = SCORES.with_values({name: columns[name] for name in ("pair_id", *names)}).data
        of_pairs = of_scores.take(pa.array(rows))
        values = {name: of_pairs[name] for name in of_pairs.column_names}
        means = zip(space.attributes, space.by_pair(columns["score"]).T, strict=True)
        values |= {f"{name}_score": mean for name, mean in means}
        more = [Column(f"{name}_score", form="number") for name in space.attributes]
        table = DECISIONS.with_values(values, *more)
    return table.having(lambda: with_data(table.arrow(), run, pair, with_text=view.with_text))


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
