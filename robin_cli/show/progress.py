"""A command's progress: a display on a terminal, a plain line every 30 s elsewhere; always on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.constrain import Constrain
from rich.live import Live
from rich.progress import Progress
from rich.text import Text

from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.fold import Spending
from robin_cli.session.counters import Stats
from robin_cli.session.session import Outcome, Session
from robin_cli.show.live import REFRESH_HZ, LiveView, Pace, calls_left, phase
from robin_cli.show.messages import Messages, lines_now_and_then
from robin_cli.show.text import plain
from robin_cli.show.words import cost, dollars, duration, refused_text, tokens_text

_ROUNDS_LINE_EVERY_S = 60.0
_NARROWEST = 20
_ECHO = 5
"""Columns left free: where a terminal's "^C" made a further line, the picture's first line would stay behind."""


@contextmanager
def shown(session: Session, messages: Messages, *, quiet: bool) -> Iterator[None]:
    """Show the progress of ``session`` as long as the context lasts."""
    if quiet:
        yield
    elif session.under is not None:
        yield from _rounds_shown(session, messages)
    elif messages.console.is_terminal:
        view, console = LiveView(session), messages.console

        def picture() -> Constrain:
            return Constrain(view.render(), max(_NARROWEST, console.width - _ECHO))

        with Live(
            get_renderable=picture, console=console, refresh_per_second=REFRESH_HZ, transient=True
        ):
            yield
            view.finish()
    else:
        pace = Pace()
        with lines_now_and_then(lambda: progress_line(session, pace), messages.note):
            yield


def _rounds_shown(session: Session, messages: Messages) -> Iterator[None]:
    """Show the progress of the batches of ``session``: in one line that changes, or a line now and then."""
    began = time.monotonic()

    def line() -> str:
        under = session.under
        of_round = (
            ""
            if under is None or not under.round
            else f"round {under.round} of {under.rounds} · {under.said} · "
        )
        return f"{of_round}{calls_spent(session)} · {duration(time.monotonic() - began)}"

    if not messages.console.is_terminal:
        with lines_now_and_then(line, messages.note, _ROUNDS_LINE_EVERY_S):
            yield
        return

    def picture() -> Text:
        return Text(plain(line()), overflow="ellipsis", no_wrap=True)

    with Live(
        get_renderable=picture, console=messages.console, refresh_per_second=1, transient=True
    ) as live:
        messages.pause = live.stop
        yield


@contextmanager
def simulation_shown(messages: Messages) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a simulation; the yielded function takes the finished parts, and all parts."""
    if messages.console.is_terminal and not messages.quiet:
        with Progress(console=messages.console, transient=True) as progress:
            task = progress.add_task("simulating")
            yield lambda done, of: progress.update(task, completed=done, total=of)
        return
    began, so_far = time.monotonic(), [""]

    def line() -> str:
        return f"simulating for {duration(time.monotonic() - began)}{so_far[0]}"

    def tell(done: int, of: int) -> None:
        so_far[0] = f": {done:,} of {number_of(of, 'part')} done"

    with lines_now_and_then(line, messages.note):
        yield tell


def calls_spent(session: Session) -> str:
    """Return the spent calls in words, with the total if the budget is one of calls."""
    spent, total = session.budget.spent, session.budget.total
    return (
        number_of(spent, "call") if session.by_money else f"{spent:,} of {number_of(total, 'call')}"
    )


def progress_line(session: Session, pace: Pace) -> str:
    """Return a run's progress in one line: spent, rate, time left, in flight, phase, money, goal, failed."""
    stats, total = session.stats, session.total
    # the loop goes on while this thread reads
    unparsed, failed = (stats.unparsed.copy(), stats.failed.copy())
    rate = pace.rate(stats.ratings + sum(unparsed.values()), stats.in_flight)
    parts = [
        calls_spent(session),
        f"{rate:,.1f}/s",
        pace.left(calls_left(session), rate),
        f"{stats.in_flight} in flight",
        phase(session),
    ]
    if total.cost_usd:
        of = "" if session.money.limit is None else f" of {dollars(session.money.limit)}"
        parts.append(cost(total.cost_usd, complete=total.complete) + of)
    facts = session.watch.standing(session.arms)
    parts += [f"{name}: {value}" for name, value in facts]
    noun = session.noun
    troubles = {f"without a {noun}": unparsed, "failed": failed}
    if refused := refused_text(stats.refused, stats.waited_s):
        parts.append(f"refused: {refused}")
    slow = pace.slow(rate, stats.refused)
    return " · ".join(
        [
            *parts,
            *([f"slow: {slow}"] if slow else []),
            *(f"{kind}: {counted(listed, noun)}" for kind, listed in troubles.items() if listed),
        ]
    )


def conclusion(outcome: Outcome) -> list[str]:
    """Return lines on a session's end: spending, failures, tokens and money."""
    stats = outcome.stats
    took = duration(time.monotonic() - stats.started_at)
    noun, refused = outcome.goal.noun, refused_text(stats.refused, stats.waited_s)
    counts = {
        f"answers without a {noun}": stats.unparsed,
        "rated by their text, not by log probabilities": stats.by_text,
        "calls that failed": stats.failed,
        "given up, because they cannot be rated": outcome.retired,
    }
    return [
        f"{spent_of(outcome)}, {number_of(stats.ratings, noun)} in this session ({took})",
        *(f"{kind}: {counted(listed, noun)}" for kind, listed in counts.items() if listed),
        *([f"refused: {refused}"] if refused else []),
        spent_line(stats, outcome.total),
    ]


def spent_of(outcome: Outcome) -> str:
    """Return the spent share of the budget, in its own unit."""
    if outcome.budget_usd is None:
        return f"{outcome.spent:,} of {number_of(outcome.budget, 'call')} spent"
    return f"{_money(outcome)} of {dollars(outcome.budget_usd)} spent in {number_of(outcome.spent, 'call')}"


def nothing_sent(outcome: Outcome, run: Path) -> str:
    """Return why a session made no calls, because the run is finished, and how to make more."""
    if outcome.repeats and not (outcome.is_spent or outcome.is_over):
        return (
            f"nothing was sent: the judge repeats itself, {spent_of(outcome)}; for more: "
            f"robin resume {typed(run)} --repeat-anyway"
        )
    if not outcome.is_spent:
        more = f"; for more: {outcome.goal.for_more}" * bool(outcome.goal.for_more)
        return f"nothing was sent: the run has reached its goal already, {spent_of(outcome)}{more}"
    if outcome.budget_usd is None:
        why, more = (
            f"the budget of {number_of(outcome.budget, 'call')} is spent already",
            f"--budget {2 * outcome.budget}",
        )
    else:
        spent = f"{_money(outcome)} of the budget of {dollars(outcome.budget_usd)} is spent already"
        why, more = (
            f"{spent}, and the rest might not pay for a call",
            f"--max-cost {2 * outcome.budget_usd:g}",
        )
    return f"nothing was sent: {why}; for more: robin resume {typed(run)} {more}"


def _money(outcome: Outcome) -> str:
    return cost(outcome.total.cost_usd, complete=outcome.total.complete, unknown=dollars(0))


def spent_line(stats: Stats, total: Spending) -> str:
    """Return tokens and money of a session, in one line, and of all sessions of the run, if there were others."""
    marked = " (some estimated: the endpoint does not count them all)" if stats.estimated else ""
    told = stats.prompt_tokens_told
    share = stats.cached_tokens / told if told else None
    tokens = tokens_text(
        stats.prompt_tokens, stats.completion_tokens, share, reasoning=stats.reasoning_tokens
    )
    line = _taken(tokens, stats.cost_usd or None, complete=not stats.unpriced)
    if (total.prompt_tokens, total.completion_tokens) == (
        stats.prompt_tokens,
        stats.completion_tokens,
    ):
        return line + marked
    tokens = tokens_text(
        total.prompt_tokens,
        total.completion_tokens,
        total.cached_share,
        reasoning=total.reasoning_tokens,
    )
    of_all = _taken(tokens, total.cost_usd or None, complete=total.complete)
    return f"{line} in this session{marked}; {of_all} in all sessions of this run"


def _taken(tokens: str, cost_usd: float | None, *, complete: bool) -> str:
    money = "" if cost_usd is None else f", {cost(cost_usd, complete=complete)}"
    return f"{tokens}{money}"
