"""Retries after failures that may pass: a refused call goes on with the limiter's next permit, others after a back-off."""

from __future__ import annotations

import asyncio
import time

from tenacity import AsyncRetrying, RetryCallState, wait_random_exponential

from robin_cli.judges.dispatched import Limited
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.permits import UNTIL_ONE_ENDS, Clock, Line, Permit, Sleep
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import number_of

PATIENCE_S = 600.0
"""How long a call may be refused with "too many requests" before it is given up."""

_WAIT = wait_random_exponential(multiplier=0.02, exp_base=4, max=60.0)


class Retrying(Limited):
    """Asks again after transient failures, before new calls begin.

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
        super().__init__(judge, limiter, notices)
        self._max_retries, self._patience_s = max_retries, patience_s
        self._at_most = f", {number_of(max_retries, 'time')} at most for each call (--max-retries)"
        self._sleep, self._clock = sleep, clock
        self._retried = 0  # calls that are made again
        self.line = Line(self.take, sleep)
        limiter.watch(self.line.look_again)

    def take(self) -> Permit | float:
        """Return a permit to begin a call, unless a retry waits for one; or how long to wait, see :class:`Line`."""
        if self.limiter.line.is_waited_in or self._retried >= self.bears:
            return UNTIL_ONE_ENDS
        return self.limiter.take()

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
        tries, until = 0, started + self._patience_s
        state = RetryCallState(AsyncRetrying(), None, (), {})
        self._retried += 1
        try:
            while isinstance(outcome, Failure) and outcome.transient and self._clock() < until:
                if not outcome.throttled:  # the limiter holds calls that are
                    tries += outcome.tries is not None
                    if state.attempt_number > self._max_retries or tries == outcome.tries:
                        break
                    await self._sleep(_WAIT(state))
                    state.attempt_number += 1
                outcome = await self._attempt(question)
        finally:
            self._retried -= 1
            self.limiter.look_again()  # a call may begin in its place
        return outcome
