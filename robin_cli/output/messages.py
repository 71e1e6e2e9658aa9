"""What a command says beside its results: lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.text import Text

from robin_cli.config import RunConfig
from robin_cli.output.text import plain


class Unfailing:
    """A stream of text to whose reader it is all one whether it still reads: what cannot be written is dropped.

    Args:
        stream: what is written to; None for nothing, as in a program without a terminal.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` if that can be done."""
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if that can be done."""
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Messages:
    """Lines for the user, on stderr, above the live display where there is one."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console = console
        self._quiet = quiet

    def note(self, line: str) -> None:
        """Say ``line``, whatever is in it, as plain text; nothing when quiet."""
        if not self._quiet:
            self.console.print(Text(plain(line)), soft_wrap=True)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show on a terminal that ``what`` goes on, as long as the context lasts."""
        if self._quiet or not self.console.is_terminal:
            yield
        else:
            with self.console.status(what):
                yield


def messages_for(config: RunConfig, *, notebook: bool = False) -> Messages:
    """Messages on stderr, as ``config`` wants them; in a ``notebook`` as lines, for a live display would need its widgets."""
    file = cast("IO[str]", Unfailing(sys.stderr))
    console = Console(file=file, stderr=True, highlight=False, force_jupyter=False if notebook else None)
    return Messages(console, quiet=config.quiet)
