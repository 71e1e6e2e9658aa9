"""``robin runs``: the runs in a folder, and the state of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robin_cli.goals.registry import goal_of_run
from robin_cli.model.errors import InputError, RunError, StorageError
from robin_cli.run.batches import read_batches
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import FILE, Manifest, read_manifest
from robin_cli.run.reader import count_answers, read_run
from robin_cli.show.columns import RUNS
from robin_cli.show.status import state_of
from robin_cli.show.tables import Table
from robin_cli.show.words import dollars

_UNREADABLE = "damaged"


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Return a few facts about every run in ``folder``, the oldest first, as JSON values; without the answers' texts.

    A run that cannot be read is listed with the state "damaged", and ``error`` says why.
    """
    found = [_facts(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))]
    return sorted(found, key=lambda facts: str(facts.get("created_at", "")))


def newest_unfinished() -> Path:
    """Return the newest run in ``runs/`` that can go on. InputError if there is none."""
    for run in reversed(runs_in(Path("runs"))):
        if run["state"] in {"stopped", "waiting"}:
            return Path(run["run"])
    raise InputError(
        "no run is named, and runs/ holds no unfinished one; name a run, with a larger --budget if it is finished"
    )


def run_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Return the runs of :func:`runs_in` as a table."""
    values: dict[str, list[Any]] = {name: [run.get(name) for run in runs] for name in RUNS.columns}
    values["attributes"] = [", ".join(run.get("attributes", ())) for run in runs]
    values["calls"] = [_calls(run) for run in runs]
    values["by"] = [run.get("error") or f"{run['judge']}, {run['scheduler']}" for run in runs]
    return RUNS.with_values(values)


def _calls(run: Mapping[str, Any]) -> str:
    if run["state"] == _UNREADABLE:
        return ""
    of = (
        f"of {run['budget']:,}"
        if run["budget"] is not None
        else f"for {dollars(run['budget_usd'])}"
    )
    return f"{run['spent']:,} {of}"


def _facts(path: Path) -> dict[str, Any]:
    try:
        working = is_locked(path)
        manifest = read_manifest(path)
        spent, ratings = count_answers(path)
        waits = any(each.is_open for each in read_batches(path).values())
        state = (
            "waiting"
            if waits and not working
            else _state_at(path, manifest, spent, working=working)
        )
    except (RunError, StorageError, TypeError, KeyError, ValueError) as error:
        return {"run": str(path), "state": _UNREADABLE, "error": str(error)}
    return {
        "run": str(path),
        "state": state,
        "spent": spent,
        "budget": None if manifest.budget_usd is not None else manifest.budget,
        "budget_usd": manifest.budget_usd,
        "ratings": ratings,
        "pairs": manifest.data["pairs"],
        "attributes": list(manifest.attributes),
        "judge": ", ".join(manifest.judges),
        "scheduler": manifest.settings["scheduler"],
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
    }


def _state_at(path: Path, manifest: Manifest, spent: int, *, working: bool) -> str:
    """Return a run's state; its answers are read only if they decide whether it ended before its budget."""
    may_end = (
        not manifest.repeat_anyway
        or manifest.last_session.get("target_error") is not None
        or manifest.decision is not None
    )
    if working or manifest.is_spent(spent) or not may_end:
        return state_of(manifest, spent, is_over=False, working=working)
    run = read_run(path)
    return state_of(
        manifest, spent, is_over=goal_of_run(run).result(run).is_finished, working=working
    )
