"""The decisions of a run: which pairs are kept, or which response of each group is best, with their certainty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import AT_ONCE, Evidence, Sums
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import chance_below, freedom_of_sum, moderated
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.decision import BEST, DROP, KEEP, REJECTED, RELATIONS, UNDECIDED
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions of a run as it stands; rows are those of its scores, a pair and attribute each.

    Attributes:
        task: what was to be decided.
        decision: keep, drop, best or rejected where it is certified, else undecided; shape (rows,).
        leaning: the same by the mean ratings alone; undecided where there is none.
        certified: of these, at most a share of δ is wrong on average, at whatever time one looks.
        settled: it has the evidence, 1/δ, that one decision by itself needs; once most have, they are certified together.
        doubt: the estimated chance that the leaning is wrong beyond the margin, see :func:`doubts`; nan where it is not known.
        given_up: it hangs on an arm that is asked no more, because it cannot be rated.
        number: which decision each row is part of, shape (rows,); −1 for groups of one response, of which nothing is decided.
        held: which decisions are certified, shape (decisions,).
        stuck: which of them no further call can settle, because arms were given up; shape (decisions,).
    """

    task: Task
    decision: NDArray[np.object_]
    leaning: NDArray[np.object_]
    certified: NDArray[np.bool_]
    settled: NDArray[np.bool_]
    doubt: FloatArray
    given_up: NDArray[np.bool_]
    number: IntArray
    held: NDArray[np.bool_]
    stuck: NDArray[np.bool_]

    @property
    def decisions(self) -> int:
        """How many there are."""
        return len(self.held)

    @property
    def is_over(self) -> bool:
        """Whether everything is decided that can be."""
        return bool((self.held | self.stuck).all())

    @property
    def likely_wrong(self) -> float:
        """Which share of the leanings is likely wrong, over those of which it is known; nan where it is of none."""
        return share_of(self.doubt[self.first])

    @property
    def first(self) -> IntArray:
        """A row that stands for each decision, shape (decisions,): the first, of groups the one that leads."""
        return first_rows(self.task, self.leaning)

    def tally(
        self, column: NDArray[np.object_], among: NDArray[np.bool_] | None = None
    ) -> dict[str, int]:
        """Return the number of decisions of each kind: pairs, or groups with a best.

        Args:
            among: which decisions are counted, shape (decisions,); None for all.
        """
        each = column[self.first][slice(None) if among is None else among]
        if self.task.group is not None:
            best = int((each == BEST).sum())
            return {BEST: best, UNDECIDED: len(each) - best}
        return {name: int((each == name).sum()) for name in (KEEP, DROP, UNDECIDED)}


def decide(task: Task, counts: LevelCounts, arms: Arms) -> Decided:
    """Return the decisions of a run; ``counts`` and ``arms`` are of all its ratings."""
    means = score_means(task.space, arms.counts, arms.totals)
    evidence = Evidence(task)
    every = np.arange(len(task.contests))
    sums = (arms.counts[None, :], arms.totals[None, :], arms.totals_sq[None, :])
    given_up = arms.retired_mask[None, :]
    evidence.update(
        np.zeros_like(every), every, lambda _run, arm: counts.of_arms(arm), sums, given_up
    )
    sure = certified(evidence.log[0], task.decision.error_rate)
    leaning = leanings(task, means)
    if task.group is None:
        number = task.space.pair[task.contests[:, 0, 0]].astype(np.int64)
        side = _either(evidence.side[0] > 0, KEEP, DROP)[number]
        # what e-BH asked of those that it certified
        enough = evidence.needed + math.log(len(sure) / max(1, sure.sum()))
        is_either = (evidence.other[0] >= enough)[number] & (leaning != UNDECIDED)
        side = np.where(is_either, leaning, side)  # sure of both: it lies within the margin
    else:
        number, side = np.full(len(means), -1), np.full(len(means), UNDECIDED, dtype=object)
        for place, row in enumerate(rows_of_groups(task).T):
            there = np.flatnonzero(row >= 0)
            number[row[there]] = there
            side[row[there]] = _either(evidence.side[0][there] == place, BEST, REJECTED)

    part = number >= 0

    def of_rows(of_decisions: Any) -> NDArray[np.bool_]:
        return np.asarray(part & of_decisions[number])

    is_sure = of_rows(sure) & (leaning != UNDECIDED)
    return Decided(
        task=task,
        decision=np.where(is_sure, side, _either(part, UNDECIDED, "")),
        leaning=leaning,
        certified=is_sure,
        settled=of_rows(evidence.log[0] >= evidence.needed),
        doubt=doubts(
            task, means, leaning, (arms.counts, arms.totals, arms.totals_sq), arms.retired_mask
        ),
        given_up=of_rows(evidence.stuck[0]),
        number=number,
        held=sure,
        stuck=evidence.stuck[0],
    )


def score_means(space: ArmSpace, n: IntArray | FloatArray, totals: FloatArray) -> FloatArray:
    """Return the score of each pair and attribute, shape (rows,): the mean over raters, nan if one gave no rating."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(space.by_rater(totals / n).mean(axis=1))


def first_rows(task: Task, leaning: NDArray[np.object_]) -> IntArray:
    """Return the first row of each decision, for groups that of the leader if there is one; shape (decisions,).

    ``leaning``: of each row, see :func:`leanings`.
    """
    if task.group is None:
        return np.asarray(task.space.by_pair(np.arange(len(task.contests)))[:, 0])
    rows = rows_of_groups(task)
    leads = (rows >= 0) & (leaning[rows] == BEST)
    return np.asarray(rows[np.arange(len(rows)), leads.argmax(axis=1)])


def share_of(doubt: FloatArray) -> float:
    """Return the mean of the known values of ``doubt``; nan without any."""
    known = doubt[~np.isnan(doubt)]
    return float(known.mean()) if len(known) else math.nan


def doubts(
    task: Task,
    means: FloatArray,
    leaning: NDArray[np.object_],
    sums: Sums,
    given_up: NDArray[np.bool_],
) -> FloatArray:
    """Return the estimated probability that each row's leaning is wrong beyond the margin; nan if unknown.

    By the tails of the moderated t, see :mod:`robin_cli.analysis.moderated`: kept wrongly is a pair where one threshold does
    not hold, dropped wrongly where all do; not the best is a leader where its nearest rival is better. It holds on average
    over the decisions, and is no guarantee: over 8 simulated sets it was 1.2 to 1.6 times the share of wrong ones at
    thresholds, and 0.85 to 1.5 times for the best of four, from 2 to 20 ratings a pair; 0.7 times where noise left 4 of 10
    of these wrong, for then other rivals are as near.

    Args:
        means: the score of each row, shape (rows,).
        sums: of the ratings of each arm, shape (K,) each.
        given_up: arms that are asked no more because they cannot be rated, shape (K,).
    """
    space = task.space
    found = moderated(space, *sums)
    variances = space.by_rater(found.error_variance)
    error = variances.sum(axis=1) / space.raters**2
    freedom = freedom_of_sum(variances, space.by_rater(found.freedom))
    if task.group is not None:
        return _doubts_of_best(
            task, means, error, freedom, np.asarray(space.by_rater(given_up).any(axis=1))
        )
    of_pairs = [space.by_pair(each) for each in (means, error, freedom, leaning)]
    doubt = np.empty(of_pairs[0].shape)
    for start in range(0, len(doubt), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        doubt[part] = _doubt_of_pairs(task, *(each[part] for each in of_pairs))
    return doubt.ravel()


def _doubt_of_pairs(
    task: Task,
    values: FloatArray,
    error: FloatArray,
    free: FloatArray,
    leaning: NDArray[np.object_],
) -> FloatArray:
    """Return the chance that the leaning of each pair is wrong; arguments have a row per pair and a column per attribute."""
    spread, all_hold, hold_by_more = np.sqrt(error), np.ones(len(values)), np.ones(len(values))
    for each in task.decision.criteria:
        place = list(task.space.attributes).index(each.attribute)
        above = (values[:, place] - each.threshold) * (1.0 if each.above else -1.0)
        margin = task.decision.margins[place]
        all_hold *= chance_below((above + margin) / spread[:, place], free[:, place])
        hold_by_more *= chance_below((above - margin) / spread[:, place], free[:, place])
    doubt = np.where(leaning == KEEP, 1.0 - all_hold[:, None], hold_by_more[:, None])
    return np.where(leaning == UNDECIDED, np.nan, doubt)


def _doubts_of_best(
    task: Task,
    means: FloatArray,
    error: FloatArray,
    freedom: FloatArray,
    given_up: NDArray[np.bool_],
) -> FloatArray:
    doubt, rows = np.full(len(means), np.nan), rows_of_groups(task)
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        there = part >= 0
        worse = _doubt_of_groups(task, part, there, means, error, freedom, given_up)
        doubt[part[there]] = np.broadcast_to(worse[:, None], part.shape)[there]
    return doubt


def _doubt_of_groups(
    task: Task,
    rows: IntArray,
    there: NDArray[np.bool_],
    means: FloatArray,
    error: FloatArray,
    freedom: FloatArray,
    given_up: NDArray[np.bool_],
) -> FloatArray:
    """Return the chance that the leader of each group is not the best, shape (groups,); nan if unknown."""
    every = np.arange(len(rows))
    value, variance, free = (
        np.where(there, each[rows], np.nan) for each in (means, error, freedom)
    )
    lead = np.where(np.isnan(value), -np.inf, value).argmax(axis=1)
    unrated = np.asarray(there & np.isnan(value))
    unknown = (unrated & ~given_up[np.maximum(rows, 0)]) | (
        there & (unrated | ~there).all(axis=1, keepdims=True)
    )
    rival = there & (np.arange(rows.shape[1]) != lead[:, None]) & ~unrated
    margin = task.space.by_rater(task.margin)[rows[:, 0], 0]
    both = np.stack([np.broadcast_to(variance[every, lead, None], rows.shape), variance], axis=-1)[
        rival
    ]
    ahead = (value[every, lead, None] - value + margin[:, None])[rival] / np.sqrt(both.sum(axis=1))
    frees = np.stack([np.broadcast_to(free[every, lead, None], rows.shape), free], axis=-1)[rival]
    worse = np.zeros(rows.shape)
    worse[rival] = chance_below(-ahead, freedom_of_sum(both, frees))
    worse = np.where(unknown, np.nan, worse)  # it may be better than all
    return np.asarray(worse.max(axis=1))


def leanings(task: Task, means: FloatArray) -> NDArray[np.object_]:
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
        mine = is_known & (of_group[:, place] > -np.inf)
        found[rows[mine, place]] = _either(lead[mine] == place, BEST, REJECTED)
    return found


def _either(is_one: NDArray[np.bool_], one: str, other: str) -> NDArray[np.object_]:
    """``one`` where it is so, else ``other``: these two themselves, where numpy's own texts become a new one a row."""
    return np.array([other, one], dtype=object)[is_one.astype(np.intp)]


def rows_of_groups(task: Task) -> IntArray:
    """Return the score rows that each group of two responses or more compares, shape (decisions, responses), −1 for none."""
    return task.space.row_of(task.contests[: task.decisions, :, 0])
