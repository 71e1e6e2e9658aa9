"""The batches of a run on disk, where they are before they are at the service: no kill loses them.

Beside the state of a batch (``00001.json``) stand its calls (``.calls.parquet``), its requests (``.jsonl``) until they are
answered, and the answers (``.output.jsonl``, ``.errors.jsonl``) until they are judgments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from robin_cli.data.local import whole_file
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError, writing
from robin_cli.run.batches import Submission, read_batches, write_batch
from robin_cli.run.layout import BATCHES
from robin_cli.run.tables import read_table, write_table
from robin_cli.session.planner import Ticket

_LIMITS = {"draw": 2**31, "calls": 129}


class Batches:
    """The batches of one run.

    Args:
        run: the run directory.
        run_id: begins the id of every request, so that answers for another run are not taken.
        arms: the number of the run's arms.

    Attributes:
        by_number: all batches, rising.

    Raises:
        StorageError: the folder cannot be read, or holds a file that robin did not write.
    """

    def __init__(self, run: Path, run_id: str, arms: int) -> None:
        self._run, self._folder = run, run / BATCHES
        self._run_id, self._arms = run_id, arms
        self.by_number = read_batches(run)

    @property
    def open(self) -> list[Submission]:
        """The batches that may still be answered, in order."""
        # a copy: displays read it in a thread
        return [batch for batch in list(self.by_number.values()) if batch.is_open]

    def custom_id(self, number: int, row: int) -> str:
        """Return the id of a request, at most 64 characters."""
        return f"{self._run_id}-{number}-{row}"

    def add(self, batch: Submission, tickets: Sequence[Ticket], lines: Iterable[bytes]) -> None:
        """Write a new batch: its calls, its requests and, last, its state. StorageError if the disk refuses."""
        requests = self.requests(batch)
        with writing(requests, "; nothing of it was sent: make room, then robin resume"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(requests) as file:
                file.writelines(lines)
            columns = np.array(tickets, dtype=np.int64).reshape(-1, len(Ticket._fields)).T
            table = pa.table(dict(zip(Ticket._fields, columns, strict=True)))
            write_table(table, self._calls(batch.number))
        self.set(batch)

    def set(self, batch: Submission) -> None:
        """Record the state of a batch. StorageError if the disk refuses."""
        write_batch(self._run, batch)
        self.by_number[batch.number] = batch

    def tickets(self, batch: Submission) -> list[Ticket]:
        """Return the calls of a batch by row. StorageError if they cannot be read, or are not of this run."""
        return [Ticket(*fields) for fields in self._columns(batch).T.tolist()]

    def _columns(self, batch: Submission) -> IntArray:
        """Return the fields of a batch's tickets, shape (3, requests). StorageError as :meth:`tickets`."""
        path = self._calls(batch.number)
        table = read_table(path, Ticket._fields)
        limits = np.array([[self._arms], *([most] for most in _LIMITS.values())])
        columns = np.array([table[name].to_numpy() for name in Ticket._fields])
        is_ours = columns.shape[1] == batch.requests and (columns >= [[0], [0], [1]]).all()
        if not is_ours or not (columns < limits).all():
            raise StorageError(f"{path}: its calls are not of this run; restore it from a copy")
        return columns

    def next_draws(self) -> IntArray:
        """Return the number of each arm's next call after all batches, shape (K,): old ones may still be answered."""
        draws = np.zeros(self._arms, dtype=np.int64)
        for batch in self.by_number.values():
            arm, draw, calls = self._columns(batch)
            np.maximum.at(draws, arm, draw + calls)
        return draws

    def requests(self, batch: Submission) -> Path:
        """Return the file of a batch's requests."""
        return self._folder / f"{batch.number:05}.jsonl"

    def answers(self, batch: Submission) -> tuple[Path, Path]:
        """Return the files for a service's answers and errors."""
        output, errors = (f"{batch.number:05}.{kind}.jsonl" for kind in ("output", "errors"))
        return self._folder / output, self._folder / errors

    def tidy(self, batch: Submission, *, keep_answers: bool = False) -> None:
        """Remove the files of a finished batch from the run. Its calls stay: they number the next calls."""
        for path in [self.requests(batch), *(() if keep_answers else self.answers(batch))]:
            with suppress(OSError):
                path.unlink()

    def _calls(self, number: int) -> Path:
        return self._folder / f"{number:05}.calls.parquet"
