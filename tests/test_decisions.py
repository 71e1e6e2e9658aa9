"""--answers decisions, and several attributes in one request, as a user runs them, over HTTP."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from openai.types.decision import Decision

from robin_cli.model.errors import InputError
from robin_cli.session.checking import check_judges
from robin_cli.settings.resolve import resolve
from robin_cli.settings.table import Settings
from tests.conftest import has, refuses, robin, write_pairs
from tests.judges.wire import Answer, Wire, completion, error, serving

ATTRIBUTES = ("helpfulness", "verbosity", "correctness")
KNOWN = {"model", "input", "questions"}


def planted(pair: int, name: str) -> float:
    """The expectation that the model has of a pair, 0 to 4."""
    return (7 * pair + 3 * len(name)) % 41 / 10


def probabilities(question: dict[str, Any], pair: int) -> dict[str, float]:
    """Of each label or value: a share of each end and of two neighbours, with the planted expectation."""
    if question["type"] == "choice":
        first = 0.5 + pair % 5 / 10
        return {"A": first, "B": 0.9 - first, "tie": 0.1}
    labels = [level["label"] for level in question["levels"]]
    mean = planted(pair, question["name"])
    low = min(int(mean), len(labels) - 2)
    shares = dict.fromkeys(labels, 0.0)
    shares[labels[low]], shares[labels[low + 1]] = low + 1 - mean, mean - low
    return shares


def answer(question: dict[str, Any], shares: dict[str, float]) -> dict[str, Any]:
    """An answer in the SDK's shape, which leaves the name out and lists the last label first."""
    score = question["type"] == "score"
    listed = [
        {"value": number if score else label, "label": label, "probability": 0.98 * share}
        for number, (label, share) in enumerate(reversed(shares.items()))
    ]
    if not score:
        listed = [{name: each[name] for name in ("value", "probability")} for each in listed]
    found = {"type": question["type"], "name": None, "confidence": 0.5, "probabilities": listed}
    return found | ({"score": 0.0} if score else {"choice": "A"})


def decision(
    body: dict[str, Any], answers: list[dict[str, Any]], tokens: int = 40
) -> dict[str, Any]:
    """A reply in the SDK's shape."""
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens,
    }
    reply = {"model": body["model"], "answers": answers, "usage": usage}
    Decision.model_validate(reply)
    return reply


def pair_of(body: dict[str, Any]) -> int:
    (number,) = re.findall(r"Name (\d+) colours", body["input"])
    return int(number)


def decide(_number: int, body: dict[str, Any]) -> Answer:
    """What a decision model answers; it refuses fields that the API does not have."""
    if unknown := sorted(body.keys() - KNOWN):
        return error(400, f"Unknown parameter: {unknown[0]}")
    pair = pair_of(body)
    answers = [answer(each, probabilities(each, pair)) for each in body["questions"]]
    return decision(body, answers)


def judge(
    url: str, data: Path, budget: int, *more: str | Path, attributes: str = ""
) -> list[str | Path]:
    """The command that judges by decisions, all attributes if none are named."""
    command: list[str | Path] = ["judge", data, "-a", attributes or ",".join(ATTRIBUTES)]
    command += ["-b", str(budget), "--base-url", url, "--model", "d"]
    return [*command, "--answers", "decisions", "--run", "r", *more]


def judgments_of(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "r" / "judgments")


def by(kept: pd.DataFrame, group: str, column: str) -> dict[Any, set[Any]]:
    """The values of a column in each group, without missing ones."""
    return {name: set(rows[column].dropna()) for name, rows in kept.groupby(group)}


def test_asks_all_attributes_of_a_pair_at_once_and_scores_by_the_labels(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 41)
    with serving(decide) as wire:
        prices = ("--price-in", "1", "--price-out", "1000")
        done = robin(*judge(wire.url, data, 123, *prices), cwd=tmp_path, exits=0)
    assert len(wire.bodies) == 41
    asked = wire.bodies[0]["questions"]
    assert [each["name"] for each in asked] == list(ATTRIBUTES)
    assert [level["label"] for level in asked[0]["levels"]] == ["0", "1", "2", "3", "4"]
    assert asked[0]["levels"][4]["description"].startswith("The response is extremely helpful")
    assert "Blue, and" in wire.bodies[0]["input"]
    assert "Rating" not in wire.bodies[0]["input"]

    scores = pd.read_csv(io.StringIO(done.stdout))
    assert len(scores) == 123
    expected = [
        planted(int(pair_id[1:]), name)
        for pair_id, name in zip(scores["pair_id"], scores["attribute"], strict=True)
    ]
    assert scores["score"].tolist() == expected  # 2.7 is 2.7, although steps of 2^-20 are kept
    kept = judgments_of(tmp_path)
    assert set(kept["scoring"]) == {"decisions"}
    assert (kept["prompt_tokens"].sum(), kept["completion_tokens"].sum()) == (41 * 40, 0)
    assert kept["cost_usd"].sum() == pytest.approx(41 * 40 / 1e6)  # of input alone
    assert not kept["usage_estimated"].any()
    shares = pd.DataFrame(list(map(json.loads, kept["probabilities"])))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    means = shares.to_numpy() @ shares.columns.to_numpy(dtype=float)
    np.testing.assert_allclose(means, kept["expected_rating"], atol=1e-6)
    likeliest = shares.to_numpy().argmax(axis=1)
    assert (likeliest == kept["rating"]).all()


def test_spends_the_budget_to_the_last_rating_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    with serving(decide) as wire:
        robin(*judge(wire.url, data, 100), cwd=tmp_path, exits=0)
        assert sum(len(body["questions"]) for body in wire.bodies) == 100
        robin("resume", "r", "-b", "131", cwd=tmp_path, exits=0)
        assert sum(len(body["questions"]) for body in wire.bodies) == 131
    kept = judgments_of(tmp_path)
    assert len(kept) == 131 == len(kept[["pair_id", "attribute", "draw"]].drop_duplicates())
    assert (
        kept.groupby(["pair_id", "attribute"]).size().min() >= 2
    )  # evenly, as any scheduler begins


def test_a_refusal_and_nonsense_are_of_their_attribute_alone(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)

    def respond(_number: int, body: dict[str, Any]) -> Answer:
        answers = []
        for each in body["questions"]:
            shares = probabilities(each, pair_of(body))
            if each["name"] == "verbosity":
                answers.append({"type": "refusal", "name": None})
            else:
                nonsense = each["name"] == "correctness"
                answers.append(answer(each, {**shares, "7": 0.0} if nonsense else shares))
        return decision(body, answers)

    with serving(respond) as wire:
        robin(*judge(wire.url, data, 40), cwd=tmp_path, exits=0)
        asked = [each["name"] for body in wire.bodies for each in body["questions"]]
        robin("resume", "r", "-b", "44", cwd=tmp_path, exits=0)
        again = [each["name"] for body in wire.bodies for each in body["questions"]]
    assert (
        asked.count("verbosity") == asked.count("correctness") == 4
    )  # it would say the same again
    assert again[len(asked) :] == ["helpfulness"] * 4
    reasons = by(judgments_of(tmp_path), "attribute", "reason")
    assert reasons["helpfulness"] == set()
    assert reasons["verbosity"] == {"refused"}
    assert reasons["correctness"] == {"out_of_range"}


def test_a_failure_is_of_all_attributes_and_costs_nothing(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)

    def respond(number: int, body: dict[str, Any]) -> Answer:
        if pair_of(body) == 2:
            return error(400, "flagged by the content policy")
        return decide(number, body)

    with serving(respond) as wire:
        robin(*judge(wire.url, data, 18), cwd=tmp_path)
    kept = judgments_of(tmp_path)
    failed = kept[kept["status"] == "failed"]
    assert set(failed["pair_id"]) == {"p2"}
    assert sorted(failed["attribute"]) == sorted(ATTRIBUTES)
    assert set(failed["reason"]) == {"filtered"}
    assert (kept["status"] == "ok").sum() == 18  # what was not paid for goes to others


def test_a_reply_without_all_answers_is_paid_for_and_rates_nothing(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)

    def respond(number: int, body: dict[str, Any]) -> Answer:
        reply = decide(number, body)
        assert isinstance(reply, dict)
        return reply | {"answers": reply["answers"][:2]}

    with serving(respond) as wire:
        done = robin(*judge(wire.url, data, 6), cwd=tmp_path, exits=3)
    assert "without an answer to each of 3 questions" in done.stderr
    assert set(judgments_of(tmp_path)["reason"]) == {"unreadable"}


@pytest.mark.parametrize("ties", [True, False])
def test_compares_in_both_orders_by_the_share_of_wins(tmp_path: Path, *, ties: bool) -> None:
    rows = [
        {"id": f"p{k}", "prompt": f"Name {k} colours.", "response_a": "one", "response_b": "two"}
        for k in range(5)
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def respond(_number: int, body: dict[str, Any]) -> Answer:
        (question,) = body["questions"]
        values = [choice["value"] for choice in question["choices"]]
        assert values == (["A", "B", "tie"] if ties else ["A", "B"])
        a_first = body["input"].index("one") < body["input"].index("two")
        better = 0.5 + pair_of(body) / 10  # of response one, whichever comes first
        share = better if a_first else 1 - better
        shares = {"A": 0.8 * share, "B": 0.8 * (1 - share), "tie": 0.2}
        return decision(body, [answer(question, shares if ties else {"A": share, "B": 1 - share})])

    with serving(respond) as wire:
        more = ("--pairwise", *(() if ties else ("--no-ties",)))
        command = judge(wire.url, data, 10, *more, attributes="helpfulness")
        done = robin(*command, cwd=tmp_path, exits=0)
    assert len(wire.bodies) == 10
    scores = pd.read_csv(io.StringIO(done.stdout)).set_index("pair_id")
    for k in range(5):
        share = 0.5 + k / 10
        expected = 0.8 * share + 0.1 if ties else share
        assert scores["preference"][f"p{k}"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (404, "Not Found", "no /decisions for this model"),
        (501, "no read strategy for this model", "no /decisions for this model"),
        (400, "each label must be a single token at the answer position", "single token"),
        (400, "the chat template starts inside a reasoning block", "reasoning block"),
    ],
)
def test_ends_at_once_where_no_call_could_be_answered(
    tmp_path: Path, status: int, message: str, says: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 50)
    with serving(lambda *_: error(status, message)) as wire:
        done = robin(*judge(wire.url, data, 150, "--concurrency", "1"), cwd=tmp_path, exits=3)
    assert len(wire.bodies) == 1
    has(done.stderr, says, "--answers logprobs, json or text in a new run")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--temperature", "0.5"), "takes no --temperature"),
        (("--max-tokens", "100"), "takes no --max-tokens"),
        (("--samples-per-request", "2"), "takes no --samples-per-request"),
        (("--seed", "1"), "takes no --seed"),
        (("--batch",), "--batch: does not reach /decisions"),
        (("--rubric", "wide.toml"), "11 levels, and a decision model takes 10 at most"),
        (("--answers", "text"), "--answers: 2 for 1 judge"),
    ],
)
def test_refuses_what_a_decision_model_does_not_take_before_it_asks(
    tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    (tmp_path / "wide.toml").write_text(
        'attribute = "helpfulness"\nscale = [0, 10]\n[levels]\n0 = "bad"\n10 = "good"\n'
    )
    with serving(decide) as wire:
        done = robin(*judge(wire.url, data, 9, *more), cwd=tmp_path, exits=2)
    assert not wire.bodies
    assert says in done.stderr
    assert not (tmp_path / "r").exists()


def test_refuses_workers_and_judges_that_are_at_no_endpoint() -> None:
    decided = Settings(model=("d",), base_url=("http://127.0.0.1:9/v1",), answers=("decisions",))
    for flag, other in (("ray", "local"), ("judge", "of-a-package")):
        settings = replace(decided, **{flag: other})  # type: ignore[arg-type]
        resolved = resolve(settings)
        refuses(InputError, f"--{flag}: does not reach /decisions", check_judges, resolved)


def chat_or_decide(number: int, body: dict[str, Any]) -> Answer:
    """What a server of both kinds answers; the chat judge agrees with the decision model, rounded."""
    if "questions" in body:
        return decide(number, body)
    content = body["messages"][-1]["content"]
    (pair,) = re.findall(r"Name (\d+) colours", content)
    assert "two lines" in content  # the decision model's input is not the chat judge's
    rating = round(planted(int(pair), "helpfulness"))
    return completion(f"Feedback: number {number}.\nRating: {rating}")


def test_a_decision_model_rates_all_and_a_chat_judge_what_stays_unclear(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 41)
    with serving(chat_or_decide) as wire:
        command = judge(wire.url, data, 70, "--model", "c", attributes="helpfulness")
        command += ["--answers", "text", "--concurrency", "1"]
        more = (
            "--decide",
            "score>=2",
            "--temperature",
            "0.7",
            "--price-in",
            "1",
            "--price-out",
            "1",
        )
        done = robin(*command, *more, cwd=tmp_path, exits=0)
    kept = judgments_of(tmp_path)
    assert by(kept, "judge", "scoring") == {"d": {"decisions"}, "c": {"text"}}
    assert kept[kept["judge"] == "d"]["pair_id"].nunique() == 41
    chat = [body for body in wire.bodies if "messages" in body]
    assert {body["temperature"] for body in chat} == {0.7}
    second = {re.findall(r"Name (\d+) col", body["messages"][-1]["content"])[0] for body in chat}
    assert 0 < len(second) < 41
    distance = [abs(planted(int(pair), "helpfulness") - 2) for pair in second]
    assert min(distance) < 0.2  # what is near the threshold is asked again
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 41
    assert "decisions, text" in robin("status", "r", "--details", cwd=tmp_path).stdout
    page = robin("export", "r", "--what", "methods", cwd=tmp_path).stdout
    of_first, of_second = page[page.index("prompt of d:") :].split("prompt of c:")
    assert "two lines" not in of_first
    has(of_second, "two lines", "Score 4:")
    has(page, "second opinion: The first judge rates all", "@article{dersimonian,")


def all_attributes(wire: Wire, data: Path, budget: int, *more: str) -> list[str | Path]:
    command = judge(wire.url, data, budget, "--template", "all-attributes", *more)
    command[command.index("decisions")] = "json"
    return command


def test_one_object_has_a_rating_for_each_attribute(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)

    def respond(number: int, _body: dict[str, Any]) -> Answer:
        rated = {"feedback": f"number {number}", "helpfulness": 4, "verbosity": 1}
        return completion(json.dumps(rated if number == 3 else {**rated, "correctness": 3}))

    with serving(respond) as wire:
        robin(*all_attributes(wire, data, 15), cwd=tmp_path, exits=0)
    assert len(wire.bodies) == 5
    schema = wire.bodies[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["feedback", *ATTRIBUTES]
    assert schema["properties"]["verbosity"] == {"type": "integer", "enum": [0, 1, 2, 3, 4]}
    prompt = wire.bodies[0]["messages"][-1]["content"]
    has(prompt, '"helpfulness": An integer between 0 and 4', "Verbosity:", "Correctness:")
    assert "two lines" not in prompt
    kept = judgments_of(tmp_path)
    assert by(kept, "attribute", "rating") == {
        "correctness": {3},
        "helpfulness": {4},
        "verbosity": {1},
    }
    assert kept["reason"].dropna().tolist() == ["missing"]
    assert kept["prompt_tokens"].sum() == 500  # of five requests
    assert kept["feedback"].nunique() == 5


def test_no_line_is_a_rating_of_all_attributes(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(lambda *_: completion("Feedback: fine.\nRating: 3")) as wire:
        robin(*all_attributes(wire, data, 6), cwd=tmp_path, exits=3)
    assert set(judgments_of(tmp_path)["reason"]) == {"missing"}


def test_refuses_all_attributes_at_once_in_text(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(decide) as wire:
        command = all_attributes(wire, data, 6)
        command[command.index("json")] = "text"
        text = robin(*command, cwd=tmp_path, exits=2)
        assert not wire.bodies
    fit = "add --answers json, or take another template: absolute-judge, criteria, rubric-first, with-reference"
    assert fit in text.stderr


def test_shows_what_a_decision_model_reads(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    shown = robin(
        "render", data, "-a", "helpfulness,verbosity", "--answers", "decisions", cwd=tmp_path
    )
    assert shown.stdout.count("Blue, and 0 more.") == 1
    has(shown.stdout, '"name": "helpfulness"', '"name": "verbosity"', '"type": "score"')


@pytest.mark.parametrize(
    ("has_it", "says"),
    [
        ("yes", "yes: --answers decisions would rate this answer 3.00"),
        ("404", "no: no /decisions for this model (404: nothing here)"),
        ("400", "no: cannot answer by /decisions (400: labels must be a single token"),
    ],
)
def test_check_says_whether_the_endpoint_decides(tmp_path: Path, has_it: str, says: str) -> None:
    def respond(_number: int, body: dict[str, Any]) -> Answer:
        if "questions" not in body:
            return completion()
        if has_it != "yes":
            message = "nothing here" if has_it == "404" else "labels must be a single token"
            return error(int(has_it), message)
        (question,) = body["questions"]
        return decision(body, [answer(question, {**dict.fromkeys("0124", 0.0), "3": 1.0})])

    with serving(respond) as wire:
        done = robin("check", "--base-url", wire.url, "--model", "m", cwd=tmp_path, exits=0)
    assert says in " ".join(done.stdout.split())


@pytest.mark.parametrize("status", [400, 404])
def test_check_of_an_endpoint_that_only_decides_says_how_to_judge(
    tmp_path: Path, status: int
) -> None:
    def respond(_number: int, body: dict[str, Any]) -> Answer:
        if "questions" not in body:
            return error(status, "no chat here")
        (question,) = body["questions"]
        return decision(body, [answer(question, {**dict.fromkeys("0124", 0.0), "3": 1.0})])

    with serving(respond) as wire:
        check = ("check", "--base-url", wire.url, "--model", "m")
        done = robin(*check, cwd=tmp_path, exits=0)
        found = json.loads(robin(*check, "--json", cwd=tmp_path, exits=0).stdout)
    words = " ".join(done.stdout.split())
    has(words, "no chat here", "would rate this answer 3.00", "rate with --answers decisions")
    assert found["chat"].startswith("no: ")
    assert "probabilities" in found["raw_reply"]


def test_sends_images_as_parts_of_the_input(tmp_path: Path) -> None:
    row = {"prompt": "Name it.", "response": "A cat.", "image": "https://images.example/cat.png"}
    data = tmp_path / "pairs.jsonl"
    data.write_text(json.dumps(row) + "\n")

    def respond(_number: int, body: dict[str, Any]) -> Answer:
        (question,) = body["questions"]
        return decision(body, [answer(question, {**dict.fromkeys("0124", 0.0), "3": 1.0})])

    with serving(respond) as wire:
        command = judge(wire.url, data, 1, "--columns", "image=image", attributes="helpfulness")
        robin(*command, cwd=tmp_path, exits=0)
    (message,) = wire.bodies[0]["input"]
    assert [part["type"] for part in message["content"]] == ["input_text", "input_image"]
    assert message["content"][1]["image_url"] == row["image"]
    assert "[image 1]" in message["content"][0]["text"]
