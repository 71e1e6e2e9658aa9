"""What people say of decisions: judge --agree, and what is exported of people's labels, as a user meets it."""

from __future__ import annotations

import csv
import random
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import robin_cli as robin
from robin_cli.model.errors import InputError
from robin_cli.run.labels import add_labels
from robin_cli.run.reader import read_run
from robin_cli.show.label.work import Labelling
from robin_cli.show.run_list import runs_in

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

QUALITY = {f"answer {k}": random.Random(k).gauss(2, 1.2) for k in range(160)}
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
    # one at a time, for no clock is to matter
    asked: Any = {"budget": 320, "concurrency": 1, "samples_per_request": 1, "quiet": True}
    return robin.judge(
        PAIRS,
        judge=judge(),
        attribute="helpfulness",
        decide=decide,
        run=folder / "run",
        **asked,
        **more,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> robin.Run:
    """A run that keeps no labels, only to be read."""
    return made(tmp_path_factory.mktemp("finished"))


def test_certifies_what_people_agree_with_and_keeps_their_labels(tmp_path: Path) -> None:
    file = labels(tmp_path / "labels.csv", list(QUALITY)[:120])
    run = made(tmp_path, agree=0.86, labels=str(file))
    scores = run.scores()
    assert (
        (tmp_path / "run" / "labels.csv")
        .read_text()
        .startswith("pair_id,attribute,rating,labeller,labelled_at")
    )
    facts = run.status()["agreed"]
    assert facts["agreed"] == scores["agreed"].sum() > 40
    assert (facts["promise"], facts["confidence"], facts["labels"], facts["of"]) == (
        0.86,
        0.9,
        120,
        160,
    )
    right = [
        (on_scale(QUALITY[str(row.pair_id)]) >= 2) == (row.decision == "keep")
        for row in scores.itertuples()
        if row.agreed
    ]
    assert sum(right) >= 0.86 * len(right)
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

    (tmp_path / "run" / "labels.csv").write_text("pair_id,label\nnobody,3\n")
    assert [each["state"] for each in runs_in(tmp_path)] == ["finished"], (
        "a spoiled file spoils no list of runs"
    )
    with pytest.raises(InputError, match=r'labels.csv:2: no pair of the run is called "nobody"'):
        run.status()


def test_groups_are_labelled_by_all_their_responses_or_by_the_name_of_the_best(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path, decide="best")
    wanted = run.labels_wanted(8)
    assert len({PAIRS[int(name.split()[1])].prompt for name in wanted["pair_id"]}) == 2, (
        "whole groups, for these count"
    )
    assert len(Labelling(read_run(tmp_path / "run"), 6).items) == 8, "nobody stops within a group"
    names = list(QUALITY)
    groups = run.scores()["group"].to_list()
    every = labels(tmp_path / "every.csv", names)
    best = tmp_path / "best.csv"
    with best.open("w", newline="") as file:
        rows = (
            [groups[k], max(names[k : k + 4], key=lambda name: on_scale(QUALITY[name]))]
            for k in range(0, 160, 4)
        )
        csv.writer(file).writerows([["group", "best"], *rows])
    with pytest.raises(InputError, match=r"--labels: changes no score; --agree SHARE beside it"):
        run.scores(labels=str(every))
    with pytest.raises(InputError, match="no such file"):
        run.scores(labels="nowhere.csv")
    by_rating, by_name = (run.scores(agree=0.6, labels=str(each)) for each in (every, best))
    assert by_rating["agreed"].sum() >= by_name["agreed"].sum() > 0, (
        "a tie for the best agrees with either"
    )
    assert set(by_rating.groupby("group")["agreed"].nunique()) == {1}
    some = labels(tmp_path / "some.csv", names[:120])
    with pytest.raises(
        InputError, match=r"0 decisions .* a group counts once all its responses have a label"
    ):
        run.scores(agree=0.6, labels=str(labels(tmp_path / "one-each.csv", names[::4])))
    assert not run.scores(agree=0.9, labels=str(some))["agreed"].any()
    assert "more might, more than there are decisions: ask for less" in capfd.readouterr().err
    best.write_text(f"group,best\n{groups[0]},{names[5]}\n")
    with pytest.raises(InputError, match=r'best.csv:2: "answer 5" is no response of the group'):
        run.scores(agree=0.6, labels=str(best))


def test_prompts_of_comparisons_are_labelled_whole_and_for_both_responses(tmp_path: Path) -> None:
    def prefer(messages: Sequence[Mapping[str, str]]) -> str:
        first, second = (
            QUALITY[name] for name in re.findall(r"answer \d+", messages[-1]["content"])[-2:]
        )
        return f"Feedback: fine\nVerdict: {'A' if first > second else 'B'}"

    pairs = [
        robin.Pair(
            f"{k}-{of[0]}{of[1]}",
            f"question {k}",
            f"answer {4 * k + of[0]}",
            other=f"answer {4 * k + of[1]}",
        )
        for k in range(30)
        for of in ((0, 1), (0, 2), (1, 2))
    ]
    about: Any = {
        "attribute": "helpfulness",
        "pairwise": True,
        "decide": "best",
        "budget": 180,
        "concurrency": 1,
        "quiet": True,
    }
    run = robin.judge(pairs, judge=prefer, run=tmp_path / "run", **about)
    wanted = run.labels_wanted(90)
    first, second = (wanted[f"response_{side}"].map(QUALITY) for side in "ab")
    wanted["label"] = ["A" if is_first else "B" for is_first in first > second]
    assert run.scores(agree=0.8, labels=wanted)["agreed"].all()
    ones = wanted.drop_duplicates("prompt")
    with pytest.raises(
        InputError,
        match=r"--agree 0.8: \d decisions .*; a prompt counts once all its comparisons have",
    ):
        run.scores(agree=0.8, labels=ones)
    with pytest.raises(
        InputError,
        match=r"all \d+ labels of helpfulness prefer A, so it is unknown .*; label more$",
    ):
        run.judge_quality(labels=wanted[wanted["label"] == "A"])


def test_draws_groups_of_a_column_whole(tmp_path: Path) -> None:
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        rows = [[f"p{k}", f"question {k}", f"answer {k}", f"topic {k // 3}"] for k in range(30)]
        csv.writer(file).writerows([["id", "prompt", "response", "topic"], *rows])
    about: Any = {
        "attribute": "helpfulness",
        "decide": "best",
        "group": "topic",
        "budget": 40,
        "quiet": True,
    }
    run = robin.judge(str(tmp_path / "pairs.csv"), judge=judge(), run=tmp_path / "run", **about)
    assert len({int(name[1:]) // 3 for name in run.labels_wanted(3)["pair_id"]}) == 1


def test_refuses_what_labels_cannot_carry_before_any_call_is_paid(tmp_path: Path) -> None:
    few = labels(tmp_path / "few.csv", list(QUALITY)[:10])
    with pytest.raises(
        InputError, match=r"--agree 0.9: 10 decisions with people's labels, at least 25 are needed"
    ):
        made(tmp_path, agree=0.9, labels=str(few))
    assert not (tmp_path / "run").exists() or not robin.open_run(tmp_path / "run").judgments().size
    off = [replace(pair, human={"helpfulness": 9.0}) for pair in PAIRS]
    with pytest.raises(
        InputError, match=r"0 decisions .*; 160 of 160 human ratings are off the scale 0-4"
    ):
        robin.judge(
            off,
            judge=judge(),
            attribute="helpfulness",
            decide="score>=2",
            budget=300,
            agree=0.9,
            run=tmp_path / "y",
        )
    with pytest.raises(InputError, match="agree"):
        robin.judge(
            PAIRS,
            judge=judge(),
            attribute="helpfulness",
            budget=300,
            agree=0.9,
            run=tmp_path / "x",
            quiet=True,
        )


def test_says_what_is_missing_for_the_quality_of_a_judge(
    tmp_path: Path, finished: robin.Run
) -> None:
    run = finished
    with pytest.raises(InputError, match="there is no label by people"):
        run.judge_quality()
    good = [name for name, value in QUALITY.items() if value > 2.6]
    file = str(labels(tmp_path / "good.csv", good))
    with pytest.raises(
        InputError, match=r"all \d+ labels of helpfulness are >= 2, so it is unknown"
    ):
        run.judge_quality(labels=file)
    with pytest.raises(
        InputError, match=r"people keep all \d+ labelled pairs, and .* does not. .* drawn at random"
    ):
        run.scores(agree=0.9, labels=file)


def test_promises_nothing_by_labels_that_were_not_drawn_alike_or_that_miss_an_attribute(
    tmp_path: Path, finished: robin.Run
) -> None:
    run = finished
    names = list(QUALITY)[:120]
    with (tmp_path / "drawn.csv").open("w", newline="") as file:
        rows = (
            [name, on_scale(QUALITY[name]), 0.1 + 0.2 * (k % 2)] for k, name in enumerate(names)
        )
        csv.writer(file).writerows([["pair_id", "label", "probability"], *rows])
    with pytest.raises(
        InputError, match="drawn with different probabilities, and a promise takes labels"
    ):
        run.scores(agree=0.9, labels=str(tmp_path / "drawn.csv"))
    with pytest.raises(InputError, match="--agree 90: must be a share above 0 and below 1"):
        run.scores(agree=90, labels=str(labels(tmp_path / "labels.csv", names)))
    with pytest.raises(InputError, match="--n 0: at least one disagreement"):
        run.disagreements(0, labels=str(tmp_path / "labels.csv"))


def test_a_finished_run_takes_labels(tmp_path: Path, finished: robin.Run) -> None:
    run = robin.open_run(shutil.copytree(finished.path, tmp_path / "run"))
    run.resume(
        judge=judge(), agree=0.8, labels=str(labels(tmp_path / "labels.csv", list(QUALITY)[:120]))
    )
    assert run.status()["agreed"]["labels"] == 120
    add_labels(
        tmp_path / "run",
        [{"pair_id": "answer 150", "attribute": "helpfulness", "rating": 3, "labeller": "ann"}],
    )
    assert run.status()["agreed"]["labels"] == 121


def test_two_runs_that_keep_labels_are_compared_by_both(
    tmp_path: Path, finished: robin.Run
) -> None:
    runs = [robin.open_run(shutil.copytree(finished.path, tmp_path / name)) for name in "ab"]
    for run, names in zip(runs, (list(QUALITY)[:80], list(QUALITY)[60:120]), strict=True):
        rows = (
            {"pair_id": name, "attribute": "helpfulness", "rating": on_scale(QUALITY[name])}
            for name in names
        )
        add_labels(run.path, rows)
    with warnings.catch_warnings(
        action="ignore"
    ):  # of the same responses, and of a judge that is right
        found = runs[0].compare(runs[1])
    assert found["n_labels"].tolist() == [240], "120 pairs, in both runs"
    add_labels(runs[1].path, [{"pair_id": "answer 0", "attribute": "helpfulness", "rating": 1.25}])
    with pytest.raises(
        InputError,
        match=r'the pair "answer 0" has the label 1.25, and .* give the labels that count',
    ):
        runs[0].compare(runs[1])


def test_what_a_crash_left_of_a_line_is_taken_out_and_other_files_are_not_written_to(
    tmp_path: Path,
) -> None:
    row = {"pair_id": "p1", "attribute": "style", "rating": 3, "labeller": "ann"}
    add_labels(tmp_path, [row])
    whole = (tmp_path / "labels.csv").read_bytes()
    (tmp_path / "labels.csv").write_bytes(whole + b"p1")
    add_labels(tmp_path, [row | {"pair_id": "7"}])
    assert (tmp_path / "labels.csv").read_bytes() == whole + b"7,style,3,ann,,,\n"
    (tmp_path / "labels.csv").write_bytes(whole[:-1])  # an editor that ends no line
    add_labels(tmp_path, [row])
    assert (tmp_path / "labels.csv").read_bytes() == whole + whole.splitlines(keepends=True)[-1]
    (tmp_path / "labels.csv").write_text("pair_id;label\np1;3\n")
    with pytest.raises(InputError, match="has other columns than robin's"):
        add_labels(tmp_path, [row])
