"""Loading of prompts and responses as pairs, checked row by row; every error names its place and a next step."""

from __future__ import annotations

import gc
import hashlib
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.data.checking import Held, RowReader, pair_id_of
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.fields import (
    Field,
    Fields,
    fields_of,
    is_in,
    is_of_one_worker,
    names_in,
    spread,
)
from robin_cli.data.growing_table import GrowingTable
from robin_cli.data.hints import explain_missing
from robin_cli.data.human_ratings import mean
from robin_cli.data.pair_table import AT_A_TIME, PairTable
from robin_cli.data.read import STDIN, OpenedSource, expanded, opened
from robin_cli.data.rows import BadRow, Row, Wanted
from robin_cli.data.rows import place as place_of
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, Pair, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["STDIN", "Dataset", "load_pairs", "pair_id_of"]

_LISTED = 3

Names = str | Path | BytesIO | Sequence[str | Path]
_Numbered = tuple[int, Row | BadRow]


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
        numbers: the line or row of each pair in its file.
        sheet: the sheet of the last workbook, and its row of the columns' names; "" and 0 without one.
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
    numbers: Sequence[int] = ()
    sheet: tuple[str, int] = ("", 0)


def load_pairs(
    names: Names,
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

    A prompt must hold more than white space. A response may be empty: a model can give that answer. An id is a text or a whole
    number; a row without one gets :func:`pair_id_of` its text, unless ``id`` is mapped. A list of ratings, and rows of several
    workers with the same texts, count as their mean; null, NaN, an empty text and NA are no rating.

    Args:
        names: files, quoted globs, ``-`` for standard input, or addresses (https, s3, gs, hf, or one that an installed package
            reads). Names end in the format; standard input and bytes in memory are read by their first bytes.
        called: the name of bytes in memory.
        columns: maps robin's names to the data's: prompt, response, id, reference, system, image, and any other name for a
            human rating. Dots lead into objects; a name that itself holds dots comes first. A dash means not to look for a
            field. Other fields are kept, see :mod:`robin_cli.data.columns`.
        ratings: further attributes; their human ratings are read from fields of the same names if the data have them.
        group: the field whose value (a text or a whole number) responses share that belong together.
        skip_bad_rows: leave out rows that cannot be used, and later rows with the id of an earlier one.
        limit: the most good pairs to read in all.
        encoding: that of text files; "" to recognise it.
        strip_thinking: remove reasoning from the responses.

    Raises:
        InputError: a file or a row cannot be used, no row of a file can be used, or no row has a mapped field.
    """
    gathering = Gathering(
        fields_of(columns or {}, ratings, group),
        skip_bad_rows=skip_bad_rows,
        limit=limit,
        encoding=encoding,
        strip_thinking=strip_thinking,
    )
    return gathering.read(names, called)


class Gathering:
    """Gathers the pairs of several sources: ids are unique over all of them, and workers' ratings of a pair merge.

    Args:
        of_two: the fields of a source whose rows hold two responses, if some may.
        may_repeat: a row that repeats an earlier one is counted, and is not bad.
    """

    def __init__(
        self,
        fields: Fields,
        of_two: Fields | None = None,
        *,
        skip_bad_rows: bool = False,
        limit: int | None = None,
        encoding: str = "",
        strip_thinking: bool = False,
        may_repeat: bool = False,
    ) -> None:
        if limit is not None and limit < 1:
            raise InputError(
                f"--limit {limit}: at least one pair is needed. Use --limit 1 or more."
            )
        self._fields, self._of_two = fields, of_two
        self._skip_bad_rows, self._limit, self._may_repeat = skip_bad_rows, limit, may_repeat
        either = [fields, of_two] if of_two else [fields]
        # If the user maps the prompt or the response, a tool's log is read as any other data.
        as_it_is = any(fields.prompt.mapped or fields.response.mapped for fields in either)
        self._wanted = Wanted(
            frozenset(chain.from_iterable(fields.paths for fields in either)),
            others=True,
            numbers=frozenset(chain.from_iterable(fields.numbers for fields in either)),
            encoding=encoding,
            logs="" if as_it_is else "pairs",
        )
        self._further = FurtherColumns()
        self._reader = RowReader(self._further, strip_thinking=strip_thinking)
        self._sources: list[OpenedSource] = []
        self._starts: list[int] = []  # the first pair of each source
        self._stored = GrowingTable()
        self._latest: list[Held] = []  # not stored yet
        self._places: dict[str, int] = {}  # of the pairs by their ids
        self._numbers = array("Q")  # each pair's row number in its source
        self._later: dict[int, list[Mapping[str, float]]] = {}  # ratings by further workers
        self._merged = self._repeated = 0
        self._is_full = False
        self._is_done = False  # full, and no more workers' ratings may come
        self._reasons: Counter[str] = Counter()
        self._first_bad: list[str] = []

    def read(self, names: Names, called: str = "") -> Dataset:
        """Return the pairs of sources, which are named as for :func:`load_pairs`. Raises InputError as there."""
        thresholds = gc.get_threshold()
        # rows hold no cycles: to look for them takes a tenth of the time
        gc.set_threshold(100_000, *thresholds[1:])
        try:
            if isinstance(names, BytesIO):
                with opened(names, self._wanted, called) as source:
                    self._take(source)
                return self._dataset()
            for name in expanded([names] if isinstance(names, (str, Path)) else names):
                if not self._is_done:
                    with opened(name, self._wanted) as source:
                        self._take(source)
            return self._dataset()
        finally:
            gc.set_threshold(*thresholds)

    def _take(self, source: OpenedSource) -> None:
        """Add the rows of a source, as long as they can matter.

        Raises InputError for a bad row unless they are skipped, for a source without a usable row, and if no row has a field
        that was mapped to a rating: without a header, a misspelt name looks like an absent rating.
        """
        names, rows = source.table.names, source.table.rows
        fields = self._fields
        if self._of_two:
            is_two, rows = _hold_two(names, rows, self._of_two)
            fields = self._of_two if is_two else fields
        if names is not None:
            _check_header(fields, names, source.name)
            self._further.leave_out_twice(names, self._wanted.names)
        self._sources.append(source)
        self._starts.append(len(self._numbers))
        self._reader.enter(fields, source.path or source.name, source.table.unit)
        missing = [rated for rated in fields.ratings if rated.mapped and names is None]
        used, skipped, first_error = self._used, self._reasons.total(), ""
        rows = spread(rows, fields) if fields.beside else rows
        while not self._is_done and (numbered := next(rows, None)):
            number, row = numbered
            if missing and isinstance(row, dict):
                names = list(names_in(row))
                missing = [rated for rated in missing if not is_in(row, rated)]
            try:
                self._add(number, row)
            except BadRow as bad:
                if not self._is_full:
                    error = f"{place_of(source.name, source.table.unit, number)}: {bad}"
                    first_error = first_error or _without_skipping(error)
                    self._leave_out(error, bad.reason, rows)
        if used == self._used and not self._is_full:
            count = self._reasons.total() - skipped
            raise InputError(
                f"{source.name}: not one row can be used ({count} read). The first: {first_error}"
                if first_error
                else f"{source.name}: the file has no rows. Check that it was written or downloaded to its end."
            )
        if missing:
            raise InputError(f"{source.name}: {explain_missing(missing, names or [], fields)}")

    def _leave_out(self, error: str, reason: str, rows: Iterator[_Numbered]) -> None:
        """Count a bad row if these are skipped, else raise InputError. ``rows`` are those after it."""
        if not self._skip_bad_rows:
            # Look at the next rows: if most of them are bad, to skip them would leave little.
            total, bad = 1 + len(self._numbers) - self._starts[-1], 1
            with suppress(InputError):
                for number, row in islice(rows, AT_A_TIME):
                    total += 1
                    try:
                        self._reader.read(row, number)
                    except BadRow:
                        bad += 1
            raise InputError(_without_skipping(error) if 2 * bad > total else error) from None
        self._reasons[reason] += 1
        if len(self._first_bad) < _LISTED:  # without the next step, which is taken
            self._first_bad.append(error.partition(". ")[0])

    @property
    def _used(self) -> int:
        """The rows that were used, those that repeat or merge with others included."""
        return len(self._numbers) + self._merged + self._repeated

    def _add(self, number: int, row: Any) -> None:
        """Keep the pair in a row, or merge it with that of the same id. BadRow if neither can be done."""
        held = self._reader.read(row, number)
        place = self._places.get(held.pair_id)
        if place is not None and not held.has_id and _is_of_another(held, self._pair(place)):
            text = f"{held.response}\0{held.columns[SYSTEM_COLUMN]}"
            held = held._replace(pair_id=pair_id_of(held.prompt, text))
            place = self._places.get(held.pair_id)
        if place is not None:
            self._merge(place, held, is_by_worker=is_of_one_worker(row, self._reader.fields))
        elif not self._is_full:
            self._places[held.pair_id] = len(self._numbers)
            self._numbers.append(number)
            self._latest.append(held)
            self._is_full = len(self._numbers) == self._limit
            if self._is_full:
                self._is_done = not is_of_one_worker(row, self._reader.fields)
            if len(self._latest) == AT_A_TIME:
                self._store()

    def _store(self) -> None:
        self._stored.add_pairs(self._latest)
        self._latest = []

    def _pair(self, place: int) -> Pair | Held:
        """Return a pair that was read, also one that is not stored yet."""
        at = place - len(self._stored)
        return self._stored[place] if at < 0 else self._latest[at]

    def _merge(self, place: int, pair: Held, *, is_by_worker: bool) -> None:
        """Merge a pair with the one of its id. BadRow unless another worker rated it, or it may repeat."""
        first, before = self._pair(place), self._place_of(place)
        has_same_texts = (first.prompt, first.response) == (pair.prompt, pair.response)
        is_verdict = bool(pair.other and pair.human) and _says_the_same(pair, first)
        is_rating = is_by_worker and has_same_texts and not _is_of_another(pair, first)
        if is_verdict or is_rating:
            if first.group != pair.group:
                raise BadRow(
                    f'the same texts belong to the group "{shown(first.group)}" in {before}, and to "{shown(pair.group)}" '
                    "here. Correct one of them, or leave the later ones out with --skip-bad-rows.",
                    "the same pair in another group",
                )
            human = pair.human
            if is_verdict and not has_same_texts:  # A and B have changed places
                human = {name: 1 - share for name, share in human.items()}
            self._later.setdefault(place, []).append(human)
            self._merged += 1
        elif self._may_repeat and _says_the_same(pair, first):
            self._repeated += 1
        else:
            raise BadRow(_explain_repeat(pair, before), "the same pair or id again")

    def _place_of(self, place: int) -> str:
        """Return where a pair was read, as an error in the current source names it."""
        source = self._sources[bisect_right(self._starts, place) - 1]
        unit, number = source.table.unit, self._numbers[place]
        is_here = source is self._sources[-1]
        return f"{unit} {number}" if is_here else place_of(source.name, unit, number)

    def _dataset(self) -> Dataset:
        """Return the data set. A human rating by several workers is the mean of theirs."""
        self._places = {}
        self._store()
        pairs = self._stored.table(self._further.forgotten)
        if self._later:
            pairs = PairTable.from_pairs(map(self._with_means, range(len(pairs)), pairs))
        files = tuple((source.name, source.sha256()) for source in self._sources)
        names, hashes = zip(*files, strict=True)
        images, thinking = self._reader.images, self._reader.thinking
        return Dataset(
            pairs,
            self._reasons.total(),
            hashes[0]
            if len(hashes) == 1
            else hashlib.sha256("\n".join(hashes).encode()).hexdigest(),
            ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""),
            self._merged,
            files,
            dict(self._reasons.most_common()),
            tuple(self._first_bad),
            tuple(self._further.left_out),
            (*images.notes(), *thinking.notes()),
            repeated=self._repeated,
            images=images.folder,
            numbers=self._numbers,
            sheet=(self._sources[-1].table.sheet, self._sources[-1].table.header),
        )

    def _with_means(self, place: int, pair: Pair) -> Pair:
        """Return the pair with the mean of all workers' ratings of each attribute."""
        rated = [pair.human, *self._later.get(place, ())]
        names = dict.fromkeys(chain.from_iterable(rated))
        return replace(
            pair,
            human={name: mean([human[name] for human in rated if name in human]) for name in names},
        )


def _hold_two(
    names: list[str] | None, rows: Iterator[_Numbered], of_two: Fields
) -> tuple[bool, Iterator[_Numbered]]:
    """Return whether a source's columns, or its first row, have one of two responses, and all of its rows."""
    before: list[_Numbered] = []
    while names is None and (numbered := next(rows, None)):
        before.append(numbered)
        names = list(numbered[1]) if isinstance(numbered[1], dict) else None
    sides = filter(None, (of_two.response, of_two.other))
    return any(side.is_among(names or ()) for side in sides), chain(before, rows)


def _check_header(fields: Fields, names: list[str], source: str) -> None:
    """Raise InputError if a required or a mapped field is not among the columns."""
    needed: list[Field] = [*fields.required(), *(rated for rated in fields.ratings if rated.mapped)]
    if fields.beside:
        made = {SYSTEM_COLUMN, *(field.name for field in next(iter(fields.beside.values())))}
        needed = [field for field in needed if field.path not in made]
        needed += chain.from_iterable(fields.beside.values())
    has_chat = fields.chat is not None and fields.chat.is_among(names)
    in_chat = [fields.prompt, fields.response] if has_chat else []
    if fields.response.mapped:  # which may be a chat
        in_chat.append(fields.prompt)
    missing = [
        field
        for field in needed
        if not field.is_among(names) and (field.mapped or field not in in_chat)
    ]
    if missing:
        raise InputError(f"{source}: {explain_missing(missing, names, fields)}")


def _without_skipping(error: str) -> str:
    """Return an error without the advice to leave such rows out: most rows are such."""
    return re.sub(
        r",? or (?:leave|keep)[^.]*--skip-bad-rows| Leave [^.]*--skip-bad-rows\.", "", error
    )


def _explain_repeat(pair: Held, before: str) -> str:
    """Return the message for a pair with the id of the one at ``before``."""
    keep = "or keep the first of each with --skip-bad-rows."
    if pair.has_id:
        return (
            f'the id "{shown(pair.pair_id)}" is also that of {before}. Give each row an id of its own, make ids from '
            f"the text (--columns id=-), {keep}"
        )
    plural, systems = "s", ""
    if pair.other is None:
        plural = ""
        systems = (
            " or, if two systems gave this answer, one that names these (--columns system=NAME)"
        )
    return (
        f"the same prompt and response{plural} as {before}. Remove one of them, name a field with ids of their own "
        f"(--columns id=NAME){systems}, {keep}"
    )


def _is_of_another(pair: Held, first: Pair | Held) -> bool:
    """Return whether another system gave the answer of ``first``."""
    return SYSTEM_COLUMN in pair.columns and _systems(pair) != _systems(first)


def _says_the_same(pair: Held, first: Pair | Held) -> bool:
    """Return whether two rows hold the same responses to a prompt, of the same systems, in any order."""

    def responses(pair: Pair | Held) -> list[tuple[str, str | None]]:
        texts = [text for text in (pair.response, pair.other) if text is not None]
        return sorted(zip(texts, _systems(pair), strict=True), key=str)

    return pair.prompt == first.prompt and responses(pair) == responses(first)


def _systems(pair: Pair | Held) -> list[str | None]:
    """Return the systems of a pair's responses, as texts: those of stored pairs may have changed type."""
    names = (SYSTEM_COLUMN,) if pair.other is None else SYSTEM_COLUMNS
    return [as_text(pair.columns[name]) if name in pair.columns else None for name in names]
