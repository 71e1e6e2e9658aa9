"""Bodies of answers, read piece by piece within a limit, so that no endpoint can fill the memory."""

from __future__ import annotations

import zlib
from asyncio import Semaphore
from collections.abc import AsyncIterable

MOST_REPLY_BYTES = 4 * 1024 * 1024
"""The longest reply that is read, decompressed. A longer one counts as an answer that cannot be read."""

SMALL = 256 * 1024
"""Any number of bodies of up to so many bytes may be in memory; only some larger ones may."""

MOST_HELD = 64 * 1024 * 1024
"""About the most bytes of the larger bodies of one endpoint together, while they come."""

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS

Body = bytes | bytearray


class TooLong(Exception):
    """A reply is longer than a limit, which the message names."""


class Unreadable(Exception):
    """A body is compressed in an unknown way, or not as its header says."""


class Turns:
    """Turns for bodies of more than SMALL and at most MOST_REPLY_BYTES bytes, first come, first served."""

    def __init__(self) -> None:
        self._free = Semaphore(MOST_HELD // MOST_REPLY_BYTES)

    async def read(self, pieces: AsyncIterable[bytes]) -> tuple[bytearray, bool]:
        """Read a body up to the limit, past SMALL only in a turn; return it, and whether a turn is held for it.

        While it waits for its turn nothing is read, so the connection holds the endpoint back.

        Raises:
            TooLong: the body is longer; the rest is not read.
        """
        body = bytearray()
        held = False
        try:
            async for piece in pieces:
                if len(body) + len(piece) > MOST_REPLY_BYTES:
                    raise TooLong(f"a reply of more than {MOST_REPLY_BYTES:,} bytes")
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
        """Return a turn."""
        self._free.release()


async def beginning(pieces: AsyncIterable[bytes], limit: int) -> bytearray:
    """Read at most the first ``limit`` bytes of a body."""
    body = bytearray()
    async for piece in pieces:
        body += piece[: limit - len(body)]
        if len(body) >= limit:
            break
    return body


def decoded(body: Body, encoding: str) -> Body:
    """Decompress a body of at most MOST_REPLY_BYTES; gzip and deflate are known.

    Raises:
        TooLong: it is longer.
        Unreadable: it has another encoding, several, or not the one that its header names.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return body
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise Unreadable(
            f'compressed as "{name[:40]}" although no compression was asked for; turn it off there'
        )
    decoder = zlib.decompressobj(
        _ZLIB_OR_GZIP if name != "deflate" or _has_zlib_header(body) else -zlib.MAX_WBITS
    )
    try:
        text = decoder.decompress(body, MOST_REPLY_BYTES + 1)
    except zlib.error as error:
        raise Unreadable(f'not compressed as "{name}", as its header says ({error})') from None
    if len(text) > MOST_REPLY_BYTES:
        raise TooLong(f"a compressed reply of more than {MOST_REPLY_BYTES:,} bytes")
    return text


def _has_zlib_header(body: Body) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == zlib.DEFLATED and (body[0] << 8 | body[1]) % 31 == 0
