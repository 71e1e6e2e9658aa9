"""Results as files that other programs open: CSV, TSV, JSON lines, Parquet, Excel.

Text in them comes from models and data sets. In formats that a spreadsheet opens, text that would act as a formula there
gets an apostrophe in front, which spreadsheets take as "this is text".
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from robin_cli.analysis.agreement import Agreement
from robin_cli.analysis.calibration import Level
from robin_cli.analysis.run_agreement import (
    agreements,
    all_scores,
    calibrations,
    check_comparable,
    reliabilities,
    whys_of,
)
from robin_cli.analysis.scores import DECISION_COLUMNS, Scores
from robin_cli.datasets.parquet_tables import checked_writer
from robin_cli.files.compression import compressing, split_suffix
from robin_cli.files.outputs import check_output_file, output_file
from robin_cli.files.remote import RemoteError, is_remote, public_name
from robin_cli.model.errors import InputError, StorageError, shown
from robin_cli.model.records import SYSTEM_COLUMNS
from robin_cli.storage.named import Named
from robin_cli.storage.pair_files import read_pair_batches
from robin_cli.storage.reader import RunData, distinct_judgments
from robin_cli.storage.schema import JUDGMENTS
from robin_cli.storage.segments import gathered
from robin_cli.views.workbook import write_workbook

_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_FORMULA_LEAD = rf"^(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""What a spreadsheet may run: it may leave out what is not seen, and take a wide sign for the narrow one."""

_BINARY = frozenset({"parquet", "xlsx"})
_SPREADSHEET_TEXT = frozenset({"csv", "tsv"})
_TO_THE_LETTER = {
    **dict.fromkeys(("pair_id", "attribute", "judge", "model", "system", *SYSTEM_COLUMNS), "join by"),
    **dict.fromkeys(("chosen", "rejected"), "train on"),
}
"""Columns that are of no use when they are changed, and for what."""
_TEXTS = {"prompt": "prompt", "response": "response"}
"""Columns of the texts, and what they are called among the run's pairs."""
_BATCH = 20_000
_GROUP_BYTES = 2**24


@dataclass(frozen=True, slots=True)
class Results:
    """A table in parts, so that no more than one has to be in memory; all parts have the columns of ``schema``."""

    schema: pa.Schema
    parts: Iterable[pa.Table]

    @classmethod
    def of(cls, table: pa.Table) -> Results:
        """A table in one part."""
        return cls(table.schema, [table])

    def whole(self) -> pa.Table:
        """All of it in one table."""
        return pa.concat_tables([self.schema.empty_table(), *self.parts])


def score_rows(scores: Scores, run: RunData, *, with_text: bool = False, wide: bool = False) -> Results:
    """The scores with the columns of the contract, and behind them the further columns of the data.

    Args:
        with_text: add prompt and response.
        wide: a row a pair, in which each attribute has columns of its own, ``helpfulness_score`` and so on; each attribute and
            judge, where ``scores`` are those of each judge.
    """
    table = pa.table({name: column_of(values) for name, values in scores.columns.items()})
    if wide:
        rows = run.space.by_pair(np.arange(len(scores)))
        parts = [(facet, table.take(mine)) for facet, mine in zip(scores.facets, rows.T, strict=True)]
        names = [name for name in table.column_names if name not in {"pair_id", "attribute", "judge"}]
        each = {f"{facet}_{name}": part[name] for facet, part in parts for name in names}
        table = pa.table({"pair_id": parts[0][1]["pair_id"], **each})
    return with_data(table, run, None if wide else run.space.pair[scores.arm], with_text=with_text)


def decision_rows(scores: Scores, run: RunData, *, with_text: bool = False) -> Results:
    """What was decided: of thresholds a row a pair with the score of each attribute, of the best a row a pair and attribute.

    Args:
        with_text: add prompt and response.

    Raises:
        InputError: nothing was to be decided.
    """
    if (decided := scores.decided) is None:
        raise InputError(f"{run.path}: decides nothing; make a run with --decide (in Python decide=…), as 'score>=3'")
    names = [*(["group"] if "group" in scores.columns else []), *DECISION_COLUMNS]
    if decided.task.group is not None:
        table = pa.table({name: column_of(scores.columns[name]) for name in ("pair_id", "attribute", *names, "score")})
        pairs = run.space.pair[scores.arm]
    else:
        first = decided.first
        values = run.space.by_pair(scores.columns["score"]).T
        each = {f"{name}_score": column_of(score) for name, score in zip(run.space.attributes, values, strict=True)}
        of_pairs = {name: column_of(scores.columns[name]).take(first) for name in ("pair_id", *names)}
        table, pairs = pa.table({**of_pairs, **each}), run.space.pair[scores.arm][first]
    return with_data(table, run, pairs, with_text=with_text)


def with_data(
    table: pa.Table,
    run: RunData,
    pairs: NDArray[np.integer[Any]] | None,
    *,
    with_text: bool,
    texts: Mapping[str, str] = _TEXTS,
    told: Collection[str] = (),
) -> Results:
    """``table`` with what the data say of the pair of each row.

    Args:
        pairs: of the rows, rising; None where there is a row for each, in order.
        with_text: add ``texts``, columns that come last, and the columns of the data that they are.
        told: names of further columns that ``table`` has already.
    """
    taken = {*table.column_names, *texts}
    for name in run.column_names:
        if name in told:
            continue
        called = name
        while called in taken or (called != name and called in run.column_names):
            called = f"data.{called}"
        taken.add(called)
        values = run.columns[name]
        table = table.append_column(called, values if pairs is None else values.take(pairs))
    if not with_text:
        return Results.of(table)
    schema = table.schema
    for name in texts:
        schema = schema.append(pa.field(name, pa.large_string()))
    return Results(schema, _with_texts(table, run, np.arange(len(table)) if pairs is None else pairs, texts, schema))


def _with_texts(
    table: pa.Table, run: RunData, pairs: NDArray[np.integer[Any]], texts: Mapping[str, str], schema: pa.Schema
) -> Iterator[pa.Table]:
    """``table`` with the texts of the pair of each row, some rows at a time, as they are read."""
    start, wanted = 0, set(texts.values())
    batches = read_pair_batches(run.path, lambda name: name in wanted)
    for found in gathered((pa.Table.from_batches([batch]) for batch in batches), nbytes=_GROUP_BYTES):
        first, last = np.searchsorted(pairs, [start, start + len(found)]).tolist()
        rows = pa.array(pairs[first:last] - start)
        columns = [found[of_data].take(rows) for of_data in texts.values()]
        start += len(found)
        yield pa.table([*table.slice(first, last - first).columns, *columns], schema=schema)


def agreement_of(run: RunData, notify: Callable[[str], None] = lambda _line: None) -> pa.Table:
    """Agreement with human ratings, and the judge's own reliability: one row an attribute (and judge) and coefficient.

    Args:
        notify: is told of what there is no agreement, and why.

    Raises:
        InputError: there is none of anything, see :func:`~robin_cli.analysis.run_agreement.check_comparable`.
    """
    tables = all_scores(run)
    found = agreements(run, *tables)
    check_comparable(whys_of(found), run, notify)
    own = reliabilities(run, *tables)
    return _told({name: (*found.get(name, ()), *own[name]) for name in own}, Agreement)


def calibration_of(run: RunData, notify: Callable[[str], None] = lambda _line: None) -> pa.Table:
    """Human ratings by level of the score: one row an attribute (and judge) and level that pairs have.

    Args and Raises: as for :func:`agreement_of`.
    """
    found = calibrations(run, *all_scores(run))
    check_comparable({name: told.why for name, told in found.items()}, run, notify)
    return _told({name: told.levels for name, told in found.items()}, Level)


def _told(found: Mapping[str, Sequence[Any]], kind: type[Agreement | Level]) -> pa.Table:
    """A row each, with the fields of ``kind`` as columns behind the attribute; they have their types without a row, too."""
    types = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    columns = {"attribute": pa.string(), **{each.name: types[str(each.type)] for each in fields(kind)}}
    rows = [{"attribute": attribute, **asdict(each)} for attribute, listed in found.items() for each in listed]
    return pa.table({name: pa.array([row[name] for row in rows], of, from_pandas=True) for name, of in columns.items()})


def column_of(values: Sequence[Any] | NDArray[Any]) -> pa.Array | pa.ChunkedArray:
    """A column, in which nan is null; texts may take more than the 2 GB of a short string column."""
    if isinstance(values, Named):
        return values.column
    return pa.array(values, pa.large_string() if isinstance(values, list) else None, from_pandas=True)


def judgments_of(path: Path) -> Results:
    """Every judgment of the run at ``path``, a segment at a time.

    Raises:
        RunError: no run there, or made by a newer robin. StorageError comes with the parts, where its files are damaged.
    """
    return Results(JUDGMENTS, distinct_judgments(path))


def export(
    results: Results,
    settings: Mapping[str, Any],
    *,
    fmt: str | None,
    output: str | None,
    excel: bool = False,
    raw: bool = False,
    notify: Callable[[str], None] = lambda _line: None,
) -> None:
    """Write ``results`` to the file ``output``, or to standard output for None and ``-``.

    Args:
        settings: the run's, for formats that have a place for them (xlsx).
        fmt: one of FORMATS; None to go by the file's name, and csv where that says nothing.
        excel: CSV and TSV begin with the mark by which Excel knows UTF-8.
        raw: CSV and TSV hold texts to the letter, also those that a spreadsheet would run.
        notify: is told once if an id or a name in them is not what it was.

    Raises:
        InputError: an unknown format, ``excel`` with one that is no text, or with ``raw``.
        StorageError: the file could not be written.
    """
    name = _format(fmt, output)
    if excel and raw:
        raise InputError("--raw: not with --excel, where texts such as =1+1 would run; leave one of the two out")
    if excel and name not in _SPREADSHEET_TEXT:
        raise InputError(
            "--excel: is for csv and tsv, which Excel would else read in another encoding; xlsx needs nothing"
        )
    if name in {*_SPREADSHEET_TEXT, "xlsx"} and any(map(pa.types.is_nested, results.schema.types)):
        raise InputError(
            f"--messages: conversations do not go into the cells of {name}; write .jsonl or .parquet (--format jsonl)"
        )
    if name in _SPREADSHEET_TEXT and not raw:
        results = _defused(results, notify)

    def write(file: IO[bytes]) -> None:
        if excel:
            file.write(codecs.BOM_UTF8)
        _WRITERS[name](results, settings, file)

    if output in {None, "-"}:
        _to_stdout(write)
        return
    try:
        with output_file(str(output)) as file, compressing(file, split_suffix(str(output))[1]) as packed:
            write(packed)
    except OSError as error:
        raise StorageError(f"{output}: could not be written ({error.strerror}); name another file with -o") from error


def _to_stdout(write: Callable[[IO[bytes]], None]) -> None:
    try:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"standard output: could not be written ({error.strerror})") from error


def _format(fmt: str | None, output: str | None) -> str:
    """The name of the format; InputError for one that is unknown, or does not go with ``output``."""
    whole, packed = split_suffix(output or "")
    name = fmt or Path(whole).suffix.removeprefix(".").lower() or "csv"
    if name not in _WRITERS:
        raise InputError(f'--format "{name}": known formats, and ends of file names, are {", ".join(_WRITERS)}')
    if packed and name in _BINARY:
        raise InputError(f"-o {output}: {name} is compressed in itself; leave {packed} out")
    if name in _BINARY and output in {None, "-"} and sys.stdout.isatty():
        raise InputError(f"{name} is nothing for a terminal: name a file with -o")
    return name


def check_output(fmt: str | None, output: str | None, inputs: Iterable[str] = ()) -> None:
    """Refuse, before anything is paid for, an output that could not be written, or that is one of the files ``inputs``.

    Raises:
        InputError: an unknown format, a folder that is not there, or a file that cannot or must not be written.
    """
    if fmt == "table" and output not in {None, "-"}:
        raise InputError(f"-o {output}: --format table is for a terminal; leave --format out to write a file")
    if fmt != "table":
        _format(fmt, output)
    if output is None or output == "-":
        return
    check_not_read(output, inputs)
    folder = Path(output).parent
    if not is_remote(output) and not folder.is_dir():
        raise InputError(f"-o {output}: there is no folder {folder}; make it, or name another file")
    try:
        check_output_file(output)
    except RemoteError as error:
        raise InputError(f"-o {output}: cannot be written ({error.strerror}). {error.step}") from error
    except OSError as error:
        raise InputError(f"-o {output}: cannot be written ({error.strerror}); name another file") from error


def _write_separated(separator: str, results: Results, _settings: Mapping[str, Any], file: IO[bytes]) -> None:
    file.write((separator.join(_header(name, separator) for name in results.schema.names) + "\n").encode())
    options = pacsv.WriteOptions(include_header=False, delimiter=separator)
    for table in results.parts:
        for start in range(0, table.num_rows, _BATCH):
            lines = pa.BufferOutputStream()
            pacsv.write_csv(table.slice(start, _BATCH), lines, options)
            file.write(lines.getvalue())


def _header(name: str, separator: str) -> str:
    """A column's name as it stands in the first line; those of judges may hold anything."""
    return '"' + name.replace('"', '""') + '"' if re.search(rf'[{separator}"\r\n]', name) else name


def _write_jsonl(results: Results, _settings: Mapping[str, Any], file: IO[bytes]) -> None:
    for row in _rows(results):
        file.write(orjson.dumps(row, option=orjson.OPT_UTC_Z) + b"\n")


def write_parquet(results: Results, file: IO[bytes] | Path) -> None:
    """Write ``results`` as a Parquet file. OSError where the disk refuses."""
    with checked_writer(file, results.schema) as writer:
        for table in gathered(results.parts, nbytes=_GROUP_BYTES):
            writer.write_table(table)


def _write_parquet(results: Results, _settings: Mapping[str, Any], file: IO[bytes]) -> None:
    write_parquet(results, file)


def _write_xlsx(results: Results, settings: Mapping[str, Any], file: IO[bytes]) -> None:
    with tempfile.TemporaryFile() as whole:  # ``file`` may be a pipe, in which nothing moves about
        write_workbook(whole, results.schema, _rows(results), settings)
        whole.seek(0)
        shutil.copyfileobj(whole, file)


def _defused(results: Results, notify: Callable[[str], None]) -> Results:
    """``results`` with an apostrophe in front of texts and names that a spreadsheet would run."""

    def parts() -> Iterator[pa.Table]:
        said = False
        for table in results.parts:
            for start in range(0, table.num_rows, _BATCH):
                batch = table.slice(start, _BATCH)
                said = said or _say_changed(batch, notify)
                yield _without_formulas(batch)

    names = ["'" + name if re.match(_FORMULA_LEAD, name) else name for name in results.schema.names]
    return Results(
        pa.schema([field.with_name(name) for field, name in zip(results.schema, names, strict=True)]), parts()
    )


def _say_changed(table: pa.Table, notify: Callable[[str], None]) -> bool:
    for name in sorted(_TO_THE_LETTER.keys() & set(table.column_names)):
        column = table.column(name)
        if acting := column.filter(_acts(column)).slice(0, 1).to_pylist():
            notify(
                f'{name} "{shown(acting[0])}" and others like it get an apostrophe in front, or a spreadsheet would run them '
                f"as formulas. To {_TO_THE_LETTER[name]} them, write them as they are: --raw, .jsonl or .parquet"
            )
            return True
    return False


def _acts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(column, _FORMULA_LEAD), fill_value=False)


def _without_formulas(table: pa.Table) -> pa.Table:
    for position, field in enumerate(table.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        column = table.column(position)
        acts = _acts(column)
        if pc.any(acts).as_py():  # else a copy of all texts would be made for nothing
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), column, pa.scalar("", field.type))
            table = table.set_column(position, field, pc.if_else(acts, marked, column))
    return table


def _rows(results: Results) -> Iterator[dict[str, Any]]:
    for table in results.parts:
        for batch in table.to_batches(max_chunksize=_BATCH):
            yield from batch.to_pylist()


_WRITERS: dict[str, Callable[[Results, Mapping[str, Any], IO[bytes]], None]] = {
    "csv": partial(_write_separated, ","),
    "tsv": partial(_write_separated, "\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "xlsx": _write_xlsx,
}


def check_not_read(output: str, inputs: Iterable[str]) -> None:
    """Refuse the ``output`` that is one of the files ``inputs``: InputError."""
    place = os.path.realpath(output)
    if is_remote(output):
        is_read = public_name(output) in inputs
    else:
        is_read = os.path.isfile(place) and place in map(os.path.realpath, inputs)  # noqa: PTH113  # whatever the name is
    if is_read:
        raise InputError(f"-o {output}: is read in this command, and would be lost; name another file")
