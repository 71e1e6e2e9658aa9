"""Pools: recorded ratings that simulations draw from."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.groups import numbered
from robin_cli.data.hints import list_names
from robin_cli.data.human_ratings import as_number
from robin_cli.data.read import expanded, opened, sound_rows
from robin_cli.data.rows import Wanted
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, shown

_LARGEST = 2**31
_COLUMNS = ("pair_id", "attribute", "rating")
_GROUP, _RIGHT = "group", "right"


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
        return sum(map(len, self.ratings))

    @property
    def constant(self) -> int:
        """The number of pairs with a single rating: draws from them never vary."""
        return sum(len(ratings) == 1 for ratings in self.ratings)


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
    by = group or _GROUP
    ratings: list[tuple[str | None, str | None, int]] = []
    groups: dict[str, Hashable] = {}
    right: set[str] = set()
    has_groups = grouped
    for file in names:
        with opened(file, Wanted({*_COLUMNS, by, _RIGHT}, numbers={"rating"})) as source:
            # "judge" has the flags that a bad row's step names, and "simulate" has not
            rows = sound_rows(source, "Correct or remove the row")
            first = next(rows, None)
            columns = source.table.names or (list(first[1]) if first else [])
            _check_columns(columns, group, source.name)
            has_groups = has_groups and by in columns
            for here, row in chain([first] if first else [], rows):
                rating = _whole(row.get("rating"), here)
                if rating is None:
                    continue
                pair_id, attribute = (_text(row.get(key)) for key in ("pair_id", "attribute"))
                # If some rows have an attribute, all need one.
                if "attribute" not in columns:
                    attribute = None if "attribute" in row else Path(names[0]).stem
                if pair_id is not None and grouped and by in columns:
                    _add_group(groups, pair_id, row.get(by), here)
                if pair_id is not None and _is_right(row.get(_RIGHT), here):
                    right.add(pair_id)
                ratings.append((pair_id, attribute, rating))
    table = pa.table(
        [pa.array(column) for column in zip(*ratings, strict=True)] or [[], [], []], _COLUMNS
    )
    pools = pools_of(table, Path(names[0]))
    if not pools:
        raise InputError(f"{names[0]}: holds no ratings")
    if right and grouped:
        pools = {
            name: replace(pool, right=np.isin(pool.pair_ids, list(right)))
            for name, pool in pools.items()
        }
    return with_groups(pools, groups) if has_groups else pools


def panel_pool(judge: str, attribute: str) -> str:
    """Return the name of a judge's pool of an attribute in a run with several judges."""
    return f"{judge}/{attribute}"


def pools_of(table: pa.Table, path: Path) -> dict[str, Pool]:
    """Return the pools of a table of pair_id, attribute and rating, a whole number. InputError if a name is missing."""
    if missing := table["attribute"].null_count:
        raise InputError(
            f"{path}: {missing} ratings have no attribute; name one, or leave the column out"
        )
    if missing := table["pair_id"].null_count:
        raise InputError(f"{path}: {missing} rows have no pair_id")
    pools = {}
    for name in pc.unique(table["attribute"]).to_pylist():
        rows = table.filter(pc.equal(table["attribute"], name))
        ids = pc.cast(rows["pair_id"], pa.string()).combine_chunks().dictionary_encode()
        codes = ids.indices.to_numpy()
        ratings = rows["rating"].to_numpy()[np.argsort(codes, kind="stable")].astype(np.int64)
        by_pair = np.split(ratings, np.cumsum(np.bincount(codes))[:-1])
        pools[name] = Pool(name, tuple(ids.dictionary.to_pylist()), tuple(by_pair))
    return pools


def with_groups(pools: Mapping[str, Pool], groups: Mapping[str, Hashable]) -> dict[str, Pool]:
    """Return the pools with their pairs' groups, which ``groups`` maps ids to."""
    return {
        name: replace(pool, groups=numbered([groups[pair_id] for pair_id in pool.pair_ids])[0])
        for name, pool in pools.items()
    }


def _check_columns(columns: Sequence[str], group: str | None, source: str) -> None:
    """Raise InputError if a table of ratings lacks a column."""
    listed = list_names(columns)
    for name in ("pair_id", "rating"):
        if name not in columns:
            raise InputError(
                f'{source}: no column "{name}"; found {listed}. A pool is a table pair_id, rating[, attribute, group]'
            )
    if group is not None and group not in columns:
        raise InputError(
            f'{source}: no column "{shown(group)}" (--group {shown(group)}); found {listed}'
        )


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


def _is_right(value: object, here: str) -> bool:
    """Return whether a row marks a right response. InputError if the mark is neither yes nor no."""
    mark = {"true": 1.0, "false": 0.0}.get(str(value).lower(), as_number(value))
    if mark is not None and mark == mark and mark not in (0, 1):
        raise InputError(
            f'{here}: "{shown(value)}" in column "{_RIGHT}" is not 1 or 0. Write 1 for a right response'
        )
    return mark == 1


def _text(value: object) -> str | None:
    return None if value in (None, "") else str(value)


def _whole(value: object, here: str) -> int | None:
    """Return a value as a rating, None if it is absent. InputError if it is not a whole number."""
    number = as_number(value)
    if number is None or number != number:
        return None
    if not number.is_integer() or abs(number) > _LARGEST:
        raise InputError(
            f'{here}: the rating in field "rating" is {shown(value)}. Pools hold whole numbers'
        )
    return int(number)
