"""The results of many simulated runs side by side: their scores, their decisions, and the errors of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums, mean
from robin_cli.model.decision import RELATIONS
from robin_cli.policies.base import Policy, Seen
from robin_cli.policies.matches import Rivals
from robin_cli.policies.task import Task
from robin_cli.stats.decided import rows_of_groups
from robin_cli.stats.decisions import Evidence, Ratings, all_decided
from robin_cli.stats.evidence import certified
from robin_cli.stats.likely_wrong import likely_wrong, share_of, share_to_test
from robin_cli.stats.pairwise_decisions import likely_wrong_bests
from robin_cli.stats.row_scores import endless_scores, row_scores

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All runs of one simulation after ``budget`` calls.

    Attributes:
        visits: of each run, shape (runs,).
        n, estimates: ratings and mean ratings of each pair, shape (runs, K); nan for an arm not asked yet.
        scores: by which decisions go, shape (runs, rows); without any, the estimates.
        wce, mean_error: the largest |s_i − ŝ_i|, in units, and their mean, shape (runs,); nan while a pair is not asked yet.
        measured: figures about the decisions by name, see :meth:`Court.measured`; empty without decisions.
    """

    budget: int
    visits: IntArray
    n: IntArray
    estimates: FloatArray
    scores: FloatArray
    wce: FloatArray
    mean_error: FloatArray
    measured: Mapping[str, FloatArray] = field(default_factory=dict)


class Court(ABC):
    """The decisions of all runs.

    Args:
        target: the share likely wrong at which a run ends; 0 for none.
        first: calls at which that is tested first.

    Attributes:
        done: whether each run is over before its budget, shape (runs,).
        certifies: whether looks at the evidence are due, see :func:`~robin_cli.policies.milestones.looks_at`.
        settled: whether the decisions of each arm are certified, shape (runs, K); None without an error rate.
    """

    certifies = False
    settled: NDArray[np.bool_] | None = None

    def __init__(self, runs: int, target: float, first: int) -> None:
        self.done, self._again = np.zeros(runs, dtype=np.bool_), np.zeros(runs)
        self.target, self.first = target, first

    @abstractmethod
    def chances(self, sums: Sums) -> FloatArray:
        """Return the chance that each decision of one run is wrong; ``sums``: of all its arms, shape (K,)."""

    def scores(self, sums: Sums) -> FloatArray:
        """Return the scores by which decisions go, shape (runs, rows)."""
        return mean(sums.n, sums.total)

    def share_to_test(self, sums: Sums) -> float:
        """Return the share of the decisions of one run that is likely wrong; nan if it is too early to tell."""
        return share_of(self.chances(sums))

    def test(self, sums: Sums, *, skips: bool) -> None:
        """End the runs in which few enough decisions are likely wrong; ``skips``: skip runs that were far off last time."""
        spent = sums.n.sum(axis=1)
        for run in np.flatnonzero(~self.done & (spent >= self._again)):
            share = self.share_to_test(sums.by(itemgetter(run)))
            self.done[run] = share <= self.target
            if (
                skips and share > self.target
            ):  # the share falls by less than the fourth power of the calls
                self._again[run] = spent[run] * (share / self.target) ** 0.25

    def measured(self, sums: Sums, truth: FloatArray) -> dict[str, FloatArray]:
        """Return figures about the decisions of each run by name, shape (runs,) each.

        ``likely_wrong`` is the mean chance that a decision is wrong, as a run states it; ``calls`` were spent until the budget
        was, the target was reached, or everything was certified. ``truth``: the true means of all arms, shape (runs, K).
        """
        del truth
        stated = [share_of(self.chances(Sums(*of_run))) for of_run in zip(*sums, strict=True)]
        return {"likely_wrong": np.array(stated), "calls": sums.n.sum(axis=1)}

    def add(self, run: IntArray, arm: IntArray, rating: FloatArray) -> None:  # noqa: B027  # nothing by default
        """Add a rating of each arm of each run; an arm of a run may be there several times."""

    @property
    def seen(self) -> Seen | None:
        """The state at the last look, for policies that ask about the decisions nearest to certain; else None."""
        return None

    def look(self, sums: Sums, policy: Policy) -> bool:
        """Certify by all ratings so far; return whether urgencies may have changed."""
        del sums, policy
        return False


class DuelCourt(Court):
    """The best response to each prompt; ``margin``: a probability."""

    def __init__(self, rivals: Rivals, margin: float, runs: int, target: float) -> None:
        super().__init__(runs, target, len(rivals.rows) * rivals.matches.space.arms_per_pair)
        self._rivals, self._margin = rivals, margin
        self._given_up = np.zeros(len(rivals.matches.space), dtype=np.bool_)

    def chances(self, sums: Sums) -> FloatArray:
        return likely_wrong_bests(self._rivals, sums, self._given_up, self._margin)


class DecisionCourt(Court):
    """Decisions on pairs, or on the best of groups; with an error rate they are certified."""

    def __init__(self, task: Task, runs: int, target: float = 0.0) -> None:
        super().__init__(runs, target, task.space.first_fit)
        low, high = task.space.ends
        self._task = task
        self._evidence = None if task.decision.error_rate is None else Evidence(task, runs)
        self.certifies = self._evidence is not None
        self.settled = None if self._evidence is None else self._evidence.settled
        self._low = low.astype(np.int64)
        self._levels = (high - low).astype(np.int64) + 1
        self._counts = np.zeros((runs, len(low), int(self._levels.max())), dtype=np.int32)
        self._changed = np.zeros((runs, len(task.contests)), dtype=np.bool_)
        self._given_up = np.zeros(len(low), dtype=np.bool_)

    def add(self, run: IntArray, arm: IntArray, rating: FloatArray) -> None:
        if self.certifies:
            np.add.at(self._counts, (run, arm, rating.astype(np.int64) - self._low[arm]), 1)
            self._changed[run, self._task.contest[arm]] = True

    @property
    def seen(self) -> Seen | None:
        return None if self._evidence is None else self._evidence.seen

    def look(self, sums: Sums, policy: Policy) -> bool:
        evidence, before = self._updated(sums), self.settled
        if evidence is None or before is None:
            return False
        self.done |= all_decided(evidence)
        evidence.look(policy, sums, sums.n.sum(axis=1, keepdims=True))
        self.settled = evidence.settled
        return self.seen is not None or bool((before != self.settled).any())

    def chances(self, sums: Sums) -> FloatArray:
        return likely_wrong(self._task, sums, self._given_up)

    def scores(self, sums: Sums) -> FloatArray:
        return row_scores(self._task.space, self._task, sums).score

    def share_to_test(self, sums: Sums) -> float:
        return share_to_test(self._task, sums, self._given_up, self.target)

    def measured(self, sums: Sums, truth: FloatArray) -> dict[str, FloatArray]:
        """Return also the share that is ``wrong`` by the mean ratings, and with an error rate the share that is certified.

        A pair within the margin of a threshold, or of the best, is never wrong. ``certified_wrong`` is a share of the
        certified decisions.
        """
        task, scores, found = self._task, self.scores(sums), super().measured(sums, truth)
        if task.group is not None:
            side = _of_groups(task, scores).argmax(axis=2)
        else:
            side = _hold(task, scores, 0.0).all(axis=2).astype(np.int64)
        wrong_if = _wrong_sides(self._task, endless_scores(self._task, sums, truth))
        found["wrong"] = _of_side(wrong_if, side).mean(axis=1)
        if (evidence := self._updated(sums)) is not None:
            sure = certified(evidence.log, evidence.error_rate)
            wrongly = (sure & _of_side(wrong_if, evidence.side.astype(np.int64))).sum(axis=1)
            found["certified"] = sure.mean(axis=1)
            found["certified_wrong"] = wrongly / np.maximum(sure.sum(axis=1), 1)
        return found

    def _updated(self, sums: Sums) -> Evidence | None:
        """Return the evidence by all ratings so far; None without an error rate."""
        if self._evidence is not None:
            run, contest = np.nonzero(self._changed)
            self._changed[:] = False
            ratings = Ratings(self._counts_at, sums, np.zeros(sums.n.shape, dtype=np.bool_))
            self._evidence.update(run, contest, ratings)
        return self._evidence

    def _counts_at(self, run: IntArray, arm: IntArray) -> FloatArray:
        levels = self._levels[arm[0]] if len(arm) else 0
        return self._counts[run, arm, :levels].astype(np.float64)


def _of_side(by_side: NDArray[np.bool_], side: IntArray) -> NDArray[np.bool_]:
    """Return the entry of each decision's side, shape (runs, decisions), from (runs, decisions, sides)."""
    return np.take_along_axis(by_side, side[..., None], axis=2)[..., 0]


def _of_groups(task: Task, scores: FloatArray) -> FloatArray:
    """Return the scores of competing responses, shape (runs, decisions, responses); −inf for none."""
    rows = rows_of_groups(task)
    return np.where((rows >= 0) & ~np.isnan(scores[:, rows]), scores[:, rows], -np.inf)


def _wrong_sides(task: Task, truth: FloatArray) -> NDArray[np.bool_]:
    """Return whether each side is wrong, given the true scores, shape (runs, decisions, sides)."""
    if task.group is not None:
        of_groups = _of_groups(task, truth)
        margin = task.margin[task.contests[: task.decisions, 0, 0]]
        return np.asarray(
            of_groups < of_groups.max(axis=2, keepdims=True) - margin[:, None] - _ROUNDING
        )
    dropped_wrongly = _hold(task, truth, 1.0).all(axis=2)
    kept_wrongly = ~_hold(task, truth, -1.0).all(axis=2)
    return np.stack([dropped_wrongly, kept_wrongly], axis=2)


def _hold(task: Task, scores: FloatArray, margins: float) -> NDArray[np.bool_]:
    """Return whether each threshold holds, shape (runs, pairs, criteria), by at least ``margins`` margins."""
    by_pair = scores.reshape(len(scores), task.decisions, -1)
    found = []
    for each in task.decision.criteria:
        place = list(task.space.attributes).index(each.attribute)
        beyond = margins * (task.decision.margins[place] + _ROUNDING)
        at = each.threshold + (beyond if each.above else -beyond)
        found.append(RELATIONS[each.relation](by_pair[:, :, place], at))
    return np.stack(found, axis=2)
