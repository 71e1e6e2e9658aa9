"""Reads ratings: an integer of the scale, or the reason that the text has none.

A rating line begins with the word Rating. Marks may stand before it. Between Rating and the number only marks, a colon, the
scale in brackets or the word score may stand; or the number stands alone on the next line. The last rating line counts. An
earlier line without a number (an echo of the prompt) changes nothing; an earlier line with another number makes the answer
ambiguous. Nothing is guessed: a number elsewhere is no rating, nor is one with another number or another scale behind it, or
with words that take it back. Only digits count; "three" is no number here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from robin_cli.ask.doubts import THINGS, is_doubtful
from robin_cli.ask.expectation import MOST_OFF_SCALE, around
from robin_cli.ask.kinds import NOTHING, Kind, LineReading, head_of
from robin_cli.ask.marks import COLON, MARKS, MINUS, OPEN
from robin_cli.ask.rubrics import Rubric
from robin_cli.model.records import Pair, Scale

_NUMBER_START = rf"[+{MINUS}]?[.,]?\d"

# "<3" may mean less than 3, "<3>" is a filled-in placeholder.
_NUMBER = re.compile(
    rf"(?:<(?=[^<>]*+>))?(?={_NUMBER_START})"
    rf"(?P<minus>[{MINUS}])?\+?(?P<whole>\d*+)(?:(?P<point>[.,·٫])(?P<fraction>\d++))?"
)

# The scale: "/4" or "of 4" right behind a number; "out of a possible 4", "on a scale of 0 to 4", "(0-4)" anywhere behind it.
_SCALE = re.compile(
    rf"""(?:
        \A[{MARKS}{OPEN}>★☆⭐]*+(?:(?:stars?|points?|pts|marks)\b[{MARKS}{OPEN}]*+)?(?:[/⁄∕]|of\b)
        | \bout\s++of\b(?:\s++(?:an?|the))?(?:\s++(?:possible|max(?:imum)?|total))?(?:\s++of)?
        | (?:\bon\s++a\s++)?\bscale(?:\s++(?:of|from))?[\s:]
        | (?<=[{OPEN}])(?=[{MINUS}]?\d++\s*+(?:to|[{MINUS}])\s*+\d)
    )
    [{MARKS}{OPEN}]*+(?P<ends>(?:[{MINUS}]?\d++\s*+(?:to|[{MINUS}])\s*+)?\d++)(?:[.]0++(?!\d))?""",
    re.IGNORECASE | re.VERBOSE,
)

# The high end in a note before the colon: a number after "-", "to", "/" or "of" that begins no range itself.
_NOTE = re.compile(
    rf"(?:(?<=\d)\s*+(?:to\b|[{MINUS}])|/|\bof\b)\s*+\+?(?P<ends>\d++)(?!\s*+(?:to\b|[{MINUS}]))",
    re.IGNORECASE,
)

# "3rd", "3%", "3^": the digits are part of something else.
_GLUED = re.compile(rf"[A-Za-z^]|[{MARKS}]*+[%‰°]")

# "3 of 4 claims", "3 errors": a count, and no rating.
_COUNT = re.compile(
    rf"""[{MARKS}{OPEN}]*+(?:out\s++)?of\s++\d++[{MARKS}{OPEN}]++(?!(?:points?|stars?|marks?|pts|possible|total|maximum|overall
        |because|since|as|for|on|in|due|given|with|which)\b)[a-z]
    | (?:\s*+[/⁄∕]\s*+\d++)?\s++{THINGS}""",
    re.VERBOSE,
)

_TOKEN = re.compile(around(r"([-−]?\d{1,9})"))


class RatingKind(Kind):
    """How good a response is: ratings on a scale."""

    name = "rate"
    noun = "rating"
    head = head_of(
        "rating",
        about="for|of|on|out",
        leads=r"score\b",
        # a bracket with more than the rating is not read: (0 bad, 4 good)
        bracketed=rf"{_NUMBER_START}[\d./\s]*+",
        behind=rf"score\b[{COLON}{MARKS}{OPEN}]*+(?:of\s++)?",
    )
    alone = re.compile(r"[\W_]*+(?:boxed\W*+)?\d[\W\d_]*+(?:out\s++of[\W\d_]*+)?", re.IGNORECASE)
    feedback = "assesses the quality of the response"
    template = "absolute-judge"
    input = "decisions"
    responses: ClassVar = {"response": "response"}
    values = (
        *("instruction", "response", "rubric", "title", "attribute", "low", "high"),
        *("attributes", "reference"),
    )

    def fill(
        self,
        pair: Pair,
        rubric: Rubric,
        variant: int,  # noqa: ARG002
        criterion: Rubric | None,  # noqa: ARG002
    ) -> Mapping[str, Any]:
        return {"response": pair.response, **rubric.values}

    def decision(self, rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:  # noqa: ARG002
        examples = "".join(f"\n\n{example.text}" for example in rubric.examples)
        return {
            "type": "score",
            "name": rubric.attribute,
            "instructions": f"Rate the response to the instruction. Criterion: {rubric.title}{examples}",
            "levels": [
                {"label": str(rating), "description": text}
                for rating, text in rubric.level_texts.items()
            ],
        }

    def wanted(self, scale: Scale) -> str:  # noqa: ARG002  # the question says it
        return "Score of the response"

    def choices(self, scale: Scale) -> Mapping[int, int]:
        return {rating: rating for rating in range(scale.low, scale.high + 1)}

    def read(self, head: re.Match[str], scale: Scale) -> LineReading:
        number = _NUMBER.match(head.string, head.end())
        if number is None:
            return NOTHING
        behind = head.string[number.end() :]
        rest = _SCALE.sub("", behind)
        stated = list(_SCALE.finditer(behind)) or _NOTE.finditer(head["note"] or "")
        ends = [[float(end) for end in re.findall(r"\d+", match["ends"])] for match in stated]
        known = ([abs(scale.high)], [abs(scale.low), abs(scale.high)])
        value = float(("-" if number["minus"] else "") + (number["whole"] or "0"))
        # 4.0 is an integer; 4,0 is none, for a comma may mark decimals or thousands.
        is_integral = (
            not float(number["fraction"] or "0")
            and number["point"] in {None, "."}
            and number["whole"] != ""
        )
        if is_doubtful(rest) or _COUNT.match(behind):
            reason = "ambiguous"
        elif any(numbers not in known for numbers in ends):
            reason = "out_of_range"
        elif not is_integral or _GLUED.match(rest):
            reason = "not_an_integer"
        elif not scale.low <= value <= scale.high:
            reason = "out_of_range"
        else:
            return LineReading(int(value), None)
        return LineReading(None, reason, head.string[number.start() :].strip())

    def start(self, head: re.Match[str]) -> int | None:
        digits = _NUMBER.match(head.string, head.end())
        return digits and digits.start("minus" if digits["minus"] else "whole")

    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        numbers: defaultdict[int, float] = defaultdict(float)
        has_several_digits = False
        for text, probability in tokens.items():
            if token := _TOKEN.fullmatch(text):
                numbers[int(token[1].replace("−", "-"))] += probability
                has_several_digits |= len(token[1].lstrip("-−")) > 1
        levels = range(scale.low, scale.high + 1)
        undecided = set()
        # If one token has several digits, the tokenizer writes each rating as one token. Else the next token may go on with it.
        if not has_several_digits:
            begun = [str(level)[:-1] for level in levels]
            undecided = {n for n in numbers if any(start.startswith(str(n)) for start in begun)}
        decided = {
            number: probability
            for number, probability in numbers.items()
            if number in levels and number not in undecided
        }
        is_split = sum(numbers[number] for number in undecided) > MOST_OFF_SCALE
        return decided, "split_numbers" if is_split else "off_scale"


RATING = RatingKind()
