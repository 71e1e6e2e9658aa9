"""Reading of endpoints' successes, without trusting them. What an error means is in ``problems.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robin_cli.judges.bodies import (
    MOST_REPLY_BYTES,
    Body,
    TooLong,
    amount_of,
    clean_text,
    excerpt,
    read_json,
    short_text,
    tokens_of,
)
from robin_cli.judges.problems import Problem, Unread, error_in_200
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Usage

MOST_IN_TEXT = 1 / 32
"""The most characters of answers' texts, as a share of the longest reply in bytes: reading ratings takes time."""

_MOST_CHOICES = 128


@dataclass(frozen=True, slots=True)
class Completion:
    answers: tuple[Answer, ...]
    model: str
    usage: Usage
    request_id: str | None
    fingerprint: str | None = None


def read_completion(
    body: Body,
    headers: Mapping[str, str],
    limit: int = MOST_REPLY_BYTES,
    content: object = None,
    status: int = 200,
) -> Completion | Problem:
    """Return the completion in the body of a success, or its problem: an error in place of choices, HTML, half a JSON text.

    Args:
        limit: the longest reply that is read, in bytes.
        content: the JSON value of ``body``, if it was read already.
        status: that of the reply, for messages.

    Raises:
        TooLong: the texts of the answers are too long, or reading would take too long.
    """
    content = read_json(body, limit) if content is None else content
    if isinstance(content, list) and len(content) == 1:  # Gemini's form of an error
        content = content[0]
    if not isinstance(content, dict):
        return Unread(f"a {status} that is not a JSON object: {excerpt(body)}")
    choices = content.get("choices")
    choices = choices[:_MOST_CHOICES] if isinstance(choices, list) else None
    if not choices or not all(isinstance(choice, dict) for choice in choices):
        if content.get("error") or content.get("object") == "error":
            return error_in_200(content, headers)
        return Unread(f"a {status} without choices: {excerpt(body)}")
    answers = tuple(_answer(choice) for choice in choices if not choice.get("error"))
    if not answers:  # OpenRouter's form when the model fails half-way
        return error_in_200(choices[0], headers)
    characters = sum(len(answer.text) + len(answer.refusal or "") for answer in answers)
    if characters > limit * MOST_IN_TEXT:
        raise TooLong(f"answers of {characters:,} characters")
    return Completion(
        answers=answers,
        model=short_text(content.get("model")),
        usage=usage_of(content.get("usage"), one_choice="timings" in content),
        request_id=short_text(headers.get("x-request-id") or content.get("id")) or None,
        fingerprint=short_text(content.get("system_fingerprint")) or None,
    )


def _answer(choice: dict[str, Any]) -> Answer:
    message, logprobs = _fields(choice, "message"), _fields(choice, "logprobs")
    content, tokens = message.get("content"), logprobs.get("content")
    if isinstance(content, list):  # content parts
        content = "".join(
            clean_text(part.get("text")) for part in content if isinstance(part, dict)
        )
    return Answer(
        clean_text(content),
        finish_reason=short_text(choice.get("finish_reason")) or None,
        refusal=clean_text(message.get("refusal")) or None,
        tokens=tokens if isinstance(tokens, list) and tokens else None,
    )


def _fields(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object with this name; an empty one if there is none."""
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def usage_of(usage: object, *, one_choice: bool = False) -> Usage:
    """Return the endpoint's counts, also those of ``input_tokens`` and ``output_tokens``.

    ``one_choice``: it is llama.cpp's server, which counts one choice of several.

    xAI and Gemini count the tokens of reasoning beside ``completion_tokens``, or in the total alone. So the largest reading is
    what is paid; without a total, reasoning may be counted twice, and the sum is marked as estimated.
    """
    if not isinstance(usage, dict):
        return Usage()
    usage = {
        name.replace("input_", "prompt_").replace("output_", "completion_"): value
        for name, value in usage.items()
    } | usage
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    prompt, completion, total = (tokens_of(usage.get(name)) for name in names)
    of_answer = _fields(usage, "completion_tokens_details") or usage
    reasoning = tokens_of(of_answer.get("reasoning_tokens"))
    is_beside = bool(reasoning) and (not total or (reasoning or 0) > (completion or 0))
    together = (completion or 0) + (reasoning or 0) * is_beside
    paid = max(together, (total or 0) - (prompt or total or 0))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=paid or completion,
        cost_usd=amount_of(usage.get("cost")),  # OpenRouter's, in dollars
        cached_tokens=tokens_of(_fields(usage, "prompt_tokens_details").get("cached_tokens")),
        estimated=is_beside and not total,
        counts_one_choice=one_choice,
        reasoning_tokens=reasoning,
    )
