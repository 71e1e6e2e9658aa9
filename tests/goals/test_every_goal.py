"""The contract of goals: each, of ratings or of preferences, is planned, shown, simulated, killed and resumed."""

from __future__ import annotations

import io
import json
import re
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import environment, robin
from tests.judges.wire import Wire, completion, serving
from tests.starting import Robin

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

PROMPTS, SYSTEMS = 5, {"ash": 2, "beech": 1, "cedar": 0}  # three, and so as many comparisons of two
BUDGET, KILLED_AT = 60, 38


FORMS: dict[str, Callable[..., Any]] = {
    "tsv": partial(pd.read_csv, sep="\t"),
    "jsonl": partial(pd.read_json, lines=True),
    "parquet": pd.read_parquet,
    "xlsx": partial(pd.read_excel, engine="openpyxl"),
}


@dataclass(frozen=True)
class Case:
    """A goal as a user asks for it.

    ``tables`` are what ``robin export --what`` has of it beside scores and judgments; ``finds`` what a simulation counts;
    ``planned`` what its plan says first; ``form``, one of ``FORMS``, is that of a file of its scores.
    """

    flags: tuple[str, ...]
    asks_for: str = "-a helpfulness"
    simulated: str = ""
    tables: tuple[str, ...] = ("summary",)
    finds: str = ""
    planned: str = f"{BUDGET} calls take about "
    form: str = "tsv"

    def __post_init__(self) -> None:
        assert self.form in FORMS, f"form {self.form!r}: must be one of {', '.join(FORMS)}"


PREFERENCES = "--pairwise"
GOALS = {
    "estimate": Case((), form="xlsx"),
    "threshold": Case(
        ("--decide", "score>=2"),
        simulated="--decide score>=2",
        planned="To have 1 % of the decisions likely wrong (score>=2) takes ",
    ),
    "best": Case(
        ("--decide", "best"),
        simulated="--decide best",
        tables=("preferences", "labels-wanted"),
        planned="To have 1 % of the decisions likely wrong (best) takes ",
        form="jsonl",
    ),
    "compare": Case(("--decide", "system"), form="parquet"),
    "preference": Case(
        ("--scheduler", "uniform"),
        PREFERENCES,
        "--pairwise --schedulers uniform",
        ("ranking",),
        "pairs of systems",
        form="xlsx",
    ),
    "preferred": Case(
        ("--decide", "best"),
        PREFERENCES,
        "--pairwise --decide best",
        ("ranking",),
        "prompts",
        form="jsonl",
    ),
    "rank": Case((), PREFERENCES, "--pairwise", ("ranking",), "pairs of systems", form="parquet"),
}
JUDGES = {"one": ("maple",), "two": ("maple", "oak")}


def answered(body: dict[str, Any]) -> dict[str, Any]:
    """What a judge says: by the systems, with noise that the model and the seed of a call make."""
    noise = zlib.crc32(json.dumps([body["model"], body["messages"], body["seed"]]).encode()) % 100
    worth = [
        SYSTEMS[name] for name in re.findall(r"Said by (\w+) on", json.dumps(body["messages"]))
    ]
    if len(worth) == 1:
        return completion(f"Feedback: so so.\nRating: {worth[0] + 1 + (noise < 20) - (noise > 85)}")
    return completion(f"Verdict: {'A' if noise < 50 + 20 * (worth[0] - worth[1]) else 'B'}")


@contextmanager
def judging(at: int, then: Callable[[], None]) -> Iterator[Wire]:
    """The judges; at the request of number ``at`` they do ``then`` in place of an answer."""

    def answer(number: int, body: dict[str, Any]) -> dict[str, Any]:
        if number == at:
            then()
        return answered(body)

    with serving(answer) as wire:
        yield wire


def command(case: Case, judges: tuple[str, ...], url: str) -> list[str]:
    """The flags that plan and judge have in common."""
    models = [part for name in judges for part in ("--model", name)]
    asked = [*case.asks_for.split(), "--budget", str(BUDGET), "--seed", "3", "--concurrency", "1"]
    asked += ["--samples-per-request", "1"]  # so that a run that was killed makes the same calls
    return ["pairs.jsonl", *asked, *case.flags, "--base-url", url, *models]


def rows(folder: Path, run: str, *what: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(robin("export", run, *what, cwd=folder, exits=0).stdout))


@pytest.fixture(autouse=True)
def pairs(tmp_path: Path) -> None:
    each = [(name, number) for number in range(PROMPTS) for name in SYSTEMS]
    lines = [
        {
            "id": f"{name}-{at}",
            "prompt": f"Question {at}?",
            "response": f"Said by {name} on {at}.",
            "system": name,
        }
        for name, at in each
    ]
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("goal", "judges"),
    [
        pytest.param(goal, judges, marks=[pytest.mark.whole] * (judges == "two" and goal != "best"))
        for goal in GOALS
        for judges in JUDGES
        if (goal, judges) != ("preferred", "two")  # which takes one judge
    ],
)
def test_is_planned_shown_in_every_form_simulated_and_resumed_after_a_kill(
    tmp_path: Path, goal: str, judges: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, names = GOALS[goal], JUDGES[judges]
    # none of this is about the numbers
    for module in ("show.plan", "simulate.forecast"):
        monkeypatch.setattr(f"robin_cli.{module}.RUNS", 2)
    killed: list[Robin] = []
    with judging(KILLED_AT, lambda: killed[0].send_signal(signal.SIGKILL)) as wire:
        plan = robin("plan", *command(case, names, wire.url), cwd=tmp_path, exits=0).stdout
        assert 3 <= len(plan.splitlines()) <= 15
        assert plan.startswith(case.planned)
        assert not wire.bodies
        args = ["judge", *command(case, names, wire.url), "--run", "killed", "--quiet"]
        with Robin(args, cwd=tmp_path, env=environment()) as process:
            killed.append(process)
        assert process.returncode == -signal.SIGKILL
        robin("resume", "killed", "--quiet", cwd=tmp_path, exits=0)
        done = robin("judge", *command(case, names, wire.url), "--run", "r", cwd=tmp_path, exits=0)
    resumed, whole = (rows(tmp_path, run, "--what", "judgments") for run in ("killed", "r"))
    assert len(resumed) <= BUDGET
    assert not resumed.duplicated(["pair_id", "attribute", "judge", "draw"]).any()
    found = rows(tmp_path, "r")
    if (
        len(names) == 1
    ):  # of two, who answers first differs from run to run, and with it what is asked next
        columns = ["pair_id", "attribute", "draw", "rating"]
        pd.testing.assert_frame_equal(resumed[columns], whole[columns])
        pd.testing.assert_frame_equal(rows(tmp_path, "killed"), found)

    status = robin("status", "r", cwd=tmp_path, exits=0).stdout
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path, exits=0).stdout)
    ending = "\n".join([*facts["answer"], f"next: {facts['next']}", ""])
    assert len(facts["answer"]) <= 3
    assert len(status.splitlines()) <= 12
    assert done.stderr.endswith(ending)
    assert status.endswith(ending)
    assert f"{facts['spent']:,}" in status
    assert facts["spent"] == len(whole) <= BUDGET
    assert len(found) == PROMPTS * 3
    robin("export", "r", "-o", f"scores.{case.form}", cwd=tmp_path, exits=0)
    assert len(FORMS[case.form](tmp_path / f"scores.{case.form}")) == len(found)
    assert "ash" in robin("export", "r", "--format", "table", cwd=tmp_path, exits=0).stdout
    for table in case.tables:
        assert len(rows(tmp_path, "r", "--what", table))
    robin("report", "r", "-o", "report.html", cwd=tmp_path, exits=0)
    assert f"{facts['spent']:,}" in (tmp_path / "report.html").read_text(encoding="utf-8")
    simulated = robin(
        *("simulate", "r", "--budget", "40", "--runs", "2"),
        *case.simulated.split(),
        cwd=tmp_path,
        exits=0,
    )
    assert len(simulated.stdout.splitlines()) > len(names)
    assert case.finds in simulated.stdout
