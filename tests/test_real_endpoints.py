"""The main job against endpoints as they are: limited, costly, faulty, several, and gone for a while. Over HTTP."""

from __future__ import annotations

import csv
import io
import json
import random
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from aiohttp import web

from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from tests.conftest import (
    DEMO,
    REPLAY_MODEL,
    environment,
    free_port,
    has,
    lines_of,
    robin,
    wait_until,
    write_pairs,
)
from tests.judges.wire import Answer, completion, error, serving
from tests.starting import Robin

HELPFUL = ("-a", "helpfulness", "--model", "judge", "--run", "r")


def varied(number: int, **change: Any) -> dict[str, Any]:
    """An answer like no other, with one of five ratings."""
    return completion(
        f"Feedback: this is answer number {number}.\nRating: {number % 5}",
        id=f"id-{number}",
        **change,
    )


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def judgments(run: Path) -> pd.DataFrame:
    frame: pd.DataFrame = read_run(run, JUDGMENTS.names).judgments.to_pandas()
    return frame


def answered(run: Path) -> int:
    return int((judgments(run)["status"] != "failed").sum())


def test_pays_a_prompt_once_for_several_ratings(tmp_path: Path) -> None:
    def several(number: int, body: dict[str, Any]) -> Answer:
        return varied(
            number, choices=[varied(17 * number + k)["choices"][0] for k in range(body.get("n", 1))]
        )

    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    with serving(several) as wire:
        more = ("--base-url", wire.url, "--samples-per-request", "5")
        done = robin("judge", data, "-b", "103", *HELPFUL, *more, cwd=tmp_path, exits=0)
    assert sum(int(row["n"]) for row in rows(done.stdout)) == 103 == answered(tmp_path / "r")
    assert 21 <= len(wire.bodies) <= 70
    assert judgments(tmp_path / "r")["prompt_tokens"].sum() == 100 * len(wire.bodies)


def costly(number: int, body: dict[str, Any]) -> Answer:
    return varied(number, usage={"prompt_tokens": 1_000, "completion_tokens": 500})


def test_stops_before_more_money_is_spent_and_goes_on_with_more(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    prices = ("--price-in", "1", "--price-out", "2", "--concurrency", "16")
    with serving(costly) as wire:
        asked = ("judge", data, "-b", "150", *HELPFUL, "--base-url", wire.url, *prices)
        first = robin(*asked, "--max-cost", "0.06", cwd=tmp_path, exits=4)
        spent = judgments(tmp_path / "r")["cost_usd"].sum()
        robin("resume", "r", cwd=tmp_path, exits=4)  # the limit is that of the run, and it is spent
        robin("resume", "r", "--max-cost", "0.12", cwd=tmp_path, exits=4)
        robin("resume", "r", "--max-cost", "5", cwd=tmp_path, exits=0)
    has(first.stderr, "--max-cost $0.06 is reached", "robin resume r --max-cost 0.12")
    assert sum(int(row["n"]) for row in rows(first.stdout)) == pytest.approx(spent / 0.002)
    assert 0.06 - 0.01 < spent <= 0.06
    assert judgments(tmp_path / "r")["cost_usd"].sum() == pytest.approx(0.3)
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert status["cost_usd"] == pytest.approx(0.3)
    assert answered(tmp_path / "r") == 150


def test_marks_tokens_that_it_had_to_estimate(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with serving(lambda number, _: varied(number, usage=None)) as wire:
        done = robin("judge", data, "-b", "20", *HELPFUL, "--base-url", wire.url, cwd=tmp_path)
    frame = judgments(tmp_path / "r")
    assert frame["usage_estimated"].all()
    assert (frame["prompt_tokens"] > 100).all()
    assert "estimated" in done.stderr


TRANSIENT: dict[str, Answer] = {
    "429": error(429, "slow down", {"retry-after-ms": "20"}),
    "500": error(500, "oops"),
    "502 in HTML": web.Response(
        status=502, text="<html>Bad gateway</html>", content_type="text/html"
    ),
    "503": error(503, "overloaded", {"retry-after-ms": "20"}),
    "error in 200": {"error": {"message": "the model is loading", "code": 503}},
}
UNREADABLE: list[Callable[[], Answer]] = [
    lambda: web.Response(text="<html>Please wait</html>", content_type="text/html"),
    lambda: web.Response(body=b'{"choices": [{"mess', content_type="application/json"),
    lambda: completion(choices=[]),
    lambda: completion(choices=None),
]
UNPARSED: dict[str, Answer] = {
    "truncated": completion(
        None, choices=[{"message": {"content": None, "reasoning": "…"}, "finish_reason": "length"}]
    ),
    "filtered": completion(
        "", choices=[{"message": {"content": ""}, "finish_reason": "content_filter"}]
    ),
    "missing": completion("<think>Rating: 3</think> I cannot say."),
}


@pytest.mark.parametrize("samples", ["1", "3"])
def test_loses_nothing_and_spends_exactly_its_budget_whatever_the_endpoint_does(
    tmp_path: Path, samples: str
) -> None:
    generator = random.Random(3)
    lock = threading.Lock()
    sent = [0]

    def any_shape(number: int, body: dict[str, Any]) -> Answer:
        with lock:
            chance = generator.random()
            if chance < 0.3:
                bad = TRANSIENT[generator.choice(list(TRANSIENT))]
                if isinstance(bad, web.Response):  # which can be sent once only
                    return web.Response(status=bad.status, body=bad.body, headers=bad.headers)
                return bad
            if chance < 0.33:
                sent[0] += 1
                return generator.choice(UNREADABLE)()
            if chance < 0.38:
                sent[0] += 1
                return UNPARSED[generator.choice(list(UNPARSED))]
            choices = [
                varied(7 * number + k)["choices"][0]
                for k in range(generator.randint(1, body.get("n", 1)))
            ]
            sent[0] += len(choices)
            return varied(number, choices=choices)

    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    more = ("--samples-per-request", samples, "--max-retries", "20", "--concurrency", "16")
    with serving(any_shape) as wire:
        robin(
            *("judge", data, "-b", "150"),
            *HELPFUL,
            "--base-url",
            wire.url,
            *more,
            cwd=tmp_path,
            exits=0,
        )
    kept = judgments(tmp_path / "r")
    # cut, and asked with a longer limit
    again = int(((kept["reason"] == "truncated") & (kept["status"] == "failed")).sum())
    assert (answered(tmp_path / "r"), sent[0]) == (150, 150 + again)
    assert (kept["reason"] == "unreadable").any()


def test_stops_when_the_key_expires_and_goes_on_with_a_new_one(tmp_path: Path) -> None:
    def expiring(number: int, body: dict[str, Any]) -> Answer:
        return error(401, "token expired") if 60 <= number < 90 else varied(number)

    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with serving(expiring) as wire:
        command = (
            *("judge", data, "-b", "120"),
            *HELPFUL,
            *("--base-url", wire.url, "--concurrency", "4"),
        )
        done = robin(*command, cwd=tmp_path, OPENAI_API_KEY="old", exits=3)
        kept = answered(tmp_path / "r")
        wire.bodies.extend([{}] * 100)  # the new key
        robin("resume", "r", cwd=tmp_path, exits=0)
    has(done.stderr, "key was refused", "robin resume r")
    assert kept == 60
    assert answered(tmp_path / "r") == 120


def test_stops_when_the_quota_is_used_up_and_never_tries_again(tmp_path: Path) -> None:
    def quota(number: int, body: dict[str, Any]) -> Answer:
        used_up = error(429, "You exceeded your current quota", code="insufficient_quota")
        return used_up if number >= 40 else varied(number)

    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with serving(quota) as wire:
        done = robin(
            *("judge", data, "-b", "120"),
            *HELPFUL,
            *("--base-url", wire.url, "--concurrency", "4"),
            cwd=tmp_path,
            exits=3,
        )
    assert "quota" in done.stderr
    assert answered(tmp_path / "r") == 40
    # those under way, and one begun in the place of each while its refusal came
    assert len(wire.bodies) <= 40 + 2 * 4


@pytest.mark.slow
def test_waits_for_a_server_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    port = free_port()
    serve: list[str | Path] = [
        *("serve", DEMO / "ratings.parquet", "--port", str(port), "--latency-ms", "20")
    ]

    def served() -> Robin:
        null = subprocess.DEVNULL
        server = Robin(
            serve, cwd=tmp_path, stdout=subprocess.PIPE, stderr=null, text=True, env=environment()
        )
        assert server.stdout is not None
        assert server.stdout.readline()
        return server

    command = [*("judge", str(data), "-b", "150", "-a", "helpfulness", "--model", REPLAY_MODEL)]
    command += [
        *("--base-url", f"http://127.0.0.1:{port}/v1", "--run", "r", "--concurrency", "8"),
        "--quiet",
    ]
    server = served()
    with Robin(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        wait_until(lambda: lines_of(tmp_path / "r" / "journal.jsonl") > 40, run)
        server.kill()
        server.communicate()
        with socket.create_server(("127.0.0.1", port)) as down:
            for _ in range(20):  # each of eight calls is made again
                down.accept()[0].close()
        server = served()
        _, said = run.communicate(timeout=120)
    server.kill()
    server.communicate()
    assert run.returncode == 0, said
    assert answered(tmp_path / "r") == 150


def test_spreads_calls_over_several_servers_and_survives_the_loss_of_one(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    away = error(500, "gone").body

    def dying(number: int, body: dict[str, Any]) -> Answer:
        return varied(number) if number < 30 else web.Response(status=500, body=away)

    with serving(dying) as first, serving(lambda number, _: varied(1000 + number)) as second:
        urls = ("--base-url", first.url, "--base-url", second.url)
        done = robin(
            "judge", data, "-b", "150", *HELPFUL, *urls, "--concurrency", "4", cwd=tmp_path, exits=0
        )
    assert answered(tmp_path / "r") == 150
    assert f"{first.url}: circuit open" in done.stderr
    assert len(second.bodies) == 120
    assert len(judgments(tmp_path / "r")["request_id"].unique()) == 150


def test_takes_several_servers_from_robin_toml(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 10)
    with (
        serving(lambda number, _: varied(number)) as first,
        serving(lambda number, _: varied(number)) as second,
    ):
        (tmp_path / "robin.toml").write_text(
            f'data = "pairs.jsonl"\nmodel = "judge"\nbase_url = ["{first.url}", "{second.url}"]\n',
            encoding="utf-8",
        )
        robin("judge", "-b", "100", "-a", "helpfulness", cwd=tmp_path, exits=0)
    assert len(first.bodies) + len(second.bodies) == 100
    assert min(len(first.bodies), len(second.bodies)) >= 30


def test_says_early_that_a_cache_answers(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    with serving(
        lambda number, body: completion(
            f"Feedback: of {hash(orjson.dumps(body['messages'])) % 97}, always so.\nRating: 3"
        )
    ) as wire:
        more = ("--base-url", wire.url, "--repeat-anyway")
        done = robin("judge", data, "-b", "200", *HELPFUL, *more, cwd=tmp_path)
    assert done.stderr.count("at temperature 1: is there a cache") == 1
    assert done.stderr.count("all rate 3") == 1


def test_shows_why_a_pair_was_given_up(tmp_path: Path) -> None:
    def picky(number: int, body: dict[str, Any]) -> Answer:
        text = body["messages"][1]["content"]
        if "Name 3 colours" in text:
            return error(
                400,
                "This model's maximum context length is 2048 tokens",
                code="context_length_exceeded",
            )
        return completion("I would rather not.") if "Name 4 colours" in text else varied(number)

    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    with serving(picky) as wire:
        done = robin(
            "judge", data, "-b", "120", *HELPFUL, "--base-url", wire.url, cwd=tmp_path, exits=0
        )
    given_up = {row["pair_id"]: row["given_up"] for row in rows(done.stdout)}
    assert given_up == {
        "p0": "",
        "p1": "",
        "p2": "",
        "p3": "context_length",
        "p4": "missing",
        "p5": "",
    }
    frame = judgments(tmp_path / "r")
    assert (
        frame["pair_id"] == "p3"
    ).sum() <= 5  # as many as can be under way before the first comes back
    assert (frame["pair_id"] == "p4").sum() <= 8
    assert "cannot be rated: 1 too long for the model, 1 missing a rating" in done.stderr
    assert "1 too long for the model" in robin("status", "r", cwd=tmp_path).stdout


def test_checks_what_an_endpoint_supports(tmp_path: Path, replay_url: str) -> None:
    done = robin("check", "--base-url", replay_url, "--model", REPLAY_MODEL, cwd=tmp_path, exits=0)
    assert "--samples-per-request pays the prompt once" in done.stdout
    seen = json.loads(
        robin(
            "check", "--base-url", replay_url, "--model", REPLAY_MODEL, "--json", cwd=tmp_path
        ).stdout
    )
    assert (seen["choices_of_4"], seen["logprobs"], seen["seed"], seen["usage"]) == (
        4,
        False,
        "honoured",
        True,
    )
    assert seen["rating"] in range(5)
    assert json.loads(seen["raw_reply"])["choices"][0]["message"]["content"] == seen["answer"]
    assert '"choices":[' in done.stdout.replace(" ", "")


def test_checks_an_endpoint_that_supports_little(tmp_path: Path) -> None:
    def stubborn(number: int, body: dict[str, Any]) -> Answer:
        if body["messages"][0]["role"] == "system":
            return error(400, "System role not supported")
        for name in ("max_tokens", "seed", "n", "logprobs"):
            if name in body:
                return error(
                    400,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                    param=name,
                )
        return completion("I think it is good.", usage=None)

    with serving(stubborn) as wire:
        done = robin(
            "check", "--base-url", wire.url, "--model", "judge", "--json", cwd=tmp_path, exits=0
        )
    seen = json.loads(done.stdout)
    assert (seen["rating"], seen["reason"], seen["system_role"]) == (None, "missing", False)
    assert (seen["choices_of_4"], seen["logprobs"], seen["seed"], seen["usage"]) == (
        1,
        False,
        "refused",
        False,
    )
    assert seen["repeats"]
    assert "max_completion_tokens" in seen["parameters"]


def test_leaves_a_check_with_3_where_nobody_answers(tmp_path: Path) -> None:
    done = robin(
        *("check", "--base-url", f"http://127.0.0.1:{free_port()}/v1", "--model", "judge"),
        cwd=tmp_path,
        exits=3,
    )
    assert "connection" in done.stderr


def test_tells_no_other_address_the_openai_account(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    account = {
        "OPENAI_ORG_ID": "org-private",
        "OPENAI_PROJECT_ID": "proj-private",
        "OPENAI_API_KEY": "sk-some-key",
    }
    with serving(lambda number, _: varied(number)) as wire:
        robin("judge", data, "-b", "5", *HELPFUL, "--base-url", wire.url, cwd=tmp_path, **account)
    assert "private" not in str(wire.headers)
    assert "sk-some-key" in str(wire.headers)
