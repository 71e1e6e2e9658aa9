"""Maps pair, attribute, variant and judge to arms. No other module computes arms from coordinates."""

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


@dataclass(frozen=True)
class ArmSpace:
    """The arms of a run: every pair × attribute × variant of the question × judge, the judges of a variant side by side.

    ``pair``, ``attribute``, ``variant`` and ``judge`` are coordinate arrays, shape (K,): each arm's place among ``pair_ids``,
    ``attributes``, ``variants`` and ``judges``. ``scales`` has one for each attribute. Variants ask the same question in
    another way, such as the two orders of two responses; a score is the mean over variants and judges, which count equally.
    """

    pair_ids: Sequence[str]
    attributes: Sequence[str]
    judges: Sequence[str]
    scales: Sequence[Scale]
    variants: Sequence[str] = ("",)

    def __len__(self) -> int:
        return len(self.pair_ids) * self.arms_per_pair

    @property
    def arms_per_pair(self) -> int:
        """Number of arms of each pair."""
        return len(self.attributes) * self.raters

    @property
    def raters(self) -> int:
        """Number of arms in a score, that of a pair and attribute: every variant by every judge."""
        return len(self.variants) * len(self.judges)

    @property
    def first_fit(self) -> int:
        """Number of ratings of all arms at the first fit of a pooled policy: one of each pair and attribute.

        With several variants, where not all arms need be asked, it is a few dozen.
        """
        if self.together > 1:
            return min(len(self), _FIRST_OF_COMPARISONS)
        return len(self) // len(self.judges)

    @property
    def together(self) -> int:
        """Number of consecutive arms that are asked equally often: those of a score that needs all variants, else 1."""
        return self.raters if len(self.variants) > 1 else 1

    @cached_property
    def pair(self) -> Coordinates:
        """Position of each arm's pair in the data."""
        return np.repeat(np.arange(len(self.pair_ids), dtype=np.int32), self.arms_per_pair)

    @cached_property
    def attribute(self) -> Coordinates:
        """Place of each arm's attribute."""
        return self._along(np.repeat(np.arange(len(self.attributes)), self.raters))

    @cached_property
    def variant(self) -> Coordinates:
        """Place of each arm's variant of the question."""
        return self._along(
            np.tile(
                np.repeat(np.arange(len(self.variants)), len(self.judges)), len(self.attributes)
            )
        )

    @cached_property
    def judge(self) -> Coordinates:
        """Place of each arm's judge."""
        return self._along(
            np.tile(np.arange(len(self.judges)), len(self.attributes) * len(self.variants))
        )

    @cached_property
    def kind(self) -> Coordinates:
        """Attribute, variant and judge of each arm as one number, shape (K,): arms of one kind differ only by their pair."""
        return self._along(np.arange(self.arms_per_pair))

    def _along(self, of_a_pair: NDArray[np.integer[Any]]) -> Coordinates:
        return np.tile(of_a_pair.astype(np.int32), len(self.pair_ids))

    def arm_at(
        self,
        pair: ArrayLike,
        attribute: ArrayLike = 0,
        judge: ArrayLike = 0,
        variant: ArrayLike = 0,
    ) -> IntArray:
        """Return the arm at these coordinates; of arrays, the arms, as numpy broadcasts them."""
        row = np.asarray(pair, np.int64) * len(self.attributes) + np.asarray(attribute)
        row = row * len(self.variants) + np.asarray(variant)
        return np.asarray(row * len(self.judges) + np.asarray(judge))

    def arms_of_pair(self, pair: int) -> range:
        """Return the arms of one pair, attribute by attribute and judge by judge."""
        return range(pair * self.arms_per_pair, (pair + 1) * self.arms_per_pair)

    def asked_along(self, arm: int) -> range:
        """Return the arms that one request about all attributes asks: those of the arm's pair, variant and judge."""
        arms = self.arms_of_pair(arm // self.arms_per_pair)
        return arms[arm % self.raters :: self.raters]

    def by_rater(self, values: ArrayLike) -> NDArray[Any]:
        """Return values of all arms, shape (K,), with a row per pair and attribute, a column per rater of the score."""
        return np.asarray(values).reshape(-1, self.raters)

    @property
    def by_judge(self) -> IntArray:
        """The arms of every pair, attribute and judge, judge by judge: a row for each, and a column for each variant."""
        return np.swapaxes(self.by_variant(np.arange(len(self))), 1, 2).reshape(
            -1, len(self.variants)
        )

    def by_variant(self, values: ArrayLike) -> NDArray[Any]:
        """Return values of all arms, any shape, with axes pair and attribute, variant, judge."""
        return np.asarray(values).reshape(-1, len(self.variants), len(self.judges))

    def by_axis(self, values: ArrayLike) -> NDArray[Any]:
        """Return values of all arms, shape (K,), with axes pair, attribute, variant, judge."""
        return self.by_variant(values).reshape(
            -1, len(self.attributes), len(self.variants), len(self.judges)
        )

    def row_of(self, arms: IntArray) -> IntArray:
        """Return the row of :meth:`by_rater` of each arm; −1 for −1."""
        return np.asarray(arms // self.raters)

    def by_pair(self, rows: ArrayLike) -> NDArray[Any]:
        """Return values of all arms, or of equally many rows for each pair, with a row for each pair."""
        return np.asarray(rows).reshape(len(self.pair_ids), -1)

    def attribute_of(self, arm: int) -> str:
        """Return the name of the arm's attribute."""
        return self.attributes[self.attribute.item(arm)]

    def asked_as(self, arm: int) -> str:
        """Return the value of the column ``attribute`` in judgments of the arm: with several variants, its variant."""
        return self.asked[
            self.attribute.item(arm) if len(self.variants) == 1 else self.variant.item(arm)
        ]

    @property
    def asked(self) -> Sequence[str]:
        """The possible values of the column ``attribute`` in judgments."""
        return self.attributes if len(self.variants) == 1 else self.variants

    def judge_of(self, arm: int) -> str:
        """Return the name of the arm's judge."""
        return self.judges[self.judge.item(arm)]

    def scale_of(self, arm: int) -> Scale:
        """Return the arm's scale."""
        return self.scales[self.attribute.item(arm)]

    def by_scale(self) -> list[tuple[Scale, IntArray]]:
        """Return each scale and its arms in rising order; every arm is in one of them."""
        of_scale = {scale: [each == scale for each in self.scales] for scale in self.scales}
        return [
            (scale, np.flatnonzero(np.array(mine)[self.attribute]))
            for scale, mine in of_scale.items()
        ]

    @property
    def has_several_scales(self) -> bool:
        """Whether errors of all arms together are shares of their scales, not points."""
        return shared_scale(self.scales) is None

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest rating of each arm, shape (K,) each."""
        return self.ends_of(slice(None))

    def ends_of(self, arms: slice) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest rating of each of these ``arms``."""
        low, high = np.array([(scale.low, scale.high) for scale in self.scales], dtype=np.float64).T
        return low[self.attribute[arms]], high[self.attribute[arms]]

    @property
    def units(self) -> FloatArray:
        """The unit of each arm's error in which all arms compare, shape (K,).

        One point if all arms have one scale; else the width of each arm's own.
        """
        low, high = self.ends
        return high - low if self.has_several_scales else np.ones(len(self))

    def label(self, arm: int) -> str:
        """Return the arm's attribute or variant, and its judge, each if there are several."""
        parts = [self.asked_as(arm)] if len(self.asked) > 1 or len(self.judges) == 1 else []
        return " · ".join([*parts, *([self.judge_of(arm)] if len(self.judges) > 1 else [])])

    def name(self, arm: int) -> str:
        """Return the arm in words: its pair's id, and :meth:`label` if the pair has several arms."""
        pair_id = self.pair_ids[self.pair.item(arm)]
        return pair_id if self.arms_per_pair == 1 else f"{pair_id} · {self.label(arm)}"
