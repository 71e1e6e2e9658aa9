"""Loading of prompts and responses as pairs, checked row by row; every error names its place and a next step."""

from __future__ import annotations

import gc
import hashlib
import re
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.data.checking import Held, check_ratings, check_row, id_of_two, mean, pair_id_of
from robin_cli.data.columns import Columns, FurtherColumns
from robin_cli.data.fields import (
    Field,
    Fields,
    fields_of,
    is_in,
    is_of_one_worker,
    names_in,
    no_such_fields,
    only_in,
    spread,
)
from robin_cli.data.growing_table import GrowingTable
from robin_cli.data.images import Images
from robin_cli.data.pair_table import AT_A_TIME, PairTable
from robin_cli.data.read import STDIN, Source, expanded, opened
from robin_cli.data.rows import BadRow, Row, Table, Wanted
from robin_cli.data.rows import place as place_of
from robin_cli.data.texts import give_back
from robin_cli.data.thinking import Thinking
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import PLACE_COLUMNS, SYSTEM_COLUMN, SYSTEM_COLUMNS, Pair, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["STDIN", "Dataset", "load_pairs", "pair_id_of"]

_NAMED = 3
AGAIN = "the same pair or id again"


@dataclass(frozen=True, slots=True)
class Dataset:
    """The pairs of one or more files, in order, with a record of the files.

    Attributes:
        skipped: the number of bad rows that were left out; ``left_out`` counts them by reason, ``first_left_out`` names a few.
        sha256: of the file's bytes as they are on disk, even if ``limit`` ended the reading early; for a data set of the hub,
            of the rows that were read; for several files, of their hashes.
        merged: the number of rows with further workers' ratings of an earlier pair.
        files: the names of the files that were read, each with its own SHA-256.
        columns_left_out: lines for the user about further columns that were not kept.
        notes: further lines for the user.
        repeated: the number of rows that repeat an earlier one, if they may.
        images: the folder that holds all image files; "" if there are no images.
    """

    pairs: PairTable
    skipped: int
    sha256: str
    source: str
    merged: int = 0
    files: tuple[tuple[str, str], ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    first_left_out: tuple[str, ...] = ()
    columns_left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    repeated: int = 0
    images: str = ""


def load_pairs(
    names: str | Path | BytesIO | Sequence[str | Path],
    *,
    called: str = "",
    columns: Mapping[str, str] | None = None,
    ratings: Iterable[str] = (),
    group: str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    encoding: str = "",
    strip_thinking: bool = False,
) -> Dataset:
    """Return the pairs of one or more files, in order, as one data set.

    A prompt must hold more than white space. A response may be empty: a model can give that answer, and a judge can rate it.
    A null response is missing, and an error; CSV and TSV have no null. An id is a text or a whole number; a row without one
    gets :func:`pair_id_of` its text, unless ``id`` is mapped. Ratings are finite numbers, also as text, or lists of them, of
    which the mean counts; null, NaN, an empty text and NA are no rating. Rows of Summarize From Feedback's axis files with the
    same texts are ratings of one pair by several workers, of which the mean counts.

    Args:
        names: each is a file, whose format the end of its name says; a glob, which stands for the files it matches, sorted;
            ``-`` for standard input; or an address: https, s3, gs, hf (a data set of the Hugging Face hub), or one that an
            installed package reads. Standard input and bytes in memory are read by their first bytes.
        called: the name of bytes in memory.
        columns: maps robin's names to the data's: prompt, response, id, reference, system, and any other name for a human
            rating. Dots lead into objects; a name that itself holds dots comes first. A dash means not to look for a field:
            ``{"id": "-"}`` makes every id from the text. Other fields are kept as the pair's columns, see
            :mod:`robin_cli.data.columns`. Without a mapping the fields of HelpSteer2 and Summarize From Feedback are found.
        ratings: further attributes; their human ratings are read from fields of the same names if the data have them.
        group: the field, with dots as above, whose value (a text or a whole number) responses share that belong together.
        skip_bad_rows: leave out rows that cannot be used, and later rows with the id of an earlier one.
        limit: the most good pairs to read in all.
        encoding: that of text files; "" to recognise it.
        strip_thinking: remove reasoning from the responses.

    Raises:
        InputError: a file or a row cannot be used, no row of a file can be used, or no row has a mapped field.
    """
    fields = fields_of(columns or {}, ratings, group)
    return gathered(
        names,
        fields,
        called=called,
        skip_bad_rows=skip_bad_rows,
        limit=limit,
        encoding=encoding,
        strip_thinking=strip_thinking,
    )


def gathered(
    names: str | Path | BytesIO | Sequence[str | Path],
    fields: Fields,
    *,
    of_two: Fields | None = None,
    may_repeat: bool = False,
    called: str = "",
    skip_bad_rows: bool = False,
    limit: int | None = None,
    encoding: str = "",
    strip_thinking: bool = False,
) -> Dataset:
    """Return the pairs as :func:`load_pairs`, with ``fields``, or ``of_two`` for a source whose rows hold two responses.

    ``may_repeat``: a row that repeats an earlier one is counted, and is not bad.
    """
    reading = _Reading(
        fields, of_two, skip_bad_rows=skip_bad_rows, limit=limit, may_repeat=may_repeat
    )
    reading.wanted = reading.wanted._replace(encoding=encoding)
    reading.thinking.strip = strip_thinking
    thresholds = gc.get_threshold()
    gc.set_threshold(
        100_000, *thresholds[1:]
    )  # rows hold no cycles: to look for them takes a tenth of the time
    try:
        if isinstance(names, BytesIO):
            with opened(names, reading.wanted, called) as source:
                reading.take(source)
            return reading.dataset()
        for name in expanded([names] if isinstance(names, (str, Path)) else names):
            with opened(name, reading.wanted) as source:
                reading.take(source)
            if reading.is_done:
                break
    finally:
        gc.set_threshold(*thresholds)
    return reading.dataset()


_WITH_IMAGES = (
    "images are sent along, for a model that takes them; "
    "tokens and costs before an answer are estimated without them"
)


_Numbered = tuple[int, "Row | BadRow"]


class _Part:
    """Some rows that are checked and stored together.

    Attributes:
        held: what the good rows hold, by place. ``bad``: why others are bad.
        human: the human ratings by attribute, and ``columns`` the further columns: a value for each row.
        kept: the places of the rows whose pairs are new. ``ids``: the ids of these pairs.
    """

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.bad: dict[int, BadRow] = {}
        self.human: dict[str, list[float | None]] = {}
        self.columns: Columns = {}
        self.kept: list[int] = []
        self.ids: list[str] = []

    def pair(self, at: int, pair_id: str) -> Pair:
        """Return the pair in the row at a place."""
        _, prompt, response, reference, group, other, _ = self.held[at]
        human, columns = _values_at(at, self.human), _values_at(at, self.columns)
        return Pair(pair_id, prompt, response, human, reference, group, columns, other)

    def made_id(self, at: int) -> str:
        """Return the id of the texts in the row at a place."""
        held = self.held[at]
        if held.other is None:
            return pair_id_of(held.prompt, held.response)
        return id_of_two(held.prompt, held.response, held.other, _values_at(at, self.columns))

    def columns_of_kept(
        self,
    ) -> tuple[Sequence[str], Sequence[Held], dict[str, list[Any]], dict[str, list[Any]]]:
        """Return the ids, the texts, the human ratings and the further columns of the new pairs."""
        human, columns = (
            {name: [values[at] for at in self.kept] for name, values in each.items()}
            for each in (self.human, self.columns)
        )
        return self.ids, [self.held[at] for at in self.kept], human, columns


def _values_at(at: int, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    values = ((name, column[at]) for name, column in columns.items())
    return {name: value for name, value in values if value is not None}


class _Reading:
    """Reads the rows of several sources as pairs: ids are unique over all of them, and workers' ratings of a pair merge."""

    def __init__(
        self,
        fields: Fields,
        of_two: Fields | None = None,
        *,
        skip_bad_rows: bool,
        limit: int | None,
        may_repeat: bool,
    ) -> None:
        if limit is not None and limit < 1:
            raise InputError(
                f"--limit {limit}: at least one pair is needed. Use --limit 1 or more."
            )
        self._fields, self._of_two = fields, of_two
        self._skip_bad_rows, self._limit, self._may_repeat = skip_bad_rows, limit, may_repeat
        either = fields if of_two is None else _either(fields, of_two)
        self._further = FurtherColumns(either)
        # If the user maps the prompt or the response, a tool's log is read as any other data.
        as_it_is = either.prompt.mapped or either.response.mapped
        self.wanted = Wanted(
            either.paths, others=True, numbers=either.numbers, logs="" if as_it_is else "pairs"
        )
        self._sources: list[Source] = []
        self._images = Images()
        self.thinking = Thinking()
        # with the human ratings of each pair's first row; the means come at the end
        self._pairs = GrowingTable()
        self._places: dict[str, int] = {}  # of the pairs by their ids
        self._starts: list[int] = []  # the first pair of each source
        self._numbers = array("Q")  # each pair's row number in its source
        self._later: dict[int, list[Mapping[str, float]]] = {}
        self._merged = self._repeated = 0
        self._is_by_workers = False
        self._reasons: Counter[str] = Counter()
        self._first_bad: list[str] = []

    @property
    def _count(self) -> int:
        return len(self._numbers)

    @property
    def _room(self) -> int:
        """How many more pairs the limit allows; 0 if it is reached, or there is none."""
        return self._limit - self._count if self._limit else 0

    @property
    def _used(self) -> int:
        """The rows that were used, those that repeat or merge with others included."""
        return self._count + self._merged + self._repeated

    @property
    def _is_full(self) -> bool:
        return len(self._numbers) == self._limit

    @property
    def is_done(self) -> bool:
        """Whether no further row can matter: the limit is reached, and no more workers' ratings may come."""
        return self._is_full and not self._is_by_workers

    def take(self, source: Source) -> None:
        """Add the rows of a source, until :attr:`is_done`.

        Raises InputError for a bad row unless they are skipped, for a source without a usable row, and if no row has a field
        that was mapped to a rating: without a header, a misspelt name looks like an absent rating.
        """
        table, fields = _with_fields(source.table, self._fields, self._of_two)
        table = spread(table, fields, source.name) if fields.beside else table
        if table.names is not None:
            _check(fields, table.names, source.name)
            self._further.leave_out_twice(source.table.names or (), self.wanted.names)
        self._sources.append(source)
        self._starts.append(self._count)
        rows = table.rows
        missing = [field for field in fields.ratings if field.mapped and table.names is None]
        names: list[str] = []
        if missing:
            rows = _seeking(rows, missing, names)
        before, bad = self._used, self._reasons.total()
        first_error = self._take_rows(rows, fields, source)
        if before == self._used and not self._is_full:
            read = self._reasons.total() - bad
            raise InputError(
                f"{source.name}: not one row can be used ({read} read). The first: {first_error}"
                if first_error
                else f"{source.name}: the file has no rows. Check that it was written or downloaded to its end."
            )
        if missing:
            raise InputError(f"{source.name}: {no_such_fields(missing, names, fields)}")

    def _take_rows(self, rows: Iterator[_Numbered], fields: Fields, source: Source) -> str:
        """Add rows until :attr:`is_done`; return the error of the first one that was left out."""
        fields = fields._replace(
            taking=self._images.beside(source.path or source.name), thinking=self.thinking
        )
        first_error, failure = "", None
        while failure is None and not (self._limit and self.is_done):
            part: list[_Numbered] = []
            try:  # no row after the last pair is read, so that no error in it is raised
                part.extend(islice(rows, min(AT_A_TIME, self._room or AT_A_TIME)))
            except InputError as error:
                failure = error  # of the reader; those of the rows before it come first
            if not part:
                break
            first_error = self._take_part(part, fields, source, first_error)
        if failure is not None:
            raise failure
        return first_error

    def _take_part(
        self, numbered: Sequence[_Numbered], fields: Fields, source: Source, first_error: str
    ) -> str:
        """Keep the pairs in some rows, or merge them with those of the same ids; return the first error of all rows."""
        part = self._part = self._check([row for _, row in numbered], fields)
        for at, (number, row) in enumerate(numbered):
            try:
                if isinstance(row, BadRow) or at in part.bad:
                    raise part.bad[at]
                held = part.held[at]
                pair_id = held.own_id or part.made_id(at)
                if held.own_id is None:  # a person does not find a hash in the file
                    name = PLACE_COLUMNS[source.table.unit]
                    part.columns.setdefault(name, [None] * len(numbered))[at] = number
                place = self._places.get(pair_id)
                if place is not None:
                    pair_id, place = self._take_again(
                        place, part.pair(at, pair_id), held, row, fields
                    )
                if place is None and not self._is_full:
                    self._places[pair_id] = self._count
                    part.kept.append(at)
                    part.ids.append(pair_id)
                    self._numbers.append(number)
                    if self._count == self._limit:
                        self._is_by_workers = is_of_one_worker(row, fields)
            except BadRow as error:
                if not self._is_full:
                    said = f"{place_of(source.name, source.table.unit, number)}: {error}"
                    is_usual = 2 * len(part.bad) > len(numbered)
                    self._leave_out(error.reason, _without_skipping(said) if is_usual else said)
                    first_error = first_error or _without_skipping(said)
        if part.kept:
            self._pairs.add(*part.columns_of_kept())
        return first_error

    def _check(self, rows: Sequence[Row | BadRow], fields: Fields) -> _Part:
        """Check the texts of rows one by one, and the ratings and further columns of those with the same keys together."""
        part = _Part()
        by_keys: dict[tuple[str, ...], dict[int, Row]] = {}
        for at, row in enumerate(rows):
            if isinstance(row, BadRow):
                part.bad[at] = row
            else:
                by_keys.setdefault(tuple(row), {})[at] = row
        for alike in by_keys.values():
            of_keys = only_in(fields, next(iter(alike.values())))
            for at, row in alike.items():
                try:
                    part.held[at] = check_row(row, of_keys)
                except BadRow as error:
                    part.bad[at] = error
            for rated in of_keys.ratings:
                places = [at for at in alike if at not in part.bad]
                ratings = part.human.setdefault(rated.name, [None] * len(rows))
                of_two = of_keys.other is not None
                checked = check_ratings([alike[at] for at in places], rated, of_two=of_two)
                for at, rating in zip(places, checked, strict=True):
                    if isinstance(rating, BadRow):
                        part.bad[at] = rating
                    else:
                        ratings[at] = rating
            good = [at for at in alike if at not in part.bad]
            names = [field.name for field in of_keys.systems]
            systems = {name: [part.held[at].systems[name] for at in good] for name in names}
            columns, bad = self._further.of_rows([alike[at] for at in good], systems)
            part.bad |= {good[place]: error for place, error in bad.items()}
            for name, values in columns.items():
                column = part.columns.setdefault(name, [None] * len(rows))
                for at, value in zip(good, values, strict=True):
                    column[at] = value
        return part

    def _take_again(
        self, place: int, pair: Pair, held: Held, row: Row, fields: Fields
    ) -> tuple[str, int | None]:
        """Merge a pair with the one of its id; or return another id, if another system gave the answer. BadRow if neither."""
        first = self._pair(place)
        if held.own_id is None and _is_of_another(pair, first):
            text = f"{pair.response}\0{pair.columns[SYSTEM_COLUMN]}"
            pair = replace(pair, pair_id=pair_id_of(pair.prompt, text))
            found = self._places.get(pair.pair_id)
            if found is None:
                return pair.pair_id, None
            place, first = found, self._pair(found)
        is_by_worker = is_of_one_worker(row, fields)
        self._merge(
            place, first, pair, is_by_worker=is_by_worker, has_own_id=held.own_id is not None
        )
        return pair.pair_id, place

    def _pair(self, place: int) -> Pair:
        """Return a pair that was read, also one that is not stored yet."""
        at = place - len(self._pairs)
        return (
            self._pairs[place]
            if at < 0
            else self._part.pair(self._part.kept[at], self._part.ids[at])
        )

    def _merge(
        self, at: int, first: Pair, pair: Pair, *, is_by_worker: bool, has_own_id: bool
    ) -> None:
        """Merge a pair with the ``first`` one of its id. BadRow unless another worker rated it, or it may repeat."""
        merges = is_by_worker and (first.prompt, first.response) == (pair.prompt, pair.response)
        merges = merges and not _is_of_another(pair, first)
        if merges and first.group == pair.group:
            self._later.setdefault(at, []).append(pair.human)
            self._merged += 1
        elif self._may_repeat and _says_the_same(pair, first):
            self._repeated += 1
        else:
            before = self._place_of(at)
            if merges:
                raise BadRow(
                    f'the same texts belong to the group "{shown(first.group)}" in {before}, and to '
                    f'"{shown(pair.group)}" here. Correct one of them, or leave the later '
                    "ones out with --skip-bad-rows.",
                    "the same pair in another group",
                )
            raise BadRow(_again(pair, before, has_own_id=has_own_id), AGAIN)

    def _place_of(self, at: int) -> str:
        """Return where a pair was read, as an error in the current source names it."""
        source = self._sources[bisect_right(self._starts, at) - 1]
        unit, number = source.table.unit, self._numbers[at]
        is_here = source is self._sources[-1]
        return f"{unit} {number}" if is_here else place_of(source.name, unit, number)

    def _leave_out(self, reason: str, error: str) -> None:
        if not self._skip_bad_rows:
            raise InputError(error) from None
        self._reasons[reason] += 1
        if len(self._first_bad) < _NAMED:  # without the next step, which --skip-bad-rows has taken
            self._first_bad.append(error.partition(". ")[0])

    def dataset(self) -> Dataset:
        """Return the data set. A human rating by several workers is the mean of theirs."""
        pairs = self._pairs.table(self._further.forgotten)
        self._places = {}
        give_back()
        if self._later:
            pairs = PairTable.of(map(self._with_means, range(len(pairs)), pairs))
        files = tuple((source.name, source.sha256()) for source in self._sources)
        names_read, hashes = zip(*files, strict=True)
        return Dataset(
            pairs,
            self._reasons.total(),
            hashes[0]
            if len(hashes) == 1
            else hashlib.sha256("\n".join(hashes).encode()).hexdigest(),
            ", ".join(names_read[:3])
            + (f" and {len(names_read) - 3} more" if len(names_read) > 3 else ""),
            self._merged,
            files,
            dict(self._reasons.most_common()),
            tuple(self._first_bad),
            tuple(self._further.left_out),
            (*([_WITH_IMAGES] if self._images.folder else []), *self.thinking.notes()),
            repeated=self._repeated,
            images=self._images.folder,
        )

    def _with_means(self, at: int, pair: Pair) -> Pair:
        """Return the pair with the mean of all workers' ratings of each attribute."""
        rated = [pair.human, *self._later.get(at, ())]
        names = dict.fromkeys(name for each in rated for name in each)
        return replace(
            pair,
            human={name: mean([each[name] for each in rated if name in each]) for name in names},
        )


def _without_skipping(error: str) -> str:
    """Return an error without the advice to leave such rows out: most rows are such."""
    return re.sub(
        r",? or (?:leave|keep)[^.]*--skip-bad-rows| Leave [^.]*--skip-bad-rows\.", "", error
    )


def _again(pair: Pair, before: str, *, has_own_id: bool) -> str:
    """Return the message for a pair with the id of the one at ``before``."""
    if has_own_id:
        return (
            f'the id "{shown(pair.pair_id)}" is also that of {before}. Give each row an id of its own, make ids from '
            "the text (--columns id=-), or keep the first of each with --skip-bad-rows."
        )
    two = pair.other is not None
    other = " or, if two systems gave this answer, one that names these (--columns system=NAME)"
    return (
        f"the same prompt and response{'s' * two} as {before}. Remove one of them, name a field with ids of their own "
        f"(--columns id=NAME){'' if two else other}, or keep the first of each with --skip-bad-rows."
    )


def _seeking(
    rows: Iterator[_Numbered], missing: list[Field], names: list[str]
) -> Iterator[_Numbered]:
    """Yield the rows, and remove the fields that any of them has from ``missing``; ``names`` become those of the last row."""
    for number, row in rows:
        if missing and isinstance(row, dict):
            names[:] = names_in(row)
            missing[:] = [field for field in missing if not is_in(row, field)]
        yield number, row


def _is_of_another(pair: Pair, first: Pair) -> bool:
    """Return whether another system gave the answer of ``first``."""
    return SYSTEM_COLUMN in pair.columns and _systems(pair) != _systems(first)


def _says_the_same(pair: Pair, first: Pair) -> bool:
    """Return whether two rows hold the same responses to a prompt, of the same systems, in any order."""

    def responses(each: Pair) -> list[tuple[str, str | None]]:
        texts = [text for text in (each.response, each.other) if text is not None]
        return sorted(zip(texts, _systems(each), strict=True), key=str)

    return pair.prompt == first.prompt and responses(pair) == responses(first)


def _systems(pair: Pair) -> list[str | None]:
    """Return the systems of a pair's responses, as texts: those of stored pairs may have changed type."""
    names = (SYSTEM_COLUMN,) if pair.other is None else SYSTEM_COLUMNS
    return [as_text(pair.columns[name]) if name in pair.columns else None for name in names]


def _either(fields: Fields, of_two: Fields) -> Fields:
    """Return the fields of rows with one response or with two."""
    responses = of_two.response._replace(paths=(*of_two.response.paths, *fields.response.paths))
    return of_two._replace(response=responses)


def _with_fields(table: Table, fields: Fields, of_two: Fields | None) -> tuple[Table, Fields]:
    """Return a table and its fields: ``of_two`` if its columns, or its first row, have one of two responses."""
    if of_two is None:
        return table, fields
    before: list[tuple[int, Row | BadRow]] = []
    rows, names = table.rows, table.names
    if names is None:
        for each in rows:
            before.append(each)
            if isinstance(each[1], dict):
                names = list(each[1])
                break
    holds_two = any(
        field is not None and field.is_among(names or ())
        for field in (of_two.response, of_two.other)
    )
    return table._replace(rows=chain(iter(before), rows)), of_two if holds_two else fields


def _check(fields: Fields, names: list[str], source: str) -> None:
    """Raise InputError if a required or a mapped field is not among the columns."""
    needed = dict.fromkeys(
        [*fields.required(), *(field for field in fields.ratings if field.mapped)]
    )
    in_chat = [fields.prompt] if fields.response.mapped else []  # the response may be a chat
    if fields.chat and fields.chat.is_among(names):
        in_chat += [fields.response, fields.prompt]
    missing = [
        field
        for field in needed
        if not field.is_among(names) and (field.mapped or field not in in_chat)
    ]
    if missing:
        raise InputError(f"{source}: {no_such_fields(missing, names, fields)}")
