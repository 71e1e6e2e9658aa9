"""--variances as a user has it: a second run whose scheduler knows what varied in an earlier one."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.variances import earlier_variances
from tests.conftest import environment, lines_of, refuses, replaying, robin, wait_until, write_pairs
from tests.starting import Robin

PAIRS = 20
MODELS = ("--model", "replay:coins")


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Every fourth pair it knows gets 0 or 4 in turn, the others a 2."""
    pool = tmp_path_factory.mktemp("pool") / "pool.csv"
    rows = [
        ("coins", f"q{k}", rating)
        for k in range(400)
        for rating in ((0, 4) if k % 4 == 0 else (2, 2))
    ]
    pd.DataFrame(rows, columns=["attribute", "pair_id", "rating"]).to_csv(pool, index=False)
    with replaying(pool) as url:
        yield url


@pytest.fixture(scope="module")
def earlier(judge: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pairs, and a run of ten calls a pair on them."""
    folder = tmp_path_factory.mktemp("earlier")
    write_pairs(folder / "pairs.jsonl", PAIRS)
    robin(
        *asking(judge, 10 * PAIRS, "--run", "first", "--scheduler", "uniform", "--seed", "1"),
        cwd=folder,
        exits=0,
    )
    return folder


@pytest.fixture
def place(earlier: Path, tmp_path: Path) -> Path:
    shutil.copytree(earlier, tmp_path / "work")
    return tmp_path / "work"


def asking(url: str, budget: int, *more: str) -> list[str]:
    return [
        *("judge", "pairs.jsonl", "-a", "helpfulness", "--budget", str(budget), "--base-url", url),
        *MODELS,
        *more,
    ]


def test_goes_on_without_the_earlier_run(place: Path, judge: str) -> None:
    command = asking(judge, 50, "--run", "second", "--variances", "first", "--scheduler", "robin")
    robin(*command, cwd=place, exits=0)
    (place / "first").rename(place / "gone")

    robin(*(each if each != "50" else "60" for each in command), cwd=place, exits=0)
    robin("resume", "second", "--budget", "70", cwd=place, exits=0)

    assert len(pd.read_parquet(place / "second" / "judgments")) == 70
    other = robin(
        *asking(judge, 70, "--run", "second", "--scheduler", "uniform"), cwd=place, exits=2
    )
    assert "variances: the run has first, now None" in other.stderr


def test_resumes_to_the_same_bytes_as_a_run_never_interrupted(place: Path, judge: str) -> None:
    common = (
        *("--variances", "first", "--seed", "3", "--concurrency", "1", "--quiet", "--scheduler"),
        "robin",
    )
    whole = robin(*asking(judge, 120, "--run", "whole", *common), cwd=place)
    command = asking(judge, 120, "--run", "cut", *common)
    with Robin(command, cwd=place, env=environment(), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: lines_of(place / "cut" / "journal.jsonl") > 60, process)
        process.send_signal(signal.SIGKILL)

    resumed = robin("resume", "cut", "--quiet", cwd=place, exits=0)

    assert resumed.stdout == whole.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--scheduler two-priors learns the variances from the run itself"),
        (("--scheduler", "uniform"), "or take --scheduler robin"),
        (("--variances", "nowhere", "--scheduler", "robin"), "nowhere"),
    ],
)
def test_refuses_before_anything_is_made(
    place: Path, judge: str, more: tuple[str, ...], said: str
) -> None:
    refused = robin(
        *asking(judge, 400, "--run", "second", "--variances", "first", *more), cwd=place, exits=2
    )
    assert said in refused.stderr
    assert not (place / "second").exists()


def write_pool(path: Path, ratings: dict[str, dict[str, list[int]]]) -> Path:
    rated = [
        (name, pair, listed) for name, pairs in ratings.items() for pair, listed in pairs.items()
    ]
    rows = [(name, pair, rating) for name, pair, listed in rated for rating in listed]
    pd.DataFrame(rows, columns=["attribute", "pair_id", "rating"]).to_csv(path, index=False)
    return path


def test_takes_each_judges_own_variances_or_the_mean_of_the_others(tmp_path: Path) -> None:
    source = write_pool(
        tmp_path / "panel.csv",
        {
            "A/clarity": {"p": [0, 4], "q": [2, 2]},
            "B/clarity": {"p": [1, 1], "q": [1, 3]},
            "A/tone": {"p": [3, 4]},
        },
    )

    def found(judges: list[str], attributes: list[str]) -> list[float]:
        index = ArmSpace(["p", "q"], attributes, judges, [Scale(0, 4)] * len(attributes))
        variances = earlier_variances(source, index, notes.append)
        return list(map(float, variances))

    notes: list[str] = []
    assert found(["A", "B"], ["clarity"]) == [4.0, 0.0, 0.0, 1.0]
    assert found(["new"], ["clarity"]) == [2.0, 0.5]
    assert not notes
    # q was not rated for its tone
    assert found(["A"], ["clarity", "tone"]) == [4.0, 0.25, 0.0, (4.0 + 0.25 + 0.0) / 3]
    assert "1 of 4 pairs × attributes" in notes[0]


def test_takes_a_pool_at_an_address(memory: Any) -> None:
    memory.pipe("/pools/earlier.csv", b"attribute,pair_id,rating\nclarity,p,0\nclarity,p,4\n")

    variances = earlier_variances(
        "memory://pools/earlier.csv", ArmSpace(["p"], ["clarity"], ["m"], [Scale(0, 4)]), print
    )

    assert list(variances) == [4.0]


def test_refuses_another_scale(place: Path, tmp_path: Path) -> None:
    index = ArmSpace([f"p{k}" for k in range(PAIRS)], ["helpfulness"], ["m"], [Scale(0, 4)])
    with pytest.raises(
        InputError,
        match=r"was rated on the scale 0.4, helpfulness is on 0.10 here; name a run on the same",
    ):
        earlier_variances(place / "first", replace(index, scales=[Scale(0, 10)]), print)
    pool = write_pool(tmp_path / "pool.csv", {"helpfulness": {"p0": [0, 9]}})
    refuses(InputError, "outside the scale", earlier_variances, pool, index, print)
