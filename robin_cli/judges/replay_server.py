"""``robin serve``: an OpenAI-compatible judge on loopback that answers with recorded ratings.

It is a real HTTP server, but no model reads anything: a hash of the prompt chooses the recorded pair whose rating answers it.
It is for demos, tests and load tests, and every answer says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import orjson
from aiohttp import web

from robin_cli.data.pools import Pool
from robin_cli.model.records import MODEL_PREFIX

_MAX_BODY = 64 * 2**20
_MAX_SAMPLES = 128
_CHARACTERS_PER_TOKEN = 4


class _Request(msgspec.Struct):
    messages: Annotated[list[Any], msgspec.Meta(min_length=1)]
    model: Any = None
    n: Annotated[int, msgspec.Meta(ge=1, le=_MAX_SAMPLES)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    stream: Any = None


def _refusal(
    message: str, code: str, kind: type[web.HTTPException] = web.HTTPBadRequest
) -> web.HTTPException:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return kind(text=orjson.dumps({"error": error}).decode(), content_type="application/json")


class Replay:
    """Answers from a set of pools; each is a model named ``replay:`` and the pool's name.

    Args:
        pools: the pools by name.
        source: the source of the ratings, which every answer names.
        latency_s: the time for every answer, at least 0.
        seed: for the draws of requests without a seed.
    """

    def __init__(
        self,
        pools: Mapping[str, Pool],
        *,
        source: str,
        latency_s: float = 0.0,
        seed: int | None = None,
    ) -> None:
        self._pools = {MODEL_PREFIX + name: pool for name, pool in pools.items()}
        self._source = source
        self._latency_s = latency_s
        self._rng = np.random.default_rng(seed)
        self._number = itertools.count(1)
        self._started = int(time.time())

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _models(self, _request: web.Request) -> web.Response:
        entries = [
            {"id": name, "object": "model", "created": self._started, "owned_by": "robin-replay"}
            for name in self._pools
        ]
        return _json({"object": "list", "data": entries})

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            body = msgspec.json.decode(await request.read(), type=_Request)
        except msgspec.DecodeError as error:
            raise _refusal(str(error), "invalid_value") from None
        pool = self._pools.get(str(body.model))
        if pool is None:
            known = ", ".join(self._pools)
            message = f"The model does not exist here; there are: {known}"
            raise _refusal(message, "model_not_found", web.HTTPNotFound)
        if body.stream:
            raise _refusal("'stream' is not supported here", "unsupported_value")
        samples, seed, prompt = body.n or 1, body.seed, orjson.dumps(body.messages)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        number = next(self._number)
        # No two answers are the same to the letter, as with a real judge; with a seed, they depend on the seed alone.
        label = f"{number}." if seed is None else f"of seed {seed}."
        texts = self._ratings(pool, prompt, samples, seed, label)
        return _json(_completion(pool.name, number, prompt, texts))

    def _ratings(
        self, pool: Pool, prompt: bytes, samples: int, seed: int | None, label: str
    ) -> list[str]:
        pair = int.from_bytes(hashlib.sha256(prompt).digest()[:8], "big") % len(pool.pair_ids)
        rng = self._rng if seed is None else np.random.default_rng([seed, pair])
        drawn = rng.choice(pool.ratings[pair], size=samples).tolist()
        return [
            f"Feedback: Replay {label}{letter} of a recorded rating of {pool.pair_ids[pair]} in {self._source}; no model read "
            f"this response.\nRating: {rating}"
            for letter, rating in enumerate(drawn, start=1)
        ]


def _completion(name: str, number: int, prompt: bytes, texts: Sequence[str]) -> dict[str, Any]:
    prompt_tokens = len(prompt) // _CHARACTERS_PER_TOKEN
    completion_tokens = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN
    messages = [{"role": "assistant", "content": text} for text in texts]
    return {
        "id": f"replay-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL_PREFIX + name,
        "system_fingerprint": "robin-replay",
        "choices": [
            {"index": index, "message": message, "finish_reason": "stop", "logprobs": None}
            for index, message in enumerate(messages)
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


async def serve(
    replay: Replay, port: int, ready: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Serve on 127.0.0.1 until ``stop`` is set.

    Args:
        replay: what to answer with.
        port: 0 for a free one.
        ready: called once, with the base URL, when the server is ready.
        stop: ends the server, after the requests under way.

    Raises:
        OSError: the port is taken.
    """
    runner = web.AppRunner(replay.app(), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        ready(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        await stop.wait()
    finally:
        await runner.cleanup()


def _json(content: object) -> web.Response:
    return web.Response(body=orjson.dumps(content), content_type="application/json")
