"""A judge behind an OpenAI-compatible endpoint: what is sent, what is learnt, what is tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from robin_cli.errors import EndpointError
from robin_cli.judging.bodies import TooLong, Unreadable, decoded
from robin_cli.judging.expectation import TOP_LOGPROBS
from robin_cli.judging.http_log import HttpLog
from robin_cli.judging.judge import Failure, Message, Question, Reply
from robin_cli.judging.metering import Meter, most_tokens
from robin_cli.judging.pacing import MAX_HOLD_S, Pacer, Sent
from robin_cli.judging.redaction import Redactor
from robin_cli.judging.replies import (
    TOO_LONG,
    Completion,
    Problem,
    Refused,
    Retry,
    Stop,
    Unsupported,
    classify,
    read_completion,
)
from robin_cli.judging.structured import STRUCTURES
from robin_cli.judging.transport import Response, Transport, Unreachable

_PATIENCE_S = 600.0
"""How long one call may be told "too many requests" before it is given up."""

_FEW_LOGPROBS = 5
"""Some endpoints give no more for each token."""

_SHOWN_HOLD_S = 30.0
_LONGEST_BACKOFF_S = 60.0
_LONGEST_PACED_BACKOFF_S = 4.0
"""Where the pacer spreads the requests, a call that was one too many need not stay away for long."""
_LOOKS_EVERY_S = 2.0
_NEWEST = 1 / 16
_ANSWERS_ENOUGH = 0.25
"""Where one in four of the latest requests was answered, the endpoint is there, and no call stays away for long."""

_OVERLOADED = frozenset({"http_503", "http_529"})
"""Errors of the endpoint, counted as such, that fewer calls at a time may cure."""


_MIB = 1024 * 1024
_AT_ONCE_BYTES = 16 * 1024
"""Longer replies are read one after another, each in a turn of the event loop of its own: reading them takes its time."""

_TOO_LONG_TWICE = 2


def reply_bytes(mib: float) -> int:
    """``--max-reply`` in bytes."""
    return round(mib * _MIB)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the judge is and how it is asked.

    ``timeout_s`` bounds one request from its first byte to its last; ``max_retries`` counts retries after errors of the
    endpoint or the network ("too many requests" is no error: it is waited out). ``max_reply_bytes``: of a reply, decompressed,
    that is read; a longer one is asked for once more, and then its pair is given up. ``bounded``: answers must have a longest
    length, because money was promised not to run out.
    ``logprobs``: ask for them.
    ``debug_http``: a file for all requests and answers. The key is never part of a representation.
    """

    base_url: str
    model: str
    api_key: str = field(repr=False)
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 120.0
    max_retries: int = 6
    max_reply_bytes: int = 4 * _MIB
    bounded: bool = False
    debug_http: str | None = None
    logprobs: bool = False


class _Transient(Exception):  # tenacity retries exceptions: this one carries what to retry
    def __init__(self, retry: Retry) -> None:
        super().__init__(retry.detail)
        self.retry = retry


class OpenAIJudge:
    """Asks an endpoint, retries what may pass, learns which parameters it takes, and keeps its pace.

    Args:
        endpoint: where and how.
        pacer: is told of successes and of "too many requests", and says when the next request may start.
        meter: completes the usage of replies.
        notify: called with one line, once each, for what a user should know of this endpoint.
        sleep: for tests; seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        pacer: Pacer,
        *,
        meter: Meter | None = None,
        notify: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._pacer = pacer
        self._meter = meter or Meter(None)
        self._redactor = Redactor(endpoint.api_key)
        self._max_tokens = most_tokens(endpoint.extra_body, endpoint.max_tokens)
        self._most_samples = 2**31
        self._top_logprobs = TOP_LOGPROBS
        self._notify = notify
        self._sleep = sleep
        self._noticed: set[str] = set()
        self._without: set[str] = set()
        self._renamed: dict[str, str] = {}
        log = None if endpoint.debug_http is None else HttpLog(Path(endpoint.debug_http), self._redactor.error, notify)
        self._transport = Transport(
            endpoint.base_url,
            endpoint.api_key,
            timeout_s=endpoint.timeout_s,
            connections=pacer.ceiling,
            max_reply_bytes=endpoint.max_reply_bytes,
            log=log,
        )
        self._reading = asyncio.Lock()
        self._answered_part = 0.0  # of the latest requests; an average that forgets
        self._backoff = wait_random_exponential(multiplier=0.5, max=_LONGEST_BACKOFF_S)

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings at most, as far as is known by now."""
        return self._most_samples

    def most_cost(self, question: Question) -> float:
        """What asking costs at most, in US dollars; 0 where no price is known."""
        return self._meter.most(question.messages, self._max_tokens, question.samples)

    async def ask(self, question: Question) -> Reply | Failure:
        """Ask once, with retries; see :class:`robin_cli.judging.judge.Judge`.

        Raises:
            EndpointError: an error after which every call would fail.
        """
        started = time.monotonic()
        errors = too_long = 0
        told = False

        def give_up(state: RetryCallState) -> bool:
            nonlocal errors, too_long, told
            retry = _retry_of(state)
            told = retry.after_s is not None
            errors += not retry.throttled
            too_long += retry.reason == TOO_LONG
            if errors > self._endpoint.max_retries or too_long == _TOO_LONG_TWICE:
                return True
            return time.monotonic() - started > _PATIENCE_S

        try:
            return await self._attempt(question)
        except _Transient as error:
            failed: _Transient | None = error

        async def again() -> Reply | Failure:
            # tenacity costs a tenth of a call's CPU, so it is set up for calls that failed: its first try is that failure.
            nonlocal failed
            if failed is not None:
                first, failed = failed, None
                raise first
            return await self._attempt(question)

        async def sleep(seconds: float) -> None:
            await (self._sleep(seconds) if told else self._back_off(seconds))

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Transient), stop=give_up, wait=self._wait, sleep=sleep, reraise=True
        )
        try:
            return await retrying(again)
        except _Transient as error:
            reason = "rate_limited" if error.retry.throttled else error.retry.reason
            return Failure(reason, self._redact(error.retry.detail), time.monotonic() - started)

    async def probe(self, messages: Sequence[Message], extra: Mapping[str, Any]) -> Completion | Problem:
        """What comes of one request with ``extra`` parameters, after all that was learnt; not retried."""
        await self._pacer.enter()
        try:
            return await self._send({**self._body(Question(messages)), **extra})
        finally:
            self._pacer.leave()

    @property
    def takes_system(self) -> bool:
        """Whether a system message was not refused."""
        return "system" not in self._without

    def parameters(self) -> set[str]:
        """Names of what is sent along with the messages, after all that was learnt."""
        return set(self._body(Question([], seed=0))) - {"messages", "model"}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _attempt(self, question: Question) -> Reply | Failure:
        # A parameter that the endpoint refuses is left out and the request made again, at most once for each parameter.
        while True:
            sent = await self._pacer.enter(self._tokens_of(question))
            body = self._body(question)  # only now: while it waited, another call may have learnt what to send
            started = time.monotonic()
            try:
                outcome = await self._send(body)
            finally:
                self._pacer.leave()
            latency_s = time.monotonic() - started
            self._answered_part += _NEWEST * (isinstance(outcome, Completion) - self._answered_part)
            if isinstance(outcome, Completion):
                return self._reply(question, body, outcome, sent, latency_s)
            if isinstance(outcome, Unsupported) and self._adapt(outcome, body):
                continue
            return self._settle(outcome, sent, latency_s)

    def _reply(
        self, question: Question, body: Mapping[str, Any], outcome: Completion, sent: Sent, latency_s: float
    ) -> Reply:
        usage = self._meter.measured(question.messages, outcome.answers, outcome.usage)
        self._pacer.succeeded(sent, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        came, wanted = len(outcome.answers), body.get("n", 1)
        if came < wanted and came < self._most_samples:
            self._most_samples = came
            self._tell_once(f"asked for {wanted} answers in one request, it gives {came}; asking for {came} at a time")
        if usage.estimated:
            self._tell_once("does not count all tokens: those missing are estimated, and marked so", key="estimated")
        model = outcome.model or self._endpoint.model
        reply = Reply(outcome.answers[: question.samples], model, usage, outcome.request_id, latency_s)
        return self._redactor.reply(reply)

    def _tokens_of(self, question: Question) -> int:
        characters = sum(len(message["content"]) for message in question.messages)
        return self._meter.tokens(characters) + self._max_tokens * question.samples

    def _settle(self, problem: Problem, sent: Sent, latency_s: float) -> Failure:
        match problem:
            case Stop(detail, unkeyed):
                said = unkeyed if unkeyed and self._endpoint.api_key == "none" else detail
                raise EndpointError(f"{self._endpoint.base_url}: {self._redact(said)}")
            case Refused(reason, detail):
                return Failure(reason, self._redact(detail), latency_s)
            case Unsupported(_, detail):
                return Failure("bad_request", self._redact(detail), latency_s)
            case Retry():
                if problem.throttled or problem.reason in _OVERLOADED:
                    self._pacer.throttled(sent, retry_after_s=problem.after_s)
                if problem.throttled:
                    self._tell_once(
                        "too many requests: waiting as it asks, and going on with fewer at a time", key="throttled"
                    )
                    self._show_hold(problem.after_s)
                else:
                    self._tell_once(f"{self._redact(problem.detail)}; trying again", key=problem.reason)
                raise _Transient(problem)

    async def _send(self, body: Mapping[str, Any]) -> Completion | Problem:
        try:
            response = await self._transport.post(orjson.dumps(body))
        except Unreachable as error:
            if error.timed_out:
                return Retry("timeout", f"no answer within {self._endpoint.timeout_s:g} s (--timeout)")
            return Retry("connection", f"no connection ({error})")
        except TooLong as error:
            return Retry(TOO_LONG, f"{error}; --max-reply raises the limit")
        try:
            if len(response.body) <= _AT_ONCE_BYTES and not response.encoding:
                return _read(response, self._endpoint.max_reply_bytes)
            async with self._reading:
                await asyncio.sleep(0)  # what else waits goes first; and so does what follows the answer before
                return _read(response, self._endpoint.max_reply_bytes)
        finally:
            response.done()

    def _body(self, question: Question) -> dict[str, Any]:
        endpoint = self._endpoint
        wanted: dict[str, Any] = {
            "max_tokens": endpoint.max_tokens,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
            "seed": question.seed,
            "n": samples if (samples := min(question.samples, self._most_samples)) > 1 else None,
            "logprobs": endpoint.logprobs or None,
            "top_logprobs": self._top_logprobs if endpoint.logprobs and "logprobs" not in self._without else None,
            **question.structure,
        }
        parameters = {
            self._renamed.get(name, name): value
            for name, value in wanted.items()
            if value is not None and name not in self._without
        }
        messages = _without_system(question.messages) if not self.takes_system else question.messages
        return {"model": endpoint.model, "messages": messages, **parameters, **endpoint.extra_body}

    def _adapt(self, refused: Unsupported, body: Mapping[str, Any]) -> bool:
        """Change what is sent from now on; False if that parameter was not sent or was changed already."""
        # In all cases another call may have learnt it meanwhile: then this body is just an old one, the next will do.
        name = refused.parameter
        if name == "system":
            return self._adapt_system(body)
        sent = name if name in body else self._renamed.get(name, name)
        if sent not in body or name in self._endpoint.extra_body or sent in self._endpoint.extra_body:
            return False
        special = {"n": self._adapt_n, "max_tokens": self._adapt_max_tokens, "top_logprobs": self._adapt_logprobs}
        if name in special and sent == name:
            special[name](refused, body)
        elif name in STRUCTURES:
            self._adapt_structure(name, refused, body)
        else:
            self._leave_out(name, refused)
        return True

    def _adapt_system(self, body: Mapping[str, Any]) -> bool:
        if not any(message["role"] == "system" for message in body["messages"]):
            return False
        self._without.add("system")
        self._tell_once("takes no system message; its text goes to the front of the user's")
        return True

    def _adapt_n(self, refused: Unsupported, body: Mapping[str, Any]) -> None:
        fewer = max(1, body["n"] // 2)
        if fewer < self._most_samples:
            self._most_samples = fewer
            told = self._redact(refused.detail)
            self._tell_once(f"refuses {body['n']} answers in one request ({told}); asking for {fewer} at a time")

    def _adapt_max_tokens(self, _refused: Unsupported, _body: Mapping[str, Any]) -> None:
        self._renamed["max_tokens"] = "max_completion_tokens"
        self._tell_once("the endpoint wants max_completion_tokens in place of max_tokens; sending that")

    def _adapt_logprobs(self, refused: Unsupported, body: Mapping[str, Any]) -> None:
        if body["top_logprobs"] > _FEW_LOGPROBS:
            self._top_logprobs = _FEW_LOGPROBS
            self._tell_once(f"gives fewer log probabilities a token than {TOP_LOGPROBS}; asking for {_FEW_LOGPROBS}")
        else:
            self._leave_out("logprobs", refused)

    def _adapt_structure(self, name: str, refused: Unsupported, body: Mapping[str, Any]) -> None:
        self._without.add(name)
        if STRUCTURES & body.keys() <= self._without:
            raise EndpointError(
                f"{self._endpoint.base_url}: does not enforce this --answer-format ({self._redact(refused.detail)}); another "
                "may do, text does everywhere: start a new run with it"
            )

    def _leave_out(self, name: str, refused: Unsupported) -> None:
        if name in self._without:
            return
        self._without.add(name)
        told = self._redact(refused.detail)
        if name == "max_tokens" and self._endpoint.bounded:
            raise EndpointError(
                f"{self._endpoint.base_url}: takes no longest length for answers ({told}), so --max-cost cannot be held; leave "
                "--max-cost out"
            )
        consequence = ", rating by the text alone" if name == "logprobs" else ""
        self._tell_once(f'the endpoint refuses "{name}" ({told}); going on without it{consequence}')

    def _wait(self, state: RetryCallState) -> float:
        retry = _retry_of(state)
        backoff = self._backoff(state)
        if retry.throttled and self._pacer.adapts:
            backoff = min(backoff, _LONGEST_PACED_BACKOFF_S)
        if retry.after_s is None:
            return backoff
        # Spread the return of callers that were all told the same second.
        return min(retry.after_s, MAX_HOLD_S) + min(backoff, 1.0)

    async def _back_off(self, seconds: float) -> None:
        """Wait so long, or, looking now and then, until the endpoint is seen to answer what it is asked.

        Long back-offs are for endpoints that are away. Where only some requests fail, the last calls of a run would wait them
        out alone.
        """
        await self._sleep(seconds % _LOOKS_EVERY_S)
        for _ in range(int(seconds // _LOOKS_EVERY_S)):
            if self._answered_part >= _ANSWERS_ENOUGH:
                return
            await self._sleep(_LOOKS_EVERY_S)

    def _show_hold(self, after_s: float | None) -> None:
        if after_s is not None and after_s > _SHOWN_HOLD_S:
            capped = f"; trying again after {MAX_HOLD_S:g} s" if after_s > MAX_HOLD_S else ""
            self._tell_once(f"the endpoint asks to wait {after_s:g} s before the next request{capped}")

    def _tell_once(self, line: str, *, key: str | None = None) -> None:
        if (key or line) not in self._noticed:
            self._noticed.add(key or line)
            self._notify(f"{self._endpoint.base_url}: {line}")

    def _redact(self, text: str) -> str:
        return self._redactor.error(text)[:500]


def _read(response: Response, limit: int) -> Completion | Problem:
    if not 200 <= response.status < 300:
        with suppress(TooLong, Unreadable):
            return classify(response.status, decoded(response.body, response.encoding, limit), response.headers)
        return classify(response.status, b"", response.headers)
    try:
        return read_completion(decoded(response.body, response.encoding, limit), response.headers, limit)
    except TooLong as error:
        return Retry(TOO_LONG, f"{error}; --max-reply raises the limit")
    except Unreadable as error:
        return Retry("malformed", f"a 200 {error}")


def _without_system(messages: Sequence[Message]) -> Sequence[Message]:
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [dict(message) for message in messages if message["role"] != "system"]
    if system and others:
        others[0]["content"] = f"{system}\n\n{others[0]['content']}"
    return others


def _retry_of(state: RetryCallState) -> Retry:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, _Transient):
        raise TypeError("only transient errors are retried")
    return error.retry
