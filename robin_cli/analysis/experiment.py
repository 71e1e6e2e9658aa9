"""Schedulers × budgets × runs on pools of recorded ratings: what ``robin simulate`` computes."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.agreement import CORRELATIONS, correlations
from robin_cli.analysis.court import Verdict
from robin_cli.analysis.simulation import Ratings, Snapshot, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import BEST, decision_of
from robin_cli.model.errors import InputError
from robin_cli.model.groups import check_groups
from robin_cli.model.records import COMPARE, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import BASELINE, DEFAULT, chosen, make_policy

_FEW_CALLS = 200_000
"""So few are simulated here sooner than another process has its imports."""


@dataclass(frozen=True, slots=True)
class Design:
    """One experiment.

    Attributes:
        schedulers: names of policies.
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


@dataclass(frozen=True, slots=True)
class Subject:
    """What an experiment is made on: ratings of K pairs, and human ratings of them where the data has any (nan: none).

    ``group``: which group each pair is of, where there are groups.
    """

    attribute: str
    ratings: tuple[NDArray[np.int64], ...]
    scale: Scale
    human: FloatArray | None = None
    group: IntArray | None = None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What one scheduler at one budget decided, over all runs; shares of all decisions.

    Attributes:
        wrong_mean, wrong_sem: wrong by the mean ratings alone, and the standard error over the runs.
        certified_mean: held to be true at the error rate.
        certified_wrong_mean: of these, wrong all the same.
        calls_mean: spent until everything was decided, or the budget was.
    """

    wrong_mean: float
    wrong_sem: float
    certified_mean: float
    certified_wrong_mean: float
    calls_mean: float

    @classmethod
    def of(cls, verdict: Verdict) -> DecisionRow:
        """The means over the runs of ``verdict``."""
        runs = len(verdict.wrong)
        return cls(
            wrong_mean=float(verdict.wrong.mean()),
            wrong_sem=float(verdict.wrong.std(ddof=1)) / np.sqrt(runs) if runs > 1 else np.nan,
            certified_mean=float(verdict.certified.mean()),
            certified_wrong_mean=float(verdict.certified_wrong.mean()),
            calls_mean=float(verdict.calls.mean()),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One scheduler at one budget on one subject, over all runs.

    ``wces`` has each run's, the same run at the same place at every budget.
    ``wce_std`` is over runs, 1/(runs − 1), nan for one run; ``wce_sem`` that over √runs. ``correlations`` has the mean over
    runs of each coefficient with the human ratings, nan where there are none. ``decided``: where something was to be.
    """

    attribute: str
    scheduler: str
    budget: int
    wce_mean: float
    wce_std: float
    wce_sem: float
    runs: int
    correlations: Mapping[str, float]
    wces: tuple[float, ...]
    decided: DecisionRow | None = None


_Job = tuple[Subject, str, Design]
_Any = TypeVar("_Any")
_Found = TypeVar("_Found")


def check(subjects: Sequence[Subject], design: Design) -> None:
    """Refuse what cannot be simulated, before any time is spent.

    Raises:
        InputError: ratings outside the scale; one rating a pair; a budget below the number of pairs; an unknown scheduler
            or a setting that it refuses.
    """
    if design.objective == COMPARE:
        raise InputError(
            f"--objective {COMPARE}: a pool does not say which system answered which prompt, so no comparison is simulated; "
            f"robin plan DATA --{COMPARE} D says what one takes"
        )
    for subject in subjects:
        values = np.concatenate(subject.ratings)
        if values.min() < subject.scale.low or values.max() > subject.scale.high:
            raise InputError(
                f"{subject.attribute}: holds ratings from {values.min()} to {values.max()}, outside the scale {subject.scale}; "
                "name the right one with --scale"
            )
        pairs = len(subject.ratings)
        if max(map(len, subject.ratings)) == 1:
            raise InputError(
                f"{subject.attribute}: one rating a pair, so nothing varies; a pool needs several of each pair"
            )
        if (smallest := min(design.budgets)) < pairs:
            raise InputError(
                f"--budget {smallest}: reaches {smallest} of the {pairs} pairs of {subject.attribute} once; raise it"
            )
        for name in design.schedulers:
            make_policy(name, _setup(subject, design, np.zeros(pairs), max(design.budgets)))


def deciding_policy(subject: Subject, design: Design) -> str:
    """The policy that a run gets for the decision of ``design`` if it is not told one. InputError where that cannot be."""
    setup = _setup(subject, design, np.zeros(len(subject.ratings)), max(design.budgets))
    choice = chosen(DEFAULT, setup)
    return DEFAULT if choice is None else choice.name


def conduct(subjects: Sequence[Subject], design: Design, progress: Callable[[int, int], None]) -> list[Row]:
    """Run the experiment, on all cores.

    Args:
        progress: is told how many of how many parts are done.

    Raises:
        InputError: see :func:`check`.
    """
    check(subjects, design)
    jobs = [(subject, name, design) for subject in subjects for name in design.schedulers]
    return jobs_done(jobs, _one, progress, calls=len(jobs) * design.runs * max(design.budgets))


def jobs_done(
    jobs: Sequence[_Any], one: Callable[[_Any], list[_Found]], progress: Callable[[int, int], None], *, calls: int
) -> list[_Found]:
    """The rows of all jobs, in their order, on all cores.

    Args:
        one: does a job; of a module, since other processes import it.
        progress: is told how many of how many parts are done.
        calls: simulated by all of them together.
    """
    parts: dict[int, list[_Found]] = {}
    workers = 1 if calls < _FEW_CALLS else min(os.cpu_count() or 1, len(jobs))
    for number, rows in _parts(jobs, one, workers):
        parts[number] = rows
        progress(len(parts), len(jobs))
    return [row for number in range(len(jobs)) for row in parts[number]]


def _parts(
    jobs: Sequence[_Any], one: Callable[[_Any], list[_Found]], workers: int
) -> Iterator[tuple[int, list[_Found]]]:
    """The rows of each job with its number, as they come.

    Without a thread or a lock of this process: whoever presses Ctrl-C waits for nothing.
    """
    if workers == 1:
        yield from enumerate(map(one, jobs))
        return
    context = multiprocessing.get_context("spawn")  # a forked child of a process with threads may hang
    waiting, processes, at_work = iter(enumerate(jobs)), [], {}
    try:
        with interrupts_held():  # a terminal sends Ctrl-C to all its processes, and only this one is to answer it
            idle = []
            for _ in range(workers):
                link, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, one), daemon=True)
                process.start()
                processes.append(process)
                theirs.close()
                idle.append(link)
        while True:
            for link, (number, job) in zip(idle, waiting, strict=False):
                link.send(job)
                at_work[link] = number
            if not at_work:
                return
            idle = [link for link in wait(list(at_work)) if isinstance(link, Connection)]
            for link in idle:
                yield at_work.pop(link), link.recv()
    except EOFError:
        raise ChildProcessError("a simulation was ended from outside; is there too little memory?") from None
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(link: Connection, one: Callable[[_Any], list[_Found]]) -> None:
    """Answer each job with its rows, until nobody asks."""
    with suppress(EOFError):
        while True:
            link.send(one(link.recv()))


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back as long as the context lasts; processes that are started meanwhile never hear of it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield  # Ctrl-C is raised in the main thread only
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # the first process would start it, which lets Ctrl-C through again
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))  # numpy's threads let it through
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which the processes inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


def _one(job: _Job) -> list[Row]:
    subject, name, design = job
    ratings = Ratings.of(subject.ratings)
    stream = [design.seed, zlib.crc32(subject.attribute.encode()), zlib.crc32(name.encode())]
    rows = []
    for snapshot in _snapshots(name, subject, ratings, design, np.random.default_rng(stream)):
        wce = snapshot.wce
        std = float(wce.std(ddof=1)) if len(wce) > 1 else np.nan
        rows.append(
            Row(
                attribute=subject.attribute,
                scheduler=name,
                budget=snapshot.budget,
                wce_mean=float(wce.mean()),
                wce_std=std,
                wce_sem=std / np.sqrt(len(wce)),
                runs=len(wce),
                correlations=_correlations(snapshot.estimates, subject.human),
                wces=tuple(wce.tolist()),
                decided=None if snapshot.verdict is None else DecisionRow.of(snapshot.verdict),
            )
        )
    return rows


def _snapshots(
    name: str, subject: Subject, ratings: Ratings, design: Design, rng: np.random.Generator
) -> Iterator[Snapshot]:
    """Each budget as its own run would reach it; those for which ``name`` is the same policy, as parts of one run."""
    budgets: dict[str, list[int]] = {}
    for budget in design.budgets_of(name):
        choice = chosen(name, _setup(subject, design, ratings.variances, budget))
        budgets.setdefault(name if choice is None else choice.name, []).append(budget)
    for policy, mine in budgets.items():
        setup = _setup(subject, design, ratings.variances, max(design.budgets))
        yield from simulate(ratings, make_policy(policy, setup), mine, design.runs, rng, task=setup.task)


def _setup(subject: Subject, design: Design, variances: FloatArray, budget: int) -> Setup:
    return Setup(
        arms=len(subject.ratings),
        budget=budget,
        scale=subject.scale,
        delta=design.delta,
        mode=design.mode,
        objective=design.objective,
        variances=variances,
        task=_task(subject, design),
    )


def _task(subject: Subject, design: Design) -> Task | None:
    """What is to be decided of ``subject``. InputError where that cannot be."""
    if design.decide is None:
        return None
    short = subject.attribute.rpartition("/")[2]
    decision = decision_of(design.decide, [short], [subject.scale], margin=design.margin, error_rate=design.error_rate)
    if not decision.is_best:
        group = None
    elif subject.group is None:
        raise InputError(
            f"--decide {BEST}: {subject.attribute} does not say which pairs belong together; name the column that does with "
            "--group"
        )
    else:
        group = subject.group
        check_groups(group, design.group)
    space = ArmSpace([str(number) for number in range(len(subject.ratings))], [short], ["judge"], [subject.scale])
    return Task(decision, space, group)


def _correlations(estimates: FloatArray, human: FloatArray | None) -> dict[str, float]:
    if human is None:
        return dict.fromkeys(CORRELATIONS, np.nan)
    found = [correlations(run, human) for run in estimates]
    return dict(zip(CORRELATIONS, np.mean(found, axis=0).tolist(), strict=True))


_FEWEST_RUNS = 10
_RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Saving:
    """A share of calls saved, and where it lies with 95 % over the simulated runs.

    Attributes:
        share: nan where uniform's curve does not reach the error.
        low, high: nan where ``share`` is, or of fewer than 10 runs.
    """

    share: float
    low: float
    high: float

    @property
    def is_told(self) -> bool:
        """Whether it is more than noise."""
        return self.low > 0 or self.high < 0


def saved(rows: Sequence[Row], attribute: str, scheduler: str, budget: int) -> Saving:
    """The share of uniform's calls that ``scheduler`` saves at the error it reaches with ``budget``.

    1 − budget / B', where uniform's mean WCE at B' is the scheduler's at ``budget``; B' is read off uniform's curve, straight
    between its points in the logarithms. Negative where uniform is better. The interval is a percentile bootstrap over runs:
    those of uniform, each with its whole curve, and those of the scheduler.
    """
    curve = sorted(
        (row for row in rows if (row.attribute, row.scheduler) == (attribute, BASELINE)), key=lambda row: row.budget
    )
    mine = next(row for row in rows if (row.attribute, row.scheduler, row.budget) == (attribute, scheduler, budget))
    budgets = np.log(np.array([row.budget for row in curve], dtype=np.float64))
    evenly, errors = np.array([row.wces for row in curve]), np.array(mine.wces)
    share = _share(budgets, np.log(evenly.mean(axis=1)), math.log(errors.mean()), budget, beyond=np.nan)
    if np.isnan(share) or len(errors) < _FEWEST_RUNS:
        return Saving(share, np.nan, np.nan)
    rng = np.random.default_rng(0)
    picks = (rng.integers(len(errors), size=(2, len(errors))) for _ in range(_RESAMPLES))
    shares = [
        _share(budgets, np.log(evenly[:, one].mean(axis=1)), math.log(errors[other].mean()), budget, beyond=None)
        for one, other in picks
    ]
    low, high = np.quantile(shares, [0.025, 0.975])
    return Saving(share, float(low), float(high))


def _share(budgets: FloatArray, evenly: FloatArray, error: float, budget: int, *, beyond: float | None) -> float:
    """The share saved, of logarithms; ``beyond`` uniform's curve, or what the end of the curve says for None."""
    falling = np.minimum.accumulate(evenly)  # noise may lift a later point; more calls never hurt
    if beyond is not None and not falling[-1] <= error <= falling[0]:
        return beyond
    return float(1 - budget / np.exp(np.interp(-error, -falling, budgets)))
