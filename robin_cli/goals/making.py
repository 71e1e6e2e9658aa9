"""The goal of a run, from settings or from what its manifest records. Nothing else decides what a run is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from robin_cli.datasets.pair_table import PairTable
from robin_cli.goals.base import Goal
from robin_cli.goals.best import BestByComparisons, BestByRatings
from robin_cli.goals.compare import Compare
from robin_cli.goals.estimate import Estimate
from robin_cli.goals.preferring import Preferring
from robin_cli.goals.rank import Rank
from robin_cli.goals.threshold import Threshold
from robin_cli.model.decision import decision_of
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import check_groups, numbered
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, Pair, as_text
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, check_systems, systems_of
from robin_cli.model.task import Task, task_of
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData
from robin_cli.storage.store import RunStore

Notify = Callable[[str], None]

_COLUMNS_SHOWN = 12


def goal_of(
    space: ArmSpace,
    objective: str,
    *,
    task: Task | None = None,
    systems: Systems | None = None,
    matches: Matches | None,
) -> Goal:
    """Return the goal of a run over the arms of ``space``.

    Args:
        task: what is to be decided by ratings; None where nothing is.
        systems: what is to be compared by ratings; None where nothing is.
        matches: what the comparisons of a pairwise run are of; None where the run rates.
    """
    if matches is not None:
        kind = BestByComparisons if matches.wants_best else Rank if matches.ranks_systems else Preferring
        return kind(space, matches)
    if task is not None:
        return (BestByRatings if task.decision.is_best else Threshold)(space, task)
    return Estimate(space, objective) if systems is None else Compare(space, systems)


def goal_of_store(store: RunStore) -> Goal:
    """Return the goal of an open run. StorageError where its data cannot be read."""
    return goal_of(
        store.space, _objective(store.manifest), task=store.task, systems=store.systems, matches=store.matches
    )


def goal_of_run(run: RunData) -> Goal:
    """Return the goal of a run that was read. StorageError where its data cannot be read."""
    return goal_of(run.space, _objective(run.manifest), task=run.task, systems=run.systems, matches=run.matches)


def _objective(manifest: Manifest) -> str:
    return str(manifest.own_settings["objective"])


def wanted_goal(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Goal:
    """Return the goal that ``settings`` name.

    Args:
        notify: is told what a user should know of the data: prompts that one system alone answered, groups of one.

    Raises:
        InputError: what cannot be decided or compared with these data.
    """
    matches = None
    if settings.pairwise:
        matches = matches_of(space, pairs, settings.seed, wants_best=settings.decide is not None)
    return goal_of(
        space,
        settings.wanted_objective,
        task=_wanted_task(settings, space, pairs, notify),
        systems=wanted_systems(settings, space, pairs, notify),
        matches=matches,
    )


def _wanted_task(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Task | None:
    if settings.decide is None or settings.pairwise:
        return None
    decision = decision_of(
        settings.decide, space.attributes, space.scales, margin=settings.margin, error_rate=settings.error_rate
    )
    if settings.group is not None and not decision.is_best:
        raise InputError("--group: is for --decide best; thresholds are for each pair by itself")
    task = task_of(decision, space, lambda: PairTable.of(pairs).groups)
    if task is not None and task.group is not None:
        if said := check_groups(task.group, settings.group):
            notify(f"{said}: they are asked no more than twice")
        _ = task.contests  # refuses groups that are too large
    return task


def wanted_systems(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Systems | None:
    """Return the systems that ``settings`` want compared; None where nothing is.

    Args:
        notify: is told of prompts that one system alone answered.

    Raises:
        InputError: what cannot be compared, or not so.
    """
    if settings.objective != COMPARE:
        return None
    compare = f"--objective {COMPARE}"
    if settings.target_error is not None:
        raise InputError(
            f"{compare}: not with {TABLE['target_error'].flag}, at which calls go where a score is least certain; leave one of "
            "the two out"
        )
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"{compare}: not with --mode {settings.mode}, whose guarantee is that of scores; leave one of the two out"
        )
    table = PairTable.of(pairs)
    found = table.systems
    if unsaid := [pair_id for pair_id, value in zip(table.ids, found, strict=True) if value is None]:
        raise InputError(_without_system(compare, pairs, unsaid))
    system, names = numbered(as_text(value) for value in found if value is not None)
    systems = systems_of(space, system, names, *table.prompts, settings.seed)
    if said := check_systems(systems):
        notify(f"{compare}: {said}")
    return systems


def _without_system(compare: str, pairs: Sequence[Pair], unsaid: Sequence[str]) -> str:
    """What is said where some pairs, or all, do not say which system answered."""
    if len(unsaid) < len(pairs):
        return (
            f"{compare}: {len(unsaid):,} of {len(pairs):,} pairs do not say which system answered, the first is "
            f'{shown(unsaid[0])}; give them a "{SYSTEM_COLUMN}", or leave them out'
        )
    known = sorted({name for pair in pairs for name in pair.columns})
    listed = ", ".join(map(shown, known[:_COLUMNS_SHOWN])) + ", …" * (len(known) > _COLUMNS_SHOWN)
    there = f"it also has {listed}" if known else "it has no further columns"
    return (
        f"{compare}: the data does not say which system answered ({there}); name the column that does: --columns "
        f"{SYSTEM_COLUMN}=NAME"
    )
