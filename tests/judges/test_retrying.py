"""What a call in back-off leaves to others. In virtual time."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from robin_cli.judges import openai_http
from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.retrying import Retrying
from robin_cli.judges.transport import Endpoint, Response, Transport
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import Usage
from tests.judges.virtual import run
from tests.judges.wire import completion

QUESTION = Question([])
GOOD = Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)


class Away(Judge):
    """Fails until ``back_at``, and answers from then on; at once."""

    def __init__(self, back_at: float) -> None:
        self._back_at = back_at
        self.asked_at: list[float] = []

    async def ask(self, question: Question) -> Reply | Failure:
        now = asyncio.get_running_loop().time()
        self.asked_at.append(now)
        return GOOD if now >= self._back_at else Failure("http_500", "oops")


def retrying(judge: Judge, at_a_time: int, *, rpm: float | None = None) -> Failover:
    notices = Notices("m", lambda _: None)
    limiter = Limiter(at_a_time, ceiling=at_a_time, clock=asyncio.get_running_loop().time, rpm=rpm)
    chain = Retrying(judge, limiter, notices, max_retries=6)
    return Failover([chain])


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_begins_as_many_more_calls_as_are_in_back_off_and_no_more(at_a_time: int) -> None:
    async def scene() -> tuple[int, int]:
        judge = Away(1e9)
        asked = retrying(judge, at_a_time)
        begun: list[asyncio.Task[Reply | Failure]] = []

        async def begin() -> None:
            while True:
                permit = await asked.acquire()
                begun.append(asyncio.create_task(asked.ask(QUESTION, permit)))

        beginning = asyncio.create_task(begin())
        await asyncio.sleep(1e-6)
        count = len(begun)
        await asyncio.sleep(2.0)
        still = sum(not each.done() for each in begun)
        for task in (beginning, *begun):
            task.cancel()
        await asyncio.gather(beginning, *begun, return_exceptions=True)
        return count, still

    count, still = run(scene())
    assert at_a_time <= count <= 2 * at_a_time
    assert still <= 2 * at_a_time


class Every(Judge):
    """Fails every second request, and answers the others, each after a second."""

    def __init__(self) -> None:
        self._asked = 0

    async def ask(self, question: Question) -> Reply | Failure:
        self._asked += 1
        fails = self._asked % 2
        await asyncio.sleep(1.0)
        return Failure("http_500", "oops") if fails else GOOD


def test_heaps_up_no_calls_that_wait_to_be_made_again() -> None:
    at_a_time = 8

    async def scene() -> int:
        asked = retrying(Every(), at_a_time)
        open_calls: set[asyncio.Task[Reply | Failure]] = set()
        most = 0
        for _ in range(400):
            permit = await asked.acquire()
            task = asyncio.create_task(asked.ask(QUESTION, permit))
            open_calls.add(task)
            task.add_done_callback(open_calls.discard)
            most = max(most, len(open_calls))
        await asyncio.gather(*open_calls)
        return most

    # away, under way, and those that fail while as many are away
    assert run(scene()) <= 3 * at_a_time


def test_makes_a_call_again_before_a_new_one_is_begun() -> None:
    async def scene() -> list[str]:
        asked = retrying(Away(0.2), 1)
        order: list[str] = []

        async def call(name: str) -> None:
            await asked.ask(QUESTION, await asked.acquire())
            order.append(name)

        await asyncio.gather(*(call(name) for name in "abc"))
        return order

    assert run(scene()) == ["a", "b", "c"]


def test_a_permit_that_was_not_used_costs_no_turn() -> None:
    async def scene() -> float:
        judge = Away(0.0)
        asked = retrying(judge, 4, rpm=60)
        for _ in range(30):
            (await asked.acquire()).release()
        for _ in range(3):
            await asked.ask(QUESTION, await asked.acquire())
        return judge.asked_at[-1]

    assert 1.0 <= run(scene()) <= 3.0


class Strict(Transport):
    """The wire to an endpoint that refuses ``seed`` and ``top_p``, one at a time; each answer takes a tenth of a second."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.sent_at: list[float] = []

    async def post(self, body: bytes) -> Response:
        self.sent_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        sent = orjson.loads(body)
        for name in ("seed", "top_p"):
            if name in sent:
                refusal = {"error": {"message": "not supported", "param": name}}
                return Response(400, {}, orjson.dumps(refusal))
        return Response(200, {}, orjson.dumps(completion()))


@pytest.mark.parametrize("at_a_time", [1, 8])
def test_keeps_to_rpm_while_it_learns_what_an_endpoint_takes(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(openai_http, "Transport", Strict)

    async def scene() -> tuple[list[float], list[Reply | Failure]]:
        judge = OpenAIJudge(
            Endpoint(model="m", base_url="http://strict/v1", api_key="none"), notify=lambda _: None
        )
        asked = retrying(judge, at_a_time, rpm=60)
        questions = [
            Question([{"role": "user", "content": "Rate this."}], seed=seed) for seed in range(12)
        ]
        outcomes = await asyncio.gather(*(asked.ask(question) for question in questions))
        assert isinstance(judge._transport, Strict)
        await asked.aclose()
        return judge._transport.sent_at, outcomes

    sent_at, outcomes = run(scene())
    assert all(isinstance(outcome, Reply) for outcome in outcomes)
    assert len(sent_at) >= 12 + 2
    # one a second; the first came late for its turn
    assert all(at >= number - 1.0 - 1e-9 for number, at in enumerate(sent_at))
