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
from robin_cli.judges.bodies import Body, TooLong, Unreadable, one_line, read_json, short_text
from robin_cli.judges.dialect import Dialect
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.judges.problems import Fatal, Problem, Unread, classify, too_long
from robin_cli.judges.replies import Completion, read_completion
from robin_cli.judges.transport import Endpoint, Request, Response, Transport, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import UNREADABLE, Usage

_TRIES_AT_FIRST = 2
"""The tries of a call before the first connection: a wrong address is reported at once, a later outage is waited out."""

_LISTING_S = 2.0
"""How long to wait for an endpoint's list of models."""

_MOST_LISTED = 5


class OpenAIJudge(Judge):
    """Asks an endpoint, and learns which parameters it accepts.

    Args:
        endpoint: its address and options.
        meter: completes the usage of replies.
        notify: gets lines about this endpoint for the user, each once.

    Attributes:
        dialect: what it has learnt.
    """

    _writes = True  # an answer has completion tokens

    def __init__(
        self, endpoint: Endpoint, *, meter: Meter | None = None, notify: Callable[[str], None]
    ) -> None:
        self._endpoint, self._meter = endpoint, meter or Meter(None)
        self._notices = Notices(endpoint.base_url, notify)
        self.dialect = Dialect(endpoint, self._notices)
        self._transport = Transport(endpoint)
        self._is_there = False
        self._last: Body = b""
        self._look: asyncio.Task[None] | None = None

    @property
    def most_samples(self) -> int:
        return self.dialect.most_samples

    @property
    def raw_reply(self) -> str:
        """The last reply as the endpoint sent it, without the key; "" before the first."""
        return self._last.decode("utf-8", "replace")

    def tokens(self, question: Question) -> int:
        prompt = self._meter.prompt_tokens(self._charged(question))
        return prompt + self._most_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(self._charged(question), self._most_tokens, question.samples)

    @property
    def _most_tokens(self) -> int:
        return most_tokens(self._endpoint.extra_body, self.dialect.limit)

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request, and others as long as it is refused in words that nobody knows, and may be answered in part.

        A failure is ``adapted``, at most once per parameter, if the endpoint refuses a parameter.

        Raises:
            EndpointError: every call would fail.
        """
        body, started = self.body(question), time.monotonic()
        first, dialect = body, self.dialect
        outcome = await self._send(body)
        read = self.read(question, body, outcome, time.monotonic() - started)
        while isinstance(read, Failure) and read.refused and not read.adapted:
            if (other := dialect.lacking(body, read)) is None:
                dialect.accepted |= dialect.features_of(first)  # leaving them out does not help
                break
            feature, body = other
            outcome = await self._send(body)
            if isinstance(outcome, Completion):
                dialect.never_send(feature)  # others may be refused too: the next request shows it
            read = self.read(question, body, outcome, time.monotonic() - started)
        if isinstance(read, Reply) and self._look is None:
            self._look = asyncio.create_task(self._look_around())
        return read

    async def probe(
        self, messages: Sequence[Message], extra: Mapping[str, Any]
    ) -> Completion | Problem:
        """Make one request with ``extra`` parameters and return its outcome, without retries."""
        return await self._send({**self.body(Question(messages)), **extra})

    async def _send(self, body: Mapping[str, Any]) -> Completion | Problem:
        try:
            response = await self._transport.post(orjson.dumps(self._sent(body)))
            self._is_there, self._last = True, response.body
            return self._outcome(response, body)
        except Unreachable as error:
            self._is_there = self._is_there or error.sent
            tries = None if self._is_there else _TRIES_AT_FIRST
            return Failure("timeout" if error.timed_out else "connection", str(error), tries=tries)
        except TooLong as error:
            return too_long(error)
        except Unreadable as error:
            return Unread(f"a reply {error}")

    def read(
        self,
        question: Question,
        body: Mapping[str, Any],
        outcome: Completion | Problem,
        latency_s: float,
    ) -> Reply | Failure:
        """Return the reply or failure for the ``outcome`` of the request ``body``. Learns and raises as :meth:`ask`."""
        if isinstance(outcome, Completion):
            return self._read_completion(question, body, outcome, latency_s)
        if isinstance(outcome, Fatal):
            raise self._transport.ended(outcome)
        detail = self._transport.redacted(outcome.detail)
        if isinstance(outcome, Unread):
            return self._read_unreadable(question, body, detail, latency_s)
        failure = replace(outcome, detail=detail, latency_s=latency_s)
        is_adapted = failure.refused and self.dialect.adapt(failure, body)
        return replace(failure, adapted=is_adapted)

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
        return Reply(
            self._transport.redactor.answers(outcome.answers[: question.samples]),
            outcome.model or self._endpoint.model,
            usage,
            outcome.request_id,
            latency_s,
            again=self.dialect.learn(body, outcome),
            fingerprint=outcome.fingerprint,
        )

    def _read_unreadable(
        self, question: Question, body: Mapping[str, Any], detail: str, latency_s: float
    ) -> Reply:
        """Return the reply whose body cannot be read, at the most that it may have cost."""
        self._notices.once(
            f"a reply cannot be read, and counts as paid for ({detail})", key=UNREADABLE
        )
        count, longest = body.get("n", 1), self.dialect.limit_of(body) or self._most_tokens
        charged = self._charged(question)
        cost = self._meter.most(charged, longest, count) if self._meter.price else None
        prompt = self._meter.prompt_tokens(charged)
        usage = Usage(prompt, count * longest, cost, estimated=True)
        answers = (Answer(detail),) * min(count, question.samples)
        return Reply(answers, self._endpoint.model, usage, None, latency_s, unread=True)

    # ── what decision models do in another way ────────────────────────────────────────────────────

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of a request for ``question``, after all that was learnt."""
        limit, usual = self.dialect.limit, self.dialect.usual
        is_paid = limit <= usual or self.most_cost(question) <= question.most_usd
        return self.dialect.body(question, limit if is_paid else usual)

    def _sent(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**body, "messages": with_parts(body["messages"])}

    def _charged(self, question: Question) -> Sequence[Message]:
        """Return all texts of a question that are paid for."""
        return question.messages

    def _outcome(self, response: Response, body: Mapping[str, Any]) -> Completion | Problem:  # noqa: ARG002
        """Return the answers in the response to ``body``, or its problem. TooLong: they are too long."""
        status, headers = response.status, response.headers
        if not response.is_good:
            return classify(status, response.body, headers)
        return read_completion(response.body, headers, status=status)

    # ── what else the endpoint says ───────────────────────────────────────────────────────────────

    async def _look_around(self) -> None:
        """Note that the endpoint lists its models, but not this one; learn how many slots llama.cpp's server has."""
        with suppress(EndpointError, Unreachable, Unreadable, TimeoutError):
            async with asyncio.timeout(_LISTING_S):
                listing = await self._get("models")
                entries = listing.get("data")
                entries = entries if isinstance(entries, list) else []
                models = [entry for entry in entries if isinstance(entry, dict)]
                if models and models[0].get("owned_by") == "llamacpp":
                    slots = (await self._get("../props")).get("total_slots")
                    self.slots = slots if isinstance(slots, int) and slots > 0 else None
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
        content = read_json(response.body) if response.is_good else None
        return content if isinstance(content, dict) else {}

    async def aclose(self) -> None:
        if self._look is not None:
            await asyncio.wait({self._look})
        await self._transport.aclose()


def _bare_name(model: str) -> str:
    """Return a model's name without the folder, variant and version that some endpoints leave out of their lists."""
    return model.rpartition("/")[2].partition(":")[0].removesuffix("-latest").lower()
