"""What a run shows while it works: a live line on a terminal, a plain line every 30 s elsewhere; always on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robin_cli.output.text import plain
from robin_cli.runs.engine import Stats
from robin_cli.runs.session import Session

_PLAIN_INTERVAL_S = 30.0


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


@contextmanager
def shown(session: Session, messages: Messages, *, quiet: bool) -> Iterator[None]:
    """Show the progress of ``session`` as long as the context lasts."""
    if quiet:
        yield
    elif messages.console.is_terminal:
        with Live(
            get_renderable=lambda: _live(session), console=messages.console, refresh_per_second=4, transient=True
        ):
            yield
    else:
        over = threading.Event()
        printer = threading.Thread(target=_print_lines, args=(session, messages, over), daemon=True)
        printer.start()
        try:
            yield
        finally:
            over.set()
            printer.join()


def _print_lines(session: Session, messages: Messages, over: threading.Event) -> None:
    while not over.wait(_PLAIN_INTERVAL_S):
        messages.note(progress_line(session))


def progress_line(session: Session) -> str:
    """Where the run stands, in one line: spent, rate, time left, calls in flight, what failed."""
    budget, stats = session.budget, session.stats
    elapsed_s = time.monotonic() - stats.started_at
    unparsed, failed = stats.unparsed.copy(), stats.failed.copy()  # the loop goes on while this thread reads
    done = stats.ratings + sum(unparsed.values())
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    left = f"{duration((budget.total - budget.spent) / rate)} left" if rate > 0 else "no answer yet"
    parts = [
        f"{budget.spent:,} of {budget.total:,} calls",
        f"{rate:,.1f}/s",
        left,
        f"{stats.in_flight} in flight",
        "warm-up" if session.scheduler.warming_up else "adaptive",
    ]
    if session.purse.spent:
        of = "" if session.purse.limit is None else f" of {dollars(session.purse.limit)}"
        parts.append(f"{dollars(session.purse.spent)}{of}")
    troubles = [f"{count} {reason}" for reason, count in sorted((unparsed + failed).items())]
    return " · ".join(parts + (["without a rating: " + ", ".join(troubles)] if troubles else []))


def spent_line(stats: Stats, cost_usd: float) -> str:
    """Tokens and money of a session, in one line; ``cost_usd``: of all sessions of the run."""
    marked = " (some estimated: the endpoint does not count them all)" if stats.estimated else ""
    money = f", {dollars(stats.cost_usd)}" if stats.cost_usd else ""
    if cost_usd > 1.0001 * stats.cost_usd:
        money += f" ({dollars(cost_usd)} in all sessions of this run)"
    return f"{stats.prompt_tokens:,} tokens in, {stats.completion_tokens:,} out{money}{marked}"


def dollars(amount: float) -> str:
    """Money as people read it: $12.34, and $0.00123 where cents would say nothing."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3g}"


def duration(seconds: float) -> str:
    """``seconds`` as people say it: 42 s, 3 min, 2 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _live(session: Session) -> Group:
    budget = session.budget
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(total=budget.total, completed=budget.spent, width=40), f"{100 * budget.spent / budget.total:.0f} %"
    )
    return Group(grid, Text(progress_line(session)))
