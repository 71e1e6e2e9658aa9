"""The repetition of a run's last look at its decisions when it is resumed: calls depend on it until the next look."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.base import Goal
from robin_cli.policies.milestones import looks_at
from robin_cli.run.fold import COUNTED, Fold, values_of
from robin_cli.run.segments import judgments_by_arm
from robin_cli.run.writer import RunWriter
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.level_counts import counts_by_scale

_MOST_READ_AGAIN = 2**20
"""The most judgments to read again, which takes a second or two."""


def look_again(store: RunWriter, fold: Fold, goal: Goal, verdicts: RunVerdicts) -> int:
    """Repeat the last look at the decisions with the answers of that time, so that the run goes on as if it had not stopped.

    Returns:
        The calls that were spent at that time; 0 if there was no look, or if there are too many answers to read them again.
    """
    space, looked = store.space, looks_at(len(store.space)).until(fold.arms.spent)
    if not looked or fold.judgments > _MOST_READ_AGAIN:
        return 0
    parts = list(judgments_by_arm(store.path, space, COUNTED))
    arm, judgments = (
        np.concatenate([arms for arms, _ in parts]),
        pa.concat_tables([table for _, table in parts]),
    )
    is_spent = pc.not_equal(judgments["status"], "failed").to_numpy()
    until = int(np.searchsorted(np.cumsum(is_spent), looked)) + 1
    then, before = Fold(space), judgments.slice(0, until)
    then.add(arm[:until], before)
    policy = goal.policy(store.manifest.own_settings, store.manifest.budget, store.variances)
    if policy.refits and then.fitted:
        policy = policy.fitted(*then.fitted)
    verdicts.begin(space, counts_by_scale(space, arm[:until], before), then.arms, policy)
    since = judgments.slice(until)
    is_rated = since["rating"].is_valid().to_numpy()
    for place, value, has_rating in zip(
        arm[until:].tolist(), values_of(since).tolist(), is_rated.tolist(), strict=True
    ):
        verdicts.add(place, (value,) if has_rating else ())
    return looked
