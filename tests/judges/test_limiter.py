"""How many requests are under way, and when the next may start, in virtual time."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from robin_cli.judges.limiter import MAX_HOLD_S, Limiter
from tests.judges.virtual import Server, load, run

CEILING = 128
# The endpoints of the real world (so many at a time, so many waiting, so many a second or a minute), and the fixed number of
# calls at a time that brings most there.
ENDPOINTS: dict[str, tuple[dict[str, Any], int]] = {
    "no limit": ({}, CEILING),
    "16 slots": ({"slots": 16}, 16),
    "3 slots that ask to wait": ({"slots": 3, "retry_after": 1.0, "swings": "much"}, 3),
    "600 a minute, and a full bucket": ({"bucket": (600, 10), "retry_after": "exact"}, 16),
    "600 a minute, without a word on waiting": ({"bucket": (60, 10)}, 2),
    "20 a second, and a rounded wait": ({"bucket": (20, 20), "retry_after": 1.0}, 4),
    "10 in every second": ({"window": (10, 1), "retry_after": "exact", "swings": "not at all"}, 8),
    "two a second of a slow model": (
        {"bucket": (5, 2), "latency_s": 2.0, "retry_after": "exact"},
        4,
    ),
    "1 worker that lets wait": ({"workers": 1}, 2),
    "4 workers that let wait": ({"workers": 4, "swings": "in two ways"}, 8),
    "12 workers that let wait": ({"workers": 12, "swings": "much"}, 24),
    "4 workers that let 36 wait and refuse more": ({"workers": 4, "slots": 40}, 8),
    "batches of 64 that slow threefold": ({"workers": 64, "slowed": 1 / 32, "swings": "much"}, 64),
    "batches of 64 that slow fivefold": (
        {"workers": 64, "slowed": 1 / 16, "swings": "not at all"},
        64,
    ),
    "16 workers behind a gateway that refuses one in five": ({"workers": 16, "at_random": 0.2}, 48),
}


def answers(fixed: int | None, limits: dict[str, Any], seconds: float) -> Server:
    """Return the server after so many seconds, with so many calls at a time, or with as many as the limiter finds."""

    async def scene() -> Server:
        server = Server(**limits)
        await load(
            server, Limiter(fixed, ceiling=CEILING, clock=asyncio.get_running_loop().time), seconds
        )
        return server

    return run(scene())


@pytest.mark.parametrize("retry_after", [None, 0.05, 1.0])
@pytest.mark.parametrize(
    ("kind", "number", "latency_s", "seconds"),
    [
        ("slots", 4, 0.02, 20),
        ("slots", 64, 0.2, 30),
        ("workers", 4, 2.0, 120),
        ("workers", 64, 0.2, 12),
    ],
)
def test_finds_the_best_number_behind_chance_refusals_and_errors(
    kind: str, number: int, latency_s: float, seconds: float, retry_after: float | None
) -> None:
    limits: dict[str, Any] = {
        kind: number,
        "latency_s": latency_s,
        "at_random": 0.05,
        "fails": 0.15,
    }
    limits["retry_after"] = retry_after
    seconds = max(seconds, 30.0 * (retry_after or 0.0))
    found = answers(None, limits, seconds)
    assert len(found.answered) >= 0.85 * len(answers(number, limits, seconds).answered)


@pytest.mark.parametrize(
    ("share", "retry_after"), [(0.2, 0.05), (0.2, 1.0), (0.4, 0.05), (0.6, 1.0)]
)
def test_chance_refusals_that_ask_to_wait_do_not_starve_it(
    share: float, retry_after: float
) -> None:
    limits = {"at_random": share, "retry_after": retry_after}
    found = answers(None, limits, 15.0)
    assert len(found.answered) >= 0.7 * len(answers(32, limits, 15.0).answered)


@pytest.mark.parametrize(
    ("limits", "best"),
    [
        ({"slots": 1, "latency_s": 0.5, "retry_after": 5.0}, 1),
        ({"slots": 8, "retry_after": 5.0}, 8),
        ({"bucket": (2, 600), "latency_s": 0.1, "retry_after": 1.0}, 2),
    ],
)
def test_long_waits_for_little_do_not_starve_it(limits: dict[str, Any], best: int) -> None:
    found = answers(None, limits, 60.0)
    assert len(found.answered) >= 0.5 * len(answers(best, limits, 60.0).answered)


@pytest.mark.parametrize("retry_after", [None, 1.0, "exact"])
def test_refusals_stay_few_once_a_large_burst_is_used_up(retry_after: Any) -> None:
    found = answers(None, {"bucket": (1000, 5), "retry_after": retry_after}, 60.0)
    late = sum(at > 30 for at in found.refused), sum(at > 30 for at in found.answered)
    assert late[1] >= 0.9 * 30 * 5
    assert late[0] < 2 * late[1] + 30 * 20


@pytest.mark.parametrize("slots", [3, 16])
def test_finds_slots_that_ask_to_wait_a_second(slots: int) -> None:
    limits = {"slots": slots, "retry_after": 1.0}
    found = answers(None, limits, 90.0)
    assert len(found.answered) >= 0.85 * slots * 90 / 0.2
    assert late_share_refused(found) <= 0.02


@pytest.mark.parametrize(
    ("limits", "best"),
    [
        ({"bucket": (5, 20)}, 3),
        ({"bucket": (2, 10)}, 1),
        ({"bucket": (20, 20)}, 4),
        ({"bucket": (10, 100)}, 14),
        ({"window": (30, 1.0)}, 4),
        ({"window": (200, 10.0)}, 3),
    ],
)
def test_finds_the_pace_of_a_rate_limit_that_asks_to_wait_a_second(
    limits: dict[str, Any], best: int
) -> None:
    limits = {**limits, "retry_after": 1.0, "latency_s": 0.15}
    found = answers(None, limits, 90.0)
    assert len(found.answered) >= 0.8 * len(answers(best, limits, 90.0).answered)
    assert late_share_refused(found) <= 0.4


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_is_at_its_pace_again_soon_after_an_endpoint_was_away(retry_after: float | None) -> None:
    async def scene() -> Server:
        server = Server(slots=32, retry_after=retry_after)
        limiter = Limiter(None, ceiling=CEILING, clock=asyncio.get_running_loop().time)
        asking = asyncio.create_task(load(server, limiter, 50.0))
        for slots in (0, 32):
            await asyncio.sleep(15.0)
            server.slots = slots
        await asking
        return server

    server = run(scene())
    assert sum(at > 35 for at in server.answered) >= 0.8 * 15 * 32 / 0.2


def late_share_refused(server: Server) -> float:
    refused, answered = (
        sum(at > 10 for at in times) for times in (server.refused, server.answered)
    )
    return refused / (refused + answered)


IN_EVERY_RUN = {
    "no limit",
    "16 slots",
    "600 a minute, and a full bucket",
    "4 workers that let wait",
}
IN_EVERY_RUN |= {
    "batches of 64 that slow threefold",
    "16 workers behind a gateway that refuses one in five",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.whole] * (name not in IN_EVERY_RUN))
        for name in ENDPOINTS
    ],
)
def test_finds_most_of_what_the_best_fixed_number_brings_with_few_calls_for_each_slot(
    name: str,
) -> None:
    limits, best = ENDPOINTS[name]
    # by the calls it answers
    seconds = 15.0 if name == "no limit" else 45.0 if limits.get("workers", 0) > 4 else 90.0
    found = answers(None, limits, seconds)

    assert len(found.answered) >= 0.85 * len(answers(best, limits, seconds).answered)
    late = found.met[len(found.met) // 2 :]
    # The first 16 calls queue at a single worker, so it takes minutes to see how quick it is.
    most = 8 if limits.get("workers") == 1 else 3
    assert sum(late) / len(late) <= most * limits.get("workers", CEILING)
    if {"slots", "workers"} & set(
        limits
    ):  # where so many a minute are allowed, up to half are refused
        assert late_share_refused(found) <= limits.get("at_random", 0.0) + 0.05


def test_comes_back_after_a_window_that_says_nothing_of_when_it_ends() -> None:
    server = answers(None, {"window": (600, 60.0)}, 240.0)
    assert len(server.answered) >= 0.85 * 2400
    assert late_share_refused(server) <= 0.45


def test_is_not_misled_for_long_by_a_server_that_is_cold_at_first() -> None:
    server = answers(None, {"workers": 4, "cold_s": 5.0}, 150.0)
    assert sum(at > 50 for at in server.answered) >= 0.85 * 100 * 4 / 0.2
    assert max(server.met[-1000:]) <= 3 * 4


def test_climbs_to_its_ceiling_in_fifteen_latencies_where_nothing_waits() -> None:
    async def scene() -> int:
        server = Server()
        limiter = Limiter(None, ceiling=256, clock=asyncio.get_running_loop().time)
        await load(server, limiter, 15 * 0.2)
        return max(server.met)

    assert run(scene()) == 256


def test_finds_the_slots_of_a_slow_model_in_five_latencies() -> None:
    async def scene() -> int:
        server = Server(slots=200, latency_s=2.0, retry_after=0.05, at_random=0.05, fails=0.1)
        limiter = Limiter(None, ceiling=1024, clock=asyncio.get_running_loop().time)
        await load(server, limiter, 10.0)
        return limiter.limit

    assert run(scene()) == pytest.approx(200, rel=0.1)


def test_finds_the_workers_that_a_server_gains_and_loses_while_it_is_asked() -> None:
    async def scene() -> list[float]:
        limiter, server = (
            Limiter(None, ceiling=CEILING, clock=asyncio.get_running_loop().time),
            Server(workers=4),
        )
        asking = asyncio.create_task(load(server, limiter, 300.0))
        found: list[float] = []
        for workers in (16, 4, 4):
            await asyncio.sleep(99.0)
            found.append(sum(server.met[-200:]) / 200)
            server.work_with(workers)
        await asking
        return found

    few, many, few_again = run(scene())
    assert few <= 3 * 4
    assert 0.9 * 16 <= many <= 3 * 16
    assert few_again <= 3 * 4


def test_keeps_a_fixed_number_whatever_happens() -> None:
    async def scene() -> tuple[int, int]:
        limiter = Limiter(5, ceiling=99, clock=asyncio.get_running_loop().time)
        await load(Server(slots=2), limiter, 20.0)
        return limiter.limit, limiter.ceiling

    assert run(scene()) == (5, 5)


@pytest.mark.parametrize("ceiling", [1, 20])
def test_never_goes_beyond_its_ceiling(ceiling: int) -> None:
    async def scene() -> int:
        server = Server(latency_s=0.05)
        await load(
            server, Limiter(None, ceiling=ceiling, clock=asyncio.get_running_loop().time), 8.0
        )
        return max(server.met)

    assert run(scene()) == ceiling


@pytest.mark.parametrize("fixed", [None, 50])
@pytest.mark.parametrize(
    ("caps", "most"),
    [({"rpm": 120}, 120), ({"tpm": 12_000}, 120), ({"rpm": 600, "tpm": 6_000}, 60)],
)
def test_keeps_to_the_users_own_caps(fixed: int | None, caps: dict[str, Any], most: int) -> None:
    async def scene() -> Server:
        server = Server(latency_s=0.1)
        limiter = Limiter(fixed, ceiling=64, clock=asyncio.get_running_loop().time, **caps)

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


def test_starts_no_more_at_once_than_the_tokens_a_minute_allow() -> None:
    async def scene() -> list[float]:
        loop = asyncio.get_running_loop()
        limiter, started = Limiter(64, ceiling=64, clock=loop.time, tpm=3_000), list[float]()

        async def call() -> None:
            permit = await limiter.acquire()
            await asyncio.sleep(0.001)  # its question is made
            started.append(loop.time())
            limiter.charge(permit, 100)
            await asyncio.sleep(5.0)
            limiter.release(permit)

        await asyncio.gather(*(call() for _ in range(64)))
        return started

    started = run(scene())
    assert max(np.bincount(np.array(started, dtype=int))) == 1
    assert started[-1] == pytest.approx(63 * 2.0, rel=0.01)


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

        limiter.refused(permit, 20.0)
        limiter.refused(permit, 5.0)
        waiting = [asyncio.create_task(start()) for _ in range(3)]
        await asyncio.sleep(10)
        limiter.refused(permit, 30.0)  # while they wait
        await asyncio.gather(*waiting)
        return starts

    assert run(scene()) == pytest.approx([40.0] * 3)


def test_holds_calls_no_longer_than_its_own_limit() -> None:
    async def scene() -> float:
        limiter = Limiter(None, ceiling=4, clock=asyncio.get_running_loop().time)
        limiter.refused(await limiter.acquire(), math.inf)
        wait_s = limiter.take()
        assert isinstance(wait_s, float)
        return wait_s

    assert run(scene()) == pytest.approx(MAX_HOLD_S)


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
