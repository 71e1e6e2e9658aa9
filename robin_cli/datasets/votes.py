"""Recorded verdicts on comparisons: a replay judge answers with them, and simulations draw from them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robin_cli.datasets.checking import as_share, held_by, id_of_two
from robin_cli.datasets.columns import FurtherColumns
from robin_cli.datasets.fields import RESPONSES, Fields, fields_of_two
from robin_cli.datasets.rows import BadRow, Row, Wanted, kind, no_collector
from robin_cli.datasets.sources import STDIN, expanded, opened, sound_rows
from robin_cli.files import remote
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import ORDERS, SYSTEM_COLUMNS, Pair

Points = NDArray[np.int64]

_VERDICT, _ORDER, _JUDGE = "verdict", "order", "judge"
_COLUMNS = (*SYSTEM_COLUMNS, _VERDICT, _ORDER, _JUDGE)
_WANTED = (
    "Recorded verdicts have prompt, response_a, response_b and verdict (A, B or tie, or 1, 0.5 or 0 for A), and may have "
    "system_a, system_b, order (a-first or b-first) and judge"
)


@dataclass(frozen=True, slots=True)
class VotePool:
    """Recorded verdicts of one judge, comparison by comparison.

    Attributes:
        name: the judge's, from the file's column ``judge``; without one, the file's name.
        pairs: K comparisons in the order they first appear, with the systems if the file names them.
        points: for each of ORDERS the verdicts on each comparison, shape (at least 1,): 2 if A was better, 1 for a tie, 0 if
            B was, whichever the judge read first.
    """

    name: str
    pairs: tuple[Pair, ...]
    points: tuple[tuple[Points, ...], tuple[Points, ...]]

    @property
    def size(self) -> int:
        """The number of verdicts; one without an order counts twice."""
        return sum(len(each) for order in self.points for each in order)


def holds_votes(name: str) -> bool:
    """Return whether a file holds recorded verdicts rather than ratings, by its first row.

    Raises InputError if there is nothing to read.
    """
    first = expanded([name])[0]
    if first == STDIN or (not remote.scheme_of(first) and Path(first).is_dir()):
        return False
    with opened(first, Wanted({*RESPONSES, _VERDICT})) as source:
        names = source.table.names
        if names is None:
            names = next((list(row) for _, row in source.table.rows if isinstance(row, dict)), [])
    return _VERDICT in names


@dataclass
class _Gathered:
    """The verdicts of one judge so far, by comparison."""

    pairs: dict[str, Pair] = field(default_factory=dict)
    points: dict[tuple[str, str | None], list[int]] = field(default_factory=dict)

    def add(self, pair: Pair, order: str | None, points: int) -> None:
        first = self.pairs.setdefault(pair.pair_id, pair)
        if (pair.response, _systems(pair)) != (
            first.response,
            _systems(first),
        ):  # the same two, the other way round
            points = 2 - points
            order = None if order is None else ORDERS[1 - ORDERS.index(order)]
        self.points.setdefault((pair.pair_id, order), []).append(points)

    def pool(self, name: str) -> VotePool:
        return VotePool(
            name, tuple(self.pairs.values()), (self._in(ORDERS[0]), self._in(ORDERS[1]))
        )

    def _in(self, order: str) -> tuple[Points, ...]:
        """Return the verdicts on each comparison in one order; if there are none, those in the other."""
        other = ORDERS[1 - ORDERS.index(order)]
        found = []
        for pair_id in self.pairs:
            unordered, mine, theirs = (
                self.points.get((pair_id, each), []) for each in (None, order, other)
            )
            found.append(np.array(mine + unordered or theirs, dtype=np.int64))
        return tuple(found)


def load_votes(name: str | Path) -> Mapping[str, VotePool]:
    """Return the recorded verdicts in one or more files, by judge, in order.

    Rows hold two responses, as for :func:`robin_cli.datasets.comparisons.load_comparisons`. Several rows may be of one
    comparison, also with its sides exchanged: ``verdict`` names the better of the row's responses, ``order`` the one that the
    judge read first. A verdict without an order counts for both orders. Rows without a verdict are left out.

    Raises:
        InputError: no such file, or a row that cannot be used; or no verdict at all.
    """
    fields = fields_of_two({})._replace(id=None, reference=None, chat=None)
    gathered: dict[str, _Gathered] = {}
    names = expanded([name])
    with no_collector():
        for each in names:
            with opened(each, Wanted(fields.paths | {*_COLUMNS}, numbers={_VERDICT})) as source:
                further = FurtherColumns(fields)
                for here, row in sound_rows(source, _WANTED):
                    try:
                        for judge, pair, order, points in _votes(row, fields, further):
                            gathered.setdefault(judge or Path(each).stem, _Gathered()).add(
                                pair, order, points
                            )
                    except BadRow as bad:
                        raise bad.at(here, _WANTED) from None
    if not gathered:
        raise InputError(f"{', '.join(map(str, names[:3]))}: holds no verdicts. {_WANTED}")
    return {judge: found.pool(judge) for judge, found in gathered.items()}


def _votes(
    row: Row, fields: Fields, further: FurtherColumns
) -> Iterator[tuple[str, Pair, str | None, int]]:
    """Yield the judge, pair, order and points of a row, if it has a verdict."""
    points = _points(row.get(_VERDICT))
    if points is None:
        return
    order, judge = row.get(_ORDER), row.get(_JUDGE)
    if order in (None, ""):
        order = None
    elif order not in ORDERS:
        raise BadRow(f'the order is "{shown(order)}", not one of {", ".join(ORDERS)}')
    if judge is not None and not isinstance(judge, str):
        raise BadRow(f"the judge is {kind(judge)}, not text")
    held = held_by(row, fields)
    columns = further.of_row({name: row[name] for name in SYSTEM_COLUMNS if name in row})
    pair_id = id_of_two(held.prompt, held.response, str(held.other), columns)
    pair = Pair(
        pair_id, held.prompt, held.response, held.ratings(fields), columns=columns, other=held.other
    )
    yield judge or "", pair, order, points


def _points(value: object) -> int | None:
    """Return 2, 1 or 0 for A, a tie or B; None if there is no verdict."""
    share = as_share(value)
    if share is None or isnan(share):
        return None
    if share not in {0.0, 0.5, 1.0}:
        raise BadRow(f'the verdict is "{shown(value)}", not one of A, B, tie, 1, 0.5 and 0')
    return int(2 * share)


def _systems(pair: Pair) -> tuple[Hashable, ...]:
    return tuple(pair.columns.get(name) for name in SYSTEM_COLUMNS)
