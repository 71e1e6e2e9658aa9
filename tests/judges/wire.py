"""A server on loopback whose every answer a test decides; what it was asked is written down."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.retrying import Retrying
from robin_cli.judges.transport import Endpoint
from robin_cli.model.exchange import Failure, Question, Reply

KEY = "sk-planted-7d1e5c90ab42"
QUESTION = Question(messages=[{"role": "user", "content": "Rate this."}])
Answer = web.StreamResponse | dict[str, Any]
Handler = Callable[[int, dict[str, Any]], Answer | Awaitable[Answer]]


@dataclass
class Wire:
    """The server: its address, and the bodies and headers of the requests it got."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    models: Sequence[str] = ()
    tls: ssl.SSLContext | None = None


@dataclass
class Talk:
    """What came of asking: outcomes or errors in order, what the user was told, and how long was slept."""

    outcomes: list[Reply | Failure] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)


def completion(text: str | None = "Feedback: fine.\nRating: 3", **change: Any) -> dict[str, Any]:
    """A well-formed chat completion; ``change`` replaces top-level fields."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "judge-1",
        "choices": [choice],
    }
    return {**body, "usage": {"prompt_tokens": 100, "completion_tokens": 9}, **change}


def error(
    status: int, message: str, headers: dict[str, str] | None = None, **fields: Any
) -> web.Response:
    """An error in OpenAI's form."""
    body = orjson.dumps(
        {"error": {"message": message, "type": "error", "param": None, "code": None, **fields}}
    )
    return web.Response(status=status, body=body, headers=headers, content_type="application/json")


@contextmanager
def serving(
    handler: Handler, *, models: Sequence[str] = (), tls: ssl.SSLContext | None = None
) -> Iterator[Wire]:
    """Answer every question by ``handler(number of the request from 0, its body)``; list any ``models``.

    Chat completions come with ``messages``, decisions with ``questions``.
    """
    wire = Wire(models=models, tls=tls)
    ready, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(wire, handler, ready, over)))
    thread.start()
    assert ready.wait(30)
    try:
        yield wire
    finally:
        over.set()
        thread.join()


class Clock:
    """Time that passes only where somebody sleeps. One limiter goes by it, and so does the judge."""

    def __init__(
        self, limiter: Callable[[Callable[[], float], Callable[[float], Awaitable[None]]], Limiter]
    ) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self.limiter = limiter(lambda: self.now_s, self.sleep)

    async def sleep(self, seconds: float) -> None:
        """Let every other sleeper of this moment fall asleep, then wake up ``seconds`` later."""
        self.slept.append(seconds)
        until_s = self.now_s + seconds
        await asyncio.sleep(0)
        self.now_s = max(self.now_s, until_s)


@asynccontextmanager
async def judge_at(
    url: str,
    clock: Clock | None = None,
    *,
    max_retries: int = 6,
    meter: Meter | None = None,
    **endpoint: Any,
) -> AsyncIterator[tuple[Failover, Talk]]:
    """The real client of ``url`` with limiter and retries, and what it says; sleeps are recorded, not slept."""
    clock = clock or Clock(lambda now, sleep: Limiter(8, ceiling=8, clock=now, sleep=sleep))
    talk = Talk(slept=clock.slept)
    settings = {"base_url": url, "model": "judge", "api_key": KEY, **endpoint}
    notices = Notices(url, talk.notices.append)
    asked = OpenAIJudge(Endpoint(**settings), meter=meter, notify=talk.notices.append)
    chain = Retrying(asked, clock.limiter, notices, max_retries=max_retries, sleep=clock.sleep)
    judge = Failover([chain], sleep=clock.sleep)
    try:
        yield judge, talk
    finally:
        await judge.aclose()


def ask(url: str, *questions: Question, **endpoint: Any) -> Talk:
    """Ask one question after another (one, if none are given) with the real client; sleeps are recorded, not slept."""

    async def talking() -> Talk:
        async with judge_at(url, **endpoint) as (judge, talk):
            for question in questions or (QUESTION,):
                talk.outcomes.append(await judge.ask(question))
            return talk

    return asyncio.run(talking())


def ask_together(url: str, count: int, clock: Clock | None = None, **endpoint: Any) -> Talk:
    """Ask the same question ``count`` times at once."""

    async def talking() -> Talk:
        async with judge_at(url, clock, **endpoint) as (judge, talk):
            talk.outcomes.extend(await asyncio.gather(*(judge.ask(QUESTION) for _ in range(count))))
            return talk

    return asyncio.run(talking())


async def until(met: Callable[[], object]) -> None:
    """Wait for something that happens on the server's thread."""
    async with asyncio.timeout(20):
        while not met():  # noqa: ASYNC110  # no event crosses from the server's loop to this one
            await asyncio.sleep(0.001)


async def _serve(
    wire: Wire, handler: Handler, ready: threading.Event, over: threading.Event
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        wire.bodies.append(body)
        wire.headers.append(dict(request.headers))
        answer = handler(len(wire.bodies) - 1, body)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    async def list_models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in wire.models]})

    app = web.Application(client_max_size=2**27)
    app.add_routes([web.post(f"/v1/{path}", handle) for path in ("chat/completions", "decisions")])
    if wire.models:
        app.add_routes([web.get("/v1/models", list_models)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=wire.tls).start()
    wire.url = f"{'https' if wire.tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/v1"
    ready.set()
    await asyncio.to_thread(over.wait)
    await runner.cleanup()
