"""``robin parse``: the rating parser over lines of recorded answers."""

from __future__ import annotations

import re
from typing import IO, Any

import orjson

from robin_cli.ask.kinds import ANSWERS
from robin_cli.ask.verdicts import kind_of, verdict_of
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale


def parse_lines(
    lines: IO[bytes],
    name: str,
    scale: str,
    out: IO[bytes],
    *,
    answers: str = "text",
    pairwise: bool = False,
    ties: bool = True,
) -> None:
    """Parse each line's ``text`` (and ``finish_reason``, ``refusal``, where given) and write one JSON object for it.

    Args:
        scale: the ratings allowed.
        pairwise: read verdicts on two responses in place of ratings; ``ties``: neither may be better.

    Raises:
        InputError: a scale or a form of answers that is none, or a line that is no object with a text.
    """
    kind = kind_of(pairwise=pairwise)
    allowed = (Scale(0, 2) if ties else Scale(0, 1)) if pairwise else read_scale(scale)
    if answers not in ANSWERS:
        raise InputError(f'--answers "{answers}": must be one of {", ".join(ANSWERS)}')
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        answer = _answer(line, f"{name}:{number}")
        rating = kind.parse(
            answer["text"],
            allowed,
            answers=answers,
            finish_reason=answer.get("finish_reason"),
            refusal=answer.get("refusal"),
        )
        value = verdict_of(rating.value, allowed) if pairwise else rating.value
        found: dict[str, Any] = {
            kind.noun: value,
            "status": "ok" if rating.reason is None else "unparsed",
        }
        if rating.reason is not None:
            found["reason"] = rating.reason
        out.write(orjson.dumps(found) + b"\n")
    out.flush()


def read_scale(text: str) -> Scale:
    """Parse a scale written like ``0-4``. InputError if it is invalid."""
    match = re.fullmatch(r"\s*(-?\d{1,9})\s*-\s*(-?\d{1,9})\s*", text, re.ASCII)
    if not match or int(match[1]) >= int(match[2]):
        raise InputError(
            f'--scale "{text}": write the lowest and the highest rating, for example 0-4'
        )
    return Scale(int(match[1]), int(match[2]))


def _answer(line: bytes, place: str) -> dict[str, Any]:
    try:
        answer = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(
            f'{place}: not JSON ({error}); write one object a line, {{"text": "…"}}'
        ) from None
    if (
        not isinstance(answer, dict)
        or not isinstance(answer.get("text"), str | None)
        or "text" not in answer
    ):
        raise InputError(f'{place}: no field "text" that holds text or null; write {{"text": "…"}}')
    if not all(isinstance(answer.get(name), str | None) for name in ("finish_reason", "refusal")):
        raise InputError(f"{place}: finish_reason and refusal must be text or null")
    return answer
