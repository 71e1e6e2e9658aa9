"""The comparisons of a pairwise run: their responses, systems and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from robin_cli.data.groups import numbered
from robin_cli.model.arms import Arms, IntArray
from robin_cli.model.records import Value, as_text
from robin_cli.model.space import ArmSpace
from robin_cli.policies.systems import places_of, random_places


class ComparedPairs(NamedTuple):
    """Numbers of comparisons asked in both orders by all judges, asked only in part, and of all."""

    whole: int
    partly: int
    comparisons: int


@dataclass(frozen=True)
class Matches:
    """The comparisons of a run, numbered from 0. Each has two arms for each judge, one in each order.

    Attributes:
        names: of the systems; empty if the data does not name them.
        system: of response A and of B, shape (comparisons, 2); −1 without names.
        prompt: of each comparison, shape (comparisons,).
        response: A and B among all different responses of all prompts, shape (comparisons, 2).
        rank: place of each comparison in a random order, shape (comparisons,).
        wants_best: the run looks for the best response of each prompt, not for a ranking of systems.
    """

    space: ArmSpace
    names: Sequence[str]
    system: IntArray
    prompt: IntArray
    response: IntArray
    rank: IntArray
    wants_best: bool = False

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def ranks_systems(self) -> bool:
        """Whether three systems or more are ranked, so that not every comparison need be asked."""
        return len(self.names) > 2 and not self.wants_best

    @cached_property
    def opponents(self) -> tuple[IntArray, IntArray]:
        """Every two systems that are compared, the lower number first, shape (couples, 2), and each comparison's couple."""
        both = np.sort(self.system, axis=1)
        couples, which = np.unique(both, axis=0, return_inverse=True)
        return couples, which.reshape(-1)

    @cached_property
    def by_opponents(self) -> tuple[IntArray, IntArray]:
        """The comparisons grouped by couple, in random order within it, and where each couple begins."""
        couple = self.opponents[1]
        order = np.lexsort((self.rank, couple))
        return order, np.searchsorted(couple[order], np.arange(len(self.opponents[0])))

    @cached_property
    def place(self) -> IntArray:
        """Place of each comparison among those of its couple, in random order, shape (comparisons,)."""
        order, starts = self.by_opponents
        place = np.empty(len(self), dtype=np.int64)
        place[order] = np.arange(len(self)) - starts[self.opponents[1][order]]
        return place

    @cached_property
    def turn(self) -> IntArray:
        """Place of each arm in the order of the first calls, shape (K,).

        Couples take turns. Comparisons are drawn at random, each in both orders and by all judges before the next.
        """
        order = np.lexsort((self.rank, self.place))
        arms = self.space.by_pair(np.arange(len(self.space)))
        return places_of(arms[order].ravel())

    def compared(self, arms: Arms) -> ComparedPairs:
        """Count the comparisons that are asked in full and in part."""
        rated = self.space.by_pair(arms.n > 0)
        whole = rated.all(axis=1)
        return ComparedPairs(int(whole.sum()), int((rated.any(axis=1) & ~whole).sum()), len(self))


def matches_of(
    space: ArmSpace,
    prompt: IntArray,
    text: IntArray,
    named: Sequence[Sequence[Value | None]],
    seed: int | None,
    *,
    wants_best: bool = False,
) -> Matches:
    """Return the comparisons of two texts each.

    Args:
        prompt: numbers, shape (comparisons,).
        text: numbers of A and B, shape (comparisons, 2); for another prompt the same text is another response.
        named: the systems of A and B, a row for each comparison.
        seed: of the run; with the ids it gives the random order, see :func:`random_places`.
    """
    names: list[str] = []
    system: IntArray = np.full(text.shape, -1, dtype=np.int64)
    if all(value is not None for row in named for value in row):
        numbers, names = numbered(
            as_text(value) for row in named for value in row if value is not None
        )
        system = numbers.reshape(-1, 2)
    _, first, which = np.unique(text, return_index=True, return_inverse=True)
    # by first appearance, whatever the numbering
    text = np.argsort(np.argsort(first))[which].reshape(text.shape)
    _, response = np.unique(prompt[:, None] * (text.max(initial=0) + 1) + text, return_inverse=True)
    rank = random_places(seed, space.pair_ids)
    return Matches(space, names, system, prompt, response.reshape(text.shape), rank, wants_best)
