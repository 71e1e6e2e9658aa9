"""What a batch service is to the rest of robin: files go up, a batch is made of one, and what came of it comes down later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

MOST_REQUESTS = 50_000
MOST_BYTES = 200 * 1000 * 1000
"""Of one input file: OpenAI's limits, and the lowest of those who speak its protocol."""

_OVER = frozenset({"failed", "completed", "expired", "cancelled"})


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests of a batch as its service counts them, for people to look at: what was answered is in the files alone."""

    total: int
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as its service tells of it.

    Attributes:
        status: validating, in_progress, finalizing, cancelling, and those of ``is_over``; others may come.
        output_file: None where nothing was answered, and at some services on completed batches, too.
        errors: why it was refused at validation, one line each, without secrets.
        metadata: what it was created with; some services drop it.
        created_at: seconds since 1970 by the service's own clock; so is ``expires_at``.
        is_full: it was refused at validation because too many requests or tokens are enqueued: it may pass later.
        is_broke: it was refused at validation because the quota or the credit of the account is used up.
    """

    id: str
    status: str
    counts: Counts | None = None
    output_file: str | None = None
    error_file: str | None = None
    input_file: str | None = None
    errors: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: float | None = None
    expires_at: float | None = None
    is_full: bool = False
    is_broke: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it. What is in its files was done, and is billed, whatever the status."""
        return self.status in _OVER


class BatchRefused(Exception):
    """The service makes no batch of this file.

    ``is_full``: its cap on enqueued requests or tokens is reached; the same file may be taken when other batches have ended.
    A batch that is refused later, at validation, has the status "failed", and says the same of itself: ``Batch.is_full``.
    """

    def __init__(self, detail: str, *, is_full: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.is_full = is_full


class Unknown(Exception):
    """A request to create a batch went out, and nobody knows what came of it: look with ``find`` before it is sent again."""


class BatchService(Protocol):
    """A batch service. Whatever may pass is tried again inside, for hours where nothing is lost by it.

    All raise EndpointError for what will not pass: a key that is refused, no credit, no batch service at that address.
    """

    async def upload(self, path: Path) -> str:
        """Upload the requests in the file at ``path``; the id of the file there. Uploaded twice, it is two files, and free."""
        ...

    async def create(self, file_id: str, metadata: Mapping[str, str]) -> Batch:
        """Create a batch of an uploaded file. From here on it costs money, so nothing is sent twice.

        Raises:
            BatchRefused: it was not created.
            Unknown: it may have been created, or not.
        """
        ...

    async def get(self, batch_id: str) -> Batch:
        """Ask how a batch stands."""
        ...

    async def cancel(self, batch_id: str) -> Batch:
        """Cancel a batch; what was done of it is still given, and billed. One that is over is returned as it is."""
        ...

    async def find(self, metadata: Mapping[str, str], input_file: str | None) -> Batch | None:
        """Find the newest batch that has all of ``metadata``, or was made of ``input_file`` where a service drops metadata.

        One that was refused at validation only where there is no other: it may have been asked for again since.
        """
        ...

    async def download(self, file_id: str, to: Path) -> None:
        """Download a file; it appears at ``to`` whole and synced, or not at all."""
        ...

    async def delete(self, file_id: str) -> None:
        """Delete a file; one that is gone already, or may not be deleted, is left."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
