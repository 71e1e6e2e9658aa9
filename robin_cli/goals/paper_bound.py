"""The paper's bound on the worst error, as the status of a run has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.policies.base import empirical_variance
from robin_cli.policies.registry import traits_of
from robin_cli.storage.reader import RunData

if TYPE_CHECKING:
    from robin_cli.goals.base import Goal


def paper_bound(run: RunData, goal: Goal) -> dict[str, Any]:
    """The paper's bound on the worst error for this scheduler at the budget spent, and what it assumes; null if it has none.

    Its Theorem 2 covers ROBIN-HOOD in theory mode alone: with the constants of practice mode the bound was exceeded in 45 %
    of 200 simulated runs at δ = 0.2 (30 pairs, 6,000 calls).

    The true variances it needs are not known: estimates (1/n) stand in for them, so it is no guarantee.
    """
    settings, arms = run.manifest.settings, run.fold.arms
    delta = float(settings["delta"])
    measured = arms.counts > 0
    theorem = traits_of(settings["scheduler"]).theorem(settings["mode"])
    if theorem is None or not measured.all():
        return {"value": None, "delta": delta, "assumes": None}
    estimated = empirical_variance(arms.counts.astype(np.float64), arms.totals, arms.totals_sq) / run.space.units**2
    warm_up = 0 if theorem == 1 else goal.policy(run.manifest, None).warm_up
    value, assumes = theorem_bound(theorem, estimated, arms.spent, delta, warm_up)
    return {"value": value, "delta": delta, "assumes": assumes}
