"""Many calls at once through one client: what one learns, all know; what one is told, all heed; none hurts another."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from robin_cli.judges.limiter import Limiter
from robin_cli.judges.retrying import Retrying
from robin_cli.model.exchange import Failure, Question, Reply
from tests.judges.wire import (
    QUESTION,
    Answer,
    Clock,
    Handler,
    Talk,
    Wire,
    ask_together,
    completion,
    error,
    judge_at,
    serving,
    until,
)

TOGETHER = 6


def at_once(answer: Callable[[dict[str, Any]], Answer], together: int = TOGETHER) -> Handler:
    """Answer the first ``together`` requests when all of them are there, so that none could learn from another."""
    here = 0
    all_here = asyncio.Event()  # bound to the server's loop when it is first waited for

    async def reply(body: dict[str, Any]) -> Answer:
        nonlocal here
        here += 1
        if here >= together:
            all_here.set()
        await all_here.wait()
        return answer(body)

    return lambda _, body: reply(body)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("temperature", "Unsupported value: 'temperature' does not support 0.5 with this model."),
        ("top_p", "Unsupported parameter: 'top_p' is not supported with this model."),
    ],
)
def test_answers_every_call_that_was_under_way_when_a_parameter_was_refused(
    parameter: str, message: str
) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        refused = error(400, message, param=parameter, code="unsupported_parameter")
        return refused if parameter in body else completion()

    async def scene(url: str) -> list[str]:
        async with judge_at(url, temperature=0.5) as (judge, talk):
            outcomes = await asyncio.gather(*(judge.ask(QUESTION) for _ in range(TOGETHER)))
            assert [type(outcome) for outcome in outcomes] == [Reply] * TOGETHER
            assert isinstance(await judge.ask(QUESTION), Reply)
            return talk.notices

    with serving(at_once(answer)) as wire:
        notices = asyncio.run(scene(wire.url))
    # each of the first was refused once; the later one was right at once
    assert len(wire.bodies) == 2 * TOGETHER + 1
    assert len(notices) == 1


def test_learns_several_parameters_at_once() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        for name in ("max_tokens", "temperature", "top_p"):
            if name in body:
                return error(
                    400,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                    param=name,
                )
        return completion()

    with serving(at_once(answer)) as wire:
        talk = ask_together(wire.url, TOGETHER)
    assert [type(outcome) for outcome in talk.outcomes] == [Reply] * TOGETHER
    assert len(wire.bodies) <= 4 * TOGETHER
    assert len(talk.notices) == 3


def test_holds_a_call_that_begins_while_another_waits() -> None:
    class Second(Clock):
        begin: Callable[[], Coroutine[Any, Any, Any]]

        async def sleep(self, seconds: float) -> None:
            if not self.slept:
                self.slept.append(seconds)
                self.task = asyncio.create_task(self.begin())
                for _ in range(10):  # it comes to the line and waits there
                    await asyncio.sleep(0)
                assert len(wire.bodies) == 1
                self.now_s += seconds
            else:
                await super().sleep(seconds)

    clock = Second(lambda now, sleep: Limiter(4, ceiling=4, clock=now, sleep=sleep))

    async def scene(wire: Wire) -> None:
        async with judge_at(wire.url, clock) as (judge, _):
            clock.begin = lambda: judge.ask(QUESTION)
            assert isinstance(await judge.ask(QUESTION), Reply)
            assert isinstance(await clock.task, Reply)

    slow = error(429, "slow down", {"retry-after": "20"})
    with serving(lambda number, _: slow if number == 0 else completion()) as wire:
        asyncio.run(scene(wire))
    assert len(wire.bodies) == 3
    assert clock.slept[0] == pytest.approx(20.0)


def test_calls_that_follow_answers_which_come_together_go_out_a_few_at_a_time() -> None:
    together = 128
    clock = Clock(lambda now, sleep: Limiter(together, ceiling=together, clock=now, sleep=sleep))

    async def scene(url: str) -> Counter[int]:
        loop, turn, read = asyncio.get_running_loop(), 0, Counter[int]()

        def tick() -> None:
            nonlocal turn
            turn += 1
            ticking.append(loop.call_soon(tick))

        async def ask(judge: Retrying) -> None:
            assert isinstance(await judge.ask(QUESTION), Reply)
            read[turn] += 1

        async with judge_at(url, clock, at_a_time=together) as (judge, _):
            ticking = deque([loop.call_soon(tick)], maxlen=1)
            await asyncio.gather(*(ask(judge) for _ in range(together)))
            ticking[0].cancel()
        return read

    with serving(at_once(lambda _: completion(), together)) as wire:
        read = asyncio.run(scene(wire.url))
    assert read.total() == together
    assert max(read.values()) <= 20, "answers read in one turn of the event loop"


def test_can_be_cancelled_in_the_middle_of_a_call_and_goes_on() -> None:
    async def never() -> Answer:
        await asyncio.sleep(30)
        return completion()

    async def scene(wire: Wire) -> None:
        async with judge_at(wire.url) as (judge, _):
            calls = [asyncio.create_task(judge.ask(QUESTION)) for _ in range(3)]
            await until(lambda: len(wire.bodies) == 3)
            for call in calls:
                call.cancel()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
            assert isinstance(await judge.ask(QUESTION), Reply)

    with serving(lambda number, _: never() if number < 3 else completion()) as wire:
        asyncio.run(scene(wire))
    assert len(wire.bodies) == 4


def test_can_be_cancelled_while_it_waits() -> None:
    class Forever(Clock):
        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.sleep(60)

    clock = Forever(lambda now, sleep: Limiter(4, ceiling=4, clock=now, sleep=sleep))

    async def scene(wire: Wire) -> None:
        async with judge_at(wire.url, clock) as (judge, _):
            call = asyncio.create_task(judge.ask(QUESTION))
            await until(lambda: clock.slept)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    with serving(lambda *_: error(500, "broken")) as wire:
        asyncio.run(scene(wire))
    assert len(wire.bodies) == 1


class Dropped(web.StreamResponse):
    """No answer: the connection ends without a byte."""

    async def prepare(self, request: web.BaseRequest) -> Any:
        assert request.transport is not None
        request.transport.abort()
        return await super().prepare(request)


def test_asks_again_at_once_where_a_kept_connection_is_closed_and_once_only() -> None:
    async def scene(wire: Wire, calls: int) -> Talk:
        async with judge_at(wire.url, max_retries=2) as (judge, talk):
            for _ in range(calls):
                talk.outcomes.append(await judge.ask(QUESTION))
            return talk

    with serving(lambda number, _: Dropped() if number % 2 else completion()) as wire:
        talk = asyncio.run(scene(wire, 5))
    assert [type(each) for each in talk.outcomes] == [Reply] * 5
    assert len(wire.bodies) == 9
    assert (talk.slept, talk.notices) == ([], [])
    with serving(lambda number, _: Dropped() if number else completion()) as wire:
        talk = asyncio.run(scene(wire, 3))
    assert [type(each) for each in talk.outcomes] == [Reply, Failure, Failure]
    # A try is made twice at once on a kept connection: the first call's, and that of the list of models.
    assert len(wire.bodies) in {1 + 4 + 3, 1 + 5 + 3, 1 + 4 + 4}
    assert len(talk.slept) == 4


def test_keeps_the_answers_of_calls_under_way_apart() -> None:
    async def echo(body: dict[str, Any]) -> Answer:
        await asyncio.sleep(0.001 * (int(body["messages"][0]["content"]) % 7))
        return completion(body["messages"][0]["content"])

    async def scene(url: str) -> list[str]:
        async with judge_at(url) as (judge, _):
            asked = [Question([{"role": "user", "content": str(number)}]) for number in range(100)]
            outcomes = await asyncio.gather(*(judge.ask(question) for question in asked))
            return [outcome.answers[0].text for outcome in outcomes if isinstance(outcome, Reply)]

    with serving(lambda _, body: echo(body)) as wire:
        assert asyncio.run(scene(wire.url)) == [str(number) for number in range(100)]
