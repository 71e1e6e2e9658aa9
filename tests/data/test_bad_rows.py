"""What robin says of rows that cannot be used: the fact, the place and the next step."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from robin_cli.data.pairs import load_pairs
from robin_cli.settings.reading import load_settings
from tests.conftest import has
from tests.data.writing import WRITERS, as_lines, as_table, complaint, read, refused, written

GOOD = {"prompt": "p", "response": "r"}
SKIP = "or leave such rows out with --skip-bad-rows."


def lines_with(folder: Path, bad: bytes) -> Path:
    """A file with a good row on lines 1 and 3, and a bad one on line 2."""
    other = {"prompt": "q", "response": "s"}
    return written(folder, "pairs.jsonl", as_lines([GOOD]) + bad + b"\n" + as_lines([other]))


TABLE = r"""
{"prompt": "p", "response" → not valid JSON: Expecting ':' delimiter at column 27. … SKIP
["p", "r"] → the row is a list, not an object. … A file that is one JSON array is named .json.
7 → the row is a number, not an object. … Write it as {"prompt": …, "response": …}.
{"prompt": "p", "answer": "r"} → no field "response"; found prompt, answer. Use --columns response=answer.
{"question": "p", "output": "r"} → found question, output. … Use --columns prompt=question,response=output.
{"prompt": "p", "response": null} → field "response" is null. … Give the row a response, SKIP
{"prompt": NaN, "response": "r"} → field "prompt" is NaN, not text. … SKIP
{"prompt": "p", "response": 3} → field "response" is a number, not text. … Write it as text, SKIP
{"prompt": " \n", "response": "r"} → field "prompt" is empty. … SKIP
{"prompt": "\ud800", "response": "r"} → "prompt" holds half of a surrogate pair (\ud800) … SKIP
{"prompt": "p", "response": "r", "id": 1.5} → is a number, not text or a whole number. … --columns id=-.
{"prompt": "p", "response": "r", "helpfulness": "high"} → is "high", not a finite … --columns helpfulness=-.
{"prompt": "p", "response": "r", "helpfulness": Infinity} → is "inf", not a finite … Give a number or null
{"prompt": "p", "response": "r", "helpfulness": [3, [3]]} → is a list, not a finite … Give a number or null
{"prompt": "p", "response": "r"} → the same prompt and response as line 1. … --skip-bad-rows.
"""
BAD_LINES = [
    *(line.split(" → ") for line in TABLE.strip().splitlines()),
    ['{"prompt": "p", "response": "r", "verbosity": %s}' % ("9" * 400), "not a finite number"],
    [
        '{"prompt": "p", "response": "r", "x": %s}' % ("9" * 5000),
        "a number in it is too long. … SKIP",
    ],
    ["[" * 100_000, "not usable JSON: nested too deeply. … SKIP"],
]


@pytest.mark.parametrize(("line", "expected"), BAD_LINES, ids=[line[:60] for line, _ in BAD_LINES])
def test_says_what_is_wrong_with_a_line_and_may_leave_it_out(
    tmp_path: Path, line: str, expected: str
) -> None:
    path = lines_with(tmp_path, line.encode())
    said = complaint(path)
    assert said.startswith("pairs.jsonl:2: ")
    has(said, *expected.replace("SKIP", SKIP).split(" … "))
    assert len(said) < 400
    data = load_pairs(path, skip_bad_rows=True)
    assert ([pair.prompt for pair in data.pairs], data.skipped) == (["p", "q"], 1)


LATIN = '{"prompt": "café", "response": "r"}'.encode("latin-1")
CUT_TEXT = pa.array([b"fine", b"caf\xe9", b"good"]).cast(pa.string(), safe=False)
NO_UTF8 = {
    "a.jsonl": (
        as_lines([GOOD]) + LATIN,
        ":2: byte 0xE9 at offset 15 is not UTF-8.",
        "name its encoding: --encoding NAME",
        ["p"],
    ),
    "b.csv": (
        b'prompt,response\np,"\xc3\xa9\nb"\nq,caf\xe9\nx,y\n',
        ':4: byte 0xE9 in column "response" is not UTF-8.',
        "",
        ["p", "x"],
    ),
    "c.json": (
        b"[\n" + LATIN + b"]",
        ":2: byte 0xE9 at offset 17 is not UTF-8.",
        "",
        None,
    ),  # no row after it is known
    "d.parquet": (
        as_table(pa.table({"prompt": CUT_TEXT, "response": ["a", "b", "c"]})),
        ":row 2: the text is not UTF-8.",
        "Write the column anew",
        ["fine", "good"],
    ),
}


@pytest.mark.parametrize("name", NO_UTF8)
def test_names_the_byte_or_the_row_that_is_not_utf8(tmp_path: Path, name: str) -> None:
    content, fact, step, others = NO_UTF8[name]
    said = refused(tmp_path, content, name)
    assert said.startswith(name + fact)
    assert step in said
    if others is not None:
        data = read(tmp_path, content, name, skip_bad_rows=True)
        assert ([pair.prompt for pair in data.pairs], data.skipped) == (others, 1)


def test_names_both_rows_of_an_id_given_twice(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"p{n}", "response": "r", "id": ident}
        for n, ident in enumerate(["a", "b", 1, "a", "1"])
    ]
    said = refused(tmp_path, rows)
    assert said.startswith('pairs.jsonl:4: the id "a" is also that of line 1.')
    assert "make ids from the text (--columns id=-)" in said
    assert len(read(tmp_path, rows, columns={"id": "-"}).pairs) == 5
    data = read(tmp_path, rows, skip_bad_rows=True)
    assert ([pair.prompt for pair in data.pairs], data.skipped) == (["p0", "p1", "p2"], 2)


def test_names_both_rows_of_a_pair_given_twice(tmp_path: Path) -> None:
    rows = [GOOD, {"prompt": "q", "response": "r"}, GOOD]
    assert refused(tmp_path, rows) == (
        "pairs.jsonl:3: the same prompt and response as line 1. Remove one of them, name a field with ids of their own "
        "(--columns id=NAME) or, if two systems gave this answer, one that names these (--columns system=NAME), or keep the "
        "first of each with --skip-bad-rows."
    )
    for suffix, place, first in (
        (".json", "row 3", "row 1"),
        (".parquet", "row 3", "row 1"),
        (".csv", "4", "line 2"),
    ):
        said = refused(tmp_path, rows, f"pairs{suffix}")
        assert said.startswith(f"pairs{suffix}:{place}: the same prompt and response as {first}.")


def test_names_the_line_a_csv_row_begins_on(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b'prompt,response\np,"a\nb\nc"\n\nq,"d\ne",extra\n')
    assert complaint(path) == (
        "pairs.csv:6: the row has 3 cells, the header 2. Put cells that hold a comma or a line break in double quotes, "
        "or leave such rows out with --skip-bad-rows."
    )
    assert load_pairs(path, skip_bad_rows=True).skipped == 1


@pytest.mark.parametrize("suffix", WRITERS)
def test_takes_empty_texts_alike_in_every_format(tmp_path: Path, suffix: str) -> None:
    rows: list[dict[str, Any]] = [
        GOOD,
        {"prompt": "q", "response": ""},
        {"prompt": "", "response": "s"},
    ]
    data = read(tmp_path, rows, f"pairs{suffix}", skip_bad_rows=True)
    assert ([pair.response for pair in data.pairs], data.left_out) == (["r", ""], {"no prompt": 1})
    if ".csv" not in suffix and ".tsv" not in suffix:  # which have no null
        said = refused(tmp_path, [*rows[:2], {"prompt": "q2", "response": None}], f"pairs{suffix}")
        assert 'field "response" is null. Give the row a response, or leave' in said


def test_names_and_counts_the_rows_that_it_leaves_out(tmp_path: Path) -> None:
    bad = [
        {"prompt": "p", "response": None},
        {"prompt": "p"},
        7,
        GOOD,
        {"prompt": [], "response": "r"},
    ]
    path = written(tmp_path, "pairs.jsonl", as_lines([GOOD, *bad]) + b"{\n")
    data = load_pairs(path, skip_bad_rows=True)
    assert data.left_out == {
        "no response": 2,
        "not an object": 1,
        "the same pair or id again": 1,
        "the prompt is not text": 1,
        "not JSON": 1,
    }
    assert [said.replace(f"{tmp_path}/", "") for said in data.first_left_out] == [
        'pairs.jsonl:2: field "response" is null',
        'pairs.jsonl:3: no field "response"; found prompt',
        "pairs.jsonl:4: the row is a number, not an object",
    ]


@pytest.mark.parametrize("suffix", WRITERS)
def test_suggests_the_nearest_field_for_a_misspelt_one(tmp_path: Path, suffix: str) -> None:
    rows = [{"question": "q", "answer": "a", "uid": "u", "score": 3}]
    path = written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows))
    columns = {"prompt": "question", "response": "answer", "id": "uid", "quality": "score"}
    for name, theirs in columns.items():
        said = complaint(path, columns={**columns, name: theirs[:-1] + "_"})
        has(
            said,
            f'no field "{theirs[:-1]}_" (--columns {name}={theirs[:-1]}_)',
            "found question, answer, uid, score.",
        )
        assert said.endswith(f"Use --columns {name}={theirs}.")


def test_names_the_field_that_is_bad_by_where_it_stands(tmp_path: Path) -> None:
    axes = {"text": "s", "axes": {"overall": "good"}}
    said = refused(tmp_path, [{"info": {"post": None, "article": "a"}, "summary": axes}])
    assert said.startswith(
        'pairs.jsonl:1: the human rating in field "summary.axes.overall" is "good"'
    )
    said = refused(tmp_path, [{"info": {"post": None, "article": None}, "summary": axes}])
    assert said == 'pairs.jsonl:1: field "info.post" is null. Give the row a prompt.'


def test_reports_a_mapped_rating_that_no_row_has_even_with_a_limit(tmp_path: Path) -> None:
    rows = [{**GOOD, "score": 1}, {"prompt": "q", "response": "r"}]
    assert refused(tmp_path, rows, columns={"helpfulness": "scores"}, limit=1) == (
        'pairs.jsonl: no field "scores" (--columns helpfulness=scores); found prompt, response, score. '
        "Use --columns helpfulness=score."
    )
    assert read(tmp_path, rows, columns={"helpfulness": "score"}).pairs[1].human == {}


def test_wants_an_id_in_every_row_where_ids_are_mapped(tmp_path: Path) -> None:
    for value in (None, "", float("nan")):
        said = refused(tmp_path, [{**GOOD, "uid": value}], columns={"id": "uid"})
        assert said.startswith('pairs.jsonl:1: the id in field "uid" is null or empty.')
        assert said.endswith("make ids from the text with --columns id=-.")


def test_does_not_read_a_column_it_is_told_to_leave(tmp_path: Path) -> None:
    rows = [{**GOOD, "helpfulness": "high", "verbosity": 2}]
    assert read(tmp_path, rows, columns={"helpfulness": "-"}).pairs[0].human == {"verbosity": 2}


def test_gives_the_first_reason_where_every_row_is_bad(tmp_path: Path) -> None:
    said = refused(tmp_path, [1, 2, {}], "pairs.json", skip_bad_rows=True)
    assert said.startswith("pairs.json: not one row can be used (3 read). The first: ")
    assert "pairs.json:row 1: the row is a number, not an object." in said


@pytest.mark.parametrize("name", ["\x1b[2Jevil\x07", "a\nb", "\ud83d"])
def test_shows_no_control_characters_of_the_data(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, [{name: "x" * 1000, "prompt": "p"}]).isprintable()
    assert refused(tmp_path, [{**GOOD, "helpfulness": name}]).isprintable()


def test_lists_a_few_of_very_many_fields(tmp_path: Path) -> None:
    said = refused(tmp_path, [{f"column_{n}": "x" * 100 for n in range(5000)}])
    assert "column_0, column_1" in said
    assert len(said) < 400


def test_suggests_columns_that_a_shell_gives_back_as_they_are(tmp_path: Path) -> None:
    rows = [{"$ prompt's": "Hi.", "my response": "Ho.", "id": 1}]
    pasted = refused(tmp_path, rows).rpartition("Use ")[2].removesuffix(".")
    assert pasted.startswith("--columns ")
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {pasted}"], capture_output=True, text=True, check=True
    ).stdout
    columns = load_settings({"columns": words.strip("\0").split("\0")[1]}, None).columns
    assert dict(columns) == {"prompt": "$ prompt's", "response": "my response"}
    assert read(tmp_path, rows, columns=columns).pairs[0].prompt == "Hi."
