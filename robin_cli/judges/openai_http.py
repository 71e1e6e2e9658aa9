"""A judge at an OpenAI-compatible endpoint: it makes requests, learns which parameters are accepted, and reads replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from robin_cli.ask.expectation import TOP_LOGPROBS
from robin_cli.ask.forms import RESPONSE_FORMAT
from robin_cli.ask.reasoning import without_reasoning
from robin_cli.data.images import with_parts
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
    bare_name,
    classify,
    is_llama_cpp,
    listed_models,
    read_completion,
    read_json,
    refusal,
    slots_in,
    too_long,
)
from robin_cli.judges.transport import Endpoint, Request, Response, Transport, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import UNREADABLE, Usage

TRIED = 20
"""Requests that ask for log probabilities only to see whether they come."""

_FEW_LOGPROBS = 5
"""Some endpoints return no more per token."""

RAISED = 4
"""The factor by which the limit on answers is raised, once one was cut off before its text."""

_TRIES_AT_FIRST = 2
"""The tries of a call before the first connection: a wrong address is reported at once, a later outage is waited out."""

_MANY_TOKENS = 1_000_000
"""No count of tokens up to here is doubted."""

_LISTING_S = 2.0
"""How long to wait for an endpoint's list of models."""

_MOST_LISTED = 5

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

    _writes = True  # an answer has completion tokens

    def __init__(
        self, endpoint: Endpoint, *, meter: Meter | None = None, notify: Callable[[str], None]
    ) -> None:
        self._endpoint = endpoint
        self._meter = meter or Meter(None)
        self._notices = Notices(endpoint.base_url, notify)
        self._limit = endpoint.max_tokens
        self._raises = endpoint.raises and most_tokens(endpoint.extra_body, 0) == 0
        self._most_samples, self._took_several = 2**31, False
        self._top_logprobs = TOP_LOGPROBS
        self._trials = 0 if "logprobs" in endpoint.extra_body else endpoint.tries_logprobs
        self._without: set[str] = set()
        self._kept: set[str] = set()  # "n" and "system", once leaving them out would not help
        self._renamed: dict[str, str] = {}
        self._reading = asyncio.Lock()
        self._is_there = self._took_raised = False
        self._transport = Transport(endpoint)
        self._last: Response | None = None
        self._listing: asyncio.Task[None] | None = None
        self._slots: int | None = None

    @property
    def most_samples(self) -> int:
        return self._most_samples

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
        self._trials -= self._trials > 0
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

    def _ends_trial(self, body: Mapping[str, Any], outcome: Completion | Problem) -> bool:
        """Return whether log probabilities that were only tried may be why a request was refused; stop trying if it failed."""
        is_tried = "logprobs" in body and "logprobs" not in self._endpoint.extra_body
        if self._endpoint.logprobs or not is_tried or isinstance(outcome, Completion):
            return False
        self._trials = 0
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
        limit, features = self._limit_of(body), _features(body) - self._kept
        if refusal.reason == "context_length":
            if limit > 1 and self._limit_name not in self._endpoint.extra_body:
                others["length"] = {**body, self._limit_name: limit // 2}
        elif not refusal.permanent:
            if "n" in features:
                others["n"] = body = {name: body[name] for name in body if name != "n"}
            if "system" in features:
                others["system"] = {**body, "messages": without_system(body["messages"])}
        for left_out, other in others.items():
            outcome = await self._send(other)
            if not (isinstance(outcome, Failure) and outcome.refused):
                if isinstance(outcome, Completion):
                    self._never_send(left_out)
                return self.read(question, other, outcome, time.monotonic() - started)
        self._kept |= others.keys()
        return refusal

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
                return self._read_completion(question, body, outcome, latency_s)
            case Unsupported():
                detail = self._transport.redacted(outcome.detail)
                adapted = self._restore_limit(body, detail) or self._adapt(outcome, body, detail)
                return replace(refusal(detail, latency_s), adapted=adapted)
            case Failure():
                detail = self._transport.redacted(outcome.detail)
                adapted = outcome.refused and self._restore_limit(body, detail)
                return replace(outcome, detail=detail, latency_s=latency_s, adapted=adapted)
            case Unread():
                return self._read_unreadable(question, body, outcome.detail, latency_s)
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
        return "system" not in self._without

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
                if is_llama_cpp(listing):
                    self._slots = slots_in(await self._get("../props"))
            names = listed_models(listing)
            if names and bare_name(self._endpoint.model) not in map(bare_name, names):
                listed = self._transport.redacted(", ".join(names[:_MOST_LISTED]))
                self._notices.once(
                    f"does not list the model {self._endpoint.model}, but {listed}; is --model right?"
                )

    async def _get(self, path: str) -> object:
        """Return the JSON value at ``path``; None if there is none. Raises as :meth:`Transport.send`."""
        response = await self._transport.send(Request("GET", path))
        try:
            return read_json(response.plain()) if response.is_good else None
        finally:
            response.done()

    def refuses_several(self) -> bool:
        """Ask for one rating per request, unless a request for several was answered; return whether it is so."""
        if not self._took_several:
            self._most_samples = 1
        return not self._took_several

    def _raise_limit(self, body: Mapping[str, Any], outcome: Completion) -> bool:
        """Return whether an answer was cut off before its text by a limit that is higher now. The first one raises it."""
        if not all(
            (answer.finish_reason or "").lower() in _AT_LIMIT
            and not without_reasoning(answer.text).strip()
            for answer in outcome.answers
        ):
            return False
        own = self._endpoint.max_tokens
        if self._raises and "max_tokens" not in self._without:
            self._raises, self._limit = False, own * RAISED
            self._notices.once(
                "an answer was cut off before its text; the judge may reason first. --max-tokens is "
                f"{self._limit:,} from now on, not {own:,}, and such answers are asked for again"
            )
        return own <= self._limit_of(body) < self._limit

    def _never_send(self, feature: str) -> None:
        """Never send ``feature`` again: "n" for several answers, "system" for the role."""
        if feature == "n":
            self._most_samples = 1
        elif feature == "system":
            self._without.add("system")
            self._notices.once(
                "accepts no system message; its text goes to the front of the user's"
            )

    def _restore_limit(self, body: Mapping[str, Any], detail: str) -> bool:
        """Restore the run's own limit on answers if the endpoint refuses the raised one; return whether it did."""
        own = self._endpoint.max_tokens
        if self._took_raised or self._limit_of(body) <= own:
            return False
        if self._limit > own:
            self._limit = own
            self._notices.once(
                f"refuses answers of {self._limit_of(body):,} tokens ({detail}): --max-tokens is {own:,} again"
            )
        return True

    def _limit_of(self, body: Mapping[str, Any]) -> int:
        """Return the limit on answers in a request; 0 if it has none."""
        return int(body.get(self._limit_name, 0))

    @property
    def _limit_name(self) -> str:
        return self._renamed.get("max_tokens", "max_tokens")

    def _read_completion(
        self, question: Question, body: Mapping[str, Any], outcome: Completion, latency_s: float
    ) -> Reply:
        usage = outcome.usage
        if max(usage.prompt_tokens or 0, usage.completion_tokens or 0) > _MANY_TOKENS:
            usage = _believed(usage, self._most_usage(question, body))
        written = outcome.answers if self._writes else ()
        usage = self._meter.measured(self._charged(question), written, usage)
        came, wanted = len(outcome.answers), body.get("n", 1)
        self._took_several |= came == wanted > 1
        if came < wanted and not self._took_several:
            self._most_samples = min(self._most_samples, came)
        if usage.estimated:
            self._notices.once(
                "does not count all tokens: missing counts are estimated, and marked so",
                key="estimated",
            )
        model = outcome.model or self._endpoint.model
        answers = self._transport.redactor.answers(outcome.answers[: question.samples])
        self._took_raised = self._took_raised or self._limit_of(body) > self._endpoint.max_tokens
        again, fingerprint = self._raise_limit(body, outcome), outcome.fingerprint
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
        count, longest = body.get("n", 1), self._limit_of(body) or self._most_tokens
        priced = self._meter.price is not None
        charged = self._charged(question)
        cost = self._meter.most(charged, longest, count) if priced else None
        return Usage(self._meter.prompt_tokens(charged), count * longest, cost, estimated=True)

    async def _send(self, body: Mapping[str, Any]) -> Completion | Problem:
        try:
            response = await self._transport.post(orjson.dumps(self._sent(body)))
        except Unreachable as error:
            self._is_there = self._is_there or error.sent
            tries = None if self._is_there else _TRIES_AT_FIRST
            return Failure("timeout" if error.timed_out else "connection", str(error), tries=tries)
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

    def _completion(self, response: Response, body: Mapping[str, Any]) -> Completion | Problem:
        """Return the answers in the response to ``body``, or its problem."""
        try:
            if not response.is_good:
                return classify(response.status, response.plain(), response.headers)
            return self._read_good(response, body)
        except TooLong as error:
            return too_long(error)
        except Unreadable as error:
            return Unread(f"a {response.status} {error}")

    def _read_good(self, response: Response, body: Mapping[str, Any]) -> Completion | Problem:  # noqa: ARG002
        return read_completion(response.plain(), response.headers, status=response.status)

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of a request for ``question``, after all that was learnt."""
        endpoint = self._endpoint
        is_paid = self.most_cost(question) <= question.most_usd
        samples = min(question.samples, self.most_samples)
        wanted: dict[str, Any] = {
            "max_tokens": self._limit if is_paid else endpoint.max_tokens,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
            "reasoning_effort": endpoint.reasoning_effort,
            "seed": question.seed,
            "n": samples if samples > 1 else None,
            **question.structure,
        }
        has_images = any("images" in message for message in question.messages)
        may_try = self._trials > 0 and not has_images
        if (endpoint.logprobs or may_try) and "logprobs" not in self._without:
            wanted |= {"logprobs": True, "top_logprobs": self._top_logprobs}
        parameters = {
            self._renamed.get(name, name): value
            for name, value in wanted.items()
            if value is not None and name not in self._without
        }
        messages = question.messages if self.takes_system else without_system(question.messages)
        return {"model": endpoint.model, "messages": messages, **parameters, **endpoint.extra_body}

    def body_then(self, question: Question, outcome: Completion | Problem | None) -> dict[str, Any]:
        """Return the body of an earlier request with this ``outcome``: the limit on answers may have been raised since."""
        body, endpoint = self.body(question), self._endpoint
        if isinstance(outcome, Completion) and (
            self._limit > endpoint.max_tokens or not endpoint.raises
        ):
            took = (outcome.usage.completion_tokens or 0) // len(outcome.answers)
            if self._limit // RAISED <= took < self._limit:
                body[self._limit_name] = self._limit // RAISED
        return body

    def _adapt(self, refused: Unsupported, body: Mapping[str, Any], detail: str) -> bool:
        """Change later requests; return False if the parameter was not sent, or was changed already."""
        # Another call may have learnt the same meanwhile: this body is then just old, and the next one will do.
        endpoint, name = self._endpoint, refused.parameter
        if name == "system":
            if _has_system(body):
                self._never_send("system")
            return _has_system(body)
        if name == IMAGES and any("images" in message for message in body["messages"]):
            raise EndpointError(
                f"{endpoint.base_url}: the model {endpoint.model} does not accept images ({detail}); "
                "name one that does with --model, or leave the rows with images out"
            )
        if name == EITHER:  # the one at its default was not the user's choice
            name = "temperature" if endpoint.temperature == 1 != endpoint.top_p else "top_p"
        sent = name if name in body else self._renamed.get(name, name)
        if sent not in body or {name, sent} & endpoint.extra_body.keys():
            return False
        if name == "n":
            self._most_samples = min(self._most_samples, max(1, body["n"] // 2))
        elif refused.most:
            if refused.most >= self._limit_of(body):
                return False
            self._limit, self._raises = min(self._limit, refused.most), False
            self._notices.once(f"{detail}: --max-tokens is {self._limit:,} from now on")
        elif name == sent == "max_tokens":
            self._renamed[name] = "max_completion_tokens"
            self._notices.once("wants max_completion_tokens instead of max_tokens; sending that")
        elif name == "top_logprobs" and body[name] > _FEW_LOGPROBS:
            self._top_logprobs = _FEW_LOGPROBS
            self._notices.once(
                f"gives fewer log probabilities per token than {TOP_LOGPROBS}; asking for {_FEW_LOGPROBS}"
            )
        else:
            self._leave_out("logprobs" if name == "top_logprobs" else name, detail)
        return True

    def _leave_out(self, name: str, detail: str) -> None:
        """Stop sending a parameter. EndpointError if the run cannot do without it."""
        needed = {
            RESPONSE_FORMAT: f"does not take --answers json ({detail}); start a new run with --answers text, which works "
            "everywhere"
        }
        effort = self._endpoint.reasoning_effort
        if effort is not None:
            needed["reasoning_effort"] = (
                f"does not take --reasoning-effort {effort} ({detail}); name one that it takes, or leave it out"
            )
        if self._endpoint.bounded:
            needed["max_tokens"] = (
                f"accepts no limit on the length of answers ({detail}), so no limit on money holds; leave --max-cost out"
            )
        if name in needed:
            raise EndpointError(f"{self._endpoint.base_url}: {needed[name]}")
        self._without.add(name)
        instead = ", rating by the text alone" if name == "logprobs" else ""
        self._notices.once(f'refuses "{name}" ({detail}); going on without it{instead}', key=name)


def _believed(usage: Usage, most: Usage) -> Usage:
    """Return ``usage``; ``most`` where it counts more tokens than the request could take, whatever its tokenizer."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    is_beyond = prompt > max(_MANY_TOKENS, 200 * (most.prompt_tokens or 0))
    is_beyond |= completion > max(_MANY_TOKENS, 10 * (most.completion_tokens or 0))
    return most if is_beyond else usage


def _features(body: Mapping[str, Any]) -> set[str]:
    """Return which of the features that some endpoints refuse are in a request."""
    has = {"n": body.get("n", 1) > 1, "system": _has_system(body)}
    return {name for name, is_there in has.items() if is_there}


def _has_system(body: Mapping[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body.get("messages", ()))


def without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with the text of system messages at the front of the first other one."""
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [dict(message) for message in messages if message["role"] != "system"]
    if system and others:
        others[0]["content"] = f"{system}\n\n{others[0]['content']}"
    return others
