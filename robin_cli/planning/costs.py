"""Costs of calls, for a budget in money: by the length of the question, and by the judge's tokens so far."""

from __future__ import annotations

from enum import Enum

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import Coordinates

FREE = 1e-3
"""Least cost of a call, over the mean: a judge that costs nothing would otherwise be asked for ever."""


class Per(Enum):
    """The cost by which the gain of a call is divided, which follows from the error to be reduced.

    ``ARM``: its own. The mean of the squared errors is Σ σ²/n, and a call lowers it by σ²/(n (n + 1)). The gain per dollar is
    largest where that over the cost is, which gives n ∝ σ/√cost.

    ``ROOT_OF_JUDGE``: the root of its judge's mean cost. The largest error needs equal σ²/n in all pairs, whatever their calls
    cost, as no call of another pair helps the worst one. But of the judges of a pair the cheap one helps it sooner.

    ``JUDGE``: its judge's mean cost. It is the same for decisions, which need equal certainty of all pairs; among the judges of
    a pair their priorities fall with n (n + 1).

    ``PAIR``: the mean cost of its pair's arms. A comparison has a preference only after each judge was asked in each order, and
    its arms are asked equally often, whatever each costs.
    """

    ARM = "arm"
    ROOT_OF_JUDGE = "root of judge"
    JUDGE = "judge"
    PAIR = "pair"


class Costs:
    """US dollars of the next call of each arm, learned from the calls of its judge.

    The question costs by its length, at the judge's tokens per character, and the answer the judge's average; both per rating,
    so a judge whose answers often hold none costs more.

    Args:
        characters: of each arm's prompt, shape (K,).
        judge: number of each arm's judge, shape (K,).
        prices: dollars per token in and per token out of each judge, shape (judges, 2).
        tokens: initial values, per character of a prompt and per answer; they count as one call.
        per: the kind of :attr:`divisors`.
        arms_per_pair: consecutive arms.
    """

    def __init__(
        self,
        characters: FloatArray,
        judge: Coordinates,
        prices: FloatArray,
        *,
        tokens: tuple[float, float],
        per: Per,
        arms_per_pair: int = 1,
    ) -> None:
        self._characters = characters
        self._judge = judge
        self._prices = prices
        self._first = tokens
        self._per = per
        self._arms_per_pair = arms_per_pair
        judges = len(prices)
        self._mean_length = np.bincount(judge, characters, judges) / np.maximum(
            np.bincount(judge, minlength=judges), 1
        )
        self.prompt_tokens = np.zeros(judges)
        self.completion_tokens = np.zeros(judges)
        self.dollars = np.zeros(judges)
        """Tokens and dollars of each judge so far, on disk; :meth:`learn` uses them."""
        self.each: FloatArray
        """US dollars of a call of each arm, shape (K,)."""
        self.divisors: FloatArray
        """Divisor of each arm's priority, shape (K,)."""
        self.learn(np.zeros(len(characters)))

    def add(
        self, judge: int, prompt_tokens: float, completion_tokens: float, dollars: float
    ) -> None:
        """Count tokens and dollars of answers of ``judge`` that are on disk now."""
        self.prompt_tokens[judge] += prompt_tokens
        self.completion_tokens[judge] += completion_tokens
        self.dollars[judge] += dollars

    def learn(self, rated: FloatArray | IntArray) -> None:
        """Compute the costs anew, by the counts and the number of ratings of each arm, shape (K,)."""
        judge, judges = self._judge, len(self._prices)
        ratings = np.bincount(judge, rated, judges)
        length = np.bincount(judge, rated * self._characters, judges)
        a_character, an_answer = self._first
        prompt = (self.prompt_tokens + a_character * self._mean_length) / (
            length + self._mean_length
        )
        answer = (self.completion_tokens + an_answer) / (ratings + 1.0)
        by_price = (
            self.prompt_tokens * self._prices[:, 0] + self.completion_tokens * self._prices[:, 1]
        )
        # The endpoint may have cached some tokens, or report a cost of its own.
        charged = np.divide(self.dollars, by_price, out=np.ones(judges), where=by_price > 0)
        beside = np.where(by_price > 0, 0.0, self.dollars / np.maximum(ratings, 1.0))
        of_character = charged * prompt * self._prices[:, 0]
        of_answer = charged * answer * self._prices[:, 1] + beside
        self.each = self._characters * of_character[judge] + of_answer[judge]
        self.divisors = self._divisors()

    def of_a_call(self, *, evenly: bool) -> float:
        """Return the mean dollars of a call, if calls are allocated by the divisors over arms of equal variance.

        Args:
            evenly: all arms are asked equally often, whatever they cost.
        """
        share = np.ones_like(self.each)
        if not evenly:
            share = 1.0 / (
                self.divisors if self._per is Per.ROOT_OF_JUDGE else np.sqrt(self.divisors)
            )
        return float((share * self.each).sum() / share.sum())

    def _divisors(self) -> FloatArray:
        cost = self.each
        if self._per is Per.PAIR:
            cost = np.repeat(
                cost.reshape(-1, self._arms_per_pair).mean(axis=1), self._arms_per_pair
            )
        elif self._per is not Per.ARM:
            calls = np.maximum(np.bincount(self._judge, minlength=len(self._prices)), 1)
            cost = (np.bincount(self._judge, cost, len(self._prices)) / calls)[self._judge]
        mean = cost.mean()
        relative = np.maximum(cost / mean if mean > 0 else np.ones_like(cost), FREE)
        return np.asarray(np.sqrt(relative) if self._per is Per.ROOT_OF_JUDGE else relative)
