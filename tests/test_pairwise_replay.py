"""Recorded verdicts, served and judged: the order's effect that was planted is found, in text and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import DEMO, replaying, robin


@pytest.mark.parametrize("answer_format", ["text", "json_schema"])
@pytest.mark.parametrize("ties", [True, False])
def test_finds_the_order_effect_that_was_planted(tmp_path: Path, answer_format: str, *, ties: bool) -> None:
    with replaying(DEMO / "votes.parquet", "--first-place", "0.3", "--seed", "1") as url:
        robin(
            *(
                *("judge", DEMO / "responses.jsonl", "--pairwise", "--base-url", url),
                *("--model", "replay:votes", "--run", "run"),
            ),
            *("--budget", "600", "--answer-format", answer_format, "--seed", "7", *([] if ties else ["--no-ties"])),
            cwd=tmp_path,
            exits=0,
        )
    (effect,) = json.loads(robin("status", "run", "--json", cwd=tmp_path).stdout)["order_effects"]
    assert effect["effect"] == pytest.approx(0.3, abs=0.1)  # three standard errors
    assert effect["ci_low"] > 0


def test_has_no_first_place_in_recorded_ratings(tmp_path: Path) -> None:
    done = robin("serve", DEMO / "ratings.parquet", "--first-place", "0.3", cwd=tmp_path, exits=2)
    assert "--first-place: is for recorded verdicts on two responses, and ratings.parquet holds ratings" in done.stderr
