"""Workers in this process, on nodes that a test makes up: all that is said between them and a run is said, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from robin_cli.session.targets import Target
from robin_ray.crew import Cluster, Hand, Hired, Lost, Node
from robin_ray.wire import Group, Posed, RemoteRun
from robin_ray.worker import Worker


@dataclass
class Plan:
    """What happens to the nodes of a cluster, and what was seen there.

    Attributes:
        nodes: names of those that are there now.
        lacks: by node, what it lacks.
        fails: by node, why no worker can be begun there.
        most: calls at a time that a worker can make; as many as are asked for, if None.
        hands: all workers there were, with their nodes.
        silent: workers that say nothing any more.
    """

    nodes: list[str] = field(default_factory=lambda: ["one", "two"])
    lacks: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)
    most: int | None = None
    hands: list[tuple[str, _Here]] = field(default_factory=list)
    is_closed: bool = False

    def cluster(self, *_: object, texts: Callable[[], Any] | None, **__: object) -> Cluster:
        """Made in place of Ray's."""
        return _Nodes(self, texts)

    def kill(self, node: str) -> None:
        """End all workers of a node."""
        for name, hand in self.hands:
            if name == node:
                hand.end()


class _Here(Hand):
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.is_silent = False
        self.over = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.groups: list[int] = []
        self.posed: list[Posed] = []

    def _note(self, group: bytes) -> None:
        self.groups.append(len(group))
        self.posed += msgspec.msgpack.decode(group, type=Group).questions

    async def exchange(self, group: bytes) -> bytes:
        self._note(group)
        coming = asyncio.ensure_future(self.worker.exchange(group))
        over = asyncio.ensure_future(self.over.wait())
        await asyncio.wait({coming, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if self.over.is_set():
            coming.cancel()
            raise Lost("its process was ended")
        if self.is_silent:
            await asyncio.Event().wait()
        return coming.result()

    def take(self, group: bytes) -> None:
        self._note(group)
        asyncio.ensure_future(self.worker.take(group))  # noqa: RUF006  # it awaits nothing

    def dismiss(self) -> None:
        asyncio.ensure_future(self.worker.close())  # noqa: RUF006  # the loop outlives it

    def end(self) -> None:
        """Kill it, from any thread."""
        self.loop.call_soon_threadsafe(self.over.set)


class _Nodes(Cluster):
    def __init__(self, plan: Plan, texts: Callable[[], Any] | None) -> None:
        self._plan = plan
        self._texts = texts

    async def connect(self) -> None:
        return

    async def nodes(self) -> Sequence[Node]:
        return [Node(name, name, 1) for name in self._plan.nodes]

    async def check(self, node: Node) -> str:
        return self._plan.lacks.get(node.node_id, "")

    async def hire(
        self, node: Node, run: RemoteRun, targets: Sequence[Target], keys: Sequence[str]
    ) -> Hired:
        plan = self._plan
        if why := plan.fails.get(node.node_id):
            raise Lost(why)
        worker = Worker()
        await worker.set_up(run, self._texts() if self._texts is not None else None)
        most = await worker.point_at(targets, keys)
        hand = _Here(worker)
        plan.hands.append((node.node_id, hand))
        return Hired(hand, plan.most or most)

    async def close(self, *, is_lost: bool) -> None:
        for _, hand in self._plan.hands:
            await hand.worker.close()
        self._plan.is_closed = True
