"""What errors propose for data with other names: a command that can be pasted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from robin_cli.data.comparisons import load_comparisons
from tests.data.writing import as_lines, columns_of, refused, written

TWO: dict[str, tuple[dict[str, Any], str]] = {
    "HelpSteer2": (
        {"prompt": "p", "response_1": "a", "response_2": "b", "preference_strength": -1},
        "--pairwise --columns response_a=response_1,response_b=response_2.",
    ),
    "HH": (
        {"chosen": "\n\nHuman: p\n\nAssistant: a", "rejected": "\n\nHuman: p\n\nAssistant: b"},
        "--pairwise --columns response_a=chosen,response_b=rejected.",
    ),
    "Arena": (
        {
            "model_a": "x",
            "model_b": "y",
            "conversation_a": [
                {"role": "user", "content": "p"},
                {"role": "assistant", "content": "a"},
            ],
            "conversation_b": [
                {"role": "user", "content": "p"},
                {"role": "assistant", "content": "b"},
            ],
        },
        "--pairwise --columns response_a=conversation_a,response_b=conversation_b,system_a=model_a,system_b=model_b.",
    ),
    "Skywork": (
        {
            "source": "s",
            "chosen": [
                {"role": "user", "content": "p"},
                {"role": "assistant", "content": "a"},
            ],
            "rejected": [
                {"role": "user", "content": "p"},
                {"role": "assistant", "content": "b"},
            ],
        },
        "--pairwise --columns response_a=chosen,response_b=rejected.",
    ),
    "HelpSteer3": (
        {"context": [{"role": "user", "content": "p"}], "response1": "a", "response2": "b"},
        "--pairwise --columns prompt=context,response_a=response1,response_b=response2.",
    ),
    "PKU-SafeRLHF": (
        {"prompt": "p", "response_0": "a", "response_1": "b", "better_response_id": 0},
        "--pairwise --columns response_a=response_0,response_b=response_1.",
    ),
    "JudgeBench": (
        {"question": "p", "response_model": "m", "response_A": "a", "response_B": "b"},
        "--pairwise --columns prompt=question,response_a=response_A,response_b=response_B.",
    ),
    "a spreadsheet": (
        {"Question": "p", "Response A": "a", "Response B": "b"},
        "--pairwise --columns 'prompt=Question,response_a=Response A,response_b=Response B'.",
    ),
    "Summarize From Feedback": (
        {"info": {"post": "p"}, "summaries": [{"text": "a"}, {"text": "b"}], "choice": 0},
        "--pairwise.",
    ),
}


@pytest.mark.parametrize("name", TWO)
def test_proposes_to_compare_two_responses_and_then_reads_them(tmp_path: Path, name: str) -> None:
    row, flags = TWO[name]
    said = refused(tmp_path, [row])
    assert said.endswith(f"Each row holds two responses. Compare them: {flags}")
    named = flags.rstrip(".").partition("--columns ")[2]
    columns = dict(each.split("=") for each in named.strip("'").split(",") if each)
    (pair,) = load_comparisons(tmp_path / "pairs.jsonl", columns=columns).pairs
    assert (pair.prompt, pair.response, pair.other) == ("p", "a", "b")


def test_reads_helpsteers_preferences_and_comparisons_of_summaries_as_they_are(
    tmp_path: Path,
) -> None:
    row = {
        "info": {"id": "i", "post": "p", "title": "t"},
        "summaries": [{"text": "a", "policy": "sup"}, {"text": "b", "policy": "ref"}],
        "choice": 0,
    }
    (pair,) = load_comparisons(written(tmp_path, "sff.json", as_lines([row, row]))).pairs
    assert (pair.prompt, pair.response, pair.other) == ("p", "a", "b")
    assert (pair.columns["system_a"], pair.columns["system_b"]) == ("sup", "ref")
    (pair,) = load_comparisons(
        written(tmp_path, "hs.jsonl", json.dumps(TWO["HelpSteer2"][0]).encode())
    ).pairs
    assert (pair.prompt, pair.response, pair.other) == ("p", "a", "b")
    assert columns_of(pair) == {"preference_strength": -1}


def test_proposes_columns_side_by_side_or_no_name(tmp_path: Path) -> None:
    doubt = ", if these columns hold the responses of a system each."
    for names, paths in (("gpt 4,gpt-4.1,gpt-4", "gpt 4|gpt-4.1|gpt-4"), ("a,b|3", "NAME")):
        rows = f"id,question,topic,{names}\n1,q,t,{names}\n".encode()
        said = refused(tmp_path, rows, "wide.csv")
        flag = shlex.quote(f"prompt=question,response={paths}")
        assert f"Use --columns {flag}," in said
        assert said.endswith(doubt) == (paths != "NAME")
    rows = b"question,a\n1,2\n"
    said = refused(tmp_path, rows, "wide.csv", columns={"prompt": "question", "response": "x|y"})
    assert "Use --columns 'response=NAME|NAME', NAME" in said
    alpaca = {"instruction": "Add.", "input": "1 + 1", "output": "2"}
    assert refused(tmp_path, [alpaca]).endswith(
        'prompt=instruction,response=output; a prompt is one field, so join "input" to it first.'
    )
    dolly = {"instruction": "Add.", "context": "1 + 1", "response": "2"}
    assert refused(tmp_path, [dolly]).endswith(
        'prompt=instruction; a prompt is one field, so join "context" to it first.'
    )
    batch = {"prompt": "p", "response": {"id": "x", "message": {"content": "a"}}}
    assert "with --columns response=: response.id, response.message.content)" in refused(
        tmp_path, [batch]
    )
    tree = {"tree_id": "t", "prompt": {"text": "p", "replies": [{"text": "a"}]}}
    assert refused(tmp_path, [tree]).endswith(
        "Use --columns response=NAME, NAME being the field that holds it."
    )


def test_proposes_to_skip_bad_rows_only_if_they_are_few(tmp_path: Path) -> None:
    good, bad = {"prompt": "p", "response": "r"}, {"prompt": "p", "response": None}
    assert "--skip-bad-rows" in refused(tmp_path, [bad, good, {**good, "prompt": "q"}])
    assert refused(tmp_path, [good, bad, bad]) == (
        'pairs.jsonl:2: field "response" is null. Give the row a response.'
    )
