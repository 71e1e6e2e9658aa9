"""The scatter of preferences before a run is made, from which a plan of comparisons draws its judges.

A preference is the mean of its verdicts in both orders. It is the judge's true preference, which varies over prompts with the
variance ``between``, plus the chance of its verdicts, of variance ``within`` with one verdict of each judge in each order.
Comparisons of one response with others of its prompt are correlated: half of the variance over prompts is the response's own.

A response differs from its system by a normal variable whose standard deviation (in log odds) gives ``between``. Systems differ
by another one: a prior, or the pilot's strengths with their errors.
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
"""Comparisons with a preference that a scatter needs."""

RESPONSES_DIFFER, SYSTEMS_DIFFER = 0.8, 1.0
"""Assumed standard deviations, in log odds, of a response about its system, and of systems."""

_PRIOR_SYSTEMS = 4.0
_MOST_ARMS, _MOST_SYSTEMS = 6_000, 150
_QUANTILES = 100
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variances of preferences, see above, and the number of ``comparisons`` that they come from, 0 for none."""

    between: float
    within: float
    comparisons: int = 0


def usual_scatter(judges: int) -> Scatter:
    """Return the scatter of equal systems whose responses differ as in ``configs/demo``; without ties or an order effect."""
    p = chance(math.sqrt(2.0) * RESPONSES_DIFFER * _NODES)
    within = float((_WEIGHTS / _WEIGHTS.sum()) @ (p * (1.0 - p)))
    return Scatter(_between(RESPONSES_DIFFER), within / (len(ORDERS) * judges))


def _between(differ: float) -> float:
    """Return the variance of preferences over prompts if responses of equal systems differ by ``differ`` log odds."""
    return float(
        (_WEIGHTS / _WEIGHTS.sum()) @ (chance(math.sqrt(2.0) * differ * _NODES) - 0.5) ** 2
    )


def scatter_of(run: RunData) -> Scatter | None:
    """Return the scatter of a pairwise run; None if fewer than FEWEST comparisons have a preference.

    The chance of verdicts is estimated from the difference of the orders beyond the order effect.
    """
    matches = run.matches
    means = order_means(run).mean(axis=2)
    known = ~np.isnan(means).any(axis=1)
    if known.sum() < FEWEST:
        return None
    preference, apart = means[known].mean(axis=1), 0.5 * (means[known, 0] - means[known, 1])
    chance_of = float(np.var(apart, ddof=1))
    # About the mean of each two systems, if they are named.
    couple = (
        matches.opponents[1] if len(matches.names) > 1 else np.zeros(len(matches), dtype=np.int64)
    )
    total = _variance_within(preference, couple[known])
    verdicts = run.space.by_pair(run.fold.arms.counts)[known]
    within = chance_of / float(np.mean(1.0 / verdicts))
    return Scatter(max(0.0, total - chance_of), within, int(known.sum()))


def _variance_within(values: FloatArray, group: IntArray) -> float:
    """Return the variance about the mean of each group; about a half if each has one value."""
    _, place = np.unique(group, return_inverse=True)
    n = np.bincount(place)
    squares = float((values**2).sum() - (np.bincount(place, values) ** 2 / n).sum())
    freedom = len(values) - len(n)
    return squares / freedom if freedom else float(np.mean((values - 0.5) ** 2))


def win_rate_half_width(scatter: Scatter, matches: Matches, asked: float, calls: float) -> float:
    """Return half of the 95 % interval of the win rate of the system with the fewest comparisons; nan on one prompt.

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
    """Return half of the likely interval of a single preference after ``calls`` of each arm."""
    return min(0.5, student_factor(10**6, ALPHA) * math.sqrt(scatter.within / calls))


@dataclass(frozen=True)
class VerdictsBelief:
    """A belief about a judge that compares: the scatter of preferences, and perhaps a pilot's verdicts.

    ``pilot``: its preferences, nan for none, shape (comparisons,); None without a pilot.
    """

    goal: Preferring
    scatter: Scatter
    pilot: FloatArray | None = None

    @property
    def is_small(self) -> bool:
        """Whether all comparisons can be simulated; some of them alone say too little about the order of systems."""
        return len(self.goal.space) <= _MOST_ARMS and len(self.goal.matches.names) <= _MOST_SYSTEMS

    def worlds(self, arms: int, runs: int, rng: np.random.Generator) -> tuple[World, FloatArray]:  # noqa: ARG002
        """Draw the qualities of systems and their responses for each run; all comparisons are simulated."""
        matches, space = self.goal.matches, self.goal.space
        grid = np.linspace(0.0, 6.0, 121)
        differ = float(np.interp(self.scatter.between, [_between(each) for each in grid], grid))
        quality = rng.normal(0.0, differ, (runs, int(matches.response.max()) + 1))[
            :, matches.response
        ]
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
        """Draw systems' strengths in log odds, shape (runs, systems): N(0, τ²), given the pilot's verdicts.

        It is a normal approximation to the posterior. A preference scatters φ = (between + within) / ¼ times as much as a vote
        of even chances. τ² is SYSTEMS_DIFFER², which counts as _PRIOR_SYSTEMS, and the variance of the strengths beyond their
        errors.
        """
        matches, count = self.goal.matches, len(self.goal.matches.names)
        if self.pilot is None:
            return rng.normal(0.0, SYSTEMS_DIFFER, (runs, count))
        there = ~np.isnan(self.pilot)
        wins = wins_of(self.pilot[there], matches.system[there], count) + 0.5 * PRIOR
        np.fill_diagonal(wins, 0.0)
        found = fit(wins).values
        dispersion = np.clip((self.scatter.between + self.scatter.within) / 0.25, 0.2, 1.0)
        known = information(wins + wins.T, win_chances(found)) / dispersion
        errors = np.diag(np.linalg.pinv(known))
        seen = max(0.0, float(found.var(ddof=1) - errors.mean()))
        tau_squared = ((count - 1) * seen + _PRIOR_SYSTEMS * SYSTEMS_DIFFER**2) / (
            count - 1 + _PRIOR_SYSTEMS
        )
        covariance = np.linalg.inv(known + np.eye(count) / tau_squared)
        return rng.multivariate_normal(covariance @ known @ found, covariance, runs)
