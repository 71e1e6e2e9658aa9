"""``robin status``: the state of a run, as JSON values and in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.labels import LabelsFile, read_labels
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.result import Result, judged_by
from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import Manifest
from robin_cli.run.pair_files import count_empty_responses
from robin_cli.run.reader import RunReader, read_run
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from robin_cli.show.words import budget_text, dollars, money_text, refused_text, tokens_text

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

    found: Result
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
        found, work, cost = self.found, self.work, self.cost
        noun = found.goal.noun
        variances, sessions = cost["variances_from"], number_of(cost["sessions"], "session")
        places = f", at {', '.join(cost['base_url'])}" if cost["base_url"] else ""
        lines = {
            "run": work["run"],
            "state": work["state"],
            "budget": f"{' '.join(self.spent)}, {number_of(work['ratings'], noun)}",
            **self._problems,
            "repeats": "".join(found.repeat_lines[:1]),
            **found.lines(),
            "given up": counted(work["retired_reasons"], noun),
            "cost": self._cost_line,
            "variances": f"those of {variances}, taken for the true ones" if variances else "",
            "judge": f"{cost['judge']}{places}",
            "data": f"{cost['data']}; made {cost['created_at']}, {sessions}",
        }
        unknown = _LINES_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return {name: line for name, line in lines.items() if line and name not in unknown}

    @property
    def first_lines(self) -> dict[str, str]:
        """Those of the lines that fit on a page with the answer: progress and problems first."""
        names = ["run", "state", "budget", *self._problems, "given up", "repeats", "cost"]
        names += list(self.found.lines())[:2]
        most = _LINES_OF_PAGE - len(self.found.answer) - 3  # a blank, the next step, the details
        names = [name for name in names if name in self.lines][:most]
        details = f"robin status {typed(self.work['run'])} --details"
        return {name: self.lines[name] for name in names} | {"more": details}

    @property
    def spent(self) -> tuple[str, str]:
        """The spent share of the budget in words."""
        work = self.work
        return budget_text(
            work["spent"], work["budget"], work["budget_usd"], self.found.run.fold.spending()
        )

    @property
    def cost_text(self) -> str:
        """The spending, and the part of it without results, in a line."""
        unparsed, failed = (sum(self.work[name].values()) for name in ("unparsed", "failed"))
        parts = [
            " ".join(self.spent),
            f"{number_of(unparsed, 'answer')} without a {self.found.goal.noun}" if unparsed else "",
            f"{number_of(failed, 'failed call')}, not counted" if failed else "",
            f"cost {money_text(self.found.run.fold.spending())}",
            self._tokens,
        ]
        return "; ".join(filter(None, parts))

    @property
    def _problems(self) -> dict[str, str]:
        """How the calls went in words, by name; only problems are listed."""
        work, goal = self.work, self.found.goal
        answers, by_text = work["answers"], sum(work["rated_by_text"].values())
        if answers == "logprobs":
            why = f"; {by_text:,} by their text: {counted(work['rated_by_text'])}" * bool(by_text)
            answers = f"{work['ratings'] - by_text:,} by log probabilities{why}"
        left_out, empty = work["rows_left_out"], work["empty_responses"]
        why = ", ".join(f"{count:,} {why}" for why, count in work["rows_left_out_because"].items())
        rows = f"the {goal.results} are of the {work['pairs']:,} {goal.rows} that are left, and say"
        first = "".join(f"; the first: {row}" for row in work["rows_left_out_first"][:1])
        left = f"{left_out:,}{f' ({why})' * bool(why)}: {rows} nothing of these{first}"
        stop, state = work["in_flight_at_stop"], work["state"]
        lines = {
            f"without a {goal.noun}": counted(work["unparsed"], goal.noun),
            "answers": answers if answers != "text" else "",
            "failed calls": counted(work["failed"]),
            "refused": refused_text(work["refused"], work["waited_s"]),
            "rows left out": left if left_out else "",
            "empty responses": f"{empty:,}, judged as they are" if empty else "",
            "in flight at stop": ""
            if state in {"working", "finished"}
            else "unknown: it was killed, or is new"
            if stop is None
            else str(stop),
        }
        batches = work["under_way"]
        for number, each in enumerate(batches, 1):
            since = f", since {each['submitted_at']}" if each["submitted_at"] else ""
            sent = f"round {each['round']}, {number_of(each['requests'], 'request')}"
            lines[f"under way {number}" if len(batches) > 1 else "under way"] = (
                f"{sent} at {each['at']}: {each['batch'] or each['state']}{since}"
            )
        return {name: line for name, line in lines.items() if line}

    @property
    def _cost_line(self) -> str:
        cost, spent = self.cost, self.found.run.fold.spending()
        limit = cost["max_cost_usd"]
        of_limit = f" of {dollars(limit)} (--max-cost)" if limit else ""
        if spent.cost_usd is not None:
            some = "" if spent.complete else "; of some answers no price is known"
            money = f"{money_text(spent)}{of_limit}{some}"
        elif self.work["spent"]:
            money = "unknown: no price (--price-in, --price-out)"
        else:
            money = f"no answer yet{of_limit}"
        requests = number_of(cost["usage_estimated"], "request")
        estimated = f" (of {requests} estimated)" if cost["usage_estimated"] else ""
        return f"{money}; {self._tokens}{estimated}"

    @property
    def _tokens(self) -> str:
        tokens, saved = (
            tokens_text(self.found.run.fold.spending()),
            self.cost["prompt_tokens_saved"],
        )
        if not saved:
            return tokens
        per_prompt = f"{self.cost['ratings_per_prompt']:.1f} ratings per prompt"
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
    return standing(run, working=working, given=read_labels(labels, run))


def standing(run: RunReader, *, working: bool, given: GivenLabels | None = None) -> Status:
    """Return the status of a run; ``working``: a process is at work on it, ``given``: labels."""
    found = goal_of_run(run).result(run, given)
    return Status(found, _work(run, is_over=found.is_finished, working=working), _cost(run))


def _work(run: RunReader, *, is_over: bool, working: bool) -> dict[str, Any]:
    """Return a run's progress, and the rows left out of its data."""
    arms, manifest, answers = run.fold.arms, run.manifest, run.judgments
    batches = [each for each in read_batches(run.path).values() if each.is_open]
    last = manifest.sessions[-1] if manifest.sessions and not working else {}
    return {
        "run": run.name,
        "pairwise": manifest.is_pairwise,
        "state": state_of(
            manifest, arms.spent, is_over=is_over, working=working, waits=bool(batches)
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
        "under_way": [
            {
                "batch": each.batch_id,
                "judge": each.judge,
                "round": each.round,
                "requests": each.requests,
                "state": each.state,
                "at": each.url,
                "submitted_at": each.submitted_at or None,
            }
            for each in batches
        ],
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
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    judges = judges_of(settings) if settings.at_endpoints else ()
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
        "max_cost_usd": manifest.sessions[-1].get("max_cost") if manifest.sessions else None,
        "usage_estimated": pc.sum(run.judgments["usage_estimated"]).as_py() or 0,
        "scheduler": manifest.settings["scheduler"],
        "variances_from": manifest.settings.get("variances"),
        "judge": judged_by(manifest),
        "model": ", ".join(manifest.judges),
        "base_url": list(dict.fromkeys(url for judge in judges for url in judge.base_urls)),
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
        "sessions": len(manifest.sessions),
    }
