"""How much memory a Parquet file takes to decode, by the headers of its pages, before any page is decompressed.

A megabyte of Parquet can hold hundreds of gigabytes: pages compress a thousandfold, and one entry of a dictionary may be the
value of every row. The footer's own sums cannot be trusted, but a page is decompressed into exactly as many bytes as its header
says, so the headers are read: see parquet.thrift, struct PageHeader, in Thrift's compact protocol.

Where the pages are is read out of the footer here, too (struct FileMetaData): pyarrow's own ``row_group(i).column(j)`` ends the
process, and not with an exception, where one byte of a column's statistics is wrong.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from operator import add
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from robin_cli.datasets.lines import LIMIT_ENV, at_most
from robin_cli.model.errors import Damaged, InputError, size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow.parquet as pq

MOST_BYTES = 96 * 2**20
"""The most that the open pages of all columns may take together, and again the rows that are decoded at a time.

Arrow decodes a page whole. With it, two long rows in each form that they go through, and all else, robin takes 600 MB at most.
"""

_FURTHER_BYTES = 96 * 2**20
"""The most of it that columns may take which are not needed, as open pages and as so many rows:"""
_FURTHER_ROWS = 64

_USUAL_BYTES = 64 * 2**20
_BATCH_ROWS = (1024, 256, 64, 16, 4, 1)
"""How many rows to decode at a time: the first of these that keeps below _USUAL_BYTES, or else below MOST_BYTES."""

_MOST_DELTAS = 2**24
"""The most values of a page whose lengths are all decoded at once."""

_HEADER_BYTES = 2**13
_LONGEST_HEADER = 2**24  # of Arrow's own
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_BY_DICTIONARY = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_DELTA_LENGTHS, _DELTA_BYTES = 6, 7
_SMALL_DICTIONARY = 2**16
_MANY_ENTRIES = 2**20


_PLACE = {4: None, 5: None, 7: None, 9: None, 11: None}
"""Of ColumnMetaData: codec, num_values, total_compressed_size, data_page_offset, dictionary_page_offset."""

_FOOTER = {4: [{1: [{3: _PLACE}]}]}
"""What is read of FileMetaData: of the columns (1) of its row groups (4) the meta_data (3)."""

_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_PLAIN = 0

_BYTES = {1: 0, 2: 0, 3: 1, 7: 8}
"""That values of Thrift's types take which are always of one length: true and false, a byte, a double."""

Places = Sequence[Sequence[dict[int, int]]]
"""Of each row group and leaf column, where its pages are, by the numbers of _PLACE."""


class _Page(NamedTuple):
    kind: int
    values: int
    size: int
    """Bytes after decompression."""
    encoding: int
    body: tuple[int, int]
    """Where its bytes are in the file: from, and how many."""


class _Chunk(NamedTuple):
    """A column in a row group: what a run of its rows can take at most."""

    name: str
    width: int
    """Bytes that a value takes beside its text."""
    longest: int
    """Bytes of the longest text that a few bytes of the page can stand for."""
    pages: list[_Page]
    repeated: bool

    @property
    def largest(self) -> int:
        """Bytes of the largest page."""
        return max((page.size for page in self.pages), default=0)

    def taken_by(self, rows: int) -> int:
        """The most bytes of any ``rows`` rows in a row; of a list, of all of the chunk, since a row may hold any number."""
        data = [page for page in self.pages if page.kind != _DICTIONARY]
        values = sum(page.values for page in data)
        if self.repeated:
            coded = sum(page.values for page in data if page.encoding not in {0, _DELTA_LENGTHS})
            return sum(page.size for page in data) + values * (8 + self.width) + coded * self.longest
        # Row groups as short as this one may follow, in the same batch.
        again = -(-rows // max(1, values))
        return again * _most_in_a_window(data, rows) + rows * (self.width + self.longest)


class Group(NamedTuple):
    """What columns of a row group take at most: as open pages, and for each of _BATCH_ROWS as so many rows."""

    pages: int
    rows: tuple[int, ...]

    @property
    def batch_rows(self) -> int | None:
        """How many rows to decode at a time; None where even one may take more than MOST_BYTES."""
        most = at_most(MOST_BYTES)
        fitting = (
            rows
            for limit in (min(_USUAL_BYTES, most), most)
            for rows, taken in zip(_BATCH_ROWS, self.rows, strict=True)
            if taken <= limit
        )
        return next(fitting, None) if self.pages <= most else None

    def __add__(self, other: Group) -> Group:  # type: ignore[override]  # of sizes, not of tuples
        return Group(self.pages + other.pages, tuple(map(add, self.rows, other.rows)))


_NOTHING = Group(0, (0,) * len(_BATCH_ROWS))


def places_of(stream: IO[bytes], source: str) -> Places:
    """Where the pages of a Parquet file are, by its footer. InputError where that cannot be read."""
    try:
        end = stream.seek(-8, io.SEEK_END)
        length = int.from_bytes(stream.read(4), "little")
        stream.seek(max(0, end - length))
        found, _ = _chosen(stream.read(min(length, end)), 0, _FOOTER, 0)
        return [[column[3] for column in group[1]] for group in found[4]]
    except (LookupError, TypeError, ValueError, OverflowError, OSError):
        raise Damaged(f"{source}: damaged: its footer cannot be read") from None


def group_sizes(
    file: pq.ParquetFile, stream: IO[bytes], places: Places, columns: Collection[str], source: str
) -> list[Group]:
    """What the named leaf columns take of each row group.

    ``places``: see :func:`places_of`.

    Raises:
        InputError: even one row at a time may take more than MOST_BYTES, or a header cannot be read.
    """
    return [
        _checked(chunks, group, source) for group, chunks in enumerate(_chunks(file, stream, places, columns, source))
    ]


def with_further(
    file: pq.ParquetFile, stream: IO[bytes], places: Places, group: int, needed: Group, further: Mapping[str, int]
) -> tuple[Group, list[str]]:
    """What a row group takes with those of the ``further`` leaf columns that can be decoded beside what is needed, and which.

    ``further``: the names, and which leaf of the file each is. One that is damaged, or takes too much, is not worth an error.
    """
    usual = _BATCH_ROWS.index(_FURTHER_ROWS)
    taken, kept = _NOTHING, []
    for name, at in further.items():
        try:
            more = taken + _group([_chunk(file, stream, places, group, at, "")])
        except InputError:
            continue
        if max(more.pages, more.rows[usual]) <= _FURTHER_BYTES and (needed + more).batch_rows:
            taken = more
            kept.append(name)
    return needed + taken, kept


def most_unpacked(
    file: pq.ParquetFile, stream: IO[bytes], places: Places, columns: Collection[str], source: str
) -> int:
    """The most bytes that the named leaf columns can take, decoded. Raises InputError as :func:`group_sizes`."""
    rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    found = _chunks(file, stream, places, columns, source)
    return sum(chunk.taken_by(count) for count, chunks in zip(rows, found, strict=True) for chunk in chunks)


def _chunks(
    file: pq.ParquetFile, stream: IO[bytes], places: Places, columns: Collection[str], source: str
) -> Iterator[list[_Chunk]]:
    wanted = [at for at in range(len(file.schema)) if file.schema.column(at).path in columns]
    for group in range(file.metadata.num_row_groups):
        yield [_chunk(file, stream, places, group, at, source) for at in wanted]


def _group(chunks: Sequence[_Chunk]) -> Group:
    taken = tuple(sum(chunk.taken_by(rows) for chunk in chunks) for rows in _BATCH_ROWS)
    return Group(sum(chunk.largest for chunk in chunks), taken)


def _checked(chunks: Sequence[_Chunk], group: int, source: str) -> Group:
    found = _group(chunks)
    if found.batch_rows is not None:
        return found
    if found.pages > at_most(MOST_BYTES):
        worst = max(chunks, key=lambda chunk: chunk.largest)
        raise _too_large(source, group, worst.name, f"a page of {size(worst.largest)}")
    taken, worst = max(((chunk.taken_by(_BATCH_ROWS[-1]), chunk) for chunk in chunks), key=lambda each: each[0])
    what = "lists that may take" if worst.repeated else "a row that may take"
    raise _too_large(source, group, worst.name, f"{what} {size(taken)}")


def _too_large(source: str, group: int, name: str, what: str) -> InputError:
    limit = size(at_most(MOST_BYTES))
    return InputError(
        f'{source}: row group {group + 1}, column "{name[:80]}": {what} when it is unpacked; {limit} is the most. '
        "Write it with smaller pages and row groups, pyarrow.parquet.write_table(table, FILE, write_batch_size=1, "
        "row_group_size=100), or as JSON lines; or, if you trust it, allow more: "
        f"{LIMIT_ENV}=4 (GiB) in the environment"
    )


def _most_in_a_window(pages: Sequence[_Page], rows: int) -> int:
    """The most bytes of the pages that any ``rows`` rows in a row are spread over."""
    most = begin = size = inner = 0  # ``inner``: the values of the window's pages but the first
    for end, page in enumerate(pages):
        size += page.size
        inner += page.values if end > begin else 0
        while begin < end and inner - page.values + 2 > rows:
            size -= pages[begin].size
            begin += 1
            inner -= pages[begin].values
        most = max(most, size)
    return most


def _chunk(file: pq.ParquetFile, stream: IO[bytes], places: Places, group: int, at: int, source: str) -> _Chunk:
    column = file.schema.column(at)
    name, is_text = str(column.path), column.physical_type == "BYTE_ARRAY"
    try:
        place = places[group][at]
        codec, values, size, start = (_number(place, field) for field in (4, 5, 7, 9))
        if 0 < place.get(11, 0) < start:
            start = place[11]
        pages = list(_pages(stream, start, start + size, values))
    except (IndexError, OverflowError, ValueError, OSError):
        raise Damaged(
            f'{source}: row group {group + 1}, column "{name[:80]}": damaged: a page has no header that can be read'
        ) from None
    for page in pages:
        if is_text and page.encoding in {_DELTA_LENGTHS, _DELTA_BYTES} and page.values > _MOST_DELTAS:
            raise _too_large(source, group, name, f"a page of {page.values:,} values")
    width = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 12
    longest = _longest(stream, pages, codec) if is_text else 0
    return _Chunk(name, width, longest, pages, repeated=column.max_repetition_level > 0)


def _longest(stream: IO[bytes], pages: Sequence[_Page], codec: int) -> int:
    """Bytes of the longest text that the pages may repeat: by a dictionary, or as the beginning of the value before."""
    longest = max((page.size for page in pages if page.encoding == _DELTA_BYTES), default=0)
    if any(page.encoding in _BY_DICTIONARY for page in pages if page.kind != _DICTIONARY):
        dictionaries = [page for page in pages if page.kind == _DICTIONARY]
        longest = max([longest, *(_longest_entry(stream, page, codec) for page in dictionaries)])
    return longest


def _longest_entry(stream: IO[bytes], page: _Page, codec: int) -> int:
    if (
        codec not in {_PLAIN, *_CODECS}
        or page.size <= _SMALL_DICTIONARY
        or page.values > _MANY_ENTRIES
        or page.size > at_most(MOST_BYTES)
    ):
        return page.size
    import pyarrow as pa

    stream.seek(page.body[0])
    data = stream.read(page.body[1])
    try:
        if codec != _PLAIN:
            data = pa.Codec(_CODECS[codec]).decompress(data, decompressed_size=page.size, asbytes=True)
        longest = at = 0
        for _ in range(page.values):
            length = int.from_bytes(data[at : at + 4], "little")
            longest = max(longest, length)
            at += 4 + length
    except (pa.ArrowException, OSError, ValueError):
        return page.size  # whatever reads it next says why
    return min(longest, page.size)


def _pages(stream: IO[bytes], start: int, end: int, values: int) -> Iterator[_Page]:
    """The pages of a column chunk, as far as Arrow reads them. IndexError or ValueError where no header can be read."""
    seen = 0
    while start < end and seen < values:
        header, length = _header(stream, start, end)
        size, packed = _number(header, 2), _number(header, 3)
        of_kind = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind := _number(header, 1), 0), {})
        if not isinstance(of_kind, dict) or size < 0 or packed < 0:
            raise ValueError("no page")
        count = _number(of_kind, 1) if of_kind else 0
        if count < 0:
            raise ValueError("no page")
        encoding = _number(of_kind, 4 if kind == _DATA_V2 else 2) if of_kind else 0
        if of_kind:
            yield _Page(kind, count, size, encoding, (start + length, packed))
        seen += 0 if kind == _DICTIONARY else count
        start += length + packed


def _number(fields: dict[int, Any], name: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int):
        raise ValueError(f"field {name} is missing")  # noqa: TRY004  # the file is wrong, not the caller
    return value


def _header(stream: IO[bytes], start: int, end: int) -> tuple[dict[int, Any], int]:
    """The fields of a page's header, by number, and its length."""
    size = _HEADER_BYTES
    while True:
        stream.seek(start)
        data = stream.read(min(size, end - start))
        try:
            return _struct(data, 0, 0)
        except IndexError:  # statistics may make it long
            if size > _LONGEST_HEADER or len(data) < size:
                raise
            size *= 8


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    name = 0
    if depth > 8:
        raise ValueError("nested too deeply")
    while kind := data[at] & 15:
        step = data[at] >> 4
        at += 1
        if step:
            name += step
        else:
            name, at = _integer(data, at)
        found[name], at = _value(data, at, kind, depth)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[object, int]:
    """A value of one of Thrift's compact types; only numbers and structs are of use here."""
    if kind in {1, 2}:
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in {4, 5, 6}:
        return _integer(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _varint(data, at)
        return None, at + length
    if kind == 12:
        return _struct(data, at, depth + 1)
    raise ValueError("a list in a page's header")


def _chosen(data: bytes, at: int, wanted: Mapping[int, Any], depth: int) -> tuple[dict[int, Any], int]:
    """The ``wanted`` fields of a struct, by number: None for a number, and for structs and lists of them what of these."""
    found: dict[int, Any] = {}
    name = 0
    while kind := data[at] & 15:
        step = data[at] >> 4
        at += 1
        if step:
            name += step
        else:
            name, at = _integer(data, at)
        if name not in wanted:
            at = _skipped(data, at, kind, depth)
        elif (part := wanted[name]) is None and kind in {5, 6}:
            found[name], at = _integer(data, at)
        elif isinstance(part, dict) and kind == 12:
            found[name], at = _chosen(data, at, part, depth + 1)
        elif isinstance(part, list) and kind == 9:
            count, kind, at = _list(data, at)
            if kind != 12:
                raise ValueError("no list of structs")
            found[name] = []
            for _ in range(count):
                each, at = _chosen(data, at, part[0], depth + 1)
                found[name].append(each)
        else:
            raise ValueError(f"field {name} is of another type")
    return found, at + 1


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """How many values a list has, of which type, and where they begin."""
    count, kind = data[at] >> 4, data[at] & 15
    if count == 15:
        count, at = _varint(data, at + 1)
        return count, kind, at
    return count, kind, at + 1


def _skipped(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where a value of any type ends. ValueError for what no footer has, also lists whose values take no byte."""
    if kind in {4, 5, 6}:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == 8:
        length, at = _varint(data, at)
        return at + length
    if kind in _BYTES:
        return at + _BYTES[kind]
    if depth > 16:
        raise ValueError("nested too deeply")
    if kind == 12:
        while inner := data[at] & 15:
            at = at + 1 if data[at] >> 4 else _integer(data, at + 1)[1]
            at = _skipped(data, at, inner, depth + 1)
        return at + 1
    count, inner, at = _list(data, at)
    if kind not in {9, 10} or not _BYTES.get(inner, 1):
        raise ValueError("a type that no footer has")
    for _ in range(count):
        at = _skipped(data, at, inner, depth + 1)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number without end")


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
