"""People's labels of the pairs of a run, from a table in any format that data may have.

A table has a row per pair and attribute with ``pair_id``, ``label``, ``attribute`` (if there are several) and ``probability``,
as robin export --what labels-wanted writes it; or with ``rating`` and ``labeller``, as robin label writes it: several people's
labels of a pair count as their mean. Or it has a row per pair, with a column of labels named after each attribute. Or it has a
row per group, with ``group`` and ``best``: the id of the group's best response.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from math import isinf, isnan
from pathlib import Path
from types import NoneType
from typing import NamedTuple

from robin_cli.data.checking import as_number, as_share
from robin_cli.data.fields import WORKERS
from robin_cli.data.given_labels import GivenLabels, Label, NamedBest
from robin_cli.data.read import Source, opened, sound_rows
from robin_cli.data.rows import Row, Wanted, kind
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import SYSTEM_COLUMN, Scale, number_of

_ID, _LABEL, _ATTRIBUTE, _PROBABILITY = "pair_id", "label", "attribute", "probability"
_RATING, _LABELLER, _LABELLED_AT, _GROUP, _BEST = (
    "rating",
    "labeller",
    "labelled_at",
    "group",
    "best",
)
_ROWS = (_ID, _LABEL, _ATTRIBUTE, _PROBABILITY, _RATING, _LABELLER, _LABELLED_AT, _GROUP, _BEST)
_HOW = (
    "Labels are rows with pair_id and label, as robin export RUN --what labels-wanted writes them."
)
_PEOPLE = r"(?:annotator|rater|labell?er|coder|reviewer|evaluator|worker)s?"
_SAVED_AS_TEXT = "'"
"""robin writes this before an id that a spreadsheet would run."""


class _Pairs(NamedTuple):
    """The ids of a run's pairs, and the systems whose names these may begin with."""

    ids: frozenset[str]
    prefixes: Sequence[str]


def opaque_id(pair_id: str) -> str:
    """Return the id to show to people who label: it does not reveal the system."""
    return "L" + hashlib.sha256(f"label\0{pair_id}".encode()).hexdigest()[:12]


def load_labels(
    name: str | Path | BytesIO,
    pair_ids: Collection[str],
    scales: Mapping[str, Scale],
    *,
    called: str = "",
    verdicts: Collection[str] = (),
    prefixes: Sequence[str] = (),
) -> GivenLabels:
    """Return the labels in a file. Rows with an empty label are left out: nobody has labelled them yet.

    Args:
        name: a source as for :func:`robin_cli.data.pairs.load_pairs`; errors name bytes in memory ``called``.
        pair_ids: the pairs of the run.
        scales: the scale of each attribute.
        verdicts: attributes of comparisons, whose labels may be A, B or tie.
        prefixes: systems whose names, and a slash, may be missing before ids.

    Raises:
        InputError: the file cannot be read; a label is not a number, or off its scale; two labels of a pair differ; a
            probability is not above 0 and at most 1, or only some rows have one; the run has no such pair or attribute.
    """
    numbers = {_LABEL, _RATING, _PROBABILITY, *scales}
    wanted = Wanted(
        {
            *WORKERS,
            _ID,
            _ATTRIBUTE,
            _LABELLER,
            _LABELLED_AT,
            _GROUP,
            _BEST,
            SYSTEM_COLUMN,
            *numbers,
        },
        numbers=numbers,
    )
    pairs = _Pairs(frozenset(pair_ids), prefixes)
    with opened(name, wanted, called) as source:
        return _labels(source, pairs, scales, verdicts)


def _labels(
    source: Source, pairs: _Pairs, scales: Mapping[str, Scale], verdicts: Collection[str]
) -> GivenLabels:
    table = source.table
    if table.names is not None:
        _check_columns(source.name, table.names, scales)
    found: dict[str, dict[str, dict[str, Label]]] = {name: defaultdict(dict) for name in scales}
    best: list[NamedBest] = []
    unknown: list[str] = []
    labelled = rows = 0
    names: dict[str, None] = {}
    for where, cells in sound_rows(source, "Correct the row."):
        column = _column_of_labellers(cells)
        row = {**cells, _LABELLER: cells[column]} if column else cells
        rows += 1
        if table.names is None and not row.keys() <= names.keys():
            names.update(dict.fromkeys(row))
            _check_dropped(source.name, list(row), scales)
        if _LABEL not in row and (not _is_empty(row.get(_BEST)) or row.get(_RATING) == _BEST):
            best.append(_best_named(row, where))
            if best[-1].pair_id not in pairs.ids:
                unknown.append(f'{where}: no pair of the run is called "{shown(best[-1].pair_id)}"')
        elif _LABELLED_AT in row and _is_empty(row.get(_RATING)):
            _take_back(found, row)
        else:
            labelled += _take(found, row, pairs, scales, verdicts, where, unknown)
    if table.names is None and rows:
        _check_columns(source.name, list(names), scales)
    if unknown:
        raise InputError(
            f"{unknown[0]} ({len(unknown):,} of {number_of(labelled, 'label')} are of unknown pairs). Name pairs as "
            "pair_id of robin export does, and give the labels of this run's data"
        )
    by_attribute = {
        name: {of: _mean(each) for of, each in labels.items() if each}
        for name, labels in found.items()
    }
    for labels in by_attribute.values():
        _check_probabilities(labels.values())
    return GivenLabels(source.name, by_attribute, found, best)


def _take(
    found: Mapping[str, dict[str, dict[str, Label]]],
    row: Row,
    pairs: _Pairs,
    scales: Mapping[str, Scale],
    verdicts: Collection[str],
    where: str,
    unknown: list[str],
) -> int:
    """Add the labels of a row to ``found``; return their number. ``unknown`` collects errors about pairs that do not exist."""
    labelled = 0
    for attribute, value in _cells(row, scales, where):
        number = _label_value(
            value, scales[attribute], attribute, where, is_verdict=attribute in verdicts
        )
        label = Label(number, _probability(row, where), where)
        labelled += 1
        pair_id = _pair_id(row, pairs, where)
        if pair_id is None:
            unknown.append(f'{where}: no pair of the run is called "{shown(row[_ID])}"')
            continue
        labeller, of_pair = str(row.get(_LABELLER) or ""), found[attribute][pair_id]
        if row.get(_LABELLED_AT):  # a labeller may change a label
            of_pair.pop(labeller, None)
        _add(of_pair, labeller, pair_id, label)
    return labelled


def _take_back(found: Mapping[str, Mapping[str, dict[str, Label]]], row: Row) -> None:
    """Remove a labeller's earlier label of a pair."""
    labels = found.get(str(row.get(_ATTRIBUTE)), {}).get(str(row.get(_ID)), {})
    labels.pop(str(row.get(_LABELLER) or ""), None)


def _best_named(row: Row, where: str) -> NamedBest:
    """Return the best response that a row names: by ``group`` and ``best``, or as a pair whose rating is "best"."""
    group, named = (row.get(_GROUP), row[_BEST]) if row.get(_BEST) else (None, row.get(_ID))
    if (
        not isinstance(named, (str, int))
        or not isinstance(group, (str, int, NoneType))
        or group == ""
        or named == ""
    ):
        raise InputError(
            f"{where}: {_GROUP} and {_BEST} are names. Give the group's, and the pair_id of its best response"
        )
    return NamedBest(
        str(named).removeprefix(_SAVED_AS_TEXT), None if group is None else str(group), where
    )


def _mean(labels: Mapping[str, Label]) -> Label:
    """Return the mean of several people's labels of a pair."""
    first, *others = labels.values()
    return (
        replace(first, value=sum(each.value for each in labels.values()) / len(labels))
        if others
        else first
    )


def _column_of_labellers(names: Iterable[str]) -> str:
    """Return the column that says who labelled: labeller, or the only one of a usual name; "" if there is none."""
    names = set(names)
    usual = [] if _LABELLER in names else sorted(names & WORKERS)
    return _LABELLER if _LABELLER in names else usual[0] if len(usual) == 1 else ""


def _check_dropped(source: str, names: Sequence[str], scales: Mapping[str, Scale]) -> None:
    """Raise InputError for a column that looks like labels, or like one of robin's, and would not be read."""
    known = {*_ROWS, *scales, _column_of_labellers(names)}
    labels = rf"{_PEOPLE}|{_LABEL}|{_RATING}|{_BEST}|preference|{'|'.join(map(re.escape, scales))}"
    for name in (name for name in names if name not in known):
        letters = re.sub(r"[\W_]+", "", name.casefold())
        alike = next((each for each in known if each.replace("_", "") == letters), None)
        if re.fullmatch(rf"{_PEOPLE}(?:[\W_]*(?:id|name))?", name, re.IGNORECASE):
            alike = _LABELLER
        if alike is not None and alike not in names:
            raise InputError(
                f'{source}: the column "{shown(name)}" would not be read. Rename it to {alike}, or remove it'
            )
        if re.fullmatch(rf"(?:{labels})s?(?:[\W_]*\d+|[\W_]+\w+)?", name, re.IGNORECASE):
            raise InputError(
                f'{source}: the column "{shown(name)}" would not be read. Write a row for each label, with {_ID}, {_LABEL} (on '
                f"the scale of the attribute; A, B or tie for comparisons) and {_LABELLER}, or remove the column"
            )
    one, *others = [name for name in (_LABEL, _RATING, *scales) if name in names] or [""]
    if one in {_LABEL, _RATING} and others:
        raise InputError(
            f'{source}: the columns "{one}" and "{shown(others[0])}" both hold labels. Remove one of the two'
        )


def _check_columns(source: str, names: Sequence[str], scales: Mapping[str, Scale]) -> None:
    _check_dropped(source, names, scales)
    listed = ", ".join(shown(name) for name in names[:12]) + (", …" if len(names) > 12 else "")
    if {_GROUP, _BEST} <= set(names):
        return
    if _ID not in names:
        raise InputError(f'{source}: no column "{_ID}"; found {listed or "none"}. {_HOW}')
    if {_LABEL, _RATING} & set(names):
        if len(scales) > 1 and _ATTRIBUTE not in names:
            raise InputError(f"{source}: {_no_attribute(scales)}")
    elif not scales.keys() & set(names):
        raise InputError(
            f'{source}: no column "{_LABEL}", nor one called {_either(scales)}; found {listed}. {_HOW}'
        )


def _no_attribute(scales: Iterable[str]) -> str:
    step = f"Give it a column {_ATTRIBUTE}, or columns of labels named {_either(scales)}"
    return f"does not name the attribute of its labels. {step}"


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(shown, names))


def _cells(row: Row, scales: Mapping[str, Scale], where: str) -> Iterator[tuple[str, object]]:
    """Yield the attribute and the value of each label in a row that is not empty."""
    called = _LABEL if _LABEL in row else _RATING
    if called not in row:
        yield from ((name, row[name]) for name in scales if not _is_empty(row.get(name)))
        return
    if _is_empty(row[called]):
        return
    named = row.get(_ATTRIBUTE)
    attribute = next(iter(scales)) if _is_empty(named) and len(scales) == 1 else named
    if not isinstance(attribute, str) or not attribute:
        raise InputError(f"{where}: {_no_attribute(scales)}")
    if attribute not in scales:
        raise InputError(
            f'{where}: the run has no attribute "{shown(attribute)}"{did_you_mean(attribute, scales)}. It has '
            f"{', '.join(scales)}; correct it, or leave the row out"
        )
    yield attribute, row[called]


def _is_empty(value: object) -> bool:
    number = as_number(value)
    return number is None or isnan(number)


def _label_value(
    value: object, scale: Scale, attribute: str, where: str, *, is_verdict: bool
) -> float:
    number = as_share(value) if is_verdict else as_number(value)
    if number is None or isinf(number):
        what = f'"{shown(value)}"' if isinstance(value, (str, int, float)) else kind(value)
        lacks = (
            "not a verdict. Write A, B or tie"
            if is_verdict
            else "not a number. Write one, such as 3 or 2.5"
        )
        raise InputError(f"{where}: the label {what} is {lacks}, or leave it empty")
    if not (scale.is_guessed or scale.low <= number <= scale.high):
        raise InputError(
            f"{where}: the label {number:g} is off the scale of {attribute}, {scale}. Correct it"
        )
    return number


def _probability(row: Row, where: str) -> float | None:
    value = row.get(_PROBABILITY)
    if _is_empty(value):
        return None
    number = as_number(value)
    if number is None or not 0 < number <= 1:
        raise InputError(
            f'{where}: the probability "{shown(value)}" is not above 0 and at most 1. Give the probability with which the pair '
            "was drawn, or leave the column out if all were drawn alike"
        )
    return number


def _pair_id(row: Row, pairs: _Pairs, where: str) -> str | None:
    """Return the id of a row's pair, None if the run has no such pair. InputError if it may be of several systems."""
    value = row.get(_ID)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(
            f"{where}: the {_ID} is {'empty' if value == '' else kind(value)}. Name the pair that the label is of"
        )
    name, system = str(value), str(row.get(SYSTEM_COLUMN) or "")
    if name not in pairs.ids and name.startswith(_SAVED_AS_TEXT):
        name = name.removeprefix(_SAVED_AS_TEXT)
    if name in pairs.ids:
        return name
    longer = {f"{each}/{name}" for each in pairs.prefixes if system in {"", each}}
    alike = sorted(longer & pairs.ids)
    if len(alike) > 1:
        raise InputError(
            f'{where}: "{shown(name)}" is the id of {len(alike)} pairs. Write {" or ".join(map(shown, alike[:2]))}, or add a '
            f"column {SYSTEM_COLUMN} with what stands before the slash"
        )
    return alike[0] if alike else _by_opaque_id(pairs.ids).get(name)


@lru_cache(maxsize=1)
def _by_opaque_id(pair_ids: frozenset[str]) -> Mapping[str, str]:
    return {opaque_id(pair_id): pair_id for pair_id in pair_ids}


def _add(labels: dict[str, Label], labeller: str, pair_id: str, label: Label) -> None:
    """Add one person's label of a pair. InputError if it differs from an earlier one."""
    before = labels.setdefault(labeller, label)
    if (before.value, before.probability) == (label.value, label.probability):
        return
    what = "label" if before.value != label.value else "probability"
    one, other = (getattr(each, "value" if what == "label" else what) for each in (label, before))
    raise InputError(
        f'{label.place}: the pair "{shown(pair_id)}" has the {what} {_number(one)} here, and {_number(other)} in '
        f"{before.place}. Keep one of the two rows; for labels of several people, add a column labeller, or keep their mean"
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _check_probabilities(labels: Iterable[Label]) -> None:
    """Raise InputError if some labels of an attribute have a probability and others have none."""
    first: dict[bool, str] = defaultdict(str)
    for label in labels:
        first[label.probability is not None] = first[label.probability is not None] or label.place
    if len(first) == 2:
        raise InputError(
            f"{first[False]}: the label has no probability, and that in {first[True]} has one. Give one with each, or with none"
        )
