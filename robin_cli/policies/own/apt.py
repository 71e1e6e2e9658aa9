"""APT: calls go to the pairs of which it is least clear on which side of a threshold they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.task import Task
from robin_cli.policies.deciding import Deciding


@dataclass(frozen=True, slots=True)
class Apt(Deciding):
    """The arm with the smallest √n (|x̄ − τ| + ε) / √V, τ its threshold and ε the margin; the variance-normalised APT.

    Of several judges x̄ is the mean of theirs and V/n its variance, and the judge is asked whose call lowers that most.

    Source: Locatelli, Gutzeit and Carpentier, "An optimal algorithm for the thresholding bandit problem", ICML 2016, whose
    index is √n (|x̄ − τ| + ε) for sub-Gaussian arms of one scale; dividing by √V makes arms of different noise compare.
    """

    @classmethod
    def decides(cls, task: Task) -> bool:
        """Thresholds."""
        return not task.decision.is_best

    @classmethod
    def wants(cls) -> str:
        """It needs a threshold."""
        return "--scheduler apt: needs thresholds to decide by, as --decide 'score>=3'"

    @property
    def contests(self) -> IntArray | None:
        """The arms of each pair, where several judges rate it."""
        return self.task.contests if self.task.space.raters > 1 else None

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
    ) -> FloatArray:
        """V / ((n + pending) (|x̄ − τ| + ε)²), the index squared and turned round.

        Of several judges it is that of their mean, and of each judge in the share of what its call would do.
        """
        own = arm % len(self.task.threshold)
        if self.contests is None:
            distance = np.abs(total / n - self.task.threshold[own]) + self.task.margin[own]
            return self.variance(n, total, total_sq, arm) / ((n + pending) * (distance * distance))
        found = self.responses(n, pending, total, total_sq, arm)
        distance = np.abs(found.mean - self.task.threshold[own][..., 0]) + self.task.margin[own][..., 0]
        most = np.maximum(found.gain.max(axis=-1, keepdims=True), np.finfo(float).tiny)
        return np.asarray((found.error / distance**2)[..., None] * (found.gain / most))
