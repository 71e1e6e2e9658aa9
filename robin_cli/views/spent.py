"""What a run cost, who judged, and what it is of: a part of its status, as facts and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from robin_cli.goals.judges import cost_of, judged_by
from robin_cli.model.records import BATCH, number_of, tier_of
from robin_cli.policies.registry import traits_of
from robin_cli.results.words import dollars, tiers_text, tokens_text
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData


def spent_by(run: RunData) -> dict[str, Any]:
    """The facts of what a run cost, who judged, and what it is of."""
    arms, manifest, spent = run.fold.arms, run.manifest, run.fold.spending()
    last = manifest.sessions[-1] if manifest.sessions else {}
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cached_share": spent.cached_share,
        "service_tier": _tier_asked(manifest, last),
        "answers_at_tier": spent.at_tier,
        # An endpoint that does not tell the tier was asked at the normal one, where no other is recorded.
        "answers_at_normal_tier": max(spent.at_normal_tier, arms.spent - spent.at_tier)
        if spent.at_tier
        else spent.at_normal_tier,
        "cost_usd": spent.exact_usd,
        "cost_usd_at_least": spent.cost_usd,
        "max_cost_usd": last.get("max_cost"),
        "usage_estimated": pc.sum(run.judgments["usage_estimated"]).as_py() or 0,
        "scheduler": manifest.settings["scheduler"],
        "variances_from": _variances_from(manifest),
        "judge": judged_by(manifest),
        "model": ", ".join(manifest.judges),
        "base_url": _addresses(manifest),
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
        "sessions": len(manifest.sessions),
    }


def _tier_asked(manifest: Manifest, last: Mapping[str, Any]) -> str | None:
    """The service tier that the last session with one asked for; None for the normal one."""
    own = manifest.settings.get("extra_body", {}).get("service_tier")
    for session in (last, *reversed(manifest.sessions)):
        asked = BATCH if session.get("batch") else own or session.get("service_tier")
        if (tier := tier_of(None if asked is None else str(asked))) is not None:
            return tier
    return None


def _addresses(manifest: Manifest) -> list[str]:
    """Where its judges were asked last; nowhere, where they are functions or a package's."""
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    addresses = (
        [url for judge in judges_of(settings) for url in judge.base_urls]
        if settings.at_endpoints and settings.sends
        else []
    )
    return list(dict.fromkeys(addresses))


def _variances_from(manifest: Manifest) -> str | None:
    """The run or pool whose variances the scheduler began with; None for a run that began with none."""
    return None if traits_of(manifest.settings["scheduler"]).evenly else manifest.settings.get("variances")


def tokens_of(facts: Mapping[str, Any]) -> str:
    """The tokens of the status of a run, in words."""
    tokens = tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"])
    return "; ".join([tokens, *tier_line(facts).values()])


def spent_of_budget(facts: Mapping[str, Any]) -> tuple[str, str]:
    """How much of the budget in the status of a run, and that it is spent."""
    if facts["budget_usd"] is None:
        return f"{facts['spent']:,} of {number_of(facts['budget'], 'call')}", "spent"
    known = dollars(0) if facts["cost_usd_at_least"] is None else cost_of(facts)
    return f"{known} of {dollars(facts['budget_usd'])}", f"spent in {number_of(facts['spent'], 'call')}"


def tier_line(facts: Mapping[str, Any]) -> dict[str, str]:
    text = tiers_text(facts["answers_at_tier"], facts["answers_at_normal_tier"], facts["service_tier"])
    return {"service tier": text} if text else {}


def cost_line(facts: Mapping[str, Any]) -> str:
    limit = facts["max_cost_usd"]
    of = f" of {dollars(limit)} (--max-cost)" if limit else ""
    if facts["cost_usd_at_least"] is None:
        return "unknown: no price (--price-in, --price-out)" if facts["spent"] else f"no answer yet{of}"
    return cost_of(facts) + of + ("" if facts["cost_usd"] is not None else "; of some answers no price is known")


def warm_line(facts: Mapping[str, Any]) -> str:
    how = (
        "taken for the true ones"
        if traits_of(facts["scheduler"]).needs_variances
        else "a prior, outvoted as ratings come in"
    )
    return f"{facts['scheduler']} began with the variances of {facts['variances_from']} ({how})"
