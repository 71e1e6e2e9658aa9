"""One address of a judge: the one layer of retries, and the circuit breaker.

A call that was throttled goes on with the next permit, one that failed after a back-off; ``problems.py`` says which is which.
The limiter says how many requests may be under way, and when the next may start.
"""

from __future__ import annotations

import asyncio
import time

from tenacity import AsyncRetrying, RetryCallState, wait_random_exponential

from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import MAX_HOLD_S, UNTIL_ONE_ENDS, Clock, Limiter, Permit, Sleep
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import number_of

PATIENCE_S = 600.0
"""How long a call may be refused with "too many requests" before it is given up."""

_WAIT = wait_random_exponential(multiplier=0.02, exp_base=4, max=60.0)
_SHOWN_HOLD_S = 30.0
_FAILURES_TO_OPEN, _OPEN_S, _LONGEST_OPEN_S = 3, 5.0, 120.0


class CircuitBreaker:
    """The circuit breaker of an address: closed, it is asked; open, it is not; half-open, one call at a time tests it.

    It opens after three failures in a row, for 5 s, then 10, up to two minutes, and closes with the first success.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures, self._open_until = 0, float("-inf")

    @property
    def closed(self) -> bool:
        """Whether the address is asked without limits."""
        return self._failures < _FAILURES_TO_OPEN

    @property
    def open_s(self) -> float:
        """The seconds until one call may test the address; 0 if closed or half-open."""
        return 0.0 if self.closed else max(0.0, self._open_until - self._clock())

    def failed(self, *, for_good: bool = False) -> bool:
        """Record a failed call, or that the address cannot be used (``for_good``); return whether this opened the circuit."""
        if self.open_s:
            return False  # a call that was under way when it opened: nothing new
        was_closed = self.closed
        self._failures = max(self._failures + 1, _FAILURES_TO_OPEN if for_good else 0)
        if not self.closed:
            doubled = 2.0 ** min(10, self._failures - _FAILURES_TO_OPEN)
            self._open_until = self._clock() + min(_LONGEST_OPEN_S, _OPEN_S * doubled)
        return was_closed and not self.closed

    def succeeded(self) -> bool:
        """Record an answered call; return whether this closed the circuit."""
        was_open, self._failures = not self.closed, 0
        return was_open


class Retrying:
    """Asks ``judge`` with permits of ``limiter``, and again after failures that may pass, before new calls begin.

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
        clock: Clock = time.monotonic,
    ) -> None:
        self.judge, self.limiter, self.notices = judge, limiter, notices
        self.breaker = CircuitBreaker(clock)
        self._max_retries, self._patience_s = max_retries, patience_s
        self._sleep, self._clock = sleep, clock
        self._retried = 0  # calls that are made again

    @property
    def bears(self) -> int:
        """The most requests that may be under way now, unless the circuit is open."""
        return self.limiter.limit if self.breaker.closed else 1

    def take(self) -> Permit | float:
        """Return a permit to begin a call, unless a retry waits for one; or how long to wait, see :class:`PermitLine`."""
        if open_s := self.breaker.open_s:
            return open_s
        is_full = self.limiter.under_way >= self.bears or self._retried >= self.limiter.limit
        return UNTIL_ONE_ENDS if is_full or self.limiter.line.waiting else self.limiter.take()

    async def ask(self, question: Question, permit: Permit) -> Reply | Failure:
        """Ask until there is an answer, a permanent failure, or no patience left. EndpointError as :meth:`Judge.ask`."""
        started = self._clock()
        outcome = await self._request(question, permit)
        if isinstance(outcome, Reply):
            return outcome
        tries, until = 0, started + self._patience_s
        errors = RetryCallState(AsyncRetrying(), None, (), {})
        self._retried += 1
        try:
            while isinstance(outcome, Failure):
                if outcome.adapted:  # at once, for this says nothing about the pair or the endpoint
                    pass
                elif not outcome.transient or self._clock() >= until:
                    break
                elif outcome.throttled:
                    pass  # limiter.acquire() below waits
                else:
                    again = f"trying again, {number_of(self._max_retries, 'time')} at most for each"
                    line = f"{outcome.detail}; {again} call (--max-retries)"
                    self.notices.once(line, key=outcome.reason)
                    tries += outcome.tries is not None
                    if errors.attempt_number > self._max_retries or tries == outcome.tries:
                        break
                    await self._sleep(_WAIT(errors))
                    errors.attempt_number += 1
                outcome = await self._request(question, await self.limiter.acquire())
        finally:
            self._retried -= 1
            self.limiter.look_again()  # a call may begin in its place
        return outcome

    async def _request(self, question: Question, permit: Permit) -> Reply | Failure:
        """Make one request; the limiter learns of its outcome."""
        try:
            self.limiter.charge(permit, self.judge.tokens(question))
            outcome = await self.judge.ask(question)
        except BaseException:
            permit.release()
            raise
        if isinstance(outcome, Failure):
            permit.release()
            self._note_overload(permit, outcome)
            return outcome
        if (slots := self.judge.slots) is not None:
            # more prompts would drive each other out of the cache
            self.limiter.slots = max(1, slots // len(outcome.answers))
        usage = outcome.usage
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        permit.release()
        self.limiter.succeeded(permit, tokens)
        return outcome

    def _note_overload(self, permit: Permit, outcome: Failure) -> None:
        """Slow down after a request that was one too many."""
        if not outcome.overloaded:
            return
        wait_s = outcome.retry_after_s
        self.limiter.refused(permit, wait_s)
        if outcome.throttled:
            as_asked = "" if wait_s is None else " as it asks"
            self.notices.once(f"too many requests: waiting{as_asked}", key="throttled")
            if wait_s is not None and wait_s > _SHOWN_HOLD_S:
                capped = f"; trying again after {MAX_HOLD_S:g} s" if wait_s > MAX_HOLD_S else ""
                self.notices.once(
                    f"the endpoint asks to wait {wait_s:g} s before the next request{capped}"
                )
