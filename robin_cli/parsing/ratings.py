"""What a judge's text says: a rating on the scale, or the reason there is none.

A line is a rating line if its first word is Rating: marks may stand before it, and between Rating and the number only
marks, a colon, the scale in brackets or the word score. The last rating line speaks for the answer. An earlier one
without a number (an echo of the prompt) takes nothing back; an earlier one that says something else makes the answer
ambiguous. Nothing is guessed: a number elsewhere is not a rating, nor is one that a range, a second number or another
scale goes with. Numbers are read in digits; "three" is no number here.

Every pattern starts at a fixed place in its line and repeats possessively (``*+``), so that no text takes more than
linear time. Possessive are single classes only: before Python 3.11.5, possessive groups could match wrongly.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from robin_cli.model.records import Rating, Scale

# Marks may surround Rating, its colon and its number without changing what they say: white space and invisible
# characters, emphasis, code and table marks, quotation marks, closing brackets.
_MARKS = r"""\s*_`\\|"'´“”„‟‘’‚‛«»‹›「」『』＂＇\u00ad\u200b-\u200f\u2060\ufe0f\ufeff)\]}】）］｝》〉〕"""
_OPEN = r"(\[{【（［｛《〈〔"
_COLON = r":=：﹕∶＝"
_MINUS = r"\-‐‑‒–−－﹣"
_NUMBER_START = rf"[+{_MINUS}]?[.,]?\d"

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)

# Struck-out lines (~~Rating: 2~~) and closing tags (</rating>) say no rating, hence the look behind.
_LABEL = r"[\W_]*+(?:(?:\d{1,3}|[a-z])[.)][\W_]*+)?(?<![~/])"

_HEAD = re.compile(
    rf"""{_LABEL}rating(?![^\W_])>?[{_MARKS}]*+
    (?:
        # "Rating (0-4):", "Rating (0 = bad (really), 4 = good):": what stands in brackets before a colon is the scale
        (?P<note>
            (?:[(\[（［](?:[^()\[\]（）［］]++|[(（][^()（）]*+[)）])*[)\]）］][{_MARKS}]*+)+
            | (?:for|of|on|out)\b[^{_COLON}]*+  # "Rating for style:", "Rating on a scale of 0 to 4:"
        )(?=[{_COLON}])
        | (?!(?!is\b|score\b)[^\W\d_])  # "Rating scale:" is another label
    )
    [{_MARKS}]*+(?:is\b|[{_MINUS}](?=\s)|[—→])?[{_MARKS}]*+
    (?:
        [{_COLON}][{_COLON}{_MARKS}{_OPEN}]*+
        # without a colon a bracket is read if it holds the rating alone: "Rating (3)", not "Rating (0 bad, 4 good)"
        | [{_OPEN}]++(?=\s*+{_NUMBER_START}[\d./\s]*+[{_MARKS}])
    )?
    (?:score\b[{_COLON}{_MARKS}{_OPEN}]*+(?:of\s++)?)?
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
    rf"""[{_MARKS}{_OPEN}>★☆⭐]*+(?:(?:stars?|points?|pts|marks)\b[{_MARKS}{_OPEN}]*+)?
    (?:
        [/／⁄∕]
        | (?:out\s++)?of\s++(?:(?:an?\s++|the\s++)?(?:possible|max(?:imum)?|total)\s++(?:of\s++)?)?
        | (?:on\s++a\s++)?scale(?:\s++(?:of|from))?[\s:]++(?:\d++\s*+(?:to|[{_MINUS}])\s*+)?
    )
    [{_MARKS}{_OPEN}]*+(?P<high>\d++)(?:[.．]0++(?!\d))?""",
    re.IGNORECASE | re.VERBOSE,
)

# The high end that a note before the colon states: a number after "-", "to", "/" or "of" that begins no range itself.
_STATED = re.compile(
    rf"(?:(?<=\d)\s*+(?:to\b|[{_MINUS}])|[/／]|\bof\b)\s*+\+?(?P<high>\d++)(?!\s*+(?:to\b|[{_MINUS}]))", re.IGNORECASE
)

_AMBIGUOUS = re.compile(
    rf"""
    # "3-4", "0 (bad) to 4 (good)", "3 -> 4", "2 + 1 = 3", "3 or a 4", "3 or higher"
    \s*+(?:\([^()]*+\))?[{_MARKS}{_OPEN},;?>]*+
    (?:
        or\b
        | (?:[{_MINUS}=]>|[{_MINUS}~～〜→+&…]|\.{{2,}}|(?:to|and|through|vs|versus|up\s++to)(?![^\W\d]))
          [{_MARKS}{_OPEN}.]*+{_NUMBER_START}
    )
    | [{_MARKS}{_OPEN},.;/:—]++\d[\d{_MARKS}{_OPEN},.;/]*+\Z  # "3, 4", "3 4": a second number that explains nothing
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

_FEEDBACK = re.compile(rf"{_LABEL}feedback[{_MARKS}]*+(?:[{_COLON}][*_`\"]*+|\Z)", re.IGNORECASE)

# Well-known openings only. A bare "I can't" goes on with a verb of refusing: "I can't find a flaw" is praise.
_CANNOT = r"I(?:['’]m|\s+am)?\s+(?:can['’]t|cannot|can\s+not|won['’]t|will\s+not|unable\s+to|not\s+able\s+to)\b"
_DECLINE = r"I\s+(?:must|have\s+to)\s+(?:respectfully\s+)?decline\b"
_SORRY = (
    r"(?:I['’]m|I\s+am)\s+(?:(?:very|so|really|truly)\s+)?(?:sorry|afraid)|sorry|(?:my\s+)?apologies|I\s+apologi[sz]e"
)
_REFUSAL = re.compile(
    rf"""\W*+(?:
    (?:{_SORRY}|unfortunately|as\s+an?\s+(?:AI|(?:large\s+)?language\s+model)\b[^.,\n]{{0,40}})
    [,.;:]?\s+(?:(?:but|that)\s+)?(?:{_CANNOT}|{_DECLINE})
    | {_DECLINE}
    | {_CANNOT}\s+(?:assist|help|comply|fulfill?|provide|rate|evaluate|judge|assess|engage|participate|discuss)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


class _Reading(NamedTuple):
    """What one rating line says; two lines differ if their readings do. ``said`` is empty where there is a value."""

    value: int | None
    reason: str | None
    said: str = ""


_NO_NUMBER = _Reading(None, "missing")
_TRUNCATED = _Reading(None, "truncated")


def parse_rating(
    text: str | None, scale: Scale, *, finish_reason: str | None = None, refusal: str | None = None
) -> Rating:
    """Read one answer; any text gives a ``Rating``, none raises.

    ``finish_reason`` and ``refusal`` are the endpoint's. An answer that it cut (``length``) has a rating only if the
    rating line was closed by a line break or an explanation: a bare ``Rating: 3`` could have gone on ``.5``, ``-4`` or
    ``/10``. An empty answer that was cut is ``truncated``, as a larger ``--max-tokens`` helps.
    """
    answer = without_reasoning(text or "")
    lines = answer.splitlines()
    heads = {number: head for number, line in enumerate(lines) if (head := _HEAD.match(line))}
    last = max(heads, default=len(lines))
    if finish_reason == "content_filter":
        reading = _Reading(None, "filtered")
    elif refusal:
        reading = _Reading(None, "refused")
    elif not heads:
        reading = _Reading(None, _why_no_line(text, answer, cut=finish_reason == "length"))
    elif finish_reason == "length" and _is_cut(heads[last], answer, final=last == len(lines) - 1):
        reading = _TRUNCATED
    else:
        reading = _agreed([_read(head, scale) for head in heads.values()])
        if finish_reason == "length" and reading == _NO_NUMBER:
            reading = _TRUNCATED
    return Rating(reading.value, reading.reason, _feedback(lines, heads, last))


def rating_place(text: str) -> int | None:
    """Where in ``text`` the number of its last rating line begins; None where there is none, or reasoning hides it."""
    lines = without_reasoning(text).splitlines(keepends=True)
    for number in reversed(range(len(lines))):
        line = lines[number].splitlines()[0]
        if head := _HEAD.match(line):
            digits = _NUMBER.match(line, head.end())
            if digits is None:
                return None
            first = digits.start("minus") if digits["minus"] else digits.start("whole")
            # Reasoning is taken out before the rating line, if at all: from the end, both texts are the same.
            at = len(text) - len("".join(lines[number:])) + first
            return at if text.startswith(line[first : digits.end()], at) else None
    return None


def without_reasoning(text: str) -> str:
    """The text outside ``<think>…</think>``, with a space for each block: no digits run together, no line is made.

    A ``</think>`` without its opening (some servers put that into the prompt) ends reasoning that began with the text;
    a ``<think>`` that is never closed goes on to the end.
    """
    if "<" not in text:
        return text
    kept: list[str] = []
    start: int | None = 0
    for tag in _TAG.finditer(text):
        if not tag[1] and start is not None:
            kept.append(text[start : tag.start()])
            start = None
        elif tag[1]:
            if start is not None:
                kept.clear()
            start = tag.end()
    kept.append("" if start is None else text[start:])
    return " ".join(kept)


def _why_no_line(text: str | None, answer: str, *, cut: bool) -> str:
    if cut:
        return "truncated"
    if not text or text.isspace():
        return "empty"
    return "refused" if _REFUSAL.match(answer) else "missing"


def _is_cut(head: re.Match[str], answer: str, *, final: bool) -> bool:
    """Whether the end of the answer came before the number of its last rating line was certain."""
    line = head.string
    return final and answer.endswith(line) and _UNSETTLED.match(line, head.end()) is not None


def _agreed(readings: list[_Reading]) -> _Reading:
    last = readings[-1]
    agree = last == _NO_NUMBER or all(reading in (last, _NO_NUMBER) for reading in readings)
    return last if agree else _Reading(None, "ambiguous")


def _read(head: re.Match[str], scale: Scale) -> _Reading:
    """What a rating line says, from the end of its label on."""
    line = head.string
    number = _NUMBER.match(line, head.end())
    if number is None:
        return _NO_NUMBER
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
            return _Reading(int(value), None)
        reason = "out_of_range"
    return _Reading(None, reason, line[number.start() : end])


def _on_another_scale(note: str | None, out_of: re.Match[str] | None, scale: Scale) -> bool:
    """Whether the line states a high end, before the colon or after the number, that is not the scale's."""
    stated = out_of or (_STATED.search(note) if note else None)
    return stated is not None and float(stated["high"]) != scale.high


def _is_integral(number: re.Match[str]) -> bool:
    """Whether it is an integer, also as 4.0; a comma may be a decimal or a thousands mark, so 4,0 is none."""
    if not number["fraction"]:
        return True
    return number["whole"] != "" and number["point"] in ".．" and not float(number["fraction"])


def _feedback(lines: list[str], heads: dict[int, re.Match[str]], last: int) -> str:
    """The text from the Feedback label that led to the last rating line up to the next rating line.

    That label is the first one after the rating line before, so that an echoed prompt is no feedback.
    """
    labels = {number: label for number, line in enumerate(lines) if (label := _FEEDBACK.match(line))}
    if not labels:
        return ""
    previous = max((number for number in heads if number != last), default=0)
    first = min((number for number in labels if number >= previous), default=max(labels))
    end = min((number for number in heads if number > first), default=len(lines))
    return "\n".join([lines[first][labels[first].end() :], *lines[first + 1 : end]]).strip()
