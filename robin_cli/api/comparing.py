"""Which system is better, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from robin_cli.api.inputs import Labels, frame_of, labels_from, warn
from robin_cli.api.run import Run
from robin_cli.goals.differences import comparison_of, table_of
from robin_cli.model.errors import InputError
from robin_cli.run.recorded import as_runs
from robin_cli.show.parsing import read_scale

if TYPE_CHECKING:
    import pandas as pd


def compare(
    *runs: Run | str | Path,
    by: str | None = None,
    match: str | None = None,
    labels: Labels = None,
    columns: Mapping[str, str] | None = None,
    scale: str | None = None,
    robust: bool = False,
    details: bool = False,
) -> pd.DataFrame:
    """Return which system is better, like ``robin compare``: a row for every two and attribute.

    What was left out is in a warning.

    Args:
        runs: two or more on the same prompts, or one with ``by``; also files of scores.
        by: the column of the data that says which system answered.
        match: the column that says which responses answer the same prompt, if not the prompt.
        columns: of files of scores: ``{"id": "doc_id", "score": "exact_match|f1"}``.
        scale: of these scores, as ``"0-10"``.
        robust: widen all intervals, as where few prompts carry a difference.
        details: add Wilcoxon's p.
    """
    if not runs:
        raise InputError(
            "compare: name two runs, or one and by=, the column that says which system answered"
        )
    paths = [run.path if isinstance(run, Run) else Path(run) for run in runs]
    notes: list[str] = []
    levels = None if scale is None else read_scale(scale)
    with as_runs(paths, notes.append, columns=columns, scale=levels, by=by) as places:
        people = labels_from(labels)
        differences = comparison_of(
            places, notes.append, by=by, match=match, labels=people, is_robust=robust
        )
        frame = frame_of(table_of(differences, has_details=details).rows().read_all())
    warn(notes)
    return frame
