"""What passes between a run and a judge: a question, and the reply or failure that comes of it. Values, nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from robin_cli.model.records import NO_ROOM, PERMANENT_FAILURES, Usage

Message = Mapping[str, Any]
"""A chat message: ``role``, ``content``, and perhaps ``images``: with them its content is sent as a list of parts."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a judge.

    Attributes:
        messages: chat messages, each with ``role`` and ``content``.
        samples: ratings wanted of it, at least 1.
        seed: sent along where the run has one; never twice the same for an arm.
        structure: sent along so that the answer has a format that the endpoint enforces; by name in the request's body.
        at_normal_tier: ask at the normal service tier, whatever the run asks for.
        most_usd: set aside for it: it may ask for no answer that could cost more.
    """

    messages: Sequence[Message]
    samples: int = 1
    seed: int | None = None
    structure: Mapping[str, Any] = field(default_factory=dict)
    at_normal_tier: bool = False
    most_usd: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of a reply; ``tokens`` as the endpoint sent them with their log probabilities, if it did."""

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    tokens: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A request that was answered: at least one answer, which may carry a rating or not. It was paid for.

    ``again``: all were cut off before their text, and may be longer from now on: it is asked again as after a failure.
    """

    answers: tuple[Answer, ...]
    model: str
    usage: Usage
    request_id: str | None
    latency_s: float
    again: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer.

    Attributes:
        reason: of PERMANENT_FAILURES where asking the same again cannot help; any other may pass.
        detail: what was said, on one line, without secrets.
        latency_s: how long it took, with retries.
        retry_after_s: what the endpoint asked to wait.
        throttled: it was one request too many: no error of the endpoint, and waited out.
        overloaded: fewer requests at a time may help.
        tries: make it so often at most, permanent or not; None: as often as any other.
        adapted: the judge learnt from it what not to send: it is made again at once, and is no failure then.
        falls_back: it is made again at once, at the normal service tier, and is no failure then.
    """

    reason: str
    detail: str
    latency_s: float = 0.0
    retry_after_s: float | None = None
    throttled: bool = False
    overloaded: bool = False
    tries: int | None = None
    adapted: bool = False
    falls_back: bool = False

    @property
    def lacks_room(self) -> bool:
        """Whether the service tier asked for had no room: neither an error nor one request too many, and not charged."""
        return self.reason == NO_ROOM

    @property
    def permanent(self) -> bool:
        """Whether asking the same again cannot help."""
        return self.reason in PERMANENT_FAILURES

    @property
    def transient(self) -> bool:
        """Whether the same request may be answered when it is made again."""
        return self.tries is not None or not self.permanent
