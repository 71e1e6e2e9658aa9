"""Files of scores that exist already: from evaluation tools, or from people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING

from robin_cli.data import workbooks
from robin_cli.data.checking import pair_id_of
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.fields import ASIDE, MISSING, Field, fields_of, find, names_in
from robin_cli.data.hints import list_names
from robin_cli.data.human_ratings import as_number
from robin_cli.data.read import expanded, opened
from robin_cli.data.rows import BadRow, Row, Wanted, check_encodable, place
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import PROMPT_ID, SYSTEM_COLUMN, Pair, Scale, number_of

if TYPE_CHECKING:
    from robin_cli.data.read import OpenedSource

SCORE = "score"
"""The name in ``--columns`` for the column of scores; several are separated by |."""

_OF_TOOLS = "score."
_USUAL = (SCORE, "rating")
_ATTRIBUTE = "attribute"
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's correct, incorrect, partially correct and no answer, with its own values."""
_WORDS |= {"True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0}

_MOST_ATTRIBUTES = 500


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
        if not fields.prompt.mapped:
            fields = fields._replace(prompt=Field("prompt", (*fields.prompt.paths, PROMPT_ID)))
        self._fields = fields._replace(ratings=tuple(f for f in fields.ratings if f.mapped))
        paths = filter(None, map(str.strip, columns.get(SCORE, "").split(ASIDE)))
        # The prefix of a tool's scores may be left out. One named twice is no second rating.
        named = {path.removeprefix(_OF_TOOLS): path for path in paths}
        self._asked = [
            Field(name, (path, _OF_TOOLS + name), mapped=True) for name, path in named.items()
        ]
        self._taken = {path for asked in self._asked for path in asked.paths}
        self._taken = self._taken or {*_USUAL, _ATTRIBUTE}
        as_it_is = fields.prompt.mapped or fields.response.mapped
        self._wanted = Wanted(
            self._fields.paths | self._taken,
            others=True,
            numbers=self._taken,
            logs="" if as_it_is else "scores",
        )
        self._system = next(iter(fields.systems), Field(SYSTEM_COLUMN, (by or SYSTEM_COLUMN,)))
        self._notify, self._skip_bad_rows = notify, skip_bad_rows
        self._prompts: dict[str, str] = {}  # of each sample
        self._texts: set[str] = set()  # a tool's columns that hold texts
        self._numeric: set[str] = set()  # attributes with other scores than words

    def read(self, name: str, prefix: str = "") -> Scored:
        """Read the file ``name``, or those that a glob matches. ``prefix`` begins the ids of rows without a system.

        Raises:
            InputError: a file cannot be read, or holds no scores.
        """
        scored, further = Scored(expanded([name])), FurtherColumns()
        further.enter(self._fields)
        self._skipped, self._other_prompts = 0, 0
        self._again: set[str] = set()
        for file in scored.files:
            with opened(file, self._wanted) as source:
                self._take(source, scored, further, prefix)
            scored.scales |= workbooks.scales_in(file)
        words = {attribute: Scale(0, 1) for attribute in scored.scores.keys() - self._numeric}
        scored.scales = words | scored.scales
        prompts = {pair.prompt for pair in scored.pairs.values()}
        scored.has_prompts |= len(prompts) < len(scored.pairs)
        for note in self._notes(name, scored):
            self._notify(note)
        return scored

    def _notes(self, name: str, scored: Scored) -> Iterator[str]:
        if self._skipped:
            yield f"{name}: {number_of(self._skipped, 'bad row')} left out (--skip-bad-rows)"
        if self._again:
            yield (
                f"{name}: {number_of(len(self._again), 'sample')} of several files of one system count as rated several times; "
                "if these are of several systems, name the files one by one, or the column of systems (--columns system=NAME)"
            )
        if not scored.has_prompts:
            yield (
                f"{name} has no prompts: each of its {number_of(len(scored.pairs), 'pair')} counts as a prompt of its own; if "
                "several answer one prompt, export it with --with-text, or name the column of prompts: --columns prompt=NAME"
            )
        if self._other_prompts:
            yield (
                f"{name}: {number_of(self._other_prompts, 'sample')} with another prompt than the same id has elsewhere; they "
                "count as the same. With --columns id=- samples are matched by their prompts"
            )

    def _take(
        self, source: OpenedSource, scored: Scored, further: FurtherColumns, prefix: str
    ) -> None:
        names = source.table.names
        earlier = frozenset(scored.pairs)
        further.leave_out_twice(names or (), self._wanted.names)
        for number, row in source.table.rows:
            try:
                if isinstance(row, BadRow):
                    raise row
                names = names or list(names_in(row))
                pair = self._pair(row, further, prefix)
                scored.has_prompts |= bool(_word(find(row, self._fields.prompt)))
                scored.pairs.setdefault(pair.pair_id, pair)
                scored.prefixes[_word(find(row, self._system)) or prefix] = None
                self._again |= {pair.pair_id} & earlier
                for attribute, score in self._scores_in(row):
                    scored.scores.setdefault(attribute, []).append((pair.pair_id, score))
            except BadRow as bad:
                self._skipped += 1
                if not self._skip_bad_rows:
                    here = place(source.name, source.table.unit, number)
                    raise InputError(f"{here}: {bad}") from None
            if len(scored.scores) > _MOST_ATTRIBUTES:
                raise InputError(
                    f'{source.name}: scores of more than {_MOST_ATTRIBUTES} attributes. If the column "attribute" is none, '
                    "rename it; else split the file, or name some with --columns score=NAME|NAME"
                )
        for attribute in self._texts:
            scored.scores.pop(attribute, None)
        if not scored.scores:
            raise InputError(f"{source.name}: {self._no_scores(names or [])}")

    def _pair(self, row: Row, further: FurtherColumns, prefix: str) -> Pair:
        """Return the pair that a row scores. BadRow if the row has neither an id nor a prompt."""
        fields = self._fields
        row_id = _word(find(row, fields.id)) if fields.id else ""
        system = _word(find(row, self._system))
        prompt, response = _word(find(row, fields.prompt)), _word(find(row, fields.response))
        if not (row_id or prompt):
            listed = list_names(list(names_in(row)))
            raise BadRow(
                f"no id and no prompt name the scored sample; found {listed}. Use --columns id=NAME"
            )
        if row_id:
            first = self._prompts.setdefault(row_id, prompt or row_id)
            self._other_prompts += first != (prompt or row_id)
            prompt = first
        check_encodable(f"{system or prefix}{row_id}{prompt}{response}", "a text")
        parts = (system or prefix, row_id or pair_id_of(prompt, response))
        others = {name: value for name, value in row.items() if not self._is_score(name, value)}
        columns = further.of_row(others)
        if fields.systems and system:
            columns[SYSTEM_COLUMN] = system
        rated = {rating.name: _number(find(row, rating)) for rating in fields.ratings}
        human = {name: value for name, value in rated.items() if isfinite(value)}
        return Pair("/".join(filter(None, parts)), prompt, response, human, columns=columns)

    def _is_score(self, name: str, value: object) -> bool:
        is_of_tool = not self._asked and name.startswith(_OF_TOOLS)
        return name in self._taken or (is_of_tool and isfinite(_number(value)))

    def _scores_in(self, row: Row) -> Iterator[tuple[str, float]]:
        """Yield the scores of a row with their attributes: from the columns that the user named, else the usual and a tool's.

        Raises BadRow for a value that is not a score; a tool's columns with texts are left out instead.
        """
        columns = [(asked.name, find(row, asked), False) for asked in self._asked]
        if not columns:
            usual = [name for name in _USUAL if name in row][:1]
            columns = [(_word(row.get(_ATTRIBUTE)) or name, row[name], False) for name in usual]
            of_tools = [name for name in row if name.startswith(_OF_TOOLS)]
            columns += [(name.removeprefix(_OF_TOOLS), row[name], True) for name in of_tools]
        for name, value, is_of_tool in columns:
            for score in value if isinstance(value, list) else [value]:
                number = _number(score)
                if isfinite(number):
                    self._numeric |= set() if _is_word(score) else {name}
                    yield name, number
                elif not isnan(number) and is_of_tool:
                    self._texts.add(name)
                elif not isnan(number):
                    raise BadRow(
                        f'"{shown(name)}" is {shown(score)}, not a score. Use --columns score=NAME'
                    )

    def _no_scores(self, names: list[str]) -> str:
        empty = [name for name in names if name in self._taken - {_ATTRIBUTE}]
        if empty:
            return f'no row has a score in "{shown(empty[0])}". Fill it in, or name another column with --columns score=NAME'
        asked = (
            " or ".join(f'"{shown(field.path)}"' for field in self._asked) or f'called "{SCORE}"'
        )
        return f"no column of scores {asked}; found {list_names(names)}. Use --columns score=NAME, or several: score=NAME|NAME"


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
