"""A judge behind a limiter; and what every judge is for the loop of a run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from robin_cli.dispatch.limiter import MAX_HOLD_S, Limiter, Line, Permit
from robin_cli.judges.judge import Judge, Notices
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply

_SHOWN_HOLD_S = 30.0


class Dispatched(Judge):
    """A judge around judges that is asked with a permit: taken before the call is chosen, so that the choice is not an old one.

    Attributes:
        judges: what is inside, at least one.
        line: of those who wait for a permit to begin a call.
    """

    judges: Sequence[Judge]
    line: Line

    @property
    @abstractmethod
    def bears(self) -> int:
        """Requests that may be under way now; at least 1."""

    @property
    @abstractmethod
    def under_way(self) -> int:
        """Requests under way."""

    @property
    @abstractmethod
    def ceiling(self) -> int:
        """The most requests that can ever be under way."""

    @property
    def no_room_at(self) -> float:
        """When a service tier last said that it had no room, by the monotonic clock; minus infinity: never."""
        return -math.inf

    @abstractmethod
    def take(self) -> Permit | float:
        """A permit to begin a call, or how long to wait, see :class:`Line`."""

    async def acquire(self) -> Permit:
        """Wait for a permit to begin a call; FIFO."""
        return await self.line.acquire()

    @abstractmethod
    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask with ``permit``, which is given back, or wait for one. EndpointError as :meth:`Judge.ask`."""

    @abstractmethod
    def answered(self, permit: Permit, tokens: int) -> None:
        """Take ``permit`` back: a request that somebody else made with it was answered, at the price of ``tokens``."""

    @abstractmethod
    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        """Take ``permit`` back: a request that somebody else made with it failed; :meth:`after` is to follow."""

    @abstractmethod
    async def after(
        self, question: Question, permit: Permit, outcome: Failure | EndpointError, started: float
    ) -> Reply | Failure:
        """Go on with a call, begun at ``started``, whose first request :meth:`failed`, as :meth:`ask` would have."""

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings at most, whichever judge it goes to."""
        return min(judge.most_samples for judge in self.judges)

    def tokens(self, question: Question) -> int:
        """Tokens that asking takes in all, about."""
        return max(judge.tokens(question) for judge in self.judges)

    def most_cost(self, question: Question) -> float:
        """What asking costs at most, in US dollars, whichever judge it ends at."""
        return max(judge.most_cost(question) for judge in self.judges)

    async def aclose(self) -> None:
        """Close all connections."""
        for judge in self.judges:
            await judge.aclose()


class Limited(Dispatched):
    """Asks ``judge`` with a permit of ``limiter`` for every request; the limiter learns from what comes of it."""

    def __init__(self, judge: Judge, limiter: Limiter, notices: Notices) -> None:
        self.judges = (judge,)
        self.limiter = limiter
        self.line = limiter.line
        self._judge = judge
        self._notices = notices

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
        return self.limiter.take()

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Make one request, and another, with a permit of its own, where what came of it says what not to send."""
        return await self.adapted(question, await self._request(question, permit or await self.acquire()))

    def answered(self, permit: Permit, tokens: int) -> None:
        permit.release()
        self.limiter.succeeded(permit, tokens)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        permit.release()
        if isinstance(outcome, Failure) and outcome.overloaded:
            self.limiter.refused(permit, retry_after_s=outcome.retry_after_s)
            if outcome.throttled:
                self._tell(outcome.retry_after_s)

    async def after(
        self,
        question: Question,
        permit: Permit,  # noqa: ARG002  # it was taken back
        outcome: Failure | EndpointError,
        started: float,  # noqa: ARG002  # nothing is bounded here
    ) -> Reply | Failure:
        if isinstance(outcome, EndpointError):
            raise outcome
        return await self.adapted(question, outcome)

    async def adapted(self, question: Question, outcome: Reply | Failure) -> Reply | Failure:
        """What comes of ``question`` in the end, where ``outcome`` may say what not to send."""
        while isinstance(outcome, Failure) and (outcome.adapted or outcome.falls_back):
            if outcome.falls_back:
                question = replace(question, at_normal_tier=True)
            outcome = await self._request(question, await self.acquire())
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

    def _tell(self, wait_s: float | None) -> None:
        self._notices.once("too many requests: waiting as it asks, and going on with fewer at a time", key="throttled")
        if wait_s is not None and wait_s > _SHOWN_HOLD_S:
            capped = f"; trying again after {MAX_HOLD_S:g} s" if wait_s > MAX_HOLD_S else ""
            self._notices.once(f"the endpoint asks to wait {wait_s:g} s before the next request{capped}")
