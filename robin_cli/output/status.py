"""``robin status``: where a run stands, for people and for scripts."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pyarrow.compute as pc
from rich.console import Console

from robin_cli.output.scores import score
from robin_cli.output.table import judged_by, print_facts
from robin_cli.runs.store import RunData, is_locked, read_run
from robin_cli.statistics.intervals import ALPHA


def status_of(path: Path) -> dict[str, Any]:
    """Facts about the run at ``path``, by name; every value is JSON.

    Raises:
        RunError, StorageError: it cannot be read.
    """
    working = is_locked(path)
    run = read_run(path)
    arms = run.fold()
    scores = score(run)
    manifest = run.manifest
    last = manifest.sessions[-1] if manifest.sessions else {}
    return {
        "run": str(path),
        "state": "working" if working else "finished" if arms.spent >= manifest.budget else "stopped",
        "budget": manifest.budget,
        "spent": arms.spent,
        "ratings": int(arms.counts.sum()),
        "unparsed": _reasons(run, "unparsed"),
        "failed": _reasons(run, "failed"),
        "in_flight_at_stop": None if working else last.get("in_flight"),
        "pairs": len(run.pairs),
        "attributes": list(manifest.attributes),
        "arms": len(arms),
        "arms_without_rating": int((arms.counts == 0).sum()),
        "arms_retired": int(arms.retired_mask.sum()),
        "error_bound": scores.error_bound,
        "error_bound_confidence": 1 - ALPHA,
        "prompt_tokens": pc.sum(run.judgments["prompt_tokens"]).as_py() or 0,
        "completion_tokens": pc.sum(run.judgments["completion_tokens"]).as_py() or 0,
        "scheduler": manifest.settings["scheduler"],
        "judge": judged_by(manifest),
        "model": manifest.settings["model"],
        "base_url": last.get("base_url", manifest.settings["base_url"]),
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
        "sessions": len(manifest.sessions),
    }


def print_status(facts: dict[str, Any], *, as_json: bool) -> None:
    """Print what :func:`status_of` found."""
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(facts, option=orjson.OPT_INDENT_2) + b"\n")
        return
    scale_note = f"at {facts['error_bound_confidence']:.0%} confidence, for all {facts['arms']:,} scores at once"
    in_flight = facts["in_flight_at_stop"]
    lines = {
        "run": facts["run"],
        "state": facts["state"],
        "budget": f"{facts['spent']:,} of {facts['budget']:,} calls spent",
        "ratings": f"{facts['ratings']:,}",
        "without a rating": _listed(facts["unparsed"]),
        "failed calls": _listed(facts["failed"]),
        "in flight at stop": "unknown: it was killed, or is new" if in_flight is None else str(in_flight),
        "arms": f"{facts['arms']:,} ({facts['pairs']:,} pairs × {', '.join(facts['attributes'])}), "
        f"{facts['arms_without_rating']:,} without a rating, {facts['arms_retired']:,} given up",
        "error bound": f"no score is further than {facts['error_bound']:.2f} from the judge's mean ({scale_note})",
        "tokens": f"{facts['prompt_tokens']:,} in, {facts['completion_tokens']:,} out",
        "judge": f"{facts['judge']}, at {facts['base_url']}",
        "data": facts["data"],
        "made": f"{facts['created_at']}, {facts['sessions']} sessions",
    }
    if facts["state"] == "working":
        del lines["in flight at stop"]
    if facts["state"] == "stopped":
        lines["to go on"] = f"robin resume {facts['run']}"
    print_facts(Console(soft_wrap=True), lines)


def _reasons(run: RunData, status: str) -> dict[str, int]:
    rows = run.judgments.filter(pc.equal(run.judgments["status"], status))
    return dict(sorted(Counter(rows["reason"].to_pylist()).items()))


def _listed(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items()) or "none"
