"""Runs that die at every step of writing: nothing that was safe is lost, nothing is there twice, the budget is met."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from robin_cli import judge, open_run
from robin_cli.model.errors import RobinError
from robin_cli.run.manifest import read_manifest
from robin_cli.session.resuming import resumed
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE
from tests.conftest import ROOT, environment, write_pairs
from tests.judges.wire import Wire, completion, serving
from tests.run.crashing import BUDGET, WRITES

# 0: answers came in larger batches this time, so that it was done before the step at which it was to die; and a
# stop that comes when all is done, or before the work has begun, ends as those do
ENDINGS = {
    "kill": {137, 0},
    "power": {137, 0},
    "term": {130, 0, 143},
    "interrupt": {130, 0},
    "twice": {130, 0},
}
ENDINGS |= {"full": {0}}
REST = ["kill:7:25", "kill:32:18", "power:4:20 full:1:8", "term:1:9 interrupt:5:9 twice:2:9"]
REST += ["full:9:6 term:10:6 interrupt:14:6"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "some",
    ["kill:0:7 full:0:1 power:2:1 term:0:1 interrupt:4:1 twice:1:1"]
    + [pytest.param(each, marks=pytest.mark.whole) for each in REST],
)
def test_resumes_whatever_it_died_of_at_whatever_step(some: str) -> None:
    wanted = some.split()
    script = ROOT / "tests" / "run" / "crashing.py"
    # What no sync had reached is cut off by the script: no disk need be waited for.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, str(script), folder, *wanted]
        env = environment(PYTHONPATH=str(ROOT))
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    died = [json.loads(line) for line in done.stdout.splitlines()]
    for each in died:
        kind = each["kind"]
        assert each["first"] in ENDINGS[kind], each
        assert each["second"] == 0, each
        assert each["budget"] == BUDGET, each
        kept = Counter(each["kept"])
        assert sum(kept.values()) == BUDGET, each
        assert set(kept.values()) == {1}, f"an answer is there twice: {each}"
        ratings = Counter(each["requests"])
        assert set(each["acknowledged"]) <= ratings.keys(), (
            f"an answer that was safe is lost: {each}"
        )
        told = Counter(each["acknowledged"])
        assert all(told[name] <= ratings[name] for name in told), (
            f"a part of a request is lost: {each}"
        )
    for kind, _, count in (each.split(":") for each in wanted):
        runs = [each for each in died if each["kind"] == kind]
        assert len(runs) == int(count)
        assert kind != "kill" or {each["at"][0] for each in runs} == set(WRITES)
    # Some end before the step at which they were to die: how answers come together is no matter of the number.
    assert sum(each["first"] != 0 or each["kind"] == "full" for each in died) > len(died) / 2, died


LIVE: dict[str, Any] = {
    "model": ["m@{url}"],
    "api_key_env": ["-"],
    "base_url": ["http://localhost:1/v1"],
}
LIVE |= {"target_error": 0.2, "max_cost": 0.01}
LIVE |= {"price_in": [1.0], "price_out": [2.0], "price_cached": [0.5]}
LIVE |= {"concurrency": "2", "samples_per_request": "2"}
LIVE |= {"repeat_anyway": True}
LIVE |= {"rpm": 6000.0, "tpm": 1e6, "timeout": 30.0, "max_retries": 1}
SESSIONS: dict[str, dict[str, Any]] = {
    "live": LIVE,
    "service": {
        "batch": True,
        "rounds": 2,
        "model": ["m"],
        "base_url": ["{url}"],
        "max_retries": 0,
    },
}
"""Sessions in which each setting that the next session takes over is another than its default."""


@pytest.fixture
def wire() -> Iterator[Wire]:
    with serving(
        lambda number, _: completion(f"Feedback: no {number}.\nRating: {number % 5}")
    ) as wire:
        yield wire


def states(run: Path, copies: Path, wire: Wire, work: Callable[[], object]) -> list[Path]:
    """Copies of ``run`` as a process that was killed would leave it: at each step of writing, until a call was made."""
    found: list[Path] = []

    def step() -> None:
        if run.exists() and not wire.bodies:
            found.append(copies / str(len(found)))
            shutil.copytree(run, found[-1])

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **named: Any) -> Any:
            step()
            result = function(*args, **named)
            step()
            return result

        return stepped

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (os, "fsync"),
            (os, "replace"),
            (os, "unlink"),
            (pq.ParquetWriter, "write_table"),
        ):
            patch.setattr(module, name, around(getattr(module, name)))
        with suppress(
            RobinError
        ):  # the server has no batches; by then all that is looked at is there
            work()
    return found


@pytest.mark.parametrize("how", SESSIONS)
@pytest.mark.parametrize("again", [False, True], ids=["judge", "resume"])
def test_spends_nothing_without_the_settings_of_a_session_that_was_killed_before_its_first_call(
    tmp_path: Path, wire: Wire, monkeypatch: pytest.MonkeyPatch, how: str, *, again: bool
) -> None:
    of_session = {name for name, each in TABLE.items() if each.scope is Scope.SESSION and each.kept}
    of_session -= {
        "agree",
        "confidence",
        "target_wrong",
    }  # of decisions: tests/test_agreeing.py, test_decide.py
    assert of_session == {name for session in SESSIONS.values() for name in session}
    monkeypatch.chdir(tmp_path)
    text = json.dumps(SESSIONS[how]).replace("{url}", wire.url).replace("{folder}", str(tmp_path))
    session, data, run = json.loads(text), write_pairs(tmp_path / "p.jsonl", 3), tmp_path / "r"
    if again:
        judge(
            data,
            attribute="helpfulness",
            budget=3,
            base_url=wire.url,
            model="m",
            run=run,
            quiet=True,
        )
        wire.bodies.clear()

    def work() -> None:
        if again:
            open_run(run).resume(budget=60, quiet=True, **session)
        else:
            judge(data, attribute="helpfulness", budget=60, run=run, quiet=True, **session)

    left = states(run, tmp_path / "copies", wire, work)
    begun = [
        each
        for each in left
        if (each / "manifest.json").exists() and read_manifest(each).budget == 60
    ]
    assert len(begun) < len(left)
    assert begun
    for state in begun:
        found = resumed(state, {})
        for name, value in session.items():
            kept = getattr(found, name)
            assert (list(kept) if isinstance(kept, tuple) else kept) == value, (name, state)
        assert len(read_manifest(state).sessions) == 1 + again, "one session, and one entry"
