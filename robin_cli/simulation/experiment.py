"""One experiment for all goals: policies spend budgets on a judge whose answers are known, and it is measured what comes of it.

The judge is a pool of recorded ratings or verdicts (``robin simulate``), or drawn from what is known before a run (``robin
plan``, see :mod:`robin_cli.simulation.forecast`). It answers with one of an arm's ratings, drawn with replacement; the truth is
the mean of these.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.agreement import CORRELATIONS, correlations
from robin_cli.analysis.court import Snapshot
from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import BASELINE, DEFAULT, chosen, make_policy
from robin_cli.settings.table import SimulationSettings
from robin_cli.simulation.jobs import jobs_done
from robin_cli.simulation.runs import Ratings, simulate

_ROUNDING = 1e-9


@dataclass(frozen=True)
class World:
    """A judge whose answers are known, and what a run by it is to find.

    Attributes:
        ratings: of ``count`` sets of the goal's arms, one after another; run r is made on set r mod ``count``.
        goal: of each set.
    """

    ratings: Ratings
    goal: Goal
    count: int = 1

    def measured(self, found: Snapshot) -> dict[str, FloatArray]:
        """Return what the runs got wrong, see :meth:`~robin_cli.goals.base.Goal.loss`."""
        truth = self.ratings.means.reshape(self.count, -1)[np.arange(len(found.n)) % self.count]
        return self.goal.loss(found, truth)


def spend(
    world: World,
    policy_at: Callable[[int], Policy | None],
    budgets: Sequence[int],
    runs: int,
    rng: np.random.Generator,
    *,
    rounds: int | None = None,
    share: float = 1.0,
    most: float = np.inf,
) -> Iterator[tuple[int, Snapshot]]:
    """Spend each of ``budgets``, ``runs`` times; those whose policies are the same as parts of one run.

    Args:
        policy_at: the policy for a budget; None for one that it refuses, which is left out.
        rounds: in which the calls go out; None: one call at a time.
        share: of each budget that the world gets, as it has this share of the arms.
        most: calls that are simulated, but of the smallest budget and of policies that take whole rounds at once.
    """
    groups: dict[tuple[str, int, int | None], tuple[Policy, list[int]]] = {}
    for budget in budgets:
        if (policy := policy_at(budget)) is not None:
            key = (policy.said, policy.warm_up, budget if policy.by_budget else None)
            groups.setdefault(key, (policy, []))[1].append(budget)
    for policy, group in groups.values():
        parts = {budget: round(budget * share) for budget in group}
        if not policy.evenly:
            parts = {budget: part for budget, part in parts.items() if part <= most or budget == budgets[0]}
        found = simulate(
            *(world.ratings, policy, list(parts.values()), runs, rng),
            worlds=world.count,
            court=world.goal.court,
            rounds=rounds,
            first_fit=world.goal.space.first_fit,
        )
        by_part = {each.budget: each for each in found}
        yield from ((budget, by_part[part]) for budget, part in parts.items())


@dataclass(frozen=True)
class Subject:
    """What an experiment is made on: the recorded answers of a judge, and what a run by it is to find.

    Attributes:
        attribute: its name; that of the judge, where these are verdicts.
        ratings: of each arm, shape (at least 1,); of verdicts 2 where A was better, 1 for a tie and 0 where B was, of each
            comparison in both orders.
        human: ratings of the same pairs by people, nan for none; None where the data has none.
        right: which of the pairs are right answers; None where the data does not say it, and where no groups have a best.
    """

    attribute: str
    ratings: tuple[NDArray[np.int64], ...]
    goal: Goal
    human: FloatArray | None = None
    right: NDArray[np.bool_] | None = None

    @property
    def scored(self) -> slice:
        """Which of the arms the scores are of: all, or those of the judge that settles."""
        return slice(1, None, 2) if self.goal.space.settles else slice(None)

    def found_right(self, means: FloatArray) -> dict[str, FloatArray]:
        """Return ``right``: the share of groups whose highest mean is a right answer's, shape (runs,); nothing without any.

        Where several share it, the share of these that are right: the order of the pairs is to say nothing.

        Args:
            means: of each arm, shape (runs, K); none is nan of those that scores are of.
        """
        group = self.goal.groups
        if self.right is None or group is None:
            return {}
        means = means[:, self.scored]
        runs = np.arange(len(means))[:, None]
        best = np.full((len(means), group.max() + 1), -np.inf)
        np.maximum.at(best, (runs, group), means)
        is_best = means >= best[:, group] - _ROUNDING
        found, of = np.zeros((2, *best.shape))
        np.add.at(found, (runs, group), is_best & self.right)
        np.add.at(of, (runs, group), is_best)
        return {"right": np.asarray((found / of).mean(axis=1))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What many simulated runs came to, by measure, see :meth:`~robin_cli.goals.base.Goal.loss`."""

    measured: Mapping[str, FloatArray]

    def figure(self, column: str) -> float:
        """Return the mean, std, sem or sum over the runs, as ``column`` ends; std over 1/(runs − 1), nan of one run."""
        name, _, statistic = column.rpartition("_")
        values = self.measured[name]
        if statistic == "sum":
            return cast("float", values.sum().item())
        if statistic == "mean":
            return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        return std if statistic == "std" else std / float(np.sqrt(len(values)))


@dataclass(frozen=True, slots=True)
class Row(Measured):
    """One scheduler at one budget on one subject, over all runs, each at the same place at every budget.

    Attributes:
        columns: of ``robin simulate``, of what is measured.
        what: may be wrong, where that has a name.
        correlations: the mean over runs of each coefficient with the human ratings, nan where there are none.
    """

    attribute: str
    scheduler: str
    budget: int
    runs: int
    columns: tuple[str, ...] = ()
    what: str = ""
    correlations: Mapping[str, float] | None = None


_Job = tuple[Subject, str, SimulationSettings, tuple[int, ...]]


def conduct(
    subjects: Sequence[Subject],
    settings: SimulationSettings,
    progress: Callable[[int, int], None],
    reference: tuple[int, ...] = (),
) -> list[Row]:
    """Run the experiment, on all cores.

    Args:
        progress: is told how many of how many parts are done.
        reference: further budgets, for the baseline alone: what the others' savings are read off.

    Raises:
        InputError: see :func:`checked`.
    """
    jobs = [
        (subject, name, settings, reference if name == BASELINE else ())
        for subject, name in checked(subjects, settings)
    ]
    return jobs_done(jobs, _one, progress, calls=len(jobs) * settings.runs * max(settings.budget))


def checked(subjects: Sequence[Subject], settings: SimulationSettings) -> list[tuple[Subject, str]]:
    """Return each subject with each scheduler; refuse what cannot be simulated, before any time is spent.

    Raises:
        InputError: a budget that is too small; an unknown scheduler, or a setting that it refuses.
    """
    jobs: list[tuple[Subject, str]] = []
    for subject in subjects:
        subject.goal.check_reach(min(settings.budget))
        setup = _setup(subject.goal, Ratings.of(subject.ratings), settings, max(settings.budget))
        usual = chosen(DEFAULT, setup)
        auto = DEFAULT if usual is None else usual.name
        names = settings.schedulers or subject.goal.simulated or ((BASELINE,) * (settings.settle is None) + (auto,))
        for name in names:
            make_policy(name, setup)
        jobs += [(subject, name) for name in names]
    return jobs


def _one(job: _Job) -> list[Row]:
    subject, name, settings, reference = job
    world = World(Ratings.of(subject.ratings), subject.goal)
    stream = [settings.seed, zlib.crc32(subject.attribute.encode()), zlib.crc32(name.encode())]

    def policy_at(budget: int) -> Policy:
        """The policy that a run of ``budget`` would get; in theory mode for the largest: smaller ones are parts of one run."""
        largest = max(settings.budget) if settings.mode == "theory" else budget
        return make_policy(name, _setup(world.goal, world.ratings, settings, largest))

    rng = np.random.default_rng(stream)
    return [
        Row(
            attribute=subject.attribute,
            scheduler=name,
            budget=budget,
            runs=settings.runs,
            measured=world.measured(snapshot) | subject.found_right(snapshot.estimates),
            columns=world.goal.columns + ("right_mean", "right_sem") * (subject.right is not None),
            what=world.goal.what,
            correlations=_correlations(snapshot.estimates[:, subject.scored], subject.human),
        )
        for budget, snapshot in spend(world, policy_at, (*settings.budget, *reference), settings.runs, rng)
    ]


def _setup(goal: Goal, ratings: Ratings, settings: SimulationSettings, budget: int) -> Setup:
    own = {name: getattr(settings, name) for name in ("delta", "mode", "objective", "margin", "prefer")}
    return goal.setup(own, budget, variances=ratings.variances)


def _correlations(estimates: FloatArray, human: FloatArray | None) -> dict[str, float]:
    if human is None:
        return dict.fromkeys(CORRELATIONS, np.nan)
    found = [correlations(run, human) for run in estimates]
    return dict(zip(CORRELATIONS, np.mean(found, axis=0).tolist(), strict=True))
