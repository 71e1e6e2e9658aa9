"""An endpoint that sends what no client expects: a program of its own, so that memory is counted for robin alone.

    python hostile_server.py

It prints its port and answers ``POST /KIND/v1/chat/completions`` by :data:`KINDS`, ``/mixed/…`` by one of MIXED after another.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import itertools
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

MIB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHOICE = (
    b'{"model":"m","choices":[{"message":{"content":"%s"},"finish_reason":"stop"}],"usage":{}%s}'
)
FINE = CHOICE % (b"Feedback: fine.\\nRating: 3", b"")


def whole(body: bytes, *headers: bytes) -> list[bytes]:
    """An answer with a length."""
    return [
        HEAD
        + b"".join(each + b"\r\n" for each in headers)
        + b"Content-Length: %d\r\n\r\n" % len(body),
        body,
    ]


def bomb(mib: int, wbits: int) -> bytes:
    """So many MiB of blanks, compressed; they stand inside an answer that would be well."""
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    parts = [packer.compress(FINE[:-1])]
    parts += [packer.compress(b" " * MIB) for _ in range(mib)]
    return b"".join([*parts, packer.compress(b"}"), packer.flush()])


def inside(body: bytes) -> bytes:
    """An answer that would be well, with something that costs to read."""
    return CHOICE % (b"Rating: 3", b',"more":' + body)


def filled(piece: bytes, size: int = 4 * MIB - 4096) -> bytes:
    """A JSON list of ``piece``, of nearly the size that is read."""
    return b"[" + (piece * (size // len(piece)))[:-1] + b"]"


class Endless:
    """For ever the same after a head."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self.head, self.piece = head, piece

    def __iter__(self) -> Iterator[bytes]:
        yield self.head
        yield from itertools.repeat(self.piece)


def chunked(piece: bytes) -> bytes:
    """One chunk of a body without a length."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


TOKEN = {"token": "3", "logprob": -0.12345678, "bytes": [51]}
LOGPROBS = json.dumps([{**TOKEN, "top_logprobs": [TOKEN] * 20}] * 1200).encode()
ERROR = b"HTTP/1.1 500 Broken\r\nContent-Type: application/json\r\n"
TOGETHER = "gzip-bomb deflate-bomb endless 50-mb lists most-text open names 50-mb-error huge-status endless-headers"
TOGETHER += " long-text cookies"
MIXED = [kind for hostile in TOGETHER.split() for kind in (hostile, "fine")]
MIXING = itertools.cycle(MIXED)
KINDS: dict[str, Callable[[], Iterable[bytes]]] = {
    "fine": lambda: whole(FINE),
    "gzipped": lambda: whole(gzip.compress(FINE), b"Content-Encoding: gzip"),
    "logprobs": lambda: whole(inside(LOGPROBS)),
    "gzip-bomb": lambda: whole(bomb(200, 31), b"Content-Encoding: gzip"),
    "deflate-bomb": lambda: whole(bomb(200, -15), b"Content-Encoding: deflate"),
    "zstd": lambda: whole(b"\x28\xb5\x2f\xfd" + FINE, b"Content-Encoding: zstd"),
    "endless": lambda: Endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunked(b" " * 65536)),
    "no-length": lambda: Endless(HEAD + b"\r\n", b" " * 65536),
    "50-mb": lambda: whole(inside(b'"' + b"x" * 50_000_000 + b'"')),
    "lists": lambda: whole(inside(filled(b"[],"))),
    "deep": lambda: whole(inside(filled(b"[" * 1000 + b"]" * 1000 + b","))),
    "open": lambda: whole(b"[" * (4 * MIB - 9)),
    "names": lambda: whole(inside(b"{" + b",".join(b'"%x":0' % n for n in range(260_000)) + b"}")),
    "numbers": lambda: whole(inside(filled(b"0,"))),
    "digits": lambda: whole(inside(filled(b"0." + b"123456789" * 85 + b","))),
    "choices": lambda: whole(b'{"choices":' + filled(b"{},") + b"}"),
    "long-text": lambda: whole(CHOICE % (b"Rating: 3\\n" * 300_000, b"")),
    "most-text": lambda: whole(CHOICE % (b"Rating: 3\\n" * 13_000, b"")),
    "blank-text": lambda: whole(CHOICE % (b"\\n" * 130_000, b"")),
    "escapes": lambda: whole(inside(b'"' + b"\\u00e9" * 690_000 + b'"')),
    "endless-headers": lambda: Endless(HEAD, b"X-More: and more\r\n"),
    "huge-header": lambda: Endless(HEAD + b"X-Huge: ", b"x" * 65536),
    "huge-status": lambda: Endless(b"HTTP/1.1 200 ", b"x" * 65536),
    "cookies": lambda: whole(FINE, *(b"Set-Cookie: c%d=%s" % (n, b"x" * 4000) for n in range(100))),
    "50-mb-error": lambda: (
        [
            ERROR + b"Content-Length: 50000040\r\n\r\n",
            b'{"error":{"message":"sk-',
            b"sk-" * 16_666_666,
            b'"}}',
        ]
    ),
    "error-page": lambda: Endless(b"HTTP/1.1 502 Bad\r\n\r\n", b"<p>broken</p>" * 5000),
    "redirect": lambda: (
        [b"HTTP/1.1 307 Go\r\nLocation: /redirect/v1\r\nContent-Length: 0\r\n\r\n"]
    ),
    "short": lambda: ([HEAD + b"Content-Length: 5000000\r\n\r\n" + FINE]),
}


async def paced(kind: str) -> AsyncIterator[bytes]:
    """The pieces of an answer of ``kind``; ``drip`` takes its time."""
    if kind == "drip":
        yield HEAD + b"Content-Length: 1000\r\n\r\n"
        while True:
            await asyncio.sleep(0.5)
            yield b" "
    for piece in made(kind):
        for at in range(0, len(piece), 65536):
            yield piece[at : at + 65536]


@functools.cache
def made(kind: str) -> Iterable[bytes]:
    """An answer, made once."""
    return KINDS[kind]()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what comes by one connection, until the other side has enough of it."""
    try:
        async for kind in asked(reader):
            async for piece in paced(kind):
                writer.write(piece)
                await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def asked(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """What is asked for by one connection; ``mixed`` is the next of MIXED."""
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        kind = head.split(b"/", 2)[1].decode()
        yield next(MIXING) if kind == "mixed" else kind


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
