"""``robin serve``: an OpenAI-compatible judge on loopback that answers with recorded ratings or verdicts.

It is a real HTTP server, but no model reads anything: a hash of the prompt chooses the recorded pair whose rating answers it;
recorded verdicts are found by their texts. It is for demos, tests and load tests, and every answer says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import orjson
from aiohttp import web

from robin_cli.datasets.chats import readable_turns
from robin_cli.datasets.pools import Pool
from robin_cli.datasets.votes import VotePool
from robin_cli.model.records import MODEL_PREFIX

_WORDS = ("B", "tie", "A")
_MARKS = ((":\n", "\n"), ("\n", "\n"), ("", ""))
"""The texts before and after a prompt or response in a question, the most specific first."""

_TIE = re.compile(r"\btie\b", re.IGNORECASE)


class Asked(NamedTuple):
    """A recorded comparison, its order in a question (0 if its A comes first), and whether a tie is allowed."""

    comparison: int
    order: int
    ties: bool


class Votes:
    """Finds recorded comparisons in questions, and draws verdicts on them.

    Args:
        pool: recorded verdicts.
        first_place: the preference for the first place, −½ to ½: with a probability of twice its absolute value, the first
            response is preferred whatever was recorded, or the second if it is negative.
    """

    def __init__(self, pool: VotePool, first_place: float = 0.0) -> None:
        self._pool, self._first_place = pool, first_place
        self._of_prompt: dict[str, list[int]] = {}
        for number, pair in enumerate(pool.pairs):
            self._of_prompt.setdefault(pair.prompt, []).append(number)
        self._shown = {prompt: readable_turns(prompt) for prompt in self._of_prompt}

    def asked(self, messages: Sequence[object]) -> Asked | None:
        """Return the recorded comparison in a question: the one whose prompt and two responses have the longest texts.

        It looks for whole lines after a label first, as in robin's template, then for whole lines, then anywhere.
        """
        text = "\n" + "\n".join(_contents(messages)) + "\n"
        for marks in _MARKS:
            found = [
                each for prompt in self._of_prompt for each in self._found(text, prompt, *marks)
            ]
            if found:
                _, comparison, order, rest = max(found, key=lambda each: each[0])
                return Asked(comparison, order, ties=_TIE.search(rest) is not None)
        return None

    def _found(
        self, text: str, prompt: str, mark: str, end: str
    ) -> Iterator[tuple[int, int, int, str]]:
        """Yield the comparisons of a prompt that are in a question: length of the texts, number, order, rest of the text."""
        shown = self._shown[prompt]
        asked = _after(text, mark, shown, end)
        if asked is None:
            return
        before, rest = asked
        for number in self._of_prompt[prompt]:
            a, b = self._pool.pairs[number].response, self._pool.pairs[number].other or ""
            for order, (first, second) in enumerate(((a, b), (b, a))):
                one = _after(rest, mark, first, end)
                two = one and _after(one[1], mark, second, end)
                if one and two:
                    yield (
                        len(shown) + len(a) + len(b),
                        number,
                        order,
                        "\n".join((before, one[0], *two)),
                    )
                    break

    def verdict(self, asked: Asked, rng: np.random.Generator) -> str:
        """Draw a verdict: A, B or tie, as the question names its responses."""
        if rng.random() < 2 * abs(self._first_place):
            return "A" if self._first_place > 0 else "B"
        points = int(rng.choice(self._pool.points[asked.order][asked.comparison]))
        if points == 1 and not asked.ties:
            points = 2 * int(rng.integers(2))
        return _WORDS[2 - points if asked.order else points]


def _after(text: str, mark: str, sought: str, end: str) -> tuple[str, str] | None:
    """Return the texts before and after ``sought`` between two marks; None if it is not there."""
    at = text.find(f"{mark}{sought}{end}")
    return None if at < 0 else (text[: at + len(mark)], text[at + len(mark) + len(sought) :])


def answer_of(verdict: str, feedback: str, asked: object) -> str:
    """Return the text of an answer: JSON if the request asks for it, else two lines."""
    if isinstance(asked, dict) and str(asked.get("type")).startswith("json"):
        return orjson.dumps({"feedback": feedback, "verdict": verdict}).decode()
    return f"Feedback: {feedback}\nVerdict: {verdict}"


def _contents(messages: Sequence[object]) -> Iterator[str]:
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            yield from (
                part["text"]
                for part in content
                if isinstance(part, dict) and isinstance(part.get("text"), str)
            )


_MAX_BODY = 64 * 2**20
_MAX_SAMPLES = 128
_CHARACTERS_PER_TOKEN = 4


class _Request(msgspec.Struct):
    """The parts of a request that are read."""

    messages: Annotated[list[Any], msgspec.Meta(min_length=1)]
    model: Any = None
    n: Annotated[int, msgspec.Meta(ge=1, le=_MAX_SAMPLES)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    stream: Any = None
    response_format: Any = None


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
        first_place: for pools of verdicts, see :class:`Votes`.
    """

    def __init__(
        self,
        pools: Mapping[str, Pool | VotePool],
        *,
        source: str,
        latency_s: float = 0.0,
        seed: int | None = None,
        first_place: float = 0.0,
    ) -> None:
        self._pools = {MODEL_PREFIX + name: pool for name, pool in pools.items()}
        self._votes = {
            name: Votes(pool, first_place)
            for name, pool in self._pools.items()
            if isinstance(pool, VotePool)
        }
        self._source = source
        self._latency_s = latency_s
        self._rng = np.random.default_rng(seed)
        self._number = itertools.count(1)
        self._started = int(time.time())

    def app(self) -> web.Application:
        """Return the server as an aiohttp application."""
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
            raise _refusal(
                f"The model does not exist here; there are: {known}",
                "model_not_found",
                web.HTTPNotFound,
            )
        if body.stream:
            raise _refusal("'stream' is not supported here", "unsupported_value")
        samples, seed, prompt = body.n or 1, body.seed, orjson.dumps(body.messages)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        number = next(self._number)
        # No two answers are the same to the letter, as with a real judge; with a seed, they depend on the seed alone.
        label = f"{number}." if seed is None else f"of seed {seed}."
        if isinstance(pool, VotePool):
            texts = self._verdicts(pool, body, samples, seed, label)
        else:
            texts = self._ratings(pool, prompt, samples, seed, label)
        return _json(_completion(pool.name, number, prompt, texts))

    def _ratings(
        self, pool: Pool, prompt: bytes, samples: int, seed: int | None, label: str
    ) -> list[str]:
        pair = int.from_bytes(hashlib.sha256(prompt).digest()[:8], "big") % len(pool.pair_ids)
        rng = self._rng if seed is None else np.random.default_rng([seed, pair])
        return [
            f"Feedback: Replay {label}{letter} of a recorded rating of {pool.pair_ids[pair]} in {self._source}; no model read "
            f"this response.\nRating: {rating}"
            for letter, rating in enumerate(
                rng.choice(pool.ratings[pair], size=samples).tolist(), start=1
            )
        ]

    def _verdicts(
        self, pool: VotePool, body: _Request, samples: int, seed: int | None, label: str
    ) -> list[str]:
        votes = self._votes[MODEL_PREFIX + pool.name]
        asked = votes.asked(body.messages)
        if asked is None:
            raise _refusal(
                f"The messages hold no comparison recorded in {self._source}: a prompt, and after it two responses",
                "not_recorded",
            )
        rng = (
            self._rng
            if seed is None
            else np.random.default_rng([seed, asked.comparison, asked.order])
        )
        return [
            answer_of(
                votes.verdict(asked, rng),
                f"Replay {label}{letter} of a recorded verdict on {pool.pairs[asked.comparison].pair_id} in {self._source}; no "
                "model read these responses.",
                body.response_format,
            )
            for letter in range(1, samples + 1)
        ]


def _completion(name: str, number: int, prompt: bytes, texts: Sequence[str]) -> dict[str, Any]:
    prompt_tokens = len(prompt) // _CHARACTERS_PER_TOKEN
    completion_tokens = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN
    return {
        "id": f"replay-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL_PREFIX + name,
        "system_fingerprint": "robin-replay",
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
                "logprobs": None,
            }
            for index, text in enumerate(texts)
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
