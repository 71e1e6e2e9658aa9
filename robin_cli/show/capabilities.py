"""``robin check``: findings about an endpoint, and their consequences for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from robin_cli.ask.expectation import MOST_OFF_SCALE
from robin_cli.judges.capabilities import Capabilities, DecidesAlone
from robin_cli.show.text import one_line
from robin_cli.show.words import dollars

_EXCERPT = 300
_ASKED_FOR = 4
_NO_PRICE = "unknown here: --max-cost needs --price-in and --price-out"
_BY_TEXT = {
    "no_logprobs": "none came with it",
    "unaligned": "the tokens do not make up the text",
    "off_scale": f"more than {MOST_OFF_SCALE:.0%} of the probability at its rating is of no rating of the scale",
    "split_numbers": "a rating takes several tokens",
}
_SEED = {
    "honoured": "honoured: the same seed gave the same answer; robin judge --seed sends another with every request",
    "accepted": "accepted, but the same seed gave another answer: --seed repeats nothing here",
    "refused": "refused: left out",
    "unknown": "could not be found out",
}


def facts_of(seen: Capabilities | DecidesAlone, *, samples_all: bool = True) -> dict[str, Any]:
    """Return names and findings in reading order.

    ``samples_all``: temperature and top_p are 1, as rating by log probabilities needs.
    """
    if isinstance(seen, DecidesAlone):
        return {
            "endpoint": seen.endpoint,
            "model": seen.model,
            "chat_completions": seen.chat,
            "decisions": seen.decisions,
            "price": seen.price or _NO_PRICE,
            "robin_judge_will": "rate with --answers decisions, and with no other",
            "requests_made": seen.requests,
        }
    judged: dict[str, Any] = {"verdict": seen.verdict, "verdict_swapped": seen.verdict_swapped}
    if seen.verdict is UNSET:
        judged = {"rating": f"none: {seen.reason}" if seen.rating is None else seen.rating}
    return {
        "endpoint": seen.endpoint,
        "model": seen.model,
        "answered_in_s": round(seen.latency_s, 3),
        **judged,
        "answer": one_line(" ".join(seen.answer[:_EXCERPT].split())),
        "parameters_sent": _parameters(seen.parameters),
        "system_message": "accepted"
        if seen.system_role
        else "refused: its text goes to the front of the user's",
        "several_ratings_a_request": _choices(seen.choices_of_4),
        "logprobs": _logprobs(seen, samples_all=samples_all),
        "decisions": seen.decisions,
        "seed": _SEED[seen.seed],
        "reasoning": _reasoning(seen),
        "token_counts": _token_counts(seen),
        "price": seen.price or _NO_PRICE,
        "robin_judge_will": "; ".join(_consequences(seen)),
        "requests_made": seen.requests,
    }


def _parameters(sent: Sequence[str]) -> str:
    always = ", ".join(name for name in sent if name != "seed")
    return f"{always}; with --seed also seed" if "seed" in sent else always


def _choices(choices: int) -> str:
    if choices == 1:
        return "no: one answer a request, whatever --samples-per-request says"
    if choices < _ASKED_FOR:
        return f"yes: {choices} came of {_ASKED_FOR} asked for, so --samples-per-request above {choices} asks for {choices}"
    return f"yes (n): --samples-per-request pays the prompt once; all {choices} that robin check asked for came"


def _logprobs(seen: Capabilities, *, samples_all: bool) -> str:
    if seen.logprobs is None:
        return "could not be found out"
    if not seen.logprobs:
        return "no: --answers logprobs would rate by the text"
    if seen.expected_rating is None and seen.text_because is None:
        return "yes, but the answer that they came with held no rating to rate by them"
    if seen.text_because is not None:
        return f"yes, but --answers logprobs would rate an answer like this one by its text: {_BY_TEXT[seen.text_because]}"
    needs = "" if samples_all else ", with --temperature 1 and --top-p 1"
    if not seen.short_levels:
        return "yes, but levels of this scale may take two tokens: --answers logprobs would rate such answers by their text"
    return (
        f"yes: --answers logprobs{needs} rates by one call about as well as by five; it would rate the answer they came with "
        f"{seen.expected_rating:.2f}"
    )


def _reasoning(seen: Capabilities) -> str:
    """Return what the model's reasoning costs, as far as the endpoint counts it."""
    if not seen.reasoning_tokens:
        return "none counted"
    usd = "" if seen.reasoning_usd is None else f", {dollars(seen.reasoning_usd)} a call"
    return (
        f"{seen.reasoning_tokens:,} of the {seen.completion_tokens:,} tokens of the answer{usd}; --reasoning-effort none, "
        "or low, asks for less"
    )


def _token_counts(seen: Capabilities) -> str:
    if not seen.usage:
        return "not (all) given: estimated, and marked so"
    if seen.usage_of_several or seen.choices_of_4 == 1:
        return "the endpoint's own"
    return "the endpoint's own for one rating a request; of several some are missing: estimated, and marked so"


def _consequences(seen: Capabilities) -> list[str]:
    several = f"ask for several ratings a request (one for 4 brought {seen.choices_of_4}); --samples-per-request 1 asks for one"
    will = [several if seen.choices_of_4 > 1 else "ask for one rating a request"]
    if seen.reason is not None:
        remedy = "raise --max-tokens" if seen.reason == "truncated" else "look at the answer above"
        will.append(
            f"get answers without a rating like this one ({seen.reason}): {remedy} before paying for more"
        )
    if seen.repeats:
        will.append(
            "learn little from asking again: all answers without a seed were the same to the letter"
        )
    if not seen.usage:
        will.append("estimate the tokens and the cost")
    return will
