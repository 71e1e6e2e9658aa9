"""Parquet as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data.cells import check_names
from robin_cli.data.fields import CHATS
from robin_cli.data.parquet_tables import batches, opened_file, readable
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted, leads_into

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def read_parquet(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
    """Return the rows with the wanted columns; a field of a struct is named with dots.

    Raises:
        InputError: the file is damaged, or two wanted columns share a name.
    """
    file, schema = opened_file(stream, source)
    leaves = list(_leaves(schema))
    names = [name for name, _ in leaves]
    check_names(names, source, wanted)
    has_both = {"prompt", "response"} <= {*names} & {*wanted.names}

    def is_needed(name: str, kind: pa.DataType) -> bool:
        if has_both and name in CHATS:
            return False  # conversations matter only if one of these is missing
        if name in wanted.names or any(leads_into(path, name) for path in wanted.names):
            return True
        return wanted.others and name != "" and _is_plain(kind) and names.count(name) == 1

    columns = [name for name, kind in leaves if is_needed(name, kind)]
    return RowTable(names, "row", _rows(file, source, columns))


def _leaves(fields: Iterable[pa.Field[Any]], prefix: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names and types of columns, and of the fields of structs."""
    import pyarrow as pa

    for field in fields:
        if pa.types.is_struct(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            yield from _leaves(inner, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", field.type


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a column holds texts, numbers, times or booleans."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating,
        pa.types.is_boolean, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_date,
        pa.types.is_time,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def _rows(
    file: pq.ParquetFile, source: str, columns: Sequence[str]
) -> Iterator[tuple[int, Row | BadRow]]:
    number = 1
    with readable(source):
        for batch in batches(file, source, columns):
            yield from enumerate(_rows_of(batch), number)
            number += len(batch)


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row | BadRow]:
    """Yield the rows of a batch; a row with a text that is not UTF-8 is bad."""
    import pyarrow as pa

    try:
        columns = list(map(_values, batch.columns))
    except (UnicodeDecodeError, pa.ArrowException):  # pyarrow does not name the row
        if len(batch) > 1:
            for at in range(len(batch)):
                yield from _rows_of(batch.slice(at, 1))
            return
        yield BadRow(
            "the text is not UTF-8. Write the column anew as UTF-8, or leave such rows out with "
            "--skip-bad-rows.",
            "not UTF-8",
        )
    else:
        names = batch.schema.names
        yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _values(column: pa.Array) -> list[object]:
    """Return the values of a column as Python objects, times as ISO texts.

    It takes a fifth of the time of ``to_pylist`` for texts.
    """
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        column = _as_texts(column)
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    values: list[object] = (
        column.to_numpy(zero_copy_only=False).tolist() if is_text else column.to_pylist()
    )
    return values


def _as_texts(times: pa.Array) -> pa.Array:
    """Return times as ISO texts, those with a zone in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, zone = times.type, ""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        times = times.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit))
        zone = "Z"
    texts = pc.replace_substring_regex(times.cast(pa.string()), r"\.0+$", "")
    texts = pc.replace_substring_regex(texts, r"^([-\d]+) (\d)", r"\1T\2")
    return pc.binary_join_element_wise(texts, zone, "")


FORMATS = {".parquet": Format(read_parquet, (b"PAR1",), packable=False)}
