"""Judges whose requests are made by workers, as the process that decides sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from robin_cli.dispatch.limiter import Limiter
from robin_cli.judges.judge import Judge
from robin_cli.judges.metering import Meter, most_tokens
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, Usage
from robin_cli.runner.elsewhere import Target


@dataclass(frozen=True, slots=True)
class AskedOf(Question):
    """A question that a worker makes: its arm and draw; the messages only where they are counted."""

    arm: int = 0
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Told(Reply):
    """A reply that a worker read: what it is to the run."""

    judgments: Sequence[Judgment] = ()


Send = Callable[[int, AskedOf], Awaitable[Reply | Failure]]
"""Has a worker make one request to a target, by its number, and waits for what comes of it."""


class Elsewhere(Judge):
    """A judge that workers ask.

    Args:
        number: of its target.
        meter: by which its requests are reckoned; what workers measure, theirs do.
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
        """Have a worker make one request, once. EndpointError as :meth:`Judge.ask`."""
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
        """Take in what a worker learnt of its requests."""
        self._most_samples = min(self._most_samples, most_samples)

    def measured(self, question: Question, judgments: Sequence[Judgment]) -> None:
        """Take in what a request took, where requests are reckoned."""
        if question.messages and judgments and not judgments[0].usage_estimated:
            first = judgments[0]
            self._meter.measured(question.messages, (), Usage(first.prompt_tokens, service_tier=first.service_tier))


@dataclass(slots=True)
class Targets:
    """All that workers ask, by number: what it is, its key, how it is seen here, and whose permits are for it."""

    targets: list[Target] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    judges: list[Elsewhere] = field(default_factory=list)
    number_of: dict[Limiter, int] = field(default_factory=dict)

    def add(self, target: Target, key: str, limiter: Limiter) -> Elsewhere:
        """A judge that has workers ask ``target``, by permits of ``limiter``."""
        self.number_of[limiter] = len(self.targets)
        meter = Meter(target.price, tier=target.tier, falls_back=target.falls_back)
        judge = Elsewhere(len(self.targets), target, meter)
        self.targets.append(target)
        self.keys.append(key)
        self.judges.append(judge)
        return judge

    def reach_by(self, send: Send) -> None:
        """Say how workers are reached."""
        for judge in self.judges:
            judge.send = send
