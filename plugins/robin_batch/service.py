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
from robin_cli.judges.bodies import TooLong, Unreadable, read_json
from robin_cli.judges.judge import Notices
from robin_cli.judges.problems import Fatal, classify, error_in
from robin_cli.judges.transport import Endpoint, Request, Response, Unreachable
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure
from robin_cli.model.records import SERVICE_ID

MOST_REQUESTS = 50_000
"""The most requests of one file: OpenAI's limit, the lowest of the services with its protocol."""

PATIENCE_S = 12 * 3600.0
"""How long to try again: a night without network must not end a run."""

FIRST_S = 5.0
"""How long to try again before the first answer: the address may be wrong."""

SHORTLY_S = 300.0
"""How long the service may not know a new file or batch."""

AT_ONCE_S = 30.0
"""How long to try requests while the user waits after Ctrl-C, and requests that may fail."""

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
    sent: bool = True
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
        """Upload a file of requests; return its id. A second upload makes a second file, and is free. BatchRefused."""

        def read(response: Response) -> str:
            return _id(self._object(response).get("id")) or _malformed("a file without an id")

        return await self._ask(FileRequest("POST", "files", upload=path), read)

    async def create(self, file_id: str, metadata: Mapping[str, str]) -> Batch:
        """Create a batch of an uploaded file. It costs money, so the request is not sent twice.

        Raises:
            BatchRefused: it was not created.
            Unknown: it may or may not have been created.
        """
        asked = {"input_file_id": file_id, "endpoint": URL, "completion_window": "24h"}
        body = orjson.dumps({**asked, "metadata": dict(metadata)})
        return await self._ask(Request("POST", "batches", body), self._batch, creates=file_id)

    async def get(self, batch_id: str, *, patience_s: float = PATIENCE_S) -> Batch:
        """Return the state of a batch."""
        request = Request("GET", f"batches/{_quoted(batch_id)}", again=True)
        return await self._ask(request, self._batch, exists=True, patience_s=patience_s)

    async def cancel(self, batch_id: str) -> Batch:
        """Cancel a batch, and return it; one that is over is unchanged. Its answers so far are available, and billed."""
        request = Request("POST", f"batches/{_quoted(batch_id)}/cancel")
        try:
            return await self._ask(request, self._batch, exists=True, patience_s=AT_ONCE_S)
        except (BatchRefused, EndpointError) as error:
            batch = await self.get(batch_id, patience_s=AT_ONCE_S)
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
            query = urlencode({"limit": _PAGE} | ({"after": after} if after else {}))
            request = Request("GET", f"batches?{query}", again=True)
            batches, last = await self._ask(request, self._page)
            for batch in batches:
                is_named = bool(metadata) and metadata.items() <= batch.metadata.items()
                if is_named or (input_file is not None and batch.input_file == input_file):
                    if batch.status != "failed":
                        return batch
                    refused = refused or batch
            if last is None or last == after:
                break
            after = last
        return refused

    async def download(self, file_id: str, to: Path) -> None:
        """Download a file to ``to``, where it appears whole and synced, or not at all."""
        request = FileRequest("GET", f"files/{_quoted(file_id)}/content", to=to)
        await self._ask(request, lambda _: None, exists=True)

    async def delete(self, file_id: str) -> None:
        """Delete a file, if it exists and may be deleted."""
        request = Request("DELETE", f"files/{_quoted(file_id)}")
        with suppress(EndpointError, BatchRefused):
            await self._ask(request, lambda _: None, patience_s=AT_ONCE_S)

    async def aclose(self) -> None:
        """Close connections."""
        await self._transport.aclose()

    # ── requests are made, and made again ─────────────────────────────────────────────────────────

    async def _ask(
        self,
        request: Request,
        read: Callable[[Response], Made],
        *,
        exists: bool = False,
        creates: str = "",
        patience_s: float = PATIENCE_S,
    ) -> Made:
        """Make a request until its answer is good; return what ``read`` makes of it.

        Args:
            read: raises _MayPass if it cannot.
            exists: the request is about an object that exists, but may not be known yet.
            creates: the file of which it creates a batch; then it is not sent twice.

        Raises:
            BatchRefused: it is refused, and not a GET, of which a refusal says nothing about the batch.
            EndpointError: it is refused for good, or a problem does not pass in time.
        """
        started, slept, wait_s = time.monotonic(), 0.0, 1.0
        while True:
            try:
                return read(await self._answer(request, exists=exists, file_id=creates))
            except BatchRefused as refused:
                if request.method != "GET":
                    raise
                step = "refused; ask again with robin resume"
                raise self._give_up(refused.detail, step) from None
            except _MayPass as failure:
                error = failure
            if creates and error.sent and error.status != 429:
                raise Unknown(error.detail)
            most_s = min(patience_s, PATIENCE_S if self._was_there else FIRST_S, error.patience_s)
            if max(slept, time.monotonic() - started) >= most_s:
                break
            self._notices.once(f"{error.detail}; trying again", key=f"{error.status}")
            pause_s = random.uniform(0.0, wait_s)  # noqa: S311  # so that many do not come back together
            if error.after_s is not None:
                pause_s = min(error.after_s, _MOST_HOLD_S) + min(pause_s, 1.0)
            await self._sleep(pause_s)
            slept, wait_s = slept + pause_s, min(2 * wait_s, _LONGEST_WAIT_S)
        step = "tried again in vain; go on later with robin resume"
        if not self._was_there:
            step = "it never answered: is the service running, and --base-url right?"
        raise self._give_up(error.detail, step)

    def _give_up(self, why: str, step: str) -> EndpointError:
        return EndpointError(f"{self.base_url}: {why}; {step}")

    async def _answer(self, request: Request, *, exists: bool, file_id: str) -> Response:
        """Make a request once; return a good answer. Raises the problem of any other."""
        try:
            response = await self._transport.send(request)
        except Unreachable as error:
            raise _MayPass(str(error), sent=error.sent) from None
        except Unreadable as error:
            raise _MayPass(f"an answer that is not read: {error}", patience_s=0.0) from None
        # a 200 may be another server's page
        self._was_there = self._was_there or response.status >= 300
        if response.is_good:
            return response
        raise self._problem(response, exists=exists, file_id=file_id)

    def _object(self, response: Response) -> dict[str, Any]:
        """Return the JSON object of a good answer."""
        try:
            content = read_json(response.body)
        except Unreadable as error:
            _malformed(f"a body that is {error}")
        if not isinstance(content, dict):
            _malformed("content that is not a JSON object")
        self._was_there = True
        return content

    def _problem(self, response: Response, *, exists: bool, file_id: str) -> Exception:
        status, body = response.status, response.body
        with suppress(TooLong):
            parts = error_in(read_json(body))
            message = parts.message
            detail = self._transport.redacted(f"{status}: {message}" if message else str(status))
            if 400 <= status < 500 and _FULL.search(f"{parts.code} {message}"):
                return BatchRefused(detail, is_full=True)
            if status == 404 and exists:
                why = f"it is not known there ({detail})"
                return _MayPass(why, patience_s=SHORTLY_S, status=status)
            # A conflict does not pass: the batch is over.
            if (status == 404 and file_id and file_id in message) or (status == 409 and exists):
                return BatchRefused(detail, is_full=False)
            if status in {404, 405, 501}:
                step = "leave --batch out, or check --base-url"
                return self._give_up(f"has no batch service ({detail})", step)
        problem = classify(status, body, response.headers)
        if isinstance(problem, Fatal):
            return self._transport.ended(problem)
        detail = self._transport.redacted(problem.detail)
        if isinstance(problem, Failure) and not problem.refused:
            return _MayPass(detail, after_s=problem.retry_after_s, status=status)
        return BatchRefused(detail, is_full=False)

    # ── what a service says of batches ────────────────────────────────────────────────────────────

    def _page(self, response: Response) -> tuple[list[Batch], str | None]:
        """Return a page of batches, and the id after which the next page begins; None if there is none."""
        content = self._object(response)
        listed = content.get("data")
        if not isinstance(listed, list):
            _malformed("a list without data")
        batches = []
        for entry in listed:
            with suppress(_MayPass):
                batches.append(self._batch_of(entry))
        last = _id(content.get("last_id")) or (batches[-1].id if batches else None)
        return batches, last if content.get("has_more") is True else None

    def _batch(self, response: Response) -> Batch:
        return self._batch_of(self._object(response))

    def _batch_of(self, content: object) -> Batch:
        content = content if isinstance(content, dict) else {}
        batch_id, status = _id(content.get("id")), content.get("status")
        if batch_id is None or not isinstance(status, str):
            _malformed("a batch without id or status")
        status = status[:40].lower()
        errors, metadata = content.get("errors"), content.get("metadata")
        listed = errors.get("data") if isinstance(errors, dict) else errors
        problems = listed[:_MOST_ERRORS] if isinstance(listed, list) else []
        return Batch(
            id=batch_id,
            status=_SPELT.get(status, status),
            counts=_counts(content.get("request_counts")),
            output_file=_id(content.get("output_file_id")),
            error_file=_id(content.get("error_file_id")),
            input_file=_id(content.get("input_file_id")),
            errors=tuple(filter(None, map(self._refusal, problems))),
            metadata={
                name: text
                for name, text in (metadata.items() if isinstance(metadata, dict) else ())
                if isinstance(text, str)
            },
            is_full=any(_FULL.search(error_in(problem).words) for problem in problems),
        )

    def _refusal(self, problem: object) -> str:
        """Return one error of a batch, with its code and the line of the file that it is about."""
        parts = error_in(problem)
        line = problem.get("line") if isinstance(problem, dict) else None
        if isinstance(line, int):
            parts = parts._replace(message=f"line {line}: {parts.message or parts.code}")
        return self._transport.redacted(": ".join(filter(None, (parts.code, parts.message))))


def _malformed(what: str) -> NoReturn:
    raise _MayPass(f"a 200 with {what}")


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _id(value: object) -> str | None:
    """Return an id by a service; None if it is missing or malformed."""
    return value if isinstance(value, str) and re.fullmatch(SERVICE_ID, value) else None


def _counts(value: object) -> tuple[int, int] | None:
    if not isinstance(value, dict):
        return None
    total, completed, failed = (
        count if isinstance(count := value.get(name), int) and count >= 0 else 0
        for name in ("total", "completed", "failed")
    )
    return completed + failed, total
