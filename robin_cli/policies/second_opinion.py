"""Second opinions: the score of a response by several judges whose true means differ.

Judge j's mean x̄_j of a response is its truth, plus the judge's offset, plus an opinion of its own with variance B_j, plus noise
with variance V_j/n_j. The pooled score Σ w_j (x̄_j − offset_j) / Σ w_j has the weights w_j = 1/(B_j + V_j/n_j), as in a
random-effects meta-analysis (DerSimonian and Laird, "Meta-analysis in clinical trials", 1986). The first judge is the one that
is trusted most: it has .35 of D, the variance of the difference of the two judges' true means.

D and the offsets come from a random sample that all judges rate. Pairs chosen as uncertain would bias both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import FloatArray, Sums
from robin_cli.policies.task import Task

_OF_FIRST, _LEAST = 0.35, 0.1 / 81.0


class Opinions(NamedTuple):
    """How judges differ, by ``space.kind``, shape (…, kinds) each.

    Attributes:
        offset: what to take off a rating to have it on the first judge's scale, in points.
        between: B, in squared points; 1 for a single judge, where it changes nothing.
    """

    offset: FloatArray
    between: FloatArray

    @classmethod
    def before(cls, task: Task) -> Opinions:
        """Return those before any rating: no offset, and the least D."""
        between = _between(np.repeat(_least(task), len(task.space.judges) - 1, axis=1))
        return cls(np.zeros(between.size), between.ravel())


class Pooled(NamedTuple):
    """Scores of responses, shape (…,).

    Attributes:
        score: on the first judge's scale, in points; nan without a rating.
        error: the variance of the score about the one after endless calls of all judges.
        share: of each judge in the score, shape (…, judges).
    """

    score: FloatArray
    error: FloatArray
    share: FloatArray


def pooled(
    means: FloatArray, errors: FloatArray, between: FloatArray, noise: FloatArray | None = None
) -> Pooled:
    """Return the pooled scores.

    Args:
        means: x̄ less the offset, shape (…, judges); any number without a rating.
        errors: V/n, of the same shape; inf without a rating.
        between: B, of the same shape.
        noise: V/n for the error of the score, of the same shape; None for ``errors``, which weigh the judges.
    """
    weight = 1.0 / (between + errors)
    with np.errstate(invalid="ignore"):
        share = weight / weight.sum(axis=-1, keepdims=True)
    is_rated = share > 0
    limit = 1.0 / between
    limit = limit / limit.sum(axis=-1, keepdims=True)
    noise = np.where(is_rated, errors if noise is None else noise, 0.0)
    return Pooled(
        (share * np.where(is_rated, means, 0.0)).sum(axis=-1),
        (share**2 * noise + (share - limit) ** 2 * between).sum(axis=-1),
        share,
    )


def gain_of_call(errors: FloatArray, after: FloatArray, between: FloatArray) -> FloatArray:
    """Return by how much one more call of each judge lowers 1/Σ w, shape (…, judges).

    Args:
        errors, after: V/n before and after the call; inf without a rating.
    """
    weight = 1.0 / (between + errors)
    total = weight.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / total - 1.0 / (total - weight + 1.0 / (between + after)))


def opinions_of(task: Task, sums: Sums, errors: FloatArray) -> Opinions:
    """Return how the judges differ, by the pairs of ``task.sample`` that both of two judges rated.

    Args:
        errors: V/n of each arm, shape (…, K).
    """
    space, (pairs, starts), n = task.space, task.sample, sums.n
    shape = (*n.shape[:-1], len(space.pair_ids), len(space.attributes), len(space.judges))
    rated, means, noise = (
        column.reshape(shape)[..., pairs, :, :]
        for column in (n > 0, sums.total / np.maximum(n, 1.0), errors)
    )
    both = rated[..., 1:] & rated[..., :1]
    apart = np.where(both, means[..., 1:] - means[..., :1], 0.0)
    count = both.sum(axis=-3)
    offset = apart.sum(axis=-3) / np.maximum(count, 1)
    of_group = np.add.reduceat(both, starts, axis=-3, dtype=np.float64)
    center = np.add.reduceat(apart, starts, axis=-3) / np.maximum(of_group, 1.0)
    sizes = np.diff([*starts, len(pairs)])
    scatter = np.where(both, (apart - np.repeat(center, sizes, axis=-3)) ** 2, 0.0).sum(axis=-3)
    freedom = count - (of_group > 0).sum(axis=-3)
    noise = np.where(both, noise[..., 1:] + noise[..., :1], 0.0).sum(axis=-3)
    apart_by = scatter / np.maximum(freedom, 1) - noise / np.maximum(count, 1)
    between = _between(np.maximum(apart_by, _least(task)))
    offset = np.concatenate([np.zeros((*offset.shape[:-1], 1)), offset], axis=-1)
    flat = (*n.shape[:-1], -1)
    return Opinions(offset.reshape(flat), between.reshape(flat))


def _least(task: Task) -> FloatArray:
    """Return the least D of each attribute, shape (attributes, 1): a sample of few pairs may show none."""
    widths = [float(scale.high - scale.low) for scale in task.space.scales]
    return _LEAST * np.array(widths)[:, None] ** 2


def _between(apart: FloatArray) -> FloatArray:
    """Return B of all judges, shape (…, judges), from D of each but the first."""
    if not apart.shape[-1]:
        return np.ones((*apart.shape[:-1], 1))
    first = _OF_FIRST * apart.mean(axis=-1, keepdims=True)
    return np.concatenate([first, np.maximum(apart - first, first)], axis=-1)
