"""What DATA may name, opened as rows: files, quoted globs, standard input and data sets of the Hugging Face hub."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import os
import sys
import zlib
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

from robin_cli.data.formats import HEAD_BYTES, KNOWN, reader_by_content, reader_of
from robin_cli.data.hub import HUB, read_hub
from robin_cli.data.lines import read_piped
from robin_cli.data.rows import Reader, Table, shown
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

STDIN = "-"
"""The name that means standard input."""


class Source(NamedTuple):
    """One place of rows, open: what errors call it, its rows, and the SHA-256 of it, to be asked for after the rows."""

    name: str
    table: Table
    sha256: Callable[[], str]


def expanded(names: Iterable[str | Path]) -> list[str]:
    """The names with each glob replaced by the files it matches, sorted; every file once, where it comes first.

    A name under which there is a file is that file, also with brackets in it. InputError for a glob without a match.
    """
    found: dict[object, str] = {}
    for name in map(str, names):
        pattern = glob.has_magic(name) and not name.startswith(HUB) and not os.path.lexists(name)
        for each in _matches(name) if pattern else [name]:
            found.setdefault(each if each == STDIN or each.startswith(HUB) else Path(each).absolute(), each)
    return list(found.values())


def _matches(pattern: str) -> list[str]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
    matches = sorted(each for each in found if not Path(each).is_dir())
    if not matches:
        raise InputError(f"{shown(pattern, 200)}: matches no file. Check the pattern: ls {shown(pattern, 200)}")
    return matches


@contextmanager
def opened(name: str, wanted: Collection[str]) -> Iterator[Source]:
    """The source of this name, of whose columns those in ``wanted`` are enough.

    Raises InputError where there is no such thing, for what cannot be read (also while the body reads the rows), and
    for an empty file.
    """
    if name.startswith(HUB):
        yield Source(*read_hub(name, wanted))
        return
    if name == STDIN:
        source = "standard input"
        with _readable(source):  # into memory: prompts are not to lie on disks that they pass through
            if sys.stdin is None:
                raise InputError(f"{source}: is closed; pipe the pairs into it, or name a file")
            yield in_memory(read_piped(sys.stdin.buffer, source), source, wanted)
        return
    source = name.encode("utf-8", "backslashreplace").decode()  # a name on disk may be no UTF-8
    with _readable(source):
        reader = _reader(Path(name), source)
        with Path(name).open("rb") as raw:
            yield _source(raw, source, reader, wanted)


def in_memory(stream: BinaryIO, source: str, wanted: Collection[str]) -> Source:
    """What lies in memory, in the format that it begins with. Raises InputError as :func:`opened`."""
    with _readable(source):
        stream.seek(0)
        reader = reader_by_content(stream.read(HEAD_BYTES))
        stream.seek(0)
        return _source(stream, source, reader, wanted)


def _source(stream: BinaryIO, source: str, reader: Reader, wanted: Collection[str]) -> Source:
    sha256 = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a BinaryIO is enough
    stream.seek(0)
    if not stream.read(1):
        raise InputError(f"{source}: the file is empty. Check that it was written or downloaded to its end.")
    stream.seek(0)
    return Source(source, reader(stream, source, wanted), lambda: sha256)


def _reader(path: Path, source: str) -> Reader:
    """What reads the file; InputError if it is none, or of no known format."""
    if path.is_dir():
        inside = sorted(each.name for each in islice(path.iterdir(), 10_000) if reader_of(each.name))
        found = f" It holds {', '.join(shown(name) for name in inside[:3])}." if inside else ""
        raise InputError(f"{source}: a folder, not a file.{found} Name a file, or several by a glob in quotes.")
    if not path.exists():
        _raise_missing(path, source)
    if not path.is_file():
        raise InputError(f"{source}: not a regular file, and it is read twice. Save the data to a file first.")
    reader = reader_of(path.name)
    if reader is None:
        raise InputError(
            f"{source}: the format is not known by this name. Rename or convert the file: robin reads {KNOWN}."
        )
    return reader


def _raise_missing(path: Path, source: str) -> NoReturn:
    if path.is_symlink():
        raise InputError(f"{source}: a link to a file that is not there. Name the file itself, or make the link anew.")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{source}: no such file, and no folder {shown(str(folder), 200)}. Check the path.")
    names: list[str] = []
    with suppress(OSError):  # a folder may be entered without the right to list it
        names = [each.name for each in islice(folder.iterdir(), 10_000)]
    close = difflib.get_close_matches(path.name, names)
    readable = sorted(name for name in names if reader_of(name))[:3]
    if close:
        step = f"Did you mean {' or '.join(shown(name, 200) for name in close)}?"
    elif readable:
        step = f"The folder has {', '.join(shown(name, 200) for name in readable)}."
    else:
        step = "Check the path."
    raise InputError(f"{source}: no such file. {step}")


@contextmanager
def _readable(source: str) -> Iterator[None]:
    """What the system and gzip raise while a file is found and read, as InputError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{source}: the gzip data is cut short or damaged ({shown(error, 80)}). Write or download it again."
        ) from None
    except PermissionError:
        raise InputError(
            f"{source}: you may not read it. Ask for the right to, or copy it (ls -l shows whose it is)."
        ) from None
    except OSError as error:
        raise InputError(
            f"{source}: cannot be read: {error.strerror or shown(error, 80)}. Check the path and the disk."
        ) from None
