"""Logs of evaluation tools as rows: a log is known by what its samples hold, not by its file's name.

A package adds a tool by an entry point of the group ``robin.logs``: a :class:`Log`. It is loaded for rows that are not their
user's own, and for files that are one JSON object. robin's own are in ``plugins/robin_logs``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.datasets.rows import BadRow, Row, Wanted
from robin_cli.model.plugins import Plugin, plugins

if TYPE_CHECKING:
    from robin_cli.datasets.sources import Source

GROUP = "robin.logs"

_ORDINARY = {"prompt", "response"}
"""A row that has one of these is its user's own, whatever else it holds."""

Rows = Iterator[tuple[int, Row | BadRow]]

Reading = Callable[[Row], Iterable[Row | BadRow]]
"""The rows of one sample, as robin knows them; BadRow, also raised, for one that cannot be judged; Passed, for no answer."""


class Log(NamedTuple):
    """A tool's log: whether a row is one of its samples, and what reads them, of a file that lies in a place ("" for none).

    Where a log is one JSON object, its samples stand in the array called ``array``, behind the member ``head``, if it has one:
    an object that says what holds for all of them, ``told`` at least, and is put into each. Of a table ``is_sample`` is asked
    with its columns alone.

    ``scores``, if it is there, reads samples for their scores alone: the ``id`` of a row names the sample, whichever system
    answered and however often, and a text may be missing.
    """

    is_sample: Callable[[Row], bool]
    reading: Callable[[str], Reading]
    array: str = ""
    head: str = ""
    told: frozenset[str] = frozenset()
    scores: Callable[[str], Reading] | None = None


def arrays(source: str) -> Mapping[str, Log]:
    """Return the logs that are one JSON object, by the member that holds the samples. InputError for a broken package."""
    found = {}
    for plugin in plugins(GROUP).values():
        with plugin.loaded(source, "read") as log:
            found[log.array] = log
    return {array: log for array, log in found.items() if array}


def is_log(names: Collection[str], wanted: Wanted, source: str) -> bool:
    """Whether a table with these columns is a log: it has no prompt or response, and the user does not say what these are."""
    may_be = _ORDINARY.isdisjoint(names) and _ORDINARY.issubset(wanted.names)
    return may_be and _of_which(dict.fromkeys(names), source) is not None


def _of_which(row: Row, source: str) -> tuple[Plugin, Log] | None:
    """The log that a row is a sample of."""
    for plugin in plugins(GROUP).values():
        with plugin.loaded(source, "read") as log:
            if log.is_sample(row):
                return plugin, log
    return None


def as_pairs(rows: Rows, source: Source, *, of_scores: bool = False) -> Rows:
    """Return ``rows`` of a source, those of a log as its tool's package reads them, any others as they are.

    Args:
        of_scores: samples are read for their scores, see :class:`Log`.
    """
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        # An iterator lets go of the row that it has given; chain holds what it was handed until the end.
        is_ordinary, rest = bool(row.keys() & _ORDINARY), chain(iter([(number, row)]), rows)
        if is_ordinary:
            del row  # or it would be held, however long it is, until the last one is read
            yield from rest
            return
        yield from _of_a_log(row, rest, source, of_scores=of_scores)
        return


def _of_a_log(first: Row, rows: Rows, source: Source, *, of_scores: bool) -> Rows:
    """As :func:`as_pairs`, of rows whose ``first`` says which log they are of."""
    found = _of_which(first, source.name)
    if found is None:
        yield from rows
        return
    plugin, log = found
    with plugin.loaded(source.name, "read"):
        reading = ((of_scores and log.scores) or log.reading)(source.path)
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        with plugin.loaded(source.name, "read"):
            try:
                if not log.is_sample(row):
                    raise BadRow("is no sample, as the rows before it are. Correct it", "no sample")
                yield from ((number, each) for each in reading(row))
            except BadRow as bad:
                yield number, bad
