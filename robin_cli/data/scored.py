"""Files of scores that exist already: from evaluation tools, or from people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

from robin_cli.data import workbooks
from robin_cli.data.checking import as_number, pair_id_of
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.fields import MISSING, Field, field_of, fields_of, find, names_in
from robin_cli.data.read import expanded, opened
from robin_cli.data.rows import BadRow, Row, Wanted, check_encodable, place
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import PROMPT_ID, SYSTEM_COLUMN, Pair, Scale, number_of

if TYPE_CHECKING:
    from robin_cli.data.read import Source

SCORE = "score"
"""The name in ``--columns`` for the column of scores; several are separated by |."""

_OF_TOOLS = "score."
_USUAL = (SCORE, "rating")
_WORDS = {
    "C": 1.0,
    "I": 0.0,
    "P": 0.5,
    "N": 0.0,
    "True": 1.0,
    "False": 0.0,
    "true": 1.0,
    "false": 0.0,
}
"""Inspect's correct, incorrect, partially correct and no answer, with its own values."""

_SHOWN = 12
_MOST_ATTRIBUTES = 500
_TOO_MANY = (
    f'scores of more than {_MOST_ATTRIBUTES} attributes. If the column "attribute" is none, rename it; else split the file, '
    "or name some with --columns score=NAME|NAME"
)


@dataclass
class Scored:
    """The scores in one file, or in several as one.

    Attributes:
        files: the files' names.
        pairs: the scored pairs by id: a sample with the system that answered.
        scores: for each attribute pair ids with scores; a pair may have several, of epochs or raters, or none.
        scales: of attributes whose scale the files say: as robin writes it, or as words such as true stand for 0 and 1.
        has_prompts: whether any row has a prompt, or the name of one, or several rows have one id.
        prefixes: what the ids of the pairs have before those of the rows: the systems, or the file.
    """

    files: list[str]
    pairs: dict[str, Pair] = field(default_factory=dict)
    scores: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    has_prompts: bool = False
    prefixes: dict[str, None] = field(default_factory=dict)


class Reading:
    """Reads several files of scores, in which a sample has one prompt, whatever each model's template adds.

    Rows with the same id and system, or without an id with the same texts, are several ratings of one response.

    Args:
        columns: maps robin's names to the data's, as for :func:`~robin_cli.data.pairs.load_pairs`, and SCORE.
        by: the column of systems, if none is mapped.
        notify: gets lines about rows that are left out, and samples with one id and several prompts.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        by: str | None,
        notify: Callable[[str], None],
        *,
        skip_bad_rows: bool,
    ) -> None:
        fields = fields_of({name: path for name, path in columns.items() if name != SCORE})
        prompt = fields.prompt
        if not prompt.mapped:
            prompt = field_of("prompt", (*(path for path, _ in prompt.paths), PROMPT_ID))
        self._fields = fields._replace(
            prompt=prompt, ratings=tuple(each for each in fields.ratings if each.mapped)
        )
        asked = [
            _field_of(path.strip()) for path in columns.get(SCORE, "").split("|") if path.strip()
        ]
        # one named twice is no second rating
        self._asked = list({each.name: each for each in asked}.values())
        self._taken = {path for each in self._asked for path, _ in each.paths} or {
            *_USUAL,
            "attribute",
        }
        as_it_is = fields.prompt.mapped or fields.response.mapped
        self._wanted = Wanted(
            self._fields.paths | self._taken,
            others=True,
            numbers=self._taken,
            logs="" if as_it_is else "scores",
        )
        self._system = next(iter(fields.systems), field_of(SYSTEM_COLUMN, (by or SYSTEM_COLUMN,)))
        self._notify, self._skip_bad_rows = notify, skip_bad_rows
        self._prompts: dict[str, str] = {}
        self._texts: set[str] = set()
        self._again: set[str] = set()
        self._numeric: set[str] = set()
        self._skipped = self._other_prompts = 0

    def read(self, name: str, prefix: str = "") -> Scored:
        """Read the file ``name``, or those that a glob matches. ``prefix`` begins the ids of rows without a system.

        Raises:
            InputError: a file cannot be read, or holds no scores.
        """
        found, further = Scored(expanded([name])), FurtherColumns(self._fields)
        self._skipped = self._other_prompts = 0
        self._again = set()
        for each in found.files:
            with opened(each, self._wanted) as source:
                self._take(source, found, further, prefix)
            found.scales |= workbooks.scales_in(each)
        words = Scale(0, 1)
        found.scales = {n: words for n in found.scores if n not in self._numeric} | found.scales
        if self._skipped:
            self._notify(
                f"{name}: {number_of(self._skipped, 'bad row')} left out (--skip-bad-rows)"
            )
        if self._again:
            again = f"{number_of(len(self._again), 'sample')} of several files of one system"
            self._notify(
                f"{name}: {again} count as rated several times; if these are of several systems, name the files one by one, or "
                "the column of systems (--columns system=NAME)"
            )
        found.has_prompts |= len({each.prompt for each in found.pairs.values()}) < len(found.pairs)
        if not found.has_prompts:
            self._notify(
                f"{name} has no prompts: each of its {number_of(len(found.pairs), 'pair')} counts as a prompt of its own; if "
                "several answer one prompt, export it with --with-text, or name the column of prompts: --columns prompt=NAME"
            )
        if self._other_prompts:
            self._notify(
                f"{name}: {number_of(self._other_prompts, 'sample')} with another prompt than the same id has elsewhere; they "
                "count as the same. With --columns id=- samples are matched by their prompts"
            )
        return found

    def _take(self, source: Source, found: Scored, further: FurtherColumns, prefix: str) -> None:
        rows, names = source.table.rows, source.table.names
        earlier = frozenset(found.pairs)
        further.leave_out_twice(names or (), self._wanted.names)
        for number, row in rows:
            try:
                if isinstance(row, BadRow):
                    raise row
                names = names or list(names_in(row))
                pair = self._pair(row, further, prefix)
                found.has_prompts |= bool(_word(find(row, self._fields.prompt)))
                found.pairs.setdefault(pair.pair_id, pair)
                found.prefixes[_word(find(row, self._system)) or prefix] = None
                if pair.pair_id in earlier:
                    self._again.add(pair.pair_id)
                for attribute, score in self._scores_in(row):
                    found.scores.setdefault(attribute, []).append((pair.pair_id, score))
                if len(found.scores) > _MOST_ATTRIBUTES:
                    raise InputError(f"{source.name}: {_TOO_MANY}")
            except BadRow as bad:
                self._skipped += 1
                if not self._skip_bad_rows:
                    raise InputError(
                        f"{place(source.name, source.table.unit, number)}: {bad}"
                    ) from None
        for attribute in self._texts:
            found.scores.pop(attribute, None)
        if not found.scores:
            raise InputError(f"{source.name}: {self._no_scores(names or [])}")

    def _pair(self, row: Row, further: FurtherColumns, prefix: str) -> Pair:
        """Return the pair that a row scores. BadRow if the row has neither an id nor a prompt."""
        fields = self._fields
        own_id = _word(find(row, fields.id)) if fields.id else ""
        system = _word(find(row, self._system))
        prompt, response = (_word(find(row, each)) for each in (fields.prompt, fields.response))
        if not (own_id or prompt):
            there = ", ".join(map(shown, list(names_in(row))[:_SHOWN]))
            raise BadRow(
                f"no id and no prompt name the scored sample; found {there}. Use --columns id=NAME"
            )
        if own_id:
            first = self._prompts.setdefault(own_id, prompt or own_id)
            self._other_prompts += first != (prompt or own_id)
            prompt = first
        check_encodable(f"{system or prefix}{own_id}{prompt}{response}", "a text")
        pair_id = "/".join(filter(None, (system or prefix, own_id or pair_id_of(prompt, response))))
        columns = further.of_row(
            {key: value for key, value in row.items() if not self._is_score(key, value)}
        )
        if fields.systems and system:
            columns[SYSTEM_COLUMN] = system
        rated = {each.name: _number(find(row, each)) for each in fields.ratings}
        human = {name: value for name, value in rated.items() if isfinite(value)}
        return Pair(pair_id, prompt, response, human, columns=columns)

    def _is_score(self, key: str, value: object) -> bool:
        return key in self._taken or (
            not self._asked and key.startswith(_OF_TOOLS) and isfinite(_number(value))
        )

    def _scores_in(self, row: Row) -> Iterator[tuple[str, float]]:
        """Yield the scores of a row with their attributes: from the columns that the user named, else the usual and a tool's.

        Raises BadRow for a value that is not a score; a tool's columns with texts are left out instead.
        """
        usual = next((name for name in _USUAL if name in row), None)
        named = [(each.name, find(row, each)) for each in self._asked]
        if not self._asked and usual is not None:
            named.append((_word(row.get("attribute")) or usual, row[usual]))
        own = [] if self._asked else [name for name in row if name.startswith(_OF_TOOLS)]
        for name, value in [*named, *((name.removeprefix(_OF_TOOLS), row[name]) for name in own)]:
            for each in value if isinstance(value, list) else [value]:
                number = _number(each)
                if isfinite(number):
                    if not _is_word(each):
                        self._numeric.add(name)
                    yield name, number
                elif not isnan(number) and _OF_TOOLS + name in own:
                    self._texts.add(name)
                elif not isnan(number):
                    raise BadRow(
                        f'"{shown(name)}" is {shown(each)}, not a score. Use --columns score=NAME'
                    )

    def _no_scores(self, names: list[str]) -> str:
        if empty := [name for name in names if name in self._taken and name != "attribute"]:
            return f'no row has a score in "{shown(empty[0])}". Fill it in, or name another column with --columns score=NAME'
        asked = " or ".join(f'"{shown(each.path)}"' for each in self._asked) or f'called "{SCORE}"'
        there = ", ".join(map(shown, names[:_SHOWN])) + ", …" * (len(names) > _SHOWN)
        return f"no column of scores {asked}; found {there or 'none'}. Use --columns score=NAME, or several: score=NAME|NAME"


def _field_of(path: str) -> Field:
    """Return the field of a score; the prefix of a tool's scores may be left out."""
    own = path.removeprefix(_OF_TOOLS)
    return field_of(own, (path, _OF_TOOLS + own), mapped=True)


def _is_word(value: object) -> bool:
    return isinstance(value, (str, bool)) and str(value).strip() in _WORDS


def _word(value: object) -> str:
    """Return a text, or a whole number as text; "" for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (str, int)) else ""


def _number(value: object) -> float:
    """Return a score as a number; nan if it is absent, inf if the value is not a score."""
    if _is_word(value):
        return _WORDS[str(value).strip()]
    number = as_number(None if value is MISSING else value)
    return nan if number is None else number
