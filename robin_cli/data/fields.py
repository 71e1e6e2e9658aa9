"""Where in a row the prompt, the response, the id and the human ratings stand, and a row made into a Pair."""

from __future__ import annotations

import difflib
import math
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.data.pair_ids import pair_id_of
from robin_cli.data.rows import BadRow, Row, kind, shown
from robin_cli.records import Pair

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_MISSING = object()

_KNOWN_PATHS = {
    "prompt": ("prompt", "info.post", "info.article"),
    "response": ("response", "summary.text"),
    "id": ("pair_id", "id"),
}
"""Where to look, in this order: HelpSteer2 first, then the axis files of Summarize From Feedback."""

_KNOWN_RATINGS = {
    "helpfulness": ("helpfulness",),
    "correctness": ("correctness",),
    "coherence": ("coherence", "summary.axes.coherence"),
    "complexity": ("complexity",),
    "verbosity": ("verbosity",),
    "overall": ("summary.axes.overall",),
    "accuracy": ("summary.axes.accuracy",),
    "coverage": ("summary.axes.coverage",),
}

_USUAL_NAMES = {
    "prompt": {"question", "instruction", "input", "query", "context", "source", "document", "article", "post", "text"},
    "response": {"answer", "output", "completion", "reply", "generation", "summary", "assistant", "text", "prediction"},
}
"""What other datasets call it: offered in an error, never taken by itself."""

_LEVELS = tuple(float(level) for level in range(101))
"""The usual ratings, shared: a million pairs hold millions of them."""

_NO_RATING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that stand for an absent rating in CSV, in small letters: pandas, R and SQL each write their own."""


class Field(NamedTuple):
    """One thing to look for in a row.

    ``name`` is ours; ``path`` is the first place where it may stand, and what errors call it; ``paths`` are all of
    them, whole and split at the dots; ``mapped`` says whether the user named it.
    """

    name: str
    path: str
    paths: tuple[tuple[str, tuple[str, ...]], ...]
    mapped: bool

    def is_among(self, names: Collection[str]) -> bool:
        """Whether one of the paths is one of these column names."""
        return any(path in names for path, _ in self.paths)


class Fields(NamedTuple):
    """All that is looked for in a row; ``id`` is None where ids are made from the text."""

    prompt: Field
    response: Field
    id: Field | None
    ratings: tuple[Field, ...]

    @property
    def all(self) -> tuple[Field, ...]:
        """Every field, the required ones first."""
        return (self.prompt, self.response, *((self.id,) if self.id else ()), *self.ratings)

    @property
    def paths(self) -> frozenset[str]:
        """Every column name that may be needed."""
        return frozenset(path for field in self.all for path, _ in field.paths)

    def required(self) -> Iterator[Field]:
        """Without which a row, or a table with a header, cannot be used."""
        yield self.prompt
        yield self.response
        if self.id and self.id.mapped:
            yield self.id


def fields_of(columns: Mapping[str, str]) -> Fields:
    """The fields under a mapping of our names to theirs; an empty name means: do not look for it."""
    known = {**_KNOWN_PATHS, **_KNOWN_RATINGS}
    mapped = {("id" if name == "pair_id" else name): (path,) for name, path in columns.items()}
    fields = {
        name: Field(name, paths[0], tuple((path, tuple(path.split("."))) for path in paths), name in mapped)
        for name, paths in {**known, **mapped}.items()
        if paths[0] or name in ("prompt", "response")
    }
    prompt, response, own_id = fields.pop("prompt"), fields.pop("response"), fields.pop("id", None)
    return Fields(prompt, response, own_id, tuple(fields.values()))


def only_among(fields: Fields, names: Collection[str]) -> Fields:
    """The fields a table with these columns can have, so that the others are not looked for in every row."""
    own_id = fields.id if fields.id and fields.id.is_among(names) else None
    return fields._replace(id=own_id, ratings=tuple(field for field in fields.ratings if field.is_among(names)))


def is_in(row: Row, field: Field) -> bool:
    """Whether the row has the field, even if it is null."""
    return _find(row, field) is not _MISSING


def pair_of(row: Row, fields: Fields) -> tuple[Pair, bool]:
    """The pair a row holds, and whether its id is made from its text. BadRow if it holds none."""
    prompt, response = _text(row, fields.prompt, fields), _text(row, fields.response, fields)
    if not prompt or prompt.isspace():
        raise BadRow(f'field "{shown(fields.prompt.path)}" is empty. {_or_skip("Give the row a prompt")}')
    own_id = _own_id(row, fields.id, fields) if fields.id else None
    human: dict[str, float] = {}
    for field in fields.ratings:
        value = _find(row, field)
        if type(value) is int and 0 <= value < len(_LEVELS):
            human[field.name] = _LEVELS[value]
        elif value is not _MISSING and (rating := _rating(value, field)) is not None:
            human[field.name] = rating
    return Pair(own_id or pair_id_of(prompt, response), prompt, response, human), own_id is None


def no_such_fields(missing: Iterable[Field], names: Iterable[str], fields: Fields) -> str:
    """What to say where fields are missing: what was looked for, what was found, and the flag that may help."""
    missing, found = list(missing), list(islice(names, 1000))
    free = [
        name for name in found if not any(name == path for f in fields.all if f not in missing for path, _ in f.paths)
    ]
    looked_for = " or ".join(f'"{shown(field.path)}"' + _whose(field) for field in missing)
    listed = ", ".join(shown(name) or '""' for name in found[:12]) + (", …" if len(found) > 12 else "")
    nearest = [(field.name, _nearest(field, free)) for field in missing]
    flag = ",".join(f"{name}={shown(near or 'NAME', 200)}" for name, near in nearest)
    unsure = "" if all(near for _, near in nearest) else ", NAME being the field that holds it"
    return f"no field {looked_for}; found {listed or 'none'}. Use --columns {flag}{unsure}."


def names_in(row: Row, prefix: str = "", depth: int = 4) -> Iterator[str]:
    """The names in a row as --columns takes them: those inside objects with dots."""
    for name, value in row.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from names_in(value, f"{prefix}{name}.", depth - 1)
        else:
            yield prefix + name


def _whose(field: Field) -> str:
    return f" (--columns {field.name}={shown(field.path)})" if field.mapped else ""


def _nearest(field: Field, names: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(field.path.lower(), by_lower, n=1)
    theirs = {field.name, *_USUAL_NAMES.get(field.name, ())}
    usual = [low for low in by_lower if low.rsplit(".", 1)[-1] in theirs]
    return by_lower[(close or usual)[0]] if close or usual else None


def _find(row: Row, field: Field) -> object:
    """What stands at the first path that has a value; else a null one; else _MISSING."""
    found = row.get(field.path, _MISSING)
    if type(found) is str or type(found) is int:  # nearly always, and a quarter of the time goes into this function
        return found
    found = _MISSING
    for path, steps in field.paths:
        value = row[path] if path in row else _walk(row, steps)
        if value is _MISSING:
            continue
        found = value
        if value is not None and value == value:  # NaN, pandas' null, is not equal to itself
            break
    return found


def _walk(row: Row, steps: tuple[str, ...]) -> object:
    if len(steps) == 1:
        return _MISSING
    value: object = row
    for step in steps:
        if value is None:
            return None  # the axes of a summary may be null as a whole
        if not isinstance(value, dict) or step not in value:
            return _MISSING
        value = value[step]
    return value


def _text(row: Row, field: Field, fields: Fields) -> str:
    value = _find(row, field)
    if isinstance(value, str):
        _check_encodable(value, field)
        return value
    if value is _MISSING:
        missing = [each for each in fields.required() if not is_in(row, each)]
        raise BadRow(no_such_fields(missing, names_in(row), fields))
    if value is None:
        raise BadRow(f'field "{shown(field.path)}" is null or empty. {_or_skip(f"Give the row a {field.name}")}')
    raise BadRow(f'field "{shown(field.path)}" is {kind(value)}, not text. {_or_skip("Write it as text")}')


def _check_encodable(text: str, field: Field) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRow(
                f'field "{shown(field.path)}" holds half of a surrogate pair (\\u{ord(text[error.start]):04x}), '
                f"which no UTF-8 file can store. {_or_skip('Correct the text')}"
            ) from None


def _own_id(row: Row, field: Field, fields: Fields) -> str | None:
    value = _find(row, field)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        _check_encodable(value, field)
        return value
    if value is _MISSING and field.mapped:
        raise BadRow(no_such_fields([field], names_in(row), fields))
    absent = value is _MISSING or value is None or value == "" or kind(value) == "NaN"
    if absent and not field.mapped:
        return None
    what = "null or empty" if absent else f"{kind(value)}, not text or a whole number"
    raise BadRow(
        f'the id in field "{shown(field.path)}" is {what}. Correct it, or make ids from the text with --columns id='
    )


def _rating(value: object, field: Field) -> float | None:
    number = _number(value)
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        what = f'"{shown(value)}"' if isinstance(value, (str, int, float, Decimal)) else kind(value)
        raise BadRow(
            f'the human rating in field "{shown(field.path)}" is {what}, not a finite number. '
            f"Give a number or null, or do not read these ratings: --columns {field.name}="
        )
    return number


def _number(value: object) -> float | None:
    """The value as a number, None where there is none, and inf for what is no number a rating can be."""
    if value is None or (isinstance(value, str) and value.strip().lower() in _NO_RATING):
        return None
    # float() would also read True, and 1_0 as ten.
    if not isinstance(value, (int, float, str, Decimal)) or isinstance(value, bool) or "_" in str(value):
        return math.inf
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.inf


def _or_skip(step: str) -> str:
    return f"{step}, or leave such rows out with --skip-bad-rows."
