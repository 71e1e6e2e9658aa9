"""Results as files for other programs, in a format given by name or by the file's suffix."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from robin_cli.datasets.formats import sheets
from robin_cli.datasets.parquet_tables import written_table
from robin_cli.files.compression import compressing, split_suffix
from robin_cli.files.outputs import check_output_file, output_file
from robin_cli.files.remote import scheme_of
from robin_cli.model.errors import InputError, StorageError
from robin_cli.render.csv import defused, write_separated
from robin_cli.render.json import rows_of, write_jsonl
from robin_cli.render.xlsx import write_workbook
from robin_cli.storage.segments import gathered

_SEPARATORS = {"csv": ",", "tsv": "\t"}
_BINARY = frozenset({"parquet", "xlsx"})
_GROUP_BYTES = 2**24
_FORMATS = (*_SEPARATORS, "jsonl", "parquet", "xlsx")


def export(
    results: pa.RecordBatchReader,
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
        fmt: one of FORMATS; None for the one of the file's suffix, or csv without a known suffix.
        excel: CSV and TSV begin with the mark by which Excel knows UTF-8.
        raw: CSV and TSV hold texts to the letter, also those that a spreadsheet would run.
        notify: called once if an id or a name in them was changed.

    Raises:
        InputError: an unknown format, ``excel`` with one that is no text, or with ``raw``.
        StorageError: the file could not be written.
    """
    name = _format(fmt, output)
    if excel and raw:
        raise InputError(
            "--raw: not with --excel, where texts such as =1+1 would run; leave one of the two out"
        )
    if excel and name not in _SEPARATORS:
        raise InputError(
            "--excel: is for csv and tsv, which Excel would else read in another encoding; xlsx needs nothing"
        )
    if name in {*_SEPARATORS, "xlsx"} and any(map(pa.types.is_nested, results.schema.types)):
        raise InputError(
            f"--messages: conversations do not go into the cells of {name}; write .jsonl or .parquet (--format jsonl)"
        )
    if name in _SEPARATORS and not raw:
        results = defused(results, notify)

    def write(file: IO[bytes]) -> None:
        if excel:
            file.write(codecs.BOM_UTF8)
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
        with output_file(name) as file, compressing(file, split_suffix(name)[1]) as packed:
            write(packed)
    except OSError as error:
        if is_stdout and isinstance(error, BrokenPipeError):
            raise
        place = "standard output" if is_stdout else f"{flag} {name}"
        raise StorageError(
            f"{place}: could not be written ({error.strerror}); name another file"
        ) from error


def _format(fmt: str | None, output: str | None) -> str:
    """Return the name of the format. InputError if it is unknown, or does not go with ``output``."""
    whole, packed = split_suffix(output or "")
    name = fmt or Path(whole).suffix.removeprefix(".").lower() or "csv"
    if name not in _FORMATS:
        raise InputError(
            f'--format "{name}": known formats, and ends of file names, are {", ".join(_FORMATS)}'
        )
    if packed and name in _BINARY:
        raise InputError(f"-o {output}: {name} is compressed in itself; leave {packed} out")
    if name in _BINARY and output in {None, "-"} and sys.stdout.isatty():
        raise InputError(f"{name} is nothing for a terminal: name a file with -o")
    return name


def check_output(fmt: str | None, output: str | None, inputs: Iterable[str] = ()) -> None:
    """Refuse, before anything is paid for, an output that cannot be written, or that is one of ``inputs``.

    Raises:
        InputError: an unknown format, a folder that is not there, or a file that cannot or must not be written.
    """
    if fmt == "table" and output not in {None, "-"}:
        raise InputError(
            f"-o {output}: --format table is for a terminal; leave --format out to write a file"
        )
    if fmt != "table":
        _format(fmt, output)
    if output is None or output == "-":
        return
    check_not_read("-o", output, inputs)
    folder = Path(output).parent
    if not scheme_of(output) and not folder.is_dir():
        raise InputError(f"-o {output}: there is no folder {folder}; make it, or name another file")
    check_writable("-o", output)


def check_writable(flag: str, name: str) -> None:
    """Raise InputError for a file ``name``, given by ``flag``, that cannot be written."""
    try:
        check_output_file(name)
    except OSError as error:
        raise InputError(
            f"{flag} {name}: cannot be written ({error.strerror}); name another file"
        ) from error


def check_not_read(flag: str, output: str, inputs: Iterable[str]) -> None:
    """Raise InputError if ``output``, given by ``flag``, is one of the files ``inputs``."""
    place, inputs = os.path.realpath(output), [sheets.file_of(each) for each in inputs]
    if os.path.isfile(place) and place in map(os.path.realpath, inputs):  # noqa: PTH113  # whatever the name is
        raise InputError(
            f"{flag} {output}: is read in this command, and would be lost; name another file"
        )


def _write(
    name: str, results: pa.RecordBatchReader, settings: Mapping[str, Any], file: IO[bytes]
) -> None:
    if name in _SEPARATORS:
        write_separated(_SEPARATORS[name], results, file)
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
