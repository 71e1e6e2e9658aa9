"""Verdicts on existing runs: whether one meets requirements, and which system is better."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robin_cli.api.given import Frame, labels_from, with_scores
from robin_cli.api.run import Run
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def gate(
    path: Path,
    require: str | Sequence[str],
    *,
    error_rate: float,
    margin: float | None,
    by: str | None,
) -> pd.DataFrame:
    """Return whether the run at ``path`` meets requirements, see :meth:`~robin_cli.Run.gate`."""
    from robin_cli.goals.gate import gated
    from robin_cli.show.gate import requirement_table

    if not 0.0 < error_rate < 1.0:
        raise InputError(f"error_rate={error_rate:g}: lies between 0 and 1, as 0.05")
    wanted = [require] if isinstance(require, str) else list(require)
    found = gated(path, wanted, margin=margin, error_rate=error_rate, by=by)
    for line in found.notes:
        warnings.warn(line, stacklevel=2)
    frame: pd.DataFrame = requirement_table(found).rows().read_all().to_pandas()
    return frame


def compare(
    *runs: Run | str | Path,
    by: str | None = None,
    match: str | None = None,
    labels: str | Path | Frame | None = None,
    columns: Mapping[str, str] | None = None,
    scale: str | None = None,
    robust: bool = False,
    details: bool = False,
) -> pd.DataFrame:
    """Return which system is better, like ``robin compare``: a row for every two systems and attribute.

    Columns are in docs/columns.md; NaN where there is no value. What was left out is in a warning.

    Args:
        runs: two or more on the same prompts, or one with ``by``; also files of scores that are there already.
        by: a column of the data that says which system answered.
        match: a column that says which responses answer the same prompt, in place of the prompt's text.
        labels: people's, as for :meth:`Run.summary`; None for the human ratings of the data.
        columns: of files of scores, our names to theirs, as ``{"id": "doc_id", "score": "exact_match|f1"}``.
        scale: of these scores, as ``"0-10"``; None to take it from them.
        robust: widen all intervals, as where few prompts carry a difference.
        details: add Wilcoxon's p.

    Raises:
        InputError: runs that cannot be compared, and what differs.
    """
    from robin_cli.goals.differences import comparison_of, table_of

    if not runs:
        raise InputError(
            "compare: name two runs, or one and by=, the column that says which system answered"
        )
    paths = [each.path if isinstance(each, Run) else Path(each) for each in runs]
    notes: list[str] = []
    with with_scores(paths, notes.append, columns, scale, by) as there:
        people = labels_from(labels)
        found = comparison_of(
            there, notes.append, by=by, match=match, labels=people, is_robust=robust
        )
        frame: pd.DataFrame = table_of(found, has_details=details).rows().read_all().to_pandas()
    for line in notes:
        warnings.warn(line, stacklevel=2)
    return frame
