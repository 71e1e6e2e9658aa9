"""Shards made into one run: the same numbers as one run with the same judgments, or a refusal that says why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.analysis.scores import score
from robin_cli.model.errors import InputError, RobinError, RunError, StorageError
from robin_cli.model.records import Judgment, Pair
from robin_cli.runner.merging import merge_runs
from robin_cli.storage import rescue
from robin_cli.storage.batches import Calls, Ledger, Submission
from robin_cli.storage.journal import lines_of
from robin_cli.storage.layout import segment_count
from robin_cli.storage.locking import left_alone
from robin_cli.storage.manifest import read_manifest
from robin_cli.storage.pair_files import read_column_names, read_columns
from robin_cli.storage.reader import read_run
from robin_cli.storage.schema import JUDGMENTS
from robin_cli.storage.snapshot import read_snapshot
from robin_cli.storage.store import RunStore
from robin_cli.views.status import status_of
from tests.conftest import ROOT, environment, has
from tests.storage.test_runs_of_versions import MADE, RUNS
from tests.storage.test_store import SETTINGS, judgment, manifest

PAIRS = [
    Pair(f"p{k}", f"prompt {k // 2}", f"response {k}", {"helpfulness": float(k % 5)})
    for k in range(8)
]


def answers(count: int, pairs: Sequence[Pair] = PAIRS) -> list[Judgment]:
    """So many answers, every third without a rating, on ``pairs`` in turn."""
    made = [judgment(k, status="unparsed" if k % 3 == 2 else "ok", pair=0) for k in range(count)]
    return [
        replace(each, pair_id=pairs[k % len(pairs)].pair_id, draw=k // len(pairs))
        for k, each in enumerate(made)
    ]


def shard(
    path: Path, pairs: Sequence[Pair] = PAIRS, judgments: Iterable[Judgment] = (), **change: Any
) -> Path:
    """A run over ``pairs``; its answers come in several sessions, and so lie in several segments."""
    data = {"source": f"{path.name}.jsonl", "sha256": path.name, "pairs": len(pairs), "skipped": 0}
    of_run = {key: change[key] for key in change if key != "variances"}
    found = [each for each in judgments if each.pair_id in {pair.pair_id for pair in pairs}]
    made = manifest(**{"budget": max(len(pairs), len(found)), "data": data, **of_run})
    with RunStore.create(path, made, pairs, change.get("variances")) as store:
        store.append(found[: len(found) // 2])
    with RunStore.open(path) as store:
        store.append(found[len(found) // 2 :])
    return path


def two(folder: Path, **change: Any) -> list[Path]:
    """Two shards; ``change`` is what is different of the second one."""
    return [
        shard(folder / "a", PAIRS[:3], answers(20)),
        shard(folder / "b", PAIRS[3:], answers(20), **change),
    ]


def judged(run: Path) -> list[dict[str, Any]]:
    """All judgments, by arm and draw."""
    rows: list[dict[str, Any]] = read_run(run, JUDGMENTS.names).judgments.to_pylist()
    return sorted(
        rows, key=lambda row: (row["pair_id"], row["attribute"], row["judge"], row["draw"])
    )


@settings(max_examples=6)
@given(
    st.lists(st.integers(0, 2), min_size=len(PAIRS), max_size=len(PAIRS)),
    st.integers(0, 60),
    st.permutations(range(3)),
)
def test_has_the_scores_of_one_run_however_the_pairs_were_split(
    tmp_path_factory: pytest.TempPathFactory, part_of: list[int], count: int, order: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("split")
    parts = [
        [pair for pair, part in zip(PAIRS, part_of, strict=True) if part == number]
        for number in order
    ]
    everything = [pair for part in parts for pair in part]
    shards = [shard(folder / f"s{k}", part, answers(count)) for k, part in enumerate(parts) if part]
    whole = shard(folder / "whole", everything, answers(count), budget=max(len(PAIRS), count))

    made = merge_runs(shards, folder / "all")

    run, of_one = read_run(folder / "all"), read_run(whole)
    assert list(run.pairs) == list(of_one.pairs) == everything
    for table, same in (
        (score(run), score(of_one)),
        (score(run, by_judge=True), score(of_one, by_judge=True)),
    ):
        assert table.columns.keys() == same.columns.keys()
        for name, values in table.columns.items():
            if isinstance(values, np.ndarray) and values.dtype.kind == "f":
                np.testing.assert_allclose(values, np.asarray(same.columns[name]), rtol=1e-12)
            else:
                assert list(values) == list(same.columns[name]), name
    assert judged(folder / "all") == judged(whole)
    assert (made.pairs, made.judgments, made.spent) == (len(PAIRS), count, count)


def test_is_a_run_as_any_other_with_the_budget_of_all(tmp_path: Path) -> None:
    runs = two(tmp_path)
    before = {each: each.read_bytes() for run in runs for each in run.rglob("*") if each.is_file()}

    made = merge_runs(runs, tmp_path / "new" / "all")

    run = made.path
    found, each = read_manifest(run), [read_manifest(run) for run in runs]
    assert found.budget == sum(manifest.budget for manifest in each) == made.budget
    assert (found.data["source"], found.data["pairs"]) == ("a.jsonl, b.jsonl", 8)
    assert [entry["run"] for entry in found.data["shards"]] == [str(path) for path in runs]
    assert len({manifest.run_id for manifest in (found, *each)}) == 3
    snapshot = read_snapshot(run, read_run(run).space, found.run_id)
    assert snapshot is not None
    assert snapshot[1] == segment_count(run) > 0  # no segment is read again when it goes on
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "new"]
    assert sorted(path.name for path in run.parent.iterdir()) == ["all"]
    assert {path: path.read_bytes() for path in before} == before  # the shards stay as they were
    assert sorted(path.name for path in runs[0].iterdir()) == sorted(
        {path.relative_to(runs[0]).parts[0] for path in before if runs[0] in path.parents}
    )
    if os.name != "nt":
        assert run.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o077 for path in run.rglob("*") if path.is_file()} == {0}


def test_goes_on_with_what_is_left_of_all_budgets(tmp_path: Path) -> None:
    runs = [
        shard(tmp_path / "a", PAIRS[:3], answers(20), budget=30),
        shard(tmp_path / "b", PAIRS[3:], answers(20)),
    ]

    made = merge_runs(runs, tmp_path / "all")

    assert [
        note
        for note in made.notes
        if note.startswith(f"{tmp_path / 'a'}: is not finished, 9 of 30 calls")
    ]
    assert status_of(tmp_path / "all").facts["state"] == "stopped"
    with RunStore.open(tmp_path / "all") as store:
        store.append([replace(judgment(0, pair=0), draw=99, request_id="more")])
    assert len(read_run(tmp_path / "all").judgments) == 21
    assert read_run(tmp_path / "all").fold.arms.spent == 21


def test_merges_what_was_merged_before(tmp_path: Path) -> None:
    runs = [
        shard(tmp_path / name, [pair], answers(24))
        for name, pair in zip("abc", PAIRS, strict=False)
    ]
    merge_runs(runs[:2], tmp_path / "ab")
    merge_runs([tmp_path / "ab", runs[2]], tmp_path / "abc")
    merge_runs(runs, tmp_path / "at once")

    assert judged(tmp_path / "abc") == judged(tmp_path / "at once")
    both = [read_manifest(tmp_path / name) for name in ("abc", "at once")]
    assert both[0].data["sha256"] == both[1].data["sha256"]
    assert both[0].data["files"] == both[1].data["files"]


def test_takes_the_journal_of_a_shard_that_was_killed(tmp_path: Path) -> None:
    runs = two(tmp_path)
    with (runs[0] / "journal.jsonl").open("ab") as journal:
        journal.write(
            lines_of([replace(judgment(1, pair=0), draw=50, request_id="in the journal")])
            + b'{"torn'
        )

    merge_runs(runs, tmp_path / "all")

    assert (
        "in the journal"
        in read_run(tmp_path / "all", JUDGMENTS.names).judgments["request_id"].to_pylist()
    )
    assert (runs[0] / "journal.jsonl").read_bytes().endswith(b'{"torn')


def test_has_one_column_for_values_that_shards_keep_with_different_types(tmp_path: Path) -> None:
    values: list[list[Any]] = [[1, 2, True, "x"], [0.5, "two", 3, None], [4, 5, False, "y"]]
    pairs = [
        replace(
            pair,
            columns={
                name: value for name, value in zip("wxyz", row, strict=True) if value is not None
            },
        )
        for pair, row in zip(PAIRS, values, strict=False)
    ]
    runs = [shard(tmp_path / f"s{k}", [pair]) for k, pair in enumerate(pairs)]
    whole = shard(tmp_path / "whole", pairs)

    merge_runs(runs, tmp_path / "all")

    assert read_columns(tmp_path / "all").equals(read_columns(whole))
    assert read_columns(tmp_path / "all").to_pylist() == [
        {"w": 1.0, "x": "2", "y": "true", "z": "x"},
        {"w": 0.5, "x": "two", "y": "3", "z": None},
        {"w": 4.0, "x": "5", "y": "false", "z": "y"},
    ]


def test_keeps_references_and_human_ratings_that_some_pairs_have(tmp_path: Path) -> None:
    pairs = [
        replace(PAIRS[0], reference="so"),
        replace(PAIRS[1], human={"tone": 1.0}),
        replace(PAIRS[2], human={}),
    ]
    runs = [shard(tmp_path / f"s{k}", [pair]) for k, pair in enumerate(pairs)]

    merge_runs(runs, tmp_path / "all")

    assert list(read_run(tmp_path / "all").pairs) == pairs
    assert read_column_names(tmp_path / "all") == []


def test_begins_with_the_variances_that_the_shards_began_with(tmp_path: Path) -> None:
    own = {**SETTINGS, "variances": "runs/a"}, {**SETTINGS, "variances": "runs/b"}
    first = shard(tmp_path / "a", PAIRS[:3], settings=own[0], variances=np.array([1.0, 2.0, 3.0]))
    second = shard(tmp_path / "b", PAIRS[3:], settings=own[1], variances=np.arange(5.0))

    merge_runs([first, second], tmp_path / "all")

    with RunStore.open(tmp_path / "all") as store:
        assert store.variances is not None
        assert store.variances.tolist() == [1, 2, 3, 0, 1, 2, 3, 4]
    assert read_manifest(tmp_path / "all").settings["variances"] == "runs/a, runs/b"


SESSION: dict[str, Any] = {
    "started_at": "2026-01-01T00:00:00+00:00",
    "base_url": ["http://one/v1"],
    "model": ["m"],
}
SESSION |= {"max_cost": 5.0, "in_flight": 2}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, {"max_cost": 10.0, "in_flight": 4, "target_error": None}),
        ({"max_cost": None}, {"max_cost": None}),
        ({"in_flight": None}, {"in_flight": None}),
        ({"target_error": 0.3}, {"target_error": None}),
        (
            {"started_at": "2026-02-02T00:00:00+00:00", "base_url": ["http://two/v1"]},
            {"base_url": ["http://two/v1"]},
        ),
        (
            {"started_at": "2025-02-02T00:00:00+00:00", "base_url": ["http://two/v1"]},
            {"base_url": ["http://one/v1"]},
        ),
    ],
)
def test_is_left_where_the_shards_were_left(
    tmp_path: Path, change: dict[str, Any], wanted: dict[str, Any]
) -> None:
    runs = [
        shard(tmp_path / "a", PAIRS[:3], sessions=(SESSION,)),
        shard(tmp_path / "b", PAIRS[3:], sessions=({**SESSION, **change},)),
    ]

    made = merge_runs(runs, tmp_path / "all")

    last = read_manifest(tmp_path / "all").sessions[-1]
    assert len(read_manifest(tmp_path / "all").sessions) == 2
    assert {name: last.get(name) for name in wanted} == wanted
    assert any("--max-cost" in note for note in made.notes) == ("max_cost" in change)
    assert any("--target-error" in note for note in made.notes) == ("target_error" in change)


@pytest.mark.parametrize("reached", [(True, True), (True, False)])
def test_adds_budgets_of_money_up(tmp_path: Path, reached: tuple[bool, bool]) -> None:
    runs = []
    for name, pairs, money, is_reached in zip(
        "ab", (PAIRS[:3], PAIRS[3:]), (0.1, 0.2), reached, strict=True
    ):
        session = {**SESSION, "budget_usd_reached": money} if is_reached else SESSION
        runs.append(
            shard(
                tmp_path / name, pairs, answers(20), budget_usd=money, sessions=(session,), format=2
            )
        )

    merge_runs(runs, tmp_path / "all")

    found = read_manifest(tmp_path / "all")
    assert found.budget_usd == 0.1 + 0.2
    assert found.money_reached == all(reached)
    assert status_of(tmp_path / "all").facts["state"] == ("finished" if all(reached) else "stopped")


@pytest.mark.parametrize("name", [name for name in RUNS if name.startswith("0.1.0")])
def test_merges_what_an_earlier_version_made(tmp_path: Path, name: str) -> None:
    old = Path(shutil.copytree(MADE / name, tmp_path / "old"))
    with RunStore.open(Path(shutil.copytree(MADE / name, tmp_path / "copy"))) as store:
        manifest, pairs = (
            store.manifest,
            [replace(pair, pair_id=f"new {k}") for k, pair in enumerate(store.pairs)],
        )
    own = replace(manifest, data={**manifest.data, "source": "new.jsonl", "sha256": "new"})
    with RunStore.create(tmp_path / "new", own, pairs) as store:
        store.append([replace(judgment(0), pair_id="new 0", judge=manifest.judges[0])])

    made = merge_runs([old, tmp_path / "new"], tmp_path / "all")

    assert made.judgments == RUNS[name] + 1
    assert read_manifest(tmp_path / "all").format == manifest.format
    assert status_of(tmp_path / "all").facts["spent"] == RUNS[name] + 1


# What is refused.


def refused(runs: Sequence[str | Path], output: Path, kind: type[RobinError] = InputError) -> str:
    """What is said; nothing is made."""
    before = sorted(output.parent.rglob("*"))
    with pytest.raises(kind) as said:
        merge_runs(runs, output)
    assert sorted(output.parent.rglob("*")) == before
    assert type(said.value) is kind
    return str(said.value)


RUBRIC = {"attribute": "helpfulness", "title": "Help", "scale": {"low": 0, "high": 4}}
TEMPLATE = "{% block user %}{{ instruction }} {{ response }} {{ rubric }}{% endblock %}"


def prompted(template: str = TEMPLATE, first: str = "none") -> dict[str, Any]:
    """The prompt of a manifest."""
    from robin_cli.questions.rubrics import PromptSet

    levels = [[str(k), first if k == 0 else f"level {k}"] for k in range(5)]
    record = {"template": template, "rubrics": [{**RUBRIC, "levels": levels}]}
    return {**record, "sha256": PromptSet.from_record(record).sha256}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": {**SETTINGS, "temperature": 0.7}}, ["temperature: 1.0 in A; 0.7 in B"]),
        (
            {"settings": {**SETTINGS, "temperature": 0.7, "max_tokens": 8, "answers": "logprobs"}},
            [
                "temperature: 1.0 in A; 0.7 in B",
                "max_tokens: 9 in A; 8 in B",
                "answers: text in A; logprobs in B",
            ],
        ),
        ({"settings": {**SETTINGS, "model": "n"}}, ["model: m in A; n in B"]),
        (
            {"settings": {**SETTINGS, "scheduler": "robin-hood"}},
            ["scheduler: uniform in A; robin-hood in B"],
        ),
        (
            {"settings": {**SETTINGS, "objective": "mean-error"}},
            ["objective: worst-case in A; mean-error in B"],
        ),
        ({"settings": {**SETTINGS, "decide": "score>=3"}}, ["decide: none in A; score>=3 in B"]),
        (
            {"settings": {**SETTINGS, "extra_body": {"top_k": 4}}},
            ["extra_body: {} in A; {'top_k': 4} in B"],
        ),
        ({"seed": 7}, ["seed: none in A; 7 in B"]),
        ({"attributes": ("correctness",)}, ["attributes: helpfulness in A; correctness in B"]),
        ({"scale": (0, 5)}, ["scale of helpfulness: 0-4 in A; 0-5 in B"]),
        ({"prompt": {"sha256": "2"}}, ["prompt (SHA-256): 1 in A; 2 in B"]),
        ({"budget_usd": 3.0, "format": 2}, ["budget: judge calls in A; US dollars in B"]),
        (
            {"settings": {**SETTINGS, "variances": "x"}},
            ["variances: none to begin with in A; an earlier run's in B"],
        ),
    ],
)
def test_refuses_runs_by_each_setting_that_differs(
    tmp_path: Path, change: dict[str, Any], said: list[str]
) -> None:
    first = shard(tmp_path / "a", PAIRS[:3])
    second = shard(tmp_path / "b", PAIRS[3:], **change)

    told = refused([first, second], tmp_path / "all")

    lines = [
        line.strip().replace(str(first), "A").replace(str(second), "B")
        for line in told.splitlines()
    ]
    assert sorted(lines[1:-1]) == sorted(said)
    assert "same settings" in lines[-1]


def test_names_all_runs_that_have_a_value_in_one_line(tmp_path: Path) -> None:
    runs = [
        shard(tmp_path / f"s{k}", [pair], settings={**SETTINGS, "top_p": 0.5 if k % 3 else 1.0})
        for k, pair in enumerate(PAIRS)
    ]

    told = refused(runs, tmp_path / "all").splitlines()

    assert len(told) == 3
    assert (
        told[1].replace(f"{tmp_path}/", "")
        == "  top_p: 1.0 in s0, s3, s6; 0.5 in s1, s2, s4, s5 and 1 more"
    )


def test_says_which_words_of_the_question_differ(tmp_path: Path) -> None:
    first = shard(tmp_path / "a", PAIRS[:3], prompt=prompted())
    rubric = shard(tmp_path / "b", PAIRS[3:5], prompt=prompted(first="bad"))
    template = shard(
        tmp_path / "c",
        PAIRS[5:],
        prompt=prompted("{% block user %}{{ response }} {{ rubric }}{% endblock %}"),
    )
    again = shard(
        tmp_path / "d", PAIRS[5:], prompt={**prompted(), "rubric_files": ["elsewhere/mine.toml"]}
    )

    assert "rubric of helpfulness: " in refused([first, rubric], tmp_path / "all")
    told = refused([first, template], tmp_path / "all")
    assert "template: " in told
    assert "rubric of" not in told
    assert merge_runs([first, again], tmp_path / "all").pairs == 6


def test_refuses_a_shard_whose_own_copy_of_the_question_was_changed(tmp_path: Path) -> None:
    first = shard(tmp_path / "a", PAIRS[:3], prompt=prompted())
    second = shard(
        tmp_path / "b", PAIRS[3:], prompt={**prompted(first="bad"), "sha256": prompted()["sha256"]}
    )

    assert "its template and rubrics are not those" in refused(
        [first, second], tmp_path / "all", RunError
    )


def test_lets_differ_what_is_of_a_session_or_of_the_part(tmp_path: Path) -> None:
    settings_of_b = {
        **SETTINGS,
        "limit": 5,
        "base_url": ["http://elsewhere/v1"],
        "model": "m@http://elsewhere/v1",
    }
    runs = two(
        tmp_path, settings=settings_of_b, budget=77, sessions=({**SESSION, "concurrency": "3"},)
    )

    merge_runs(runs, tmp_path / "all")

    found = read_manifest(tmp_path / "all")
    assert found.settings["limit"] is None
    assert found.budget == 77 + read_manifest(runs[0]).budget
    # What was taken of a file in part is not all of it: robin judge of the whole files is another run.
    assert found.data["sha256"] != merged_sha(tmp_path, two_whole=True)


def merged_sha(folder: Path, *, two_whole: bool) -> str:
    runs = two(folder / "whole") if two_whole else []
    merge_runs(runs, folder / "whole" / "all")
    return str(read_manifest(folder / "whole" / "all").data["sha256"])


@pytest.mark.parametrize(("budgets", "wanted"), [((8, 8), "robin-hood"), ((8, 600), "two-priors")])
def test_takes_shards_for_which_auto_chose_different_ones(
    tmp_path: Path, budgets: tuple[int, int], wanted: str
) -> None:
    runs = []
    for name, pairs, budget, own in zip(
        "ab", (PAIRS[:3], PAIRS[3:]), budgets, ("robin-hood", "two-priors"), strict=True
    ):
        data = {"source": name, "sha256": name, "pairs": len(pairs), "scheduler_asked": "auto"}
        chosen = wanted if budgets == (8, 8) else own
        runs.append(
            shard(
                tmp_path / name,
                pairs,
                data=data,
                budget=budget,
                settings={**SETTINGS, "scheduler": chosen},
            )
        )

    made = merge_runs(runs, tmp_path / "all")

    assert read_manifest(tmp_path / "all").settings["scheduler"] == wanted
    assert any(note.startswith(f"scheduler: {wanted}") for note in made.notes) == (
        budgets != (8, 8)
    )


def test_refuses_a_pair_that_two_shards_have(tmp_path: Path) -> None:
    runs = [shard(tmp_path / "a", PAIRS[:5]), shard(tmp_path / "b", PAIRS[3:])]
    other = [replace(pair, prompt="another") for pair in PAIRS[4:]]

    told = refused(runs, tmp_path / "all")
    assert f'the pair "p3" is in {runs[0]} and in {runs[1]}, and so is 1 more' in told
    assert "leave out all but one of these runs" in told

    told = refused([runs[0], shard(tmp_path / "c", other)], tmp_path / "all")
    has(
        told,
        f'the pair "p4" is in {runs[0]} and in {tmp_path / "c"}; it has other texts in each',
        "--columns id=-",
    )


def test_refuses_the_same_run_twice_under_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two(tmp_path)
    shutil.copytree(first, tmp_path / "copy")
    (tmp_path / "link").symlink_to(first)
    monkeypatch.chdir(tmp_path)

    for again in (first, Path("a"), Path("b/../a"), Path("link"), "[a]"):
        assert "named twice" in refused([first, second, again], tmp_path / "all")
    assert f"is a copy of {first}" in refused([first, second, tmp_path / "copy"], tmp_path / "all")


def test_refuses_a_shard_that_a_process_is_at_work_on(tmp_path: Path) -> None:
    runs = two(tmp_path)

    with RunStore.open(runs[1]):
        assert "another robin is at work on this run" in refused(runs, tmp_path / "all", RunError)
    with left_alone(runs[0]), pytest.raises(RunError, match="at work"):
        RunStore.open(runs[0])  # nor does one begin while it is read
    assert merge_runs(runs, tmp_path / "all").pairs == 8


def test_refuses_a_shard_of_which_a_batch_is_under_way(tmp_path: Path) -> None:
    runs = two(tmp_path)
    ledger = Ledger(runs[0], read_manifest(runs[0]).run_id, 3)
    batch = Submission(1, "m", 1, 1)
    ledger.add(batch, Calls(*(np.array([k]) for k in (0, 9, 1))), [b"{}\n"])

    told = refused(runs, tmp_path / "all", RunError)
    has(told, f"{runs[0]}: 1 batch of it may still be answered", f"robin resume {runs[0]}")
    ledger.set(batch.now("done"))
    assert merge_runs(runs, tmp_path / "all").pairs == 8


def test_takes_in_answers_that_a_shards_disk_would_not_take(tmp_path: Path) -> None:
    runs = [
        shard(tmp_path / "a", PAIRS[:3], answers(20), budget=30),
        shard(tmp_path / "b", PAIRS[3:], answers(20)),
    ]
    run_id = read_manifest(runs[0]).run_id
    waiting = [replace(judgment(k, pair=0), draw=70 + k, request_id=f"late {k}") for k in range(2)]
    rescue.rescue(runs[0], run_id, [*waiting, replace(judgment(1, pair=7), draw=90)])

    made = merge_runs(runs, tmp_path / "all")

    assert [row["request_id"] for row in judged(tmp_path / "all") if row["draw"] >= 70] == [
        "late 0",
        "late 1",
    ]
    assert read_manifest(tmp_path / "all").rescued == 2
    assert "2 rescued answers taken in" in made.notes[0]
    assert "1 of the rescued answers" in made.notes[1]
    assert (runs[0] / "rescued.jsonl").exists()


@pytest.mark.parametrize("there", ["run", "file", "folder", "link"])
def test_writes_over_nothing(tmp_path: Path, there: str) -> None:
    runs = two(tmp_path)
    output = tmp_path / "all"
    if there == "run":
        merge_runs(runs, output)
    elif there == "link":
        (tmp_path / "empty").mkdir()
        output.symlink_to(tmp_path / "empty")
    elif there == "file":
        output.write_bytes(b"mine")
    else:
        output.mkdir()
        (output / "mine").write_bytes(b"mine")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert "exists, and is not overwritten" in refused(runs, output, RunError)
    assert "lies in the run" in refused(runs, runs[0] / "all", RunError)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_refuses_what_is_no_run(tmp_path: Path) -> None:
    first, _ = two(tmp_path)

    assert "not a run directory" in refused(
        [first, tmp_path / "nothing"], tmp_path / "all", RunError
    )
    assert "matches no run" in refused([first, f"{tmp_path}/x*"], tmp_path / "all")


def test_takes_a_quoted_glob_in_order_and_an_empty_folder_to_write_to(tmp_path: Path) -> None:
    for k, pair in enumerate(PAIRS):
        shard(tmp_path / f"part-{k}", [pair])
    (tmp_path / "all").mkdir()

    made = merge_runs([f"{tmp_path}/part-*"], tmp_path / "all")

    assert made.runs == [tmp_path / f"part-{k}" for k in range(8)]
    assert read_run(tmp_path / "all").pair_ids == [pair.pair_id for pair in PAIRS]


def of_group(pair: Pair, group: str) -> Pair:
    return replace(pair, group=group)


def test_refuses_groups_of_one_name_that_may_be_different_ones(tmp_path: Path) -> None:
    first = shard(tmp_path / "a", [of_group(pair, "1") for pair in PAIRS[:3]])
    other = shard(tmp_path / "b", [of_group(pair, "1") for pair in PAIRS[4:]])
    shared = shard(tmp_path / "c", [of_group(pair, "1") for pair in PAIRS[3:]])
    none = shard(tmp_path / "d", PAIRS[4:])

    assert f'the group "1" is in {first} and in {other}' in refused(
        [first, other], tmp_path / "all"
    )
    assert "groups of pairs: some in" in refused([first, none], tmp_path / "all")
    assert merge_runs([first, shared], tmp_path / "all").pairs == 8  # the same prompt is in both


def test_decides_anew_which_is_best_of_a_group_that_two_shards_have(tmp_path: Path) -> None:
    best = {"settings": {**SETTINGS, "decide": "best", "scheduler": "lucb"}}
    runs = [
        shard(tmp_path / "a", PAIRS[:3], answers(20), **best),
        shard(tmp_path / "b", PAIRS[3:], answers(20), **best),
    ]

    made = merge_runs(runs, tmp_path / "all")

    assert any(
        note.startswith("1 group has responses in more than one of the runs") for note in made.notes
    )
    assert len(set(read_run(tmp_path / "all").pairs.groups.tolist())) == 4


DAMAGE: dict[str, Callable[[Path], object]] = {
    "pairs twice": lambda run: rewrite(
        run / "pairs.parquet", lambda table: pa.concat_tables([table, table])
    ),
    "pairs gone": lambda run: (run / "pairs.parquet").unlink(),
    "pairs no Parquet": lambda run: (run / "pairs.parquet").write_bytes(b"x" * 99),
    "a segment gone": lambda run: (run / "judgments" / "00001.parquet").unlink(),
    "judgments of another's pair": lambda run: rewrite(
        run / "judgments" / "00001.parquet",
        lambda table: with_column(table, "pair_id", ["p7"] * len(table)),
    ),
    "judgments of nobody's pair": lambda run: rewrite(
        run / "judgments" / "00001.parquet",
        lambda table: with_column(table, "pair_id", ["x"] * len(table)),
    ),
    "no pair at all": lambda run: rewrite(
        run / "judgments" / "00001.parquet",
        lambda table: with_column(table, "pair_id", [None] * len(table)),
    ),
    "ratings off the scale": lambda run: rewrite(
        run / "judgments" / "00001.parquet",
        lambda table: with_column(
            table, "rating", [row and 99 for row in table["rating"].to_pylist()]
        ),
    ),
    "a link": lambda run: linked(run / "judgments"),
    "a journal line": lambda run: (run / "journal.jsonl").write_bytes(
        b'{"journal":1,"segment":3}\n{"a":1}\n'
    ),
}


def linked(folder: Path) -> None:
    folder.symlink_to(folder.rename(folder.with_name("elsewhere")))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with path.open("rb") as file:
        table = pq.ParquetFile(file).read(use_threads=False)
    pq.write_table(change(table), path)


def with_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize("kind", DAMAGE)
def test_takes_nothing_of_a_damaged_shard(tmp_path: Path, kind: str) -> None:
    runs = two(tmp_path)
    DAMAGE[kind](runs[0])

    assert str(runs[0]) in refused(runs, tmp_path / "all", StorageError)


def test_names_what_is_wrong_with_a_place_below_a_file(tmp_path: Path) -> None:
    runs = two(tmp_path)
    (tmp_path / "file").write_text("mine", encoding="utf-8")

    for place in ("file/all", "file/deeper/all"):
        assert f"{tmp_path / 'file'} is not a folder; name another place" in refused(
            runs, tmp_path / place, RunError
        )
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def python(*command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *map(str, command)]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env=environment(PYTHONPATH=str(ROOT))
    )


def test_says_that_the_disk_is_full_and_leaves_nothing(tmp_path: Path) -> None:
    runs = two(tmp_path)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "sys.dont_write_bytecode = True; "  # else of each module the beginning
        "from robin_cli.cli.app import main; main()"
    )

    done = python("-c", code, "merge", *runs, "-o", tmp_path / "all")

    assert done.returncode == 1
    assert "could not be written (File too large); nothing was made" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.whole)])
def test_is_there_whole_or_not_at_all_whenever_it_is_killed(tmp_path: Path, every: int) -> None:
    runs = [
        shard(tmp_path / "a", PAIRS[:3], answers(20)[:3]),
        shard(tmp_path / "b", PAIRS[3:], answers(20)),
    ]
    script = Path(__file__).with_name("merging_killed.py")
    merge_runs(runs, tmp_path / "whole")

    done = python(script, *runs, tmp_path / "x", str(every))

    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 24 / every
    assert {each["there"] for each in found} == {True, False}
    wanted = {"spent": 14, "runs": ["all"], "left": ["all"]}
    for each in found:
        assert each["runs"] == (["all"] if each["there"] else []), (
            each
        )  # what robin runs lists then
        assert each["spent"] == (14 if each["there"] else None), each
        assert each["again"] == wanted, (
            each
        )  # once it was made again, nothing is left of the first time
    assert judged(Path(found[0]["path"])) == judged(tmp_path / "whole")
