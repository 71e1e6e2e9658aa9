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

        Whole lines are looked for first; where that finds nothing, any place will do.
        """
        text = "\n" + "\n".join(_contents(messages)) + "\n"
        for mark in ("\n", ""):
            best, most = None, -1
            for prompt, numbers in self._of_prompt.items():
                at = text.find(f"{mark}{self._shown[prompt]}{mark}")
                if at < 0:
                    continue
                behind = at + len(mark) + len(self._shown[prompt])
                for number in numbers:
                    found = self._order(text, behind, number, mark)
                    taken = (
                        len(prompt) + len(self._pool.pairs[number].response) + len(self._pool.pairs[number].other or "")
                    )
                    if found is not None and taken > most:
                        best, most = Asked(number, found, _offers_tie(text, self._texts(number))), taken
            if best is not None:
                return best
        return None

    def verdict(self, asked: Asked, rng: np.random.Generator) -> str:
        """A, B or tie, as the question calls its responses."""
        if rng.random() < 2 * abs(self._first_place):
            return "A" if self._first_place > 0 else "B"
        points = int(rng.choice(self._pool.points[asked.order][asked.comparison]))
        if points == 1 and not asked.ties:
            points = 2 * int(rng.integers(2))
        return _SAID[2 - points if asked.order else points]

    def _texts(self, number: int) -> tuple[str, str, str]:
        pair = self._pool.pairs[number]
        return self._shown[pair.prompt], pair.response, pair.other or ""

    def _order(self, text: str, behind: int, number: int, mark: str) -> int | None:
        """0 where A comes before B in the question, 1 where it comes behind it; None where they are not in it."""
        _, a, b = self._texts(number)
        for order, (first, second) in enumerate(((a, b), (b, a))):
            at = text.find(f"{mark}{first}{mark}", behind)
            if at >= 0 and text.find(f"{mark}{second}{mark}", at + len(mark) + len(first)) >= 0:
                return order
        return None


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


def _offers_tie(text: str, texts: Sequence[str]) -> bool:
    """Whether the question, but for what it is about, speaks of a tie."""
    for each in sorted(texts, key=len, reverse=True):
        text = text.replace(each, " ") if each else text
    return _TIE.search(text) is not None


def _as_shown(prompt: str) -> str:
    turns = marked_turns(prompt)
    return prompt if len(turns) == 1 else named_turns(turns)
