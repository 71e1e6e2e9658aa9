"""A judge at an OpenAI-compatible endpoint: it makes requests, learns which parameters are accepted, and reads replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from robin_cli.datasets.images import with_parts
from robin_cli.judges.bodies import TooLong, Unreadable
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.judges.replies import (
    EITHER,
    IMAGES,
    Completion,
    Problem,
    Stop,
    Unread,
    Unsupported,
    classify,
    read_completion,
    refusal,
    too_long,
)
from robin_cli.judges.transport import Endpoint, Response, Transport, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import UNREADABLE, Usage
from robin_cli.parsing.expectation import TOP_LOGPROBS
from robin_cli.parsing.forms import RESPONSE_FORMAT
from robin_cli.parsing.reasoning import without_reasoning

_FEW_LOGPROBS = 5
"""Some endpoints return no more per token."""

RAISED = 4
"""The factor by which the limit on answers is raised, once one was cut off before its text."""

_TRIES_AT_FIRST = 2
"""The tries of a call before the first connection: a wrong address is reported at once, a later outage is waited out."""

_AT_LIMIT = ("length", "max_tokens", "model_length")
"""The finish reasons of an answer that a limit on tokens cut."""

_AT_ONCE_BYTES = 16 * 1024
"""Longer replies are read one after another, each in its own turn of the event loop, because reading them takes time."""


class OpenAIJudge(Judge):
    """Asks an endpoint, and learns which parameters it accepts.

    Args:
        endpoint: its address and options.
        meter: completes the usage of replies.
        notify: gets lines about this endpoint for the user, each once.
    """

    def __init__(
        self, endpoint: Endpoint, *, meter: Meter | None = None, notify: Callable[[str], None]
    ) -> None:
        self._endpoint = endpoint
        self._meter = meter or Meter(None)
        self._notices = Notices(endpoint.base_url, notify)
        self._limit = endpoint.max_tokens
        self._raises = endpoint.raises and most_tokens(endpoint.extra_body, 0) == 0
        self._most_samples = 2**31
        self._top_logprobs = TOP_LOGPROBS
        self._without: set[str] = set()
        self._known: set[str] = set()  # of "n" and "system": accepted, or doubted once
        self._doubted = ""
        self._renamed: dict[str, str] = {}
        self._reading = asyncio.Lock()
        self._is_there = self._took_raised = False
        self._transport = Transport(endpoint)
        self._last: Response | None = None

    @property
    def most_samples(self) -> int:
        return 1 if self._doubted == "n" else self._most_samples

    @property
    def raw_reply(self) -> str:
        """The last reply as the endpoint sent it, without the key; "" before the first, and for one that is too long."""
        return "" if self._last is None else self._last.plain().decode("utf-8", "replace")

    def tokens(self, question: Question) -> int:
        """Return the estimated tokens of the question and the most of its answers."""
        characters = sum(len(message["content"]) for message in question.messages)
        return self._meter.tokens(characters) + self._most_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(question.messages, self._most_tokens, question.samples)

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request. A failure is ``adapted``, at most once per parameter, if the endpoint refuses a parameter.

        Raises:
            EndpointError: every call would fail.
        """
        body = self.body(question)
        started = time.monotonic()
        read = self.read(question, body, await self._send(body), time.monotonic() - started)
        if isinstance(read, Reply):
            self._believe(question, body)
        elif read.reason == "context_length" and not read.adapted and self._is_ours(body):
            # The prompt may leave room for an answer that is shorter.
            shorter = {**body, self._limit_name: self._sent(body) // 2}
            outcome = await self._send(shorter)
            read = self.read(question, shorter, outcome, time.monotonic() - started)
        elif read.refused and not read.permanent and not read.adapted:
            read = replace(read, adapted=self._doubt(body))
        return read

    def read(
        self,
        question: Question,
        body: Mapping[str, Any],
        outcome: Completion | Problem,
        latency_s: float,
    ) -> Reply | Failure:
        """Return the reply or failure for the ``outcome`` of the request ``body``. Learns and raises as :meth:`ask`."""
        match outcome:
            case Completion():
                return self._reply(question, body, outcome, latency_s)
            case Unsupported():
                refused = replace(outcome, detail=self._transport.redacted(outcome.detail))
                adapted = self._lowered(body, refused.detail) or self._adapt(refused, body)
                return replace(refusal(refused.detail, latency_s), adapted=adapted)
            case Failure():
                failure = replace(
                    outcome, detail=self._transport.redacted(outcome.detail), latency_s=latency_s
                )
                if failure.refused and self._lowered(body, failure.detail):
                    failure = replace(failure, adapted=True)
                return failure
            case Unread():
                return self._unread(question, body, outcome.detail, latency_s)
            case Stop():
                raise self._transport.ended(outcome)

    async def probe(
        self, messages: Sequence[Message], extra: Mapping[str, Any]
    ) -> Completion | Problem:
        """Make one request with ``extra`` parameters and return its outcome, without retries."""
        return await self._send({**self.body(Question(messages)), **extra})

    @property
    def _most_tokens(self) -> int:
        return most_tokens(self._endpoint.extra_body, self._limit)

    @property
    def takes_system(self) -> bool:
        """Whether the endpoint accepts a system message, as far as is known yet."""
        return "system" not in {*self._without, self._doubted}

    def parameters(self) -> set[str]:
        """Return the names of the parameters that are sent, after all that was learnt."""
        return set(self.body(Question([], seed=0))) - {"messages", "model"}

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _again(self, body: Mapping[str, Any], outcome: Completion) -> bool:
        """Return whether an answer was cut off before its text by a limit that is higher now. The first one raises it."""
        if not all(
            (each.finish_reason or "").lower() in _AT_LIMIT and _holds_no_text(each.text)
            for each in outcome.answers
        ):
            return False
        own = self._endpoint.max_tokens
        if self._raises and "max_tokens" not in self._without:
            self._raises, self._limit = False, own * RAISED
            self._notices.once(
                f"an answer was cut off before its text; the judge may reason first. --max-tokens is {self._limit:,} from now "
                f"on, not {own:,}, and such answers are asked for again"
            )
        return own <= self._sent(body) < self._limit

    def _doubt(self, body: Mapping[str, Any]) -> bool:
        """Leave out, for now, what a request was perhaps refused for in words that robin does not know: n, or the system role.

        Each is doubted once, and only until an answer to a request with it. Return whether to ask again.
        """
        sent = _features(body["messages"], body.get("n", 1))
        if self._doubted in sent:  # a request of before
            return True
        doubtful = sorted(sent - self._known)[:1]
        self._known.update(doubtful)
        self._doubted = "".join(doubtful)
        return bool(doubtful)

    def _believe(self, question: Question, body: Mapping[str, Any]) -> None:
        """Learn from an answered request: what it holds is accepted; what was only left out of it is not."""
        sent = _features(body["messages"], body.get("n", 1))
        self._known |= sent
        if self._doubted in _features(question.messages, question.samples):
            if self._doubted not in sent:
                self._leave_for_good(self._doubted)
            self._doubted = ""

    def _leave_for_good(self, name: str) -> None:
        if name == "n":
            self._most_samples = 1
            self._notices.once("refuses several answers in one request; asking for 1 at a time")
            return
        self._without.add("system")
        self._notices.once("accepts no system message; its text goes to the front of the user's")

    def _lowered(self, body: Mapping[str, Any], detail: str) -> bool:
        """Restore the run's own limit on answers if the endpoint refuses the raised one; return whether it did."""
        own = self._endpoint.max_tokens
        if self._took_raised or self._sent(body) <= own:
            return False
        if self._limit > own:
            self._limit = own
            self._notices.once(
                f"refuses answers of {self._sent(body):,} tokens ({detail}): --max-tokens is {own:,} again"
            )
        return True

    def _sent(self, body: Mapping[str, Any]) -> int:
        """Return the limit on answers in a request; 0 if it has none."""
        return int(body.get(self._limit_name, 0))

    @property
    def _limit_name(self) -> str:
        return self._renamed.get("max_tokens", "max_tokens")

    def _is_ours(self, body: Mapping[str, Any]) -> bool:
        """Return whether the limit on answers in a request is robin's own, and can be halved."""
        return self._sent(body) > 1 and self._limit_name not in self._endpoint.extra_body

    def _reply(
        self, question: Question, body: Mapping[str, Any], outcome: Completion, latency_s: float
    ) -> Reply:
        usage = self._meter.measured(question.messages, outcome.answers, outcome.usage)
        came, wanted = len(outcome.answers), body.get("n", 1)
        if came < wanted and came < self._most_samples:
            self._most_samples = came
            self._notices.once(
                f"gives {came} of {wanted} answers in one request; asking for {came} at a time"
            )
        if usage.estimated:
            self._notices.once(
                "does not count all tokens: missing counts are estimated, and marked so",
                key="estimated",
            )
        model = outcome.model or self._endpoint.model
        answers = self._transport.redactor.answers(outcome.answers[: question.samples])
        self._took_raised = self._took_raised or self._sent(body) > self._endpoint.max_tokens
        return Reply(
            answers, model, usage, outcome.request_id, latency_s, self._again(body, outcome)
        )

    def _unread(
        self, question: Question, body: Mapping[str, Any], why: str, latency_s: float
    ) -> Reply:
        """Return the reply whose body cannot be read, at the most that it may have cost."""
        count, longest = body.get("n", 1), self._sent(body) or self._most_tokens
        prompt = self._meter.tokens(sum(len(each["content"]) for each in question.messages))
        usage = Usage(prompt, count * longest, estimated=True)
        if self._meter.price is not None:
            most = self._meter.most(question.messages, longest, count)
            usage = replace(usage, cost_usd=most)
        detail = self._transport.redacted(why)
        self._notices.once(
            f"a reply cannot be read, and counts as paid for ({detail})", key=UNREADABLE
        )
        answers = (Answer(detail),) * min(count, question.samples)
        return Reply(answers, self._endpoint.model, usage, None, latency_s, unread=True)

    async def _send(self, body: Mapping[str, Any]) -> Completion | Problem:
        try:
            sent = {**body, "messages": with_parts(body["messages"])}
            response = await self._transport.post(orjson.dumps(sent))
        except Unreachable as error:
            self._is_there = self._is_there or error.sent
            tries = None if self._is_there else _TRIES_AT_FIRST
            return Failure("timeout" if error.timed_out else "connection", str(error), tries=tries)
        except TooLong as error:
            return too_long(error)
        self._is_there, self._last = True, response
        try:
            if len(response.body) <= _AT_ONCE_BYTES and not response.encoding:
                return _read(response)
            async with self._reading:
                await asyncio.sleep(
                    0
                )  # other tasks go first, also those that follow the previous answer
                return _read(response)
        finally:
            response.done()

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of a request for ``question``, after all that was learnt."""
        endpoint = self._endpoint
        wanted: dict[str, Any] = {
            "max_tokens": self._limit
            if self.most_cost(question) <= question.most_usd
            else endpoint.max_tokens,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
            "seed": question.seed,
            "n": samples if (samples := min(question.samples, self.most_samples)) > 1 else None,
            "logprobs": endpoint.logprobs or None,
            "top_logprobs": self._top_logprobs
            if endpoint.logprobs and "logprobs" not in self._without
            else None,
            **question.structure,
        }
        parameters = {
            self._renamed.get(name, name): value
            for name, value in wanted.items()
            if value is not None and name not in self._without
        }
        messages = (
            _without_system(question.messages) if not self.takes_system else question.messages
        )
        return {"model": endpoint.model, "messages": messages, **parameters, **endpoint.extra_body}

    def body_then(self, question: Question, outcome: Completion | Problem | None) -> dict[str, Any]:
        """Return the body of an earlier request with this ``outcome``: the limit on answers may have been raised since."""
        body, endpoint = self.body(question), self._endpoint
        if isinstance(outcome, Completion) and (
            self._limit > endpoint.max_tokens or not endpoint.raises
        ):
            took = (outcome.usage.completion_tokens or 0) // len(outcome.answers)
            if self._limit // RAISED <= took < self._limit:
                body[self._renamed.get("max_tokens", "max_tokens")] = self._limit // RAISED
        return body

    def _adapt(self, refused: Unsupported, body: Mapping[str, Any]) -> bool:
        """Change later requests; return False if the parameter was not sent, or was changed already."""
        # Another call may have learnt the same meanwhile: this body is then just old, and the next one will do.
        name = refused.parameter
        if name == "system":
            if not any(message["role"] == "system" for message in body["messages"]):
                return False
            self._leave_for_good("system")
            return True
        if name == IMAGES:
            if any("images" in message for message in body["messages"]):
                raise EndpointError(
                    f"{self._endpoint.base_url}: the model {self._endpoint.model} does not accept images ({refused.detail}); "
                    "name one that does with --model, or leave the rows with images out"
                )
            return False
        if name == EITHER:  # the one at its default was not the user's choice
            name = (
                "temperature"
                if self._endpoint.temperature == 1 != self._endpoint.top_p
                else "top_p"
            )
        sent = name if name in body else self._renamed.get(name, name)
        if (
            sent not in body
            or name in self._endpoint.extra_body
            or sent in self._endpoint.extra_body
        ):
            return False
        if name == "n":
            fewer = max(1, body["n"] // 2)
            if fewer < self._most_samples:
                self._most_samples = fewer
                self._notices.once(
                    f"refuses {body['n']} answers in one request ({refused.detail}); asking for {fewer} at a time"
                )
        elif refused.most:
            if not refused.most < self._sent(body):
                return False
            self._limit, self._raises = min(self._limit, refused.most), False
            self._notices.once(f"{refused.detail}: --max-tokens is {self._limit:,} from now on")
        elif name == sent == "max_tokens":
            self._renamed[name] = "max_completion_tokens"
            self._notices.once("wants max_completion_tokens instead of max_tokens; sending that")
        elif name == "top_logprobs" and body[name] > _FEW_LOGPROBS:
            self._top_logprobs = _FEW_LOGPROBS
            self._notices.once(
                f"gives fewer log probabilities per token than {TOP_LOGPROBS}; asking for {_FEW_LOGPROBS}"
            )
        else:
            self._leave_out("logprobs" if name == "top_logprobs" else name, refused.detail)
        return True

    def _leave_out(self, name: str, detail: str) -> None:
        """Stop sending a parameter. EndpointError if the run cannot do without it."""
        self._without.add(name)
        error = ""
        notice = f'refuses "{name}" ({detail}); going on without it'
        if name == RESPONSE_FORMAT:
            error = f"does not take --answers json ({detail}); start a new run with --answers text, which works everywhere"
        elif name == "max_tokens" and self._endpoint.bounded:
            error = f"accepts no limit on the length of answers ({detail}), so no limit on money holds; leave --max-cost out"
        elif name == "logprobs":
            notice += ", rating by the text alone"
        if error:
            raise EndpointError(f"{self._endpoint.base_url}: {error}")
        if notice:
            self._notices.once(notice, key=name)


def _read(response: Response) -> Completion | Problem:
    try:
        body = response.plain()
        if not response.is_good:
            return classify(response.status, body, response.headers)
        return read_completion(body, response.headers)
    except TooLong as error:
        return too_long(error)
    except Unreadable as error:
        return Unread(f"a 200 {error}")


def _features(messages: Sequence[Message], samples: int) -> set[str]:
    """Return which of the features that some endpoints refuse a request has."""
    found = {"n": samples > 1, "system": any(each["role"] == "system" for each in messages)}
    return {name for name, is_there in found.items() if is_there}


def _holds_no_text(text: str) -> bool:
    return not without_reasoning(text).strip()


def _without_system(messages: Sequence[Message]) -> Sequence[Message]:
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [dict(message) for message in messages if message["role"] != "system"]
    if system and others:
        others[0]["content"] = f"{system}\n\n{others[0]['content']}"
    return others
