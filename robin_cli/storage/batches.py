"""What was handed to a batch service, or written for an engine without one: on disk first, so that no kill loses it.

Each batch of a run has a number. In the run's folder ``batches`` lie, by that number, the calls in it (``.calls.parquet``), how
far it is (``.json``, rewritten whole), the requests (``.jsonl``) until they are answered, and the answers (``.output.jsonl``,
``.errors.jsonl``) until they are judgments. What is in the folder may be another's: it is checked as it is read.
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

from robin_cli.datasets.parquet_tables import read_table, written_table
from robin_cli.files.local import read_at_most, reading, remove_leftovers, whole_file
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError, writing
from robin_cli.model.records import SERVICE_ID
from robin_cli.storage.damage import UNREADABLE, unreadable
from robin_cli.storage.layout import BATCHES

State = Literal["written", "uploaded", "creating", "submitted", "answered", "done", "withdrawn"]
"""How far a batch is. ``creating``: it was asked for, and may be there. ``answered``: its answers lie here. ``withdrawn``: the
service would not take it, and nothing of it was asked."""

_OVER = frozenset({"done", "withdrawn"})
_LONGEST = 2**20
_MOST_DRAWS = 2**31
_NUMBER = re.compile(r"[0-9]{1,9}")

ServiceId = Annotated[str, msgspec.Meta(pattern=SERVICE_ID)]
Text = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch of calls, and how far it is.

    Attributes:
        number: from 1 on.
        judge: who is asked.
        round: from 1 on; which of the run's.
        requests: lines in it.
        url: where it was sent; "" where it was written for an engine without a service.
        folder: where its files are for such an engine; "" in the run itself.
        file_id, batch_id: the service's, as far as it gave them.
        answered: how many requests were answered, once that is known.
        submitted_at: when the service took it, ISO 8601, UTC, by this machine's clock; for people to look at.
    """

    number: Count
    judge: Text
    round: Count
    requests: Count
    state: State = "written"
    url: Text = ""
    folder: Text = ""
    file_id: ServiceId | None = None
    batch_id: ServiceId | None = None
    answered: Annotated[int, msgspec.Meta(ge=0, le=10**9)] | None = None
    submitted_at: Text = ""

    @property
    def is_open(self) -> bool:
        """Whether calls of it may still be answered."""
        return self.state not in _OVER

    def now(self, state: State, **facts: Any) -> Submission:
        """The same in another state."""
        return msgspec.structs.replace(self, state=state, **facts)


class Calls(NamedTuple):
    """The calls of a batch, one a line: of which arm, numbered from which draw on, how many; shape (requests,) each."""

    arm: IntArray
    draw: IntArray
    calls: IntArray


class Ledger:
    """The batches of one run.

    Args:
        run: the run directory.
        run_id: in front of the id of every request, so that no line of another run is taken for one of this.
        arms: how many the run has.

    Raises:
        StorageError: the folder cannot be read, or holds what robin did not write.
    """

    def __init__(self, run: Path, run_id: str, arms: int) -> None:
        self._folder = run / BATCHES
        self._run_id = run_id
        self._arms = arms
        self.batches = read_batches(run)
        remove_leftovers(self._folder, of=lambda _: True)  # of a process that was killed: the run is ours alone

    @property
    def open(self) -> list[Submission]:
        """Those that may still be answered, in their order."""
        return [batch for batch in list(self.batches.values()) if batch.is_open]  # displays look from a thread

    def custom_id(self, number: int, line: int) -> str:
        """The id of a request, at most 64 characters."""
        return f"{self._run_id}-{number}-{line}"

    def place_of(self, custom_id: str | None) -> tuple[int, int] | None:
        """Number of the batch and line of a request of this run; None for an id of anything else."""
        own, _, rest = (custom_id or "").rpartition("-")
        run_id, _, number = own.rpartition("-")
        if run_id != self._run_id or not (_NUMBER.fullmatch(number) and _NUMBER.fullmatch(rest)):
            return None
        batch = self.batches.get(int(number))
        return (batch.number, int(rest)) if batch is not None and int(rest) < batch.requests else None

    def next_number(self) -> int:
        """The number of the next batch."""
        return max(self.batches, default=0) + 1

    def add(self, batch: Submission, calls: Calls, lines: Iterable[bytes]) -> None:
        """Keep a new batch: its calls, its requests, and, last, that it is there.

        Raises:
            StorageError: the disk refuses.
        """
        with writing(self.requests(batch), "; nothing of it was sent: make room, then robin resume"):
            for folder in (self._folder, self.requests(batch).parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(self.requests(batch)) as file:
                file.writelines(lines)
            table = pa.table(calls._asdict())
            with whole_file(self._calls(batch.number)) as file, written_table(file, table.schema) as writer:
                writer.write_table(table)
        self.set(batch)

    def set(self, batch: Submission) -> None:
        """Record how far a batch is. StorageError where the disk refuses."""
        path = self._folder / f"{batch.number:05}.json"
        with writing(path, "; make room, then robin resume"), whole_file(path) as file:
            file.write(msgspec.json.encode(batch) + b"\n")
        self.batches[batch.number] = batch

    def calls(self, batch: Submission) -> Calls:
        """The calls of a batch. StorageError where they cannot be read, or are none of this run."""
        path = self._calls(batch.number)
        try:
            with reading(path) as file:
                table = read_table(file, str(path), Calls._fields)
            calls = Calls(*(table[name].cast(pa.int64()).to_numpy() for name in Calls._fields))
        except UNREADABLE as error:
            raise unreadable(path, error) from error
        limits = (self._arms, _MOST_DRAWS, 129)
        within = all(((each >= 0) & (each < most)).all() for each, most in zip(calls, limits, strict=True))
        if len(calls.arm) != batch.requests or not within or not (calls.calls > 0).all():
            raise StorageError(f"{path}: its calls are none of this run; restore it from a copy")
        return calls

    def next_draws(self) -> IntArray:
        """The number of each arm's next call, after all that were ever in a batch, shape (K,): an answer may come late."""
        draws = np.zeros(self._arms, dtype=np.int64)
        for batch in self.batches.values():
            calls = self.calls(batch)
            np.maximum.at(draws, calls.arm, calls.draw + calls.calls)
        return draws

    def requests(self, batch: Submission) -> Path:
        """The file of its requests."""
        return requests_file(self._folder.parent, self._run_id, batch)

    def answers(self, batch: Submission) -> tuple[Path, Path]:
        """The files of its answers, and of its errors, where a service's are put."""
        return self._folder / f"{batch.number:05}.output.jsonl", self._folder / f"{batch.number:05}.errors.jsonl"

    def tidy(self, batch: Submission, *, keep_answers: bool = False) -> None:
        """Remove the files of a batch that is over, as far as they lie in the run; its calls stay, for late answers."""
        own = [] if batch.folder else [self.requests(batch)]
        for path in [*own, *(() if keep_answers else self.answers(batch))]:
            with suppress(OSError):
                path.unlink()

    def _calls(self, number: int) -> Path:
        return self._folder / f"{number:05}.calls.parquet"


def requests_file(run: Path, run_id: str, batch: Submission) -> Path:
    """The file of the requests of ``batch``, in the run or where an engine is to read it."""
    if batch.folder:
        return Path(batch.folder) / f"robin-{run_id[:8]}-{batch.number:05}.jsonl"
    return run / BATCHES / f"{batch.number:05}.jsonl"


def read_batches(run: Path) -> dict[int, Submission]:
    """The batches of a run by number, rising; none where the run had none.

    Raises:
        StorageError: a file among them is none that robin wrote, or the folder is a link.
    """
    folder = run / BATCHES
    if folder.is_symlink():
        raise StorageError(f"{folder}: it is a link, and none is followed here; put the folder itself there")
    found = {}
    for path in sorted(each for each in folder.glob("*.json") if _NUMBER.fullmatch(each.stem)):
        try:
            batch = msgspec.json.decode(read_at_most(path, _LONGEST), type=Submission)
        except (*UNREADABLE, msgspec.MsgspecError) as error:
            raise unreadable(path, error) from error
        if batch.number != int(path.stem):
            raise StorageError(f"{path}: says that it is batch {batch.number}; restore it from a copy")
        found[batch.number] = batch
    return dict(sorted(found.items()))


def calls_of(tickets: Sequence[tuple[int, int, int]]) -> Calls:
    """Tickets as the calls of a batch."""
    table = np.array(tickets, dtype=np.int64).reshape(-1, 3)
    return Calls(*table.T)
