"""Parquet as rows."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from robin_cli.data.columns import (
    LONGEST_TEXT,
    MOST_COLUMNS,
    TOO_LONG,
    TOO_MANY,
    FurtherColumns,
)
from robin_cli.data.fields import CHATS, DEPTH
from robin_cli.data.parquet_tables import batches, opened_file, part_of, readable
from robin_cli.data.rows import BadRow, Format, Part, Row, Table, Wanted, leads_into
from robin_cli.model.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa


class _Leaf(NamedTuple):
    """A column, or a field of a struct, named with dots; ``depth`` counts the parts of the name."""

    name: str
    type: pa.DataType
    depth: int


def read_parquet(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    """Return the rows with the wanted columns; a field of a struct is named with dots.

    Raises InputError for a damaged file.
    """
    file, schema = opened_file(stream, source)
    leaves = list(_leaves(list(schema)))
    names = [leaf.name for leaf in leaves]
    columns = [
        name
        for name in names
        if name in wanted.names or any(leads_into(path, name) for path in wanted.names)
    ]
    if {"prompt", "response"} <= set(
        columns
    ):  # conversations matter only if one of these is missing
        columns = [name for name in columns if name not in CHATS]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise InputError(
            f'{source}: two columns are called "{shown(twice)}". Rename or remove one of them.'
        )
    more: list[str] = []
    if further := wanted.further:
        further.leave_out_twice(names, columns)
        is_read = set(columns)
        found = (
            leaf.name
            for leaf in leaves
            if leaf.name not in is_read and further.wants(leaf.name) and _is_plain(leaf)
        )
        more = list(islice(found, MOST_COLUMNS))
        for name in found:
            further.leave_out(name, TOO_MANY)
            break  # one is enough for the report
    found_batches = batches(file, source, [*columns, *more])
    kept = _Kept(columns, further, set(more)) if further and more else None
    parts = _parts(found_batches, source, kept)
    rows = (each for part in parts for each in zip(part.numbers, part.rows, strict=False))
    return Table(names, "row", rows, parts=parts)


def _leaves(fields: Sequence[pa.Field[Any]], prefix: str = "", depth: int = 1) -> Iterator[_Leaf]:
    import pyarrow as pa

    for field in fields:
        if pa.types.is_struct(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            yield from _leaves(inner, f"{prefix}{field.name}.", depth + 1)
        else:
            yield _Leaf(f"{prefix}{field.name}", field.type, depth)


def _is_plain(leaf: _Leaf) -> bool:
    """Return whether a column holds texts, numbers, times or booleans."""
    import pyarrow as pa

    kind = leaf.type.value_type if pa.types.is_dictionary(leaf.type) else leaf.type
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean,
        pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_date, pa.types.is_time,
    )  # fmt: skip
    return leaf.depth <= DEPTH and any(test(kind) for test in tests)


def _parts(found: Iterator[pa.RecordBatch], source: str, kept: _Kept | None) -> Iterator[Part]:
    first = 1
    with readable(source):
        for batch in found:
            yield from _parts_of(batch if kept is None else kept.split(batch), first)
            first += len(batch)


def _parts_of(batch: pa.RecordBatch, first: int) -> Iterator[Part]:
    """Yield the rows of a batch, together or, if a text is not UTF-8, one by one."""
    import pyarrow as pa

    numbers = range(first, first + len(batch))
    try:
        columns = dict(zip(batch.schema.names, map(_values, batch.columns), strict=True))
    except (UnicodeDecodeError, pa.ArrowException):  # pyarrow does not name the row: look at each
        for at in range(len(batch)):
            yield Part(numbers[at : at + 1], [_python_row(batch.slice(at, 1))])
    else:
        yield Part(numbers, columns=columns)


def _values(column: pa.Array) -> list[object]:
    """Return the values of a column as Python objects; texts five times as fast as ``to_pylist``."""
    import pyarrow as pa

    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    found: list[object] = (
        column.to_numpy(zero_copy_only=False).tolist() if is_text else column.to_pylist()
    )
    return found


def _python_row(batch: pa.RecordBatch) -> Row | BadRow:
    try:
        row: Row = batch.to_pylist()[0]
    except UnicodeDecodeError:
        return BadRow(
            "the text is not UTF-8. Write the column anew as UTF-8, or leave such rows out with --skip-bad-rows.",
            "not UTF-8",
        )
    return row


class _Kept(NamedTuple):
    """The columns of a batch that are needed, and the further ones that are kept."""

    needed: Sequence[str]
    further: FurtherColumns
    names: set[str]

    def split(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with its further columns as they are kept."""
        import pyarrow as pa

        needed = part_of(batch, self.needed)
        whole = dict(zip(needed.schema.names, needed.columns, strict=True))
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for leaf, values in _leaf_arrays(name, column):
                if leaf in self.names and self.further.wants(leaf):
                    if _longest(values) > LONGEST_TEXT:
                        self.further.leave_out(leaf, TOO_LONG)
                    else:
                        whole[leaf] = _with_texts_of_times(values)
        return pa.RecordBatch.from_arrays(list(whole.values()), list(whole))


def _leaf_arrays(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        for at, inner in enumerate(column.flatten()):
            yield from _leaf_arrays(f"{name}.{column.type.field(at).name}", inner)
    else:
        yield name, column


def _longest(values: pa.Array) -> int:
    """Return the number of characters of the longest text; 0 for other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return 0
    return int(pc.max(pc.utf8_length(values)).as_py() or 0)


def _with_texts_of_times(values: pa.Array) -> pa.Array:
    """Return times as ISO texts, those with a zone in UTC, and other values unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, zone = values.type, ""
    if not pa.types.is_temporal(kind):
        return values
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        values, zone = (
            values.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)),
            "Z",
        )
    texts = pc.replace_substring_regex(values.cast(pa.string()), r"\.0+$", "")
    texts = pc.replace_substring_regex(texts, r"^([-\d]+) (\d)", r"\1T\2")
    return pc.binary_join_element_wise(texts, zone, "")


FORMATS = {".parquet": Format(read_parquet, (b"PAR1",), packable=False)}
