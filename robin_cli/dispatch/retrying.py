"""Retries after failures that may pass: at once, later, or when the endpoint asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential
from tenacity.stop import stop_base

from robin_cli.dispatch.dispatched import Dispatched
from robin_cli.dispatch.limiter import MAX_HOLD_S, UNTIL_ONE_ENDS, Limiter, Line, Permit
from robin_cli.judges.judge import Judge, Notices
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply

PATIENCE_S = 600.0
"""How long a call may be refused with "too many requests" before it is given up."""

_EXPONENTIAL = wait_random_exponential(multiplier=0.5, max=60.0)
_LONGEST_PACED_BACKOFF_S = 4.0
"""The longest back-off of a refused call if the limiter adapts: it spreads the requests itself."""

_LOOKS_EVERY_S = 2.0
_NEWEST = 1 / 16
_ANSWERS_ENOUGH = 0.25
"""If at least this share of recent requests was answered, the endpoint is up, and long back-offs end."""

_SHOWN_HOLD_S = 30.0


class Retrying(Dispatched):
    """Asks ``judge``, each time with a permit of ``limiter``, and again after transient failures: back-off with full jitter.

    The limiter learns from every outcome. A call in back-off has no permit, so another one is made meanwhile. As many calls may
    be in back-off, or wait after it, as may be under way. They wait in the limiter's own line, which comes first.

    Args:
        max_retries: retries after errors. "Too many requests" is not an error: it is waited out.
        patience_s: how long a call is made again.
        sleep, clock: for tests; seconds.
    """

    def __init__(
        self,
        judge: Judge,
        limiter: Limiter,
        notices: Notices,
        *,
        max_retries: int = 0,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.judges = (judge,)
        self.limiter = limiter
        self._judge = judge
        self._max_retries = max_retries
        self._notices = notices
        self._sleep = sleep
        self._clock = clock
        self._patience_s = patience_s
        self._answered_part = 0.0  # the answered share of recent requests, a moving average
        self._away = 0  # calls in back-off, or in line after it
        self.line = Line(self.take, sleep)
        limiter.watch(self.line.look_again)

    @property
    def bears(self) -> int:
        return self.limiter.limit

    @property
    def under_way(self) -> int:
        return self.limiter.under_way

    @property
    def ceiling(self) -> int:
        return self.limiter.ceiling

    def take(self) -> Permit | float:
        """Return a permit to begin a call, unless a retry waits for one; or how long to wait, see :class:`Line`."""
        return (
            UNTIL_ONE_ENDS
            if self._away >= self.bears or self.limiter.line.is_waited_in
            else self.limiter.take()
        )

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask until there is an answer, a permanent failure, or no patience left. EndpointError as :meth:`Judge.ask`."""
        started = self._clock()
        return await self._again(question, await self._attempt(question, permit), started)

    def answered(self, permit: Permit, tokens: int) -> None:
        permit.release()
        self.limiter.succeeded(permit, tokens)
        self._answered_part += _NEWEST * (1.0 - self._answered_part)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        permit.release()
        if isinstance(outcome, Failure) and outcome.overloaded:
            self.limiter.refused(permit, retry_after_s=outcome.retry_after_s)
            if outcome.throttled:
                self._report_wait(outcome.retry_after_s)

    async def after(
        self,
        question: Question,
        permit: Permit,  # noqa: ARG002  # it was released
        outcome: Failure | EndpointError,
        started: float,
    ) -> Reply | Failure:
        if isinstance(outcome, EndpointError):
            raise outcome
        return await self._again(question, await self._adapted(question, outcome), started)

    async def _attempt(self, question: Question, permit: Permit | None) -> Reply | Failure:
        """Make one request, and another, with its own permit, if the outcome shows what not to send."""
        permit = permit or await self.limiter.acquire()
        return await self._adapted(question, await self._request(question, permit))

    async def _adapted(self, question: Question, outcome: Reply | Failure) -> Reply | Failure:
        while isinstance(outcome, Failure) and outcome.adapted:
            outcome = await self._request(question, await self.limiter.acquire())
        if isinstance(outcome, Failure):
            self._answered_part -= _NEWEST * self._answered_part
            if outcome.transient and not outcome.throttled:
                self._notices.once(f"{outcome.detail}; trying again", key=outcome.reason)
        return outcome

    async def _request(self, question: Question, permit: Permit) -> Reply | Failure:
        try:
            self.limiter.charge(permit, self._judge.tokens(question))
            outcome = await self._judge.ask(question)
        except BaseException:
            permit.release()
            raise
        if isinstance(outcome, Reply):
            usage = outcome.usage
            self.answered(permit, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        else:
            self.failed(permit, outcome)
        return outcome

    def _report_wait(self, wait_s: float | None) -> None:
        self._notices.once(
            "too many requests: waiting as it asks, and going on with fewer at a time",
            key="throttled",
        )
        if wait_s is not None and wait_s > _SHOWN_HOLD_S:
            capped = f"; trying again after {MAX_HOLD_S:g} s" if wait_s > MAX_HOLD_S else ""
            self._notices.once(
                f"the endpoint asks to wait {wait_s:g} s before the next request{capped}"
            )

    async def _again(
        self, question: Question, outcome: Reply | Failure, started: float
    ) -> Reply | Failure:
        """Make a call again as long as its failure may pass."""
        permit: Permit | None = None
        if not _may_pass(outcome):
            return outcome
        first: Reply | Failure | None = outcome

        async def attempt() -> Reply | Failure:
            # tenacity costs a tenth of a call's CPU, so only failed calls use it: its first attempt is the failure.
            nonlocal first, outcome
            if first is not None:
                first = None
            else:
                outcome = await self._attempt(question, permit)
            return outcome

        async def sleep(seconds: float) -> None:
            nonlocal permit
            must_wait = isinstance(outcome, Failure) and outcome.retry_after_s is not None
            self._away += 1
            try:
                await (self._sleep(seconds) if must_wait else self._back_off(seconds))
                permit = await self.limiter.acquire()
            finally:
                self._away -= 1
                self.limiter.look_again()  # a call may begin in its place

        retrying = AsyncRetrying(
            retry=retry_if_result(_may_pass),
            stop=_Errors(self._max_retries) | _Patience(self._patience_s, self._clock, started),
            wait=self._wait,
            sleep=sleep,
            retry_error_callback=_failure_of,
        )
        outcome = await retrying(attempt)
        return (
            replace(outcome, latency_s=self._clock() - started)
            if isinstance(outcome, Failure)
            else outcome
        )

    def _wait(self, state: RetryCallState) -> float:
        failure, backoff_s = _failure_of(state), _EXPONENTIAL(state)
        if failure.throttled and self.limiter.adapts:
            backoff_s = min(backoff_s, _LONGEST_PACED_BACKOFF_S)
        if failure.retry_after_s is None:
            return backoff_s
        # Spread the return of calls that were all asked to wait until the same second.
        return min(failure.retry_after_s, MAX_HOLD_S) + min(backoff_s, 1.0)

    async def _back_off(self, seconds: float) -> None:
        """Wait so long, or until the endpoint answers other requests.

        Long back-offs are for endpoints that are down. If only some requests fail, the last calls of a run must not wait alone.
        """
        await self._sleep(seconds % _LOOKS_EVERY_S)
        for _ in range(int(seconds // _LOOKS_EVERY_S)):
            if self._answered_part >= _ANSWERS_ENOUGH:
                return
            await self._sleep(_LOOKS_EVERY_S)


class _Errors(stop_base):
    """Stop a call after ``most`` retries of errors, or after as many tries as its failure allows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._errors = self._bounded = 0

    def __call__(self, retry_state: RetryCallState) -> bool:
        failure = _failure_of(retry_state)
        self._errors += not failure.throttled
        self._bounded += failure.tries is not None
        return self._errors > self._most or self._bounded == failure.tries


class _Patience(stop_base):
    """Stop a call ``most_s`` seconds after it ``started``."""

    def __init__(self, most_s: float, clock: Callable[[], float], started: float) -> None:
        self._clock, self._until = clock, started + most_s

    def __call__(self, retry_state: RetryCallState) -> bool:  # noqa: ARG002  # only the time counts
        return self._clock() >= self._until


def _may_pass(outcome: Reply | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.transient


def _failure_of(state: RetryCallState) -> Failure:
    outcome = state.outcome.result() if state.outcome else None
    if not isinstance(outcome, Failure):
        raise TypeError("only failures are retried")
    return outcome
