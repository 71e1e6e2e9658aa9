"""The scheduler of a run, and the planner of a session."""

from __future__ import annotations

from dataclasses import replace

from robin_cli.goals.base import Goal
from robin_cli.goals.watch import Watch
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError, RunError, typed
from robin_cli.policies.registry import Choice, chosen, policy_named
from robin_cli.run.fold import Fold
from robin_cli.run.manifest import FILE
from robin_cli.run.writer import RunWriter
from robin_cli.session.asking import reopen_arms
from robin_cli.session.looking_again import look_again
from robin_cli.session.planner import Planner
from robin_cli.session.round_sizes import first_depth
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE, Settings


def with_scheduler(settings: Settings, goal: Goal, budget: int) -> tuple[Settings, Choice | None]:
    """Return ``settings`` with the run's scheduler, and the choice if the scheduler named there only chooses one.

    Raises:
        InputError: settings that the scheduler refuses, or variances that it does not use.
    """
    of_run = {
        name: getattr(settings, name)
        for name, setting in TABLE.items()
        if setting.scope is Scope.RUN
    }
    choice = chosen(settings.scheduler, goal.setup(of_run, budget))
    if policy_named(settings.scheduler).asks_on:
        settings = replace(settings, repeat_anyway=True)
    settings = settings if choice is None else replace(settings, scheduler=choice.name)
    if settings.variances and not policy_named(settings.scheduler).needs_variances:
        raise InputError(
            f"--variances {settings.variances}: --scheduler {settings.scheduler} learns the variances from the run itself; "
            "leave --variances out, or take --scheduler robin, which knows them beforehand (robin plan takes --variances "
            "with every scheduler)"
        )
    return settings, choice


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
        stop=watch.stop,
        verdicts=watch.verdicts,
        decides=watch.decides,
        round_depth=depth,
        first_fit=space.first_fit,
        together=space.together,
        looked=looked,
        may_end_early=may_end_early,
        first_visit=1 if any(manifest.expected) else goal.first_visit,
        repeats=repeats,
    )
