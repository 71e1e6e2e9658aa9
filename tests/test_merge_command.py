"""robin merge as a user runs it: shards judged apart, over HTTP, then one run that every command reads."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

import robin_cli
from robin_cli import RobinError, open_run
from tests.conftest import DEMO, REPLAY_MODEL, judging, refuses, robin, write_pairs
from tests.judges.wire import serving
from tests.test_pairwise_runs import rows_of, saying, write_rows

PARTS = ("part-0", "part-1", "part-2")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory, replay_url: str) -> Path:
    """A folder with three runs, each on a part of the demo's pairs."""
    folder = tmp_path_factory.mktemp("shards")
    lines = (DEMO / "pairs.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for number, name in enumerate(PARTS):
        (folder / f"{name}.jsonl").write_text(
            "".join(lines[20 * number : 20 * number + 20]), encoding="utf-8"
        )
        robin(
            *judging(replay_url, f"{name}.jsonl", 100 * (number + 1), "--run", name, "--seed", "3"),
            cwd=folder,
            exits=0,
        )
    return folder


def test_makes_one_run_that_every_command_reads(
    shards: Path, tmp_path: Path, replay_url: str
) -> None:
    parts = [str(shards / name) for name in PARTS]

    done = robin("merge", *parts, "-o", "all", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines()[-1] == (
        "merged 3 runs into all: 60 pairs, 600 of 600 calls spent; next: robin status all"
    )
    status = json.loads(robin("status", "all", "--json", cwd=tmp_path).stdout)
    assert (status["state"], status["spent"], status["budget"], status["sessions"]) == (
        "finished",
        600,
        600,
        3,
    )
    exported = pd.read_csv(io.StringIO(robin("export", "all", cwd=tmp_path).stdout))
    each = [pd.read_csv(io.StringIO(robin("export", part, cwd=tmp_path).stdout)) for part in parts]
    of_parts = pd.concat(each, ignore_index=True)
    exact = [
        *("pair_id", "attribute", "score", "n", "variance", "ci_low", "ci_high", "n_unparsed"),
    ]  # the others pool over all
    pd.testing.assert_frame_equal(exported[exact], of_parts[exact])
    spent, judge = ("--budget", "600"), ("--base-url", replay_url, "--model", REPLAY_MODEL)
    for command in (
        ["report", "all"],
        ["gate", "all", "--require", "mean(helpfulness)>=0.1"],
        ["simulate", "all", "--budget", "200", "--runs", "1"],
        ["compare", "all", parts[0]],
        ["export", "all", "--what", "judgments"],
        ["plan", DEMO / "pairs.jsonl", "-a", "helpfulness", "--variances", "all", *spent, *judge],
    ):
        robin(*command, cwd=tmp_path, exits=0)
    assert robin("runs", ".", cwd=tmp_path).stdout.split()[5:7] == ["all", "finished"]


def test_goes_on_with_the_merged_run_by_its_name_and_by_its_data(
    shards: Path, tmp_path: Path, replay_url: str
) -> None:
    output = tmp_path / "all"
    robin("merge", *PARTS, "-o", output, cwd=shards, exits=0)

    robin("resume", output, "--budget", "610", cwd=shards, exits=0)
    data = [f"{name}.jsonl" for name in PARTS]
    robin(
        *judging(replay_url, data[0], 620, *data[1:], "--run", output, "--seed", "3"),
        cwd=shards,
        exits=0,
    )
    (shards / data[0]).rename(shards / "away")
    (shards / data[0]).write_text("another\n", encoding="utf-8")
    changed = robin("resume", output, "--budget", "630", cwd=shards, exits=2)
    (shards / "away").replace(shards / data[0])

    assert open_run(output).status()["spent"] == 620
    assert "part-0.jsonl: changed since this run was made" in changed.stderr


def test_says_it_as_json_and_from_python(shards: Path, tmp_path: Path) -> None:
    done = robin("merge", f"{shards}/part-*[0-9]", "-o", "all", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    assert (facts["run"], facts["pairs"], facts["judgments"], facts["budget"]) == (
        "all",
        60,
        600,
        600,
    )
    assert facts["runs"] == [str(shards / name) for name in PARTS]

    run = robin_cli.merge(
        [open_run(shards / PARTS[0]), shards / PARTS[1], str(shards / PARTS[2])], tmp_path / "here"
    )
    pd.testing.assert_frame_equal(run.scores(), open_run(tmp_path / "all").scores())
    refuses(RobinError, "exists, and is not overwritten", robin_cli.merge, [run], tmp_path / "all")


def test_refuses_other_settings_with_exit_code_2(
    shards: Path, tmp_path: Path, replay_url: str
) -> None:
    write_pairs(tmp_path / "more.jsonl", 3)
    asked = judging(
        replay_url,
        "more.jsonl",
        9,
        "--run",
        "more",
        "--temperature",
        "0.5",
        "--max-tokens",
        "99",
        "--seed",
        "4",
    )
    robin(*asked, cwd=tmp_path, exits=0)

    done = robin("merge", shards / "part-0", "more", "-o", "all", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"  temperature: 1.0 in {shards / 'part-0'}; 0.5 in more\n" in done.stderr
    assert f"  max_tokens: 1024 in {shards / 'part-0'}; 99 in more\n" in done.stderr
    assert f"  seed: 3 in {shards / 'part-0'}; 4 in more\n" in done.stderr
    assert not (tmp_path / "all").exists()


def test_merges_comparisons_of_which_parts_know_other_systems(tmp_path: Path) -> None:
    with serving(saying()) as wire:
        for name, systems in (("a", ("alpha", "beta", "gamma")), ("b", ("alpha", "beta"))):
            rows = [
                {**row, "prompt": f"{name}: {row['prompt']}", "id": f"{name}{row['id']}"}
                for row in rows_of(6, systems)
            ]
            write_rows(tmp_path / f"{name}.jsonl", rows)
            asked = [
                "judge",
                f"{name}.jsonl",
                "--pairwise",
                "-b",
                "60",
                "--base-url",
                wire.url,
                "--model",
                "m",
            ]
            done = robin(*asked, "--run", name, cwd=tmp_path, exits=0)

        done = robin("merge", "a", "b", "-o", "all", cwd=tmp_path, exits=0)
        assert "scheduler: tournament; the runs have different ones" in done.stderr
        robin("resume", "all", "-b", "150", cwd=tmp_path, exits=0)

    run = open_run(tmp_path / "all")
    assert len(run.scores()) == 6 * 3 + 6
    assert list(run.ranking()["system"]) == ["alpha", "beta", "gamma"]
    assert run.status()["spent"] == 150
