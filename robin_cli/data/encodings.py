"""The encoding of text files: UTF-8, or else recognised, or the one that the user names."""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from contextlib import suppress
from typing import BinaryIO

from robin_cli.data.compression import MAGIC, NAMES
from robin_cli.data.recognise import foreign_words, recognise
from robin_cli.model.errors import InputError, shown

_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WIDE = {
    rb"\xff\xfe|\xfe\xff": "utf-16",
    rb"[^\0]\0[^\0]\0": "utf-16-le",
    rb"\0[^\0]\0[^\0]": "utf-16-be",
}
"""The first bytes of UTF-16: a byte order mark, or two ASCII letters."""

_CALLED = {
    **{f"cp{number}": f"Windows-{number}" for number in (874, *range(1250, 1259))},
    **{f"utf-16{order}": "UTF-16" for order in ("", "-le", "-be")},
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "gb18030": "GBK",
    "cp949": "Korean (cp949)",
    "big5": "Big5",
    "koi8_u": "KOI8",
    "iso8859_2": "ISO-8859-2",
    "mac_roman": "Mac Roman",
    "mac_cyrillic": "Mac Cyrillic",
    "mac_greek": "Mac Greek",
    "mac_latin2": "Mac Latin 2",
    "mac_turkish": "Mac Turkish",
}
_OTHER_KINDS = {
    **{
        magic: f"{NAMES[end]}-compressed. Let its name end in {end}."
        for magic, end in MAGIC.items()
    },
    b"PAR1\x15": "Parquet. Let its name end in .parquet.",
    b"PK\x03\x04": "a zip or Excel file. Let its name end in .xlsx or .ods, if that is what it is.",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook, or one with a password. Save it as .xlsx, without "
    "a password.",
}
WRONG_BYTES = "\udc80-\udcff"
_CHUNK_BYTES = 2**20
_SAMPLE_BYTES = 2**15


class Text(io.TextIOWrapper):
    """A text stream that leaves its file open, for who opened it closes it."""

    def __del__(self) -> None:
        with suppress(ValueError):  # it is closed
            self.detach()


def utf8_of(stream: BinaryIO, source: str, encoding: str | None) -> BinaryIO:
    """Return a JSON file as UTF-8, which JSON is unless the user or a byte order mark says else."""
    head = stream.read(16)
    stream.seek(0)
    if encoding or head.startswith(_BYTE_ORDER_MARKS[1:]):
        text, _ = text_of(stream, source, encoding)
        return io.BytesIO(text.read().encode("utf-8", "surrogateescape"))
    _refuse_other_kinds(head, source)
    return stream


def text_of(stream: BinaryIO, source: str, encoding: str | None) -> tuple[Text, str]:
    """Return a file as text, and how it was read: "" for sound UTF-8.

    Bytes that are not in the encoding become WRONG_BYTES: a byte is 0xDC00 less.

    Args:
        stream: at its beginning; it can seek.
        encoding: the user's choice; "" to recognise it; None if the user cannot choose.

    Raises:
        InputError: no encoding is recognised, or the file is no text.
    """
    head = stream.read(16)
    stream.seek(0)
    wide = next((name for start, name in _WIDE.items() if re.match(start, head, re.DOTALL)), "")
    if encoding and head.startswith(_BYTE_ORDER_MARKS):
        encoding = ""  # the file says it itself
    elif encoding and codecs.lookup(encoding).name == "utf-16":
        encoding = wide or "utf-16-le"  # as Windows writes it; Python wants a mark
    if not wide:
        _refuse_other_kinds(head, source)
    if not encoding and not wide and _is_utf8(stream):
        return Text(stream, "utf-8-sig", newline=""), ""
    sample, is_mostly_utf8 = _sample_of(stream)
    if not encoding and is_mostly_utf8 and not wide:
        return Text(stream, "utf-8-sig", "surrogateescape", newline=""), ""
    name = encoding or wide or recognise(sample)
    if not name:
        raise InputError(
            f"{source}: is not UTF-8, and its encoding is not recognised. Save it as UTF-8"
            + or_name_it(encoding, ", as --encoding cp1252")
        )
    if name == wide:
        return Text(stream, name, newline=""), called(name)
    words = foreign_words(sample.decode(name, "ignore"))[:1] if encoding is not None else []
    quoted = [f' ("{shown(word, 20)}"; --encoding names another)' for word in words]
    return Text(stream, name, "surrogateescape", newline=""), "".join([called(name), *quoted])


def called(encoding: str) -> str:
    """Return the name of an encoding as people know it."""
    name = encoding.removesuffix("-sig")
    return _CALLED.get(name, name.upper())


def or_name_it(encoding: str | None, example: str = ": --encoding NAME") -> str:
    """Return the advice to name a file's encoding; "" if no flag can."""
    return f", or name its encoding{example}" if encoding is not None else ""


def _refuse_other_kinds(head: bytes, source: str) -> None:
    for magic, what in _OTHER_KINDS.items():
        if head.startswith(magic):
            raise InputError(f"{source}: the name says text, but the file is {what}")


def _is_utf8(stream: BinaryIO) -> bool:
    """Return whether the whole stream is UTF-8, and rewind it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := stream.read(_CHUNK_BYTES):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    finally:
        stream.seek(0)
    return True


def _sample_of(stream: BinaryIO) -> tuple[bytes, bool]:
    """Return the first lines that are not ASCII, and whether most of what is not ASCII is UTF-8.

    Other encodings are UTF-8 only by chance, up to half of their bytes. The stream is rewound.
    """
    sample, size = list[bytes](), 0
    foreign, sound = Counter[str](), Counter[str]()
    for line in (part for whole in stream for part in whole.splitlines() if not part.isascii()):
        ascii_bytes = len(line.decode("ascii", "ignore"))
        kept_bytes = len(line.decode("utf-8", "ignore").encode())
        foreign.update(bytes=len(line) - ascii_bytes, lines=1)
        sound.update(bytes=kept_bytes - ascii_bytes, lines=kept_bytes == len(line))
        size += len(line) + 1
        if not sample or size <= _SAMPLE_BYTES:
            sample.append(line)  # whole, because a cut might split a character
    stream.seek(0)
    is_mostly_utf8 = 2 * sound["lines"] >= foreign["lines"]
    return b"\n".join(sample), is_mostly_utf8 or sound["bytes"] >= 0.8 * foreign["bytes"]
