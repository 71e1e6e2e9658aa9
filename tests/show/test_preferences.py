"""Which response of a group is better than which, in the columns that preference training reads."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy import stats

import robin_cli
from robin_cli.data.chats import named_turns, turns_in
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.training import preferences
from robin_cli.model.errors import RobinError
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from tests.conftest import robin
from tests.run.test_store import SETTINGS, judgment, manifest
from tests.show.tables import page_of

COLUMNS = ["prompt", "chosen", "rejected", "margin"]
BEST, GOOD, BAD, FLAWED = [4] * 30, [3, 4] * 15, [0, 1] * 15, [3, 3, 2, 3]


def pair(name: str, prompt: str = "p", **more: Any) -> Pair:
    return Pair(name, prompt, f"the answer {name}", **more)


def rated(
    folder: Path, pairs: Sequence[Pair], ratings: Sequence[Sequence[int]], **settings: Any
) -> RunReader:
    """A run with these ratings, as ``manifest`` has them: on 0 to 4."""
    data = {"source": "x", "sha256": "0", "pairs": len(pairs)}
    made = manifest(settings={**SETTINGS, **settings}, data=data, budget=10**6)
    given = []
    for each, rated_ in zip(pairs, ratings, strict=True):
        for draw, rating in enumerate(rated_):
            record = judgment(0)
            values = {name: getattr(record, name) for name in type(record).__slots__}
            given.append(
                type(record)(**values | {"pair_id": each.pair_id, "rating": rating, "draw": draw})
            )
    with RunWriter.create(folder / "r", made, pairs) as store:
        store.append(given)
    return read_run(folder / "r", JUDGMENTS.names)


def moderated(ratings: Sequence[Sequence[int]]) -> list[float]:
    """V of each response, by hand: docs/evidence/scores.md."""
    squares = [float(np.var(each) * len(each)) for each in ratings]
    # 2: of a rating drawn evenly from 0 to 4
    pooled = (sum(squares) + 2.0) / (sum(len(each) - 1 for each in ratings) + 1)
    return [(ss + 4 * pooled) / (len(each) + 3) for ss, each in zip(squares, ratings, strict=True)]


def test_prefers_the_best_of_a_group_to_those_that_differ_from_it(tmp_path: Path) -> None:
    names, ratings = ["bad", "best", "good", "flawed", "alone"], [BAD, BEST, GOOD, FLAWED, BAD]
    pairs = [pair(name, "q" if name == "alone" else "p") for name in names]
    run = rated(tmp_path, pairs, ratings, decide="best")
    frame = robin_cli.open_run(run.path).preferences()

    means, variances = [float(np.mean(each)) for each in ratings], moderated(ratings)
    expected = []
    for rival in (0, 2, 3):
        parts = [variances[at] / len(ratings[at]) for at in (1, rival)]
        freedom = sum(parts) ** 2 / sum(
            a**2 / (len(ratings[at]) + 3) for a, at in zip(parts, (1, rival), strict=True)
        )
        if means[1] - means[rival] > stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)):
            expected.append((rival, means[1] - means[rival]))
    assert [rival for rival, _ in expected] == [0, 2, 3]
    assert list(frame.columns) == COLUMNS
    assert set(frame["prompt"]) == {"p"}
    assert set(frame["chosen"]) == {"the answer best"}
    assert list(frame["rejected"]) == [f"the answer {names[rival]}" for rival, _ in expected]
    np.testing.assert_allclose(frame["margin"], [margin for _, margin in expected])
    found = preferences(goal_of_run(run).result(run))
    assert (found.alike, found.alone, found.groups, found.unrated) == (0, 1, 2, 0)
    assert page_of(run).rows.first().tolist() == [
        1,
        2,
        3,
        0,
        4,
    ]  # the best, its rivals, and last what has none


@pytest.mark.parametrize("decide", [None, "best"])
def test_prefers_by_clear_differences_and_certifies_those_of_certified_bests(
    tmp_path: Path, decide: str | None
) -> None:
    rng = np.random.default_rng(3)
    pairs = [pair(f"{group}/{k}", f"prompt {group}") for group in range(12) for k in range(4)]
    ratings = [rng.binomial(4, rng.uniform(0.2, 0.9), rng.integers(4, 80)).tolist() for _ in pairs]
    run = rated(tmp_path, pairs, ratings, decide=decide, certify=decide is not None)
    ran = goal_of_run(run).result(run)
    found = preferences(ran)

    means, variances = [float(np.mean(each)) for each in ratings], moderated(ratings)
    rows = []
    for group in range(12):
        lead = max(range(4 * group, 4 * group + 4), key=means.__getitem__)
        for rival in set(range(4 * group, 4 * group + 4)) - {lead}:
            a, b = (variances[at] / len(ratings[at]) for at in (lead, rival))
            freedom = (a + b) ** 2 / (
                a**2 / (len(ratings[lead]) + 3) + b**2 / (len(ratings[rival]) + 3)
            )
            if means[lead] - means[rival] > stats.t.ppf(0.975, freedom) * math.sqrt(a + b):
                rows.append((lead, rival))
    assert sorted(zip(found.chosen.tolist(), found.rejected.tolist(), strict=True)) == rows
    assert found.alike == 36 - len(rows)
    if decide is None:
        assert found.certified is None
        return
    decided = ran.scores.decided
    assert decided is not None
    assert decided.certified is not None
    assert found.certified is not None
    assert found.certified.tolist() == decided.certified[found.chosen // 4].tolist()
    assert 0 < found.certified.sum() < len(rows)


def test_leaves_out_responses_without_a_rating_and_of_the_same_text(tmp_path: Path) -> None:
    same = Pair("again", "p", "the answer best")
    pairs = [pair("best"), same, pair("bad"), pair("silent"), pair("mute", "q"), pair("deaf", "q")]
    run = rated(tmp_path, pairs, [BEST, BAD, BAD, [], [], BEST])
    told = robin("export", run.path, "--what", "preferences", cwd=tmp_path)
    assert told.returncode == 0
    said = "1 pair; 1 that cannot be told apart is left out; 2 responses have no rating"
    assert said in " ".join(told.stderr.split())
    frame = pd.read_csv(io.StringIO(told.stdout))
    assert frame.to_dict("records") == [
        {"prompt": "p", "chosen": "the answer best", "rejected": "the answer bad", "margin": 3.5}
    ]


def test_says_what_to_do_where_nothing_is_to_be_preferred(tmp_path: Path) -> None:
    alone = rated(tmp_path / "1", [pair("a", "p"), pair("b", "q")], [BEST, BAD])
    told = robin("export", alone.path, "--what", "preferences", cwd=tmp_path)
    assert told.returncode == 2
    assert "2 groups, and one response in each" in told.stderr
    assert "--group" in told.stderr
    alike = rated(tmp_path / "2", [pair("a"), pair("b"), pair("c")], [[3, 2], [2, 3], []])
    with pytest.raises(
        RobinError,
        match=r"can be told apart \(1 pair, 1 response without a rating\); .*robin resume .* --budget N",
    ):
        robin_cli.open_run(alike.path).preferences()
    scores = robin("export", alike.path, "--messages", cwd=tmp_path)
    assert scores.returncode == 2
    assert "--what preferences" in scores.stderr


def judged(tmp_path: Path, pairs: Sequence[Pair], **more: Any) -> robin_cli.Run:
    """A run of a judge that finds what its name says, with a little noise."""
    seen: dict[str, int] = {}

    def judge(messages: list[Mapping[str, str]]) -> str:
        text = messages[-1]["content"]
        seen[text] = seen.get(text, 0) + 1
        good = 4 if "the answer best" in text else 1
        return f"Feedback: fine.\nRating: {good - (seen[text] % 4 == 0)}"

    settings = {
        "attribute": "helpfulness",
        "budget": 40 * len(pairs),
        "run": tmp_path / "run",
        "quiet": True,
        "scheduler": "uniform",
    }
    return robin_cli.judge(pairs, judge=judge, **{**settings, **more})


def test_has_rows_of_each_attribute(tmp_path: Path) -> None:
    run = judged(tmp_path, [pair("best"), pair("bad")], attribute="helpfulness,verbosity")
    frame = run.preferences()
    assert list(frame.columns) == [*COLUMNS, "attribute"]
    assert list(frame["attribute"]) == ["helpfulness", "verbosity"]


def test_groups_by_the_column_that_the_run_was_made_with(tmp_path: Path) -> None:
    pairs = [
        pair("best", "today?", group="day"),
        pair("bad", "tomorrow?", group="day"),
        pair("lone", "p", group="x"),
    ]
    run = judged(tmp_path, pairs)
    assert run.preferences().to_dict("records") == [
        {
            "prompt": "today?",
            "chosen": "the answer best",
            "rejected": "the answer bad",
            "margin": 3.0,
        }
    ]
    told = robin("export", run.path, "--what", "preferences", cwd=tmp_path).stderr
    assert "1 pair; 0 that cannot be told apart are left out; 1 group has one response only" in told
    assert "1 pair of responses to different prompts: the prompt is that of the chosen one" in told


MARKED = "Hi\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\nA haiku, please."
NAMED = named_turns(
    [
        ("System", "Be brief."),
        ("User", "Hi"),
        ("Assistant", "Hello!"),
        ("User", "A haiku,\n\nplease."),
    ]
)
PLAIN = "User: is this a name?\n\nAssistant: is this?"


def test_splits_a_prompt_into_the_turns_it_is_made_of() -> None:
    for prompt, turns in (
        ("Name three birds.", [("User", "Name three birds.")]),
        (MARKED, [("User", "Hi"), ("Assistant", "Hello!"), ("User", "A haiku, please.")]),
        (
            NAMED,
            [
                ("System", "Be brief."),
                ("User", "Hi"),
                ("Assistant", "Hello!"),
                ("User", "A haiku,\n\nplease."),
            ],
        ),
        (PLAIN, [("User", PLAIN)]),
        ("Rate this.\n\nUser: hi", [("User", "Rate this.\n\nUser: hi")]),
        ("System: only", [("User", "System: only")]),
        ("User: a\n\nUser: b", [("User", "User: a\n\nUser: b")]),
    ):
        assert turns_in(prompt) == turns, (prompt, turns)


ANSWERS = ["- a list\n- of \"two\", 'quoted'", "=1+1", "😀 long 𝄞", ""]


def preferred(tmp_path: Path) -> robin_cli.Run:
    prompts = ["One?", MARKED, NAMED, "Four?"]
    pairs = []
    for at, (prompt, answer) in enumerate(zip(prompts, ANSWERS, strict=True)):
        pairs += [Pair(f"{at}/a", prompt, f"the answer best {at}"), Pair(f"{at}/b", prompt, answer)]
    return judged(tmp_path, pairs)


@pytest.mark.parametrize("fmt", ["jsonl", "parquet"])
def test_writes_what_trl_and_open_instruct_read(tmp_path: Path, fmt: str) -> None:
    from datasets import load_dataset  # takes two seconds

    """Their loaders are `datasets`; how each tells the forms apart is here as they do it, TRL 1.16 and open-instruct 2025."""
    run = preferred(tmp_path)
    pairs = read_run(run.path).pairs
    kind = "json" if fmt == "jsonl" else fmt
    loaded = {}
    for name, more in {"texts": [], "messages": ["--messages"]}.items():
        done = robin(
            "export", run.path, "--what", "preferences", *more, "-o", f"{name}.{fmt}", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        file = str(tmp_path / f"{name}.{fmt}")
        loaded[name] = load_dataset(
            kind, data_files=file, split="train", cache_dir=str(tmp_path / "cache")
        )
    texts, messages = loaded["texts"], loaded["messages"]

    # TRL, standard: a prompt, and what follows it, as texts; RewardTrainer reads the margin as a number.
    assert texts.column_names == COLUMNS
    assert [row["prompt"] for row in texts] == ["One?", MARKED, NAMED, "Four?"]
    for at, row in enumerate(texts):
        assert row["prompt"] + row["chosen"] == pairs[2 * at].prompt + pairs[2 * at].response
        assert (
            row["prompt"] + row["rejected"] == pairs[2 * at + 1].prompt + pairs[2 * at + 1].response
        )
        assert row["margin"] == 3.0

    # TRL, conversational, the prompt implied (its extract_prompt), and open-instruct (all but the last message is the prompt).
    assert messages.column_names == COLUMNS[1:]
    for at, row in enumerate(messages):
        common = next(
            k for k, (a, b) in enumerate(zip(row["chosen"], row["rejected"], strict=True)) if a != b
        )
        assert common == len(row["chosen"]) - 1
        assert row["chosen"][-1] == {"role": "assistant", "content": pairs[2 * at].response}
        assert row["rejected"][-1] == {"role": "assistant", "content": pairs[2 * at + 1].response}
    assert [[each["role"] for each in row["chosen"]] for row in messages] == [
        ["user", "assistant"],
        ["user", "assistant", "user", "assistant"],
        ["system", "user", "assistant", "user", "assistant"],
        ["user", "assistant"],
    ]
    assert messages[2]["rejected"][1:4] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "A haiku,\n\nplease."},
    ]


def test_writes_preferences_that_act_in_no_spreadsheet(tmp_path: Path) -> None:
    run = preferred(tmp_path)
    told = robin("export", run.path, "--what", "preferences", cwd=tmp_path)
    rejected = list(pd.read_csv(io.StringIO(told.stdout), keep_default_na=False)["rejected"])
    assert [each[:2] for each in rejected] == ["'-", "'=", "😀 ", ""]
    assert 'rejected "- a list' in told.stderr
    assert "To train on them, write them as they are: --raw, .jsonl or .parquet" in told.stderr
    raw = robin(
        "export", run.path, "--what", "preferences", "--raw", "--format", "tsv", cwd=tmp_path
    )
    assert "apostrophe" not in raw.stderr
    assert (
        list(pd.read_csv(io.StringIO(raw.stdout), sep="\t", keep_default_na=False)["rejected"])[1]
        == "=1+1"
    )
    assert (
        robin("export", run.path, "--what", "preferences", "-o", "p.xlsx", cwd=tmp_path).returncode
        == 0
    )
    sheet = openpyxl.load_workbook(tmp_path / "p.xlsx").worksheets[0]
    assert [cell.data_type for cell in sheet[3]] == ["s", "s", "s", "n"]
    for name in ("p.csv", "p.tsv.gz", "q.xlsx"):
        refused = robin(
            "export", run.path, "--what", "preferences", "--messages", "-o", name, cwd=tmp_path
        )
        assert refused.returncode == 2
        assert "write .jsonl or .parquet" in refused.stderr
        assert not (tmp_path / name).exists()


def test_has_the_same_rows_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    run = preferred(tmp_path)
    done = robin(
        "export", run.path, "--what", "preferences", "--messages", "--format", "jsonl", cwd=tmp_path
    )
    frame = run.preferences(messages=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {**row, "chosen": list(row["chosen"]), "rejected": list(row["rejected"])}
        for row in frame.to_dict("records")
    ]
