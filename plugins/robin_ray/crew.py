"""Supervise workers on the nodes of a cluster: share out requests, take replies, start workers and replace lost ones."""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from robin_cli.model.errors import ClusterLost, EndpointError, InputError
from robin_cli.session.targets import Target
from robin_ray.wire import Came, Group, Posed, RemoteRun, Texts
from robin_ray.worker import GROUP

SILENT_S = 30.0
"""The silence after which a worker counts as lost; it reports every few seconds."""

LOOKS_EVERY_S = 1.0
"""The interval between looks at the cluster's nodes."""

STARTING_S = 60.0
"""The time limit for a worker's start."""

CHECKING_S = 20.0
"""The time limit for checks of all machines before anything is paid for; a slower machine may join later."""

AWAY_S = 20.0
"""The longest silence of the cluster itself; after a minute Ray would end this process."""

_CHOOSING_S = 0.004
"""The longest wait for further requests to send along; a request sent alone costs more."""

_REMEMBERED = 4096
"""Arms whose worker is remembered."""

_MOST_DEATHS = 3
"""A node gets no more workers after this many in a row ended with no more answers than calls lost with them."""


class Lost(Exception):
    """A worker or the cluster is gone or was never there; the message has the reason. ``for_good``: it will not return."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster: its id, its address, and the number of usable CPUs."""

    node_id: str
    address: str = field(compare=False)
    cpus: int = field(compare=False)


class Hand(ABC):
    """The methods of a remote worker, see :class:`~robin_ray.worker.Worker`."""

    @abstractmethod
    async def exchange(self, group: bytes) -> bytes:
        """Send it requests, and wait for replies. Raises Lost."""

    @abstractmethod
    def take(self, group: bytes) -> None:
        """Send it requests; the waiting :meth:`exchange` reports if they are lost."""

    @abstractmethod
    def dismiss(self) -> None:
        """End it, whatever it is doing."""


@dataclass(frozen=True, slots=True)
class Hired:
    """A worker that is ready, and the number of calls it can make at a time."""

    hand: Hand
    most: int


class Cluster(ABC):
    """Machines on which workers can start."""

    @abstractmethod
    async def connect(self) -> None:
        """Connect. EndpointError or InputError if workers cannot be used."""

    @abstractmethod
    async def nodes(self) -> Sequence[Node]:
        """Return the machines that are present. Lost if the cluster does not answer."""

    @abstractmethod
    async def check(self, node: Node) -> str:
        """Return what a node lacks for workers, as a message; empty if nothing. Lost if that cannot be checked."""

    @abstractmethod
    async def hire(
        self, node: Node, run: RemoteRun, targets: Sequence[Target], keys: Sequence[str]
    ) -> Hired:
        """Start a worker on ``node``. Lost if that fails."""

    @abstractmethod
    async def close(self, *, is_lost: bool) -> None:
        """Disconnect; all workers end. If the cluster is lost, make no call to it."""


@dataclass(slots=True, eq=False)
class _Member:
    """A worker of the crew, and its requests under way."""

    node: Node
    hired: Hired
    under_way: set[int] = field(default_factory=set)
    outbox: list[Posed] = field(default_factory=list)
    heeded: dict[int, int] = field(default_factory=dict)
    is_listening: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    answered: int = 0

    @property
    def room(self) -> int:
        return self.hired.most - len(self.under_way)


class Crew:
    """The workers of a session.

    Args:
        cluster: their machines.
        run: the run of their requests.
        texts: returns a pair's texts by its position, to send along; None if workers have them all.
        bears: returns how many calls may be under way now.
        came: called with a worker's results.
        lost: called with the requests under way at a worker that is lost.
        notify: called with each line for the user.
    """

    def __init__(
        self,
        cluster: Cluster,
        run: RemoteRun,
        targets: Sequence[Target],
        keys: Sequence[str],
        *,
        texts: Callable[[int], Texts] | None,
        bears: Callable[[], int],
        came: Callable[[Came], None],
        lost: Callable[[Iterable[int]], None],
        notify: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._run = run
        self._targets, self._keys = targets, keys
        self._texts = texts
        self._bears = bears
        self._came, self._lost = came, lost
        self._notify = notify
        self._members: list[_Member] = []
        self._waiting: list[Posed] = []
        self._is_flushing = False
        self._at: dict[
            tuple[int, int], _Member
        ] = {}  # the worker asked last, of some pairs and arms
        self._tasks: set[asyncio.Task[None]] = set()
        self._hiring: Counter[Node] = Counter()
        self._deaths: Counter[Node] = Counter()
        self._known: set[Node] = set()
        self._unsure: set[Node] = set()
        self._admitted: set[Node] = set()
        self._lacks: dict[Node, str] = {}
        self._is_begun = self._is_lost = False
        self._broken: BaseException | None = None
        self._why = ""

    async def start(self) -> None:
        """Connect, and start at least one worker. EndpointError or InputError if that fails."""
        await self._cluster.connect()
        nodes = await self._nodes()
        checks = [self._task(self._admit(node)) for node in nodes]
        await asyncio.wait(checks, timeout=CHECKING_S)
        while not self._admitted and not all(task.done() for task in checks):
            await asyncio.wait(
                [task for task in checks if not task.done()], return_when=asyncio.FIRST_COMPLETED
            )
        if self._lacks:
            raise InputError(
                "; ".join(f"--ray: node {node.address}: {why}" for node, why in self._lacks.items())
            )
        self._is_begun = True
        hires = [self._begin(node) for node in self._lacking(nodes)]
        while not self._members and not all(task.done() for task in hires):
            await asyncio.wait(
                [task for task in hires if not task.done()], return_when=asyncio.FIRST_COMPLETED
            )
        if not self._members:
            self._check_whole()
            raise EndpointError(f"--ray: no worker could be begun ({self._why})")

    async def _nodes(self) -> Sequence[Node]:
        try:
            nodes = await self._cluster.nodes()
        except Lost as error:
            raise EndpointError(
                f"--ray: the cluster does not say what machines it has ({error})"
            ) from error
        if not nodes:
            raise EndpointError(
                "--ray: the cluster has no machine that is alive; start one, then robin resume"
            )
        return _that_work(nodes)

    async def look_after(self) -> None:
        """Keep workers on all nodes until cancelled. EndpointError if none are left."""
        heard = time.monotonic()
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            self._check_whole()
            try:
                nodes = _that_work(await self._cluster.nodes())
            except Lost as error:
                if error.for_good or time.monotonic() - heard > AWAY_S:
                    self._is_lost = True
                    raise ClusterLost(
                        f"--ray: the cluster is out of reach ({error}); robin resume goes on once it is back"
                    ) from error
                continue
            heard = time.monotonic()
            for node in nodes:
                if node not in self._known:
                    self._task(self._admit(node))
            for member in [member for member in self._members if member.node not in nodes]:
                self._lose(member, "the node left the cluster")
            for node in self._lacking(nodes):
                self._begin(node)
            if not self._members and not self._hiring.total() and not self._is_checking(nodes):
                raise EndpointError(
                    f"--ray: no worker is left ({self._why}); once that is mended, robin resume"
                )

    def _is_checking(self, nodes: Sequence[Node]) -> bool:
        """Return whether a node's check is unfinished, so that it may still get workers."""
        return any(node in self._unsure for node in nodes)

    def pose(self, posed: Posed) -> None:
        """Queue one request for the worker with most room."""
        self._waiting.append(posed)
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def close(self) -> None:
        """End all workers."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._members.clear()
        await self._cluster.close(is_lost=self._is_lost)

    @property
    def can_answer(self) -> bool:
        """Return whether any request under way may still get a reply."""
        return bool(self._members) and not self._is_lost

    async def _admit(self, node: Node) -> None:
        """Allow workers on a node that lacks nothing for them."""
        self._known.add(node)
        self._unsure.add(node)
        try:
            async with asyncio.timeout(STARTING_S):
                lacks = await self._cluster.check(node)
        except (Lost, TimeoutError) as error:  # it may be leaving: then nobody needs to know
            self._why = f"node {node.address}: {str(error) or f'nothing began there within {STARTING_S:g} s'}"
            return
        finally:
            self._unsure.discard(node)
        if not lacks:
            self._admitted.add(node)
        elif not self._is_begun:
            self._lacks[node] = lacks
        else:
            self._notify(f"--ray: node {node.address} is left out: {lacks}")

    def _lacking(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes on which to start workers, repeated for each worker."""
        usable = [node for node in nodes if node in self._admitted]
        at_node = Counter(member.node for member in self._members) + self._hiring
        wanted = math.ceil(self._bears() / GROUP)
        per_node = math.ceil(wanted / len(usable)) if usable else 0
        lacking = []
        for node in usable[: max(1, self._bears())]:
            lacking += [node] * (max(1, min(per_node, node.cpus)) - at_node[node])
        return lacking

    def _begin(self, node: Node) -> asyncio.Task[None]:
        self._hiring[node] += 1
        return self._task(self._hire(node))

    async def _hire(self, node: Node) -> None:
        try:
            async with asyncio.timeout(STARTING_S):
                hired = await self._cluster.hire(node, self._run, self._targets, self._keys)
        except (Lost, TimeoutError) as error:
            self._failed(node, str(error) or f"a worker did not begin within {STARTING_S:g} s")
        else:
            member = _Member(node, hired)
            self._members.append(member)
            self._task(self._converse(member))
            if self._waiting:
                self._flush()
        finally:
            self._hiring[node] -= 1

    def _failed(self, node: Node, why: str) -> None:
        self._why = f"node {node.address}: {why}"
        self._deaths[node] += 1
        if self._deaths[node] >= _MOST_DEATHS and node in self._admitted:
            self._admitted.remove(node)
            self._notify(
                f"--ray: node {node.address} is left out after {_MOST_DEATHS} workers there failed ({why})"
            )

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._broken = self._broken or task.exception()

    def _check_whole(self) -> None:
        """Raise an error that is not one worker's; otherwise the run would wait forever for the requests under way."""
        if self._broken is not None:
            raise self._broken

    async def _converse(self, member: _Member) -> None:
        """Exchange requests and replies with a worker as long as it is there."""
        exchange = member.hired.hand.exchange
        while member in self._members:
            outbox, member.outbox = member.outbox, []
            member.is_listening = True
            try:
                async with asyncio.timeout(SILENT_S):
                    encoded = await exchange(_encoded(Group(outbox, member.heeded)))
            except (Lost, TimeoutError) as error:
                self._lose(member, str(error) or f"a worker said nothing for {SILENT_S:g} s")
                return
            member.is_listening = False
            member.news.clear()
            self._take_in(member, _came(encoded))
            with suppress(
                TimeoutError
            ):  # what is asked next may go along, where it is not long in being chosen
                async with asyncio.timeout(_CHOOSING_S):
                    await member.news.wait()

    def _take_in(self, member: _Member, came: Came) -> None:
        member.heeded = came.refusals
        over = [
            *(result.number for result in came.answered),
            *(number for number, _ in came.failed),
            *(result.number for result in came.unusable),
            *came.unsent,
        ]
        member.answered += len(came.answered)
        if member.answered > len(member.under_way):
            self._deaths.pop(member.node, None)
        if len(over) > 0:
            member.under_way.difference_update(over)
        self._came(came)
        if (
            self._waiting and not self._is_flushing
        ):  # there is room again, and what comes next may be the end
            self._flush()

    def _lose(self, member: _Member, why: str) -> None:
        """Drop a worker that is lost or silent."""
        if member not in self._members:
            return
        self._members.remove(member)
        member.hired.hand.dismiss()
        numbers = sorted(member.under_way)
        self._why = f"node {member.node.address}: {why}"
        if member.answered <= len(numbers):  # going on like this costs more than it brings
            self._failed(member.node, why)
        calls = f"; {len(numbers):,} calls under way there are made again" if numbers else ""
        self._notify(f"--ray: a worker on node {member.node.address} is gone ({why}){calls}")
        self._lost(numbers)

    def _flush(self) -> None:
        """Share out the queue; an error ends the run, and no further request is sent."""
        self._is_flushing = False
        if self._broken is None:
            try:
                self._share_out()
            except Exception as error:  # noqa: BLE001  # whatever it is: some of what waits has gone out, and must not again
                self._broken = error

    def _share_out(self) -> None:
        """Send the queue to all workers so that each has equally many under way, in groups as large as that allows."""
        waiting: list[Posed] = []
        for each in self._waiting:  # the rest of a visit goes to the worker that began it
            member = self._at.pop((each.pair, each.arm), None)
            if member is not None and member in self._members and member.room > 0:
                self._give(member, [each])
            else:
                waiting.append(each)
        self._waiting = waiting
        members = [each for each in self._members if each.room > 0]
        if not waiting or not members:
            return
        loads = [len(each.under_way) for each in members]
        shares = shared_out(len(waiting), loads, [each.hired.most for each in members])
        start = 0
        for member, share in zip(members, shares, strict=True):
            group = waiting[start : start + share]
            start += share
            if group:
                self._give(member, group)
        self._waiting = waiting[start:]

    def _give(self, member: _Member, requests: list[Posed]) -> None:
        """Send requests to a worker."""
        for request in requests:
            member.under_way.add(request.number)
            self._at[request.pair, request.arm] = member
        while len(self._at) > _REMEMBERED:
            self._at.pop(next(iter(self._at)))
        if self._texts is not None:
            requests = [request._replace(texts=self._texts(request.pair)) for request in requests]
        if member.is_listening:
            member.hired.hand.take(_encoded(Group(requests, member.heeded)))
        else:
            member.outbox += requests
            member.news.set()


def _that_work(nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the ``nodes`` that may have workers; a head node with no CPUs gets none if there are others."""
    return [node for node in nodes if node.cpus] or nodes


def shared_out(count: int, loads: Sequence[int], most: Sequence[int]) -> list[int]:
    """Split ``count`` so that loads become as equal as possible, and none more than its ``most``."""
    shares = [0] * len(loads)
    lowest = [(load, place) for place, load in enumerate(loads) if load < most[place]]
    heapq.heapify(lowest)
    while count and lowest:
        load, place = heapq.heappop(lowest)
        shares[place] += 1
        count -= 1
        if load + 1 < most[place]:
            heapq.heappush(lowest, (load + 1, place))
    return shares


_encoded = msgspec.msgpack.Encoder().encode
_came = msgspec.msgpack.Decoder(Came).decode
