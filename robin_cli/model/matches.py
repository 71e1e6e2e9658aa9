"""The comparisons of a pairwise run: which two responses each is of, of which systems, to which prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import Arms, IntArray
from robin_cli.model.groups import numbered
from robin_cli.model.records import Value, as_text
from robin_cli.model.space import ArmSpace

MOST_SYSTEMS = 2_000
"""That are ranked: strengths are equations of all systems at once, and differences are of every two."""


class Compared(NamedTuple):
    """How many comparisons were asked: in both orders by all judges, only in part, and of how many."""

    whole: int
    partly: int
    comparisons: int


@dataclass(frozen=True)
class Matches:
    """What the comparisons of a run are of, numbered from 0; each is two arms a judge, one an order.

    Attributes:
        names: of the systems; none where the data does not say which system wrote what.
        system: of response A and of B, shape (comparisons, 2); −1 where there are no names.
        prompt: of each comparison, shape (comparisons,).
        response: A and B among all different responses of all prompts, shape (comparisons, 2).
        rank: place of each comparison in a random order, shape (comparisons,).
        wants_best: the best response of each prompt is looked for, and not the ranking of systems.
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
        """Whether there are three systems or more to be ranked, so that not every comparison need be asked."""
        return len(self.names) > 2 and not self.wants_best

    @cached_property
    def opponents(self) -> tuple[IntArray, IntArray]:
        """Every two systems that are compared, the lower first, shape (couples, 2), and the couple of each comparison."""
        low, high = np.sort(self.system, axis=1).T
        couples, which = np.unique(low * (len(self.names) + 1) + high, return_inverse=True)
        return np.stack(np.divmod(couples, len(self.names) + 1), axis=1), np.asarray(which)

    @cached_property
    def by_opponents(self) -> tuple[IntArray, IntArray]:
        """The comparisons, those of the same two systems one after another in random order, and where those of each begin."""
        couple = self.opponents[1]
        order = np.lexsort((self.rank, couple))
        return order, np.searchsorted(couple[order], np.arange(len(self.opponents[0])))

    @cached_property
    def place(self) -> IntArray:
        """Place of each comparison among those of the same two systems, in random order, shape (comparisons,)."""
        order, starts = self.by_opponents
        place = np.empty(len(self), dtype=np.int64)
        place[order] = np.arange(len(self)) - starts[self.opponents[1][order]]
        return place

    @cached_property
    def turn(self) -> IntArray:
        """Place of each arm in the order in which all are asked once, shape (K,).

        In turns over every two systems, comparisons drawn at random, each in both orders and by all judges before the next.
        """
        order = np.lexsort((self.rank, self.place))
        place = np.empty(len(self.space), dtype=np.int64)
        place[self.space.by_pair(np.arange(len(self.space)))[order].ravel()] = np.arange(len(self.space))
        return place

    def compared(self, arms: Arms) -> Compared:
        """How far a run came."""
        rated = self.space.by_pair(arms.counts > 0)
        whole = rated.all(axis=1)
        return Compared(int(whole.sum()), int((rated.any(axis=1) & ~whole).sum()), len(self))


def matches_of(
    space: ArmSpace,
    prompt: IntArray,
    text: IntArray,
    named: Sequence[Sequence[Value | None]],
    seed: int | None,
    *,
    wants_best: bool = False,
) -> Matches:
    """The comparisons of two texts each, to a prompt each.

    Args:
        prompt: numbers, shape (comparisons,).
        text: numbers, those of A and B, shape (comparisons, 2); to another prompt the same text is another response.
        named: whose these are, a row a comparison.
        seed: of the run. The random order is that of the SHA-256 of it and the ids: no other order of the data, no later
            session and no other machine changes it.
    """
    names: list[str] = []
    system: IntArray = np.full(text.shape, -1, dtype=np.int64)
    if all(value is not None for each in named for value in each):
        numbers, names = numbered(as_text(value) for each in named for value in each if value is not None)
        system = numbers.reshape(-1, 2)
    _, first, which = np.unique(text, return_index=True, return_inverse=True)
    text = np.argsort(np.argsort(first))[which].reshape(text.shape)  # by where it first stands, whoever numbered it
    _, response = np.unique(prompt[:, None] * (text.max(initial=0) + 1) + text, return_inverse=True)
    key = [hashlib.sha256(f"{seed}\0{pair_id}".encode()).digest() for pair_id in space.pair_ids]
    rank = np.empty(len(key), dtype=np.int64)
    rank[sorted(range(len(key)), key=key.__getitem__)] = np.arange(len(key))
    return Matches(space, names, system, prompt, response.reshape(text.shape), rank, wants_best)
