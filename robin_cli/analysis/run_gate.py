"""What a run says of the pairs that a requirement is about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robin_cli.analysis.gate import Measured
from robin_cli.analysis.pair_means import pair_means
from robin_cli.analysis.run_compare import Compared
from robin_cli.analysis.scores import Scores, rated_parts
from robin_cli.storage.reader import RunData


def measured_for_mean(run: RunData, scores: Scores, attribute: str) -> Measured:
    """The same for a requirement on the mean: of what :mod:`robin_cli.analysis.pair_means` says."""
    found, known = measured(run, scores, attribute), pair_means(run, scores, attribute)
    if known.first is None:
        return found
    noise = (
        known.error_variances if run.task is None else np.zeros_like(known.scores)
    )  # there more calls change no first ones
    return replace(found, scores=known.scores, error_variances=noise, first=known.first)


def measured_difference(found: Compared, attribute: str) -> Measured:
    """The differences of the two systems in ``found``, prompt by prompt."""
    one, responses = found.differences[attribute][0], found.responses[attribute]
    decided = any(run.task is not None for run in found.runs)  # there more calls change no first ratings
    reach = responses.high - responses.low
    used = np.isin(responses.prompt, one.prompts)
    return Measured(
        scores=one.by_prompt,
        error_variances=np.zeros_like(one.noise_by_prompt) if decided else one.noise_by_prompt,
        prompt=one.prompts,
        parts=(),
        is_asked=np.ones(one.n_prompts, dtype=np.bool_),
        low=-reach,
        high=reach,
        calls=int(responses.ratings[used].sum()) * len(found.runs[0].space.judges),
        first=min(filter(None, found.by_first), default=None),
    )


def measured(run: RunData, scores: Scores, attribute: str) -> Measured:
    """The scores of ``run`` on ``attribute`` and what they are made of, pair by pair in the order of the data.

    Args:
        scores: those of :func:`robin_cli.analysis.scores.score`.
    """
    mine = np.flatnonzero(scores.of_attribute(run.space, attribute))
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
