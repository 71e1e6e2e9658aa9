"""Runs with a user's own rubrics and templates, from the command line, over real HTTP."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import has, robin
from tests.judges.wire import Wire, completion, serving

STARS = """\
attribute = "stars"
scale = [1, 10]
[levels]
"1-3" = "Bad."
"4-7" = "Fair."
"8-10" = "Good."
"""


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A judge that rates 7 or 8, and remembers what it was asked."""
    with serving(
        lambda number, _body: completion(f"Feedback: ok.\nRating: {7 + number % 2}")
    ) as wire:
        yield wire


def pairs(folder: Path, *, reference: bool = False) -> Path:
    rows: list[dict[str, Any]] = [
        {"id": f"p{k}", "prompt": f"q{k}", "response": f"r{k}", "stars": k} for k in range(1, 4)
    ]
    for row in rows if reference else ():
        row["gold"] = f"the answer to {row['prompt']}"
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder / "pairs.jsonl"


def test_judges_by_a_rubric_of_the_users_own(tmp_path: Path, wire: Wire) -> None:
    (tmp_path / "stars.toml").write_text(STARS, encoding="utf-8")
    command: list[str | Path] = [
        *("judge", pairs(tmp_path), "--rubric", "stars.toml", "--base-url", wire.url),
        *("--model", "m", "--run", "r"),
    ]

    done = robin(*command, "--budget", "60", cwd=tmp_path, exits=0)

    scores = pd.read_csv(io.StringIO(done.stdout))
    assert set(scores["attribute"]) == {"stars"}
    assert scores["score"].between(7, 8).all()
    assert (scores["ci_high"] <= 10).all()
    assert scores["human"].tolist() == [1, 2, 3]
    asked = wire.bodies[0]["messages"][1]["content"]
    has(
        asked,
        "an integer between 1 and 10",
        "Stars:\nScore 1-3: Bad.\nScore 4-7: Fair.\nScore 8-10: Good.",
    )

    (tmp_path / "stars.toml").write_text(STARS.replace("Fair", "So so"), encoding="utf-8")
    changed = robin("resume", "r", "--budget", "70", cwd=tmp_path, exits=2)
    assert "the prompts changed since this run was made" in changed.stderr
    (tmp_path / "stars.toml").unlink()
    robin("resume", "r", "--budget", "70", cwd=tmp_path, exits=0)
    assert "Score 4-7: Fair." in wire.bodies[-1]["messages"][1]["content"]


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 7), (0, 100)])
def test_judges_on_any_scale_with_a_reference_answer_as_prometheus_does(
    tmp_path: Path, low: int, high: int
) -> None:
    middle = (low + high) // 2
    levels = f'"{low}-{middle}" = "Unlike the reference."\n"{middle + 1}-{high}" = "As good as the reference."\n'
    (tmp_path / "match.toml").write_text(
        f'attribute = "match"\nscale = [{low}, {high}]\n[levels]\n{levels}'
    )
    answers = [
        f"Feedback: ok.\nRating: {low}",
        f"Feedback: ok.\nRating: {high}/{high}",
        f"Rating: {high + 1}",
    ]
    command: list[str | Path] = [
        "judge",
        pairs(tmp_path, reference=True),
        *("--rubric", "match.toml", "--budget", "36"),
    ]
    command += [
        *(
            *("--template", "with-reference", "--columns", "reference=gold", "--scheduler"),
            "two-priors",
        ),
        *("--run", "r"),
    ]

    with serving(lambda number, _: completion(answers[number % 3])) as wire:
        done = robin(
            *command,
            *("--base-url", wire.url, "--model", "m", "--concurrency", "1"),
            cwd=tmp_path,
            exits=0,
        )

    scores = pd.read_csv(io.StringIO(done.stdout))
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    assert set(judgments["rating"].dropna()) == {low, high}
    assert set(judgments["reason"].dropna()) == {"out_of_range"}
    assert scores["n_unparsed"].sum() == (judgments["status"] == "unparsed").sum() == 12
    assert (scores["ci_low"] >= low).all()
    assert (scores["ci_high"] <= high).all()
    assert ((scores["ci_low"] < scores["score"]) & (scores["score"] < scores["ci_high"])).all()


def test_compares_with_reference_answers(tmp_path: Path) -> None:
    command: list[str | Path] = [
        *(
            "judge",
            pairs(tmp_path, reference=True),
            *("-a", "correctness", "--template", "with-reference"),
        )
    ]
    with serving(lambda *_: completion("Feedback: ok.\nRating: 3")) as wire:
        where: list[str | Path] = [
            *("--base-url", wire.url, "--model", "m", "--budget", "9", "--run", "r")
        ]

        lacking = robin(*command, *where, cwd=tmp_path, exits=2)
        robin(*command, *where, "--columns", "reference=gold", cwd=tmp_path, exits=0)
        robin("resume", "r", "--budget", "12", cwd=tmp_path, exits=0)

        has(lacking.stderr, "3 of 3 pairs have none", "--columns reference=")
        for asked in wire.bodies:
            body = asked["messages"][1]["content"]
            number = body.split("###Response:\nr")[1][0]
            assert f"###Reference answer:\nthe answer to q{number}\n" in body


def test_asks_nothing_by_a_template_that_never_shows_the_response(
    tmp_path: Path, wire: Wire
) -> None:
    pairs(tmp_path)
    (tmp_path / "blind.jinja").write_text("{% block user %}{{ instruction }}{% endblock %}")
    asked = ("-a", "helpfulness", "--budget", "6", "--base-url", wire.url, "--model", "m")
    for command in ("plan", "judge"):
        where = (command, "pairs.jsonl", *asked, "--template", "blind.jinja")
        refused = robin(*where, cwd=tmp_path, exits=2)
        has(refused.stderr, "--template blind.jinja: never shows response", "{{ response }}")
    assert not wire.bodies


def test_settings_in_a_file_count_paths_from_it(tmp_path: Path, wire: Wire) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    pairs(folder)
    (folder / "stars.toml").write_text(STARS, encoding="utf-8")
    (folder / "ask.jinja").write_text(
        "{% block user %}Rate {{ response }} by\n{{ rubric }}{% endblock %}", encoding="utf-8"
    )
    (folder / "robin.toml").write_text(
        'data = "pairs.jsonl"\nrubric = "stars.toml"\ntemplate = "ask.jinja"\nmodel = "m"\n',
        encoding="utf-8",
    )

    robin(
        *("judge", "--config", "study/robin.toml", "--base-url", wire.url, "--budget", "6"),
        cwd=tmp_path,
        exits=0,
    )
    shown = robin(
        *("render", folder / "pairs.jsonl", "--pair", "p2", "--rubric", folder / "stars.toml"),
        cwd=tmp_path,
    )

    assert wire.bodies[0]["messages"][0]["content"].startswith("Rate r1 by\nStars:")
    assert "###Response to evaluate:\nr2\n" in shown.stdout


def test_shows_the_ready_rubrics_to_start_from(tmp_path: Path) -> None:
    listed = robin("rubrics", cwd=tmp_path).stdout
    (tmp_path / "mine.toml").write_text(
        robin("rubrics", "verbosity", cwd=tmp_path).stdout, encoding="utf-8"
    )
    template = robin("rubrics", "with-reference", cwd=tmp_path).stdout
    unknown = robin("rubrics", "verbosty", cwd=tmp_path)

    rows = {line.split()[0]: line.split()[1] for line in listed.splitlines()}
    assert rows["coherence"] == "0-4"
    assert rows["overall"] == rows["summary-coherence"] == "1-7"
    assert rows["absolute-judge"] == "template"
    assert "{{ reference }}" in template
    assert (unknown.returncode, 'did you mean "verbosity"?' in unknown.stderr) == (2, True)
    shown = robin("render", pairs(tmp_path), "--rubric", "mine.toml", cwd=tmp_path)
    assert "Verbosity:\nScore 0:" in shown.stdout


def test_spends_one_budget_over_several_attributes_and_sets_them_side_by_side(
    tmp_path: Path,
) -> None:
    command: list[str | Path] = [
        "judge",
        pairs(tmp_path),
        *("-a", "verbosity,coherence", "--model", "m", "--run", "r"),
    ]
    with serving(
        lambda number, _body: completion(f"Feedback: ok.\nRating: {1 + number % 3}")
    ) as wire:
        done = robin(
            *command,
            *("--base-url", wire.url, "--budget", "50", "--wide", "--with-text"),
            cwd=tmp_path,
            exits=0,
        )
    long = pd.read_csv(io.StringIO(robin("export", "r", cwd=tmp_path).stdout))

    wide = pd.read_csv(io.StringIO(done.stdout))
    assert list(wide["pair_id"]) == ["p1", "p2", "p3"]
    assert list(wide["response"]) == ["r1", "r2", "r3"]
    assert wide["verbosity_n"].sum() + wide["coherence_n"].sum() == 50
    for attribute in ("verbosity", "coherence"):
        theirs = long[long["attribute"] == attribute].reset_index(drop=True)
        for column in ("score", "n", "n_unparsed", "given_up", "ci_low"):
            pd.testing.assert_series_equal(
                wide[f"{attribute}_{column}"], theirs[column], check_names=False
            )
