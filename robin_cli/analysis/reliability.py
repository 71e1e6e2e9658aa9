"""How far a judge agrees with itself: what of the scores is the pairs, and what the noise of its ratings.

No human rating is needed for it, and it limits what a human rating can agree with: noise correlates with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robin_cli.analysis.agreement import FEWEST_PROMPTS, Agreement, estimated, refusal, refused
from robin_cli.analysis.counting import distinct
from robin_cli.analysis.moderated import WEIGHT
from robin_cli.model.arms import FloatArray, IntArray

SELF = ("reliability", "ceiling", "icc")
FEWEST_FURTHER = 30
"""Ratings of pairs that were rated before, of each judge, for its noise to be known: with 20 of 400 pairs asked twice,
intervals of 95 % hold the truth in as little as 78 % of cases, with 30 in 82 to 94 % (simulated)."""


def reliability(
    scores: FloatArray,
    n: IntArray,
    variances: FloatArray,
    prompt: IntArray,
    *,
    seed: int = 0,
    resamples: int | None = None,
) -> list[Agreement]:
    """The reliability of ``scores``, shape (K,), nan for absent, the highest correlation that it allows, and the judge's ICC.

    With s² the variance of the scores over pairs, e the mean of their error variances, and b = max(0, s² − e) what is left to
    the pairs themselves:

    - reliability: b / s², the correlation to expect between these scores and those of asking as often again (ICC(1, k) where
      all have k ratings: Shrout and Fleiss, "Intraclass correlations", Psychol. Bull. 86, 1979);
    - ceiling: √(b / s²), the highest correlation with a human who never errs (attenuation: Spearman, "The proof and
      measurement of association between two things", Am. J. Psychol. 15, 1904);
    - icc: b / (b + v), v the mean variance within pairs: the reliability of a single rating (ICC(1)). Not of a panel, where no
      single rating is like another.

    The noise is taken from these ratings alone, and anew in each resample. The error variance of a judge's mean rating of a
    pair is V/n, V = (SS + 4 g) / (n + 3), SS the pair's sum of squares and g the mean of the variances of all pairs that the
    judge was asked about twice or more. Where ratings say where the next ones go, the variance pooled over all ratings counts
    pairs that vary as often as they were asked, and a pair's own is too small where it was asked little because its first
    ratings agreed: benchmarks/agreement.py has what these bring. Where all pairs have as many ratings, e is that of the
    analysis of variance. The intervals are otherwise those of :func:`robin_cli.analysis.agreement.agreement`, as wide as for
    the prompts that have a pair which was asked twice.

    Args:
        n: ratings of each of J judges, shape (K, J). The scores are the means of the judges' mean ratings.
        variances: of these ratings (1/(n − 1)), shape (K, J); nan below two.
        prompt, seed, resamples: as for ``agreement``.
    """
    rated = ~np.isnan(scores)
    scores, n, variances, prompt = scores[rated], n[rated], variances[rated], prompt[rated]
    names = SELF if n.shape[1] == 1 else SELF[:2]
    if why := refusal(prompt, {"score": scores}) or _unknown_noise(n, prompt):
        return refused(names, why, prompt)
    variances = np.where(n > 1, variances, 0.0)
    columns = (scores, n, variances)
    known_by = min(_prompts_asked_twice(n, prompt))
    found = estimated(names, _reliability, columns, prompt, known_by=known_by, seed=seed, resamples=resamples)
    if variances.any():
        return found
    why = "no two ratings of a pair differ: how rarely they would is not known"
    return [replace(each, ci_low=np.nan, ci_high=np.nan, why=why) for each in found]


def _prompts_asked_twice(n: IntArray, prompt: IntArray) -> Sequence[int]:
    """Prompts with a pair that was asked about twice or more, of each judge."""
    return [distinct(prompt[mine > 1]) for mine in n.T]


def _unknown_noise(n: IntArray, prompt: IntArray) -> str:
    """Why the noise of a judge is not known, in words; '' if that of all is."""
    whose = "the judge's noise" if n.shape[1] == 1 else "the noise of each judge"
    few = f"too few pairs were asked twice to know {whose}"
    further, prompts = int((n - 1).sum(axis=0).min()), min(_prompts_asked_twice(n, prompt))
    if further < FEWEST_FURTHER:
        ratings = "1 further rating" if further == 1 else f"{further} further ratings"
        return f"{few}: {ratings} of pairs already rated, {FEWEST_FURTHER} are needed"
    return f"{few}: they are of {prompts} prompts, {FEWEST_PROMPTS} are needed" if prompts < FEWEST_PROMPTS else ""


def _reliability(scores: FloatArray, n: IntArray, variances: FloatArray) -> tuple[float, ...]:
    judges = n.shape[1]
    with np.errstate(invalid="ignore"):  # a resample may have no pair that was asked twice
        typical = variances.sum(axis=0) / (n > 1).sum(axis=0)
    within = ((n - 1) * variances + WEIGHT * typical) / (n + WEIGHT - 1.0)
    noise = (within / n).sum(axis=1).mean() / judges**2
    total = scores.var(ddof=1) if np.ptp(scores) else np.nan
    between = np.maximum(0.0, total - noise)
    of_scores = (between / total, np.sqrt(between / total))
    return of_scores if judges > 1 else (*of_scores, between / (between + within.mean()))
