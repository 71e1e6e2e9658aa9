"""Files that go to a batch service and come from it, piece by piece: they may be larger than the memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import aiohttp

from robin_cli.data.local import whole_file
from robin_cli.judges.bodies import Body, TooLong, Unreadable
from robin_cli.judges.redaction import Redactor
from robin_cli.judges.transport import Request, Response, Transport

MOST_DOWNLOADED = 4 * 2**30
"""The most bytes of a file of answers."""

_SLOWEST = 10_000.0
"""The lowest rate for a file, in bytes per second; slower transfers time out."""


@dataclass(frozen=True, slots=True)
class FileRequest(Request):
    """A request with a file.

    Attributes:
        upload: sent as a form; it is read from disk as it is sent.
        to: the file of the body of a good answer, which appears whole and synced, or not at all.
    """

    upload: Path | None = None
    to: Path | None = None


class FileTransport(Transport):
    """The connections to a batch service."""

    async def send(self, request: Request) -> Response:
        """Send a request, as :meth:`Transport.send`. OSError: a file cannot be read or written."""
        try:
            return await super().send(request)
        except Exception as error:
            if isinstance(error.__cause__, _Unwritable):
                raise error.__cause__.error from None
            raise

    def _limit_s(self, request: Request) -> float | None:
        if not isinstance(request, FileRequest):
            return super()._limit_s(request)
        if request.upload is None:
            return None  # _read_body limits the time
        return self._endpoint.timeout_s + request.upload.stat().st_size / _SLOWEST

    def _content(self, request: Request) -> tuple[Any, dict[str, str]]:
        content, headers = super()._content(request)
        if isinstance(request, FileRequest) and request.upload is not None:
            headers = {name: text for name, text in headers.items() if name != "Content-Type"}
            content = aiohttp.FormData({"purpose": "batch"})
            file, name = request.upload.open("rb"), request.upload.name  # closed once it is sent
            content.add_field("file", file, filename=name, content_type="application/jsonl")
        return content, headers

    async def _read_body(self, request: Request, response: aiohttp.ClientResponse) -> bytearray:
        if not isinstance(request, FileRequest) or request.to is None:
            return await super()._read_body(request, response)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity"}:
            raise Unreadable(f'compressed as "{encoding[:40]}" unasked; turn that off there')
        started, size = time.monotonic(), 0
        try:
            with whole_file(request.to) as file:
                out = WithoutKey(file, self.redactor)
                async for piece in response.content.iter_any():
                    size += len(piece)
                    if size > MOST_DOWNLOADED:
                        raise TooLong(f"a file of more than {MOST_DOWNLOADED:,} bytes")
                    if time.monotonic() - started > self._endpoint.timeout_s + size / _SLOWEST:
                        raise TimeoutError(f"slower than {_SLOWEST:,.0f} bytes a second")
                    out.write(piece)
                out.flush()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            raise
        except OSError as error:
            raise _Unwritable(error) from error
        return bytearray()


class WithoutKey:
    """Writes to a file without the key. It holds back as many bytes as the key has: the next piece may begin within it."""

    def __init__(self, file: IO[bytes], redactor: Redactor) -> None:
        self._file, self._redactor = file, redactor
        self._held: Body = b""
        self._most_held = max(map(len, redactor.forms), default=1) - 1

    def write(self, piece: bytes) -> None:
        """Write all but the last bytes."""
        self._held = self._redactor.body(self._held + piece)
        end = max(0, len(self._held) - self._most_held)
        self._file.write(self._held[:end])
        self._held = self._held[end:]

    def flush(self) -> None:
        """Write the rest."""
        self._file.write(self._held)
        self._held = b""


class _Unwritable(Exception):
    """The disk refused the answer; wrapped, so that it is not taken for a connection's error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error
