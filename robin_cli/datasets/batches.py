"""Some rows as the columns of pairs: nothing is made of a row but what goes into its columns."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import pyarrow as pa

from robin_cli.datasets.checking import held_by, id_of_two, pair_id_of
from robin_cli.datasets.fields import only_in
from robin_cli.datasets.pair_table import OPTIONAL_TEXTS, typed
from robin_cli.datasets.rows import BadRow
from robin_cli.model.records import Pair, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robin_cli.datasets.checking import Held
    from robin_cli.datasets.columns import FurtherColumns
    from robin_cli.datasets.fields import Fields
    from robin_cli.datasets.rows import Row

_TEXT = pa.large_string()


class Batch:
    """The pairs that some rows hold.

    Attributes:
        ids: of the pairs, in order.
        bad: why a row holds none, by its place among all rows.
        rows: those that hold a pair, with their ``numbers`` in the source.
        kept: the places of those pairs that are new, rising.
    """

    def __init__(self, some: Sequence[tuple[int, Row | BadRow]], fields: Fields, further: FurtherColumns) -> None:
        self._fields = only_in(fields, set().union(*(row for _, row in some if not isinstance(row, BadRow))))
        self.bad: dict[int, BadRow] = {}
        self.rows: list[Row] = []
        self._held: list[Held] = []
        places = []
        for at, (_, row) in enumerate(some):
            try:
                if isinstance(row, BadRow):
                    raise row
                self._held.append(held_by(row, self._fields))
            except BadRow as bad:
                bad.__traceback__ = None  # with the frame that it names it would outlive its row: no collector runs
                self.bad[at] = bad
            else:
                self.rows.append(row)
                places.append(at)
        systems = zip(*(held.systems for held in self._held), strict=True)
        found = further.of(self.rows, dict(zip((each.name for each in fields.systems), systems, strict=False)))
        self._columns = found.columns
        if found.bad:
            self.bad |= {places[at]: bad for at, bad in found.bad.items()}
            good = [at not in found.bad for at in range(len(places))]
            self.rows, self._held = list(compress(self.rows, good)), list(compress(self._held, good))
            places = list(compress(places, good))
            self._columns = {name: list(compress(values, good)) for name, values in found.columns.items()}
        self.numbers = [some[at][0] for at in places]
        if fields.other is None:
            self.ids = [held.own_id or pair_id_of(held.prompt, held.response) for held in self._held]
        else:
            self.ids = [held.own_id or self._id_of_two(at, held) for at, held in enumerate(self._held)]
        self.kept: Sequence[int] = range(len(self.ids))

    def is_made(self, at: int) -> bool:
        """Return whether an id is made of the pair's texts."""
        return self._held[at].own_id is None

    def pair(self, at: int) -> Pair:
        """Return the pair at a place."""
        prompt, response, other, _, reference, group, _, _ = held = self._held[at]
        return Pair(
            self.ids[at], prompt, response, held.ratings(self._fields), reference, group, self._columns_of(at), other
        )

    def columns(self) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """Return the columns of the pairs that are kept, and their further ones."""
        held = [self._held[at] for at in self.kept]
        pairs = {"pair_id": pa.array([self.ids[at] for at in self.kept], _TEXT)}
        texts = {"prompt": "prompt", "response": "response", **OPTIONAL_TEXTS}
        of_held = dict(zip(held[0]._fields, zip(*held, strict=True), strict=True))
        pairs |= {name: pa.array(of_held[attribute], _TEXT) for name, attribute in texts.items()}
        ratings = zip(self._fields.ratings, zip(*of_held["human"], strict=True), strict=True)
        pairs |= {field.name: pa.array(values, pa.float64()) for field, values in ratings}
        further = {name: typed([values[at] for at in self.kept]) for name, values in self._columns.items()}
        return _with_values(pairs), _with_values(further)

    def _id_of_two(self, at: int, held: Held) -> str:
        return id_of_two(held.prompt, held.response, str(held.other), self._columns_of(at))

    def _columns_of(self, at: int) -> dict[str, Value]:
        found = ((name, values[at]) for name, values in self._columns.items())
        return {name: value for name, value in found if value is not None}


def _with_values(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns that hold anything."""
    return {name: values for name, values in columns.items() if values.null_count < len(values)}
