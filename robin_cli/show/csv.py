"""CSV and TSV. Text that would act as a formula in a spreadsheet gets an apostrophe in front, which marks it as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from robin_cli.data.formats import csv_rows
from robin_cli.model.errors import shown
from robin_cli.model.records import SYSTEM_COLUMNS
from robin_cli.show.json import few_at_a_time

_TO_THE_LETTER = {
    **dict.fromkeys(
        ("pair_id", "attribute", "judge", "model", "system", *SYSTEM_COLUMNS), "join by"
    ),
    **dict.fromkeys(("chosen", "rejected"), "train on"),
}
"""Columns that are of no use when they are changed, and for what."""


def write_separated(separator: str, results: pa.RecordBatchReader, file: IO[bytes]) -> None:
    """Write ``results`` as lines of text."""
    file.write(
        (separator.join(_header(name, separator) for name in results.schema.names) + "\n").encode()
    )
    options = pacsv.WriteOptions(include_header=False, delimiter=separator)
    for batch in few_at_a_time(results):
        lines = pa.BufferOutputStream()
        pacsv.write_csv(batch, lines, options)
        file.write(lines.getvalue())


def _header(name: str, separator: str) -> str:
    """Return a column's name for the header line; names of judges may have any character."""
    return '"' + name.replace('"', '""') + '"' if re.search(rf'[{separator}"\r\n]', name) else name


def defused(results: pa.RecordBatchReader, notify: Callable[[str], None]) -> pa.RecordBatchReader:
    """Return ``results`` with an apostrophe before texts and names that a spreadsheet would run."""

    def batches() -> Iterator[pa.RecordBatch]:
        has_notified = False
        for rows in few_at_a_time(results):
            batch = rows
            for position, field in enumerate(rows.schema):
                if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
                    continue
                column = batch.column(position)
                found = pc.match_substring_regex(column, csv_rows.GUARDED)
                acts = pc.fill_null(found, fill_value=False)
                if not pc.any(acts).as_py():  # else a copy of all texts would be made for nothing
                    continue
                if field.name in _TO_THE_LETTER and not has_notified:
                    has_notified = True
                    first = shown(column.filter(acts)[0].as_py())
                    notify(
                        f'{field.name} "{first}" and others like it get an apostrophe in front, or a spreadsheet would run '
                        f"them as formulas. To {_TO_THE_LETTER[field.name]} them, write them as they are: --raw, .jsonl or "
                        ".parquet"
                    )
                mark, end = pa.scalar("'", field.type), pa.scalar("", field.type)
                marked = pc.binary_join_element_wise(mark, column, end)
                batch = batch.set_column(position, field, pc.if_else(acts, marked, column))
            yield batch.rename_columns(names)

    names = [
        "'" + name if re.match(csv_rows.GUARDED, name) else name for name in results.schema.names
    ]
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(results.schema, names, strict=True)]
    )
    return pa.RecordBatchReader.from_batches(schema, batches())
