"""A call's expected rating over the tokens that the judge could have written in its place.

An answer's text holds one draw from the judge's distribution of ratings. The mean of that distribution has the same expectation
and less variance: only the feedback still varies. (Probability-weighted scores: Liu et al., "G-Eval", EMNLP 2023.)

The mean would be biased if its use depended on the token that was drawn. So every rule here looks at the distribution alone.
A token that may begin two ratings ("1" of 1 and of 10) is undecided even if the next token settles which one it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robin_cli.model.records import Scale

if TYPE_CHECKING:
    from robin_cli.ask.kinds import Kind

TOP_LOGPROBS = 20
"""Tokens requested for each place: the most that OpenAI and vLLM return."""

MOST_OFF_SCALE = 0.05
"""If tokens that are no rating of the scale have more probability than this, the text's own rating counts."""

_LARGEST_LOGPROB = 1e-3
"""Allows for a probability of 1 that was rounded up. Larger values are not logarithms of probabilities."""

_STEP = 2.0**-12
"""Expectations are rounded to multiples of it. Their sums and sums of squares are then exact in any order, as for integers."""


def around(content: str) -> str:
    """Return the pattern of a token that is ``content``, with any marks around it."""
    return rf"""[\s*_`"'“‘(\[{{:]*{content}[\s*_`"'”’)\]}},]*"""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The expected rating, or the reason that there is none.

    Attributes:
        value: on the scale; None if there is a reason ``why`` not.
        off_scale: probability of tokens that are no rating of the scale, or may be two; None without a distribution.
        why: ``no_logprobs`` (the endpoint sent none), ``unaligned`` (its tokens are not the text), ``off_scale`` (above
            MOST_OFF_SCALE), ``split_numbers`` (above it because numbers take several tokens).
    """

    value: float | None
    off_scale: float | None
    why: str | None


NO_EXPECTATION = Expectation(None, None, None)


def expectation_of(
    kind: Kind, tokens: Sequence[Mapping[str, Any]] | None, text: str, at: int | None, scale: Scale
) -> Expectation:
    """Return the expected value, as a number of ``scale``, of the rating or verdict in the answer ``text``.

    Args:
        tokens: ``logprobs.content`` as the endpoint sent it, not trusted; None if it sent none.
        at: the position of the rating or verdict, see :meth:`Kind.place`.
    """
    if at is None:
        return Expectation(None, None, "unaligned")
    if not tokens:
        return Expectation(None, None, "no_logprobs")
    token = _token_at(tokens, text, at)
    if token is None or re.match(r"0\d", text[at:]):  # the token 0 of "03" is no rating of its own
        return Expectation(None, None, "unaligned")
    decided, why = kind.decided(_distribution(token), scale)
    mass = sum(decided.values())
    off_scale = max(0.0, 1.0 - mass)
    if off_scale > MOST_OFF_SCALE:
        return Expectation(None, off_scale, why)
    value = sum(number * probability for number, probability in decided.items()) / mass
    return Expectation(round(value / _STEP) * _STEP, off_scale, None)


def _token_at(tokens: Sequence[Mapping[str, Any]], text: str, at: int) -> Mapping[str, Any] | None:
    """Return the token that holds the character ``at`` of ``text``; None if the tokens do not make up the text."""
    pieces = [(token, _bytes(token)) for token in tokens if isinstance(token, dict)]
    # Servers strip the text and leave out the reasoning before it. So the text is the last part of what the tokens spell.
    # find() on reversed bytes takes linear time; rfind() may not.
    written = text.encode("utf-8", "replace")
    spelled = b"".join(piece for _, piece in pieces)
    after = spelled[::-1].find(written[::-1])
    if after < 0:
        return None
    place = len(spelled) - after - len(written) + len(text[:at].encode("utf-8", "replace"))
    for token, piece in pieces:
        if place < len(piece):
            return token
        place -= len(piece)
    return None


def _distribution(token: Mapping[str, Any]) -> dict[str, float]:
    """Return the probability, by text, of the token drawn and of its alternatives."""
    others = token.get("top_logprobs")
    probabilities: dict[str, float] = {}
    for listed in (token, *(others if isinstance(others, list) else ())):
        probability = _probability(listed.get("logprob")) if isinstance(listed, dict) else None
        if probability is not None:
            # the drawn token is listed twice
            probabilities.setdefault(_bytes(listed).decode("utf-8", "replace"), probability)
    return probabilities


def _probability(logprob: object) -> float | None:
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    # an integer of JSON may have any length
    return math.exp(min(0.0, max(logprob, -1e3))) if logprob <= _LARGEST_LOGPROB else None


def _bytes(token: Mapping[str, Any]) -> bytes:
    raw = token.get("bytes")
    if isinstance(raw, list) and raw and all(type(byte) is int and 0 <= byte < 256 for byte in raw):
        return bytes(raw)
    text = token.get("token")
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""
