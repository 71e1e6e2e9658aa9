"""LUCB-z: calls go to the leader or its nearest rival in the groups whose best response is least clear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import IntArray
from robin_cli.policies.of_goals.deciding import (
    PRIOR_CALLS,
    Columns,
    Course,
    Deciding,
    Look,
)

_OF_SQUARE, _AT_FIRST = 0.35, 2.5
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Lucb(Deciding):
    """The group with the smallest z = (x̄_lead − x̄_b + ε) / √(V_lead/n_lead + V_b/n_b), over all rivals b, is next.

    Of the leader and that rival, the next call is of the one whose error variance it lowers most, by V/(n (n + 1)).

    Source: leader and challenger of LUCB, Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic
    multi-armed bandits", ICML 2012, with z in place of confidence bounds, over many groups that share one budget.
    """

    @property
    def contests(self) -> IntArray | None:
        """The arms of each group and attribute."""
        return self.task.contests

    def course(self, arms: Columns, look: Look | None = None) -> Course:
        """Return 1/z² of each rival and the leader, and r = (.35 z² + ℓ + 2.5) / 2 (N + 4), N being the calls of both.

        Without evidence, .35 z² − 2.5 stands for ℓ. 1/z² is shared among the two responses and their judges by the gain of a
        call; the leader has the largest of its values with the rivals.
        """
        responses = self.responses(arms)
        mean, most = np.where(responses.there, responses.mean, -np.inf), responses.most
        # take and put count through all responses
        starts = np.arange(0, mean.size, mean.shape[-1]).reshape(mean.shape[:-1])
        lead = starts + mean.argmax(axis=-1)
        best, error, gain = (
            column.take(lead)[..., None] for column in (mean, responses.error, most)
        )
        ahead = best - responses.mean + self.task.margin[arms.arm[..., :1, 0]]
        urgency = responses.there * (error + responses.error) / (ahead * ahead)
        urgency.put(lead, 0.0)
        largest = np.maximum(np.maximum(gain, most), _TINY)
        share = urgency / largest
        share.put(lead, share.max(axis=-1))
        priority = np.asarray(share[..., None] * responses.gain)
        if look is None:
            return Course(priority)
        rival = starts + urgency.argmax(axis=-1)
        has_rival = rival != lead
        both = np.array((lead, rival))
        calls, of_look = (column[..., 0].take(both) for column in (arms.n + arms.pending, look.n))
        made, then = (column[0] + has_rival * column[1] for column in (calls, of_look))
        by_z = _OF_SQUARE / np.maximum(urgency.take(rival), _TINY)
        log = np.where(look.log > -np.inf, look.log, by_z - _AT_FIRST)
        pace = 0.5 * (
            by_z / (made + PRIOR_CALLS) + np.maximum(log + _AT_FIRST, 0.0) / (then + PRIOR_CALLS)
        )
        part, of_responses = (
            np.zeros(responses.gain.shape),
            responses.gain.reshape(-1, responses.gain.shape[-1]),
        )
        part.reshape(of_responses.shape)[both] = of_responses[both] / largest.take(rival)[..., None]
        return Course(priority, log, pace, made - then, part)
