"""Pools of recorded ratings: what simulation draws from and the replay judge answers with."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
from numpy.typing import NDArray

from robin_cli.data.annotators import is_of_annotators, ratings_of
from robin_cli.data.formats import reader_of
from robin_cli.data.hub import HUB
from robin_cli.data.lines import check_unpacked
from robin_cli.data.parquet_rows import read_table
from robin_cli.data.sources import expanded
from robin_cli.errors import InputError
from robin_cli.files import reading

_COLUMNS = ("pair_id", "attribute", "rating")


def _read_csv(path: Path) -> pa.Table:
    # ids are text: 007 is not 7
    text = pacsv.ConvertOptions(column_types={"pair_id": pa.string(), "attribute": pa.string()})
    return pacsv.read_csv(path, convert_options=text)


def _read_parquet(path: Path) -> pa.Table:
    with path.open("rb") as file:
        return read_table(file, str(path), _COLUMNS)


_READERS = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": pajson.read_json,
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Recorded ratings of one judge and attribute, pair by pair.

    Attributes:
        name: the judge and attribute, as in the file's ``attribute`` column; the file's name without one.
        pair_ids: K of them, in the order they first appear.
        ratings: for each pair its ratings, int64, shape (at least 1,).
        human: human ratings of the pairs, shape (K,), nan where there is none; None where the source has no such thing.
    """

    name: str
    pair_ids: tuple[str, ...]
    ratings: tuple[NDArray[np.int64], ...]
    human: NDArray[np.float64] | None = None

    @property
    def size(self) -> int:
        """How many ratings there are in all."""
        return sum(len(each) for each in self.ratings)

    @property
    def constant(self) -> int:
        """How many pairs have a single rating: whatever is drawn from them, it never varies."""
        return sum(len(each) == 1 for each in self.ratings)


def load_pools(name: str | Path) -> Mapping[str, Pool]:
    """The pools of ``name``, by name, in order.

    A long table ``pair_id, rating`` (csv, jsonl, parquet), which an optional ``attribute`` column splits; a run
    directory; or a data set in which several people rated a pair, as HelpSteer2's disagreements or Summarize From
    Feedback's axis files, in any format that :func:`robin_cli.data.pairs.load_pairs` reads, also several by a glob: each
    attribute is a pool. Rows without a rating are left out.

    Raises:
        InputError: no such file, an unknown format, a missing column, ratings that are not whole numbers, or none at all.
    """
    names = expanded([name])
    path = Path(names[0])
    long = len(names) == 1 and (path.is_dir() or path.suffix.lower() in _READERS or reader_of(path.name) is None)
    if names[0].startswith(HUB) or not long or (not path.is_dir() and is_of_annotators(names[0])):
        return {
            attribute: Pool(attribute, tuple(pairs), tuple(pairs.values()))
            for attribute, pairs in ratings_of(names).items()
        }
    try:
        return _load(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8; save it as UTF-8") from None


def _load(path: Path) -> Mapping[str, Pool]:
    table = _read(path)
    for column in ("pair_id", "rating"):
        if column not in table.column_names:
            raise InputError(
                f'{path}: no column "{column}"; found {", ".join(table.column_names)}. A pool has pair_id, rating'
            )
    for column in ("pair_id", "rating", "attribute"):
        if table.column_names.count(column) > 1:
            raise InputError(f'{path}: has more than one column "{column}"')
    table = table.filter(pc.is_valid(table["rating"]))
    if not table.num_rows:
        raise InputError(f"{path}: holds no ratings")
    if "attribute" in table.column_names and table["attribute"].null_count:
        raise InputError(
            f"{path}: {table['attribute'].null_count} ratings have no attribute; name one, or leave the column out"
        )
    names = table["attribute"] if "attribute" in table.column_names else pa.array([path.stem] * table.num_rows)
    pools = {}
    for name in pc.unique(names).to_pylist():
        pools[str(name)] = _pool(str(name), table.filter(pc.equal(names, name)), path)
    return {name: _with_human(pool, path) for name, pool in pools.items()} if path.is_dir() else pools


def _read(path: Path) -> pa.Table:
    if path.is_dir():
        return _judgments(path)
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise InputError(f"{path}: a pool is a .parquet, .csv or .jsonl file, or a run directory")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    return _READERS[suffix](path)


def panel_pool(judge: str, attribute: str) -> str:
    """What the pool of one judge and attribute is called, where a run has several judges."""
    return f"{judge}/{attribute}"


def _judgments(run: Path) -> pa.Table:
    folder = run / "judgments"
    segments = [] if folder.is_symlink() else sorted(folder.glob("*.parquet"))
    if not segments:
        raise InputError(f"{run}: a folder, but no run with finished judgments in it")
    tables, unpacked, packed = [], 0, 0
    for segment in segments:
        with reading(segment) as file:
            tables.append(read_table(file, str(segment), (*_COLUMNS, "judge")))
            unpacked, packed = unpacked + tables[-1].nbytes, packed + file.seek(0, io.SEEK_END)
        check_unpacked(unpacked, packed, str(run))
    table = pa.concat_tables(tables, promote_options="default")
    # Judgments without the judge's name are from before there could be several.
    if "judge" not in table.column_names or table["judge"].null_count or len(table["judge"].unique()) < 2:
        return table
    names = pc.binary_join_element_wise(table["judge"], table["attribute"], "/")
    return table.set_column(table.column_names.index("attribute"), "attribute", names)


def _with_human(pool: Pool, run: Path) -> Pool:
    """The pool of a run with the human ratings of its pairs, where they have any of this attribute."""
    names = (pool.name, pool.name.rpartition("/")[2])
    path = run / "pairs.parquet"
    with reading(path) as file:
        pairs = read_table(file, str(path), ("pair_id", *names))
    attribute = next((name for name in names if name in pairs.column_names), None)
    if attribute is None:
        return pool
    known = dict(zip(pairs["pair_id"].to_pylist(), pairs[attribute].to_pylist(), strict=True))
    human = [known.get(pair_id) for pair_id in pool.pair_ids]
    return replace(pool, human=np.array([np.nan if value is None else value for value in human], dtype=np.float64))


def _pool(name: str, table: pa.Table, path: Path) -> Pool:
    try:
        values = pc.cast(table["rating"], pa.float64()).to_numpy()
        whole = pc.cast(table["rating"], pa.int64()).to_numpy()
    except pa.ArrowException:
        values, whole = np.empty(0), np.ones(1)
    if not np.array_equal(values, whole):
        raise InputError(f"{path}: ratings must be whole numbers")
    keys = pc.cast(table["pair_id"], pa.string()).combine_chunks().dictionary_encode()
    if keys.null_count:
        raise InputError(f"{path}: {keys.null_count} rows have no pair_id")
    codes = keys.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))[:-1]
    return Pool(name, tuple(keys.dictionary.to_pylist()), tuple(np.split(whole[order].astype(np.int64), ends)))
