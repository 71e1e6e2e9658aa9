"""Reads verdicts: the first response is better, the second is, or they tie; or the reason that the text has none of these.

A verdict line begins with the word Verdict, and the last one counts, as for :mod:`robin_cli.parsing.ratings`. Between Verdict
and A, B or tie only marks, a colon, the subject of the verdict, or a word for a response ("Response A") may stand. An
explanation may follow behind a mark or "because", and so may "is better" and "wins". The line is ambiguous if it names both
without a winner ("A and B", "A > B", "A, B"), or if the letter may be an article or a grade ("A good answer", "A-"). Another
letter is off the scale, and so is a tie if the judge had to choose. Nothing else is a verdict: not "both", not "1", not a
letter elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence

from robin_cli.model.records import Scale
from robin_cli.parsing.expectation import around
from robin_cli.parsing.forms import COLON, MARKS, NOTHING, OPEN, Form, Reading, head_of

TIE = "tie"
_OURS = ("a", "b", "ａ", "ｂ", TIE)

_RESPONSE = r"(?:response|answer|assistant|option|candidate|model|output|text|summary|completion)"
_SAID = r"(?:[abＡＢａｂ]|(?:an?\s++)?tie)(?![^\W_])"

# "<A" may mean less than A, "<A>" is a filled-in placeholder.
_VERDICT = re.compile(
    r"""(?:<(?=[^<>]*+>))?
    (?:(?P<letter>[a-zＡ-Ｚａ-ｚ])(?!\s++tie\b)|(?P<lead>(?:it(?:['’]s|\s++is)\s++)?(?:an?\s++)?)(?P<tie>tie))(?![^\W_])""",
    re.IGNORECASE | re.VERBOSE,
)

_AMBIGUOUS = re.compile(
    rf"""
    # "A or B", "A, or perhaps B", "A? Or B?"
    [{MARKS}{OPEN},;.?/]*+(?:or|nor)\b
    # "A and B", "A > B", "A/B", "A -> B", "A vs. B"
    | [{MARKS}]*+(?:(?:and|vs|versus|to|over|as\s++well\s++as)\b\.?|[-=]?>|<(?!/)|[&/／+=≥≤≈~→←…]|\.\.)[{MARKS}{OPEN}>=]*+
      (?:{_RESPONSE}\s++)?{_SAID}
    # "A, B", "A (B)", "A response", "A: tie": nothing more is said
    | [\W_]++(?:(?:{_RESPONSE}|an?|b|tie|and|both|nor|or|vs|[ＡａＢｂ])(?![^\W_])[\W_]*+)+\Z
    # "A-", "A+", "A's", "A.I.", "A:1", "A%", "tie-break": the letter is part of something else
    | [-‐‑‒−+%°^#²³] | [.:'’&](?=[^\W_])
    """,
    re.IGNORECASE | re.VERBOSE,
)

# What may follow: the end of the line, a mark and anything behind it, or words that leave the verdict as it is.
_CLOSED = re.compile(
    rf"""[{MARKS}>]*+(?:
        \Z | [^\w\s] | _
        | (?:because|since|due\s++to|overall|by\s++far)\b
        | (?:
            is\s++(?:(?:clearly|slightly|somewhat|much|far|marginally|significantly|definitely)\s++)?(?:the\s++)?better
            (?:\s++{_RESPONSE})?
            | wins
          )
          (?:\s++than\s++(?:the\s++)?(?:{_RESPONSE}\s++)?(?P<than>[abＡＢａｂ]))?(?![^\W_])
          [{MARKS}]*+(?:\Z|[^\w\s]|(?:because|since|overall|by\s++far)\b)
    )""",
    re.IGNORECASE | re.VERBOSE,
)

# After the label come only marks, and words that may lead to another verdict; the last word may be cut.
_UNSETTLED = re.compile(
    rf"""[\W_]*+(?:(?:
        {_RESPONSE}|a|an|and|as|b|better|both|by|clearly|definitely|far|is|it|its|maybe|much|nor|or|over|perhaps|s|significantly
        |slightly|somewhat|than|the|tie|to|versus|vs|well|wins
    )(?![^\W_])[\W_]*+)*\w*+\Z""",
    re.IGNORECASE | re.VERBOSE,
)

_TOKEN = re.compile(around(r"(?:(?P<letter>[ABＡＢ])|(?P<tie>[Tt](?:[Ii][Ee]?)?))"))
"""A small a does not count: it may lead to "a tie". Tie may take several tokens; no other verdict begins with a t."""


class Verdicts(Form):
    """Verdicts on two responses.

    The value is that of the response shown first, A: ``scale.high`` if it is better, ``scale.low`` if B is, and between them
    for a tie, if the scale has a middle. A cut ``Verdict: A`` could have gone on with ``and B``.
    """

    name = "verdict"
    head = head_of(
        "verdict",
        about="for|of|on",
        leads=rf"{_RESPONSE}\b|{_SAID}",
        alone=_SAID,
        behind=rf"(?P<response>{_RESPONSE}\b[{COLON}{MARKS}{OPEN}]*+)",
    )
    unsettled = _UNSETTLED

    feedback = "compares the two responses"

    def wanted(self, scale: Scale) -> str:
        *some, last = (f'"{each}"' for each in verdicts_of(scale))
        return f"{', '.join(some)} or {last}"

    def choices(self, scale: Scale) -> Sequence[str]:
        return verdicts_of(scale)

    def read(self, head: re.Match[str], scale: Scale) -> Reading:
        line = head.string
        found = _VERDICT.match(line, head.end())
        if found is None:
            return NOTHING
        name = found["tie"] or found["letter"]
        value = points_of(name, scale)
        closed, is_ours = _CLOSED.match(line, found.end()), name.lower() in _OURS
        is_unclear = closed is None or _AMBIGUOUS.match(line, found.end()) is not None
        if is_unclear and not is_ours:
            return NOTHING  # "Verdict: I prefer A", "Verdict: N/A"
        if is_unclear or (closed and closed["than"] and points_of(closed["than"], scale) == value):
            return Reading(None, "ambiguous", line[found.start() :])
        return Reading(value, None) if value is not None else Reading(None, "out_of_range", name)

    def read_json(self, value: object, scale: Scale) -> Reading:
        if not isinstance(value, str):
            return Reading(None, "out_of_range")
        head = self.head.match(f"Verdict: {value}".rstrip())
        return NOTHING if head is None or len(value.splitlines()) > 1 else self.read(head, scale)

    def span(self, head: re.Match[str]) -> tuple[int, int] | None:
        found = _VERDICT.match(head.string, head.end())
        if found is None or head["response"] or found["lead"]:
            return None
        return found.span("tie" if found["tie"] else "letter")

    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        points: defaultdict[int, float] = defaultdict(float)
        for text, probability in tokens.items():
            found = _TOKEN.fullmatch(text)
            if (
                found
                and (value := points_of("tie" if found["tie"] else found["letter"], scale))
                is not None
            ):
                points[value] += probability
        return points, "off_scale"


VERDICT = Verdicts()


def points_of(verdict: str, scale: Scale) -> int | None:
    """Return the points of A, B or tie, in any case and width; None for other text, or for a tie if the scale has none."""
    name = unicodedata.normalize("NFKC", verdict).lower()
    if name == TIE:
        return scale.low + 1 if scale.levels == 3 else None
    return {"a": scale.high, "b": scale.low}.get(name)


def verdict_of(points: int | None, scale: Scale) -> str | None:
    """Return the verdict with these points, the inverse of :func:`points_of`."""
    return next(
        (verdict for verdict in verdicts_of(scale) if points_of(verdict, scale) == points), None
    )


def verdicts_of(scale: Scale) -> tuple[str, ...]:
    """Return the possible verdicts: A and B, and tie if the scale has a middle."""
    return ("A", "B", TIE) if scale.levels == 3 else ("A", "B")
