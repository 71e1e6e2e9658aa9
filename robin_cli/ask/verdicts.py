"""Reads verdicts: the first response is better, the second is, or they tie; or the reason that the text has none of these.

A verdict line begins with the word Verdict, and the last one counts, as for :mod:`robin_cli.ask.ratings`. Between Verdict
and A, B or tie only marks, a colon, the subject of the verdict, or a word for a response ("Response A", "model_a") may stand.
A sentence with one winner ("A is better", "A beats B"), "A > B" and, for a tie, "A = B" or "both bad" are read too. A reason
may follow behind a mark or "because".
If it names a response or judges one, or takes the verdict back, the line is ambiguous ("A; B is better", "A (incorrect)"), and
so it is if the letter may be an article or a grade ("A good answer", "A-"). Another letter is off the scale, and so is a tie if
the judge had to choose. Nothing else is a verdict: not "1", not a letter elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from robin_cli.ask.doubts import is_doubtful
from robin_cli.ask.expectation import around
from robin_cli.ask.kinds import NOTHING, Kind, LineReading, head_of
from robin_cli.ask.marks import COLON, MARKS, OPEN, to_plain_letters
from robin_cli.ask.ratings import RATING
from robin_cli.ask.rubrics import Rubric
from robin_cli.model.records import Pair, Scale

ORDERS = ("a-first", "b-first")
"""The variants of a pairwise question: which response the judge reads first."""

PREFERENCE = "preference"
"""The attribute of a pairwise run without a criterion."""

TIE = "tie"
_OURS = ("a", "b", TIE)

_RESPONSE = (
    r"(?:response|answer|assistant|option|candidate|model|output|text|summary|completion|system)"
)
_SAID = r"(?:[ab]|(?:an?\s++)?tie|both)(?![^\W_])"

_SURELY = r"(?:(?:(?!allege|bare|equal|hard|possib|rare|scarce|seem|suppose)\w+ly|far|much|somewhat)\s++)?"

# "<A" may mean less than A, "<A>" is a filled-in placeholder.
_VERDICT = re.compile(
    rf"""(?:<(?=[^<>]*+>))?(?:
    (?P<letter>[a-z])(?![^\W_])(?!\s++tie\b)(?:
        [{MARKS}]*+(?P<sign>>{{1,3}}|<{{1,3}}|=)\s*+(?:{_RESPONSE}[{MARKS}]*+)?(?P<against>[ab])(?![^\W_]|>)
        | \s++(?:is\s++{_SURELY}(?:the\s++)?(?:better|best|preferred|stronger|superior|winner)(?:\s++{_RESPONSE})?|wins|won)
          (?:\s++(?:than|to|over|against)\s++(?:the\s++)?(?:{_RESPONSE}\s++)?(?P<than>[ab]))?(?![^\W_])
        | \s++{_SURELY}(?:beats|outperforms|surpasses)\s++(?:the\s++)?(?:{_RESPONSE}\s++)?(?P<beaten>[ab])(?![^\W_])
    )?
    | (?P<lead>(?:it(?:['’]s|\s++is)\s++)?(?:an?\s++)?)(?:(?P<tie>tie)|(?P<both>both))(?![^\W_])(?:\s*+\(both\s?(?:bad|good)\))?
      (?(both)(?:(?:\s++(?:answers|responses))?(?:\s++are)?(?:\s++equally)?\s++(?:bad|good|fine|right|wrong|weak|strong)(?![^\W_]))?|)
    )""",
    re.IGNORECASE | re.VERBOSE,
)

# "A-", "A+", "A's", "A.I.", "A%": the letter is part of something else.
_GLUED = re.compile(r"[-‐‑‒–−+%^°#²³/&~]|[.:'’](?=[^\W_])")

_REASON = re.compile(
    rf"[{MARKS}>]*+(?:\Z|[^\w\s]|_|(?:because|since|as|due\s++to|overall|by\s++far)\b)",
    re.IGNORECASE,
)

# A reason that holds any of these may judge the other response, or against this one. A small a is an article before a word.
_JUDGES = re.compile(
    r"""(?-i:\b[AB]\b) | \bb\b | \ba\b(?!\s++[^\W\d_]) | n['’]t\b | [❌✗✘👎]
    | \b(?:answer|assistant|candidate|responses?|both|either|first|former|latter|neither|ones?|others?|second
        |draw|equal\w*|tied?|avoid\w*|bad\w*|beat\w*|best|better|edit|errors?|fabricat\w*|fail\w*|flaw\w*|hallucinat\w*
        |harm\w*|ignor\w*|invent\w*|irrelevan\w*|mislead\w*|mistake\w*|needs|off|ramb\w*|reverse\w*|unsafe|vague|versa
        |false\w*|inaccura\w*|incorrect\w*|inferior|lack\w*|least
        |less|los[et]\w*|losing|miss\w*|poor\w*|prefer\w*|reject\w*|superior|swap\w*|weak\w*|win\w*|won|worse|worst|wrong\w*
        |but|except|however|never|no|none|nor|not|than|(?:al)?though|unless|unlike|where(?:as)?|while|yet
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)

_TOKEN = re.compile(around(r"(?:(?P<letter>[AB])|(?P<tie>[Tt](?:[Ii][Ee]?)?))"))
"""A small a does not count: it may lead to "a tie". Tie may take several tokens; no other verdict begins with a t."""

_TIED = re.compile(r"\b(?:both(?:\s++(?:answers|responses))?|equal\w*+)\b", re.IGNORECASE)


class VerdictKind(Kind):
    """Which of two responses is better: verdicts.

    The value is that of the response shown first, A: ``scale.high`` if it is better, ``scale.low`` if B is, and between them
    for a tie, if the scale has a middle.
    """

    name = "prefer"
    noun = "verdict"
    head = head_of(
        "verdict",
        about="for|of|on",
        leads=rf"{_RESPONSE}(?![^\W_])|{_SAID}",
        bracketed=_SAID,
        behind=rf"(?P<response>{_RESPONSE}(?![^\W_])[{COLON}{MARKS}{OPEN}-]*+)",
    )
    alone = re.compile(rf"[\W_]*+{_SAID}[\W_]*+", re.IGNORECASE)
    feedback = "compares the two responses"
    variants = ORDERS
    turned = (False, True)
    score_scale = Scale(0, 1)
    template = "pairwise-judge"
    input = "pairwise-decisions"
    responses: ClassVar = {"response_a": "response", "response_b": "other"}
    values = (
        *("instruction", "response_a", "response_b", "criterion", "title", "ties", "reference"),
    )

    def fill(
        self, pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
    ) -> Mapping[str, Any]:
        first, second = pair.response, pair.other or ""
        if self.turned[variant]:
            first, second = second, first
        return {
            "response_a": first,
            "response_b": second,
            "criterion": criterion.text if criterion else "",
            "title": criterion.title if criterion else "",
            "ties": rubric.scale.levels == 3,
        }

    def decision(self, rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:
        by = f" Judge strictly by this rubric.\n\n{criterion.text}" if criterion else ""
        texts = rubric.level_texts
        return {
            "type": "choice",
            "name": rubric.attribute,
            "instructions": f"Which of the two responses to the instruction is better?{by}",
            "choices": [
                {"value": verdict, "description": texts[points]}
                for verdict, points in self.choices(rubric.scale).items()
            ],
        }

    def in_words(self, points: float, scale: Scale) -> str:
        if points in {scale.low, scale.high}:
            return "A is better" if points == scale.high else "B is better"
        share = 100 * (points - scale.low) / (scale.high - scale.low)
        return "tie" if isinstance(points, int) else f"A is better: {share:.0f} %"

    def wanted(self, scale: Scale) -> str:
        *first, last = (f'"{verdict}"' for verdict in self.choices(scale))
        return f"{', '.join(first)} or {last}"

    def choices(self, scale: Scale) -> Mapping[str, int]:
        points = {"A": scale.high, "B": scale.low}
        return points | {TIE: scale.low + 1} if scale.levels == 3 else points

    def read(self, head: re.Match[str], scale: Scale) -> LineReading:
        match = _VERDICT.match(head.string, head.end())
        if match is None:
            return NOTHING
        letter, sign = match["letter"], match["sign"] or ""
        loser = match["against"] or match["than"] or match["beaten"]
        name = TIE if letter is None or sign == "=" else loser if sign.startswith("<") else letter
        is_same = bool(loser) and loser.lower() == letter.lower()
        if is_same or _adds_judgement(head.string[match.end() :], name):
            is_ours = name.lower() in _OURS  # unlike in "Verdict: I prefer A" and "Verdict: N/A"
            line = head.string[match.start() :].strip()
            return LineReading(None, "ambiguous", line) if is_ours else NOTHING
        points = self._points_of(name, scale)
        if points is None:
            return LineReading(None, "out_of_range", name)
        return LineReading(points, None)

    def start(self, head: re.Match[str]) -> int | None:
        match = _VERDICT.match(head.string, head.end())
        if match is None or head["response"] or match["lead"] or match["sign"] or match["both"]:
            return None
        return match.start("tie" if match["tie"] else "letter")

    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        decided: defaultdict[int, float] = defaultdict(float)
        for text, probability in tokens.items():
            match = _TOKEN.fullmatch(text)
            points = self._points_of(match["letter"] or TIE, scale) if match else None
            if points is not None:
                decided[points] += probability
        return decided, "off_scale"

    def _points_of(self, name: str, scale: Scale) -> int | None:
        """Return the points of A, B or tie, in any case and width; None for other text, or for a tie if the scale has none."""
        plain = to_plain_letters(name).lower()
        return self.choices(scale).get(TIE if plain == TIE else plain.upper())


VERDICT = VerdictKind()


def _adds_judgement(rest: str, name: str) -> bool:
    """Return whether more follows a verdict than a reason that names no response and judges none."""
    if _GLUED.match(rest) or not _REASON.match(rest) or is_doubtful(rest):
        return True
    remark = re.sub(r"<[^<>]{0,40}>", "", rest)
    words = re.findall(r"[^\W_]+", remark)
    if len(words) == 1 and not words[0].lower().endswith(("ly", "overall")):
        return True
    return _JUDGES.search(_TIED.sub("", remark) if name == TIE else remark) is not None


def verdict_of(points: int | None, scale: Scale) -> str | None:
    """Return the verdict with these points; None if there is none."""
    choices = VERDICT.choices(scale).items()
    return next((verdict for verdict, worth in choices if worth == points), None)


def verdict_rubric(criterion: Rubric | None, *, ties: bool) -> Rubric:
    """Return the rubric of verdicts, whichever response the judge reads first: the better A is, the higher.

    Args:
        criterion: of the better response; None for no particular one.
    """
    verdicts = ("B is better", "a tie", "A is better") if ties else ("B is better", "A is better")
    levels = tuple((str(points), text) for points, text in enumerate(verdicts))
    attribute = PREFERENCE if criterion is None else criterion.attribute
    return Rubric(attribute, "Preference", Scale(0, len(verdicts) - 1), levels)


def kind_of(*, pairwise: bool) -> Kind:
    return VERDICT if pairwise else RATING
