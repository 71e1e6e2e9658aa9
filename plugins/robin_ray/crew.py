"""The workers of a session: they are started, get requests, and are replaced when they are lost."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from robin_cli.judges.judge import CallLost, Judge
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.model.errors import ClusterLost, EndpointError, InputError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Usage
from robin_cli.session.targets import Target
from robin_ray.worker import RemoteRequest, RemoteResult

SILENT_S = 30.0
"""The silence after which a worker counts as lost; it reports every few seconds."""

LOOKS_EVERY_S = 1.0
"""The interval between looks at the cluster's nodes."""

STARTING_S = 60.0
"""The time limit for a worker's start."""

CHECKING_S = 20.0
"""The time limit for the start on all nodes before anything is paid for; a slower node may join later."""

AWAY_S = 20.0
"""The longest silence of the cluster itself; after a minute Ray would end this process."""

_CALLS_EACH = 256
"""More concurrent calls get another worker, up to one for each CPU of a node."""

_MOST_FAILURES = 3
"""A node gets no more workers after so many in a row brought no more answers than were lost with them."""


class Lost(Exception):
    """A worker or the cluster is gone or was never there; the message has the reason. ``for_good``: it will not return."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class Unfit(Exception):
    """A node lacks something that workers need; the message says what."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster: its id, its address, and the number of usable CPUs."""

    node_id: str
    address: str = field(compare=False)
    cpus: int = field(compare=False)


class Remote(Protocol):
    """A :class:`~robin_ray.worker.Worker` elsewhere."""

    async def take(self, requests: Sequence[RemoteRequest]) -> None:
        """Have it begin requests. Lost if it cannot; if it ends later, :meth:`results` raises."""

    async def results(self) -> tuple[list[RemoteResult], list[str]]:
        """Wait for results. Raises Lost."""

    def dismiss(self) -> None:
        """End it, whatever it is doing."""


class Cluster(Protocol):
    """Machines on which workers can start."""

    async def connect(self) -> None:
        """Connect. EndpointError if that fails."""

    async def nodes(self) -> Sequence[Node]:
        """Return the machines that are present. Lost if the cluster does not answer."""

    async def start(self, node: Node, targets: Sequence[Target], keys: Sequence[str]) -> Remote:
        """Start a worker on ``node``. Unfit if it can have none, Lost if the start fails."""

    async def close(self, *, is_lost: bool) -> None:
        """Disconnect; all workers end. If the cluster is lost, make no call to it."""


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker, and the futures of its requests under way by their numbers."""

    node: Node
    remote: Remote
    under_way: dict[int, asyncio.Future[RemoteResult]] = field(default_factory=dict)
    answered: int = 0


class Crew:
    """The workers of a session.

    Args:
        cluster: their machines.
        notify: gets lines for the user.

    Attributes:
        concurrency: returns how many calls may be under way now.
        fail: called with an error that ends the session.
    """

    def __init__(self, cluster: Cluster, notify: Callable[[str], None]) -> None:
        self._cluster, self._notify = cluster, notify
        self._targets: list[Target] = []
        self._keys: list[str] = []
        self.concurrency: Callable[[], int] = lambda: 1
        self.fail: Callable[[Exception], None] = lambda _: None
        self._workers: list[_Worker] = []
        self._queue: list[tuple[RemoteRequest, asyncio.Future[RemoteResult]]] = []
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._at: Counter[Node] = Counter()  # workers, also those that start
        self._failures: Counter[Node] = Counter()
        self._left_out: dict[Node, str] = {}
        self._noted: set[str] = set()
        self._is_begun = self._has_ended = self._is_lost = False
        self._why = ""

    def reach(self, target: Target, key: str) -> Judge:
        """Return a judge whose requests the workers make at ``target``."""
        self._targets.append(target)
        self._keys.append(key)
        return _RemoteJudge(self, len(self._targets) - 1, target)

    async def start(self) -> None:
        """Connect, and start at least one worker. EndpointError or InputError if that fails."""
        await self._cluster.connect()
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
        starting = self._start_missing(nodes)
        await asyncio.wait(starting, timeout=CHECKING_S)
        while not self._workers and (left := [task for task in starting if not task.done()]):
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if self._left_out:
            lacks = (f"--ray: node {node.address}: {why}" for node, why in self._left_out.items())
            raise InputError("; ".join(lacks))
        if not self._workers:
            raise EndpointError(f"--ray: no worker could be begun ({self._why})")
        self._is_begun = True
        self._spawn(self._look_after())

    async def close(self) -> None:
        """End all workers; requests that wait for one are not made."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close(is_lost=self._is_lost)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do ``work`` in a task, whose error ends the session."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_done)
        return task

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._end(error)

    def _end(self, error: Exception) -> None:
        """End the session with ``error``; workers that are there finish what they have."""
        self._has_ended = True
        self.fail(error)
        if self._is_lost:
            for worker in self._workers:
                _give_up(worker, str(error))
            self._workers.clear()
        self._send()

    # ── workers come and go ───────────────────────────────────────────────────────────────────────

    async def _look_after(self) -> None:
        """Keep workers on all nodes. EndpointError if none is left."""
        heard = time.monotonic()
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            try:
                nodes = await self._cluster.nodes()
            except Lost as error:
                if error.for_good or time.monotonic() - heard > AWAY_S:
                    self._is_lost = True
                    raise ClusterLost(
                        f"--ray: the cluster is out of reach ({error}); robin resume goes on once it is back"
                    ) from error
                continue
            heard = time.monotonic()
            self._start_missing(nodes)
            if not self._at.total():
                raise EndpointError(
                    f"--ray: no worker is left ({self._why}); once that is mended, robin resume"
                )

    def _start_missing(self, nodes: Sequence[Node]) -> list[asyncio.Task[None]]:
        """Start workers where some are missing; a head node without CPUs gets none if there are others."""
        nodes = [node for node in nodes if node.cpus] or nodes
        calls = max(1, self.concurrency())
        usable = [node for node in nodes if node not in self._left_out][:calls]
        starting = []
        for node in usable:
            share = math.ceil(calls / len(usable) / _CALLS_EACH)
            for _ in range(max(1, min(share, node.cpus)) - self._at[node]):
                self._at[node] += 1
                starting.append(self._spawn(self._start(node)))
        return starting

    async def _start(self, node: Node) -> None:
        try:
            async with asyncio.timeout(STARTING_S):
                remote = await self._cluster.start(node, self._targets, self._keys)
        except Unfit as error:
            self._at[node] -= 1
            self._leave_out(node, str(error))
        except (Lost, TimeoutError) as error:
            why = str(error) or f"a worker did not begin within {STARTING_S:g} s"
            self._count_end(node, why)
        else:
            worker = _Worker(node, remote)
            self._workers.append(worker)
            self._spawn(self._listen(worker))
            self._send()

    def _count_end(self, node: Node, why: str, *, brought_more: bool = False) -> None:
        """Record the end of a worker; ``brought_more``: it brought more answers than were lost with it."""
        self._at[node] -= 1
        self._why = f"node {node.address}: {why}"
        self._failures[node] = 0 if brought_more else self._failures[node] + 1
        if self._failures[node] >= _MOST_FAILURES and self._is_begun:
            self._leave_out(node, f"{_MOST_FAILURES} workers there failed ({why})")

    def _leave_out(self, node: Node, why: str) -> None:
        self._left_out[node] = why
        if self._is_begun:
            self._notify(f"--ray: node {node.address} is left out: {why}")

    def _lose(self, worker: _Worker, why: str) -> None:
        """Drop a worker that is lost or silent; its calls are made again, as nobody knows whether they were."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        worker.remote.dismiss()
        lost = _give_up(worker, why)
        self._count_end(worker.node, why, brought_more=worker.answered > lost)
        calls = f"; {lost:,} calls under way there are made again" if lost else ""
        self._notify(f"--ray: a worker on node {worker.node.address} is gone ({why}){calls}")

    # ── requests go out, results come in ──────────────────────────────────────────────────────────

    async def make(self, target: int, question: Question) -> RemoteResult:
        """Have a worker make a request. CallLost if the worker is lost."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RemoteResult] = loop.create_future()
        self._number += 1
        if not self._queue:  # what is asked in this turn of the loop goes out together
            loop.call_soon(self._send)
        self._queue.append((RemoteRequest(self._number, target, question), future))
        return await future

    def _send(self) -> None:
        """Send the queue, each request to the worker with the fewest under way."""
        if not self._workers and not self._has_ended:
            return
        groups: defaultdict[_Worker, list[RemoteRequest]] = defaultdict(list)
        for request, future in self._queue:
            if self._has_ended:
                future.cancel()
            elif not future.done():
                worker = min(self._workers, key=lambda worker: len(worker.under_way))
                worker.under_way[request.number] = future
                groups[worker].append(request)
        self._queue.clear()
        for worker, requests in groups.items():
            self._spawn(self._give(worker, requests))

    async def _give(self, worker: _Worker, requests: Sequence[RemoteRequest]) -> None:
        try:
            await worker.remote.take(requests)
        except Lost as error:
            self._lose(worker, str(error))

    async def _listen(self, worker: _Worker) -> None:
        """Take the results of a worker as long as it is there."""
        while worker in self._workers:
            try:
                async with asyncio.timeout(SILENT_S):
                    results, notes = await worker.remote.results()
            except (Lost, TimeoutError) as error:
                self._lose(worker, str(error) or f"a worker said nothing for {SILENT_S:g} s")
                return
            for line in notes:
                if line not in self._noted:
                    self._noted.add(line)
                    self._notify(line)
            for result in results:
                future = worker.under_way.pop(result.number, None)
                worker.answered += isinstance(result.outcome, Reply)
                if future is not None and not future.done():
                    future.set_result(result)


def _give_up(worker: _Worker, why: str) -> int:
    """Report the requests of a worker as lost; return how many."""
    lost = [future for future in worker.under_way.values() if not future.done()]
    for future in lost:
        future.set_exception(CallLost(why))
    return len(lost)


class _RemoteJudge(Judge):
    """A judge whose requests the workers make; it counts tokens and money here."""

    def __init__(self, crew: Crew, number: int, target: Target) -> None:
        self._crew, self._number = crew, number
        self._meter = Meter(target.price)
        self._max_tokens = most_tokens(target.options.extra_body, target.options.max_tokens)
        self._most_samples = 2**31

    @property
    def most_samples(self) -> int:
        return self._most_samples

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request, once, by a worker. Raises as :meth:`Judge.ask`, and CallLost."""
        _, outcome, most_samples = await self._crew.make(self._number, question)
        if isinstance(outcome, Exception):
            raise outcome
        self._most_samples = min(self._most_samples, most_samples)
        if isinstance(outcome, Reply) and not outcome.usage.estimated:
            self._meter.measured(question.messages, (), Usage(outcome.usage.prompt_tokens))
        return outcome

    def tokens(self, question: Question) -> int:
        prompt = self._meter.prompt_tokens(question.messages)
        return prompt + self._max_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(question.messages, self._max_tokens, question.samples)
