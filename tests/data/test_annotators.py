"""Data in which several people rated a pair: HelpSteer2's disagreements, Summarize From Feedback's axis files."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data.pairs import load_pairs
from tests.data.writing import HELPSTEER, as_lines, as_parquet, complaint, read, refused, written

ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
DISAGREEMENTS: list[dict[str, Any]] = [
    {**HELPSTEER[0], **{name: [4, 3, at % 5] for at, name in enumerate(ATTRIBUTES)}},
    {**HELPSTEER[1], **{name: [0, 1, 1, 4] for name in ATTRIBUTES}},
    {"prompt": "p", "response": "r", **{name: [2] for name in ATTRIBUTES}},
]
ONE, TWO, _ = DISAGREEMENTS
AXES = ("overall", "accuracy", "coverage", "coherence")


def axis_row(
    worker: str, text: str = "Short.", *ratings: int | None, **more: Any
) -> dict[str, Any]:
    axes = {**dict(zip(AXES, ratings, strict=False)), "compatible": None}
    info = {
        "id": "t3_1",
        "post": "A long story.",
        "title": "T",
        "subreddit": "r/tifu",
        "article": None,
    }
    return {
        "info": info,
        "summary": {"text": text, "policy": "sup4", "note": "ok", "axes": axes},
        "worker": worker,
        **more,
    }


WORKERS = [
    axis_row("w1", "Short.", 7, 6, 5, 4),
    axis_row("w1", "Shorter.", 1, 1, 1, 1),
    axis_row("w2", "Short.", 4, None, 6, 4),
    axis_row("w3", "Short.", 4, 7, 7, 4),
]


def test_takes_the_mean_of_annotators_as_the_human_rating(tmp_path: Path) -> None:
    for name, content in (
        ("d.jsonl.gz", gzip.compress(as_lines(DISAGREEMENTS))),
        ("d.parquet", as_parquet(DISAGREEMENTS)),
    ):
        pairs = load_pairs(written(tmp_path, name, content)).pairs
        assert [pair.human["helpfulness"] for pair in pairs] == [7 / 3, 1.5, 2.0]
        assert set(pairs[0].human) == set(ATTRIBUTES)


def test_takes_the_mean_of_those_who_rated(tmp_path: Path) -> None:
    ratings = {"helpfulness": [None, 4, float("nan"), 1], "correctness": [], "verbosity": [None]}
    row = {"prompt": "p", "response": "r", **ratings}
    assert load_pairs(written(tmp_path, "p.jsonl", as_lines([row]))).pairs[0].human == {
        "helpfulness": 2.5
    }


def test_merges_workers_of_several_files_and_beyond_the_limit(tmp_path: Path) -> None:
    written(tmp_path, "1.json", as_lines(WORKERS[:2]))
    written(tmp_path, "2.json", as_lines([*WORKERS[2:], axis_row("w4", "Later.", 1, 1, 1, 1)]))
    data = load_pairs(tmp_path / "*.json", limit=1)
    assert (len(data.pairs), data.merged) == (1, 2)
    assert data.pairs[0].human["overall"] == 5.0


def test_refuses_workers_of_one_id_and_different_texts(tmp_path: Path) -> None:
    file = written(tmp_path, "axis1.jsonl", as_lines(WORKERS[:2]))
    assert 'axis1.jsonl:2: the id "t3_1" is also that of line 1.' in complaint(
        file, columns={"id": "info.id"}
    )


def test_refuses_the_same_texts_twice_in_data_that_is_not_of_workers(tmp_path: Path) -> None:
    assert "same prompt and response as line 1" in complaint(
        written(tmp_path, "a.jsonl", as_lines(HELPSTEER[:1] * 2))
    )
    bare = {"info": {"post": "p"}, "summary": {"text": "s"}}
    assert "same prompt and response as line 1" in complaint(
        written(tmp_path, "b.jsonl", as_lines([bare, bare]))
    )
    again = as_lines([DISAGREEMENTS[0]] * 2)
    assert "same prompt and response as line 1" in complaint(written(tmp_path, "c.jsonl", again))


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.lists(st.none() | st.integers(1, 7), min_size=4, max_size=4)
        ),
        min_size=1,
    ),
    st.integers(1, 4) | st.none(),
)
def test_gives_a_summary_the_mean_of_its_workers(
    rated: list[tuple[str, list[int | None]]], limit: int | None
) -> None:
    rows = [axis_row(f"w{at}", text, *ratings) for at, (text, ratings) in enumerate(rated)]
    with tempfile.TemporaryDirectory() as folder:
        data = load_pairs(written(Path(folder), "axis.jsonl", as_lines(rows)), limit=limit)
    texts = list(dict.fromkeys(text for text, _ in rated))[:limit]
    assert [pair.response for pair in data.pairs] == texts
    for pair in data.pairs:
        own = [
            dict(zip(AXES, ratings, strict=True))
            for text, ratings in rated
            if text == pair.response
        ]
        expected = {
            name: [value for each in own if (value := each[name]) is not None] for name in AXES
        }
        assert pair.human == pytest.approx(
            {name: fmean(values) for name, values in expected.items() if values}
        )
    assert data.merged == sum(text in texts for text, _ in rated) - len(texts)


def test_reads_the_ratings_of_several_people_from_lists_and_from_rows(tmp_path: Path) -> None:
    people = [{"fluency": 2, "coherence": 5}, {"fluency": 4, "coherence": 4}]
    row = {"id": "a", "text": "p", "decoded": "r", "people": people}
    columns = {"prompt": "text", "response": "decoded", "coherence": "people.coherence"}
    for name in ("a.jsonl", "a.parquet"):
        (pair,) = read(tmp_path, [row], name, columns=columns).pairs
        assert pair.human == {"coherence": 4.5}
    said = refused(tmp_path, [row], columns={**columns, "prompt": "people.coherence"})
    assert said.startswith('pairs.jsonl:1: field "people.coherence" is a list, not text.')

    rows = [
        {"id": "a", "prompt": "p", "response": "r", "annotator": who, "helpfulness": rating}
        for who, rating in (("ann", 1), ("bob", 4))
    ]
    data = read(tmp_path, rows)
    assert [(pair.pair_id, pair.human) for pair in data.pairs] == [("a", {"helpfulness": 2.5})]
    assert data.merged == 1
