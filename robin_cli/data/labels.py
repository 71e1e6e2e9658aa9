"""People's labels of the pairs of a run, from a table in any format that data may have.

A table has a row per pair and attribute with ``pair_id``, ``label``, ``attribute`` (if there are several) and ``probability``,
as robin export --what labels-wanted writes it; or with ``rating`` and ``labeller``, as robin label writes it: several people's
labels of a pair count as their mean. Or it has a row per pair, with a column of labels named after each attribute. Or it has a
row per group, with ``group`` and ``best``: the id of the group's best response.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from io import BytesIO
from math import isinf, isnan
from pathlib import Path
from types import NoneType

from robin_cli.data.fields import WORKERS
from robin_cli.data.given_labels import GivenLabels, Label, NamedBest, opaque_id
from robin_cli.data.hints import list_names
from robin_cli.data.human_ratings import as_number, as_share, mean
from robin_cli.data.read import opened, sound_rows
from robin_cli.data.rows import Row, Wanted, kind
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import SYSTEM_COLUMN, Scale, number_of

_KNOWN = (
    "pair_id",
    "label",
    "rating",
    "attribute",
    "probability",
    "labeller",
    "labelled_at",
    "group",
    "best",
)
_ID, _LABEL, _RATING, _ATTRIBUTE, _PROBABILITY, _LABELLER, _LABELLED_AT, _GROUP, _BEST = _KNOWN
_HOW = (
    "Labels are rows with pair_id and label, as robin export RUN --what labels-wanted writes them."
)
_PEOPLE = r"(?:annotator|rater|labell?er|coder|reviewer|evaluator|worker)s?"
_MISSPELT = 0.8
"""How alike a column of labels and its misspelt name are, as :mod:`difflib` counts."""
_SAVED_AS_TEXT = "'"
"""robin writes this before an id that a spreadsheet would run."""


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
    wanted = Wanted({*_KNOWN, *WORKERS, SYSTEM_COLUMN, *scales}, numbers=numbers)
    labels = _Labels(scales, verdicts, frozenset(pair_ids), prefixes)
    with opened(name, wanted, called) as source:
        columns = dict.fromkeys(source.table.names or ())
        if source.table.names is not None:
            _check_columns(source.name, list(columns), scales)
        for where, row in sound_rows(source, "Correct the row."):
            if not row.keys() <= columns.keys():
                columns |= dict.fromkeys(row)
                _check_unread(source.name, list(row), scales)
            labels.add(row, where)
        if columns and source.table.names is None:
            _check_columns(source.name, list(columns), scales)
        return labels.result(source.name)


class _Labels:
    """The labels of the rows so far.

    Attributes:
        by_labeller: labels by attribute, pair id and person.
        unknown: errors of rows that name no pair of the run.
    """

    def __init__(
        self,
        scales: Mapping[str, Scale],
        verdicts: Collection[str],
        pair_ids: frozenset[str],
        prefixes: Sequence[str],
    ) -> None:
        self._scales, self._verdicts = scales, verdicts
        self._pair_ids, self._prefixes = pair_ids, prefixes
        self.by_labeller: dict[str, dict[str, dict[str, Label]]] = {
            name: defaultdict(dict) for name in scales
        }
        self.best: list[NamedBest] = []
        self.unknown: list[str] = []
        self._count = 0

    def result(self, source: str) -> GivenLabels:
        """Return all labels. InputError for rows of unknown pairs, and if only some labels have a probability."""
        if self.unknown:
            raise InputError(
                f"{self.unknown[0]} ({len(self.unknown):,} of {number_of(self._count, 'label')} are of unknown pairs). Name "
                "pairs as pair_id of robin export does, and give the labels of this run's data"
            )
        by_attribute = {
            name: {pair_id: _mean(labels) for pair_id, labels in of_pairs.items() if labels}
            for name, of_pairs in self.by_labeller.items()
        }
        for labels in by_attribute.values():
            _check_probabilities(labels.values())
        return GivenLabels(source, by_attribute, self.by_labeller, self.best)

    def add(self, row: Row, where: str) -> None:
        """Add the labels of a row, or take back an earlier one. InputError if a label cannot be used."""
        labeller = str(row.get(_column_of_labellers(row)) or "")
        if _LABEL not in row and (not _is_empty(row.get(_BEST)) or row.get(_RATING) == _BEST):
            self._add_best(row, where)
            return
        if _LABELLED_AT in row and _is_empty(row.get(_RATING)):
            of_pairs = self.by_labeller.get(str(row.get(_ATTRIBUTE)), {})
            of_pairs.get(str(row.get(_ID)), {}).pop(labeller, None)
            return
        for attribute, value in self._cells(row, where):
            label = Label(self._number(value, attribute, where), _probability(row, where), where)
            self._count += 1
            pair_id = self._find_pair(row, where)
            if pair_id is None:
                self.unknown.append(f'{where}: no pair of the run is called "{shown(row[_ID])}"')
                continue
            labels = self.by_labeller[attribute][pair_id]
            if row.get(_LABELLED_AT):  # a labeller may change a label
                labels.pop(labeller, None)
            _check_same(labels.setdefault(labeller, label), label, pair_id)

    def _add_best(self, row: Row, where: str) -> None:
        """Add the best response that a row names: by ``group`` and ``best``, or as a pair whose rating is "best"."""
        group, name = (row.get(_GROUP), row[_BEST]) if row.get(_BEST) else (None, row.get(_ID))
        is_name = isinstance(name, (str, int)) and name != ""
        if not is_name or not isinstance(group, (str, int, NoneType)) or group == "":
            raise InputError(
                f"{where}: {_GROUP} and {_BEST} are names. Give the group's, and the pair_id of its best response"
            )
        pair_id = str(name).removeprefix(_SAVED_AS_TEXT)
        self.best.append(NamedBest(pair_id, None if group is None else str(group), where))
        if pair_id not in self._pair_ids:
            self.unknown.append(f'{where}: no pair of the run is called "{shown(pair_id)}"')

    def _cells(self, row: Row, where: str) -> Iterator[tuple[str, object]]:
        """Yield the attribute and the value of each label in a row that is not empty."""
        column = _LABEL if _LABEL in row else _RATING
        if column not in row:
            yield from ((n, row[n]) for n in self._scales if not _is_empty(row.get(n)))
            return
        if _is_empty(row[column]):
            return
        attribute = row.get(_ATTRIBUTE)
        if _is_empty(attribute) and len(self._scales) == 1:
            attribute = next(iter(self._scales))
        if not isinstance(attribute, str) or not attribute:
            raise InputError(f"{where}: {_no_attribute(self._scales)}")
        if attribute not in self._scales:
            raise InputError(
                f'{where}: the run has no attribute "{shown(attribute)}"{did_you_mean(attribute, self._scales)}. It has '
                f"{', '.join(self._scales)}; correct it, or leave the row out"
            )
        yield attribute, row[column]

    def _number(self, value: object, attribute: str, where: str) -> float:
        scale, is_verdict = self._scales[attribute], attribute in self._verdicts
        number = as_share(value) if is_verdict else as_number(value)
        if number is None or isinf(number):
            what = f'"{shown(value)}"' if isinstance(value, (str, int, float)) else kind(value)
            step = "not a number. Write one, such as 3 or 2.5"
            if is_verdict:
                step = "not a verdict. Write A, B or tie"
            raise InputError(f"{where}: the label {what} is {step}, or leave it empty")
        if not (scale.is_guessed or scale.low <= number <= scale.high):
            raise InputError(
                f"{where}: the label {number:g} is off the scale of {attribute}, {scale}. Correct it"
            )
        return number

    def _find_pair(self, row: Row, where: str) -> str | None:
        """Return the id of a row's pair, None if the run has no such pair. InputError if it may be of several systems."""
        value = row.get(_ID)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise InputError(
                f"{where}: the {_ID} is {'empty' if value == '' else kind(value)}. Name the pair that the label is of"
            )
        if str(value) in self._pair_ids:
            return str(value)
        name, system = str(value).removeprefix(_SAVED_AS_TEXT), str(row.get(SYSTEM_COLUMN) or "")
        if name in self._pair_ids:
            return name
        longer = {f"{prefix}/{name}" for prefix in self._prefixes if system in {"", prefix}}
        alike = sorted(longer & self._pair_ids)
        if len(alike) > 1:
            raise InputError(
                f'{where}: "{shown(name)}" is the id of {len(alike)} pairs. Write {_either(alike[:2])}, or add a '
                f"column {SYSTEM_COLUMN} with what stands before the slash"
            )
        return alike[0] if alike else self._by_opaque_id.get(name)

    @cached_property
    def _by_opaque_id(self) -> Mapping[str, str]:
        return {opaque_id(pair_id): pair_id for pair_id in self._pair_ids}


def _mean(labels: Mapping[str, Label]) -> Label:
    """Return the mean of several people's labels of a pair."""
    first = next(iter(labels.values()))
    return replace(first, value=mean([label.value for label in labels.values()]))


def _column_of_labellers(names: Collection[str]) -> str:
    """Return the column that says who labelled: labeller, or the only one of a usual name; "" if there is none."""
    usual = [name for name in WORKERS if name in names]
    return _LABELLER if _LABELLER in names else usual[0] if len(usual) == 1 else ""


def _check_unread(source: str, names: Sequence[str], scales: Mapping[str, Scale]) -> None:
    """Raise InputError for a column that looks like labels, or like one of robin's, and would not be read."""
    known = {*_KNOWN, *scales, _column_of_labellers(names)}
    of_labels = (
        rf"{_PEOPLE}|{_LABEL}|{_RATING}|{_BEST}|preference|{'|'.join(map(re.escape, scales))}"
    )
    for name in (name for name in names if name not in known):
        letters = re.sub(r"[\W_]+", "", name.casefold())
        alike = next(
            (known_name for known_name in known if known_name.replace("_", "") == letters), None
        )
        if re.fullmatch(rf"{_PEOPLE}(?:[\W_]*(?:id|name))?", name, re.IGNORECASE):
            alike = _LABELLER
        step = ""
        if alike is not None and alike not in names:
            step = f"Rename it to {alike}, or remove it"
        elif re.fullmatch(rf"(?:{of_labels})s?(?:[\W_]*\d+|[\W_]+\w+)?", name, re.IGNORECASE):
            step = (
                f"Write a row for each label, with {_ID}, {_LABEL} (on the scale of the attribute; A, B or tie for "
                f"comparisons) and {_LABELLER}, or remove the column"
            )
        absent = {_LABEL, _RATING, *scales} - {*names}
        if not step and (near := get_close_matches(name.lower(), absent, 1, _MISSPELT)):
            step = f"Rename it to {near[0]}, or remove it"
        if step:
            raise InputError(f'{source}: the column "{shown(name)}" would not be read. {step}')
    holding = [name for name in (_LABEL, _RATING, *scales) if name in names]
    if len(holding) > 1 and holding[0] in {_LABEL, _RATING}:
        raise InputError(
            f'{source}: the columns "{holding[0]}" and "{shown(holding[1])}" both hold labels. Remove one of the two'
        )


def _check_columns(source: str, names: Sequence[str], scales: Mapping[str, Scale]) -> None:
    """Raise InputError if a table cannot hold labels, or would not be read as a whole."""
    _check_unread(source, names, scales)
    if {_GROUP, _BEST} <= set(names):
        return
    if _ID not in names:
        raise InputError(f'{source}: no column "{_ID}"; found {list_names(names)}. {_HOW}')
    if not {_LABEL, _RATING, *scales} & set(names):
        raise InputError(
            f'{source}: no column "{_LABEL}", nor one called {_either(scales)}; found {list_names(names)}. {_HOW}'
        )
    if {_LABEL, _RATING} & set(names) and len(scales) > 1 and _ATTRIBUTE not in names:
        raise InputError(f"{source}: {_no_attribute(scales)}")


def _no_attribute(scales: Iterable[str]) -> str:
    step = f"Give it a column {_ATTRIBUTE}, or columns of labels named {_either(scales)}"
    return f"does not name the attribute of its labels. {step}"


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(shown, names))


def _is_empty(value: object) -> bool:
    number = as_number(value)
    return number is None or isnan(number)


def _probability(row: Row, where: str) -> float | None:
    value = row.get(_PROBABILITY)
    number = as_number(value)
    if number is None or isnan(number):
        return None
    if not 0 < number <= 1:
        raise InputError(
            f'{where}: the probability "{shown(value)}" is not above 0 and at most 1. Give the probability with which the pair '
            "was drawn, or leave the column out if all were drawn alike"
        )
    return number


def _check_same(before: Label, label: Label, pair_id: str) -> None:
    """Raise InputError if a person's label of a pair differs from an earlier one."""
    for what in ("value", "probability"):
        now, earlier = getattr(label, what), getattr(before, what)
        if now != earlier:
            name = what.replace("value", _LABEL)
            now, earlier = ("none" if x is None else f"{x:g}" for x in (now, earlier))
            raise InputError(
                f'{label.place}: the pair "{shown(pair_id)}" has the {name} {now} here, and {earlier} in {before.place}. '
                "Keep one of the two rows; for labels of several people, add a column labeller, or keep their mean"
            )


def _check_probabilities(labels: Iterable[Label]) -> None:
    """Raise InputError if some labels of an attribute have a probability and others have none."""
    first: dict[bool, str] = {}
    for label in labels:
        first.setdefault(label.probability is not None, label.place)
    if len(first) == 2:
        raise InputError(
            f"{first[False]}: the label has no probability, and that in {first[True]} has one. Give one with each, or with none"
        )
