"""``robin check``: what was seen of an endpoint, and what follows from it for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robin_cli.judges.metering import Price
from robin_cli.parsing.expectation import MOST_OFF_SCALE
from robin_cli.render import json
from robin_cli.render.text import one_line
from robin_cli.runner.capabilities import Capabilities

_EXCERPT = 300
_ASKED_FOR = 4
_BY_TEXT = {
    "no_logprobs": "none came with it",
    "unaligned": "the tokens do not make up the text",
    "off_scale": f"more than {MOST_OFF_SCALE:.0%} of the probability at its rating is of no rating of the scale",
    "split_numbers": "a rating takes several tokens",
}


def facts_of(url: str, seen: Capabilities, price: Price | None, *, samples_all: bool = True) -> dict[str, Any]:
    """Names and findings, in the order they are read.

    ``samples_all``: temperature and top_p are 1, as rating by log probabilities needs.
    """
    reply = seen.reply
    return {
        "endpoint": url,
        "model": reply.model,
        "answered_in_s": round(reply.latency_s, 3),
        **_judged(seen),
        "answer": one_line(" ".join(reply.answers[0].text[:_EXCERPT].split())),
        "parameters_sent": _parameters(seen.sent),
        "system_message": "taken" if seen.system_role else "refused: its text goes to the front of the user's",
        "several_ratings_a_request": _choices(seen.choices),
        "logprobs": _logprobs(seen, samples_all=samples_all),
        "seed": {
            "honoured": "honoured: the same seed gave the same answer; robin judge --seed sends another with every request",
            "accepted": "accepted, but the same seed gave another answer: --seed repeats nothing here",
            "refused": "refused: left out",
            "unknown": "could not be found out",
        }[seen.seed],
        "token_counts": _token_counts(seen),
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
        **(_judged(seen) if seen.verdicts else {"rating": seen.rating.value}),
        "reason": seen.rating.reason,
        "answer": seen.reply.answers[0].text,
        "parameters": seen.sent,
        "system_role": seen.system_role,
        "choices_of_4": seen.choices,
        "logprobs": seen.logprobs,
        "expected_rating": seen.expectation.value if seen.expectation else None,
        "text_because": seen.expectation.why if seen.expectation else None,
        "seed": seen.seed,
        "usage": seen.usage,
        "usage_of_several": seen.usage_of_several,
        "repeats": seen.repeats,
        "price": str(price) if price else None,
        "requests": seen.requests,
    }
    json.print_json(content)


def _judged(seen: Capabilities) -> dict[str, Any]:
    """What was read out of the first answer; of two responses also out of that in the other order."""
    if seen.verdicts:
        return {"verdict": seen.verdicts[0], "verdict_swapped": seen.verdicts[1]}
    return {"rating": seen.rating.value if seen.rating.value is not None else f"none: {seen.rating.reason}"}


def _parameters(sent: Sequence[str]) -> str:
    always = ", ".join(name for name in sent if name != "seed")
    return f"{always}; with --seed also seed" if "seed" in sent else always


def _choices(choices: int) -> str:
    if choices == 1:
        return "no: one answer a request, whatever --samples-per-request says"
    if choices < _ASKED_FOR:
        return f"yes: {choices} came of {_ASKED_FOR} asked for, so --samples-per-request above {choices} asks for {choices}"
    return (
        f"yes (n): --samples-per-request pays the prompt once; {choices} were asked for and came, more were not tried"
    )


def _logprobs(seen: Capabilities, *, samples_all: bool) -> str:
    if seen.logprobs is None:
        return "could not be found out"
    if not seen.logprobs:
        return "no: --scoring logprobs would rate by the text"
    if seen.expectation is None:
        return "yes, but the answer that they came with held no rating to rate by them"
    if seen.expectation.why is not None:
        return f"yes, but --scoring logprobs would rate an answer like this one by its text: {_BY_TEXT[seen.expectation.why]}"
    needs = "" if samples_all else ", with --temperature 1 and --top-p 1"
    return f"yes: --scoring logprobs{needs} would rate the answer they came with {seen.expectation.value:.2f}"


def _token_counts(seen: Capabilities) -> str:
    if not seen.usage:
        return "not (all) given: estimated, and marked so"
    if seen.usage_of_several or seen.choices == 1:
        return "the endpoint's own"
    return "the endpoint's own for one rating a request; of several some are missing: estimated, and marked so"


def _consequences(seen: Capabilities) -> list[str]:
    will = ["ask for one rating a request"]
    if seen.choices > 1:
        will[0] += f", or with --samples-per-request for several ({seen.choices} are known to come)"
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
