"""Lines of a batch's files, requests and answers. Answers are read without trusting them.

Batch services write ``{"id", "custom_id", "response": {"status_code", "request_id", "body"},
"error"}`` into two files, in any order. OpenAI's failed lines have an error in ``body``, or a status of 0 and nothing, or no
``response`` and an ``error`` of their own; OGX's (1.5.0) ``body`` is a JSON string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from robin_cli.data.images import with_parts
from robin_cli.judges.bodies import TooLong, number, read_json
from robin_cli.judges.problems import Problem, classify, error_in, error_in_200, too_long
from robin_cli.judges.replies import Completion, read_completion
from robin_cli.model.exchange import Failure

URL = "/v1/chat/completions"

_MOST_ID = 200
_ID = re.compile(rb'"custom_id"\s*:\s*"([^"\\]{1,200})"')
_HEAD = 4096
_BOM = b"\xef\xbb\xbf"

_NOT_DONE = frozenset({"batch_expired", "batch_cancelled", "batch_canceled"})
"""Codes of requests that were not made, and are not billed."""

_TIMEOUT = "request_timeout"


@dataclass(frozen=True, slots=True)
class Line:
    """A line with the outcome of a request.

    Attributes:
        custom_id: the request's id, which may be unknown, or repeat another line's; None if the line is broken.
        outcome: None also if the request was not made, and not billed, because the batch expired or was cancelled. Take
            secrets out before it is shown, as of any reply.
        is_damaged: it holds bytes that are not UTF-8, which are read as �.
    """

    custom_id: str | None
    outcome: Completion | Problem | None
    is_damaged: bool = False


def line_of(custom_id: str, body: Mapping[str, Any]) -> bytes:
    """Return one request as a line of an input file, with its line end. InputError as :func:`with_parts`."""
    sent = {**body, "messages": with_parts(body["messages"])}
    return (
        orjson.dumps({"custom_id": custom_id, "method": "POST", "url": URL, "body": sent}) + b"\n"
    )


def read_lines(paths: Iterable[Path], limit_bytes: int) -> Iterator[Line]:
    """Yield the lines of output and error files, without blank ones.

    Args:
        limit_bytes: the longest line that is read; of a longer one only the id is.

    Raises:
        OSError: a file cannot be opened or read.
    """
    for path in paths:
        with path.open("rb") as file:
            for raw in _lines(file, limit_bytes + 1):
                text = raw.removeprefix(_BOM).strip()
                if text:
                    yield _line(text, limit_bytes)


def _lines(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Yield the lines of ``file``, each cut to ``most`` bytes."""
    while line := file.readline(most):
        yield line
        while len(line) == most and not line.endswith(b"\n"):  # skip the rest of a long line
            line = file.readline(most)


def _line(text: bytes, limit: int) -> Line:
    try:
        if len(text) > limit:
            raise TooLong(f"a line of more than {limit:,} bytes")
        content = read_json(text, limit)
        content = content if isinstance(content, dict) else {}
        custom_id = content.get("custom_id")
        if not isinstance(custom_id, str) or not 0 < len(custom_id) <= _MOST_ID:
            return Line(None, None)
        is_damaged = text.decode("utf-8", "ignore").encode() != text
        return Line(custom_id, _outcome(content, text, limit), is_damaged)
    except TooLong as error:  # look for the id: inside a JSON text its quotes would be escaped
        match = _ID.search(text[:_HEAD])
        return Line(match[1].decode("utf-8", "replace") if match else None, too_long(error))


def _outcome(line: dict[str, Any], text: bytes, limit: int) -> Completion | Problem | None:
    response, error = line.get("response"), line.get("error")
    response = response if isinstance(response, dict) else {}
    body, status = response.get("body"), int(number(response.get("status_code")) or 0)
    if isinstance(body, str):
        body = read_json(body.encode("utf-8", "replace"), limit) or body
    request_id = response.get("request_id")
    headers = {"x-request-id": request_id} if isinstance(request_id, str) else {}
    if 200 <= status < 300 and body:
        return read_completion(text, headers, limit, body)
    if status >= 300 and (body or error):
        return classify(status, text, headers, body or error)
    return _unanswered(error or body, status)


def _unanswered(error: object, status: int) -> Problem | None:
    """Return the outcome of a line without an HTTP status: the batch ended before it, it timed out, or the service failed."""
    parts = error_in(error)
    message = parts.message or parts.code or "no message"
    if parts.code in _NOT_DONE:
        return None
    if parts.code == _TIMEOUT:
        return Failure("timeout", f"timed out within the batch service ({message})")
    problem = error_in_200(error, {})
    if isinstance(problem, Failure) and problem.reason == "bad_request" and not problem.parameter:
        why = f"failed within the batch service (status {status}: {message})"
        return Failure("batch_error", why)
    return problem
