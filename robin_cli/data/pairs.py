"""Prompts and responses as pairs, checked row by row; every complaint names its place and a next step."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from robin_cli.data.collector import no_collector
from robin_cli.data.fields import Fields, fields_of, no_such_fields, only_among
from robin_cli.data.gathering import Gathering
from robin_cli.data.pair_ids import pair_id_of
from robin_cli.data.sources import STDIN, Source, expanded, in_memory, opened
from robin_cli.errors import InputError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Mapping, Sequence

    from robin_cli.records import Pair

__all__ = ["STDIN", "Dataset", "load_pairs", "pair_id_of"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The pairs of one or more files in their order, and what the files were.

    ``skipped`` bad rows were left out, ``left_out`` counts them by reason, and ``first_left_out`` names a few; ``merged``
    rows were further workers' ratings of a pair. ``sha256`` is of all bytes of the file as it lies on disk, also where
    ``limit`` ended the reading early; of a data set of the hub, of the rows that were read; of several files, of their
    hashes. ``files`` are those that were read, each with its own.
    """

    pairs: list[Pair]
    skipped: int
    sha256: str
    source: str
    merged: int = 0
    files: tuple[tuple[str, str], ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    first_left_out: tuple[str, ...] = ()


def load_pairs(
    names: str | Path | Sequence[str | Path],
    *,
    columns: Mapping[str, str] | None = None,
    ratings: Iterable[str] = (),
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """The pairs of one or more files, in their order, as one data set.

    Each of ``names`` is a file, whose format the end of its name says; a glob, for the files that match it, sorted;
    ``-`` for standard input, read by what it begins with; or ``hf://owner/name?split=validation`` for a data set of the
    Hugging Face hub, which the extra ``datasets`` reads.

    ``columns`` maps our names to the data's: prompt, response, id, and any other name for a human rating; dots lead
    into objects, a name that holds dots itself comes first. A dash means not to look for it: ``{"id": "-"}``
    makes every id from the text. Without a mapping the fields of HelpSteer2 and Summarize From Feedback are found.

    A prompt must hold more than white space. A response may be empty, in every format, for that is an answer a model can
    give and a judge can rate; a null is a missing one, and an error. CSV and TSV have no null. An id is text or a
    whole number; where ``id`` is not mapped, a row without one gets ``pair_id_of`` its text. Ratings are finite
    numbers, also written as text, or a list of them, whose mean counts; null, NaN, an empty text and NA are absent.
    Rows of Summarize From Feedback's axis files with the same texts are workers who rated the same pair: their mean
    counts.

    ``ratings`` names further attributes whose human ratings are taken from fields of their names, where there are any.
    ``skip_bad_rows`` leaves out rows that cannot be used and later rows with the id of an earlier one. ``limit`` is the
    number of (good) pairs to read at most, in all; the later files are not read then.

    Raises InputError for a file or a row that cannot be used, for a file of which no row can be used, and for a mapped
    field that no row has.
    """
    fields = fields_of(columns or {}, ratings)
    gathering = _gathering(skip_bad_rows=skip_bad_rows, limit=limit)
    files = []
    with no_collector():
        for name in expanded([names] if isinstance(names, (str, Path)) else names):
            with opened(name, fields.paths) as source:
                files.append(_take(source, gathering, fields))
            if gathering.done:
                break
    return _dataset(gathering, files)


def read_pairs(
    stream: io.BytesIO,
    source: str,
    *,
    columns: Mapping[str, str] | None = None,
    ratings: Iterable[str] = (),
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> Dataset:
    """As :func:`load_pairs`, of what lies in memory, in the format that it begins with; ``source`` names it in errors."""
    fields = fields_of(columns or {}, ratings)
    gathering = _gathering(skip_bad_rows=skip_bad_rows, limit=limit)
    with no_collector():
        return _dataset(gathering, [_take(in_memory(stream, source, fields.paths), gathering, fields)])


def _gathering(*, skip_bad_rows: bool, limit: int | None) -> Gathering:
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: at least one pair is needed. Use --limit 1 or more.")
    return Gathering(skip_bad_rows=skip_bad_rows, limit=limit)


def _take(source: Source, gathering: Gathering, fields: Fields) -> tuple[str, str]:
    """Add the rows of a source; its name and SHA-256."""
    if source.table.names is not None:
        fields = _checked(fields, source.table.names, source.name)
    gathering.take(source.table, fields, source.name)
    return source.name, source.sha256()


def _dataset(gathering: Gathering, files: list[tuple[str, str]]) -> Dataset:
    names = [name for name, _ in files]
    source = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    sha256 = files[0][1] if len(files) == 1 else hashlib.sha256("\n".join(own for _, own in files).encode()).hexdigest()
    return Dataset(
        gathering.finished(),
        gathering.skipped,
        sha256,
        source,
        gathering.merged,
        tuple(files),
        dict(gathering.reasons.most_common()),
        tuple(gathering.first_bad),
    )


def _checked(fields: Fields, names: list[str], source: str) -> Fields:
    """The fields these columns have; InputError where a required or a mapped one is missing."""
    needed = dict.fromkeys([*fields.required(), *(field for field in fields.ratings if field.mapped)])
    told = (fields.prompt, fields.response) if fields.chat and fields.chat.is_among(names) else ()
    missing = [field for field in needed if not field.is_among(names) and (field.mapped or field not in told)]
    if missing:
        raise InputError(f"{source}: {no_such_fields(missing, names, fields)}")
    return only_among(fields, names)
