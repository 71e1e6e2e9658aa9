"""The rating of a call as an expectation over the tokens that could have stood in its place, given the feedback written.

The text of an answer holds one draw from that distribution. Its mean has the same expectation and less variance: what is left
is how much the feedback varies. (Probability-weighted scores: Liu et al., "G-Eval", EMNLP 2023.)

Whether a call is rated so must not depend on which token was drawn, or the mean would be biased: every rule here looks at the
distribution alone. So a token that may begin two ratings ("1" of 1 and of 10) is undecided even where the next token says
which of them it was.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robin_cli.model.records import Scale
from robin_cli.parsing.verdicts import points_of

TOP_LOGPROBS = 20
"""Tokens asked for at each place: the most that OpenAI and vLLM give."""

_MOST_LISTED = 1000
"""Tokens looked at in one place; more are sent by nobody."""

MOST_OFF_SCALE = 0.05
"""Probability of anything but a rating of the scale above which the text's own rating stands."""

_LARGEST_LOGPROB = 1e-3
"""A probability of 1, rounded up on its way here; what is larger is no logarithm of one."""

_SMALLEST_LOGPROB = -1e3
"""What is smaller is 0 as well, and may be a whole number of any length."""

_STEP = 2.0**-12
"""Expectations are rounded to it, so that their sums and sums of squares are exact in any order, as those of integers are."""

# Marks that may stand with a number inside one token without changing what it says.
_BEFORE, _BEHIND = r"""[\s*_`"'“‘(\[{:]*""", r"""[\s*_`"'”’)\]},]*"""
_NUMBER = re.compile(rf"{_BEFORE}([-−]?\d{{1,9}}){_BEHIND}")
_VERDICT = re.compile(rf"{_BEFORE}(?:(?P<letter>[ABＡＢ])|(?P<tie>[Tt](?:[Ii][Ee]?)?)){_BEHIND}")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected rating, or why there is none.

    Attributes:
        value: on the scale; None where ``why`` says why not.
        off_scale: probability of what is no rating of the scale, or may be two; None where no distribution came.
        why: ``no_logprobs`` (the endpoint sent none), ``unaligned`` (its tokens are not the text), ``off_scale`` (more than
            MOST_OFF_SCALE), ``split_numbers`` (as much of that, because numbers take several tokens).
    """

    value: float | None
    off_scale: float | None
    why: str | None


def expected_rating(tokens: Sequence[Mapping[str, Any]] | None, text: str, at: int, scale: Scale) -> Expectation:
    """What the rating at character ``at`` of ``text`` was to be expected to be.

    Args:
        tokens: ``logprobs.content`` as the endpoint sent it, not trusted; None where it sent none.
        text: the answer.
        at: where the first digit (or the sign) of its rating stands.
        scale: the ratings there are.
    """
    found = _distribution_at(tokens, text, at)
    if isinstance(found, str):
        return Expectation(None, None, found)
    if re.match(r"0\d", text[at:]):  # of 03, the token of the 0 is no rating of its own
        return Expectation(None, None, "unaligned")
    return _expectation(found, scale)


def expected_verdict(tokens: Sequence[Mapping[str, Any]] | None, text: str, at: int, scale: Scale) -> Expectation:
    """What the verdict at character ``at`` of ``text`` was to be expected to be, as a number of ``scale``.

    A small a is none: it may lead to "a tie". Tie may take several tokens; no other verdict begins with a t.
    """
    found = _distribution_at(tokens, text, at)
    if isinstance(found, str):
        return Expectation(None, None, found)
    points: defaultdict[int, float] = defaultdict(float)
    for each, probability in found.items():
        said = _VERDICT.fullmatch(each)
        if said and (value := points_of("tie" if said["tie"] else said["letter"], scale)) is not None:
            points[value] += probability
    return _mean(points, "off_scale")


def _distribution_at(tokens: Sequence[Mapping[str, Any]] | None, text: str, at: int) -> dict[str, float] | str:
    """Probabilities by text of the tokens that could have stood at character ``at``, or why there are none."""
    if not tokens:
        return "no_logprobs"
    token = _token_at(tokens, text, at)
    return "unaligned" if token is None else _distribution(token)


def _expectation(distribution: Mapping[str, float], scale: Scale) -> Expectation:
    numbers: defaultdict[int, float] = defaultdict(float)
    several_digits = False
    for text, probability in distribution.items():
        if found := _NUMBER.fullmatch(text):
            numbers[int(found[1].replace("−", "-"))] += probability
            several_digits |= len(found[1].lstrip("-−")) > 1
    # A tokenizer that has numbers of several digits writes each rating as one token.
    undecided = set() if several_digits else {number for number in numbers if _begins_another(number, scale)}
    decided = {
        number: probability
        for number, probability in numbers.items()
        if scale.low <= number <= scale.high and number not in undecided
    }
    split = sum(numbers[number] for number in undecided) > MOST_OFF_SCALE
    return _mean(decided, "split_numbers" if split else "off_scale")


def _mean(decided: Mapping[int, float], why: str) -> Expectation:
    """The mean of what is ``decided``, by probability; ``why`` where that is too little of all."""
    mass = sum(decided.values())
    off_scale = max(0.0, 1.0 - mass)
    if off_scale > MOST_OFF_SCALE:
        return Expectation(None, off_scale, why)
    value = sum(number * probability for number, probability in decided.items()) / mass
    return Expectation(round(value / _STEP) * _STEP, off_scale, None)


def _begins_another(number: int, scale: Scale) -> bool:
    """Whether a longer rating of the scale begins with the digits of ``number``: more may follow in the next token."""
    return any(str(level)[:-1].startswith(str(number)) for level in range(scale.low, scale.high + 1))


def _token_at(tokens: Sequence[Mapping[str, Any]], text: str, at: int) -> Mapping[str, Any] | None:
    """The token that holds the character ``at`` of ``text``; None where the tokens do not make up the text."""
    tokens = [token for token in tokens if isinstance(token, dict)]  # they come from outside
    pieces = [_bytes(token) for token in tokens]
    # Servers strip the text, and leave the reasoning before it out: it is the last that the tokens say.
    # Read backwards, for find() takes linear time and rfind() may not.
    written, said = text.encode("utf-8", "replace"), b"".join(pieces)
    after = said[::-1].find(written[::-1])
    if after < 0:
        return None
    place = len(said) - after - len(written) + len(text[:at].encode("utf-8", "replace"))
    for token, piece in zip(tokens, pieces, strict=True):
        if place < len(piece):
            return token
        place -= len(piece)
    return None


def _distribution(token: Mapping[str, Any]) -> dict[str, float]:
    """Probabilities by text of the token drawn and of those that could have been."""
    listed = token.get("top_logprobs")
    others = listed[:_MOST_LISTED] if isinstance(listed, list) else []
    found: dict[str, float] = {}
    for each in (token, *others):
        if isinstance(each, dict) and (probability := _probability(each.get("logprob"))) is not None:
            found.setdefault(_bytes(each).decode("utf-8", "replace"), probability)  # the one drawn is listed again
    return found


def _probability(logprob: object) -> float | None:
    if isinstance(logprob, bool) or not isinstance(logprob, int | float) or not logprob <= _LARGEST_LOGPROB:
        return None
    return math.exp(min(0.0, max(logprob, _SMALLEST_LOGPROB)))


def _bytes(token: Mapping[str, Any]) -> bytes:
    raw = token.get("bytes")
    if isinstance(raw, list) and raw and all(type(each) is int and 0 <= each < 256 for each in raw):
        return bytes(raw)
    text = token.get("token")
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""
