"""robin compare as people use it: two runs, systems of one run, judges; what it prints, writes and refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import robin_cli
from robin_cli.model.arms import FloatArray
from robin_cli.stats.labelled import corrected
from tests.conftest import change_manifest, has, refuses, robin

pytestmark = pytest.mark.usefixtures("no_pictures")

PROMPTS = 40
SYSTEMS = ("new", "old", "older")
BETTER = {"new": 0.9, "old": 0.1, "older": 0.1}
COLUMNS = re.findall(
    r"\w+",
    "a, b, attribute, n_prompts, mean_a, mean_b, difference, std_error, df, ci_low, ci_high, p, p_adjusted, effect_size, "
    "noise_share, prompts_needed, widened",
)
Row = dict[str, Any]


def rows_of(systems: Sequence[str] = SYSTEMS, prompts: int = PROMPTS) -> list[Row]:
    """Two responses of each system to each prompt, whose ids are sorted by neither."""
    return [
        {
            "id": f"{k}-{system}-{take}",
            "prompt": f"What is {k}?",
            "response": f"{system} says {k} in take {take}",
        }
        | {"system": system, "question": f"q{k}"}
        for take in range(2)
        for k in range(prompts)
        for system in systems
    ]


def opinion(text: str, spread: float) -> float:
    system, prompt, take = re.search(r"(\w+) says (\d+) in take (\d)", text).groups()  # type: ignore[union-attr]
    rng = np.random.default_rng([int(prompt), 1])
    alike = rng.normal(2.0, 0.8)
    own = np.random.default_rng([int(prompt), 2 + SYSTEMS.index(system), int(take)]).normal(
        0, spread
    )
    return float(alike + own + BETTER[system])


def judging(name: str = "toy", noise: float = 0.5, spread: float = 0.4) -> Callable[[Any], str]:
    """A judge in Python, whose ratings of one response vary."""
    asked: dict[str, int] = {}

    def judge(messages: Any) -> str:
        text = messages[-1]["content"]
        asked[text] = asked.get(text, 0) + 1
        rng = np.random.default_rng([asked[text], *text.encode()])
        return f"Feedback: so.\nRating: {int(np.clip(round(opinion(text, spread) + rng.normal(0, noise)), 0, 4))}"

    judge.name = name  # type: ignore[attr-defined]
    return judge


def judged(
    folder: Path, name: str, rows: Sequence[Row], judge: Any = None, **settings: Any
) -> Path:
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = {"attribute": "helpfulness", "budget": 2 * len(rows), **settings}
    robin_cli.judge(
        str(data), judge=judge or judging(), run=str(folder / name), quiet=True, **settings
    )
    return folder / name


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of three systems, and one of each of two of them."""
    folder = tmp_path_factory.mktemp("compare")
    # else chance says whose third ratings are left out
    judged(folder, "all", rows_of(), scheduler="uniform")
    for system in SYSTEMS[:2]:
        judged(folder, system, rows_of([system]), scheduler="uniform")
    judged(
        folder,
        "plain",
        [{name: row[name] for name in ("id", "prompt", "response")} for row in rows_of(["new"])],
    )
    return folder


def compared(work: Path, *args: str | Path) -> list[dict[str, str]]:
    done = robin("compare", *args, cwd=work, exits=0)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def apart(a: pd.Series[float], b: pd.Series[float]) -> FloatArray:
    return np.asarray(a - b, dtype=np.float64)


def by_prompt(run: Path, system: str | None = None) -> pd.Series[float]:
    scores = robin_cli.open_run(run).scores(with_text=True)
    if system is not None:
        scores = scores[scores["system"] == system]
    return scores.groupby("prompt")["score"].mean().sort_index()


def test_gate_names_as_many_prompts_as_compare_does(work: Path) -> None:
    (known,) = json.loads(robin("compare", "all", "--by", "system", "--json", cwd=work).stdout)[
        "comparisons"
    ][2:]
    require = (
        f"compare({known['a']},{known['b']}){'>=' if known['difference'] > 0 else '<='}0",
        "--json",
    )
    (gated,) = json.loads(robin("gate", "all", "--require", *require, cwd=work, exits=6).stdout)[
        "requirements"
    ]
    assert (gated["calls_to_settle"], known["better"]) == (None, None)
    # that of three is corrected
    assert 0.5 < gated["prompts_to_settle"] / (known["prompts_needed"] - PROMPTS) <= 1.01


def test_names_the_budget_that_settles_it_where_noise_is_most_of_the_uncertainty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BETTER, "new", 0.5)
    rows = rows_of(("new", "old"), 80)
    judged(tmp_path, "r", rows, judging(noise=1.9, spread=0.1), scheduler="uniform")
    done = robin("compare", "r", "--by", "system", "--format", "table", cwd=tmp_path, exits=0)
    step = re.search(r"about ([\d,]+) more calls for these prompts would settle it", done.stdout)
    assert step
    budget = int(done.stdout.splitlines()[-1].removeprefix("next: robin resume r --budget "))
    assert budget == pytest.approx(2 * len(rows) + int(step[1].replace(",", "")), rel=0.1)
    found = robin("compare", "r", "--by", "system", "--json", cwd=tmp_path, exits=0)
    assert json.loads(found.stdout)["next"] == f"robin resume r --budget {budget}"


def test_two_runs_are_compared_by_their_differences_over_prompts(work: Path) -> None:
    (row,) = compared(work, "new", "old")
    assert list(row) == COLUMNS
    a, b = by_prompt(work / "new"), by_prompt(work / "old")
    t = stats.ttest_rel(a, b)
    assert (row["a"], row["b"], row["attribute"], row["n_prompts"]) == (
        "new",
        "old",
        "helpfulness",
        "40",
    )
    for name, value in (
        ("mean_a", a.mean()),
        ("mean_b", b.mean()),
        ("difference", a.mean() - b.mean()),
        ("std_error", (a - b).std() / np.sqrt(PROMPTS)),
        ("df", t.df),
        ("ci_low", t.confidence_interval().low),
        ("ci_high", t.confidence_interval().high),
        ("p", t.pvalue),
        ("p_adjusted", t.pvalue),
        ("effect_size", t.statistic / np.sqrt(PROMPTS)),
    ):
        assert float(row[name]) == pytest.approx(value)
    assert 0 < float(row["noise_share"]) < 1
    assert row["prompts_needed"] == ""  # it is settled


def test_the_systems_of_one_run_are_compared_two_by_two_as_runs_of_their_own_would_be(
    work: Path,
) -> None:
    rows = compared(work, "all", "--by", "system")
    assert [(row["a"], row["b"]) for row in rows] == [
        ("new", "old"),
        ("new", "older"),
        ("old", "older"),
    ]
    p = []
    for row in rows:
        a, b = (by_prompt(work / "all", row[side]) for side in "ab")
        assert float(row["difference"]) == pytest.approx((a - b).mean())
        t = stats.ttest_rel(a, b)
        low, high = t.confidence_interval(1 - 0.05 / 3)
        assert (float(row["ci_low"]), float(row["ci_high"])) == pytest.approx((low, high))
        p.append(float(t.pvalue))
    adjusted = multipletests(p, method="holm")[1]
    assert [float(row["p_adjusted"]) for row in rows] == pytest.approx(adjusted)


def test_several_runs_with_a_column_are_pooled(work: Path) -> None:
    (row,) = compared(work, "new", "old", "--by", "system")
    (alone,) = compared(work, "new", "old")
    assert {**row, "a": "new", "b": "old"} == alone


def test_prints_who_is_better_and_what_more_prompts_and_calls_would_do(work: Path) -> None:
    done = robin("compare", "all", "--by", "system", "--format", "table", cwd=work, exits=0)
    assert done.stdout.startswith(
        "new is better than old by 0.62 [0.38, 0.86] (95 %, over 40 prompts)\nnew is "
    )
    assert "\n\nA  new\nB  old\nC  older\n" in done.stdout
    assert re.search(r"A − B +40 .* A *\n", done.stdout)
    assert re.search(r"B − C +40 .* not settled *\n", done.stdout)
    assert re.search(
        r"B − C: about [\d,]+ more prompts would settle it, if the difference is as large as it looks",
        done.stdout,
    )
    assert re.search(
        r"5 more calls per response would shorten this interval by at most \d+ %", done.stdout
    )
    has(
        done.stdout,
        "paired t test",
        "3 differences hold together (Bonferroni), and p is Holm's",
        "hold for one look",
    )


def test_json_has_all_of_it(work: Path) -> None:
    plain = json.loads(robin("compare", "new", "old", "--json", cwd=work).stdout)
    assert plain["runs"] == ["new", "old"]
    (one,) = plain["comparisons"]
    assert {*COLUMNS, "p", "settled", "shorter_by_five_calls"} <= set(one)
    assert (one["settled"], one["widened"], one["p_wilcoxon"]) == (True, False, None)
    assert (one["carried_by"], one["carried_share"]) == ([], None)
    detailed = robin("compare", "new", "old", "--json", "--details", cwd=work).stdout
    p = stats.wilcoxon(by_prompt(work / "new"), by_prompt(work / "old")).pvalue
    assert json.loads(detailed)["comparisons"][0]["p_wilcoxon"] == pytest.approx(p)


def test_writes_files_and_python_has_the_same(work: Path, tmp_path: Path) -> None:
    done = robin("compare", "new", "old", "-o", str(tmp_path / "c.parquet"), cwd=work)
    assert (done.returncode, done.stdout) == (0, "")
    written = pd.read_parquet(tmp_path / "c.parquet")
    told = robin_cli.compare(robin_cli.open_run(work / "new"), work / "old")
    pd.testing.assert_frame_equal(written.assign(a="", b=""), told.assign(a="", b=""))
    refuses(robin_cli.RobinError, "name two runs", robin_cli.compare)


def test_prompts_are_matched_by_a_column_where_their_texts_differ(tmp_path: Path) -> None:
    asked = [
        {**row, "prompt": f"{row['prompt']} ({row['system']})"} for row in rows_of(SYSTEMS[:2], 8)
    ]
    judged(tmp_path, "texts", asked)
    done = robin("compare", "texts", "--by", "system", cwd=tmp_path, exits=2)
    assert "no two systems answered the same prompts: 16 of 16" in done.stderr
    assert '"What is 0? (new)", is not answered by old' in done.stderr
    assert "--match" in done.stderr
    (row,) = compared(tmp_path, "texts", "--by", "system", "--match", "question")
    assert row["n_prompts"] == "8"


def test_prompts_that_not_all_answered_are_counted_with_an_example(
    work: Path, tmp_path: Path
) -> None:
    judged(
        tmp_path,
        "fewer",
        [row for row in rows_of(["old"]) if row["question"] not in {"q3", "q5"}],
        budget=76,
    )
    done = robin("compare", work / "new", "fewer", cwd=tmp_path, exits=0)
    has(
        done.stderr,
        "2 of 40 prompts are not answered by all systems",
        '"What is 3?", is not answered by fewer',
    )
    assert next(csv.DictReader(io.StringIO(done.stdout)))["n_prompts"] == "38"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["new"], '--by system: there is "new" alone, and a comparison needs two systems'),
        (
            ["plain"],
            "is one run; name a second one, or the column that names the systems, with --by",
        ),
        (["new", "new"], "is named twice"),
        (["all", "--by", "sistem"], "system"),
        (["all", "--by", "question", "--match", "system"], ""),
        (["nowhere", "new"], "nowhere"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(work: Path, args: list[str], said: str) -> None:
    done = robin("compare", *args, cwd=work)
    if said:
        assert done.returncode in {1, 2}
        assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_fewer_than_five_prompts_are_refused(tmp_path: Path) -> None:
    judged(tmp_path, "few", rows_of(prompts=4))
    done = robin("compare", "few", "--by", "system", cwd=tmp_path, exits=2)
    assert "4 prompts with a rating of both systems: 5 are needed" in done.stderr


@pytest.mark.parametrize(
    ("settings", "judge", "said"),
    [
        ({"temperature": 0.5}, "toy", "--temperature: 1.0 and 0.5"),
        ({}, "other", "judge: toy and other"),
        ({"rubric": "own.toml"}, "toy", "rubric of helpfulness"),
        ({"template": "own.jinja"}, "toy", "the template of the question"),
        ({"attribute": "coherence"}, "toy", "attributes: helpfulness and coherence"),
    ],
)
def test_runs_that_were_judged_in_different_ways_are_refused_with_what_differs(
    work: Path, tmp_path: Path, settings: Mapping[str, Any], judge: str, said: str
) -> None:
    (tmp_path / "own.toml").write_text(
        'attribute = "helpfulness"\ntitle = "Help"\nscale = [0, 4]\n[levels]\n'
        + "".join(f'{level} = "So {level}."\n' for level in range(5)),
        encoding="utf-8",
    )
    (tmp_path / "own.jinja").write_text(
        "{% block user %}{{ instruction }} {{ response }} {{ rubric }}{% endblock %}"
    )
    files = {
        name: str(tmp_path / value) if str(value).startswith("own.") else value
        for name, value in settings.items()
    }
    judged(tmp_path, "other", rows_of(["old"], 6), judge=judging(judge), **files)
    done = robin("compare", work / "new", "other", cwd=tmp_path, exits=2)
    has(done.stderr, "were not judged in the same way", said, "robin export RUN --what agreement")


def test_a_report_of_two_systems_has_the_difference_and_every_prompt_with_both_answers(
    work: Path, tmp_path: Path
) -> None:
    robin("report", work / "new", work / "old", "-o", "c.html", cwd=tmp_path, exits=0)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    has(page, "Two systems, prompt by prompt", "Is A better than B?")
    (row,) = compared(work, "new", "old")
    assert f">{float(row['difference']):+.2f}<" in page
    assert f">{float(row['ci_low']):+.2f} to {float(row['ci_high']):+.2f}<" in page
    assert '<td class="name">A</td>' in page  # which is better


def test_a_gate_holds_a_difference_against_a_number(work: Path) -> None:
    needs = [
        *("--require", "compare(new,old)>=0", "--require", "compare(old,older)>=0"),
        *("--require", "compare(old,new)>0"),
    ]
    done = robin("gate", "all", *needs, cwd=work, exits=5)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "PASS compare(new,old,helpfulness)>=0",
        "INCONCLUSIVE compare(old,older,helpfulness)>=0",
        "FAIL compare(old,new,helpfulness)>0",
    ]
    there = "(for each of 3 comparisons alone: 40 prompts that both answered"
    assert all(there in line for line in lines)
    assert "more prompts like these" in lines[1] or "would settle it" in lines[1]
    two = robin("gate", "new", "--require", "compare(new,old)>=0", cwd=work)
    assert (two.returncode, two.stdout.split(":")[0]) == (0, "PASS compare(new,old,helpfulness)>=0")
    has(two.stdout, "(for 1 comparison: 40 prompts that both answered)")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compare(new)>=0", "at character 9: inside the brackets name two systems"),
        ("compare(new,new)>=0", "name two systems"),
        ("compare(new,nwe)>=0", 'no system "nwe"'),
        ("compare(new,old)>=4", "differ by 4"),
        ("compare(new,old)", "behind the bracket write >=NUMBER"),
        ("compare(new,old,coherence)>=0", "coherence"),
        ('compare("new, newer",old)>=0', 'no system "new, newer"'),
    ],
)
def test_a_gate_says_what_of_a_comparison_it_does_not_understand(
    work: Path, text: str, said: str
) -> None:
    done = robin("gate", "all", "--require", text, cwd=work, exits=2)
    assert said in done.stderr


@pytest.fixture(scope="module")
def flattered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """A run whose judge is kinder to "new" by .8 than people are, who find both alike; and their labels of 40 prompts."""
    rows = [row for row in rows_of(SYSTEMS[:2], 120) if row["id"].endswith("-0")]
    run = judged(tmp_path_factory.mktemp("flattered"), "kind", rows, budget=len(rows))
    rng = np.random.default_rng(5)

    def label(row: Row) -> int:
        alike = opinion(row["response"], 0.4) - BETTER[row["system"]]
        return int(np.clip(round(alike + rng.normal(0, 0.3)), 0, 4))

    return run, [
        {"pair_id": row["id"], "label": label(row)}
        for row in rows
        if int(row["question"][1:]) % 3 == 0
    ]


def test_peoples_labels_correct_a_difference_that_the_judge_makes(
    flattered: tuple[Path, list[Row]],
) -> None:
    run, labels = flattered
    folder = run.parent
    pd.DataFrame(labels).to_csv(folder / "labels.csv", index=False)
    (row,) = compared(folder, "kind", "--by", "system", "--labels", "labels.csv")
    assert list(row) == [
        *COLUMNS,
        "corrected_difference",
        "corrected_low",
        "corrected_high",
        "n_labels",
    ]
    assert row["n_labels"] == "80"
    assert float(row["ci_low"]) > 0.4
    assert float(row["corrected_low"]) < 0 < float(row["corrected_high"])
    scores = (
        robin_cli.open_run(run)
        .scores(with_text=True)
        .merge(pd.DataFrame(labels), how="left", on="pair_id")
    )
    sign = np.where(scores["system"] == "new", 1.0, -1.0) / 120
    wanted = corrected(
        scores["score"].to_numpy(),
        scores["label"].to_numpy(),
        1.0,
        scores["prompt"].factorize()[0],
        np.stack([np.maximum(sign, 0), np.minimum(sign, 0)]),
        ends=(0.0, 4.0),
    )
    told = [float(row[f"corrected_{name}"]) for name in ("difference", "low", "high")]
    assert told == pytest.approx([wanted.estimate, wanted.low, wanted.high])
    shown = robin(
        *("compare", "kind", "--by", "system", "--labels", "labels.csv", "--format", "table"),
        cwd=folder,
    ).stdout
    assert re.search(r"\nA − B .* A  +[+-]0\.\d\d  -0\.\d\d to \+0\.\d\d  not settled\b", shown)
    assert (
        "The judge prefers A; 80 labels of people are too few to confirm it: their interval holds 0. They correct"
        in shown
    )
    assert re.search(
        r"the judge seems 0\.\d\d too kind to A; with fewer than 50 labelled prompts", shown
    )
    in_json = robin("compare", "kind", "--labels", "labels.csv", "--json", cwd=folder).stdout
    (known,) = json.loads(in_json)["comparisons"]
    assert (known["better"], known["better_by_labels"]) == ("new", None)


def test_corrected_differences_of_several_systems_hold_together(tmp_path: Path) -> None:
    rng, systems, prompts = np.random.default_rng(7), 4, 60
    people = rng.integers(0, 5, (prompts, systems)).astype(float)
    scores = np.clip(people + rng.normal(0, 0.7, people.shape), 0, 4).round(2)
    prompt, system = (each.ravel() for each in np.indices(people.shape))
    table = pd.DataFrame({"id": [f"{a}-{b}" for a, b in zip(prompt, system, strict=True)]})
    table = table.assign(prompt=prompt, response=table["id"], system=system, score=scores.ravel())
    table.to_csv(tmp_path / "scores.csv", index=False)
    table["label"] = np.where((prompt < 30) & (system < 3), people.ravel(), np.nan)  # not of 3
    labels = table.rename(columns={"id": "pair_id"})[["pair_id", "label"]].dropna()
    labels.to_csv(tmp_path / "labels.csv", index=False)
    rows = compared(tmp_path, "scores.csv", "--scale", "0-4", "--labels", "labels.csv")
    is_corrected = [bool(row["corrected_difference"]) for row in rows]
    assert is_corrected == [True, True, False, True, False, False]
    has_some = (system == 0) | (system == 1)
    sign = np.where(system == 0, 1.0, -1.0)[has_some] / prompts
    wanted = corrected(
        *(table["score"].to_numpy()[has_some], table["label"].to_numpy()[has_some], 1.0),
        *(prompt[has_some], np.stack([np.maximum(sign, 0), np.minimum(sign, 0)])),
        ends=(0.0, 4.0),
        alpha=0.05 / 3,
    )
    told = [float(rows[0][f"corrected_{name}"]) for name in ("difference", "low", "high")]
    assert told == pytest.approx([wanted.estimate, wanted.low, wanted.high])


def test_few_labels_correct_nothing_and_wrong_ones_are_refused(
    flattered: tuple[Path, list[Row]],
) -> None:
    run, labels = flattered
    folder = run.parent
    pd.DataFrame(labels[:20]).to_csv(folder / "few.csv", index=False)
    done = robin("compare", "kind", "--by", "system", "--labels", "few.csv", "--json", cwd=folder)
    (one,) = json.loads(done.stdout)["comparisons"]
    assert one["corrected_difference"] is None
    assert "not corrected by labels: " in done.stderr
    assert "25" in one["labels_why"]
    pd.DataFrame([*labels, {"pair_id": "nobody", "label": 1}]).to_csv(
        folder / "unknown.csv", index=False
    )
    done = robin(
        "compare", "kind", "--by", "system", "--labels", "unknown.csv", cwd=folder, exits=2
    )
    assert 'unknown.csv:82: no pair of the run is called "nobody"' in done.stderr


def test_says_what_is_left_out_and_who_may_look_too_often(work: Path, tmp_path: Path) -> None:
    rows = [
        {**row, "system": None} if row["question"] == "q1" else row
        for row in rows_of(SYSTEMS[:2], 10)
    ]
    judged(tmp_path, "gaps", rows, attribute="helpfulness,coherence", budget=4 * len(rows))
    done = robin("compare", "gaps", "--by", "system", cwd=tmp_path)
    assert "4 pairs of 40 without a system left out" in done.stderr
    assert [row["attribute"] for row in csv.DictReader(io.StringIO(done.stdout))] == [
        "helpfulness",
        "coherence",
    ]
    again = robin("compare", "gaps", work / "new", cwd=tmp_path)
    assert "coherence: not rated in all of the runs, and left out" in again.stderr
    assert "the runs share 20 responses; they differ only by the judge's noise" in again.stderr
    twice = robin("compare", work / "new", work / "plain", "--format", "table", cwd=tmp_path).stdout
    assert "have the very same responses; by the judge alone they differ by " in twice
    assert "more prompt" not in twice.partition("of the variance")[0]

    raised = tmp_path / "raised"
    shutil.copytree(work / "old", raised)
    change_manifest(raised, lambda content: content.update(budget=400))
    warned = robin("compare", work / "new", "raised", cwd=tmp_path).stderr
    assert (
        "raised: 160 of 400 calls are spent. The intervals hold for one look, so compare once"
        in warned
    )
