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
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import check_groups
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, Pair
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import check_systems
from robin_cli.questions.inquiry import Inquiry
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.reader import RunData
from robin_cli.storage.store import RunStore

Notify = Callable[[str], None]

_COLUMNS_SHOWN = 12


def goal_of(inquiry: Inquiry, objective: str) -> Goal:
    """Return the goal of a run with this ``inquiry``; ``objective``: of a run that decides, compares and prefers nothing."""
    space = inquiry.space
    if (matches := inquiry.matches) is not None:
        kind = BestByComparisons if matches.wants_best else Rank if matches.ranks_systems else Preferring
        return kind(space, matches)
    if (task := inquiry.task) is not None:
        return (BestByRatings if task.decision.is_best else Threshold)(space, task)
    return Estimate(space, objective) if (systems := inquiry.systems) is None else Compare(space, systems)


def goal_of_run(run: RunData | RunStore) -> Goal:
    """Return the goal of a run that is open, or was read. StorageError where its data cannot be read."""
    return goal_of(run.inquiry, str(run.manifest.own_settings["objective"]))


def wanted_goal(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Goal:
    """Return the goal that ``settings`` name.

    Args:
        notify: is told what a user should know of the data: prompts that one system alone answered, groups of one.

    Raises:
        InputError: what cannot be decided or compared with these data.
    """
    names = ("pairwise", "objective", "decide", "margin", "error_rate")
    inquiry = Inquiry(space, PairTable.of(pairs), {name: getattr(settings, name) for name in names}, settings.seed)
    if (task := inquiry.task) is not None:
        if settings.group is not None and not task.decision.is_best:
            raise InputError("--group: is for --decide best; thresholds are for each pair by itself")
        if task.group is not None and (said := check_groups(task.group, settings.group)):
            notify(f"{said}: they are asked no more than twice")
        _ = task.contests  # refuses groups that are too large
    if settings.objective == COMPARE:
        _check_compared(settings, inquiry, notify)
    return goal_of(inquiry, settings.wanted_objective)


def _check_compared(settings: Settings, inquiry: Inquiry, notify: Notify) -> None:
    """InputError where the systems of the data cannot be compared, or not so."""
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
    pairs = inquiry.pairs
    if unsaid := [pair_id for pair_id, value in zip(pairs.ids, pairs.systems, strict=True) if value is None]:
        raise InputError(_without_system(compare, pairs, unsaid))
    if inquiry.systems is not None and (said := check_systems(inquiry.systems)):
        notify(f"{compare}: {said}")


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
