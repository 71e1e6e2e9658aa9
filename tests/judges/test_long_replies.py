"""Replies that are too long, compressed, or costly to read; over HTTP, by the real client."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import orjson
import pytest
from aiohttp import web

from robin_cli.judges.bodies import MOST_REPLY_BYTES
from robin_cli.model.exchange import Failure, Reply
from tests.hostile_server import bomb, filled
from tests.judges.wire import KEY, QUESTION, Answer, ask, completion, error, serving

FINE = orjson.dumps(completion())
RAW = zlib.compressobj(wbits=-15)
LIMIT = MOST_REPLY_BYTES


def sent(body: bytes, encoding: str = "identity", status: int = 200) -> web.Response:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    return web.Response(body=body, headers=headers, status=status)


@pytest.mark.parametrize(
    ("body", "encoding", "said"),
    [
        (gzip.compress(FINE), "gzip", ""),
        (gzip.compress(FINE), "X-GZIP", ""),
        (zlib.compress(FINE), "deflate", ""),
        (RAW.compress(FINE) + RAW.flush(), "deflate", ""),
        (FINE, "identity", ""),
        (FINE, "br", 'compressed as "br" although no compression was asked for; turn it off there'),
        (FINE, "gzip", 'not compressed as "gzip"'),
        (gzip.compress(gzip.compress(FINE)), "gzip, gzip", 'compressed as "gzip, gzip"'),
    ],
)
def test_asks_for_no_compression_and_reads_the_usual_ones(
    body: bytes, encoding: str, said: str
) -> None:
    with serving(lambda *_: sent(body, encoding)) as wire:
        (outcome,) = ask(wire.url, max_retries=1).outcomes
    assert wire.headers[0]["Accept-Encoding"] == "identity"
    if isinstance(outcome, Reply):
        assert (outcome.answers[0].text, said) == ("Feedback: fine.\nRating: 3", "")
    else:
        assert (outcome.reason, said in outcome.detail, bool(said)) == ("malformed", True, True)


LONG: dict[str, web.Response | dict[str, Any]] = {
    "plain": completion(more="x" * LIMIT),
    "gzip": sent(bomb(5, 31), "gzip"),
    "deflate": sent(bomb(5, -15), "deflate"),
    "text": completion("Rating: 3\n" * 14_000),
    "lists": sent(
        orjson.dumps(completion())[:-1] + b',"more":' + filled(b"[],", LIMIT - 1000) + b"}"
    ),
    "names": sent(orjson.dumps(completion(more={str(k): 0 for k in range(250_000)}))),
}


@pytest.mark.parametrize("kind", LONG)
def test_asks_once_more_for_a_reply_that_is_too_long_and_gives_its_pair_up_then(kind: str) -> None:
    def again(number: int, _: object) -> Answer:
        if number == 3:
            return completion()
        long = LONG[kind]
        return (
            long
            if isinstance(long, dict)
            else sent(bytes(long.body), long.headers["Content-Encoding"])  # type: ignore[arg-type]
        )

    with serving(again) as wire:
        given_up, answered = ask(wire.url, QUESTION, QUESTION).outcomes
    assert isinstance(given_up, Failure)
    assert given_up.reason == "reply_too_long"
    assert given_up.detail.endswith(
        "; ask for less with --max-tokens, or for fewer ratings a request"
    )
    assert isinstance(answered, Reply)  # of the second, only the first reply was too long
    assert len(wire.bodies) == 4


def test_shows_the_beginning_of_a_long_error_and_no_part_of_the_key() -> None:
    message = f"no place for {KEY} here. " + f"{KEY} " * 200_000
    with serving(lambda *_: error(400, message)) as wire:
        (outcome,) = ask(wire.url).outcomes
    assert isinstance(outcome, Failure)
    assert "no place for [key] here." in outcome.detail
    assert KEY[:6] not in outcome.detail
    assert len(outcome.detail) <= 500


def test_stores_no_name_that_is_a_text() -> None:
    with serving(lambda *_: completion(model="m" * 100_000, id="i" * 100_000)) as wire:
        (outcome,) = ask(wire.url).outcomes
    assert isinstance(outcome, Reply)
    assert (outcome.model, outcome.request_id) == ("judge", None)
