"""Batches of rows as columns of pairs, without an object per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from robin_cli.data.checking import Held, held_by, held_in, id_of_two, pair_id_of
from robin_cli.data.fields import only_in
from robin_cli.data.pair_table import OPTIONAL_TEXTS, typed
from robin_cli.data.rows import BadRow
from robin_cli.model.records import Pair, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robin_cli.data.columns import FurtherColumns
    from robin_cli.data.fields import Fields
    from robin_cli.data.rows import Part, Row

_TEXT = pa.large_string()


class Batch:
    """The pairs in some rows.

    Attributes:
        ids: the pairs' ids, in order.
        bad: the errors of rows that hold no pair, by place among all rows.
        part: the rows that hold a pair.
        kept: the places of new pairs among these, rising.
    """

    def __init__(self, part: Part, fields: Fields, further: FurtherColumns) -> None:
        self._fields = only_in(fields, set().union(*part.shapes))
        self.bad: dict[int, BadRow] = {}
        places: Sequence[int] = range(len(part))
        columns = [columns for some, columns in part.shapes.values() if len(some) == len(part)]
        held = held_in(columns[0], self._fields) if columns else None
        if held is None:
            held, places = self._check_each(part)
            part = part.take(places)
        systems = zip(*(each.systems for each in held), strict=True)
        found = further.of(
            part, dict(zip((each.name for each in fields.systems), systems, strict=False))
        )
        self._columns = found.columns
        if found.bad:
            self.bad |= {places[at]: bad for at, bad in found.bad.items()}
            good = [at for at in range(len(part)) if at not in found.bad]
            part, held = part.take(good), [held[at] for at in good]
            self._columns = {
                name: [values[at] for at in good] for name, values in found.columns.items()
            }
        self.part, self._held = part, held
        if fields.other is None:
            self.ids = [
                own_id or pair_id_of(prompt, response) for prompt, response, _, own_id, *_ in held
            ]
        else:
            self.ids = [
                each.own_id
                or id_of_two(each.prompt, each.response, str(each.other), self._columns_of(at))
                for at, each in enumerate(held)
            ]
        self.kept: Sequence[int] = range(len(self.ids))

    def _check_each(self, part: Part) -> tuple[list[Held], Sequence[int]]:
        """Return the pairs of the good rows, and the places of these rows."""
        held: list[Held] = []
        places = []
        for at, row in enumerate(part.rows):
            try:
                if isinstance(row, BadRow):
                    raise row
                held.append(held_by(row, self._fields))
            except BadRow as bad:
                bad.__traceback__ = (
                    None  # its frames would keep the row in memory, for no collector runs
                )
                self.bad[at] = bad
            else:
                places.append(at)
        return held, places

    def is_made(self, at: int) -> bool:
        """Return whether a pair's id is made from its texts."""
        return self._held[at].own_id is None

    def row(self, at: int) -> Row:
        """Return the row of the pair at a place."""
        return cast("Row", self.part.rows[at])

    def pair(self, at: int) -> Pair:
        """Return the pair at a place."""
        prompt, response, other, _, reference, group, _, _ = held = self._held[at]
        return Pair(
            self.ids[at],
            prompt,
            response,
            held.ratings(self._fields),
            reference,
            group,
            self._columns_of(at),
            other,
        )

    def columns(self) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """Return the columns of the kept pairs, and their further columns."""
        of_held = dict(
            zip(Held._fields, zip(*(self._held[at] for at in self.kept), strict=True), strict=True)
        )
        pairs = {"pair_id": pa.array([self.ids[at] for at in self.kept], _TEXT)}
        texts = {"prompt": "prompt", "response": "response", **OPTIONAL_TEXTS}
        pairs |= {name: pa.array(of_held[attribute], _TEXT) for name, attribute in texts.items()}
        ratings = zip(self._fields.ratings, zip(*of_held["human"], strict=True), strict=True)
        pairs |= {field.name: pa.array(values, pa.float64()) for field, values in ratings}
        further = {
            name: typed([values[at] for at in self.kept]) for name, values in self._columns.items()
        }
        return _with_values(pairs), _with_values(further)

    def _columns_of(self, at: int) -> dict[str, Value]:
        found = ((name, values[at]) for name, values in self._columns.items())
        return {name: value for name, value in found if value is not None}


def _with_values(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the columns that have a value."""
    return {name: values for name, values in columns.items() if values.null_count < len(values)}
