"""The subjects of ``robin simulate``: recorded ratings or verdicts, each with the goal of a run by their judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.data.pools import Pool
from robin_cli.goals.checks import check_groups, check_verdicts
from robin_cli.goals.registry import goal_of
from robin_cli.model.arms import IntArray
from robin_cli.model.decision import BEST, SCORE, SYSTEM, named_in
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.systems import Systems
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.pools import has_verdicts, is_run, load_pools, ratings_by_arm
from robin_cli.run.reader import read_run
from robin_cli.simulate.experiment import RecordedSet
from robin_cli.simulate.settings import SIMULATION, SimulationSettings

_NOT_OF_VERDICTS = {
    "group": "is for ratings",
    "scale": "is for ratings",
    "plot": "draws errors of ratings",
}


@dataclass(eq=False, kw_only=True)
class Recorded(Inquiry):
    """A pool in the form that goals are made from. InputError for a decision that it cannot have.

    Attributes:
        name: the pool's.
        group: the column of groups; None if prompts are groups.
        group_of: the group of each pair; None if the pool has none.
    """

    name: str
    group: str | None
    group_of: IntArray | None

    @property
    def groups(self) -> IntArray:
        """Group of each pair, shape (pairs,)."""
        if self.group_of is None:
            raise InputError(
                f"--decide {BEST}: {self.name} does not say which pairs belong together; name the column with --group"
            )
        check_groups(self.group_of, self.group)
        return self.group_of

    @property
    def systems(self) -> Systems:
        """Raise InputError: no pool records which system answered which prompt."""
        raise InputError(
            f"--decide {SYSTEM}: a pool does not say which system answered which prompt, so no comparison is simulated; "
            "robin compare RUN says how many prompts settle a difference"
        )


def _recorded(
    settings: SimulationSettings,
    name: str,
    space: ArmSpace,
    pairs: Sequence[Pair] = (),
    group_of: IntArray | None = None,
) -> Recorded:
    own = {each: getattr(settings, each) for each in SIMULATION}
    return Recorded(
        own, space, pairs, settings.seed, name=name, group=settings.group, group_of=group_of
    )


def subjects_of(settings: SimulationSettings, scale: Scale | None) -> list[RecordedSet]:
    """Return the subjects of ``settings``; ``scale``: of ratings, None for their range. InputError if there are none."""
    return _of_verdicts(settings) if settings.pairwise else _of_ratings(settings, scale)


def _of_verdicts(settings: SimulationSettings) -> list[RecordedSet]:
    for name, why in _NOT_OF_VERDICTS.items():
        if getattr(settings, name) is not None:
            raise InputError(
                f"--pairwise: not with {SIMULATION[name].flag}, which {why}; leave one of the two out"
            )
    check_verdicts(settings.decide, settings.margin)
    subjects = []
    judges = _verdicts(Path(settings.pool or ""))
    for name, compared in _named(judges, settings, "no judge"):
        some = compared[: settings.limit]
        pairs, points = [pair for pair, _ in some], [each for _, both in some for each in both]
        ids = [pair.pair_id for pair in pairs]
        space = ArmSpace(ids, (PREFERENCE,), (name,), (Scale(0, 2),), ORDERS)
        goal = goal_of(_recorded(settings, name, space, pairs))
        subjects.append(RecordedSet(name, tuple(points), goal))
    return subjects


def _verdicts(path: Path) -> dict[str, tuple[str, list[tuple[Pair, list[IntArray]]]]]:
    """Return each judge's name and comparisons by that name: the pair, and for each of ORDERS its verdicts.

    A verdict is 2 if A was better, 1 for a tie, 0 if B was, whichever the judge read first.

    Raises:
        InputError: not a run of verdicts; it has no such comparison, or its verdicts are probabilities.
        RunError, StorageError: the folder is not a run, or is damaged.
    """
    if not is_run(path) or not has_verdicts(path):
        raise InputError(
            f"{path}: holds no verdicts; name a run of robin judge --pairwise, or leave --pairwise out"
        )
    run = read_run(path)
    low, high = run.space.ends
    verdicts = [
        2 * (ratings - low[arm]) / (high - low)[arm]
        for arm, ratings in enumerate(ratings_by_arm(run))
    ]
    if any((points != np.rint(points)).any() for points in verdicts):
        raise InputError(
            f"{path}: its verdicts are probabilities, and a simulation draws whole verdicts; name another run"
        )
    judges = {}
    for judge, name in enumerate(run.space.judges):
        arms = np.flatnonzero(run.space.judge == judge).reshape(len(run.pair_ids), -1)
        compared = [
            (run.pairs[at], [verdicts[arm].astype(np.int64) for arm in both])
            for at, both in enumerate(arms.tolist())
            if all(len(verdicts[arm]) for arm in both)
        ]
        if compared:
            judges[name] = name, compared
    if not judges:
        raise InputError(
            f"{path}: holds no comparison with verdicts in both orders; judge more of it, or name another run"
        )
    return judges


def _of_ratings(settings: SimulationSettings, scale: Scale | None) -> list[RecordedSet]:
    wants_best = settings.decide is not None and settings.decide.strip() == BEST
    if settings.group is not None and not wants_best:
        raise InputError(f"--group: is for --decide {BEST}; thresholds are for each pair by itself")
    pools = load_pools(settings.pool or "", settings.group, grouped=wants_best)
    if not settings.model:
        return [subject_of(pool, settings, scale) for pool in _wanted(pools, settings)]
    if settings.decide is None:
        raise InputError(
            "--model: a second opinion is for decisions; add --decide, or leave it out"
        )
    first, *others = _named(pools, replace(settings, attribute=settings.model), "not", "--model")
    return [subject_of(first, settings, scale, others)]


def _wanted(pools: Mapping[str, Pool], settings: SimulationSettings) -> Sequence[Pool]:
    named: list[Pool] = _named(pools, settings, "not")
    if settings.decide is None or settings.decide.strip() in {BEST, SYSTEM}:
        return named
    wanted = set(named_in(settings.decide)) - {SCORE}
    if len(wanted) > 1:
        raise InputError(
            f'--decide "{settings.decide}": one attribute at a time is simulated; name it score, and the sets with --attribute'
        )
    found = [pool for pool in named if not wanted or pool.name.rpartition("/")[2] in wanted]
    if not found:
        raise InputError(
            f'--decide "{settings.decide}": {settings.pool} has no {wanted.pop()}; it has {", ".join(pools)}'
        )
    return found


def _named(
    pools: Mapping[str, Any], settings: SimulationSettings, what: str, flag: str = "--attribute"
) -> list[Any]:
    for name in settings.attribute:
        if name not in pools:
            raise InputError(
                f'{flag} "{name}": {what} in {settings.pool}; it has {", ".join(pools)}'
            )
    return [pools[name] for name in dict.fromkeys(settings.attribute or pools)]


def subject_of(
    pool: Pool,
    settings: SimulationSettings,
    scale: Scale | None = None,
    others: Sequence[Pool] = (),
) -> RecordedSet:
    """Return a pool of ratings as a subject.

    Args:
        scale: that of the ratings; None for their range.
        others: those of further judges, of whose pairs the common ones are taken.

    Raises:
        InputError: ratings outside the scale; one rating for each pair, so that nothing varies; no groups with a best.
    """
    judges = [dict(zip(each.pair_ids, each.ratings, strict=True)) for each in (pool, *others)]
    kept = [at for at, name in enumerate(pool.pair_ids) if all(name in each for each in judges)]
    kept = kept[: settings.limit]
    ratings = tuple(each[pool.pair_ids[at]] for at in kept for each in judges)
    if not ratings:
        raise InputError(f"--model: {' and '.join(settings.model)} have no pair in common")
    ids = [str(number) for number in range(len(kept))]
    values = np.concatenate(ratings)
    low, high = int(values.min()), int(values.max())
    scale = scale or Scale(low, max(high, low + 1))
    if low < scale.low or high > scale.high:
        raise InputError(
            f"{pool.name}: holds ratings from {low} to {high}, outside the scale {scale}; name the right one with --scale"
        )
    if max(map(len, ratings)) == 1:
        raise InputError(
            f"{pool.name}: has one rating for each pair, so nothing varies; a pool needs several for each pair"
        )
    short = pool.name.rpartition("/")[2]
    name = " + ".join(each.name for each in (pool, *others))
    space = ArmSpace(ids, [short], [each.name for each in (pool, *others)], [scale])
    group_of = None if pool.groups is None else np.unique(pool.groups[kept], return_inverse=True)[1]
    goal = goal_of(_recorded(settings, name, space, group_of=group_of))
    human = None if pool.human is None else pool.human[kept]
    right = None if pool.right is None or goal.groups is None else pool.right[kept]
    return RecordedSet(name, ratings, goal, human, right)
