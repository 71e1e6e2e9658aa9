"""The body of an answer, read piece by piece within a limit: what an endpoint sends costs no more memory than that."""

from __future__ import annotations

import zlib
from asyncio import Semaphore
from collections.abc import AsyncIterable

SMALL = 256 * 1024
"""Bytes of a body that any number of calls may hold at a time; more than that, only some of them."""

MOST_HELD = 64 * 1024 * 1024
"""Bytes that the larger bodies of one endpoint's answers hold together while they come, about."""

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS


Body = bytes | bytearray


class TooLong(Exception):
    """A reply is longer than the limit; says which."""


class Unreadable(Exception):
    """A body is compressed in a way that is not read here, or is no such thing."""


class Turns:
    """Turns at holding more than SMALL of a body of at most ``limit`` bytes, first come, first served."""

    def __init__(self, limit: int) -> None:
        self._free = Semaphore(max(1, MOST_HELD // limit))
        self._limit = limit

    async def read(self, pieces: AsyncIterable[bytes]) -> tuple[bytearray, bool]:
        """Read a body of at most the limit; past SMALL only in a turn. Returns it, and whether a turn is held for it.

        While it waits for its turn nothing is read, so the endpoint is held back by its own connection.

        Raises:
            TooLong: there is more; the rest was not read.
        """
        body = bytearray()
        held = False
        try:
            async for piece in pieces:
                if len(body) + len(piece) > self._limit:
                    raise TooLong(f"a reply of more than {self._limit:,} bytes")
                if not held and len(body) + len(piece) > SMALL:
                    await self._free.acquire()
                    held = True
                body += piece
        except BaseException:
            if held:
                self.end()
            raise
        return body, held

    def end(self) -> None:
        """Give a turn back."""
        self._free.release()


async def beginning(pieces: AsyncIterable[bytes], limit: int) -> bytearray:
    """Read the first ``limit`` bytes of a body, or all of it; the rest is not read."""
    body = bytearray()
    async for piece in pieces:
        body += piece[: limit - len(body)]
        if len(body) >= limit:
            break
    return body


def decoded(body: Body, encoding: str, limit: int) -> Body:
    """Undo the content encoding of a body, as far as ``limit`` bytes; gzip and deflate are known.

    Raises:
        TooLong: it is longer than that.
        Unreadable: another encoding, several, or not what it is said to be.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise Unreadable(f'compressed as "{name[:40]}" although no compression was asked for; turn it off there')
    decoder = zlib.decompressobj(_ZLIB_OR_GZIP if name != "deflate" or _has_zlib_header(body) else -zlib.MAX_WBITS)
    try:
        text = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        raise Unreadable(f'said to be "{name}" and is not ({error})') from None
    if len(text) > limit:
        raise TooLong(f"a compressed reply of more than {limit:,} bytes")
    return text


def _has_zlib_header(body: Body) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == zlib.DEFLATED and (body[0] << 8 | body[1]) % 31 == 0
