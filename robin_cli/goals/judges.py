"""What each judge of a run was asked, and what that cost: a part of the facts of every goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.model.records import MODEL_PREFIX
from robin_cli.results.words import cost
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData


def asked_of(run: RunData, judge: str) -> dict[str, Any]:
    """The calls of a judge, its ratings and its money."""
    place, arms = run.space.judges.index(judge), run.fold.arms
    mine = run.space.judge == place
    ratings, spent = int(arms.counts[mine].sum()), run.fold.spending(place)
    return {
        "judge": judge,
        "spent": ratings + int(arms.unparsed[mine].sum()),
        "ratings": ratings,
        "cost_usd": spent.exact_usd,
        "cost_usd_at_least": spent.cost_usd,
    }


def cost_of(facts: Mapping[str, Any]) -> str:
    """Write the money of a run, or of one of its judges, as its facts have it."""
    return cost(facts["cost_usd_at_least"], complete=facts["cost_usd"] is not None)


def judged_by(manifest: Manifest) -> str:
    """Return who gave the ratings; it says where nobody read the responses."""
    replay = " (recorded ratings, replayed: no model read these responses)"
    replays = [judge.startswith(MODEL_PREFIX) for judge in manifest.judges]
    if all(replays):
        judges = ", ".join(manifest.judges) + replay
    else:
        judges = ", ".join(judge + replay * is_one for judge, is_one in zip(manifest.judges, replays, strict=True))
    settings = manifest.settings
    return f"{judges}, {settings['scheduler']}, temperature {settings['temperature']:g}"
