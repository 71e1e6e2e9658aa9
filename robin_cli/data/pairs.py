"""Files of prompts and responses as pairs, checked row by row; every complaint names its place and a next step."""

from __future__ import annotations

import difflib
import gc
import gzip
import hashlib
import io
import sys
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from robin_cli.data.checking import pair_of
from robin_cli.data.fields import Fields, fields_of, is_in, names_in, no_such_fields, only_among
from robin_cli.data.formats import HEAD_BYTES, KNOWN, reader_by_content, reader_of
from robin_cli.data.lines import read_piped
from robin_cli.data.pair_ids import pair_id_of
from robin_cli.data.rows import BadRow, Reader, Row, Table, shown
from robin_cli.errors import InputError
from robin_cli.records import Pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["STDIN", "Dataset", "load_pairs", "pair_id_of"]

STDIN = "-"
"""The path that means standard input."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The pairs of a file in their order, how many bad rows were left out, and what the file was.

    ``sha256`` is of all bytes of the file as it lies on disk, also where ``limit`` ended the reading early.
    """

    pairs: list[Pair]
    skipped: int
    sha256: str
    source: str


def load_pairs(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    ratings: Iterable[str] = (),
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """The pairs of a file, whose format the end of its name says; of standard input for ``-``, by what it begins with.

    ``columns`` maps our names to the data's: prompt, response, id, and any other name for a human rating; dots lead
    into objects, a name that holds dots itself comes first. A dash means not to look for it: ``{"id": "-"}``
    makes every id from the text. Without a mapping the fields of HelpSteer2 and Summarize From Feedback are found.

    A prompt must hold more than white space. A response may be empty, for that is an answer a model can give and a
    judge can rate; only in CSV and TSV, which cannot tell it from a missing one, is it an error. An id is text or a
    whole number; where ``id`` is not mapped, a row without one gets ``pair_id_of`` its text. Ratings are finite
    numbers, also written as text; null, NaN, an empty text and NA are absent.

    ``ratings`` names further attributes whose human ratings are taken from fields of their names, where there are any.
    ``skip_bad_rows`` leaves out rows that cannot be used and later rows with the id of an earlier one. ``limit`` is the
    number of (good) pairs to read at most.

    Raises InputError for a file or a row that cannot be used, for a file of which no row can be used, and for a mapped
    field that no row has.
    """
    if str(path) == STDIN:
        with _readable("standard input"):  # into memory: prompts are not to lie on disks that they pass through
            if sys.stdin is None:
                raise InputError("standard input: is closed; pipe the pairs into it, or name a file")
            piped = read_piped(sys.stdin.buffer, "standard input")
        return read_pairs(
            piped, "standard input", columns=columns, ratings=ratings, skip_bad_rows=skip_bad_rows, limit=limit
        )
    source = str(path).encode("utf-8", "backslashreplace").decode()  # a name on disk may be no UTF-8
    with _readable(source):
        reader = _reader(path, source)
        with path.open("rb") as raw:
            fields = fields_of(columns or {}, ratings)
            return _read(raw, source, reader, fields, skip_bad_rows=skip_bad_rows, limit=limit)


def read_pairs(
    stream: io.BytesIO,
    source: str,
    *,
    columns: Mapping[str, str] | None = None,
    ratings: Iterable[str] = (),
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """As :func:`load_pairs`, of what lies in memory, in the format that it begins with; ``source`` names it in errors."""
    stream.seek(0)
    with _readable(source):
        reader = reader_by_content(stream.read(HEAD_BYTES))
        stream.seek(0)
        fields = fields_of(columns or {}, ratings)
        return _read(stream, source, reader, fields, skip_bad_rows=skip_bad_rows, limit=limit)


def _read(
    raw: io.BufferedReader | io.BytesIO,
    source: str,
    reader: Reader,
    fields: Fields,
    *,
    skip_bad_rows: bool,
    limit: int | None,
) -> Dataset:
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: at least one pair is needed. Use --limit 1 or more.")
    sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
    raw.seek(0)
    if not raw.read(1):
        raise InputError(f"{source}: the file is empty. Check that it was written or downloaded to its end.")
    raw.seek(0)
    table = reader(raw, source, fields.paths)
    if table.names is not None:
        fields = _checked(fields, table.names, source)
    with _no_collector():
        rows = _checked_pairs(table, fields, source, limit)
        pairs, skipped = _collect(rows, source, table.unit, skip_bad_rows=skip_bad_rows)
    return Dataset(pairs, skipped, sha256, source)


def _checked(fields: Fields, names: list[str], source: str) -> Fields:
    """The fields these columns have; InputError where a required or a mapped one is missing."""
    needed = dict.fromkeys([*fields.required(), *(field for field in fields.ratings if field.mapped)])
    missing = [field for field in needed if not field.is_among(names)]
    if missing:
        raise InputError(f"{source}: {no_such_fields(missing, names, fields)}")
    return only_among(fields, names)


def _collect(
    rows: Iterable[tuple[int, Pair | BadRow]], source: str, unit: str, *, skip_bad_rows: bool
) -> tuple[list[Pair], int]:
    """The pairs, and how many rows were left out."""
    pairs: list[Pair] = []
    skipped, first_bad = 0, ""
    for number, pair in rows:
        if isinstance(pair, Pair):
            pairs.append(pair)
            continue
        place = f"{source}:{number}" if unit == "line" else f"{source}:row {number}"
        if not skip_bad_rows:
            raise InputError(f"{place}: {pair}")
        first_bad = first_bad or f"{place}: {pair}"
        skipped += 1
    if first_bad and not pairs:
        raise InputError(f"{source}: not one row can be used ({skipped} read). The first: {first_bad}")
    if not pairs:
        raise InputError(f"{source}: the file has no rows. Check that it was written or downloaded to its end.")
    return pairs, skipped


def _checked_pairs(table: Table, fields: Fields, source: str, limit: int | None) -> Iterator[tuple[int, Pair | BadRow]]:
    """Each row as a pair with an id of its own, or as the reason it is none, until there are ``limit`` pairs.

    Raises InputError after the last if not one of these rows has a field that was mapped to a rating: without a header,
    a misspelt name looks like a rating that is absent.
    """
    number_of: dict[str, int] = {}
    unseen = [field for field in fields.ratings if field.mapped and table.names is None]
    names: list[str] = []
    for number, row in table.rows:
        if unseen and isinstance(row, dict):
            names = list(names_in(row))
            unseen = [field for field in unseen if not is_in(row, field)]
        try:
            pair = _pair(row, fields, number_of, table.unit)
        except BadRow as bad:
            yield number, bad
        else:
            number_of[pair.pair_id] = number
            yield number, pair
            if len(number_of) == limit:
                break
    if unseen and number_of:
        raise InputError(f"{source}: {no_such_fields(unseen, names, fields)}")


def _pair(row: Row | BadRow, fields: Fields, number_of: Mapping[str, int], unit: str) -> Pair:
    if isinstance(row, BadRow):
        raise row
    pair, made = pair_of(row, fields)
    first = number_of.get(pair.pair_id)
    if first is None:
        return pair
    if made:
        raise BadRow(
            f"the same prompt and response as {unit} {first}. Remove one of them, name a field with ids of their own "
            "(--columns id=NAME), or keep the first of each with --skip-bad-rows."
        )
    raise BadRow(
        f'the id "{shown(pair.pair_id)}" is that of {unit} {first}, too. Give each row an id of its own, make ids from '
        "the text (--columns id=-), or keep the first of each with --skip-bad-rows."
    )


def _reader(path: Path, source: str) -> Reader:
    """What reads the file; InputError if it is none, or of no known format."""
    if path.is_dir():
        inside = sorted(each.name for each in islice(path.iterdir(), 10_000) if reader_of(each.name))
        found = f" It holds {', '.join(shown(name) for name in inside[:3])}." if inside else ""
        raise InputError(f"{source}: a folder, not a file.{found} Name one file.")
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
def _no_collector() -> Iterator[None]:
    """No cyclic garbage collection: it would go through millions of new pairs, and take a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
