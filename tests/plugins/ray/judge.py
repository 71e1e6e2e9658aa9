"""A judge that writes down every request, and does what a test has it do: take its time, refuse, say how long to wait."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import web


@dataclass
class Asked:
    """What the judge was asked, and how it is to answer.

    Attributes:
        arrivals: when each request came, by the monotonic clock.
        clients: the port that each request came from: one for each connection.
        sent: ids of the answers that were sent in full.
        bodies: the requests themselves.
        keys: what was sent as a key.
        takes_s: how long an answer takes.
        held_after: requests after so many wait for their answers, as long as this is not None.
        answer: the status, and further headers, of the answer to a request by its number, from 1 on.
        error: what it says where it refuses.
    """

    url: str = ""
    arrivals: list[float] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    takes_s: float = 0.0
    held_after: int | None = None
    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (200, {})
    error: str = "no"
    open: int = 0
    most_open: int = 0


@contextmanager
def judge() -> Iterator[Asked]:
    """Such a judge on a port of its own."""
    asked = Asked()
    ready, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(asked, ready, over)))
    thread.start()
    assert ready.wait(30)
    try:
        yield asked
    finally:
        over.set()
        thread.join()


async def _serve(asked: Asked, ready: threading.Event, over: threading.Event) -> None:
    numbers = itertools.count(1)

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.open += 1
        asked.most_open = max(asked.most_open, asked.open)
        try:
            number = next(numbers)
            asked.arrivals.append(time.monotonic())
            asked.keys.add(request.headers.get("Authorization", ""))
            asked.bodies.append(orjson.loads(await request.read()))
            await asyncio.sleep(asked.takes_s)
            while asked.held_after is not None and number > asked.held_after and not over.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            status, headers = asked.answer(number)
            identity = f"answer-{number}"
            said = {
                "id": identity,
                "model": "judge",
                "choices": [
                    {
                        "message": {"content": f"Feedback: no. {number}.\nRating: {number % 5}"},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            }
            body = said if status == 200 else {"error": {"message": asked.error}}
            response = web.Response(body=orjson.dumps(body), status=status, headers=headers)
            response.content_type = "application/json"
            try:
                await response.prepare(request)
                await response.write_eof()
            except ConnectionResetError:  # its caller was killed: it was not sent
                return response
            if status == 200:
                asked.sent.append(identity)
            return response
        finally:
            asked.open -= 1

    app = web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/chat/completions", answer)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    asked.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    ready.set()
    await asyncio.to_thread(over.wait)
    await runner.cleanup()
