"""Results as files for other programs, in a format given by name or by the file's suffix."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from robin_cli.data.compression import compressing, split_suffix
from robin_cli.data.outputs import output_file
from robin_cli.data.parquet_tables import written_table
from robin_cli.model.errors import InputError, StorageError
from robin_cli.run.segments import gathered
from robin_cli.show.csv import defused, write_separated
from robin_cli.show.json import rows_of, write_jsonl
from robin_cli.show.outputs import SEPARATORS, format_named
from robin_cli.show.text import HarmlessFile
from robin_cli.show.xlsx import write_workbook

_GROUP_BYTES = 2**24


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
        write_jsonl(results, file)
    elif name == "parquet":
        write_parquet(results, file)
    else:
        with (
            tempfile.TemporaryFile() as whole
        ):  # ``file`` may be a pipe, in which nothing moves about
            write_workbook(whole, results.schema, rows_of(results), settings)
            whole.seek(0)
            shutil.copyfileobj(whole, file)


def write_parquet(results: pa.RecordBatchReader, file: IO[bytes] | Path) -> None:
    """Write ``results`` as a Parquet file. OSError if the disk refuses."""
    with written_table(file, results.schema) as writer:
        for table in gathered(
            (pa.Table.from_batches([batch]) for batch in results), nbytes=_GROUP_BYTES
        ):
            writer.write_table(table)
