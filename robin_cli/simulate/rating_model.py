"""Rating distributions of pairs with few ratings or none, from which a forecast draws its pairs.

Ratings of a pair are a normal variable rounded to the scale. Means and spreads are a mixture over a grid, fitted to all pairs
at once by maximum likelihood (Kiefer and Wolfowitz, Annals of Mathematical Statistics 27 (1956); Koenker and Mizera, JASA 109
(2014); here by EM), and a pair's own ratings give its posterior. The scheduler's choice of arms does not change the likelihood.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import ndtr

from robin_cli.data.local import shipped
from robin_cli.model.arms import FloatArray, IntArray

# Means and spreads as shares of the scale's width. With a mean beyond the ends, or a spread as wide as the scale, ratings stay
# at one end or jump between both.
_MEANS = np.linspace(-0.1, 1.1, 25)
_SPREADS = np.geomspace(0.02, 4.0, 20)
_ITERATIONS = 200
_LEAST = 1e-12
_CHUNK = 4096


def fit_mixture(counts: IntArray) -> FloatArray:
    """Return the frequency of each mean and spread of the grid among K pairs.

    ``counts``: how often each pair got each rating, shape (K, L). Returns weights that add up to 1, shape (500,).
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
    counts: IntArray, weights: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw a distribution of ratings for each of K pairs from its posterior.

    A mean is drawn evenly from halfway to one neighbour on the grid to halfway to the other: the distance to a threshold must
    not depend on the grid's own means.

    Arguments are as for :func:`fit_mixture`; a pair without ratings is drawn from the mixture. Returns probabilities, (K, L).
    """
    drawn = np.empty(len(counts), dtype=np.int64)
    for start in range(0, len(counts), _CHUNK):
        part = slice(start, start + _CHUNK)
        posterior = (_likelihood(counts[part]) * weights).cumsum(axis=1)
        luck = rng.random((len(posterior), 1)) * posterior[:, -1:]
        drawn[part] = (posterior < luck).sum(axis=1)
    place, spread = np.divmod(drawn, len(_SPREADS))
    means = _MEANS[place] + (_MEANS[1] - _MEANS[0]) * (rng.random(len(drawn)) - 0.5)
    return _rounded(means, _SPREADS[spread], counts.shape[1])


def _likelihood(counts: IntArray) -> FloatArray:
    """Return the likelihood of each row of counts at each point of the grid, over the row's largest; shape (K, 500)."""
    log = counts @ np.log(np.maximum(_grid(counts.shape[1]), _LEAST)).T
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True, initial=-np.inf)))


@cache
def _grid(levels: int) -> FloatArray:
    """Return the probabilities of the ratings at each point of the grid, shape (500, levels)."""
    means, spreads = (axis.ravel() for axis in np.meshgrid(_MEANS, _SPREADS, indexing="ij"))
    return _rounded(means, spreads, levels)


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
