"""The queue at a server that tells Prometheus of itself: its page read, and a real server asked by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.dispatch import limited as limited_module
from robin_cli.dispatch.limiter import Limiter
from robin_cli.judges import openai_http
from robin_cli.judges.judge import Queue
from robin_cli.judges.server_metrics import metrics_url, read_queue
from tests.judges.wire import QUESTION, Clock, completion, judge_at

# As vLLM 0.9 to 0.11 print it (engine V1), with lines that begin alike.
VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="judge"} 7.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="judge"} 3.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="judge",reason="capacity"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="judge"} 0.31
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="judge"} 12.0
"""
SGLANG = """# HELP sglang:num_running_reqs The number of running requests
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="judge",tp_rank="0"} 5.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="judge",tp_rank="0"} 2.0
sglang:num_queue_reqs{model_name="judge",tp_rank="0",priority="1"} 2.0
"""


def waiting(*lines: str) -> str:
    return "".join(f"vllm:num_requests_waiting{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (VLLM, Queue(7, 3)),
        (VLLM.replace('engine="0",', ""), Queue(7, 3)),  # 0.6 to 0.8
        (VLLM.replace("\n", "\r\n"), Queue(7, 3)),
        (VLLM.replace("3.0\n", "3.0 1712345678901\n"), Queue(7, 3)),
        (SGLANG, Queue(5, 2)),
        (waiting('{model_name="judge",engine="0"} 3', '{model_name="judge",engine="1"} 4'), Queue(None, 7)),
        (waiting('{model_name="judge"} 3', '{model_name="other"} 90'), Queue(None, 3)),
        (waiting('{model_name="base"} 3', '{model_name="other"} 90'), Queue(None, 93)),  # judge is an adapter's name
        (waiting('{server="http://a:8000"} 1', '{server="http://b:8000"} 2'), Queue(None, 3)),
        (waiting(" 3"), Queue(None, 3)),
        (waiting('{model_name="a \\"quoted\\" {name}, with \\\\ and \\n"} 1e2'), Queue(None, 100)),
        (waiting('{ model_name = "judge" , engine="0", } 3'), Queue(None, 3)),
        ("# TYPE vllm:num_requests_waiting gauge\n", Queue(None, None)),  # before its first request
        (VLLM.replace("3.0", "NaN"), Queue(7, None)),  # none just now
        (waiting('{engine="0"} 3', '{engine="1"} NaN'), Queue(None, None)),
        (waiting('{model_name="judge"} 3', '{model_name="other"} NaN'), Queue(None, 3)),
    ],
)
def test_reads_what_waits_and_what_is_worked_on(page: str, found: Queue) -> None:
    assert read_queue(page.encode(), "judge") == found


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"<html><body>404</body></html>",
        b'{"object": "list"}',
        b"# HELP llamacpp:requests_deferred Number of requests deferred.\nllamacpp:requests_deferred 3\n",
        b"vllm:num_requests_waiting_by_reason 3\n",
        b"vllm:num_requests_running 3\n",
        b"a vllm:num_requests_waiting 3\n",
        *(
            waiting(line).encode()
            for line in (
                " +Inf",
                " -1",
                " x",
                " ",
                " 1 2 3",
                " 1e99",
                " 1_0",
                '{a="b" 3',
                '{a="b"c="d"} 3',
                "{a=b} 3",
            )
        ),
        b'vllm:num_requests_waiting{a="\xff"} 3\n',
        b"vllm:num_requests_waiting 1\n" * 5000,
    ],
)
def test_takes_no_other_page_for_a_queue(page: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever it says: nobody hears it
        read_queue(page, "judge")


@given(st.text(), st.binary(max_size=200))
def test_reads_any_page_or_none_of_it(line: str, other: bytes) -> None:
    for page in (other, waiting(line).encode("utf-8", "replace"), waiting("{" + line).encode("utf-8", "replace")):
        try:
            found = read_queue(page, "judge")
        except ValueError:
            continue
        assert found.waiting is None or 0 <= found.waiting <= 1e9


def test_takes_no_time_over_a_line_that_is_made_to_take_it() -> None:
    for line in (
        '{a="' + "\\" * 10**6,
        "{" + 'a="b",' * 10**5,
        "{" + " " * 10**6,
        " " + " " * 10**6,
        " " + "1" * 10**6,
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            read_queue(waiting(line).encode(), "judge")


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h:8000/v1", "http://h:8000/metrics"),
        ("http://h:8000/v1/", "http://h:8000/metrics"),
        ("https://h/team/v1", "https://h/team/metrics"),
        ("http://h:8000", "http://h:8000/metrics"),
    ],
)
def test_looks_beside_the_address_that_is_asked(base_url: str, url: str) -> None:
    assert metrics_url(base_url) == url


@dataclass
class VllmLike:
    """A server that works on ``batch`` requests and lets others wait; ``page``, if there is one, answers for its own."""

    batch: int = 4
    page: Callable[[VllmLike], Awaitable[web.StreamResponse]] | None = None
    url: str = ""
    here: int = 0
    looks: list[dict[str, str]] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        self.looks.append(dict(request.headers))
        if self.page is not None:
            return await self.page(self)
        running = min(self.here, self.batch)
        counts = {"running": running, "waiting": self.here - running}
        lines = (
            f'# TYPE vllm:num_requests_{kind} gauge\nvllm:num_requests_{kind}{{engine="0",model_name="judge"}} {count}.0\n'
            for kind, count in counts.items()
        )
        return web.Response(text="".join(lines), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.here += 1
        self.waits.append(max(0, self.here - self.batch))
        try:
            async with self._slots:
                await asyncio.sleep(0.03)
        finally:
            self.here -= 1
        return web.json_response(completion())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[VllmLike]:
        self._slots = asyncio.Semaphore(self.batch)
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        app.router.add_get("/metrics", self.metrics)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()


def asked(server: VllmLike, calls: int, fixed: int | None = None, ceiling: int = 64) -> tuple[list[Any], list[int]]:
    """Ask by a limiter as ``robin judge`` does; outcomes, and what was said. The limits as each call began."""

    async def scene() -> tuple[list[Any], list[int]]:
        async with server.serving():
            clock = Clock(lambda _now, _sleep: Limiter(fixed, ceiling=ceiling, clock=asyncio.get_running_loop().time))
            async with judge_at(server.url, clock, at_a_time=ceiling) as (judge, talk):
                limits: list[int] = []

                async def call() -> Any:
                    permit = await judge.acquire()
                    limits.append(clock.limiter.limit)
                    return await judge.ask(QUESTION, permit)

                outcomes = await asyncio.gather(*(call() for _ in range(calls)))
                looks = len(server.looks)
                await asyncio.sleep(5 * limited_module._LOOK_EVERY_S)
                assert len(server.looks) <= looks + 1  # idle, it is looked at no more
                assert talk.notices == []
                return outcomes, limits

    return asyncio.run(scene())


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, and answers, that take a thirtieth of their time."""
    monkeypatch.setattr(limited_module, "_LOOK_EVERY_S", 0.03)


def test_keeps_the_queue_short_at_a_server_that_tells_of_it_and_shows_it_no_key() -> None:
    server = VllmLike()

    outcomes, limits = asked(server, 600)

    assert len(outcomes) == 600
    assert len(server.looks) > 3
    assert not any("authorization" in {name.lower() for name in headers} for headers in server.looks)
    late, most = sorted(server.waits[300:]), sorted(limits[300:])
    assert late[150] <= 4
    assert most[150] <= 12


async def not_found(_: VllmLike) -> web.StreamResponse:
    return web.Response(status=404)


async def html(_: VllmLike) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def another(_: VllmLike) -> web.StreamResponse:
    return web.Response(text="llamacpp:requests_deferred 3\n")


async def elsewhere(server: VllmLike) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": f"{server.url}/metrics"})


async def too_long(_: VllmLike) -> web.StreamResponse:
    return web.Response(text=VLLM + "#" * 2**22)


async def compressed(_: VllmLike) -> web.StreamResponse:
    return web.Response(body=b"x" * 99, headers={"Content-Encoding": "gzip"})


async def never(_: VllmLike) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


@pytest.mark.parametrize("page", [not_found, html, another, elsewhere, too_long, compressed, never])
def test_looks_once_where_there_is_no_such_page_and_says_nothing(
    page: Callable[[VllmLike], Awaitable[web.StreamResponse]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_http, "_LONGEST_LOOK_S", 0.1)
    server = VllmLike(page=page)

    outcomes, _ = asked(server, 200)

    assert len(outcomes) == 200
    assert len(server.looks) == 1


def test_looks_again_where_a_server_that_told_of_its_queue_was_once_too_busy_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openai_http, "_LONGEST_LOOK_S", 0.1)

    async def late_once(server: VllmLike) -> web.StreamResponse:
        return await never(server) if len(server.looks) == 2 else web.Response(text=VLLM)

    server = VllmLike(page=late_once)

    asked(server, 400)

    assert len(server.looks) > 3


def test_looks_nowhere_with_a_fixed_number_of_calls() -> None:
    server = VllmLike()

    asked(server, 60, fixed=8, ceiling=8)

    assert server.looks == []


def test_is_not_held_up_by_a_page_that_does_not_come() -> None:
    server = VllmLike(page=never)

    async def scene() -> None:
        async with server.serving():
            clock = Clock(lambda _now, _sleep: Limiter(None, ceiling=8, clock=asyncio.get_running_loop().time))
            async with judge_at(server.url, clock) as (judge, _):
                for _ in range(5):  # one after another, each longer than it takes to begin to look
                    await judge.ask(QUESTION)
                assert len(server.looks) == 1

    asyncio.run(asyncio.wait_for(scene(), 30))  # nor is its end
