"""Calls at a time where the server says how many requests wait there, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from robin_cli.dispatch.limiter import Limiter
from tests.judges.virtual import Server, load, look_on, run

Says = Callable[[int, int], tuple[float | None, float]]
CEILING = 256


def honestly(running: int, waiting: int) -> tuple[float, float]:
    return running, waiting


def asked(
    limits: dict[str, Any], seconds: float, says: Says | None = None, fixed: int | None = None
) -> tuple[int, float]:
    """How many answers came in so many seconds, and how many requests waited at the server on average."""

    async def scene() -> tuple[int, float]:
        server, seen = Server(**limits), list[tuple[int, int]]()
        limiter = Limiter(fixed, ceiling=CEILING, clock=asyncio.get_running_loop().time)
        silent = Limiter(1, ceiling=1, clock=limiter._clock)  # a fixed one, which goes by nothing that it is told
        looking = asyncio.create_task(look_on(server, limiter if says else silent, seen, says or honestly))
        await load(server, limiter, seconds)
        looking.cancel()
        return len(server.answered), sum(waiting for _, waiting in seen) / len(seen)

    return run(scene())


# vLLM and the like: so many in a batch, of which each slows the others, more wait.
SERVERS: dict[str, tuple[dict[str, Any], float]] = {
    "4 at a time, 0.2 s": ({"workers": 4}, 60),
    "10 at a time, 0.2 s": ({"workers": 10}, 60),
    "32 at a time, 2 s": ({"workers": 32, "latency_s": 2.0}, 120),
    "64 in a batch, 1 to 3 s": ({"workers": 64, "slowed": 1 / 32, "latency_s": 1.0}, 120),
    "128 in a batch, 2 to 6 s": ({"workers": 128, "slowed": 1 / 64, "latency_s": 2.0}, 300),
    "100 at a time, 10 s": ({"workers": 100, "latency_s": 10.0}, 600),
}


@pytest.mark.parametrize("name", SERVERS)
def test_keeps_the_queue_short_and_the_server_busy(name: str) -> None:
    limits, seconds = SERVERS[name]
    workers = limits["workers"]
    best = max(asked(limits, seconds, fixed=fixed)[0] for fixed in (workers, 2 * workers, CEILING))
    without, queue_without = asked(limits, seconds)
    answers, queue = asked(limits, seconds, honestly)

    assert answers >= max(0.9 * best, without)
    assert queue <= max(1.5, 0.15 * workers)
    assert queue <= 0.6 * queue_without


@pytest.mark.parametrize("limits", [{}, {"slots": 16}, {"workers": 256, "slowed": 1 / 64, "latency_s": 2.0}])
def test_changes_nothing_where_nothing_waits(limits: dict[str, Any]) -> None:
    assert asked(limits, 20, honestly)[0] == asked(limits, 20)[0]


def now_and_then(every: int, otherwise: Says) -> Says:
    count = itertools.count(1)
    return lambda running, waiting: honestly(running, waiting) if next(count) % every else otherwise(running, waiting)


MISLEADING: dict[str, Callable[[], Says]] = {
    "a count that is stuck": lambda: lambda running, _: (running, 1000.0),
    "a tenth waits for a moment": lambda: lambda running, waiting: (0.9 * running, waiting + 0.1 * running),
    "a third waits for a moment": lambda: lambda running, waiting: (0.67 * running, waiting + 0.33 * running),
    "all wait, now and then": lambda: now_and_then(5, lambda running, waiting: (0.0, running + waiting)),
    "the queue of others": lambda: lambda running, waiting: (running + 50.0, waiting + 20.0),
    "nothing of what is worked on": lambda: lambda _, waiting: (None, waiting),
}


@pytest.mark.parametrize("kind", MISLEADING)
@pytest.mark.parametrize("limits", [{"latency_s": 2.0}, {"workers": 32, "latency_s": 2.0}], ids=["no limit", "32"])
def test_starves_no_server_whatever_it_says_of_its_queue(limits: dict[str, Any], kind: str) -> None:
    assert asked(limits, 120, MISLEADING[kind]())[0] >= 0.93 * asked(limits, 120)[0]


def test_finds_room_that_a_server_gains_and_loses_while_it_is_asked() -> None:
    async def scene() -> list[int]:
        clock = asyncio.get_running_loop().time
        server, limiter = Server(workers=16, latency_s=2.0), Limiter(None, ceiling=CEILING, clock=clock)
        looking = asyncio.create_task(look_on(server, limiter, [], honestly))
        asking = asyncio.create_task(load(server, limiter, 900.0))
        found = []
        for workers in (96, 16, 16):
            await asyncio.sleep(290.0)
            found.append(limiter.limit)
            server.work_with(workers)
            await asyncio.sleep(10.0)
        await asking
        looking.cancel()
        return found

    few, many, few_again = run(scene())
    assert 16 <= few <= 20
    assert 96 <= many <= 112
    assert few_again <= 24


def test_gives_way_to_others_alike() -> None:
    async def scene() -> tuple[int, list[int]]:
        clock = asyncio.get_running_loop().time
        server = Server(workers=32, latency_s=2.0)
        limiters = [Limiter(None, ceiling=CEILING, clock=clock) for _ in range(3)]
        looking = [asyncio.create_task(look_on(server, each, [], honestly)) for each in limiters]
        await asyncio.gather(*(load(server, each, 200.0) for each in limiters))
        for each in looking:
            each.cancel()
        return len(server.answered), [each.limit for each in limiters]

    answers, limits = run(scene())
    assert answers >= 0.9 * 32 / 2 * 200
    assert max(limits) <= 2 * min(limits)
    assert sum(limits) <= 1.4 * 32


def test_goes_on_as_before_once_nothing_is_told_any_more() -> None:
    async def scene() -> tuple[int, int]:
        clock = asyncio.get_running_loop().time
        server, limiter = Server(workers=4), Limiter(None, ceiling=CEILING, clock=clock)
        asking = asyncio.create_task(load(server, limiter, 20.0))
        await asyncio.sleep(10.0)
        before = limiter.limit
        for _ in range(2):
            limiter.queued(2.0, limiter.under_way - 2.0)
        capped = limiter.limit
        limiter.not_queued()
        after = limiter.limit
        await asking
        assert before == after
        return capped, after

    capped, after = run(scene())
    assert capped <= after


def test_leaves_a_fixed_number_alone() -> None:
    async def scene() -> int:
        limiter = Limiter(40, ceiling=40, clock=asyncio.get_running_loop().time)
        for _ in range(5):
            await limiter.acquire()
            limiter.queued(1.0, 99.0)
        return limiter.limit

    assert run(scene()) == 40
