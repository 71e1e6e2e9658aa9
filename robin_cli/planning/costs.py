"""What calls cost, where a budget is of money: by the length of what is asked, and by what each judge took so far."""

from __future__ import annotations

from enum import Enum

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import Coordinates

FREE = 1e-3
"""Of the mean cost: what a call counts as at least. A judge that costs nothing would else be asked for ever."""


class Per(Enum):
    """What the gain of a call is divided by, which follows from what is to be small.

    ``ARM``: its cost. The mean of the squared errors is Σ σ²/n, and a call lowers it by σ²/(n (n + 1)): most per dollar where
    that over the cost is largest, which gives n ∝ σ/√cost.

    ``ROOT_OF_JUDGE``: √ of the mean cost of its judge. The largest error wants σ²/n alike in all pairs, whatever a call of one
    costs, for no call of another pair helps the worst one. But of the judges of a pair the cheap one helps it sooner.

    ``JUDGE``: the mean cost of its judge. The same of decisions, which want one certainty of all pairs; their priorities fall
    with n (n + 1) among the judges of a pair.

    ``PAIR``: the mean cost of the arms of its pair. A comparison says something once each judge was asked in each order, and
    its arms are asked equally often, whatever each costs.
    """

    ARM = "arm"
    ROOT_OF_JUDGE = "root of judge"
    JUDGE = "judge"
    PAIR = "pair"


class Costs:
    """Dollars of the next call of each arm, learned from what the calls of its judge took.

    The prompt costs by its length, at the judge's tokens a character, and the answer what the judge's answers took on average,
    both for each rating that came of it: a judge whose answers often hold none is the dearer.

    Args:
        characters: of each arm's prompt, shape (K,).
        judge: which judge each arm is asked of, shape (K,).
        prices: dollars for a token in and one out of each judge, shape (judges, 2).
        tokens: a character of a prompt, and of an answer, as long as nothing is known; they count as one call.
        per: what :attr:`divisors` are.
        arms_per_pair: which follow one another.
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
        self._mean_length = np.bincount(judge, characters, judges) / np.maximum(np.bincount(judge, minlength=judges), 1)
        self.prompt_tokens = np.zeros(judges)
        self.completion_tokens = np.zeros(judges)
        self.dollars = np.zeros(judges)
        """What each judge took so far, on disk; :meth:`learn` goes by it."""
        self.each: FloatArray
        """Dollars of a call of each arm, shape (K,)."""
        self.divisors: FloatArray
        """What the priority of each arm is divided by, shape (K,)."""
        self.learn(np.zeros(len(characters)))

    def add(self, judge: int, prompt_tokens: float, completion_tokens: float, dollars: float) -> None:
        """Count what answers of ``judge`` took that are on disk now."""
        self.prompt_tokens[judge] += prompt_tokens
        self.completion_tokens[judge] += completion_tokens
        self.dollars[judge] += dollars

    def learn(self, rated: FloatArray | IntArray) -> None:
        """Reckon the costs anew, by what was counted and the ratings of each arm, shape (K,)."""
        judge, judges = self._judge, len(self._prices)
        ratings = np.bincount(judge, rated, judges)
        length = np.bincount(judge, rated * self._characters, judges)
        a_character, an_answer = self._first
        prompt = (self.prompt_tokens + a_character * self._mean_length) / (length + self._mean_length)
        answer = (self.completion_tokens + an_answer) / (ratings + 1.0)
        by_price = self.prompt_tokens * self._prices[:, 0] + self.completion_tokens * self._prices[:, 1]
        # The endpoint may have read some tokens from its cache, or tell money of its own.
        charged = np.divide(self.dollars, by_price, out=np.ones(judges), where=by_price > 0)
        beside = np.where(by_price > 0, 0.0, self.dollars / np.maximum(ratings, 1.0))
        of_character = charged * prompt * self._prices[:, 0]
        of_answer = charged * answer * self._prices[:, 1] + beside
        self.each = self._characters * of_character[judge] + of_answer[judge]
        self.divisors = self._divisors()

    def of_a_call(self, *, evenly: bool) -> float:
        """Dollars of a call on average, where calls go as the divisors have it over arms that vary alike.

        Args:
            evenly: all arms are asked as often, whatever they cost.
        """
        share = np.ones_like(self.each)
        if not evenly:
            share = 1.0 / (self.divisors if self._per is Per.ROOT_OF_JUDGE else np.sqrt(self.divisors))
        return float((share * self.each).sum() / share.sum())

    def _divisors(self) -> FloatArray:
        cost = self.each
        if self._per is Per.PAIR:
            cost = np.repeat(cost.reshape(-1, self._arms_per_pair).mean(axis=1), self._arms_per_pair)
        elif self._per is not Per.ARM:
            calls = np.maximum(np.bincount(self._judge, minlength=len(self._prices)), 1)
            cost = (np.bincount(self._judge, cost, len(self._prices)) / calls)[self._judge]
        mean = cost.mean()
        relative = np.maximum(cost / mean if mean > 0 else np.ones_like(cost), FREE)
        return np.asarray(np.sqrt(relative) if self._per is Per.ROOT_OF_JUDGE else relative)
