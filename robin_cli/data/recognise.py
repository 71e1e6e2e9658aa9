"""Recognise the encoding of a text that is not UTF-8, by the letters of the languages it is for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_LATIN_1 = "äöüß|àâçéèêëîïôùûüœæ|áéíñóúü|áâãàçéêíóôõú|àèéìòù|åäöæøé|áðéíóúýþæö"
_LATIN_2 = "ąćęłńóśźż|áčďéěíňóřšťúůýž|áäčďéíĺľňóôŕšťúýž|áéíóöőúüű|ăâîşţ|čćđšž"
_ALPHABETS = {
    "cp1252 mac_roman": _LATIN_1,
    "cp1250 iso8859_2 mac_latin2": _LATIN_2,
    "cp1255": "HEBREW LETTER",
    "cp1251 mac_cyrillic koi8_u": "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґў"
    "|абвгдђежзијклљмнњопрстћуфхцчџш",
    "cp1253 mac_greek": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋ",
    "cp1254 mac_turkish": "çğıi̇öşüâîû",
    "cp932 euc_jp": "CJK,HIRAGANA,KATAKANA",
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
_WITHIN_WORDS = re.compile(
    r"(?<=[^\W\d_])[“”„…†‡•¹²³¼½¾¢£¥÷±§©®¿¡](?=[^\W\d_])|[¹²³¼½¾](?=[^\W\d_])"
)
"""Marks that no word holds: in another encoding they are letters."""
_EAST_ASIAN = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_LEAST_FIT = 0.7
_RARE = 0.02
"""What the letters of a Mac and of old Unix count less: where they fit alike, the file is from elsewhere."""


def recognise(sample: bytes) -> str:
    """Return the encoding in which a sample reads most like a language; "" if it does in none.

    Letters decide, because a few words are enough for that; charset-normalizer's statistics where
    several fit alike.
    """
    from charset_normalizer import from_bytes  # takes .1 s

    fits = {name: _fit(sample, name) for name in _LETTERS}
    best = max(fits.values())
    if best < _LEAST_FIT:
        return ""
    alike = [name for name, fit in fits.items() if fit == best]
    matches = from_bytes(sample, cp_isolation=alike)
    ranks = {each.encoding: each.coherence - each.chaos for each in matches}
    return max(alike, key=lambda name: ranks.get(name, 0.0))


def foreign_words(text: str) -> list[str]:
    """Return the words that are not ASCII alone."""
    letters = (each if unicodedata.category(each)[0] in "LM" else " " for each in text)
    return [word for word in "".join(letters).split() if not word.isascii()]


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
    letters = Counter("".join(_words(text, encoding)))
    languages = [
        {each for each in letters if _is_of(each, alphabet)}
        for alphabet in _LETTERS[encoding].split("|")
    ]
    best = max(sum(letters[each] for each in language) for language in languages)
    union = sum(letters[each] for each in set().union(*languages))
    return round(
        (best + union) / (2 * foreign) - _RARE * encoding.startswith(("mac", "iso", "euc")), 2
    )


def _is_of(letter: str, alphabet: str) -> bool:
    if alphabet.isupper():
        return unicodedata.name(letter, "").startswith(tuple(alphabet.split(",")))
    return not letter.isascii() and letter.lower() in alphabet


def _words(text: str, encoding: str) -> list[str]:
    """Return the foreign words that may be words of the encoding's languages: in one case, in
    Latin with some of a to z, else without them.
    """
    words = foreign_words(text)
    if encoding in _EAST_ASIAN:  # a lone sign that touches Latin may be letters of another language
        parts = [re.split("[A-Za-z]+", word) for word in words]
        return [part for of_word in parts for part in of_word if len(part) > 1 or len(of_word) == 1]
    is_latin = unicodedata.name(_LETTERS[encoding][0]).startswith("LATIN SMALL")
    return [
        word
        for word in words
        if word in (word.lower(), word.upper(), word.capitalize())
        and (bool(re.search("[A-Za-z]", word)) == is_latin or (is_latin and len(word) == 1))
    ]
