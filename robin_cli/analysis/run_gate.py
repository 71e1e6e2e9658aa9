"""What a run says of the pairs that a requirement is about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robin_cli.analysis.gate import Measured
from robin_cli.analysis.scores import Scores, rated_parts
from robin_cli.model.arms import mean
from robin_cli.storage.fold import values_of
from robin_cli.storage.reader import RunData

FIRST = 2
"""Ratings of each pair and judge that a mean is made of where a run was to decide: every pair gets them, whatever they say."""


def measured_for_mean(run: RunData, scores: Scores, attribute: str) -> Measured:
    """The same for a requirement on the mean.

    Of a run that was to decide these are the means of each pair's FIRST ratings. It asked on where a side was not clear by the
    ratings so far, and who was far off by chance was left so: the mean of all scores was off by −0.10 to +0.05 points in
    simulated runs (nine pools, 5 and 10 calls a pair), with 1,000 pairs more than a standard error.
    """
    found = measured(run, scores, attribute)
    if run.task is None:
        return found
    is_rated = np.asarray(run.judgments["rating"].is_valid())
    arm, value = run.arm[is_rated], values_of(run.judgments)[is_rated]
    by_arm = np.argsort(arm, kind="stable")
    starts = np.searchsorted(arm[by_arm], np.arange(len(run.space)))
    is_first = np.arange(len(arm)) - starts[arm[by_arm]] < FIRST
    first, count = by_arm[is_first], len(run.space)
    n, total = np.bincount(arm[first], minlength=count), np.bincount(arm[first], value[first], count)
    mine = np.array(scores.columns["attribute"]) == attribute
    means = run.space.by_judge(mean(n, total.astype(np.float64))).mean(axis=1)[mine]
    return replace(found, scores=means, error_variances=np.zeros_like(means))  # which more calls would not change


def measured(run: RunData, scores: Scores, attribute: str) -> Measured:
    """The scores of ``run`` on ``attribute`` and what they are made of, pair by pair in the order of the data.

    Args:
        scores: those of :func:`robin_cli.analysis.scores.score`.
    """
    is_mine = np.array(scores.columns["attribute"]) == attribute
    mine = np.flatnonzero(is_mine)
    scale = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))[attribute]
    parts = next(
        [replace(each, counts=np.asarray(each.counts, dtype=np.float64)[np.searchsorted(rows, mine)]) for each in parts]
        for rows, parts in rated_parts(run)
        if np.isin(mine, rows).all()
    )
    arms = run.fold.arms
    spent = run.space.by_judge(arms.counts + arms.unparsed)[mine]
    return Measured(
        scores=np.asarray(scores.columns["score"], dtype=np.float64)[mine],
        error_variances=np.asarray(scores.columns["std_error"], dtype=np.float64)[mine] ** 2,
        prompt=run.prompts[run.space.pair[scores.arm[mine]]],
        parts=parts,
        is_asked=~scores.retired[mine],
        low=float(scale.low),
        high=float(scale.high),
        calls=int(spent.sum()),
    )
