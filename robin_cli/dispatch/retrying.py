"""Retries after failures that may pass: a refused call goes on with the limiter's next permit, others after a back-off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from robin_cli.dispatch.dispatched import Limited
from robin_cli.dispatch.limiter import MAX_HOLD_S, Limiter
from robin_cli.dispatch.permits import UNTIL_ONE_ENDS, Line, Permit, Sleep, wait
from robin_cli.judges.judge import Judge, Notices
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import number_of

PATIENCE_S = 600.0
"""How long a call may be refused with "too many requests" before it is given up."""

_jittered_s = wait_random_exponential(multiplier=0.5, max=60.0)
_MANY, _LONGEST_IF_UP_S = 16, 1.9
"""After so many failures without an answer the endpoint may be down, and back-offs may be longer than this."""


class Retrying(Limited):
    """Asks again after transient failures, before new calls begin. An answer to another call ends the oldest back-off.

    Args:
        max_retries: retries after errors. "Too many requests" is not an error: it is waited out, for ``patience_s``.
    """

    def __init__(
        self,
        judge: Judge,
        limiter: Limiter,
        notices: Notices,
        *,
        max_retries: int = 0,
        patience_s: float = PATIENCE_S,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(judge, limiter, notices)
        self._max_retries, self._patience_s = max_retries, patience_s
        self._at_most = f", {number_of(max_retries, 'time')} at most for each call (--max-retries)"
        self._sleep, self._clock = sleep, clock
        self._failures = _MANY  # since the last answer
        self._retried = 0  # calls that are made again
        self._backing_off: dict[asyncio.Future[None], None] = {}
        self.line = Line(self.take, sleep)
        limiter.watch(self.line.look_again)

    def take(self) -> Permit | float:
        """Return a permit to begin a call, unless a retry waits for one; or how long to wait, see :class:`Line`."""
        if self.limiter.line.is_waited_in or self._retried >= self.bears:
            return UNTIL_ONE_ENDS
        return self.limiter.take()

    def answered(self, permit: Permit, tokens: int) -> None:
        super().answered(permit, tokens)
        self._failures = 0
        oldest = next((news for news in self._backing_off if not news.done()), None)
        if oldest is not None:
            oldest.set_result(None)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        super().failed(permit, outcome)
        self._failures += 1

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask until there is an answer, a permanent failure, or no patience left. EndpointError as :meth:`Judge.ask`."""
        started = self._clock()
        return await self._again(question, await self._attempt(question, permit), started)

    async def after(
        self, question: Question, _: Permit, outcome: Failure | EndpointError, started: float
    ) -> Reply | Failure:
        if isinstance(outcome, EndpointError):
            raise outcome
        return await self._again(question, await self._adapted(question, outcome), started)

    async def _again(
        self, question: Question, outcome: Reply | Failure, started: float
    ) -> Reply | Failure:
        """Make a call again as long as its failure may pass."""
        if not _may_pass(outcome):
            return outcome
        made, errors = [outcome], list[Failure]()

        async def attempt() -> Reply | Failure:
            # tenacity costs a tenth of a call's CPU, so only failed calls use it: its first attempt is the failure.
            return made.pop() if made else await self._attempt(question)

        def is_enough(state: RetryCallState) -> bool:
            failure = _failure_of(state)
            errors.extend([failure] * (not failure.throttled))
            tries = sum(error.tries is not None for error in errors)
            is_late = self._clock() >= started + self._patience_s
            return is_late or len(errors) > self._max_retries or tries == failure.tries

        self._retried += 1
        try:
            outcome = await AsyncRetrying(
                retry=retry_if_result(_may_pass),
                stop=is_enough,
                wait=self._wait_s,
                sleep=self._back_off,
                retry_error_callback=_failure_of,
            )(attempt)
        finally:
            self._retried -= 1
            self.limiter.look_again()  # a call may begin in its place
        is_failure = isinstance(outcome, Failure)
        return replace(outcome, latency_s=self._clock() - started) if is_failure else outcome

    def _wait_s(self, state: RetryCallState) -> float:
        failure, back_off_s = _failure_of(state), _jittered_s(state)
        if failure.throttled:
            return 0.0  # the limiter holds it
        if self._failures < _MANY:
            back_off_s = min(back_off_s, _LONGEST_IF_UP_S)
        return max(back_off_s, min(failure.retry_after_s or 0.0, MAX_HOLD_S))

    async def _back_off(self, seconds: float) -> None:
        """Wait so long, or until another call is answered."""
        if seconds:
            news = asyncio.get_running_loop().create_future()
            self._backing_off[news] = None
            try:
                await wait(seconds, news, self._sleep)
            finally:
                del self._backing_off[news]


def _may_pass(outcome: Reply | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.transient


def _failure_of(state: RetryCallState) -> Failure:
    outcome = state.outcome.result() if state.outcome else None
    if not isinstance(outcome, Failure):
        raise TypeError("only failures are retried")
    return outcome
