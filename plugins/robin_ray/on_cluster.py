"""The carrier of ``--ray``: the engine decides in this process, and workers on a Ray cluster make its requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from robin_cli.judges.failover import Failover
from robin_cli.run.writer import RunWriter
from robin_cli.session.carriers import Carrying
from robin_cli.session.connection import endpoints_of
from robin_cli.session.engine import Engine
from robin_cli.session.ledger import Ledger
from robin_cli.settings.resolve import Resolved
from robin_ray import on_ray
from robin_ray.crew import Crew
from robin_ray.on_ray import OnRay


def check(resolved: Resolved) -> None:
    """Check that workers can be reached, see :class:`~robin_cli.session.carriers.Carries`."""
    on_ray.check(resolved.ray or "", resolved.secrets)


def carrying(resolved: Resolved, store: RunWriter, notify: Callable[[str], None]) -> Carrying:
    """Return the way in which workers make the calls of a session of the run of ``store``."""
    crew = Crew(OnRay(resolved.ray or "", resolved.secrets), notify)
    judges, prices = endpoints_of(resolved, store.manifest, notify, reach=crew.reach)
    begin = partial(OnCluster, judges=judges, crew=crew, notify=notify)
    return Carrying(begin, judges, prices)


class OnCluster(Engine):
    """Like :class:`Engine`, once ``crew`` has started; the ``judges`` ask by its workers."""

    def __init__(
        self, ledger: Ledger, judges: Sequence[Failover], crew: Crew, notify: Callable[[str], None]
    ) -> None:
        super().__init__(ledger, judges)
        self._crew, self._notify = crew, notify
        crew.concurrency = lambda: sum(judge.bears for judge in judges)
        crew.fail = ledger.end

    async def run(self) -> None:
        """Work like :meth:`Engine.run`. InputError, EndpointError: workers cannot be used, or none is left."""
        self._notify("--ray: workers are starting, which takes some seconds")
        starting = asyncio.create_task(self._crew.start())
        stopping = asyncio.create_task(self._ledger.stop.requested.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._ledger.stats.started_at = time.monotonic()  # the pace is that of the calls
                await super().run()
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            await self._crew.close()
