"""Outputs that a user names: their formats, and whether they can be written. Imported before the work, so it is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from robin_cli.data import workbooks
from robin_cli.data.compression import split_suffix
from robin_cli.data.outputs import check_output_file
from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError

SEPARATORS = {"csv": ",", "tsv": "\t"}
BINARY = frozenset({"parquet", "xlsx"})
FORMATS = (*SEPARATORS, "jsonl", "parquet", "xlsx")


def format_named(fmt: str | None, output: str | None, known: Sequence[str] = FORMATS) -> str:
    """Return the name of the format, one of ``known``. InputError if it is none, or does not go with ``output``."""
    whole, packed = split_suffix(output or "")
    name = fmt or Path(whole).suffix.removeprefix(".").lower() or known[0]
    if name not in known:
        raise InputError(
            f'--format "{name}": known formats, and ends of file names, are {", ".join(known)}'
        )
    if packed and name in BINARY:
        raise InputError(f"-o {output}: {name} is compressed in itself; leave {packed} out")
    if name in BINARY and output in {None, "-", "/dev/stdout"} and sys.stdout.isatty():
        raise InputError(f"{name} is nothing for a terminal: name a file with -o")
    return name


def check_output(
    fmt: str | None,
    output: str | None,
    inputs: Iterable[str] = (),
    known: Sequence[str] = FORMATS,
) -> None:
    """Refuse, before anything is paid for, an output that cannot be written, or that is one of ``inputs``.

    Raises:
        InputError: an unknown format, a folder that is not there, or a file that cannot or must not be written.
    """
    if fmt == "table" and output not in {None, "-"}:
        raise InputError(
            f"-o {output}: --format table is for a terminal; leave --format out to write a file"
        )
    if fmt != "table":
        format_named(fmt, output, known)
    if output is None or output == "-":
        return
    check_not_read("-o", output, inputs)
    folder = Path(output).parent
    if not scheme_of(output) and not folder.is_dir():
        raise InputError(f"-o {output}: there is no folder {folder}; make it, or name another file")
    check_writable("-o", output)


def check_outputs(outputs: Mapping[str, str | None], reads: Sequence[str]) -> None:
    """Refuse ``outputs``, files by flag, as InputError: read, not to be written, or named twice."""
    flags: dict[str, str] = {}
    for flag, name in outputs.items():
        if name is None:
            continue
        place = os.path.realpath(name)
        if place in flags:
            raise InputError(
                f"{flags[place]} and {flag}: would both be written to {name}; give one of them another file"
            )
        flags[place] = flag
        if name != "-":
            check_not_read(flag, name, reads)
            check_writable(flag, name)


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
    place, inputs = os.path.realpath(output), [workbooks.file_of(each) for each in inputs]
    if os.path.isfile(place) and place in map(os.path.realpath, inputs):  # noqa: PTH113  # whatever the name is
        raise InputError(
            f"{flag} {output}: is read in this command, and would be lost; name another file"
        )
