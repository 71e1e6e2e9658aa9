"""Read Inspect's .eval logs as rows: zip files with a JSON file for each sample, read in place and in sequence."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from robin_cli.data import compression
from robin_cli.data.formats.json_rows import NotJSON, parse
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted
from robin_cli.model.errors import InputError, shown
from robin_logs.inspect_ai import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADERS = ("header.json", "_journal/start.json")
"""The members with the task and model of the samples: one written at the end, one at the start for an interrupted log."""

_SAMPLE = re.compile(
    r"samples/(?P<id>.+)_epoch_(?P<epoch>\d{1,9})(?P<parts>/sample)?\.json", re.DOTALL
)
_ATTACHMENTS = re.compile(
    r"(?P<sample>samples/.+_epoch_\d{1,9})/attachments/(?P<first>\d{1,9})\.json", re.DOTALL
)

_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_LOCAL = struct.Struct("<4s22x2H")
"""The fixed header before a member's data: its signature, and the lengths of its name and its extra field, which follow."""

_DAMAGED = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    EOFError,
    struct.error,
    IndexError,
    OverflowError,
)
_AGAIN = "Copy the log again, or write it anew: inspect log convert"


class _Sample(NamedTuple):
    """A sample's member, or the parts of it that robin needs, in logs written in chunks."""

    member: zipfile.ZipInfo
    attachments: list[tuple[int, zipfile.ZipInfo]]
    metadata: zipfile.ZipInfo | None


def read_eval(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:  # noqa: ARG001 (a Reader)
    """Return the samples of a log by epoch and id, each with the log's ``eval``, which has the task and model.

    Raises InputError for a file that is not such a log, or has no samples.
    """
    archive = _Archive(stream, source)
    head = archive.head()
    samples = list(archive.samples())
    if not samples:
        raise InputError(
            f"{source}: the log holds no samples. Run the evaluation to its end, and without --no-log-samples."
        )
    return RowTable(
        None, "row", ((number, archive.row(each, head)) for number, each in enumerate(samples, 1))
    )


class _Archive:
    """A zip file of samples. Members are read in place: no path from a member's name is ever opened."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._stream, self._source = stream, source
        try:
            with zipfile.ZipFile(stream) as archive:
                # A sample that was logged again is there twice; the later one counts.
                self._members: Mapping[str, zipfile.ZipInfo] = {
                    each.filename: each for each in archive.infolist()
                }
        except _DAMAGED as error:
            raise InputError(
                f"{source}: is no zip file, or a damaged one ({shown(error, 80)}). {_AGAIN}"
            ) from None

    def head(self) -> object:
        """Return the log's task and model. InputError if it has none."""
        for name in _HEADERS:
            if name in self._members:
                try:
                    found = self._json(self._members[name])
                except BadRow as bad:
                    raise InputError(f"{self._source}: {bad}") from None
                if isinstance(found, dict) and isinstance(found.get(HEAD), dict):
                    return found[HEAD]
        raise InputError(
            f"{self._source}: a zip file, but no log of Inspect: no {_HEADERS[0]} in it says which task and model it is of. "
            "Name the .eval file that inspect eval wrote."
        )

    def samples(self) -> Iterator[_Sample]:
        """Return the samples by epoch and id, numbers in order, so that the first few are the same for each model."""
        attachments: dict[str, list[tuple[int, zipfile.ZipInfo]]] = {}
        for name, member in self._members.items():
            if found := _ATTACHMENTS.fullmatch(name):
                attachments.setdefault(found["sample"], []).append((int(found["first"]), member))
        samples = [found for found in map(_SAMPLE.fullmatch, self._members) if found]
        for each in sorted(
            samples, key=lambda match: (int(match["epoch"]), match["id"].zfill(20), match.string)
        ):
            whole = each.string.removesuffix("/sample.json")
            metadata = self._members.get(f"{whole}/metadata.json") if each["parts"] else None
            yield _Sample(self._members[each.string], attachments.get(whole, []), metadata)

    def row(self, sample: _Sample, head: object) -> Row | BadRow:
        """Return a sample with the log's head, or its error."""
        try:
            data = self._data(sample.member)
            found = self._parsed(data, sample.member)
            if not isinstance(found, dict):
                return BadRow(
                    f"{shown(sample.member.filename)} is no sample. {_AGAIN}", "no sample"
                )
            row: Row = {HEAD: head, **found}
            if sample.metadata:
                row["metadata"] = self._json(sample.metadata)
            if sample.attachments and b"attachment://" in data:
                row["attachments"] = self._numbered(sample.attachments)
        except BadRow as bad:
            return bad
        return row

    def _numbered(self, parts: list[tuple[int, zipfile.ZipInfo]]) -> Row:
        """Yield the texts of consecutive lists, each with its index over all lists."""
        numbered: Row = {}
        for first, member in parts:
            texts = self._json(member)
            numbered |= {
                str(first + at): text
                for at, text in enumerate(texts if isinstance(texts, list) else [])
            }
        return numbered

    def _json(self, member: zipfile.ZipInfo) -> object:
        """Return a member's content. BadRow if it is damaged."""
        return self._parsed(self._data(member), member)

    def _parsed(self, data: bytes, member: zipfile.ZipInfo) -> object:
        try:
            return parse(data)
        except NotJSON as error:
            raise BadRow(f"{shown(member.filename)}: {error} {_AGAIN}", "not JSON") from None

    def _data(self, member: zipfile.ZipInfo) -> bytes:
        called = shown(member.filename)
        try:
            data = self._unpacked(member)
        except (*_DAMAGED, *compression.DAMAGED) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise BadRow(f"{called} is damaged ({shown(error, 80)}). {_AGAIN}", "damaged") from None
        if zlib.crc32(data) != member.CRC:
            raise BadRow(f"{called} is damaged (it is not what was written). {_AGAIN}", "damaged")
        return data

    def _unpacked(self, member: zipfile.ZipInfo) -> bytes:
        """Unpack a member: zipfile supports Zstandard, which newer versions of Inspect use, only from Python 3.14 on."""
        self._stream.seek(member.header_offset)
        mark, name, extra = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        if mark != b"PK\x03\x04" or member.flag_bits & 1:
            raise ValueError(
                "it is encrypted"
                if member.flag_bits & 1
                else "it does not stand where the list says"
            )
        self._stream.seek(name + extra, io.SEEK_CUR)
        packed = self._stream.read(member.compress_size)
        if member.compress_type == _STORED:
            return packed
        if member.compress_type == _DEFLATED:
            return zlib.decompress(packed, -zlib.MAX_WBITS)
        if member.compress_type == _ZSTANDARD:
            with compression.decompressing(io.BytesIO(packed), ".zst") as unpacked:
                return unpacked.read()
        raise ValueError(f"packed by method {member.compress_type}, which robin does not know")


FORMAT = Format(read_eval, (b"PK\x03\x04",), packable=False)
