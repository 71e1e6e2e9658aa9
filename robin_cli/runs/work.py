"""One session on an open run, from connection to end: what the command line and a notebook both do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from robin_cli.errors import EndpointError, StorageError
from robin_cli.judges import keyless, sendings
from robin_cli.records import counted
from robin_cli.runs.connection import Connection, endpoints_of
from robin_cli.runs.engine import Stop
from robin_cli.runs.opening import cautions
from robin_cli.runs.session import Limits, Outcome, Session
from robin_cli.runs.store import RunStore
from robin_cli.trust import remember

Around = Callable[[Session, Stop], AbstractContextManager[None]]
"""What is around the work of a session: displays that read it, signals that stop it. Entered inside the event loop."""


async def work(
    store: RunStore,
    connection: Connection,
    keys: Mapping[str, str],
    *,
    notify: Callable[[str], None],
    around: Around,
    cautious: bool = True,
) -> Outcome | None:
    """Spend what is left of the budget of an open run; None if nothing is.

    Args:
        keys: for the endpoints, by the variable that holds each; "none" where they want none.
        notify: is told, a line each, what a user should know while it goes on.
        cautious: say beforehand what does not fit the budget; a pilot's is small on purpose.

    Raises:
        EndpointError, LimitReached, StorageError: as :meth:`Session.work`; what was received is kept.
    """

    def note(line: str) -> None:
        notify(f"note: {line}".replace("export RUN", f"export {store.path}"))

    for line in store.notes:
        note(line)
    stop = Stop()
    endpoints, prices = endpoints_of(store.manifest, connection, keys, note)
    limits = Limits(connection.max_cost, connection.samples_per_request, fuse=not connection.no_fuse)
    session = Session(store, endpoints, stop, limits=limits, prices=prices, notify=note)
    if session.budget.exhausted:
        for judge in endpoints:
            await judge.aclose()
        return None
    if cautious:
        for name in keyless(connection.judges, keys, connection.api_key_env):
            note(f"no key goes to {name}: name one for each judge, an --api-key-env for each --model (- for none)")
        keyed = [url for judge in connection.judges if keys[judge.api_key_env] != "none" for url in judge.base_urls]
        for caution in cautions(store.manifest, session.index, store.variances, keyed):
            note(caution)
    remember(sendings(connection.judges, keys))  # so that a resume by the run's name alone finds them named
    store.set_manifest(store.manifest.with_session(**connection.recorded))
    try:
        with around(session, stop):
            outcome = await session.work()
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.set_manifest(store.manifest.with_session_end(in_flight=session.dropped))
        raise
    store.set_manifest(store.manifest.with_session_end(in_flight=session.dropped))
    return outcome


def check_rated(outcome: Outcome, run: Path) -> None:
    """EndpointError if a session ended before its budget without a single rating."""
    if outcome.spent < outcome.budget and not outcome.stats.ratings:
        reason = (
            outcome.stats.last_failure or counted(outcome.stats.unparsed) or f"given up: {counted(outcome.retired)}"
        )
        raise EndpointError(
            f"no call was answered with a rating ({reason}); robin export {run} --what judgments has all"
        )
