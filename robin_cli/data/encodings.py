"""The encoding of text files: UTF-8, or else recognised, or the one that the user names."""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from robin_cli.data.compression import MAGIC, NAMES
from robin_cli.model.errors import InputError, shown

_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WIDE = (
    (rb"\xff\xfe|\xfe\xff", "utf-16"),
    (rb"[^\0]\0[^\0]\0", "utf-16-le"),
    (rb"\0[^\0]\0[^\0]", "utf-16-be"),
)
"""The first bytes of UTF-16: a byte order mark, or two ASCII letters."""

_CALLED = {
    **{f"cp{number}": f"Windows-{number}" for number in (874, *range(1250, 1259))},
    "cp932": "Shift-JIS",
    "gb18030": "GBK",
    "cp949": "Korean (cp949)",
    "big5": "Big5",
    "koi8_u": "KOI8",
    "mac_roman": "Mac Roman",
    "mac_cyrillic": "Mac Cyrillic",
    "mac_greek": "Mac Greek",
    "mac_latin2": "Mac Latin 2",
    "mac_turkish": "Mac Turkish",
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
}
_LATIN_1 = "äöüß|àâçéèêëîïôùûüœæ|áéíñóúü|áâãàçéêíóôõú|àèéìòù|åäöæøé|áðéíóúýþæö"
_LATIN_2 = "ąćęłńóśźż|áčďéěíňóřšťúůýž|áäčďéíĺľňóôŕšťúýž|áéíóöőúüű|ăâîşţ|čćđšž"
_ALPHABETS = {
    "cp1252 mac_roman": _LATIN_1,
    "cp1250 mac_latin2": _LATIN_2,
    "cp1255": "HEBREW LETTER",
    "cp1251 mac_cyrillic koi8_u": "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґў",
    "cp1253 mac_greek": "GREEK",
    "cp1254 mac_turkish": "çğıi̇öşüâîû",
    "cp932": "CJK,HIRAGANA,KATAKANA",
    "gb18030 big5": "CJK",
    "cp949": "HANGUL",
    "cp1257": "āčēģīķļņšūž|ąčęėįšųūž|äõöüšž",
    "cp1256": "ARABIC LETTER",
    "cp874": "THAI",
}
_LETTERS = {name: each for names, each in _ALPHABETS.items() for name in names.split()}
"""For each encoding the letters beside a to z of its languages, or in capitals the names of its
scripts; the likeliest first."""

_MARKS = "’‘“”„–—…€«»¿¡°、。「」（）！？：；，،؛؟\xa0£¥¢§©®™±×÷·•½¼¾ºª¹²³†‡‰µ"
_WITHIN_WORDS = re.compile(r"(?<=[^\W\d_])[“”„…†‡•](?=[^\W\d_])")
"""Marks that no word holds: in another encoding they are letters."""
_EAST_ASIAN = ("cp932", "gb18030", "big5", "cp949")
_CHUNK_BYTES = 2**20
_SAMPLE_BYTES = 2**15
_LEAST_FIT = 0.7
_RARE = 0.05
"""What the letters of a Mac or of KOI8 count less: where they fit alike, the file is from Windows."""

_FOREIGN = {
    **{
        start: f"{NAMES[end]}-compressed. Let its name end in {end}."
        for start, end in MAGIC.items()
    },
    b"PAR1\x15": "Parquet. Let its name end in .parquet.",
    b"PK\x03\x04": "a zip or Excel file. Let its name end in .xlsx or .ods, if that is what it is.",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook, or one with a password. Save it as .xlsx, without a "
    "password.",
}


class Text(io.TextIOWrapper):
    """A text stream that leaves its file open, for who opened it closes it."""

    def __del__(self) -> None:
        with suppress(ValueError):  # it is closed
            self.detach()


def utf8_of(stream: BinaryIO, source: str, encoding: str | None) -> BinaryIO:
    """Return a JSON file as UTF-8, which JSON is unless the user or a byte order mark says else."""
    head = stream.read(16)
    stream.seek(0)
    if encoding or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, _ = text_of(stream, source, encoding)
        return io.BytesIO(text.read().encode("utf-8", "surrogateescape"))
    _refuse_other_kinds(head, source)
    return stream


def text_of(stream: BinaryIO, source: str, encoding: str | None) -> tuple[Text, str]:
    """Return a file as text, and how it was read: "" for sound UTF-8.

    Bytes that are not in the encoding become halves of surrogate pairs, see :func:`wrong_byte`.

    Args:
        stream: at its beginning; it can seek.
        encoding: the user's choice; "" to recognise it; None if the user cannot choose.

    Raises:
        InputError: no encoding is recognised, or the file is no text.
    """
    head = stream.read(16)
    stream.seek(0)
    if encoding and head.startswith(_BYTE_ORDER_MARKS):
        encoding = ""  # the file says it itself
    wide = next((name for start, name in _WIDE if re.match(start, head, re.DOTALL)), "")
    if not wide:
        _refuse_other_kinds(head, source)
    if not encoding and not wide and _is_utf8(stream):
        return Text(stream, "utf-8-sig", newline=""), ""
    sample, is_mostly_utf8 = _sample_of(stream)
    name = encoding or wide or ("" if is_mostly_utf8 else _recognise(sample, source, encoding))
    errors = "strict" if name == wide and wide else "surrogateescape"
    text = Text(stream, name or "utf-8-sig", errors, newline="")
    word = next(_foreign_words(sample.decode(name or "utf-8", "ignore")), "")
    quoted = f' ("{shown(word, 20)}"; --encoding names another)'
    has_choice = encoding is not None and word and name not in ("", wide)
    return text, called(name) + quoted * bool(has_choice) if name else ""


def called(name: str) -> str:
    """Return the name of an encoding as people know it."""
    return _CALLED.get(name.removesuffix("-sig"), name.upper())


def wrong_byte(text: str) -> int | None:
    """Return the first byte that was not in the file's encoding; None if there is none."""
    wrong = re.search("[\udc80-\udcff]", text)
    return ord(wrong[0]) - 0xDC00 if wrong else None


def or_name_it(encoding: str | None, example: str = ": --encoding NAME") -> str:
    """Return the advice to name a file's encoding; "" if no flag can."""
    return f", or name its encoding{example}" if encoding is not None else ""


def _refuse_other_kinds(head: bytes, source: str) -> None:
    """Raise InputError if the first bytes are those of another kind of file than its name says."""
    for start, what in _FOREIGN.items():
        if head.startswith(start):
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


def _recognise(sample: bytes, source: str, encoding: str | None) -> str:
    """Return the encoding in which a sample reads most like a language. InputError if none does.

    Letters decide, because a few words are enough for that; charset-normalizer's statistics where
    several fit alike.
    """
    from charset_normalizer import from_bytes  # takes .1 s

    fits = {name: _fit(sample, name) for name in _LETTERS}
    best = max(fits.values())
    if best < _LEAST_FIT:
        advice = or_name_it(encoding, ", as --encoding cp1252")
        raise InputError(
            f"{source}: is not UTF-8, and its encoding is not recognised. Save it as UTF-8{advice}"
        )
    alike = [name for name, fit in fits.items() if fit == best]
    matches = from_bytes(sample, cp_isolation=alike)
    ranks = {each.encoding: each.coherence - each.chaos for each in matches}
    return max(alike, key=lambda name: ranks.get(name, 0.0))


def _fit(sample: bytes, encoding: str) -> float:
    """Return the share of the letters beside a to z that a language of the encoding has.

    It is the mean of the best language's share and that of all together.
    """
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    foreign = sum(not each.isascii() and each not in _MARKS for each in text)
    foreign += len(_WITHIN_WORDS.findall(text))
    if not foreign:
        return 1.0
    words = (_east_asian_words if encoding in _EAST_ASIAN else _foreign_words)(text)
    letters = Counter("".join(word for word in words if _is_word(word, encoding)))
    of_languages = [
        {each for each in letters if _is_of(each, alphabet)}
        for alphabet in _LETTERS[encoding].split("|")
    ]
    best = max(sum(letters[each] for each in some) for some in of_languages)
    union = sum(letters[each] for each in set().union(*of_languages))
    is_rare = encoding.startswith(("mac", "koi8"))
    return round((best + union) / (2 * foreign) - _RARE * is_rare, 2)


def _is_of(letter: str, alphabet: str) -> bool:
    if letter.isascii():
        return False
    if alphabet.isupper():
        return unicodedata.name(letter, "").startswith(tuple(alphabet.split(",")))
    return letter.lower() in alphabet


def _is_word(word: str, encoding: str) -> bool:
    """Return whether a word may be one: in one case, and with letters a to z only in Latin.

    In Latin a word has some of these.
    """
    if word not in (word.lower(), word.upper(), word.capitalize()):
        return False
    has_ascii = re.search("[A-Za-z]", word) is not None
    if not unicodedata.name(_LETTERS[encoding][0]).startswith("LATIN SMALL"):
        return not has_ascii
    return len(word) == 1 or has_ascii


def _foreign_words(text: str) -> Iterator[str]:
    """Yield the words that are not ASCII alone."""
    letters = (each if unicodedata.category(each)[0] in "LM" else " " for each in text)
    return (word for word in "".join(letters).split() if not word.isascii())


def _east_asian_words(text: str) -> Iterator[str]:
    """Yield the same without the Latin words that touch them.

    A lone sign beside Latin may be two letters of another language.
    """
    for word in _foreign_words(text):
        parts = re.split("[A-Za-z]+", word)
        yield from (part for part in parts if len(part) > 1 or len(parts) == 1)
