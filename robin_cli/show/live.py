"""The live view of a run on a terminal: spending, pace, progress, and the arms with most calls."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robin_cli.goals.rows import beginning, is_hashed
from robin_cli.goals.watching import Fact
from robin_cli.model.arms import sample_variance
from robin_cli.model.records import counted, number_of
from robin_cli.session.session import Session
from robin_cli.show.fitting import told_apart
from robin_cli.show.text import one_line
from robin_cli.show.words import cost, dollars, duration, refused_text, tokens_text

REFRESH_HZ = 4
"""Each refresh takes about 4 ms of one core."""

_WINDOW_S = 60.0
_STEADY_S = 10.0
_MOST = 5
_GAP = 2
_NAME_AT_LEAST = 8
_BAR_AT_LEAST = 8
_TWO_FACTS_A_LINE = 66
"""Cells from which facts stand two a line: their words wrap there, and their numbers stay whole."""
_NAMES_ASIDE = 30
"""Cells from which the values of facts have a column of their own."""

# What is computed over all arms is computed anew no sooner than this, and takes at most this share of the time.
_RECOMPUTE_S = 0.5
_RECOMPUTE_AT_LATEST_S = 20.0
_SHARE = 0.01
_COPIES = 5


class Pace:
    """Answers per second over the last minute; an average since the start would react slowly to a change."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._best, self._at_best = 0.0, 1  # the highest pace, and the calls at a time then

    def rate(self, done: int, in_flight: int = 1) -> float:
        """Return the pace after ``done`` answers with ``in_flight`` requests under way; 0 before the first."""
        now = self._clock()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()
        since, before = self._seen[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        if rate > self._best and now - since >= _STEADY_S:
            self._best, self._at_best = rate, max(1, in_flight)
        return rate

    def slow(self, rate: float, refused: int) -> str:
        """Return why ``rate`` is below a tenth of the earlier pace, and what helps; "" if it is not."""
        if 10 * rate >= self._best:
            return ""
        why = f"{number_of(refused, 'request')} refused" if refused else "answers take longer"
        return (
            f"{self._best:,.1f}/s before; {why}: if it stays so, stop, "
            f"and robin resume with --concurrency {self._at_best}"
        )

    def left(self, units: int, rate: float) -> str:
        """Return the time for ``units`` more at ``rate``, in words."""
        if rate > 0:
            return f"{duration(units / rate)} left"
        return (
            "no answer in the last minute"
            if self._clock() - self._seen[0][0] >= _WINDOW_S
            else "no answer yet"
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """A run's progress towards its goal, and the arms with most calls: name, calls and variance."""

    facts: Sequence[Fact]
    most_asked: Sequence[tuple[str, int, float]]


def standing_of(session: Session) -> Standing:
    """Return the current progress of ``session``. It reads arms while they change; each number is off by a call at most."""
    n, totals, totals_sq = session.arms.copied_sums()
    most = np.argpartition(n, -_MOST)[-_MOST:] if len(n) > _MOST else np.arange(len(n))
    most = most[np.argsort(-n[most], kind="stable")]
    variance = sample_variance(n[most], totals[most], totals_sq[most])
    names = [_name(session, int(arm)) for arm in most]
    asked = list(zip(names, n[most].astype(int).tolist(), variance.tolist(), strict=True))
    return Standing(session.watch.standing(session.arms), asked)


def _name(session: Session, arm: int) -> str:
    """Return the arm's name; if its id is a hash, also the beginning of its texts."""
    pair, name = session.space.pair.item(arm), session.space.name(arm)
    if not is_hashed(session.space.pair_ids[pair]):
        return name
    return (
        f"{beginning(session.pairs[pair], is_shared=bool(session.pairs.is_shared[pair]))} ({name})"
    )


class LiveView:
    """Render a session; one thread calls :meth:`render`."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._pace = Pace(clock)
        # takes a while once: the first picture would seem slow to make
        import_module("scipy.special")
        self._standing: Standing | None = None
        self._due = 0.0

    def render(self) -> Panel:
        """Return the current view, or its error: a failed display must not end a paid run."""
        try:
            return self._rendered()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is shown
            return Panel(
                Text(
                    one_line(f"this view failed ({type(error).__name__}: {error}); the run goes on")
                )
            )

    def finish(self) -> None:
        """Have the last picture, which is due then, say how the run ended."""
        self._due = 0.0

    def _rendered(self) -> Panel:
        standing = self._refreshed()
        facts = _facts(self._session, self._pace, standing)
        parts = [
            ByWidth(lambda width: _bar(*_share(self._session), width)),
            ByWidth(lambda width: _grid(facts, width)),
            ByWidth(lambda width: most_asked(standing, width)),
        ]
        return Panel(Group(*parts), box=box.ROUNDED, padding=(0, 1), title="robin judge")

    def _refreshed(self) -> Standing:
        began = self._clock()
        if self._standing is None or began >= self._due:
            before = time.thread_time()  # not the time that others had the processor
            self._standing = standing_of(self._session)
            took = time.thread_time() - before
            self._due = began + min(max(_RECOMPUTE_S, took / _SHARE), _RECOMPUTE_AT_LATEST_S)
        return self._standing


def _facts(session: Session, pace: Pace, standing: Standing) -> list[tuple[str, str]]:
    """Return names and values, laid out in two columns."""
    stats, budget, limit, total = session.stats, session.budget, session.money.limit, session.total
    # the loop goes on while this thread reads
    unparsed, failed = (dict(stats.unparsed), dict(stats.failed))
    rate = pace.rate(stats.ratings + sum(unparsed.values()), stats.in_flight)
    slow = pace.slow(rate, stats.refused)
    money = cost(
        total.cost_usd, complete=total.complete, unknown="–" if limit is None else dollars(0)
    )
    noun, (first, *further) = session.noun, standing.facts
    return [
        ("spent", number_of(budget.spent, "call")),
        ("phase", phase(session)),
        ("rate", f"{rate:,.1f}/s, {pace.left(calls_left(session), rate)}"),
        ("in flight", f"{stats.in_flight}"),
        (
            "tokens",
            tokens_text(
                total.prompt_tokens,
                total.completion_tokens,
                total.cached_share,
                "",
                reasoning=total.reasoning_tokens,
            ),
        ),
        ("money", money if limit is None else f"{money} of {dollars(limit)}"),
        first,
        (f"no {noun}", counted(unparsed, noun) or "none"),
        ("failed calls", counted(failed) or "none"),
        ("refused", refused_text(stats.refused, stats.waited_s) or "none"),
        ("given up", f"{int(session.arms.is_retired.sum()):,}"),
        *further,
        *([("slow", slow)] if slow else []),
    ]


def phase(session: Session) -> str:
    """Return the values that decide the next calls."""
    return "warm-up" if session.planner.warming_up else "adaptive"


@dataclass(frozen=True, slots=True)
class ByWidth:
    """Return the chart for the cells that exist."""

    draw: Callable[[int], RenderableType]

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        yield self.draw(options.max_width)


def calls_left(session: Session) -> int:
    """Return the calls left in the budget; for a budget of money, an estimate from the cost so far."""
    money = session.money
    if not session.by_money or money.limit is None:
        return session.budget.total - session.budget.spent
    left = max(0.0, money.limit - money.spent - money.lost)
    return (
        round(session.budget.spent * left / money.spent) if money.spent else session.expected_calls
    )


def _share(session: Session) -> tuple[float, float, str]:
    """Return the spent part of the budget, the budget, and both in words."""
    money = session.money
    if session.by_money and money.limit is not None:
        return money.spent, money.limit, dollars(money.limit)
    total = session.budget.total
    return session.budget.spent, total, number_of(total, "call")


def _bar(spent: float, total: float, budget: str, width: int) -> RenderableType:
    share = f"{100 * spent / total:.0f} % of {budget}"
    bar = ProgressBar(total=total, completed=spent)
    if width < cell_len(share) + 1 + _BAR_AT_LEAST:
        return Group(bar, Text(share))
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(bar, share)
    return line


def _grid(facts: Sequence[tuple[str, str]], width: int) -> RenderableType:
    cells = [[one_line(cell) for cell in fact] for fact in facts]
    if width < _NAMES_ASIDE:
        return Text("\n".join(map(": ".join, cells)))
    if width >= _TWO_FACTS_A_LINE:
        cells = [
            [*left, *right]
            for left, right in zip_longest(cells[::2], cells[1::2], fillvalue=("", ""))
        ]
    grid = Table.grid(padding=(0, _GAP))
    for place in range(len(cells[0])):
        grid.add_column(style="" if place % 2 else "dim", no_wrap=place % 2 == 0)
    for row in cells:
        grid.add_row(*map(Text, row))
    return grid


def most_asked(standing: Standing, width: int) -> Table:
    """Return the arms with most calls: numbers whole, names cut to the remaining width but distinct."""
    head, asked = "asked most", standing.most_asked
    ratings = [number_of(calls, "rating") for _, calls, _ in asked]
    varied = ["variance –" if math.isnan(each) else f"variance {each:.2f}" for _, _, each in asked]
    taken = sum(max(map(len, column), default=0) for column in ([head], ratings, varied)) + 3 * _GAP
    in_one_line = width >= taken + _NAME_AT_LEAST
    room = width - taken if in_one_line else max(_NAME_AT_LEAST, width - _GAP)
    names = told_apart([one_line(name) for name, _, _ in asked], range(1, len(asked) + 1), room)
    table = Table.grid(padding=(0, _GAP))
    table.add_column(style="dim", no_wrap=in_one_line)
    if not in_one_line:
        table.add_row(head)
        for name, *numbers in zip(names, ratings, varied, strict=True):
            table.add_row(Text(f"  {name}", style="not dim"))
            table.add_row(Text(f"  {', '.join(numbers)}", style="not dim"))
        return table
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for place, (name, *numbers) in enumerate(zip(names, ratings, varied, strict=True)):
        table.add_row("" if place else head, Text(name), *numbers)
    return table
