"""Pools: recorded ratings that simulations draw from."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.checking import as_number
from robin_cli.data.groups import numbered
from robin_cli.data.read import expanded, opened, sound_rows
from robin_cli.data.rows import Row, Wanted
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, shown

_STEP = "Correct or remove the row"
"""Replaces a bad row's own next step, which names flags that only robin judge has."""

_LARGEST = 2**31
_COLUMNS = ("pair_id", "attribute", "rating")
_GROUP, _RIGHT = "group", "right"
_Rating = tuple[str | None, str | None, int]


@dataclass(frozen=True, slots=True)
class Pool:
    """Recorded ratings of one judge and attribute, pair by pair.

    Attributes:
        name: the judge and attribute, from the file's ``attribute`` column; without one, the file's name.
        pair_ids: K ids, in the order they first appear.
        ratings: for each pair its ratings, int64, shape (at least 1,).
        human: the pairs' human ratings, shape (K,), nan if there is none; None if the source has none at all.
        groups: the number of each pair's group, shape (K,), in the order they first appear; None if the source has no groups.
        right: whether the source marks each pair as a right answer, shape (K,); None if it marks none.
    """

    name: str
    pair_ids: tuple[str, ...]
    ratings: tuple[NDArray[np.int64], ...]
    human: NDArray[np.float64] | None = None
    groups: IntArray | None = None
    right: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        """The number of ratings."""
        return sum(len(each) for each in self.ratings)

    @property
    def constant(self) -> int:
        """The number of pairs with a single rating: draws from them never vary."""
        return sum(len(each) == 1 for each in self.ratings)


def load_pools(
    name: str | Path, group: str | None = None, *, grouped: bool = True
) -> Mapping[str, Pool]:
    """Return the pools in the file, or files, ``name``, by name and in order.

    A file, of any format that :func:`robin_cli.data.pairs.load_pairs` reads, is a table ``pair_id, rating``. An optional
    column ``attribute`` splits it into pools, ``group`` says which pairs belong together, and a 1 in ``right`` marks the right
    response of a group. Rows without a rating are left out.

    Args:
        group: the column of groups, if it has another name.
        grouped: whether to look for groups at all.

    Raises:
        InputError: no such file, no such group, or a pair in several; an unknown format, a missing column, ratings that are
            not whole numbers, or none at all.
    """
    names = expanded([name])
    path = Path(names[0])
    ratings: list[_Rating] = []
    groups: dict[str, Hashable] = {}
    right = set[str]()
    has_groups = grouped
    for each in names:
        with opened(
            each, Wanted({*_COLUMNS, group or _GROUP, _RIGHT}, numbers={"rating"})
        ) as source:
            sound = sound_rows(source, _STEP)
            first = next(sound, None)
            columns = source.table.names or (list(first[1]) if first else [])
            _check_columns(columns, group, source.name)
            by = (group or _GROUP) if grouped and (group or _GROUP) in columns else None
            has_groups = has_groups and by is not None
            attribute = None if "attribute" in columns else path.stem
            rows = chain([first] if first else [], sound)
            ratings += _in_table(rows, attribute, by, groups, right)
    table = pa.table(
        [pa.array(each) for each in zip(*ratings, strict=True)] or [[], [], []], _COLUMNS
    )
    pools = pools_of(table, path)
    if not pools:
        raise InputError(f"{path}: holds no ratings")
    if not grouped:
        return pools
    known = {
        name: replace(pool, right=np.isin(pool.pair_ids, list(right))) if right else pool
        for name, pool in pools.items()
    }
    return with_groups(known, groups) if has_groups else known


def panel_pool(judge: str, attribute: str) -> str:
    """Return the name of a judge's pool of an attribute in a run with several judges."""
    return f"{judge}/{attribute}"


def pools_of(table: pa.Table, path: Path) -> dict[str, Pool]:
    """Return the pools of a table of pair_id, attribute and rating. InputError if values are missing or not whole."""
    names = table["attribute"]
    if names.null_count:
        raise InputError(
            f"{path}: {names.null_count} ratings have no attribute; name one, or leave the column out"
        )
    return {
        name: _pool(name, table.filter(pc.equal(names, name)), path)
        for name in pc.unique(names).to_pylist()
    }


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
    return Pool(
        name,
        tuple(keys.dictionary.to_pylist()),
        tuple(np.split(whole[order].astype(np.int64), ends)),
    )


def with_groups(pools: Mapping[str, Pool], of: Mapping[str, Hashable]) -> dict[str, Pool]:
    """Return the pools with their pairs' groups, which ``of`` maps ids to."""
    return {
        name: replace(pool, groups=numbered([of[pair_id] for pair_id in pool.pair_ids])[0])
        for name, pool in pools.items()
    }


def _check_columns(columns: Sequence[str], group: str | None, source: str) -> None:
    """Raise InputError if a table of ratings lacks a column."""
    found = ", ".join(map(shown, columns[:12]))
    for name in ("pair_id", "rating"):
        if name not in columns:
            raise InputError(
                f'{source}: no column "{name}"; found {found}. A pool is a table pair_id, rating[, attribute, group]'
            )
    if group is not None and group not in columns:
        raise InputError(
            f'{source}: no column "{shown(group)}" (--group {shown(group)}); found {found}'
        )


def _in_table(
    rows: Iterable[tuple[str, Row]],
    name: str | None,
    by: str | None,
    groups: dict[str, Hashable],
    right: set[str],
) -> Iterator[_Rating]:
    """Yield the ratings of a table.

    Args:
        name: the attribute if the table has no column of attributes.
        by: the column of groups.
        groups: collects the group by pair id.
        right: collects the ids of right answers.
    """
    for here, row in rows:
        rating = _whole(row.get("rating"), "rating", here)
        if rating is None:
            continue
        # If some rows have an attribute, all need one.
        attribute = row.get("attribute", name) if ("attribute" in row) == (name is None) else None
        pair_id = _text(row.get("pair_id"))
        if by is not None and pair_id is not None:
            _add_group(groups, pair_id, row.get(by), here)
        if pair_id is not None and as_number(row.get(_RIGHT)) == 1:
            right.add(pair_id)
        yield pair_id, _text(attribute), rating


def _add_group(groups: dict[str, Hashable], pair_id: str, value: object, here: str) -> None:
    """Add the group of a row. InputError if the pair has none, or another in an earlier row."""
    name = None if value != value or value == "" else _text(value)
    if name is None:
        raise InputError(
            f'{here}: "{shown(pair_id)}" has no group there. Name its group, or leave the column out'
        )
    before = groups.setdefault(pair_id, name)
    if before != name:
        raise InputError(
            f'{here}: "{shown(pair_id)}" belongs to the group "{shown(name)}" here, and to "{shown(before)}" before; give each '
            "pair one group, or name another column with --group"
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _whole(value: object, field: str, here: str) -> int | None:
    """Return a value as a rating, None if it is absent. InputError if it is not a whole number."""
    number = as_number(value)
    if number is None or number != number:
        return None
    if not number.is_integer() or abs(number) > _LARGEST:
        raise InputError(
            f'{here}: the rating in field "{field}" is {shown(value)}. Pools hold whole numbers'
        )
    return int(number)
