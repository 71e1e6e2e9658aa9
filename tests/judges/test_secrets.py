"""Where the key goes: to the endpoint, and nowhere else, whatever the endpoint does with it."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError, InputError
from robin_cli.model.exchange import Failure
from tests.conftest import free_port
from tests.judges.wire import Answer, Talk, ask, error, serving

KEYS = ("sk-planted-7d1e5c90ab42", "gsk_planted7d1e5c90ab42", "planted/7d1e5c90+ab42==")


def html(status: int) -> Callable[[str], web.Response]:
    return lambda key: web.Response(status=status, text=f"<p>{'x' * 280} {key}</p>", content_type="text/html")


ECHOES: dict[str, Callable[[str], Answer]] = {
    "401": lambda key: error(401, f"Incorrect API key provided: {key}."),
    "402": lambda key: error(402, f"no credit on {key}"),
    "403": lambda key: error(403, f"{key} may not"),
    "404": lambda key: error(404, f"no model for {key}"),
    "400": lambda key: error(400, f"odd: Bearer {key}"),
    "400 parameter": lambda key: error(400, f"'temperature' is not supported for {key}"),
    "429 quota": lambda key: error(429, f"{key} is out", code="insufficient_quota"),
    "500": lambda key: error(500, f"cannot look up {key}"),
    "500, cut in the middle of it": html(500),
    "500, long before it": lambda key: error(500, "x" * 490 + key),
    "code is the key": lambda key: error(500, "odd", code=key, type=key),
    "redirect": lambda key: web.Response(status=302, headers={"Location": f"/login?token={key}"}),
    "error in 200": lambda key: {"error": {"message": f"no {key}"}},
    "no choices in 200": lambda key: {"you_sent": key},
    "HTML in 200": html(200),
}


def shown(url: str, key: str, caplog: pytest.LogCaptureFixture) -> str:
    """All that anybody gets to see of one question."""
    talk, raised = Talk(), ""
    try:
        talk = ask(url, api_key=key, max_retries=1)
    except EndpointError as refused:
        raised = f"{refused!r} {refused} " + "".join(traceback.format_exception(refused))
    details = [outcome.detail for outcome in talk.outcomes if isinstance(outcome, Failure)]
    logged = [f"{record.getMessage()} {record.args!r} {record.exc_text}" for record in caplog.records]
    return "\n".join([raised, repr(talk), *details, caplog.text, *logged])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ECHOES)
def test_never_shows_the_key_that_an_endpoint_echoes(name: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(lambda *_: ECHOES[name](key)) as wire:
        seen = shown(wire.url, key, caplog)
    assert wire.headers[0]["Authorization"] == f"Bearer {key}"
    assert key not in seen
    assert key[:10] not in seen
    assert "[key]" in seen or wire.url in seen  # something was shown


@pytest.mark.parametrize("key", KEYS)
def test_never_shows_the_key_when_nobody_listens(key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert key[:10] not in shown(f"http://127.0.0.1:{free_port()}/v1", key, caplog)


def test_keeps_the_key_out_of_what_an_endpoint_looks_like() -> None:
    assert KEYS[0] not in repr(Endpoint(base_url="http://x/v1", model="m", api_key=KEYS[0]))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_follows_no_redirect_to_another_host(status: int) -> None:
    with serving(lambda *_: error(500, "never asked")) as other:
        moved = f"{other.url}/chat/completions"
        with (
            serving(lambda *_: web.Response(status=status, headers={"Location": moved})) as wire,
            pytest.raises(EndpointError, match="give that address") as refused,
        ):
            ask(wire.url)
    assert moved in str(refused.value)
    assert (len(wire.bodies), other.bodies) == (1, [])


@pytest.mark.parametrize("name", ["401", "500, long before it", "redirect", "error in 200", "HTML in 200"])
def test_writes_requests_and_answers_for_a_bug_report_without_the_key(name: str, tmp_path: Path) -> None:
    log = tmp_path / "http.jsonl"
    cookies = {"Set-Cookie": "session=abc123", "X-Api-Key": KEYS[0]}

    def echo(number: int, body: dict[str, Any]) -> Answer:
        answer = ECHOES[name](KEYS[0])
        if isinstance(answer, web.Response):
            answer.headers.update(cookies)
        return answer

    with serving(echo) as wire, suppress(EndpointError):
        ask(wire.url, api_key=KEYS[0], max_retries=0, debug_http=str(log))
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 1
    assert lines[0]["url"] == f"{wire.url}/chat/completions"
    assert "Rate this." in lines[0]["request_body"]
    assert lines[0]["status"] in {200, 302, 401, 500}
    text = log.read_text(encoding="utf-8")
    assert KEYS[0] not in text
    assert "abc123" not in text
    assert log.stat().st_mode & 0o077 == 0


def test_writes_that_nobody_answered(tmp_path: Path) -> None:
    log = tmp_path / "http.jsonl"
    ask(f"http://127.0.0.1:{free_port()}/v1", api_key=KEYS[0], max_retries=0, debug_http=str(log))
    assert "Connect" in json.loads(log.read_text(encoding="utf-8"))["error"]


def test_says_when_the_file_for_a_bug_report_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--debug-http"):
        ask("http://127.0.0.1:9/v1", debug_http=str(tmp_path / "no" / "http.jsonl"))
