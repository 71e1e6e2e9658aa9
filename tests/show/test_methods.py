"""The page of methods, the table of systems and pictures for papers, from a run with hostile names."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

import robin_cli
from robin_cli.run.manifest import read_manifest
from robin_cli.show import charts
from robin_cli.show.drawing import drawn as drawn_chart
from tests.conftest import change_manifest, has, robin

NAMES = ("a_b & \\input{x}", "100 % [best]", "plain")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run ``r`` that compares three systems."""
    folder, rng = tmp_path_factory.mktemp("methods"), random.Random(1)

    def judge(messages: Any) -> str:
        better = NAMES[0] in messages[-1]["content"]
        return f"Feedback: x\nRating: {2 + better + rng.choice([-1, 0, 0, 1])}"

    rows = [
        {
            "id": f"{k}/{at}",
            "prompt": f"Question {k}?",
            "response": f"{name} on {k}",
            "system": name,
        }
        for k in range(24)
        for at, name in enumerate(NAMES)
    ]
    data = folder / "``pairs``.jsonl"
    pd.DataFrame(rows).to_json(data, orient="records", lines=True)
    how: dict[str, Any] = {"attribute": "helpfulness", "budget": 144, "quiet": True}
    robin_cli.judge(data, judge=judge, run=folder / "r", decide="system", **how)
    return folder


def test_writes_what_a_paper_needs_on_one_page(work: Path) -> None:
    page = robin("export", "r", "--what", "methods", cwd=work).stdout
    manifest = read_manifest(work / "r")
    has(page, manifest.data["sha256"], "72 pairs of 24 prompts", "144 of 144 calls spent", " UTC")
    has(
        page,
        "served: ",
        "(144 answers)",
        "fingerprints: none sent",
        "temperature 1",
        "goal: --decide system",
    )
    has(page, manifest.prompt["template"].rstrip(), "Score 4: The response is extremely helpful")
    has(
        page,
        "@article{holm,",
        "\\[holm\\]",
        "- source: ",
        "\\`\\`pairs\\`\\`.jsonl",
    )
    assert "bradley" not in page  # of comparisons alone
    pairwise: dict[str, Any] = {"pairwise": True, "budget": 12, "quiet": True}
    data = pd.read_json(work / "``pairs``.jsonl", lines=True).head(9)
    robin_cli.judge(data, judge=lambda _: "Feedback: x\nVerdict: A", run=work / "p", **pairwise)
    compared = robin("export", "p", "--what", "methods", cwd=work).stdout
    has(compared, "preferences: Bradley", "@article{bradley,", "12 of 12 calls spent, 12 verdicts")
    has(compared, "pairwise: Every comparison is asked in both orders")
    assert "@article{smyth" not in compared
    assert manifest.sessions[-1]["models"] == sorted(
        set(robin_cli.open_run(work / "r").judgments()["model"])
    )
    refused = robin("export", "r", "--what", "methods", "-o", "m.csv", cwd=work, exits=2)
    assert "are md" in refused.stderr
    robin("export", "r", "-o", "scores.csv", cwd=work)
    refused = robin("export", "scores.csv", "--what", "methods", cwd=work, exits=2)
    assert "name the run that made them" in refused.stderr


def test_says_that_ratings_are_means_over_tokens(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work / "r", tmp_path / "r")
    change_manifest(tmp_path / "r", lambda of: of["settings"].update(answers="logprobs"))
    page = robin("export", "r", "--what", "methods", cwd=tmp_path).stdout
    has(page, "logprobs: A rating is the mean of the levels", "\\[liu\\]", "@inproceedings{liu,")


def test_writes_a_table_of_systems_for_papers(work: Path) -> None:
    robin("export", "r", "--what", "systems", "-o", "systems.csv", cwd=work)
    systems = pd.read_csv(work / "systems.csv").set_index("system")
    compared = robin_cli.open_run(work / "r").compare(by="system")
    assert systems.index[0] == NAMES[0]
    assert systems["mean"].is_monotonic_decreasing
    for name in NAMES[1:]:
        (row,) = compared[(compared["a"] == NAMES[0]) & (compared["b"] == name)].to_dict("records")
        mine = systems.loc[name]
        assert mine["difference"] == pytest.approx(-row["difference"])
        assert (mine["difference_low"], mine["difference_high"]) == pytest.approx(
            (-row["ci_high"], -row["ci_low"])
        )
        assert (mine["mean"], mine["p_adjusted"]) == pytest.approx(
            (row["mean_b"], row["p_adjusted"])
        )


def test_keeps_prompt_calls_and_dates_in_the_workbook(work: Path) -> None:
    robin("export", "r", "-o", "scores.xlsx", cwd=work)
    book = openpyxl.load_workbook(work / "scores.xlsx")
    told = {row[0].value: row[1].value for row in book["settings"].iter_rows()}
    assert told["calls"] == "144 of 144 calls spent, 144 ratings"
    has(str(told["prompt"]), "###Task description")
    has(str(told["dates"]), " to ")
    scores = pd.DataFrame(book["results"].values)
    score = next(cell for cell in book["results"][2] if isinstance(cell.value, float))
    assert score.number_format == "0.00"
    assert len(scores) == 73


def test_draws_pictures_for_papers_with_their_fonts_and_names_written_out(work: Path) -> None:
    robin("report", "r", "-o", "r.html", "--figures", "figures", cwd=work)
    drawn = {each.name: each.read_bytes() for each in (work / "figures").iterdir()}
    assert {name.rpartition(".")[2] for name in drawn} == {"svg", "pdf"}
    for name, content in drawn.items():
        if name.endswith(".pdf"):
            assert content.count(b"/FontFile2") == content.count(b"/FontName") > 0
        else:
            assert b"<text" not in content  # letters are outlines
    systems = drawn["01-which-system-is-better.svg"].decode()
    has(systems, f"<!-- {NAMES[0].replace('&', '&amp;')}", "−\u00a0plain -->")


def test_says_in_the_figure_which_differences_it_draws_and_which_letters_no_font_has(
    tmp_path: Path,
) -> None:
    rng, names = random.Random(2), [*(f"s{at}" for at in range(8)), "模型"]
    rows = [
        {"id": f"{k}/{at}", "prompt": f"{k}?", "response": f"{at} {k}", "system": name}
        | {"score": round(3 + at / 4 + rng.random(), 2)}
        for k in range(20)
        for at, name in enumerate(names)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "scores.csv", index=False)
    how = ("--scale", "1-9", "-o", "r.html", "--figures", "drawn")
    told = robin("report", "scores.csv", *how, cwd=tmp_path).stderr
    assert told.startswith('no font of this machine has "型模": PDF shows boxes')
    assert "Warning" not in told
    drawn = (tmp_path / "drawn" / "02-which-system-is-better.svg").read_text("utf-8")
    has(
        drawn,
        "points: the 8 of 36 of the leading system",
        "−\u00a0模型</text>",
        "'Noto Sans CJK SC'",
    )


def test_leaves_room_for_28_long_names_and_for_what_is_beside_them() -> None:
    short = [f"{at}" for at in range(28)]
    long = {at: f"organisation/model-with-a-long-name\n− other/model-{at}-of-2026" for at in short}
    values = np.zeros(28)
    panel = charts.under_one_another(short, values, (values - 1, values + 1), "difference")
    drawn = drawn_chart(charts.chart("", "", panel, written_out=long), "svg").decode()
    height = float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', drawn)[0])
    start, width = map(float, re.findall(r'<rect x="([\d.]+)".*? width="([\d.]+)"', drawn)[0])
    assert start > 180  # points for names
    assert width > 200
    assert height / 28 > 2 * 1.2 * 10.5  # points for two lines
    assert drawn.count("<!-- − other/model-") == 28
