"""One judge behind one endpoint or several: each call goes where there is most room, and away from what fails."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from robin_cli.errors import EndpointError
from robin_cli.judging.judge import Failure, Judge, Question, Reply
from robin_cli.judging.pacing import Pacer
from robin_cli.records import PERMANENT_FAILURES

_FAILURES = 3
_ASIDE_S = 5.0
_LONGEST_ASIDE_S = 120.0


class Member:
    """A judge at one address, how much that address bears, and whether it is set aside for now."""

    def __init__(self, name: str, judge: Judge, pacer: Pacer) -> None:
        self.name = name
        self.judge = judge
        self.pacer = pacer
        self.in_use = 0
        self.failures = 0
        self.away_until = float("-inf")

    @property
    def on_trial(self) -> bool:
        """Whether it failed lately: then one call at a time is enough to see if it is back."""
        return self.failures >= _FAILURES

    def load(self) -> float:
        """Calls under way over those it bears; 1 or more: there is no room."""
        return self.in_use / self.bears

    @property
    def bears(self) -> int:
        """Calls that may be under way now."""
        return 1 if self.on_trial else self.pacer.limit


class Seat:
    """The right to make one call now, at ``endpoint``; a call that fails there may move."""

    __slots__ = ("endpoint", "home")

    def __init__(self, endpoint: Member, home: Endpoints) -> None:
        self.endpoint = endpoint
        self.home = home

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings here, as far as is known."""
        return self.endpoint.judge.most_samples


class Endpoints:
    """All addresses of one judge, with seats for as many calls as they bear together.

    An endpoint whose calls fail three times in a row, or that cannot be used (a key refused, a model unknown), is set aside
    for 5 s, then 10, up to two minutes, and tried again with one call; its calls move to the others. A single endpoint is
    never set aside: whoever asks sees what it says.

    Args:
        members: at least one.
        clock: seconds, monotonic.
        notify: called with one line when an endpoint is set aside and when it is back.
    """

    def __init__(self, members: Sequence[Member], *, clock: Callable[[], float], notify: Callable[[str], None]) -> None:
        self._members = members
        self._clock = clock
        self._notify = notify
        self._waiting: deque[asyncio.Future[Seat]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def ceiling(self) -> int:
        """The most calls that can ever be under way."""
        return sum(member.pacer.ceiling for member in self._members)

    @property
    def bears(self) -> int:
        """Calls that may be under way now, at all addresses that are not set aside; at least 1."""
        now = self._clock()
        return max(1, sum(member.bears for member in self._members if member.away_until <= now))

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings, whichever address it goes to, as far as is known."""
        return min(member.judge.most_samples for member in self._members)

    def most_cost(self, question: Question) -> float:
        """What a call costs at most, in US dollars, at whichever endpoint it ends."""
        return max(member.judge.most_cost(question) for member in self._members)

    async def acquire(self) -> Seat:
        """Wait for a seat and take it. First come, first served."""
        if not self._waiting and (member := self._with_room()) is not None:
            return self._take(member)
        turn: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._hand_out()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(turn.result())
            raise

    def release(self, seat: Seat) -> None:
        """Give a seat back."""
        seat.endpoint.in_use -= 1
        self._hand_out()

    async def ask(self, seat: Seat, question: Question) -> Reply | Failure:
        """Ask the judge at the seat's endpoint; where that fails and another is at work, there.

        Raises:
            EndpointError: no endpoint can be used.
        """
        while True:
            endpoint = seat.endpoint
            try:
                outcome = await endpoint.judge.ask(question)
            except EndpointError as error:
                if not self._others(endpoint):
                    raise
                self._set_aside(endpoint, str(error), at_once=True)
            else:
                if isinstance(outcome, Reply) or outcome.reason in PERMANENT_FAILURES:
                    self._is_back(endpoint)
                    return outcome
                if not self._others(endpoint):
                    return outcome
                self._set_aside(endpoint, outcome.detail, at_once=False)
            await self._move(seat)

    async def aclose(self) -> None:
        """Close all connections."""
        for member in self._members:
            await member.judge.aclose()

    def _others(self, endpoint: Member) -> bool:
        now = self._clock()
        return any(each is not endpoint and each.away_until <= now for each in self._members)

    async def _move(self, seat: Seat) -> None:
        endpoint = seat.endpoint
        endpoint.in_use -= 1
        try:
            elsewhere = await self.acquire()
        except BaseException:
            endpoint.in_use += 1  # it is given back by whoever holds the seat
            raise
        seat.endpoint = elsewhere.endpoint
        self._hand_out()

    def _set_aside(self, endpoint: Member, why: str, *, at_once: bool) -> None:
        endpoint.failures = max(endpoint.failures + 1, _FAILURES if at_once else 0)
        now = self._clock()
        if not endpoint.on_trial or endpoint.away_until > now:
            return
        aside_s = min(_LONGEST_ASIDE_S, _ASIDE_S * 2.0 ** min(10, endpoint.failures - _FAILURES))
        endpoint.away_until = now + aside_s
        if endpoint.failures == _FAILURES:
            self._notify(f"{endpoint.name}: set aside, tried again now and then ({why})")

    def _is_back(self, endpoint: Member) -> None:
        if endpoint.on_trial:
            self._notify(f"{endpoint.name}: answers again")
        endpoint.failures = 0
        endpoint.away_until = float("-inf")

    def _with_room(self) -> Member | None:
        now = self._clock()
        present = [member for member in self._members if member.away_until <= now]
        best = min(present, key=Member.load, default=None)
        return best if best is not None and best.load() < 1 else None

    def _take(self, member: Member) -> Seat:
        member.in_use += 1
        return Seat(member, self)

    def _hand_out(self) -> None:
        while self._waiting and (member := self._with_room()) is not None:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(self._take(member))
        away = [member.away_until for member in self._members if member.away_until > self._clock()]
        if self._waiting and away and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(min(away) - self._clock() + 0.001, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._hand_out()
