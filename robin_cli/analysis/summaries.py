"""Means of the scores of a run, of all pairs or by a column of the data, with intervals over prompts, and corrected by labels.

A mean is that over pairs, and its interval is Student's t over prompts (Cochran's ratio estimator): responses to one prompt
are alike. A share counts scores as they are, noise included; its interval is that of :mod:`robin_cli.analysis.clustered`,
which holds near 0 and 1, too. So does a mean's where all prompts have the same one, since that is no proof that others would
have it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.clustered import clusters_of, mean_bounds
from robin_cli.analysis.counting import distinct
from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.labelled import Corrected, corrected
from robin_cli.analysis.moderated import likely_half_widths
from robin_cli.analysis.pair_means import pair_means
from robin_cli.analysis.run_labels import Labels
from robin_cli.analysis.scores import Scores
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.storage.reader import RunData

FEWEST_PROMPTS = 5
"""Prompts for an interval of a mean or a share."""

_ALIKE = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean or a share and its interval; nan where there is none."""

    value: float = nan
    low: float = nan
    high: float = nan


@dataclass(frozen=True, slots=True)
class Summary:
    """The scores of one attribute, of all pairs or of a group of them.

    Attributes:
        group: what the column says; None without a column.
        prompts, pairs: with a score.
        mean: of the scores.
        share: of those at the threshold or above; None without one.
        corrected: the mean by people's labels; None where the attribute has none.
        labels: those; None where there are none that could be used.
    """

    attribute: str
    group: str | None
    prompts: int
    pairs: int
    mean: Estimate
    share: Estimate | None
    corrected: Corrected | None
    labels: Labels | None


def summaries(
    run: RunData,
    scores: Scores,
    labels: Mapping[str, Labels],
    *,
    groups: Sequence[str | None] | None = None,
    threshold: float | None = None,
) -> list[Summary]:
    """A summary of each attribute, or of each attribute and group, in the order in which groups appear.

    Args:
        scores: those of :func:`robin_cli.analysis.scores.score`.
        labels: those of :func:`robin_cli.analysis.run_labels.labels_of`.
        groups: which group each pair is of, shape (pairs,); pairs of None are left out. None for all pairs together.
        threshold: of the shares.
    """
    names: list[str | None] = [None] if groups is None else [name for name in dict.fromkeys(groups) if name is not None]
    of = None if groups is None else np.array(groups, dtype=object)
    found = []
    for attribute, scale in zip(run.manifest.attributes, run.manifest.scales, strict=True):
        mine = scores.of_attribute(run.space, attribute)
        every = np.asarray(scores.columns["score"], dtype=np.float64)[mine]
        means, own = pair_means(run, scores, attribute, of_all=True).scores, labels[attribute]
        for name in names:
            is_scored = ~np.isnan(means)
            rows = np.flatnonzero(is_scored if of is None else is_scored & (of == name))
            prompt = run.prompts[rows]
            found.append(
                Summary(
                    attribute=attribute,
                    group=name,
                    prompts=distinct(prompt),
                    pairs=len(rows),
                    mean=_mean(means[rows], prompt, scale),
                    share=None if threshold is None else _share(every[rows] >= threshold, prompt),
                    corrected=_corrected(means, own, run.prompts, rows, scale) if own.known.any() else None,
                    labels=own if own.known.any() or own.why else None,
                )
            )
    return found


def _mean(means: FloatArray, prompt: IntArray, scale: Scale) -> Estimate:
    if not len(means):
        return Estimate()
    clusters = clusters_of(means, prompt)
    prompts = float(clusters.times.sum())
    if prompts < FEWEST_PROMPTS:
        return Estimate(clusters.mean)
    if clusters.variance <= _ALIKE * (scale.high - scale.low) ** 2:
        return Estimate(clusters.mean, *mean_bounds(clusters, scale.low, scale.high, alpha=ALPHA))
    half = float(likely_half_widths(np.array([clusters.variance]), np.array([prompts - 1]), alpha=ALPHA)[0])
    return Estimate(clusters.mean, max(clusters.mean - half, scale.low), min(clusters.mean + half, scale.high))


def _share(is_reached: NDArray[np.bool_], prompt: IntArray) -> Estimate:
    if not len(is_reached):
        return Estimate()
    clusters = clusters_of(is_reached.astype(np.float64), prompt)
    if clusters.times.sum() < FEWEST_PROMPTS:
        return Estimate(clusters.mean)
    return Estimate(clusters.mean, *mean_bounds(clusters, 0.0, 1.0, alpha=ALPHA))


def _corrected(means: FloatArray, labels: Labels, prompt: IntArray, rows: IntArray, scale: Scale) -> Corrected:
    """The mean of the pairs in ``rows`` by their labels, and its interval as far as it is on the scale."""
    if not len(rows):
        return Corrected(nan, nan, nan, nan, nan, 0, 0, "no pair has a score")
    weights = np.zeros(len(means))
    weights[rows] = 1.0 / len(rows)
    found = corrected(means, labels.values, labels.probability, prompt, weights[None])
    ends = np.clip([found.estimate, found.low, found.high], scale.low, scale.high).tolist()
    return replace(found, estimate=ends[0], low=ends[1], high=ends[2])
