"""Scores in the files of Inspect and promptfoo; both took these files, in the versions of written/README.md."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import judging, robin
from tests.plugins.logs.test_logs import INSPECT, LOGS
from tests.plugins.logs.test_other_tools import RESULTS


def scores_of(run: str, folder: Path) -> dict[str, dict[str, Any]]:
    lines = robin("export", run, "--format", "jsonl", cwd=folder, exits=0).stdout.splitlines()
    return {row["pair_id"]: row for row in map(orjson.loads, lines)}


def exported(folder: Path, what: str, *more: str, exits: int = 0) -> tuple[Any, str]:
    done = robin("export", "r", "--what", what, *more, cwd=folder, exits=exits)
    return done.stdout, done.stderr


def test_writes_scores_for_inspect(replay_url: str, tmp_path: Path) -> None:
    logs = sorted(INSPECT.glob("*.eval"))
    robin(*judging(replay_url, logs[0], 9, "--run", "r"), cwd=tmp_path, exits=0)
    _, said = exported(tmp_path, "inspect", "-o", "scores.jsonl")
    assert said == "wrote scores.jsonl\n"
    lines = [orjson.loads(line) for line in (tmp_path / "scores.jsonl").read_bytes().splitlines()]
    assert [(line["id"], line["epoch"]) for line in lines] == [
        ("france", 1), ("primes", 1), ("verse/1", 1),
    ]  # fmt: skip
    scores = list(scores_of("r", tmp_path).values())
    assert [line["value"] for line in lines] == [row["score"] for row in scores]
    ratings = f"helpfulness {scores[0]['score']:.2f} ({scores[0]['n']} ratings). "
    assert lines[0]["explanation"].startswith(ratings)
    listed = robin("results", "r", "--format", "csv", cwd=tmp_path, exits=0).stdout
    assert '"inspect",3,' in listed
    assert "promptfoo" not in listed
    assert len(lines[0]["explanation"]) > len(ratings)


def test_writes_several_attributes_and_names_several_logs(replay_url: str, tmp_path: Path) -> None:
    command = judging(replay_url, INSPECT / "*.eval", 24, "--run", "r")
    command[command.index("helpfulness")] = "helpfulness,verbosity"
    robin(*command, cwd=tmp_path, exits=0)
    text, said = exported(tmp_path, "inspect")
    lines = list(map(orjson.loads, text.splitlines()))
    assert {tuple(line["value"]) for line in lines} == {("helpfulness", "verbosity")}
    assert "metrics={'helpfulness': [mean()], 'verbosity': [mean()]}" in said
    assert "lines of 2 logs (openai-api/wren/wren-small facts, openai-api/" in said
    assert {line["model"].rpartition("/")[2] for line in lines} == {"wren-small", "wren-large"}


def test_fills_scores_into_promptfoo_s_results(replay_url: str, tmp_path: Path) -> None:
    command = judging(replay_url, RESULTS, 36, "--run", "r", "--decide", "score>=3")
    robin(*command, cwd=tmp_path, exits=0)
    _, said = exported(tmp_path, "promptfoo", "-o", "filled.json")
    assert said == "wrote filled.json\n"
    before = orjson.loads(gzip.decompress(RESULTS.read_bytes()))
    after = orjson.loads((tmp_path / "filled.json").read_bytes())
    scores = scores_of("r", tmp_path)
    filled = after["results"]["results"]
    for result, old in zip(filled, before["results"]["results"], strict=True):
        row, grading = scores[result["id"]], result["gradingResult"]
        assert result["score"] == pytest.approx(row["score"] / 4)  # of 0 to 4
        assert result["success"] == grading["pass"] == (row["decision"] == "keep")
        assert result["namedScores"] == {"helpfulness": row["score"]}
        assert grading["reason"].startswith(f"helpfulness {row['score']:.2f}")
        assert grading["componentResults"][:-1] == old["gradingResult"].get("componentResults", [])
        assert result["vars"] == old["vars"]
    stats = after["results"]["stats"]
    passed = sum(result["success"] for result in filled)
    assert (stats["successes"], stats["failures"]) == (passed, 12 - passed)
    metrics = [prompt["metrics"] for prompt in after["results"]["prompts"]]
    assert sum(each["testPassCount"] for each in metrics) == passed
    assert [each["namedScoresCount"] for each in metrics] == [{"helpfulness": 3}] * 4
    assert after["config"] == before["config"]
    # robin reads what it wrote: the scores that are there are now its own.
    again = ("export", "filled.json", "--what", "summary", "--columns", "score=helpfulness")
    robin(*again, cwd=tmp_path, exits=0)


def test_keeps_what_passed_where_nothing_is_decided(replay_url: str, tmp_path: Path) -> None:
    command = judging(replay_url, RESULTS, 6, "--run", "r", "--limit", "5")
    robin(*command, cwd=tmp_path, exits=0)
    text, said = exported(tmp_path, "promptfoo")
    before = orjson.loads(gzip.decompress(RESULTS.read_bytes()))["results"]["results"]
    after = orjson.loads(text)["results"]["results"]
    assert [each["success"] for each in after] == [each["success"] for each in before]
    assert "7 of 12 results have no score, and stay as they are" in said
    assert after[5:] == before[5:]


def test_says_why_it_cannot_write_for_a_tool(replay_url: str, tmp_path: Path) -> None:
    shutil.copy(RESULTS, tmp_path / "results.json.gz")
    robin(*judging(replay_url, "results.json.gz", 12, "--run", "r"), cwd=tmp_path, exits=0)
    assert "is no sample of Inspect's; judge .eval" in exported(tmp_path, "inspect", exits=2)[1]
    assert "known formats" in exported(tmp_path, "promptfoo", "-o", "x.csv", exits=2)[1]
    assert "--labels: is for" in exported(tmp_path, "promptfoo", "--labels", "l.csv", exits=2)[1]
    (tmp_path / "results.json.gz").write_bytes(gzip.compress(b"{}"))
    assert "has changed since it was judged" in exported(tmp_path, "promptfoo", exits=2)[1]
    (tmp_path / "results.json.gz").unlink()
    assert "is not there" in exported(tmp_path, "promptfoo", exits=2)[1]


def test_says_that_data_are_not_promptfoo_s_results(replay_url: str, tmp_path: Path) -> None:
    deepeval = next((LOGS / "deepeval-2.9.7").iterdir())
    robin(*judging(replay_url, deepeval, 4, "--run", "r"), cwd=tmp_path, exits=0)
    assert "judge results.json, as promptfoo eval" in exported(tmp_path, "promptfoo", exits=2)[1]
