"""Loading of prompts and responses as pairs, checked row by row; every error names its place and a next step."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from robin_cli.data.batches import Batch
from robin_cli.data.checking import mean, pair_id_of
from robin_cli.data.columns import FurtherColumns
from robin_cli.data.fields import (
    Fields,
    fields_of,
    is_in,
    is_of_one_worker,
    names_in,
    no_such_fields,
    spread,
)
from robin_cli.data.images import Images
from robin_cli.data.logs import as_pairs
from robin_cli.data.pair_table import GrowingTable, PairTable
from robin_cli.data.rows import BadRow, Part, Row, Table, Wanted, no_collector, place
from robin_cli.data.seen import Seen
from robin_cli.data.sources import STDIN, Source, expanded, in_memory, opened
from robin_cli.data.texts import give_back
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from robin_cli.model.records import Pair

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

    Raises:
        InputError: a file or a row cannot be used, no row of a file can be used, or no row has a mapped field.
    """
    fields = fields_of(columns or {}, ratings, group)
    return gathered(names, fields, called=called, skip_bad_rows=skip_bad_rows, limit=limit)


def gathered(
    names: str | Path | BytesIO | Sequence[str | Path],
    fields: Fields,
    *,
    of_two: Fields | None = None,
    may_repeat: bool = False,
    called: str = "",
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """Return the pairs as :func:`load_pairs`, with ``fields``, or ``of_two`` for a source whose rows hold two responses.

    ``may_repeat``: a row that repeats an earlier one is counted, and is not bad.
    """
    gathering = _Gathering(
        fields, of_two, skip_bad_rows=skip_bad_rows, limit=limit, may_repeat=may_repeat
    )
    with no_collector():
        if isinstance(names, BytesIO):
            gathering.take(in_memory(names, called, gathering.wanted))
            return gathering.dataset()
        for name in expanded([names] if isinstance(names, (str, Path)) else names):
            with opened(name, gathering.wanted) as source:
                gathering.take(source)
            if gathering.done:
                break
    return gathering.dataset()


_AT_A_TIME = 2**9
"""The most rows that are checked together."""

_WITH_IMAGES = (
    "images are sent along, for a model that takes them; "
    "tokens and costs before an answer are estimated without them"
)

_Numbered = tuple[int, "Row | BadRow"]


class _Gathering:
    """Makes pairs of the rows of several sources: ids are unique over all of them, and workers' ratings of a pair merge."""

    def __init__(
        self,
        fields: Fields,
        of_two: Fields | None = None,
        *,
        skip_bad_rows: bool,
        limit: int | None,
        may_repeat: bool = False,
    ) -> None:
        if limit is not None and limit < 1:
            raise InputError(
                f"--limit {limit}: at least one pair is needed. Use --limit 1 or more."
            )
        self._fields, self._of_two, self._skip_bad_rows, self._limit = (
            fields,
            of_two,
            skip_bad_rows,
            limit,
        )
        # with the human ratings of each pair's first row; the means come at the end
        self._pairs = GrowingTable()
        either = fields if of_two is None else _either(fields, of_two)
        self._further = FurtherColumns(either)
        self.wanted = Wanted(either.paths, self._further, either.numbers)
        self._reasons: Counter[str] = Counter()
        self._first_bad: list[str] = []
        self._merged = 0
        self._may_repeat, self._repeated = may_repeat, 0
        self._seen = Seen()
        self._numbers = array("Q")  # each pair's row number in its source
        self._sources: list[Source] = []
        self._starts: list[int] = []  # the first pair of each source
        self._images = Images()
        self._later: dict[int, list[Mapping[str, float]]] = {}
        self._rated_by_workers = False

    @property
    def _count(self) -> int:
        return len(self._pairs)

    @property
    def _room(self) -> int:
        """The most rows that may be checked together: past the limit nothing is kept."""
        left = (self._limit or 0) - self._count
        return min(_AT_A_TIME, left) if left > 0 else _AT_A_TIME

    @property
    def done(self) -> bool:
        """Whether no further row can matter: the limit is reached, and no more workers' ratings may come."""
        return self._count == self._limit and not self._rated_by_workers

    def take(self, source: Source) -> None:
        """Add the rows of a source, until :attr:`done`.

        Raises InputError for a bad row unless they are skipped, for a source without a usable row, and if no row has a field
        that was mapped to a rating: without a header, a misspelt name looks like an absent rating.
        """
        table, fields = _with_fields(source.table, self._fields, self._of_two)
        table = spread(table, fields, source.name) if fields.beside else table
        if table.names is not None:
            _check(fields, table.names, source.name)
        self._sources.append(source)
        fields = fields._replace(taking=self._images.beside(source.path or source.name))
        self._starts.append(len(self._pairs))
        taken, bad = self._count + self._merged, self._reasons.total()
        self._first_error = ""
        unseen = [field for field in fields.ratings if field.mapped and table.names is None]
        names: list[str] = []
        # If the user maps the prompt or the response, a tool's log is read as any other data.
        as_it_is = table.names is not None or fields.prompt.mapped or fields.response.mapped
        rows = iter(table.rows if as_it_is else as_pairs(table.rows, source))
        # With a limit, no more rows are checked than are kept.
        parts = self._parts(rows) if table.parts is None or self._limit else table.parts
        while not self.done and (part := next(parts, None)) is not None:
            for row in part.rows if unseen else ():
                if unseen and isinstance(row, dict):
                    names = list(names_in(row))
                    unseen = [field for field in unseen if not is_in(row, field)]
            self._take_part(part, fields)
            del part  # or these rows would stay in memory while the next ones are read
        if taken == self._count + self._merged and self._count != self._limit:
            self._refuse_unused(source, bad)
        elif unseen:
            raise InputError(f"{source.name}: {no_such_fields(unseen, names, fields)}")

    def _parts(self, rows: Iterator[_Numbered]) -> Iterator[Part]:
        """Yield the rows in parts. An error of the reader is raised after the rows before it were checked."""
        some: list[_Numbered] = []
        most, broken = self._room, None
        try:
            for each in rows:
                some.append(each)
                if len(some) >= most:
                    yield Part.of(some)
                    some, most = [], self._room
        except Exception as error:  # noqa: BLE001  # raised below
            broken = error
        if some:
            yield Part.of(some)
        if broken is not None:
            raise broken

    def _refuse_unused(self, source: Source, bad: int) -> NoReturn:
        """Raise the error for a source without a pair; ``bad`` rows were left out before it."""
        if not self._first_error:
            raise InputError(
                f"{source.name}: the file has no rows. Check that it was written or downloaded to its end."
            )
        read = self._reasons.total() - bad
        raise InputError(
            f"{source.name}: not one row can be used ({read} read). The first: {self._first_error}"
        )

    def _take_part(self, part: Part, fields: Fields) -> None:
        batch = Batch(part, fields, self._further)
        before = self._seen.find(batch.ids)
        if batch.bad or len(set(batch.ids)) < len(batch.ids) or (before >= 0).any():
            self._check_each(part, fields, batch, before.tolist())
        elif self._limit is not None:
            batch.kept = batch.kept[: self._limit - self._count]
        if batch.kept:
            self._seen.add([batch.ids[at] for at in batch.kept], self._count)
            self._pairs.extend_columns(*batch.columns())
            self._numbers.extend(batch.part.numbers[at] for at in batch.kept)
            if self._count == self._limit:
                self._rated_by_workers = is_of_one_worker(batch.row(batch.kept[-1]), fields)

    def _check_each(self, part: Part, fields: Fields, batch: Batch, before: Sequence[int]) -> None:
        """Keep the new pairs of a batch in which a row is bad or has the id of an earlier one."""
        kept: list[int] = []
        batch.kept = kept
        earlier: dict[str, int] = {}  # the ids of this batch
        good = iter(range(len(batch.ids)))
        for at, number in enumerate(part.numbers):
            try:
                if at in batch.bad:
                    raise batch.bad[at]
                self._keep_or_merge(next(good), kept, before, earlier, fields, batch)
            except BadRow as bad:
                bad.__traceback__ = None
                if self._count + len(kept) == self._limit:
                    continue
                source = self._sources[-1]
                error = f"{place(source.name, source.table.unit, number)}: {bad}"
                self._leave_out(bad, error)
                self._first_error = self._first_error or error

    def _keep_or_merge(
        self,
        at: int,
        kept: list[int],
        before: Sequence[int],
        earlier: dict[str, int],
        fields: Fields,
        batch: Batch,
    ) -> None:
        """Keep a pair, or merge it with the one of its id, which ``before`` and ``earlier`` help to find."""
        there = self._with_id(batch.ids[at], before[at], earlier)
        if (
            there is not None
            and batch.is_made(at)
            and _is_of_another(pair := batch.pair(at), self._pair(there, batch))
        ):
            batch.ids[at] = own = pair_id_of(
                pair.prompt, f"{pair.response}\0{pair.columns[SYSTEM_COLUMN]}"
            )
            there = self._with_id(own, int(self._seen.find([own])[0]), earlier)
        if there is not None:
            self._merge(there, at, fields, batch)
        elif self._count + len(kept) != self._limit:
            earlier[batch.ids[at]] = self._count + len(kept)
            kept.append(at)

    def _with_id(self, pair_id: str, before: int, earlier: Mapping[str, int]) -> int | None:
        """Return the place of the pair with an id. ``before``: the stored pair whose id has the same hash, or -1."""
        if before >= 0 and pair_id not in earlier and self._pairs[before].pair_id == pair_id:
            return before
        return earlier.get(pair_id)

    def _pair(self, at: int, batch: Batch) -> Pair:
        return self._pairs[at] if at < self._count else batch.pair(batch.kept[at - self._count])

    def dataset(self) -> Dataset:
        """Return the data set. A human rating by several workers is the mean of theirs."""
        give_back()
        pairs = self._pairs.table(self._further.forgotten)
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
            (*([_WITH_IMAGES] if self._images.folder else []),),
            repeated=self._repeated,
            images=self._images.folder,
        )

    def _leave_out(self, bad: BadRow, error: str) -> None:
        if not self._skip_bad_rows:
            raise InputError(error) from None
        self._reasons[bad.reason] += 1
        if len(self._first_bad) < _NAMED:  # without the next step, which --skip-bad-rows has taken
            self._first_bad.append(error.partition(". ")[0])

    def _with_means(self, at: int, pair: Pair) -> Pair:
        """Return the pair with the mean of all workers' ratings of each attribute."""
        rated = [pair.human, *self._later.get(at, ())]
        names = dict.fromkeys(name for each in rated for name in each)
        return replace(
            pair,
            human={name: mean([each[name] for each in rated if name in each]) for name in names},
        )

    def _merge(self, at: int, place_here: int, fields: Fields, batch: Batch) -> None:
        """Merge a pair of the batch with the earlier one of its id. BadRow unless another worker rated it, or it may repeat."""
        first, pair, made = self._pair(at, batch), batch.pair(place_here), batch.is_made(place_here)
        row = batch.row(place_here)
        merges = (first.prompt, first.response) == (
            pair.prompt,
            pair.response,
        ) and is_of_one_worker(row, fields)
        if merges and first.group == pair.group:
            self._later.setdefault(at, []).append(pair.human)
            self._merged += 1
            return
        if self._may_repeat and _says_the_same(pair, first):
            self._repeated += 1
            return
        source = self._sources[bisect_right(self._starts, at) - 1]
        in_batch = at - self._count
        number = self._numbers[at] if in_batch < 0 else batch.part.numbers[batch.kept[in_batch]]
        unit = source.table.unit
        before = (
            f"{unit} {number}" if source is self._sources[-1] else place(source.name, unit, number)
        )
        if merges:
            raise BadRow(
                f'the same texts belong to the group "{shown(first.group)}" in {before}, and to "{shown(pair.group)}" here. '
                "Correct one of them, or leave the later ones out with --skip-bad-rows.",
                "the same pair in another group",
            )
        if made:
            two, other = (
                pair.other is not None,
                " or, if two systems gave this answer, one that names these (--columns system=NAME)",
            )
            raise BadRow(
                f"the same prompt and response{'s' * two} as {before}. Remove one of them, name a field with ids of their own "
                f"(--columns id=NAME){'' if two else other}, or keep the first of each with --skip-bad-rows.",
                AGAIN,
            )
        raise BadRow(
            f'the id "{shown(pair.pair_id)}" is also that of {before}. Give each row an id of its own, make ids from '
            "the text (--columns id=-), or keep the first of each with --skip-bad-rows.",
            AGAIN,
        )


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
    in_chat = (
        (fields.prompt, fields.response) if fields.chat and fields.chat.is_among(names) else ()
    )
    missing = [
        field
        for field in needed
        if not field.is_among(names) and (field.mapped or field not in in_chat)
    ]
    if missing:
        raise InputError(f"{source}: {no_such_fields(missing, names, fields)}")
