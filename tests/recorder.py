"""A reverse proxy that writes down the id of every answer it has sent on: the server's side of the story."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from tests.judges.wire import serving


@dataclass
class Record:
    """What went through: ids of the answers sent in full, in order, once for each rating, and the most calls that were open."""

    url: str = ""
    sent: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0


@contextmanager
def recorded(upstream: str) -> Iterator[Record]:
    """A recording proxy in front of ``upstream`` (a base URL that ends in /v1)."""
    record = Record()

    class Sent(web.Response):
        """An answer that is put down once all of it has gone out, and not where its caller was killed before."""

        async def write_eof(self, data: bytes = b"") -> None:
            await super().write_eof(data)
            if self.status == 200:
                assert isinstance(self.body, bytes)
                reply = orjson.loads(self.body)
                record.sent += [reply["id"]] * len(reply["choices"])

    async def forward(_: int, body: dict[str, Any]) -> web.StreamResponse:
        record.open += 1
        record.most_open = max(record.most_open, record.open)
        try:
            async with (
                aiohttp.ClientSession() as client,
                client.post(f"{upstream}/chat/completions", json=body) as answer,
            ):
                return Sent(
                    body=await answer.read(), status=answer.status, content_type="application/json"
                )
        finally:
            record.open -= 1

    with serving(forward) as wire:
        record.url = wire.url
        yield record
