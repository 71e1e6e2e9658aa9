"""Scores that are there already: files of them in the place of runs, and nothing is asked of a judge."""

from __future__ import annotations

import io
import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

import robin_cli
from robin_cli.model.errors import InputError
from tests.conftest import has, refuses, robin
from tests.stats.test_scores import run_of

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

LOGS = Path(__file__).parent / "plugins" / "logs" / "written"
LM_EVAL = sorted(LOGS.glob("lm-eval/*/samples_*.jsonl"))


def exported(folder: Path, *args: str | Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(robin("export", *args, cwd=folder, exits=0).stdout))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three epochs of two models over forty samples, each with a metric of 0 and 1 and one between."""
    rng, rows = np.random.default_rng(5), []
    for sample in range(40):
        ease = rng.random()
        for model, skill in (("small", 0.2), ("large", 0.6)):
            for epoch in range(3):
                f1 = np.clip(rng.normal((ease + skill) / 2, 0.1), 0, 1)
                rows.append([f"q{sample}", model, epoch, int(rng.random() < f1), round(f1, 3)])
    file = tmp_path_factory.mktemp("scores") / "table.csv"
    pd.DataFrame(rows, columns=["question", "model", "epoch", "correct", "f1"]).to_csv(
        file, index=False
    )
    return file


OF_TABLE = "id=question,score=correct|f1,system=model"


def test_compares_systems_by_scores_of_a_table_paired_by_sample(table: Path) -> None:
    columns = {"id": "question", "score": "correct|f1"}
    found = robin_cli.compare(table, by="model", columns=columns, scale="0-1")
    assert found["attribute"].tolist() == ["correct", "f1"]
    means = pd.read_csv(table).groupby(["question", "model"])[["correct", "f1"]].mean().unstack()
    for row in found.to_dict("records"):
        a, b = (means[row["attribute"], row[side]] for side in ("a", "b"))
        assert (row["n_prompts"], row["difference"]) == (40, pytest.approx((a - b).mean()))
        ends = ttest_rel(a, b).confidence_interval()
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(ends))


def test_has_the_tables_of_a_run_for_scores(table: Path, tmp_path: Path) -> None:
    raw = pd.read_csv(table)
    scores = exported(tmp_path, table, "--columns", OF_TABLE)
    assert set(scores["n"]) == {3}
    assert scores["variance"].dropna().shape == (160,)
    of_f1 = scores[scores["attribute"] == "f1"].set_index(["system", "pair_id"])["score"]
    assert of_f1["large", "large/q7"] == pytest.approx(
        raw.query("model == 'large' and question == 'q7'")["f1"].mean()
    )
    summary = exported(
        tmp_path, table, "--columns", OF_TABLE, "--what", "summary", "--by", "system"
    )
    assert summary["mean"].tolist() == pytest.approx(
        [
            raw[raw["model"] == system][name].mean()
            for name in ("correct", "f1")
            for system in ("small", "large")
        ]
    )
    judgments = exported(tmp_path, table, "--columns", OF_TABLE, "--what", "judgments")
    kept = judgments["expected_rating"].fillna(judgments["rating"])
    assert kept.tolist() == [*raw["correct"], *raw["f1"]]
    has(
        robin("status", table, "--columns", OF_TABLE, "--details", cwd=tmp_path, exits=0).stdout,
        "mean f1",
        "reliability",
    )
    robin("report", table, "--columns", OF_TABLE, cwd=tmp_path, exits=0)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_gates_a_build_by_scores(table: Path, tmp_path: Path) -> None:
    required = {
        "compare(large,small,f1)>=0": 0,
        "mean(f1)>=0.9": 5,
        "compare(large,small,correct)>=0.08": 6,
    }
    said = ""
    for requirement, code in required.items():
        done = robin(
            *("gate", table, "--columns", OF_TABLE, "--scale", "0-1", "--require", requirement),
            cwd=tmp_path,
            exits=code,
        )
        has(done.stdout, requirement)
        said = done.stdout
    has(said, "more samples would settle it, or about")
    assert "robin resume" not in said


def test_takes_what_inspect_s_scorers_said(tmp_path: Path) -> None:
    small, large = sorted(LOGS.glob("inspect/*.eval"))
    for log, correct in ((small, {"france", "1"}), (large, {"france", "primes", "1"})):
        scores = exported(tmp_path, log)
        assert set(scores["attribute"]) == {"includes"}
        assert set(scores[scores["score"] == 1]["pair_id"].str.rsplit("/", n=1).str[1]) == correct
        assert len(scores) == 3
    (unusual,) = LOGS.glob("inspect-unusual/*.eval")
    assert exported(tmp_path, unusual).set_index("pair_id")["n"].sum() == 5
    (epochs,) = LOGS.glob("inspect-unusual/*.json.gz")
    assert exported(tmp_path, epochs)["n"].tolist() == [2]
    done = robin("compare", small, large, cwd=tmp_path, exits=2)
    has(done.stderr, "3 prompts with a rating of both systems: 5 are needed")


def test_takes_each_filter_of_lm_evaluation_harness_as_a_metric_and_likelihoods_without_texts(
    tmp_path: Path,
) -> None:
    for file in LM_EVAL:
        logged = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        scores = exported(tmp_path, file).set_index(["attribute", "pair_id"])["score"]
        for sample in logged:
            name = (
                "exact_match" if sample["filter"] == "strict" else f"exact_match.{sample['filter']}"
            )
            (found,) = (
                pair for pair in scores[name].index if pair.endswith(f"/{sample['doc_id']}")
            )
            assert scores[name][found] == sample["exact_match"]
    (choice,) = LOGS.glob("lm-eval-choice/*/samples_*.jsonl")
    assert exported(tmp_path, choice)["attribute"].tolist() == ["acc", "acc"]


def test_matches_samples_by_their_ids_whatever_templates_are_around_their_prompts(
    tmp_path: Path,
) -> None:
    line = json.loads(LM_EVAL[0].read_text(encoding="utf-8").splitlines()[0])
    rng, values = np.random.default_rng(1), {}
    for name in "ab":
        values[name] = rng.integers(0, 2, 30).astype(float)
        rows = [
            {
                **line,
                "doc_id": at,
                "exact_match": value,
                "arguments": [[f"<{name}> Question {at}", {}]],
            }
            for at, value in enumerate(values[name])
        ]
        (tmp_path / name).mkdir()
        file = tmp_path / name / "samples_t_2026-01-01T00-00-00.1.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    files = [f"{name}/samples_t_2026-01-01T00-00-00.1.jsonl" for name in "ab"]
    done = robin("compare", *files, "--json", cwd=tmp_path, exits=0)
    (found,) = json.loads(done.stdout)["comparisons"]
    assert (found["a"], found["b"], found["n_prompts"]) == (*files, 30)
    assert found["difference"] == pytest.approx((values["a"] - values["b"]).mean())
    has(done.stderr, "30 samples with another prompt than the same id has elsewhere")


ROWS = [{"prompt": f"q{at}", "score": at / 2} for at in range(12)]


def test_says_only_what_needs_no_scale_where_nothing_says_the_scale(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(1, 4, (2, 30)) + np.array([[0], [1]]) * (rng.random(30) < 0.35)
    for name, own in zip("ab", values, strict=True):
        rows = pd.DataFrame({"id": range(30), "score": own})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)

    def compared(*scale: str) -> dict[str, Any]:
        done = robin("compare", "a.csv", "b.csv", "--json", *scale, cwd=tmp_path, exits=0)
        assert ("--scale LOW-HIGH gives the bounds" in done.stderr) == (not scale)
        return dict(json.loads(done.stdout)["comparisons"][0])

    by_t = ttest_rel(*values)
    found = compared()
    assert (found["p"], found["ci_low"], found["ci_high"]) == pytest.approx(
        (by_t.pvalue, *by_t.confidence_interval())
    )
    robust = [compared("--robust", "--scale", scale)["p"] for scale in ("0-4", "0-100")]
    assert found["p"] == compared("--scale", "0-4")["p"] < robust[0] < robust[1]
    none = exported(tmp_path, "a.csv")
    assert none[["std_error", "ci_low", "ci_high"]].isna().all(axis=None)
    refused = robin("gate", "a.csv", "--require", "all(score>=1)", cwd=tmp_path, exits=2)
    has(
        refused.stderr,
        "needs the scale of score, which the file does not say; name it with --scale",
    )
    shares = ("--require", "mean(score)>=9", "--require", "share(score>=2)>=0.1")
    done = robin("gate", "a.csv", *shares, cwd=tmp_path, exits=5)
    has(done.stdout, "FAIL mean(score)>=9: ", "PASS share(score>=2)>=0.1: ")
    (tmp_path / "a.csv").write_text("id,score\n" + "".join(f"q{at},4\n" for at in range(20)))
    robin("gate", "a.csv", "--require", "mean(score)>=3.9", cwd=tmp_path, exits=6)


def test_says_that_few_prompts_carry_a_difference_and_what_few_prompts_cannot_show(
    tmp_path: Path,
) -> None:
    for name, first in (("a", 0), ("b", 3)):
        lines = [f"q{at},{first if at == 0 else 3}" for at in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score", *lines]))
    asked = ("compare", "a.csv", "b.csv", "--scale", "0-4", "--format", "table")
    done = robin(*asked, "--details", cwd=tmp_path, exits=0)
    has(done.stdout, "(95 %, over 40 prompts, widened: 1 of them carries 97 % of the variance)")
    has(done.stderr, "at most of 40 prompts, and fewer than 60 cannot show rare large ones")
    has(robin(*asked, "--robust", cwd=tmp_path, exits=0).stdout, "widened by --robust)")
    has(done.stdout, "df", "Wilcoxon", "-0.16")
    written = robin(*asked[:5], cwd=tmp_path, exits=0).stdout
    assert pd.read_csv(io.StringIO(written))["widened"].tolist() == [True]


def write_scores(path: Path, scores: dict[str, list[float]]) -> None:
    """Write a row for each system and prompt, the first prompts of each."""
    rows = [
        {"prompt": f"p{at}", "system": system, "score": score}
        for system, of_prompts in scores.items()
        for at, score in enumerate(of_prompts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_systems_have_their_own_means_and_differences_over_shared_prompts(tmp_path: Path) -> None:
    few, one, two = [3.0, 4.0] * 5, [4.0] * 10 + [1.0] * 20, [2.0, 3.0] * 15
    write_scores(tmp_path / "s.jsonl", {"one": one, "two": two, "few": few})
    done = robin("export", "s.jsonl", "--what", "systems", "--scale", "0-4", cwd=tmp_path)
    found = pd.read_csv(io.StringIO(done.stdout)).set_index("system")
    assert found.index.tolist() == ["few", "two", "one"]
    assert found["mean"].tolist() == [3.5, 2.5, 2.0]
    assert found["n_prompts"].tolist() == [10, 30, 30]
    np.testing.assert_allclose(found["difference"].tolist(), [np.nan, -1.0, 0.5])
    has(done.stderr, "a difference over those that both answered")


def test_systems_without_a_shared_prompt_have_no_difference(tmp_path: Path) -> None:
    write_scores(tmp_path / "s.jsonl", {"one": [1.0, 2.0, 4.0] * 5, "two": [2.0, 2.0, 3.0] * 5})
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": "other", "system": "lone", "score": 0}) + "\n")
    done = robin("export", "s.jsonl", "--what", "systems", "--scale", "0-4", cwd=tmp_path)
    assert pd.read_csv(io.StringIO(done.stdout)).set_index("system")["p_adjusted"].isna()["lone"]


def test_files_without_responses_are_compared_as_different_ones(tmp_path: Path) -> None:
    for name, more in (("a", 0.5), ("b", 0.0)):
        scores = [{"prompt": f"p{at}", "score": 2 + more * (at % 3)} for at in range(30)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in scores))
    done = robin(
        "compare", "a.jsonl", "b.jsonl", "--scale", "0-4", "--format", "table", cwd=tmp_path
    )
    assert done.stdout.startswith("a.jsonl is better than b.jsonl by 0.50 ")


def test_a_robust_interval_needs_the_scale_and_equal_differences_have_none(tmp_path: Path) -> None:
    write_scores(tmp_path / "s.jsonl", {"one": [4.0] * 20, "two": [1.0] * 20})
    refused = robin("compare", "s.jsonl", "--by", "system", "--robust", cwd=tmp_path, exits=2)
    has(refused.stderr, "--robust: the scale of score is not known")
    done = robin("compare", "s.jsonl", "--by", "system", "--format", "table", cwd=tmp_path)
    has(done.stdout, "have no interval without a scale: --scale LOW-HIGH")
    done = robin("compare", "s.jsonl", "--by", "system", cwd=tmp_path)
    assert math.isnan(pd.read_csv(io.StringIO(done.stdout))["prompts_needed"].item())


def test_an_end_beside_zero_keeps_its_sign(tmp_path: Path) -> None:
    write_scores(tmp_path / "s.jsonl", {"one": [2.1, 2.0, 2.006] * 10, "two": [2.0] * 30})
    done = robin(
        *("compare", "s.jsonl", "--by", "system", "--scale", "0-4", "--format", "table"),
        cwd=tmp_path,
    )
    assert not re.search(r"[+-]0\.00\b(?!\d)", done.stdout)


def test_a_guessed_scale_neither_widens_intervals_nor_refuses_labels(tmp_path: Path) -> None:
    rows = [f"q{at},{at % 3 + again}" for at in range(9) for again in (1, 2, 2)]
    (tmp_path / "s.csv").write_text("\n".join(["id,score", *rows]))
    one = 2 / 3  # the squares of each pair about its mean
    pooled = 9 * one / (9 * 2)
    variance = (one + 4 * pooled) / (3 + 3)
    assert exported(tmp_path, "s.csv")["std_error"].tolist() == pytest.approx(
        [math.sqrt(variance / 3)] * 9
    )
    labels = "\n".join(["pair_id,label", *(f"q{at},{at + 1}" for at in range(9))])
    (tmp_path / "l.csv").write_text(labels)
    for what, column in (("agreement", "n"), ("calibration", "mean_human")):
        found = exported(tmp_path, "s.csv", "--what", what, "--labels", "l.csv")
        assert found[column].notna().all()
    known = ("--scale", "1-4", "--what", "agreement", "--labels", "l.csv")
    refused = robin("export", "s.csv", *known, cwd=tmp_path, exits=2)
    has(refused.stderr, "the label 5 is off the scale of score, 1-4")


def test_takes_the_scale_from_robin_s_own_workbook_and_of_words(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    robin("export", "s.jsonl", "--scale", "0-10", "-o", "s.xlsx", cwd=tmp_path, exits=0)
    required = ("--require", "all(score>=8)")
    done = robin("gate", "s.xlsx", *required, cwd=tmp_path)
    assert (
        done.stdout == robin("gate", "s.jsonl", *required, "--scale", "0-10", cwd=tmp_path).stdout
    )
    assert "--scale" not in done.stderr
    robin("export", "s.jsonl", "-o", "none.xlsx", cwd=tmp_path, exits=0)
    robin("gate", "none.xlsx", *required, cwd=tmp_path, exits=2)
    (tmp_path / "w.csv").write_text("id,score\n" + "".join(f"q{at},true\n" for at in range(9)))
    assert "scale" not in robin("export", "w.csv", cwd=tmp_path, exits=0).stderr


@pytest.mark.parametrize("options", [(), ("--wide",), ("--with-text",)])
def test_gates_its_own_export_as_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Four systems answer 10 prompts: rows of one prompt count as one of it."""
    levels = [2, 4, 3, 3, 2, 3, 3, 4, 3, 4]
    ratings: dict[tuple[str, str, str], list[int | None]] = {
        (f"p{k}", "style", "a"): [levels[k // 4]] * 3 for k in range(40)
    }
    run_of(tmp_path, ratings, prompts={f"p{k}": f"prompt {k // 4}" for k in range(40)})
    required = ("--require", "mean(score)>=3")
    told = robin("gate", "r", *required, cwd=tmp_path, exits=6).stdout
    assert "(40 pairs of 10 prompts)" in told
    done = robin("export", "r", *options, "-o", "mine.xlsx", cwd=tmp_path, exits=0)
    assert done.stderr == "wrote mine.xlsx\n"
    columns = ("--columns", "score=style_score", "--scale", "1-5") if "--wide" in options else ()
    done = robin("gate", "mine.xlsx", *required, *columns, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[2:]) == (6, told.split()[2:])
    assert "has no prompts" not in done.stderr
    if not options:
        asked = ("judge", "mine.xlsx", "-b", "40", "-a", "helpfulness", "--model", "m")
        assert (
            "export --with-text adds the texts"
            in robin(*asked, "--base-url", "http://127.0.0.1:9/v1", cwd=tmp_path, exits=2).stderr
        )


def test_says_that_a_file_has_no_prompts(tmp_path: Path) -> None:
    rows = [f"{system}{k},{system},{k % 5}" for k in range(30) for system in "ab"]
    (tmp_path / "s.csv").write_text("id,system,score\n" + "\n".join(rows))
    done = robin("gate", "s.csv", "--require", "mean(score)>=1", cwd=tmp_path)
    assert "s.csv has no prompts: each of its 60 pairs counts as a prompt of its own" in done.stderr
    done = robin("compare", "s.csv", "--by", "system", cwd=tmp_path, exits=2)
    assert "--with-text" in done.stderr.splitlines()[-1]
    assert "--match" not in done.stderr
    shown = robin("status", "s.csv", "--details", cwd=tmp_path, exits=0).stdout
    assert "calls spent" not in shown
    assert "empty responses" not in shown
    facts = json.loads(robin("status", "s.csv", "--json", cwd=tmp_path, exits=0).stdout)
    assert facts["spent"] is facts["budget"] is None
    assert facts["ratings"] == 60


def test_takes_the_scale_of_scores_as_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    done = robin("export", "s.jsonl", "--scale", "0-10", cwd=tmp_path, exits=0)
    assert not done.stderr
    refused = {
        (
            "--scale",
            "0-5",
        ): "--scale 0-5: score: scores lie from 0 to 5.5; name a scale that holds them",
        (
            "--columns",
            "score=prompt",
        ): 's.jsonl:1: "prompt" is q0, not a score. Use --columns score=NAME',
        (
            "--columns",
            "score=f1",
        ): 's.jsonl: no column of scores "f1"; found prompt, score. Use --columns score=NAME',
    }
    for flags, said in refused.items():
        has(robin("export", "s.jsonl", *flags, cwd=tmp_path, exits=2).stderr, said)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"prompt": "p", "points": 3},
            r'no column of scores called "score"; found prompt, points. Use --columns score=NAME',
        ),
        (
            {"name": "p", "score": 3},
            "no id and no prompt name the scored sample; found name, score. Use --columns id=NAME",
        ),
        ({"prompt": "p", "score": 3e9}, "no scores are on a scale"),
        ({"prompt": "\ud800", "score": 1}, "surrogate"),
    ],
)
def test_says_what_keeps_a_file_from_being_one_of_scores(
    tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    refuses(InputError, said, robin_cli.compare, file, by="system")


def test_replaces_no_file_that_a_command_reads(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(
            "id,score\n" + "".join(f"q{at},{at % 3 / 2}\n" for at in range(9)), encoding="utf-8"
        )
    before = (tmp_path / "a.csv").read_bytes()
    required = ("--require", "mean(score)>=0.5")
    for flag, args in {
        "-o": ("compare", "b.csv", "a.csv"),
        "--junit": ("gate", "a.csv", *required),
        "--summary": ("gate", "*a.csv", *required),
    }.items():
        done = robin(*args, flag, "./a.csv", cwd=tmp_path, exits=2)
        has(
            done.stderr,
            f"{flag} ./a.csv: is read in this command, and would be lost; name another file",
        )
    has(
        robin("gate", "a.csv", *required, "-o", "a.csv", cwd=tmp_path, exits=2).stderr,
        "would be lost",
    )
    assert (tmp_path / "a.csv").read_bytes() == before


def test_names_the_file_where_it_has_no_column_of_systems_and_no_scores(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,score\nq1,1\n", encoding="utf-8")
    (tmp_path / "empty.csv").write_text("id,score\nq1,\n", encoding="utf-8")
    done = robin("compare", "a.csv", "--by", "system", cwd=tmp_path, exits=2)
    has(done.stderr, 'robin: a.csv: no column "system"')
    done = robin("status", "empty.csv", cwd=tmp_path, exits=2)
    has(
        done.stderr,
        'empty.csv: no row has a score in "score". Fill it in, or name another column with --columns score=NAME',
    )


def test_takes_no_column_of_ids_for_one_of_attributes(tmp_path: Path) -> None:
    rows = [{"id": at, "attribute": f"a{at}", "score": 1} for at in range(501)]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    refuses(
        InputError,
        "scores of more than 500 attributes",
        robin_cli.compare,
        tmp_path / "s.jsonl",
        by="system",
    )


def test_takes_no_score_for_two_and_says_it_where_files_are_several_ratings(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(
            "id,score\n" + "".join(f"q{at},{at % 3 / 2}\n" for at in range(9)), encoding="utf-8"
        )
    assert set(exported(tmp_path, "a.csv", "--columns", "score=score|score")["n"]) == {1}
    done = robin("export", "?.csv", cwd=tmp_path, exits=0)
    assert set(pd.read_csv(io.StringIO(done.stdout))["n"]) == {2}
    has(done.stderr, "?.csv: 9 samples of several files of one system count as rated several times")


def test_the_next_command_carries_the_flags_that_read_the_file(table: Path, tmp_path: Path) -> None:
    (tmp_path / "the table.csv").write_text(table.read_text())
    read = ("the table.csv", "--columns", "id=question,score=f1,system=model", "--scale", "0-1")
    gated = robin("gate", *read, "--require", "mean(f1)>=0.1", cwd=tmp_path, exits=0)
    status = robin("status", *read, cwd=tmp_path, exits=0)
    wanted = robin("export", *read, "--what", "labels-wanted", cwd=tmp_path, exits=0)
    for said in (gated.stderr, status.stdout, wanted.stderr):
        (command,) = re.findall(r"(?:next: |--labels: )robin (.*)", said)
        pasted = shlex.split(command.replace(" --labels FILE", ""))
        robin(*pasted, cwd=tmp_path, exits=0)
