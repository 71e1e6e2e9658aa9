"""Workers in this process, on nodes that a test makes up: all that passes between them and a run passes, without Ray."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from robin_cli.session.targets import Target
from robin_ray.crew import Lost, Node, Remote, Unfit
from robin_ray.worker import RemoteRequest, RemoteResult, Worker

Sent = TypeVar("Sent")


@dataclass
class Plan:
    """What happens to the nodes of a cluster, and what was seen there.

    Attributes:
        nodes: names of those that are there now.
        lacks: by node, what it lacks.
        fails: by node, why no worker can be begun there.
        workers: all workers there were, with their nodes.
    """

    nodes: list[str] = field(default_factory=lambda: ["one", "two"])
    lacks: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    workers: list[tuple[str, _Here]] = field(default_factory=list)
    is_closed: bool = False

    def cluster(self, *_: object) -> _Nodes:
        """Made in place of Ray's."""
        return _Nodes(self)

    def kill(self, node: str) -> None:
        """End all workers of a node."""
        for name, worker in self.workers:
            if name == node:
                worker.end()


class _Here:
    """A worker; ``is_silent``: it says nothing any more."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.is_silent = False
        self.over = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    async def take(self, requests: Sequence[RemoteRequest]) -> None:
        await self.worker.take(_sent(requests))

    async def results(self) -> tuple[list[RemoteResult], list[str]]:
        coming = asyncio.ensure_future(self.worker.results())
        over = asyncio.ensure_future(self.over.wait())
        await asyncio.wait({coming, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if self.over.is_set():
            coming.cancel()
            raise Lost("its process was ended")
        if self.is_silent:
            await asyncio.Event().wait()
        return _sent(coming.result())

    def dismiss(self) -> None:
        asyncio.ensure_future(self.close())  # noqa: RUF006  # the loop outlives it

    async def close(self) -> None:
        """Drop its requests, and close its connections."""
        for task in self.worker._tasks:
            task.cancel()
        for judge in self.worker.judges:
            with suppress(Exception):
                await judge.aclose()

    def end(self) -> None:
        """Kill it, from any thread."""
        self.loop.call_soon_threadsafe(self.over.set)


def _sent(value: Sent) -> Sent:
    """A value as it comes to another machine."""
    sent: Sent = pickle.loads(pickle.dumps(value))  # noqa: S301
    return sent


class _Nodes:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def connect(self) -> None:
        return

    async def nodes(self) -> Sequence[Node]:
        return [Node(name, name, 1) for name in self._plan.nodes]

    async def start(self, node: Node, targets: Sequence[Target], keys: Sequence[str]) -> Remote:
        plan = self._plan
        if why := plan.lacks.get(node.node_id):
            raise Unfit(why)
        if why := plan.fails.get(node.node_id):
            raise Lost(why)
        worker = Worker()
        await worker.set_up(targets, keys)
        here = _Here(worker)
        plan.workers.append((node.node_id, here))
        return here

    async def close(self, *, is_lost: bool) -> None:
        for _, worker in self._plan.workers:
            await worker.close()
        self._plan.is_closed = True
