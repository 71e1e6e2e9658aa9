"""Schedulers × budgets × runs on recorded verdicts: what ``robin simulate --pairwise`` computes.

A simulated judge answers with one of the verdicts recorded of a comparison in this order, drawn with replacement. The truth is
what all recorded verdicts come to: each comparison's preference is the mean of both orders.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.experiment import jobs_done
from robin_cli.analysis.order_effect import effects_of
from robin_cli.analysis.simulation import Ratings, Snapshot, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, fit, wins_of
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import COMPARE, ORDERS, PREFERENCE, Pair, Scale
from robin_cli.model.rivals import Rivals
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import DEFAULT_MARGIN, Setup
from robin_cli.policies.registry import BASELINE, DEFAULT, chosen, make_policy

_POINTS = Scale(0, 2)
_EQUAL = 1e-9

SYSTEMS, PROMPTS, COMPARISONS = "couples of systems", "prompts", "comparisons"
"""What may be wrong."""


@dataclass(frozen=True, slots=True)
class VoteSubject:
    """Recorded verdicts of a judge.

    Attributes:
        judge: its name.
        pairs: the comparisons.
        points: of each arm, 2 where A was better, 1 for a tie and 0 where B was, shape (at least 1,).
    """

    judge: str
    pairs: tuple[Pair, ...]
    points: tuple[IntArray, ...]

    @property
    def space(self) -> ArmSpace:
        """Its arms: each comparison in both orders."""
        ids = [pair.pair_id for pair in self.pairs]
        return ArmSpace(ids, (PREFERENCE,), (self.judge,), (_POINTS,), ORDERS)


@dataclass(frozen=True, slots=True)
class VoteDesign:
    """One experiment; see :class:`~robin_cli.analysis.experiment.Design`. No ``schedulers``: uniform and what auto becomes."""

    budgets: tuple[int, ...]
    schedulers: tuple[str, ...] = ()
    runs: int = 50
    seed: int = 0
    objective: str = "worst-case"
    wants_best: bool = False
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class VoteRow:
    """One scheduler at one budget on the verdicts of one judge, over all runs.

    Attributes:
        what: SYSTEMS in the wrong order, PROMPTS with another best response than the true one, or COMPARISONS of which the
            other response is the better one.
        asked_mean: share of the comparisons that were asked in both orders.
        calls_mean: calls of each of these.
        wrong_mean, wrong_sem: share that is wrong, one that is not known half, and its standard error over the runs.
        any_mean: share of the runs in which any is wrong.
        order_effect_mean: how much more a response is preferred where it comes first, in units of probability.
    """

    attribute: str
    scheduler: str
    budget: int
    what: str
    asked_mean: float
    calls_mean: float
    wrong_mean: float
    wrong_sem: float
    any_mean: float
    order_effect_mean: float
    runs: int


_Job = tuple[VoteSubject, str, VoteDesign]


def conduct_votes(
    subjects: Sequence[VoteSubject], design: VoteDesign, progress: Callable[[int, int], None]
) -> list[VoteRow]:
    """Run the experiment, on all cores.

    Args:
        progress: is told how many of how many parts are done.

    Raises:
        InputError: a budget that asks no comparison in both orders, or an unknown scheduler or one for something else.
    """
    jobs: list[_Job] = []
    for subject in subjects:
        setup = _setup(subject, design, _matches(subject, design), max(design.budgets))
        names = design.schedulers or (BASELINE, _default(setup))
        if (smallest := min(design.budgets)) < len(ORDERS):
            raise InputError(f"--budget {smallest}: asks no comparison in both orders; raise it")
        if setup.objective == COMPARE:
            raise InputError(f"--objective {COMPARE}: compares ratings; leave it out with --pairwise")
        for name in names:
            make_policy(name, setup)
        jobs += [(subject, name, design) for name in names]
    return jobs_done(jobs, _one, progress, calls=len(jobs) * design.runs * max(design.budgets))


def _default(setup: Setup) -> str:
    choice = chosen(DEFAULT, setup)
    return DEFAULT if choice is None else choice.name


def _matches(subject: VoteSubject, design: VoteDesign) -> Matches:
    return matches_of(subject.space, subject.pairs, design.seed, wants_best=design.wants_best)


def _setup(subject: VoteSubject, design: VoteDesign, matches: Matches, budget: int) -> Setup:
    return Setup(
        arms=len(subject.points),
        budget=budget,
        scale=_POINTS,
        objective=design.objective,
        matches=matches,
        margin=DEFAULT_MARGIN if design.margin is None else design.margin,
    )


def _one(job: _Job) -> list[VoteRow]:
    subject, name, design = job
    matches, ratings = _matches(subject, design), Ratings.of(subject.points)
    truth = matches.space.by_pair(ratings.means).mean(axis=1) / 2.0
    rng = np.random.default_rng([design.seed, zlib.crc32(subject.judge.encode()), zlib.crc32(name.encode())])
    policy = make_policy(name, _setup(subject, design, matches, max(design.budgets)))
    first_fit = matches.space.first_fit
    snapshots = simulate(ratings, policy, design.budgets, design.runs, rng, first_fit=first_fit)
    what = PROMPTS if design.wants_best else SYSTEMS if matches.ranks_systems else COMPARISONS
    return [_row(subject.judge, name, what, matches, truth, each) for each in snapshots]


def _row(judge: str, name: str, what: str, matches: Matches, truth: FloatArray, found: Snapshot) -> VoteRow:
    runs = len(found.n)
    points = found.estimates.reshape(runs, len(matches), len(ORDERS)) / 2.0
    preference = points.mean(axis=2)
    wrong = np.array(list(_wrong(what, matches, truth, preference)))
    whole = ~np.isnan(preference)
    effects = effects_of(points.reshape(-1, len(ORDERS), 1)).reshape(runs, -1)
    return VoteRow(
        attribute=judge,
        scheduler=name,
        budget=found.budget,
        what=what,
        asked_mean=float(whole.mean()),
        calls_mean=float(found.budget * runs / max(int(whole.sum()), 1)),
        wrong_mean=float(wrong.mean()),
        wrong_sem=float(wrong.std(ddof=1)) / np.sqrt(runs) if runs > 1 else np.nan,
        any_mean=float((wrong > 0).mean()),
        order_effect_mean=float(np.nanmean(effects)) if whole.any() else np.nan,
        runs=runs,
    )


def _wrong(what: str, matches: Matches, truth: FloatArray, preference: FloatArray) -> Iterator[float]:
    """The share that is wrong in each run; of what is equal in truth, nothing is."""
    if what == PROMPTS:
        best = _best(matches, truth)
        for found in preference:
            yield float((_best(matches, found) != best).mean())
        return
    if what == SYSTEMS:
        i, j = np.triu_indices(len(matches.names), 1)
        strength = _strengths(matches, truth)
        side = _side(strength[i] - strength[j])
        for found in preference:
            mine = _strengths(matches, found)
            yield _share_wrong(side, _side(mine[i] - mine[j]))
        return
    side = _side(truth - 0.5)
    for found in preference:
        yield _share_wrong(side, _side(np.nan_to_num(found, nan=0.5) - 0.5))


def _side(apart: FloatArray) -> FloatArray:
    return np.where(np.abs(apart) <= _EQUAL, 0.0, np.sign(apart))


def _share_wrong(truth: FloatArray, found: FloatArray) -> float:
    told = truth != 0
    return float((0.5 * (1.0 - truth[told] * found[told])).mean()) if told.any() else 0.0


def _strengths(matches: Matches, preference: FloatArray) -> FloatArray:
    """By the comparisons that have a preference, and half a tie of every two systems, which not all runs compare."""
    there = ~np.isnan(preference)
    wins = wins_of(preference[there], matches.system[there], len(matches.names)) + 0.5 * PRIOR
    np.fill_diagonal(wins, 0.0)
    return fit(wins).values


def _best(matches: Matches, preference: FloatArray) -> IntArray:
    """The place of the response to each prompt that leads; −1 where nothing is known of any."""
    rivals = Rivals(matches)
    of_prompts = np.where(rivals.rows >= 0, preference[rivals.rows], np.nan)
    leader = rivals.leaders(of_prompts, np.arange(len(of_prompts)))
    return np.where(np.isnan(of_prompts).all(axis=1), -1, leader)
