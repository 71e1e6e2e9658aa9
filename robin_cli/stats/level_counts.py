"""Counts of each arm's ratings by level, kept while ratings come: they are read far more often than they change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import counts_by_scale, steps_between_levels
from robin_cli.run.reader import RunData, read_ratings


class LevelCounts:
    """The counts of :func:`~robin_cli.run.fold.counts_by_scale`, to which single ratings are added.

    The levels are the scale's, until its first rating that is no integer: from then on they are the finer ones of
    :func:`~robin_cli.run.fold.level_counts`, and such a rating is divided between the two next to it.
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
    def of(cls, run: RunData) -> LevelCounts:
        return cls.by(run.space, counts_by_scale(run.space, run.arm, run.judgments))

    @classmethod
    def at(cls, path: Path, space: ArmSpace) -> LevelCounts:
        """Count the ratings of the run at ``path``; nothing else is read. StorageError if they cannot be read."""
        return cls.by(space, counts_by_scale(space, *read_ratings(path, space)))

    @classmethod
    def by(
        cls, space: ArmSpace, counted: Iterable[tuple[Scale, IntArray, FloatArray]]
    ) -> LevelCounts:
        """Continue the counts of :func:`~robin_cli.run.fold.counts_by_scale`."""
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
            above_share, below = np.modf(value * self._fine[group])
            below = below.astype(np.int64)
            np.add.at(self._counts[group], (row, below), 1.0 - above_share)
            between = above_share > 0
            np.add.at(self._counts[group], (row[between], below[between] + 1), above_share[between])

    def _refine(self, group: int) -> None:
        fine, counts = steps_between_levels(self._scales[group]), self._counts[group]
        if fine == 1:  # a long scale has enough levels
            return
        self._counts[group] = np.zeros((len(counts), (counts.shape[1] - 1) * fine + 1))
        self._counts[group][:, ::fine] = counts
        self._fine[group] = fine
