"""The counters of a session, which displays read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from robin_cli.judges.limiter import Limiter
from robin_cli.model.records import Judgment
from robin_cli.run.fold import Spending


@dataclass(slots=True)
class Stats:
    """The counters of this session, which progress displays read.

    Attributes:
        calls: calls begun; ``in_flight``: requests under way.
        limiters: of the endpoints. They count ``refused`` requests, and the seconds ``waited_s`` without any under way.
        by_text: ratings read from the text although log probabilities were wanted, by reason.
        estimated: judgments with estimated tokens.
        dropped: requests that were not waited for.
    """

    under_way: Callable[[], int] = int
    limiters: Sequence[Limiter] = ()
    started_at: float = field(default_factory=time.monotonic)
    calls: int = 0
    ratings: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    spent: Spending = field(default_factory=Spending)
    estimated: int = 0
    by_text: Counter[str] = field(default_factory=Counter)
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
            self.estimated += judgment.usage_estimated
            self.spent += _spent_on(judgment)


def _spent_on(judgment: Judgment) -> Spending:
    prompt, completion = judgment.prompt_tokens or 0, judgment.completion_tokens or 0
    return Spending(
        prompt,
        completion,
        judgment.cost_usd,
        complete=judgment.cost_usd is not None or not judgment.counts,
        cached_tokens=min(judgment.cached_tokens or 0, prompt),
        prompt_tokens_told=0 if judgment.cached_tokens is None else prompt,
        reasoning_tokens=min(judgment.reasoning_tokens or 0, completion),
        prompts=prompt > 0 and judgment.counts,
    )
