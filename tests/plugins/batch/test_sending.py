"""What becomes of batches that a service does not take."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from robin_batch.folder import Batches
from robin_batch.sending import Sender
from robin_batch.service import BatchRefused
from robin_cli.model.errors import EndpointError
from robin_cli.run.batches import Submission, read_batches
from robin_cli.session.planner import Ticket
from robin_cli.session.stop import Stop


class Full:
    """A service that takes no file."""

    base_url = "http://localhost:1/v1"

    async def upload(self, _path: Path) -> str:
        raise BatchRefused("413: too large", is_full=False)


class Waiting:
    """The rounds of a session that waits for its batches."""

    def __init__(self, batches: Batches) -> None:
        self.batches, self.stop = batches, Stop()

    def withdraw(self, batch: Submission) -> Submission:
        self.batches.set(batch.now("withdrawn"))
        return batch


def test_gives_up_calls_whose_file_is_refused(tmp_path: Path) -> None:
    batches = Batches(tmp_path, "0" * 16, 3)
    services: Any = {"m": Full()}
    sender = Sender(services, "0" * 16, lambda _: None)
    batches.add(Submission(1, "m", 1, 2), [Ticket(0, 0, 1), Ticket(1, 0, 1)], [b"{}\n"] * 2)
    rounds: Any = Waiting(batches)
    sender.rounds = rounds
    with pytest.raises(EndpointError, match="refused a batch of 2 requests: 413: too large"):
        asyncio.run(sender.carry())
    assert read_batches(tmp_path)[1].state == "withdrawn"
