"""The replay judge: a real server that answers with recorded ratings, and says so."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from scipy import stats

from robin_cli.data.pools import Pool
from robin_cli.judging.replay_server import Replay, serve

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


@pytest.mark.parametrize("call", [{"model": "gpt"}, {"n": 0}, {"n": 500}, {"seed": -1}, {"messages": []}])
def test_refuses_as_an_endpoint_does(call: dict[str, object]) -> None:
    _, error = asyncio.run(talk(call))
    assert isinstance(error, NotFoundError if "model" in call else BadRequestError)
