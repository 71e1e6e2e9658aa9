"""The batches of a run at a batch service. They are on disk first, so that no kill loses them.

Each batch has a number. The run's folder ``batches`` holds by number the calls (``.calls.parquet``), the state (``.json``,
always rewritten whole), the requests (``.jsonl``) until they are answered, and the answers (``.output.jsonl``,
``.errors.jsonl``) until they are judgments. Somebody else may have written the folder: it is checked when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from robin_cli.data.local import whole_file
from robin_cli.data.parquet_tables import read_table, written_table
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError, writing
from robin_cli.model.records import SERVICE_ID
from robin_cli.run.damage import UNREADABLE, unreadable
from robin_cli.run.layout import BATCHES

State = Literal["written", "uploaded", "creating", "submitted", "answered", "done", "withdrawn"]
"""The state of a batch. ``creating``: the service was asked to make it, and may have. ``answered``: the answers are on this
machine. ``withdrawn``: the service refused it, and no call was made."""

_OVER = frozenset({"done", "withdrawn"})
_MOST_DRAWS = 2**31
_NUMBER = re.compile(r"[0-9]{1,9}")

ServiceId = Annotated[str, msgspec.Meta(pattern=SERVICE_ID)]
Text = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch of calls and its state.

    Attributes:
        number: from 1.
        judge: the judge to ask.
        round: the round of the run, from 1.
        requests: the number of lines.
        url: the service's address.
        file_id, batch_id: the service's ids, once it gave them.
        answered: the number of answered requests, once it is known.
        submitted_at: the time when the service took it, ISO 8601, UTC, by this machine's clock; only for display.
    """

    number: Count
    judge: Text
    round: Count
    requests: Count
    state: State = "written"
    url: Text = ""
    file_id: ServiceId | None = None
    batch_id: ServiceId | None = None
    answered: Annotated[int, msgspec.Meta(ge=0, le=10**9)] | None = None
    submitted_at: Text = ""

    @property
    def is_open(self) -> bool:
        """Whether its calls may still be answered."""
        return self.state not in _OVER

    def now(self, state: State, **facts: Any) -> Submission:
        """Return the batch in another state."""
        return msgspec.structs.replace(self, state=state, **facts)


class Calls(NamedTuple):
    """The calls of a batch by line: the arm, the number of the first call, and the number of calls; shape (requests,) each."""

    arm: IntArray
    draw: IntArray
    calls: IntArray


class Ledger:
    """The batches of one run.

    Args:
        run: the run directory.
        run_id: begins the id of every request, so that answers for another run are not taken.
        arms: the number of the run's arms.

    Raises:
        StorageError: the folder cannot be read, or holds a file that robin did not write.
    """

    def __init__(self, run: Path, run_id: str, arms: int) -> None:
        self._folder = run / BATCHES
        self._run_id = run_id
        self._arms = arms
        self.batches = read_batches(run)

    @property
    def open(self) -> list[Submission]:
        """The batches that may still be answered, in order."""
        # a copy: displays read it in a thread
        return [batch for batch in list(self.batches.values()) if batch.is_open]

    def custom_id(self, number: int, line: int) -> str:
        """Return the id of a request, at most 64 characters."""
        return f"{self._run_id}-{number}-{line}"

    def place_of(self, custom_id: str | None) -> tuple[int, int] | None:
        """Return the batch number and line of a request of this run; None for any other id."""
        own, _, rest = (custom_id or "").rpartition("-")
        run_id, _, number = own.rpartition("-")
        if run_id != self._run_id or not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(rest)):
            return None
        batch = self.batches.get(int(number))
        return (
            (batch.number, int(rest)) if batch is not None and int(rest) < batch.requests else None
        )

    def next_number(self) -> int:
        """Return the number of the next batch."""
        return max(self.batches, default=0) + 1

    def add(self, batch: Submission, calls: Calls, lines: Iterable[bytes]) -> None:
        """Write a new batch: its calls, its requests and, last, its state.

        Raises:
            StorageError: the disk refuses.
        """
        with writing(
            self.requests(batch), "; nothing of it was sent: make room, then robin resume"
        ):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(self.requests(batch)) as file:
                file.writelines(lines)
            table = pa.table(calls._asdict())
            with (
                whole_file(self._calls(batch.number)) as file,
                written_table(file, table.schema) as writer,
            ):
                writer.write_table(table)
        self.set(batch)

    def set(self, batch: Submission) -> None:
        """Record the state of a batch. StorageError if the disk refuses."""
        path = self._folder / f"{batch.number:05}.json"
        with writing(path, "; make room, then robin resume"), whole_file(path) as file:
            file.write(msgspec.json.encode(batch) + b"\n")
        self.batches[batch.number] = batch

    def calls(self, batch: Submission) -> Calls:
        """Return the calls of a batch. StorageError if they cannot be read, or are not of this run."""
        path = self._calls(batch.number)
        try:
            with path.open("rb") as file:
                table = read_table(file, str(path), Calls._fields)
            calls = Calls(*(table[name].cast(pa.int64()).to_numpy() for name in Calls._fields))
        except UNREADABLE as error:
            raise unreadable(path, error) from error
        limits = (self._arms, _MOST_DRAWS, 129)
        within = all(
            ((each >= 0) & (each < most)).all() for each, most in zip(calls, limits, strict=True)
        )
        if len(calls.arm) != batch.requests or not within or not (calls.calls > 0).all():
            raise StorageError(f"{path}: its calls are not of this run; restore it from a copy")
        return calls

    def next_draws(self) -> IntArray:
        """Return the number of each arm's next call after all batches, shape (K,): old ones may still be answered."""
        draws = np.zeros(self._arms, dtype=np.int64)
        for batch in self.batches.values():
            calls = self.calls(batch)
            np.maximum.at(draws, calls.arm, calls.draw + calls.calls)
        return draws

    def requests(self, batch: Submission) -> Path:
        """Return the file of a batch's requests."""
        return self._folder / f"{batch.number:05}.jsonl"

    def answers(self, batch: Submission) -> tuple[Path, Path]:
        """Return the files for a service's answers and errors."""
        return (
            self._folder / f"{batch.number:05}.output.jsonl",
            self._folder / f"{batch.number:05}.errors.jsonl",
        )

    def tidy(self, batch: Submission, *, keep_answers: bool = False) -> None:
        """Remove the files of a finished batch from the run. Its calls stay: they number the next calls."""
        for path in [self.requests(batch), *(() if keep_answers else self.answers(batch))]:
            with suppress(OSError):
                path.unlink()

    def _calls(self, number: int) -> Path:
        return self._folder / f"{number:05}.calls.parquet"


def read_batches(run: Path) -> dict[int, Submission]:
    """Return the batches of a run by number, rising.

    Raises:
        StorageError: robin did not write one of the files.
    """
    found = {}
    for path in sorted(
        each for each in (run / BATCHES).glob("*.json") if _NUMBER.fullmatch(each.stem)
    ):
        try:
            batch = msgspec.json.decode(path.read_bytes(), type=Submission)
        except (*UNREADABLE, msgspec.MsgspecError) as error:
            raise unreadable(path, error) from error
        if batch.number != int(path.stem):
            raise StorageError(
                f"{path}: its content is batch {batch.number}; restore it from a copy"
            )
        found[batch.number] = batch
    return dict(sorted(found.items()))


def calls_of(tickets: Sequence[tuple[int, int, int]]) -> Calls:
    """Return tickets as the calls of a batch."""
    table = np.array(tickets, dtype=np.int64).reshape(-1, 3)
    return Calls(*table.T)
