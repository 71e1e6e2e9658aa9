"""``robin runs``: the runs in a folder, and where each stands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.errors import RunError, StorageError
from robin_cli.output.text import plain
from robin_cli.runs.manifest import FILE, read_manifest
from robin_cli.runs.reading import count_answers, is_locked

_UNREADABLE = "damaged"


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """A few facts about every run in ``folder``, the oldest first, as JSON values; without reading their answers' texts.

    A run that cannot be read is listed with the state "damaged", and ``error`` says why.
    """
    found = [_facts(path.parent) for path in sorted(folder.glob(f"*/{FILE}"))]
    return sorted(found, key=lambda facts: str(facts.get("created_at", "")))


def print_runs(runs: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print what :func:`runs_in` found: a table, or a JSON object a line."""
    if as_json:
        sys.stdout.buffer.write(b"".join(orjson.dumps(run) + b"\n" for run in runs))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("judge")
    for run in runs:
        calls, judge = "", run.get("error", "")
        if run["state"] != _UNREADABLE:
            calls = f"{run['spent']:,} of {run['budget']:,}"
            judge = f"{run['judge']}, {run['scheduler']}"
        table.add_row(*(Text(plain(cell, keep="")) for cell in (run["run"], run["state"], calls, judge)))
    Console().print(table)


def _facts(path: Path) -> dict[str, Any]:
    try:
        working = is_locked(path)
        manifest = read_manifest(path)
        spent, ratings = count_answers(path)
    except (RunError, StorageError) as error:
        return {"run": str(path), "state": _UNREADABLE, "error": str(error)}
    return {
        "run": str(path),
        "state": "working" if working else "finished" if spent >= manifest.budget else "stopped",
        "spent": spent,
        "budget": manifest.budget,
        "ratings": ratings,
        "pairs": manifest.data["pairs"],
        "attributes": list(manifest.attributes),
        "judge": manifest.settings["model"],
        "scheduler": manifest.settings["scheduler"],
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
    }
