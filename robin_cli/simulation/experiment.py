"""One experiment for all goals: policies spend budgets on a judge whose answers are known, and it is measured what comes of it.

The judge is a pool of recorded ratings or verdicts (``robin simulate``), or drawn from what is known before a run (``robin
plan``, see :mod:`robin_cli.simulation.forecast`). It answers with one of an arm's ratings, drawn with replacement; the truth is
the mean of these.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.agreement import CORRELATIONS, correlations
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import BEST, decision_of
from robin_cli.model.errors import InputError
from robin_cli.model.groups import check_groups
from robin_cli.model.matches import Matches
from robin_cli.model.records import COMPARE, ORDERS, PREFERENCE, Pair, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import DEFAULT_MARGIN, Policy, Setup
from robin_cli.policies.registry import BASELINE, DEFAULT, chosen, make_policy
from robin_cli.questions.inquiry import matches_among
from robin_cli.simulation.goals import Goal, goal_of
from robin_cli.simulation.jobs import jobs_done
from robin_cli.simulation.runs import Ratings, Snapshot, simulate


@dataclass(frozen=True)
class World:
    """A judge whose answers are known, and what a run by it is to find.

    Attributes:
        ratings: of ``count`` sets of the arms of ``space``, one after another; run r is made on set r mod ``count``.
        task, matches: what is to be decided, or ranked, of each set.
    """

    ratings: Ratings
    space: ArmSpace
    task: Task | None = None
    matches: Matches | None = None
    count: int = 1

    @cached_property
    def goal(self) -> Goal:
        """What is measured."""
        return goal_of(matches=self.matches, task=self.task)

    def measured(self, found: Snapshot) -> dict[str, FloatArray]:
        """Return what the runs got wrong, and what they certify."""
        runs = len(found.n)
        truth = self.ratings.means.reshape(self.count, -1)[np.arange(runs) % self.count]
        return {**self.goal.loss(found, truth), **self.goal.certified(found)}


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
    groups: dict[tuple[str, int], tuple[Policy, list[int]]] = {}
    for budget in budgets:
        if (policy := policy_at(budget)) is not None:
            groups.setdefault((policy.said, policy.warm_up), (policy, []))[1].append(budget)
    for policy, group in groups.values():
        parts = {budget: round(budget * share) for budget in group}
        if not policy.evenly:
            parts = {budget: part for budget, part in parts.items() if part <= most or budget == budgets[0]}
        found = simulate(
            *(world.ratings, policy, list(parts.values()), runs, rng),
            worlds=world.count,
            task=world.task,
            rounds=rounds,
            first_fit=world.space.first_fit,
        )
        by_part = {each.budget: each for each in found}
        yield from ((budget, by_part[part]) for budget, part in parts.items())


@dataclass(frozen=True, slots=True)
class Design:
    """One experiment on pools.

    Attributes:
        schedulers: names of policies; none: uniform, and the one that a run for this goal gets.
        budgets: calls in all, rising.
        runs: independent repetitions, at least 1.
        seed: the same seed gives the same table.
        reference: further budgets, for the baseline alone: what the others' savings are read off.
    """

    schedulers: tuple[str, ...]
    budgets: tuple[int, ...]
    runs: int = 50
    seed: int = 0
    delta: float = 0.007
    mode: str = "practice"
    objective: str = "worst-case"
    reference: tuple[int, ...] = ()
    decide: str | None = None
    margin: float | None = None
    error_rate: float = 0.05
    group: str | None = None

    def budgets_of(self, scheduler: str) -> tuple[int, ...]:
        """The budgets that ``scheduler`` is simulated at."""
        return (*self.budgets, *self.reference) if scheduler == BASELINE else self.budgets


@dataclass(frozen=True)
class Subject:
    """What an experiment is made on: the recorded answers of a judge.

    Attributes:
        attribute: its name; that of the judge, where these are verdicts.
        ratings: of each arm, shape (at least 1,); of verdicts 2 where A was better, 1 for a tie and 0 where B was, of each
            comparison in both orders.
        human: ratings of the same pairs by people, nan for none; None where the data has none.
        group: which group each pair is of, where there are groups.
        comparisons: that the verdicts are on; none where these are ratings.
    """

    attribute: str
    ratings: tuple[NDArray[np.int64], ...]
    scale: Scale
    human: FloatArray | None = None
    group: IntArray | None = None
    comparisons: tuple[Pair, ...] = ()

    def check(self, design: Design) -> None:
        """InputError for ratings, or budgets, that nothing can be learned from."""
        smallest = min(design.budgets)
        if self.comparisons:
            if smallest < len(ORDERS):
                raise InputError(f"--budget {smallest}: asks no comparison in both orders; raise it")
            if design.objective == COMPARE:
                raise InputError(f"--objective {COMPARE}: compares ratings; leave it out with --pairwise")
            return
        if design.objective == COMPARE:
            raise InputError(
                f"--objective {COMPARE}: a pool does not say which system answered which prompt, so no comparison is "
                f"simulated; robin plan DATA --{COMPARE} D says what one takes"
            )
        values, pairs = np.concatenate(self.ratings), len(self.ratings)
        if values.min() < self.scale.low or values.max() > self.scale.high:
            raise InputError(
                f"{self.attribute}: holds ratings from {values.min()} to {values.max()}, outside the scale {self.scale}; "
                "name the right one with --scale"
            )
        if max(map(len, self.ratings)) == 1:
            raise InputError(
                f"{self.attribute}: one rating a pair, so nothing varies; a pool needs several of each pair"
            )
        if smallest < pairs:
            raise InputError(
                f"--budget {smallest}: reaches {smallest} of the {pairs} pairs of {self.attribute} once; raise it"
            )

    def world(self, design: Design) -> World:
        """The judge that these answers are of. InputError for a goal that they cannot serve."""
        ratings = Ratings.of(self.ratings)
        if self.comparisons:
            ids = [pair.pair_id for pair in self.comparisons]
            space = ArmSpace(ids, (PREFERENCE,), (self.attribute,), (self.scale,), ORDERS)
            matches = matches_among(space, self.comparisons, design.seed, wants_best=design.decide is not None)
            return World(ratings, space, matches=matches)
        short = self.attribute.rpartition("/")[2]
        space = ArmSpace([str(number) for number in range(len(self.ratings))], [short], ["judge"], [self.scale])
        return World(ratings, space, task=None if design.decide is None else self._task(design, design.decide, space))

    def _task(self, design: Design, decide: str, space: ArmSpace) -> Task:
        decision = decision_of(
            decide, space.attributes, [self.scale], margin=design.margin, error_rate=design.error_rate
        )
        if decision.is_best and self.group is None:
            raise InputError(
                f"--decide {BEST}: {self.attribute} does not say which pairs belong together; name the column that does with "
                "--group"
            )
        if decision.is_best and self.group is not None:
            check_groups(self.group, design.group)
        return Task(decision, space, self.group if decision.is_best else None)


@dataclass(frozen=True, slots=True)
class Row:
    """One scheduler at one budget on one subject, over all runs.

    Attributes:
        measured: by measure, see :class:`~robin_cli.simulation.goals.Goal`; each run at the same place at every budget.
        columns: of ``robin simulate``, of what is measured.
        what: may be wrong, where that has a name.
        correlations: the mean over runs of each coefficient with the human ratings, nan where there are none.
    """

    attribute: str
    scheduler: str
    budget: int
    runs: int
    measured: Mapping[str, FloatArray]
    columns: tuple[str, ...] = ()
    what: str = ""
    correlations: Mapping[str, float] | None = None

    def figure(self, column: str) -> float:
        """Return the mean, std or sem over the runs, as ``column`` ends; std over 1/(runs − 1), nan of one run."""
        name, _, statistic = column.rpartition("_")
        values = self.measured[name]
        if statistic == "mean":
            return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        return std if statistic == "std" else std / float(np.sqrt(len(values)))


_Job = tuple[Subject, str, Design]


def conduct(subjects: Sequence[Subject], design: Design, progress: Callable[[int, int], None]) -> list[Row]:
    """Run the experiment, on all cores.

    Args:
        progress: is told how many of how many parts are done.

    Raises:
        InputError: see :func:`checked`.
    """
    jobs = checked(subjects, design)
    return jobs_done(jobs, _one, progress, calls=len(jobs) * design.runs * max(design.budgets))


def checked(subjects: Sequence[Subject], design: Design) -> list[_Job]:
    """Return a job for each subject and scheduler; refuse what cannot be simulated, before any time is spent.

    Raises:
        InputError: ratings outside the scale; one rating a pair; a budget that is too small; an unknown scheduler, or a
            setting that it refuses.
    """
    jobs: list[_Job] = []
    for subject in subjects:
        subject.check(design)
        setup = _setup(subject.world(design), design, max(design.budgets))
        usual = None if design.schedulers else chosen(DEFAULT, setup)
        names = design.schedulers or (BASELINE, DEFAULT if usual is None else usual.name)
        for name in names:
            make_policy(name, setup)
        jobs += [(subject, name, design) for name in names]
    return jobs


def _one(job: _Job) -> list[Row]:
    subject, name, design = job
    world = subject.world(design)
    stream = [design.seed, zlib.crc32(subject.attribute.encode()), zlib.crc32(name.encode())]

    def policy_at(budget: int) -> Policy:
        """The policy that a run of ``budget`` would get, for the largest: smaller ones are parts of one run."""
        choice = chosen(name, _setup(world, design, budget))
        return make_policy(name if choice is None else choice.name, _setup(world, design, max(design.budgets)))

    rng = np.random.default_rng(stream)
    return [
        Row(
            attribute=subject.attribute,
            scheduler=name,
            budget=budget,
            runs=design.runs,
            measured=world.measured(snapshot),
            columns=world.goal.columns,
            what=world.goal.what,
            correlations=_correlations(snapshot.estimates, subject.human),
        )
        for budget, snapshot in spend(world, policy_at, design.budgets_of(name), design.runs, rng)
    ]


def _setup(world: World, design: Design, budget: int) -> Setup:
    return Setup(
        arms=len(world.space),
        budget=budget,
        scale=world.space.scales[0],
        delta=design.delta,
        mode=design.mode,
        objective=design.objective,
        variances=world.ratings.variances,
        task=world.task,
        matches=world.matches,
        margin=DEFAULT_MARGIN if world.matches is None or design.margin is None else design.margin,
    )


def _correlations(estimates: FloatArray, human: FloatArray | None) -> dict[str, float]:
    if human is None:
        return dict.fromkeys(CORRELATIONS, np.nan)
    found = [correlations(run, human) for run in estimates]
    return dict(zip(CORRELATIONS, np.mean(found, axis=0).tolist(), strict=True))
