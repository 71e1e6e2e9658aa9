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
from robin_cli.judges.dialect import Dialect, has_system, without_system
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
from robin_cli.judges.replies import (
    Completion,
    Outcome,
    read_completion,
)
from robin_cli.judges.transport import RAISED, Endpoint, Request, Response, Transport, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import UNREADABLE, Usage

TRIED = 20
"""Requests that ask for log probabilities only to see whether they come."""

_MANY_TOKENS = 1_000_000
"""No count of tokens up to here is doubted."""

_LISTING_S = 2.0
"""How long to wait for an endpoint's list of models."""

_MOST_LISTED = 5

_AT_ONCE_BYTES = 16 * 1024
"""Longer replies are read one after another, each in its own turn of the event loop, because reading them takes time."""


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
        self._endpoint = endpoint
        self._meter = meter or Meter(None)
        self._notices = Notices(endpoint.base_url, notify)
        self._dialect = Dialect(endpoint, self._notices)
        self._transport = Transport(endpoint)
        self._kept: set[str] = set()  # "n" and "system", once leaving them out would not help
        self._reading = asyncio.Lock()
        self._is_there = False
        self._last: Response | None = None
        self._listing: asyncio.Task[None] | None = None
        self._slots: int | None = None

    @property
    def most_samples(self) -> int:
        return self._dialect.most_samples

    @property
    def slots(self) -> int | None:
        return self._slots

    @property
    def raw_reply(self) -> str:
        """The last reply as the endpoint sent it, without the key; "" before the first, and for one that is too long."""
        return "" if self._last is None else self._last.plain().decode("utf-8", "replace")

    def tokens(self, question: Question) -> int:
        """Return the estimated tokens of the question and the most of its answers."""
        prompt = self._meter.prompt_tokens(self._charged(question))
        return prompt + self._most_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(self._charged(question), self._most_tokens, question.samples)

    def _charged(self, question: Question) -> Sequence[Message]:
        """Return all texts of a question that are paid for."""
        return question.messages

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request. A failure is ``adapted``, at most once per parameter, if the endpoint refuses a parameter.

        Raises:
            EndpointError: every call would fail.
        """
        body, started = self.body(question), time.monotonic()
        self._dialect.trials -= self._dialect.trials > 0
        outcome = await self._send(body)
        if self._ends_trial(body, outcome):
            return await self.ask(question)
        read = self.read(question, body, outcome, time.monotonic() - started)
        if isinstance(read, Reply):
            self._kept |= _features(body)
            self._listing = self._listing or asyncio.create_task(self._look_around())
        elif read.refused and not read.adapted:
            return await self._ask_otherwise(question, body, read, started)
        return read

    def _ends_trial(self, body: Mapping[str, Any], outcome: Outcome) -> bool:
        """Return whether log probabilities that were only tried may be why a request was refused; stop trying if it failed."""
        is_tried = "logprobs" in body and "logprobs" not in self._endpoint.extra_body
        if self._endpoint.logprobs or not is_tried or isinstance(outcome, Completion):
            return False
        self._dialect.trials = 0
        if isinstance(outcome, Failure):
            return outcome.refused and not outcome.permanent
        return isinstance(outcome, Unsupported)

    async def _ask_otherwise(
        self, question: Question, body: dict[str, Any], refusal: Failure, started: float
    ) -> Reply | Failure:
        """Send what may be answered in place of a refused request; return the refusal if nothing is.

        A prompt that is too long may leave room for an answer of half the length. Unknown words may refuse ``n`` or the system
        message, as long as neither was ever accepted.
        """
        others: dict[str, dict[str, Any]] = {}
        limit, features = self._dialect.limit_of(body), _features(body) - self._kept
        if refusal.reason == "context_length":
            if limit > 1 and self._dialect.limit_name not in self._endpoint.extra_body:
                others["length"] = {**body, self._dialect.limit_name: limit // 2}
        elif not refusal.permanent:
            if "n" in features:
                others["n"] = body = {name: body[name] for name in body if name != "n"}
            if "system" in features:
                others["system"] = {**body, "messages": without_system(body["messages"])}
        for left_out, other in others.items():
            outcome = await self._send(other)
            if not (isinstance(outcome, Failure) and outcome.refused):
                if isinstance(outcome, Completion):
                    self._dialect.never_send(left_out)
                return self.read(question, other, outcome, time.monotonic() - started)
        self._kept |= others.keys()
        return refusal

    def read(
        self,
        question: Question,
        body: Mapping[str, Any],
        outcome: Outcome,
        latency_s: float,
    ) -> Reply | Failure:
        """Return the reply or failure for the ``outcome`` of the request ``body``. Learns and raises as :meth:`ask`."""
        match outcome:
            case Completion():
                return self._read_completion(question, body, outcome, latency_s)
            case Unsupported():
                detail = self._transport.redacted(outcome.detail)
                adapted = self._dialect.restore_limit(body, detail) or self._dialect.adapt(
                    outcome, body, detail
                )
                return replace(refuse(detail, latency_s), adapted=adapted)
            case Failure():
                detail = self._transport.redacted(outcome.detail)
                adapted = outcome.refused and self._dialect.restore_limit(body, detail)
                return replace(outcome, detail=detail, latency_s=latency_s, adapted=adapted)
            case Unread():
                return self._read_unreadable(question, body, outcome.detail, latency_s)
            case Stop():
                raise self._transport.ended(outcome)

    async def probe(self, messages: Sequence[Message], extra: Mapping[str, Any]) -> Outcome:
        """Make one request with ``extra`` parameters and return its outcome, without retries."""
        return await self._send({**self.body(Question(messages)), **extra})

    @property
    def _most_tokens(self) -> int:
        return most_tokens(self._endpoint.extra_body, self._dialect.limit)

    @property
    def takes_system(self) -> bool:
        """Whether the endpoint accepts a system message, as far as is known yet."""
        return self._dialect.takes_system

    def parameters(self) -> set[str]:
        """Return the names of the parameters that are sent, after all that was learnt."""
        return set(self.body(Question([], seed=0))) - {"messages", "model"}

    async def aclose(self) -> None:
        if self._listing is not None:
            await asyncio.wait({self._listing})
        await self._transport.aclose()

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

    def refuses_several(self) -> bool:
        """Ask for one rating per request, unless a request for several was answered; return whether it is so."""
        return self._dialect.refuses_several()

    def _read_completion(
        self, question: Question, body: Mapping[str, Any], outcome: Completion, latency_s: float
    ) -> Reply:
        usage = outcome.usage
        if max(usage.prompt_tokens or 0, usage.completion_tokens or 0) > _MANY_TOKENS:
            usage = _believed(usage, self._most_usage(question, body))
        written = outcome.answers if self._writes else ()
        usage = self._meter.measured(self._charged(question), written, usage)
        self._dialect.count_answers(len(outcome.answers), body.get("n", 1))
        if usage.estimated:
            self._notices.once(
                "does not count all tokens: missing counts are estimated, and marked so",
                key="estimated",
            )
        model = outcome.model or self._endpoint.model
        answers = self._transport.redactor.answers(outcome.answers[: question.samples])
        if self._dialect.limit_of(body) > self._endpoint.max_tokens:
            self._dialect.is_raised_taken = True
        again, fingerprint = self._dialect.raise_limit(body, outcome), outcome.fingerprint
        return Reply(
            answers, model, usage, outcome.request_id, latency_s, again, fingerprint=fingerprint
        )

    def _read_unreadable(
        self, question: Question, body: Mapping[str, Any], why: str, latency_s: float
    ) -> Reply:
        """Return the reply whose body cannot be read, at the most that it may have cost."""
        usage = self._most_usage(question, body)
        detail = self._transport.redacted(why)
        self._notices.once(
            f"a reply cannot be read, and counts as paid for ({detail})", key=UNREADABLE
        )
        answers = (Answer(detail),) * min(body.get("n", 1), question.samples)
        return Reply(answers, self._endpoint.model, usage, None, latency_s, unread=True)

    def _most_usage(self, question: Question, body: Mapping[str, Any]) -> Usage:
        """Return the most that a request may have used, and its cost."""
        count, longest = body.get("n", 1), self._dialect.limit_of(body) or self._most_tokens
        priced = self._meter.price is not None
        charged = self._charged(question)
        cost = self._meter.most(charged, longest, count) if priced else None
        return Usage(self._meter.prompt_tokens(charged), count * longest, cost, estimated=True)

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
            if len(response.body) <= _AT_ONCE_BYTES and not response.encoding:
                return self._completion(response, body)
            async with self._reading:
                # other tasks go first, also those that follow the previous answer
                await asyncio.sleep(0)
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
        body, endpoint = self.body(question), self._endpoint
        if isinstance(outcome, Completion) and (
            self._dialect.limit > endpoint.max_tokens or not endpoint.raises
        ):
            took = (outcome.usage.completion_tokens or 0) // len(outcome.answers)
            if self._dialect.limit // RAISED <= took < self._dialect.limit:
                body[self._dialect.limit_name] = self._dialect.limit // RAISED
        return body


def _believed(usage: Usage, most: Usage) -> Usage:
    """Return ``usage``; ``most`` where it counts more tokens than the request could take, whatever its tokenizer."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    is_beyond = prompt > max(_MANY_TOKENS, 200 * (most.prompt_tokens or 0))
    is_beyond |= completion > max(_MANY_TOKENS, 10 * (most.completion_tokens or 0))
    return most if is_beyond else usage


def _features(body: Mapping[str, Any]) -> set[str]:
    """Return which of the features that some endpoints refuse are in a request."""
    has = {"n": body.get("n", 1) > 1, "system": has_system(body)}
    return {name for name, is_there in has.items() if is_there}


def _bare_name(model: str) -> str:
    """Return a model's name without the folder, variant and version that some endpoints leave out of their lists."""
    return model.rpartition("/")[2].partition(":")[0].removesuffix("-latest").lower()
