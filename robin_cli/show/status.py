"""``robin status``: the state of a run, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.base import Goal
from robin_cli.goals.found import Found
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.summary import LabelsFile, given_labels
from robin_cli.model.errors import typed
from robin_cli.model.records import counted, number_of
from robin_cli.run.locking import is_locked
from robin_cli.run.pair_files import count_empty_responses
from robin_cli.run.reader import RunData, read_run
from robin_cli.show.run_list import state_of
from robin_cli.show.spent import Spent
from robin_cli.show.under_way import UnderWay, under_way, under_way_lines
from robin_cli.show.words import dollars, refused_text

READ = ("status", "reason", "text_because", "usage_estimated")
"""The columns of judgments that the facts are of, beside those that are folded."""

_LINES_OF_PAGE = 12

_FACTS_OF_A_RUN = ("budget", "spent", "empty_responses", "in_flight_at_stop", "created_at")
_LINES_OF_A_RUN = ("state", "budget", "empty responses", "cost", "judge", "data")
"""A file of scores knows nothing of these."""


@dataclass(frozen=True)
class Work:
    """A run's progress, and the rows left out of its data; its fields are those of ``robin status --json``.

    Attributes:
        budget: calls; None if the budget is of money, ``budget_usd``.
        spent: calls; ``ratings``: those that brought one; ``unparsed``, ``failed``: the others, by reason.
        rated_by_text: why ratings are by their text where log probabilities were asked for.
        refused: requests that endpoints refused because there were too many; ``waited_s``: seconds without a request under way
            after that. Both of sessions that ended.
        in_flight_at_stop: None if unknown.
        rows_left_out: of the data, why and the first of them.
    """

    run: str
    pairwise: bool
    state: str
    budget: int | None
    budget_usd: float | None
    spent: int
    ratings: int
    unparsed: Mapping[str, int]
    answers: str
    rated_by_text: Mapping[str, int]
    failed: Mapping[str, int]
    refused: int
    waited_s: float
    in_flight_at_stop: int | None
    under_way: Sequence[UnderWay]
    pairs: int
    rows_left_out: int
    rows_left_out_because: Mapping[str, int]
    rows_left_out_first: Sequence[str]
    empty_responses: int
    attributes: Sequence[str]
    arms: int
    arms_without_rating: int
    arms_retired: int
    retired_reasons: Mapping[str, int]

    @classmethod
    def of(cls, run: RunData, *, is_over: bool, working: bool) -> Self:
        """Return the facts of ``run``; ``is_over``: its goal is reached, ``working``: a process is at work on it."""
        arms, manifest, waiting = run.fold.arms, run.manifest, under_way(run)
        return cls(
            run=run.name,
            pairwise=manifest.is_pairwise,
            state=state_of(
                manifest, arms.spent, is_over=is_over, working=working, waits=bool(waiting)
            ),
            budget=None if manifest.budget_usd is not None else manifest.budget,
            budget_usd=manifest.budget_usd,
            spent=arms.spent,
            ratings=int(arms.n.sum()),
            unparsed=_reasons(run, "unparsed"),
            answers=", ".join(dict.fromkeys(manifest.answers)),
            rated_by_text=_counted(run.judgments["text_because"]),
            failed=_reasons(run, "failed"),
            refused=sum(each.get("refused", 0) for each in manifest.sessions),
            waited_s=sum(each.get("waited_s", 0.0) for each in manifest.sessions),
            in_flight_at_stop=manifest.sessions[-1].get("in_flight")
            if manifest.sessions and not working
            else None,
            under_way=waiting,
            pairs=len(run.pair_ids),
            rows_left_out=manifest.data.get("skipped", 0),
            rows_left_out_because=manifest.data.get("left_out", {}),
            rows_left_out_first=manifest.data.get("first_left_out", []),
            empty_responses=count_empty_responses(run.path),
            attributes=list(manifest.attributes),
            arms=len(arms),
            arms_without_rating=int((arms.n == 0).sum()),
            arms_retired=int(arms.is_retired.sum()),
            retired_reasons=dict(sorted(Counter(run.fold.reasons.values()).items())),
        )

    def lines(self, goal: Goal) -> dict[str, str]:
        """Return how the calls went in words, by name; only problems are listed."""
        in_flight = self.in_flight_at_stop
        stopped = "unknown: it was killed, or is new" if in_flight is None else str(in_flight)
        lines = {
            f"without a {goal.noun}": counted(self.unparsed, goal.noun),
            **self._answers_line(),
            "failed calls": counted(self.failed),
            "refused": refused_text(self.refused, self.waited_s),
            **self._row_lines(goal),
            "in flight at stop": "" if self.state in {"working", "finished"} else stopped,
            **under_way_lines(self.under_way),
        }
        return {name: line for name, line in lines.items() if line}

    def _answers_line(self) -> dict[str, str]:
        if self.answers != "logprobs":
            return {} if self.answers == "text" else {"answers": self.answers}
        by_text = sum(self.rated_by_text.values())
        why = f"; {by_text:,} by their text: {counted(self.rated_by_text)}" if by_text else ""
        return {"answers": f"{self.ratings - by_text:,} by log probabilities{why}"}

    def _row_lines(self, goal: Goal) -> dict[str, str]:
        lines = {}
        if left_out := self.rows_left_out:
            why = ", ".join(
                f"{count:,} {reason}" for reason, count in self.rows_left_out_because.items()
            )
            first = (
                f"; the first: {self.rows_left_out_first[0]}" if self.rows_left_out_first else ""
            )
            lines["rows left out"] = (
                f"{left_out:,}{f' ({why})' if why else ''}: the {goal.results} are of the {self.pairs:,} {goal.rows} that "
                f"are left, and say nothing of these{first}"
            )
        if self.empty_responses:
            lines["empty responses"] = f"{self.empty_responses:,}, judged as they are"
        return lines


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Attributes:
        found: the run's findings.
    """

    found: Found
    work: Work
    cost: Spent

    @property
    def facts(self) -> dict[str, Any]:
        """Return the object for ``robin status --json``, by name, as JSON values."""
        repeating = self.found.repeating
        said = {
            "answer": self.found.answer,
            "next": self.next_step,
            "repeating": [] if repeating is None else repeating.facts(),
        }
        unknown = dict.fromkeys(_FACTS_OF_A_RUN) if self.found.run.manifest.file_of_scores else {}
        return asdict(self.work) | said | self.found.facts() | asdict(self.cost) | unknown

    @property
    def next_step(self) -> str:
        """Return the most useful next command."""
        is_working = self.work.state == "working"
        return f"robin status {typed(self.work.run)}" if is_working else self.found.next_step()

    @property
    def lines(self) -> dict[str, str]:
        """Return the facts in words, by name, beside the answer."""
        goal, work, cost, noun = self.found.goal, self.work, self.cost, self.found.goal.noun
        lines = {
            "run": work.run,
            "state": work.state,
            "budget": f"{' '.join(self.spent)}, {number_of(work.ratings, noun)}",
            **work.lines(goal),
            **dict(zip(["repeats"], self.found.repeat_lines, strict=False)),
            **self.found.lines(),
            **({"given up": gone} if (gone := counted(work.retired_reasons, noun)) else {}),
            **cost.lines(is_begun=bool(work.spent)),
        }
        unknown = _LINES_OF_A_RUN if self.found.run.manifest.file_of_scores else ()
        return {name: line for name, line in lines.items() if name not in unknown}

    @property
    def first_lines(self) -> dict[str, str]:
        """Return those of the lines that fit on a page with the answer: progress and problems come first."""
        lines, work = self.lines, self.work
        problems = [
            name for name in (*work.lines(self.found.goal), "given up", "repeats") if name in lines
        ]
        names = ["run", "state", "budget", *problems, "cost", *list(self.found.lines())[:2]]
        most = _LINES_OF_PAGE - len(self.found.answer) - 3  # a blank, the next step, the details
        details = f"robin status {typed(work.run)} --details"
        names = [name for name in names if name in lines][:most]
        return {name: lines[name] for name in names} | {"more": details}

    @property
    def spent(self) -> tuple[str, str]:
        """Return the spent share of the budget in words."""
        work = self.work
        if work.budget_usd is None:
            return f"{work.spent:,} of {number_of(work.budget or 0, 'call')}", "spent"
        known = dollars(0) if self.cost.cost_usd_at_least is None else self.cost.cost
        return f"{known} of {dollars(work.budget_usd)}", f"spent in {number_of(work.spent, 'call')}"


def status_of(path: Path, *, labels: LabelsFile = None) -> Status:
    """Return the state of the run at ``path``.

    Args:
        labels: a file of people's labels, in place of the human ratings of the data: they correct its means.

    Raises:
        RunError, StorageError: it cannot be read.
        InputError: the labels cannot be used.
    """
    working = is_locked(path)
    run = read_run(path, READ)
    return standing(run, working=working, given=given_labels(labels, run))


def standing(run: RunData, *, working: bool, given: GivenLabels | None = None) -> Status:
    """Return the status of a loaded run; ``working``: a process is at work on it, ``given``: people's labels."""
    found = goal_of_run(run).found(run, given)
    return Status(found, Work.of(run, is_over=found.is_finished, working=working), Spent.of(run))


def _reasons(run: RunData, status: str) -> dict[str, int]:
    return _counted(run.judgments.filter(pc.equal(run.judgments["status"], status))["reason"])


def _counted(reasons: pa.ChunkedArray) -> dict[str, int]:
    return {
        each["values"]: each["counts"]
        for each in sorted(reasons.drop_null().value_counts().to_pylist(), key=str)
    }
