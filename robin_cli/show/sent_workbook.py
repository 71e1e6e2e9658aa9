"""The workbook that a run judged, as it was sent, with the scores beside its rows and a sheet "summary"."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from robin_cli.data.pairs import load_pairs
from robin_cli.data.sheet_layout import path_in
from robin_cli.data.workbooks import Workbook, file_of
from robin_cli.goals.rated import Rated
from robin_cli.goals.result import Result, View
from robin_cli.model.errors import InputError, ReadAs
from robin_cli.model.records import PLACE_COLUMNS, SYSTEM_COLUMN
from robin_cli.run.reader import read_run
from robin_cli.show.sheet_xml import add_columns, add_sheet
from robin_cli.show.status import READ, standing


class NotReturned(Exception):
    """The workbook cannot come back; the message is the reason, empty if the data are no such workbook."""


def sent_workbook(result: Result, view: View) -> bytes:
    """Return the workbook that was judged, with the results ``result``. NotReturned if that is not possible."""
    data = result.run.manifest.data
    path = Path(file_of(str(data["source"])))
    is_several = len(data.get("files", ())) > 1
    if not isinstance(result, Rated) or is_several or path.suffix.lower() != ".xlsx":
        raise NotReturned
    if not path.is_file():
        raise NotReturned(f"{path} is not there")
    try:
        return _with_results(path, result, view)
    except (InputError, BadZipFile, LookupError, ValueError) as error:
        raise NotReturned(f"{path} is not laid out as Excel does it ({error})") from None


def _with_results(path: Path, result: Result, view: View) -> bytes:
    """Return the workbook at ``path`` with the results; the errors of a file that is no such workbook may come."""
    data = result.run.manifest.data
    source = str(data["source"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadAs)  # shown when the run began
        dataset = load_pairs(source, columns=data.get("columns"), skip_bad_rows=True)
    if dataset.sha256 != data["sha256"]:
        raise NotReturned(f"{path} has changed since it was judged")
    sheet, header = dataset.sheet
    with path.open("rb") as stream:
        book = Workbook(stream, source)
        if book.settings:  # robin wrote it, and its rows may go on in another sheet
            raise NotReturned
        taken = {str(cell) for number, row in book.lines(sheet) if number == header for cell in row}
    rows = _rows(result, view, dict(zip(dataset.pairs.ids, dataset.numbers, strict=True)))
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = {number: [row.get(name) for name in names] for number, row in rows.items()}
    cells[header] = [f"robin {name}" if name in taken else name for name in names]
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        add_columns(parts, path_in(archive, sheet), cells, header)
    add_sheet(parts, "summary", dict(enumerate(_summary(result), 1)))
    returned = io.BytesIO()
    with ZipFile(returned, "w", ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return returned.getvalue()


def _rows(result: Result, view: View, by_id: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """Return the columns of scores by the row of the sheet; behind systems' names if a row holds several responses.

    Args:
        by_id: the row of each pair, but of those whose ids were made of texts that lost their reasoning.
    """
    run = result.run
    table = result.table("scores", replace(view, wide=len(run.manifest.attributes) > 1))
    names = [each.name for each in table.shown(table.data.column_names) if each.returned]
    scores = table.data.select(names).to_pylist()
    pairs = [] if table.ids is None else [number - 1 for number in table.ids.tolist()]
    systems, places = (run.pairs.column(name) for name in (SYSTEM_COLUMN, PLACE_COLUMNS["row"]))
    numbers = [by_id.get(run.pair_ids[pair], places[pair]) for pair in pairs]
    is_shared = len({*numbers}) < len(numbers)
    rows: dict[int, dict[str, Any]] = {}
    for number, pair, row in zip(numbers, pairs, scores, strict=True):
        if not number:
            raise LookupError(f"no row of {run.pair_ids[pair]}")
        of = f"{systems[pair]} " if is_shared else ""
        rows.setdefault(int(number), {}).update({f"{of}{name}": row[name] for name in row})
    return rows


def _summary(result: Result) -> list[tuple[str, Any]]:
    """Return the answer, the mean of each attribute, the judges, the calls and the cost."""
    run = result.run
    lines = standing(read_run(run.path, READ), working=False).lines
    means = [
        (f"{mean['attribute']}: {name.replace('_', ' ')}", value)
        for mean in result.table("summary", View()).records()
        for name, value in mean.items()
        if name != "attribute" and value is not None
    ]
    calls = [(name, lines[name]) for name in ("budget", "cost") if name in lines]
    judges = ("judge", ", ".join(run.manifest.judges))
    return [
        *(("answer", line) for line in result.answer),
        *means,
        judges,
        *calls,
        ("run", run.name),
    ]
