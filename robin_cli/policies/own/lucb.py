"""LUCB-z: calls go to the groups of which it is least clear which response is best, to the leader or its nearest rival."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.task import Task
from robin_cli.policies.deciding import PRIOR_CALLS, Course, Deciding, Look

_OF_SQUARE, _AT_FIRST = 0.35, 2.5
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Lucb(Deciding):
    """The group with the smallest z = (x̄_lead − x̄_b + ε) / √(V_lead/n_lead + V_b/n_b) over its rivals b of the leader.

    Of the leader and that rival the one whose error variance a call lowers most, by V/(n (n + 1)), is asked.

    Source: leader and challenger of LUCB, Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic
    multi-armed bandits", ICML 2012, with z in place of confidence bounds, over many groups that share one budget.
    """

    @classmethod
    def decides(cls, task: Task) -> bool:
        """The best of each group."""
        return task.decision.is_best

    @classmethod
    def wants(cls) -> str:
        """It needs groups."""
        return "--scheduler lucb: needs groups to choose from, as --decide best"

    @property
    def contests(self) -> IntArray | None:
        """The arms of each group and attribute."""
        return self.task.contests

    def course(
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        arm: IntArray,
        look: Look | None = None,
    ) -> Course:
        """1/z² of each rival and the leader, and r = (.35 z² + ℓ + 2.5) / 2 (N + 4), N being the calls of both.

        Where no evidence was looked for, .35 z² − 2.5 stands for ℓ. 1/z² counts for each arm in the share of what its call
        would do beside the other's; the leader has the largest of those with its rivals.
        """
        own = arm % len(self.task.margin)
        found = self.responses(n, pending, total, total_sq, arm)
        mean = np.where(found.there, found.mean, -np.inf)
        is_lead = np.arange(mean.shape[-1]) == mean.argmax(axis=-1, keepdims=True)
        most = found.gain[..., 0] if n.shape[-1] == 1 else found.gain.max(axis=-1)
        # What is the leader's is the largest of what is 0 for all others.
        error_of_lead, most_of_lead = ((is_lead * each).max(axis=-1, keepdims=True) for each in (found.error, most))
        ahead = mean.max(axis=-1, keepdims=True) - found.mean + self.task.margin[own[..., :1, 0]]
        urgency = found.there * (error_of_lead + found.error) / (ahead * ahead)
        each = np.where(is_lead, 0.0, urgency / np.maximum(np.maximum(most_of_lead, most), _TINY))
        share = np.where(is_lead, each.max(axis=-1, keepdims=True), each)
        priority = np.asarray(share[..., None] * found.gain)
        if look is None:
            return Course(priority)
        against = np.where(is_lead, 0.0, urgency)
        least = against.max(axis=-1, keepdims=True)
        both = is_lead | (np.arange(mean.shape[-1]) == against.argmax(axis=-1, keepdims=True))
        made, then = ((each.sum(axis=-1) * both).sum(axis=-1) for each in (n + pending, look.n))
        by_z = _OF_SQUARE / np.maximum(least[..., 0], _TINY)
        log = np.where(look.log > -np.inf, look.log, by_z - _AT_FIRST)
        pace = 0.5 * (by_z / (made + PRIOR_CALLS) + np.maximum(log + _AT_FIRST, 0.0) / (then + PRIOR_CALLS))
        part = both[..., None] * found.gain
        part = part / np.maximum(part.max(axis=(-2, -1), keepdims=True), _TINY)
        return Course(priority, log, pace, made - then, part)
