"""How many requests are under way, and when the next may start, in virtual time."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from robin_cli.dispatch.limiter import MAX_HOLD_S, Caps, Limiter
from tests.judges.virtual import Server, load, run, watch

CEILING = 256
SECONDS = 60.0
MANY_A_SECOND = {"no limit": 20.0, "100 slots": 20.0}
"""Of these a minute has tens of thousands of calls; in less time, what it takes to find the number weighs more."""

# The endpoints of the real world: so many at a time, so many waiting, so many a second or a minute.
ENDPOINTS: dict[str, dict[str, Any]] = {
    "no limit": {},
    "16 slots": {"slots": 16},
    "3 slots": {"slots": 3},
    "100 slots": {"slots": 100},
    "16 slots that ask to wait": {"slots": 16, "retry_after": 1.0},
    "4 workers that let wait": {"workers": 4},
    "10 workers that let wait": {"workers": 10},
    "600 a minute, and a full bucket": {"bucket": (600, 10), "retry_after": "exact"},
    "600 a minute, and a small bucket": {"bucket": (10, 10), "retry_after": "exact"},
    "600 a minute, without a word on waiting": {"bucket": (60, 10)},
    "3,000 a minute": {"bucket": (50, 50), "retry_after": "exact"},
    "20 a second, and a rounded wait": {"bucket": (20, 20), "retry_after": 1.0},
    "600 in every minute": {"window": (600, 60), "retry_after": "exact"},
    "10 in every second": {"window": (10, 1), "retry_after": "exact"},
    "100 in every ten seconds": {"window": (100, 10), "retry_after": "exact"},
    "two a second of a slow model": {"bucket": (5, 2), "latency_s": 2.0, "retry_after": "exact"},
}


def answers(fixed: int | None, limits: dict[str, Any], seconds: float = SECONDS) -> Server:
    """The server after a minute, or so many seconds, with so many calls at a time, or with as many as the limiter finds."""

    async def scene() -> Server:
        server = Server(**limits)
        clock = asyncio.get_running_loop().time
        await load(server, Limiter(fixed, ceiling=CEILING, clock=clock), seconds)
        return server

    return run(scene())


@pytest.mark.parametrize("name", ENDPOINTS)
def test_finds_most_of_what_the_best_fixed_number_brings_and_is_hardly_ever_refused(name: str) -> None:
    limits, seconds = ENDPOINTS[name], MANY_A_SECOND.get(name, SECONDS)
    best = max(len(answers(fixed, limits, seconds).answered) for fixed in (1, 2, 4, 8, 16, 64, 256))
    found = answers(None, limits, seconds)
    assert len(found.answered) >= 0.8 * best
    late_refused = sum(at > 10 for at in found.refused)
    late_answered = sum(at > 10 for at in found.answered)
    assert late_refused <= 0.02 * (late_refused + late_answered)


@pytest.mark.parametrize("part", [0.1, 0.2, 0.3])
def test_goes_on_where_requests_are_refused_whatever_their_number(part: float) -> None:
    best, found = answers(8, {"at_random": part}), answers(None, {"at_random": part})
    assert len(found.answered) >= 0.5 * len(best.answered)


def test_comes_back_after_a_window_that_says_nothing_of_when_it_ends() -> None:
    async def scene() -> Server:
        server = Server(window=(600, 60.0))
        await load(server, Limiter(None, ceiling=CEILING, clock=asyncio.get_running_loop().time), 240.0)
        return server

    server = run(scene())
    assert len(server.answered) >= 0.8 * 2400
    assert sum(at > 10 for at in server.refused) <= 0.02 * len(server.answered)


def settled(server: Server, *, after: int, answers: int) -> tuple[float, list[int]]:
    """Answers a second once ``after`` have come, and how many calls were under way with each that began since then."""

    async def scene() -> tuple[float, list[int]]:
        limiter = Limiter(None, ceiling=CEILING, clock=asyncio.get_running_loop().time)
        starts = await watch(server, limiter, after + answers)
        since, until = server.answered[after - 1], server.answered[-1]
        rate = (len(server.answered) - after) / (until - since)
        return rate, [under_way for at, under_way in starts if at > since]

    return run(scene())


SILENT = [
    *((workers, "a little") for workers in (1, 2, 3, 4, 5, 8, 12, 32)),
    *((workers, "not at all") for workers in (1, 4, 9)),
    *((workers, "much") for workers in (1, 4, 16)),
    *((workers, "in two ways") for workers in (1, 4, 16)),
]


@pytest.mark.parametrize(("workers", "swings"), SILENT)
def test_keeps_the_workers_busy_of_a_server_that_queues_without_a_word_and_hardly_more(
    workers: int, swings: str
) -> None:
    server = Server(workers=workers, swings=swings)
    after = 2500 if workers == 1 and swings == "in two ways" else 1000
    rate, under_way = settled(server, after=after, answers=2000)
    # Where some calls take ten times as long as others, no number of answers that a run has tells levels well apart.
    least = 0.8 if swings in {"much", "in two ways"} else 0.9
    assert rate >= least * workers / server.latency_s
    beyond = sum(calls > 2 * workers for calls in under_way)
    assert beyond <= 0.05 * len(under_way)


def test_is_not_misled_by_a_server_that_is_cold_at_first() -> None:
    rate, under_way = settled(Server(workers=4, cold_s=5.0), after=1000, answers=500)
    assert rate >= 0.9 * 4 / 0.2
    assert max(under_way) <= 8


@pytest.mark.parametrize(("most", "slowed"), [(64, 1 / 64), (64, 1 / 32), (128, 1 / 64)])
def test_climbs_where_each_call_slows_the_others_and_all_together_bring_more(most: int, slowed: float) -> None:
    server = Server(workers=most, slowed=slowed)
    rate, _ = settled(server, after=2000, answers=2000)
    assert rate >= 0.9 * most / (server.latency_s * (1 + slowed * most))


def test_climbs_to_its_ceiling_in_ten_latencies_where_nothing_waits() -> None:
    async def scene() -> int:
        limiter = Limiter(None, ceiling=CEILING, clock=asyncio.get_running_loop().time)
        await load(Server(), limiter, 10 * 0.2)
        return limiter.limit

    assert run(scene()) == CEILING


def test_finds_the_workers_that_a_server_gains_and_loses_while_it_is_asked() -> None:
    async def scene() -> list[int]:
        clock = asyncio.get_running_loop().time
        limiter, server = Limiter(None, ceiling=CEILING, clock=clock), Server(workers=4)
        asked = asyncio.create_task(watch(server, limiter, 9000))
        found: list[int] = []
        for workers in (16, 4, 4):
            while len(server.answered) < 3000 * (1 + len(found)):  # noqa: ASYNC110  # it costs nothing in virtual time
                await asyncio.sleep(0.1)
            found.append(limiter.limit)
            server.work_with(workers)
        await asked
        return found

    few, many, few_again = run(scene())
    assert few <= 8 < 16 <= many <= 32
    assert few_again <= 8


def test_keeps_a_fixed_number_whatever_happens() -> None:
    async def scene() -> tuple[int, int]:
        limiter = Limiter(5, ceiling=99, clock=asyncio.get_running_loop().time)
        await load(Server(slots=2), limiter, 20.0)
        return limiter.limit, limiter.ceiling

    assert run(scene()) == (5, 5)


@pytest.mark.parametrize("ceiling", [1, 3, 20])
def test_never_goes_beyond_its_ceiling(ceiling: int) -> None:
    async def scene() -> int:
        limiter = Limiter(None, ceiling=ceiling, clock=asyncio.get_running_loop().time)
        await load(Server(latency_s=0.05), limiter, 20.0)
        return limiter.limit

    assert run(scene()) == ceiling


@pytest.mark.parametrize("fixed", [None, 50])
@pytest.mark.parametrize(
    ("caps", "most"),
    [
        (Caps(requests_a_minute=120), 120),
        (Caps(tokens_a_minute=12_000), 120),
        (Caps(requests_a_minute=600, tokens_a_minute=6_000), 60),
    ],
)
def test_keeps_to_the_users_own_caps(fixed: int | None, caps: Caps, most: int) -> None:
    async def scene() -> Server:
        server = Server(latency_s=0.1)
        limiter = Limiter(fixed, ceiling=64, clock=asyncio.get_running_loop().time, caps=caps)

        async def call() -> None:
            while True:
                permit = await limiter.acquire()
                limiter.charge(permit, 1_000)  # what it was thought to cost; it costs 100
                await server.request()
                limiter.release(permit)
                limiter.succeeded(permit, 100)

        callers = [asyncio.create_task(call()) for _ in range(20)]
        await asyncio.sleep(120)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        return server

    server = run(scene())
    second = [at for at in server.answered if at > 60]
    assert 0.9 * most <= len(second) <= 1.02 * most


def test_holds_everybody_for_the_longest_wait_that_anyone_was_told() -> None:
    async def scene() -> list[float]:
        loop = asyncio.get_running_loop()
        limiter = Limiter(4, ceiling=4, clock=loop.time)
        permit = await limiter.acquire()
        starts: list[float] = []

        async def start() -> None:
            permit = await limiter.acquire()
            starts.append(loop.time())
            limiter.release(permit)

        limiter.refused(permit, retry_after_s=20.0)
        limiter.refused(permit, retry_after_s=5.0)
        waiting = [asyncio.create_task(start()) for _ in range(3)]
        await asyncio.sleep(10)
        limiter.refused(permit, retry_after_s=30.0)  # while they wait
        await asyncio.gather(*waiting)
        return starts

    assert run(scene()) == pytest.approx([40.0] * 3)


def test_holds_calls_no_longer_than_its_own_limit() -> None:
    async def scene() -> float:
        limiter = Limiter(None, ceiling=4, clock=asyncio.get_running_loop().time)
        limiter.refused(await limiter.acquire(), retry_after_s=math.inf)
        wait_s = limiter.take()
        assert isinstance(wait_s, float)
        return wait_s

    assert run(scene()) == MAX_HOLD_S


def test_lets_requests_start_in_their_order_and_loses_none_that_is_cancelled() -> None:
    async def scene() -> tuple[list[int], int]:
        limiter = Limiter(1, ceiling=1, clock=asyncio.get_running_loop().time)
        order: list[int] = []

        async def call(number: int) -> None:
            permit = await limiter.acquire()
            try:
                order.append(number)
                await asyncio.sleep(1)
            finally:
                limiter.release(permit)

        calls = [asyncio.create_task(call(number)) for number in range(9)]
        await asyncio.sleep(1.5)
        calls[0].cancel()
        calls[1].cancel()  # under way
        calls[2].cancel()  # next at the door
        calls[5].cancel()  # in the queue
        await asyncio.gather(*calls, return_exceptions=True)
        return order, limiter.under_way

    assert run(scene()) == ([0, 1, 3, 4, 6, 7, 8], 0)
