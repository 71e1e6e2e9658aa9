"""What robin says of files that cannot be read: the fact, the place and the next step."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import has
from tests.data.writing import (
    HELPSTEER,
    WRITERS,
    as_array,
    as_parquet,
    as_table,
    complaint,
    written,
)


def test_says_what_is_there_where_a_file_is_not(tmp_path: Path) -> None:
    assert complaint(tmp_path / "x.jsonl").startswith("x.jsonl: no such file")
    assert "no such file, and no folder" in (said := complaint(tmp_path / "dta" / "pairs.jsonl"))
    assert said.endswith("Check the path.")
    assert "cannot be read: File name too long. Check the path" in complaint(
        tmp_path / ("x" * 300 + ".jsonl")
    )
    for name in ("b.parquet", "notes.txt"):
        written(tmp_path, name, b"")
    assert complaint(tmp_path / "helpsteer.jsonl").endswith(
        "no such file. The folder has b.parquet."
    )
    written(tmp_path, "helpsteer.jsonl", b"")
    assert (
        complaint(tmp_path / "helpster.jsonl")
        == "helpster.jsonl: no such file. Did you mean helpsteer.jsonl?"
    )


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "gone.jsonl")
    assert complaint(tmp_path / "link.jsonl").startswith(
        "link.jsonl: a link to a file that is not there. Name"
    )
    os.mkfifo(tmp_path / "pipe.jsonl")
    said = "pipe.jsonl: not a regular file, and it is read twice. Save the data to a file first."
    assert complaint(tmp_path / "pipe.jsonl") == said
    (folder := tmp_path / "data").mkdir()
    written(folder, "train.parquet", b"")
    said = (
        "a folder, not a file. It holds train.parquet. Name a file, or several by a glob in quotes."
    )
    assert complaint(folder).endswith(said)


@pytest.mark.parametrize(
    "name", ["pairs.txt", "pairs", "pairs.doc", "pairs.parquet.gz", "pairs.gz", "jsonl"]
)
def test_lists_the_formats_it_knows(tmp_path: Path, name: str) -> None:
    said = complaint(written(tmp_path, name, b"x"))
    assert said.startswith(
        f"{name}: the format is not known by this name. Rename or convert the file"
    )
    for suffix in WRITERS:
        assert suffix.removesuffix(".gz") in said
    old = complaint(written(tmp_path, "pairs.xls", b"x"))
    assert old == "pairs.xls: is an old kind of Excel workbook. Save it as .xlsx."


def test_says_that_a_file_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "pairs.jsonl", WRITERS[".jsonl"](HELPSTEER))

    def refuse(*_: object) -> None:  # not chmod, for the tests may run as root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert complaint(path).startswith("pairs.jsonl: you may not read it. Ask for the right to")


@pytest.mark.parametrize("suffix", WRITERS)
def test_says_that_a_file_is_empty(tmp_path: Path, suffix: str) -> None:
    said = complaint(written(tmp_path, f"pairs{suffix}", b""))
    assert (
        said
        == f"pairs{suffix}: the file is empty. Check that it was written or downloaded to its end."
    )


NO_ROWS = {
    "blank.jsonl": b"\n  \n",
    "blank.json": b" \n",
    "array.json": b"[]",
    "header.csv": b"prompt,response\n",
    "blank.csv": b"\n,\n",
    "none.parquet": as_table(pa.table({"prompt": ["p"], "response": ["r"]}).slice(0, 0)),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_says_that_a_file_has_no_rows(tmp_path: Path, name: str) -> None:
    said = complaint(written(tmp_path, name, NO_ROWS[name]), skip_bad_rows=True)
    assert (
        said == f"{name}: the file has no rows. Check that it was written or downloaded to its end."
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".csv.gz"])
def test_names_a_missing_column_before_any_row(tmp_path: Path, suffix: str) -> None:
    rows = [{"prompt": "p", "answer": "a"}] * 2
    said = complaint(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows)), skip_bad_rows=True)
    assert (
        said
        == f'pairs{suffix}: no field "response"; found prompt, answer. Use --columns response=answer.'
    )


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
LINES, TABLE, PARQUET = (WRITERS[end](HELPSTEER) for end in (".jsonl", ".csv", ".parquet"))
MANY = as_parquet([{"prompt": f"p{n}" * 50, "response": "r"} for n in range(1000)])
TWICE = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["prompt", "prompt", "response"])
CUT, NO_PARQUET = "cut short or damaged", "not a Parquet file that can be read"
# name: what it holds, what is wrong with it, and what to do
BAD_FILES = {
    "none.jsonl.gz": (gzip.compress(b""), "the file is empty.", "downloaded to its end."),
    "object.json": (
        b'{"data": [1, 2]}',
        ": holds an object, not an array of rows.",
        "Put the rows in one array",
    ),
    "torn.json": (as_array(HELPSTEER)[:-5], ":18: not valid JSON", "at column"),
    "deep.json": (b"[" * 100_000, ":1: not usable JSON: nested too deeply.", ""),
    "torn.jsonl.gz": (gzip.compress(LINES)[:-20], f"gzip data is {CUT}", "download it again."),
    "plain.jsonl.gz": (LINES, f"gzip data is {CUT}", "Not a gzipped file"),
    "damaged.csv.gz": (gzip.compress(TABLE)[:20] + b"\xff" * 50, CUT, "download it again."),
    "zipped.jsonl": (
        gzip.compress(LINES),
        "the file is gzip-compressed.",
        "Let its name end in .gz.",
    ),
    "table.csv": (PARQUET, "the file is Parquet.", "Let its name end in .parquet."),
    "book.csv": (
        b"PK\x03\x04",
        "the file is a zip or Excel file.",
        "Let its name end in .xlsx or .ods",
    ),
    "lfs.json": (LFS, "is a Git LFS pointer, not the data.", "git lfs pull"),
    "lfs.parquet": (LFS, "is a Git LFS pointer, not the data.", "git lfs pull"),
    "lfs.xlsx": (LFS, "is a Git LFS pointer, not the data.", "git lfs pull"),
    "page.csv": (b"\n<!DOCTYPE html>\n<html>", "is an HTML page", "Download the file itself."),
    "page.csv.gz": (gzip.compress(b"<html>"), "is an HTML page", "Download the file itself."),
    "page.parquet": (b"<html><body>Log in", "is an HTML page", "Download the file itself."),
    "old.csv": (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Excel workbook", "Save it as .xlsx"),
    "torn.parquet": (PARQUET[:-30], f": {NO_PARQUET}", "download it again."),
    "text.parquet": (b"prompt,response\n", f": {NO_PARQUET}", "download it again."),
    "middle.parquet": (MANY[:100] + b"\xff" * 2000 + MANY[2100:], ".parquet", "again."),
    "twice.parquet": (
        as_table(TWICE),
        ': two columns are called "prompt".',
        "Rename or remove one of them.",
    ),
    "open.csv": (
        b'prompt,response\np,r\n"q,s\nt,u\n',
        ":3: a quote opened in this row is never",
        'doubled ("")',
    ),
    "quotes.csv": (b'prompt,response\np,"r" s\n', ":2: not valid CSV", 'doubled ("")'),
    "twice.csv": (
        b"prompt,response,prompt\np,r,q\n",
        ':1: two columns are called "prompt".',
        "Rename or remove",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("skip_bad_rows", [False, True])
def test_says_what_is_wrong_with_a_file_and_what_to_do(
    tmp_path: Path, name: str, skip_bad_rows: bool
) -> None:
    content, fact, step = BAD_FILES[name]
    said = complaint(written(tmp_path, name, content), skip_bad_rows=skip_bad_rows)
    assert said.startswith(name)
    has(said, fact, step)


def test_stops_at_a_quote_that_swallows_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b'prompt,response\np,"r\n' + (b"q" * 2**20 + b"\n") * 40)
    assert complaint(path).startswith("pairs.csv:2: a quote opened in this row is never closed.")
