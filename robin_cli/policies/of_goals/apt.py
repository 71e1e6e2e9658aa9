"""APT: calls go to the pairs whose side of a threshold is least clear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.of_goals.deciding import PRIOR_CALLS, Columns, Course, Deciding, Look

_AT_FIRST = 1.2


@dataclass(frozen=True, slots=True)
class Apt(Deciding):
    """The arm with the smallest √n (|x̄ − τ| + ε) / √V comes next, τ being its threshold and ε the margin: APT over variances.

    With several judges x̄ is the mean of their means and V/n its variance; the next call is of the judge that lowers it most.

    Source: Locatelli, Gutzeit and Carpentier, "An optimal algorithm for the thresholding bandit problem", ICML 2016, with the
    index √n (|x̄ − τ| + ε) for sub-Gaussian arms of one scale; division by √V makes arms of different noise comparable.
    """

    @property
    def contests(self) -> IntArray | None:
        """The arms of each pair, if several judges rate it."""
        return self.task.contests if self.task.space.raters > 1 else None

    def course(self, arms: Columns, look: Look | None = None) -> Course:
        """Return V / ((n + pending) (|x̄ − τ| + ε)²), the inverse squared index, and r = (ℓ + 1.2 + 4 o) / (n + 4).

        o = D² / (V + D²), D being |x̄ − τ| + ε: about the evidence that a call brings, which dominates r while n is small.
        With several judges the index is that of their mean, shared among the judges by the gain of a call.
        """
        threshold, margin = self.task.threshold[arms.arm], self.task.margin[arms.arm]
        made = arms.n + arms.pending
        if self.contests is None:
            distance = np.abs(arms.total / arms.n - threshold) + margin
            square = distance * distance
            variance = self.variance(arms.n, arms.total, arms.total_sq, arms.arm)
            priority = variance / (made * square)
            growth = () if look is None else _growth(look, look.n, made, variance, square)
            return Course(priority, *growth)
        responses = self.responses(arms)
        distance = np.abs(responses.mean - threshold[..., 0]) + margin[..., 0]
        most = np.maximum(responses.most[..., None], np.finfo(float).tiny)
        part = responses.gain / most
        priority = np.asarray((responses.error / distance**2)[..., None] * part)
        if look is None:
            return Course(priority)
        calls, then = (column.sum(axis=(-2, -1)) for column in (made, look.n))
        return Course(
            priority,
            *_growth(look, then, calls, responses.error[..., 0] * calls, distance[..., 0] ** 2),
            part=part,
        )


def _growth(
    look: Look, then: FloatArray, calls: FloatArray, variance: FloatArray, square: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ℓ, r, and the calls since the look, at which ``then`` had been made."""
    odds = square / (variance + square)
    return (
        look.log,
        (np.maximum(look.log, 0.0) + _AT_FIRST + PRIOR_CALLS * odds) / (then + PRIOR_CALLS),
        calls - then,
    )
