"""Judges whose requests workers make, for the process that chooses the calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from robin_cli.judges.judge import Judge
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, Usage
from robin_cli.session.targets import Target


@dataclass(frozen=True, slots=True)
class AskedOf(Question):
    """A request that a worker makes: its arm and draw; messages only if they are counted."""

    arm: int = 0
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Told(Reply):
    """A reply that a worker read, as the run needs it."""

    judgments: Sequence[Judgment] = ()


Send = Callable[[int, AskedOf], Awaitable[Reply | Failure]]
"""Send one request to a target, by number, through a worker, and wait for its result."""


class RemoteWork(Judge):
    """A judge that workers call.

    Args:
        number: its target's number.
        meter: the meter of its requests here; workers have their own.
    """

    send: Send

    def __init__(self, number: int, target: Target, meter: Meter) -> None:
        self._number = number
        self._meter = meter
        self._max_tokens = most_tokens(target.options.extra_body, target.options.max_tokens)
        self._most_samples = 2**31

    @property
    def most_samples(self) -> int:
        return self._most_samples

    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request, once, through a worker. EndpointError like :meth:`Judge.ask`."""
        assert isinstance(question, AskedOf)  # noqa: S101  # nobody else asks
        return await self.send(self._number, question)

    def tokens(self, question: Question) -> int:
        if not question.messages:
            return 0
        characters = sum(len(message["content"]) for message in question.messages)
        return self._meter.tokens(characters) + self._max_tokens * question.samples

    def most_cost(self, question: Question) -> float:
        return self._meter.most(question.messages, self._max_tokens, question.samples)

    def learn(self, most_samples: int) -> None:
        """Take over what a worker measured of its requests."""
        self._most_samples = min(self._most_samples, most_samples)

    def measured(self, question: Question, judgments: Sequence[Judgment]) -> None:
        """Take over a request's cost, if requests are metered."""
        if question.messages and judgments and not judgments[0].usage_estimated:
            first = judgments[0]
            self._meter.measured(question.messages, (), Usage(first.prompt_tokens))


@dataclass(slots=True)
class Targets:
    """All targets of the workers, by number: each target, its key, its judge here, and the limiter with its permits."""

    targets: list[Target] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    judges: list[RemoteWork] = field(default_factory=list)
    number_of: dict[Limiter, int] = field(default_factory=dict)

    def add(self, target: Target, key: str, limiter: Limiter) -> RemoteWork:
        """Add a judge for ``target``, called by workers with permits of ``limiter``."""
        self.number_of[limiter] = len(self.targets)
        meter = Meter(target.price)
        judge = RemoteWork(len(self.targets), target, meter)
        self.targets.append(target)
        self.keys.append(key)
        self.judges.append(judge)
        return judge

    def reach_by(self, send: Send) -> None:
        """Set the function that reaches the workers."""
        for judge in self.judges:
            judge.send = send
