"""Where the key goes: to the endpoint, and nowhere else, whatever the endpoint does with it."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
from aiohttp import web

from robin_batch.files import WithoutKey
from robin_cli.judges.redaction import Redactor
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure
from tests.conftest import free_port, robin, write_pairs
from tests.judges.wire import Answer, Talk, ask, completion, error, serving

KEY = "sk-planted/7d1e5c+90ab42=="
FORMS = (KEY, KEY.replace("/", "\\/"), quote(KEY), quote(KEY, safe=""))
"""In which an endpoint may send it back: as it is, and as JSON and addresses have it."""

KEYS = ("sk-planted-7d1e5c90ab42", "gsk_planted7d1e5c90ab42", "planted/7d1e5c90+ab42==")


def html(status: int) -> Callable[[str], web.Response]:
    return lambda key: web.Response(
        status=status, text=f"<p>{'x' * 280} {key}</p>", content_type="text/html"
    )


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
    logged = [
        f"{record.getMessage()} {record.args!r} {record.exc_text}" for record in caplog.records
    ]
    return "\n".join([raised, repr(talk), *details, caplog.text, *logged])


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *((name, KEYS[at % 3]) for at, name in enumerate(ECHOES)),
        *(("401", key) for key in KEYS[1:]),
    ],
)
def test_never_shows_the_key_that_an_endpoint_echoes(
    name: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(lambda *_: ECHOES[name](key)) as wire:
        seen = shown(wire.url, key, caplog)
    assert wire.headers[0]["Authorization"] == f"Bearer {key}"
    assert key not in seen
    assert key[:10] not in seen
    assert "[key]" in seen or wire.url in seen  # something was shown


@pytest.mark.parametrize("key", KEYS)
def test_never_shows_the_key_when_nobody_listens(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
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


@pytest.mark.parametrize("form", FORMS)
def test_takes_the_key_out_and_nothing_beside_it(form: str) -> None:
    redactor, text = Redactor(KEY), f'It is 100% {form} ("so\\it"), or\n {form}'
    clean = text.replace(form, "[key]")
    assert redactor.text(text) == clean
    assert redactor.body(text.encode()) == clean.encode()


def test_leaves_all_other_text_alone() -> None:
    redactor = Redactor(KEY)
    fine = "A sk-token, 100% fine: planted 7d1e\n %41 \\u0041 " + KEY[:-3]
    assert redactor.text(fine) is fine
    assert (
        Redactor("none").error("none given (Bearer abc123); or") == "none given (Bearer [key]); or"
    )
    assert Redactor("sk-1").text("sk-1") == "sk-1"


def test_puts_no_form_of_the_key_into_a_run_its_logs_or_what_is_made_of_it(tmp_path: Path) -> None:
    def answer(number: int, _: dict[str, Any]) -> Answer:
        return fields[number % len(fields)](FORMS[number % len(FORMS)])

    def choice(form: str, **more: Any) -> Answer:
        message = {"content": "Feedback: fine.\nRating: 3", **more.pop("message", {})}
        return completion(choices=[{"message": message, "finish_reason": "stop", **more}])

    def headers(form: str) -> Answer:
        sent = {"X-Request-Id": " ".join(form.split()).encode("ascii", "replace").decode()}
        return web.Response(
            body=json.dumps(completion()), headers=sent, content_type="application/json"
        )

    fields: list[Callable[[str], Answer]] = [
        lambda form: completion(f"Feedback: it is {form}.\nRating: 3"),
        lambda form: choice(
            form, message={"content": [{"text": t} for t in ("Rating: 3 ", form[:8], form[8:])]}
        ),
        lambda form: choice(form, message={"content": "", "refusal": form}),
        lambda form: choice(
            form, message={"reasoning_content": form, "tool_calls": [{form: form}]}
        ),
        lambda form: choice(form, finish_reason=form),
        lambda form: choice(
            form, logprobs={"content": [{"token": form, "logprob": 0.0, "top_logprobs": []}]}
        ),
        lambda form: completion(service_tier=form, system_fingerprint=form),
        lambda form: completion(id=form),
        lambda form: completion(model=form),
        lambda form: completion(usage={"prompt_tokens": form, "completion_tokens": 3, form: form}),
        headers,
        lambda form: error(400, f"no such thing as {form}", code=form, type=form, param=form),
        lambda form: error(400, " " * 1990 + form),
        lambda form: {"choices": [], form: form},
    ]
    calls = math.lcm(len(fields), len(FORMS))  # each form in every second field
    write_pairs(tmp_path / "pairs.jsonl", calls)
    # which say more than any other
    logging = {"OPENAI_API_KEY": KEY, "OPENAI_LOG": "debug", "PYTHONASYNCIODEBUG": "1"}
    with serving(answer) as wire:
        where = ("--base-url", wire.url, "--model", "m")
        command = ("judge", "pairs.jsonl", "-a", "helpfulness", "-b", str(calls), *where)
        more = (*("--run", "r", "-o", "s.csv", "--max-retries", "0", "--concurrency", "4"),)
        said = [robin(*command, *more, cwd=tmp_path, **logging)]
        assert len(wire.bodies) >= calls - len(FORMS), said[0].stderr
        said.append(
            robin(
                "resume", "r", "-b", str(calls + 9), "-o", "s.csv", cwd=tmp_path, OPENAI_API_KEY=KEY
            )
        )
        said.append(robin("check", *where, cwd=tmp_path, OPENAI_API_KEY=KEY))
    commands = [
        ("report", "r", "-o", "report.html"),
        ("status", "r"),
        ("status", "r", "--json"),
        ("export", "r"),
    ]
    commands += [
        ("export", "r", "--what", "judgments", "-o", f"calls.{end}")
        for end in ("csv", "jsonl", "parquet", "xlsx")
    ]
    said += [robin(*each, cwd=tmp_path, OPENAI_API_KEY=KEY) for each in commands]
    kept = [
        file.read_bytes()
        for file in tmp_path.rglob("*")
        if file.is_file() and file.name != "pairs.jsonl"
    ]
    kept += [(each.stdout + each.stderr).encode() for each in said]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    packed = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    kept += [gzip.decompress(base64.b64decode(text)) for text in [packed["rows"], *packed["texts"]]]
    kept.append(pd.read_parquet(tmp_path / "r" / "judgments").to_csv().encode())
    for form in FORMS:
        shapes = {
            form,
            " ".join(form.split()),
            json.dumps(form)[1:-1],
            json.dumps(form, ensure_ascii=False)[1:-1],
        }
        assert not [form for text in kept for shape in shapes if shape.encode() in text]
    assert all(each.returncode == 0 for each in said), said
    assert b"[key]" in kept[-1]


def test_writes_what_a_batch_service_sends_without_the_key(tmp_path: Path) -> None:
    lines = [
        json.dumps({"custom_id": f"request-{n}", "error": {"message": form}})
        for n, form in enumerate(FORMS)
    ]
    lines += [
        json.dumps({"long": "x" * (2**18 - 40) + KEY + "x" * 9000}),
        json.dumps({"last": KEY}),
    ]
    sent = "\n".join(lines).encode()
    with (tmp_path / "output.jsonl").open("wb") as file:
        kept = WithoutKey(file, Redactor(KEY))
        for at in range(0, len(sent), 1000):
            kept.write(sent[at : at + 1000])
        kept.flush()
    came = (tmp_path / "output.jsonl").read_text(encoding="utf-8")
    assert not [form for form in FORMS if form in came or json.dumps(form)[1:-1] in came]
    assert [list(json.loads(line)) for line in came.splitlines()] == [
        list(json.loads(line)) for line in lines
    ]
    assert len(came.splitlines()[-2]) == len(lines[-2]) - len(KEY) + len("[key]")
