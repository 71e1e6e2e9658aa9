"""Which logs are known, and the rows of one made robin's. A log is known by what its samples hold, not by its file's name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from robin_cli.datasets.logs import alpaca_eval, helm, inspect_ai, lm_eval
from robin_cli.datasets.rows import BadRow, Row

LOGS = (inspect_ai.LOG, lm_eval.LOG, alpaca_eval.LOG, helm.LOG)

ARRAYS = {log.array: log for log in LOGS if log.array}
"""The logs that are one JSON object, by the member that holds the samples."""

_ORDINARY = {"prompt", "response"}
"""A row that has one of these is its user's own, whatever else it holds."""

Rows = Iterator[tuple[int, Row | BadRow]]


def as_pairs(rows: Rows, place: str) -> Rows:
    """The rows of a file that lies at ``place`` ("" for nowhere): those of a log by its tool, any others as they are."""
    for number, row in rows:
        if isinstance(row, BadRow):
            yield number, row
            continue
        log = None if row.keys() & _ORDINARY else next((log for log in LOGS if log.is_sample(row)), None)
        rest = chain([(number, row)], rows)
        if log is None:
            yield from rest
            return
        reading = log.reading(place)
        for each, sample in rest:
            try:
                if isinstance(sample, BadRow):
                    yield each, sample
                elif not log.is_sample(sample):
                    yield each, BadRow("is no sample, as the rows before it are. Correct it", "no sample")
                else:
                    yield from ((each, found) for found in reading(sample))
            except BadRow as bad:
                yield each, bad
        return
