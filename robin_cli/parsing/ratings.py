"""Reads ratings: an integer of the scale, or the reason that the text has none.

A rating line begins with the word Rating. Marks may stand before it. Between Rating and the number only marks, a colon, the
scale in brackets or the word score may stand. The last rating line counts. An earlier line without a number (an echo of the
prompt) changes nothing; an earlier line with another number makes the answer ambiguous. Nothing is guessed: a number elsewhere
is no rating, nor is one with a range, a second number or another scale. Only digits count; "three" is no number here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from robin_cli.model.records import Scale
from robin_cli.parsing.expectation import MOST_OFF_SCALE, around
from robin_cli.parsing.forms import COLON, MARKS, MINUS, NOTHING, OPEN, Form, Reading, head_of

_NUMBER_START = rf"[+{MINUS}]?[.,]?\d"

# "<3" may mean less than 3, "<3>" is a filled-in placeholder.
_NUMBER = re.compile(
    rf"(?:<(?=[^<>]*+>))?(?={_NUMBER_START})"
    rf"(?P<minus>[{MINUS}])?\+?(?P<whole>\d*+)(?:(?P<point>[.,．，·٫])(?P<fraction>\d++))?"
)

# The high end that follows a number: "/4", "stars out of 4", "out of a possible 4", "on a scale of 0 to 4", "(scale: 0-4)".
_OUT_OF = re.compile(
    rf"""[{MARKS}{OPEN}>★☆⭐]*+(?:(?:stars?|points?|pts|marks)\b[{MARKS}{OPEN}]*+)?
    (?:
        [/／⁄∕]
        | (?:out\s++)?of\s++(?:(?:an?\s++|the\s++)?(?:possible|max(?:imum)?|total)\s++(?:of\s++)?)?
        | (?:on\s++a\s++)?scale(?:\s++(?:of|from))?[\s:]++(?:\d++\s*+(?:to|[{MINUS}])\s*+)?
    )
    [{MARKS}{OPEN}]*+(?P<high>\d++)(?:[.．]0++(?!\d))?""",
    re.IGNORECASE | re.VERBOSE,
)

# The high end in a note before the colon: a number after "-", "to", "/" or "of" that begins no range itself.
_STATED = re.compile(
    rf"(?:(?<=\d)\s*+(?:to\b|[{MINUS}])|[/／]|\bof\b)\s*+\+?(?P<high>\d++)(?!\s*+(?:to\b|[{MINUS}]))",
    re.IGNORECASE,
)

_AMBIGUOUS = re.compile(
    rf"""
    # "3-4", "0 (bad) to 4 (good)", "3 -> 4", "2 + 1 = 3", "3 or a 4", "3 or higher"
    \s*+(?:\([^()]*+\))?[{MARKS}{OPEN},;?>]*+
    (?:
        or\b
        | (?:[{MINUS}=]>|[{MINUS}~～〜→+&…]|\.{{2,}}|(?:to|and|through|vs|versus|up\s++to)(?![^\W\d]))
          [{MARKS}{OPEN}.]*+{_NUMBER_START}
    )
    | [{MARKS}{OPEN},.;/:—]++\d[\d{MARKS}{OPEN},.;/]*+\Z  # "3, 4", "3 4": a second number that explains nothing
    # "0 = bad, 4 = good", "0: bad, 1: poor", "0 (bad), 1 (poor)"
    | \s*+=[^=]*+= | \s*+[:(][^,;]*+[,;]\s*+\d++\s*+[:(]
    """,
    re.IGNORECASE | re.VERBOSE,
)

# "3rd", "3%", "3+", "3e1", "3½", "3:1 odds": the digits are part of something else.
_GLUED = re.compile(r"[A-Za-z%‰°^+²³¹\u2070-\u209f]|\s?[¼-¾\u2150-\u218b]|[.,:'’_٫．]\d")

# After the label come only marks, numbers, words that lead to one more number, and a word that may be cut.
_UNSETTLED = re.compile(
    r"[\W_]*+(?:(?:\d++|a|and|from|maybe|of|on|or|out|perhaps|points?|possible|scale|stars?|to)(?![^\W_])[\W_]*+)*\w*+\Z",
    re.IGNORECASE,
)

_TOKEN = re.compile(around(r"([-−]?\d{1,9})"))


class Ratings(Form):
    """Ratings on a scale. A cut ``Rating: 3`` could have gone on with ``.5``, ``-4`` or ``/10``."""

    name = "rating"
    head = head_of(
        "rating",
        about="for|of|on|out",
        leads=r"score\b",
        # a bracket with more than the rating is not read: (0 bad, 4 good)
        alone=rf"{_NUMBER_START}[\d./\s]*+",
        behind=rf"score\b[{COLON}{MARKS}{OPEN}]*+(?:of\s++)?",
    )
    unsettled = _UNSETTLED
    feedback = "assesses the quality of the response"

    def wanted(self, scale: Scale) -> str:  # noqa: ARG002  # the question says it
        return "Score of the response"

    def choices(self, scale: Scale) -> Sequence[int]:
        return range(scale.low, scale.high + 1)

    def read(self, head: re.Match[str], scale: Scale) -> Reading:
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

    def read_json(self, value: object, scale: Scale) -> Reading:
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}\s*", value, re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            return Reading(None, "not_an_integer")
        return (
            Reading(int(value), None)
            if scale.low <= value <= scale.high
            else Reading(None, "out_of_range")
        )

    def span(self, head: re.Match[str]) -> tuple[int, int] | None:
        digits = _NUMBER.match(head.string, head.end())
        return digits and (digits.start("minus" if digits["minus"] else "whole"), digits.end())

    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        numbers: defaultdict[int, float] = defaultdict(float)
        several_digits = False
        for text, probability in tokens.items():
            if found := _TOKEN.fullmatch(text):
                numbers[int(found[1].replace("−", "-"))] += probability
                several_digits |= len(found[1].lstrip("-−")) > 1
        # If one token has several digits, the tokenizer writes each rating as one token.
        undecided = (
            set()
            if several_digits
            else {number for number in numbers if _begins_another(number, scale)}
        )
        decided = {
            number: probability
            for number, probability in numbers.items()
            if scale.low <= number <= scale.high and number not in undecided
        }
        split = sum(numbers[number] for number in undecided) > MOST_OFF_SCALE
        return decided, "split_numbers" if split else "off_scale"


RATING = Ratings()


def _begins_another(number: int, scale: Scale) -> bool:
    """Return whether a longer rating of the scale begins with the digits of ``number``; the next token may have the rest."""
    return any(
        str(level)[:-1].startswith(str(number)) for level in range(scale.low, scale.high + 1)
    )


def _on_another_scale(note: str | None, out_of: re.Match[str] | None, scale: Scale) -> bool:
    """Return whether the line states a high end, before the colon or after the number, that is not the scale's."""
    stated = out_of or (_STATED.search(note) if note else None)
    return stated is not None and float(stated["high"]) != scale.high


def _is_integral(number: re.Match[str]) -> bool:
    """Return whether the number is an integer, such as 4 or 4.0; 4,0 is none, for a comma may mark decimals or thousands."""
    if not number["fraction"]:
        return True
    return number["whole"] != "" and number["point"] in ".．" and not float(number["fraction"])
