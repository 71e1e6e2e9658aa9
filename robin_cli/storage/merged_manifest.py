"""The manifest of a run of shards: what their manifests say, as of one run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from robin_cli.model.errors import InputError
from robin_cli.storage.manifest import REACHED, Manifest, library_versions, now
from robin_cli.storage.shards import Shard

_MOST_CALLS = 10**9
_MOST_ARMS = 10**8
_NAMED = 3


def manifest_of(shards: Sequence[Shard], notes: list[str]) -> Manifest:
    """The manifest of the run that ``shards`` make together; InputError where they are more than a run can be."""
    each = [shard.manifest for shard in shards]
    first = each[0]
    pairs = sum(len(shard.pair_ids) for shard in shards)
    if (arms := pairs * len(first.attributes) * len(first.judges)) > _MOST_ARMS:
        raise InputError(
            f"these runs make {arms:,} pairs × attributes × judges together, and a run has at most {_MOST_ARMS:,}"
        )
    budget = sum(manifest.budget for manifest in each)
    if first.budget_usd is None and budget > _MOST_CALLS:
        raise InputError(
            f"these runs have a budget of {budget:,} calls together, and a run has at most {_MOST_CALLS:,}"
        )
    budget_usd = sum(manifest.budget_usd or 0.0 for manifest in each) if first.budget_usd is not None else None
    variances = list(dict.fromkeys(str(manifest.settings.get("variances")) for manifest in each))
    settings = {**first.settings, "limit": None}
    if first.settings.get("variances") is not None:
        settings["variances"] = ", ".join(variances)
    merged = replace(
        first,
        settings=settings,
        budget=min(budget, _MOST_CALLS),
        budget_usd=budget_usd,
        data=_data(shards),
        sessions=tuple(
            sorted(
                (session for manifest in each for session in manifest.sessions),
                key=lambda each: str(each["started_at"]),
            )
        ),
        created_at=now(),
        versions=library_versions(),
        format=max(manifest.format for manifest in each),
    )
    return merged.with_last_session(**_last_session(each, budget_usd, notes))


def _last_session(each: Sequence[Manifest], budget_usd: float | None, notes: list[str]) -> dict[str, Any]:
    """What the last session of all is to say of where the runs were left, and of what holds of all when they go on."""
    last = [manifest.sessions[-1] if manifest.sessions else {} for manifest in each]
    in_flight = [session.get("in_flight") for session in last if session]
    said: dict[str, Any] = {"in_flight": None if None in in_flight else sum(filter(None, in_flight))}
    reached = all(manifest.money_reached for manifest in each)
    if budget_usd is not None:
        said[REACHED] = budget_usd if reached else 0.0
    limits = [session.get("max_cost") for session in last]
    said["max_cost"] = None if None in limits else sum(filter(None, limits))
    if said["max_cost"] is None and any(limits):
        notes.append(
            "--max-cost: some of the runs had one and others had none, so the merged run has none; robin resume takes one"
        )
    aims = [(session.get("target_error"), bool(session.get("guaranteed"))) for session in last]
    if any(aim != aims[0] for aim in aims):
        notes.append(
            "--target-error: the runs were to stop at different errors, so the merged run has none; robin resume takes one"
        )
        said |= {"target_error": None, "guaranteed": False}
    return said


def _data(shards: Sequence[Shard]) -> dict[str, Any]:
    """What is said of the data of all shards, as of one data set of all their files."""
    each = [shard.manifest.data for shard in shards]
    of_files = [(shard, str(name), str(digest)) for shard in shards for name, digest in _files(shard.manifest)]
    digests = Counter(name for name, _ in {(name, digest) for _, name, digest in of_files})
    # On two machines two files may have one name, which says nothing of either here.
    files = [[name if digests[name] == 1 else f"{shard.path}: {name}", digest] for shard, name, digest in of_files]
    names = [name for name, _ in files]
    left_out: Counter[str] = Counter()
    for data in each:
        left_out.update(data.get("left_out", {}))
    hashes = [_whole(shard.manifest, digest) for shard, _, digest in of_files]
    skipped = sum(data.get("skipped", 0) for data in each)
    columns = each[0].get("columns", {})
    found: dict[str, Any] = {
        "source": ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""),
        "sha256": hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest(),
        "pairs": sum(len(shard.pair_ids) for shard in shards),
        "skipped": skipped,
        "files": files,
        "rescued": sum(shard.manifest.rescued for shard in shards),
        "shards": [_shard_entry(shard) for shard in shards],
    }
    if skipped:
        found["left_out"] = dict(left_out.most_common())
        found["first_left_out"] = [said for data in each for said in data.get("first_left_out", ())][:_NAMED]
    if all(data.get("columns", {}) == columns for data in each):
        found["columns"] = dict(columns)
    if all(data.get("scheduler_asked") for data in each):
        found["scheduler_asked"] = each[0]["scheduler_asked"]
    return found


def _files(manifest: Manifest) -> Sequence[tuple[str, str]]:
    return manifest.data.get("files") or [(manifest.data["source"], manifest.data["sha256"])]


def _whole(manifest: Manifest, digest: str) -> str:
    """The digest of a file; another where not all of it was taken, so that all of it is not taken for the same data."""
    limit = manifest.settings.get("limit")
    return digest if limit is None else hashlib.sha256(f"{digest} {limit}".encode()).hexdigest()


def _shard_entry(shard: Shard) -> dict[str, Any]:
    """What stays known of a shard."""
    manifest, data = shard.manifest, shard.manifest.data
    return {
        "run": str(shard.path),
        "run_id": manifest.run_id,
        "source": data["source"],
        "sha256": data["sha256"],
        "pairs": len(shard.pair_ids),
        "budget": manifest.budget,
        "budget_usd": manifest.budget_usd,
        "created_at": manifest.created_at,
        "versions": dict(manifest.versions),
    }
