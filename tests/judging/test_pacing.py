"""How many calls are under way, who is next, and how long all of them wait."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judging.pacing import MAX_HOLD_S, Pacer


class Clock:
    """Seconds that pass when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def adaptive(ceiling: int = 64) -> tuple[Pacer, Clock]:
    clock = Clock()
    return Pacer(None, ceiling=ceiling, clock=clock), clock


def fill(pacer: Pacer) -> None:
    """Take every slot there is."""

    async def taking() -> None:
        while pacer.in_use < pacer.limit:
            await pacer.acquire()

    asyncio.run(taking())


def succeed_for_a_round(pacer: Pacer) -> None:
    """Every call under way is answered; all slots are taken again after each."""
    for _ in range(pacer.limit):
        pacer.succeeded()
        fill(pacer)


def test_keeps_a_fixed_number_of_calls_whatever_happens() -> None:
    clock = Clock()
    pacer = Pacer(5, ceiling=99, clock=clock)
    fill(pacer)
    pacer.succeeded()
    pacer.throttled(started_at=100.0, retry_after_s=None)
    assert (pacer.limit, pacer.ceiling, pacer.in_use) == (5, 5, 5)


@pytest.mark.parametrize(
    ("ceiling", "rounds"), [(64, [8, 16, 32, 64, 64]), (20, [8, 16, 20]), (3, [3, 3]), (1, [1, 1])]
)
def test_doubles_its_calls_every_round_up_to_the_ceiling(ceiling: int, rounds: list[int]) -> None:
    pacer, _ = adaptive(ceiling)
    seen = []
    for _ in rounds:
        seen.append(pacer.limit)
        fill(pacer)
        succeed_for_a_round(pacer)
    assert seen == rounds
    assert pacer.ceiling == ceiling


def test_cuts_by_three_tenths_and_then_grows_by_one_a_round() -> None:
    pacer, clock = adaptive()
    fill(pacer)
    for _ in range(2):
        succeed_for_a_round(pacer)
    assert pacer.limit == 32
    pacer.throttled(started_at=clock.now, retry_after_s=None)
    assert pacer.limit == math.floor(32 * 0.7)
    for expected in (23, 24):
        succeed_for_a_round(pacer)
        assert pacer.limit == expected


def test_cuts_once_for_all_calls_that_started_before_the_cut() -> None:
    pacer, clock = adaptive()
    for started in (90.0, 95.0, 100.0):  # three calls of one round trip, all told the same
        pacer.throttled(started_at=started, retry_after_s=None)
    assert pacer.limit == 5
    clock.now = 101.0
    pacer.throttled(started_at=100.5, retry_after_s=None)
    assert pacer.limit == 3


def test_never_goes_below_one_call() -> None:
    pacer, clock = adaptive()
    for _ in range(50):
        clock.now += 1
        pacer.throttled(started_at=clock.now, retry_after_s=None)
    assert pacer.limit == 1


def test_does_not_grow_while_slots_stand_empty() -> None:
    pacer, _ = adaptive()
    asyncio.run(pacer.acquire())
    for _ in range(100):
        pacer.succeeded()
    assert pacer.limit == 8


def test_starts_no_call_after_a_cut_until_enough_have_ended() -> None:
    async def scene() -> None:
        pacer, clock = adaptive()
        for _ in range(8):
            await pacer.acquire()
        pacer.throttled(started_at=clock.now, retry_after_s=None)  # 5 from now on
        waiter = asyncio.create_task(pacer.acquire())
        for left in (7, 6, 5):
            pacer.release()
            await asyncio.sleep(0)
            assert (pacer.in_use, waiter.done()) == (left, False)
        pacer.release()
        await waiter
        assert pacer.in_use == 5

    asyncio.run(scene())


def test_hands_out_new_slots_as_it_grows() -> None:
    async def scene() -> None:
        pacer, _ = adaptive()
        for _ in range(8):
            await pacer.acquire()
        waiter = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(0)
        pacer.succeeded()
        await asyncio.wait_for(waiter, 5)
        assert (pacer.limit, pacer.in_use) == (9, 9)

    asyncio.run(scene())


def test_serves_waiting_calls_in_their_order() -> None:
    async def scene() -> list[int]:
        pacer = Pacer(2, ceiling=2, clock=Clock())
        order: list[int] = []

        async def call(number: int) -> None:
            await pacer.acquire()
            order.append(number)
            await asyncio.sleep(0)
            pacer.release()

        await asyncio.gather(*(call(number) for number in range(20)))
        assert pacer.in_use == 0
        return order

    assert asyncio.run(scene()) == list(range(20))


def test_lets_nobody_past_those_who_wait() -> None:
    async def scene() -> None:
        pacer = Pacer(1, ceiling=1, clock=Clock())
        await pacer.acquire()
        first = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(0)
        pacer.release()  # the slot is the first waiter's, though it has not run yet
        second = asyncio.create_task(pacer.acquire())
        await asyncio.sleep(0)
        assert (first.done(), second.done()) == (True, False)
        second.cancel()

    asyncio.run(scene())


def test_holds_all_calls_for_the_longest_wait_it_was_told() -> None:
    pacer, clock = adaptive()
    assert pacer.hold_s() == 0
    pacer.throttled(started_at=99.0, retry_after_s=20.0)
    pacer.throttled(started_at=98.0, retry_after_s=5.0)
    assert pacer.hold_s() == 20.0
    clock.now += 19
    assert pacer.hold_s() == 1.0
    clock.now += 60
    assert pacer.hold_s() == 0


def test_holds_calls_no_longer_than_its_own_limit() -> None:
    pacer, _ = adaptive()
    pacer.throttled(started_at=99.0, retry_after_s=math.inf)
    assert pacer.hold_s() == MAX_HOLD_S


step = st.one_of(
    st.just(("start", 0)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("release"), st.integers(0, 9)),
    st.just(("tick", 0)),
    st.just(("succeed", 0)),
    st.just(("throttle", 0)),
)


class _Calls:
    """Calls that wait for a slot, hold one, or were cancelled, and the pacer they share."""

    def __init__(self, pacer: Pacer, clock: Clock) -> None:
        self.pacer, self._clock = pacer, clock
        self.waiting: list[asyncio.Task[None]] = []
        self.holding = 0

    async def take(self, kind: str, which: int) -> None:
        if kind == "start":
            self.waiting.append(asyncio.create_task(self._call()))
        elif kind == "cancel" and (live := [each for each in self.waiting if not each.done()]):
            live[which % len(live)].cancel()
        elif kind == "release" and self.holding:
            self.holding -= 1
            self.pacer.release()
        elif kind == "succeed":
            self.pacer.succeeded()
        elif kind == "throttle":
            self._clock.now += 1
            self.pacer.throttled(started_at=self._clock.now, retry_after_s=None)
        elif kind == "tick":
            await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def _call(self) -> None:
        await self.pacer.acquire()
        self.holding += 1
        assert self.pacer.in_use <= self.pacer.ceiling


async def play(steps: Iterable[tuple[str, int]], fixed: int | None) -> None:
    """Take the steps, then let every call come to its turn: nothing is left over, and nobody waits for ever."""
    clock = Clock()
    calls = _Calls(Pacer(fixed, ceiling=9, clock=clock), clock)
    for kind, which in steps:
        await calls.take(kind, which)
    await calls.settle()
    assert calls.pacer.in_use == calls.holding
    while calls.holding:
        await calls.take("release", 0)
        await calls.settle()
    async with asyncio.timeout(10):
        ended = await asyncio.gather(*calls.waiting, return_exceptions=True)
    assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)
    assert calls.pacer.in_use == 0


@given(st.lists(step, max_size=40), st.sampled_from([1, 2, 3, None]))
def test_loses_no_slot_whoever_is_cancelled_when(steps: list[tuple[str, int]], fixed: int | None) -> None:
    asyncio.run(play(steps, fixed))


def test_loses_no_slot_in_any_short_story() -> None:
    async def all_stories() -> None:
        moves = [("start", 0), ("cancel", 0), ("cancel", 1), ("release", 0), ("tick", 0)]
        opening = [("start", 0), ("start", 0), ("start", 0), ("tick", 0)]  # one holds the slot, two wait
        for story in itertools.product(moves, repeat=5):
            await play([*opening, *story], fixed=1)

    asyncio.run(all_stories())


def test_passes_a_slot_on_that_came_to_a_call_just_cancelled() -> None:
    async def scene() -> None:
        pacer = Pacer(1, ceiling=1, clock=Clock())
        await pacer.acquire()
        first, second = (asyncio.create_task(pacer.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        pacer.release()  # hands the slot to the first, which is cancelled before it runs
        first.cancel()
        await asyncio.wait_for(second, 5)
        assert first.cancelled()
        assert pacer.in_use == 1

    asyncio.run(scene())
