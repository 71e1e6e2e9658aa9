"""What a session shows of its work: the same facts as a picture, or in a line."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from robin_cli.goals.rows import beginning, is_hashed
from robin_cli.goals.watch import Standing
from robin_cli.model.arms import sample_variance
from robin_cli.model.records import counted, number_of
from robin_cli.session.session import Session
from robin_cli.show.fitting import told_apart
from robin_cli.show.text import one_line
from robin_cli.show.words import dollars, duration, money_text, refused_text, tokens_text

_WINDOW_S = 60.0
_STEADY_S = 10.0
_MOST_ASKED = 5
_NAME = 60
_PLAIN = {"calls", "pace", "tokens", "money"}  # facts that need no name in a line


class Pace:
    """Answers per second over the last minute; an average since the start reacts slowly."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._best, self._at_best = 0.0, 1  # the highest pace, and the concurrent calls then

    def rate(self, done: int, in_flight: int = 1) -> float:
        """Return the pace after ``done`` answers with ``in_flight`` requests; 0 before the first."""
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
        """Return why ``rate`` is below a tenth of the best, and what helps; "" if it is not."""
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
        has_waited = self._clock() - self._seen[0][0] >= _WINDOW_S
        return "no answer in the last minute" if has_waited else "no answer yet"


def facts_of(session: Session, pace: Pace, standing: list[Standing]) -> list[Standing]:
    """Return names and values, the most important first; troubles only if there are any."""
    stats, total, limit = session.stats, session.total, session.money.limit
    # the session goes on while this thread reads
    unparsed, failed = dict(stats.unparsed), dict(stats.failed)
    rate = pace.rate(stats.ratings + sum(unparsed.values()), stats.in_flight)
    given_up = int(session.arms.is_retired.sum())
    calls = number_of(session.budget.spent, "call")
    if not session.by_money:
        calls = f"{session.budget.spent:,} of {number_of(session.budget.total, 'call')}"
    money = money_text(total) if total.cost_usd else dollars(0)
    facts = [
        ("calls", calls),
        ("pace", _pace_text(session, pace, rate)),
        *standing,
        ("tokens", tokens_text(total)),
        ("money", f"{money} of {dollars(limit)}" if limit else money if total.cost_usd else ""),
        (f"without a {session.noun}", counted(unparsed, session.noun)),
        ("failed", counted(failed)),
        ("refused", refused_text(stats.refused, stats.waited_s)),
        ("given up", f"{given_up:,}" if given_up else ""),
        ("slow", pace.slow(rate, stats.refused)),
    ]
    return [(name, value) for name, value in facts if value]


def _pace_text(session: Session, pace: Pace, rate: float) -> str:
    """Return the pace of the calls, or the round of batches that the session is in."""
    under, stats, money = session.under, session.stats, session.money
    if under is not None:
        elapsed = duration(time.monotonic() - stats.started_at)
        in_round = f"round {under.round} of {under.rounds} · {under.text} · " if under.round else ""
        return f"{in_round}{elapsed}"
    calls = session.budget.total - session.budget.spent
    if session.by_money and money.limit is not None:  # an estimate from the cost so far
        usd = max(0.0, money.limit - money.spent - money.lost)
        spent = session.budget.spent
        calls = round(spent * usd / money.spent) if money.spent else session.expected_calls
    phase = "warm-up" if session.planner.warming_up else "adaptive"
    return f"{rate:,.1f}/s · {pace.left(calls, rate)} · {stats.in_flight} in flight · {phase}"


def progress_line(session: Session, pace: Pace) -> str:
    """Return the progress of a session in one line."""
    facts = facts_of(session, pace, session.watch.standing(session.arms))
    return " · ".join(value if name in _PLAIN else f"{name}: {value}" for name, value in facts)


class LiveView:
    """Draws a session; one thread calls :meth:`render`."""

    def __init__(self, session: Session) -> None:
        self._session, self._pace = session, Pace()
        import_module("scipy.special")  # takes a while once: the first picture would seem slow
        self._standing: list[Standing] = []
        self._asked: list[str] = []
        self._due = 0.0

    def render(self) -> Panel:
        """Return the current view, or its error: a failed display must not end a paid run."""
        try:
            picture: RenderableType = self._picture()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is shown
            failed = f"this view failed ({type(error).__name__}: {error}); the run goes on"
            picture = Text(one_line(failed))
        return Panel(picture, title="robin judge")

    def finish(self) -> None:
        """Have the last picture say how the run ended."""
        self._due = 0.0

    def _picture(self) -> Group:
        session, now = self._session, time.monotonic()
        if now >= self._due:
            before = time.thread_time()  # not the time that others had the processor
            self._standing = session.watch.standing(session.arms)
            self._asked = _most_asked(session)
            # what is computed over all arms takes 1 % of the time
            self._due = now + min(max(0.5, 100 * (time.thread_time() - before)), 20.0)
        facts = facts_of(session, self._pace, self._standing)
        facts += [("asked most" * (not at), each) for at, each in enumerate(self._asked)]
        names = max(len(name) for name, _ in facts)
        spent, total = float(session.budget.spent), float(session.budget.total)
        if session.by_money and session.money.limit is not None:
            spent, total = session.money.spent, session.money.limit
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=total, completed=spent), f"{100 * spent / total:.0f} %")
        return Group(
            bar,
            *(
                Text.assemble((f"{one_line(name):<{names}}  ", "dim"), one_line(value))
                for name, value in facts
            ),
        )


def _most_asked(session: Session) -> list[str]:
    """Return the arms with most calls, in words. It reads arms while they change."""
    space = session.space
    n, totals, totals_sq = session.arms.copied_sums()
    most = np.argpartition(n, -_MOST_ASKED)[-_MOST_ASKED:] if len(n) > _MOST_ASKED else slice(None)
    arms = np.arange(len(n))[most]
    arms = arms[np.argsort(-n[arms], kind="stable")]
    variances = sample_variance(n[arms], totals[arms], totals_sq[arms]).tolist()
    names = []
    for arm, pair in zip(arms.tolist(), space.pair[arms].tolist(), strict=True):
        name = space.name(arm)
        if is_hashed(space.pair_ids[pair]):  # nobody recognises it
            is_shared = bool(session.pairs.is_shared[pair])
            name = f"{beginning(session.pairs[pair], is_shared=is_shared)} ({name})"
        names.append(one_line(name))
    return [
        f"{number_of(int(n[arm]), 'rating')}, variance "
        f"{'–' if math.isnan(variance) else f'{variance:.2f}'}: {name}"
        for arm, variance, name in zip(
            arms, variances, told_apart(names, range(1, len(names) + 1), _NAME), strict=True
        )
    ]
