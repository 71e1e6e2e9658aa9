"""How preferences vary before a run is made: what a plan of comparisons draws its judges from.

A preference, the mean of its verdicts in both orders, is what the judge would say of the two responses if asked without end,
which varies over prompts with the variance ``between``, and the chance of its verdicts, ``within`` with one of each judge in
each order. Comparisons of one response with others of its prompt hang together: of what varies over prompts half is its own.

A response is better or worse than its system by a normal variable, of a standard deviation (in log odds) that gives
``between``. Systems differ by another one: a prior, or the pilot's strengths with their errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.clustered import student_factor
from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.pairwise import order_means
from robin_cli.goals.preferring import Preferring
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, chance, fit, information, win_chances, wins_of
from robin_cli.model.matches import Matches
from robin_cli.model.records import ORDERS
from robin_cli.simulation.experiment import World
from robin_cli.simulation.runs import Ratings
from robin_cli.storage.reader import RunData

FEWEST = 10
"""Comparisons with a preference that tell how preferences vary."""

RESPONSES_DIFFER, SYSTEMS_DIFFER = 0.8, 1.0
"""Taken for granted: standard deviations, in log odds, of a response about its system, and of systems."""

_PRIOR_SYSTEMS = 4.0
_MOST_ARMS, _MOST_SYSTEMS = 6_000, 150
_QUANTILES = 100
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True, slots=True)
class Scatter:
    """How preferences vary: variances, see above; of how many ``comparisons`` they were told, 0 for none."""

    between: float
    within: float
    comparisons: int = 0


def usual_scatter(judges: int) -> Scatter:
    """That of equal systems, whose responses differ as those of ``configs/demo`` do; without ties, without an order effect."""
    p = chance(math.sqrt(2.0) * RESPONSES_DIFFER * _NODES)
    within = float((_WEIGHTS / _WEIGHTS.sum()) @ (p * (1.0 - p)))
    return Scatter(_between(RESPONSES_DIFFER), within / (len(ORDERS) * judges))


def _between(differ: float) -> float:
    """The variance of preferences over prompts, where responses of equal systems differ so much."""
    return float((_WEIGHTS / _WEIGHTS.sum()) @ (chance(math.sqrt(2.0) * differ * _NODES) - 0.5) ** 2)


def scatter_of(run: RunData) -> Scatter | None:
    """That of a pairwise run; None where FEWEST comparisons have no preference.

    What is by chance is told by how the orders differ beyond the order's effect.
    """
    matches = run.matches
    means = order_means(run).mean(axis=2)
    known = ~np.isnan(means).any(axis=1)
    if known.sum() < FEWEST:
        return None
    preference, apart = means[known].mean(axis=1), 0.5 * (means[known, 0] - means[known, 1])
    chance_of = float(np.var(apart, ddof=1))
    # About the mean of each two systems, where they are named.
    couple = matches.opponents[1] if len(matches.names) > 1 else np.zeros(len(matches), dtype=np.int64)
    total = _variance_within(preference, couple[known])
    verdicts = run.space.by_pair(run.fold.arms.counts)[known]
    within = chance_of / float(np.mean(1.0 / verdicts))
    return Scatter(max(0.0, total - chance_of), within, int(known.sum()))


def _variance_within(values: FloatArray, group: IntArray) -> float:
    """About the mean of each group; about a half where each has one value."""
    _, place = np.unique(group, return_inverse=True)
    n = np.bincount(place)
    squares = float((values**2).sum() - (np.bincount(place, values) ** 2 / n).sum())
    freedom = len(values) - len(n)
    return squares / freedom if freedom else float(np.mean((values - 0.5) ** 2))


def win_rate_half_width(scatter: Scatter, matches: Matches, asked: float, calls: float) -> float:
    """Half of the 95 % interval of the win rate of that system which is in the fewest comparisons; nan on one prompt.

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
    return min(0.5, student_factor(over, ALPHA) * error)


def preference_half_width(scatter: Scatter, calls: float) -> float:
    """Half of the likely interval of a single preference after so many calls of each arm."""
    return min(0.5, student_factor(10**6, ALPHA) * math.sqrt(scatter.within / calls))


@dataclass(frozen=True)
class VerdictsBelief:
    """What is known of a judge that compares: how preferences vary, and perhaps a pilot's verdicts.

    ``pilot``: the preferences that it has, nan for none, shape (comparisons,); None without a pilot.
    """

    goal: Preferring
    scatter: Scatter
    pilot: FloatArray | None = None

    @property
    def is_small(self) -> bool:
        """Whether there are so few comparisons that all are simulated: of some of them the order of systems says too little."""
        return len(self.goal.space) <= _MOST_ARMS and len(self.goal.matches.names) <= _MOST_SYSTEMS

    def worlds(self, arms: int, runs: int, rng: np.random.Generator) -> tuple[World, FloatArray]:  # noqa: ARG002
        """Draw how good systems and their responses are, for each run; all comparisons are simulated."""
        matches, space = self.goal.matches, self.goal.space
        grid = np.linspace(0.0, 6.0, 121)
        differ = float(np.interp(self.scatter.between, [_between(each) for each in grid], grid))
        quality = rng.normal(0.0, differ, (runs, int(matches.response.max()) + 1))[:, matches.response]
        if len(matches.names) > 1:
            quality += self._strengths(runs, rng)[:, matches.system]
        p = chance(quality[:, :, 0] - quality[:, :, 1])
        scale = space.scales[0]
        places = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
        of_arms = np.repeat(p, space.arms_per_pair, axis=1).reshape(-1, 1)
        values = np.where(places < of_arms, float(scale.high), float(scale.low))
        ratings = Ratings(values, np.full(len(values), _QUANTILES))
        return World(ratings, self.goal, runs), ratings.variances

    def _strengths(self, runs: int, rng: np.random.Generator) -> FloatArray:
        """Return systems' strengths in log odds, shape (runs, systems): N(0, τ²), given the pilot's verdicts.

        By a normal approximation to the posterior. A preference scatters φ = (between + within) / ¼ times as much as a vote of
        even chances. τ² is SYSTEMS_DIFFER², which counts as _PRIOR_SYSTEMS, and what the strengths vary beyond their errors.
        """
        matches, count = self.goal.matches, len(self.goal.matches.names)
        if self.pilot is None:
            return rng.normal(0.0, SYSTEMS_DIFFER, (runs, count))
        there = ~np.isnan(self.pilot)
        wins = wins_of(self.pilot[there], matches.system[there], count) + 0.5 * PRIOR
        np.fill_diagonal(wins, 0.0)
        found = fit(wins).values
        dispersion = np.clip((self.scatter.between + self.scatter.within) / 0.25, 0.2, 1.0)
        told = information(wins + wins.T, win_chances(found)) / dispersion
        errors = np.diag(np.linalg.pinv(told))
        seen = max(0.0, float(found.var(ddof=1) - errors.mean()))
        tau_squared = ((count - 1) * seen + _PRIOR_SYSTEMS * SYSTEMS_DIFFER**2) / (count - 1 + _PRIOR_SYSTEMS)
        covariance = np.linalg.inv(told + np.eye(count) / tau_squared)
        return rng.multivariate_normal(covariance @ told @ found, covariance, runs)
