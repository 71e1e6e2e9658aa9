"""The values that pass between a run and a judge: a question, and its reply or failure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from robin_cli.model.records import PERMANENT_FAILURES, REFUSALS, Usage

Message = Mapping[str, Any]
"""A chat message: ``role``, ``content``, and perhaps ``images``, which are sent as parts of its content."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a judge.

    Attributes:
        messages: chat messages, each with ``role`` and ``content``.
        samples: number of answers wanted, at least 1.
        seed: sent with it if the run has one; never twice the same for an arm.
        structure: fields of the request's body that hold the answers to a format: a schema, or a decision model's questions.
        most_usd: US dollars reserved for it; it may ask for no answer that could cost more.
    """

    messages: Sequence[Message]
    samples: int = 1
    seed: int | None = None
    structure: Mapping[str, Any] = field(default_factory=dict)
    most_usd: float = math.inf


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice of a reply; ``tokens`` as the endpoint sent them, with their log probabilities, if it did."""

    text: str
    finish_reason: str | None = None
    refusal: str | None = None
    tokens: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answered request, which is paid for. It has at least one answer, with or without a rating.

    ``again``: all answers were cut before their text and may be longer from now on, so it is retried like a failure.
    ``unread``: its body cannot be read, and each answer's text says why. ``fingerprint``: of the model's configuration.
    """

    answers: tuple[Answer, ...]
    model: str
    usage: Usage
    request_id: str | None
    latency_s: float
    again: bool = False
    unread: bool = False
    fingerprint: str | None = None

    def split(self, count: int) -> list[Reply]:
        """Return the reply to a question about ``count`` arms as one for each; the first carries the tokens and the cost.

        Each has its own answer; a single answer is about all of them.
        """
        if count == 1:
            return [self]
        answers = self.answers * (count if len(self.answers) == 1 else 1)
        return [
            replace(self, answers=(answer,), usage=self.usage.rest if number else self.usage)
            for number, answer in enumerate(answers)
        ]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer.

    Attributes:
        reason: one of PERMANENT_FAILURES if asking the same again cannot help; any other may pass.
        detail: the endpoint's message, on one line, without secrets.
        latency_s: seconds it took.
        retry_after_s: seconds that the endpoint asked to wait.
        throttled: one request too many at a time: no error of the endpoint, and waited out.
        overloaded: fewer requests at a time may help.
        tries: the most tries, permanent or not; None for the usual number.
        parameter: what the endpoint refuses of the request, if it says so: ask without it, or with another name for it.
        most: a smaller value of ``parameter``, of at most so much, would do; 0 if none would.
        adapted: the judge learnt from it to leave something out: the request is repeated at once and no failure counts.
    """

    reason: str
    detail: str
    latency_s: float = 0.0
    retry_after_s: float | None = None
    throttled: bool = False
    overloaded: bool = False
    tries: int | None = None
    parameter: str = ""
    most: int = 0
    adapted: bool = False

    @property
    def permanent(self) -> bool:
        """Whether asking the same again cannot help."""
        return self.reason in PERMANENT_FAILURES

    @property
    def refused(self) -> bool:
        """Whether the endpoint refused the request as it is, and did not merely fail."""
        return self.reason in REFUSALS

    @property
    def transient(self) -> bool:
        """Whether the same request may be answered if it is repeated."""
        return self.tries is not None or not self.permanent
