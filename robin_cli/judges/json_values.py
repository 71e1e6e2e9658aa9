"""Values of JSON that an endpoint sent: read without trusting them."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from contextlib import suppress

import orjson

from robin_cli.judges.bodies import MOST_REPLY_BYTES, Body, TooLong

_MIB = 1024 * 1024
_MOST_LISTS_A_MIB = 50_000
_MOST_NAMES_A_MIB = 60_000
"""The most lists and objects, and names, per MiB: they make JSON slow to read. With 20 log probabilities per token there are
33,000 and 50,000."""

_MOST_NUMBER = 1e15
_SHORT = 200
"""The most characters of a name: of a model, a request, or a finish reason."""

_EXCERPT = 2000

_READERS: tuple[Callable[[Body], object], ...] = (
    orjson.loads,
    json.loads,  # for lone surrogates and the like, which orjson refuses
    # for bytes that are not UTF-8: the answer around them is paid for
    lambda body: json.loads(body.decode("utf-8", "replace"), strict=False),
    # for an answer with something behind it, such as the end of a stream
    lambda body: json.JSONDecoder().raw_decode(body.decode("utf-8", "replace").lstrip())[0],
)


def read_json(body: Body, limit: int = MOST_REPLY_BYTES) -> object:
    """Return the value of a JSON text; None if it is not JSON. TooLong if reading would take more than 20 ms per MiB."""
    lists, names = body.count(b"[") + body.count(b"{"), body.count(b":")
    if lists > limit / _MIB * _MOST_LISTS_A_MIB or names > limit / _MIB * _MOST_NAMES_A_MIB:
        raise TooLong(f"a reply of too many parts, in {len(body):,} bytes")
    return parse(body)


def parse(body: Body) -> object:
    """Return the value of a short JSON text; None if it is not JSON."""
    while body[:1] == b":":  # comments, by which OpenRouter and others keep a connection open
        body = body.partition(b"\n")[2].lstrip()
    collects = gc.isenabled()
    gc.disable()  # else it would walk all new objects again and again
    try:
        for read in _READERS:
            with suppress(ValueError, RecursionError):
                return read(body)
        return None
    finally:
        if collects:
            gc.enable()


def number(value: object) -> float | None:
    """Return an endpoint's number, which may be a text; None if it is not one, or has more than 15 digits."""
    is_long = isinstance(value, str) and len(value) > _SHORT
    if isinstance(value, bool) or not isinstance(value, int | float | str) or is_long:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= _MOST_NUMBER else None


def amount_of(value: object, *, most: float = _MOST_NUMBER) -> float | None:
    """Return a value as a number from 0 to ``most``; None if it is not one."""
    amount = number(value)
    return amount if amount is not None and 0 <= amount <= most else None


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
