"""The replay judge: a real server that answers with recorded ratings, and says so."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from scipy import stats

from robin_cli.datasets.pools import Pool
from robin_cli.judges.replay_server import Replay, serve

POOL = Pool("set", ("a",), (np.array([0, 0, 0, 3, 4]),))


async def talk(*calls: dict[str, object], pool: Pool = POOL) -> list[object]:
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(Replay({pool.name: pool}, source="x.csv", seed=1), 0, ready.set_result, stop))
    url = await ready
    assert url.startswith("http://127.0.0.1:")
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    got: list[object] = []
    try:
        got.append([model.id async for model in client.models.list()])
        for call in calls:
            base = {"model": "replay:set", "messages": [{"role": "user", "content": "hi"}]}
            try:
                got.append(await client.chat.completions.create(**(base | call)))  # type: ignore[call-overload]
            except (NotFoundError, BadRequestError) as error:
                got.append(error)
    finally:
        await client.close()
        stop.set()
        await server
    return got


def ratings(completion: object) -> list[int]:
    choices = completion.choices  # type: ignore[attr-defined]
    return [int(choice.message.content[-1]) for choice in choices]


def test_answers_as_the_pool_does_and_says_that_it_is_a_replay() -> None:
    models, answer = asyncio.run(talk({"n": 128}))
    assert models == ["replay:set"]
    assert "no model read this" in answer.choices[0].message.content  # type: ignore[attr-defined]
    assert answer.model == "replay:set"  # type: ignore[attr-defined]
    seen = Counter(ratings(answer))
    assert set(seen) == {0, 3, 4}
    observed = [seen[0], seen[3], seen[4]]
    assert stats.chisquare(observed, [128 * 0.6, 128 * 0.2, 128 * 0.2]).pvalue > 0.001


def test_repeats_itself_for_the_same_seed_only() -> None:
    _, *answers = asyncio.run(talk({"n": 40, "seed": 1}, {"n": 40, "seed": 1}, {"n": 40, "seed": 2}))
    first, again, other = map(ratings, answers)
    assert first == again != other


def test_takes_a_null_for_a_parameter_that_is_not_there() -> None:
    _, answer = asyncio.run(talk({"n": None, "seed": None}))
    assert len(ratings(answer)) == 1


def test_answers_a_prompt_with_the_same_pair_always_and_others_with_others() -> None:
    pool = Pool("set", ("a", "b", "c"), (np.array([0]), np.array([1]), np.array([2])))
    calls: list[dict[str, object]] = [
        {"messages": [{"role": "user", "content": str(number % 20)}]} for number in range(40)
    ]
    _, *answers = asyncio.run(talk(*calls, pool=pool))
    seen = [ratings(answer)[0] for answer in answers]
    assert seen[:20] == seen[20:]
    assert set(seen) == {0, 1, 2}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("POST", "/v1/chat/completions", b"no json", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b'{"model": "replay:set"}', 400),
        ("POST", "/v1/chat/completions", b'{"model": null, "messages": [{}]}', 404),
        ("POST", "/v1/completions", b"{}", 404),
    ],
)
def test_answers_bad_requests_without_breaking(method: str, path: str, body: bytes | None, status: int) -> None:
    async def scene() -> int:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(Replay({"set": POOL}, source="x"), 0, ready.set_result, stop))
        address = (await ready).removesuffix("/v1") + path
        try:
            async with aiohttp.ClientSession() as client, client.request(method, address, data=body) as answer:
                return answer.status
        finally:
            stop.set()
            await server

    assert asyncio.run(scene()) == status


def test_listens_on_loopback_only() -> None:
    async def scene() -> list[str]:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(Replay({"set": POOL}, source="x"), 0, ready.set_result, stop))
        port = urlsplit(await ready).port
        reached = []
        for host in ("127.0.0.1", "127.0.0.2"):  # what listens on every address answers on the second as well
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                continue
            reached.append(host)
            writer.close()
            await writer.wait_closed()
        stop.set()
        await server
        return reached

    assert asyncio.run(scene()) == ["127.0.0.1"]


def test_takes_the_time_it_is_told_to() -> None:
    async def scene() -> float:
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        replay = Replay({"set": POOL}, source="x", latency_s=0.05)
        server = asyncio.create_task(serve(replay, 0, ready.set_result, stop))
        url = await ready
        body = {"model": "replay:set", "messages": [{}]}
        started = time.monotonic()
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{url}/chat/completions", json=body) as answer,
        ):
            assert answer.status == 200
        stop.set()
        await server
        return time.monotonic() - started

    assert asyncio.run(scene()) >= 0.05


@pytest.mark.parametrize(
    "call", [{"model": "gpt"}, {"n": 0}, {"n": 500}, {"seed": -1}, {"messages": []}, {"stream": True}]
)
def test_refuses_as_an_endpoint_does(call: dict[str, object]) -> None:
    _, error = asyncio.run(talk(call))
    assert isinstance(error, NotFoundError if "model" in call else BadRequestError)
