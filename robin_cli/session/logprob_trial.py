"""Finds out, by the first answers of a run that rates by text, whether rating by log probabilities would do."""

from __future__ import annotations

from collections.abc import Callable

from robin_cli.ask.expectation import expectation_of
from robin_cli.ask.kinds import Kind
from robin_cli.judges.openai_http import TRIED
from robin_cli.model.exchange import Failure, Reply
from robin_cli.model.space import ArmSpace
from robin_cli.stats.repeats import FEWEST

_ENOUGH, _MOST_WITHOUT = TRIED - 4, 1
"""Answers with log probabilities that decide, as some of those asked for may fail; and those of them without a rating."""


class LogprobTrial:
    """Looks at the first answers of each judge, and recommends --answers logprobs where it would do.

    Args:
        budget: calls of the run.
        notify: gets a line on each such judge.
    """

    def __init__(
        self, space: ArmSpace, kind: Kind, budget: int, notify: Callable[[str], None]
    ) -> None:
        self._space, self._kind, self._budget, self._notify = space, kind, budget, notify
        self._outcomes: dict[int, list[bool]] = {}

    def look(self, arm: int, outcome: Reply | Failure) -> None:
        """Look at the answers to a call of ``arm``."""
        judge = self._space.judge.item(arm)
        outcomes = self._outcomes.setdefault(judge, [])
        if isinstance(outcome, Failure) or len(outcomes) >= _ENOUGH:
            return
        scale = self._space.scale_of(arm)
        for answer in outcome.answers:
            if not answer.tokens:  # the request did not ask for them, or the endpoint sends none
                continue
            at = self._kind.place(answer.text)
            known = expectation_of(self._kind, answer.tokens, answer.text, at, scale)
            outcomes.append(known.value is not None)
            if len(outcomes) == _ENOUGH and outcomes.count(False) <= _MOST_WITHOUT:
                self._recommend(judge)

    def _recommend(self, judge: int) -> None:
        space = self._space
        who = f"{space.judges[judge]} returns" if len(space.judges) > 1 else "the endpoint returns"
        saved = ""
        calls = len(space) + FEWEST * len(space) // len(space.pair_ids)
        if self._budget > calls:
            saved = f": about {calls:,} calls here, not {self._budget:,}"
        self._notify(
            f"{who} log probabilities. In a new run, --answers logprobs rates by one call about as well as by five sampled "
            f"ones{saved}"
        )
