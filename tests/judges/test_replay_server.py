"""The replay judge: a real server that answers with recorded ratings, and says so."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from scipy import stats

from robin_cli.data.pools import Pool
from robin_cli.judges.replay_server import Replay, serve

POOL = Pool("set", ("a",), (np.array([0, 0, 0, 3, 4]),))


@asynccontextmanager
async def served(replay: Replay) -> AsyncIterator[str]:
    """A server of the replay; its base URL."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(replay, 0, ready.set_result, stop))
    try:
        yield await ready
    finally:
        stop.set()
        await server


async def talk(*calls: dict[str, object], pool: Pool = POOL) -> list[object]:
    got: list[object] = []
    async with served(Replay({pool.name: pool}, source="x.csv", seed=1)) as url:
        assert url.startswith("http://127.0.0.1:")
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            got.append([model.id async for model in client.models.list()])
            for call in calls:
                base = {"model": "replay:set", "messages": [{"role": "user", "content": "hi"}]}
                try:
                    got.append(await client.chat.completions.create(**(base | call)))  # type: ignore[call-overload]
                except (NotFoundError, BadRequestError) as error:
                    got.append(error)
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
    _, *answers = asyncio.run(
        talk({"n": 40, "seed": 1}, {"n": 40, "seed": 1}, {"n": 40, "seed": 2})
    )
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
def test_answers_bad_requests_without_breaking(
    method: str, path: str, body: bytes | None, status: int
) -> None:
    async def scene() -> int:
        async with (
            served(Replay({"set": POOL}, source="x")) as url,
            aiohttp.ClientSession(url.removesuffix("v1")) as client,
            client.request(method, path, data=body) as answer,
        ):
            return answer.status

    assert asyncio.run(scene()) == status


def test_listens_on_loopback_only() -> None:
    async def scene() -> list[str]:
        reached = []
        async with served(Replay({"set": POOL}, source="x")) as url:
            for host in (
                "127.0.0.1",
                "127.0.0.2",
            ):  # what listens on every address answers on the second as well
                try:
                    _, writer = await asyncio.open_connection(host, urlsplit(url).port)
                except OSError:
                    continue
                reached.append(host)
                writer.close()
                await writer.wait_closed()
        return reached

    assert asyncio.run(scene()) == ["127.0.0.1"]


def test_takes_the_time_it_is_told_to() -> None:
    async def scene() -> float:
        body = {"model": "replay:set", "messages": [{}]}
        async with (
            served(Replay({"set": POOL}, source="x", latency_s=0.05)) as url,
            aiohttp.ClientSession() as client,
        ):
            started = time.monotonic()
            async with client.post(f"{url}/chat/completions", json=body) as answer:
                assert answer.status == 200
            return time.monotonic() - started

    assert asyncio.run(scene()) >= 0.05


@pytest.mark.parametrize(
    "call",
    [{"model": "gpt"}, {"n": 0}, {"n": 500}, {"seed": -1}, {"messages": []}, {"stream": True}],
)
def test_refuses_as_an_endpoint_does(call: dict[str, object]) -> None:
    _, error = asyncio.run(talk(call))
    assert isinstance(error, NotFoundError if "model" in call else BadRequestError)
