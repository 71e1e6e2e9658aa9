"""``robin status``: where a run stands, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_of_ratings
from robin_cli.goals.found import Found
from robin_cli.goals.judges import cost_of, judged_by
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.tables.summary import LabelsFile, given_labels
from robin_cli.model.errors import typed
from robin_cli.model.records import BATCH, GivenLabels, counted, number_of, tier_of
from robin_cli.policies.registry import traits_of
from robin_cli.results.words import dollars, tiers_text, tokens_text
from robin_cli.runner.in_files import command
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.settings.trust import NO_KEY, Source, doubts, place_of_folder
from robin_cli.storage.batches import read_batches, requests_file
from robin_cli.storage.layout import REJECTED
from robin_cli.storage.locking import is_locked
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.pair_files import count_empty_responses
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.rescue import tally
from robin_cli.views.run_list import state_of

READ = ("status", "reason", "text_because", "usage_estimated")
"""The columns of judgments that the facts are of, beside those that are folded."""


@dataclass(frozen=True)
class Status:
    """Where a run stands.

    Attributes:
        found: what it says.
        facts: the object that ``robin status --json`` prints, by name; every value is JSON.
    """

    found: Found
    facts: dict[str, Any]

    @property
    def lines(self) -> dict[str, str]:
        """The facts in words, by name."""
        return _lines_of(self.facts, self.found)


def status_of(path: Path, *, labels: LabelsFile = None) -> Status:
    """Where the run at ``path`` stands.

    Args:
        labels: a file of people's labels; without one the human ratings of the data correct its means.

    Raises:
        RunError, StorageError: it cannot be read.
        InputError: the labels cannot be used.
    """
    working = is_locked(path)
    run = read_run(path, READ)
    if labels is not None:
        check_of_ratings(run, "--labels")
    return standing(run, working=working, given=given_labels(labels, run))


def standing(run: RunData, *, working: bool, given: GivenLabels | None = None) -> Status:
    """The status of a run that was read already; ``working``: a process is at work on it, ``given``: people's labels."""
    found = goal_of_run(run).found(run)
    of_work = _work_of(run, is_over=found.is_over, working=working)
    return Status(found, {**of_work, **found.facts(given), **_spent_by(run)})


def _work_of(run: RunData, *, is_over: bool, working: bool) -> dict[str, Any]:
    """The facts of how far a run came, and of its data; ``is_over``: its goal is reached."""
    arms, manifest, under_way = run.fold.arms, run.manifest, _under_way(run)
    return {
        "run": str(run.path),
        "pairwise": manifest.is_pairwise,
        "state": state_of(manifest, arms.spent, is_over=is_over, working=working, waits=bool(under_way)),
        "budget": manifest.budget,
        "budget_usd": manifest.budget_usd,
        "spent": arms.spent,
        "ratings": int(arms.counts.sum()),
        "unparsed": _reasons(run, "unparsed"),
        "scoring": manifest.scoring,
        "answer_format": manifest.answer_format,
        "rated_by_text": _counted(run.judgments["text_because"]),
        "failed": _reasons(run, "failed"),
        "rescued": tally(run.path, manifest),
        "repeated_judgments": run.fold.draws.set_aside,
        "in_flight_at_stop": None if working else _last(manifest).get("in_flight"),
        "under_way": under_way,
        "pairs": len(run.pair_ids),
        "rows_left_out": manifest.data.get("skipped", 0),
        "rows_left_out_because": manifest.data.get("left_out", {}),
        "rows_left_out_first": manifest.data.get("first_left_out", []),
        "empty_responses": count_empty_responses(run.path),
        "attributes": list(manifest.attributes),
        "arms": len(arms),
        "arms_without_rating": int((arms.counts == 0).sum()),
        "arms_retired": int(arms.retired_mask.sum()),
        "retired_reasons": dict(sorted(Counter(run.fold.reasons.values()).items())),
    }


def _spent_by(run: RunData) -> dict[str, Any]:
    """The facts of what a run cost, who judged, and what it is of."""
    arms, manifest, spent = run.fold.arms, run.manifest, run.fold.spending()
    last = _last(manifest)
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


def _last(manifest: Manifest) -> Mapping[str, Any]:
    """The last session; empty where there was none."""
    return manifest.sessions[-1] if manifest.sessions else {}


def _under_way(run: RunData) -> list[dict[str, Any]]:
    """The batches that may still be answered; for an engine without a service, the command that does it.

    No command writes into a folder that only a received run names: robin resume asks about that first.
    """
    found = []
    for each in read_batches(run.path).values():
        if each.is_open:
            file = requests_file(run.path, run.manifest.run_id, each)
            facts: dict[str, Any] = {"batch": each.batch_id, "judge": each.judge, "round": each.round}
            facts |= {"requests": each.requests, "state": each.state, "at": each.folder or each.url}
            facts["submitted_at"] = each.submitted_at or None
            is_named = each.folder and not doubts(Source(kind="run"), [(place_of_folder(each.folder), NO_KEY)])
            found.append({**facts, "command": command(file, each.judge) if is_named else None})
    return found


def _under_way_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is under way in words; nothing where nothing is."""
    told = []
    for each in facts["under_way"]:
        since = f", since {each['submitted_at']}" if each["submitted_at"] else ""
        place = f"at {each['at']}: {each['batch'] or each['state']}{since}"
        place = f"to be answered: {each['command']}" if each["command"] else place
        told.append(f"round {each['round']}, {number_of(each['requests'], 'request')} {place}")
    return {"under way" if len(told) == 1 else f"under way {number}": said for number, said in enumerate(told, 1)}


def _addresses(manifest: Manifest) -> list[str]:
    """Where its judges were asked last; nowhere, where they are functions or a package's."""
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    addresses = (
        [url for judge in judges_of(settings) for url in judge.base_urls]
        if settings.at_endpoints and settings.sends
        else []
    )
    return list(dict.fromkeys(addresses))


def _scoring_line(facts: Mapping[str, Any]) -> dict[str, str]:
    asked = {} if facts["answer_format"] == "text" else {"answer format": f"{facts['answer_format']}, as was asked for"}
    if facts["scoring"] == "text":
        return asked
    by_text = sum(facts["rated_by_text"].values())
    why = f"; {by_text:,} by their text: {counted(facts['rated_by_text'])}" if by_text else ""
    return asked | {"scoring": f"{facts['ratings'] - by_text:,} by log probabilities{why}"}


def _rescued_line(facts: Mapping[str, Any]) -> dict[str, str]:
    found = facts["rescued"]
    says = {
        "taken_back": "taken back",
        "set_aside": f"set aside in {facts['run']}/{REJECTED}",
        "waiting": f"waiting: robin resume {typed(facts['run'])} takes them back",
    }
    said = ", ".join(f"{found[name]:,} {words}" for name, words in says.items() if found[name])
    return {"rescued answers": said} if said else {}


def _row_lines(facts: Mapping[str, Any], goal: Goal) -> dict[str, str]:
    lines = {}
    if left_out := facts["rows_left_out"]:
        why = ", ".join(f"{count:,} {reason}" for reason, count in facts["rows_left_out_because"].items())
        first = f"; the first: {facts['rows_left_out_first'][0]}" if facts["rows_left_out_first"] else ""
        lines["rows left out"] = (
            f"{left_out:,}{f' ({why})' if why else ''}: the {goal.results} are of the {facts['pairs']:,} {goal.rows} that are "
            f"left, and say nothing of these{first}"
        )
    if facts["empty_responses"]:
        lines["empty responses"] = f"{facts['empty_responses']:,}, judged as they are"
    return lines


def tokens_of(facts: Mapping[str, Any]) -> str:
    """The tokens of :func:`status_of`, in words."""
    tokens = tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"])
    return "; ".join([tokens, *_tier_line(facts).values()])


def _lines_of(facts: Mapping[str, Any], found: Found) -> dict[str, str]:
    noun = found.goal.noun
    in_flight = facts["in_flight_at_stop"]
    lines = {
        "run": facts["run"],
        "state": facts["state"],
        "budget": " ".join(spent_of_budget(facts)),
        f"{noun}s": f"{facts['ratings']:,}",
        f"without a {noun}": counted(facts["unparsed"], noun) or "none",
        **_scoring_line(facts),
        "failed calls": counted(facts["failed"]) or "none",
        **_rescued_line(facts),
        **(
            {"repeated": f"{number_of(facts['repeated_judgments'], 'judgment')}, not counted"}
            if facts["repeated_judgments"]
            else {}
        ),
        **_row_lines(facts, found.goal),
        "in flight at stop": "unknown: it was killed, or is new" if in_flight is None else str(in_flight),
        **_under_way_lines(facts),
        **found.lines(facts),
        "given up": counted(facts["retired_reasons"], noun) or "none",
        "tokens": tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"], unit="")
        + (f" (of {number_of(facts['usage_estimated'], 'request')} estimated)" if facts["usage_estimated"] else ""),
        **_tier_line(facts),
        "cost": _cost_line(facts),
        **({} if facts["variances_from"] is None else {"warm start": _warm_line(facts)}),
        "judge": f"{facts['judge']}{', at ' if facts['base_url'] else ''}{', '.join(facts['base_url'])}",
        "data": facts["data"],
        "made": f"{facts['created_at']}, {facts['sessions']} session{'s' * (facts['sessions'] != 1)}",
    }
    if facts["state"] == "working":
        del lines["in flight at stop"]
    if facts["state"] in {"stopped", "waiting"}:
        limit, known = facts["max_cost_usd"], facts["cost_usd_at_least"]
        more = " --max-cost MORE" if limit and known and known > 0.9 * limit else ""
        lines["to go on"] = f"robin resume {typed(facts['run'])}{more}"
    return lines


def _tier_asked(manifest: Manifest, last: Mapping[str, Any]) -> str | None:
    """The service tier that the last session with one asked for; None for the normal one."""
    own = manifest.settings.get("extra_body", {}).get("service_tier")
    for session in (last, *reversed(manifest.sessions)):
        asked = BATCH if session.get("batch") else own or session.get("service_tier")
        if (tier := tier_of(None if asked is None else str(asked))) is not None:
            return tier
    return None


def _tier_line(facts: Mapping[str, Any]) -> dict[str, str]:
    text = tiers_text(facts["answers_at_tier"], facts["answers_at_normal_tier"], facts["service_tier"])
    return {"service tier": text} if text else {}


def spent_of_budget(facts: Mapping[str, Any]) -> tuple[str, str]:
    """How much of the budget in :func:`status_of`, and that it is spent."""
    if facts["budget_usd"] is None:
        return f"{facts['spent']:,} of {number_of(facts['budget'], 'call')}", "spent"
    known = dollars(0) if facts["cost_usd_at_least"] is None else cost_of(facts)
    return f"{known} of {dollars(facts['budget_usd'])}", f"spent in {number_of(facts['spent'], 'call')}"


def _variances_from(manifest: Manifest) -> str | None:
    """The run or pool whose variances the scheduler began with; None for a run that began with none."""
    return None if traits_of(manifest.settings["scheduler"]).evenly else manifest.settings.get("variances")


def _warm_line(facts: Mapping[str, Any]) -> str:
    how = (
        "taken for the true ones"
        if traits_of(facts["scheduler"]).needs_variances
        else "a prior, outvoted as ratings come in"
    )
    return f"{facts['scheduler']} began with the variances of {facts['variances_from']} ({how})"


def _reasons(run: RunData, status: str) -> dict[str, int]:
    return _counted(run.judgments.filter(pc.equal(run.judgments["status"], status))["reason"])


def _counted(reasons: pa.ChunkedArray) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in sorted(reasons.drop_null().value_counts().to_pylist(), key=str)}


def _cost_line(facts: Mapping[str, Any]) -> str:
    limit = facts["max_cost_usd"]
    of = f" of {dollars(limit)} (--max-cost)" if limit else ""
    if facts["cost_usd_at_least"] is None:
        return "unknown: no price (--price-in, --price-out)" if facts["spent"] else f"no answer yet{of}"
    return cost_of(facts) + of + ("" if facts["cost_usd"] is not None else "; of some answers no price is known")
