"""Virtual time: an event loop whose clock jumps to the next thing that is due, and servers with limits that live on it."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.retrying import Retrying
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import Usage

T = TypeVar("T")
FAILS = -1.0
"""In place of a Retry-After: an error 500."""


class _Selector(selectors.SelectSelector):
    """Never waits: what would have been waited is added to the time."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout:
            self.now_s += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that takes next to no time: as on a real clock, no two readings are the same."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        self._virtual.now_s += 1e-9
        return self._virtual.now_s


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in virtual time, with the same chance in back-offs each time."""
    random.seed(1)
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def _lognormal(cv: float) -> Callable[[random.Random], float]:
    sigma = math.sqrt(math.log(1 + cv**2))
    return lambda generator: generator.lognormvariate(-(sigma**2) / 2, sigma)


# Factors of the latency, of mean 1. By a cv of 1 some calls take ten times as long as others.
SWINGS: dict[str, Callable[[random.Random], float]] = {
    "not at all": lambda _: 1.0,
    "a little": _lognormal(0.3),
    "much": _lognormal(1.0),
    "in two ways": lambda generator: 4.0 if generator.random() < 0.1 else 2 / 3,
}


@dataclass
class Server:
    """Answers after ``latency_s`` or so, and refuses what is more than it takes.

    ``slots``: at most so many at a time, more are refused; ``workers``: more wait. ``slowed``: each that is worked on slows
    all by this part of ``latency_s``. ``bucket``: (size, refilled a second); ``window``: (requests, seconds), used up and
    given anew. ``fails``: this part is worked on and then fails.
    ``retry_after``: None, seconds, or "exact". ``swings``: how latencies differ, see ``SWINGS``. ``cold_s``: for
    about so long all takes four times as long. ``at_random``: this part of all requests is refused. ``met``: how many
    requests were there with each that was taken.
    """

    latency_s: float = 0.2
    slots: int | None = None
    workers: int | None = None
    slowed: float = 0.0
    swings: str = "a little"
    cold_s: float = 0.0
    bucket: tuple[float, float] | None = None
    window: tuple[int, float] | None = None
    at_random: float = 0.0
    fails: float = 0.0
    retry_after: float | str | None = None
    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    met: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(1)
        self._busy = self._working = 0
        self._tokens, self._filled_at = (self.bucket or (0.0, 0.0))[0], 0.0
        self._window = -1
        self._in_window = 0
        self._queue = asyncio.Semaphore(self.workers or 10**9)

    def work_with(self, workers: int) -> None:
        """From now on so many are worked on at a time; those who wait go on waiting where they are."""
        self.workers = workers
        self._queue = asyncio.Semaphore(workers)

    async def request(self) -> tuple[bool, float | None]:
        """Whether it is answered, and the Retry-After if it is not."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.002 * self._random.random())
        wait_s = self._too_much(loop.time())
        if wait_s is not None:
            self.refused.append(loop.time())
            await asyncio.sleep(0.002)
            return False, wait_s if self.retry_after == "exact" else self.retry_after  # type: ignore[return-value]
        self._busy += 1
        self.met.append(self._busy)
        async with self._queue:
            await self._work(SWINGS[self.swings](self._random) * self.latency_s)
        self._busy -= 1
        if self.fails and self._random.random() < self.fails:
            return False, FAILS
        self.answered.append(loop.time())
        return True, None

    async def _work(self, seconds: float) -> None:
        if self.cold_s:
            seconds *= 1 + 3 * math.exp(-asyncio.get_running_loop().time() / self.cold_s)
        if not self.slowed:
            await asyncio.sleep(seconds)
            return
        self._working += 1
        for _ in range(5):  # as the others come and go
            await asyncio.sleep(seconds / 5 * (1 + self.slowed * self._working))
        self._working -= 1

    def _too_much(self, now_s: float) -> float | None:
        if self.at_random and self._random.random() < self.at_random:
            return 0.0
        if self.slots is not None and self._busy >= self.slots:
            return 0.0
        if self.bucket is not None:
            size, rate = self.bucket
            self._tokens = min(size, self._tokens + (now_s - self._filled_at) * rate)
            self._filled_at = now_s
            if self._tokens < 1:
                return (1 - self._tokens) / rate
            self._tokens -= 1
        if self.window is not None:
            requests, length_s = self.window
            number = int(now_s // length_s)
            if number != self._window:
                self._window, self._in_window = number, 0
            if self._in_window >= requests:
                return (number + 1) * length_s - now_s
            self._in_window += 1
        return None


class Asked(Judge):
    """The judge at ``server``, as robin's client sees it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def ask(self, question: Question) -> Reply | Failure:
        is_answered, after_s = await self._server.request()
        if is_answered:
            return Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)
        if after_s == FAILS:
            return Failure("http_500", "oops")
        return Failure(
            "rate_limited", "429", throttled=True, overloaded=True, retry_after_s=after_s
        )


async def load(server: Server, limiter: Limiter, seconds: float) -> None:
    """Ask ``server`` as a run does, by as many calls as the limiter lets in, for so long."""
    loop = asyncio.get_running_loop()
    notices = Notices("m", lambda _: None)
    chain = Retrying(Asked(server), limiter, notices, max_retries=6, clock=loop.time)
    asked = Failover([chain])
    calls: set[asyncio.Task[Reply | Failure]] = set()

    async def begin() -> None:
        while True:
            permit = await asked.acquire()
            call = asyncio.create_task(asked.ask(Question([]), permit))
            calls.add(call)
            call.add_done_callback(calls.discard)

    beginning = asyncio.create_task(begin())
    await asyncio.sleep(seconds - loop.time())
    ended = [beginning, *calls]
    for task in ended:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
