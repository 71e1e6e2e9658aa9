"""Convert Python's inputs - frames, pairs, files, functions - for robin's readers."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from robin_cli.data import pairs as data_pairs
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.comparisons import comparisons_of, load_comparisons
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset
from robin_cli.data.parquet_tables import written_table
from robin_cli.model.errors import InputError
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, Pair
from robin_cli.run.recorded import as_runs
from robin_cli.session.checking import check_judges
from robin_cli.session.inputs import pairs_of
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.resolve import Resolved, resolve
from robin_cli.settings.table import Settings
from robin_cli.show.parsing import read_scale

Frame = Any
"""A table of pandas, polars (also a lazy one), pyarrow or DuckDB, or another that gives its columns by Arrow's interface."""


def load(
    source: Any, *, read: Callable[..., Dataset] = data_pairs.load_pairs, **options: Any
) -> Dataset:
    if not isinstance(options.get("columns") or {}, Mapping):
        raise InputError(
            f'columns={options["columns"]!r}: give a dict of our names to the data\'s, as {{"prompt": "question"}}'
        )
    if isinstance(source, (str, Path, Sequence)):
        return read(source, **options)
    return read(_parquet(source), called=type(source).__name__, **options)


def labels_from(labels: str | Path | Frame | None) -> str | Path | io.BytesIO | None:
    return labels if labels is None or isinstance(labels, (str, Path)) else _parquet(labels)


def with_scores(
    paths: Sequence[Path],
    notify: Callable[[str], None],
    columns: Mapping[str, str] | None,
    scale: str | None,
    by: str | None,
) -> AbstractContextManager[list[Path]]:
    return as_runs(
        paths, notify, columns=columns, scale=None if scale is None else read_scale(scale), by=by
    )


def _parquet(frame: Frame) -> io.BytesIO:
    """Convert a frame for robin's readers. InputError if it is none, or a column cannot be written."""
    called, table = type(frame).__name__, io.BytesIO()
    if hasattr(frame, "reset_index"):  # of pandas, whose index is no data
        frame = frame.reset_index(drop=True)
    elif hasattr(frame, "collect"):  # polars' lazy ones
        frame = frame.collect()
    try:
        if hasattr(
            frame, "to_arrow"
        ):  # polars' own way gives texts that every version of pyarrow takes
            frame = frame.to_arrow()
        if not hasattr(frame, "__arrow_c_stream__"):
            raise InputError(
                f"{called}: no data; give a file, pairs, or a frame of pandas, polars, pyarrow or DuckDB"
            )
        batches = pa.RecordBatchReader.from_stream(frame)
        with written_table(table, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{called}: a column cannot be taken as it is ({error}); pass only the columns that are needed"
        ) from error
    return table


def dataset_of(data: Any, settings: Settings, notify: Callable[[str], None]) -> Dataset:
    named = isinstance(data, (str, Path)) or (isinstance(data, Sequence) and _are_names(data))
    if named or not isinstance(data, Sequence):
        read = load_comparisons if settings.pairwise else data_pairs.load_pairs
        found = pairs_of(settings, prompts_of(settings), notify, partial(load, data, read=read))
        return found if named else _of_no_file(found)
    if settings.columns:
        raise InputError(
            f"{settings.source}: columns: pairs have none; give them to load_pairs, which makes the pairs"
        )
    if settings.group:
        raise InputError(
            f"{settings.source}: group: pairs have their own; give it to load_pairs, which makes the pairs"
        )
    found = (
        _compared(data, settings) if settings.pairwise else _in_memory(list(data)[: settings.limit])
    )
    for said in (*found.notes, *found.columns_left_out):
        notify(said)
    if not settings.pairwise and any(pair.other is not None for pair in found.pairs):
        raise InputError(
            "judge: pairs hold two responses, and one is rated here; pairwise=True compares them"
        )
    return found


def _compared(data: Sequence[Pair], settings: Settings) -> Dataset:
    """Return the comparisons of pairs, with ids from their content, as they come from no file."""
    found = comparisons_of(
        _in_memory(list(data)), limit=settings.limit, wants_best=settings.decide is not None
    )
    return _of_no_file(found)


def _of_no_file(found: Dataset) -> Dataset:
    return replace(found, sha256=_in_memory(list(found.pairs)).sha256, source="Python", files=())


def _are_names(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(each, (str, Path)) for each in data)


def _in_memory(pairs: list[Pair]) -> Dataset:
    """Return pairs that came from no file, with ids from their content. InputError if they cannot be judged."""
    seen: set[str] = set()
    digest = hashlib.sha256()
    kept: list[Pair] = []
    further = FurtherColumns()
    for pair in pairs:
        if not isinstance(pair, Pair):
            raise InputError(
                f"judge: data holds a {type(pair).__name__}, not a Pair; load_pairs makes them"
            )
        if pair.pair_id in seen:
            raise InputError(
                f'judge: two pairs have the id "{pair.pair_id}"; give each one of its own'
            )
        seen.add(pair.pair_id)
        columns: dict[str, object] = dict(pair.columns)
        kept.append(replace(pair, columns=further.of_row(columns)) if columns else pair)
        # What earlier versions did not know is left out where it is not there: the digest says whether a run is the same.
        known = {
            name: value
            for name, value in asdict(kept[-1]).items()
            if name != "columns" and (name not in {"group", "other"} or value is not None)
        }
        # nothing that is asked hangs on others
        asked_by = (SYSTEM_COLUMN,) if pair.other is None else SYSTEM_COLUMNS
        known |= {name: kept[-1].columns[name] for name in asked_by if name in kept[-1].columns}
        digest.update(orjson.dumps(known, option=orjson.OPT_SORT_KEYS) + b"\n")
    if not pairs:
        raise InputError("judge: no pairs")
    without = [pair.pair_id for pair in pairs if not pair.group]
    if 0 < len(without) < len(pairs):
        raise InputError(
            f'judge: {len(without):,} of {len(pairs):,} pairs have no group, the first "{without[0]}"; give each one, or none'
        )
    table = PairTable.of(kept, further.forgotten)
    return Dataset(table, 0, digest.hexdigest(), "Python", columns_left_out=tuple(further.left_out))


def ready(settings: Settings, *, is_function: bool) -> Resolved:
    """Return what a session needs of ``settings``. InputError if their judges cannot be asked."""
    resolved = resolve(settings)
    check_judges(resolved, is_function=is_function)
    return resolved
