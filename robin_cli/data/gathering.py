"""Rows of one source after the other gathered into pairs: ids are unique over all of them, ratings of a worker each merge."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from robin_cli.data.checking import mean, pair_of
from robin_cli.data.fields import Fields, is_in, is_of_one_worker, names_in, no_such_fields
from robin_cli.data.rows import BadRow, Row, Table, shown
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robin_cli.records import Pair


_NAMED = 3
AGAIN = "the same pair or id again"


class Gathering:
    """The pairs so far, in the order of the data.

    Attributes:
        pairs: the pairs, each with its first row's human ratings until :meth:`finished`.
        reasons: how many bad rows were left out, by their reason; ``skip_bad_rows`` False raises at the first.
        first_bad: what was said of the first few of them.
        merged: how many rows were another worker's ratings of a pair that was there.
    """

    def __init__(self, *, skip_bad_rows: bool, limit: int | None) -> None:
        self.pairs: list[Pair] = []
        self.reasons: Counter[str] = Counter()
        self.first_bad: list[str] = []
        self.merged = 0
        self._skip_bad_rows, self._limit = skip_bad_rows, limit
        self._index_of: dict[str, int] = {}
        self._numbers = array("Q")  # of the row that each pair is from, in its source
        self._sources: list[tuple[str, str]] = []
        self._starts: list[int] = []  # the first pair of each source
        self._later: dict[int, list[Mapping[str, float]]] = {}
        self._rated_by_workers = False

    @property
    def skipped(self) -> int:
        """How many bad rows were left out."""
        return self.reasons.total()

    @property
    def done(self) -> bool:
        """Whether no further row can matter: the limit is reached, and no worker's rating may still come."""
        return len(self.pairs) == self._limit and not self._rated_by_workers

    def take(self, table: Table, fields: Fields, source: str) -> None:
        """Add the rows of a source, until :attr:`done`.

        Raises InputError for a bad row, where they are not skipped, for a source of which no row can be used, and if no
        row has a field that was mapped to a rating: without a header, a misspelt name looks like an absent rating.
        """
        self._sources.append((source, table.unit))
        self._starts.append(len(self.pairs))
        taken, skipped, first_bad = len(self.pairs) + self.merged, self.skipped, ""
        unseen = [field for field in fields.ratings if field.mapped and table.names is None]
        names: list[str] = []
        for number, row in table.rows:  # a million times: a call or a property less is a second less
            if unseen and isinstance(row, dict):
                names = list(names_in(row))
                unseen = [field for field in unseen if not is_in(row, field)]
            try:
                self._add(number, row, fields)
            except BadRow as bad:
                bad.__traceback__ = None  # with the frame that it names it would outlive its row: no collector runs
                if len(self.pairs) == self._limit:
                    continue
                said = f"{_place(source, table.unit, number)}: {bad}"
                if not self._skip_bad_rows:
                    raise InputError(said) from None
                first_bad = first_bad or said
                self.reasons[bad.reason] += 1
                if len(self.first_bad) < _NAMED:
                    self.first_bad.append(
                        said.partition(". ")[0]
                    )  # the fact; what to do, one knows who leaves them out
            if len(self.pairs) == self._limit and not self._rated_by_workers:
                break
        if taken == len(self.pairs) + self.merged and len(self.pairs) != self._limit:
            _raise_nothing(source, self.skipped - skipped, first_bad)
        if unseen:
            raise InputError(f"{source}: {no_such_fields(unseen, names, fields)}")

    def finished(self) -> list[Pair]:
        """The pairs, the human ratings of those with several workers' being their means, of those who gave one."""
        for at, later in self._later.items():
            pair = self.pairs[at]
            rated = [pair.human, *later]
            names = dict.fromkeys(name for each in rated for name in each)
            means = {name: mean([each[name] for each in rated if name in each]) for name in names}
            self.pairs[at] = replace(pair, human=means)
        self._later.clear()
        return self.pairs

    def _add(self, number: int, row: Row | BadRow, fields: Fields) -> None:
        if isinstance(row, BadRow):
            raise row
        pair, made = pair_of(row, fields)
        at = self._index_of.get(pair.pair_id)
        if at is not None:
            self._merge(at, pair, row, fields, made=made)
        elif len(self.pairs) != self._limit:
            self._index_of[pair.pair_id] = len(self.pairs)
            self.pairs.append(pair)
            self._numbers.append(number)
            if len(self.pairs) == self._limit:
                self._rated_by_workers = is_of_one_worker(row, fields)

    def _merge(self, at: int, pair: Pair, row: Row, fields: Fields, *, made: bool) -> None:
        first = self.pairs[at]
        same = (first.prompt, first.response) == (pair.prompt, pair.response)
        if same and is_of_one_worker(row, fields):
            self._later.setdefault(at, []).append(pair.human)
            self.merged += 1
            return
        position = bisect_right(self._starts, at) - 1
        source, unit = self._sources[position]
        here = position == len(self._sources) - 1
        place = f"{unit} {self._numbers[at]}" if here else _place(source, unit, self._numbers[at])
        if made:
            raise BadRow(
                f"the same prompt and response as {place}. Remove one of them, name a field with ids of their own "
                "(--columns id=NAME), or keep the first of each with --skip-bad-rows.",
                AGAIN,
            )
        raise BadRow(
            f'the id "{shown(pair.pair_id)}" is that of {place}, too. Give each row an id of its own, make ids from '
            "the text (--columns id=-), or keep the first of each with --skip-bad-rows.",
            AGAIN,
        )


def _place(source: str, unit: str, number: int) -> str:
    return f"{source}:{number}" if unit == "line" else f"{source}:row {number}"


def _raise_nothing(source: str, skipped: int, first_bad: str) -> None:
    if first_bad:
        raise InputError(f"{source}: not one row can be used ({skipped} read). The first: {first_bad}")
    raise InputError(f"{source}: the file has no rows. Check that it was written or downloaded to its end.")
