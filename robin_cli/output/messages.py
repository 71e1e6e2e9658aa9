"""What a command says beside its results: lines on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from robin_cli.config import RunConfig
from robin_cli.output.text import plain


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


def messages_for(config: RunConfig) -> Messages:
    """Messages on stderr, as ``config`` wants them."""
    return Messages(Console(stderr=True, highlight=False), quiet=config.quiet)
