"""What robin says reads like a sentence, also of one, and of things that went wrong."""

from __future__ import annotations

import re
from pathlib import Path

from aiohttp import web

from robin_cli.model.records import counted, number_of
from tests.conftest import free_port, robin, write_pairs
from tests.judges.wire import completion, error, serving

HELPFUL = ("-a", "helpfulness", "--model", "m")


def test_speaks_of_one_and_of_many() -> None:
    assert [number_of(count, "call") for count in (0, 1, 1200)] == [
        "0 calls",
        "1 call",
        "1,200 calls",
    ]
    reasons = {"connection": 5, "http_503": 2, "missing": 1, "truncated": 3}
    said = "5 without a connection, 2 answered with HTTP 503, 1 missing a rating, 3 truncated"
    assert counted(reasons) == said


def test_says_nothing_of_arms_and_nothing_of_1_calls(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "one.jsonl", 1)
    more = write_pairs(tmp_path / "four.jsonl", 4)
    with serving(lambda *_: completion()) as wire:
        to = ("--base-url", wire.url)
        said = [
            robin("judge", data, "-b", "1", "--run", "r", *HELPFUL, *to, cwd=tmp_path),
            robin("judge", data, "-b", "1", "--run", "r", *HELPFUL, *to, cwd=tmp_path),
            robin(
                *("judge", more, "-b", "20", "-a", "helpfulness,verbosity", "--model", "m", *to),
                *("--run", "s", "--scheduler", "robin-hood"),
                cwd=tmp_path,
            ),
            robin("status", "r", cwd=tmp_path),
            robin("status", "s", cwd=tmp_path),
            robin("plan", data, "-b", "1", *HELPFUL, cwd=tmp_path),
        ]
    text = "\n".join(each.stderr + each.stdout for each in said)

    assert all(each.returncode == 0 for each in said), text
    assert "1 of 1 call spent, 1 rating in this session" in said[0].stderr
    assert "calls for each of 8 pairs × attributes" in said[2].stderr
    assert not re.findall(r"\b1 (?:calls|pairs|ratings|rows|scores|answers)\b", text)
    assert not re.findall(r"\barms?\b", text)


def test_check_shows_an_answer_in_one_line_and_a_status_once(tmp_path: Path) -> None:
    with serving(lambda *_: completion("Feedback: good.\n\nRating: 3")) as wire:
        shown = robin("check", "--base-url", wire.url, "--model", "m", cwd=tmp_path)
    with serving(lambda *_: web.Response(status=404, text="404: Not Found")) as wire:
        lost = robin("check", "--base-url", wire.url, "--model", "m", cwd=tmp_path)
    with serving(lambda *_: error(400, "no bananas\nin this\tbody")) as wire:
        refused = robin("check", "--base-url", wire.url, "--model", "m", cwd=tmp_path)

    away = robin(
        "check", "--base-url", f"http://127.0.0.1:{free_port()}/v1", "--model", "m", cwd=tmp_path
    )

    assert "no connection (Connection refused)" in away.stderr
    assert "Feedback: good. Rating: 3" in shown.stdout
    assert "(404: Not Found)" in lost.stderr
    assert "400: no bananas in this body" in refused.stderr
    assert "\\x" not in shown.stdout + lost.stderr + refused.stderr
