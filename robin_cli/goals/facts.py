"""Facts: each figure of a result with its sentence, written once. Every form renders the same list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from robin_cli.show.words import MOST_LINES


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure and its sentence: JSON gets ``name`` and ``value``, people get ``label`` and ``sentence``.

    Attributes:
        name: the key in JSON; "" for words alone.
        sentence: "" for a figure of JSON alone.
        label: the heading of its line in the status and the report; "" for a line of the answer.
    """

    name: str
    value: Any = None
    sentence: str = ""
    label: str = ""


def line(label: str, sentence: str) -> Fact:
    """Return a line whose figures other facts have in JSON; ``label``: "" in an answer."""
    return Fact("", None, sentence, label)


def in_json(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the values by name."""
    return {fact.name: fact.value for fact in facts if fact.name}


def in_lines(facts: Iterable[Fact]) -> dict[str, str]:
    """Return the sentences by label."""
    return {fact.label: fact.sentence for fact in facts if fact.label and fact.sentence}


def in_answer(facts: Iterable[Fact], last: Iterable[Fact]) -> list[str]:
    """Return the sentences of an answer, at most three. It keeps all of ``last``."""
    ending = in_sentences(last)
    return [*in_sentences(facts)[: MOST_LINES - len(ending)], *ending]


def in_sentences(facts: Iterable[Fact]) -> list[str]:
    return [fact.sentence for fact in facts if fact.sentence]
