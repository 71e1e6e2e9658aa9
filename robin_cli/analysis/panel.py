"""What several judges say of one pair together: their mean, its noise, and how far they are apart beyond noise.

Judges are the ones that were asked, not a sample of all there are: the mean is that of these judges, each with the same
weight however often it was asked, and its standard error counts their noise alone. How far apart they are is shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PanelScore:
    """Of each row, shape (rows,); nan where a judge has not enough ratings for it.

    Attributes:
        score: mean of the judges' mean ratings; every judge needs one.
        variance: mean of the judges' variances, the noise within one judge; every judge needs two ratings.
        std_error: √(Σ A_j) / J, A_j the error variances: the noise of ``score``.
        between: variance between the judges' true means, unbiased, so below 0 where noise explains more than all of it.
    """

    score: FloatArray
    variance: FloatArray
    std_error: FloatArray
    between: FloatArray


def panel_score(means: FloatArray, variances: FloatArray, n: IntArray, error_variances: FloatArray) -> PanelScore:
    """The judges' ratings of each row together.

    ``between`` is the method-of-moments estimate of a one-way random-effects model with unequal noise: the sample variance of
    the J means less the mean of their error variances, S²(x̄_1 … x̄_J) − Σ (s_j²/n_j) / J.

    Args:
        means: each judge's mean rating, shape (rows, J) for J ≥ 2; nan without a rating.
        variances: each judge's sample variance (1/(n − 1)), shape (rows, J); nan below two ratings.
        n: ratings, shape (rows, J).
        error_variances: of the means, shape (rows, J), see :mod:`robin_cli.analysis.moderated`; nan without a rating.
    """
    judges = means.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        noise = variances / n
    return PanelScore(
        score=means.mean(axis=1),
        variance=variances.mean(axis=1),
        std_error=np.sqrt(error_variances.sum(axis=1)) / judges,
        between=means.var(axis=1, ddof=1) - noise.mean(axis=1),
    )


def spread_between(between: FloatArray) -> float:
    """The standard deviation between judges over all rows, √max(0, mean of ``between``); nan where none is known."""
    known = between[~np.isnan(between)]
    return float(np.sqrt(max(0.0, known.mean()))) if len(known) else np.nan
