"""What an endpoint sends, read within limits and without trust: the bytes of a body, its JSON, and the values in that."""

from __future__ import annotations

import json
import zlib
from asyncio import Semaphore
from collections.abc import AsyncIterable
from contextlib import suppress

import orjson

MOST_REPLY_BYTES = 4 * 1024 * 1024
"""The longest reply that is read, decompressed. A longer one counts as an answer that cannot be read."""

SMALL = 256 * 1024
"""Any number of bodies of up to so many bytes may be in memory; only some larger ones may."""

MOST_LARGE = 16
"""The most larger bodies of one endpoint at a time: 64 MiB."""

_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS

_MIB = 1024 * 1024
_MOST_LISTS_A_MIB = 50_000
_MOST_NAMES_A_MIB = 60_000
"""The most lists and objects, and names, per MiB: they make JSON slow to read. With 20 log probabilities per token there are
33,000 and 50,000."""

_LENIENT = json.JSONDecoder(strict=False)
_MOST_NUMBER, _SHORT, _EXCERPT = 1e15, 200, 2000
"""Short are names: of a model, a request, or a finish reason."""

Body = bytes | bytearray


class Unreadable(Exception):
    """A body cannot be read, for example because it is not compressed as its header says."""


class TooLong(Unreadable):
    """A reply is longer than a limit, which the message names."""


async def read_body(pieces: AsyncIterable[bytes], turns: Semaphore) -> bytearray:
    """Read a body of at most MOST_REPLY_BYTES, past SMALL only in one of the ``turns``, first come, first served.

    While it waits for its turn nothing is read, so the connection holds the endpoint back.

    Raises:
        TooLong: the body is longer; the rest is not read.
    """
    body, has_turn = bytearray(), False
    try:
        async for piece in pieces:
            if len(body) + len(piece) > MOST_REPLY_BYTES:
                raise TooLong(f"a reply of more than {MOST_REPLY_BYTES:,} bytes")
            if not has_turn and len(body) + len(piece) > SMALL:
                await turns.acquire()
                has_turn = True
            body += piece
    finally:
        if has_turn:
            turns.release()
    return body


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
    is_bare = name == "deflate" and body[:1] != b"\x78"  # some servers leave out zlib's header
    decoder = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _ZLIB_OR_GZIP)
    try:
        text = decoder.decompress(body, MOST_REPLY_BYTES + 1)
    except zlib.error as error:
        raise Unreadable(f'not compressed as "{name}", as its header says ({error})') from None
    if len(text) > MOST_REPLY_BYTES:
        raise TooLong(f"a compressed reply of more than {MOST_REPLY_BYTES:,} bytes")
    return text


def read_json(body: Body, limit: int = MOST_REPLY_BYTES) -> object:
    """Return the value of a JSON text; None if it is not JSON. TooLong if reading would take more than 20 ms per MiB."""
    lists, names = body.count(b"[") + body.count(b"{"), body.count(b":")
    if lists > limit / _MIB * _MOST_LISTS_A_MIB or names > limit / _MIB * _MOST_NAMES_A_MIB:
        raise TooLong(f"a reply of too many parts, in {len(body):,} bytes")
    while body[:1] == b":":  # comments, by which OpenRouter and others keep a connection open
        body = body.partition(b"\n")[2].lstrip()
    with suppress(ValueError):
        return orjson.loads(body)
    # An answer is paid for, also with lone surrogates, bytes that are not UTF-8, or a stream's end behind it.
    with suppress(ValueError, RecursionError):
        return _LENIENT.raw_decode(body.decode("utf-8-sig", "replace").lstrip())[0]
    return None


def number(value: object) -> float | None:
    """Return an endpoint's number, which may be a text; None if it is not one, or has more than 15 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= _MOST_NUMBER else None


def amount_of(value: object) -> float | None:
    """Return a value as a number of at least 0; None if it is not one."""
    amount = number(value)
    return amount if amount is not None and amount >= 0 else None


def tokens_of(value: object) -> int | None:
    """Return a value as a whole number of at least 0; None if it is not one."""
    amount = amount_of(value)
    return None if amount is None else int(amount)


def clean_text(value: object) -> str:
    """Return a text that can be stored, with lone surrogates replaced; '' for None, objects and lists."""
    if not isinstance(value, str):
        return "" if value is None or isinstance(value, dict | list) else str(value)
    return value.encode("utf-8", "replace").decode("utf-8")


def short_text(value: object) -> str:
    """Return a short text; '' for a long one."""
    return "" if isinstance(value, str) and len(value) > _SHORT else clean_text(value)


def one_line(text: str) -> str:
    """Return a text on one line, without characters that would control a terminal."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())


def excerpt(body: Body) -> str:
    """Return the beginning of a body on one line; longer than it is shown: keys are taken out later, and must be whole then."""
    return one_line(body[:_EXCERPT].decode("utf-8", "replace")) or "nothing"
