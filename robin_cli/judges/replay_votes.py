"""Which recorded comparison a question is about, read off the texts in it, and the verdict that answers it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from robin_cli.datasets.chats import marked_turns, named_turns
from robin_cli.datasets.votes import VotePool

_SAID = ("B", "tie", "A")
_MARKS = ((":\n", "\n"), ("\n", "\n"), ("", ""))
"""What stands before a text in a question, and behind it."""

_TIE = re.compile(r"\btie\b", re.IGNORECASE)


class Asked(NamedTuple):
    """A recorded comparison, the order it was asked in (0 where its A came first), and whether a tie is an answer."""

    comparison: int
    order: int
    ties: bool


class Votes:
    """Finds recorded comparisons in questions, and draws verdicts on them.

    Args:
        pool: recorded verdicts.
        first_place: how much oftener the response that comes first is preferred than without its place, −½ to ½: it is
            preferred whatever was recorded with twice this probability, or the second where it is below 0.
    """

    def __init__(self, pool: VotePool, first_place: float = 0.0) -> None:
        self._pool, self._first_place = pool, first_place
        self._of_prompt: dict[str, list[int]] = {}
        for number, pair in enumerate(pool.pairs):
            self._of_prompt.setdefault(pair.prompt, []).append(number)
        self._shown = {prompt: _as_shown(prompt) for prompt in self._of_prompt}

    def asked(self, messages: Sequence[object]) -> Asked | None:
        """What is asked about: the recorded prompt and its two responses that take up most of the question, in this order.

        Whole lines behind a label are looked for first, as our template shows them, then whole lines, then any place.
        """
        text = "\n" + "\n".join(_contents(messages)) + "\n"
        for marks in _MARKS:
            found = [each for prompt in self._of_prompt for each in self._found(text, prompt, *marks)]
            if found:
                _, comparison, order, rest = max(found, key=lambda each: each[0])
                return Asked(comparison, order, ties=_TIE.search(rest) is not None)
        return None

    def _found(self, text: str, prompt: str, mark: str, end: str) -> Iterator[tuple[int, int, int, str]]:
        """The comparisons of a prompt that are in a question: how long their texts are, which, its order, and what is left."""
        shown = self._shown[prompt]
        asked = _after(text, mark, shown, end)
        if asked is None:
            return
        before, rest = asked
        for number in self._of_prompt[prompt]:
            a, b = self._pool.pairs[number].response, self._pool.pairs[number].other or ""
            for order, (first, second) in enumerate(((a, b), (b, a))):
                one = _after(rest, mark, first, end)
                two = one and _after(one[1], mark, second, end)
                if one and two:
                    yield len(shown) + len(a) + len(b), number, order, "\n".join((before, one[0], *two))
                    break

    def verdict(self, asked: Asked, rng: np.random.Generator) -> str:
        """A, B or tie, as the question calls its responses."""
        if rng.random() < 2 * abs(self._first_place):
            return "A" if self._first_place > 0 else "B"
        points = int(rng.choice(self._pool.points[asked.order][asked.comparison]))
        if points == 1 and not asked.ties:
            points = 2 * int(rng.integers(2))
        return _SAID[2 - points if asked.order else points]


def _after(text: str, mark: str, sought: str, end: str) -> tuple[str, str] | None:
    """What is before a text between two marks, and what is behind it from the second mark on; None where it is not there."""
    at = text.find(f"{mark}{sought}{end}")
    return None if at < 0 else (text[: at + len(mark)], text[at + len(mark) + len(sought) :])


def answer_of(verdict: str, feedback: str, body: dict[str, object]) -> str:
    """The text of an answer: JSON where the request asks for it, else two lines."""
    asked = body.get("response_format")
    if isinstance(asked, dict) and str(asked.get("type")).startswith("json"):
        return orjson.dumps({"feedback": feedback, "verdict": verdict}).decode()
    return f"Feedback: {feedback}\nVerdict: {verdict}"


def _contents(messages: Sequence[object]) -> Iterator[str]:
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from (
                part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
            )


def _as_shown(prompt: str) -> str:
    turns = marked_turns(prompt)
    return prompt if len(turns) == 1 else named_turns(turns)
