"""Logs that are damaged, or made to do harm."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data.pairs import load_pairs
from tests.data.test_any_data import refuses_or_reads
from tests.data.writing import complaint, written
from tests.plugins.logs.test_logs import INSPECT, UNUSUAL, only, rows_of

HEAD = {"eval": {"task": "t", "model": "m", "eval_id": "e"}}
GENUINE = min(INSPECT.glob("*.eval")).read_bytes()


def sample(**more: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "input": "q", "target": "", "output": {"completion": "a"}, **more}


Members = Iterable[tuple[str, object]]


def zipped(members: Members, head: object = HEAD, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, value in [*([("header.json", head)] if head else []), *members]:
            archive.writestr(
                zipfile.ZipInfo(name),
                value if isinstance(value, bytes) else json.dumps(value),
                method,
            )
    return sink.getvalue()


def log(folder: Path, *members: tuple[str, object], **how: Any) -> Path:
    return written(folder, "x.eval", zipped(members, **how))


ONE = ("samples/1_epoch_1.json", sample())


def test_reads_members_by_every_method_that_inspect_packs_by(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert rows_of(log(tmp_path, ONE, method=method))[0]["response"] == "a"
    assert b"\x5d\x00" in GENUINE[:40]  # 93, Zstandard
    said = complaint(log(tmp_path, ONE, method=zipfile.ZIP_BZIP2))
    assert said.startswith(
        "x.eval: header.json is damaged (packed by method 12, which robin does not know). Copy the log"
    )
    assert said.endswith("inspect log convert")


def test_sorts_samples_by_epoch_and_number(tmp_path: Path) -> None:
    ids = [(10, 1), (9, 1), ("b/epoch_1", 1), ("a", 2), (1, 2)]
    path = log(
        tmp_path,
        *((f"samples/{n}_epoch_{epoch}.json", sample(id=n, epoch=epoch)) for n, epoch in ids),
    )
    assert [str(row["id"]).removeprefix("m/t/").removesuffix("/e") for row in rows_of(path)] == [
        "9/1", "10/1", "b/epoch_1/1", "1/2", "a/2"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "head", "said"),
    [
        (
            [],
            HEAD,
            "x.eval: the log holds no samples. Run the evaluation to its end, and without --no-log-samples.",
        ),
        (
            [ONE],
            None,
            "x.eval: a zip file, but no log of Inspect: no header.json in it says which task and model",
        ),
        ([("word/document.xml", b"<x>")], None, "x.eval: a zip file, but no log of Inspect"),
        ([ONE], [], "x.eval: a zip file, but no log of Inspect"),
        ([ONE], {"eval": 7}, "x.eval: a zip file, but no log of Inspect"),
        ([ONE], {"eval": {"model": "m"}}, 'x.eval:row 1: no field "prompt" or "response"'),
        ([ONE], b"{", "x.eval: header.json: not valid JSON"),
        (
            [("samples/1_epoch_1.json", b"[]")],
            HEAD,
            "x.eval:row 1: samples/1_epoch_1.json is no sample.",
        ),
        (
            [("samples/1_epoch_1.json", b"{")],
            HEAD,
            "x.eval:row 1: samples/1_epoch_1.json: not valid JSON",
        ),
        (
            [("samples/1_epoch_1.json", b"\xff")],
            HEAD,
            "x.eval:row 1: samples/1_epoch_1.json: byte 0xFF at offset 0",
        ),
        (
            [("samples/1_epoch_1.json", b"[" * 9999)],
            HEAD,
            "x.eval:row 1: samples/1_epoch_1.json: not ",
        ),
        (
            [ONE, ("samples/2_epoch_1.json", {"id": 2})],
            HEAD,
            "x.eval:row 2: is not a sample, as the rows before it are.",
        ),
    ],
)
def test_says_what_is_wrong_with_a_log(
    tmp_path: Path, members: Members, head: object, said: str
) -> None:
    assert complaint(log(tmp_path, *members, head=head)).startswith(said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"input": None}, "the input of sample 1, epoch 1 is null, no text and no conversation."),
        ({"input": []}, "the input of sample 1, epoch 1 is a list"),
        ({"input": [7]}, "message 1 of the input of sample 1, epoch 1 is a number"),
        ({"output": None}, "sample 1, epoch 1: has no output of the model."),
        ({"output": {"choices": [{"message": {"content": {}}}]}}, "sample 1, epoch 1: has no output of the model."),
        ({"output": {"completion": "attachment://x"}}, "sample 1, epoch 1: refers to attachment://x, which the log does not"),
        ({"error": {"message": "\x1b[31m" * 99}}, "sample 1, epoch 1: ended in an error (\\x1b[31m"),
        ({"error": 7, "id": [[]], "epoch": {}}, "sample , epoch : ended in an error (without a message)."),
        ({"output": {"completion": "\ud83d"}}, 'field "response" holds half of a surrogate pair'),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_a_sample(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    path = log(tmp_path, (ONE[0], sample(**more)))
    assert complaint(path).startswith(f"x.eval:row 1: {said}")
    assert complaint(path).isprintable()


def test_takes_a_log_that_broke_off(tmp_path: Path) -> None:
    path = log(tmp_path, ("_journal/start.json", {**HEAD, "version": 2}), ONE, head=None)
    assert rows_of(path)[0]["id"] == "m/t/1/1/e"


def test_resolves_what_a_sample_keeps_among_its_attachments(tmp_path: Path) -> None:
    content = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "attachment://q"}]
    answer = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "attachment://a"}]
    kept = {"q": "Long question?", "a": "Long answer.", "t": "Right."}
    asked = [{"role": "user", "content": content}]
    found = sample(
        input=asked,
        output={"choices": [{"message": {"content": answer}}]},
        target=["attachment://t"],
    )
    (row,) = rows_of(log(tmp_path, (ONE[0], {**found, "attachments": kept})))
    assert (row["prompt"], row["response"], row["reference"]) == (
        "Long question?",
        "Long answer.",
        "Right.",
    )


def test_reads_samples_that_were_made_chunked(tmp_path: Path) -> None:
    part = "samples/a/b_epoch_1"
    members: dict[str, object] = {
        f"{part}/sample.json": sample(
            id="a/b", input="attachment://2", output={"completion": "attachment://0"}
        ),
        f"{part}/metadata.json": {"topic": "birds"},
        f"{part}/attachments/0.json": ["zero", "one"],
        f"{part}/attachments/2.json": ["two"],
        f"{part}/events/0.json": [],
        f"{part}/messages/0.json": [],
    }
    (row,) = rows_of(log(tmp_path, *members.items()))
    assert (row["prompt"], row["response"], row["metadata.topic"]) == ("two", "zero", "birds")


def test_writes_out_the_tools_that_were_called_before(tmp_path: Path) -> None:
    call = {"id": "c", "function": "search", "arguments": {"query": "wrens"}, "type": "function"}
    asked = [
        {"role": "user", "content": "Find."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "None."},
    ]
    (row,) = rows_of(log(tmp_path, (ONE[0], sample(input=asked))))
    assert (
        row["prompt"]
        == 'User: Find.\n\nAssistant: [calls search({"query":"wrens"})]\n\nTool: None.'
    )


@given(data=st.data())
def test_meets_any_damage_to_a_log_with_an_input_error_or_pairs(data: st.DataObject) -> None:
    damaged = bytearray(GENUINE)
    for _ in range(data.draw(st.integers(1, 6))):
        ends = st.one_of(
            st.integers(0, len(GENUINE) - 1), st.integers(len(GENUINE) - 1200, len(GENUINE) - 1)
        )
        damaged[data.draw(ends)] = data.draw(st.integers(0, 255))
    refuses_or_reads("x.eval", bytes(damaged))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.just("attachment://a")
    | st.just("{1: {2: 'a'}}"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "text", "type", "message", "choices", "completion", "value"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)
KEYS = {
    "eval": ["id", "epoch", "input", "output", "target", "choices", "scores", "metadata", "error", "uuid", "attachments"],
    "lm": ["doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "acc"],
    "promptfoo": ["id", "provider", "vars", "success", "response", "score", "namedScores", "testIdx", "promptId", "testCase"],
    "deepeval": ["name", "input", "success", "order", "actualOutput", "expectedOutput", "metricsData", "hyperparameters"],
    "mlflow": ["trace_id", "request", "response", "good/value", "expected_response/value"],
}  # fmt: skip


@pytest.mark.parametrize("tool", KEYS)
@given(data=st.data())
def test_meets_any_values_in_a_sample_with_an_input_error_or_pairs(
    tool: str, data: st.DataObject
) -> None:
    row = {name: data.draw(JSON) for name in KEYS[tool]}
    if tool == "eval":
        row |= HEAD
    if tool == "promptfoo":
        row["prompt"] = {"raw": data.draw(JSON)}
    refuses_or_reads("samples_t_2024-01-01T00.jsonl", json.dumps(row).encode() + b"\n")


def test_says_where_a_json_log_breaks_off(tmp_path: Path) -> None:
    whole = gzip.decompress(only(UNUSUAL, "*.json.gz").read_bytes())
    torn = written(tmp_path, "torn.json", whole[: len(whole) // 2])
    said = complaint(torn)
    assert said.startswith(
        f"torn.json:{whole[: len(whole) // 2].count(bytes([10])) + 1}: not valid JSON"
    )
    path = written(tmp_path, "odd.json", json.dumps({**HEAD, "samples": [7, sample()]}).encode())
    assert complaint(path).startswith("odd.json:row 1: the row is a number, not an object.")
    assert len(load_pairs(path, skip_bad_rows=True).pairs) == 1


def test_names_a_log_that_is_compressed_or_misnamed(tmp_path: Path) -> None:
    assert "the format is not known by this name" in complaint(
        written(tmp_path, "x.eval.gz", b"\x1f\x8b")
    )
    assert complaint(written(tmp_path, "x.json", GENUINE)).startswith(
        "x.json: the name says text, but the file is a zip"
    )
    data = load_pairs(io.BytesIO(GENUINE), called="standard input")
    assert len(data.pairs) == 3
