"""The fields of a row: where the prompt, the response, the id and the human ratings stand."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.data.rows import BadRow, Row, Table, is_index, leads_into
from robin_cli.model.errors import InputError, did_you_mean, option, shown
from robin_cli.model.records import GROUP_COLUMN, SYSTEM_COLUMN, SYSTEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from robin_cli.data.images import Images
    from robin_cli.data.thinking import Thinking

NOT_READ = "-"
"""The path in ``--columns id=-``: do not read such a field, though the data have it."""

MISSING = object()
"""The value of a field that a row does not have; a null is a value."""

_KNOWN_PATHS = {
    "prompt": ("prompt", "info.post", "info.article"),
    "response": ("response", "summary.text"),
    "id": ("pair_id", "id"),
    "reference": ("reference",),
}
"""The paths to try, in this order: those of HelpSteer2, then of the axis files of Summarize From Feedback."""

RESPONSES = ("response_a", "response_b")
"""The fields of a comparison's two responses, in the data and in robin."""

_KNOWN_OF_TWO = {
    "response_a": ("response_a", "response_1", "summaries.0.text"),
    "response_b": ("response_b", "response_2", "summaries.1.text"),
    "system_a": ("summaries.0.policy",),
    "system_b": ("summaries.1.policy",),
}
"""The paths to try: those of robin, HelpSteer2's preferences, and the comparisons of Summarize From Feedback."""

CHATS = ("messages", "conversation", "conversations")
"""The fields that may hold a conversation in a row without a field for the prompt or the response."""

_KNOWN_RATINGS = {
    **{
        name: (name,)
        for name in ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
    },
    **{name: (f"summary.axes.{name}",) for name in ("overall", "accuracy", "coverage")},
    "coherence": ("coherence", "summary.axes.coherence"),
}

_USUAL_NAMES = {
    "prompt": [
        "prompt",
        "question",
        "instruction",
        "input",
        "query",
        "post",
        "article",
        "document",
        "source",
        "context",
    ],
    "reference": ["reference", "gold", "target", "expected", "ideal"],
    "system": ["system", "model", "engine", "generator", "policy"],
    "image": ["image", "picture", "photo", "img"],
    "response": [
        "response",
        "answer",
        "output",
        "completion",
        "reply",
        "generation",
        "prediction",
        "summary",
        "decoded",
        "text",
    ],
    "response_a": [
        "response_a",
        "response_1",
        "answer_a",
        "output_1",
        "completion_a",
        "chosen",
        "response1",
        "text_a",
        "summary_a",
        "conversation_a",
    ],
    "response_b": [
        "response_b",
        "response_2",
        "answer_b",
        "output_2",
        "completion_b",
        "rejected",
        "response2",
        "text_b",
        "summary_b",
        "conversation_b",
    ],
    "system_a": ["model_a", "generator_1", "model_1", "engine_a", "model1"],
    "system_b": ["model_b", "generator_2", "model_2", "engine_b", "model2"],
}
"""Names in other datasets, the likeliest first. Errors suggest them; robin never takes them by itself."""

_OURS = {*_USUAL_NAMES, *_KNOWN_PATHS, *_KNOWN_RATINGS, "pair_id"}
"""Known names for --columns. Other names are allowed, but a near miss of these is probably misspelt."""


class Field(NamedTuple):
    """A field to look for in a row.

    ``name`` is robin's. ``paths`` are the places where it may stand, each whole and split at the dots; ``path`` is the first,
    and its name in errors. ``mapped``: the user named the path.
    """

    name: str
    path: str
    paths: tuple[tuple[str, tuple[str, ...]], ...]
    mapped: bool

    def is_among(self, names: Collection[str]) -> bool:
        """Return whether one of the paths is one of these columns, or leads into a list there."""
        return any(
            path in names
            or any(
                leads_into(path, name) for name in names if self.mapped or any(map(is_index, steps))
            )
            for path, steps in self.paths
        )


class Fields(NamedTuple):
    """The fields to look for in a row. ``id`` is None if ids are made from the text."""

    prompt: Field
    response: Field
    id: Field | None
    reference: Field | None
    ratings: tuple[Field, ...]
    chat: Field | None = None
    """A conversation, used for a prompt or a response that a row does not have."""
    group: Field | None = None
    """The field of --group: responses with the same value belong together."""
    systems: tuple[Field, ...] = ()
    """The system of the response, or of each of two, if --columns names it."""
    not_read: frozenset[str] = frozenset()
    """Names that are mapped to NOT_READ."""
    other: Field | None = None
    """The second response, for rows that hold two."""
    beside: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    """For rows that hold the responses of several systems side by side: each system with its own fields."""
    images: tuple[Field, ...] = ()
    """The fields with images that belong to the prompt."""
    taking: Images | None = None
    """The reader of images."""
    thinking: Thinking | None = None
    """What removes reasoning from responses."""

    @property
    def all(self) -> tuple[Field, ...]:
        """Every field, the required ones first."""
        named = filter(None, (self.other, self.id, self.reference, self.group))
        return (self.prompt, self.response, *named, *self.systems, *self.images, *self.ratings)

    @property
    def paths(self) -> frozenset[str]:
        """Every column name that may be needed."""
        fields = (
            *self.all,
            *(field for _, own in self.beside for field in own),
            *filter(None, [self.chat]),
        )
        return frozenset(path for field in fields for path, _ in field.paths)

    @property
    def numbers(self) -> frozenset[str]:
        """The names of columns that may hold ratings."""
        beside = (field for _, own in self.beside for field in own if field.name != "response")
        return frozenset(path for field in (*self.ratings, *beside) for path, _ in field.paths)

    def required(self) -> Iterator[Field]:
        """Yield the fields that a row, or the header of a table, must have."""
        yield self.prompt
        yield self.response
        if self.other is not None:
            yield self.other
        yield from (
            each
            for each in (self.id, self.reference, self.group, *self.systems, *self.images)
            if each and each.mapped
        )


def fields_of(
    columns: Mapping[str, str], ratings: Iterable[str] = (), group: str | None = None
) -> Fields:
    """Return the fields for a mapping of robin's names to the data's; NOT_READ as the data's name: do not look for it.

    ``ratings``: further attributes whose human ratings are read if the data have them. ``group``: the data's field of groups.
    Raises InputError for a name that no rating can have.
    """
    if GROUP_COLUMN in columns or GROUP_COLUMN in ratings:
        raise InputError(
            f'human ratings of "{GROUP_COLUMN}": robin keeps the groups of pairs under this name. Give them another.'
        )
    image = "" if "image" in ratings else columns.get("image", NOT_READ)
    images = [path.strip() for path in image.split(_ASIDE)] if image not in {"", NOT_READ} else []
    columns, beside = _side_by_side(
        {name: path for name, path in columns.items() if name != "image" or not images}
    )
    known = {**{name: (name,) for name in ratings}, **_KNOWN_PATHS, **_KNOWN_RATINGS}
    mapped = {("id" if name == "pair_id" else name): (path,) for name, path in columns.items()}
    unread = [
        name
        for name, (own,) in mapped.items()
        if own == NOT_READ and name not in {"prompt", "response"}
    ]
    not_read = {path for name in unread for path in known.get(name, (name,))}
    (answered_by,) = mapped.pop(SYSTEM_COLUMN, (NOT_READ,))
    fields = {
        name: field_of(name, paths, mapped=name in mapped)
        for name, paths in {**known, **mapped}.items()
        if paths[0] != NOT_READ or name in ("prompt", "response")
    }
    prompt, response = fields.pop("prompt"), fields.pop("response")
    own_id, reference = fields.pop("id", None), fields.pop("reference", None)
    # one of all responses is of none
    rated = tuple(each for each in fields.values() if each.mapped or not beside)
    both = prompt.mapped and response.mapped
    chat = (
        None
        if both
        else Field("messages", CHATS[0], tuple((name, (name,)) for name in CHATS), mapped=False)
    )
    grouping = field_of("group", (group,), mapped=True) if group else None
    system = (
        field_of(SYSTEM_COLUMN, (answered_by,), mapped=True) if answered_by != NOT_READ else None
    )
    systems = (system,) if system else ()
    unread_names = frozenset(not_read)
    found = Fields(
        prompt,
        response,
        own_id,
        reference,
        rated,
        chat,
        grouping,
        systems,
        unread_names,
        beside=beside,
    )
    return found._replace(images=tuple(field_of("image", (path,), mapped=True) for path in images))


_ASIDE = "|"
"""Separates the columns of several systems: ``response=model_a|model_b``."""

_MOST_ASIDE = 6
_NO_SYSTEM = {
    *(
        "uid",
        "qid",
        "key",
        "index",
        "idx",
        "question_id",
        "prompt_id",
        "message_tree_id",
        "tree_state",
    ),
    *(
        "category",
        "topic",
        "task",
        "language",
        "lang",
        "split",
        "subset",
        "source",
        "date",
        "time",
        "timestamp",
        "turn",
    ),
    *(
        "judge",
        "winner",
        "label",
        "score",
        "rating",
        "annotator",
        "rater",
        "worker",
        "comment",
        "notes",
        "name",
        "title",
    ),
    *("messages", "conversation", "conversations", "chosen", "rejected"),
    *chain.from_iterable(_USUAL_NAMES.values()),
    *_OURS,
}
"""Usual names of columns that hold no responses of a system of that name."""


def _side_by_side(
    columns: Mapping[str, str],
) -> tuple[Mapping[str, str], tuple[tuple[str, tuple[Field, ...]], ...]]:
    """Return the mapping for the rows that :func:`spread` makes, and each system's own fields. InputError for a wrong one."""
    several = {
        name: [path.strip() for path in each.split(_ASIDE)]
        for name, each in columns.items()
        if _ASIDE in each
    }
    if not several:
        return columns, ()
    systems = several.get("response", [])
    own = tuple(
        (
            system,
            tuple(
                field_of(name, paths[at : at + 1] or [""], mapped=True)
                for name, paths in several.items()
            ),
        )
        for at, system in enumerate(systems)
    )
    shared = ("prompt", "id", "pair_id", "reference")
    if (
        {*map(len, several.values())} != {len({*systems} - {""})}
        or any(name in (*shared, SYSTEM_COLUMN) for name in several)
        or any(
            path != NOT_READ and name not in (*shared, *several) for name, path in columns.items()
        )
    ):
        raise InputError(
            f"--columns {shlex.quote(','.join(f'{name}={path}' for name, path in columns.items()))}: responses side by side "
            f"have one column each, named after the system: response=A{_ASIDE}B. Give a human rating as many columns, "
            f"helpfulness=C{_ASIDE}D, and prompt, id and reference one for all"
        )
    return {**columns, **{name: name for name in several}, SYSTEM_COLUMN: SYSTEM_COLUMN}, own


def spread(table: Table, fields: Fields, source: str) -> Table:
    """Return a table with one row for each system's response; the row's id ends in the system's name.

    Raises InputError if a column is missing.
    """
    own = [field for _, each in fields.beside for field in each]
    names = table.names
    if names is not None:
        if missing := [field for field in own if not field.is_among(names)]:
            raise InputError(f"{source}: {no_such_fields(missing, names, fields)}")
        ours = [SYSTEM_COLUMN, *(field.name for field in fields.beside[0][1])]
        names = list(
            dict.fromkeys(
                [*(name for name in names if name not in {field.path for field in own}), *ours]
            )
        )
    return table._replace(
        names=names,
        rows=_spread_rows(table.rows, fields, {field.path for field in own}),
    )


def _spread_rows(
    rows: Iterator[tuple[int, Row | BadRow]], fields: Fields, taken: Collection[str]
) -> Iterator[tuple[int, Row | BadRow]]:
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        shared = {name: value for name, value in row.items() if name not in taken}
        path, own_id = found_at(row, fields.id) if fields.id else ("", None)
        for system, own in fields.beside:
            made = {
                **shared,
                SYSTEM_COLUMN: system,
                **{field.name: find(row, field) for field in own},
            }
            if isinstance(own_id, (str, int)) and own_id != "":
                made[path] = f"{own_id}/{system}"
            absent = made["response"] is MISSING or made["response"] is None
            step = "Give the row a response, or leave such responses out with --skip-bad-rows."
            bad = BadRow(f'field "{shown(system)}" is missing or null. {step}', "no response")
            yield (
                number,
                bad
                if absent
                else {name: value for name, value in made.items() if value is not MISSING},
            )


def fields_of_two(columns: Mapping[str, str]) -> Fields:
    """Return the fields as :func:`fields_of` for rows with two responses, RESPONSES, of the systems in SYSTEM_COLUMNS."""
    others = {
        name: path for name, path in columns.items() if name not in (*RESPONSES, *SYSTEM_COLUMNS)
    }
    paths = {
        name: (columns[name],) if name in columns else known
        for name, known in _KNOWN_OF_TWO.items()
    }
    first, second, *systems = (
        field_of(name, each, mapped=name in columns) for name, each in paths.items()
    )
    found = fields_of(others)
    not_read = {each.name for each in systems if each.path == NOT_READ}
    return found._replace(
        response=first,
        other=second,
        systems=tuple(each for each in systems if each.path != NOT_READ),
        not_read=found.not_read | not_read,
    )


def field_of(name: str, paths: Sequence[str], *, mapped: bool = False) -> Field:
    """Make the field ``name``, which may stand at any of ``paths``."""
    return Field(name, paths[0], tuple((path, tuple(path.split("."))) for path in paths), mapped)


def only_in(fields: Fields, keys: Collection[object]) -> Fields:
    """Return the fields without optional ones that a row with these keys cannot have."""

    def may_be(field: Field) -> bool:
        return field.mapped or any(
            path in keys or (steps[1:] and steps[0] in keys) for path, steps in field.paths
        )

    own_id, reference = (
        each if each and may_be(each) else None for each in (fields.id, fields.reference)
    )
    return fields._replace(
        id=own_id,
        reference=reference,
        ratings=tuple(filter(may_be, fields.ratings)),
        systems=tuple(filter(may_be, fields.systems)),
    )


def is_in(row: Row, field: Field) -> bool:
    """Return whether the row has the field, even if it is null."""
    return find(row, field) is not MISSING


def no_such_fields(missing: Iterable[Field], names: Iterable[str], fields: Fields) -> str:
    """Return the message for missing fields: which were looked for, which were found, and a flag that may help."""
    missing, found = list(missing), list(islice(names, 1000))
    looked_for = " or ".join(f'"{shown(field.path)}"' + _whose(field, fields) for field in missing)
    if {"pair_id", "score", "std_error"} <= set(found):
        return f"no field {looked_for}: these are exported scores; robin export --with-text adds the texts."
    listed = ", ".join(shown(name) or '""' for name in found[:12]) + (
        ", …" if len(found) > 12 else ""
    )
    lacks_response = any(each is fields.response and not each.mapped for each in missing)
    step = (lacks_response and _of_two(missing, found)) or _flags(missing, found, fields)
    return f"no field {looked_for}; found {listed or 'none'}. {step}"


def _of_two(missing: list[Field], found: list[str]) -> str:
    """Return the step for rows that hold two responses; "" if they seem to hold one."""
    if _KNOWN_OF_TWO["response_a"][-1] in found:
        return "Each row holds two responses. Compare them: --pairwise."
    whole = dict.fromkeys(name.partition(".0.")[0] for name in found)  # also lists of messages
    by_lower = {name.lower(): name for name in whole if _can_be_named(name)}
    sides = zip(_USUAL_NAMES["response_a"], _USUAL_NAMES["response_b"], strict=True)
    two = next((each for each in sides if by_lower.keys() >= {*each}), None)
    if two is None:
        return ""
    near = {field.name: _nearest(field, found) for field in missing if field.name == "prompt"}
    near |= {name: by_lower[side] for name, side in zip(RESPONSES, two, strict=True)}
    for name in SYSTEM_COLUMNS:
        near[name] = next((by_lower[each] for each in _USUAL_NAMES[name] if each in by_lower), None)
    columns = ",".join(f"{name}={each}" for name, each in near.items() if each not in (None, name))
    flag = f" --columns {shlex.quote(columns)}" * bool(columns)
    return f"Each row holds two responses. Compare them: --pairwise{flag}."


def _flags(missing: list[Field], found: list[str], fields: Fields) -> str:
    """Return the step that names missing fields: the nearest names, or the columns of several systems."""
    taken = {path for field in fields.all if field not in missing for path, _ in field.paths}
    free = [
        name
        for name in found
        if not any(name == path or name.startswith(f"{path}.") for path in taken)
        and _can_be_named(name)
    ]
    columns, flags, unsure = [], [], ""
    for field in missing:
        grouping = field is fields.group
        near = _nearest(
            field, [name for name in found if _can_be_named(name)] if grouping else free
        )
        if near is None and field is fields.response and not field.mapped:
            near = _side_by_side_in(free)
        if near is None:
            unsure = ", NAME being the field that holds it"
        elif near in free:
            free.remove(near)
        if grouping:
            flags.append(option("--group", near or "NAME"))
        else:
            columns.append(f"{field.name}={shown(near or 'NAME', 200)}")
        if near and _ASIDE in near:
            unsure = ", if these columns hold the responses of a system each"
    if columns:
        flags.insert(0, f"--columns {shlex.quote(','.join(columns))}")
    return f"Use {' and '.join(flags)}{unsure}."


def _side_by_side_in(names: list[str]) -> str | None:
    """Return columns that may hold the responses of a system each, as --columns takes them; None if they are one or many."""
    begins = Counter(name.partition(".")[0] for name in names)  # of one object, if it is shared
    systems = [
        name
        for name in names
        if begins[name.partition(".")[0]] == 1
        and ".0." not in name
        and name.lower() not in _NO_SYSTEM
    ]
    return _ASIDE.join(systems) if 1 < len(systems) <= _MOST_ASIDE else None


def _can_be_named(name: str) -> bool:
    """Return whether --columns can hold the name, and a shell and a terminal leave it unchanged."""
    return name == name.strip() == shown(name, 200) and "," not in name


DEPTH = 4
"""The most steps of a dotted name that robin makes of nested objects."""


def names_in(row: Row, prefix: str = "", depth: int = DEPTH) -> Iterator[str]:
    """Yield the names in a row as --columns takes them: with dots inside objects, with 0 for the first item of a list."""
    for name, value in row.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from names_in(value, f"{prefix}{name}.", depth - 1)
        elif (
            isinstance(value, list)
            and value
            and isinstance(value[0], dict)
            and value[0]
            and depth > 1
        ):
            yield from names_in(value[0], f"{prefix}{name}.0.", depth - 1)
        else:
            yield prefix + name


def _whose(field: Field, fields: Fields) -> str:
    if field is fields.group:
        return f" ({option('--group', shown(field.path))})"
    if not field.mapped:
        swapped = [each.name for each in fields.ratings if each.mapped and each.path == field.path]
        return f" (did you mean {field.path}={shown(swapped[0])}?)" if swapped else ""
    meant = "" if field.name in _OURS else did_you_mean(field.name, _OURS)
    return f" (--columns {shlex.quote(f'{field.name}={shown(field.path)}')}{meant})"


def _nearest(field: Field, names: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(field.path.lower(), by_lower, n=1)
    usual = [
        low
        for known in _USUAL_NAMES.get(field.name, ())
        for low in by_lower
        if known in low.split(".")
    ]
    return by_lower[(close or usual)[0]] if close or usual else None


def find(row: Row, field: Field) -> object:
    """Return the value at the first path that has one; else an empty text, else null, else MISSING."""
    found = row.get(field.path, MISSING)
    if (
        type(found) is str or type(found) is int
    ):  # nearly always, and a quarter of the time goes into this function
        return found
    return found_at(row, field)[1]


def found_at(row: Row, field: Field) -> tuple[str, object]:
    """Return the path and the value that :func:`find` finds."""
    found: tuple[str, object] = (field.path, MISSING)
    for path, steps in field.paths:
        value = row[path] if path in row else _walk(row, steps)
        if value is MISSING:
            continue
        if (
            value is not None and value == value and value != ""
        ):  # NaN, pandas' null, is not equal to itself
            return path, value
        if found[1] is MISSING or (found[1] is None and value == ""):
            found = path, value
    return found


WORKERS = frozenset(
    f"{who}{end}"
    for who in (
        "annotator",
        "coder",
        "evaluator",
        "labeler",
        "labeller",
        "rater",
        "reviewer",
        "worker",
    )
    for end in ("", "_id")
)
"""Names of columns that say who rated or labelled a row."""


def is_of_one_worker(row: Row, fields: Fields) -> bool:
    """Return whether a row holds one person's ratings of a response, which others may have rated too.

    The rows of Summarize From Feedback's axis files do, and those that name the person.
    """
    if not WORKERS.isdisjoint(row):
        return any(find(row, field) is not MISSING for field in fields.ratings)
    return found_at(row, fields.response)[0] == "summary.text" and any(
        path.startswith("summary.axes.") and value is not MISSING
        for path, value in (found_at(row, field) for field in fields.ratings)
    )


def _step(value: object, step: str) -> object:
    if isinstance(value, list):
        if is_index(step):
            return value[int(step)] if -len(value) <= int(step) < len(value) else MISSING
        # of all items, such as one for each annotator
        items = [item for each in value if (item := _step(each, step)) is not MISSING]
        return items or MISSING
    return value.get(step, MISSING) if isinstance(value, dict) else MISSING


def _walk(row: Row, steps: tuple[str, ...]) -> object:
    if len(steps) == 1 or steps[0] not in row:  # nearly always; to go on takes a tenth of a load
        return MISSING
    value: object = row
    for step in steps:
        if value is None:
            return None  # the axes of a summary may be null as a whole
        value = _step(value, step)
    return value


def too_short(row: Row, field: Field) -> str | None:
    """Return the message for a path that leads past the end of a list; None if it does not."""
    for path, steps in field.paths:
        value: object = row
        for at, step in enumerate(steps):
            found = _step(value, step)
            if isinstance(value, list) and is_index(step) and found is MISSING:
                items = f"{len(value)} item{'s' * (len(value) != 1)}"
                return f'field "{shown(path)}": "{shown(".".join(steps[:at]))}" has {items}, and no {step} (they count from 0)'
            value = found
    return None
