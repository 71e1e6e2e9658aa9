"""A command's messages beside its results: lines on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.text import Text

from robin_cli.show.text import as_called, plain, wrapped
from robin_cli.show.words import duration

LINE_EVERY_S = 30.0


class Unfailing:
    """A text stream whose reader may leave: text that cannot be written is dropped.

    Args:
        stream: the stream to write to; None for none, as in a program without a terminal.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` if possible."""
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        with suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Messages:
    """Lines for the user, on stderr, above any live display."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console = console
        self.quiet = quiet
        self.pause: Callable[[], object] = (
            bool  # takes the display off the terminal, for something to be asked there
        )

    def note(self, line: str) -> None:
        """Print ``line`` as plain text; nothing if quiet."""
        if not self.quiet:
            text = as_called(plain(line))
            self.console.print(
                Text(wrapped(text, self.console.width) if self.console.is_terminal else text),
                soft_wrap=True,
            )

    @contextmanager
    def busy(self, what: str, every_s: float = LINE_EVERY_S) -> Iterator[None]:
        """Show that ``what`` is running as long as the context lasts; off a terminal with a line at an interval."""
        began = time.monotonic()
        if self.console.is_terminal and not self.quiet:
            with self.console.status(what):
                yield
        else:
            with lines_now_and_then(
                lambda: f"{what} for {duration(time.monotonic() - began)}", self.note, every_s
            ):
                yield


@contextmanager
def lines_now_and_then(
    line: Callable[[], str], note: Callable[[str], None], every_s: float = LINE_EVERY_S
) -> Iterator[None]:
    """Print ``line`` at an interval as long as the context lasts, for readers of a log."""
    over = threading.Event()

    def write() -> None:
        while not over.wait(every_s):
            note(line())

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def messages_for(*, quiet: bool = False, notebook: bool = False) -> Messages:
    """Return messages for stderr; in a ``notebook`` as lines, because a live display would need its widgets."""
    file = cast("IO[str]", Unfailing(sys.stderr))
    console = Console(
        file=file, stderr=True, highlight=False, force_jupyter=False if notebook else None
    )
    return Messages(console, quiet=quiet)
