"""A batch service of the tests' own: OpenAI's /v1/files and /v1/batches, with what can go wrong there as switches.

Nothing happens by the clock. A batch moves on when it is asked for: it is over at its ``Fate.polls``-th poll, or held by
:meth:`BatchServer.pause`. The state lies in this process, so it outlives clients that are killed, and :meth:`BatchServer.away`.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

Json = dict[str, Any]
Answer = str | tuple[int, Json]
"""The text of an answer; or a status and the body of an error."""

OVER = {"failed", "completed", "expired", "cancelled"}
URL = "/v1/chat/completions"


@dataclass
class Fate:
    """What becomes of one batch; by default all of it is answered, in another order.

    Attributes:
        end: the status that it ends with: completed, expired or cancelled.
        polls: it is over when it was asked for so often after its creation.
        done: requests done when it ends; None: all. The others were not begun, and are in the error file.
        refused: it fails at validation with this code.
        quota: requests after which the account has no more.
        unsaid: lines, of those done, that have status 0 and nothing else; not billed.
        lost: lines, of those billed, that are in no file.
        twice: lines that are given twice.
        strange: lines of another batch.
        broken: lines that are no JSON.
        latin: answers hold a byte that is no UTF-8.
        order: of the lines: shuffled, input, reversed.
        strings: bodies are JSON strings.
        no_output: what there is in place of the id of an output file: None, or "".
    """

    end: str = "completed"
    polls: int = 1
    done: int | None = None
    refused: str = ""
    quota: int | None = None
    unsaid: int = 0
    lost: int = 0
    twice: int = 0
    strange: int = 0
    broken: int = 0
    latin: bool = False
    order: str = "shuffled"
    strings: bool = False
    no_output: str | None = "given"


@dataclass
class Fault:
    """What happens to the next ``times`` requests of a method whose path fits.

    ``how``: a status, with ``body`` and ``headers``; or before it is worked on: "drop" (the connection is closed), "late"
    (closed, and worked on when such a request is sent again), "hold" (until :meth:`BatchServer.release`); or after it: "lose"
    (closed without an answer), "hold after", "html", "half", "nothing" (an empty object).
    """

    method: str
    path: str
    how: int | str
    times: int = 1
    body: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ServedBatch:
    """A batch; ``billed`` has the custom ids that were answered, in order."""

    id: str
    input_file: str
    metadata: dict[str, str]
    fate: Fate
    created_at: float
    status: str = "validating"
    polls: int = 0
    custom_ids: list[str] = field(default_factory=list)
    billed: list[str] = field(default_factory=list)
    failed: int = 0
    output_file: str | None = None
    error_file: str | None = None
    errors: list[Json] = field(default_factory=list)


def rating(body: Json) -> str:
    """An answer with a rating from 0 to 4 that depends on the whole request, seed included, and on nothing else."""
    return f"Feedback: fine.\nRating: {zlib.crc32(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)) % 5}"


@dataclass
class BatchServer:
    """A batch service that runs; see :func:`batch_server`. What tests set may be set at any time.

    Attributes:
        fates: of the next batches that are created, taken from the front; when there are none, Fate().
        faults: of the next requests.
        batches: by id, oldest first.
        files: contents by id.
        requests: method and path of all that came.
        calls: bodies that were asked one at a time, at chat/completions.
        answer: what a request is answered; ``upstream``: a base URL that answers instead.
        key: the only one taken, where there is one.
        cap: requests that may be enqueued at a time. ``cap_at``: "validation", or "creation" (a 429).
        keeps_metadata: batches tell what they were created with.
        ids: of what is made, by its kind and number.
        page: batches in a page of the list, at most.
        skew_s: how far its clock is from this machine's.
        serves: False: it has chat/completions alone.
    """

    answer: Callable[[Json], Answer] = rating
    upstream: str | None = None
    key: str | None = None
    cap: int | None = None
    cap_at: str = "validation"
    most_requests: int = 50_000
    most_bytes: int = 200_000_000
    keeps_metadata: bool = True
    ids: str = "{}-{}"
    page: int = 100
    skew_s: float = 0.0
    serves: bool = True
    url: str = ""
    fates: list[Fate] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    batches: dict[str, ServedBatch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    at_work: int = 0
    _released: threading.Event = field(default_factory=threading.Event)
    _running: threading.Event = field(default_factory=threading.Event)
    _made: int = 0
    _late: asyncio.Task[None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _runner: web.AppRunner | None = None

    @property
    def billed(self) -> list[str]:
        """Custom ids of all that was answered, and so is to be paid, in all batches: as often as it was."""
        return [each for batch in self.batches.values() for each in batch.billed]

    def fail(
        self,
        method: str,
        path: str,
        how: int | str,
        times: int = 1,
        *,
        code: str = "",
        **headers: str,
    ) -> None:
        """Add a fault; ``code`` is that of its error, underscores in names of headers stand for hyphens."""
        body = {"error": {"message": f"a fault of the tests: {code or how}", "code": code or None}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(method, path, how, times, body, named))

    def asked(self, method: str, path: str) -> int:
        """How often a path that fits was asked for."""
        return sum(
            by == method and re.fullmatch(path, what) is not None for by, what in self.requests
        )

    def release(self) -> None:
        """Let go of requests that are held."""
        self._released.set()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """No batch moves on meanwhile, however often it is asked for."""
        self._running.clear()
        try:
            yield
        finally:
            self._running.set()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nothing listens there meanwhile: connections are refused. Then it is back, with all that it had."""
        self._do(self._stop())
        try:
            yield
        finally:
            self._do(self._start(int(self.url.rpartition(":")[2].partition("/")[0])))

    # ---- the service ----

    def _do(self, what: Any) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    async def _start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=2**30, middlewares=[self._middleware()])
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._complete),
                web.post("/v1/files", self._upload),
                web.get("/v1/files/{id}/content", self._content),
                web.delete("/v1/files/{id}", self._delete),
                web.post("/v1/batches", self._create),
                web.get("/v1/batches", self._list),
                web.get("/v1/batches/{id}", self._get),
                web.post("/v1/batches/{id}/cancel", self._cancel),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def _stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def _middleware(self) -> Any:
        @web.middleware
        async def faulty(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            path = request.path.removeprefix("/v1")
            self.requests.append((request.method, path))
            self.at_work += 1
            try:
                return await answered(request, path, handler)
            finally:
                self.at_work -= 1

        async def answered(
            request: web.Request,
            path: str,
            handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
        ) -> web.StreamResponse:
            if (
                self.key is not None
                and request.headers.get("Authorization") != f"Bearer {self.key}"
            ):
                return _error(
                    401,
                    f"Incorrect API key provided: {request.headers.get('Authorization')}",
                    "invalid_api_key",
                )
            if not self.serves and path != "/chat/completions":
                return _error(404, "Not Found")
            fault = self._next_fault(request.method, path)
            if fault is None:
                return await handler(request)
            if isinstance(fault.how, int):
                return web.json_response(fault.body, status=fault.how, headers=fault.headers)
            return await self._faulty(fault.how, request, handler)

        return faulty

    def _next_fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and re.fullmatch(fault.path, path):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    async def _faulty(
        self,
        how: str,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        assert request.transport is not None
        if how == "drop":
            request.transport.close()
            return web.Response()
        if how == "late":
            await request.read()
            request.transport.close()
            self._late = asyncio.create_task(self._when_sent_again(request, handler))
            return web.Response()
        if how == "hold":
            await self._hold()
        response = await handler(request)
        if how == "hold after":
            await self._hold()
        elif how == "html":
            return web.Response(text="<html>busy</html>", content_type="text/html")
        elif how == "nothing":
            return web.json_response({})
        elif how == "lose":
            request.transport.close()
        elif how == "half":
            assert isinstance(response, web.Response)
            assert isinstance(response.body, bytes)
            half = web.StreamResponse(headers={"Content-Length": str(len(response.body))})
            await half.prepare(request)
            await half.write(response.body[: len(response.body) // 2])
            request.transport.close()
        return response

    async def _when_sent_again(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]
    ) -> None:
        path = re.escape(request.path.removeprefix("/v1"))
        before = self.asked(request.method, path)
        while self.asked(request.method, path) == before:  # noqa: ASYNC110  # nothing else tells of it
            await asyncio.sleep(0.01)
        await handler(request)

    async def _hold(self) -> None:
        self.held.set()
        await asyncio.to_thread(self._released.wait)

    def _id(self, kind: str) -> str:
        self._made += 1
        return self.ids.format(kind, f"{self._made:04}")

    def _now(self) -> float:
        return time.time() + self.skew_s

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.calls.append(body)
        status, said = await self._answered(body)
        return web.json_response(said, status=status)

    async def _answered(self, body: Json) -> tuple[int, Json]:
        if self.upstream is not None:
            async with (
                aiohttp.ClientSession() as client,
                client.post(f"{self.upstream}/chat/completions", json=body) as got,
            ):
                return got.status, orjson.loads(await got.read())
        answer = self.answer(body)
        if isinstance(answer, tuple):
            return answer
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": answer},
                "finish_reason": "stop",
            }
            for index in range(body.get("n", 1))
        ]
        characters = sum(len(each["content"]) for each in body["messages"])
        usage = {"prompt_tokens": characters // 4, "completion_tokens": 10 * len(choices)}
        return 200, {
            "id": self._id("chatcmpl"),
            "model": body["model"],
            "choices": choices,
            "usage": usage,
        }

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = _form(request.headers["Content-Type"], await request.read())
        purpose, content = form.get("purpose", b""), form.get("file")
        if purpose != b"batch" or content is None:
            return _error(400, "purpose and file are needed", param="purpose")
        if len(content) > self.most_bytes:
            return _error(413, f"the file has {len(content)} bytes, more than {self.most_bytes}")
        file_id = self._file(content)
        return web.json_response(
            {"id": file_id, "object": "file", "bytes": len(content), "purpose": "batch"}
        )

    def _file(self, content: bytes) -> str:
        file_id = self._id("file")
        self.files[file_id] = content
        return file_id

    async def _content(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.match_info["id"])
        return _error(404, "No such File object") if content is None else web.Response(body=content)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if self.files.pop(request.match_info["id"], None) is None:
            return _error(404, "No such File object")
        return web.json_response(
            {"id": request.match_info["id"], "object": "file", "deleted": True}
        )

    async def _create(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        content = self.files.get(asked.get("input_file_id"))
        if content is None:
            return _error(400, "no such input file", "invalid_file", param="input_file_id")
        if asked.get("endpoint") != URL or asked.get("completion_window") != "24h":
            return _error(400, "endpoint and completion_window are needed")
        metadata = asked.get("metadata") or {}
        if len(metadata) > 16 or any(
            len(name) > 64 or len(value) > 512 for name, value in metadata.items()
        ):
            return _error(400, "too much metadata", param="metadata")
        if self.cap_at == "creation" and self._is_over_the_cap(content.count(b"\n")):
            return _error(429, "Enqueued limit reached", "rate_limit_exceeded", "requests")
        fate = self.fates.pop(0) if self.fates else Fate()
        batch = ServedBatch(self._id("batch"), asked["input_file_id"], metadata, fate, self._now())
        self.batches[batch.id] = batch
        if fate.polls == 0:
            await self._move(batch)
        return web.json_response(self._told(batch))

    def _is_over_the_cap(self, more: int, but: ServedBatch | None = None) -> bool:
        enqueued = sum(
            self.files.get(each.input_file, b"").count(b"\n")
            for each in self.batches.values()
            if each.status not in OVER and each is not but
        )
        return self.cap is not None and enqueued + more > self.cap

    async def _list(self, request: web.Request) -> web.StreamResponse:
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        if after is not None:
            if after not in self.batches:
                return _error(400, "no such batch", param="after")
            newest = newest[1 + next(at for at, each in enumerate(newest) if each.id == after) :]
        page = newest[: min(int(request.query.get("limit", 20)), self.page)]
        told = [self._told(each) for each in page]
        ends = (
            {"first_id": page[0].id, "last_id": page[-1].id}
            if page
            else {"first_id": None, "last_id": None}
        )
        return web.json_response(
            {"object": "list", "data": told, **ends, "has_more": len(newest) > len(page)}
        )

    async def _get(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _error(404, f"No batch found with id '{request.match_info['id']}'.")
        await self._move(batch)
        return web.json_response(self._told(batch))

    async def _cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return _error(404, "No batch found")
        if batch.status in OVER:
            return _error(
                409, f"Cannot cancel a batch with status '{batch.status}'.", param="status"
            )
        batch.status = "cancelling"
        return web.json_response(self._told(batch))

    async def _move(self, batch: ServedBatch) -> None:
        """What a poll brings about."""
        if batch.status in OVER or not self._running.is_set():
            return
        batch.polls += 1
        lines = self.files.get(batch.input_file, b"").splitlines()
        if batch.status == "validating":
            batch.errors = self._refusals(batch, lines)
            if batch.errors:
                batch.status = "failed"
                return
            batch.status = "in_progress"
            batch.custom_ids = [orjson.loads(line)["custom_id"] for line in lines]
        if batch.status == "cancelling":
            done = batch.fate.done
            await self._end(batch, lines, "cancelled", len(lines) // 2 if done is None else done)
        elif batch.polls >= batch.fate.polls:
            await self._end(batch, lines, batch.fate.end, batch.fate.done)

    def _refusals(self, batch: ServedBatch, lines: list[bytes]) -> list[Json]:
        if batch.fate.refused:
            return [_refusal(batch.fate.refused)]
        if self._is_over_the_cap(len(lines), but=batch):
            return [
                _refusal(
                    "token_limit_exceeded",
                    "Enqueued token limit reached for m in organization org-1.",
                )
            ]
        if not lines:
            return [_refusal("empty_file")]
        if len(lines) > self.most_requests:
            return [
                _refusal("too_many_tasks", f"{len(lines)} requests, more than {self.most_requests}")
            ]
        try:
            requests = [orjson.loads(line) for line in lines]
        except orjson.JSONDecodeError:
            return [_refusal("invalid_json_line")]
        wrong = [
            _refusal("invalid_request", line=number)
            for number, each in enumerate(requests, 1)
            if (each.get("method"), each.get("url")) != ("POST", URL)
            or not 0 < len(each.get("custom_id", "")) <= 64
        ]
        if len({each.get("custom_id") for each in requests}) < len(requests):
            wrong.append(_refusal("duplicate_custom_id"))
        return wrong

    async def _end(
        self, batch: ServedBatch, lines: list[bytes], status: str, done: int | None
    ) -> None:
        fate, most = batch.fate, asyncio.Semaphore(16)
        requests = [orjson.loads(line) for line in lines]
        done = len(requests) if done is None else min(done, len(requests))

        async def one(number: int) -> tuple[int, Json]:
            if number < fate.unsaid:
                return 0, {}
            if fate.quota is not None and number >= fate.quota:
                error = {
                    "message": "You exceeded your current quota.",
                    "type": "insufficient_quota",
                }
                return 429, {"error": {**error, "code": "insufficient_quota"}}
            async with most:
                return await self._answered(requests[number]["body"])

        fine: list[bytes] = []
        wrong: list[bytes] = []
        for request, (code, body) in zip(
            requests, await asyncio.gather(*map(one, range(done))), strict=False
        ):
            given: Json = {
                "status_code": code,
                "request_id": self._id("req") if code else "",
                "body": body,
            }
            if fate.strings:
                given["body"] = orjson.dumps(body).decode()
            (fine if code == 200 else wrong).append(self._line(request["custom_id"], given))
            if code == 200:
                batch.billed.append(request["custom_id"])
        batch.failed = len(wrong)
        reason = "batch_expired" if status == "expired" else "batch_cancelled"
        error = {"code": reason, "message": "This request was not executed."}
        wrong += [self._line(each["custom_id"], None, error) for each in requests[done:]]
        self._write(batch, fine, wrong)
        batch.status = status

    def _write(self, batch: ServedBatch, fine: list[bytes], wrong: list[bytes]) -> None:
        fate = batch.fate
        some = fine[fate.lost :] + fine[len(fine) - fate.twice :]
        some += [
            self._line(f"another-{number}", {"status_code": 200, "body": {}})
            for number in range(fate.strange)
        ]
        some += [b'{"id": "half a line\n'] * fate.broken
        if fate.latin:
            some = [each.replace(b"fine.", b"\xe9t\xe9.") for each in some]
        if fate.order == "shuffled":
            random.Random(len(some)).shuffle(some)
        elif fate.order == "reversed":
            some.reverse()
        batch.output_file = (
            self._file(b"".join(some)) if some and fate.no_output == "given" else None
        )
        if batch.output_file is None and fate.no_output == "":
            batch.output_file = ""
        batch.error_file = self._file(b"".join(wrong)) if wrong else None

    def _line(self, custom_id: str, response: Json | None, error: Json | None = None) -> bytes:
        line = {
            "id": self._id("batch_req"),
            "custom_id": custom_id,
            "response": response,
            "error": error,
        }
        return orjson.dumps(line) + b"\n"

    def _told(self, batch: ServedBatch) -> Json:
        counts = {
            "total": len(batch.custom_ids),
            "completed": len(batch.billed),
            "failed": batch.failed,
        }
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": URL,
            "completion_window": "24h",
            "status": batch.status,
            "input_file_id": batch.input_file,
            "output_file_id": batch.output_file,
            "error_file_id": batch.error_file,
            "created_at": int(batch.created_at),
            "expires_at": int(batch.created_at) + 86_400,
            "request_counts": counts,
            "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
            "metadata": batch.metadata if self.keeps_metadata else None,
        }


def _refusal(code: str, message: str = "refused by the tests", line: int | None = None) -> Json:
    return {"code": code, "message": message, "param": None, "line": line}


def _error(
    status: int,
    message: str,
    code: str | None = None,
    kind: str = "invalid_request_error",
    param: str | None = None,
) -> web.Response:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return web.json_response({"error": error}, status=status)


def _form(kind: str, body: bytes) -> dict[str, bytes]:
    """The fields of a form by name. aiohttp reads them too, but warns of itself where a body comes in small pieces."""
    boundary = re.search(r'boundary="?([^";]+)', kind)
    assert boundary is not None
    _, *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    assert end.startswith(b"--")
    form = {}
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb' name="([^"]*)"', head)
        assert name is not None
        form[name[1].decode()] = content
    return form


@contextmanager
def batch_server(**settings: Any) -> Iterator[BatchServer]:
    """A batch service on loopback; ``settings`` are attributes of :class:`BatchServer`."""
    server = BatchServer(**settings)
    server._running.set()
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        server._loop = asyncio.get_running_loop()
        await server._start()
        ready.set()
        await asyncio.to_thread(over.wait)
        await server._stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        server.release()
        over.set()
        thread.join()
