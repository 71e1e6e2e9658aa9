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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robin_cli.model.records import Scale

if TYPE_CHECKING:
    from robin_cli.parsing.forms import Form

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


def around(said: str) -> str:
    """Return the pattern of a token that says ``said``, with the marks that may stand in it without changing what it says."""
    return rf"""[\s*_`"'“‘(\[{{:]*{said}[\s*_`"'”’)\]}},]*"""


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


def expectation_of(
    form: Form, tokens: Sequence[Mapping[str, Any]] | None, text: str, at: int, scale: Scale
) -> Expectation:
    """Return what the rating or verdict at character ``at`` of ``text`` was to be expected to be, as a number of ``scale``.

    Args:
        tokens: ``logprobs.content`` as the endpoint sent it, not trusted; None where it sent none.
        text: the answer.
        at: where the first digit (or the sign) of its rating stands, or its verdict.
    """
    if not tokens:
        return Expectation(None, None, "no_logprobs")
    token = _token_at(tokens, text, at)
    if token is None or re.match(r"0\d", text[at:]):  # of 03, the token of the 0 is no rating of its own
        return Expectation(None, None, "unaligned")
    decided, why = form.decided(_distribution(token), scale)
    mass = sum(decided.values())
    off_scale = max(0.0, 1.0 - mass)
    if off_scale > MOST_OFF_SCALE:
        return Expectation(None, off_scale, why)
    value = sum(number * probability for number, probability in decided.items()) / mass
    return Expectation(round(value / _STEP) * _STEP, off_scale, None)


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
