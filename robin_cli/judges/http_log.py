"""``--debug-http FILE``: a log of requests and answers for bug reports, a JSON object per line, without the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import orjson

from robin_cli.files.outputs import added_to
from robin_cli.model.errors import InputError

_SECRET_NAMES = re.compile(
    r"auth|cookie|key|token|secret|session|openai-(organization|project)", re.IGNORECASE
)

_MOST_SHOWN = 64 * 1024
"""The most bytes of a body, or characters of other values, that are written."""


class HttpLog:
    """A log that only its owner can read; an existing file is appended to.

    Args:
        redact: returns the beginning of a text, so many characters, without secrets.
        notify: gets a line when the file cannot be written any more; the run goes on without it.

    Raises:
        InputError: the file cannot be opened.
    """

    def __init__(
        self, path: Path, redact: Callable[[str, int], str], notify: Callable[[str], None]
    ) -> None:
        self._path = path
        self._redact = redact
        self._notify = notify
        try:
            self._file: IO[bytes] | None = added_to(path)
        except OSError as error:
            raise InputError(
                f"--debug-http {path}: cannot be written ({error.strerror}); name another file"
            ) from error

    def write(
        self, url: str, request: Mapping[str, str], sent: bytes, took_s: float, **outcome: Any
    ) -> None:
        """Append an exchange: ``request`` headers, the body ``sent``, and ``status``, ``headers``, ``body``, or ``error``."""
        if self._file is None:
            return
        line = {
            "url": url,
            "request_headers": request,
            "request_body": sent,
            "took_s": round(took_s, 4),
            **outcome,
        }
        try:
            self._file.write(
                orjson.dumps({name: self._shown(value) for name, value in line.items()}) + b"\n"
            )
        except OSError as error:
            self._notify(
                f"--debug-http {self._path}: could not be written ({error.strerror}); going on without it"
            )
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Mapping):  # headers
            return {
                name: "[left out]" if _SECRET_NAMES.search(name) else self._shown(each)
                for name, each in value.items()
            }
        if not isinstance(value, bytes | bytearray | str):
            return value
        beginning = value[:_MOST_SHOWN]
        text = beginning if isinstance(beginning, str) else beginning.decode("utf-8", "replace")
        shown = self._redact(text, _MOST_SHOWN).encode("utf-8", "replace").decode("utf-8")
        return f"{shown}[and so on, {len(value):,} in all]" if len(value) > _MOST_SHOWN else shown
