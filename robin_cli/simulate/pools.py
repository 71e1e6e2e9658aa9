"""The subjects of ``robin simulate``: recorded ratings or verdicts, each with the goal of a run by their judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

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
        group_of: the group of each pair; None if the pool has none.
    """

    name: str
    group_of: IntArray | None

    @property
    def groups(self) -> IntArray:
        """Group of each pair, shape (pairs,)."""
        if self.group_of is None:
            raise InputError(
                f"--decide {BEST}: {self.name} does not say which pairs belong together; name the column with --group"
            )
        check_groups(self.group_of, self.run_settings["group"])
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
    return Recorded(asdict(settings), space, pairs, settings.seed, name=name, group_of=group_of)


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
    for name in _named(judges, settings.attribute, f"no judge in {settings.pool}"):
        compared = judges[name][: settings.limit]
        pairs = [pair for pair, _ in compared]
        ids = [pair.pair_id for pair in pairs]
        space = ArmSpace(ids, (PREFERENCE,), (name,), (Scale(0, 2),), ORDERS)
        points = tuple(chain.from_iterable(both for _, both in compared))
        subjects.append(RecordedSet(name, points, goal_of(_recorded(settings, name, space, pairs))))
    return subjects


def _verdicts(path: Path) -> dict[str, list[tuple[Pair, list[IntArray]]]]:
    """Return each judge's comparisons by its name: the pair, and for each of ORDERS its verdicts.

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
    judges: dict[str, list[tuple[Pair, list[IntArray]]]] = {}
    for judge, name in enumerate(run.space.judges):
        arms = np.flatnonzero(run.space.judge == judge).reshape(len(run.pair_ids), -1)
        for at, both in enumerate(arms.tolist()):
            if all(len(verdicts[arm]) for arm in both):
                points = [verdicts[arm].astype(np.int64) for arm in both]
                judges.setdefault(name, []).append((run.pairs[at], points))
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
        return [subject_of(pools[name], settings, scale) for name in _wanted(pools, settings)]
    if settings.decide is None:
        raise InputError(
            "--model: a second opinion is for decisions; add --decide, or leave it out"
        )
    names = _named(pools, settings.model, f"not in {settings.pool}", "--model")
    first, *others = (pools[name] for name in names)
    return [subject_of(first, settings, scale, others)]


def _wanted(pools: Mapping[str, Pool], settings: SimulationSettings) -> list[str]:
    """Return the names of the pools to simulate: those of the attribute that --decide names, if it names one."""
    named = _named(pools, settings.attribute, f"not in {settings.pool}")
    if settings.decide is None or settings.decide.strip() in {BEST, SYSTEM}:
        return named
    wanted = set(named_in(settings.decide)) - {SCORE}
    if len(wanted) > 1:
        raise InputError(
            f'--decide "{settings.decide}": one attribute at a time is simulated; name it score, and the sets with --attribute'
        )
    of_wanted = [name for name in named if not wanted or name.rpartition("/")[2] in wanted]
    if not of_wanted:
        raise InputError(
            f'--decide "{settings.decide}": {settings.pool} has no {wanted.pop()}; it has {", ".join(pools)}'
        )
    return of_wanted


def _named(
    known: Mapping[str, object], names: Sequence[str], what: str, flag: str = "--attribute"
) -> list[str]:
    """Return the ``names``, each once, or all ``known`` ones. InputError for an unknown name."""
    for name in names:
        if name not in known:
            raise InputError(f'{flag} "{name}": {what}; it has {", ".join(known)}')
    return list(dict.fromkeys(names or known))


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
    judges = [dict(zip(judge.pair_ids, judge.ratings, strict=True)) for judge in (pool, *others)]
    kept = [at for at, name in enumerate(pool.pair_ids) if all(name in judge for judge in judges)]
    kept = kept[: settings.limit]
    ratings = tuple(judge[pool.pair_ids[at]] for at in kept for judge in judges)
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
    names = [judge.name for judge in (pool, *others)]
    space, name = ArmSpace(ids, [short], names, [scale]), " + ".join(names)
    group_of = None if pool.groups is None else np.unique(pool.groups[kept], return_inverse=True)[1]
    goal = goal_of(_recorded(settings, name, space, group_of=group_of))
    human = None if pool.human is None else pool.human[kept]
    right = None if pool.right is None or goal.groups is None else pool.right[kept]
    return RecordedSet(name, ratings, goal, human, right)
