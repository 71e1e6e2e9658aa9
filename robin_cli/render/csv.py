"""CSV and TSV. Text that would act as a formula in a spreadsheet gets an apostrophe in front, which says "this is text"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from robin_cli.model.errors import shown
from robin_cli.model.records import SYSTEM_COLUMNS
from robin_cli.results.tables import Parts

_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_FORMULA_LEAD = rf"^(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""What a spreadsheet may run: it may leave out what is not seen, and take a wide sign for the narrow one."""

_TO_THE_LETTER = {
    **dict.fromkeys(("pair_id", "attribute", "judge", "model", "system", *SYSTEM_COLUMNS), "join by"),
    **dict.fromkeys(("chosen", "rejected"), "train on"),
}
"""Columns that are of no use when they are changed, and for what."""
AT_A_TIME = 20_000
"""Rows that are written together."""


def write_separated(separator: str, results: Parts, file: IO[bytes]) -> None:
    """Write ``results`` as lines of text."""
    file.write((separator.join(_header(name, separator) for name in results.schema.names) + "\n").encode())
    options = pacsv.WriteOptions(include_header=False, delimiter=separator)
    for table in results.parts:
        for start in range(0, table.num_rows, AT_A_TIME):
            lines = pa.BufferOutputStream()
            pacsv.write_csv(table.slice(start, AT_A_TIME), lines, options)
            file.write(lines.getvalue())


def _header(name: str, separator: str) -> str:
    """A column's name as it stands in the first line; those of judges may hold anything."""
    return '"' + name.replace('"', '""') + '"' if re.search(rf'[{separator}"\r\n]', name) else name


def defused(results: Parts, notify: Callable[[str], None]) -> Parts:
    """``results`` with an apostrophe in front of texts and names that a spreadsheet would run."""

    def parts() -> Iterator[pa.Table]:
        said = False
        for table in results.parts:
            for start in range(0, table.num_rows, AT_A_TIME):
                batch = table.slice(start, AT_A_TIME)
                said = said or _say_changed(batch, notify)
                yield _without_formulas(batch)

    names = ["'" + name if re.match(_FORMULA_LEAD, name) else name for name in results.schema.names]
    return Parts(pa.schema([field.with_name(name) for field, name in zip(results.schema, names, strict=True)]), parts())


def _say_changed(table: pa.Table, notify: Callable[[str], None]) -> bool:
    for name in sorted(_TO_THE_LETTER.keys() & set(table.column_names)):
        column = table.column(name)
        if acting := column.filter(_acts(column)).slice(0, 1).to_pylist():
            notify(
                f'{name} "{shown(acting[0])}" and others like it get an apostrophe in front, or a spreadsheet would run them '
                f"as formulas. To {_TO_THE_LETTER[name]} them, write them as they are: --raw, .jsonl or .parquet"
            )
            return True
    return False


def _acts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(column, _FORMULA_LEAD), fill_value=False)


def _without_formulas(table: pa.Table) -> pa.Table:
    for position, field in enumerate(table.schema):
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            continue
        column = table.column(position)
        acts = _acts(column)
        if pc.any(acts).as_py():  # else a copy of all texts would be made for nothing
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), column, pa.scalar("", field.type))
            table = table.set_column(position, field, pc.if_else(acts, marked, column))
    return table
