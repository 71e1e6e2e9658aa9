"""The decisions of a run: which pairs are kept, or which response of each group is best, with their certainty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.decision import BEST, DROP, KEEP, REJECTED, RELATIONS, UNDECIDED
from robin_cli.policies.task import Task
from robin_cli.stats.decisions import Evidence
from robin_cli.stats.evidence import certified
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.likely_wrong import likely_wrong, share_of
from robin_cli.stats.row_scores import judge_scores, row_scores


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions of a run as it stands; rows are those of its scores, a pair and attribute each.

    Attributes:
        decision: keep, drop, best or rejected, by the mean ratings; undecided without a rating; shape (rows,).
        number: which decision each row is part of, shape (rows,); −1 for groups of one response, of which nothing is decided.
        likely_wrong: the chance that each decision is wrong, see :mod:`robin_cli.stats.likely_wrong`, shape (decisions,).
        certified: whether the error rate holds for each decision, shape (decisions,); None without --certify.
        is_over: whether no further call can certify another decision; False without --certify.
    """

    task: Task
    decision: NDArray[np.object_]
    number: IntArray
    likely_wrong: FloatArray
    certified: NDArray[np.bool_] | None = None
    is_over: bool = False

    @property
    def decisions(self) -> int:
        return len(self.likely_wrong)

    @property
    def share_wrong(self) -> float:
        return share_of(self.likely_wrong)

    @property
    def first(self) -> IntArray:
        """A row that stands for each decision, shape (decisions,): the first, of groups the one that leads."""
        return first_rows(self.task, self.decision)

    def of_rows(self, of_decisions: NDArray[Any], *, other: Any) -> NDArray[Any]:
        """Return the value of each row's decision, ``other`` for a row without one; shape (rows,)."""
        if not len(of_decisions):
            return np.full(len(self.number), other)
        return np.where(self.number >= 0, of_decisions[self.number], other)

    def tally(self) -> dict[str, int]:
        return tally_of(self.task, self.decision)


def decide(task: Task, counts: Callable[[], LevelCounts], arms: Arms) -> Decided:
    """Return the decisions of a run; ``counts`` and ``arms`` are of all its ratings."""
    means = row_scores(task.space, task, arms.sums).score
    decision = decisions_by(task, means)
    if task.group is None:
        number = task.space.pair[task.contests[:, 0, 0]].astype(np.int64)
    else:
        number = np.full(len(means), -1)
        rows = rows_of_groups(task)
        number[rows[rows >= 0]] = np.nonzero(rows >= 0)[0]
    found = Decided(task, decision, number, likely_wrong(task, arms.sums, arms.is_retired))
    if task.decision.error_rate is None:
        return found
    return _with_certified(found, Evidence(task).of_run(counts(), arms), task.decision.error_rate)


def _with_certified(decided: Decided, evidence: Evidence, error_rate: float) -> Decided:
    """Return the decisions with those that are certified: the certified side is the decision, or both sides are certain."""
    sure, decision, task = certified(evidence.log[0], error_rate), decided.decision, decided.task
    first = decision[decided.first]
    if task.group is None:
        # what e-BH asked of those that it certified
        enough = evidence.needed + math.log(len(sure) / max(1, sure.sum()))
        is_either = evidence.other[0] >= enough
        same = (first == np.where(evidence.side[0] > 0, KEEP, DROP)) | is_either
    else:
        rows = rows_of_groups(task)
        same = decision[rows[np.arange(len(rows)), evidence.side[0][: len(rows)]]] == BEST
    return replace(
        decided,
        certified=sure & same & (first != UNDECIDED),
        is_over=bool((sure | evidence.closed[0]).all()),
    )


def differing(task: Task, arms: Arms) -> list[tuple[int, int]]:
    """Return how often each other judge decides otherwise than the first, of the sampled decisions that both make."""
    first, *others = (decisions_by(task, means) for means in judge_scores(task, arms.sums).T)
    rows = first_rows(task, first)
    pair = task.space.pair[:: task.space.raters][rows]
    asked = np.isin(pair, task.sample[0]) & (first[rows] != UNDECIDED)
    found = []
    for other in others:
        both = asked & (other[rows] != UNDECIDED)
        found.append((int((both & (first[rows] != other[rows])).sum()), int(both.sum())))
    return found


def first_rows(task: Task, decision: NDArray[np.object_]) -> IntArray:
    """Return the first row of each decision, for groups that of the leader if there is one; shape (decisions,)."""
    if task.group is None:
        return np.asarray(task.space.by_pair(np.arange(len(task.contests)))[:, 0])
    rows = rows_of_groups(task)
    leads = (rows >= 0) & (decision[rows] == BEST)
    return np.asarray(rows[np.arange(len(rows)), leads.argmax(axis=1)])


def tally_of(task: Task, decision: NDArray[np.object_]) -> dict[str, int]:
    """Return the number of decisions of each kind: pairs, or groups with a best; ``decision``: of each row."""
    each = decision[first_rows(task, decision)]
    if task.group is not None:
        best = int((each == BEST).sum())
        return {BEST: best, UNDECIDED: len(each) - best}
    return {name: int((each == name).sum()) for name in (KEEP, DROP, UNDECIDED)}


def decisions_by(task: Task, means: FloatArray) -> NDArray[np.object_]:
    """Return each row's decision by the mean alone; undecided if a mean is missing. Shape (rows,)."""
    if task.group is None:
        by_pair, known = task.space.by_pair(means), ~np.isnan(means)
        holds = np.ones(len(by_pair), dtype=np.bool_)
        for each in task.decision.criteria:
            column = by_pair[:, list(task.space.attributes).index(each.attribute)]
            holds &= np.isnan(column) | RELATIONS[each.relation](column, each.threshold)
        side = _either(np.asarray(task.space.by_pair(known).all(axis=1)), KEEP, UNDECIDED)
        side[~holds] = DROP  # one that is not met is enough
        return side[task.space.pair[task.contests[:, 0, 0]]]
    rows = rows_of_groups(task)
    found = np.full(len(means), "", dtype=object)
    found[rows[rows >= 0]] = UNDECIDED
    of_group = np.where((rows >= 0) & ~np.isnan(means[rows]), means[rows], -np.inf)
    is_known = of_group.max(axis=1, initial=-np.inf) > -np.inf
    lead = of_group.argmax(axis=1)
    for place in range(rows.shape[1]):
        is_rated = is_known & (of_group[:, place] > -np.inf)
        found[rows[is_rated, place]] = _either(lead[is_rated] == place, BEST, REJECTED)
    return found


def _either(is_one: NDArray[np.bool_], yes: str, no: str) -> NDArray[np.object_]:
    """``yes`` where it is so, else ``no``: these two themselves, where numpy's own texts become a new yes a row."""
    return np.array([no, yes], dtype=object)[is_one.astype(np.intp)]


def rows_of_groups(task: Task) -> IntArray:
    """Return the score rows that each group of two responses or more compares, shape (decisions, responses), −1 for none."""
    return task.space.row_of(task.contests[: task.decisions, :, 0])
