"""Work on an open run: its sessions, from the first check to the record of the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from robin_cli.judges.metering import batch_share
from robin_cli.model.errors import StorageError, Unrated, typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.batches import has_open_batches
from robin_cli.run.manifest import REACHED
from robin_cli.run.writer import RunWriter
from robin_cli.session.carriers import Closing, carrier_of
from robin_cli.session.cautions import cautions
from robin_cli.session.here import carrying_here
from robin_cli.session.labelled import keep_labels, labels_at_start
from robin_cli.session.session import Session
from robin_cli.session.stop import Stop, end_all
from robin_cli.settings.made_here import keep_sendings
from robin_cli.settings.resolve import Resolved

_CLOSING_S = 10.0
"""How long a judge may take to close its connections."""

Around = Callable[[Session], AbstractContextManager[None]]
"""A context around the work of a session, for displays and signals. It is entered inside the event loop."""


async def work(
    store: RunWriter,
    resolved: Resolved,
    *,
    stop: Stop,
    notify: Callable[[str], None],
    around: Around,
    function: Callable[..., Any] | None = None,
) -> Session:
    """Spend the rest of the budget of an open run, until it is finished; return its session, which may have had nothing to do.

    Args:
        stop: ends it early, once it is requested.
        notify: gets lines for the user.
        function: the judge, if it is a Python function.

    Raises:
        InputError: labels or settings that do not go with the run.
        EndpointError, LimitReached, StorageError: as :meth:`Session.work`; received answers are kept.
    """

    def note(line: str) -> None:
        notify(f"note: {line}")

    if store.manifest.repeat_anyway:
        session = {**resolved.session, "repeat_anyway": True}
        resolved = replace(resolved, repeat_anyway=True, session=session)
    keep_sendings(store.manifest.run_id, resolved.sendings)
    if has_open_batches(store.path) and not resolved.batch:  # first finish the batches under way
        before = await _session(store, resolved, stop, note, around, function, finish_only=True)
        if before.interrupted:
            return before
    return await _session(store, resolved, stop, note, around, function)


async def _session(
    store: RunWriter,
    resolved: Resolved,
    stop: Stop,
    note: Callable[[str], None],
    around: Around,
    function: Callable[..., Any] | None,
    *,
    finish_only: bool = False,
) -> Session:
    """Work one session, see :func:`work`; ``finish_only``: finish the batches under way as they were submitted, begin none."""
    if finish_only:
        resolved = _as_submitted(resolved)
    if (package := carrier_of(resolved)) is None:
        carrying = carrying_here(resolved, store, note, function)
    else:
        with package.loaded(f"--{package.name}", passing=OSError) as carrier:
            carrying = carrier.carrying(resolved, store, note)
    try:
        session = Session(store, carrying, stop, resolved, note)
        labels = None if finish_only else labels_at_start(store, resolved)
        if session.finished and not has_open_batches(store.path):
            _record_target(store, resolved)
            keep_labels(store, labels)
            return session
        for caution in () if finish_only else cautions(store, session.goal, resolved):
            note(caution)
        if resolved.max_cost is not None:
            for judge, price in zip(resolved.judges, carrying.prices, strict=True):
                if price is not None:
                    note(f"{judge.name} costs {price.text(resolved.price_source)}")
            if lost := store.manifest.lost_calls:
                note(
                    f"--max-cost: {number_of(lost, 'answer')} of earlier sessions may be lost, and count "
                    f"${session.lost_usd:.4f}"
                )
        store.begin(resolved.session)
        keep_labels(store, labels)
        await _spend(store, session, around)
        return session
    finally:
        await _close(carrying.closing, note)


def _as_submitted(resolved: Resolved) -> Resolved:
    """Return the values for the batches under way, as they were submitted, at the batch price; none is begun."""
    share = batch_share(was_batch=resolved.batch, batch=True)
    judges = tuple(
        replace(judge, prices={name: share * price for name, price in judge.prices.items()})
        for judge in resolved.judges
    )
    return replace(resolved, batch=True, rounds=0, ray=None, judges=judges)


async def _spend(store: RunWriter, session: Session, around: Around) -> None:
    """Do the session's work, and record its end in the run, also after an error."""

    def record_end() -> None:
        stats, money = session.stats, session.money
        reached = {REACHED: money.limit} if money.reached else {}
        waits = {"refused": stats.refused, "waited_s": round(stats.waited_s, 1)}
        store.end(in_flight=stats.dropped, **waits, **reached)

    try:
        with around(session):
            await session.work()
    except BaseException:
        with suppress(StorageError):  # the first error says more
            record_end()
        raise
    record_end()


def _record_target(store: RunWriter, resolved: Resolved) -> None:
    """Record the target at which the run is finished, if it is not the last session's."""
    target = {
        name: resolved.session[name]
        for name in ("target_error", "target_wrong", "agree", "confidence", "repeat_anyway")
    }
    if not store.manifest.says(target):
        store.set_manifest(store.manifest.with_last_session(**target))


async def _close(judges: Iterable[Closing], notify: Callable[[str], None]) -> None:
    """Close all ``judges``. A failure is only reported: the answers are kept already."""
    for closing in [asyncio.create_task(judge.aclose()) for judge in judges]:
        await asyncio.wait({closing}, timeout=_CLOSING_S)
        if not closing.done():
            notify(f"a judge did not close within {_CLOSING_S:g} s; it is abandoned")
            await end_all([closing])
        elif not closing.cancelled() and (error := closing.exception()) is not None:
            notify(" ".join(str(error).split()) or type(error).__name__)


def check_rated(session: Session, run: Path) -> None:
    """Raise Unrated if a session brought no rating although its run has none yet, or is not finished."""
    if not session.stats.ratings and not (session.finished and session.arms.n.any()):
        noun, stats = session.noun, session.stats
        reason = (
            stats.last_failure
            or counted(stats.unparsed, noun)
            or f"given up: {counted(session.retired, noun)}"
        )
        raise Unrated(
            f"no call was answered with a {noun} ({reason}); robin export {typed(run)} --what judgments lists all answers"
        )
