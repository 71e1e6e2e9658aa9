"""Numbers in words: money, errors, times, tokens."""

from __future__ import annotations

import math

from robin_cli.model.records import number_of
from robin_cli.policies.matches import ComparedPairs
from robin_cli.run.fold import Spending

MOST_LINES = 3
"""The most lines of an answer."""
WORST_ERROR = "expected error of the worst score"
"""The figure ``worst_error`` in sentences."""
WORST = "worst score"
"""Its label where the value says that it is an expected error."""


def compared_text(compared: ComparedPairs) -> str:
    """Return the number of comparisons asked, in words."""
    partly = f", {compared.partly:,} in part" if compared.partly else ""
    return f"{compared.whole:,} of {number_of(compared.comparisons, 'comparison')} asked in both orders{partly}"


def dollars(amount: float) -> str:
    """Return money in words: $12.34, and $0.00123 for parts of a cent."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3g}"


def error_text(error: float, *, as_share: bool) -> str:
    """Return an error of a score in words: in points, or ``as_share`` of the scale if there are several scales."""
    return f"{100 * error:.1f} % of the scale" if as_share else f"{error:.2f}"


AT_TARGET = "the true worst error was then 0.6 to 1.8 times the target in 9 of 10 simulated runs"
"""The effect of stopping at an estimated error: docs/evidence/budget.md, "Stopping at an error"."""


def significant(value: float, digits: int) -> str:
    """Return ``value`` with ``digits`` significant digits, without an exponent if it is large: 10, 1,200, 0.003."""
    return f"{value:.{digits}g}" if abs(value) < 1 else f"{float(f'{value:.{digits}g}'):,.12g}"


def target_text(error: float, *, as_share: bool) -> str:
    """Return a target error in words, or an error to compare with one: with three digits, which tell the two apart."""
    return f"{significant(100 * error, 3)} % of the scale" if as_share else significant(error, 3)


def duration(seconds: float) -> str:
    """Return ``seconds`` in words: 42 s, 3 min, 2 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def refused_text(refused: int, waited_s: float) -> str:
    """Return refused requests, and the time without a request under way after refusals, in words; "" for none."""
    waited = f", {duration(waited_s)} waited" if waited_s >= 1 else ""
    return f"{number_of(refused, 'request')} (too many){waited}" if refused else ""


def tokens_text(spent: Spending) -> str:
    """Return tokens in words."""
    share, thought = spent.cached_share, spent.reasoning_tokens
    cached = "" if share is None else f" ({100 * share:.0f} % of them cached)"
    reasoning = f" ({thought:,} of them reasoning)" if thought else ""
    return f"{spent.prompt_tokens:,} tokens in{cached}, {spent.completion_tokens:,} out{reasoning}"


def money_text(spent: Spending, unknown: str = "unknown") -> str:
    """Return the cost in words: "at least" what is known if the cost of an answer is not."""
    if spent.cost_usd is None:
        return unknown
    return dollars(spent.cost_usd) if spent.complete else f"at least {dollars(spent.cost_usd)}"


def budget_text(
    calls: int, budget: int, budget_usd: float | None, spent: Spending
) -> tuple[str, str]:
    """Return how much of the budget of a run, of calls or of money, and that it is spent."""
    if budget_usd is None:
        return f"{calls:,} of {number_of(budget, 'call')}", "spent"
    money = money_text(spent, unknown=dollars(0))
    return f"{money} of {dollars(budget_usd)}", f"spent in {number_of(calls, 'call')}"


def about(number: float) -> int:
    """Return ``number`` rounded up to two significant digits, at least 1."""
    whole = max(1, math.ceil(number))
    unit = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // unit) * unit


def share_text(share: float) -> str:
    """Return a share in words: 12 %, 0.6 %, or "none" for 0."""
    percent = 100.0 * share
    return "none" if not share else f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def finite(value: float) -> float | None:
    """Return ``value``; None, as in JSON, for nan and for no bound."""
    return value if math.isfinite(value) else None


class Bars:
    """The course of a figure as a row of bars; the older ones stand for the more time, the longer it goes on."""

    _SIGNS, _MOST = "▁▂▃▄▅▆▇█", 16

    def __init__(self) -> None:
        self._values: list[float] = []
        self._every, self._left = 1, 0

    def with_next(self, value: float, most: float | None = None) -> str:
        """Take the next value, at least 0; return a blank and the bars, or "" before there are two.

        Args:
            most: the value of a full bar; None for the largest so far.
        """
        if self._left == 0:
            self._values.append(value)
            self._left = self._every
        self._left -= 1
        if len(self._values) == self._MOST:
            self._values, self._every = self._values[::2], 2 * self._every
        if len(self._values) < 2:
            return ""
        whole = most or max(self._values) or 1.0
        return " " + "".join(self._SIGNS[min(7, int(8 * each / whole))] for each in self._values)
