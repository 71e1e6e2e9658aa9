"""The marks that may stand around a label and its value, as classes of patterns."""

from __future__ import annotations

import re
import unicodedata

INVISIBLE = r"\u00ad\u034f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff"

# Emphasis, code, tables, LaTeX, quotation marks and closing brackets change nothing.
INK = rf"""{INVISIBLE}*_`\\|$"'´“”„‟‘’‚‛«»‹›「」『』)\]}}】〕》〉"""
MARKS = rf"\s{INK}"
OPEN = r"(\[{【〔《〈"
COLON = r":=﹕∶"
MINUS = r"\-‐‑‒–−﹣"

_WIDE = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff]++")


def to_plain_letters(text: str) -> str:
    """Return the text with ordinary letters, digits and marks for full-width and mathematical ones, as long as before."""
    return _WIDE.sub(lambda letters: unicodedata.normalize("NFKC", letters[0]), text)
