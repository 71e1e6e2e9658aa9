"""Scores: what a run says of each pair, with how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robin_cli.allocation.arms import FloatArray, IntArray, mean, sample_variance
from robin_cli.records import Scale
from robin_cli.runs.fold import level_counts, retirement_reasons
from robin_cli.runs.reading import RunData
from robin_cli.statistics.agreement import Agreement, agreement
from robin_cli.statistics.intervals import largest_reach, mean_intervals

COLUMNS = (
    "pair_id",
    "attribute",
    "score",
    "n",
    "variance",
    "std_error",
    "ci_low",
    "ci_high",
    "n_unparsed",
    "human",
    "given_up",
)


@dataclass(frozen=True, slots=True)
class Scores:
    """One row an arm, in the order of the data.

    Attributes:
        columns: by name, those of COLUMNS; ``score``, ``variance``, ``std_error`` and ``human`` are nan where there is
            none: no rating, fewer than two ratings, no human rating in the data. ``given_up``: why the arm is asked no more
            (``context_length``, ``truncated``, …), '' for those that are.
        retired: arms given up because their answers came without ratings, shape (rows,).
        error_bound: with probability at least 1 − ALPHA no score is further than this from the judge's mean rating, all
            scores at once, at whatever time one looks; in points of the scale. It is never estimated from a spread that a
            few equal ratings make look small.
    """

    columns: Mapping[str, list[str] | FloatArray | IntArray]
    retired: np.ndarray[tuple[int], np.dtype[np.bool_]]
    error_bound: float

    def __len__(self) -> int:
        return len(self.columns["pair_id"])


def score(run: RunData) -> Scores:
    """The scores of ``run`` as it stands."""
    index = run.index
    arm = index.arms_of(run.judgments)
    arms = run.fold()
    scale = Scale(*run.manifest.scale)
    counts = level_counts(arm, run.judgments, len(index), scale)
    reasons = retirement_reasons(arm, run.judgments, arms)
    n = arms.counts.copy()
    means = mean(n, arms.totals)
    variance = sample_variance(n, arms.totals, arms.totals_sq)
    low, high = mean_intervals(counts, scale.low, scale.high)
    with np.errstate(invalid="ignore", divide="ignore"):
        std_error = np.sqrt(variance / n)
    pairs = [run.pairs[index.pair(each)] for each in range(len(index))]
    attributes = [index.attribute(each) for each in range(len(index))]
    human = np.array(
        [pair.human.get(name, np.nan) for pair, name in zip(pairs, attributes, strict=True)], dtype=np.float64
    )
    columns: dict[str, list[str] | FloatArray | IntArray] = {
        "pair_id": [pair.pair_id for pair in pairs],
        "attribute": attributes,
        "score": means,
        "n": n,
        "variance": variance,
        "std_error": std_error,
        "ci_low": low,
        "ci_high": high,
        "n_unparsed": arms.unparsed.copy(),
        "human": human,
        "given_up": [reasons.get(each, "") for each in range(len(index))],
    }
    return Scores(columns, arms.retired_mask, largest_reach(counts, scale.low, scale.high))


def agreements(scores: Scores) -> dict[str, list[Agreement]]:
    """Correlations of the scores with the human ratings, by attribute; only attributes that have human ratings."""
    attributes = np.array(scores.columns["attribute"])
    means, human = (np.asarray(scores.columns[name], dtype=np.float64) for name in ("score", "human"))
    found = {}
    for attribute in dict.fromkeys(attributes.tolist()):
        mine = attributes == attribute
        if not np.isnan(human[mine]).all():
            found[attribute] = agreement(means[mine], human[mine])
    return found
