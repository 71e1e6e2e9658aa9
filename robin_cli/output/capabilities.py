"""``robin check``: what was seen of an endpoint, and what follows from it for a run."""

from __future__ import annotations

import sys
from typing import Any

import orjson

from robin_cli.judging.capabilities import Capabilities
from robin_cli.judging.metering import Price
from robin_cli.output.text import plain

_EXCERPT = 300
_LOGPROBS = {
    True: "yes: --scoring logprobs can rate by them",
    False: "no: --scoring logprobs would rate by the text",
    None: "could not be found out",
}


def facts_of(url: str, seen: Capabilities, price: Price | None) -> dict[str, Any]:
    """Names and findings, in the order they are read."""
    reply, rating = seen.reply, seen.rating
    return {
        "endpoint": url,
        "model": reply.model,
        "answered_in_s": round(reply.latency_s, 3),
        "rating": rating.value if rating.value is not None else f"none: {rating.reason}",
        "answer": plain(" ".join(reply.answers[0].text[:_EXCERPT].split()), keep=""),
        "parameters_sent": ", ".join(seen.sent),
        "system_message": "taken" if seen.system_role else "refused: its text goes to the front of the user's",
        "several_ratings_a_request": _choices(seen.choices),
        "logprobs": _LOGPROBS[seen.logprobs],
        "seed": {
            "honoured": "honoured: the same seed gives the same answer (robin judge never sends one twice for a pair)",
            "accepted": "accepted, but the same seed gave another answer",
            "refused": "refused: left out",
            "unknown": "could not be found out",
        }[seen.seed],
        "token_counts": "the endpoint's own" if seen.usage else "not (all) given: estimated, and marked so",
        "price": str(price) if price else "unknown here: --max-cost needs --price-in and --price-out",
        "robin_judge_will": "; ".join(_consequences(seen)),
        "requests_made": seen.requests,
    }


def print_json(url: str, seen: Capabilities, price: Price | None) -> None:
    """Print what was seen as one line of JSON, for scripts."""
    content = {
        "endpoint": url,
        "model": seen.reply.model,
        "latency_s": seen.reply.latency_s,
        "rating": seen.rating.value,
        "reason": seen.rating.reason,
        "answer": seen.reply.answers[0].text,
        "parameters": seen.sent,
        "system_role": seen.system_role,
        "choices_of_4": seen.choices,
        "logprobs": seen.logprobs,
        "seed": seen.seed,
        "usage": seen.usage,
        "repeats": seen.repeats,
        "price": str(price) if price else None,
        "requests": seen.requests,
    }
    sys.stdout.buffer.write(orjson.dumps(content) + b"\n")
    sys.stdout.buffer.flush()


def _choices(choices: int) -> str:
    if choices == 1:
        return "no: one answer a request, whatever --samples-per-request says"
    return (
        f"yes: {choices} came of 4 asked for" if choices < 4 else "yes (n): --samples-per-request pays the prompt once"
    )


def _consequences(seen: Capabilities) -> list[str]:
    will = [
        f"ask for up to {seen.choices} ratings a request if told to" if seen.choices > 1 else "ask for one at a time"
    ]
    if seen.rating.value is None:
        remedy = "raise --max-tokens" if seen.rating.reason == "truncated" else "look at the answer above"
        will.append(
            f"get answers without a rating like this one ({seen.rating.reason}): {remedy} before paying for more"
        )
    if seen.repeats:
        will.append("learn little from asking again: all answers without a seed were the same to the letter")
    if not seen.usage:
        will.append("estimate the tokens and the cost")
    return will
