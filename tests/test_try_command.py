"""``robin try``: judges and wordings on the same pairs, held against people or against one another."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from robin_cli.goals.trial import Configuration
from tests.conftest import has, robin
from tests.judges.wire import KEY, Answer, Wire, completion, error, serving

ERRORS = {
    "gpt-good": 0.4,
    "gpt-bad": 3.0,
    "claude-good": 0.7,
    "llama-constant": 0.0,
    "mistral-good": 0.7,
}
"""The judges, and the standard deviations of their errors."""


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    """Judges that rate the quality that a response says it has; with the wording criteria without an error."""
    rng = random.Random(1)

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        said = json.dumps(body["messages"])
        quality = re.search(r"quality (\d)", said)
        assert quality is not None
        error = 0.0 if "###Criteria" in said else rng.gauss(0, ERRORS[body["model"]])
        rating = 2 if body["model"] == "llama-constant" else round(int(quality[1]) + error)
        return completion(f"Feedback: fine.\nRating: {min(4, max(0, rating))}")

    with serving(answer) as served:
        yield served


def write_data(folder: Path, prompts: int, labelled: int) -> None:
    rng = random.Random(2)
    rows = [
        (f"p{number}-{at}", number, rng.randrange(5))
        for number in range(prompts)
        for at in range(3)
    ]
    with (folder / "pairs.jsonl").open("w") as file:
        for pair_id, number, quality in rows:
            response = f"answer {pair_id} of quality {quality}"
            row = {"id": pair_id, "prompt": f"question {number}", "response": response}
            file.write(json.dumps(row) + "\n")
    last = [
        f"{pair_id},{quality}" for pair_id, number, quality in rows if number >= prompts - labelled
    ]
    (folder / "labels.csv").write_text("\n".join(["pair_id,label", *last]) + "\n")


def quality_in(folder: Path) -> Callable[[str], int]:
    rows = map(json.loads, (folder / "pairs.jsonl").read_text().splitlines())
    qualities = {row["id"]: int(row["response"][-1]) for row in rows}
    return qualities.__getitem__


def command(wire: Wire, *models: str) -> list[str]:
    return [
        *("try", "pairs.jsonl", "-a", "helpfulness", "--base-url", wire.url),
        *(part for model in models for part in ("--model", model)),
    ]


def rows_of(text: str) -> dict[tuple[str, str], dict[str, str]]:
    return {
        (row["judge"], row.get("template", "")): row for row in csv.DictReader(io.StringIO(text))
    }


def test_drops_what_is_worse_by_people_and_suggests_a_judge_and_two_families(
    tmp_path: Path, wire: Wire
) -> None:
    write_data(tmp_path, 60, 45)
    before = len(wire.bodies)
    asked = [
        *command(wire, "gpt-good", "gpt-bad", "claude-good"),
        *("--labels", "labels.csv", "--limit", "150", "--run", "t"),
        *("--price-in", "1", "--price-out", "2"),
    ]
    done = robin(*asked, cwd=tmp_path, exits=0)
    rows = rows_of(done.stdout)
    good, bad = (rows[name, ""] for name in ("gpt-good", "gpt-bad"))
    assert (good["n_pairs"], bad["n_pairs"]) == ("135", "90")  # those with labels
    assert float(good["agreement"]) > 0.9 > float(bad["agreement"]) + 0.3
    low, difference, high = (float(bad[f"difference{end}"]) for end in ("_low", "", "_high"))
    assert low < difference < high < 0 == float(good["difference"])
    assert float(good["agreement_low"]) < float(good["agreement"]) < float(good["agreement_high"])
    assert 0.2 < float(good["noise"]) < 0.8
    assert float(good["usd_per_1000"]) > 0
    has(
        done.stderr,
        "dropped: gpt-bad agrees less with people than gpt-good",
        "gpt-good and claude-good",
    )
    has(done.stderr, "--model gpt-good --model claude-good")
    # 30 prompts come first: 90 pairs and 40 of them twice, by three judges; then 45 by those that are left
    ratings = len(wire.bodies) - before
    assert ratings in {3 * 130 + 45, 3 * 130 + 2 * 45}
    again = robin(*asked, cwd=tmp_path, exits=0)
    assert again.stdout == done.stdout
    assert len(wire.bodies) - before == ratings  # nothing is asked again


def test_without_labels_judges_are_held_against_other_families(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 25, 0)
    models = ("gpt-good", "gpt-bad", f"claude-good@{wire.url}")
    done = robin(*command(wire, *models), cwd=tmp_path, exits=0)
    rows = rows_of(done.stdout)
    assert list(rows)[-1] == ("gpt-bad", "")
    assert {row["n_pairs"] for row in rows.values()} == {"75"}
    has(done.stderr, "families of judges cannot be ranked", "give people's --labels")
    pair = {"--model gpt-good", f"--model claude-good@{wire.url}"}
    has(done.stderr, "for a second opinion take", *pair, "--decide best")


def test_three_families_rank_one_another(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 60, 0)
    asked = command(wire, "gpt-bad", "claude-good", "mistral-good")
    done = robin(*asked, cwd=tmp_path, exits=0)
    has(done.stderr, "-good agrees most with the judges of other families", "prompts would tell it")
    assert "gpt-bad" not in done.stderr.splitlines()[-1]


def test_a_judge_that_rates_all_alike_is_no_third_family(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 40, 0)
    asked = command(wire, "gpt-good", "gpt-bad", "claude-good", "llama-constant")
    done = robin(*asked, cwd=tmp_path, exits=0)
    has(done.stderr, "families of judges cannot be ranked")


def test_pairs_that_a_judge_refuses_agree_with_nothing(tmp_path: Path, wire: Wire) -> None:
    """Else a judge that answers only what is easy would agree best."""
    write_data(tmp_path, 20, 20)

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        quality = re.search(r"quality (\d)", json.dumps(body["messages"]))
        assert quality is not None
        if body["model"] == "claude" and quality[1] in "123":
            return error(400, "Refused.", code="content_filter")
        return completion(f"Rating: {quality[1]}")

    with serving(answer) as refusing:
        asked = (*command(refusing, "gpt", "claude"), "--labels", "labels.csv")
        rows = rows_of(robin(*asked, cwd=tmp_path, exits=0).stdout)
    assert float(rows["gpt", ""]["agreement"]) == pytest.approx(1.0)
    assert float(rows["claude", ""]["agreement"]) < 0.95


def test_a_failed_call_is_asked_again_and_its_pair_counts(tmp_path: Path) -> None:
    write_data(tmp_path, 12, 12)
    failed = set[str]()

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        call = json.dumps(body)
        if "p1-" in call and call not in failed:
            failed.add(call)
            return error(500, "Try again.")
        quality = re.search(r"quality (\d)", json.dumps(body["messages"]))
        assert quality is not None
        return completion(f"Rating: {quality[1]}")

    with serving(answer) as wire:
        asked = (*command(wire, "gpt", "claude"), "--labels", "labels.csv", "--max-retries", "0")
        rows = rows_of(robin(*asked, cwd=tmp_path, exits=0).stdout)
    for row in rows.values():
        assert row["n_pairs"] == "36"
        assert float(row["agreement"]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["pairs.jsonl", "labels.csv"])
def test_replaces_none_of_the_files_that_it_reads(tmp_path: Path, wire: Wire, name: str) -> None:
    write_data(tmp_path, 4, 4)
    asked = (*command(wire, "gpt-good", "gpt-bad"), "--labels", "labels.csv")
    has(robin(*asked, "-o", name, cwd=tmp_path, exits=2).stderr, "would be lost")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--columns", "response=other"), "columns: the run has"),
        (("--labels", "others.csv"), "data (SHA-256): the run has"),
    ],
)
def test_goes_on_with_no_run_of_other_pairs(
    tmp_path: Path, wire: Wire, changed: tuple[str, ...], message: str
) -> None:
    write_data(tmp_path, 8, 8)
    labels = (tmp_path / "labels.csv").read_text().splitlines()
    (tmp_path / "others.csv").write_text("\n".join(labels[:13]) + "\n")
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    lines = [
        json.dumps({**row, "other": f"other of quality {at % 5}"}) for at, row in enumerate(rows)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    asked = (*command(wire, "gpt-good", "gpt-bad"), "--labels", "labels.csv", "--run", "t")
    robin(*asked, "--limit", "12", cwd=tmp_path, exits=0)
    if changed[0] == "--labels":
        (tmp_path / "others.csv").write_text("\n".join([labels[0], *labels[-15:]]) + "\n")
    before = len(wire.bodies)
    other = robin(*asked, "--limit", "12", *changed, cwd=tmp_path, exits=2)
    has(other.stderr, message)
    assert len(wire.bodies) == before


def test_refuses_settings_about_money_that_it_cannot_keep(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 4, 4)
    asked = (*command(wire, "gpt-good", "gpt-bad"), "--labels", "labels.csv")
    has(
        robin(*asked, cwd=tmp_path, exits=2, ROBIN_MAX_COST="0.01").stderr,
        "--max-cost: is not for robin try",
    )
    empty = tmp_path / "empty.csv"
    empty.write_text("pair_id,label\np0-0,\n")
    refused = robin(*asked, "--labels", "empty.csv", cwd=tmp_path, exits=2)
    has(refused.stderr, "empty.csv: has no label")


def test_each_judge_has_its_own_key_and_price(tmp_path: Path, wire: Wire) -> None:
    """A judge at an address of its own gets no key that nobody named for it, although it is asked alone."""
    write_data(tmp_path, 4, 4)
    before = len(wire.headers)
    with serving(lambda _, body: completion("Rating: 2")) as other:
        done = robin(
            *command(wire, "gpt-good", f"claude-good@{other.url}"),
            *("--labels", "labels.csv"),
            *("--price-in", "1", "--price-in", "3", "--price-out", "0"),
            cwd=tmp_path,
            exits=0,
            OPENAI_API_KEY=KEY,
        )
    keys = [
        {headers["Authorization"] for headers in served}
        for served in (wire.headers[before:], other.headers)
    ]
    assert keys == [{f"Bearer {KEY}"}, {"Bearer none"}]
    prices = {judge: row["usd_per_1000"] for (judge, _), row in rows_of(done.stdout).items()}
    assert {judge: float(price) for judge, price in prices.items()} == {
        "gpt-good": pytest.approx(0.1),  # 100 tokens at a dollar a million, and a thousand calls
        "claude-good": pytest.approx(0.3),
    }


def test_without_labels_two_judges_cannot_be_ranked(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 70, 0)
    done = robin(*command(wire, "gpt-bad", "claude-good"), cwd=tmp_path, exits=0)
    assert {row["n_pairs"] for row in rows_of(done.stdout).values()} == {"200"}
    has(done.stderr, "families of judges cannot be ranked", "or add a third family")
    assert "take gpt-bad:" not in done.stderr
    assert "take claude-good:" not in done.stderr


def test_wordings_are_tried_with_every_judge(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 30, 30)
    done = robin(
        *command(wire, "gpt-bad"),
        *("--template", "absolute-judge", "--template", "criteria", "--labels", "labels.csv"),
        cwd=tmp_path,
        exits=0,
    )
    first, second = rows_of(done.stdout)
    assert (first, second) == (("gpt-bad", "criteria"), ("gpt-bad", "absolute-judge"))
    has(
        done.stderr, "take gpt-bad with criteria: it agrees most with people (1.00 over 30 prompts)"
    )
    has(done.stderr, "for a second opinion, add a judge of another family")


def test_a_budget_bounds_the_calls_and_says_nothing_where_no_ratings_vary(
    tmp_path: Path, wire: Wire
) -> None:
    write_data(tmp_path, 20, 20)
    before = len(wire.bodies)
    done = robin(
        *command(wire, "llama-constant"),
        *("--template", "absolute-judge", "--template", "rubric-first", "--labels", "labels.csv"),
        *("--budget", "160"),
        cwd=tmp_path,
        exits=0,
    )
    assert len(wire.bodies) - before <= 160
    has(done.stderr, "no judge can be suggested")


def test_drops_a_judge_whose_ratings_do_not_vary(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 31, 31)
    asked = (*command(wire, "llama-constant", "gpt-good"), "--labels", "labels.csv")
    done = robin(*asked, cwd=tmp_path, exits=0)
    has(done.stderr, "dropped: llama-constant agrees less with people than gpt-good so far")
    has(done.stderr, "take gpt-good: it agrees most with people (")
    has(done.stderr, "prompts), of those that were not dropped")


def test_a_second_opinion_has_one_wording_for_both_judges(tmp_path: Path) -> None:
    """The second best judge of another family is best with the other wording."""
    write_data(tmp_path, 40, 40)
    rng = random.Random(3)

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        is_criteria = "###Criteria" in json.dumps(body["messages"])
        quality = re.search(r"quality (\d)", json.dumps(body["messages"]))
        assert quality is not None
        error = 0.3 if is_criteria == (body["model"] == "gpt") else 1.0
        return completion(f"Rating: {min(4, max(0, round(int(quality[1]) + rng.gauss(0, error))))}")

    with serving(answer) as wire:
        templates = ("--template", "absolute-judge", "--template", "criteria")
        asked = (*command(wire, "gpt", "claude"), "--labels", "labels.csv", *templates)
        suggested = robin(*asked, cwd=tmp_path, exits=0).stderr
    pair = re.search(r"second opinion take (\w+) with (\S+) and (\w+) with (\S+): (.*)", suggested)
    assert pair is not None
    assert pair[2] == pair[4]
    assert f"--template {pair[2]} --model {pair[1]} --model {pair[3]} --decide best" in pair[5]


def test_spends_a_small_budget_whole(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 40, 40)
    before = len(wire.bodies)
    asked = (*command(wire, "gpt-good", "claude-good"), "--labels", "labels.csv", "--budget", "61")
    done = robin(*asked, cwd=tmp_path, exits=0)
    assert len(wire.bodies) - before == 60
    has(done.stderr, "over 5 prompts), but 1 other may be as good")  # 15 pairs


def test_goes_on_where_it_stopped_with_the_same_command(tmp_path: Path) -> None:
    write_data(tmp_path, 10, 10)
    is_open, answers = False, list[str]()

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        if body["model"] == "claude" and not is_open:
            return error(401, "The key is gone.")
        answers.append(json.dumps(body["messages"]) + body["model"])
        return completion(f"Rating: {len(answers) % 5}")

    with serving(answer) as wire:
        asked = (*command(wire, "gpt", "claude"), "--labels", "labels.csv", "--run", "t")
        stopped = robin(*asked, cwd=tmp_path, exits=3)
        has(stopped.stderr, "runs: t", "and repeat the command with --run t", "it wants a key")
        is_open = True
        robin(*asked, cwd=tmp_path, exits=0)
        other = robin(*asked, "--limit", "12", cwd=tmp_path, exits=2)
    assert set(Counter(answers).values()) == {2}  # nothing is asked again
    has(other.stderr, "limit: the run has 30, now 12")


def test_people_may_name_the_best_response_of_each_prompt(tmp_path: Path, wire: Wire) -> None:
    write_data(tmp_path, 24, 0)
    best = [
        max((f"p{number}-{at}" for at in range(3)), key=quality_in(tmp_path))
        for number in range(24)
    ]
    lines = [f"question {number},{pair_id}" for number, pair_id in enumerate(best)]
    (tmp_path / "best.csv").write_text("\n".join(["group,best", *lines]) + "\n")
    asked = (*command(wire, "gpt-good", "gpt-bad"), "--labels", "best.csv")
    done = robin(*asked, cwd=tmp_path, exits=0)
    assert "dropped" not in done.stderr  # 24 prompts are too few
    rows = rows_of(done.stdout)
    assert float(rows["gpt-good", ""]["agreement"]) > 0.3


def test_says_how_many_answers_have_no_rating(tmp_path: Path) -> None:
    write_data(tmp_path, 8, 8)
    texts = {"gpt": "I cannot say.", "claude": "Rating: 2"}
    with serving(lambda _, body: completion(texts[body["model"]])) as wire:
        done = robin(
            *command(wire, "gpt", "claude"), "--labels", "labels.csv", cwd=tmp_path, exits=0
        )
    rows = rows_of(done.stdout)
    assert [float(rows[judge, ""]["unparsed"]) for judge in ("gpt", "claude")] == [1, 0]
    with serving(lambda _, body: completion("I cannot say.")) as wire:
        asked = (*command(wire, "gpt", "claude"), "--labels", "labels.csv", "--run", "other")
        has(robin(*asked, cwd=tmp_path, exits=3).stderr, "no judge gave a rating")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model", "gpt-good"), "nothing to choose; add a --model, --template or --rubric"),
        (("--model", "gpt-good", "--model", "gpt-bad"), "all of these are gpt"),
        (
            ("--model", "gpt-good", "--model", "claude-good", "-b", "1"),
            "--budget 1: is too small; give 2 or more",
        ),
        (("--model", "gpt-good", "--model", "x", "-a", "helpfulness,verbosity"), "name one, or"),
    ],
)
def test_refuses_what_it_cannot_choose_between_before_a_call(
    tmp_path: Path, wire: Wire, flags: tuple[str, ...], message: str
) -> None:
    write_data(tmp_path, 4, 0)
    before = len(wire.bodies)
    done = robin(*command(wire), *flags, cwd=tmp_path, exits=2)
    has(done.stderr, message)
    assert len(wire.bodies) == before


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-5.4-mini", "gpt"),
        ("o3-mini", "gpt"),
        ("anthropic.claude-haiku-4-5", "claude"),
        ("meta-llama/Llama-3.3-70B", "llama"),
        ("google/gemma-3-27b", "gemini"),
        ("my-judge", "my"),
        ("accounts/fireworks/models/kimi-k2", "kimi"),
    ],
)
def test_a_model_belongs_to_the_family_of_its_name(model: str, family: str) -> None:
    assert Configuration(model).family == family
