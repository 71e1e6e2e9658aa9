"""The counters of a session, which displays read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from robin_cli.judges.limiter import Limiter
from robin_cli.model.records import Judgment


@dataclass(slots=True)
class Stats:
    """The counters of this session, which progress displays read.

    Attributes:
        calls: calls begun; ``in_flight``: requests under way.
        limiters: of the endpoints. They count ``refused`` requests, and the seconds ``waited_s`` without any under way.
        by_text: ratings read from the text although log probabilities were wanted, by reason.
        estimated: judgments with estimated tokens.
        priced, unpriced: answers with a known cost, and without.
        dropped: requests that were not waited for.
        cached_tokens and the like: see :class:`~robin_cli.run.fold.Spending`.
    """

    under_way: Callable[[], int] = int
    limiters: Sequence[Limiter] = ()
    started_at: float = field(default_factory=time.monotonic)
    calls: int = 0
    ratings: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    unpriced: int = 0
    estimated: int = 0
    by_text: Counter[str] = field(default_factory=Counter)
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    prompt_tokens_told: int = 0
    dropped: int = 0
    last_failure: str = ""

    @property
    def in_flight(self) -> int:
        """The number of requests under way; a call that waits for a retry is not."""
        return self.under_way()

    @property
    def refused(self) -> int:
        """The number of requests that endpoints refused because there were too many."""
        return sum(limiter.refusals for limiter in self.limiters)

    @property
    def waited_s(self) -> float:
        """The seconds without a request under way after a refusal, at the endpoint with most of them."""
        return max((limiter.waited_s for limiter in self.limiters), default=0.0)

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Count judgments that are on disk."""
        for judgment in judgments:
            self.ratings += judgment.rating is not None
            if judgment.text_because is not None:
                self.by_text[judgment.text_because] += 1
            if judgment.reason is not None:
                (self.unparsed if judgment.counts else self.failed)[judgment.reason] += 1
            self.prompt_tokens += judgment.prompt_tokens or 0
            self.completion_tokens += judgment.completion_tokens or 0
            self.cost_usd += judgment.cost_usd or 0.0
            self.reasoning_tokens += min(
                judgment.reasoning_tokens or 0, judgment.completion_tokens or 0
            )
            if judgment.cached_tokens is not None:
                self.cached_tokens += min(judgment.cached_tokens, judgment.prompt_tokens or 0)
                self.prompt_tokens_told += judgment.prompt_tokens or 0
            if judgment.counts:
                self.priced += judgment.cost_usd is not None
                self.unpriced += judgment.cost_usd is None
            self.estimated += judgment.usage_estimated
