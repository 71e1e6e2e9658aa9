"""Logs of Inspect and lm-evaluation-harness, out of files that those tools wrote (written/README.md)."""

from __future__ import annotations

import gzip
import json
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from robin_cli.data.pairs import load_pairs
from robin_cli.data.read import opened
from robin_cli.data.rows import Row, Wanted
from robin_cli.model.errors import InputError
from tests.conftest import refuses
from tests.data.writing import as_array, as_lines, complaint, written

LOGS = Path(__file__).parent / "written"
INSPECT, UNUSUAL = LOGS / "inspect", LOGS / "inspect-unusual"
HEAD = {"task": "t", "model": "m"}
HAIKU = "Soft rain on the roof\nthe gutter hums an old tune\ntea is getting cold"
ANSWERS = {
    "wren-small": ["Paris.", "90 degrees.", "91 is prime.", "Rain."],
    "wren-large": [
        "The capital of France is Paris, on the Seine.",
        "Water boils at 100 °C at sea level.",
        "No: 91 = 7 × 13.",
        HAIKU,
    ],
}
TALK = "System: Answer in one line.\n\nUser: Hi\n\nAssistant: Hello! What would you like to know?\n\nUser: Is 91 prime?"


def rows_of(path: str | Path) -> list[Row]:
    """The rows that robin makes of a log; BadRows are raised."""
    with opened(str(path), Wanted((), logs="pairs")) as source:
        found = [row for _, row in source.table.rows]
    for row in found:
        if not isinstance(row, dict):
            raise row
    return [row for row in found if isinstance(row, dict)]


def only(folder: Path, pattern: str = "*") -> Path:
    (path,) = folder.glob(pattern)
    return path


def test_makes_pairs_of_inspect_s_samples() -> None:
    small, large = sorted(INSPECT.glob("*.eval"))
    answers = [[row["response"] for row in rows_of(path)] for path in (small, large)]
    assert answers == [
        [each[0], each[2], each[3]] for each in (ANSWERS["wren-small"], ANSWERS["wren-large"])
    ]

    france, primes, verse = rows_of(large)
    assert france.pop("id") == "openai-api/wren/wren-large/facts/france/1/PEtyoSe7"
    assert france == {
        "prompt": "What is the capital of France?", "response": ANSWERS["wren-large"][0],
        "system": "openai-api/wren/wren-large", "group": "facts/france", "task": "facts", "epoch": 1,
        "reference": "Paris", "score.includes": "C", "metadata.topic": "geography", "metadata.level": 1,
    }  # fmt: skip
    assert primes["prompt"] == TALK
    # of two right answers none is the reference
    assert (verse["group"], "reference" in verse) == ("facts/verse/1", False)
    assert [row["group"] for row in rows_of(small)] == [row["group"] for row in rows_of(large)]


def test_takes_both_models_of_inspect_without_columns() -> None:
    data = load_pairs(str(INSPECT / "*.eval"))
    assert len({pair.pair_id for pair in data.pairs}) == len(data.pairs) == 6
    assert len({pair.prompt for pair in data.pairs}) == 3
    assert [pair.reference for pair in data.pairs] == ["Paris", "No", None] * 2


def test_tells_epochs_apart_and_reads_the_json_format(tmp_path: Path) -> None:
    packed = only(UNUSUAL, "*.json.gz")
    plain = written(tmp_path, "log.json", gzip.decompress(packed.read_bytes()))
    compact = written(tmp_path, "compact.json", json.dumps(json.loads(plain.read_bytes())).encode())
    marked = written(tmp_path, "marked.json", b"\xef\xbb\xbf\n " + plain.read_bytes())
    rows = rows_of(packed)
    assert [row["epoch"] for row in rows] == [1, 2]
    assert [str(row["id"]).rpartition("/")[0] for row in rows] == [
        f"openai-api/wren/wren-small/facts/france/{epoch}" for epoch in (1, 2)
    ]
    for path in (plain, compact, marked):
        assert rows_of(path) == rows
    assert len(load_pairs(plain).pairs) == 2


def test_reads_what_older_versions_of_inspect_wrote() -> None:
    (path,) = (LOGS / "inspect-0.3.60").glob("*.eval")
    rows = rows_of(path)
    assert {row["response"] for row in rows} == {"Default output from mockllm/model"}
    assert [row["system"] for row in rows] == ["mockllm/model"] * 3
    assert len(load_pairs(path).pairs) == 3


def test_says_which_samples_cannot_be_judged_and_leaves_them_out_when_asked() -> None:
    path = only(UNUSUAL, "*.eval")
    said = complaint(path)
    assert said.startswith(
        f"{path.name}:row 2: sample calls, epoch 1: the last output calls a tool, and says nothing."
    )
    # four of six samples: leaving them out is no advice
    assert said.endswith("Let the task end in an answer.")

    data = load_pairs(path, skip_bad_rows=True)
    assert [(pair.prompt, pair.response) for pair in data.pairs] == [
        ("Which is a bird?\n\nA) Whale\nB) Wren", "B"),
        ("Say an empty text.", ""),
    ]
    assert data.left_out == {
        "nothing but a call of a tool": 1,
        "the sample failed": 1,
        "no response": 1,
        "a conversation that cannot be used": 1,
    }
    assert "ended in an error (RuntimeError('no such tool'))" in data.first_left_out[1]


def test_refuses_a_log_that_is_named_twice(tmp_path: Path) -> None:
    path = min(INSPECT.glob("*.eval"))
    again = shutil.copy(path, tmp_path / "again.eval")
    said = r"again\.eval:row 1: the id \"openai-api/wren/wren-small/facts/france…\" is also that of"
    refuses(InputError, said, load_pairs, [path, again])


def test_makes_pairs_of_lm_eval_s_samples() -> None:
    for model, answers in ANSWERS.items():
        path = only(LOGS / "lm-eval" / f"wren__{model}", "samples_*")
        rows = rows_of(path)  # two filters of each answer, and one row
        assert [row["response"] for row in rows] == answers
        assert {row["system"] for row in rows} == {f"wren/{model}"}
    path = only(LOGS / "lm-eval" / "wren__wren-large", "samples_*")
    france, *_, verse = rows_of(path)
    time = path.stem.rpartition("_")[2]
    assert france == {
        "id": f"wren/wren-large/facts/0/{time}",
        "prompt": "What is the capital of France?",  # out of the messages that the endpoint was sent
        "response": ANSWERS["wren-large"][0],
        "system": "wren/wren-large",
        "group": "facts/0",
        "task": "facts",
        "reference": "Paris",
        "score.exact_match": 0.0,
        "doc.question": "What is the capital of France?",
        "doc.answer": "Paris",
        "doc.topic": "geography",
    }
    assert "reference" not in verse
    assert len(load_pairs(str(LOGS / "lm-eval" / "*" / "samples_*.jsonl")).pairs) == 8


def test_names_the_model_after_the_results_or_else_after_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    shutil.copytree(LOGS / "lm-eval" / "wren__wren-small", folder)
    samples, results = only(folder, "samples_*"), only(folder, "results_*")
    assert rows_of(samples)[0]["system"] == "wren/wren-small"
    # as --output_path mine.json has it
    results.rename(folder / f"mine_{results.name.partition('_')[2]}")
    assert rows_of(samples)[0]["system"] == "wren/wren-small"
    for text in (b'{"model_name": 7', b"[]", b'{"model_name": null}', b"\xff"):
        only(folder, "mine_*").write_bytes(text)
        assert rows_of(samples)[0]["system"] == "my model"
    renamed = samples.rename(folder / "x.jsonl")
    row = rows_of(renamed)[0]
    assert (row["id"], row["group"], "task" in row) == ("my model/0", "0", False)
    packed = written(folder, f"{samples.name}.gz", gzip.compress(renamed.read_bytes()))
    assert rows_of(packed)[0]["task"] == "facts"
    piped = load_pairs(BytesIO(renamed.read_bytes()), called="standard input")
    assert piped.pairs[0].pair_id == "0"


def test_takes_every_answer_of_a_repeated_request() -> None:
    path = only(LOGS / "lm-eval-repeated" / "wren__wren-large", "samples_*")
    rows = rows_of(path)
    assert [str(row["id"]).rsplit("/", 3)[1:3] for row in rows] == [
        ["0", "1"],
        ["0", "2"],
        ["1", "1"],
        ["1", "2"],
    ]
    assert len(load_pairs(path).pairs) == 4


def test_says_that_likelihoods_are_no_text() -> None:
    said = complaint(
        only(next((LOGS / "lm-eval-choice").iterdir()), "samples_*"), skip_bad_rows=True
    )
    assert (
        ":1: document 0: the task asked how likely given answers are, so that the model wrote no text."
        in said
    )
    assert "output_type: generate_until" in said


def test_reads_arguments_as_older_versions_of_lm_eval_wrote_them(tmp_path: Path) -> None:
    asked = 'Q: [{"role"'
    row = {
        "doc_id": 3,
        "doc": {},
        "target": "['a', 'b']",
        "resps": [["r"]],
        "filtered_resps": ["r"],
        "acc": 1.0,
    }
    rows = [
        {**row, "arguments": [[asked, {"until": []}]]},
        {**row, "doc_id": 4, "arguments": [['[{"role": 7}', {}]]},
    ]
    (tmp_path / "m").mkdir()
    path = written(tmp_path / "m", "samples_a_b_2024-01-02T03-04-05.6.jsonl", as_lines(rows))
    assert rows_of(path)[0] == {
        "id": "m/a_b/3/2024-01-02T03-04-05.6", "prompt": asked, "response": "r", "system": "m", "group": "a_b/3", "task": "a_b",
        "score.acc": 1.0,
    }  # fmt: skip
    assert rows_of(path)[1]["prompt"] == '[{"role": 7}'


def test_takes_a_sample_as_a_row_where_columns_say_what_is_judged() -> None:
    path = min(INSPECT.glob("*.eval"))
    columns = {
        "prompt": "metadata.topic",
        "response": "messages.-1.content",
        "id": "uuid",
        "reference": "eval.task",
    }
    pairs = load_pairs(path, columns=columns, limit=2).pairs
    assert [(pair.prompt, pair.response, pair.reference) for pair in pairs] == [
        ("geography", "Paris.", "facts"),
        ("arithmetic", "91 is prime.", "facts"),
    ]
    # Any other name is one of robin's row.
    path = only(LOGS / "lm-eval" / "wren__wren-small", "samples_*")
    assert load_pairs(path, columns={"exact": "score.exact_match"}).pairs[0].human == {"exact": 1.0}


@pytest.mark.parametrize(
    "names",
    [
        ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps"),
        ("eval", "epoch", "input", "output"),
    ],
)
def test_takes_no_row_of_a_user_s_own_for_a_log(tmp_path: Path, names: tuple[str, ...]) -> None:
    row = {
        **{name: HEAD if name == "eval" else "x" for name in names},
        "prompt": "p",
        "response": "r",
    }
    for name, data in {"rows.jsonl": as_lines([row]), "rows.json": as_array([row])}.items():
        (pair,) = load_pairs(written(tmp_path, name, data)).pairs
        assert (pair.prompt, pair.response) == ("p", "r")


@pytest.mark.parametrize(
    "value",
    [
        {"eval": {"task": "t"}, "samples": [{"prompt": "p", "response": "r"}]},
        {"eval": HEAD, "samples": {}},
        {},
    ],
)
def test_takes_no_other_object_for_a_log(tmp_path: Path, value: Any) -> None:
    for indent in (None, 2):
        path = written(tmp_path, "x.json", json.dumps(value, indent=indent).encode())
        assert complaint(path).startswith("x.json: holds an object, not an array of rows.")
