"""The human ratings of the pairs of each score: a judge that ranks well may still be a point too kind.

On a scale of many levels each would have one or two pairs, too few for an interval: levels are grouped in bins. Preferences are
grouped by quarters: 0, 0.25 and so on to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.stats.agreement import levels_of
from robin_cli.stats.clustered import clusters_of, student_bounds
from robin_cli.stats.intervals import ALPHA

MOST_LEVELS = 11
"""A scale with more is grouped in at most this number of bins."""

_QUARTERS: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs whose scores are nearest to one level of the scale, or to those of one bin; halves go up.

    Attributes:
        level, to_level: the lowest and the highest of the bin; equal for a single level.
        ci_low, ci_high: 95 % for ``mean_human`` over prompts like these; nan with one prompt, or if all human ratings are
            equal, which does not prove that others would be.
    """

    level: float
    to_level: float
    n: int
    n_prompts: int
    mean_score: float
    mean_human: float
    ci_low: float
    ci_high: float


def calibration(
    scores: FloatArray,
    human: FloatArray,
    prompt: IntArray,
    scale: Scale,
    *,
    of_two: bool = False,
    alpha: float = ALPHA,
) -> list[Level]:
    """Return the mean human rating of each level with pairs, or bin of :func:`bins_of`, rising.

    Args:
        scores, human: shape (K,), nan for absent.
        prompt: number of each pair's prompt, shape (K,).
        scale: limits of the intervals.
        of_two: whether both are preferences for the first of two responses, 0 to 1.
    """
    both = ~(np.isnan(scores) | np.isnan(human))
    scores, human, prompt = scores[both], human[both], prompt[both]
    if of_two:
        starts = stops = _QUARTERS
        # halves to even, which is symmetric in A and B
        place = np.rint(4 * scores).astype(np.int64)
    else:
        starts = bins_of(scale)
        stops = [*(start - 1 for start in starts[1:]), scale.high]
        place = np.searchsorted(starts, levels_of(scores), side="right") - 1
    found = []
    for each in np.unique(place).tolist():
        mine = place == each
        clusters = clusters_of(human[mine], prompt[mine])
        low, high = np.nan, np.nan
        if clusters.prompts > 1 and not clusters.are_alike(scale.high - scale.low):
            low, high = student_bounds(clusters, *scale.ends, alpha=alpha)
        counts, scored = (int(mine.sum()), int(clusters.prompts)), float(scores[mine].mean())
        found.append(Level(starts[each], stops[each], *counts, scored, clusters.mean, low, high))
    return found


def bins_of(scale: Scale) -> Sequence[int]:
    """Return the lowest level of each bin: all levels, if they are at most MOST_LEVELS.

    Else bins of 2, 5, 10, 20, … levels that start at multiples of that, as small as MOST_LEVELS bins allow: 0-9, 10-19, … The
    first bin starts with the scale. A highest level that would be alone joins the bin before: 90-100.
    """
    if scale.levels <= MOST_LEVELS:
        return list(range(scale.low, scale.high + 1))
    widths = (lead * 10**power for power in count() for lead in (2, 5, 10))
    each_start = (
        [scale.low, *range(scale.low // width * width + width, scale.high, width)]
        for width in widths
    )
    return next(starts for starts in each_start if len(starts) <= MOST_LEVELS)
