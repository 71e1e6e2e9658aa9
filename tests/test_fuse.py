"""A judge whose answers never hold a rating is not asked on and on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from robin_cli.model.errors import EndpointError
from robin_cli.model.records import Judgment
from robin_cli.session.diagnostics import ANSWERS, Diagnostics
from tests.conftest import DEMO, has, judging, robin, write_pairs
from tests.judges.wire import Answer, Handler, completion, error, serving
from tests.run.test_store import judgment

TALK = "Let me think\x1b[2J about it,\nstep by step: " + "hm, " * 100
AT_A_TIME = 8


def unparsed(reason: str = "missing", text: str = TALK) -> Judgment:
    return replace(
        judgment(1),
        status="unparsed",
        rating=None,
        reason=reason,
        text=text,
        completion_tokens=1024,
    )


def rated() -> Judgment:
    return replace(judgment(1), status="ok", rating=3, reason=None)


def message(*judgments: Judgment) -> str:
    with pytest.raises(EndpointError) as caught:
        Diagnostics("a-judge").look(0, judgments)
    return str(caught.value)


def test_stops_after_50_answers_without_one_rating_and_resumes_once_the_server_is_mended(
    tmp_path: Path,
) -> None:
    # so few that each is given up, after five answers
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    mended: list[bool] = []

    def answer(*_: Any) -> dict[str, Any]:
        return completion() if mended else completion(TALK)

    with serving(answer) as wire:
        stopped = robin(
            *judging(wire.url, data, 400, "--run", "r", "--concurrency", str(AT_A_TIME)),
            cwd=tmp_path,
            exits=3,
        )
        asked = len(wire.bodies)
        facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
        mended.append(True)
        more = ("--repeat-anyway", "-o", "scores.csv")
        resumed = robin("resume", "r", *more, cwd=tmp_path, exits=0)

    assert ANSWERS <= asked < ANSWERS + 2 * AT_A_TIME
    # what was under way came, and is kept
    assert (facts["spent"], facts["in_flight_at_stop"]) == (asked, 0)
    said = stopped.stderr.replace("\n", " ")
    assert "the first 50 answers have no rating: 50 missing a rating" in said
    assert 'One of them: "Let me think [2J about it, step by step: hm, ' in said
    assert all(
        way in said
        for way in (
            *("--answers json", "robin resume r", "robin check shows a raw reply", "is kept in r"),
        )
    )
    assert "\x1b" not in said
    assert "400 of 400 calls spent" in resumed.stderr


@pytest.mark.parametrize("answered", [12, 0])
def test_stops_when_pairs_are_refused_alike_and_asks_every_pair_again_on_resume(
    tmp_path: Path, answered: int
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    mended: list[bool] = []

    def answer(number: int, _: object) -> Answer:
        if mended or number < answered:
            return completion()
        return error(400, f"The model has crashed. (request 7f{number})")

    with serving(answer) as wire:
        asked = judging(wire.url, data, 60, "--run", "r", "--concurrency", "4")
        stopped = robin(*asked, cwd=tmp_path, exits=3)
        mended.append(True)
        resumed = robin("resume", "r", cwd=tmp_path, exits=0)

    said = stopped.stderr.replace("\n", " ")
    assert "5 pairs in a row were refused alike (400: The model has crashed." in said
    assert "60 of 60 calls spent" in resumed.stderr
    assert "given up" not in resumed.stderr


@pytest.mark.parametrize("filtered", [30, 40])
def test_gives_up_pairs_that_a_filter_refuses_and_goes_on(tmp_path: Path, filtered: int) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 40)
    of_filter = [f"Name {number} colours" for number in range(filtered)]

    def answer(_: int, body: dict[str, Any]) -> Answer:
        if any(words in body["messages"][-1]["content"] for words in of_filter):
            return error(400, "Refused by policy.", code="content_filter")
        return completion()

    with serving(answer) as wire:
        asked = judging(wire.url, data, 60, "--run", "r", "--concurrency", "4")
        done = robin(*asked, cwd=tmp_path, exits=3 if filtered == 40 else 0)

    if filtered == 40:
        has(" ".join(done.stderr.split()), "no call was answered with a rating", "Refused by poli")
        assert len(wire.bodies) == 40, "each pair is asked once"
    else:
        has(done.stderr, "60 of 60 calls spent", "30 filtered by the endpoint")
        assert len(wire.bodies) == 90


@pytest.mark.parametrize(
    ("status", "times", "words"),
    [(424, 2, "refused for now: robin resume asks again"), (500, 5, "answered with HTTP 500")],
)
def test_sets_a_pair_aside_that_fails_among_others_and_asks_it_on_resume(
    tmp_path: Path, status: int, times: int, words: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    refused: list[object] = []

    def answer(_: int, body: dict[str, Any]) -> Answer:
        if "Name 2 col" in body["messages"][-1]["content"] and len(refused) < times:
            refused.append(body)
            return error(status, "model error")
        return completion()

    with serving(answer) as wire:
        asked = judging(wire.url, data, 12, "--run", "r", "--concurrency", "1")
        asked += ["--max-retries", "0", "--samples-per-request", "1"]
        first = robin(*asked, cwd=tmp_path, exits=0)
        resumed = robin("resume", "r", "-b", "16", "-o", "s.csv", cwd=tmp_path, exits=0)

    assert f"given up, because they cannot be rated: 1 {words}" in first.stderr
    assert "next: robin resume r --budget 13" in first.stderr, "a call for the pair set aside"
    assert "given up" not in resumed.stderr
    assert all(row.split(",")[1] for row in (tmp_path / "s.csv").read_text().splitlines())


def test_proposes_no_further_call_for_an_attribute_that_is_always_declined(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)

    def answer(_: int, body: dict[str, Any]) -> Answer:
        is_verbosity = "Verbosity:" in body["messages"][-1]["content"]
        return completion("I would rather not." if is_verbosity else "Feedback: fine.\nRating: 3")

    with serving(answer) as wire:
        asked = judging(wire.url, data, 16, "-a", "helpfulness,verbosity", "--run", "r")
        done = robin(*asked, "--scheduler", "uniform", cwd=tmp_path, exits=0)
    has(done.stderr, "4 pairs have no rating of verbosity", "next: robin report r -o report.html")


def test_stops_after_25_replies_in_a_row_that_cannot_be_read_and_counts_them(
    tmp_path: Path,
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    stream = b'data: {"choices": []}\n\ndata: [DONE]\n\n'
    with serving(lambda *_: web.Response(body=stream)) as wire:
        asked = judging(wire.url, data, 90, "--run", "r", "--concurrency", "1")
        stopped = robin(*asked, cwd=tmp_path, exits=3)
        facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)

    said = stopped.stderr.replace("\n", " ")
    assert (
        "25 replies in a row cannot be read, and count as paid for: a 200 that is not a JSON"
        in said
    )
    assert "data: [DONE]" in said
    assert len(wire.bodies) == 25
    assert facts["spent"] == sum(body.get("n", 1) for body in wire.bodies)


def test_speaks_of_verdicts_where_comparisons_were_asked_for(tmp_path: Path) -> None:
    with serving(lambda *_: completion(TALK)) as wire:
        asked = (
            *("judge", DEMO / "responses.jsonl", "--pairwise", "-b", "600", "--base-url", wire.url),
            *("--model", "m"),
        )
        stopped = robin(
            *asked, "--concurrency", str(AT_A_TIME), "--run", "r", cwd=tmp_path, exits=3
        )
        status = robin("status", "r", cwd=tmp_path)

    assert "answers have no verdict: 50 missing a verdict" in stopped.stderr.replace("\n", " ")
    assert "missing a verdict" in status.stdout
    assert "missing a rating" not in stopped.stderr + status.stdout


def test_names_the_judge_of_a_panel_that_never_rates(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)
    with serving(
        lambda _, body: completion("No." if body["model"] == "mute" else "Rating: 2")
    ) as wire:
        judges = (
            *("--base-url", wire.url, "--model", "talks", "--model", "mute", "--concurrency", "4"),
        )
        done = robin(
            "judge", data, "-b", "900", "-a", "helpfulness", *judges, cwd=tmp_path, exits=3
        )

    assert "mute: the first 50 answers have no rating" in done.stderr.replace("\n", " ")
    assert sum(body["model"] == "mute" for body in wire.bodies) < ANSWERS + 8


def test_says_what_helps_by_what_the_answers_looked_like() -> None:
    cut = message(*[unparsed("truncated", "")] * 48, *[unparsed("empty", "")] * 2)

    assert "a-judge: the first 50 answers have no rating: 2 empty, 48 truncated" in cut
    assert "None has any text, after up to 1,024 tokens" in cut
    assert "raise --max-tokens, in a new run" in cut
    assert "another --model" in message(*[unparsed("refused")] * 50)


def test_a_single_rating_keeps_the_fuse_whole() -> None:
    diagnostics = Diagnostics()
    for _ in range(ANSWERS - 1):
        diagnostics.look(0, [unparsed()])
        # no answer: that is not its business
        diagnostics.look(0, [replace(unparsed("connection"), status="failed")])
    diagnostics.look(0, [unparsed(), unparsed(), rated()])  # of one request
    for _ in range(ANSWERS):
        diagnostics.look(0, [unparsed()])


def thinking(needs: int, most: int = 10**6) -> Handler:
    """A judge that thinks in so many tokens before its text, and takes requests for ``most`` at most."""

    def answer(_number: int, body: dict[str, Any]) -> Answer:
        limit = body["max_tokens"]
        if limit > most:
            return error(
                400,
                f"max_tokens is too large: {limit}. This model supports at most {most} completion tokens",
            )
        thought = {"completion_tokens_details": {"reasoning_tokens": min(limit, needs)}}
        took = min(limit, needs + 9)
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": took,
            "total_tokens": 100 + took,
            **thought,
        }
        cut = [{"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": "length"}]
        return completion(usage=usage) if limit > needs else completion(choices=cut, usage=usage)

    return answer


def test_lets_a_judge_that_reasons_first_answer_at_four_times_the_length(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with serving(thinking(2000)) as wire:
        first = robin(
            *judging(wire.url, data, 30, "--run", "r", "--concurrency", "4"), cwd=tmp_path, exits=0
        )
        cut = [body["max_tokens"] for body in wire.bodies].count(1024)
        robin("resume", "r", "--budget", "40", cwd=tmp_path, exits=0)
        facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
        shown = robin("status", "r", "--details", cwd=tmp_path).stdout
        robin(
            *judging(wire.url, data, 10, "--max-tokens", "50", "--run", "s"), cwd=tmp_path, exits=3
        )

    assert first.stderr.count("--max-tokens is 4,096 from now on, not 1,024, and such answers") == 1
    assert 1 <= cut <= 4
    assert {body["max_tokens"] for body in wire.bodies[30 + cut : 40 + cut]} == {4096}
    assert (facts["spent"], facts["unparsed"], facts["failed"]) == (40, {}, {"truncated": cut})
    assert facts["completion_tokens"] == cut * 1024 + 40 * 2009  # those that were cut are paid for
    assert facts["reasoning_tokens"] == cut * 1024 + 40 * 2000
    assert f"{facts['reasoning_tokens']:,} of them reasoning" in " ".join(shown.split())
    # once, and no further
    assert {body["max_tokens"] for body in wire.bodies[40 + cut :]} == {50, 200}


def test_goes_back_to_shorter_answers_where_longer_ones_are_refused_and_keeps_to_the_money(
    tmp_path: Path,
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    money = ("--max-cost", "0.1", "--price-in", "1", "--price-out", "4")
    with serving(thinking(2000, most=2048)) as wire:
        refused = robin(*judging(wire.url, data, 300, "--run", "r"), cwd=tmp_path, exits=3).stderr
    with serving(thinking(2000)) as wire:
        robin(*judging(wire.url, data, 300, "--run", "s", *money), cwd=tmp_path, exits=4)
    facts = json.loads(robin("status", "s", "--json", cwd=tmp_path).stdout)

    has(" ".join(refused.split()), "--max-tokens is 1,024 again", "raise --max-tokens")
    assert facts["ratings"] > 5
    assert 0.07 < facts["cost_usd"] <= 0.1
