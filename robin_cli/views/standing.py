"""Whether a run is finished: for its status, and for the list of all runs."""

from __future__ import annotations

from robin_cli.analysis.decisions import RunVerdicts
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.pairwise_decisions import run_best
from robin_cli.analysis.worst_error import Aim, error_bound, estimated_error
from robin_cli.storage.fold import counts_by_scale
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData


def state_of(
    manifest: Manifest, spent: int, aim: Aim | None, *, is_decided: bool, working: bool, waits: bool = False
) -> str:
    """The state of a run in a word.

    Args:
        is_decided: all that it was to decide.
        working: a process is at work on it.
        waits: there are batches of it that may still be answered.
    """
    if working:
        return "working"
    if waits:
        return "waiting"
    is_over = manifest.is_spent(spent) or (aim is not None and aim.reached) or is_decided
    return "finished" if is_over else "stopped"


def aim_of(run: RunData, bound: float | None = None) -> Aim | None:
    """The error that the last session of ``run`` was to stop at, and how its scores stand to it; None for none.

    Args:
        bound: the error bound of its scores, where it is known already.
    """
    last, space, arms = run.manifest.last_session, run.space, run.fold.arms
    if (error := last.get("target_error")) is None:
        return None
    if not (guaranteed := last.get("guaranteed", False)):
        now = estimated_error(space, arms)
    elif bound is not None:
        now = bound
    else:
        now = error_bound(space, arms, counts_by_scale(space, run.arm, run.judgments))
    return Aim(error, guaranteed, now, space.has_several_scales)


def is_decided(run: RunData) -> bool:
    """Whether all that ``run`` was to decide is decided; not where it was to decide nothing."""
    if run.matches is not None and run.matches.wants_best:
        return run_best(run).is_over
    if run.task is None:
        return False
    verdicts = RunVerdicts(run.task, LevelCounts.of(run))
    verdicts.look(run.fold.arms)
    return verdicts.all_decided
