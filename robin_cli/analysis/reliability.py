"""How far a judge agrees with itself: what of the scores is the pairs, and what the noise of its ratings.

No human rating is needed for it, and it limits what a human rating can agree with: noise correlates with nothing.
"""

from __future__ import annotations

import numpy as np

from robin_cli.analysis.agreement import Agreement, estimated, refusal, refused
from robin_cli.model.arms import FloatArray, IntArray

SELF = ("reliability", "ceiling", "icc")


def reliability(
    scores: FloatArray,
    error_variances: FloatArray,
    prompt: IntArray,
    ratings: IntArray | None = None,
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
    - icc: b / (b + v), v the mean variance within pairs: the reliability of a single rating (ICC(1)).

    Where the error variances are moderated (:mod:`robin_cli.analysis.moderated`), so are e and v: no judge is taken for free of
    noise. The intervals are those of :func:`robin_cli.analysis.agreement.agreement`.

    Args:
        error_variances: of the scores, in squared points, shape (K,).
        prompt, seed, resamples: as for ``agreement``.
        ratings: how many each score is the mean of, shape (K,); None for a panel's scores, which are means of several judges'
            means, so that no single rating is like another: then there is no icc.
    """
    rated = ~np.isnan(scores)
    names = SELF if ratings is not None else SELF[:2]
    if why := refusal(prompt[rated], {"score": scores[rated]}):
        return refused(names, why, prompt[rated])
    columns = [scores[rated], error_variances[rated]]
    if ratings is not None:
        columns.append((ratings * error_variances)[rated])
    return estimated(names, _reliability, columns, prompt[rated], seed=seed, resamples=resamples)


def _reliability(scores: FloatArray, errors: FloatArray, within: FloatArray | None = None) -> tuple[float, ...]:
    total = scores.var(ddof=1) if np.ptp(scores) else np.nan
    between = np.maximum(0.0, total - errors.mean())
    of_scores = (between / total, np.sqrt(between / total))
    return of_scores if within is None else (*of_scores, between / (between + within.mean()))
