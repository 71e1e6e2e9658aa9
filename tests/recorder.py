"""A reverse proxy that writes down the id of every answer it has sent on: the server's side of the story."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson
from aiohttp import web


@dataclass
class Record:
    """What went through: ids of the answers sent in full, in order, and how many calls were open at most."""

    url: str = ""
    sent: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0


@contextmanager
def recorded(upstream: str) -> Iterator[Record]:
    """A recording proxy in front of ``upstream`` (a base URL that ends in /v1)."""
    record = Record()
    ready, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(upstream, record, ready, over)))
    thread.start()
    ready.wait()
    try:
        yield record
    finally:
        over.set()
        thread.join()


async def _serve(upstream: str, record: Record, ready: threading.Event, over: threading.Event) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def forward(request: web.Request) -> web.StreamResponse:
            record.open += 1
            record.most_open = max(record.most_open, record.open)
            try:
                url = upstream.removesuffix("/v1") + request.path
                async with client.post(
                    url, data=await request.read(), headers={"Content-Type": "application/json"}
                ) as answer:
                    body = await answer.read()
                    status = answer.status
                response = web.Response(body=body, status=status, content_type="application/json")
                try:
                    await response.prepare(request)
                    await response.write_eof()
                except ConnectionResetError:  # its caller was killed: it was not sent
                    return response
                if status == 200:
                    record.sent.append(orjson.loads(body)["id"])
                return response
            finally:
                record.open -= 1

        app = web.Application(client_max_size=2**26)
        app.add_routes([web.post("/v1/chat/completions", forward)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        record.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set()
        await asyncio.to_thread(over.wait)
        await runner.cleanup()
