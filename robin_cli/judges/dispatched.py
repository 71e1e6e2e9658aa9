"""The interface of judges for the loop of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import MAX_HOLD_S, Limiter
from robin_cli.judges.permits import Line, Permit, Permits
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply

_SHOWN_HOLD_S = 30.0


class Dispatched(Judge):
    """A judge around judges that is asked with a permit, taken before a call is chosen, so that the choice uses new answers.

    Attributes:
        judges: at least one; ``limiters``: one for each.
        line: the line for permits to begin a call.
    """

    judges: Sequence[Judge]
    limiters: Sequence[Limiter]
    line: Line

    @property
    @abstractmethod
    def bears(self) -> int:
        """The most requests that may be under way now; at least 1."""

    @property
    def under_way(self) -> int:
        """The number of requests under way."""
        return sum(limiter.under_way for limiter in self.limiters)

    @abstractmethod
    def take(self) -> Permit | float:
        """Return a permit to begin a call, or how long to wait, see :class:`Line`."""

    async def acquire(self, at: Permits | None = None) -> Permit:
        """Wait for a permit to begin a call, first come, first served, at the address of limiter ``at`` if that works."""
        return await (self.line if at is None else at).acquire()

    @abstractmethod
    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask with ``permit``, which is released, or wait for one. EndpointError as :meth:`Judge.ask`."""

    @abstractmethod
    def answered(self, permit: Permit, tokens: int) -> None:
        """Release ``permit`` after a request made elsewhere was answered, with ``tokens`` in all."""

    @abstractmethod
    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        """Release ``permit`` after a request made elsewhere failed; call :meth:`after` next."""

    @abstractmethod
    async def after(
        self, question: Question, permit: Permit, outcome: Failure | EndpointError, started: float
    ) -> Reply | Failure:
        """Go on as :meth:`ask` would with a call, begun at ``started``, whose first request :meth:`failed`."""

    @property
    def most_samples(self) -> int:
        """The most ratings of one request, whichever judge it goes to."""
        return min(judge.most_samples for judge in self.judges)

    def tokens(self, question: Question) -> int:
        """Return about how many tokens asking takes."""
        return max(judge.tokens(question) for judge in self.judges)

    def most_cost(self, question: Question) -> float:
        """Return the most that asking may cost, in US dollars, whichever judge answers."""
        return max(judge.most_cost(question) for judge in self.judges)

    async def aclose(self) -> None:
        """Close all connections."""
        for judge in self.judges:
            await judge.aclose()


class Limited(Dispatched):
    """Asks ``judge`` with permits of ``limiter``, which learns of every outcome."""

    def __init__(self, judge: Judge, limiter: Limiter, notices: Notices) -> None:
        self.judges, self.limiters = (judge,), (limiter,)
        self.limiter = limiter
        self._judge, self._notices, self._at_most = judge, notices, ""

    @property
    def bears(self) -> int:
        return self.limiter.limit

    def answered(self, permit: Permit, tokens: int) -> None:
        permit.release()
        self.limiter.succeeded(permit, tokens)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        permit.release()
        if not isinstance(outcome, Failure) or not outcome.overloaded:
            return
        wait_s = outcome.retry_after_s
        self.limiter.refused(permit, wait_s)
        if outcome.throttled:
            as_asked = "" if wait_s is None else " as it asks"
            self._notices.once(f"too many requests: waiting{as_asked}", key="throttled")
            if wait_s is not None and wait_s > _SHOWN_HOLD_S:
                capped = f"; trying again after {MAX_HOLD_S:g} s" if wait_s > MAX_HOLD_S else ""
                self._notices.once(
                    f"the endpoint asks to wait {wait_s:g} s before the next request{capped}"
                )

    async def _attempt(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Make one request, and another, with its own permit, if the outcome shows what not to send."""
        permit = permit or await self.limiter.acquire()
        return await self._adapted(question, await self._request(question, permit))

    async def _adapted(self, question: Question, outcome: Reply | Failure) -> Reply | Failure:
        while isinstance(outcome, Failure) and outcome.adapted:
            outcome = await self._request(question, await self.limiter.acquire())
        if isinstance(outcome, Failure) and outcome.transient and not outcome.throttled:
            self._notices.once(f"{outcome.detail}; trying again{self._at_most}", key=outcome.reason)
        return outcome

    async def _request(self, question: Question, permit: Permit) -> Reply | Failure:
        try:
            self.limiter.charge(permit, self._judge.tokens(question))
            outcome = await self._judge.ask(question)
        except BaseException:
            permit.release()
            raise
        if isinstance(outcome, Reply):
            usage, slots = outcome.usage, self._judge.slots
            if slots is not None:  # more prompts would drive each other out of the cache
                self.limiter.slots = max(1, slots // len(outcome.answers))
            self.answered(permit, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        else:
            self.failed(permit, outcome)
        return outcome
