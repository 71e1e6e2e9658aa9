"""The results of many simulated runs side by side: their scores, their decisions, and the errors of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import Evidence, all_decided
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.likely_wrong import is_good_enough, likely_wrong, share_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import RELATIONS
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Seen

Sums = tuple[FloatArray, FloatArray, FloatArray]
"""n, Σx and Σx² of each arm, shape (runs, K) each."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decisions of each of the runs, shape (runs,) each; shares of all decisions.

    Attributes:
        wrong: by the mean ratings; a pair within the margin of a threshold, or of the best, is never wrong.
        likely_wrong: the mean chance that a decision is wrong, as a run states it.
        certified, certified_wrong: those certified at the error rate, and the wrong ones (as a share of the certified); 0
            without an error rate.
        calls: spent until the budget was, the target was reached, or everything was certified.
    """

    wrong: FloatArray
    likely_wrong: FloatArray
    certified: FloatArray
    certified_wrong: FloatArray
    calls: IntArray


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All runs of one simulation after ``budget`` calls.

    Attributes:
        budget: calls spent by each run.
        n: ratings of each pair, shape (runs, K).
        estimates: mean ratings, shape (runs, K); nan for a pair not asked yet.
        wce: max_i |s_i − ŝ_i|, the paper's worst-case error, in units, shape (runs,); nan while a pair is not asked yet.
        mean_error: the mean of |s_i − ŝ_i| over the pairs, shape (runs,); nan likewise.
        verdict: the decisions; None without any.
    """

    budget: int
    n: IntArray
    estimates: FloatArray
    wce: FloatArray
    mean_error: FloatArray
    verdict: Verdict | None = None


class Court:
    """The decisions of all runs.

    Args:
        target: the share likely wrong at which a run ends; 0 for none.

    Attributes:
        settled: whether the decisions of each arm are certified, shape (runs, K); None without an error rate.
        done: whether each run is over before its budget, shape (runs,).
        certifies: whether looks at the evidence are due, see :func:`~robin_cli.planning.stopping.next_look`.
    """

    def __init__(self, task: Task, runs: int, target: float = 0.0) -> None:
        low, high = task.space.ends
        self.done = np.zeros(runs, dtype=np.bool_)
        self.target = target
        self._task = task
        self._evidence = None if task.decision.error_rate is None else Evidence(task, runs)
        self.settled = None if self._evidence is None else self._evidence.settled
        self._low = low.astype(np.int64)
        self._levels = (high - low).astype(np.int64) + 1
        self._counts = np.zeros((runs, len(low), int(self._levels.max())), dtype=np.int32)
        self._changed = np.zeros((runs, len(task.contests)), dtype=np.bool_)

    @property
    def certifies(self) -> bool:
        return self._evidence is not None

    def add(self, run: IntArray, arm: IntArray, rating: FloatArray) -> None:
        """Add a rating of each arm of each run, no arm of a run twice."""
        if self._evidence is not None:
            self._counts[run, arm, rating.astype(np.int64) - self._low[arm]] += 1
            self._changed[run, self._task.contest[arm]] = True

    @property
    def seen(self) -> Seen | None:
        """The state at the last look, for policies that ask about the decisions nearest to certain; else None."""
        return None if self._evidence is None else self._evidence.seen

    def look(self, sums: Sums, policy: Policy) -> bool:
        """Certify by all ratings so far; return whether urgencies may have changed."""
        evidence = self._updated(sums)
        if evidence is None:
            return False
        self.done |= all_decided(evidence)
        evidence.look(policy, sums, sums[0].sum(axis=1, keepdims=True))
        before, self.settled = self.settled, evidence.settled
        has_changed = before is None or bool((before != self.settled).any())
        return self.seen is not None or has_changed

    def test(self, sums: Sums) -> None:
        """End the runs in which few enough decisions are likely wrong."""
        none = np.zeros(len(self._low), dtype=np.bool_)
        for run in np.flatnonzero(~self.done):
            n, total, total_sq = (each[run] for each in sums)
            self.done[run] = is_good_enough(self._task, n, total, total_sq, none, self.target)

    def verdict(self, sums: Sums, truth: FloatArray) -> Verdict:
        """Return the decisions and how many are wrong; ``truth``: the true means of all arms, shape (runs, K)."""
        side, wrong_if = _side_of(self._task, self.means(sums)), _wrong_sides(self._task, truth)
        none = np.zeros(len(self._low), dtype=np.bool_)
        stated = [
            share_of(likely_wrong(self._task, n, total, total_sq, none))
            for n, total, total_sq in zip(*sums, strict=True)
        ]
        evidence, sure, wrongly = self._updated(sums), np.zeros(side.shape, np.bool_), side
        if evidence is not None:
            sure = certified(evidence.log, evidence.error_rate)
            wrongly = evidence.side.astype(np.int64)
        wrong, certified_wrong = (
            np.take_along_axis(wrong_if, each[..., None], axis=2)[..., 0]
            for each in (side, wrongly)
        )
        return Verdict(
            wrong=wrong.mean(axis=1),
            likely_wrong=np.array(stated),
            certified=sure.mean(axis=1),
            certified_wrong=(sure & certified_wrong).sum(axis=1) / np.maximum(sure.sum(axis=1), 1),
            calls=sums[0].sum(axis=1).astype(np.int64),
        )

    def means(self, sums: Sums) -> FloatArray:
        """Return the mean rating of each arm, shape (runs, K)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums[1] / sums[0]

    def _updated(self, sums: Sums) -> Evidence | None:
        """Return the evidence by all ratings so far; None without an error rate."""
        if self._evidence is not None:
            run, contest = np.nonzero(self._changed)
            self._changed[:] = False
            self._evidence.update(run, contest, self._counts_at, sums)
        return self._evidence

    def _counts_at(self, run: IntArray, arm: IntArray) -> FloatArray:
        levels = self._levels[arm[0]] if len(arm) else 0
        return self._counts[run, arm, :levels].astype(np.float64)


def _by_judges(task: Task, means: FloatArray) -> FloatArray:
    """Return the means of competing responses over their judges, shape (runs, contests, responses); −inf for none."""
    arms = task.contests
    return np.asarray(np.where(arms >= 0, means[:, arms], -np.inf).mean(axis=3))


def _side_of(task: Task, means: FloatArray) -> IntArray:
    """Return each decision by these means, shape (runs, decisions): as :attr:`Evidence.side`."""
    if task.group is not None:
        return np.asarray(_by_judges(task, means)[:, : task.decisions].argmax(axis=2))
    return np.asarray(_hold(task, means, 0.0).all(axis=2), dtype=np.int64)


def _wrong_sides(task: Task, truth: FloatArray) -> NDArray[np.bool_]:
    """Return whether each side is wrong, given the true means, shape (runs, decisions, sides)."""
    if task.group is not None:
        of_groups = _by_judges(task, truth)[:, : task.decisions]
        margin = task.margin[task.contests[: task.decisions, 0, 0]]
        return np.asarray(
            of_groups < of_groups.max(axis=2, keepdims=True) - margin[:, None] - _ROUNDING
        )
    dropped_wrongly = _hold(task, truth, 1.0).all(axis=2)
    kept_wrongly = ~_hold(task, truth, -1.0).all(axis=2)
    return np.stack([dropped_wrongly, kept_wrongly], axis=2)


def _hold(task: Task, means: FloatArray, margins: float) -> NDArray[np.bool_]:
    """Return whether each threshold holds, shape (runs, pairs, criteria), by at least ``margins`` margins."""
    by_pair = _by_judges(task, means)[:, :, 0].reshape(len(means), task.decisions, -1)
    names = list(task.space.attributes)
    found = []
    for each in task.decision.criteria:
        place = names.index(each.attribute)
        sign = 1.0 if each.above else -1.0
        at = each.threshold + sign * margins * (task.decision.margins[place] + _ROUNDING)
        found.append(RELATIONS[each.relation](by_pair[:, :, place], at))
    return np.stack(found, axis=2)
