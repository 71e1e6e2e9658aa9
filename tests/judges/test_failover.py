"""Several addresses of one judge: permits, and what happens when one of them fails. In virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter, Permit
from robin_cli.judges.retrying import CircuitBreaker, Retrying
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import Usage
from tests.judges.virtual import run

GOOD = Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)
AWAY = Failure("connection", "refused", 0.0)
QUESTION = Question([])


class Scripted(Judge):
    """A judge that answers at ``latency_s`` as ``respond`` says at that second, or raises it."""

    def __init__(
        self, respond: Callable[[float], Reply | Failure | Exception], latency_s: float = 1.0
    ) -> None:
        self._respond = respond
        self._latency_s = latency_s
        self.asked_at: list[float] = []

    async def ask(self, question: Question) -> Reply | Failure:
        loop = asyncio.get_running_loop()
        self.asked_at.append(loop.time())
        outcome = self._respond(loop.time())
        await asyncio.sleep(self._latency_s)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def endpoints(told: list[str], *judges: Scripted, at_a_time: Iterable[int] = ()) -> Failover:
    """One judge at these addresses, each with room for so many calls (4), none of them retried there."""
    clock = asyncio.get_running_loop().time
    rooms = itertools.chain(at_a_time, itertools.repeat(4))
    return Failover(
        [
            Retrying(
                judge,
                Limiter(room, ceiling=room, clock=clock),
                Notices(f"http://{number}", told.append),
                clock=clock,
            )
            for number, (judge, room) in enumerate(zip(judges, rooms, strict=False))
        ]
    )


async def work(judge: Failover, callers: int, seconds: float) -> Counter[str]:
    """What came of calls by so many callers in so many seconds."""
    came: Counter[str] = Counter()

    async def call() -> None:
        while True:
            outcome = await judge.ask(QUESTION, await judge.acquire())
            came[outcome.reason if isinstance(outcome, Failure) else "answered"] += 1

    callers_ = [asyncio.create_task(call()) for _ in range(callers)]
    await asyncio.sleep(seconds)
    for each in callers_:
        each.cancel()
    ended = await asyncio.gather(*callers_, return_exceptions=True)
    came.update(
        type(each).__name__ for each in ended if not isinstance(each, asyncio.CancelledError)
    )
    return came


def test_spreads_calls_by_the_room_there_is() -> None:
    async def scene() -> tuple[int, int]:
        small, large = Scripted(lambda _: GOOD), Scripted(lambda _: GOOD)
        await work(endpoints([], small, large, at_a_time=(2, 6)), 8, 100.5)
        return len(small.asked_at), len(large.asked_at)

    small, large = run(scene())
    assert (small, large) == (2 * 101, 6 * 101)


def test_moves_the_calls_of_an_endpoint_that_is_away_and_tries_it_again() -> None:
    told: list[str] = []

    async def scene() -> tuple[Counter[str], list[float]]:
        ill = Scripted(lambda now: AWAY if 10 <= now < 70 else GOOD, latency_s=0.1)
        came = await work(endpoints(told, ill, Scripted(lambda _: GOOD, latency_s=0.1)), 8, 200)
        return came, ill.asked_at

    came, asked = run(scene())
    assert set(came) == {"answered"}
    # tried again now and then, with one call
    assert len([at for at in asked if 11 <= at < 70]) <= 6
    assert len([at for at in asked if at > 150]) > 1_000
    assert ["circuit open" in line or "answers again" in line for line in told] == [
        False,
        True,
        True,
    ]


def test_opens_a_circuit_for_longer_and_longer_and_closes_it_with_the_first_answer() -> None:
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0])
    assert [breaker.failed() for _ in range(3)] == [False, False, True]
    waits = []
    for _ in range(7):
        waits.append(breaker.open_s)
        now[0] += breaker.open_s
        assert not breaker.closed  # half-open: one call may look
        assert not breaker.open_s
        assert not breaker.failed()
    assert waits == [5.0, 10.0, 20.0, 40.0, 80.0, 120.0, 120.0]
    for _ in range(64):  # that were under way together
        breaker.failed()
    assert breaker.open_s == 120.0
    assert breaker.succeeded()
    assert (breaker.closed, breaker.open_s) == (True, 0.0)
    assert not breaker.succeeded()
    assert breaker.failed(for_good=True)
    for _ in range(64):
        assert not breaker.failed()
    now[0] += breaker.open_s
    breaker.failed()
    assert breaker.open_s == 10.0  # the second time, however many calls were under way the first


def test_goes_on_with_the_others_when_one_refuses_the_key() -> None:
    told: list[str] = []

    async def scene() -> Counter[str]:
        return await work(
            endpoints(
                told,
                Scripted(lambda _: EndpointError("the key was refused")),
                Scripted(lambda _: GOOD),
            ),
            4,
            60,
        )

    assert set(run(scene())) == {"answered"}
    assert "key was refused" in told[0]


def test_gives_up_when_no_endpoint_can_be_used() -> None:
    async def scene() -> None:
        judge = endpoints(
            [], *(Scripted(lambda _: EndpointError("the key was refused")) for _ in range(3))
        )
        with pytest.raises(EndpointError, match="refused"):
            await judge.ask(QUESTION)

    run(scene())


def test_says_what_a_single_endpoint_says_and_never_opens_its_circuit() -> None:
    async def scene() -> Counter[str]:
        return await work(endpoints([], Scripted(lambda _: AWAY)), 4, 10.5)

    assert run(scene()) == Counter({"connection": 40})


def test_answers_what_concerns_the_pair_without_blaming_the_endpoint() -> None:
    too_long = Failure("context_length", "too long", 0.0)

    async def scene() -> Counter[str]:
        return await work(
            endpoints([], Scripted(lambda _: too_long), Scripted(lambda _: too_long)), 2, 10.5
        )

    assert run(scene()) == Counter({"context_length": 20})


def one_endpoint(room: int) -> Failover:
    return endpoints([], Scripted(lambda _: GOOD), at_a_time=(room,))


step = st.one_of(
    st.just(("start", 0)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("release"), st.integers(0, 9)),
    st.just(("tick", 0)),
)


async def play(steps: Iterable[tuple[str, int]], room: int) -> None:
    """Take the steps, then let every call come to its turn: nothing is left over, and nobody waits for ever."""
    pool = one_endpoint(room)
    waiting: list[asyncio.Task[None]] = []
    held: list[Permit] = []

    async def take() -> None:
        held.append(await pool.acquire())
        assert len(held) <= room

    for kind, which in steps:
        if kind == "start":
            waiting.append(asyncio.create_task(take()))
        elif kind == "cancel" and (live := [each for each in waiting if not each.done()]):
            live[which % len(live)].cancel()
        elif kind == "release" and held:
            held.pop().release()
        elif kind == "tick":
            await asyncio.sleep(0.001)
    for _ in range(len(waiting) + 1):
        await asyncio.sleep(0.001)
        while held:
            held.pop().release()
    async with asyncio.timeout(10):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(each is None or isinstance(each, asyncio.CancelledError) for each in ended)
    async with asyncio.timeout(10):  # all permits are free again
        for _ in range(room):
            await pool.acquire()


@given(st.lists(step, max_size=40), st.sampled_from([1, 2, 3]))
def test_loses_no_permit_whoever_is_cancelled_when(steps: list[tuple[str, int]], room: int) -> None:
    run(play(steps, room))


def test_loses_no_permit_in_any_short_story() -> None:
    async def all_stories() -> None:
        moves = [("start", 0), ("cancel", 0), ("cancel", 1), ("release", 0), ("tick", 0)]
        # one holds the permit, two wait
        opening = [("start", 0), ("start", 0), ("start", 0), ("tick", 0)]
        for story in itertools.product(moves, repeat=4):
            await play([*opening, *story], room=1)

    run(all_stories())
