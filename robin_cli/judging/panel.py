"""The judges of a run behind one door: how many calls may be chosen now, and a seat at the judge that was chosen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from robin_cli.errors import EndpointError
from robin_cli.judging.endpoints import Endpoints, Seat
from robin_cli.judging.judge import Failure, Question, Reply


class Place:
    """The right to choose one call, and then to make it: with one judge its seat is there from the beginning."""

    __slots__ = ("seat",)

    def __init__(self, seat: Seat | None) -> None:
        self.seat = seat


class Panel:
    """One judge or several, each behind its own :class:`Endpoints`.

    Which judge is asked is the scheduler's choice, and not that of who is free: a quick judge would else take what belongs
    to a slow one's arms. So a call is chosen first and then waits for its judge. No more calls are chosen than all judges
    together bear, or choices would grow old while they wait. The slowest judge is never idle then, and sets the pace.

    Args:
        judges: at least one.
        names: of each, for messages; empty where there is one.
    """

    def __init__(self, judges: Sequence[Endpoints], names: Sequence[str] = ("",)) -> None:
        self._judges = judges
        self._said = [f"{name}: " if name else "" for name in names]
        self._placed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def several(self) -> bool:
        """Whether there is more than one judge."""
        return len(self._judges) > 1

    @property
    def ceiling(self) -> int:
        """The most calls that can ever be under way."""
        return sum(judge.ceiling for judge in self._judges)

    def most_cost(self, judge: int, question: Question) -> float:
        """What a call costs at most, in US dollars."""
        return self._judges[judge].most_cost(question)

    def most_samples(self, place: Place, judge: int | None = None) -> int:
        """Ratings that one request brings, as far as is known; of any judge where it is not known which."""
        if place.seat is not None:
            return place.seat.most_samples
        judges = self._judges if judge is None else [self._judges[judge]]
        return max(each.most_samples for each in judges)

    async def enter(self) -> Place:
        """Wait until one more call may be chosen. First come, first served."""
        if not self.several:
            return Place(await self._judges[0].acquire())
        if not self._waiting and self._placed < self._room:
            self._placed += 1
            return Place(None)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(Place(None))
            raise
        return Place(None)

    async def be_seated(self, place: Place, judge: int) -> None:
        """Wait for a seat at ``judge``."""
        place.seat = await self._judges[judge].acquire()

    def leave(self, place: Place) -> None:
        """Give the place back, and its seat."""
        if place.seat is not None:
            place.seat.home.release(place.seat)
        if self.several:
            self._placed -= 1
            self._admit()

    async def ask(self, place: Place, judge: int, question: Question) -> Reply | Failure:
        """Ask ``judge``, at whom the place is.

        Raises:
            EndpointError: it cannot be used.
        """
        if place.seat is None:
            raise ValueError("a place without a seat asks nobody")
        try:
            return await self._judges[judge].ask(place.seat, question)
        except EndpointError as error:
            raise EndpointError(f"{self._said[judge]}{error}") from error

    async def aclose(self) -> None:
        """Close all connections."""
        for judge in self._judges:
            await judge.aclose()

    @property
    def _room(self) -> int:
        return sum(judge.bears for judge in self._judges)

    def _admit(self) -> None:
        while self._waiting and self._placed < self._room:
            turn = self._waiting.popleft()
            if not turn.done():
                self._placed += 1
                turn.set_result(None)
