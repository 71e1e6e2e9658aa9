"""Runs that are killed: nothing that was received and kept may be lost, doubled or paid for twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import (
    DEMO,
    GRAMMAR,
    REPLAY_MODEL,
    environment,
    llama_server,
    replaying,
    robin,
    short_prompt,
    wait_until,
    write_pairs,
)
from tests.recorder import Record, recorded
from tests.starting import Robin


def _wait_for_answers(record: Record, count: int, process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: len(record.sent) >= count, process)


def kill_and_resume(
    record: Record,
    folder: Path,
    *,
    model: str,
    budget: int,
    concurrency: int,
    kills: int,
    seed: int,
) -> None:
    """Spend ``budget`` calls with ``kills`` SIGKILLs at random moments, resuming after each, and check the books."""
    moments = sorted(random.Random(seed).sample(range(budget // 20, budget - budget // 20), kills))
    run = folder / "run"
    data = write_pairs(folder / "pairs.jsonl", 20)
    judge = [
        *("judge", str(data), "--budget", str(budget), "--attribute", "helpfulness", "--base-url"),
        record.url,
    ]
    judge += [
        *("--model", model, "--run", str(run), "--concurrency", str(concurrency)),
        *("--quiet", "-o", str(folder / "s.csv")),
    ]
    if model == "tiny-judge":
        judge += ["--extra-body", json.dumps(GRAMMAR), "--template", str(short_prompt(folder))]
    command = judge
    resume = ["resume", str(run), "--quiet", "-o", str(folder / "s.csv")]
    for moment in moments:
        with Robin(command, env=environment(), cwd=folder) as process:
            _wait_for_answers(record, moment, process)
            process.send_signal(signal.SIGKILL)
        if (run / "manifest.json").exists():
            command = resume
    robin(*command, cwd=folder, exits=0)

    kept = Counter(pd.read_parquet(run / "judgments")["request_id"])
    assert sum(kept.values()) == budget
    sent = Counter(record.sent)
    assert kept <= sent, "an answer is there that nobody gave, or twice"
    assert len(sent.keys() - kept.keys()) <= kills * concurrency, (
        "more was lost than can have been in flight"
    )
    assert record.most_open <= 2 * concurrency  # those of a killed process stay open for a moment


@pytest.mark.slow
@pytest.mark.parametrize(
    ("concurrency", "seed"), [(1, 1), pytest.param(16, 2, marks=pytest.mark.whole), (64, 3)]
)
def test_keeps_every_answer_through_three_kills(
    tmp_path: Path, concurrency: int, seed: int
) -> None:
    with replaying(DEMO / "ratings.parquet") as url, recorded(url) as record:
        kill_and_resume(
            record,
            tmp_path,
            model=REPLAY_MODEL,
            budget=100,
            concurrency=concurrency,
            kills=3,
            seed=seed,
        )


@pytest.mark.slow
@pytest.mark.external
def test_keeps_every_answer_of_a_real_server_through_three_kills(tmp_path: Path) -> None:
    with llama_server(tmp_path / "server.log") as url, recorded(url) as record:
        kill_and_resume(
            record, tmp_path, model="tiny-judge", budget=40, concurrency=4, kills=3, seed=4
        )
