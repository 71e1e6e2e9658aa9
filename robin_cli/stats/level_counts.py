"""Counts of each arm's ratings by level, of a run that was read, and kept while ratings come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import values_of
from robin_cli.run.reader import RunReader, read_ratings

Counted = Iterable[tuple[Scale, IntArray, FloatArray]]
"""Each scale, the arms rated on it, and the number of times each got each level, shape (arms, levels)."""

_AT_A_TIME = 2**19
_FINE_LEVELS = 64
"""The number of steps over the scale for ratings that are not integers."""


def counts_by_scale(
    space: ArmSpace, arm: IntArray, judgments: pa.Table
) -> Iterator[tuple[Scale, IntArray, FloatArray]]:
    """Yield each scale, its arms, and their counts of ratings by level, see :func:`level_counts`.

    Args:
        arm: the arm of each judgment, shape (rows,).
        judgments: with the columns RATED.
    """
    groups = space.by_scale()
    if len(groups) == 1:
        yield *groups[0], level_counts(arm, judgments, len(space), groups[0][0])
        return
    for scale, arms in groups:
        place = np.full(len(space), -1)
        place[arms] = np.arange(len(arms))
        yield scale, arms, level_counts(arm, judgments, len(arms), scale, place)


def level_counts(
    arm: IntArray, judgments: pa.Table, count: int, scale: Scale, place: IntArray | None = None
) -> FloatArray:
    """Return how often each arm got each rating, shape (count, levels), for levels evenly spaced over the scale.

    If all ratings are integers, the levels are the scale's. With expected ratings the levels are finer, and each rating is
    split between its two neighbours so that its value stays. Intervals from these counts stay valid: by concavity of the
    logarithm the bets win no more on the parts than on the whole.

    Args:
        arm: the arm of each judgment, shape (rows,).
        judgments: with the columns RATED.
        place: the row of each arm in the counts, negative for none; None if it is the arm itself.

    Raises:
        StorageError: a rating outside the scale.
    """
    is_fine = judgments["expected_rating"].null_count < len(judgments)
    fine = _steps_between_levels(scale) if is_fine else 1
    counts = np.zeros((count, (scale.levels - 1) * fine + 1))
    for start in range(0, len(arm), _AT_A_TIME):
        part = judgments.slice(start, _AT_A_TIME)
        row = arm[start : start + _AT_A_TIME]
        row = row if place is None else place[row]
        counted = part["rating"].is_valid().to_numpy() & (row >= 0)
        value = values_of(part)[counted] - scale.low
        if not ((value >= 0) & (value <= scale.levels - 1)).all():  # nan is not
            raise StorageError(
                f"the run's judgments hold ratings outside the scale {scale}; they were made with another rubric, or the run "
                "was changed: restore it from a copy"
            )
        _add_levels(counts, row[counted], value * fine)
    return counts


def _add_levels(counts: FloatArray, row: IntArray, level: FloatArray) -> None:
    """Count a rating in each ``row``, divided between the two levels next to ``level``."""
    above_share, below = np.modf(level)
    place = row * counts.shape[1] + below.astype(np.int64)
    between = above_share > 0
    flat = counts.reshape(-1)
    np.add.at(flat, place, 1.0 - above_share)
    np.add.at(flat, place[between] + 1, above_share[between])


def _steps_between_levels(scale: Scale) -> int:
    """Return the number of steps per point of ``scale`` for ratings that are not integers."""
    return max(1, _FINE_LEVELS // (scale.levels - 1))


class LevelCounts:
    """The counts of :func:`counts_by_scale`, to which single ratings are added: they are read far more often.

    The levels are the scale's, until its first rating that is no integer: from then on they are the finer ones of
    :func:`level_counts`, and such a rating is divided between the two next to it.
    """

    def __init__(self, space: ArmSpace) -> None:
        groups = space.by_scale()
        self._scales = [scale for scale, _ in groups]
        self._arms = [arms for _, arms in groups]
        self._counts: list[FloatArray] = [
            np.zeros((len(arms), scale.levels)) for scale, arms in groups
        ]
        self._fine = [1] * len(groups)
        self._new: list[tuple[int, float]] = []
        self._group = np.empty(len(space), dtype=np.int64)
        self._row = np.empty(len(space), dtype=np.int64)
        for number, arms in enumerate(self._arms):
            self._group[arms], self._row[arms] = number, np.arange(len(arms))

    @classmethod
    def from_run(cls, run: RunReader) -> LevelCounts:
        return cls.by(run.space, counts_by_scale(run.space, run.arm, run.judgments))

    @classmethod
    def at(cls, path: Path, space: ArmSpace) -> LevelCounts:
        """Count the ratings of the run at ``path``; nothing else is read. StorageError if they cannot be read."""
        return cls.by(space, counts_by_scale(space, *read_ratings(path, space)))

    @classmethod
    def by(
        cls, space: ArmSpace, counted: Iterable[tuple[Scale, IntArray, FloatArray]]
    ) -> LevelCounts:
        """Continue the counts of :func:`counts_by_scale`."""
        made = cls(space)
        for number, (scale, _, counts) in enumerate(counted):
            made._counts[number] = counts
            made._fine[number] = (counts.shape[1] - 1) // (scale.levels - 1)
        return made

    def add(self, arm: int, ratings: Iterable[float | None]) -> None:
        """Count ``ratings`` of ``arm``, each on its scale, before the counts are next read."""
        for rating in ratings:
            if rating is not None:
                self._new.append((arm, rating))

    def of_arms(self, arms: IntArray) -> FloatArray:
        """Return how often ``arms``, all on one scale, got each level, shape (arms, levels): the scale's levels, or finer."""
        self._count_new()
        group = self._group.item(arms[0]) if len(arms) else 0
        return self._counts[group][self._row[arms]]

    def by_scale(self) -> list[tuple[Scale, IntArray, FloatArray]]:
        """Return each scale, its arms, and the number of times each got each level, shape (arms, levels)."""
        self._count_new()
        return list(zip(self._scales, self._arms, self._counts, strict=True))

    def _count_new(self) -> None:
        new = self._new[:]
        del self._new[: len(new)]  # another thread may add meanwhile
        arms, ratings = (
            np.array([arm for arm, _ in new], np.int64),
            np.array([rating for _, rating in new], np.float64),
        )
        for group in np.unique(self._group[arms]).tolist():
            mine = self._group[arms] == group
            row, value = self._row[arms[mine]], ratings[mine] - self._scales[group].low
            if self._fine[group] == 1 and (value % 1.0).any():
                self._refine(group)
            _add_levels(self._counts[group], row, value * self._fine[group])

    def _refine(self, group: int) -> None:
        fine, counts = _steps_between_levels(self._scales[group]), self._counts[group]
        if fine == 1:  # a long scale has enough levels
            return
        self._counts[group] = np.zeros((len(counts), (counts.shape[1] - 1) * fine + 1))
        self._counts[group][:, ::fine] = counts
        self._fine[group] = fine
