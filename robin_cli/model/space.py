"""Which arm is which pair, attribute, variant and judge: the only place where arms are computed from coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale, shared_scale

Coordinates = NDArray[np.int32]

_FIRST_OF_COMPARISONS = 64
_FEWEST_AT_START, _OF_START = 20, 20


@dataclass(frozen=True)
class ArmSpace:
    """The arms of a run: every pair × attribute × variant of the question × judge, the judges of a variant side by side.

    ``pair``, ``attribute``, ``variant`` and ``judge`` are coordinate arrays, shape (K,): where each arm stands among
    ``pair_ids``, ``attributes``, ``variants`` and ``judges``. ``scales`` has one an attribute. Variants ask the same in
    another way, as the two orders of two responses; a score is the mean over variants and judges, which count alike.

    Where the last judge ``settles`` what the first leaves open, scores are of it alone: the first is what predicts it.
    """

    pair_ids: Sequence[str]
    attributes: Sequence[str]
    judges: Sequence[str]
    scales: Sequence[Scale]
    variants: Sequence[str] = ("",)
    settles: bool = False

    def __len__(self) -> int:
        return len(self.pair_ids) * self.arms_per_pair

    @property
    def arms_per_pair(self) -> int:
        """How many arms each pair has."""
        return len(self.attributes) * self.arms_per_row

    @property
    def arms_per_row(self) -> int:
        """How many arms each pair and attribute has: every variant by every judge."""
        return len(self.variants) * len(self.judges)

    @property
    def raters(self) -> int:
        """How many of these make up a score: all, or the judge alone that settles."""
        return 1 if self.settles else self.arms_per_row

    @property
    def start(self) -> int:
        """Pairs that the judge which settles is asked about in any case: a random twentieth of them, or 20."""
        return min(len(self.pair_ids), max(_FEWEST_AT_START, -(-len(self.pair_ids) // _OF_START)))

    @property
    def asked_once(self) -> int:
        """Arms that are asked before any answer is looked at."""
        return (len(self.pair_ids) + self.start) * len(self.attributes) if self.settles else len(self)

    @property
    def first_fit(self) -> int:
        """Ratings of all arms together at which a pooled policy is fitted first: as many as arms.

        With several variants, where not all are asked, it is a few dozen.
        """
        return min(len(self), _FIRST_OF_COMPARISONS) if self.together > 1 else self.asked_once

    @property
    def together(self) -> int:
        """How many arms, one behind the other, are to be asked equally often: those of a score that needs all variants."""
        return self.raters if len(self.variants) > 1 else 1

    @cached_property
    def pair(self) -> Coordinates:
        """Position of each arm's pair in the data."""
        return np.repeat(np.arange(len(self.pair_ids), dtype=np.int32), self.arms_per_pair)

    @cached_property
    def attribute(self) -> Coordinates:
        """Which of the attributes each arm is rated on."""
        return self._along(np.repeat(np.arange(len(self.attributes)), self.arms_per_row))

    @cached_property
    def variant(self) -> Coordinates:
        """Which of the variants of the question each arm is asked in."""
        return self._along(np.tile(np.repeat(np.arange(len(self.variants)), len(self.judges)), len(self.attributes)))

    @cached_property
    def judge(self) -> Coordinates:
        """Which of the judges is asked for each arm."""
        return self._along(np.tile(np.arange(len(self.judges)), len(self.attributes) * len(self.variants)))

    @cached_property
    def kind(self) -> Coordinates:
        """Attribute, variant and judge of each arm as one number, shape (K,): arms of one kind differ by their pair alone."""
        return self._along(np.arange(self.arms_per_pair))

    def _along(self, of_a_pair: NDArray[np.integer[Any]]) -> Coordinates:
        return np.tile(of_a_pair.astype(np.int32), len(self.pair_ids))

    def arm_at(
        self, pair: ArrayLike, attribute: ArrayLike = 0, judge: ArrayLike = 0, variant: ArrayLike = 0
    ) -> IntArray:
        """The arm at these coordinates; of arrays, the arms, as numpy broadcasts them."""
        row = np.asarray(pair, np.int64) * len(self.attributes) + np.asarray(attribute)
        row = row * len(self.variants) + np.asarray(variant)
        return np.asarray(row * len(self.judges) + np.asarray(judge))

    def arms_of_pair(self, pair: int) -> range:
        """The arms of one pair, attribute by attribute and judge by judge."""
        return range(pair * self.arms_per_pair, (pair + 1) * self.arms_per_pair)

    def within_pair(self, arm: int) -> int:
        """Where an arm stands among those of its pair, see :meth:`arms_of_pair`."""
        return arm % self.arms_per_pair

    def by_rater(self, values: ArrayLike) -> NDArray[Any]:
        """Values of all arms, shape (K,), as a row a pair and attribute and a column for each rater of its score."""
        return np.asarray(values).reshape(-1, self.arms_per_row)[:, -self.raters :]

    @property
    def by_judge(self) -> IntArray:
        """The arms of every pair, attribute and judge, judge by judge: a row each, and a column a variant."""
        return np.swapaxes(self.by_variant(np.arange(len(self))), 1, 2).reshape(-1, len(self.variants))

    def by_variant(self, values: ArrayLike) -> NDArray[Any]:
        """Values of all arms, of any shape, as pair and attribute × variant × judge."""
        return np.asarray(values).reshape(-1, len(self.variants), len(self.judges))

    def row_of(self, arms: IntArray) -> IntArray:
        """The row of :meth:`by_rater` that each of these arms is in; −1 for −1."""
        return np.asarray(arms // self.arms_per_row)

    def by_pair(self, rows: ArrayLike) -> NDArray[Any]:
        """Values pair by pair, of all arms or of equally many rows a pair, as a row a pair."""
        return np.asarray(rows).reshape(len(self.pair_ids), -1)

    def attribute_of(self, arm: int) -> str:
        """The name of the attribute that the arm is rated on."""
        return self.attributes[self.attribute.item(arm)]

    def asked_as(self, arm: int) -> str:
        """What judgments of the arm have in their column ``attribute``: of several variants the name of its own."""
        return self.asked[self.attribute.item(arm) if len(self.variants) == 1 else self.variant.item(arm)]

    @property
    def asked(self) -> Sequence[str]:
        """What judgments may have in their column ``attribute``."""
        return self.attributes if len(self.variants) == 1 else self.variants

    def judge_of(self, arm: int) -> str:
        """The name of the judge that is asked for the arm."""
        return self.judges[self.judge.item(arm)]

    def scale_of(self, arm: int) -> Scale:
        """The scale that the arm is rated on."""
        return self.scales[self.attribute.item(arm)]

    def by_scale(self) -> list[tuple[Scale, IntArray]]:
        """Each scale there is and the arms rated on it, rising; every arm once."""
        of_scale = {scale: [each == scale for each in self.scales] for scale in self.scales}
        return [(scale, np.flatnonzero(np.array(mine)[self.attribute])) for scale, mine in of_scale.items()]

    @property
    def has_several_scales(self) -> bool:
        """Whether errors of all arms together are shares of their scales, and not points."""
        return shared_scale(self.scales) is None

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest rating of each arm, shape (K,) each."""
        return self.ends_of(slice(None))

    def ends_of(self, arms: slice) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest rating of each of these ``arms``."""
        low, high = np.array([(scale.low, scale.high) for scale in self.scales], dtype=np.float64).T
        return low[self.attribute[arms]], high[self.attribute[arms]]

    @property
    def units(self) -> FloatArray:
        """What errors are counted in so that those of all arms compare, shape (K,).

        One point where all arms have one scale; else the width of each arm's own.
        """
        low, high = self.ends
        return high - low if self.has_several_scales else np.ones(len(self))

    def label(self, arm: int) -> str:
        """What the arm is of its pair, as far as there are several: its attribute, its variant, its judge."""
        parts = [self.asked_as(arm)] if len(self.asked) > 1 or len(self.judges) == 1 else []
        return " · ".join([*parts, *([self.judge_of(arm)] if len(self.judges) > 1 else [])])

    def name(self, arm: int) -> str:
        """The arm in words: its pair's id, and what it is of its pair where there are several."""
        pair_id = self.pair_ids[self.pair.item(arm)]
        return pair_id if self.arms_per_pair == 1 else f"{pair_id} · {self.label(arm)}"
