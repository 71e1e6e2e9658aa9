"""What comparisons that are yet to be asked will tell: how far off a system's win rate, and a single preference, may be then.

A preference, the mean of its verdicts in both orders, is what the judge would say of the two responses if asked without end,
which varies over prompts with the variance ``between``, and the chance of its verdicts, ``within`` with one of each judge in
each order. Comparisons of one response with others of its prompt hang together: of what varies over prompts half is its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.paired import student_factor
from robin_cli.analysis.pairwise import matches_of_run, order_means
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import chance
from robin_cli.model.matches import Matches
from robin_cli.model.records import ORDERS
from robin_cli.storage.reader import RunData

FEWEST = 10
"""Comparisons with a preference that tell how preferences vary."""

_DIFFERS = 0.8
"""Of systems that are equal: by how much, in log odds, a response is better or worse than its system (a standard deviation)."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True, slots=True)
class Scatter:
    """How preferences vary: variances, see above; of how many ``comparisons`` they were told, 0 for none."""

    between: float
    within: float
    comparisons: int = 0


def usual_scatter(judges: int) -> Scatter:
    """That of equal systems, whose responses differ as those of ``configs/demo`` do; without ties, without an order effect."""
    p = chance(math.sqrt(2.0) * _DIFFERS * _NODES)
    weight = _WEIGHTS / _WEIGHTS.sum()
    within = float(weight @ (p * (1.0 - p)))
    return Scatter(float(weight @ (p - 0.5) ** 2), within / (len(ORDERS) * judges))


def scatter_of(run: RunData) -> Scatter | None:
    """That of a pairwise run; None where FEWEST comparisons have no preference.

    What is by chance is told by how the orders differ beyond the order's effect.
    """
    matches = matches_of_run(run)
    means = order_means(run).mean(axis=2)
    known = ~np.isnan(means).any(axis=1)
    if known.sum() < FEWEST:
        return None
    preference, apart = means[known].mean(axis=1), 0.5 * (means[known, 0] - means[known, 1])
    chance_of = float(np.var(apart, ddof=1))
    couple = _couples(matches)[known]
    total = _variance_within(preference, couple)
    verdicts = run.space.by_pair(run.fold.arms.counts)[known]
    within = chance_of / float(np.mean(1.0 / verdicts))
    return Scatter(max(0.0, total - chance_of), within, int(known.sum()))


def _couples(matches: Matches) -> IntArray:
    """Which two systems each comparison is of; all the same where none are named."""
    return matches.opponents[1] if len(matches.names) > 1 else np.zeros(len(matches), dtype=np.int64)


def _variance_within(values: FloatArray, group: IntArray) -> float:
    """About the mean of each group; about a half where each has one value."""
    _, place = np.unique(group, return_inverse=True)
    n = np.bincount(place)
    squares = float((values**2).sum() - (np.bincount(place, values) ** 2 / n).sum())
    freedom = len(values) - len(n)
    return squares / freedom if freedom else float(np.mean((values - 0.5) ** 2))


def win_rate_half_width(
    scatter: Scatter, matches: Matches, asked: float, calls: float, *, alpha: float = ALPHA
) -> float:
    """Half of the 1 − α interval of the win rate of that system which is in the fewest comparisons; nan on one prompt.

    Args:
        asked: comparisons that are asked, drawn at random.
        calls: of each arm of those.
    """
    place = matches.system.ravel()
    each = np.bincount(place, minlength=len(matches.names))
    fewest = int(each.argmin())
    prompts = len(np.unique(np.repeat(matches.prompt, 2)[place == fewest]))
    share = min(1.0, asked / len(matches))
    n = float(each[fewest]) * share
    together = (each[fewest] / prompts - 1.0) * share * 0.5 * scatter.between
    over = int(min(prompts, n))
    if over < 2:
        return math.nan
    error = math.sqrt((scatter.between + scatter.within / calls + together) / n)
    return min(0.5, student_factor(over, alpha) * error)


def preference_half_width(scatter: Scatter, calls: float, *, alpha: float = ALPHA) -> float:
    """Half of the likely interval of a single preference after so many calls of each arm."""
    return min(0.5, student_factor(10**6, alpha) * math.sqrt(scatter.within / calls))
