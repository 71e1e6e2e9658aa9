"""What a run says of its tokens and its money, where prices are known, and where they are not."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold, Spending
from robin_cli.run.schema import judgments_table
from robin_cli.show.words import dollars
from tests.conftest import judging, robin, write_pairs
from tests.run.test_store import judgment

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_says_unknown_for_a_cost_that_is_not_known_and_whose_the_tokens_are(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)

    first = robin(
        *judging(replay_url, data, 60, "--samples-per-request", "3", "--run", "r"),
        cwd=tmp_path,
        exits=0,
    )
    unpriced = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    said = robin("status", "r", cwd=tmp_path).stdout
    more = robin(
        "resume", "r", "--budget", "90", "--price-in", "1", "--price-out", "1", cwd=tmp_path
    )
    answers = pd.read_parquet(tmp_path / "r" / "judgments")

    assert "$" not in first.stderr
    # of the second and third answer of a request too
    assert answers["cost_usd"].iloc[:60].isna().all()
    assert (unpriced["cost_usd"], unpriced["cost_usd_at_least"]) == (None, None)
    assert [judge["cost_usd"] for judge in unpriced["judges"]] == [None]
    assert "unknown: no price (--price-in, --price-out)" in said

    known = answers["cost_usd"].sum()
    status = robin_cli.open_run(tmp_path / "r").status()
    assert status["cost_usd"] is None
    assert status["cost_usd_at_least"] == pytest.approx(known)
    partly = " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    assert (
        f"at least {dollars(status['cost_usd_at_least'])}; of some answers no price is known"
        in partly
    )
    assert (
        f"at least {dollars(status['cost_usd_at_least'])}"
        in robin("report", "r", "-o", "-", cwd=tmp_path).stdout
    )

    (line,) = (line for line in more.stderr.splitlines() if "tokens in" in line)
    mine, all_of_them = line.split("; ")
    total = answers["prompt_tokens"].sum()
    assert mine.startswith(f"{total - unpriced['prompt_tokens']:,} tokens in, ")
    assert mine.endswith(" in this session")
    assert all_of_them.startswith(f"{total:,} tokens in, ")
    assert all_of_them.endswith(f"at least {dollars(known)} in all sessions of this run")


@pytest.mark.parametrize(
    ("costs", "known", "complete"),
    [
        ([], None, True),
        ([0.25, 0.0, 0.5], 0.75, True),
        ([0.0, 0.0], 0.0, True),  # free
        ([None, 0.0, 0.5, 0.0], 0.5, False),
    ],
)
def test_adds_up_what_is_known(
    costs: list[float | None], known: float | None, complete: bool
) -> None:
    failed = asdict(
        replace(judgment(99), status="failed", rating=None, cost_usd=None, prompt_tokens=None)
    )
    rows = [
        asdict(replace(judgment(place), cost_usd=cost, prompt_tokens=5))
        for place, cost in enumerate(costs)
    ]

    fold = Fold(ArmSpace(["p"], ["helpfulness"], ["m"], [Scale(0, 4)]))
    fold.add(np.zeros(len(costs) + 1, dtype=np.int64), judgments_table([*rows, failed]))
    expected = Spending(5 * len(costs), 0, known, complete, prompts=len(costs))
    assert fold.spending() == fold.spending(0) == expected
