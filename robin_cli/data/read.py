"""Sources of rows that DATA may name: files, quoted globs, standard input, addresses, and those of packages."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

import orjson

from robin_cli.data import remote, workbooks
from robin_cli.data.lines import refuse_stand_in
from robin_cli.data.local import temporary_folder
from robin_cli.data.logs import read_samples
from robin_cli.data.registry import Plugin, format_of, reader_by_content, scheme_reader, unread
from robin_cli.data.rows import BadRow, Reader, Row, Table, Wanted, place
from robin_cli.model.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_HEAD_BYTES = 512

STDIN = "-"
"""The name that means standard input."""


class Source(NamedTuple):
    """An open source: its name in errors, its rows, and its SHA-256, which is known once the rows are read.

    ``path`` is a file's path, or its address without a query; "" for other sources.
    """

    name: str
    table: Table
    sha256: Callable[[], str]
    path: str = ""


def expanded(names: Iterable[str | Path]) -> list[str]:
    """Return the names with each glob replaced by the files that it matches, sorted; each file once, at its first place.

    The name of an existing file is that file, even with brackets. Raises InputError for a glob without a match.
    """
    found: dict[object, str] = {}
    for name in map(str, names):
        if remote.is_remote(name):
            with _readable(remote.public_name(name)):
                found.update((each, each) for each in remote.matches(name) if each not in found)
        elif name == STDIN or remote.scheme_of(name):
            found.setdefault(name, name)
        else:
            pattern = glob.has_magic(name) and not os.path.lexists(name)
            for each in _matches(name) if pattern else [name]:
                found.setdefault(Path(each).absolute(), each)
    return list(found.values())


def _matches(pattern: str) -> list[str]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
    matches = sorted(each for each in found if not Path(each).is_dir())
    if not matches:
        raise InputError(
            f"{shown(pattern, 200)}: matches no file. Check the pattern: ls {shown(pattern, 200)}"
        )
    return matches


def check_files(names: Sequence[str]) -> None:
    """Check that there are ``names``, and that the files among them exist and have known formats.

    Raises:
        InputError: there is no name, a file cannot be read, or a glob matches none.
    """
    if not names:
        raise InputError(
            "no data: name a file of prompt-response pairs, robin judge PAIRS.jsonl, or set data in robin.toml"
        )
    for name in names:
        if not remote.scheme_of(name) and glob.has_magic(name):
            expanded([name])
        elif name != STDIN and not remote.scheme_of(name):
            _local_reader(name)


@contextmanager
def opened(name: str | Path | io.BytesIO, wanted: Wanted, called: str = "") -> Iterator[Source]:
    """Open a source, or bytes in memory; columns that are not ``wanted`` need not be read.

    At the end the readers warn of what is unusual in it (ReadAs).

    Args:
        called: the name of bytes in memory.

    Raises:
        InputError: it does not exist, is empty, or cannot be read (also while the body reads the rows).
    """
    with _as_it_is(name, wanted, called) as found:
        table, rows = found.table, found.table.rows
        if wanted.logs and table.names is None:
            of_scores = wanted.logs == "scores"
            samples = read_samples(rows, found.name, found.path, of_scores=of_scores)
            table = table._replace(rows=samples)
        try:
            yield found._replace(table=table)
        finally:
            if isinstance(rows, Generator):
                rows.close()


@contextmanager
def _as_it_is(name: str | Path | io.BytesIO, wanted: Wanted, called: str) -> Iterator[Source]:
    if isinstance(name, io.BytesIO):
        yield _in_memory(name, called, wanted)
        return
    name = str(name)
    if remote.is_remote(name):
        with _downloaded(name, wanted) as source:
            yield source
    elif remote.scheme_of(name):
        yield _of_scheme(name, wanted)
    elif name == STDIN:
        with _readable("standard input"):  # into memory: private prompts must not reach a disk
            if sys.stdin is None:
                raise InputError(
                    "standard input: is closed; pipe the pairs into it, or name a file"
                )
            yield _in_memory(io.BytesIO(sys.stdin.buffer.read()), "standard input", wanted)
    else:
        path, source_name, reader = _local_reader(name)
        with _readable(source_name), Path(path).open("rb") as raw:
            yield _source(raw, source_name, reader, wanted, path)._replace(path=path)


def sound_rows(source: Source, step: str) -> Iterator[tuple[str, Row]]:
    """Yield the place and the row of each row of a source. InputError, which ends in ``step``, for a bad one."""
    for number, row in source.table.rows:
        here = place(source.name, source.table.unit, number)
        if isinstance(row, BadRow):
            raise row.at(here, step)
        yield here, row


def _in_memory(stream: BinaryIO, source: str, wanted: Wanted) -> Source:
    """Open bytes in memory, in the format of their first bytes. Raises InputError as :func:`opened`."""
    with _readable(source):
        stream.seek(0)
        return _source(stream, source, reader_by_content(stream, source), wanted)


def _source(
    stream: BinaryIO, source: str, reader: Reader | Plugin, wanted: Wanted, path: str | Path = ""
) -> Source:
    stream.seek(0)
    head = stream.read(_HEAD_BYTES)
    refuse_stand_in(head, source)
    if not head:
        raise InputError(
            f"{source}: the file is empty. Check that it was written or downloaded to its end."
        )
    stream.seek(0)
    sha256 = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a BinaryIO is enough
    stream.seek(0)
    table = (
        reader.table(str(path), source, stream, wanted)
        if isinstance(reader, Plugin)
        else reader(stream, source, wanted)
    )
    return Source(source, table, lambda: sha256)


@contextmanager
def _downloaded(name: str, wanted: Wanted) -> Iterator[Source]:
    """Open an address from a private copy that is deleted afterwards."""
    file = workbooks.file_of(name)
    public = remote.public_name(file)
    source, own_name = public + name[len(file) :], public.removesuffix("?…").rpartition("/")[2]
    reader = format_of(own_name)
    with _readable(source), temporary_folder() as folder:
        # A plug-in needs a name to open. Any other copy has none, so a killed process leaves nothing behind.
        path = folder / "".join(Path(own_name).suffixes)
        with path.open("x+b") if isinstance(reader, Plugin) else tempfile.TemporaryFile() as copy:
            remote.download(file, copy)
            copy.seek(0)
            found = _source(copy, source, reader or reader_by_content(copy, source), wanted, path)
            yield found._replace(path=public.removesuffix("?…"))


def _of_scheme(address: str, wanted: Wanted) -> Source:
    """Open an address of robin's or a package's scheme. Its SHA-256 is that of the rows that were read."""
    reader = scheme_reader(remote.scheme_of(address))
    if isinstance(reader, Plugin):
        source = remote.public_name(address)
        table = reader.table(address, source, None, wanted)
    else:
        source, table = address, reader(address, wanted)
    digest = hashlib.sha256()

    def rows() -> Iterator[tuple[int, Row | BadRow]]:
        for number, row in table.rows:
            try:
                digest.update(orjson.dumps(row, default=str))
            except TypeError:  # half a surrogate pair, or a number past 64 bits
                digest.update(repr(row).encode())
            yield number, row

    return Source(source, table._replace(rows=rows()), digest.hexdigest)


def _local_reader(name: str) -> tuple[str, str, Reader | Plugin]:
    """Return the path of a local file, its name in errors, and its reader. InputError if it cannot be read."""
    source = name.encode("utf-8", "backslashreplace").decode()  # a name on disk may be no UTF-8
    with _readable(source):
        path = name if os.path.lexists(name) else workbooks.file_of(name)
        return path, source, _reader(Path(path), source)


def _reader(path: Path, source: str) -> Reader | Plugin:
    """Return the reader of a file. InputError if it is not a file, or of no known format."""
    if path.is_dir():
        inside = sorted(
            each.name for each in islice(path.iterdir(), 10_000) if format_of(each.name)
        )
        found = f" It holds {', '.join(shown(name) for name in inside[:3])}." if inside else ""
        raise InputError(
            f"{source}: a folder, not a file.{found} Name a file, or several by a glob in quotes."
        )
    if not path.exists():
        _raise_missing(path, source)
    if not path.is_file():
        raise InputError(
            f"{source}: not a regular file, and it is read twice. Save the data to a file first."
        )
    reader = format_of(path.name)
    if reader is None:
        raise InputError(f"{source}: {unread(path.name)}")
    return reader


def _raise_missing(path: Path, source: str) -> NoReturn:
    if path.is_symlink():
        raise InputError(
            f"{source}: a link to a file that is not there. Name the file itself, or make the link anew."
        )
    folder = path.parent
    if not folder.is_dir():
        raise InputError(
            f"{source}: no such file, and no folder {shown(str(folder), 200)}. Check the path."
        )
    names: list[str] = []
    with suppress(OSError):  # a folder may be entered without the right to list it
        names = [each.name for each in islice(folder.iterdir(), 10_000)]
    close = nearest(path.name, names)
    readable = sorted(name for name in names if format_of(name))[:3]
    if close:
        step = f"Did you mean {shown(close, 200)}?"
    elif readable:
        step = f"The folder has {', '.join(shown(name, 200) for name in readable)}."
    else:
        step = "Check the path."
    raise InputError(f"{source}: no such file. {step}")


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """Raise the errors of the system and the network as InputError."""
    try:
        yield
    except remote.RemoteError as error:
        raise InputError(f"{source}: {error.strerror}. {error.step}.") from None
    except PermissionError:
        raise InputError(
            f"{source}: you may not read it. Ask for the right to, or copy it (ls -l shows whose it is)."
        ) from None
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read: {error.strerror or shown(error, 80)}. Check the path and the disk."
        ) from None
