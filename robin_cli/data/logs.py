"""Logs of evaluation tools as rows. A log is known by the content of its samples, not by its file's name.

A package adds a tool by an entry point of the group ``robin.logs`` that leads to a :class:`Log`. Packages are loaded for rows
without prompt and response, and for files that are one JSON object. robin's own logs are in ``plugins/robin_logs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from robin_cli.data.rows import BadRow, Row
from robin_cli.model.plugins import Plugin, plugins

GROUP = "robin.logs"
WRITERS = "robin.writers"
"""The group of what writes a run's scores for a tool: a :data:`Writer`, by the name in ``--what``."""

Rows = Iterator[tuple[int, Row | BadRow]]

Reading = Callable[[Row], Iterable[Row | BadRow]]
"""Returns the rows of one sample, with robin's names. A BadRow, returned or raised, cannot be judged."""


class Log(NamedTuple):
    """The log of a tool.

    Attributes:
        is_sample: returns whether a row is a sample of the log.
        reading: makes the reader of samples for a file's path ("" if there is none).
        array: the member that holds the samples, if a log is one JSON object; also that of an object in it.
        head: the member beside it that holds for all samples, if there is one: it is put into each. ``head_keys``: those that
            it must have; without them it may be absent.
        scores: makes a reader of samples for their scores alone: a row's ``id`` names the sample, whichever system answered
            and however often, and a text may be missing.
    """

    is_sample: Callable[[Row], bool]
    reading: Callable[[str], Reading]
    array: str = ""
    head: str = ""
    head_keys: frozenset[str] = frozenset()
    scores: Callable[[str], Reading] | None = None


class Judged(NamedTuple):
    """The result of a pair, for the file of a tool.

    Attributes:
        columns: the further columns of the pair's data.
        points: the score of each attribute.
        share: the mean of the scores as shares of their scales, from 0 to 1.
        passes: whether it is kept, or best; None if the run decides nothing.
        reason: the scores in words, and the judge's feedback.
    """

    pair_id: str
    columns: Row
    points: Mapping[str, float]
    share: float
    passes: bool | None
    reason: str


Writer = Callable[[Sequence[Judged], Callable[[], bytes], Callable[[str], None]], bytes]
"""``writer(judged, judged_file, notify)`` returns a file; ``judged_file()`` returns the content of the one that was judged."""


def arrays(source: str) -> Mapping[str, Log]:
    """Return the logs that are one JSON object, by the member that holds the samples."""
    found = {}
    for plugin in plugins(GROUP).values():
        with plugin.loaded(source, "read") as log:
            found[log.array] = log
    return {array: log for array, log in found.items() if array}


def read_samples(rows: Rows, source: str, path: str, *, of_scores: bool) -> Rows:
    """Yield the rows of a source; the samples of a log are read by its tool's package.

    The first row that is not bad decides which log they are of.

    Args:
        source: the source's name in errors.
        path: the path or address of its file; "" if there is none.
        of_scores: read samples for their scores, see :class:`Log`.
    """
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        found = _log_of(row, source)
        # An iterator releases the row that it has yielded; chain keeps its arguments until the end.
        rest = chain(iter([(number, row)]), rows)
        del row
        if found is None:
            yield from rest
            return
        plugin, log = found
        with plugin.loaded(source, "read"):
            reading = ((of_scores and log.scores) or log.reading)(path)
        yield from _read_log(plugin, log, reading, rest, source)
        return


def has_samples(names: Iterable[str], source: str) -> bool:
    """Return whether the rows of a table with these columns are samples of a log; fields of objects have dotted names."""
    row: Row = {each: "" for name in names for each in (name, name.partition(".")[0])}
    return _log_of(row, source) is not None


def _log_of(row: Row, source: str) -> tuple[Plugin, Log] | None:
    """Return the log that a row is a sample of, with its plug-in.

    A row with a prompt and a response is ordinary data, unless the prompt is an object, as in promptfoo's results.
    """
    if row.keys() >= {"prompt", "response"} and not isinstance(row["prompt"], dict):
        return None
    for plugin in plugins(GROUP).values():
        with plugin.loaded(source, "read") as log:
            if log.is_sample(row):
                return plugin, log
    return None


def _read_log(plugin: Plugin, log: Log, reading: Reading, rows: Rows, source: str) -> Rows:
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        with plugin.loaded(source, "read"):
            try:
                if not log.is_sample(row):
                    fact = "is not a sample, as the rows before it are. Correct it"
                    raise BadRow(fact, "no sample")
                yield from ((number, each) for each in reading(row))
            except BadRow as bad:
                yield number, bad
