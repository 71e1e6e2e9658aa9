"""The interface of judges for the loop of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from robin_cli.judges.judge import Judge
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.permits import Line, Permit, Permits
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply


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
