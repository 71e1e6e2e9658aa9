"""What robin makes of files that are as they should be."""

from __future__ import annotations

import gc
import gzip
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from robin_cli.data.pairs import load_pairs, pair_id_of
from tests.data.writing import (
    ATTRIBUTES,
    HELPSTEER,
    TURNS,
    WRITERS,
    as_lines,
    as_table,
    complaint,
    written,
)

NAN = float("nan")
ODD = "a\0b\u2028c\x85d"
PR = {"prompt": "p", "response": "r"}
TREE = {"task": {"text": "q", "meta": {"n": 7}}, "out": {"best": "a"}, "marks": {"grade": 2}}
NAMED = {"prompt": "question", "response": "answer", "id": "uid", "quality": "score"}
PATHS = {"prompt": "task.text", "response": "out.best", "id": "task.meta.n", "grade": "marks.grade"}


def axis_row(axes: dict[str, Any] | None, **info: Any) -> dict[str, Any]:
    summary = {"text": "short", "policy": "sup4", "note": "", "axes": axes}
    return {
        "info": {"id": "t3_1", "title": "…", **info},
        "split": "valid1",
        "summary": summary,
        "worker": "w",
    }


AXES = {"overall": 6, "accuracy": 7, "coverage": None, "coherence": 5, "compatible": True}
RATED: dict[str, float] = {"overall": 6, "accuracy": 7, "coherence": 5}

# Rows, the columns that are named, and the pairs: their ids (None: made of the texts), texts and ratings.
ROWS: dict[str, tuple[list[dict[str, Any]], dict[str, str], list[tuple[str | None, str, str, Mapping[str, float]]]]] = {
    "HelpSteer2, with its conversations as they are": (
        HELPSTEER,
        {},
        [(None, row["prompt"], row["response"], {name: row[name] for name in ATTRIBUTES}) for row in HELPSTEER],
    ),
    "axes of Summarize From Feedback": (
        [axis_row(AXES, post="A long post", article=None), axis_row(AXES, post=None, article="An article")],
        {},
        [(None, "A long post", "short", RATED), (None, "An article", "short", RATED)],
    ),
    "axes that are null": ([axis_row(None, post="A post")], {}, [(None, "A post", "short", {})]),
    "other names": (
        [{"question": "q", "answer": "a", "uid": "u1", "score": 3, "prompt": "not this"}],
        NAMED,
        [("u1", "q", "a", {"quality": 3})],
    ),
    "nested fields": ([TREE], PATHS, [("7", "q", "a", {"grade": 2})]),
    "a name with a dot before a nested field": ([{"summary.text": "flat", "prompt": "p"}], {}, [(None, "p", "flat", {})]),
    "an id": ([{**PR, "id": "a-1"}], {}, [("a-1", "p", "r", {})]),
    "a number as id": ([{**PR, "id": 17}], {}, [("17", "p", "r", {})]),
    "a pair_id": ([{**PR, "pair_id": "x"}], {}, [("x", "p", "r", {})]),
    "a great number as id": ([{**PR, "pair_id": 2**60}], {}, [(f"{2**60}", "p", "r", {})]),
    "no ids": ([{**PR, "id": None}, {"prompt": "q", "response": "r"}], {}, [(None, "p", "r", {}), (None, "q", "r", {})]),
    "ids that are not to be taken": (
        [{"prompt": "p", "response": f"r{n}", "id": "the prompt's"} for n in range(2)],
        {"id": "-"},
        [(None, "p", "r0", {}), (None, "p", "r1", {})],
    ),
    "absent ratings, which are not 0": (
        [{**PR, "helpfulness": None, "coherence": NAN, "verbosity": 0}],
        {},
        [(None, "p", "r", {"verbosity": 0})],
    ),
    "an empty response, which is an answer": ([{"prompt": "p", "response": ""}], {}, [(None, "p", "", {})]),
    "nul bytes and line separators": ([{"prompt": "p", "response": ODD}], {}, [(None, "p", ODD, {})]),
}  # fmt: skip


READ = (".jsonl", ".json", ".csv", ".parquet")
"""A format for each reader; test_compressed.py has packed files, test_separated.py has what separates cells."""


def fits(name: str, suffix: str) -> bool:
    """Whether a format can hold these rows; tables of texts hold no objects."""
    nested = any(isinstance(value, dict) for row in ROWS[name][0] for value in row.values())
    return not nested or not suffix.startswith((".csv", ".tsv"))


@pytest.mark.parametrize(
    ("name", "suffix"), [(name, suffix) for name in ROWS for suffix in READ if fits(name, suffix)]
)
def test_reads_rows_alike_in_every_format(tmp_path: Path, name: str, suffix: str) -> None:
    rows, columns, wanted = ROWS[name]

    data = load_pairs(written(tmp_path, f"pairs{suffix}", rows), columns=columns)
    assert [(pair.pair_id, pair.prompt, pair.response, pair.human) for pair in data.pairs] == [
        (pair_id_of(*texts) if pair_id is None else pair_id, *texts, human)
        for pair_id, *texts, human in wanted
    ]
    assert data.skipped == 0


LINES = as_lines(HELPSTEER)
BOM = b"\xef\xbb\xbf"
DECIMALS = {
    "prompt": pa.array(["p", "q"]).dictionary_encode(),
    "response": pa.array(["a", "b"], pa.large_string()),
    "helpfulness": pa.array([Decimal("2.5"), None]),
}
# What a file holds byte for byte, and its responses and ratings.
FILES: dict[str, tuple[str, bytes, list[tuple[str, dict[str, float]]]]] = {
    "empty cells of pandas and R": (
        "p.csv",
        b"prompt,response,a,b,c,d,verbosity\np,r,,NA,nan, null , 3.5 \n",
        [("r", {"verbosity": 3.5})],
    ),
    "an empty text for a rating": ("p.jsonl", as_lines([{**PR, "verbosity": ""}]), [("r", {})]),
    "a suffix in capitals": ("PAIRS.JSONL", as_lines([PR]), [("r", {})]),
    "Excel's byte order mark in CSV": ("p.csv", BOM + b"prompt,response\np,r\n", [("r", {})]),
    "a byte order mark of lines": ("p.jsonl", BOM + as_lines([PR]), [("r", {})]),
    "a byte order mark of an array": ("p.json", BOM + b'[{"prompt": "p", "response": "r"}]', [("r", {})]),
    "blank lines and Windows line ends": ("p.jsonl", b"\r\n" + as_lines([PR])[:-1] + b"\r\n  \r\n\n", [("r", {})]),
    "the empty rows of a spreadsheet": ("p.csv", b"\nprompt,response\np,r\n\n,\n,\n", [("r", {})]),
    "line ends of old Macs": ("p.csv", b'prompt,response\rp,"two\rlines"\rq,s\r', [("two\rlines", {}), ("s", {})]),
    "cells above the csv module's limit": ("p.csv", b"prompt,response\np," + b"long " * 200_000, [("long " * 200_000, {})]),
    "several gzip files in one": (
        "p.jsonl.gz",
        gzip.compress(as_lines([PR])) + gzip.compress(as_lines([{"prompt": "q", "response": "s"}])),
        [("r", {}), ("s", {})],
    ),
    "types of Parquet": ("p.parquet", as_table(pa.table(DECIMALS)), [("a", {"helpfulness": 2.5}), ("b", {})]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_reads_what_other_programs_write(tmp_path: Path, name: str) -> None:
    file, content, wanted = FILES[name]
    columns = {name: name for name in "abcd"} if name.startswith("empty cells") else None
    pairs = load_pairs(written(tmp_path, file, content), columns=columns).pairs
    assert [(pair.response, pair.human) for pair in pairs] == wanted


def test_gives_a_pair_the_same_id_on_every_machine_and_different_pairs_different_ids() -> None:
    # Written down, not computed: another value here means that every stored run loses its pairs.
    assert pair_id_of("Name three birds.", "Robin, wren, owl.") == "a7030930ef12aa6e"
    assert pair_id_of("Grüße 🐸", "") == "06b23e20d734a32f"
    for one, other in (
        (("ab", "c"), ("a", "bc")),
        (("", "a"), ("a", "")),
        (("\u00e9", "x"), ("e\u0301", "x")),
    ):
        assert pair_id_of(*one) != pair_id_of(*other)


@pytest.mark.parametrize("suffix", WRITERS)
def test_says_which_bytes_it_read_even_when_stopped_early(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"pairs{suffix}", HELPSTEER)
    data = load_pairs(path, limit=1)
    assert (len(data.pairs), data.source) == (1, str(path))
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_stops_reading_at_the_limit_against_which_only_good_rows_count(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", b"{}\n" + LINES + b"not JSON\n")
    data = load_pairs(path, limit=2, skip_bad_rows=True)
    assert ([pair.prompt for pair in data.pairs][1], len(data.pairs), data.skipped) == (TURNS, 2, 1)
    assert (
        len(load_pairs(written(tmp_path, "torn.jsonl", LINES + b"not JSON\n"), limit=2).pairs) == 2
    )
    assert (
        complaint(path, limit=0) == "--limit 0: at least one pair is needed. Use --limit 1 or more."
    )


def test_numbers_the_rows_of_parquet_across_batches(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{n}", "response": "r"} for n in range(2500)]
    rows[2400]["prompt"] = "p7"
    path = written(tmp_path, "pairs.parquet", rows)
    assert complaint(path).startswith(
        "pairs.parquet:row 2401: the same prompt and response as row 8."
    )


def test_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    assert "not valid JSON" in complaint(written(tmp_path, "pairs.jsonl", b"{"))
    assert gc.isenabled()


def test_keeps_the_place_of_a_pair_without_an_id(tmp_path: Path) -> None:
    rows = b"id,prompt,response\na,p,r\n,q,s\n"
    named, unnamed = load_pairs(written(tmp_path, "pairs.csv", rows)).pairs
    assert named.columns == {}
    assert (len(unnamed.pair_id), unnamed.columns) == (16, {"source_line": 3})
    (tmp_path / "pairs.json").write_text('[{"prompt": "p", "response": "r"}]')
    assert load_pairs(tmp_path / "pairs.json").pairs[0].columns == {"source_row": 1}
