"""The batch service of an OpenAI-compatible endpoint: /v1/files and /v1/batches.

Problems that may pass are tried again, for up to half a night if nothing is lost by waiting. The creation of a batch is sent
again only if the first is known to have failed: each batch is paid for.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, urlencode

import orjson

from robin_batch.files import FileRequest, FileTransport
from robin_batch.lines import URL
from robin_cli.data.local import whole_file
from robin_cli.judges.bodies import TooLong, Unreadable, read_json
from robin_cli.judges.judge import Notices
from robin_cli.judges.problems import Fatal, classify, error_in
from robin_cli.judges.transport import Endpoint, Request, Response, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure
from robin_cli.model.records import SERVICE_ID

MOST_REQUESTS = 50_000
MOST_BYTES = 200 * 1000 * 1000
"""The limits of one input file: OpenAI's, the lowest of the services with its protocol."""

PATIENCE_S = 12 * 3600.0
"""How long to try again: a night without network must not end a run."""

FIRST_S = 120.0
"""How long to try again before the first answer: the address may be wrong."""

UNREACHED_S = 2.0
"""How long to try again before the first connection, if no batch was made there."""

SHORTLY_S = 300.0
"""How long the service may not know a new file or batch, or refuse a creation with 429."""

AT_ONCE_S = 30.0
"""How long to try requests while the user waits after Ctrl-C, and requests that may fail."""

MOST_DOWNLOADED = 4 * 2**30
_MOST_HOLD_S = 600.0
_MOST_ERRORS = 20
_MOST_PAGES = 1000
_PAGE = 100
_LONGEST_WAIT_S = 60.0
_FULL = re.compile(
    r"enqueued|token_limit_exceeded|(concurrent|active|queued|pending|too many) batch",
    re.IGNORECASE,
)
_OVER = frozenset({"failed", "completed", "expired", "cancelled"})
_SPELT = {"canceled": "cancelled", "canceling": "cancelling"}

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as its service reports it.

    Attributes:
        status: validating, in_progress, finalizing, cancelling, or one of ``is_over``; there may be others.
        counts: finished requests and all requests, by the service's count; only for display.
        output_file: None if nothing was answered; at some services also for completed batches.
        errors: the reasons of a refusal at validation, one line each, without secrets.
        metadata: from its creation; some services drop it.
        is_full: refused at validation because too many requests or tokens are enqueued: it may pass later.
    """

    id: str
    status: str
    counts: tuple[int, int] | None = None
    output_file: str | None = None
    error_file: str | None = None
    input_file: str | None = None
    errors: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_full: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it has ended. The answers in its files are billed, whatever the status."""
        return self.status in _OVER


class BatchRefused(Exception):
    """The service refuses to make a batch of a file.

    ``is_full``: its cap on enqueued requests or tokens is reached; it may accept the file once other batches have ended. A
    batch that is refused later, at validation, has the status "failed" and ``Batch.is_full``.
    """

    def __init__(self, detail: str, *, is_full: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.is_full = is_full


class Unknown(Exception):
    """A request to create a batch was sent, and its outcome is unknown: look with ``find`` before it is sent again."""


@dataclass(eq=False)
class _MayPass(Exception):
    """A problem that may pass within ``patience_s``. ``sent``: the service may have received the request."""

    detail: str
    sent: bool
    after_s: float | None = None
    patience_s: float = PATIENCE_S
    status: int = 0


class OpenAIBatches:
    """The batch service at an endpoint. Problems that may pass are tried again inside, for hours if nothing is lost by it.

    All methods raise EndpointError for other problems: a refused key, no credit, no batch service.

    Args:
        endpoint: its address and key; ``timeout_s`` limits each request, plus time for the size of its file.
        notify: gets lines about this service for the user, each once.
        sleep: for tests; seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        notify: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.base_url = endpoint.base_url
        self._notices = Notices(endpoint.base_url, notify)
        self._sleep = sleep
        self._was_there = False  # whether the service ever answered
        self._transport = FileTransport(endpoint)

    async def upload(self, path: Path) -> str:
        """Upload a file of requests; return its id. A second upload makes a second file, and is free."""

        async def attempt() -> str:
            with path.open("rb") as file:
                content = await self._content(FileRequest("POST", "files", file=file))
            return _id(content.get("id")) or _malformed("a file without an id")

        return await self._patiently(attempt)

    async def create(self, file_id: str, metadata: Mapping[str, str]) -> Batch:
        """Create a batch of an uploaded file. It costs money, so the request is not sent twice.

        Raises:
            BatchRefused: it was not created.
            Unknown: it may or may not have been created.
        """
        asked = {
            "input_file_id": file_id,
            "endpoint": URL,
            "completion_window": "24h",
            "metadata": dict(metadata),
        }

        async def attempt() -> Batch:
            try:
                return self._batch(
                    await self._content(Request("POST", "batches", orjson.dumps(asked)), of=file_id)
                )
            except _MayPass as error:
                if error.status == 429:
                    error.patience_s = SHORTLY_S
                elif error.sent:
                    raise Unknown(error.detail) from None
                raise

        return await self._patiently(attempt)

    async def get(self, batch_id: str) -> Batch:
        """Return the state of a batch."""
        return await self._of("GET", f"batches/{_quoted(batch_id)}")

    async def cancel(self, batch_id: str) -> Batch:
        """Cancel a batch, and return it; one that is over is unchanged. Its answers so far are available, and billed."""
        path = f"batches/{_quoted(batch_id)}"
        try:
            return await self._of("POST", f"{path}/cancel", AT_ONCE_S)
        except (BatchRefused, EndpointError) as error:
            batch = await self._of("GET", path, AT_ONCE_S)
            # LiteLLM answers 500 for one that is over.
            if batch.is_over or isinstance(error, BatchRefused):
                return batch
            raise

    async def find(self, metadata: Mapping[str, str], input_file: str | None) -> Batch | None:
        """Return the newest batch with all of ``metadata``, or made of ``input_file``, for services that drop metadata.

        A batch that was refused at validation is returned only if there is no other: it may have been created again since.
        """
        after: str | None = ""
        refused: Batch | None = None  # an earlier try with the same metadata may have found no room
        for _ in range(_MOST_PAGES):
            batches, after = await self._page(after)
            for batch in batches:
                named = bool(metadata) and metadata.items() <= batch.metadata.items()
                if named or (input_file is not None and batch.input_file == input_file):
                    if batch.status != "failed":
                        return batch
                    refused = refused or batch
            if after is None:
                break
        return refused

    async def download(self, file_id: str, to: Path) -> None:
        """Download a file to ``to``, where it appears whole and synced, or not at all."""

        async def attempt() -> None:
            with whole_file(to) as file:
                path = f"files/{_quoted(file_id)}/content"
                request = FileRequest("GET", path, to=file, most=MOST_DOWNLOADED)
                try:
                    await self._good(request, made=True)
                except Unreadable as error:
                    self._give_up(f"gives files {error}")

        await self._surely(attempt)

    async def delete(self, file_id: str) -> None:
        """Delete a file, if it exists and may be deleted."""

        async def attempt() -> None:
            await self._good(Request("DELETE", f"files/{_quoted(file_id)}"))

        with suppress(EndpointError, BatchRefused, Unreadable):
            await self._patiently(attempt, AT_ONCE_S)

    async def aclose(self) -> None:
        """Close connections."""
        await self._transport.aclose()

    async def _of(self, method: str, path: str, patience_s: float = PATIENCE_S) -> Batch:
        """Make a request about an existing batch."""

        async def attempt() -> Batch:
            try:
                return self._batch(
                    await self._content(Request(method, path, again=method == "GET"), made=True)
                )
            except _MayPass as error:
                if error.status == 409:  # a conflict does not pass
                    raise BatchRefused(error.detail, is_full=False) from None
                raise

        return await (self._surely if method == "GET" else self._patiently)(attempt, patience_s)

    async def _page(self, after: str | None) -> tuple[list[Batch], str | None]:
        """Return a page of batches, and the id after which the next page begins; None if there is none."""
        query = urlencode({"limit": _PAGE} | ({"after": after} if after else {}))

        async def attempt() -> tuple[list[Batch], str | None]:
            content = await self._content(Request("GET", f"batches?{query}", again=True))
            listed = content.get("data")
            if not isinstance(listed, list):
                _malformed("a list without data")
            batches = []
            for entry in listed:
                with suppress(_MayPass):
                    batches.append(self._batch(entry))
            last = _id(content.get("last_id")) or (batches[-1].id if batches else None)
            return batches, last if content.get("has_more") is True and last != after else None

        return await self._surely(attempt)

    async def _surely(
        self, attempt: Callable[[], Awaitable[Made]], patience_s: float = PATIENCE_S
    ) -> Made:
        try:
            return await self._patiently(attempt, patience_s)
        except BatchRefused as error:
            self._give_up(
                f"refuses a request about a batch ({error.detail}); ask again with robin resume"
            )

    async def _patiently(
        self, attempt: Callable[[], Awaitable[Made]], patience_s: float = PATIENCE_S
    ) -> Made:
        """Try until there is no :class:`_MayPass`. EndpointError if it does not pass in time."""
        started, slept, wait_s = time.monotonic(), 0.0, 1.0
        while True:
            try:
                return await attempt()
            except _MayPass as failure:
                error = failure
            most_s = min(patience_s, PATIENCE_S if self._was_there else FIRST_S, error.patience_s)
            if max(slept, time.monotonic() - started) >= most_s:
                break
            self._notices.once(f"{error.detail}; trying again", key=f"{error.status}")
            pause_s = random.uniform(0.0, wait_s)  # noqa: S311  # so that many do not come back together
            if error.after_s is not None:
                pause_s = min(error.after_s, _MOST_HOLD_S) + min(pause_s, 1.0)
            await self._sleep(pause_s)
            slept, wait_s = slept + pause_s, min(2 * wait_s, _LONGEST_WAIT_S)
        if error.status == 429:
            raise BatchRefused(error.detail, is_full=True)
        step = "tried again in vain; go on later with robin resume"
        if not self._was_there:
            step = "it never answered: is the service running, and --base-url right?"
        raise EndpointError(f"{self.base_url}: {error.detail}; {step}")

    async def _content(
        self, request: Request, *, made: bool = False, of: str = ""
    ) -> dict[str, Any]:
        """Return the JSON object of a good answer."""
        try:
            content = read_json((await self._good(request, made=made, of=of)).body)
        except Unreadable as error:
            _malformed(f"a body that is {error}")
        if not isinstance(content, dict):
            _malformed("content that is not a JSON object")
        self._was_there = True
        return content

    async def _good(self, request: Request, *, made: bool = False, of: str = "") -> Response:
        """Return a good answer. ``made``: it is about an existing object, which may not be known yet; ``of``: a file's id."""
        try:
            response = await self._transport.send(request)
        except Unreachable as error:
            never = not (made or error.sent or self._was_there)
            patience_s = UNREACHED_S if never else PATIENCE_S
            raise _MayPass(str(error), sent=error.sent, patience_s=patience_s) from None
        except TooLong as error:
            raise _MayPass(f"{error}, which is not read", sent=True, patience_s=0.0) from None
        # a 200 may be another server's page
        self._was_there = self._was_there or response.status >= 300
        if response.is_good:
            return response
        raise self._problem(response, made=made, of=of)

    def _problem(self, response: Response, *, made: bool, of: str) -> Exception:
        status, body = response.status, response.body
        with suppress(TooLong):
            parts = error_in(read_json(body))
            message = parts.message
            shown = self._transport.redacted(f"{status}: {message}" if message else str(status))
            if 400 <= status < 500 and _FULL.search(f"{parts.code} {message}"):
                return BatchRefused(shown, is_full=True)
            if status == 404 and made:
                return _MayPass(
                    f"it is not known there ({shown})",
                    sent=True,
                    patience_s=SHORTLY_S,
                    status=status,
                )
            if status == 404 and of and of in message:
                return BatchRefused(shown, is_full=False)
            if status in {404, 405, 501}:
                return EndpointError(
                    f"{self.base_url}: has no batch service ({shown}); leave --batch out, or check --base-url"
                )
        problem = classify(status, body, response.headers)
        if isinstance(problem, Fatal):
            return self._transport.ended(problem)
        detail = self._transport.redacted(problem.detail)
        if isinstance(problem, Failure) and not problem.refused:
            return _MayPass(detail, sent=True, after_s=problem.retry_after_s, status=status)
        return BatchRefused(detail, is_full=False)

    def _batch(self, content: object) -> Batch:
        content = content if isinstance(content, dict) else {}
        batch_id, status = _id(content.get("id")), content.get("status")
        if batch_id is None or not isinstance(status, str):
            _malformed("a batch without id or status")
        refusals = _refusals(content.get("errors"))
        status = status[:40].lower()
        return Batch(
            id=batch_id,
            status=_SPELT.get(status, status),
            counts=_counts(content.get("request_counts")),
            output_file=_id(content.get("output_file_id")),
            error_file=_id(content.get("error_file_id")),
            input_file=_id(content.get("input_file_id")),
            errors=tuple(
                self._transport.redacted(": ".join(filter(None, refusal)))
                for refusal in refusals
                if any(refusal)
            ),
            metadata=_texts(content.get("metadata")),
            is_full=any(_FULL.search(f"{code} {message}") for code, message in refusals),
        )

    def _give_up(self, why: str) -> NoReturn:
        raise EndpointError(f"{self.base_url}: {why}")


def _malformed(what: str) -> NoReturn:
    raise _MayPass(f"a 200 with {what}", sent=True)


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _id(value: object) -> str | None:
    """Return an id by a service; None if it is missing or malformed."""
    return value if isinstance(value, str) and re.fullmatch(SERVICE_ID, value) else None


def _refusals(errors: object) -> list[tuple[str, str]]:
    """Return codes and messages of the errors of a batch, with the input line that they are about."""
    data = errors.get("data") if isinstance(errors, dict) else errors
    refusals = []
    for problem in data[:_MOST_ERRORS] if isinstance(data, list) else []:
        parts = error_in(problem)
        code, message = parts.code, parts.message
        line = problem.get("line") if isinstance(problem, dict) else None
        refusals.append(
            (code, f"line {line}: {message or code}" if isinstance(line, int) else message)
        )
    return refusals


def _counts(value: object) -> tuple[int, int] | None:
    if not isinstance(value, dict):
        return None
    total, completed, failed = (
        count if isinstance(count := value.get(name), int) and count >= 0 else 0
        for name in ("total", "completed", "failed")
    )
    return completed + failed, total


def _texts(value: object) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}
