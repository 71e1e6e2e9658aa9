"""Means with people's labels, and the pairs that these are wanted of, as a user gets them: files, errors, the way round."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.data.given_labels import opaque_id
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.writer import RunWriter
from tests.conftest import refuses, robin
from tests.run.test_store import SETTINGS, judgment, manifest

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

OWN = ["attribute", "n_prompts", "n_pairs", "mean", "ci_low", "ci_high"]
SHARE = ["share", "share_low", "share_high"]
CORRECTED = ["corrected_mean", "corrected_low", "corrected_high", "n_labels"]
WANTED = ["pair_id", "attribute", "probability", "label", "prompt", "response"]
PROMPTS = 60
TRUE = {
    f"{system}/{k}": 1 + (7 * k + 2 * (system == "ours")) % 13 / 6
    for k in range(PROMPTS)
    for system in ("ours", "theirs")
}
"""What people say of each pair, on 0 to 4; the judge is half a point too kind."""


def made(
    folder: Path,
    *,
    human: Mapping[str, float] | None = None,
    rated: int = 2 * PROMPTS,
    attributes: tuple[str, ...] = ("helpfulness",),
) -> RunReader:
    """A run r of two systems that answered each of 60 prompts, three ratings a pair."""
    rng = np.random.default_rng(2)
    pairs, rows = [], []
    for number, (name, quality) in enumerate(TRUE.items()):
        system, _, k = name.partition("/")
        own = {attributes[0]: human[name]} if human and name in human else {}
        text = ("=1+1 " if number == 0 else "") + f"answer {name}"
        pairs.append(
            Pair(name, f"prompt {k}", text, own, columns={"system": system, "tier": int(k) % 2})
        )
        for attribute in attributes:
            for draw in range(3) if number < rated else ():
                rating = int(np.clip(round(quality + 0.5 + rng.normal(0, 0.6)), 0, 4))
                values: dict[str, Any] = {
                    "pair_id": name,
                    "attribute": attribute,
                    "rating": rating,
                    "draw": draw,
                }
                rows.append(replace(judgment(0), **values))
    made = manifest(
        settings=SETTINGS,
        attributes=attributes,
        data={"source": "x", "sha256": "0", "pairs": len(pairs)},
        budget=10**4,
    )
    with RunWriter.create(folder / "r", made, pairs) as store:
        store.append(rows)
    return read_run(folder / "r")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    made(folder)
    return folder


CAUTION = "with fewer than 50 labelled prompts the labels may miss rare errors; label more\n"


def table(work: Path, *args: str, said: str | None = "") -> pd.DataFrame:
    done = robin("export", "r", *args, cwd=work, exits=0)
    assert said is None or done.stderr == said
    return pd.read_csv(io.StringIO(done.stdout), keep_default_na=False, na_values=[""])


REAL = {opaque_id(name): name for name in TRUE}


def true(name: str) -> float:
    """What people would say of a pair that a file calls so: it says nothing of the system."""
    return TRUE[REAL[name]]


def labelled(path: Path, frame: pd.DataFrame) -> str:
    """The file with its labels filled in by people."""
    frame = frame.assign(label=[round(true(name), 3) for name in frame.pair_id])
    frame.to_csv(path, index=False)
    return path.name


def test_writes_means_by_attribute_and_by_a_column(work: Path) -> None:
    whole = table(work, "--what", "summary")
    assert list(whole.columns) == OWN
    scores = table(work)
    assert whole["mean"].tolist() == pytest.approx([scores.score.mean()])
    assert whole[["n_prompts", "n_pairs"]].to_numpy().tolist() == [[60, 120]]

    by = table(work, "--what", "summary", "--by", "system", "--threshold", "3")
    assert list(by.columns) == ["system", *OWN, *SHARE]
    scores["system"] = [name.partition("/")[0] for name in scores.pair_id]
    assert dict(zip(by.system, by["mean"], strict=True)) == pytest.approx(
        scores.groupby("system").score.mean().to_dict()
    )
    reached = scores.assign(reached=scores.score >= 3).groupby("system").reached.mean()
    assert dict(zip(by.system, by.share, strict=True)) == pytest.approx(reached.to_dict())
    assert ((by.ci_low < by["mean"]) & (by["mean"] < by.ci_high) & (by.share_low < by.share)).all()
    assert table(work, "--what", "summary", "--by", "tier").tier.tolist() == [0, 1]
    frame = robin_cli.open_run(work / "r").summary("system", threshold=3)
    pd.testing.assert_frame_equal(
        frame.astype({"system": str, "attribute": str}), by.astype({"system": str})
    )


def test_draws_what_to_label_and_takes_the_labels_back(work: Path) -> None:
    wanted = table(work, "--what", "labels-wanted", "--n", "60", said=None)
    assert list(wanted.columns) == WANTED
    assert (len(wanted), wanted.prompt.nunique()) == (60, 30), "of several systems whole prompts"
    assert not wanted.pair_id.str.contains("ours|theirs").any(), "blind"
    assert wanted.label.isna().all()
    assert set(wanted.probability) == {60 / 120}
    assert "score" not in wanted

    done = robin(
        "export", "r", "--what", "labels-wanted", "--n", "60", "-o", "wanted.csv", cwd=work
    )
    assert done.stderr.startswith("60 pairs to label, of 30 prompts. Fill in the column label from")
    assert "--labels wanted.csv\n" in done.stderr
    name = labelled(work / "labels.csv", pd.read_csv(work / "wanted.csv"))
    told = table(work, "--what", "summary", "--labels", name, said=f"helpfulness: {CAUTION}")
    assert list(told.columns) == [*OWN, *CORRECTED]
    (row,) = told.to_dict("records")
    truth = np.mean(list(TRUE.values()))
    assert row["ci_low"] > truth
    assert row["corrected_low"] < truth < row["corrected_high"] < row["ci_high"]
    assert row["n_labels"] == 60
    run = robin_cli.open_run(work / "r")
    frame = run.labels_wanted(60)
    assert frame.pair_id.tolist() == [REAL[name] for name in wanted.pair_id]
    frame["label"] = [TRUE[name] for name in frame.pair_id]
    assert run.summary(labels=frame).corrected_mean.tolist() == pytest.approx(
        [row["corrected_mean"]], abs=1e-3
    )
    assert run.summary(labels=work / name).corrected_mean.tolist() == pytest.approx(
        [row["corrected_mean"]]
    )


def test_goes_on_drawing_from_the_labels_there_are(work: Path) -> None:
    first = table(work, "--what", "labels-wanted", "--n", "40", said=None)
    done = first.assign(
        label=[true(name) if k < 30 else np.nan for k, name in enumerate(first.pair_id)]
    )
    done.to_csv(work / "some.csv", index=False)
    more = table(work, "--what", "labels-wanted", "--n", "50", "--labels", "some.csv", said=None)
    assert more.pair_id.tolist()[:40] == first.pair_id.tolist()
    assert more.label.tolist()[:30] == pytest.approx([true(name) for name in first.pair_id[:30]])
    assert more.label[30:].isna().all()
    assert len(more) == 80
    assert set(more.probability) == {80 / 120}
    assert (
        more.pair_id.tolist()
        == table(work, "--what", "labels-wanted", "--n", "80", said=None).pair_id.tolist()
    )
    every = table(work, "--what", "labels-wanted", "--n", "500", said=None)
    assert len(every) == 120
    assert set(every.probability) == {1.0}


def test_draws_whole_prompts_for_a_difference(work: Path) -> None:
    wanted = table(work, "--what", "labels-wanted", "--n", "50", "--by", "system", said=None)
    assert list(wanted.columns) == WANTED  # nor what would tell who answered
    assert len(wanted) == 50
    assert wanted.groupby("prompt").size().tolist() == [2] * 25
    assert set(wanted.probability) == {50 / 120}
    name = labelled(work / "both.csv", wanted)
    told = table(work, "--what", "summary", "--by", "system", "--labels", name, said=None)
    assert told.n_labels.tolist() == [25, 25]
    assert told.corrected_mean.notna().all()
    more = table(
        work, "--what", "labels-wanted", "--n", "4", "--by", "system", "--labels", name, said=None
    )
    assert (len(more), more.label.isna().sum(), more.prompt.nunique()) == (54, 4, 27)


def test_draws_the_same_prompts_in_another_run_on_the_same_data(work: Path, tmp_path: Path) -> None:
    run = made(tmp_path, rated=100)
    wanted = robin_cli.open_run(run.path).labels_wanted(30, by="system")
    assert set(wanted.prompt) <= set(
        table(work, "--what", "labels-wanted", "--n", "60", "--by", "system", said=None).prompt
    )
    known = {f"ours/{k}" for k in range(PROMPTS)} | {f"theirs/{k}" for k in range(PROMPTS)}
    assert set(wanted.pair_id) <= known - set(list(TRUE)[100:])


def test_draws_the_same_prompts_of_systems_in_two_runs(work: Path, tmp_path: Path) -> None:
    drawn = []
    for system in ("ours", "theirs"):
        pairs = [Pair(f"{system}/{k}", f"prompt {k}", f"{system} says {k}") for k in range(PROMPTS)]
        own = manifest(
            settings=SETTINGS, data={"source": "x", "sha256": "0", "pairs": PROMPTS}, budget=10**4
        )
        with RunWriter.create(tmp_path / system, own, pairs) as store:
            store.append([replace(judgment(0), pair_id=pair.pair_id, rating=3) for pair in pairs])
        drawn.append(robin_cli.open_run(tmp_path / system).labels_wanted(25))
    assert drawn[0].prompt.tolist() == drawn[1].prompt.tolist()
    assert set(drawn[0].pair_id).isdisjoint(drawn[1].pair_id)


def test_wants_labels_of_each_attribute_and_keeps_those_of_the_data(tmp_path: Path) -> None:
    human = {name: TRUE[name] for name in list(TRUE)[:70]}
    run = robin_cli.open_run(made(tmp_path, human=human, attributes=("helpfulness", "style")).path)
    wanted = run.labels_wanted(10)
    assert wanted[["pair_id", "attribute"]].value_counts().max() == 1
    mine = wanted[wanted.attribute == "helpfulness"].set_index("pair_id")
    assert mine.label.dropna().to_dict() == pytest.approx(human)
    open_ = wanted[wanted.label.isna()]
    assert open_.pair_id.nunique() == 10
    assert (wanted.attribute == "style").sum() == 10
    assert mine.probability.unique().tolist() == [len(mine) / 120]
    every = dict(TRUE)
    run = robin_cli.open_run(
        made(tmp_path / "more", human=every, attributes=("helpfulness", "style")).path
    )
    assert run.labels_wanted(10).attribute.unique().tolist() == ["style"]
    assert run.summary().corrected_mean.tolist()[0] == pytest.approx(np.mean(list(TRUE.values())))


def test_says_in_the_status_what_labels_make_of_a_mean(work: Path, tmp_path: Path) -> None:
    name = labelled(
        work / "status.csv", table(work, "--what", "labels-wanted", "--n", "60", said=None)
    )
    facts = json.loads(robin("status", "r", "--labels", name, "--json", cwd=work).stdout)["means"][
        "helpfulness"
    ]
    told = table(work, "--what", "summary", "--labels", name, said=None).to_dict("records")[0]
    named = {each: facts[each] for each in told if each != "attribute"}
    assert named == pytest.approx(
        {each: value for each, value in told.items() if each != "attribute"}
    )
    assert (facts["n_labelled_prompts"], facts["labels_are"], facts["not_corrected_because"]) == (
        30,
        "given",
        None,
    )
    assert (
        robin_cli.open_run(work / "r").status(labels=work / name)["means"]["helpfulness"] == facts
    )
    done = robin("status", "r", "--labels", name, cwd=work, COLUMNS="300")
    ends = " ".join(f"{told[end]:.2f}" for end in ("mean", "ci_low", "ci_high", "corrected_mean"))
    line = next(
        line.rstrip() for line in done.stdout.splitlines() if line.startswith("mean helpfulness")
    )
    mean, low, high, corrected = ends.split()
    assert f"{mean} [{low}, {high}] (95 %, over 60 prompts, 120 pairs); {corrected} [" in line
    assert line.endswith("] corrected by 60 labels of 30 prompts")

    plain = robin("status", "r", cwd=work, COLUMNS="300").stdout
    assert f"{mean} [{low}, {high}] (95 %, over 60 prompts, 120 pairs)\n" in plain
    few = made(tmp_path, human={name: TRUE[name] for name in list(TRUE)[:10]})
    facts = robin_cli.open_run(few.path).status()
    assert (
        facts["means"]["helpfulness"]["not_corrected_because"]
        == "5 prompts with a label; 25 are needed"
    )
    out = robin("status", "r", "--details", cwd=tmp_path).stdout
    assert "no interval below 20 prompts; this run has 5" in " ".join(out.split())
    all_ = made(tmp_path / "all", human=TRUE)
    line = robin("status", all_.path, cwd=tmp_path, COLUMNS="300").stdout
    assert "corrected by 120 human ratings of 60 prompts" in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "pair_id,label\nours/0,3\nours/1,2\n",
            "not corrected by labels: helpfulness: 2 prompts with a label; 25 are needed\n",
        ),
        ("pair_id,label\nours/0,\n", "labels.csv: holds no label yet, so no mean is corrected\n"),
        (
            "pair_id,label\n" + "".join(f"ours/{k},4\n" for k in range(40)),
            "not corrected by labels: helpfulness: all labels are 4, so the error of their mean is unknown\n",
        ),
    ],
)
def test_says_why_labels_correct_nothing(work: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    done = robin("export", work / "r", "--what", "summary", "--labels", "labels.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, said)
    row = pd.read_csv(io.StringIO(done.stdout)).to_dict("records")[0]
    assert np.isnan([row[name] for name in CORRECTED[:3]]).all()
    assert row["n_labels"] == text.count(",") - 1 - text.count(",\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--what", "summary", "--by", "systm"], 'no column "systm"'),
        (
            ["--what", "summary", "--by", "mean"],
            "--by mean: the table has a column of its own with that name",
        ),
        (
            ["--what", "summary", "--threshold", "5"],
            "--threshold 5: is off the scale of helpfulness, 0-4",
        ),
        (["--what", "summary", "--threshold", "nan"], "--threshold nan: is off the scale"),
        (
            ["--what", "summary", "--n", "5"],
            "--n: is for --what disagreements, labels-wanted; leave it out",
        ),
        (
            ["--what", "scores", "--threshold", "0"],
            "--threshold: is for --what judge-quality, summary; leave it out",
        ),
        (["--by", "system"], "--by: is for --what labels-wanted, summary, systems; leave it out"),
        (["--what", "labels-wanted", "--n", "0"], "--n 0: must be a number of pairs, at least 1"),
        (["--what", "summary", "--labels", "none.csv"], "none.csv: no such file"),
        (
            ["--what", "labels-wanted", "--labels", "l.csv"],
            "helpfulness: the labels there are were drawn with different prob",
        ),
        (
            ["--what", "labels-wanted", "--labels", "all.csv"],
            "every pair with a score has a label already",
        ),
        (
            ["--what", "labels-wanted", "--labels", "l.csv", "-o", "l.csv"],
            "-o l.csv: is read in this command, and would be",
        ),
    ],
)
def test_refuses_what_it_cannot_do_and_says_what_to_do(
    work: Path, args: list[str], said: str
) -> None:
    (work / "l.csv").write_text(
        "pair_id,label,probability\nours/0,3,0.5\nours/1,3,0.25\n", encoding="utf-8"
    )
    pd.DataFrame({"pair_id": list(TRUE), "label": 3}).to_csv(work / "all.csv", index=False)
    done = robin("export", "r", *args, cwd=work, exits=2)
    assert said in done.stderr
    assert done.stdout == ""


def test_wants_no_labels_of_a_run_without_a_score(tmp_path: Path) -> None:
    run = robin_cli.open_run(made(tmp_path, rated=0).path)
    said = "no pair has a score, so there is nothing yet that labels could correct"
    refuses(robin_cli.RobinError, said, run.labels_wanted)
    row = run.summary().to_dict("records")[0]
    assert (row["n_pairs"], row["n_prompts"]) == (0, 0)
    assert np.isnan(row["mean"])
    assert "mean of" not in robin("status", "r", "--details", cwd=tmp_path).stdout
