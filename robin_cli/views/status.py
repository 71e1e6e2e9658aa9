"""``robin status``: where a run stands, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.checks import check_of_ratings
from robin_cli.goals.found import Found
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.tables.summary import LabelsFile, given_labels
from robin_cli.model.errors import typed
from robin_cli.model.records import GivenLabels, counted, number_of
from robin_cli.results.words import tokens_text
from robin_cli.storage.layout import REJECTED
from robin_cli.storage.locking import is_locked
from robin_cli.storage.pair_files import count_empty_responses
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.rescue import tally
from robin_cli.views.run_list import state_of
from robin_cli.views.spent import cost_line, spent_by, spent_of_budget, tier_line, warm_line
from robin_cli.views.under_way import under_way, under_way_lines

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

    @property
    def spent(self) -> tuple[str, str]:
        """How much of the budget, and that it is spent, in words."""
        return spent_of_budget(self.facts)


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
    return Status(found, {**of_work, **found.facts(given), **spent_by(run)})


def _work_of(run: RunData, *, is_over: bool, working: bool) -> dict[str, Any]:
    """The facts of how far a run came, and of its data; ``is_over``: its goal is reached."""
    arms, manifest, waiting = run.fold.arms, run.manifest, under_way(run)
    return {
        "run": run.name,
        "pairwise": manifest.is_pairwise,
        "state": state_of(manifest, arms.spent, is_over=is_over, working=working, waits=bool(waiting)),
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
        "in_flight_at_stop": manifest.sessions[-1].get("in_flight") if manifest.sessions and not working else None,
        "under_way": waiting,
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


def _row_lines(facts: Mapping[str, Any], found: Found) -> dict[str, str]:
    lines = {}
    if left_out := facts["rows_left_out"]:
        why = ", ".join(f"{count:,} {reason}" for reason, count in facts["rows_left_out_because"].items())
        first = f"; the first: {facts['rows_left_out_first'][0]}" if facts["rows_left_out_first"] else ""
        lines["rows left out"] = (
            f"{left_out:,}{f' ({why})' if why else ''}: the {found.goal.results} are of the {facts['pairs']:,} "
            f"{found.goal.rows} that are left, and say nothing of these{first}"
        )
    if facts["empty_responses"]:
        lines["empty responses"] = f"{facts['empty_responses']:,}, judged as they are"
    return lines


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
        **_row_lines(facts, found),
        "in flight at stop": "unknown: it was killed, or is new" if in_flight is None else str(in_flight),
        **under_way_lines(facts),
        **found.lines(facts),
        "given up": counted(facts["retired_reasons"], noun) or "none",
        "tokens": tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"], unit="")
        + (f" (of {number_of(facts['usage_estimated'], 'request')} estimated)" if facts["usage_estimated"] else ""),
        **tier_line(facts),
        "cost": cost_line(facts),
        **({} if facts["variances_from"] is None else {"warm start": warm_line(facts)}),
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


def _reasons(run: RunData, status: str) -> dict[str, int]:
    return _counted(run.judgments.filter(pc.equal(run.judgments["status"], status))["reason"])


def _counted(reasons: pa.ChunkedArray) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in sorted(reasons.drop_null().value_counts().to_pylist(), key=str)}
