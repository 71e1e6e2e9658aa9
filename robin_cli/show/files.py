"""Results as files for other programs, in a format given by name or by the file's suffix."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from robin_cli.data.compression import compressing, split_suffix
from robin_cli.data.formats import csv_rows
from robin_cli.data.outputs import output_file
from robin_cli.data.parquet_tables import written_table
from robin_cli.model.errors import InputError, StorageError, shown
from robin_cli.model.records import SYSTEM_COLUMNS
from robin_cli.run.segments import gathered
from robin_cli.show.outputs import SEPARATORS, format_named
from robin_cli.show.text import HarmlessFile
from robin_cli.show.xlsx import write_workbook

_AT_A_TIME = 20_000
_GROUP_BYTES = 2**24
_TO_THE_LETTER = {
    **dict.fromkeys(
        ("pair_id", "attribute", "judge", "model", "system", *SYSTEM_COLUMNS), "join by"
    ),
    **dict.fromkeys(("chosen", "rejected"), "train on"),
}
"""Columns that are of no use when they are changed, and for what."""


def export(
    results: pa.RecordBatchReader,
    settings: Mapping[str, Any],
    *,
    fmt: str | None,
    output: str | None,
    raw: bool = False,
    notify: Callable[[str], None] = lambda _line: None,
) -> None:
    """Write ``results`` to the file ``output``, or to standard output for None and ``-``.

    Args:
        settings: the run's, for formats that have a place for them (xlsx).
        fmt: one of FORMATS; None for the one of the file's suffix, or csv without a known suffix.
        raw: CSV and TSV hold texts to the letter, also those that a spreadsheet would run.
        notify: called once if an id or a name in them was changed.

    Raises:
        InputError: an unknown format, or one without a place for lists.
        StorageError: the file could not be written.
    """
    name = format_named(fmt, output)
    if name in {*SEPARATORS, "xlsx"} and any(map(pa.types.is_nested, results.schema.types)):
        raise InputError(
            f"--messages: conversations do not go into the cells of {name}; write .jsonl or .parquet (--format jsonl)"
        )
    if name in SEPARATORS and not raw:
        results = defused(results, notify)

    def write(file: IO[bytes]) -> None:
        _write(name, results, settings, file)

    write_to("-o", output or "-", write)


def write_text(flag: str, name: str, text: str) -> None:
    """Write ``text`` to the file ``name``, or to standard output for ``-``. StorageError if that fails."""
    write_to(flag, name, lambda file: file.write(text.encode()))


def write_to(flag: str, name: str, write: Callable[[IO[bytes]], object]) -> None:
    """Open the file ``name`` of ``flag``, or standard output for ``-``, and call ``write``. StorageError if that fails."""
    is_stdout = name == "-"
    try:
        if is_stdout:
            write(sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with output_file(name) as file:
            safe = HarmlessFile(file.fileno()) if file.isatty() else file
            with compressing(safe, split_suffix(name)[1]) as packed:
                write(packed)
    except OSError as error:
        if is_stdout and isinstance(error, BrokenPipeError):
            raise
        place = "standard output" if is_stdout else f"{flag} {name}"
        raise StorageError(
            f"{place}: could not be written ({error.strerror}); name another file"
        ) from error


def _write(
    name: str, results: pa.RecordBatchReader, settings: Mapping[str, Any], file: IO[bytes]
) -> None:
    if name in SEPARATORS:
        write_separated(SEPARATORS[name], results, file)
    elif name == "jsonl":
        for row in rows_of(results):
            file.write(orjson.dumps(row, option=orjson.OPT_UTC_Z) + b"\n")
    elif name == "parquet":
        with written_table(file, results.schema) as writer:
            tables = (pa.Table.from_batches([batch]) for batch in results)
            for table in gathered(tables, nbytes=_GROUP_BYTES):
                writer.write_table(table)
    else:
        with tempfile.TemporaryFile() as whole:  # ``file`` may be a pipe, where nothing moves about
            write_workbook(whole, results.schema, rows_of(results), settings)
            whole.seek(0)
            shutil.copyfileobj(whole, file)


def few_at_a_time(results: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches small enough to write at once."""
    for batch in results:
        for start in range(0, len(batch), _AT_A_TIME):
            yield batch.slice(start, _AT_A_TIME)


def rows_of(results: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns."""
    for batch in few_at_a_time(results):
        yield from batch.to_pylist()


def write_separated(separator: str, results: pa.RecordBatchReader, file: IO[bytes]) -> None:
    """Write ``results`` as lines of text."""
    file.write(
        (separator.join(_header(name, separator) for name in results.schema.names) + "\n").encode()
    )
    options = pacsv.WriteOptions(include_header=False, delimiter=separator)
    for batch in few_at_a_time(results):
        lines = pa.BufferOutputStream()
        pacsv.write_csv(batch, lines, options)
        file.write(lines.getvalue())


def _header(name: str, separator: str) -> str:
    """Return a column's name for the header line; names of judges may have any character."""
    return '"' + name.replace('"', '""') + '"' if re.search(rf'[{separator}"\r\n]', name) else name


def defused(results: pa.RecordBatchReader, notify: Callable[[str], None]) -> pa.RecordBatchReader:
    """Return ``results`` with an apostrophe before texts and names that a spreadsheet would run."""

    def batches() -> Iterator[pa.RecordBatch]:
        has_notified = False
        for rows in few_at_a_time(results):
            batch = rows
            for position, field in enumerate(rows.schema):
                if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
                    continue
                column = batch.column(position)
                found = pc.match_substring_regex(column, csv_rows.GUARDED)
                acts = pc.fill_null(found, fill_value=False)
                if not pc.any(acts).as_py():  # else a copy of all texts would be made for nothing
                    continue
                if field.name in _TO_THE_LETTER and not has_notified:
                    has_notified = True
                    first = shown(column.filter(acts)[0].as_py())
                    notify(
                        f'{field.name} "{first}" and others like it get an apostrophe in front, or a spreadsheet would run '
                        f"them as formulas. To {_TO_THE_LETTER[field.name]} them, write them as they are: --raw, .jsonl or "
                        ".parquet"
                    )
                mark, end = pa.scalar("'", field.type), pa.scalar("", field.type)
                marked = pc.binary_join_element_wise(mark, column, end)
                batch = batch.set_column(position, field, pc.if_else(acts, marked, column))
            yield batch.rename_columns(names)

    names = [
        "'" + name if re.match(csv_rows.GUARDED, name) else name for name in results.schema.names
    ]
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(results.schema, names, strict=True)]
    )
    return pa.RecordBatchReader.from_batches(schema, batches())
