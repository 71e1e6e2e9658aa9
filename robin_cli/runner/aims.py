"""What a run is to reach beyond its scores: decisions, a comparison of systems, an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from robin_cli.datasets.pair_table import PairTable
from robin_cli.model.decision import MARGIN, decision_of
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import check_groups, numbered
from robin_cli.model.records import (
    COMPARE,
    SYSTEM_COLUMN,
    Pair,
    Scale,
    as_text,
    shared_scale,
    things_rated,
)
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import FEWEST_PROMPTS, Systems, check_systems, systems_of
from robin_cli.model.task import Task, task_of
from robin_cli.runner.pairwise import check_pairwise
from robin_cli.settings.table import TABLE, Settings

Notify = Callable[[str], None]

_COLUMNS_SHOWN = 12


def check_together(settings: Settings) -> None:
    """InputError for settings that do not go together, or say how another is meant that is not given: they would do nothing."""
    check_pairwise(settings)
    if settings.tier_fallback and settings.service_tier is None:
        raise InputError(
            "--tier-fallback: says what to do where a --service-tier has no room, and none is given; give one"
        )
    if settings.rounds != TABLE["rounds"].default and not settings.in_rounds:
        raise InputError(
            "--rounds: says in how many --batch or --batch-files asks; give one of the two, or leave it out"
        )


def wanted_task(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Task | None:
    """What ``settings`` want decided of ``pairs``; None where nothing is.

    Args:
        notify: is told of groups in which there is nothing to choose.

    Raises:
        InputError: what cannot be decided.
    """
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
    """The systems that ``settings`` want compared; None where nothing is.

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


def told_margin(task: Task) -> float | None:
    """The margin as it is recorded: None for what it is if nothing is said."""
    margins = task.decision.margins
    usual = [MARGIN * (scale.high - scale.low) for scale in task.space.scales]
    return None if np.allclose(margins, usual, rtol=1e-9, atol=0.0) else margins[0]


def check_target(settings: Settings, scales: Sequence[Scale]) -> None:
    """InputError where the error to stop at is none that there can be on ``scales``, or there is none to be guaranteed."""
    if settings.target_error is not None:
        check_error("--target-error", settings.target_error, scales)
    elif settings.guaranteed:
        raise InputError("--guaranteed: says how --target-error is meant, and there is none; give one, or leave it out")


def check_error(flag: str, error: float, scales: Sequence[Scale]) -> None:
    """InputError, naming ``flag``, for an ``error`` that no score on these scales could be off by, or that all are within."""
    scale = shared_scale(scales)
    width = 1 if scale is None else scale.high - scale.low
    if not 0 < error < width:
        unit = (
            "a share of each attribute's scale, for there are several"
            if scale is None
            else f"in points of the scale {scale}"
        )
        raise InputError(f"{flag} {error:g}: is {unit}, so above 0 and below {width}")


def check_reach(
    budget: int, pairs: int, attributes: Sequence[str], judges: int, systems: Systems | None = None
) -> None:
    """InputError if ``budget`` does not reach every arm once, or, where systems are compared, prompts enough."""
    if systems is not None:
        if budget < (least := systems.calls_for(FEWEST_PROMPTS)):
            raise InputError(
                f"--budget {budget}: does not reach all responses to {FEWEST_PROMPTS} prompts, the fewest that systems are "
                f"compared on; raise it to {least} or more"
            )
        return
    arms_per_pair = len(attributes) * judges
    arms = pairs * arms_per_pair
    if budget < arms:
        what = things_rated(arms, len(attributes), judges)
        raise InputError(
            f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {arms} or more, or take fewer pairs "
            f"with --limit {max(1, budget // arms_per_pair)}"
        )
