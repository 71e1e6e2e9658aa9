"""A judge at an OpenAI-compatible endpoint: it makes requests, learns which parameters are accepted, and reads replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from robin_cli.data.images import with_parts
from robin_cli.judges.bodies import TooLong, Unreadable, one_line, read_json, short_text
from robin_cli.judges.dialect import RAISED, Dialect, features_of
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.judges.problems import (
    Stop,
    Unread,
    Unsupported,
    classify,
    refuse,
    too_long,
    unanswered,
)
from robin_cli.judges.replies import Completion, Outcome, read_completion
from robin_cli.judges.transport import Endpoint, Request, Response, Transport, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import UNREADABLE, Usage

TRIED = 20
"""Requests that ask for log probabilities only to see whether they come."""

_LISTING_S = 2.0
"""How long to wait for an endpoint's list of models."""

_MOST_LISTED = 5


class OpenAIJudge(Judge):
    """Asks an endpoint, and learns which parameters it accepts.

    Args:
        endpoint: its address and options.
        meter: completes the usage of replies.
        notify: gets lines about this endpoint for the user, each once.
    """

    _writes = True  # an answer has completion tokens

    def __init__(
        self, endpoint: Endpoint, *, meter: Meter | None = None, notify: Callable[[str], None]
    ) -> None:
        self._endpoint, self._meter = endpoint, meter or Meter(None)
        self._notices = Notices(endpoint.base_url, notify)
        self._dialect = Dialect(endpoint, self._notices)
        self._transport = Transport(endpoint)
        self._is_there = False
        self._last: Response | None = None
        self._look: asyncio.Task[None] | None = None
        self._slots: int | None = None

    @property
    def most_samples(self) -> int:
        return self._dialect.most_samples

    @property
    def slots(self) -> int | None:
        return self._slots

    @property
    def takes_system(self) -> bool:
        """Whether the endpoint accepts a system message, as far as is known yet."""
        return self._dialect.takes_system

    @property
    def raw_reply(self) -> str:
        """The last reply as the endpoint sent it, without the key; "" before the first, and for one that is too long."""
        return "" if self._last is None else self._last.plain().decode("utf-8", "replace")

    def parameters(self) -> set[str]:
        """Return the names of the parameters that are sent, after all that was learnt."""
        return set(self.body(Question([], seed=0))) - {"messages", "model"}

    def tokens(self, question: Question) -> int:
        """Return the estimated tokens of the question and the most of its answers."""
        prompt = self._meter.prompt_tokens(self._charged(question))
        return prompt + self._most_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(self._charged(question), self._most_tokens, question.samples)

    @property
    def _most_tokens(self) -> int:
        return most_tokens(self._endpoint.extra_body, self._dialect.limit)

    def _charged(self, question: Question) -> Sequence[Message]:
        """Return all texts of a question that are paid for."""
        return question.messages

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request. A failure is ``adapted``, at most once per parameter, if the endpoint refuses a parameter.

        Raises:
            EndpointError: every call would fail.
        """
        body, started = self.body(question), time.monotonic()
        self._dialect.trials = max(0, self._dialect.trials - 1)
        outcome = await self._send(body)
        if self._dialect.ends_trial(body, outcome):
            return await self.ask(question)
        read = self.read(question, body, outcome, time.monotonic() - started)
        if isinstance(read, Reply):
            self._dialect.accepted |= features_of(body)
            self._look = self._look or asyncio.create_task(self._look_around())
        elif read.refused and not read.adapted:
            return await self._ask_otherwise(question, body, read, started)
        return read

    async def _ask_otherwise(
        self, question: Question, body: dict[str, Any], refusal: Failure, started: float
    ) -> Reply | Failure:
        """Send what may be answered in place of a refused request; return the refusal if nothing is."""
        tried: set[str] = set()
        for feature, other in self._dialect.others(body, refusal):
            outcome = await self._send(other)
            if not (isinstance(outcome, Failure) and outcome.refused):
                if isinstance(
                    outcome, Completion
                ):  # the others may be refused too: the next request shows it
                    self._dialect.never_send(feature)
                return self.read(question, other, outcome, time.monotonic() - started)
            tried.add(feature)
        self._dialect.accepted |= tried  # leaving them out does not help
        return refusal

    def read(
        self, question: Question, body: Mapping[str, Any], outcome: Outcome, latency_s: float
    ) -> Reply | Failure:
        """Return the reply or failure for the ``outcome`` of the request ``body``. Learns and raises as :meth:`ask`."""
        match outcome:
            case Completion():
                return self._read_completion(question, body, outcome, latency_s)
            case Unread():
                return self._read_unreadable(question, body, outcome, latency_s)
            case Stop():
                raise self._transport.ended(outcome)
        detail, dialect = self._transport.redacted(outcome.detail), self._dialect
        if isinstance(outcome, Unsupported):
            adapted = dialect.restore_limit(body, detail) or dialect.adapt(outcome, body, detail)
            return replace(refuse(detail, latency_s), adapted=adapted)
        adapted = outcome.refused and dialect.restore_limit(body, detail)
        return replace(outcome, detail=detail, latency_s=latency_s, adapted=adapted)

    def _read_completion(
        self, question: Question, body: Mapping[str, Any], outcome: Completion, latency_s: float
    ) -> Reply:
        written = outcome.answers if self._writes else ()
        usage = self._meter.measured(self._charged(question), written, outcome.usage)
        if usage.estimated:
            self._notices.once(
                "does not count all tokens: missing counts are estimated, and marked so",
                key="estimated",
            )
        self._dialect.count_answers(len(outcome.answers), body)
        return Reply(
            self._transport.redactor.answers(outcome.answers[: question.samples]),
            outcome.model or self._endpoint.model,
            usage,
            outcome.request_id,
            latency_s,
            again=self._dialect.raise_limit(body, outcome),
            fingerprint=outcome.fingerprint,
        )

    def _read_unreadable(
        self, question: Question, body: Mapping[str, Any], outcome: Unread, latency_s: float
    ) -> Reply:
        """Return the reply whose body cannot be read, at the most that it may have cost."""
        detail, count = self._transport.redacted(outcome.detail), body.get("n", 1)
        self._notices.once(
            f"a reply cannot be read, and counts as paid for ({detail})", key=UNREADABLE
        )
        charged, longest = (
            self._charged(question),
            self._dialect.limit_of(body) or self._most_tokens,
        )
        cost = self._meter.most(charged, longest, count) if self._meter.price else None
        prompt = self._meter.prompt_tokens(charged)
        usage = Usage(prompt, count * longest, cost, estimated=True)
        answers = (Answer(detail),) * min(count, question.samples)
        return Reply(answers, self._endpoint.model, usage, None, latency_s, unread=True)

    async def probe(self, messages: Sequence[Message], extra: Mapping[str, Any]) -> Outcome:
        """Make one request with ``extra`` parameters and return its outcome, without retries."""
        return await self._send({**self.body(Question(messages)), **extra})

    async def _send(self, body: Mapping[str, Any]) -> Outcome:
        try:
            response = await self._transport.post(orjson.dumps(self._sent(body)))
        except Unreachable as error:
            self._is_there = self._is_there or error.sent
            return unanswered(str(error), timed_out=error.timed_out, was_there=self._is_there)
        except TooLong as error:
            return too_long(error)
        self._is_there, self._last = True, response
        try:
            return self._completion(response, body)
        finally:
            response.done()

    def _sent(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a body as it is sent, with its images."""
        return {**body, "messages": with_parts(body["messages"])}

    def _completion(self, response: Response, body: Mapping[str, Any]) -> Outcome:
        """Return the answers in the response to ``body``, or its problem."""
        try:
            if not response.is_good:
                return classify(response.status, response.plain(), response.headers)
            return self._read_good(response, body)
        except TooLong as error:
            return too_long(error)
        except Unreadable as error:
            return Unread(f"a {response.status} {error}")

    def _read_good(self, response: Response, body: Mapping[str, Any]) -> Outcome:  # noqa: ARG002
        return read_completion(response.plain(), response.headers, status=response.status)

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of a request for ``question``, after all that was learnt."""
        is_paid = self.most_cost(question) <= question.most_usd
        limit = self._dialect.limit if is_paid else self._endpoint.max_tokens
        return self._dialect.body(question, limit)

    def body_then(self, question: Question, outcome: Outcome | None) -> dict[str, Any]:
        """Return the body of an earlier request with this ``outcome``: the limit on answers may have been raised since."""
        body, dialect, endpoint = self.body(question), self._dialect, self._endpoint
        is_raised = dialect.limit > endpoint.max_tokens or not endpoint.raises
        if isinstance(outcome, Completion) and is_raised:
            tokens = (outcome.usage.completion_tokens or 0) // len(outcome.answers)
            if dialect.limit // RAISED <= tokens < dialect.limit:
                body[dialect.limit_name] = dialect.limit // RAISED
        return body

    def refuses_several(self) -> bool:
        """Ask for one rating per request, unless a request for several was answered; return whether it is so."""
        return self._dialect.refuses_several()

    async def _look_around(self) -> None:
        """Note that the endpoint lists its models, but not this one; learn how many slots llama.cpp's server has."""
        with suppress(EndpointError, Unreachable, TooLong, Unreadable, TimeoutError):
            async with asyncio.timeout(_LISTING_S):
                listing = await self._get("models")
                entries = listing.get("data")
                entries = entries if isinstance(entries, list) else []
                models = [entry for entry in entries if isinstance(entry, dict)]
                if models and models[0].get("owned_by") == "llamacpp":
                    slots = (await self._get("../props")).get("total_slots")
                    self._slots = slots if isinstance(slots, int) and slots > 0 else None
            names = [one_line(short_text(model.get("id"))) for model in models]
            is_listed = _bare_name(self._endpoint.model) in map(_bare_name, names)
            if any(names) and not listing.get("has_more") and not is_listed:
                listed = self._transport.redacted(", ".join(names[:_MOST_LISTED]))
                self._notices.once(
                    f"does not list the model {self._endpoint.model}, but {listed}; is --model right?"
                )

    async def _get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at ``path``; an empty one if there is none. Raises as :meth:`Transport.send`."""
        response = await self._transport.send(Request("GET", path))
        try:
            content = read_json(response.plain()) if response.is_good else None
            return content if isinstance(content, dict) else {}
        finally:
            response.done()

    async def aclose(self) -> None:
        if self._look is not None:
            await asyncio.wait({self._look})
        await self._transport.aclose()


def _bare_name(model: str) -> str:
    """Return a model's name without the folder, variant and version that some endpoints leave out of their lists."""
    return model.rpartition("/")[2].partition(":")[0].removesuffix("-latest").lower()
