"""Rating distributions of pairs with few ratings or none, from which a forecast draws its pairs.

Few ratings of a pair say little about how they vary: three equal ones may come from a pair that never varies, or from one that
does. So pairs learn from each other. A pair's ratings are taken to be a normal variable rounded to the scale, with a mean and a
spread of its own. The frequencies of means and spreads are a mixture over a grid, fitted to all pairs at once by maximum
likelihood. Given its own ratings and the mixture, a pair's mean and spread have a posterior, and a forecast draws from it. (The
nonparametric maximum-likelihood mixture of Kiefer and Wolfowitz, Annals of Mathematical Statistics 27 (1956), as empirical
Bayes: Koenker and Mizera, "Convex optimization, shape constraints, compound decisions, and empirical Bayes rules", JASA 109
(2014); here with EM on a grid.) The scheduler's choice of arms does not change the likelihood.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import ndtr

from robin_cli.files.local import shipped
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale

# Means and spreads as shares of the scale's width. With a mean beyond the ends, or a spread as wide as the scale, ratings stay
# at one end or jump between both.
_MEANS = np.linspace(-0.1, 1.1, 25)
_SPREADS = np.geomspace(0.02, 4.0, 20)
_ITERATIONS = 200
_LEAST = 1e-12
_CHUNK = 4096
_AROUND = 10


def fit_mixture(counts: IntArray) -> FloatArray:
    """Return the frequency of each mean and spread of the grid among K pairs.

    Args:
        counts: number of times that each pair got each rating, shape (K, L), L ≥ 2; pairs without ratings add nothing.

    Returns:
        Weights of the grid's points, which add up to 1, shape (500,). Without a single rating they are equal.
    """
    distinct, times = np.unique(counts[counts.any(axis=1)], axis=0, return_counts=True)
    likelihood = _likelihood(distinct)
    weights = np.full(likelihood.shape[1], 1.0 / likelihood.shape[1])
    if not len(distinct):
        return weights
    for _ in range(_ITERATIONS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = times @ posterior / times.sum()
    return weights


def draw_distributions(
    counts: IntArray, weights: FloatArray, rng: np.random.Generator, *, between: bool = False
) -> FloatArray:
    """Draw a distribution of ratings for each of K pairs from its posterior.

    Args:
        counts: as for :func:`fit_mixture`; a pair without ratings is drawn from the mixture itself.
        weights: of :func:`fit_mixture`, perhaps of other pairs.
        between: draw means between those of the grid, too. Results that depend on the distance of means to a threshold must
            not depend on the grid's own means.

    Returns:
        Probabilities of the ratings, shape (K, L).
    """
    drawn = np.empty(len(counts), dtype=np.int64)
    for start in range(0, len(counts), _CHUNK):
        part = slice(start, start + _CHUNK)
        posterior = (_likelihood(counts[part]) * weights).cumsum(axis=1)
        luck = rng.random((len(posterior), 1)) * posterior[:, -1:]
        drawn[part] = (posterior < luck).sum(axis=1)
    return _near(counts, drawn, rng) if between else np.asarray(_grid(counts.shape[1])[drawn])


def spread_of(weights: FloatArray, scale: Scale) -> tuple[float, float]:
    """Return the variance of the pairs' means, and that of a rating about its pair's mean, in squared points."""
    levels = np.arange(scale.low, scale.high + 1, dtype=np.float64)
    grid = _grid(scale.levels)
    means = grid @ levels
    return float(weights @ (means - weights @ means) ** 2), float(
        weights @ (grid @ levels**2 - means**2)
    )


def _near(counts: IntArray, points: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw distributions around the grid's ``points``, with means even from halfway to one neighbour to halfway to the other.

    They also depend on the ratings of each of the K pairs; shape (K, L).
    """
    near = _around(counts.shape[1])[points]
    log = (counts[:, None, :] * np.log(np.maximum(near, _LEAST))).sum(axis=2)
    posterior = np.exp(log - log.max(axis=1, keepdims=True)).cumsum(axis=1)
    place = (posterior < rng.random((len(posterior), 1)) * posterior[:, -1:]).sum(axis=1)
    return np.asarray(near[np.arange(len(near)), place])


def _likelihood(counts: IntArray) -> FloatArray:
    """Return the likelihood of each row of counts at each point of the grid, over the row's largest; shape (K, 500)."""
    log = counts @ np.log(np.maximum(_grid(counts.shape[1]), _LEAST)).T
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True, initial=-np.inf)))


@cache
def _grid(levels: int) -> FloatArray:
    """Return the probabilities of the ratings at each point of the grid, shape (500, levels)."""
    means, spreads = (each.ravel() for each in np.meshgrid(_MEANS, _SPREADS, indexing="ij"))
    return _rounded(means, spreads, levels)


@cache
def _around(levels: int) -> FloatArray:
    """Return the probabilities of the ratings for means around each point of the grid, shape (500, _AROUND, levels)."""
    step = _MEANS[1] - _MEANS[0]
    means = _MEANS[:, None, None] + step * ((np.arange(_AROUND) + 0.5) / _AROUND - 0.5)
    means, spreads = np.broadcast_arrays(means, _SPREADS[:, None])
    return _rounded(means, spreads, levels).reshape(-1, _AROUND, levels)


def _rounded(means: FloatArray, spreads: FloatArray, levels: int) -> FloatArray:
    """Return the probabilities of the ratings of normal variables rounded to the scale, shape (…, levels)."""
    boundaries = (np.arange(1, levels) - 0.5) / (levels - 1)
    below = ndtr((boundaries - means[..., None]) / spreads[..., None])
    ends = np.zeros((*means.shape, 1)), np.ones((*means.shape, 1))
    return np.asarray(np.diff(np.concatenate([ends[0], below, ends[1]], axis=-1), axis=-1))


@cache
def assumed_mixture(attribute: str) -> FloatArray:
    """Return the mixture of the paper's pairs at this attribute; at all of its attributes if it has no such one."""
    # robin's own file: its rows need no check one by one, unlike those of load_pools
    table = pq.ParquetFile(shipped("configs") / "pools" / "paper_digitised.parquet").read()
    alike = table.filter(pc.ends_with(table["attribute"], pattern=f"/{attribute}"))
    table = alike if len(alike) else table
    pair, pool = (
        table[name].combine_chunks().dictionary_encode() for name in ("pair_id", "attribute")
    )
    place = (
        pool.indices.to_numpy().astype(np.int64) * len(pair.dictionary) + pair.indices.to_numpy()
    )
    counts = np.bincount(
        5 * place + table["rating"].to_numpy(),
        minlength=5 * len(pool.dictionary) * len(pair.dictionary),
    )
    return fit_mixture(counts.reshape(-1, 5))
