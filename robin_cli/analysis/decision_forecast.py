"""How many decisions will be wrong, and how many certified, before a run is made: the run simulated on pairs like its own.

As :mod:`robin_cli.analysis.forecast` does for errors. A decision hangs on all arms of a pair, or of a group, so whole pairs or
whole groups are simulated; of shares nothing is then to be scaled, and calls grow with the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.court import Verdict
from robin_cli.analysis.forecast import QUANTILES, RUNS, Found, Known, Needed, by_policy, quantiles, shares
from robin_cli.analysis.rating_model import draw_distributions
from robin_cli.analysis.simulation import Ratings, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy

_ARMS_AT_MOST = 1_000
_ARMS_FIRST = 20
_STEPS = (40_000, 6_000)
_ARMS_EVENLY = (300, 60)
"""Where each arm is judged by itself, and where several are together, each of which takes the more time."""

_CALLS_AN_ARM_AT_MOST = 1_000
_POINTS = 12
_NOISE = 1.96
"""Standard errors to either side that make 95 %."""

PolicyAt = Callable[[int, FloatArray, Task], Policy | None]
"""The policy for a budget, given the variances that it may know of the simulated arms (those that
:class:`~robin_cli.analysis.forecast.Known` has, else the true ones), and the task of each simulated world; None for a budget
that it refuses."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is decided with a budget, means over simulated runs; shares of all decisions.

    Attributes:
        wrong: by the mean ratings alone, where a pair within the margin cannot be.
        certified: those that hold at the error rate.
        calls: spent until the budget was, or everything was decided.
        wrong_sem, certified_sem, calls_sem: their standard errors over the runs.
        simulated: decisions in all of the runs together.
    """

    wrong: float
    wrong_sem: float
    certified: float
    certified_sem: float
    calls: float
    calls_sem: float
    simulated: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a scheduler decides.

    Attributes:
        expected: by budget, rising: those asked for, and more in between.
        end: calls until everything is decided, with those that 95 % of the runs lie between, as far as the simulation says.
    """

    expected: Mapping[int, Decisions]
    end: Found


def most_calls(arms: int) -> int:
    """The calls up to which the end of a run is looked for."""
    return _CALLS_AN_ARM_AT_MOST * arms


def foresee(
    known: Sequence[Known],
    task: Task,
    policy_at: PolicyAt,
    budgets: Sequence[int],
    rng: np.random.Generator,
    *,
    least: int | None = None,
) -> Outlook:
    """Simulate runs of every budget, and to their end, on pairs like ``known``.

    Of many arms some pairs or groups are simulated, drawn anew for each run, with their share of the budget.

    Args:
        known: what is known of the arms of each attribute and judge, attribute by attribute.
        task: what is to be decided of all of them.
        budgets: calls in all, rising, each at least the number of arms.
        least: the smallest of those in between; the smallest of ``budgets`` if not given.

    Returns:
        Without the budgets that the policy refuses.
    """
    arms, first, last = len(task.space), budgets[0] if least is None else least, budgets[-1]
    most = max(last, most_calls(arms))

    def run(size: float, wanted: Sequence[int]) -> dict[int, _Simulated]:
        return _simulated(known, _Sample(task, int(size)), policy_at, sorted(set(wanted)), rng)

    def grid(start: float, end: float) -> list[int]:
        return [round(each) for each in np.geomspace(start, max(start, end), _POINTS).tolist()]

    policy = policy_at(most, np.ones(arms), task)
    if policy is None:  # and no smaller budget will do
        return Outlook({}, Found(*[Needed(most, "more than")] * 3))
    several = task.group is not None or len(task.space.judges) > 1
    if policy.evenly:  # which asks on where all is clear, so that there is the more to look at
        found = run(_ARMS_EVENLY[several], [*budgets, *grid(first, last), *[most] * (not several)])
        return _outlook(found, arms, found[max(found)], evenly=True)
    # A few pairs first, which say how far it is to the end, and so how many there is time for.
    few = run(_ARMS_FIRST, [most])[most]
    to_end = few.calls.mean() / few.arms if few.is_over else math.inf
    size = _STEPS[several] / min(to_end, last / arms)
    is_near = bool(to_end * arms <= last)
    found = run(size, [*budgets, *grid(first, min(last, 1.2 * to_end * arms)), *[most] * is_near])
    return _outlook(found, arms, found[most] if is_near else few)


@dataclass(frozen=True, slots=True)
class _Simulated:
    """The runs with a budget.

    Attributes:
        arms: of each that were simulated.
        decisions: that hang on them.
        share: of the budget that they had.
    """

    verdict: Verdict
    arms: int
    decisions: int
    share: int

    @property
    def calls(self) -> IntArray:
        return self.verdict.calls

    @property
    def is_over(self) -> bool:
        """Whether everything was decided before the budget was spent, in all runs."""
        return bool((self.calls < self.share).all())


def _outlook(found: dict[int, _Simulated], arms: int, to_end: _Simulated, *, evenly: bool = False) -> Outlook:
    expected = {budget: _means(each, arms) for budget, each in sorted(found.items())}
    return Outlook(expected, _end(to_end, arms, evenly=evenly))


def _means(found: _Simulated, arms: int) -> Decisions:
    verdict, grown = found.verdict, arms / found.arms
    of = {"wrong": verdict.wrong, "certified": verdict.certified, "calls": found.calls * grown}
    means = {name: float(each.mean()) for name, each in of.items()}
    sems = {f"{name}_sem": float(each.std(ddof=1)) / math.sqrt(RUNS) for name, each in of.items()}
    return Decisions(**means, **sems, simulated=RUNS * found.decisions)


def _end(found: _Simulated, arms: int, *, evenly: bool) -> Found:
    """From the calls of the simulated runs to those of a run of all ``arms``, whose sums vary less.

    An even spread goes on until the last is decided, which takes the longer, the more there are.
    """
    calls, grown = found.calls.mean(), arms / found.arms
    if not found.is_over or (evenly and grown > 1):
        return Found(*[Needed(_rounded(grown * calls), "more than")] * 3)
    noise = _NOISE * float(found.calls.std(ddof=1)) * math.sqrt(1 / grown + 1 / RUNS)
    low, high = (Needed(_rounded(grown * max(1.0, calls + each)), "about") for each in (-noise, noise))
    return Found(Needed(_rounded(grown * calls), "about"), low, high)


def _rounded(calls: float) -> int:
    """To three significant digits."""
    return int(float(f"{calls:.3g}"))


class _Sample:
    """Some of the pairs, or of the groups, of a task, and the same task over as many.

    Attributes:
        task: its groups have the sizes that all have, in their proportions.
    """

    def __init__(self, task: Task, arms: int) -> None:
        of_a_pair = task.space.arms_per_pair
        pairs = len(task.space.pair_ids)
        wanted = min(pairs, max(1, min(arms, _ARMS_AT_MOST) // of_a_pair))
        # Pairs that are simulated together, a row each, by the size of their group.
        self._together = [np.arange(pairs)[:, None]] if task.group is None else _groups_by_size(task.group)
        units = [len(each) for each in self._together]
        self._taken = shares(units, max(1, round(sum(units) * wanted / pairs)))
        if not self._taken[-1] * task.decisions:
            self._taken[-1] = 1  # else there might be nothing to decide
        sizes = np.repeat([each.shape[1] for each in self._together], self._taken)
        space = ArmSpace(
            [str(number) for number in range(sizes.sum())], task.space.attributes, task.space.judges, task.space.scales
        )
        self.task = Task(task.decision, space, None if task.group is None else np.repeat(np.arange(len(sizes)), sizes))

    def pairs(self, rng: np.random.Generator) -> IntArray:
        """Pairs drawn without replacement."""
        drawn = [
            units[rng.permutation(len(units))[:taken]] for units, taken in zip(self._together, self._taken, strict=True)
        ]
        return np.concatenate([each.ravel() for each in drawn])


def _groups_by_size(group: IntArray) -> list[IntArray]:
    """The pairs of each group, a row a group, of the groups of each size, rising."""
    by_group = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    sizes = np.array([len(each) for each in by_group])
    return [np.stack([by_group[each] for each in np.flatnonzero(sizes == size)]) for size in np.unique(sizes)]


def _simulated(
    known: Sequence[Known], sample: _Sample, policy_at: PolicyAt, budgets: Sequence[int], rng: np.random.Generator
) -> dict[int, _Simulated]:
    """Simulate each budget on worlds of pairs drawn for each of RUNS runs."""
    arms, all_arms = len(sample.task.space), len(known) * len(known[0].counts)
    worlds = [sample.pairs(rng) for _ in range(RUNS)]
    values = np.concatenate([_ratings(known, pairs, rng) for pairs in worlds])
    ratings = Ratings(values, np.full(len(values), QUANTILES))
    begun = [each.variances for each in known if each.variances is not None]
    told = ratings.variances if not begun else np.stack(begun, axis=1)[np.concatenate(worlds)].ravel()
    found: dict[int, _Simulated] = {}
    for policy, group in by_policy(lambda budget: policy_at(budget, told, sample.task), budgets):
        parts = {budget: round(budget * arms / all_arms) for budget in group}
        reached = simulate(ratings, policy, list(parts.values()), RUNS, rng, worlds=RUNS, task=sample.task)
        by_part = {each.budget: each.verdict for each in reached}
        for budget, part in parts.items():
            verdict = by_part[part]
            assert verdict is not None  # noqa: S101  # there is something to decide
            found[budget] = _Simulated(verdict, arms, sample.task.decisions, part)
    return found


def _ratings(known: Sequence[Known], pairs: IntArray, rng: np.random.Generator) -> FloatArray:
    """Ratings of all arms of ``pairs`` as quantiles, shape (arms, QUANTILES), pair by pair."""
    of_each = [
        quantiles(draw_distributions(each.counts[pairs], each.weights, rng, between=True), each.scale) for each in known
    ]
    return np.stack(of_each, axis=1).reshape(-1, QUANTILES)
