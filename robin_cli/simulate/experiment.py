"""The experiment of all goals: policies spend budgets on a judge with known answers, and the errors are measured.

The judge is a pool of recorded ratings or verdicts (``robin simulate``), or drawn from a belief before a run (``robin plan``,
see :mod:`robin_cli.simulate.forecast`). Each answer is one of an arm's ratings, drawn with replacement; the truth is their
mean.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import LONGEST_VISIT
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.milestones import LOOK_GROWTH
from robin_cli.policies.registry import BASELINE, DEFAULT, chosen, make_policy
from robin_cli.settings.table import longest_visit
from robin_cli.simulate.jobs import rows_of_jobs
from robin_cli.simulate.runs import DrawnRatings, simulate
from robin_cli.simulate.settings import SimulationSettings
from robin_cli.stats.agreement import CORRELATIONS, correlations
from robin_cli.stats.court import Snapshot

_ROUNDING = 1e-9


@dataclass(frozen=True)
class World:
    """A judge with known answers, and the goal of a run with it.

    Attributes:
        ratings: of ``count`` sets of the goal's arms, one after another; run r is made on set r mod ``count``.
        goal: of each set.
    """

    ratings: DrawnRatings
    goal: Goal
    count: int = 1

    def measured(self, snapshot: Snapshot) -> dict[str, FloatArray]:
        """Return the errors of the runs by measure, see :meth:`~robin_cli.goals.base.Goal.loss`."""
        world = np.arange(len(snapshot.n)) % self.count
        return self.goal.loss(snapshot, self.ratings.means.reshape(self.count, -1)[world])


def spend(
    world: World,
    policy_at: Callable[[int], Policy],
    budgets: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    *,
    share: float = 1.0,
    block: int | None = None,
    longest_visit: int = LONGEST_VISIT,
    look_growth: float = LOOK_GROWTH,
) -> Iterator[tuple[int, Snapshot]]:
    """Spend each of ``budgets``, ``runs`` times; budgets with the same policy are parts of one run.

    Args:
        policy_at: returns the policy for a budget.
        share: the world's share of the arms, and so of each budget.
        block, longest_visit, look_growth: see :func:`~robin_cli.simulate.runs.simulate`.
    """
    groups: dict[tuple[str, int, int | None], tuple[Policy, dict[int, int]]] = {}
    for budget in budgets:
        policy = policy_at(budget)
        key = (policy.full_name, policy.warm_up, budget if policy.by_budget else None)
        groups.setdefault(key, (policy, {}))[1][budget] = round(budget * share)
    for policy, parts in groups.values():
        snapshots = simulate(
            *(world.ratings, policy, list(parts.values()), runs, rng),
            worlds=world.count,
            court=world.goal.court,
            first_fit=world.goal.space.first_fit,
            block=block,
            first_visit=world.goal.first_visit,
            longest_visit=longest_visit,
            look_growth=look_growth,
        )
        by_part = {snapshot.budget: snapshot for snapshot in snapshots}
        yield from ((budget, by_part[part]) for budget, part in parts.items())


@dataclass(frozen=True)
class RecordedSet:
    """The subject of an experiment: a judge's recorded answers, and the goal of a run with it.

    Attributes:
        attribute: its name; for verdicts that of the judge.
        ratings: of each arm, shape (at least 1,); verdicts are 2 if A was better, 1 for a tie and 0 if B was, of each
            comparison in both orders.
        human: people's ratings of the same pairs, nan for none; None if the data has none.
        right: whether each pair is a right answer; None if the data does not say, or if no groups have a best.
    """

    attribute: str
    ratings: tuple[NDArray[np.int64], ...]
    goal: Goal
    human: FloatArray | None = None
    right: NDArray[np.bool_] | None = None

    @cached_property
    def drawn(self) -> DrawnRatings:
        """The ratings, laid out for drawing."""
        return DrawnRatings.from_ratings(self.ratings)

    @property
    def recorded(self) -> FloatArray:
        """The mean of each pair's recorded ratings, over its judges, shape (1, pairs)."""
        return np.asarray(self.goal.space.by_rater(self.drawn.means).mean(axis=1))[None]

    def correlations(self, scores: FloatArray) -> dict[str, float]:
        """Return the mean over runs of each coefficient with the human ratings, nan without these."""
        if self.human is None:
            return dict.fromkeys(CORRELATIONS, np.nan)
        of_runs = [correlations(of_run, self.human) for of_run in scores]
        return dict(zip(CORRELATIONS, np.mean(of_runs, axis=0).tolist(), strict=True))

    def share_right(self, scores: FloatArray) -> dict[str, FloatArray]:
        """Return ``right``: the share of groups whose highest score is a right answer's, shape (runs,); empty without any.

        If several share the highest score, the share of these that are right counts: the order of the pairs has no effect.

        Args:
            scores: of each pair, shape (runs, pairs); nan for none, which is as good as any other without one.
        """
        group = self.goal.groups
        if self.right is None or group is None:
            return {}
        at = np.arange(len(scores))[:, None], group
        scores = np.where(np.isnan(scores), -np.inf, scores)
        best = np.full((len(scores), group.max() + 1), -np.inf)
        np.maximum.at(best, at, scores)
        is_best = scores >= best[at] - _ROUNDING
        right, highest = np.zeros((2, *best.shape))
        np.add.at(right, at, is_best & self.right)
        np.add.at(highest, at, is_best)
        return {"right": np.asarray((right / highest).mean(axis=1))}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """The results of many simulated runs, by measure, see :meth:`~robin_cli.goals.base.Goal.loss`."""

    measured: Mapping[str, FloatArray]

    def figure(self, column: str) -> float:
        """Return the mean, std, sem or sum over the runs, by the end of ``column``; std over 1/(runs − 1), nan of one run."""
        name, _, statistic = column.rpartition("_")
        values = self.measured[name]
        if statistic == "sum":
            return cast("float", values.sum().item())
        if statistic == "mean":
            return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        return std if statistic == "std" else std / float(np.sqrt(len(values)))


@dataclass(frozen=True, slots=True)
class Row(MeasuredRuns):
    """The runs of one scheduler at one budget on one subject; run r has the same place at every budget.

    Attributes:
        columns: of ``robin simulate``, for the measures.
        what: the kind of error, if it has a name.
        correlations: see :meth:`RecordedSet.correlations`.
    """

    attribute: str
    scheduler: str
    budget: int
    runs: int
    columns: tuple[str, ...] = ()
    what: str = ""
    correlations: Mapping[str, float] | None = None


_Job = tuple[RecordedSet, str, SimulationSettings, tuple[int, ...]]


def conduct(
    subjects: Sequence[RecordedSet],
    settings: SimulationSettings,
    progress: Callable[[int, int], None],
    reference: tuple[int, ...] = (),
) -> list[Row]:
    """Run the experiment, on all cores.

    Args:
        progress: called with the number of parts done and of all parts.
        reference: further budgets for the baseline alone, from which the savings of the others are read.

    Raises:
        InputError: see :func:`checked`.
    """
    jobs = [
        (subject, name, settings, reference if name == BASELINE else ())
        for subject, name in checked(subjects, settings)
    ]
    calls = len(jobs) * settings.runs * max(settings.budget)
    return rows_of_jobs(jobs, _rows_of, progress, calls=calls)


def checked(
    subjects: Sequence[RecordedSet], settings: SimulationSettings
) -> list[tuple[RecordedSet, str]]:
    """Return each subject with each scheduler, or refuse before any time is spent.

    Raises:
        InputError: a budget that is too small; an unknown scheduler, or a setting that it refuses.
    """
    jobs: list[tuple[RecordedSet, str]] = []
    for subject in subjects:
        subject.goal.check_reach(min(settings.budget))
        setup = _setup(subject, settings, max(settings.budget))
        choice = chosen(DEFAULT, setup)
        usual = dict.fromkeys((BASELINE, DEFAULT if choice is None else choice.name))
        names = settings.schedulers or subject.goal.simulated or tuple(usual)
        for name in names:
            make_policy(name, setup)
        jobs += [(subject, name) for name in names]
    return jobs


def _rows_of(job: _Job) -> list[Row]:
    subject, name, settings, reference = job
    world = World(subject.drawn, subject.goal)

    def policy_at(budget: int) -> Policy:
        """Return the policy of a run of ``budget``; in theory mode of the largest, as smaller ones are parts of that run."""
        largest = max(settings.budget) if settings.mode == "theory" else budget
        return make_policy(name, _setup(subject, settings, largest))

    seeds = [settings.seed, zlib.crc32(subject.attribute.encode()), zlib.crc32(name.encode())]
    return [
        Row(
            attribute=subject.attribute,
            scheduler=name,
            budget=budget,
            runs=settings.runs,
            measured=world.measured(snapshot) | subject.share_right(snapshot.scores),
            columns=world.goal.columns + ("right_mean", "right_sem") * (subject.right is not None),
            what=world.goal.what,
            correlations=subject.correlations(snapshot.scores),
        )
        for budget, snapshot in spend(
            *(world, policy_at, (*settings.budget, *reference), settings.runs),
            np.random.default_rng(seeds),
            longest_visit=longest_visit(settings.samples_per_request),
        )
    ]


def _setup(subject: RecordedSet, settings: SimulationSettings, budget: int) -> Setup:
    of_policies = {name: getattr(settings, name) for name in ("delta", "mode", "margin")}
    return subject.goal.setup(of_policies, budget, variances=subject.drawn.variances)
