"""Replies that are too long, compressed, or costly to read; over HTTP, by the real client."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import orjson
import pytest
from aiohttp import web

from robin_cli.judges.bodies import MOST_REPLY_BYTES
from robin_cli.judges.metering import Meter, Price
from robin_cli.model.exchange import Failure, Question, Reply
from tests.hostile_server import bomb, filled
from tests.judges.wire import KEY, QUESTION, Answer, ask, completion, error, serving

FINE = orjson.dumps(completion())
RAW = zlib.compressobj(wbits=-15)
LIMIT = MOST_REPLY_BYTES
THREE = Question(QUESTION.messages, samples=3)


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
    assert isinstance(outcome, Reply)
    assert outcome.unread == bool(said)
    assert (said or "Feedback: fine.\nRating: 3") in outcome.answers[0].text


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
def test_counts_a_reply_that_is_too_long_as_paid_and_does_not_ask_it_again(kind: str) -> None:
    def answer(*_: object) -> Answer:
        long = LONG[kind]
        return (
            long
            if isinstance(long, dict)
            else sent(bytes(long.body), long.headers["Content-Encoding"])  # type: ignore[arg-type]
        )

    with serving(answer) as wire:
        (paid,) = ask(wire.url).outcomes
    assert isinstance(paid, Reply)
    assert (paid.unread, paid.usage.completion_tokens) == (True, 1024)
    assert paid.answers[0].text.endswith(
        "; ask for less with --max-tokens, or for fewer ratings a request"
    )
    assert len(wire.bodies) == 1


UNREADABLE: dict[str, bytes] = {
    "empty": b"",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "digits": b'{"choices": ' + b"9" * 5000 + b"}",
    "stream": b'data: {"choices": [{"delta": {"content": "Rating: 3"}}]}\n\ndata: [DONE]\n\n',
    "half": FINE[:-9],
    "page": b"<html>Welcome</html>",
    "no choices": b'{"id": "x", "choices": []}',
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_counts_a_whole_reply_that_cannot_be_read_at_the_most_that_it_may_have_cost(
    kind: str,
) -> None:
    meter = Meter(Price((1.0, 10.0)))
    with serving(lambda *_: sent(UNREADABLE[kind])) as wire:
        (paid,) = ask(wire.url, THREE, meter=meter).outcomes
    assert isinstance(paid, Reply)
    assert paid.unread
    assert len(paid.answers) == 3
    assert (len(wire.bodies), paid.usage.cost_usd) == (1, meter.most(THREE.messages, 1024, 3))


def test_reads_long_headers_and_skips_comments_before_a_json_body() -> None:
    def answer(*_: object) -> Answer:
        body = b": keep-alive\n\n: OPENROUTER PROCESSING\n\n" + FINE + b"\n\n[DONE]"
        return web.Response(body=body, headers={"X-Policy": "a" * 60_000})

    with serving(answer) as wire:
        (read,) = ask(wire.url).outcomes
    assert isinstance(read, Reply)
    assert not read.unread


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
