"""Results of promptfoo, DeepEval and MLflow, in files that those tools wrote (written/README.md)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from robin_cli.data.pairs import load_pairs
from robin_cli.data.read import opened
from robin_cli.data.rows import BadRow, Row, Wanted
from tests.conftest import robin
from tests.data.writing import as_array, complaint, written
from tests.plugins.logs.test_logs import HAIKU, LOGS, only, rows_of

RESULTS = LOGS / "promptfoo" / "results.json.gz"
PARIS = "The capital of France is Paris, on the Seine."
FRANCE = "What is the capital of France?"


def results() -> list[Row]:
    found: list[Row] = json.loads(gzip.decompress(RESULTS.read_bytes()))["results"]["results"]
    return found


def scored(path: Path) -> list[Row | BadRow]:
    with opened(str(path), Wanted((), others=True, logs="scores")) as source:
        return [row for _, row in source.table.rows]


def test_makes_pairs_of_promptfoo_s_results() -> None:
    rows = rows_of(RESULTS)
    assert rows == rows_of(LOGS / "promptfoo" / "results.jsonl.gz")
    assert rows[2] == {
        "id": results()[2]["id"], "prompt": FRANCE, "response": PARIS, "system": "large", "group": "0/capital",
        "vars.question": FRANCE, "vars.topic": "geography", "score.score": 1, "score.pass": True,
    }  # fmt: skip
    assert {row["system"] for row in rows} == {"wren:wren-small", "large"}
    pairs = load_pairs(RESULTS).pairs
    assert len(pairs) == 12
    assert pairs[1].prompt == f"System: Answer in one line.\n\nUser: {FRANCE}"


def test_reads_promptfoo_s_results_of_other_kinds(tmp_path: Path) -> None:
    result = results()[0]
    failed = {**result, "id": "f", "response": None, "error": "429", "success": False}
    lists = {**result, "id": "l", "response": {"output": {"city": "Paris"}}}
    older = {name: result[name] for name in ("prompt", "vars", "response", "success", "score")}
    path = written(
        tmp_path, "r.json", as_array([failed, lists, {**older, "provider": "openai:gpt"}])
    )
    assert complaint(path, limit=1).startswith(
        "r.json:row 1: test 0 of wren:wren-small: has no output (429). Run it again"
    )
    data = load_pairs(path, skip_bad_rows=True)
    assert [pair.response for pair in data.pairs] == ['{"city": "Paris"}', "Paris."]
    assert data.pairs[1].columns["system"] == "openai:gpt"
    assert data.left_out == {"no response": 1}


def test_makes_pairs_of_deepeval_s_test_cases() -> None:
    path = only(LOGS / "deepeval", "test_run*.json")
    rows = rows_of(path)
    assert rows[1] == {
        "id": "wren-small/prime/1", "prompt": "Is 91 prime?", "response": "91 is prime.", "system": "wren-small",
        "reference": "No.", "score.Exact Match": 0.0, "score.Length": 0.6, "metadata.topic": "prime", "metadata.level": 1,
    }  # fmt: skip
    (older,) = (rows_of(each)[1] for each in (LOGS / "deepeval-2.9.7").iterdir())
    assert older == {name: rows[1][name] for name in rows[1] if name != "score.Exact Match"}
    # The last run, under a member of its own; without an expected output.
    (verse,) = load_pairs(LOGS / "deepeval" / "latest_test_run.json").pairs
    assert (verse.response, verse.reference) == (HAIKU, None)


def test_reads_deepeval_s_test_cases_without_a_model_or_an_answer(tmp_path: Path) -> None:
    case = {"name": "a", "input": "Hi", "success": True, "order": 0, "metricsData": None}
    runs = {"testCases": [{**case, "actualOutput": "Hello"}, {**case, "order": 1}]}
    path = written(tmp_path, "run.json", json.dumps(runs).encode())
    data = load_pairs(path, skip_bad_rows=True)
    assert [(pair.pair_id, pair.columns) for pair in data.pairs] == [("a/0", {})]
    assert data.left_out == {"no response": 1}


@pytest.mark.parametrize("name", ["eval_results.csv.gz", "eval_results.parquet"])
def test_makes_pairs_of_mlflow_s_table(name: str) -> None:
    first, prime, verse = rows_of(LOGS / "mlflow" / name)
    assert str(first["id"]).startswith("tr-")
    assert [row["prompt"] for row in (first, prime)] == [FRANCE, "Is 91 prime?"]
    assert (prime["response"], prime["reference"]) == ("91 is prime.", "No.")
    assert float(str(prime["score.length"])) == 12.0
    assert str(prime["score.exact"]) == "False"
    assert verse["response"] == HAIKU
    assert not {"reference", "score.expected_response"} & verse.keys()


def test_makes_pairs_of_the_table_of_mlflow_s_models_evaluate() -> None:
    france, *_ = rows_of(LOGS / "mlflow" / "eval_results_table.csv")
    assert france == {
        "prompt": FRANCE, "response": "Paris.", "reference": "Paris.", "score.length": "6",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "response", "pair"),
    [
        ({"messages": [{"role": "user", "content": "Hi"}]}, "Hello", ("Hi", "Hello")),
        ({"question": "Q", "context": ["C"]}, "[1, 2]", ('question: Q\ncontext: ["C"]', "[1, 2]")),
        ("Hi", {"choices": [{"message": {"content": "Hello"}}]}, ("Hi", "Hello")),
        ("Hi", {"city": "Paris"}, ("Hi", "{'city': 'Paris'}")),
    ],
)
def test_reads_mlflow_s_objects_as_csv_holds_them(
    tmp_path: Path, request_: object, response: object, pair: tuple[str, str]
) -> None:
    import pandas as pd

    frame = pd.DataFrame([{"request": request_, "response": response, "good/value": "yes"}])
    frame.to_csv(tmp_path / "t.csv", index=False)
    (row,) = rows_of(tmp_path / "t.csv")
    assert (row["prompt"], row["response"], row["score.good"]) == (*pair, 1)


def test_matches_samples_of_several_systems_by_their_scores() -> None:
    ids = [row["id"] for row in scored(RESULTS) if isinstance(row, dict)]
    assert ids[:4] == ["0/capital/d3bcaf71", "0/capital/1882ea9c"] * 2
    for path in (only(LOGS / "deepeval", "test_run*"), LOGS / "mlflow" / "eval_results.parquet"):
        assert not any(isinstance(row, BadRow) or "id" in row for row in scored(path))


def test_compares_systems_by_the_scores_that_are_there(tmp_path: Path) -> None:
    done = robin(
        "compare", RESULTS, "--by", "system", "--columns", "score=pass", cwd=tmp_path, exits=0
    )
    assert "large" in done.stdout
    done = robin(
        *("export", LOGS / "mlflow" / "eval_results.csv.gz", "--what", "summary"),
        *("--columns", "score=exact|length", "--format", "csv"),
        cwd=tmp_path,
        exits=0,
    )
    assert "length" in done.stdout


def test_takes_a_table_with_a_prompt_and_a_response_as_it_is(tmp_path: Path) -> None:
    table = b"prompt,response,inputs,outputs,good/score\np,r,i,o,1\n"
    (pair,) = load_pairs(written(tmp_path, "t.csv", table)).pairs
    assert (pair.prompt, pair.columns["good/score"]) == ("p", "1")
