"""The contract of tables and renderers: each declared table, whatever is in it, in each form."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from rich.cells import cell_len
from rich.console import Console

from robin_cli.cli.export import TABLES as EXPORTED
from robin_cli.data.formats import csv_rows
from robin_cli.data.read import opened
from robin_cli.data.rows import Wanted
from robin_cli.model.errors import InputError
from robin_cli.run.schema import JUDGMENTS as SCHEMA
from robin_cli.show.__main__ import page
from robin_cli.show.columns import JUDGMENTS, SCORES, TABLES
from robin_cli.show.files import export
from robin_cli.show.report.page import Bar, page_columns
from robin_cli.show.tables import TEXTS, Column, Sort, Table, read_by
from robin_cli.show.terminal import DASH, print_table
from tests.conftest import ROOT

HOSTILE = [
    *("=1+1", "+A1", "-2", "@x"),
    "\t=1",
    "\r=1",
    "<script>",
    "\x1b[31m",
    'a,b\n"c"',
    "\u202ex",
    "{{ 7 }}",
    "猫" * 40,
]
FORMATS = ("csv", "tsv", "jsonl", "parquet", "xlsx")
NUMBERS = [3.0, math.nan, -0.004, 12_345.678]
NAMES = [table.says.partition(":")[0] for table in TABLES]


def value_of(column: Column, row: int) -> Any:
    """Something that is hard to show, by the column's form."""
    if column.form == "flag":
        return row % 2 == 0
    if column.form in TEXTS:
        return HOSTILE[(row + len(column.name)) % len(HOSTILE)]
    number = NUMBERS[(row + len(column.name)) % len(NUMBERS)]
    return number if column.form != "count" else None if math.isnan(number) else int(number)


def filled(table: Table, rows: int, *, parts: int = 1) -> Table:
    """The table with so many rows, which files get in ``parts``."""
    of_data = Column("=2+2", form="text")  # as the data may call a column
    columns = [*table.columns.values(), of_data]
    values = {each.name: [value_of(each, row) for row in range(rows)] for each in columns}
    made = table.with_values(
        values, of_data, terminal=table.terminal or list(table.columns), bar=np.arange(rows)
    )
    whole = made.arrow()
    cuts = np.linspace(0, rows, parts + 1).astype(int)
    return made.having(
        lambda: read_by(
            whole.schema, (whole.slice(low, high - low) for low, high in pairwise(cuts))
        )
    )


def shown(table: Table, width: int, **how: Any) -> list[str]:
    out = io.StringIO()
    print_table(Console(file=out, width=width), table, **how)
    return out.getvalue().split("\n")


@pytest.mark.parametrize("table", TABLES, ids=NAMES)
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_is_shown_on_a_terminal_of_any_width_without_anything_that_acts(
    table: Table, rows: int
) -> None:
    for width in (60, 80, 140):
        lines = shown(filled(table, rows), width, most=20)
        text = "\n".join(lines)
        assert not [char for char in text if unicodedata.category(char) == "Cc" and char != "\n"]
        assert "\u202e" not in text
        rule = next(at for at, line in enumerate(lines) if line and set(line.strip()) == {"─"})
        body = lines[rule + 1 : rule + 1 + min(rows, 20)]
        if "left out" in text or max(map(cell_len, lines[: rule + 1])) <= width:
            needed = max(map(cell_len, lines[: rule + 1]))
            assert all(cell_len(line) <= max(width, needed) for line in body)
        assert not re.search(r"\d\.\d?…", "\n".join(body))
        assert ("20 of 30" in text) == (rows == 30)


USUAL = {
    "id": "multiturn-fractions-tutor",
    "name": "helpfulness",
    "text": "keep",
    "word": "best?",
    "flag": True,
}
"""What stands in a column by its form, mostly."""
ASKED = ("Why are there two high tides a day, and not one?", "Name a prime. " * 40)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_fits_a_terminal_with_usual_values_and_cuts_no_word(width: int) -> None:
    for table in filter(lambda table: table.terminal, TABLES):
        # of other runs
        shown_there = [name for name in table.terminal if name not in {"response_a", "response_b"}]
        columns = table.columns.values()
        usual = {
            each.name: USUAL.get(each.form, 1_234 if each.form == "count" else 0.32)
            for each in columns
        }
        usual |= {
            name: words
            for name, words in {"better": "not settled", "by_people": "B"}.items()
            if name in usual
        }
        texts = ("prompt", "response", "chosen", "rejected", "why")
        rows = [
            usual | dict.fromkeys(texts, text) | {"pair_id": f"{at}-{USUAL['id']}"}
            for at, text in enumerate(ASKED)
        ]
        made = table.with_values(
            {name: [row[name] for row in rows] for name in usual}, terminal=shown_there
        )
        text = re.split(r"(?m)^(?=left out|…: )", "\n".join(shown(made, width)))[0]
        assert max(map(cell_len, text.split("\n"))) <= width, text
        ids = {f"{at}-{USUAL['id']}"[:cells] for at in (0, 1) for cells in range(15, 30)}
        assert set(re.findall(r"(\S+)…", text)) <= {*" ".join(ASKED).split(), *ids}, text


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("table", TABLES, ids=NAMES)
def test_comes_back_from_every_format_with_its_columns_in_order_and_acts_in_none(
    tmp_path: Path, table: Table, fmt: str
) -> None:
    for rows, parts in ((0, 1), (1, 1), (30, 4)):
        made, file = filled(table, rows, parts=parts), tmp_path / f"{rows}.{fmt}"
        export(made.rows(), {"run": "r"}, fmt=None, output=str(file))
        wanted = made.arrow().to_pylist()
        public = made.public
        assert list(wanted[0]) == public if rows else made.arrow().column_names == public
        found = list(read_back(file, fmt))
        assert len(found) == rows
        for row, values in zip(found, wanted, strict=True):
            assert list(row) == public
            for name, value in values.items():
                assert same(row[name], value), (name, row[name], value)


def read_back(file: Path, fmt: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, read by the programs that people use, without the marks against formulas."""
    if fmt in {"csv", "tsv"}:
        with file.open(encoding="utf-8", newline="") as lines:
            names, *rows = csv.reader(lines, delimiter="," if fmt == "csv" else "\t")
        assert not [
            cell for row in (names, *rows) for cell in row if re.match("[\0-\x20]*[=+@]", cell)
        ]
        assert not [
            cell for row in rows for cell in row if cell.startswith("-") and not is_number(cell)
        ]
        assert len(pd.read_csv(file, sep="," if fmt == "csv" else "\t")) == len(rows)
        for row in rows:
            yield {
                name.removeprefix("'"): cell.removeprefix("'")
                for name, cell in zip(names, row, strict=True)
            }
    elif fmt == "jsonl":
        objects = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
        assert not objects or duckdb.read_json(str(file)).columns == list(objects[0])
        yield from objects
    elif fmt == "parquet":
        relation = duckdb.read_parquet(str(file))
        yield from (dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall())
        assert list(pd.read_parquet(file).columns) == relation.columns
    else:
        sheet = openpyxl.load_workbook(file)["results"]
        header, *cells = sheet.iter_rows()
        assert "f" not in {cell.data_type for row in (header, *cells) for cell in row}
        assert sheet.freeze_panes == "A2"
        for line in cells:
            yield {str(name.value): cell.value for name, cell in zip(header, line, strict=True)}


@pytest.mark.parametrize(
    ("table", "fmt"),
    [
        (table, FORMATS[(number + also) % len(FORMATS)])
        for number, table in enumerate(TABLES)
        for also in (0, 2)
    ],
)
@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_is_read_by_robin_as_it_was_written(tmp_path: Path, table: Table, fmt: str) -> None:
    made, file = filled(table, 30), tmp_path / f"results.{fmt}"
    texts = ["'=1", "''x", "'x", *HOSTILE]
    hostile = {name for name, column in table.columns.items() if column.form in TEXTS}
    wanted = [
        {
            name: texts[(row + len(name)) % len(texts)] if name in hostile else value
            for name, value in values.items()
        }
        for row, values in enumerate(made.arrow().to_pylist())
    ]
    export(
        pa.Table.from_pylist(wanted, made.arrow().schema).to_reader(),
        {},
        fmt=None,
        output=str(file),
    )
    with opened(str(file), Wanted(set(), others=True)) as source:
        found = [row for _, row in source.table.rows if isinstance(row, dict)]
    guarded = fmt in {"csv", "tsv"} and not {"pair_id", "chosen"} & set(wanted[0])
    assert len(found) == len(wanted)
    for row, values in zip(found, wanted, strict=True):
        read = {(name.removeprefix("'") if guarded else name): value for name, value in row.items()}
        for name, value in values.items():
            cell = read.get(name)
            marked = guarded and isinstance(value, str) and re.match(csv_rows.GUARDED, value)
            assert same(cell, f"'{value}" if marked else value), (name, cell, value)


def is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell))


def same(cell: Any, value: Any) -> bool:
    """Whether a cell holds a value of the table; an empty one holds what is not there."""
    if value is None:
        return cell in {None, ""}
    if isinstance(value, bool):
        return str(cell).lower() == str(value).lower()
    if isinstance(value, int | float):
        return math.isclose(float(cell), value, rel_tol=1e-9)
    return (
        str(cell).replace("\r\n", "\n").replace("_x000D_", "\r") == str(value)
        or "\r" in value
        or "\x1b" in value
    )


@pytest.mark.parametrize("table", TABLES, ids=NAMES)
def test_is_json_without_nan_and_a_page_with_a_value_a_row(table: Table) -> None:
    made = filled(table, 7)
    assert json.loads(json.dumps(made.records(), allow_nan=False)) == made.records()
    names = list(table.columns)
    bar = Bar("bar", "A bar.", "", names[-1], [(0, 1)], [0] * 7)
    columns = page_columns(replace(made, terminal=names), np.array([4, 2]), bar)
    assert {each.kind for each in columns} <= {
        "id",
        "text",
        "number",
        "score",
        "difference",
        "range",
        "bar",
    }
    assert all(len(each.values) == 2 for each in columns)
    assert all(each.says for each in columns)


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.terminal], ids=lambda table: table.says
)
def test_declares_what_it_shows(table: Table) -> None:
    assert {*table.terminal} <= table.columns.keys()
    assert all(each.help.endswith(".") for each in table.columns.values())
    assert {each.high for each in table.columns.values()} - {""} <= table.columns.keys()
    with pytest.raises(ValueError, match="declares no elephants"):
        table.with_values({"elephants": []})


def test_has_every_column_of_a_judgment_and_shows_them_to_no_terminal() -> None:
    with pytest.raises(
        InputError, match="--format table: judgments are for files; leave it out, or name another"
    ):
        shown(JUDGMENTS, 80)
    assert list(JUDGMENTS.columns) == SCHEMA.names


def test_shows_what_comes_first_in_its_order_and_says_how_to_see_all() -> None:
    sizes = np.array([2.0, np.nan, 3.0, 1.0])
    about: dict[str, Any] = {"terminal": ("pair_id", "score"), "command": "robin export r"}
    order = Sort("largest first", lambda: sizes)
    table = SCORES.with_values({"pair_id": list("abcd"), "score": sizes}, sort=order, **about)
    lines = shown(table, 80, most=3)
    assert [line.split() for line in lines[2:5]] == [["c", "3.00"], ["a", "2.00"], ["d", "1.00"]]
    assert lines[5:7] == ["3 of 4 rows, largest first", "all rows: robin export r"]
    assert DASH in shown(table, 80)[5]


def test_docs_and_help_say_what_the_columns_say() -> None:
    written = (ROOT / "docs" / "columns.md").read_text(encoding="utf-8")
    assert "\n".join(page()).rstrip() + "\n" == written, (
        "python -m robin_cli.show > docs/columns.md"
    )
    # what robin export writes
    titles = dict.fromkeys(table.name for table in TABLES if ":" not in table.says)
    assert [*EXPORTED] == [*titles]
