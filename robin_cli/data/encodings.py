"""The encoding of text files: UTF-8, or else recognised, or the one that the user names."""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections import Counter
from itertools import accumulate
from typing import BinaryIO

from robin_cli.data.lines import refuse_foreign
from robin_cli.model.errors import InputError, shown

UTF8 = "UTF-8"

_WIDE = (
    (rb"\xff\xfe|\xfe\xff", "utf-16"),
    (rb"[^\0]\0[^\0]\0", "utf-16-le"),
    (rb"\0[^\0]\0[^\0]", "utf-16-be"),
)
"""The first bytes of UTF-16: a byte order mark, or two ASCII letters."""

_NAMES = {
    **{f"cp{number}": f"Windows-{number}" for number in range(1250, 1259)},
    "cp874": "Windows-874",
    "cp932": "Shift-JIS",
    "gb18030": "GBK",
    "cp949": "Korean (cp949)",
    "big5": "Big5",
    "mac_roman": "Mac Roman",
    "mac_cyrillic": "Mac Cyrillic",
    "mac_greek": "Mac Greek",
    "mac_latin2": "Mac Latin 2",
    "mac_turkish": "Mac Turkish",
}
_LETTERS = {
    "cp1252": (
        "äöüß",
        "àâçéèêëîïôùûüœæ",
        "áéíñóúü",
        "áâãàçéêíóôõú",
        "àèéìòù",
        "åäöæøé",
        "áðéíóúýþæö",
    ),
    "cp1250": (
        *("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž"),
        *("áéíóöőúüű", "ăâîşţ", "čćđšž"),
    ),
    "cp1255": ("HEBREW LETTER",),
    "cp1251": ("абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґў",),
    "cp1253": ("GREEK",),
    "cp1254": ("çğıi̇öşüâîû",),
    "cp932": ("CJK|HIRAGANA|KATAKANA",),
    "gb18030": ("CJK",),
    "big5": ("CJK",),
    "cp949": ("HANGUL",),
    "cp1257": ("āčēģīķļņšūž", "ąčęėįšųūž", "äõöüšž"),
    "cp1256": ("ARABIC LETTER",),
    "cp874": ("THAI",),
}
_LETTERS |= {
    "mac_roman": _LETTERS["cp1252"],
    "mac_latin2": _LETTERS["cp1250"],
    "mac_cyrillic": _LETTERS["cp1251"],
    "mac_greek": _LETTERS["cp1253"],
    "mac_turkish": _LETTERS["cp1254"],
}
"""The letters beside a to z of the languages of each encoding, or the names of their scripts; the likeliest first."""

_MARKS = "’‘“”„–—…€«»¿¡°、。「」（）！？：；，،؛؟\xa0£¥¢§©®™±×÷·•½¼¾ºª¹²³†‡‰µ"
_WITHIN_WORDS = re.compile(r"(?<=[^\W\d_])[“”„…†‡•](?=[^\W\d_])")
"""Marks that no word holds: in another encoding they are letters."""
_EAST_ASIAN = ("cp932", "gb18030", "big5", "cp949")
_CHUNK_BYTES = 2**20
_SAMPLE_BYTES = 2**15
_LEAST_FIT = 0.7
_RARE = 0.05
"""What the letters of a Mac count less: where they fit alike, the file is from elsewhere."""


def in_utf8(stream: BinaryIO, source: str, encoding: str = "") -> BinaryIO:
    """Return a JSON file as UTF-8: JSON is UTF-8, unless the user or a byte order mark names another encoding."""
    head = stream.read(2)
    stream.seek(0)
    is_other = encoding or head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return as_utf8(stream, source, encoding)[0] if is_other else stream


def as_utf8(stream: BinaryIO, source: str, encoding: str = "") -> tuple[BinaryIO, str]:
    """Return a text file as UTF-8, and how it was read, for a note: "" for UTF-8.

    A file in UTF-8 with some lines that are not is returned as it is.

    Args:
        stream: at its beginning; it can seek.
        encoding: the user's choice; "" to recognise it.

    Raises:
        InputError: the file is not in this encoding, none is recognised, or it is no text.
    """
    head = stream.read(16)
    stream.seek(0)
    wide = next((name for begin, name in _WIDE if re.match(begin, head, re.DOTALL)), "")
    if not wide:
        refuse_foreign(head, source)
    if not encoding and not wide and _is_utf8(stream):
        return stream, ""
    data = stream.read()
    foreign = [line for line in data.splitlines() if not line.isascii()]
    if not encoding and not wide and _are_mostly_utf8(foreign):
        return io.BytesIO(data), ""
    name = encoding or wide or _recognise(_sample_of(foreign), source)
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        if name == wide:
            raise InputError(
                f"{source}: begins as UTF-16, and is cut short or damaged ({error.reason}). Save it as UTF-8."
            ) from None
        line = data.count(b"\n", 0, error.start) + 1
        known = _NAMES.get(name, name.upper())
        raise InputError(
            f"{source}:{line}: byte 0x{data[error.start]:02X} is not {known}. Save the file as UTF-8, or name its encoding: "
            "--encoding NAME."
        ) from None
    return io.BytesIO(text.removeprefix("\ufeff").encode()), _note(name, text, wide)


def _sample_of(lines: list[bytes]) -> bytes:
    """Return the first lines, as many as fit into a sample, and at least one: a cut might split a character."""
    ends = accumulate(len(line) + 1 for line in lines)
    return b"\n".join(lines[: max(1, sum(end <= _SAMPLE_BYTES for end in ends))])


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


def _are_mostly_utf8(foreign: list[bytes]) -> bool:
    """Return whether at least half of the lines that are not ASCII are UTF-8: other encodings are so only by chance."""
    sound = sum(line.decode("utf-8", "ignore").encode() == line for line in foreign)
    return 2 * sound >= len(foreign)


def _recognise(sample: bytes, source: str) -> str:
    """Return the encoding in which a sample reads most like a language. InputError if it does in none.

    Letters decide, because a few words are enough for that; charset-normalizer's statistics where several fit alike.
    """
    from charset_normalizer import from_bytes  # takes .1 s

    fits = {name: _fit(sample, name) for name in _LETTERS}
    best = max(fits.values())
    if best < _LEAST_FIT:
        raise InputError(
            f"{source}: is not UTF-8, and its encoding is not recognised. Save it as UTF-8, or name its encoding, as "
            "--encoding cp1252"
        )
    alike = [name for name, fit in fits.items() if fit == best]
    ranks = {
        each.encoding: each.coherence - each.chaos
        for each in from_bytes(sample, cp_isolation=alike)
    }
    return max(alike, key=lambda name: ranks.get(name, 0.0))


def _fit(sample: bytes, encoding: str) -> float:
    """Return the share of the letters beside a to z that are of the encoding's languages: of one, and of all, as a mean."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    foreign = sum(not each.isascii() and each not in _MARKS for each in text)
    foreign += len(_WITHIN_WORDS.findall(text))
    if not foreign:
        return 1.0
    alphabets = _LETTERS[encoding]
    words = (_east_asian_words if encoding in _EAST_ASIAN else _foreign_words)(text)
    letters = Counter("".join(word for word in words if _is_word(word, encoding)))
    fitting = [{each for each in letters if _is_of(each, alphabet)} for alphabet in alphabets]
    shares = [
        sum(letters[each] for each in some) / foreign for some in (*fitting, set().union(*fitting))
    ]
    return round((max(shares[:-1]) + shares[-1]) / 2 - _RARE * encoding.startswith("mac"), 2)


def _is_of(letter: str, alphabet: str) -> bool:
    if letter.isascii():
        return False
    if alphabet.isupper():
        return unicodedata.name(letter, "").startswith(tuple(alphabet.split("|")))
    return letter.lower() in alphabet


def _is_word(word: str, encoding: str) -> bool:
    """Return whether a word may be one: in one case, with letters a to z only in Latin, and there with some of them."""
    if word not in (word.lower(), word.upper(), word.capitalize()):
        return False
    is_latin = unicodedata.name(_LETTERS[encoding][0][0]).startswith("LATIN SMALL")
    if not is_latin:
        return not re.search("[A-Za-z]", word)
    return len(word) == 1 or re.search("[A-Za-z]", word) is not None


def _foreign_words(text: str) -> list[str]:
    """Return the words that are not ASCII alone."""
    letters = (each if unicodedata.category(each)[0] in "LM" else " " for each in text)
    return [word for word in "".join(letters).split() if not word.isascii()]


def _east_asian_words(text: str) -> list[str]:
    """Return the same without the Latin words that touch them; a lone sign there may be two letters of another language."""
    parts = (re.split("[A-Za-z]+", word) for word in _foreign_words(text))
    return [part for of_word in parts for part in of_word if len(part) > 1 or len(of_word) == 1]


def _note(name: str, text: str, wide: str) -> str:
    """Return how the file was read, with a word that another reading would change."""
    if name == wide:
        return "UTF-16"
    word = next(iter(_foreign_words(text)), "")
    return _NAMES.get(name, name) + f' ("{shown(word, 20)}"; --encoding names another)' * bool(word)
