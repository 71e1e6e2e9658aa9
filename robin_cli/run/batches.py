"""The state of a run's batches at a batch service, by number: small JSON files in the folder ``batches``.

The package that asks the service keeps its other files beside these (``plugins/robin_batch/folder.py``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from robin_cli.data.local import whole_file
from robin_cli.model.errors import StorageError, writing
from robin_cli.model.records import SERVICE_ID
from robin_cli.run.layout import BATCHES
from robin_cli.run.tables import UNREADABLE, unreadable

State = Literal["written", "creating", "submitted", "answered", "done", "withdrawn"]
"""The state of a batch. ``creating``: the service was asked to make it, and may have. ``answered``: the answers are on this
machine. ``withdrawn``: the service refused it, and no call was made."""

_OVER = frozenset({"done", "withdrawn"})
_NUMBER = re.compile(r"[0-9]{1,9}")

ServiceId = Annotated[str, msgspec.Meta(pattern=SERVICE_ID)]
"""An id becomes part of the address that a key goes to."""


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

    number: int
    judge: str
    round: int
    requests: int
    state: State = "written"
    url: str = ""
    file_id: ServiceId | None = None
    batch_id: ServiceId | None = None
    answered: int | None = None
    submitted_at: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its calls may still be answered."""
        return self.state not in _OVER

    def now(self, state: State, **facts: Any) -> Submission:
        """Return the batch in another state."""
        return msgspec.structs.replace(self, state=state, **facts)


def read_batches(run: Path) -> dict[int, Submission]:
    """Return the batches of a run by number, rising.

    Raises:
        StorageError: robin did not write one of the files.
    """
    batches = {}
    paths = (run / BATCHES).glob("*.json")
    for path in sorted(path for path in paths if _NUMBER.fullmatch(path.stem)):
        try:
            batch = msgspec.json.decode(path.read_bytes(), type=Submission)
        except (*UNREADABLE, msgspec.MsgspecError) as error:
            raise unreadable(path, error) from error
        if batch.number != int(path.stem):
            raise StorageError(
                f"{path}: its content is batch {batch.number}; restore it from a copy"
            )
        batches[batch.number] = batch
    return dict(sorted(batches.items()))


def write_batch(run: Path, batch: Submission) -> None:
    """Record the state of a batch, in one step. StorageError if the disk refuses."""
    path = run / BATCHES / f"{batch.number:05}.json"
    with writing(path, "; make room, then robin resume"), whole_file(path) as file:
        file.write(msgspec.json.encode(batch) + b"\n")


def has_open_batches(run: Path) -> bool:
    """Return whether a run has batches that may still be answered. StorageError as :func:`read_batches`."""
    return any(batch.is_open for batch in read_batches(run).values())
