"""Data sets with several people's ratings of a pair, as pools: HelpSteer2's disagreements, Summarize From Feedback's axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from robin_cli.data.checking import one_rating, pair_of
from robin_cli.data.fields import MISSING, Fields, fields_of, find, found_at, is_in, names_in
from robin_cli.data.rows import BadRow, Row, shown
from robin_cli.data.sources import Source, opened
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_WANTED = (
    "A pool of people's ratings has prompt, response, and their ratings: a list of whole numbers, or a row a worker."
)

_LARGEST = 2**31


def is_of_annotators(name: str) -> bool:
    """Whether this file holds prompts and responses, and is no long table of ratings; False where it cannot be read."""
    fields = fields_of({})
    try:
        with opened(name, fields.paths | {"rating"}) as source:
            names = source.table.names
            if names is None:
                row = next(source.table.rows, (0, BadRow()))[1]
                names = list(row) + list(names_in(row)) if isinstance(row, dict) else []
    except InputError:
        return False  # whoever reads it next says why
    return fields.prompt.is_among(names) and fields.response.is_among(names) and not {"pair_id", "rating"} <= {*names}


def ratings_of(names: Sequence[str]) -> dict[str, dict[str, NDArray[np.int64]]]:
    """Attribute -> pair id -> its ratings, shape (at least 1,), in the order of the data, of one or more sources.

    A list is the ratings of that many annotators, a number that of one; rows with the same id add theirs. Nulls are left
    out, and so is a pair that nobody rated.

    Raises InputError for a row that cannot be used, ratings that are not whole numbers, and where no pair of any
    attribute has two ratings.
    """
    fields = fields_of({})
    found: dict[str, dict[str, list[int]]] = {}
    for name in names:
        with opened(name, fields.paths) as source:
            _add(source, fields, found)
    if all(len(ratings) < 2 for pairs in found.values() for ratings in pairs.values()):
        raise InputError(
            f"{', '.join(names[:3])}: no pair has two ratings, so there is nothing to draw from. {_WANTED} HelpSteer2's "
            "is disagreements.jsonl.gz"
        )
    return {
        attribute: {pair_id: np.array(ratings, dtype=np.int64) for pair_id, ratings in pairs.items()}
        for attribute, pairs in found.items()
    }


def _add(source: Source, fields: Fields, found: dict[str, dict[str, list[int]]]) -> None:
    texts: dict[str, tuple[str, str]] = {}
    for number, row in source.table.rows:
        place = f"{source.name}:{number}" if source.table.unit == "line" else f"{source.name}:row {number}"
        if isinstance(row, BadRow):
            _raise_bad(place, row)
        if missing := [each.path for each in fields.required() if not is_in(row, each)]:
            there = ", ".join(shown(name) for name in list(names_in(row))[:12])
            raise InputError(f'{place}: no field "{missing[0]}"; found {there or "none"}. {_WANTED}')
        try:
            pair, _ = pair_of(row, fields)
        except BadRow as bad:
            _raise_bad(place, bad)
        if texts.setdefault(pair.pair_id, (pair.prompt, pair.response)) != (pair.prompt, pair.response):
            raise InputError(
                f'{place}: the id "{shown(pair.pair_id)}" is that of another text, too. Give each text an id of its own'
            )
        for attribute, rating in _ratings(row, fields, place):
            found.setdefault(attribute, {}).setdefault(pair.pair_id, []).append(rating)


def _ratings(row: Row, fields: Fields, place: str) -> Iterator[tuple[str, int]]:
    for field in fields.ratings:
        value = find(row, field)
        for each in value if isinstance(value, list) else [] if value is MISSING else [value]:
            number = one_rating(each, row, field)  # not bad: pair_of has looked at all of them
            if number is None:
                continue
            if not number.is_integer() or abs(number) > _LARGEST:
                raise InputError(
                    f'{place}: the rating in field "{found_at(row, field)[0]}" is {shown(each)}. Pools hold whole numbers'
                )
            yield field.name, int(number)


def _raise_bad(place: str, bad: BadRow) -> NoReturn:
    """The fact alone: its own next step is for robin judge, whose flags are not known here."""
    raise InputError(f"{place}: {str(bad).partition('. ')[0]}. Correct or remove the row. {_WANTED}") from None
