"""Sources of rows that DATA may name: files, quoted globs, standard input and addresses.

:func:`opened` is the way from a name to rows: bytes, then a format of :mod:`robin_cli.data.registry`,
then the samples of a log as rows.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from robin_cli.data import registry, remote
from robin_cli.data.local import temporary_folder
from robin_cli.data.local_files import local_file, local_matches, reading
from robin_cli.data.logs import has_samples, read_samples
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted, place
from robin_cli.data.workbooks import file_of
from robin_cli.model.errors import InputError, ReadAs

STDIN = "-"
"""The name that means standard input."""


class OpenedSource(NamedTuple):
    """An open source: its name in errors, and its rows.

    Attributes:
        sha256: returns its SHA-256, once the rows are read.
        path: a file's path, or its address without a query; "" for other sources.
    """

    name: str
    table: RowTable
    sha256: Callable[[], str]
    path: str = ""


def expanded(names: Iterable[str | Path]) -> list[str]:
    """Return the names with each glob replaced by the files that it matches, sorted.

    Each file is named once, at its first place. The name of an existing file is that file, even
    with brackets. InputError for a glob without a match.
    """
    found: dict[object, str] = {}
    for name in map(str, names):
        if remote.is_remote(name):
            with reading(remote.public_name(name)):
                found.update((each, each) for each in remote.matches(name) if each not in found)
        elif name == STDIN or remote.scheme_of(name):
            found.setdefault(name, name)
        else:
            for each in local_matches(name):
                found.setdefault(Path(each).absolute(), each)
    return list(found.values())


def check_files(names: Sequence[str]) -> None:
    """Raise InputError if there is no name, a file cannot be read, or a glob matches none."""
    if not names:
        raise InputError(
            "no data: name a file of prompt-response pairs, robin judge PAIRS.jsonl, or set data in "
            "robin.toml"
        )
    for name in names:
        if name != STDIN and not remote.scheme_of(name):
            for each in local_matches(name):
                local_file(each)


@contextmanager
def opened(
    name: str | Path | io.BytesIO, wanted: Wanted, called: str = ""
) -> Iterator[OpenedSource]:
    """Open a source, or bytes in memory; columns that are not ``wanted`` need not be read.

    At the end a warning, ReadAs, says what is unusual in it.

    Args:
        called: the name of bytes in memory.

    Raises:
        InputError: it does not exist, is empty, or cannot be read; also while rows are read.
    """
    with _as_it_is(name, wanted, called) as source:
        table = source.table
        if wanted.logs and table.names is None:
            of_scores = wanted.logs == "scores"
            samples = read_samples(table.rows, source.name, source.path, of_scores=of_scores)
            table = table._replace(rows=samples)
        try:
            yield source._replace(table=table)
        finally:
            if notes := table.notes():
                warnings.warn(f"{source.name}: {'; '.join(notes)}", ReadAs, stacklevel=1)


@contextmanager
def _as_it_is(name: str | Path | io.BytesIO, wanted: Wanted, called: str) -> Iterator[OpenedSource]:
    """Open a source without a look at what its rows are."""
    if str(name) == STDIN:
        called = "standard input"
        if sys.stdin is None:
            raise InputError(f"{called}: is closed; pipe the pairs into it, or name a file")
        with reading(called):
            name = io.BytesIO(sys.stdin.buffer.read())
    if isinstance(name, io.BytesIO):
        with reading(called):
            yield _source(name, called, registry.format_by_content(name, called), wanted)
        return
    name = str(name)
    if remote.is_remote(name):
        with _downloaded(name, wanted) as source:
            yield source
    elif remote.scheme_of(name):
        yield _of_scheme(name, wanted)
    else:
        path, public, kind = local_file(name)
        with reading(public), path.open("rb") as stream:
            yield _source(stream, public, kind, wanted)._replace(path=str(path))


def sound_rows(source: OpenedSource, step: str) -> Iterator[tuple[str, Row]]:
    """Yield the place and the row of each row; InputError, which ends in ``step``, for a bad one."""
    for number, row in source.table.rows:
        here = place(source.name, source.table.unit, number)
        if isinstance(row, BadRow):
            raise row.at(here, step)
        yield here, row


def _source(
    stream: BinaryIO, source: str, kind: tuple[Format, str], wanted: Wanted
) -> OpenedSource:
    stream.seek(0)
    sha256 = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    table = registry.read_stream(stream, source, kind, wanted)
    if wanted.logs and table.names and has_samples(table.names, source):
        wanted = wanted._replace(names={*table.names})  # all columns: the log's reader chooses
        table = registry.read_stream(stream, source, kind, wanted)._replace(names=None)
    return OpenedSource(source, table, lambda: sha256)


@contextmanager
def _downloaded(name: str, wanted: Wanted) -> Iterator[OpenedSource]:
    """Open an address from a private copy that is deleted afterwards."""
    file = file_of(name)
    public = remote.public_name(file)
    source, path = public + name[len(file) :], public.removesuffix("?…")
    kind = registry.format_of(path.rpartition("/")[2])
    with reading(source), temporary_folder() as folder:
        # A package may need a name to open. Any other copy has none, so a killed process leaves
        # nothing behind.
        copy_path = folder / "".join(Path(path).suffixes)
        by_path = kind is not None and kind[0].by_path
        with copy_path.open("x+b") if by_path else tempfile.TemporaryFile() as copy:
            remote.download(file, copy)
            copy.seek(0)
            kind = kind or registry.format_by_content(copy, source)
            yield _source(copy, source, kind, wanted)._replace(path=path)


def _of_scheme(address: str, wanted: Wanted) -> OpenedSource:
    """Open an address of robin's or a package's scheme. Its SHA-256 is that of the rows read."""
    source, table = registry.read_address(address, wanted)
    digest = hashlib.sha256()

    def rows() -> Iterator[tuple[int, Row | BadRow]]:
        for number, row in table.rows:
            digest.update(repr(row).encode("utf-8", "backslashreplace"))
            yield number, row

    return OpenedSource(source, table._replace(rows=rows()), digest.hexdigest)
