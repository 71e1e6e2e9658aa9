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
from robin_cli.goals.found import Found, judged_by
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.summary import LabelsFile, given_labels
from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import Manifest
from robin_cli.run.pair_files import count_empty_responses
from robin_cli.run.reader import RunData, read_run
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from robin_cli.show.words import cost, dollars, refused_text, tokens_text

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
    def known(self) -> dict[str, Any]:
        """Progress and cost together."""
        return self.work | self.cost

    @property
    def facts(self) -> dict[str, Any]:
        """The object of ``robin status --json``."""
        found, is_run = self.found, not self.found.run.manifest.file_of_scores
        results = {
            "answer": found.answer,
            "next": self.next_step,
            "repeating": [] if found.repeating is None else found.repeating.facts(),
            **found.facts(),
        }
        return self.work | results | self.cost | ({} if is_run else dict.fromkeys(_FACTS_OF_A_RUN))

    @property
    def next_step(self) -> str:
        """The most useful next command."""
        is_working = self.known["state"] == "working"
        name = typed(self.found.run.name)
        return f"robin status {name}" if is_working else self.found.next_step()

    @cached_property
    def lines(self) -> dict[str, str]:
        """The facts in words, by name, beside the answer."""
        found, facts, goal = self.found, self.known, self.found.goal
        lines = {
            "run": facts["run"],
            "state": facts["state"],
            "budget": f"{' '.join(self.spent)}, {number_of(facts['ratings'], goal.noun)}",
            **self._problems,
            "repeats": "".join(found.repeat_lines[:1]),
            **found.lines(),
            "given up": counted(facts["retired_reasons"], goal.noun),
            **self._cost_lines(),
        }
        unknown = _LINES_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return {name: line for name, line in lines.items() if line and name not in unknown}

    @property
    def first_lines(self) -> dict[str, str]:
        """Those of the lines that fit on a page with the answer: progress and problems first."""
        lines, of_goal = self.lines, list(self.found.lines())[:2]
        names = [
            *("run", "state", "budget", *self._problems, "given up", "repeats", "cost"),
            *of_goal,
        ]
        most = _LINES_OF_PAGE - len(self.found.answer) - 3  # a blank, the next step, the details
        names = [name for name in names if name in lines][:most]
        details = f"robin status {typed(self.found.run.name)} --details"
        return {name: lines[name] for name in names} | {"more": details}

    @property
    def spent(self) -> tuple[str, str]:
        """The spent share of the budget in words."""
        facts, spent = self.known, self.found.run.fold.arms.spent
        if facts["budget_usd"] is None:
            return f"{spent:,} of {number_of(self.found.run.manifest.budget, 'call')}", "spent"
        known = self._money if facts["cost_usd_at_least"] is not None else dollars(0)
        return f"{known} of {dollars(facts['budget_usd'])}", f"spent in {number_of(spent, 'call')}"

    @property
    def cost_text(self) -> str:
        """The spending, and the part of it without results, in a line."""
        facts, noun = self.known, self.found.goal.noun
        unparsed, failed = (sum(facts[name].values()) for name in ("unparsed", "failed"))
        parts = [
            " ".join(self.spent),
            f"{number_of(unparsed, 'answer')} without a {noun}" if unparsed else "",
            f"{number_of(failed, 'failed call')}, not counted" if failed else "",
            f"cost {self._money}",
            self._tokens,
        ]
        return "; ".join(filter(None, parts))

    @cached_property
    def _problems(self) -> dict[str, str]:
        """Return how the calls went in words, by name; only problems are listed."""
        facts, goal = self.known, self.found.goal
        in_flight = facts["in_flight_at_stop"]
        stopped = "unknown: it was killed, or is new" if in_flight is None else str(in_flight)
        batches = [_batch_text(each) for each in facts["under_way"]]
        empty = facts["empty_responses"]
        lines = {
            f"without a {goal.noun}": counted(facts["unparsed"], goal.noun),
            "answers": self._answers,
            "failed calls": counted(facts["failed"]),
            "refused": refused_text(facts["refused"], facts["waited_s"]),
            "rows left out": self._left_out,
            "empty responses": f"{empty:,}, judged as they are" if empty else "",
            "in flight at stop": "" if facts["state"] in {"working", "finished"} else stopped,
            **{
                "under way" if len(batches) == 1 else f"under way {number}": line
                for number, line in enumerate(batches, 1)
            },
        }
        return {name: line for name, line in lines.items() if line}

    @property
    def _answers(self) -> str:
        facts = self.known
        if facts["answers"] != "logprobs":
            return "" if facts["answers"] == "text" else str(facts["answers"])
        reasons = facts["rated_by_text"]
        by_text = sum(reasons.values())
        why = f"; {by_text:,} by their text: {counted(reasons)}" if by_text else ""
        return f"{facts['ratings'] - by_text:,} by log probabilities{why}"

    @property
    def _left_out(self) -> str:
        facts, goal = self.known, self.found.goal
        reasons = ", ".join(f"{n:,} {why}" for why, n in facts["rows_left_out_because"].items())
        first = "".join(f"; the first: {row}" for row in facts["rows_left_out_first"][:1])
        if not facts["rows_left_out"]:
            return ""
        return (
            f"{facts['rows_left_out']:,}{f' ({reasons})' if reasons else ''}: the {goal.results} "
            f"are of the {facts['pairs']:,} {goal.rows} that are left, and say nothing of these"
            f"{first}"
        )

    def _cost_lines(self) -> dict[str, str]:
        facts = self.known
        limit = facts["max_cost_usd"]
        of_limit = f" of {dollars(limit)} (--max-cost)" if limit else ""
        money = f"{self._money}{of_limit}"
        if facts["cost_usd_at_least"] is None:
            is_begun = self.found.run.fold.arms.spent
            unknown = "unknown: no price (--price-in, --price-out)"
            money = unknown if is_begun else f"no answer yet{of_limit}"
        elif facts["cost_usd"] is None:
            money += "; of some answers no price is known"
        requests = number_of(facts["usage_estimated"], "request")
        estimated = f" (of {requests} estimated)" if facts["usage_estimated"] else ""
        places = f", at {', '.join(facts['base_url'])}" if facts["base_url"] else ""
        known, sessions = facts["variances_from"], number_of(facts["sessions"], "session")
        return {
            "cost": f"{money}; {self._tokens}{estimated}",
            "variances": f"those of {known}, taken for the true ones" if known else "",
            "judge": f"{facts['judge']}{places}",
            "data": f"{facts['data']}; made {facts['created_at']}, {sessions}",
        }

    @property
    def _money(self) -> str:
        facts = self.known
        return cost(facts["cost_usd_at_least"], complete=facts["cost_usd"] is not None)

    @property
    def _tokens(self) -> str:
        facts = self.known
        sent, answered = facts["prompt_tokens"], facts["completion_tokens"]
        reasoning = facts["reasoning_tokens"]
        tokens = tokens_text(sent, answered, facts["cached_share"], reasoning=reasoning)
        if not (saved := facts["prompt_tokens_saved"]):
            return tokens
        per_prompt = f"{facts['ratings_per_prompt']:.1f} ratings per prompt"
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


def standing(run: RunData, *, working: bool, given: GivenLabels | None = None) -> Status:
    """Return the status of a run; ``working``: a process is at work on it, ``given``: labels."""
    found = goal_of_run(run).found(run, given)
    work = _work(run, is_over=found.is_finished, working=working)
    return Status(found, work, _cost(run))


def _work(run: RunData, *, is_over: bool, working: bool) -> dict[str, Any]:
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


def _batch_text(batch: Mapping[str, Any]) -> str:
    since = f", since {batch['submitted_at']}" if batch["submitted_at"] else ""
    place = f"at {batch['at']}: {batch['batch'] or batch['state']}{since}"
    return f"round {batch['round']}, {number_of(batch['requests'], 'request')} {place}"


def _counts(reasons: pa.ChunkedArray) -> dict[str, int]:
    counts = reasons.drop_null().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in sorted(counts, key=str)}


def _cost(run: RunData) -> dict[str, Any]:
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
