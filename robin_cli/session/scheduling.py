"""The planner of a session, which goes on from what is on disk as if the run had not stopped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.base import Goal
from robin_cli.goals.watch import Watch
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.errors import RunError, typed
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.space import Coordinates
from robin_cli.policies.milestones import looks_at
from robin_cli.run.fold import COUNTED, Fold, values_of
from robin_cli.run.manifest import FILE
from robin_cli.run.segments import judgments_by_arm
from robin_cli.run.writer import RunWriter
from robin_cli.session.planner import Planner
from robin_cli.session.round_sizes import first_depth
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.level_counts import counts_by_scale

_MOST_READ_AGAIN = 2**20
"""The most judgments to read again, which takes a second or two."""


def planner_of(
    store: RunWriter,
    fold: Fold,
    goal: Goal,
    watch: Watch,
    rounds: int | None,
    prices: FloatArray | None,
    *,
    may_end_early: bool = False,
) -> Planner:
    """Make the planner of a session.

    Args:
        rounds: the number of rounds; None if each call is chosen by all answers so far.
        prices: of the judges, see :class:`Setup`.
        may_end_early: see :class:`Planner`.

    Raises:
        RunError: more calls are spent than the budget, as beside an older copy of the manifest.
    """
    manifest, space, repeats = store.manifest, store.space, watch.repeats
    spent, budget = fold.arms.spent, manifest.budget if manifest.budget_usd is None else None
    if budget is not None and spent > budget:
        raise RunError(
            f"{store.path}: {spent:,} calls are spent, but its budget in {FILE} is {budget:,}: that file is an older copy. "
            f"Restore the newest one, or go on with robin resume {typed(store.path)} --budget {spent} or more"
        )
    reopen_arms(fold.writable, space.judge, fold.set_aside)
    policy = goal.policy(manifest.own_settings, manifest.budget, store.variances, prices)
    if policy.refits and fold.fitted:  # on the ratings of its last fit, as if it never stopped
        policy = policy.fitted(*fold.fitted)
    looked, depth = 0, None
    if rounds is not None:
        most = None if repeats is None else repeats.first
        warm_up = 1 if policy.evenly and watch.may_end_early else policy.warm_up
        depth = first_depth(manifest.budget, len(space), max(1, rounds), warm_up=warm_up, most=most)
    elif watch.verdicts is not None:
        looked = look_again(store, fold, goal, watch.verdicts)
    return Planner(
        fold.writable,
        policy,
        budget=budget,
        judge=space.judge,
        watch=watch,
        round_depth=depth,
        first_fit=space.first_fit,
        together=space.together,
        looked=looked,
        may_end_early=may_end_early,
        first_visit=1 if any(manifest.expected) else goal.first_visit,
    )


def reopen_arms(arms: WritableArms, judge: Coordinates, failed: Sequence[int] = ()) -> None:
    """Reopen arms that were given up, perhaps by the judge's fault: the ``failed`` ones, and all of a judge that rated none."""
    is_rated = np.bincount(judge, weights=arms.columns.n) > 0
    streak = arms.columns.streak
    streak[(streak >= RETIRE_AFTER) & ~is_rated[judge]] = 0
    streak[list(failed)] = 0


def look_again(store: RunWriter, fold: Fold, goal: Goal, verdicts: RunVerdicts) -> int:
    """Repeat the last look at the decisions with the answers of that time, so that the run goes on as if it had not stopped.

    Returns:
        The calls that were spent at that time; 0 if there was no look, or if there are too many answers to read them again.
    """
    space, looked = store.space, looks_at(len(store.space)).until(fold.arms.spent)
    if not looked or fold.judgments > _MOST_READ_AGAIN:
        return 0
    arms, tables = zip(*judgments_by_arm(store.path, space, COUNTED), strict=True)
    arm, judgments = np.concatenate(arms), pa.concat_tables(tables)
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
