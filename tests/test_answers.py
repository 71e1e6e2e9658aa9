"""--answers, as a user runs them: over HTTP, against endpoints that do and that do not."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import has, llama_server, robin, write_pairs
from tests.judges.wire import Answer, completion, error, serving
from tests.test_own_prompts import STARS

pytestmark = pytest.mark.usefixtures("no_pictures")

QUOTES = ("--extra-body", json.dumps({"logit_bias": [['"', 8.0]]}))
"""The tiny judge was not trained on JSON: this makes it come to the end of a text."""

TEXT = "Feedback: fine.\nRating: 3"


def with_logprobs(likely: dict[str, float], drawn: str = "3") -> dict[str, Any]:
    """A completion whose last token is the rating, as OpenAI and vLLM send it."""

    def one(text: str, probability: float) -> dict[str, Any]:
        return {"token": text, "logprob": math.log(probability), "bytes": list(text.encode())}

    listed = [one(text, probability) for text, probability in likely.items()]
    tokens = [
        one("Feedback: fine.\n", 1),
        one("Rating: ", 1),
        {**one(drawn, likely[drawn]), "top_logprobs": listed},
    ]
    answer = completion(f"Feedback: fine.\nRating: {drawn}")
    answer["choices"][0]["logprobs"] = {"content": tokens}
    return answer


def judge(url: str, data: Path, *more: str) -> list[str | Path]:
    command: list[str | Path] = [
        *("judge", data, "-a", "helpfulness", "-b", "24", "--base-url", url, "--model", "m")
    ]
    return [*command, "--run", "r", "--concurrency", "1", *more]


def test_scores_by_the_mean_over_the_ratings_that_could_have_been(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    answers = [
        with_logprobs(each)
        for each in ({"3": 0.5, "2": 0.5}, {"3": 0.9, "2": 0.1}, {"3": 0.6, "x": 0.4})
    ]
    with serving(lambda number, _: answers[number % 3]) as wire:
        done = robin(*judge(wire.url, data, "--answers", "logprobs"), cwd=tmp_path, exits=0)
        assert all(body["logprobs"] is True and body["top_logprobs"] == 20 for body in wire.bodies)

    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    assert set(judgments["rating"]) == {3}  # as it is written
    by_text = judgments[judgments["scoring"] == "text"]
    assert set(by_text["text_because"]) == {"off_scale"}
    assert by_text["off_scale_mass"].round(6).unique() == [0.4]
    assert set(judgments["expected_rating"].dropna().round(3)) == {2.5, 2.9}
    assert "rated by their text, not by log probabilities" in done.stderr
    values = judgments["expected_rating"].fillna(judgments["rating"])
    scores = pd.read_csv(io.StringIO(done.stdout)).set_index("pair_id")
    expected = values.groupby(judgments["pair_id"]).agg(["mean", "var"])
    np.testing.assert_allclose(scores["score"], expected["mean"].loc[scores.index], atol=1e-6)
    np.testing.assert_allclose(scores["variance"], expected["var"].loc[scores.index])
    assert ((scores["ci_low"] < scores["score"]) & (scores["score"] < scores["ci_high"])).all()
    state = pd.read_parquet(tmp_path / "r" / "state.parquet").set_index("pair_id")
    np.testing.assert_allclose(state["mean"], expected["mean"].loc[state.index])
    status = robin("status", "r", cwd=tmp_path).stdout
    assert "16 by log probabilities; 8 by their text: 8 off scale" in " ".join(status.split())
    robin("report", "r", cwd=tmp_path, exits=0)


@pytest.mark.parametrize(
    ("refuse", "said", "why"),
    [
        (
            lambda body: "logprobs" in body and "logprobs is not supported",
            'refuses "logprobs"',
            "no_logprobs",
        ),
        (
            lambda body: body.get("top_logprobs", 0) > 5 and "top_logprobs must be at most 5",
            "asking for 5",
            None,
        ),
        (lambda body: False, "", "no_logprobs"),  # takes them and sends none
    ],
)
def test_rates_by_the_text_where_the_endpoint_gives_no_log_probabilities(
    tmp_path: Path, refuse: Any, said: str, why: str | None
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)

    def respond(_number: int, body: dict[str, Any]) -> Answer:
        if message := refuse(body):
            return error(400, message)
        return with_logprobs({"3": 0.75, "4": 0.25}) if why is None else completion(TEXT)

    with serving(respond) as wire:
        done = robin(*judge(wire.url, data, "--answers", "logprobs"), cwd=tmp_path, exits=0)
    assert said in done.stderr
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    assert set(judgments["text_because"].dropna()) == ({why} if why else set())
    assert set(pd.read_csv(io.StringIO(done.stdout))["score"]) == {3.0 if why else 3.25}


@pytest.mark.parametrize(
    ("likely", "says"),
    [
        ({"3": 0.5, "2": 0.5}, "would rate the answer they came with 2.50"),
        (
            {"3": 0.6, "x": 0.4},
            "by its text: more than 5% of the probability at its rating is of no rating",
        ),
    ],
)
def test_checks_what_scoring_by_log_probabilities_would_do(
    tmp_path: Path, likely: dict[str, float], says: str
) -> None:
    def respond(_number: int, body: dict[str, Any]) -> Answer:
        if body.get("n", 1) > 2:
            return error(400, "n must be at most 2")
        return completion(choices=with_logprobs(likely)["choices"] * body.get("n", 1))

    with serving(respond) as wire:
        done = robin(
            "check", "--base-url", wire.url, "--model", "m", cwd=tmp_path, COLUMNS="200", exits=0
        )
    has(done.stdout, says, "above 2 asks for 2")
    sent = next(line for line in done.stdout.splitlines() if line.startswith("parameters sent"))
    assert sent.rstrip().endswith("max_tokens, temperature, top_p; with --seed also seed")
    assert "--answers" not in " ".join(
        line for line in done.stdout.splitlines() if line.startswith("robin judge will")
    )


def test_shows_the_structure_that_goes_with_the_messages(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    pair = json.loads(data.read_text().splitlines()[0])["id"]
    command = ("render", data, "--pair", pair, "-a", "helpfulness")
    with serving(lambda *_: completion('{"feedback": "fine", "rating": 3}')) as wire:
        robin(*judge(wire.url, data, "--answers", "json"), cwd=tmp_path, exits=0)
    by_text, shown = (
        robin(*command, *more, cwd=tmp_path).stdout for more in ((), ("--answers", "json"))
    )
    messages, _, structure = shown.partition("[sent along]\n")
    sent = next(body for body in wire.bodies if body["messages"][-1]["content"] in messages)
    assert (
        "".join(f"[{each['role']}]\n{each['content']}\n\n" for each in sent["messages"]) == messages
    )
    assert json.loads(structure) == {"response_format": sent["response_format"]}
    assert "sent along" not in by_text
    assert "JSON" not in by_text


def test_refuses_log_probabilities_of_another_judge_than_the_one_that_writes(
    tmp_path: Path,
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    done = robin(
        *judge("http://127.0.0.1:9/v1", data, "--answers", "logprobs", "--temperature", "0.5"),
        cwd=tmp_path,
        exits=2,
    )
    assert "needs --temperature 1 and --top-p 1" in done.stderr
    assert not (tmp_path / "r").exists()


def test_asks_for_json_and_reads_it(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    answers = [
        completion('{"feedback": "so so", "rating": 2}'),
        completion('{"feedback": "?", "rating": 9}'),
    ]
    with serving(lambda number, _: answers[number % 2]) as wire:
        robin(*judge(wire.url, data, "--answers", "json"), cwd=tmp_path, exits=0)
        body = wire.bodies[0]
    assert body["response_format"]["json_schema"]["schema"]["properties"]["rating"]["enum"] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert "one JSON object" in body["messages"][-1]["content"]
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    assert set(judgments["rating"].dropna()) == {2}
    assert set(judgments["reason"].dropna()) == {"out_of_range"}
    assert set(judgments["feedback"]) == {"so so", "?"}

    again = robin(*judge("http://127.0.0.1:9/v1", data), cwd=tmp_path, exits=2)
    assert "answers: the run has json, now text" in again.stderr


def test_says_where_a_schema_is_taken_and_ignored(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(lambda *_: completion("Well. Feedback: fine.\n\nRating: 3")) as wire:
        done = robin(*judge(wire.url, data, "--answers", "json"), cwd=tmp_path, exits=0)
    assert done.stderr.count("not held to --answers json") == 1
    assert "answers json" in " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    line = json.dumps({"text": '{"feedback": "x", "rating": 2}'})
    assert '"rating":2' in robin("parse", "--answers", "json", cwd=tmp_path, stdin=line).stdout


def test_says_so_at_once_where_a_schema_is_refused(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    with serving(lambda *_: error(400, message, param="response_format")) as wire:
        done = robin(*judge(wire.url, data, "--answers", "json"), cwd=tmp_path, exits=3)
    has(done.stderr, "does not take --answers json", "works everywhere")


@pytest.mark.external
@pytest.mark.slow
def test_rates_with_a_real_server_by_schema_and_by_log_probabilities(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    (tmp_path / "tiny.jinja").write_text(
        "{% block user %}Criterion: clarity\nResponse: {{ response }}, the answer is clear\n"
        "Rate from {{ low }} to {{ high }}.{% endblock %}"
    )
    with llama_server(tmp_path / "server.log") as url:
        for name, more in {
            "schema": ["--answers", "json", *QUOTES],
            "logprobs": ["--answers", "logprobs"],
        }.items():
            ask = judge(
                url, data, *more, "--template", "tiny.jinja", "--run", name, "--max-tokens", "300"
            )
            robin(*ask, cwd=tmp_path, exits=0)

    def found(name: str) -> pd.DataFrame:
        return pd.read_parquet(tmp_path / name / "judgments")

    schema = found("schema")[lambda rows: rows["status"] == "ok"]
    assert len(schema) >= 20
    assert all(
        json.loads(text)["rating"] == rating
        for text, rating in zip(schema["text"], schema["rating"], strict=True)
    )
    logprobs = found("logprobs")
    assert (logprobs["scoring"] == "logprobs").sum() >= 20
    assert logprobs["expected_rating"].between(0, 4).sum() >= 20


def test_warns_of_levels_of_two_tokens_before_money_is_spent(tmp_path: Path) -> None:
    (tmp_path / "ten.toml").write_text(STARS, encoding="utf-8")
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(lambda _, __: completion(TEXT)) as wire:
        command: list[str | Path] = ["judge", data, "--rubric", "ten.toml", "-b", "4", "--run", "r"]
        more = ("--answers", "logprobs", "--base-url", wire.url, "--model", "m")
        done = robin(*command, *more, cwd=tmp_path, exits=0)
    has(done.stderr, "a level of the scale 1 to 10 may take two tokens")


def test_check_says_what_reasoning_costs(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 320,
        "total_tokens": 420,
        "completion_tokens_details": {"reasoning_tokens": 300},
    }
    with serving(lambda _, __: completion(TEXT, usage=usage)) as wire:
        command = ["check", "--base-url", wire.url, "--model", "m", "--reasoning-effort", "low"]
        prices = ["--price-in", "1", "--price-out", "10"]
        done = robin(*command, *prices, cwd=tmp_path, exits=0)
        assert {body["reasoning_effort"] for body in wire.bodies if "messages" in body} == {"low"}
    said = " ".join(done.stdout.split())
    has(said, "300 of the 320 tokens of the answer, $0.003 a call; --reasoning-effort none")
