"""Pools: recorded ratings that simulations draw from."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.datasets.checking import as_number, held_by, pair_id_of
from robin_cli.datasets.fields import (
    MISSING,
    Field,
    Fields,
    field_of,
    fields_of,
    find,
    found_at,
    is_in,
    names_in,
    no_such_fields,
)
from robin_cli.datasets.rows import BadRow, Row, Wanted
from robin_cli.datasets.sources import expanded, opened, sound_rows
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import numbered

_WANTED = "A pool of people's ratings has prompt, response, and their ratings: a list of whole numbers, or a row a worker."
# Replaces a bad row's own next step, which names flags that only robin judge has.
_STEP = f"Correct or remove the row. {_WANTED}"

_LARGEST = 2**31
_COLUMNS = ("pair_id", "attribute", "rating")
_GROUPING, _RIGHT = ("group", "prompt"), "right"
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

    A file, of any format that :func:`robin_cli.datasets.pairs.load_pairs` reads, is a long table ``pair_id, rating``, which an
    optional column ``attribute`` splits into pools; or a data set with several people's ratings of a pair, such as HelpSteer2's
    disagreements or Summarize From Feedback's axis files, with a pool per attribute. Rows without a rating are left out. In a
    long table with groups a 1 in the column ``right`` marks the right response of a group.

    Args:
        group: the column, or field, with each pair's group. By default: the column ``group`` or ``prompt`` of a long table if
            each pair has one value there, the prompt of a data set, or an id up to its last slash if all ids have one.
        grouped: whether to look for groups at all.

    Raises:
        InputError: no such file, no such group, or a pair in several; an unknown format, a missing column, ratings that are
            not whole numbers, or none at all; or a data set in which no pair has two ratings.
    """
    names = expanded([name])
    path = Path(names[0])
    fields = fields_of({}, group=group)
    ratings: list[_Rating] = []
    of_people = False
    groups, right = _Groups(asked=group is not None), set[str]()
    for each in names:
        with opened(
            each,
            Wanted(
                fields.paths | {*_COLUMNS, *_GROUPING, _RIGHT}, numbers={"rating", *fields.numbers}
            ),
        ) as source:
            sound = sound_rows(source, _STEP)
            first = next(sound, None)
            columns = source.table.names or ([*first[1], *names_in(first[1])] if first else [])
            rows = chain([first] if first else [], sound)
            if _is_long(columns, fields, source.name):
                by = _grouping(columns, fields, source.name) if grouped else None
                groups.of = groups.of if by else None
                ratings += _in_table(
                    rows, None if "attribute" in columns else path.stem, by, groups, right
                )
            else:
                ratings += _of_people(rows, fields, groups)
                of_people = True
    pools = pools_of(
        pa.table([pa.array(each) for each in zip(*ratings, strict=True)] or [[], [], []], _COLUMNS),
        path,
    )
    if of_people and all(pool.constant == len(pool.pair_ids) for pool in pools.values()):
        raise InputError(
            f"{', '.join(names[:3])}: no pair has two ratings, so there is nothing to draw from. {_WANTED} HelpSteer2's "
            "is disagreements.jsonl.gz"
        )
    if not pools:
        raise InputError(f"{path}: holds no ratings")
    if not grouped:
        return pools
    known = {
        name: replace(pool, right=np.isin(pool.pair_ids, list(right))) if right else pool
        for name, pool in pools.items()
    }
    return with_groups(known, groups.of)


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


def with_groups(pools: Mapping[str, Pool], of: Mapping[str, Hashable] | None) -> dict[str, Pool]:
    """Return the pools with their pairs' groups: ``of`` maps ids to them; if it is None, an id up to its last slash."""
    found = {}
    for name, pool in pools.items():
        if of is not None:
            names = [of.get(pair_id) for pair_id in pool.pair_ids]
        else:
            names = [pair_id.rpartition("/")[0] or None for pair_id in pool.pair_ids]
        found[name] = pool if None in names else replace(pool, groups=numbered(names)[0])
    return found


def _is_long(columns: Sequence[str], fields: Fields, source: str) -> bool:
    """Return whether these are the columns of a long table of ratings. InputError if only one of the two is missing."""
    missing = [each for each in ("pair_id", "rating") if each not in columns]
    if len(missing) == 1 and not (
        fields.prompt.is_among(columns) and fields.response.is_among(columns)
    ):
        found = ", ".join(map(shown, columns[:12]))
        raise InputError(
            f'{source}: no column "{missing[0]}"; found {found}. A pool has pair_id, rating'
        )
    return not missing


class _Groups:
    """The groups of pairs, collected row by row.

    Attributes:
        of: the group by pair id; None once a pair has several groups or none, which is an error if groups were ``asked`` for.
    """

    def __init__(self, *, asked: bool) -> None:
        self._asked = asked
        self.of: dict[str, Hashable] | None = {}

    def add(self, pair_id: str | None, value: object, here: str) -> None:
        """Add the group of a row. InputError if groups were asked for, and the pair has none or another."""
        if self.of is None or pair_id is None:
            return
        name = None if value is MISSING or value != value or value == "" else _text(value)
        before = self.of.setdefault(pair_id, name)
        if name is not None and before == name:
            return
        if self._asked and name is None:
            raise InputError(
                f'{here}: "{shown(pair_id)}" has no group there. Name its group, or leave --group out'
            )
        if self._asked:
            raise InputError(
                f'{here}: "{shown(pair_id)}" belongs to the group "{shown(name)}" here, and to "{shown(before)}" before; name '
                "another column with --group"
            )
        self.of = None


def _grouping(columns: Sequence[str], fields: Fields, source: str) -> Field | None:
    """Return the field of groups in a long table, None if there is none. InputError if the user's field is missing."""
    if fields.group is not None and not fields.group.is_among(columns):
        raise InputError(f"{source}: {no_such_fields([fields.group], columns, fields)}")
    return fields.group or next(
        (field_of(name, (name,)) for name in _GROUPING if name in columns), None
    )


def _in_table(
    rows: Iterable[tuple[str, Row]],
    name: str | None,
    by: Field | None,
    groups: _Groups,
    right: set[str],
) -> Iterator[_Rating]:
    """Yield the ratings of a long table.

    Args:
        name: the attribute if the table has no column of attributes.
        by: the field of groups.
        right: collects the ids of right answers.
    """
    for here, row in rows:
        rating = _whole(row.get("rating"), "rating", here)
        if rating is not None:
            # If some rows have an attribute, all need one.
            attribute = (
                row.get("attribute", name) if ("attribute" in row) == (name is None) else None
            )
            pair_id = _text(row.get("pair_id"))
            if by is not None:
                groups.add(pair_id, find(row, by), here)
            if pair_id is not None and as_number(row.get(_RIGHT)) == 1:
                right.add(pair_id)
            yield pair_id, _text(attribute), rating


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _of_people(
    rows: Iterable[tuple[str, Row]], fields: Fields, groups: _Groups
) -> Iterator[_Rating]:
    """Yield the ratings of a data set: a list holds those of several people, a number one; rows with the same id add up.

    Raises InputError for a row that cannot be used, and for ratings that are not whole numbers.
    """
    texts: dict[str, tuple[str, str]] = {}
    for here, row in rows:
        if missing := [each.path for each in fields.required() if not is_in(row, each)]:
            there = ", ".join(shown(name) for name in list(names_in(row))[:12])
            raise InputError(f'{here}: no field "{missing[0]}"; found {there or "none"}. {_WANTED}')
        try:
            held = held_by(row, fields)
        except BadRow as bad:
            raise bad.at(here, _STEP) from None
        pair_id = held.own_id or pair_id_of(held.prompt, held.response)
        groups.add(pair_id, held.group or held.prompt, here)
        if texts.setdefault(pair_id, held[:2]) != held[:2]:
            raise InputError(
                f'{here}: the id "{shown(pair_id)}" is also that of another text. Give each text an id of its own'
            )
        for field in fields.ratings:
            path, value = found_at(row, field)
            for each in value if isinstance(value, list) else [] if value is MISSING else [value]:
                if (rating := _whole(each, path, here)) is not None:
                    yield pair_id, field.name, rating


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
