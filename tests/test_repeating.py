"""A judge that repeats itself, as a user meets it: the run ends, says why, and goes on only if that is wanted."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from tests.conftest import has, robin, write_pairs
from tests.judges.wire import Answer, completion, serving
from tests.test_answers import with_logprobs

pytestmark = pytest.mark.usefixtures("no_pictures")


def same(number: int, body: dict[str, Any]) -> Answer:
    """The same rating of each pair every time, in other words."""
    rating = len(body["messages"][-1]["content"]) % 5
    return completion(f"Feedback: so it is, for the {number}th time.\nRating: {rating}")


def judge(url: str, data: Path, budget: int, *more: str, run: str = "r") -> list[str | Path]:
    command: list[str | Path] = ["judge", data, "-a", "helpfulness", "-b", str(budget)]
    return [*command, "--base-url", url, "--model", "m", "--run", run, *more]


def calls(folder: Path) -> int:
    return len(pd.read_parquet(folder / "judgments"))


def test_ends_and_goes_on_only_if_that_is_wanted(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)
    with serving(same) as wire:
        done = robin(*judge(wire.url, data, 300), cwd=tmp_path, exits=0)
        has(
            done.stderr,
            "the judge repeats itself: 60 of 60 second ratings were the same; stopped after 120 of 300 calls; at most 5 % of "
            "repeats would differ (95 % confidence). What is left is not noise: ask another judge, or people",
        )
        assert calls(tmp_path / "r") == 120
        status = json.loads(robin("status", "r", "--json", cwd=tmp_path, exits=0).stdout)
        assert status["state"] == "finished"
        (found,) = status["repeating"]
        assert found["repeats"] == 60
        assert found["differ_at_most"] == pytest.approx(1 - 0.05 ** (1 / 60))  # Clopper–Pearson

        again = robin("resume", "r", cwd=tmp_path, exits=0)
        has(again.stderr, "nothing was sent: the judge repeats itself", "--repeat-anyway")
        more = robin("resume", "r", "--budget", "360", cwd=tmp_path, exits=2)
        has(more.stderr, "the judge repeats itself", "Add --repeat-anyway")
        assert calls(tmp_path / "r") == 120

        on = robin("resume", "r", "--budget", "360", "--repeat-anyway", cwd=tmp_path, exits=0)
        assert calls(tmp_path / "r") == 360
        has(on.stderr, "the judge repeats itself: 300 of 300 repeats were the same; at most 1 %")


@pytest.mark.parametrize("scheduler", ["uniform", "robin-hood"])
def test_a_scheduler_of_the_paper_that_is_named_spends_the_budget(
    tmp_path: Path, scheduler: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)
    with serving(same) as wire:
        command = judge(wire.url, data, 240, "--scheduler", scheduler)
        robin(*command, cwd=tmp_path, exits=0)
        assert calls(tmp_path / "r") == 240
        robin(*judge(wire.url, data, 300, "--scheduler", scheduler), cwd=tmp_path, exits=0)
        assert calls(tmp_path / "r") == 300


def test_log_probabilities_show_the_noise_after_few_repeats(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 200)
    with serving(lambda _, __: with_logprobs({"3": 0.5, "2": 0.5})) as wire:
        done = robin(*judge(wire.url, data, 800, "--answers", "logprobs"), cwd=tmp_path, exits=0)
    assert 259 <= calls(tmp_path / "r") <= 260
    has(
        done.stderr,
        "repeats itself",
        "same answer, to the letter, at temperature 1: is there a cache",
    )


def test_decisions_end_soon(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 500)
    with serving(same) as wire:
        more = ("--decide", "score>=3")
        robin(*judge(wire.url, data, 1000, *more), cwd=tmp_path, exits=0)
        assert calls(tmp_path / "r") <= 1.3 * 500
        robin(*judge(wire.url, data, 3000, *more, run="large"), cwd=tmp_path, exits=0)
        assert calls(tmp_path / "large") <= 2.02 * 500


@pytest.mark.parametrize("noisy_order", [None, 1])
def test_comparisons_need_both_orders_to_repeat(tmp_path: Path, noisy_order: int | None) -> None:
    lines = [
        {"prompt": f"p{k}", "response_a": f"alpha {k}", "response_b": f"omega {k}"}
        for k in range(60)
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, lines)))

    def answer(number: int, body: dict[str, Any]) -> Answer:
        text = body["messages"][-1]["content"]
        order = int(text.find("omega") < text.find("alpha"))
        verdict = "AB"[Random(number).random() < 0.5] if order == noisy_order else "AB"[order]
        return completion(f"Feedback: {number}.\nVerdict: {verdict}")

    with serving(answer) as wire:
        command: list[str | Path] = ["judge", data, "--pairwise", "-b", "360", "--run", "r"]
        robin(*command, "--base-url", wire.url, "--model", "m", cwd=tmp_path, exits=0)
    assert calls(tmp_path / "r") == (240 if noisy_order is None else 360)


def test_rounds_of_a_panel_ask_only_the_judge_that_varies(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)

    def answer(number: int, body: dict[str, Any]) -> Answer:
        if body["model"] == "m":
            return same(number, body)
        return completion(f"Feedback: {number}.\nRating: {number % 5}")

    with serving(answer) as wire:
        robin(*judge(wire.url, data, 360, "--model", "varies"), cwd=tmp_path, exits=0)
    by_judge = pd.read_parquet(tmp_path / "r" / "judgments")["judge"].value_counts()
    assert by_judge.to_dict() == {"m": 120, "varies": 240}
