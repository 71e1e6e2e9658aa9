"""The fields of a row: where the prompt, the response, the id and the human ratings stand."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.data.rows import BadRow, is_index, leads_into
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import GROUP_COLUMN, SYSTEM_COLUMN, SYSTEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from robin_cli.data.rows import Row

NOT_READ = "-"
"""The path in ``--columns id=-``: do not read such a field, though the data have it."""

MISSING = object()
"""The value of a field that a row does not have; a null is a value."""

ASIDE = "|"
"""Separates the columns of several systems: ``response=model_a|model_b``."""

DEPTH = 4
"""The most steps of a dotted name that robin makes of nested objects."""

CHATS = ("messages", "conversation", "conversations")
"""The fields that may hold a conversation in a row without a field for the prompt or the response."""

RESPONSES = ("response_a", "response_b")
"""The fields of a comparison's two responses, in the data and in robin."""

KNOWN = {
    "prompt": ("prompt", "info.post", "info.article"),
    "response": ("response", "summary.text"),
    "id": ("pair_id", "id"),
    "reference": ("reference",),
}
"""The paths to try, in this order: those of HelpSteer2, then of the axis files of Summarize From Feedback."""

KNOWN_OF_TWO = {
    "response_a": ("response_a", "response_1", "summaries.0.text"),
    "response_b": ("response_b", "response_2", "summaries.1.text"),
    "system_a": ("summaries.0.policy",),
    "system_b": ("summaries.1.policy",),
}
"""The paths of robin, HelpSteer2's preferences, and the comparisons of Summarize From Feedback."""

KNOWN_RATINGS = {
    **{name: (name,) for name in ("helpfulness", "correctness", "complexity", "verbosity")},
    **{name: (f"summary.axes.{name}",) for name in ("overall", "accuracy", "coverage")},
    "coherence": ("coherence", "summary.axes.coherence"),
}

_PEOPLE = "annotator coder evaluator labeler labeller rater reviewer worker"
WORKERS = frozenset(f"{who}{end}" for who in _PEOPLE.split() for end in ("", "_id"))
"""Names of columns that say who rated or labelled a row."""


class Field(NamedTuple):
    """A field to look for in a row.

    ``name`` is robin's. ``paths`` are the places where it may stand; the first one names it in errors. ``mapped``: the user
    named the path.
    """

    name: str
    paths: tuple[str, ...]
    mapped: bool = False

    @property
    def path(self) -> str:
        return self.paths[0]

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether one of the paths is one of these columns, or leads into a list there."""
        into = [path for path in self.paths if self.mapped or ".0." in path or ".1." in path]
        return any(path in names for path in self.paths) or any(
            leads_into(path, name) for path in into for name in names
        )


class Fields(NamedTuple):
    """The fields to look for in a row.

    ``id`` is None if ids are made from the text. ``other`` is the second response of rows that hold two. ``chat`` is a
    conversation, used for a prompt or a response that a row does not have. ``systems`` are that of the response, or of both.
    ``beside`` has the fields of each system, for rows that hold the responses of several. ``not_read`` are names that are
    mapped to NOT_READ.
    """

    prompt: Field
    response: Field
    other: Field | None
    id: Field | None
    reference: Field | None
    group: Field | None
    chat: Field | None
    systems: tuple[Field, ...]
    images: tuple[Field, ...]
    ratings: tuple[Field, ...]
    beside: Mapping[str, tuple[Field, ...]]
    not_read: frozenset[str]

    @property
    def all(self) -> tuple[Field, ...]:
        """Every field of a row with one pair, the required ones first."""
        single = (self.prompt, self.response, self.other, self.id, self.reference, self.group)
        return (*filter(None, single), *self.systems, *self.images, *self.ratings)

    @property
    def paths(self) -> frozenset[str]:
        """Every column name that may be needed."""
        beside = (field for fields in self.beside.values() for field in fields)
        chat = [self.chat] if self.chat else []
        return frozenset(path for field in (*self.all, *beside, *chat) for path in field.paths)

    @property
    def numbers(self) -> frozenset[str]:
        """The names of columns that may hold ratings."""
        beside = [field for fields in self.beside.values() for field in fields]
        rated = [*self.ratings, *(field for field in beside if field.name != "response")]
        return frozenset(path for field in rated for path in field.paths)

    def required(self) -> list[Field]:
        """Return the fields that a row, or the header of a table, must have."""
        texts = [self.prompt, self.response, *([self.other] if self.other else [])]
        optional = (self.id, self.reference, self.group, *self.systems, *self.images)
        return [*texts, *(field for field in optional if field and field.mapped)]

    def narrow(self, keys: Collection[object]) -> Fields:
        """Return the fields without optional ones, and paths of these, that a row with these keys cannot have."""

        def narrowed(field: Field | None) -> Field | None:
            if field is None or field.mapped:
                return field
            paths = [p for p in field.paths if p in keys or p.partition(".")[0] in keys]
            return field._replace(paths=tuple(paths)) if paths else None

        return self._replace(
            id=narrowed(self.id),
            reference=narrowed(self.reference),
            ratings=tuple(filter(None, map(narrowed, self.ratings))),
            systems=tuple(filter(None, map(narrowed, self.systems))),
        )


def fields_of(
    columns: Mapping[str, str],
    ratings: Iterable[str] = (),
    group: str | None = None,
    *,
    of_two: bool = False,
) -> Fields:
    """Return the fields for a mapping of robin's names to the data's; NOT_READ as the data's name: do not look for it.

    Args:
        ratings: further attributes whose human ratings are read if the data have them.
        group: the data's field of groups.
        of_two: the rows hold two responses.

    Raises:
        InputError: a name that no rating can have, or columns side by side that do not fit together.
    """
    if GROUP_COLUMN in {*columns, *ratings}:
        raise InputError(
            f'human ratings of "{GROUP_COLUMN}": robin keeps the groups of pairs under this name. Give them another.'
        )
    mapped = {"id" if name == "pair_id" else name: path for name, path in columns.items()}
    images: list[str] = []
    if "image" not in ratings and mapped.get("image") not in {None, "", NOT_READ}:
        images = _split(mapped.pop("image"))
    beside = _side_by_side(mapped)
    if beside:
        names = [name for name, path in mapped.items() if ASIDE in path]
        mapped |= {name: name for name in (*names, SYSTEM_COLUMN)}
    known = {name: (name,) for name in ratings} | KNOWN | KNOWN_RATINGS
    known |= KNOWN_OF_TWO if of_two else {}
    unread = [name for name, path in mapped.items() if path == NOT_READ]
    fields = {
        name: Field(name, (mapped[name],) if name in mapped else known[name], name in mapped)
        for name in dict.fromkeys((*known, *mapped))
        if name not in unread or name in ("prompt", "response")
    }
    prompt, response = fields.pop("prompt"), fields.pop("response")
    single_id, reference = fields.pop("id", None), fields.pop("reference", None)
    other, names_of_systems = None, [SYSTEM_COLUMN]
    if of_two:
        response, other = (fields.pop(name) for name in RESPONSES)
        names_of_systems = list(SYSTEM_COLUMNS)
    systems = tuple(fields.pop(name) for name in names_of_systems if name in fields)
    has_both = prompt.mapped and response.mapped
    return Fields(
        prompt,
        response,
        other,
        single_id,
        reference,
        Field("group", (group,), mapped=True) if group else None,
        None if has_both else Field("messages", CHATS),
        systems,
        tuple(Field("image", (path,), mapped=True) for path in images),
        # the rating of all responses is of none
        tuple(field for field in fields.values() if field.mapped or not beside),
        beside,
        frozenset(path for name in unread for path in (name, *known.get(name, ()))),
    )


def _split(paths: str) -> list[str]:
    return [path.strip() for path in paths.split(ASIDE)]


def _side_by_side(mapped: Mapping[str, str]) -> dict[str, tuple[Field, ...]]:
    """Return the fields of each system whose responses stand side by side. InputError if the mapping does not fit."""
    several = {name: _split(paths) for name, paths in mapped.items() if ASIDE in paths}
    if not several:
        return {}
    systems = several.get("response", [])
    shared = {"prompt", "id", "reference"}
    single = {name for name, path in mapped.items() if path != NOT_READ} - several.keys()
    if (
        {*map(len, several.values())} != {len({*systems} - {""})}
        or {*shared, SYSTEM_COLUMN} & several.keys()
        or not single <= shared
    ):
        columns = shlex.quote(",".join(f"{name}={path}" for name, path in mapped.items()))
        raise InputError(
            f"--columns {columns}: responses side by side have one column each, named after the system: response=A{ASIDE}B. "
            f"Give a human rating as many columns, helpfulness=C{ASIDE}D, and prompt, id and reference one for all"
        )
    return {
        system: tuple(Field(name, (paths[at],), mapped=True) for name, paths in several.items())
        for at, system in enumerate(systems)
    }


def spread(
    rows: Iterator[tuple[int, Row | BadRow]], fields: Fields
) -> Iterator[tuple[int, Row | BadRow]]:
    """Yield a row for each system whose response stands in a row; its id ends in the system's name."""
    taken = {field.path for beside in fields.beside.values() for field in beside}
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        shared = {name: value for name, value in row.items() if name not in taken}
        id_path, row_id = find_at(row, fields.id) if fields.id else ("", None)
        for system, beside in fields.beside.items():
            values = {field.name: find(row, field) for field in beside}
            if values["response"] is MISSING or values["response"] is None:
                step = "Give the row a response, or leave such responses out with --skip-bad-rows."
                fact = f'field "{shown(system)}" is missing or null'
                yield number, BadRow(f"{fact}. {step}", "no response")
                continue
            if isinstance(row_id, (str, int)) and row_id != "":
                shared[id_path] = f"{row_id}/{system}"
            whole = {**shared, SYSTEM_COLUMN: system, **values}
            yield number, {name: value for name, value in whole.items() if value is not MISSING}


def names_in(row: Row, prefix: str = "", depth: int = DEPTH) -> Iterator[str]:
    """Yield the names in a row as --columns takes them: with dots inside objects, with 0 for the first item of a list."""
    for name, value in row.items():
        inner, mark = (value[0], ".0.") if isinstance(value, list) and value else (value, ".")
        if isinstance(inner, dict) and inner and depth > 1:
            yield from names_in(inner, f"{prefix}{name}{mark}", depth - 1)
        else:
            yield prefix + name


def find(row: Row, field: Field) -> object:
    """Return the value at the first path that has one; else an empty text, else null, else MISSING."""
    value = row.get(field.paths[0], MISSING)
    # nearly always, and a quarter of the time goes into this function
    return value if type(value) is str or type(value) is int else find_at(row, field)[1]


def find_at(row: Row, field: Field) -> tuple[str, object]:
    """Return the path and the value that :func:`find` finds."""
    best: tuple[str, object] = (field.path, MISSING)
    for path in field.paths:
        value = row[path] if path in row else _walk(row, path)
        if value is MISSING:
            continue
        # NaN, pandas' null, is not equal to itself
        if value is not None and value == value and value != "":
            return path, value
        if best[1] is MISSING or (best[1] is None and value == ""):
            best = path, value
    return best


def called(row: Row, field: Field) -> str:
    """Return the name of a row's field for errors: the path where it was found."""
    return f'field "{shown(find_at(row, field)[0])}"'


def is_in(row: Row, field: Field) -> bool:
    """Return whether the row has the field, even if it is null."""
    return find(row, field) is not MISSING


def is_of_one_worker(row: Row, fields: Fields) -> bool:
    """Return whether a row holds one person's ratings of a response, which others may have rated too.

    The rows of Summarize From Feedback's axis files do, and those that name the person.
    """
    rated = [find_at(row, field) for field in fields.ratings]
    if not WORKERS.isdisjoint(row):
        return any(value is not MISSING for _, value in rated)
    return find_at(row, fields.response)[0] == "summary.text" and any(
        path.startswith("summary.axes.") and value is not MISSING for path, value in rated
    )


def _walk(row: Row, path: str) -> object:
    value: object = row
    if "." not in path:
        return MISSING
    for step in path.split("."):
        if value is None:
            return None  # the axes of a summary may be null as a whole
        value = take_step(value, step)
    return value


def take_step(value: object, step: str) -> object:
    """Return what a step of a path leads to: a member of an object, or an item of a list, or that member of all items."""
    if isinstance(value, dict):
        return value.get(step, MISSING)
    if not isinstance(value, list):
        return MISSING
    if is_index(step):
        return value[int(step)] if -len(value) <= int(step) < len(value) else MISSING
    members = [take_step(item, step) for item in value]  # such as one of each annotator
    return [member for member in members if member is not MISSING] or MISSING
