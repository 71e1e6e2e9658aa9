"""Answers that the disk would not take come back to the run that they are of, whole, once, and nothing else does."""

from __future__ import annotations

import json
import stat
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robin_cli.model.records import ORDERS, Judgment
from robin_cli.storage.manifest import read_manifest
from robin_cli.storage.reader import read_run
from robin_cli.storage.rescue import rescue
from robin_cli.storage.schema import JUDGMENTS
from robin_cli.storage.store import RunStore
from robin_cli.views.status import status_of
from tests.conftest import robin
from tests.judges.wire import error, serving
from tests.storage.test_store import PAIRS, SETTINGS, judgment, manifest

FULL = {"base_url": ["http://127.0.0.1:9/v1"], "temperature": 1.0, **SETTINGS}
PANEL = {**FULL, "model": ["m", "other@http://127.0.0.1:9/v2"]}


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def panel() -> list[Judgment]:
    """Two draws of each of three pairs by each of two judges: they differ in their judge alone."""
    rows = [judgment(number) for number in range(6)]
    return [
        replace(row, judge=judge, request_id=f"{judge}{row.request_id}")
        for row in rows
        for judge in ("m", "other")
    ]


def made(path: Path, rows: list[Judgment], **change: object) -> str:
    """A run with ``rows``; its id."""
    with RunStore.create(path, manifest(**{"settings": FULL, **change}), PAIRS) as store:
        store.append(rows)
        return store.manifest.run_id


def ids(path: Path) -> list[str]:
    found: list[str] = read_run(path, JUDGMENTS.names).judgments["request_id"].to_pylist()
    return found


def opened(path: Path) -> list[str]:
    """What is said as the run is opened to go on."""
    with RunStore.open(path) as store:
        return store.notes


def test_takes_all_judges_answers_back_once(tmp_path: Path) -> None:
    rows = panel()
    run_id = made(tmp_path / "r", rows[:5], settings=PANEL)
    assert rescue(tmp_path / "r", run_id, rows[3:]) == tmp_path / "r" / "rescued.jsonl"
    assert status_of(tmp_path / "r").facts["rescued"] == {
        "taken_back": 0,
        "set_aside": 0,
        "waiting": 9,
    }
    (said,) = opened(tmp_path / "r")
    assert said.startswith("7 rescued answers taken back from ")
    assert ids(tmp_path / "r") == [row.request_id for row in rows]
    assert not (tmp_path / "r" / "rescued.jsonl").exists()
    assert status_of(tmp_path / "r").facts["rescued"] == {
        "taken_back": 7,
        "set_aside": 0,
        "waiting": 0,
    }
    assert opened(tmp_path / "r") == []


def test_takes_back_answers_that_no_place_in_the_run_took_once_they_are_moved_there(
    tmp_path: Path, own_temporary_folder: Path
) -> None:
    run = tmp_path / "r"
    run_id = made(run, [judgment(0)])
    (run / "rescued.jsonl").mkdir()  # where no file can be added to
    place = rescue(run, run_id, [judgment(3)])
    assert place == own_temporary_folder / f"robin-{run_id}-rescued.jsonl"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    (run / "rescued.jsonl").rmdir()
    assert opened(run) == []
    place.rename(run / "rescued.jsonl")
    assert "1 rescued answer taken back" in opened(run)[0]
    assert ids(run) == ["r0", "r3"]


FLAWS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another run", lambda row: row.update(run_id="0" * 16)),
    ("name a pair", lambda row: row.update(pair_id="p9")),
    ("name a pair, an attribute", lambda row: row.update(attribute="verbosity")),
    ("its judge", lambda row: row.update(judge="other")),
    ("draw is negative or too large", lambda row: row.update(draw=-1)),
    ("draw is negative or too large", lambda row: row.update(draw=2**40)),
    ("not a judgment", lambda row: row.update(draw="x")),
    ("not a judgment", lambda row: row.update(text=["x"])),
    ("not a judgment", lambda row: row.update(pair_id={"a": 1})),
    ("not a judgment", lambda row: row.update(received_at=1e300)),
    ("not a judgment", lambda row: row.pop("text")),
    ("go together", lambda row: row.update(status="fine")),
    ("go together", lambda row: row.update(status="unparsed")),
    ("outside the scale", lambda row: row.update(rating=5)),
    ("outside the scale", lambda row: row.update(expected_rating=-0.5)),
    ("negative", lambda row: row.update(cost_usd=-1.0)),
    ("another answer in its place", lambda row: row.update(draw=0, pair_id="p0")),
]


def test_sets_aside_what_is_no_answer_of_the_run_and_takes_the_rest(tmp_path: Path) -> None:
    run = tmp_path / "r"
    run_id = made(run, [judgment(0)])
    rescue(run, run_id, [judgment(3)])
    sound = json.loads((run / "rescued.jsonl").read_text())
    lines = [json.dumps(sound)]
    for _, spoil in FLAWS:
        row = dict(sound)
        spoil(row)
        lines.append(json.dumps(row))
    lines += ["nonsense \x00", "[1]"]
    (run / "rescued.jsonl").write_text("\n".join(lines) + "\n")
    said = opened(run)
    assert said[0].startswith(
        f"{len(lines) - 1} rescued answers set aside in {run / 'rescued-rejected.jsonl'}; "
    )
    assert "rescued.jsonl:2: an answer of another run" in said[0]
    assert said[1].startswith("1 rescued answer taken back")
    assert ids(run) == ["r0", "r3"]
    aside = [
        json.loads(line) for line in (run / "rescued-rejected.jsonl").read_text().split("\n")[:-1]
    ]
    assert [each["line"] for each in aside] == lines[1:], "a line that was paid for is lost"
    for (says, _), each in zip(
        [*FLAWS, ("JSON object", None), ("JSON object", None)], aside, strict=True
    ):
        assert says in each["why"], each
    assert status_of(run).facts["rescued"] == {
        "taken_back": 1,
        "set_aside": len(aside),
        "waiting": 0,
    }
    (run / "rescued.jsonl").write_text(
        "\n".join(lines) + "\n"
    )  # as a crash before it was removed leaves it
    opened(run)
    assert len((run / "rescued-rejected.jsonl").read_text().split("\n")[:-1]) == len(aside)
    assert ids(run) == ["r0", "r3"]


def test_takes_back_answers_of_judges_that_cost_nothing(tmp_path: Path) -> None:
    run = tmp_path / "r"
    run_id = made(run, [judgment(0)])
    free = {
        "cost_usd": 0.0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "latency_s": 0.0,
        "off_scale_mass": 0.0,
    }
    rescue(run, run_id, [replace(judgment(3), **free)])  # type: ignore[arg-type]
    assert opened(run)[0].startswith("1 rescued answer taken back")
    assert ids(run) == ["r0", "r3"]


def test_takes_back_verdicts_on_two_responses(tmp_path: Path) -> None:
    of_verdicts = {
        "settings": {**FULL, "pairwise": True},
        "attributes": ("preference",),
        "scale": (0, 2),
    }
    verdicts = [
        replace(judgment(number), attribute=ORDERS[number % 2], rating=1) for number in (0, 1)
    ]
    comparisons = [replace(pair, other="another") for pair in PAIRS]
    with RunStore.create(tmp_path / "r", manifest(**of_verdicts), comparisons) as store:
        run_id = store.manifest.run_id
    rescue(tmp_path / "r", run_id, verdicts)
    assert opened(tmp_path / "r")[0].startswith("2 rescued answers taken back")


def test_spends_no_more_than_the_budget_on_what_comes_back_late(tmp_path: Path) -> None:
    run_id = made(tmp_path / "r", [judgment(0)], budget=3)
    rescue(tmp_path / "r", run_id, [judgment(number) for number in (1, 2, 3, 4)])
    said = opened(tmp_path / "r")
    assert "budget is spent" in said[0]
    assert ids(tmp_path / "r") == ["r0", "r1", "r2"]


@pytest.mark.parametrize("settings", [FULL, PANEL], ids=["one judge", "a panel"])
def test_takes_back_what_robin_0_1_0_rescued(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = tmp_path / "r"
    made(run, [judgment(0)], settings=settings)
    content = json.loads((run / "manifest.json").read_text())
    del content["data"]["run_id"]
    (run / "manifest.json").write_text(json.dumps(content))
    rescue(
        run,
        "",
        panel()
        if len(read_manifest(run).judges) > 1
        else [judgment(3), replace(judgment(4), judge=None)],  # type: ignore[arg-type]
    )
    rows = [json.loads(line) for line in (run / "rescued.jsonl").read_text().split("\n")[:-1]]
    for row in rows:
        del row["run_id"]
    (run / "rescued.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened(run)
    kept = ids(run)
    assert len(kept) == len(set(kept)) == 1 + len(rows) - (settings is PANEL)
    run_id = read_manifest(run).run_id
    assert len(run_id) == 16
    opened(run)
    assert read_manifest(run).run_id == run_id


def test_says_on_the_command_line_what_came_back(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"id": "a", "prompt": "b", "response": "c"}\n')
    with serving(
        lambda _number, _body: error(500, "down")
    ) as wire:  # a run is kept once its endpoint was there
        words = [
            "pairs.jsonl",
            "-b",
            "1",
            "-a",
            "helpfulness",
            "--base-url",
            wire.url,
            "--model",
            "m",
        ]
        robin("judge", *words, "--run", "r", "--max-retries", "0", cwd=tmp_path, exits=3)
    answer = replace(judgment(0), pair_id="a", draw=1)
    rescue(tmp_path / "r", read_manifest(tmp_path / "r").run_id, [answer])
    assert "1 waiting: robin resume r takes them back" in robin("status", "r", cwd=tmp_path).stdout
    done = robin("resume", "r", cwd=tmp_path, exits=0)
    assert "note: 1 rescued answer taken back from r/rescued.jsonl" in done.stderr
    assert "1 taken back" in robin("status", "r", cwd=tmp_path).stdout
