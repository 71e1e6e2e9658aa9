"""``robin status``: the state of a run, as JSON values and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.base import Goal
from robin_cli.goals.found import Found, judged_by
from robin_cli.goals.labels import LabelsFile, given_labels
from robin_cli.goals.registry import goal_of_run
from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import Manifest
from robin_cli.run.pair_files import count_empty_responses
from robin_cli.run.reader import RunReader, read_run
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from robin_cli.show.words import cost as cost_text
from robin_cli.show.words import dollars, refused_text, tokens_text

READ = ("status", "reason", "text_because", "usage_estimated")
"""The columns of judgments that the facts are of, beside those that are folded."""

_LINES_OF_PAGE = 12

# A file of scores knows nothing of these.
_FACTS_OF_A_RUN = ("budget", "spent", "empty_responses", "in_flight_at_stop", "created_at")
_LINES_OF_A_RUN = ("state", "budget", "empty responses", "cost", "judge", "data")


def state_of(
    manifest: Manifest, spent: int, *, is_over: bool, working: bool, waits: bool = False
) -> str:
    """Return a run's state in a word.

    Args:
        is_over: its goal is reached.
        working: a process is at work on it.
        waits: batches of it may still be answered.
    """
    if working:
        return "working"
    if waits:
        return "waiting"
    return "finished" if manifest.is_spent(spent) or is_over else "stopped"


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Attributes:
        found: the run's findings.
        work, cost: its progress and its cost, as JSON values by name, also those that mean nothing
            of a file of scores. ``waited_s``: seconds without a request under way after a refusal.
            ``in_flight_at_stop``: None if unknown. ``cost_usd``: None if the cost of an answer is
            unknown, while ``cost_usd_at_least`` sums the known ones. ``prompt_tokens_saved``: those
            that a prompt for each answer would take besides.
    """

    found: Found
    work: dict[str, Any]
    cost: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """The object of ``robin status --json``."""
        found = self.found
        results = {
            "answer": found.answer,
            "next": self.next_step,
            "repeating": [] if found.repeating is None else found.repeating.facts(),
            **found.facts(),
        }
        unknown = _FACTS_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return self.work | results | self.cost | dict.fromkeys(unknown)

    @property
    def next_step(self) -> str:
        """The most useful next command."""
        if self.work["state"] == "working":
            return f"robin status {typed(self.work['run'])}"
        return self.found.next_step()

    @cached_property
    def lines(self) -> dict[str, str]:
        """The facts in words, by name, beside the answer."""
        found, work, noun = self.found, self.work, self.found.goal.noun
        lines = {
            "run": work["run"],
            "state": work["state"],
            "budget": f"{' '.join(self.spent)}, {number_of(work['ratings'], noun)}",
            **_problems(work, found.goal),
            "repeats": "".join(found.repeat_lines[:1]),
            **found.lines(),
            "given up": counted(work["retired_reasons"], noun),
            **_cost_lines(self.cost, is_begun=bool(work["spent"])),
        }
        unknown = _LINES_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return {name: line for name, line in lines.items() if line and name not in unknown}

    @property
    def first_lines(self) -> dict[str, str]:
        """Those of the lines that fit on a page with the answer: progress and problems first."""
        problems = _problems(self.work, self.found.goal)
        names = ["run", "state", "budget", *problems, "given up", "repeats", "cost"]
        names += list(self.found.lines())[:2]
        most = _LINES_OF_PAGE - len(self.found.answer) - 3  # a blank, the next step, the details
        names = [name for name in names if name in self.lines][:most]
        details = f"robin status {typed(self.work['run'])} --details"
        return {name: self.lines[name] for name in names} | {"more": details}

    @property
    def spent(self) -> tuple[str, str]:
        """The spent share of the budget in words."""
        spent, budget, limit = (self.work[name] for name in ("spent", "budget", "budget_usd"))
        if limit is None:
            return f"{spent:,} of {number_of(budget, 'call')}", "spent"
        known = dollars(0) if self.cost["cost_usd_at_least"] is None else _money(self.cost)
        return f"{known} of {dollars(limit)}", f"spent in {number_of(spent, 'call')}"

    @property
    def cost_text(self) -> str:
        """The spending, and the part of it without results, in a line."""
        unparsed, failed = (sum(self.work[name].values()) for name in ("unparsed", "failed"))
        noun = self.found.goal.noun
        parts = [
            " ".join(self.spent),
            f"{number_of(unparsed, 'answer')} without a {noun}" if unparsed else "",
            f"{number_of(failed, 'failed call')}, not counted" if failed else "",
            f"cost {_money(self.cost)}",
            _tokens(self.cost),
        ]
        return "; ".join(filter(None, parts))


def _problems(work: Mapping[str, Any], goal: Goal) -> dict[str, str]:
    """Return how the calls went in words, by name; only problems are listed."""
    answers, by_text = work["answers"], sum(work["rated_by_text"].values())
    if answers == "logprobs":
        why = f"; {by_text:,} by their text: {counted(work['rated_by_text'])}" if by_text else ""
        answers = f"{work['ratings'] - by_text:,} by log probabilities{why}"
    left_out, empty = work["rows_left_out"], work["empty_responses"]
    why = ", ".join(f"{count:,} {why}" for why, count in work["rows_left_out_because"].items())
    rows = f"the {goal.results} are of the {work['pairs']:,} {goal.rows} that are left, and say"
    first = "".join(f"; the first: {row}" for row in work["rows_left_out_first"][:1])
    stop = work["in_flight_at_stop"]
    is_stopped = work["state"] not in {"working", "finished"}
    batches = work["under_way"]
    lines = {
        f"without a {goal.noun}": counted(work["unparsed"], goal.noun),
        "answers": answers if answers != "text" else "",
        "failed calls": counted(work["failed"]),
        "refused": refused_text(work["refused"], work["waited_s"]),
        "rows left out": f"{left_out:,}{f' ({why})' * bool(why)}: {rows} nothing of these{first}"
        if left_out
        else "",
        "empty responses": f"{empty:,}, judged as they are" if empty else "",
        "in flight at stop": ("unknown: it was killed, or is new" if stop is None else str(stop))
        if is_stopped
        else "",
    }
    for number, each in enumerate(batches, 1):
        since = f", since {each['submitted_at']}" if each["submitted_at"] else ""
        sent = f"round {each['round']}, {number_of(each['requests'], 'request')}"
        line = f"{sent} at {each['at']}: {each['batch'] or each['state']}{since}"
        lines["under way" if len(batches) == 1 else f"under way {number}"] = line
    return {name: line for name, line in lines.items() if line}


def _cost_lines(cost: Mapping[str, Any], *, is_begun: bool) -> dict[str, str]:
    of_limit = f" of {dollars(cost['max_cost_usd'])} (--max-cost)" if cost["max_cost_usd"] else ""
    money = f"{_money(cost)}{of_limit}"
    if cost["cost_usd_at_least"] is None:
        unknown = "unknown: no price (--price-in, --price-out)"
        money = unknown if is_begun else f"no answer yet{of_limit}"
    elif cost["cost_usd"] is None:
        money += "; of some answers no price is known"
    requests = number_of(cost["usage_estimated"], "request")
    estimated = f" (of {requests} estimated)" if cost["usage_estimated"] else ""
    places = f", at {', '.join(cost['base_url'])}" if cost["base_url"] else ""
    variances, sessions = cost["variances_from"], number_of(cost["sessions"], "session")
    return {
        "cost": f"{money}; {_tokens(cost)}{estimated}",
        "variances": f"those of {variances}, taken for the true ones" if variances else "",
        "judge": f"{cost['judge']}{places}",
        "data": f"{cost['data']}; made {cost['created_at']}, {sessions}",
    }


def _money(cost: Mapping[str, Any]) -> str:
    return cost_text(cost["cost_usd_at_least"], complete=cost["cost_usd"] is not None)


def _tokens(cost: Mapping[str, Any]) -> str:
    tokens = tokens_text(
        cost["prompt_tokens"],
        cost["completion_tokens"],
        cost["cached_share"],
        reasoning=cost["reasoning_tokens"],
    )
    if not (saved := cost["prompt_tokens_saved"]):
        return tokens
    per_prompt = f"{cost['ratings_per_prompt']:.1f} ratings per prompt"
    return f"{tokens}; {per_prompt}, which saved {saved:,} tokens"


def status_of(path: Path, *, labels: LabelsFile = None) -> Status:
    """Return the state of the run at ``path``.

    Args:
        labels: a file of people's labels, in place of the human ratings of the data.

    Raises:
        RunError, StorageError: it cannot be read.
        InputError: the labels cannot be used.
    """
    working = is_locked(path)
    run = read_run(path, READ)
    return standing(run, working=working, given=given_labels(labels, run))


def standing(run: RunReader, *, working: bool, given: GivenLabels | None = None) -> Status:
    """Return the status of a run; ``working``: a process is at work on it, ``given``: labels."""
    found = goal_of_run(run).found(run, given)
    work = _work(run, is_over=found.is_finished, working=working)
    return Status(found, work, _cost(run))


def _work(run: RunReader, *, is_over: bool, working: bool) -> dict[str, Any]:
    """Return a run's progress, and the rows left out of its data."""
    arms, manifest, answers = run.fold.arms, run.manifest, run.judgments
    waiting = [
        {
            "batch": each.batch_id,
            "judge": each.judge,
            "round": each.round,
            "requests": each.requests,
            "state": each.state,
            "at": each.url,
            "submitted_at": each.submitted_at or None,
        }
        for each in read_batches(run.path).values()
        if each.is_open
    ]
    last = manifest.sessions[-1] if manifest.sessions and not working else {}
    return {
        "run": run.name,
        "pairwise": manifest.is_pairwise,
        "state": state_of(
            manifest, arms.spent, is_over=is_over, working=working, waits=bool(waiting)
        ),
        "budget": None if manifest.budget_usd is not None else manifest.budget,
        "budget_usd": manifest.budget_usd,
        "spent": arms.spent,
        "ratings": int(arms.n.sum()),
        "unparsed": _counts(answers.filter(pc.equal(answers["status"], "unparsed"))["reason"]),
        "answers": ", ".join(dict.fromkeys(manifest.answers)),
        "rated_by_text": _counts(answers["text_because"]),
        "failed": _counts(answers.filter(pc.equal(answers["status"], "failed"))["reason"]),
        "refused": sum(each.get("refused", 0) for each in manifest.sessions),
        "waited_s": sum(each.get("waited_s", 0.0) for each in manifest.sessions),
        "in_flight_at_stop": last.get("in_flight"),
        "under_way": waiting,
        "pairs": len(run.pair_ids),
        "rows_left_out": manifest.data.get("skipped", 0),
        "rows_left_out_because": manifest.data.get("left_out", {}),
        "rows_left_out_first": manifest.data.get("first_left_out", []),
        "empty_responses": count_empty_responses(run.path),
        "attributes": list(manifest.attributes),
        "arms": len(arms),
        "arms_without_rating": int((arms.n == 0).sum()),
        "arms_retired": int(arms.is_retired.sum()),
        "retired_reasons": dict(sorted(Counter(run.fold.reasons.values()).items())),
    }


def _counts(reasons: pa.ChunkedArray) -> dict[str, int]:
    counts = reasons.drop_null().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in sorted(counts, key=str)}


def _cost(run: RunReader) -> dict[str, Any]:
    """Return a run's cost, judges and data."""
    manifest, spent = run.manifest, run.fold.spending()
    last = manifest.sessions[-1] if manifest.sessions else {}
    per_prompt = run.fold.arms.spent / spent.prompts if spent.prompts else None
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "reasoning_tokens": spent.reasoning_tokens,
        "ratings_per_prompt": per_prompt,
        "prompt_tokens_saved": round(spent.prompt_tokens * ((per_prompt or 1) - 1)),
        "cached_share": spent.cached_share,
        "cost_usd": spent.exact_usd,
        "cost_usd_at_least": spent.cost_usd,
        "max_cost_usd": last.get("max_cost"),
        "usage_estimated": pc.sum(run.judgments["usage_estimated"]).as_py() or 0,
        "scheduler": manifest.settings["scheduler"],
        "variances_from": manifest.settings.get("variances"),
        "judge": judged_by(manifest),
        "model": ", ".join(manifest.judges),
        "base_url": _addresses(manifest),
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
        "sessions": len(manifest.sessions),
    }


def _addresses(manifest: Manifest) -> list[str]:
    """Return the last addresses of its judges; none for functions and judges of packages."""
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    if not settings.at_endpoints:
        return []
    return list(dict.fromkeys(url for judge in judges_of(settings) for url in judge.base_urls))
