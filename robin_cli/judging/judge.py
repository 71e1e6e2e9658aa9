"""What a judge is to the rest of robin: something that is asked, and answers, cannot for this pair, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from robin_cli.records import Usage

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a judge.

    Attributes:
        messages: chat messages, each with ``role`` and ``content``.
        samples: ratings wanted of it, at least 1.
        seed: sent along where the run has one; never twice the same for an arm.
        structure: sent along so that the answer has a format that the endpoint enforces; by name in the request's body.
    """

    messages: Sequence[Message]
    samples: int = 1
    seed: int | None = None
    structure: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of a reply; ``tokens`` as the endpoint sent them with their log probabilities, if it did."""

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    tokens: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A request that was answered: at least one answer, which may carry a rating or not. It was paid for."""

    answers: tuple[Answer, ...]
    model: str
    usage: Usage
    request_id: str | None
    latency_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer: refused for this pair (``reason`` in PERMANENT_FAILURES), or given up after retries."""

    reason: str
    detail: str
    latency_s: float


class Judge(Protocol):
    """The interface between a run and what it asks."""

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings at most, as far as is known by now; at least 1."""

    def most_cost(self, question: Question) -> float:
        """What asking costs at most, in US dollars; 0 where no price is known."""

    async def ask(self, question: Question) -> Reply | Failure:
        """Ask once, with retries.

        Raises:
            EndpointError: an error after which every call would fail.
        """

    async def aclose(self) -> None:
        """Close connections."""
