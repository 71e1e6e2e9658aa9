"""robin judge --pairwise as a user runs it: real processes, over HTTP, and in Python; and what is made of such a run."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

import robin_cli
from robin_cli import Pair, RobinError, open_run
from robin_cli.stats import pairwise
from tests.comparing_judge import comparing
from tests.conftest import DEMO, has, refuses, robin
from tests.judges.wire import Answer, completion, error, serving

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

Rows = list[dict[str, Any]]
Says = Callable[[str, str, int], str]
"""What a judge says of two systems, the one that it reads first and the other, at a prompt: A, B or tie."""

PROMPTS = 8
SYSTEMS = ("alpha", "beta", "gamma")
CONTRACT = [
    "pair_id",
    "system_a",
    "system_b",
    "preference",
    "n",
    "n_ties",
    "ci_low",
    "ci_high",
    "order_effect",
]
RANKING = ["system", "strength", "ci_low", "ci_high", "rank", "rank_low", "rank_high", "n_votes"]


def rows_of(prompts: int = PROMPTS, systems: tuple[str, ...] = SYSTEMS) -> Rows:
    """The responses of all systems to all prompts."""
    return [
        {
            "id": f"{name}-{k}",
            "prompt": f"Question {k}?",
            "response": f"Said by {name} on {k}.",
            "system": name,
            "k": k,
        }
        for k in range(prompts)
        for name in systems
    ]


def write_rows(path: Path, rows: Rows | None = None) -> Path:
    lines = [json.dumps(row) + "\n" for row in (rows_of() if rows is None else rows)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def data(tmp_path: Path) -> Path:
    """The pairs that a test judges unless it writes others."""
    return write_rows(tmp_path / "pairs.jsonl")


def asked_of(body: Mapping[str, Any]) -> tuple[str, str, int]:
    """The systems that a request is about, the first one first, and the prompt."""
    found = re.findall(r"Said by (\w+) on (\d+)\.", json.dumps(body))
    assert len(found) == 2
    return found[0][0], found[1][0], int(found[0][1])


def by_name(first: str, second: str, prompt: int) -> str:
    """The better one is alpha, but that it ties with beta on even prompts; gamma is the worst."""
    if {first, second} == {"alpha", "beta"} and prompt % 2 == 0:
        return "tie"
    return "A" if first < second else "B"


def always_first(first: str, second: str, prompt: int) -> str:
    return "A"


def saying(says: Says = by_name) -> Callable[[int, dict[str, Any]], Answer]:
    return lambda _, body: completion(f"Both are short.\nVerdict: {says(*asked_of(body))}")


def judging(url: str, budget: int, *more: str) -> list[str]:
    judge = [
        *("judge", "pairs.jsonl", "--pairwise", "-b", str(budget), "--base-url", url, "--model"),
        *("m", "--run", "r"),
    ]
    return [*judge, "--scheduler", "uniform", "--concurrency", "1", *more]


def exported(folder: Path, *more: str) -> pd.DataFrame:
    done = robin("export", "r", *more, cwd=folder, exits=0)
    return pd.read_csv(io.StringIO(done.stdout))


def status_of(folder: Path) -> dict[str, Any]:
    done = robin("status", "r", "--json", cwd=folder, exits=0)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def said_in(text: str) -> str:
    return " ".join(text.split())


def test_asks_every_comparison_in_both_orders_and_says_what_came_of_it(tmp_path: Path) -> None:
    with serving(saying()) as wire:
        done = robin(*judging(wire.url, 48), cwd=tmp_path, exits=0)
        asked = [asked_of(body) for body in wire.bodies]

    orders = [
        (a, b, k)
        for k in range(PROMPTS)
        for two in combinations(SYSTEMS, 2)
        for a, b in (two, two[::-1])
    ]
    assert sorted(asked) == sorted(orders)
    said = said_in(done.stderr)
    has(
        said,
        "24 of 24 comparisons asked in both orders",
        "order effect: +0.00",
        "ranking of 3 systems: 1 alpha",
    )
    scores = pd.read_csv(io.StringIO(done.stdout))
    assert list(scores.columns[: len(CONTRACT)]) == CONTRACT
    assert list(scores.columns[-1:]) == ["k"]
    assert (scores["n"] == 2).all()
    assert (scores["order_effect"] == 0).all()
    for row in scores.to_dict("records"):
        verdict = by_name(row["system_a"], row["system_b"], row["k"])
        assert row["preference"] == {"A": 1, "tie": 0.5, "B": 0}[verdict]
        assert row["n_ties"] == (2 if verdict == "tie" else 0)
        assert row["ci_low"] <= row["preference"] <= row["ci_high"]
    ranking = exported(tmp_path, "--what", "ranking")
    assert list(ranking.columns[: len(RANKING)]) == RANKING
    assert list(ranking["system"]) == ["alpha", "beta", "gamma"]
    assert list(ranking["n_votes"]) == [32, 32, 32]
    assert ranking["strength"].sum() == pytest.approx(0)
    assert (ranking["rank_low"] <= ranking["rank"]).all()
    assert (ranking["rank"] <= ranking["rank_high"]).all()
    for command in (("runs", "."), ("status", "r"), ("export", "r", "--what", "judgments")):
        robin(*command, cwd=tmp_path, exits=0)


def test_takes_the_effect_of_the_order_out_of_the_scores_and_says_it_of_each_judge(
    tmp_path: Path,
) -> None:

    def answer(number: int, body: dict[str, Any]) -> Answer:
        return saying(always_first if body["model"] == "hasty" else by_name)(number, body)

    with serving(answer) as wire:
        done = robin(*judging(wire.url, 96, "--model", "hasty"), cwd=tmp_path, exits=0)
    scores = pd.read_csv(io.StringIO(done.stdout))
    alone = scores[(scores["system_a"] == "alpha") & (scores["system_b"] == "gamma")]
    assert (
        alone["preference"] == 0.75
    ).all()  # the hasty one prefers neither, whichever it reads first
    assert (scores["order_effect"] == 0.25).all()
    careful, hasty = status_of(tmp_path)["order_effects"]
    assert (careful["judge"], careful["effect"], careful["n"], careful["n_prompts"]) == (
        "m",
        0,
        24,
        8,
    )
    assert (hasty["judge"], hasty["effect"]) == ("hasty", 0.5)
    assert hasty["ci_low"] > 0
    assert "order effect of hasty: +0.50" in said_in(done.stderr)
    said = said_in(robin("status", "r", "--details", cwd=tmp_path).stdout)
    assert "the first response is preferred in 100 %; taken out of all preferences" in said
    each = exported(tmp_path, "--what", "judge-scores")
    assert len(each) == 48
    assert set(each[each["judge"] == "hasty"]["preference"]) == {0.5}


def test_goes_on_where_it_was(tmp_path: Path) -> None:
    with serving(saying()) as wire:
        first = robin(*judging(wire.url, 21), cwd=tmp_path)
        facts = status_of(tmp_path)
        (tmp_path / "pairs.jsonl").unlink()  # the run has its own copy
        second = robin("resume", "r", "--budget", "48", cwd=tmp_path)
        third = robin("resume", "r", cwd=tmp_path)
        asked = [asked_of(body) for body in wire.bodies]
    for done in (first, second, third):
        assert done.returncode == 0, done.stderr
    assert (facts["comparisons_asked"], facts["comparisons_in_part"]) == (10, 1)
    assert facts["comparisons_without_preference"] == 14
    assert facts["no_preference_because"] == {"not asked": 13, "asked in part": 1}
    assert "10 of 24 comparisons asked in both orders, 1 in part" in first.stderr
    assert first.stderr.endswith("next: robin resume r --budget 42\n")
    assert len(asked) == len(set(asked)) == 48
    assert "24 of 24 comparisons asked in both orders" in third.stderr
    assert pd.read_csv(io.StringIO(third.stdout))["preference"].notna().all()


def test_takes_a_tie_for_no_verdict_where_the_judge_has_to_choose(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(4))
    with serving(saying()) as wire:
        done = robin(*judging(wire.url, 75, "--no-ties"), cwd=tmp_path, exits=0)
        questions = [json.dumps(body["messages"]) for body in wire.bodies]
    assert not any("tie" in re.findall(r"[a-z]+", each) for each in questions)
    scores = pd.read_csv(io.StringIO(done.stdout))
    tied = (scores["k"] % 2 == 0) & ~scores["pair_id"].str.contains("gamma")
    assert scores[tied]["preference"].isna().all()
    assert set(scores[~tied]["preference"]) == {0, 1}
    assert (scores["n_ties"] == 0).all()
    facts = status_of(tmp_path)
    assert set(facts["unparsed"]) == {"out_of_range"}
    assert sum(facts["no_preference_because"].values()) == 2


def test_scores_by_the_probability_of_a_against_b(tmp_path: Path) -> None:

    def answer(_: int, body: dict[str, Any]) -> Answer:
        likely = (
            {"A": 0.7, "B": 0.2, "tie": 0.1}
            if asked_of(body)[0] == "alpha"
            else {"A": 0.5, "B": 0.5}
        )
        listed = [
            {"token": name, "logprob": math.log(each), "bytes": list(name.encode())}
            for name, each in likely.items()
        ]
        said = completion("Verdict: A")
        tokens = [
            {"token": "Verdict: ", "logprob": 0.0, "bytes": list(b"Verdict: ")},
            {**listed[0], "top_logprobs": listed},
        ]
        said["choices"][0]["logprobs"] = {"content": tokens}
        return said

    with serving(answer) as wire:
        done = robin(*judging(wire.url, 48, "--answers", "logprobs"), cwd=tmp_path, exits=0)
    scores = pd.read_csv(io.StringIO(done.stdout))
    of_alpha = scores[scores["system_a"] == "alpha"]
    assert of_alpha["preference"].to_numpy() == pytest.approx((0.75 + 0.5) / 2, abs=1e-3)
    assert of_alpha["order_effect"].to_numpy() == pytest.approx((0.75 - 0.5) / 2, abs=1e-3)
    assert "48 by log probabilities" in robin("status", "r", cwd=tmp_path).stdout


def test_names_the_systems_that_no_comparison_connects(tmp_path: Path) -> None:
    with serving(
        saying(lambda a, b, _: "neither, I cannot say" if "gamma" in {a, b} else "A")
    ) as wire:
        done = robin(*judging(wire.url, 48), cwd=tmp_path, exits=0)
    assert "no ranking of systems: no chain of comparisons with a preference connects" in said_in(
        done.stderr
    )
    facts = status_of(tmp_path)
    assert sorted(map(sorted, facts["not_connected"])) == [["alpha", "beta"], ["gamma"]]
    assert facts["ranking"] == []
    refused = robin("export", "r", "--what", "ranking", cwd=tmp_path, exits=2)
    assert "alpha, beta | gamma" in said_in(refused.stderr) or "beta, alpha | gamma" in said_in(
        refused.stderr
    )
    assert "robin resume r --budget 96" in refused.stderr


def test_says_which_of_two_systems_is_better(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(20, ("alpha", "beta")))
    with serving(saying(lambda a, b, _: "A" if a < b else "B")) as wire:
        done = robin(*judging(wire.url, 40), cwd=tmp_path, exits=0)
    has(
        said_in(done.stderr),
        "alpha is preferred to beta in 100 %",
        "of 20 comparisons: told apart at 95 %",
    )


def test_exports_what_trainers_read(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(4))
    with serving(saying()) as wire:
        robin(*judging(wire.url, 24 * 5), cwd=tmp_path, exits=0)
    done = robin("export", "r", "--what", "preferences", cwd=tmp_path, exits=0)
    rows = pd.read_csv(io.StringIO(done.stdout))
    assert list(rows.columns) == ["prompt", "chosen", "rejected", "margin"]
    assert "2 whose responses cannot be told apart are left out" in done.stderr
    assert len(rows) == 10
    assert (rows["margin"] == 0.5).all()
    better = (
        rows["chosen"].str.extract(r"by (\w+)")[0] < rows["rejected"].str.extract(r"by (\w+)")[0]
    )
    assert better.all()
    chats = robin(
        "export", "r", "--what", "preferences", "--messages", "--format", "jsonl", cwd=tmp_path
    )
    assert [turn["role"] for turn in json.loads(chats.stdout.splitlines()[0])["chosen"]] == [
        "user",
        "assistant",
    ]


def test_writes_texts_and_workbooks_and_shows_tables(tmp_path: Path) -> None:
    rows = rows_of(2)
    rows[0]["system"] = rows[3]["system"] = "=1+1"
    write_rows(tmp_path / "pairs.jsonl", rows)
    with serving(saying()) as wire:
        robin(*judging(wire.url, 12, "-o", "scores.xlsx", "--with-text"), cwd=tmp_path, exits=0)
        shown = robin("resume", "r", "--format", "table", "--budget", "24", cwd=tmp_path, exits=0)
    sheet = openpyxl.load_workbook(tmp_path / "scores.xlsx").worksheets[0]
    names = [cell.value for cell in next(iter(sheet.iter_rows()))]
    assert names[-3:] == ["prompt", "response_a", "response_b"]
    text = robin("export", "r", "--with-text", cwd=tmp_path)
    assert "'=1+1" in text.stdout
    assert "system_" in text.stderr
    has(shown.stdout, "A preferred", "order ±")
    # the ranking is under the comparisons
    assert "3 systems by 6 comparisons of 2 prompts" in shown.stdout
    wide = robin("resume", "r", "--wide", "--budget", "25", cwd=tmp_path, exits=2)
    assert "--wide: is for several attributes" in wide.stderr


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("export", "r", "--what", "calibration"), "no human ratings of preference"),
    (("export", "r", "--wide"), "--wide: is for several attributes"),
]


def test_refuses_what_is_of_ratings_and_says_what_there_is(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(2))
    run = robin_cli.judge(
        tmp_path / "pairs.jsonl",
        judge=here,
        pairwise=True,
        budget=12,
        run=tmp_path / "r",
        quiet=True,
    )
    for command, step in REFUSED:
        done = robin(*command, cwd=tmp_path, exits=2)
        assert step in said_in(done.stderr), command
    refuses(RobinError, "--what ranking, --what preferences", run.decisions)
    refuses(RobinError, "--wide", run.scores, wide=True)


def said_of(response: str) -> str:
    """What people say of a comparison whose response A this is: as the judge, but that alpha wins every fourth tie."""
    name, prompt = re.findall(r"Said by (\w+) on (\d+)", response)[0]
    ours, theirs = ("A", "B") if name == "alpha" else ("B", "A")
    k = int(prompt)
    return " Tie" if k % 2 == 0 and k % 8 else ours if k % 3 else theirs


def test_agrees_with_the_verdicts_of_people(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.jsonl", rows_of(48, SYSTEMS[:2]))
    run = robin_cli.judge(
        data, judge=here, pairwise=True, budget=96, run=tmp_path / "r", quiet=True
    )
    wanted = run.labels_wanted(40)
    wanted["label"] = [said_of(each) for each in wanted["response_a"]]
    wanted.to_csv(tmp_path / "labels.csv", index=False)
    preference = run.scores().set_index("pair_id")["preference"][wanted["pair_id"]].to_numpy()
    people = wanted["label"].map({"A": 1.0, "B": 0.0, " Tie": 0.5}).to_numpy()
    found = run.agreement(labels=wanted).set_index("coefficient")["value"]
    assert found["pearson"] == pytest.approx(np.corrcoef(preference, people)[0, 1])
    assert found["same"] == pytest.approx(
        np.mean(np.sign(preference - 0.5) == np.sign(people - 0.5))
    )
    levels = run.calibration(labels=wanted).set_index("level")["mean_human"]
    assert levels.to_dict() == {
        each: pytest.approx(people[preference == each].mean()) for each in (0.0, 0.5, 1.0)
    }
    status = robin(
        "status", "r", "--labels", "labels.csv", "--details", cwd=tmp_path, exits=0
    ).stdout
    has(
        said_in(status),
        f"the same preferred {found['same']:.2f}",
        "corrected by 40 labels of 40 prompts",
    )
    assert "with fewer than 50 labelled prompts the labels may miss rare errors" in said_in(status)
    wanted.loc[3, "label"] = "C"
    refuses(
        RobinError,
        'row 4: the label "C" is not a verdict. Write A, B or tie',
        run.agreement,
        labels=wanted,
    )


def test_reads_the_verdicts_of_people_out_of_the_data(tmp_path: Path) -> None:
    rows = [
        {
            "id": k,
            "prompt": f"Question {k}?",
            "response_a": f"Said by {'alpha' if k % 3 else 'beta'} on {k}.",
            "response_b": f"Said by {'beta' if k % 3 else 'alpha'} on {k}.",
        }
        for k in range(24)
    ]
    given = [{**row, "human": said_of(str(row["response_a"]))} for row in rows]
    data = write_rows(tmp_path / "pairs.jsonl", given)
    asked: dict[str, Any] = {"judge": here, "pairwise": True, "budget": 48, "quiet": True}
    run = robin_cli.judge(data, columns={"preference": "human"}, run=tmp_path / "r", **asked)
    labels = pd.DataFrame(
        {"pair_id": [str(row["id"]) for row in given], "label": [row["human"] for row in given]}
    )
    own, labelled = run.agreement(), run.agreement(labels=labels)
    pd.testing.assert_frame_equal(own, labelled)
    assert own["value"].notna().sum() >= 6
    assert "human preference</th><td>Krippendorff&#39;s α" in run.report().read_text(
        encoding="utf-8"
    )
    write_rows(data, [{**rows[0], "human": "both"}])
    step = 'is "both", no verdict. Give A, B, tie or null'
    refuses(
        RobinError,
        step,
        robin_cli.judge,
        data,
        columns={"preference": "human"},
        run=tmp_path / "s",
        **asked,
    )


def test_has_no_ranking_of_a_run_of_ratings(tmp_path: Path) -> None:
    rows = [Pair(f"p{k}", f"Question {k}?", f"Answer {k}.") for k in range(3)]
    run = robin_cli.judge(
        rows,
        judge=lambda _: "Rating: 3",
        attribute="helpfulness",
        budget=3,
        run=tmp_path / "r",
        quiet=True,
    )
    refuses(RobinError, "robin judge --pairwise", run.ranking)


def here(messages: list[Mapping[str, str]]) -> str:
    """The same judge as a function."""
    return f"Both are short.\nVerdict: {by_name(*asked_of({'messages': messages}))}"


def first_alone(messages: list[Mapping[str, str]]) -> str:
    """A judge that goes by the order alone."""
    del messages
    return "Verdict: A"


def pairs_of(rows: Rows) -> list[Pair]:
    columns = [{name: row[name] for name in ("system", "k")} for row in rows]
    return [
        Pair(row["id"], row["prompt"], row["response"], columns=each)
        for row, each in zip(rows, columns, strict=True)
    ]


def test_compares_files_frames_and_pairs_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(4)
    data = write_rows(tmp_path / "pairs.jsonl", rows)
    given: dict[str, Any] = {"file": data, "frame": pd.DataFrame(rows), "pairs": pairs_of(rows)}
    rankings = []
    for name, data in given.items():
        run = robin_cli.judge(data, pairwise=True, judge=here, budget=24, run=tmp_path / name)
        assert run.scores()["preference"].notna().all()
        assert list(run.scores(with_text=True).columns[-3:]) == [
            "prompt",
            "response_a",
            "response_b",
        ]
        assert run.status()["comparisons_asked"] == 12
        rankings.append(run.ranking())
    assert "next: robin " in capsys.readouterr().err
    for ranking in rankings[1:]:
        pd.testing.assert_frame_equal(ranking, rankings[0])
    again = open_run(tmp_path / "pairs").resume(budget=36, judge=here)
    assert again.scores()["n"].sum() == 36
    with pytest.raises(RobinError, match=r"the run has|differs|another"):
        robin_cli.judge(
            pairs_of(rows_of(3)), pairwise=True, judge=here, budget=60, run=tmp_path / "pairs"
        )


def test_spends_nothing_on_more_systems_than_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [{"system_a": f"s{at}", "system_b": f"s{at + 1}"} for at in range(2000)]
    pairs = [Pair(f"{at}", "q", "a", columns=columns, other="b") for at, columns in enumerate(two)]
    with pytest.raises(RobinError, match=r"2,001 systems.*Compare fewer in one run"):
        robin_cli.judge(pairs, pairwise=True, judge=here, budget=9000, run=tmp_path / "r")
    assert [each.name for each in tmp_path.iterdir()] == ["pairs.jsonl"]

    run = robin_cli.judge(
        pairs_of(rows_of()), pairwise=True, judge=here, budget=48, run=tmp_path / "few"
    )
    monkeypatch.setattr(pairwise, "MOST_SYSTEMS", 2)  # as a run of an earlier version may have more
    facts = run.status()
    assert facts["ranking"] == []
    assert (
        facts["not_ranked_because"]
        == "3 systems are too many, 2 are the most; judge fewer of them in one run"
    )


def test_compares_pairs_that_hold_both_responses(tmp_path: Path) -> None:
    a, b = ({"system_a": "alpha", "system_b": "beta"}, {"system_a": "beta", "system_b": "alpha"})
    two = [
        Pair("x", "Question 1?", "Said by alpha on 1.", columns=a, other="Said by beta on 1."),
        Pair("y", "Question 3?", "Said by beta on 3.", columns=b, other="Said by alpha on 3."),
    ]
    run = robin_cli.judge(two, pairwise=True, judge=here, budget=4, run=tmp_path / "r", quiet=True)
    assert list(run.scores()["preference"]) == [1, 0]
    assert list(run.scores()["pair_id"]) == ["x", "y"]
    with pytest.raises(RobinError, match="pairwise=True compares them"):
        robin_cli.judge(
            two, judge=here, attribute="helpfulness", budget=4, run=tmp_path / "s", quiet=True
        )
    with pytest.raises(RobinError, match="1 of 2 rows hold two responses"):
        robin_cli.judge(
            [two[0], *pairs_of(rows_of(1))[:1]],
            pairwise=True,
            judge=here,
            budget=4,
            run=tmp_path / "t",
        )


def test_shows_the_question_in_both_orders(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(1))
    listed = robin("render", "pairs.jsonl", "--pairwise", "--pair", "none", cwd=tmp_path, exits=2)
    pair_id = re.findall(r"\w+-0~\w+-0", listed.stderr)[0]
    a, b = pair_id.replace("-0", "").split("~")

    done = robin("render", "pairs.jsonl", "--pairwise", "--pair", pair_id, cwd=tmp_path, exits=0)

    asked = re.findall(r"Said by (\w+) on", done.stdout)
    assert asked == [a, b, b, a]
    has(done.stdout, "[user, a-first]", "[user, b-first]", "One of A, B and tie")
    alone = robin(
        *("render", "pairs.jsonl", "--no-ties", "-a", "helpfulness", "--pair", "alpha-0"),
        cwd=tmp_path,
        exits=2,
    )
    assert "--no-ties: is for --pairwise" in alone.stderr


def test_reads_verdicts_from_lines(tmp_path: Path) -> None:
    (tmp_path / "said.jsonl").write_text(
        "".join(
            json.dumps({"text": f"Why.\nVerdict: {said}"}) + "\n"
            for said in ("A", "B", "tie", "A and B")
        )
    )
    done = robin("parse", "said.jsonl", "--pairwise", cwd=tmp_path)
    chosen = robin("parse", "said.jsonl", "--pairwise", "--no-ties", cwd=tmp_path)
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == [
        "A",
        "B",
        "tie",
        None,
    ]
    assert json.loads(done.stdout.splitlines()[3])["reason"] == "ambiguous"
    assert json.loads(chosen.stdout.splitlines()[2])["reason"] == "out_of_range"
    robin("parse", "said.jsonl", "--no-ties", cwd=tmp_path, exits=2)


@pytest.mark.parametrize("is_hasty", [False, True])
def test_asks_an_endpoint_one_comparison_in_both_orders(tmp_path: Path, *, is_hasty: bool) -> None:
    def answer(_: int, body: dict[str, Any]) -> Answer:
        text = json.dumps(body["messages"])
        paris_first = text.index("is Paris.") < text.index("is Lyon.")
        return completion(f"Verdict: {'A' if paris_first or is_hasty else 'B'}")

    with serving(answer) as wire:
        command = ("check", "--pairwise", "--base-url", wire.url, "--model", "m")
        done = robin(*command, "--json", cwd=tmp_path, exits=0)
        shown = robin(*command, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["verdict"], found["verdict_swapped"]) == ("A", "A" if is_hasty else "B")
    assert "verdict swapped" in shown.stdout


def test_says_where_a_call_of_a_comparison_failed(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(4))

    refused: list[object] = []

    def limited(number: int, body: dict[str, Any]) -> Any:
        refused.extend([body["messages"]] * (number == 2))
        return (
            error(400, "the prompt is too long", code="context_length_exceeded")
            if body["messages"] in refused
            else saying()(number, body)
        )

    with serving(limited) as wire:
        robin(*judging(wire.url, 24), cwd=tmp_path, exits=0)
    facts = status_of(tmp_path)
    assert facts["arms_retired"] == 1
    assert facts["no_preference_because"] == {"given up": 1}
    scores = exported(tmp_path)
    assert scores["given_up"].str.contains("context_length").sum() == 1


def test_finds_the_best_response_to_each_prompt_and_ends(tmp_path: Path) -> None:
    # nobody says who wrote them
    rows = [Pair(row["id"], row["prompt"], row["response"]) for row in rows_of(3)]

    def judge(messages: list[Mapping[str, str]]) -> str:
        return (
            f"Verdict: {'A' if (asked := asked_of({'messages': messages}))[0] < asked[1] else 'B'}"
        )

    run = robin_cli.judge(
        rows, pairwise=True, decide="best", judge=judge, budget=600, run=tmp_path / "r", quiet=True
    )

    told = run.status()
    assert (told["state"], told["best"]["leading"], told["best"]["of"]) == ("finished", 3, 3)
    assert told["best"]["likely_wrong_share"] <= 0.01
    assert told["spent"] < 600
    scores = run.scores(with_text=True)
    assert not [name for name in scores.columns if "certified" in name]
    of_alpha = (
        scores["response_a"].str.contains("alpha"),
        scores["response_b"].str.contains("alpha"),
    )
    assert (
        scores["best"]
        == of_alpha[0].map({True: "A", False: ""}) + of_alpha[1].map({True: "B", False: ""})
    ).all()
    preferences = run.preferences()
    assert preferences["chosen"].str.contains("alpha").sum() == 6
    assert "ranking" not in robin("status", "r", "--details", cwd=tmp_path).stdout


def test_says_that_a_run_lost_the_names_of_its_systems(tmp_path: Path) -> None:
    with serving(saying()) as wire:
        robin(*judging(wire.url, 6), cwd=tmp_path, exits=0)
    (tmp_path / "r" / "columns.parquet").unlink()
    told = robin("status", "r", cwd=tmp_path)
    assert told.returncode != 0
    assert "restore it from a copy" in told.stderr


@pytest.mark.parametrize(
    ("answers", "ties"),
    [
        pytest.param("text", True, marks=pytest.mark.whole),
        ("json", False),
        pytest.param("text", False, marks=pytest.mark.whole),
        pytest.param("json", True, marks=pytest.mark.whole),
    ],
)
def test_finds_the_order_effect_that_was_planted(
    tmp_path: Path, answers: str, *, ties: bool
) -> None:
    how = (
        *("--budget", "600", "--answers", answers, "--seed", "7"),
        *([] if ties else ["--no-ties"]),
    )
    with comparing(order_effect=0.3) as url:
        judge = (
            *("judge", DEMO / "responses.jsonl", "--pairwise", "--base-url", url, "--model", "m"),
        )
        robin(*judge, "--run", "r", *how, cwd=tmp_path, exits=0)
    (effect,) = status_of(tmp_path)["order_effects"]
    assert effect["effect"] == pytest.approx(0.3, abs=0.1)  # three standard errors
    assert effect["ci_low"] > 0


def test_gates_sums_up_compares_and_labels_preferences_from_0_to_1(tmp_path: Path) -> None:
    judged = {
        name: robin_cli.judge(
            write_rows(tmp_path / f"{name}.jsonl", rows_of(30, systems)),
            judge=here,
            pairwise=True,
            scheduler="uniform",
            budget=60,
            run=tmp_path / name,
            quiet=True,
        )
        for name, systems in (("a", ("alpha", "gamma")), ("b", ("beta", "alpha")))
    }
    other: dict[str, Any] = {
        "pairwise": True,
        "scheduler": "uniform",
        "budget": 60,
        "run": tmp_path / "c",
        "quiet": True,
    }
    judged["c"] = robin_cli.judge(tmp_path / "a.jsonl", judge=first_alone, **other)
    scores = judged["a"].scores()
    (mean,) = judged["a"].summary().to_dict("records")
    assert mean["mean"] == pytest.approx(scores["preference"].mean())
    assert 0 <= mean["ci_low"] <= mean["mean"] <= mean["ci_high"] <= 1

    def gate(run: str, requirement: str) -> dict[str, Any]:
        done = robin("gate", run, "--require", requirement, "--json", cwd=tmp_path)
        (found,) = json.loads(done.stdout)["requirements"]
        return dict(found)

    met = gate("a", "mean(preference)>=0.1")
    assert (met["verdict"], met["estimate"]) == ("pass", pytest.approx(scores["preference"].mean()))
    share = gate("a", "share(preference>=0.5)>=0.05")
    assert share["estimate"] == pytest.approx((scores["preference"] >= 0.5).mean())
    assert (
        "inside the scale 0-1"
        in robin("gate", "a", "--require", "mean(preference)>=1", cwd=tmp_path).stderr
    )

    wanted = judged["a"].labels_wanted(5)
    assert {"prompt", "response_a", "response_b"} <= set(wanted.columns)
    labels = judged["a"].labels_wanted(30).assign(label=lambda rows: (rows.index % 3) / 2)
    corrected = judged["a"].summary(labels=labels)
    assert corrected["n_labels"].tolist() == [30]
    assert corrected["corrected_mean"].between(0, 1).all()

    done = robin("compare", "a", "b", "--json", cwd=tmp_path, exits=0)
    assert "30 comparisons not in all of the runs" in done.stderr
    (difference,) = json.loads(done.stdout)["comparisons"]
    mine, theirs, third = (run.scores().set_index("k")["preference"] for run in judged.values())
    assert difference["difference"] == pytest.approx((mine - theirs).mean())
    assert difference["ci_low"] <= difference["difference"] <= difference["ci_high"]
    by_other = robin("compare", "a", "c", "--json", cwd=tmp_path, exits=0)
    assert "judged in different ways" in by_other.stderr
    assert "not in all of the runs" not in by_other.stderr
    assert json.loads(by_other.stdout)["comparisons"][0]["difference"] == pytest.approx(
        (mine - third).mean()
    )
