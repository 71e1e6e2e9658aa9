"""robin simulate as a user runs it, and what it says of agreement with people."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import robin_cli
from tests.comparing_judge import verdict_on
from tests.conftest import DEMO, ROOT, robin

pytestmark = pytest.mark.usefixtures("few_resamples")

POOL = ROOT / "configs" / "pools" / "paper_digitised.parquet"
RATINGS = DEMO / "ratings.parquet"
COLUMNS = "attribute,scheduler,budget,wce_mean,wce_std,wce_sem,runs"
VOTE_COLUMNS = "attribute,scheduler,budget,what,asked_mean,calls_mean,wrong_mean,wrong_sem,any_mean,order_effect_mean,runs"
CALIBRATION = "attribute,level,to_level,n,n_prompts,mean_score,mean_human,ci_low,ci_high"
PICTURES_TOO = [
    pytest.param(*each, marks=pytest.mark.whole)
    for each in (("svg", b"<?xml"), ("html", b"<!doctype html>"))
]
SMALL = (
    *("--limit", "10", "--runs", "3", "--budget", "100,200", "--attribute"),
    "gpt-4.1-nano/helpfulness",
)


def small_run(
    folder: Path,
    *,
    human: Callable[[int, float], float | None] = lambda k, level: None if k < 2 else level,
) -> Path:
    """A run directory made by hand: 40 pairs of a prompt each, human ratings for all but two, or as ``human`` says."""
    from robin_cli.model.records import Judgment, Pair
    from robin_cli.run.writer import RunWriter
    from tests.run.test_store import SETTINGS, judgment, manifest

    rng = np.random.default_rng(1)
    level = rng.integers(0, 5, 40)
    rated = [human(k, float(level[k])) for k in range(40)]
    pairs = [
        Pair(f"p{k}", f"prompt {k}", "r", {} if each is None else {"helpfulness": each})
        for k, each in enumerate(rated)
    ]
    blank = judgment(0)
    settings = {**SETTINGS, "base_url": "http://x/v1", "temperature": 1.0}
    data = {"source": "x", "sha256": "0", "pairs": 40, "skipped": 0}
    run = manifest(settings=settings, data=data, budget=320)
    with RunWriter.create(folder / "r", run, pairs) as store:
        made = []
        for draw in range(8):
            for k, pair in enumerate(pairs):
                rating = int(np.clip(level[k] + rng.integers(-1, 2), 0, 4))
                values = {name: getattr(blank, name) for name in Judgment.__slots__}
                made.append(
                    Judgment(**(values | {"pair_id": pair.pair_id, "draw": draw, "rating": rating}))
                )
        store.append(made)
    return folder / "r"


def test_prints_the_columns_of_the_contract_for_the_budgets_asked(tmp_path: Path) -> None:
    command = ("simulate", RATINGS, *SMALL, "--schedulers", "uniform,robin,two-priors")
    done = robin(*command, cwd=tmp_path, exits=0)
    assert done.stdout.splitlines()[0] == COLUMNS
    table = pd.read_csv(io.StringIO(done.stdout))
    assert list(table["budget"]) == [100, 200] * 3
    assert (table["runs"] == 3).all()
    assert np.allclose(table["wce_sem"], table["wce_std"] / np.sqrt(3), rtol=1e-4)
    assert robin(*command, cwd=tmp_path).stdout == done.stdout


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF-"), *PICTURES_TOO]
)
def test_draws_a_picture_and_says_what_is_saved(tmp_path: Path, suffix: str, start: bytes) -> None:
    done = robin(
        "simulate",
        RATINGS,
        *SMALL,
        *("--schedulers", "uniform,two-priors", "--plot", f"p.{suffix}"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"p.{suffix}").read_bytes().startswith(start)
    assert "calls saved at equal worst-case error" in done.stderr
    assert "two-priors at 200: – (3 runs cannot tell it from 0)" in done.stderr
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 4


def test_simulates_on_a_run_and_draws_its_agreement_with_people(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    done = robin(
        *("simulate", run, "--budget", "160", "--schedulers", "two-priors", "--runs", "2"),
        *("--plot", "p.svg"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 1
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "kendall" in picture
    robin(
        *("simulate", run, "--budget", "160", "--schedulers", "two-priors", "--runs", "2"),
        *("--plot", "q.svg"),
        cwd=tmp_path,
    )
    assert (tmp_path / "q.svg").read_text(encoding="utf-8") == picture


def test_says_how_often_the_best_is_the_right_one_where_the_pool_knows_it(tmp_path: Path) -> None:
    # of three bests one is right, one wrong, and one of two equals is right
    ratings = {
        "x/0": (3, 5),
        "x/1": (1, 2),
        "y/0": (1, 1),
        "y/1": (4, 5),
        "z/0": (2, 2),
        "z/1": (2, 2),
    }
    rows = [
        f"{pair},{pair[0]},{rating},{int(pair.endswith('0'))}"
        for pair, both in ratings.items()
        for rating in both
    ]
    (tmp_path / "pool.csv").write_text(
        "\n".join(["pair_id,group,rating,right", *rows]), encoding="utf-8"
    )
    command = (
        *("simulate", "pool.csv", "--decide", "best", "--budget", "24", "--runs", "3", "--plot"),
        "p.svg",
    )
    done = robin(*command, cwd=tmp_path, exits=0)
    table = pd.read_csv(io.StringIO(done.stdout))
    # no rating of a group reaches another's
    assert table["right_mean"].to_list() == pytest.approx([0.5, 0.5])
    assert table["right_sem"].to_list() == [0, 0]
    assert "pool: 50.0 % of the best by all recorded ratings are right" in done.stderr
    assert (
        "pool · auto at 24 (4 a response): 50.0 ± 0.0 % right against 50.0 ± 0.0 %" in done.stderr
    )
    assert "judge calls a response" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    of_thresholds = robin(
        "simulate", "pool.csv", "--decide", "score>=3", "--budget", "6", "--runs", "2", cwd=tmp_path
    )
    assert "right" not in of_thresholds.stdout


def test_simulates_a_second_opinion_by_a_better_judge(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    truth = draws.integers(2, 9, (60, 4))
    truth[:, 0] = 9  # the right one
    rows = [
        f"{judge},{group}/{place},{group},{min(10, max(1, round(true + own + draws.normal(0, 1))))},{int(not place)}"
        for judge, apart in (("weak", 2.5), ("strong", 0.5))
        for group, of_group in enumerate(truth.tolist())
        for place, true in enumerate(of_group)
        for own in [draws.normal(0, apart)]
        for _ in range(6)
    ]
    head = "attribute,pair_id,group,rating,right"
    (tmp_path / "pool.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    spend = ("--decide", "best", "--budget", "480", "--runs", "4", "--schedulers", "auto")
    asked = ("simulate", "pool.csv", *spend, "--model", "weak")

    alone, both = (
        pd.read_csv(io.StringIO(robin(*asked, *more, cwd=tmp_path, exits=0).stdout)).iloc[0]
        for more in ((), ("--model", "strong"))
    )

    assert both["attribute"] == "weak + strong"
    assert alone["budget"] == both["budget"] == 480
    assert both["right_mean"] > alone["right_mean"] + 0.05
    assert both["likely_wrong_sem"] >= 0


def test_exports_the_agreement_with_people_its_uncertainty_and_human_ratings_by_score(
    tmp_path: Path,
) -> None:
    run = small_run(tmp_path)
    table = pd.read_csv(
        io.StringIO(robin("export", run, "--what", "agreement", "--round", cwd=tmp_path).stdout)
    )
    columns = [
        "attribute",
        "coefficient",
        "value",
        "ci_low",
        "ci_high",
        "n",
        "n_prompts",
        "resamples",
        "rounding",
        "why",
    ]
    assert list(table.columns) == columns
    table = table.set_index("coefficient")
    with_human = ["alpha", "pearson", "spearman", "kendall", "kappa", "alpha_ordinal"]
    assert list(table.index) == [*with_human, "reliability", "ceiling", "icc"]
    assert (table.loc[with_human, ["n", "n_prompts"]] == 38).all(axis=None)
    assert (table.loc[["reliability", "ceiling", "icc"], ["n", "n_prompts"]] == 40).all(axis=None)
    assert ((table["ci_low"] < table["value"]) & (table["value"] < table["ci_high"])).all()
    assert table["value"].min() > 0.5
    opened = robin_cli.open_run(run)
    pd.testing.assert_frame_equal(
        opened.agreement(round=True).set_index("coefficient").drop(columns=["why", "rounding"]),
        table.drop(columns=["why", "rounding"]),
    )
    is_half = opened.scores()["score"].mod(1) == 0.5
    assert is_half.mean() > 0.1
    without = opened.agreement().set_index("coefficient")
    assert without.loc[["kappa", "alpha_ordinal"], "value"].isna().all()
    assert without.loc[with_human[:4], "value"].notna().all()
    told = opened.status()
    value = dict(zip(table.index, table["value"], strict=True))
    for name, number in value.items():
        if name in {"kappa", "alpha_ordinal"}:
            continue
        kind = "agreement" if name in with_human else "reliability"
        assert told[kind]["helpfulness"][name]["value"] == pytest.approx(number)
    status = " ".join(robin("status", run, "--details", cwd=tmp_path).stdout.split())
    assert f"human helpfulness Krippendorff's α {value['alpha']:.2f} [" in status
    assert f"], pearson {value['pearson']:.2f} [" in status
    assert "(95 % bootstrap over 38 prompts, 38 pairs; κ and ordinal α rounded half up;" in status
    assert f"reliability of helpfulness scores {value['reliability']:.2f} [" in status
    assert f"so correlation with a human at most {value['ceiling']:.2f} [" in status

    table = pd.read_csv(
        io.StringIO(robin("export", run, "--what", "calibration", cwd=tmp_path).stdout)
    )
    assert ",".join(table.columns) == CALIBRATION
    pd.testing.assert_frame_equal(opened.calibration(), table)
    scores = opened.scores().dropna(subset="human")
    by_level = scores.groupby(np.floor(scores["score"] + 0.5))
    np.testing.assert_allclose(table["mean_human"], by_level["human"].mean())
    np.testing.assert_allclose(table["mean_score"], by_level["score"].mean())
    assert list(table["n"]) == list(by_level.size())
    assert [row["level"] for row in told["calibration"]["helpfulness"]] == list(table["level"])
    assert "--what calibration" in status


def test_says_why_no_agreement_is_told(tmp_path: Path) -> None:
    cases: dict[str, tuple[Callable[[int, float], float | None], str]] = {
        "none": (lambda k, level: None, "no human ratings of helpfulness"),
        "percent": (
            lambda k, level: 25 * level,
            "human ratings are off the scale 0-4 (they go from 0 to 100)",
        ),
        "few": (
            lambda k, level: level if k < 2 else None,
            "3 prompts with a score and a human rating are needed; this run has 2",
        ),
        "alike": (lambda k, level: 3.0, "all human ratings are alike"),
    }
    for name, (human, why) in cases.items():
        (tmp_path / name).mkdir()
        run = small_run(tmp_path / name, human=human)
        what = "calibration" if name in {"none", "percent"} else "agreement"
        told = robin("export", run, "--what", what, cwd=tmp_path)
        status = " ".join(robin("status", run, "--details", cwd=tmp_path).stdout.split())

        assert why in told.stderr
        assert len(told.stderr.splitlines()) == 1
        assert "nan" not in status
        if name in {"none", "percent"}:
            assert (told.returncode, told.stdout) == (2, "")
            assert "--columns helpfulness=NAME" in told.stderr
        else:
            table = pd.read_csv(io.StringIO(told.stdout))
            assert told.returncode == 0
            with_human = ~table["coefficient"].isin(["reliability", "ceiling", "icc"])
            assert table.loc[with_human, ["value", "ci_low", "ci_high"]].isna().all(axis=None)
            assert set(table.loc[with_human, "why"]) == {why}
            assert table.loc[~with_human, "value"].notna().all()  # for that no human is needed
            rows = robin("export", run, "--what", "calibration", cwd=tmp_path)
            assert rows.stdout == f"{CALIBRATION}\n"
            assert "needed" in rows.stderr or why in rows.stderr
        if name == "few":
            told_of = robin_cli.open_run(run).status()["agreement"]["helpfulness"]["pearson"]
            assert (told_of["value"], told_of["ci_low"], told_of["n"], told_of["why"]) == (
                None,
                None,
                2,
                why,
            )
            assert why in robin("report", run, "-o", "-", cwd=tmp_path).stdout
        assert "reliability of helpfulness scores 0." in status
        if name == "none":
            assert "human helpfulness" not in status
            with pytest.raises(robin_cli.RobinError, match="no human ratings of helpfulness"):
                robin_cli.open_run(run).calibration()
        else:
            assert "agreement not computed: " in status
            assert why in status


def test_ctrl_c_ends_a_simulation_and_its_workers_at_once(tmp_path: Path) -> None:
    hours = (
        *("--limit", "60", "--runs", "100000", "--budget", "50000", "--schedulers"),
        "uniform,robin-hood,robin",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "robin_cli", "simulate", str(RATINGS), *hours],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        while len(workers_of(process.pid)) < 2:
            assert process.poll() is None
            time.sleep(0.1)  # to look takes work of its own
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in said
    assert not workers_of(process.pid)


def workers_of(session: int) -> list[str]:
    """The processes of a session that were started to simulate, each by its command."""
    listed = subprocess.run(
        ["ps", "-ww", "-s", str(session), "-o", "stat=", "-o", "args="],
        check=False,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [line for line in listed if "spawn_main" in line and not line.startswith("Z")]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 600 comparisons, with a verdict on each in each order."""
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("verdicts") / "votes"
    robin_cli.judge(
        DEMO / "responses.jsonl",
        judge=lambda messages: f"Verdict: {verdict_on(str(messages), rng)}",
        pairwise=True,
        scheduler="uniform",
        budget=1200,
        run=folder,
        quiet=True,
    )
    return folder


def simulated(run: Path, *flags: object) -> tuple[pd.DataFrame, str]:
    done = robin("simulate", run, "--pairwise", *map(str, flags), cwd=run.parent)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout)), done.stderr


def test_compares_rankings_with_those_of_an_even_spread(verdicts: Path) -> None:
    table, said = simulated(verdicts, "--budget", "200,400", "--runs", "20")
    assert ",".join(table.columns) == VOTE_COLUMNS
    assert list(zip(table["scheduler"], table["budget"], strict=True)) == [
        (name, budget) for name in ("uniform", "auto") for budget in (200, 400)
    ]
    assert set(table["what"]) == {"pairs of systems"}
    assert table["asked_mean"].round(2).tolist()[:2] == [0.17, 0.33]
    assert (table["wrong_mean"] < 0.1).all()
    assert " · auto at 200: " in said


def test_simulates_the_best_responses_and_single_preferences(verdicts: Path) -> None:
    best, _ = simulated(
        verdicts, "--decide", "best", "--budget", "450", "--runs", "2", "--limit", "45"
    )
    assert best["scheduler"].tolist() == ["uniform", "auto"]
    assert set(best["what"]) == {"prompts"}
    single, _ = simulated(
        *(verdicts, "--budget", "40", "--runs", "3", "--limit", "1", "--schedulers", "uniform")
    )
    assert set(single["what"]) == {"comparisons"}
    assert (single["calls_mean"] == 40).all()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((RATINGS, *SMALL, "--schedulers", "robbin"), "known schedulers are"),
        ((RATINGS, *SMALL, "--budget", "5"), "reaches 5 of 10 pairs once"),
        ((RATINGS, *SMALL, "--budget", "x"), "must be a whole number"),
        ((RATINGS, *SMALL, "--scale", "0-2"), "outside the scale 0-2"),
        ((RATINGS, *SMALL, "--plot", "p.gif"), ".png, .svg, .pdf"),
        ((POOL, *SMALL, "--attribute", "gpt"), "it has gpt-4.1-nano/complexity"),
        ((RATINGS, *SMALL, "--delta", "2"), "at most 1"),
        ((POOL, *SMALL, "--model", "gpt"), "--model: a second opinion is for decisions"),
        ((POOL, *SMALL, "--decide", "score>=2", "--model", "gpt"), '--model "gpt": not in'),
        ((RATINGS, "--pairwise", "--budget", "100"), "name a run of robin judge --pairwise"),
    ],
)
def test_says_what_cannot_be_simulated(
    tmp_path: Path, flags: tuple[str | Path, ...], said: str
) -> None:
    done = robin("simulate", *flags, cwd=tmp_path)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("", "simulate this one with --pairwise"),
        ("--pairwise --budget 1", "does not pay for a comparison for each of 6 systems"),
        ("--pairwise --schedulers robin", "has schedulers of its own"),
        ("--pairwise --scale 0-2", "not with --scale"),
        ("--pairwise --decide score>=3", "--decide best"),
        ("--pairwise --decide best --margin 1", "below 0.5"),
        ("--pairwise --attribute me", "no judge in"),
    ],
)
def test_says_what_cannot_be_simulated_of_verdicts(verdicts: Path, flags: str, said: str) -> None:
    done = robin(
        "simulate", verdicts, "--budget", "100", *flags.split(), cwd=verdicts.parent, exits=2
    )
    assert said in done.stderr
