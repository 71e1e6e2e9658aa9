"""The worker, on any machine: takes groups of requests, makes them, reads the replies, and returns results in groups."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import orjson

from robin_cli.ask.asking import Interview
from robin_cli.ask.prompts import PromptSet
from robin_cli.judges.descriptors import most_connections
from robin_cli.judges.judge import Judge
from robin_cli.model.errors import RobinError
from robin_cli.model.exchange import Question, Reply
from robin_cli.model.records import Judgment, Pair
from robin_cli.model.space import ArmSpace
from robin_cli.session.targets import Target, asked_here
from robin_ray.texts import PairTexts
from robin_ray.wire import Answered, Came, Group, Posed, RemoteRun, Unusable

GROUP = 64
"""The number of results that are returned at once."""

HEARTBEAT_S = 3.0
"""The longest time between a worker's reports."""

_LEAST_GATHERING_S = 0.005
_MOST_GATHERING_S = 0.05
_STRAGGLING_S = 0.002
_GATHERING = 0.2
"""The part of a call's duration that a result waits for others at most."""

_NEWEST = 1 / 16


class _OnePair(Sequence[str]):
    """The ids of a run's pairs for a worker with only one of them: each position has the first id."""

    current = ""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, position: object) -> str:  # it is the same at all of them
        return self.current


class Worker:
    """Make calls. All methods run in one event loop.

    Args:
        folder: the new working folder of its process; "" keeps the old one.
    """

    def __init__(self, folder: str = "") -> None:
        if folder:
            os.chdir(folder)
        self._judges: list[Judge] = []
        self._told_samples: dict[int, int] = {}
        self._came = Came()
        self._size = 0
        self._running = 0
        self._is_urgent = False
        self._waits_for = self._is_enough
        self._refusals: dict[int, int] = {}
        self._latency_s = 0.0
        self._any = asyncio.Event()
        self._enough = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def set_up(self, run: RemoteRun, texts: Any) -> None:
        """Set the run, and the table of its ``texts``; None if they come with each call."""
        prompts = PromptSet.from_record(orjson.loads(run.prompts), pairwise=run.pairwise)
        self._ids = _OnePair()
        space = ArmSpace(self._ids, run.attributes, run.judges, run.scales, prompts.kind.variants)
        self._interview = Interview(
            prompts, space, answers=run.answers, notify=self._note, seed=run.seed
        )
        self._texts = None if texts is None else PairTexts(texts)

    async def point_at(self, targets: Sequence[Target], keys: Sequence[str]) -> int:
        """Connect to ``targets``, each with its key; return the number of calls that can be made at a time."""
        at_a_time = max(target.options.at_a_time for target in targets)
        can = most_connections(at_a_time * len(targets), self._note)
        self._judges = [asked_here(*pair, self._note) for pair in zip(targets, keys, strict=True)]
        return max(1, can // len(targets))

    async def exchange(self, group: bytes) -> bytes:
        """Take a :class:`Group` of requests; return a :class:`Came` after some results, or after a while without."""
        self._accept(group)
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                await self._any.wait()
        if self._size:
            await self._gather()
        came, self._came, self._size, self._is_urgent = self._came, Came(), 0, False
        self._any.clear()
        came.refusals = dict(self._refusals)
        for target, judge in enumerate(self._judges):
            if (most := judge.most_samples) != self._told_samples.get(target):
                came.most_samples[target] = self._told_samples[target] = most
        return _encoded(came)

    async def take(self, group: bytes) -> None:
        """Take a :class:`Group` of requests; the waiting :meth:`exchange` returns their results."""
        self._accept(group)

    async def close(self) -> None:
        """Drop the requests under way, and close all connections."""
        for task in self._tasks:
            task.cancel()
        for judge in self._judges:
            with suppress(Exception):
                await judge.aclose()

    def _accept(self, encoded: bytes) -> None:
        group = _group(encoded)
        self._running += len(group.questions)
        for posed in group.questions:
            self._begin(self._make(posed, group.heeded.get(posed.target, 0)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, posed: Posed, heeded: int) -> None:
        """Make one request; its result, of any kind, joins the next group."""
        number, target, came = posed.number, posed.target, None
        started = time.monotonic()
        try:
            if self._refusals.get(target, 0) > heeded:  # it asked for a wait after this was chosen
                self._came.unsent.append(number)
                return
            pair = self._pair(posed)
            question = self._question(pair, posed)
            came = await self._judges[target].ask(question)
            self._latency_s += _NEWEST * (time.monotonic() - started - self._latency_s)
            if isinstance(came, Reply):
                tokens = (came.usage.prompt_tokens or 0) + (came.usage.completion_tokens or 0)
                self._came.answered.append(
                    Answered(number, self._judgments(pair, posed, came), tokens)
                )
                return
            if came.overloaded and came.retry_after_s:
                self._refusals[target] = self._refusals.get(target, 0) + 1
                self._is_urgent = True
            self._came.failed.append((number, came))
        except RobinError as error:
            self._is_urgent = True
            kind = next(
                base for base in type(error).__mro__ if base.__module__ == RobinError.__module__
            )
            self._came.unusable.append(Unusable(number, kind.__name__, str(error)))
        except Exception as error:  # noqa: BLE001  # no error may be lost
            self._is_urgent = True
            message = f"{type(error).__name__}: {error}" if came is None else type(error).__name__
            self._came.unusable.append(
                Unusable(number, "RunError", f"a worker failed in making a call ({message})")
            )
        finally:
            self._running -= 1
            self._size += 1
            self._any.set()
            if self._waits_for():
                self._enough.set()

    async def _gather(self) -> None:
        """Wait a while to group results: until few are outstanding, and then a moment for those."""
        gathering_s = min(_MOST_GATHERING_S, max(_LEAST_GATHERING_S, _GATHERING * self._latency_s))
        for seconds, is_enough in ((gathering_s, self._is_most), (_STRAGGLING_S, self._is_enough)):
            if not is_enough():
                self._enough.clear()
                self._waits_for = is_enough
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._enough.wait()

    def _is_enough(self) -> bool:
        """Return whether nothing is outstanding."""
        return self._is_urgent or self._size >= GROUP or not self._running

    def _is_most(self) -> bool:
        return self._is_enough() or self._running <= self._size

    def _pair(self, posed: Posed) -> Pair:
        if posed.texts is not None:
            pair_id, prompt, response, reference, other = posed.texts
            return Pair(pair_id, prompt, response, reference=reference, other=other)
        assert self._texts is not None  # noqa: S101  # else they are sent along
        return self._texts[posed.pair]

    def _question(self, pair: Pair, posed: Posed) -> Question:
        self._ids.current = pair.pair_id
        return self._interview.question(pair, posed.arm, posed.draw, posed.samples)

    def _judgments(self, pair: Pair, posed: Posed, reply: Reply) -> list[Judgment]:
        self._ids.current = pair.pair_id
        try:
            return self._interview.judgments(posed.arm, posed.draw, reply)
        except Exception as error:  # noqa: BLE001  # a bug in robin, perhaps for every reply; this one is paid for
            self._came.bugs.append(f"{type(error).__name__}: {error}")
            return self._interview.unread(posed.arm, posed.draw, reply)

    def _note(self, line: str) -> None:
        self._came.notes.append(line)
        self._any.set()


_encoded = msgspec.msgpack.Encoder().encode
_group = msgspec.msgpack.Decoder(Group).decode
