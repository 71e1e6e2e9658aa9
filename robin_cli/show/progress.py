"""A command's progress: a picture on a terminal, elsewhere a line now and then; on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.constrain import Constrain
from rich.live import Live
from rich.progress import Progress

from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.fold import Spending
from robin_cli.session.session import Session
from robin_cli.show.live import LiveView, Pace, progress_line
from robin_cli.show.messages import LINE_EVERY_S, Messages, lines_now_and_then
from robin_cli.show.words import (
    budget_text,
    dollars,
    duration,
    money_text,
    refused_text,
    tokens_text,
)

_REFRESH_HZ = 4
_ROUND_EVERY_S = 60.0
_NARROWEST = 20
_ECHO = 5  # columns left free: a terminal's "^C" would make a further line of the first one


@contextmanager
def shown(session: Session, messages: Messages, *, quiet: bool) -> Iterator[None]:
    """Show the progress of ``session`` as long as the context lasts."""
    console, pace = messages.console, Pace()
    if quiet:
        yield
    elif not console.is_terminal:
        every_s = LINE_EVERY_S if session.under is None else _ROUND_EVERY_S
        with lines_now_and_then(lambda: progress_line(session, pace), messages.note, every_s):
            yield
    else:
        view = LiveView(session)

        def picture() -> Constrain:
            return Constrain(view.render(), max(_NARROWEST, console.width - _ECHO))

        with Live(
            get_renderable=picture, console=console, refresh_per_second=_REFRESH_HZ, transient=True
        ) as live:
            messages.pause = live.stop
            yield
            view.finish()


@contextmanager
def simulation_shown(messages: Messages) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a simulation; the yielded function takes the finished parts, and all."""
    if messages.console.is_terminal and not messages.quiet:
        with Progress(console=messages.console, transient=True) as progress:
            task = progress.add_task("simulating")
            yield lambda done, total: progress.update(task, completed=done, total=total)
        return
    began, so_far = time.monotonic(), [""]

    def line() -> str:
        return f"simulating for {duration(time.monotonic() - began)}{so_far[0]}"

    def tell(done: int, total: int) -> None:
        so_far[0] = f": {done:,} total {number_of(total, 'part')} done"

    with lines_now_and_then(line, messages.note):
        yield tell


def conclusion(session: Session) -> list[str]:
    """Return lines on a session's end: spending, failures, tokens and money."""
    stats, noun = session.stats, session.noun
    took = duration(time.monotonic() - stats.started_at)
    troubles = {
        f"answers without a {noun}": counted(stats.unparsed, noun),
        "rated by their text, not by log probabilities": counted(stats.by_text, noun),
        "calls that failed": counted(stats.failed, noun),
        "given up, because they cannot be rated": counted(session.retired, noun),
        "refused": refused_text(stats.refused, stats.waited_s),
    }
    return [
        f"{_spent(session)}, {number_of(stats.ratings, noun)} in this session ({took})",
        *(f"{kind}: {text}" for kind, text in troubles.items() if text),
        _tokens_line(session),
    ]


def nothing_sent(session: Session, run: Path) -> str:
    """Return why a session of a finished run made no calls, and how to make more."""
    resume, limit, budget = f"robin resume {typed(run)}", session.budget_usd, session.budget.total
    if session.is_spent and limit is not None:
        spent = f"{money_text(session.total, dollars(0))} of the budget of {dollars(limit)}"
        why = f"{spent} is spent already, and the rest might not pay for a call"
        more = f"{resume} --max-cost {2 * limit:g}"
    elif session.is_spent:
        why = f"the budget of {number_of(budget, 'call')} is spent already"
        more = f"{resume} --budget {2 * budget}"
    elif session.repeats and not session.is_over:
        why, more = f"the judge repeats itself, {_spent(session)}", f"{resume} --repeat-anyway"
    else:
        why = f"the run has reached its goal already, {_spent(session)}"
        more = session.goal.for_more
    return f"nothing was sent: {why}{f'; for more: {more}' if more else ''}"


def _spent(session: Session) -> str:
    budget = session.budget
    return " ".join(budget_text(budget.spent, budget.total, session.budget_usd, session.total))


def _tokens_line(session: Session) -> str:
    """Return tokens and money of a session, and of all sessions of the run if there were others."""
    spent, total = session.stats.spent, session.total
    estimated = " (some estimated: the endpoint does not count them all)"
    line, marked = _taken(spent), estimated * bool(session.stats.estimated)
    tokens = (spent.prompt_tokens, spent.completion_tokens)
    if tokens == (total.prompt_tokens, total.completion_tokens):
        return line + marked
    return f"{line} in this session{marked}; {_taken(total)} in all sessions of this run"


def _taken(spent: Spending) -> str:
    return f"{tokens_text(spent)}, {money_text(spent)}" if spent.cost_usd else tokens_text(spent)
