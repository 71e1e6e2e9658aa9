"""``robin status``: the state of a run, as JSON values and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.facts import Fact, in_json, in_lines, line
from robin_cli.goals.labels import LabelsFile, read_labels
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.result import Result, judged_by
from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.batches import Submission, read_batches
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
        result: the run's findings.
        progress, costs: facts about its calls and its cost, also those that mean nothing of a file
            of scores. ``waited_s``: seconds without a request under way after a refusal.
            ``in_flight_at_stop``: None if unknown. ``cost_usd``: None if the cost of an answer is
            unknown, while ``cost_usd_at_least`` sums the known ones. ``prompt_tokens_saved``: those
            that a prompt for each answer would take besides.
    """

    result: Result
    progress: Sequence[Fact]
    costs: Sequence[Fact]

    @cached_property
    def work(self) -> dict[str, Any]:
        """Its progress as JSON values."""
        return in_json(self.progress)

    @property
    def facts(self) -> dict[str, Any]:
        """The object of ``robin status --json``."""
        found = self.result
        results = {
            "answer": found.answer,
            "next": self.next_step,
            "repeating": [] if found.repeating is None else found.repeating.facts(),
            **found.facts(),
        }
        unknown = _FACTS_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return self.work | results | in_json(self.costs) | dict.fromkeys(unknown)

    @property
    def next_step(self) -> str:
        """The most useful next command."""
        if self.work["state"] == "working":
            return f"robin status {typed(self.work['run'])}"
        return self.result.next_step()

    @cached_property
    def lines(self) -> dict[str, str]:
        """The facts in words, by name, beside the answer."""
        found = self.result
        repeats = line("repeats", "".join(found.repeat_lines[:1]))
        lines = in_lines([*self.progress, repeats]) | found.lines() | in_lines(self.costs)
        unknown = _LINES_OF_A_RUN if found.run.manifest.file_of_scores else ()
        return {name: text for name, text in lines.items() if text and name not in unknown}

    @property
    def first_lines(self) -> dict[str, str]:
        """Those of the lines that fit on a page with the answer: progress and problems first."""
        names = [*in_lines(self.progress), "repeats", "cost", *list(self.result.lines())[:2]]
        most = _LINES_OF_PAGE - len(self.result.answer) - 3  # a blank, the next step, the details
        names = [name for name in names if name in self.lines][:most]
        details = f"robin status {typed(self.work['run'])} --details"
        return {name: self.lines[name] for name in names} | {"more": details}

    @property
    def spent(self) -> tuple[str, str]:
        """The spent share of the budget in words."""
        return spent_of(self.result.run)

    @property
    def cost_text(self) -> str:
        """The spending, and the part of it without results, in a line."""
        unparsed, failed = (sum(self.work[name].values()) for name in ("unparsed", "failed"))
        parts = [
            " ".join(self.spent),
            f"{number_of(unparsed, 'answer')} without a {self.result.goal.noun}"
            if unparsed
            else "",
            f"{number_of(failed, 'failed call')}, not counted" if failed else "",
            f"cost {money_text(self.result.run.fold.spending())}",
            _tokens_of(self.result.run),
        ]
        return "; ".join(filter(None, parts))


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
    return standing(run, working=working, labels=read_labels(labels, run))


def standing(run: RunReader, *, working: bool, labels: GivenLabels | None = None) -> Status:
    """Return the status of a run; ``working``: a process is at work on it, ``labels``: labels."""
    found = goal_of_run(run).result(run, labels)
    return Status(found, _progress(found, working=working), _costs(run))


def spent_of(run: RunReader) -> tuple[str, str]:
    """Return the spent share of a run's budget in words."""
    manifest, fold = run.manifest, run.fold
    return budget_text(fold.arms.spent, manifest.budget, manifest.budget_usd, fold.spending())


def _progress(result: Result, *, working: bool) -> list[Fact]:
    """Return how the calls of a run went; only problems are in words."""
    run, goal, noun = result.run, result.goal, result.goal.noun
    arms, manifest, answers = run.fold.arms, run.manifest, run.judgments
    batches = [each for each in read_batches(run.path).values() if each.is_open]
    spent, is_over, ratings = arms.spent, result.is_finished, int(arms.n.sum())
    state = state_of(manifest, spent, is_over=is_over, working=working, waits=bool(batches))
    unparsed, failed = (
        _counts(answers.filter(pc.equal(answers["status"], status))["reason"])
        for status in ("unparsed", "failed")
    )
    asked, by_text = ", ".join(dict.fromkeys(manifest.answers)), _counts(answers["text_because"])
    how = asked if asked != "text" else ""
    if asked == "logprobs":
        texts = sum(by_text.values())
        why = f"; {texts:,} by their text: {counted(by_text)}" * bool(texts)
        how = f"{ratings - texts:,} by log probabilities{why}"
    refused, waited = (
        sum(each.get(name, 0) for each in manifest.sessions) for name in ("refused", "waited_s")
    )
    in_flight = None
    if manifest.sessions and not working:
        in_flight = manifest.sessions[-1].get("in_flight")
    at_stop = ""
    if state not in {"working", "finished"}:
        at_stop = "unknown: it was killed, or is new" if in_flight is None else str(in_flight)
    by_money, pairs = manifest.budget_usd is not None, len(run.pair_ids)
    budget = f"{' '.join(spent_of(run))}, {number_of(ratings, noun)}"
    empty = count_empty_responses(run.path)
    as_they_are = f"{empty:,}, judged as they are" if empty else ""
    left_out, because = manifest.data.get("skipped", 0), manifest.data.get("left_out", {})
    first = manifest.data.get("first_left_out", [])
    given_up = dict(sorted(Counter(run.fold.reasons.values()).items()))
    why = f" ({', '.join(f'{count:,} {why}' for why, count in because.items())})" * bool(because)
    left = f"{left_out:,}{why}: the {goal.results} are of the {pairs:,} {goal.rows} that are left, "
    left += f"and say nothing of these{''.join(f'; the first: {row}' for row in first[:1])}"
    return [
        Fact("run", run.name, run.name, "run"),
        Fact("pairwise", manifest.is_pairwise),
        Fact("state", state, state, "state"),
        Fact("budget", None if by_money else manifest.budget, budget, "budget"),
        Fact("budget_usd", manifest.budget_usd),
        Fact("spent", spent),
        Fact("ratings", ratings),
        Fact("unparsed", unparsed, counted(unparsed, noun), f"without a {noun}"),
        Fact("answers", asked, how, "answers"),
        Fact("rated_by_text", by_text),
        Fact("failed", failed, counted(failed), "failed calls"),
        Fact("refused", refused, refused_text(refused, waited), "refused"),
        Fact("waited_s", waited),
        Fact("in_flight_at_stop", in_flight, at_stop, "in flight at stop"),
        *_under_way(batches),
        Fact("pairs", pairs),
        Fact("rows_left_out", left_out, left if left_out else "", "rows left out"),
        Fact("rows_left_out_because", because),
        Fact("rows_left_out_first", first),
        Fact("empty_responses", empty, as_they_are, "empty responses"),
        Fact("attributes", list(manifest.attributes)),
        Fact("arms", len(arms)),
        Fact("arms_without_rating", int((arms.n == 0).sum())),
        Fact("arms_retired", int(arms.is_retired.sum())),
        Fact("retired_reasons", given_up, counted(given_up, noun), "given up"),
    ]


_OF_A_BATCH = ("batch_id", "judge", "round", "requests", "state", "url", "submitted_at")
_IN_JSON = {"batch_id": "batch", "url": "at"}


def _under_way(batches: Sequence[Submission]) -> Iterator[Fact]:
    """Yield the batches that may still be answered, and a line on each."""
    yield Fact(
        "under_way",
        [
            {_IN_JSON.get(name, name): getattr(each, name) or None for name in _OF_A_BATCH}
            for each in batches
        ],
    )
    for number, each in enumerate(batches, 1):
        since = f", since {each.submitted_at}" if each.submitted_at else ""
        sent = f"round {each.round}, {number_of(each.requests, 'request')}"
        label = f"under way {number}" if len(batches) > 1 else "under way"
        yield line(label, f"{sent} at {each.url}: {each.batch_id or each.state}{since}")


def _counts(reasons: pa.ChunkedArray) -> dict[str, int]:
    counts = reasons.drop_null().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in sorted(counts, key=str)}


def _costs(run: RunReader) -> list[Fact]:
    """Return a run's cost, judges and data."""
    manifest, spent = run.manifest, run.fold.spending()
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    judges = judges_of(settings) if settings.at_endpoints else ()
    urls = list(dict.fromkeys(url for judge in judges for url in judge.base_urls))
    limit = manifest.sessions[-1].get("max_cost") if manifest.sessions else None
    of_limit = f" of {dollars(limit)} (--max-cost)" if limit else ""
    if spent.cost_usd is not None:
        some = "" if spent.complete else "; of some answers no price is known"
        money = f"{money_text(spent)}{of_limit}{some}"
    elif run.fold.arms.spent:
        money = "unknown: no price (--price-in, --price-out)"
    else:
        money = f"no answer yet{of_limit}"
    guesses = pc.sum(run.judgments["usage_estimated"]).as_py() or 0
    estimated = f" (of {number_of(guesses, 'request')} estimated)" if guesses else ""
    variances, data = manifest.settings.get("variances"), manifest.data["source"]
    taken = f"from {variances}, which robin takes as exact" if variances else ""
    sessions, by = len(manifest.sessions), judged_by(manifest)
    made = f"{data}; made {manifest.created_at}, {number_of(sessions, 'session')}"
    per_prompt, saved = _per_prompt(run)
    return [
        Fact("prompt_tokens", spent.prompt_tokens),
        Fact("completion_tokens", spent.completion_tokens),
        Fact("reasoning_tokens", spent.reasoning_tokens),
        Fact("ratings_per_prompt", per_prompt),
        Fact("prompt_tokens_saved", saved),
        Fact("cached_share", spent.cached_share),
        Fact("cost_usd", spent.exact_usd, f"{money}; {_tokens_of(run)}{estimated}", "cost"),
        Fact("cost_usd_at_least", spent.cost_usd),
        Fact("max_cost_usd", limit),
        Fact("usage_estimated", guesses),
        Fact("scheduler", manifest.settings["scheduler"]),
        Fact("variances_from", variances, taken, "variances"),
        Fact("judge", by, by + f", at {', '.join(urls)}" * bool(urls), "judge"),
        Fact("model", ", ".join(manifest.judges)),
        Fact("base_url", urls),
        Fact("data", data, made, "data"),
        Fact("created_at", manifest.created_at),
        Fact("sessions", sessions),
    ]


def _per_prompt(run: RunReader) -> tuple[float | None, int]:
    """Return the ratings per prompt, and the tokens that this saved."""
    spent = run.fold.spending()
    if not spent.prompts:
        return None, 0
    per_prompt = run.fold.arms.spent / spent.prompts
    return per_prompt, round(spent.prompt_tokens * (per_prompt - 1))


def _tokens_of(run: RunReader) -> str:
    tokens, (per_prompt, saved) = tokens_text(run.fold.spending()), _per_prompt(run)
    if not saved:
        return tokens
    return f"{tokens}; {per_prompt:.1f} ratings per prompt, which saved {saved:,} tokens"
