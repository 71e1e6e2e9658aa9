"""robin judge --decide as a user runs it: real processes, over HTTP, with judges that vary, fail and are killed."""

from __future__ import annotations

import io
import json
import random
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli import RobinError
from tests.conftest import change_manifest, environment, has, robin, wait_until
from tests.judges.wire import Answer, Wire, completion, error, serving
from tests.starting import Robin
from tests.test_answers import with_logprobs

pytestmark = pytest.mark.usefixtures("no_pictures")

MEANS = [0.4, 3.6, 0.6, 3.2, 0.3, 0.7, 3.9, 2.7, 0.8, 0.2, 0.9, 3.5]
KEPT = [mean >= 2 for mean in MEANS]
BEST = [1, 3, 6, 11]


def write_rows(path: Path, count: int = len(MEANS)) -> Path:
    """Pairs of which three follow each other in a group, and in a prompt."""
    rows = [
        {
            "id": f"p{k}",
            "prompt": f"Question {k // 3}?",
            "response": f"Item {k} here.",
            "ask": f"g{k // 3}",
        }
        for k in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Path:
    """The pairs that a test judges unless it writes others."""
    return write_rows(tmp_path / "pairs.jsonl")


def asked_of(body: dict[str, Any]) -> int:
    """Which response a request is about."""
    found = re.search(r"Item (\d+) here", json.dumps(body))
    assert found is not None
    return int(found[1])


def drawn(mean: float, rng: random.Random) -> int:
    low = int(mean)
    return min(4, max(0, low + (rng.random() < mean - low) + rng.choice([-1, 0, 0, 1])))


def rated(
    means: list[float] = MEANS, shift: float = 0.0
) -> Callable[[int, dict[str, Any]], Answer]:
    """A judge with these mean ratings, around which it varies."""
    rng = random.Random(1)

    def choice(body: dict[str, Any]) -> dict[str, Any]:
        said = f"Rating: {drawn(means[asked_of(body)] + shift, rng)}"
        return {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}

    return lambda _, body: completion(
        choices=[{"index": k, **choice(body)} for k in range(body.get("n") or 1)]
    )


def calls_of(*wires: Wire) -> int:
    """The ratings that were asked for."""
    return sum(body.get("n", 1) for wire in wires for body in wire.bodies)


def judging(url: str, *more: str, budget: int = 3_000) -> list[str]:
    judge = [
        *("judge", "pairs.jsonl", "-a", "helpfulness", "-b", str(budget), "--base-url", url),
        *("--model", "m"),
    ]
    certify = ["--certify"] if "--decide" in more and budget > 24 else []
    return [*judge, "--run", "r", *more, *certify]


def scores_in(text: str) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text), keep_default_na=False, na_values={"score": "", "human": ""}
    )


def assert_all_decided(scores: pd.DataFrame, kept: list[bool] = KEPT) -> None:
    assert scores["certified"].all()
    assert list(scores["decision"]) == ["keep" if each else "drop" for each in kept]


@pytest.mark.parametrize(
    "scheduler",
    [
        "auto",
        "robin-hood",
        *(pytest.param(each, marks=pytest.mark.whole) for each in ("uniform", "two-priors")),
    ],
)
def test_asks_until_all_is_decided_and_no_further(tmp_path: Path, scheduler: str) -> None:
    with serving(rated()) as wire:
        asked = judging(
            wire.url, "--decide", "score>=2", "--concurrency", "32", "--scheduler", scheduler
        )
        done = robin(*asked, cwd=tmp_path, exits=0)
        scores = scores_in(done.stdout)
        assert_all_decided(scores)
        assert list(scores.columns[-5:]) == [
            "decision",
            "likely_wrong",
            "certified",
            "prompt_id",
            "ask",
        ]
        assert scores["n"].sum() == calls_of(wire) < 1_000

        again = robin(*asked, cwd=tmp_path)
        resumed = robin("resume", "r", cwd=tmp_path)
        more = robin("resume", "r", "--budget", "4000", cwd=tmp_path)
        assert calls_of(wire) == scores["n"].sum()
    for each in (again, resumed, more):
        assert each.returncode == 0, each.stderr
        has(
            each.stderr,
            "kept 5 of 12; fewer than 1 of the 12 decisions is likely wrong",
            "12 of 12 pairs certified (at most 5 % of these wrong on average)",
            "nothing was sent",
        )
        assert each.stdout == done.stdout


def test_ends_once_few_enough_decisions_are_likely_wrong_and_goes_on_for_fewer(
    tmp_path: Path,
) -> None:
    with serving(rated()) as wire:
        asked = [
            each
            for each in judging(wire.url, "--decide", "score>=2", "--concurrency", "8")
            if each != "--certify"
        ]
        done = robin(*asked, "--target-wrong", "0.05", cwd=tmp_path, exits=0)
        first = calls_of(wire)
        assert 12 <= first < 100
        assert "certif" not in done.stderr + done.stdout
        assert 0 < scores_in(done.stdout)["likely_wrong"].mean() <= 0.05
        more = robin("resume", "r", "-b", "4000", cwd=tmp_path, exits=0)
        has(more.stderr, "nothing was sent", "for more: --target-wrong with a smaller share, or 0")
        assert calls_of(wire) == first
        fewer = robin("resume", "r", "--target-wrong", "0.001", cwd=tmp_path, exits=0)
        assert scores_in(fewer.stdout)["likely_wrong"].mean() <= 0.001
        second = calls_of(wire)
        assert first < second < 4_000
        robin("resume", "r", "--target-wrong", "0", "-b", "4100", cwd=tmp_path, exits=0)
        assert calls_of(wire) == 4_100
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path, exits=0).stdout)
    assert status["decisions"]["target_wrong"] == 0


def test_finds_the_best_of_each_group_and_says_so_in_every_row(tmp_path: Path) -> None:
    with serving(rated()) as wire:
        by_column = robin(
            *judging(wire.url, "--decide", "best", "--group", "ask", "--concurrency", "32"),
            cwd=tmp_path,
        )
        by_prompt = robin(*judging(wire.url, "--decide", "best", "--run", "q"), cwd=tmp_path)
    for done, names in ((by_column, ["g0", "g1", "g2", "g3"]), (by_prompt, None)):
        assert done.returncode == 0, done.stderr
        scores = scores_in(done.stdout)
        assert scores["certified"].all()
        assert list(np.flatnonzero(scores["decision"] == "best")) == BEST
        assert set(scores["decision"]) == {"best", "rejected"}
        assert names is None or list(scores["group"]) == [name for name in names for _ in range(3)]
        assert (
            list(
                scores.groupby("group", sort=False)["decision"].agg(
                    lambda each: (each == "best").sum()
                )
            )
            == [1] * 4
        )


def test_keeps_what_meets_all_thresholds_and_says_the_same_in_all_rows_of_a_pair(
    tmp_path: Path,
) -> None:
    verbose = [0.5, 0.5, 3.5] * 4

    def respond(number: int, body: dict[str, Any]) -> Answer:
        return (by_length if "verbos" in json.dumps(body).lower() else helpful)(number, body)

    helpful, by_length = rated(), rated(verbose)
    with serving(respond) as wire:
        decide = ("-a", "helpfulness,verbosity", "--decide", "helpfulness>=2, verbosity<2")
        done = robin(*judging(wire.url, *decide, budget=5_000), cwd=tmp_path, exits=0)
    scores = scores_in(done.stdout)
    kept = [h and v < 2 for h, v in zip(KEPT, verbose, strict=True)]
    assert_all_decided(scores, [each for each in kept for _ in range(2)])
    wide = scores_in(robin("export", "r", "--wide", cwd=tmp_path).stdout)
    assert len(wide) == 12
    columns = [column for column in wide.columns if column.endswith("decision")]
    assert columns
    for column in columns:
        assert list(wide[column]) == ["keep" if each else "drop" for each in kept]


@pytest.mark.parametrize("decide", ["score>=2", "best"])
def test_a_second_judge_gives_a_second_opinion(tmp_path: Path, decide: str) -> None:
    with serving(rated()) as first, serving(rated(shift=1.0)) as mild:
        second = ("--model", f"other@{mild.url}", "--decide", decide, "--target-wrong", "0")
        asked = [each for each in judging(first.url, *second, budget=120) if each != "--certify"]
        done = robin(*asked, cwd=tmp_path, exits=0)
        scores = scores_in(done.stdout)
        kept = [k in BEST for k in range(12)] if decide == "best" else KEPT
        # the threshold is on the first judge's scale, although the other is one point milder
        assert [each in {"keep", "best"} for each in scores["decision"]] == kept
        assert calls_of(first) + calls_of(mild) == scores["n"].sum() == 120
        assert calls_of(first) > 12
        assert calls_of(mild) > 12
        assert re.search(
            rf"^calls: m {calls_of(first)}, other {calls_of(mild)} \(differs in \d of \d+ sampled",
            done.stderr,
            re.MULTILINE,
        )
        assert "certified" not in scores
        resumed = robin("resume", "r", cwd=tmp_path)
        assert "nothing was sent" in resumed.stderr
        refused = robin(*asked, "--certify", "--run", "other", cwd=tmp_path, exits=2)
        assert "--certify: promises what one judge's own mean would say" in refused.stderr
    each = scores_in(robin("export", "r", "--what", "judge-scores", cwd=tmp_path).stdout)
    assert not {"decision", "likely_wrong", "certified"} & set(each.columns)
    assert each["n"].sum() == 120


def test_a_second_opinion_is_asked_of_a_sample_and_where_it_is_worth_most(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", 60)
    means = [2.0 if k < 6 else 0.2 for k in range(60)]
    with serving(rated(means)) as first, serving(rated(means)) as second:
        more = ("--model", f"other@{second.url}", "--decide", "score>=2", "--target-wrong", "0")
        asked = [each for each in judging(first.url, *more, budget=100) if each != "--certify"]
        scores = scores_in(robin(*asked, cwd=tmp_path, exits=0).stdout).set_index("pair_id")
    each = scores_in(robin("export", "r", "--what", "judge-scores", cwd=tmp_path).stdout)
    of_first = each[each["judge"] == "m"].set_index("pair_id").loc[scores.index]
    alone = scores["n"] == of_first["n"]
    assert 20 <= alone.sum() <= 40
    summary = robin("export", "r", "--what", "summary", cwd=tmp_path)
    assert "means are of the first judge's first rating of each pair" in summary.stderr
    # the second judge may think otherwise, so the same ratings say less of both
    wide, narrow = (
        rows["ci_high"].astype(float) - rows["ci_low"].astype(float)
        for rows in (scores[alone], of_first[alone])
    )
    assert (wide >= narrow).all()

    of_second = pd.Series(
        [asked_of(body) for body in second.bodies for _ in range(body.get("n", 1))]
    ).value_counts()
    assert len({asked_of(body) for body in first.bodies}) == 60
    assert 20 <= len(of_second) <= 40
    assert set(range(6)) <= set(of_second.index)


def test_says_how_many_pairs_a_budget_reaches_with_a_second_opinion(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", 60)
    asked = judging("http://127.0.0.1:9/v1", "--model", "o", "--decide", "score>=2", budget=24)
    refused = robin(*asked, "--budget", "59", cwd=tmp_path, exits=2).stderr
    assert "reaches 59 of 80 pairs × judges once; raise it to 80 or more" in refused
    limit = re.search(r"--limit (\d+)", refused)
    assert limit is not None
    assert int(limit[1]) == 39  # and 20 of them twice
    again = robin(*asked, "--budget", "59", "--limit", "39", cwd=tmp_path, exits=3).stderr
    assert "no connection" in again


def test_decides_by_log_probabilities(tmp_path: Path) -> None:

    def respond(_: int, body: dict[str, Any]) -> Answer:
        return with_logprobs({"3": 0.8, "4": 0.2} if KEPT[asked_of(body)] else {"3": 0.1, "1": 0.9})

    with serving(respond) as wire:
        done = robin(
            *judging(wire.url, "--answers", "logprobs", "--decide", "score>=2"),
            cwd=tmp_path,
            exits=0,
        )
        scores = scores_in(done.stdout)
        assert_all_decided(scores)
        assert "nothing was sent" in robin("resume", "r", cwd=tmp_path).stderr
        assert len(wire.bodies) == scores["n"].sum() < 300  # an answer to each, whatever n is


def test_decides_with_several_ratings_a_request(tmp_path: Path) -> None:
    with serving(rated()) as wire:
        done = robin(
            *judging(wire.url, "--samples-per-request", "5", "--decide", "score>=2"),
            cwd=tmp_path,
            exits=0,
        )
        scores = scores_in(done.stdout)
        assert_all_decided(scores)
        assert scores["n"].sum() == sum(body.get("n") or 1 for body in wire.bodies)
        assert max(body.get("n") or 1 for body in wire.bodies) > 1


@pytest.mark.parametrize("decide", ["score>=2", "best"])
def test_ends_and_certifies_the_others_where_some_pairs_cannot_be_rated(
    tmp_path: Path, decide: str
) -> None:
    well = rated()

    def respond(number: int, body: dict[str, Any]) -> Answer:
        item = asked_of(body)
        if item in {0, 4}:
            return error(400, "maximum context length is 10 tokens", code="context_length_exceeded")
        return completion("No idea.") if item in {2, 8} else well(number, body)

    with serving(respond) as wire:
        done = robin(
            *judging(wire.url, "--decide", decide, "--concurrency", "32"), cwd=tmp_path, exits=0
        )
        sent = calls_of(wire)
        again = robin("resume", "r", cwd=tmp_path, exits=0)
        assert "nothing was sent" in again.stderr
        assert calls_of(wire) == sent < 1_000
    scores = scores_in(done.stdout)
    gone = scores["pair_id"].isin(["p0", "p4", "p2", "p8"])
    assert set(scores.loc[gone, "decision"]) == {"undecided"}
    if decide == "best":
        assert list(np.flatnonzero(scores["decision"] == "best"))[-2:] == BEST[-2:]
        assert scores["certified"][BEST[-1]]
        assert scores["certified"][:3].nunique() == 1
    else:
        assert scores["certified"].tolist() == (~gone).tolist()


def test_goes_on_with_answers_of_which_every_second_holds_no_rating(tmp_path: Path) -> None:
    well = rated()
    unread = completion("Hm.")["choices"]

    def respond(number: int, body: dict[str, Any]) -> Answer:
        if number % 2:
            return completion(choices=unread * body.get("n", 1))
        return well(number, body)

    with serving(respond) as wire:
        done = robin(
            *judging(wire.url, "--decide", "score>=2", "--concurrency", "8"), cwd=tmp_path, exits=0
        )
        scores = scores_in(done.stdout)
        assert_all_decided(
            scores[scores["given_up"] == ""],
            [k for k, why in zip(KEPT, scores["given_up"], strict=True) if not why],
        )
        assert scores[["n", "n_unparsed"]].sum().sum() == calls_of(wire) < 3_000


def test_spends_the_budget_and_certifies_nothing_where_nothing_can_be_told_apart(
    tmp_path: Path,
) -> None:
    rows = [
        {"id": f"p{k}", "prompt": "Question?", "response": f"Item {k} here.", "ask": "g"}
        for k in range(2)
    ]
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    with serving(rated([2.0, 2.0])) as wire:
        # at 0.05 one run in twenty may end by chance
        margin = ("--margin", "0.001", "--error-rate", "0.0001")
        done = robin(
            *judging(wire.url, "--decide", "best", *margin, "--concurrency", "32", budget=120),
            cwd=tmp_path,
            exits=0,
        )
        assert calls_of(wire) == 120
        assert sorted(scores_in(done.stdout)["decision"]) == ["best", "rejected"]
        assert not scores_in(done.stdout)["certified"].any()
        robin("resume", "r", "--budget", "150", cwd=tmp_path, exits=0)
        assert calls_of(wire) == 150


@pytest.mark.parametrize("budget", [12, 20])
def test_decides_by_the_first_ratings_where_the_budget_is_less_than_two_calls_a_pair(
    tmp_path: Path, budget: int
) -> None:
    with serving(rated()) as wire:
        done = robin(
            *judging(wire.url, "--decide", "score>=2", "--concurrency", "32", budget=budget),
            cwd=tmp_path,
            exits=0,
        )
        assert calls_of(wire) == budget
        scores = scores_in(done.stdout)
        assert set(scores["decision"]) == {"keep", "drop"}
        assert "certif" not in done.stderr + done.stdout
        has(done.stderr, " of the 12 decisions ")
        further = robin("resume", "r", "--budget", "3000", cwd=tmp_path, exits=0)
        assert scores_in(further.stdout)["decision"].tolist() == [
            "keep" if each else "drop" for each in KEPT
        ]


def test_decides_about_a_single_pair(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", 1)
    with serving(rated()) as wire:
        done = robin(
            *judging(wire.url, "--decide", "score<2", "--concurrency", "32"), cwd=tmp_path, exits=0
        )
        assert_all_decided(scores_in(done.stdout), [True])
        assert calls_of(wire) < 100
        best = robin(*judging(wire.url, "--decide", "best", "--run", "q"), cwd=tmp_path, exits=2)
    assert "1 of 1 prompts have one response only" in best.stderr


def test_goes_on_after_kills_by_the_ratings_on_disk(tmp_path: Path) -> None:
    means = [2.0, 2.9, 1.8, 2.1, 3.0, 1.9] * 2  # which take a while
    with serving(rated(means)) as wire:
        command = judging(
            wire.url, "--decide", "score>=2.5", "--concurrency", "16", "--quiet", budget=6_000
        )
        for moment in sorted(random.Random(1).sample(range(20, 150), 3)):
            with Robin(command, env=environment(), cwd=tmp_path) as process:
                wait_until(lambda moment=moment: calls_of(wire) >= moment, process)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
            if (tmp_path / "r" / "manifest.json").exists():
                command = ["resume", "r", "--quiet"]
        done = robin(*command, cwd=tmp_path, exits=0)
        sent = calls_of(wire)
        again = robin("resume", "r", cwd=tmp_path)
        assert calls_of(wire) == sent
    scores = scores_in(done.stdout)
    assert scores["certified"].all()
    kept = pd.read_parquet(tmp_path / "r" / "judgments")
    assert len(kept) == scores["n"].sum() <= sent <= len(kept) + 3 * 16
    assert "nothing was sent" in again.stderr
    assert again.stdout == done.stdout
    (tmp_path / "r" / "state.parquet").unlink(missing_ok=True)
    assert robin("export", "r", cwd=tmp_path).stdout == done.stdout


def test_names_what_differs_where_a_run_is_to_decide_something_else(tmp_path: Path) -> None:
    with serving(rated()) as wire:
        robin(*judging(wire.url, "--decide", "score>=2", budget=24), cwd=tmp_path, exits=0)
        sent = calls_of(wire)
        for change, said in (
            (("--decide", "score>=3"), "decide: the run has helpfulness>=2, now helpfulness>=3"),
            (("--decide", "score>=2", "--margin", "0.2"), "margin"),
            (("--decide", "score>=2", "--certify"), "certify"),
            (("--decide", "best"), "decide: the run has helpfulness>=2, now best"),
            ((), "decide: the run has helpfulness>=2, now"),
        ):
            other = robin(*judging(wire.url, *change, budget=24), cwd=tmp_path, exits=2)
            assert said in other.stderr.replace("error-rate", "error_rate"), other.stderr
        by_prompt = ("--decide", "best", "--run", "q")
        robin(*judging(wire.url, *by_prompt, budget=24), cwd=tmp_path, exits=0)
        grouped = robin(
            *judging(wire.url, *by_prompt, "--group", "ask", budget=24), cwd=tmp_path, exits=2
        )
        assert "group" in grouped.stderr
        robin("resume", "r", "--decide", "score>=3", cwd=tmp_path, exits=2)
        assert calls_of(wire) - len(pd.read_parquet(tmp_path / "q" / "judgments")) == sent


def test_exports_decisions_in_every_format_and_none_of_runs_without(tmp_path: Path) -> None:
    with serving(rated()) as wire:
        robin(*judging(wire.url, "--decide", "best", "--group", "ask"), cwd=tmp_path, exits=0)
        robin(*judging(wire.url, "--run", "plain", budget=24), cwd=tmp_path, exits=0)
    for kind in ("csv", "jsonl", "parquet"):
        robin("export", "r", "-o", f"r.{kind}", cwd=tmp_path, exits=0)
    for frame in (
        pd.read_csv(tmp_path / "r.csv"),
        pd.read_json(tmp_path / "r.jsonl", lines=True),
        pd.read_parquet(tmp_path / "r.parquet"),
    ):
        assert list(frame.columns[-4:]) == ["certified", "group", "prompt_id", "ask"]
        assert frame["certified"].dtype == bool
        assert frame["certified"].all()
    plain = scores_in(robin("export", "plain", cwd=tmp_path, exits=0).stdout)
    assert not {"decision", "likely_wrong", "certified", "group"} & set(plain.columns)


BAD = [
    (("--decide", ""), "--decide"),
    (("--decide", "score>="), "at character 1"),
    (("--decide", ">=3"), "at character 1"),
    (("--decide", "score>=3,"), "at character 10"),
    (("--decide", "score=>3"), '"score=>3", at character 1, is no requirement'),
    (("--decide", "score≥3"), "at character 1"),
    (("--decide", "best,score>=3"), '"best", at character 1, is no requirement'),
    (("--decide", "best >= 3"), '"best" is not judged here'),
    (("--decide", "bset"), "--decide best"),
    (("--decide", "score>=nan"), '"nan" is no number'),
    (("--decide", "score>=1e999"), '"1e999" is no number'),
    (("--decide", "score>=3_0"), "is no number"),
    (("--decide", "score>=٣"), "is no number"),
    (("--decide", "score>=4"), "not inside the scale 0-4"),
    (("--decide", "score>=0"), "not inside the scale 0-4"),
    (("--decide", "helpfullness>=3"), 'did you mean "helpfulness"?'),
    (("--decide", "score>=3,score>=2"), "named twice"),
    (("--decide", "score>=3" + "x" * 100_000), "--decide"),
    (("--decide", " " * 100_000 + "x"), "is no requirement"),
    (("--decide", "\x1b[2Jscore>=3"), "\\x1b[2Jscore"),
    (("--decide", "score>=3", "--margin", "1"), "take a margin below 1"),
    (("--decide", "score>=3", "--margin", "0"), "--margin"),
    (("--decide", "score>=3", "--margin", "nan"), "--margin"),
    (("--decide", "best", "--margin", "4"), "as wide as the scale"),
    (("--decide", "score>=3", "--error-rate", "0"), "--error-rate"),
    (("--decide", "score>=3", "--error-rate", "1"), "--error-rate"),
    (("--decide", "score>=3", "--target-wrong", "0.5"), "--target-wrong"),
    (("--target-wrong", "0.05"), "is for --decide"),
    (("--decide", "system", "--margin", "0.2"), "not with --margin"),
    (("--decide", "score>=3", "--target-error", "0.2"), "--target-error"),
    (("--decide", "score>=3", "--mode", "theory"), "--mode theory"),
    (("--decide", "score>=3", "--group", "ask"), "--group"),
    (("--decide", "best", "--group", "nowhere"), "nowhere"),
    (("--decide", "best", "--group", "id"), "12 of 12 groups by id have one response only"),
    (("--margin", "0.2"), "is for --decide"),
    (("--error-rate", "0.1"), "is for --certify"),
    (("--decide", "score>=3", "--scheduler", "apt"), "known schedulers are auto, robin"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[" ".join(given)[:40] for given, _ in BAD])
def test_refuses_what_cannot_be_decided_before_anything_is_made(
    tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    data = write_rows(tmp_path / "pairs.jsonl")
    done = robin(*judging("http://127.0.0.1:9/v1", *given), cwd=tmp_path, exits=2)
    assert said in " ".join(done.stderr.split()), done.stderr
    assert len(done.stderr) < 2_000
    assert not (tmp_path / "r").exists()
    names = [flag.removeprefix("--").replace("-", "_") for flag in given[::2]]
    numbers = {"margin", "error_rate", "target_error", "target_wrong"}
    asked: dict[str, Any] = {
        name: float(each) if name in numbers else each
        for name, each in zip(names, given[1::2], strict=True)
    }
    asked |= {
        "attribute": "helpfulness",
        "budget": 50,
        "judge": lambda _: "Rating: 1",
        "quiet": True,
    }
    with pytest.raises(RobinError):
        robin_cli.judge(data, run=tmp_path / "r", **asked)
    assert not (tmp_path / "r").exists()


def test_takes_what_is_to_be_decided_from_a_file_or_a_variable_with_the_same_checks(
    tmp_path: Path,
) -> None:
    (tmp_path / "robin.toml").write_text(
        'decide = "score>=2"\nmargin = 0.2\ncertify = true\n', encoding="utf-8"
    )
    with serving(rated()) as wire:
        done = robin(*judging(wire.url), cwd=tmp_path, exits=0)
        assert_all_decided(scores_in(done.stdout))
    nowhere = judging("http://127.0.0.1:9/v1", "--run", "q")
    for flags in (["--target-error", "0.2"], ["--decide", "score>=9"]):
        refused = robin(*nowhere, *flags, cwd=tmp_path, exits=2)
    (tmp_path / "robin.toml").unlink()
    refused = robin(*nowhere, cwd=tmp_path, ROBIN_DECIDE="score=>3", exits=2)
    assert "at character 1, is no requirement" in refused.stderr


def test_says_what_is_wrong_with_a_received_run_whose_decision_is_none(tmp_path: Path) -> None:
    decisions = ("garbage", "score>=99", "a" + " " * 1_000_000 + "b", 7, ["score>=3"])
    odd: list[dict[str, Any]] = [{"decide": value} for value in decisions]
    odd += [{"margin": value} for value in (-1, "NaN", 1e308)] + [
        {"error_rate": value} for value in (0, 2)
    ]
    odd += [{"decide": "best", "scheduler": "auto", "group": 7}]
    with serving(rated()) as wire:
        robin(*judging(wire.url, "--decide", "score>=2", budget=24), cwd=tmp_path, exits=0)
        sent = calls_of(wire)
        manifest = tmp_path / "r" / "manifest.json"
        sound = manifest.read_bytes()
        commands = (["status", "r"], ["export", "r"], ["report", "r"], ["resume", "r", "-b", "30"])
        for number, change in enumerate(odd):
            manifest.write_bytes(sound)
            change_manifest(tmp_path / "r", lambda content: content["settings"].update(change))  # noqa: B023
            done = robin(*commands[number % len(commands)], cwd=tmp_path, exits=2)
            has(done.stderr, "manifest.json")
            assert "Traceback" not in done.stderr
            assert "Traceback" not in robin("runs", ".", cwd=tmp_path).stderr
        assert calls_of(wire) == sent


def test_refuses_a_received_run_whose_groups_are_too_large_to_compare(tmp_path: Path) -> None:
    with serving(rated()) as wire:
        robin(*judging(wire.url, "--decide", "best", budget=24), cwd=tmp_path, exits=0)
        pairs = pd.read_parquet(tmp_path / "r" / "pairs.parquet")
        many = pd.concat([pairs] * 9_000, ignore_index=True)
        many["pair_id"] = [f"p{k}" for k in range(len(many))]
        many["prompt"] = "one"
        many.to_parquet(tmp_path / "r" / "pairs.parquet", index=False)
        for command in (["status", "r"], ["export", "r"], ["resume", "r", "--budget", "200000"]):
            done = robin(*command, cwd=tmp_path)
            assert "Traceback" not in done.stderr
            assert done.returncode != 0
            assert len(done.stderr) < 2_000
