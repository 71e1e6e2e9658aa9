"""What every judge is for the loop of a run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from robin_cli.dispatch.limiter import Line, Permit
from robin_cli.judges.judge import Judge
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply


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
