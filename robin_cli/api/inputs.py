"""Convert Python's inputs - frames, pairs, files, functions - for robin's readers."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from robin_cli.data import pairs as data_pairs
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.comparisons import comparisons_of, load_comparisons
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset
from robin_cli.data.parquet_tables import written_table
from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, Pair
from robin_cli.session.inputs import pairs_of
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.reading import checked, from_home
from robin_cli.settings.table import TABLE, Settings

if TYPE_CHECKING:
    import pandas as pd

Frame = Any
"""A table of pandas, polars (also a lazy one), pyarrow or DuckDB, or another with Arrow's interface."""

Labels = str | Path | Frame | None


def checked_keywords(settings: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
    """Return keywords as settings; files may be paths. InputError for a name that is not ``known``."""
    if unknown := sorted(settings.keys() - known):
        raise InputError(f'no setting "{unknown[0]}"{did_you_mean(unknown[0], known)}')
    paths = {
        name: str(value) if scheme_of(str(value)) else str(from_home(value))
        for name, value in settings.items()
        if TABLE[name].file and isinstance(value, (str, Path))
    }
    return checked({**settings, **paths})


def load(
    source: Any, *, read: Callable[..., Dataset] = data_pairs.load_pairs, **options: Any
) -> Dataset:
    """Read files or a frame. InputError as ``read``."""
    if not isinstance(options.get("columns") or {}, Mapping):
        raise InputError(
            f"columns={options['columns']!r}: give a dict of our names to the data's, "
            'as {"prompt": "question"}'
        )
    if isinstance(source, (str, Path, Sequence)):
        return read(source, **options)
    return read(_parquet(source), called=type(source).__name__, **options)


def frame_of(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def warn(notes: Iterable[str]) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=3)


def labels_from(labels: Labels) -> str | Path | io.BytesIO | None:
    return labels if labels is None or isinstance(labels, (str, Path)) else _parquet(labels)


def _parquet(frame: Frame) -> io.BytesIO:
    """Write a frame for robin's readers. InputError if it is none, or a column cannot be written."""
    called, table = type(frame).__name__, io.BytesIO()
    if hasattr(frame, "reset_index"):  # of pandas, whose index is no data
        frame = frame.reset_index(drop=True)
    elif hasattr(frame, "collect"):  # polars' lazy ones
        frame = frame.collect()
    try:
        if hasattr(frame, "to_arrow"):  # gives texts that every version of pyarrow takes
            frame = frame.to_arrow()
        if not hasattr(frame, "__arrow_c_stream__"):
            raise InputError(
                f"{called}: no data; give a file, pairs, or a frame of pandas, polars, pyarrow or "
                "DuckDB"
            )
        batches = pa.RecordBatchReader.from_stream(frame)
        with written_table(table, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{called}: a column cannot be taken as it is ({error}); pass only the columns that are "
            "needed"
        ) from error
    return table


def dataset_of(data: Any, settings: Settings, notify: Callable[[str], None]) -> Dataset:
    """Return the data set of ``data``: names of files, a frame, or pairs.

    Raises:
        InputError: it cannot be read, or does not go with ``settings``.
    """
    is_sequence = isinstance(data, Sequence)
    is_named = isinstance(data, (str, Path)) or (
        is_sequence and bool(data) and all(isinstance(name, (str, Path)) for name in data)
    )
    if is_named or not is_sequence:
        read = load_comparisons if settings.pairwise else data_pairs.load_pairs
        dataset = pairs_of(settings, prompts_of(settings), notify, partial(load, data, read=read))
        return dataset if is_named else _without_file(dataset)
    for name in ("columns", "group"):
        if getattr(settings, name):
            raise InputError(
                f"{settings.source}: {name}: is about data that robin reads; give it to load_pairs, "
                "which makes the pairs"
            )
    dataset = _in_memory(data if settings.pairwise else data[: settings.limit])
    if settings.pairwise:
        wants_best = settings.decide is not None
        dataset = comparisons_of(dataset, limit=settings.limit, wants_best=wants_best)
    elif any(pair.other is not None for pair in dataset.pairs):
        raise InputError(
            "judge: pairs hold two responses, and one is rated here; pairwise=True compares them"
        )
    for line in (*dataset.notes, *dataset.columns_left_out):
        notify(line)
    return _without_file(dataset)


def _in_memory(pairs: Iterable[Any]) -> Dataset:
    """Return pairs that came from no file. InputError if they cannot be judged."""
    kept: dict[str, Pair] = {}
    further = FurtherColumns()
    for pair in pairs:
        if not isinstance(pair, Pair):
            raise InputError(
                f"judge: data holds a {type(pair).__name__}; write robin_cli.Pair(pair_id=…, prompt=…, "
                "response=…), or pass a file or a frame"
            )
        if pair.pair_id in kept:
            raise InputError(
                f'judge: two pairs have the id "{pair.pair_id}"; give each one of its own'
            )
        columns = further.of_row(dict(pair.columns)) if pair.columns else pair.columns
        kept[pair.pair_id] = replace(pair, columns=columns)
    if not kept:
        raise InputError("judge: no pairs")
    alone = [pair.pair_id for pair in kept.values() if not pair.group]
    if 0 < len(alone) < len(kept):
        raise InputError(
            f'judge: {len(alone):,} of {len(kept):,} pairs have no group, the first "{alone[0]}"; '
            "give each one, or none"
        )
    table = PairTable.from_pairs(kept.values(), further.forgotten)
    return Dataset(table, 0, "", "Python", columns_left_out=tuple(further.left_out))


def _without_file(dataset: Dataset) -> Dataset:
    """Return a data set of no file: its identity is what the judge sees of its pairs."""
    digest = hashlib.sha256()
    for pair in dataset.pairs:
        seen = {
            name: value
            for name, value in asdict(pair).items()
            if name != "columns" and (name not in {"group", "other"} or value is not None)
        }
        systems = (SYSTEM_COLUMN,) if pair.other is None else SYSTEM_COLUMNS
        seen |= {name: pair.columns[name] for name in systems if name in pair.columns}
        digest.update(orjson.dumps(seen, option=orjson.OPT_SORT_KEYS) + b"\n")
    return replace(dataset, sha256=digest.hexdigest(), source="Python", files=())
