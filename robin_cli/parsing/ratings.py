"""What a judge's text says: a rating on the scale, or the reason there is none.

A line is a rating line if its first word is Rating: marks may stand before it, and between Rating and the number only
marks, a colon, the scale in brackets or the word score. The last rating line speaks for the answer. An earlier one
without a number (an echo of the prompt) takes nothing back; an earlier one that says something else makes the answer
ambiguous. Nothing is guessed: a number elsewhere is not a rating, nor is one that a range, a second number or another
scale goes with. Numbers are read in digits; "three" is no number here.
"""

from __future__ import annotations

import re
from functools import partial

from robin_cli.model.records import Rating, Scale
from robin_cli.parsing.answer_lines import COLON, LABEL, MARKS, NOTHING, OPEN, Line, Reading, last_place, parse_lines

_MINUS = r"\-‐‑‒–−－﹣"
_NUMBER_START = rf"[+{_MINUS}]?[.,]?\d"

_HEAD = re.compile(
    rf"""{LABEL}rating(?![^\W_])>?[{MARKS}]*+
    (?:
        # "Rating (0-4):", "Rating (0 = bad (really), 4 = good):": what stands in brackets before a colon is the scale
        (?P<note>
            (?:[(\[（［](?:[^()\[\]（）［］]++|[(（][^()（）]*+[)）])*[)\]）］][{MARKS}]*+)+
            | (?:for|of|on|out)\b[^{COLON}]*+  # "Rating for style:", "Rating on a scale of 0 to 4:"
        )(?=[{COLON}])
        | (?!(?!is\b|score\b)[^\W\d_])  # "Rating scale:" is another label
    )
    [{MARKS}]*+(?:is\b|[{_MINUS}](?=\s)|[—→])?[{MARKS}]*+
    (?:
        [{COLON}][{COLON}{MARKS}{OPEN}]*+
        # without a colon a bracket is read if it holds the rating alone: "Rating (3)", not "Rating (0 bad, 4 good)"
        | [{OPEN}]++(?=\s*+{_NUMBER_START}[\d./\s]*+[{MARKS}])
    )?
    (?:score\b[{COLON}{MARKS}{OPEN}]*+(?:of\s++)?)?
    """,
    re.IGNORECASE | re.VERBOSE,
)

# "<3" may mean less than 3, "<3>" is a filled-in placeholder.
_NUMBER = re.compile(
    rf"(?:<(?=[^<>]*+>))?(?={_NUMBER_START})"
    rf"(?P<minus>[{_MINUS}])?\+?(?P<whole>\d*+)(?:(?P<point>[.,．，·٫])(?P<fraction>\d++))?"
)

# What a number is out of: "/4", "stars out of 4", "out of a possible 4", "on a scale of 0 to 4", "(scale: 0-4)".
_OUT_OF = re.compile(
    rf"""[{MARKS}{OPEN}>★☆⭐]*+(?:(?:stars?|points?|pts|marks)\b[{MARKS}{OPEN}]*+)?
    (?:
        [/／⁄∕]
        | (?:out\s++)?of\s++(?:(?:an?\s++|the\s++)?(?:possible|max(?:imum)?|total)\s++(?:of\s++)?)?
        | (?:on\s++a\s++)?scale(?:\s++(?:of|from))?[\s:]++(?:\d++\s*+(?:to|[{_MINUS}])\s*+)?
    )
    [{MARKS}{OPEN}]*+(?P<high>\d++)(?:[.．]0++(?!\d))?""",
    re.IGNORECASE | re.VERBOSE,
)

# The high end that a note before the colon states: a number after "-", "to", "/" or "of" that begins no range itself.
_STATED = re.compile(
    rf"(?:(?<=\d)\s*+(?:to\b|[{_MINUS}])|[/／]|\bof\b)\s*+\+?(?P<high>\d++)(?!\s*+(?:to\b|[{_MINUS}]))", re.IGNORECASE
)

_AMBIGUOUS = re.compile(
    rf"""
    # "3-4", "0 (bad) to 4 (good)", "3 -> 4", "2 + 1 = 3", "3 or a 4", "3 or higher"
    \s*+(?:\([^()]*+\))?[{MARKS}{OPEN},;?>]*+
    (?:
        or\b
        | (?:[{_MINUS}=]>|[{_MINUS}~～〜→+&…]|\.{{2,}}|(?:to|and|through|vs|versus|up\s++to)(?![^\W\d]))
          [{MARKS}{OPEN}.]*+{_NUMBER_START}
    )
    | [{MARKS}{OPEN},.;/:—]++\d[\d{MARKS}{OPEN},.;/]*+\Z  # "3, 4", "3 4": a second number that explains nothing
    # "0 = bad, 4 = good", "0: bad, 1: poor", "0 (bad), 1 (poor)"
    | \s*+=[^=]*+= | \s*+[:(][^,;]*+[,;]\s*+\d++\s*+[:(]
    """,
    re.IGNORECASE | re.VERBOSE,
)

# "3rd", "3%", "3+", "3e1", "3½", "3:1 odds": the digits are part of something that is no integer.
_GLUED = re.compile(r"[A-Za-z%‰°^+²³¹\u2070-\u209f]|\s?[¼-¾\u2150-\u218b]|[.,:'’_٫．]\d")

# Nothing after the label but marks, numbers, words that lead to one more number, and a word that may be cut.
_UNSETTLED = re.compile(
    r"[\W_]*+(?:(?:\d++|a|and|from|maybe|of|on|or|out|perhaps|points?|possible|scale|stars?|to)(?![^\W_])[\W_]*+)*\w*+\Z",
    re.IGNORECASE,
)


def parse_rating(
    text: str | None, scale: Scale, *, finish_reason: str | None = None, refusal: str | None = None
) -> Rating:
    """Read one answer, see :func:`parse_lines`; any text gives a ``Rating``, none raises.

    Cut off, a bare ``Rating: 3`` could have gone on ``.5``, ``-4`` or ``/10``.
    """
    line = Line(_HEAD, partial(_read, scale=scale), _UNSETTLED)
    return parse_lines(text, line, finish_reason=finish_reason, refusal=refusal)


def rating_place(text: str) -> int | None:
    """Where in ``text`` the number of its last rating line begins; None where there is none, or reasoning hides it."""
    return last_place(text, _HEAD, _digits)


def _digits(head: re.Match[str]) -> tuple[int, int] | None:
    digits = _NUMBER.match(head.string, head.end())
    return digits and (digits.start("minus" if digits["minus"] else "whole"), digits.end())


def _read(head: re.Match[str], scale: Scale) -> Reading:
    """What a rating line says, from the end of its label on."""
    line = head.string
    number = _NUMBER.match(line, head.end())
    if number is None:
        return NOTHING
    out_of = _OUT_OF.match(line, number.end())
    end = (out_of or number).end()
    if _AMBIGUOUS.match(line, end):
        reason = "ambiguous"
    elif _on_another_scale(head["note"], out_of, scale):
        reason = "out_of_range"
    elif not _is_integral(number) or _GLUED.match(line, end):
        reason = "not_an_integer"
    else:
        value = float(("-" if number["minus"] else "") + number["whole"])
        if scale.low <= value <= scale.high:
            return Reading(int(value), None)
        reason = "out_of_range"
    return Reading(None, reason, line[number.start() : end])


def _on_another_scale(note: str | None, out_of: re.Match[str] | None, scale: Scale) -> bool:
    """Whether the line states a high end, before the colon or after the number, that is not the scale's."""
    stated = out_of or (_STATED.search(note) if note else None)
    return stated is not None and float(stated["high"]) != scale.high


def _is_integral(number: re.Match[str]) -> bool:
    """Whether it is an integer, also as 4.0; a comma may be a decimal or a thousands mark, so 4,0 is none."""
    if not number["fraction"]:
        return True
    return number["whole"] != "" and number["point"] in ".．" and not float(number["fraction"])
