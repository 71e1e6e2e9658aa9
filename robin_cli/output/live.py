"""The live view of a run on a terminal: what was spent, at what pace, how it fares, and who is asked most."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robin_cli.allocation.arms import Arms, FloatArray, IntArray
from robin_cli.output.fitting import told_apart
from robin_cli.output.text import cost, dollars, duration, error_text, plain
from robin_cli.records import counted, number_of
from robin_cli.runs.session import Session
from robin_cli.statistics.worst_error import import_special_functions, likely_worst_error

REFRESH_HZ = 2
"""Each refresh takes about 4 ms of one core."""

_WINDOW_S = 60.0
_MOST = 5
_GAP = 2
_NAME_AT_LEAST = 8

# What is computed over all arms is computed anew no sooner than this, and takes at most this share of the time.
_RECOMPUTE_S = 2.0
_RECOMPUTE_AT_LATEST_S = 20.0
_SHARE = 0.01
_COPIES = 5


class Pace:
    """Answers a second over the last minute; the average since the start would take long to notice a change."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])

    def rate(self, done: int) -> float:
        """The pace, now that ``done`` answers came; 0 before the first."""
        now = self._clock()
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else 0.0

    def left(self, units: int, rate: float) -> str:
        """How long ``units`` more take at ``rate``, in words."""
        if rate > 0:
            return f"{duration(units / rate)} left"
        return "no answer in the last minute" if self._clock() - self._seen[0][0] >= _WINDOW_S else "no answer yet"


@dataclass(frozen=True, slots=True)
class Standing:
    """How the arms stand: the likely worst error (nan: not known yet), arms without a rating, and those asked most."""

    worst_error: float
    unrated: int
    most_asked: Sequence[tuple[str, int, float]]


def standing_of(session: Session) -> Standing:
    """The standing of ``session`` now. Reads the arms while they change: each number is right, give or take a call."""
    kept = ~session.arms.retired_mask
    arms = session.arms
    n, totals, totals_sq = _copied(arms)
    low, high = session.index.ends
    most = np.argsort(n)[::-1][:_MOST] if len(n) <= _MOST else np.argpartition(n, -_MOST)[-_MOST:]
    most = most[np.argsort(-n[most], kind="stable")]
    names = [session.index.name(int(arm)) for arm in most]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.maximum(0.0, totals_sq - totals * totals / n) / (n - 1)
    return Standing(
        likely_worst_error(n[kept], totals[kept], totals_sq[kept], (low[kept], high[kept]), session.index.units[kept]),
        int((n[kept] == 0).sum()),
        [(name, int(n[arm]), float(variance[arm])) for name, arm in zip(names, most, strict=True)],
    )


def _copied(arms: Arms) -> tuple[IntArray, FloatArray, FloatArray]:
    """Counts and sums that belong together, if the loop lets: arms that changed meanwhile are copied again."""
    n, totals, totals_sq = arms.counts.copy(), arms.totals.copy(), arms.totals_sq.copy()
    for _ in range(_COPIES):
        changed = np.flatnonzero((arms.counts != n) | (arms.totals != totals) | (arms.totals_sq != totals_sq))
        if not len(changed):
            break
        n[changed], totals[changed], totals_sq[changed] = (
            each[changed] for each in (arms.counts, arms.totals, arms.totals_sq)
        )
    return n, totals, totals_sq


class LiveView:
    """Renders a session; one thread calls :meth:`render`."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._pace = Pace(clock)
        import_special_functions()  # once, or the first picture would seem slow to make
        self._standing: Standing | None = None
        self._due = 0.0

    def render(self) -> Panel:
        """The view as it is now; should it fail, that: a picture must not end a run that is paid for."""
        try:
            return self._rendered()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is shown
            return Panel(Text(plain(f"this view failed ({type(error).__name__}: {error}); the run goes on")))

    def _rendered(self) -> Panel:
        session, stats = self._session, self._session.stats
        budget = session.budget
        unparsed, failed = dict(stats.unparsed), dict(stats.failed)
        rate = self._pace.rate(stats.ratings + sum(unparsed.values()))
        standing = self._refreshed()
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(justify="right", no_wrap=True)
        share = f"{100 * budget.spent / budget.total:.0f} % of {number_of(budget.total, 'call')}"
        bar.add_row(ProgressBar(total=budget.total, completed=budget.spent), share)
        facts = Table.grid(padding=(0, 2))
        for style in ("dim", "", "dim", ""):
            facts.add_column(style=style)
        left = self._pace.left(budget.left, rate)
        for row in _rows(session, f"{rate:,.1f}/s, {left}", standing, unparsed, failed):
            facts.add_row(*(Text(plain(cell)) for cell in row))
        return Panel(Group(bar, facts, _MostAsked(standing)), box=box.ROUNDED, padding=(0, 1), title="robin judge")

    def _refreshed(self) -> Standing:
        began = self._clock()
        if self._standing is None or began >= self._due:
            before = time.thread_time()  # not the time that others had the processor
            self._standing = standing_of(self._session)
            took = time.thread_time() - before
            self._due = began + min(max(_RECOMPUTE_S, took / _SHARE), _RECOMPUTE_AT_LATEST_S)
        return self._standing


def _rows(
    session: Session, pace: str, standing: Standing, unparsed: dict[str, int], failed: dict[str, int]
) -> list[tuple[str, str, str, str]]:
    stats, budget, purse, total = session.stats, session.budget, session.purse, session.total
    money = cost(total.cost_usd, complete=total.complete, unknown="–" if purse.limit is None else dollars(0))
    if purse.limit is not None:
        money += f" of {dollars(purse.limit)}"
    if standing.unrated:
        worst = f"not known: {standing.unrated:,} not rated yet"
    elif math.isnan(standing.worst_error):
        worst = "–"
    else:
        worst = f"about {error_text(standing.worst_error, as_share=session.index.has_several_scales)} (estimated)"
    return [
        (
            "spent",
            number_of(budget.spent, "call"),
            "phase",
            "warm-up" if session.scheduler.warming_up else "adaptive",
        ),
        ("rate", pace, "in flight", f"{stats.in_flight}"),
        ("tokens", f"{total.prompt_tokens:,} in, {total.completion_tokens:,} out", "money", money),
        ("worst error", worst, "no rating", counted(unparsed) or "none"),
        ("failed calls", counted(failed) or "none", "given up", f"{int(session.arms.retired_mask.sum()):,}"),
    ]


@dataclass(frozen=True, slots=True)
class _MostAsked:
    """Who is asked most: numbers whole, names cut to the room that is left so that they stay apart."""

    standing: Standing

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Table]:
        asked = self.standing.most_asked
        ratings = [number_of(calls, "rating") for _, calls, _ in asked]
        varied = ["variance –" if math.isnan(each) else f"variance {each:.2f}" for _, _, each in asked]
        head = "asked most"
        taken = sum(max(map(len, column), default=0) for column in ([head], ratings, varied)) + 3 * _GAP
        names = [plain(name, keep="") for name, _, _ in asked]
        shown = told_apart(names, range(1, len(names) + 1), max(_NAME_AT_LEAST, options.max_width - taken))
        table = Table.grid(padding=(0, _GAP))
        table.add_column(style="dim", no_wrap=True)
        for justify in ("left", "right", "right"):
            table.add_column(justify=justify, no_wrap=True)
        for place, (name, *numbers) in enumerate(zip(shown, ratings, varied, strict=True)):
            table.add_row("" if place else head, Text(name), *numbers)
        yield table
