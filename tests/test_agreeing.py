"""What people say of decisions: judge --agree, and what is exported of people's labels, as a user meets it."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import robin_cli as robin
from robin_cli.model.errors import InputError

QUALITY = {f"answer {k}": random.Random(k).gauss(2, 1.2) for k in range(240)}
PAIRS = [robin.Pair(name, f"question {k // 4}", name) for k, name in enumerate(QUALITY)]


def on_scale(value: float) -> int:
    return min(4, max(0, round(value)))


def judge() -> Callable[[Sequence[Mapping[str, str]]], str]:
    noise = {name: random.Random(name) for name in QUALITY}

    def rate(messages: Sequence[Mapping[str, str]]) -> str:
        name = re.findall(r"answer \d+", messages[-1]["content"])[-1]
        return f"Feedback: fine\nRating: {on_scale(noise[name].gauss(QUALITY[name] + 0.2, 0.5))}"

    rate.name = "noisy"  # type: ignore[attr-defined]
    return rate


def labels(path: Path, names: Sequence[str], header: Sequence[str] = ("pair_id", "label")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *([name, on_scale(QUALITY[name])] for name in names)])
    return path


def made(folder: Path, decide: str = "score>=2", **more: Any) -> robin.Run:
    return robin.judge(
        PAIRS, judge=judge(), attribute="helpfulness", budget=480, decide=decide, run=folder / "run", quiet=True, **more
    )


def test_certifies_what_people_agree_with_and_keeps_their_labels(tmp_path: Path) -> None:
    file = labels(tmp_path / "labels.csv", list(QUALITY)[:120])
    run = made(tmp_path, agree=0.9, labels=str(file))
    scores = run.scores()
    assert (tmp_path / "run" / "labels.csv").read_text().startswith("pair_id,attribute,rating,labeller,labelled_at")
    facts = run.status()["agreed"]
    assert facts["agreed"] == scores["agreed"].sum() > 60
    assert (facts["promise"], facts["confidence"], facts["labels"], facts["of"]) == (0.9, 0.9, 120, 240)
    right = [
        (on_scale(QUALITY[str(row.pair_id)]) >= 2) == (row.leaning == "keep")
        for row in scores.itertuples()
        if row.agreed
    ]
    assert sum(right) >= 0.9 * len(right)
    gap = (scores["score"] - 2).abs()
    assert gap[scores["agreed"]].mean() > gap[~scores["agreed"]].mean(), "the clearest first"

    quality = run.judge_quality().iloc[0]
    assert (quality.threshold, quality.n_labels) == (2, 120)
    assert quality.accuracy_low < quality.accuracy < quality.accuracy_high
    assert quality.both + quality.judge_alone + quality.people_alone + quality.neither == 120
    far = run.disagreements(n=5)
    assert list(far["difference"].abs()) == sorted(far["difference"].abs(), reverse=True)
    assert {"prompt", "response"} < set(far.columns)
    assert run.summary().iloc[0].n_labels == 120, "what the run keeps corrects its means"


def test_groups_are_labelled_by_all_their_responses_or_by_the_name_of_the_best(tmp_path: Path) -> None:
    run = made(tmp_path, decide="best")
    names = list(QUALITY)
    groups = run.scores()["group"].to_list()
    every = labels(tmp_path / "every.csv", names)
    best = tmp_path / "best.csv"
    with best.open("w", newline="") as file:
        rows = ([groups[k], max(names[k : k + 4], key=lambda name: on_scale(QUALITY[name]))] for k in range(0, 240, 4))
        csv.writer(file).writerows([["group", "best"], *rows])
    by_rating, by_name = (run.scores(agree=0.6, labels=str(each)) for each in (every, best))
    assert by_rating["agreed"].sum() >= by_name["agreed"].sum() > 0, "a tie for the best agrees with either"
    assert set(by_rating.groupby("group")["agreed"].nunique()) == {1}
    best.write_text(f"group,best\n{groups[0]},{names[5]}\n")
    with pytest.raises(InputError, match=r'best.csv:2: "answer 5" is no response of the group'):
        run.scores(agree=0.6, labels=str(best))


def test_refuses_what_labels_cannot_carry_before_any_call_is_paid(tmp_path: Path) -> None:
    few = labels(tmp_path / "few.csv", list(QUALITY)[:10])
    with pytest.raises(InputError, match=r"--agree 0.9: 10 labels by people, and at least 25 are needed"):
        made(tmp_path, agree=0.9, labels=str(few))
    assert not (tmp_path / "run").exists() or not robin.open_run(tmp_path / "run").judgments().size
    with pytest.raises(InputError, match="agree"):
        robin.judge(
            PAIRS, judge=judge(), attribute="helpfulness", budget=300, agree=0.9, run=tmp_path / "x", quiet=True
        )


def test_says_what_is_missing_for_the_quality_of_a_judge(tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(InputError, match="there is no label by people"):
        run.judge_quality()
    good = [name for name, value in QUALITY.items() if value > 2.6]
    with pytest.raises(InputError, match=r"all \d+ labels of helpfulness are >= 2, so nothing tells"):
        run.judge_quality(labels=str(labels(tmp_path / "good.csv", good)))
