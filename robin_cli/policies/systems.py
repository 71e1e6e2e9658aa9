"""The systems of a run that compares them, and the order of its first calls."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, IntArray
from robin_cli.model.space import ArmSpace

FEWEST_PROMPTS = 5
"""Prompts that two systems must both have answered to be compared."""


class Asked(NamedTuple):
    """Numbers of prompts that systems are compared on, asked in full or in part, and of pairs without a score."""

    whole: int
    """All of their responses were asked about."""
    partly: int
    prompts: int
    unrated: int
    """Pairs of all prompts without a score."""


@dataclass(frozen=True)
class Systems:
    """The system and the prompt of each pair.

    Attributes:
        names: of the systems.
        system, prompt: of each pair, numbered from 0, shape (pairs,).
        rank: place of each prompt in a random order, shape (prompts,).
    """

    space: ArmSpace
    names: Sequence[str]
    system: IntArray
    prompt: IntArray
    rank: IntArray

    @cached_property
    def is_shared(self) -> NDArray[np.bool_]:
        """Whether two systems or more answered each prompt, shape (prompts,)."""
        answered = np.unique(self.prompt * len(self.names) + self.system)
        return np.bincount(answered // len(self.names), minlength=len(self.rank)) > 1

    @cached_property
    def turn(self) -> IntArray:
        """Place of each arm in the order of the first calls, shape (K,).

        Prompts come in random order, each with all its arms, so that the prompts asked about in full are always a random
        sample. Prompts that one system alone answered come last.
        """
        pairs = np.lexsort((self.rank[self.prompt], ~self.is_shared[self.prompt]))
        return places_of(self.space.by_pair(np.arange(len(self.space)))[pairs].ravel())

    @cached_property
    def in_order(self) -> IntArray:
        """The prompts that systems are compared on, in the order of the first calls."""
        order = np.argsort(self.rank)
        return order[self.is_shared[order]]

    @cached_property
    def _calls_to(self) -> IntArray:
        """Calls that ask the first prompts in full, for each number of prompts that are compared on."""
        pairs = np.bincount(self.prompt, minlength=len(self.rank))[self.in_order]
        return np.asarray(np.cumsum(pairs) * self.space.arms_per_pair)

    def calls_for(self, prompts: int) -> int:
        """Return the calls that ask the first ``prompts`` in full; at least 1, and no more than are compared on."""
        return int(self._calls_to[prompts - 1])

    def prompts_within(self, calls: int) -> int:
        """Return the number of prompts that ``calls`` ask in full."""
        return int(np.searchsorted(self._calls_to, calls, side="right"))

    def _left(self, arms: Arms) -> NDArray[np.bool_]:
        """Return whether an arm of each prompt is still to be asked, shape (prompts,); one that was given up is not."""
        done = self.space.by_pair((arms.n > 0) | arms.is_retired).all(axis=1)
        return np.bincount(self.prompt, ~done, len(self.rank)) > 0

    def whole_in_order(self, arms: Arms) -> int:
        """Return how many prompts were asked in full before the first that was not, in their order."""
        return int(np.append(self._left(arms)[self.in_order], [True]).argmax())

    def asked(self, arms: Arms) -> Asked:
        """Count the prompts asked about."""
        begun = self.space.by_pair(arms.n > 0).any(axis=1)
        left, some = self._left(arms), np.bincount(self.prompt, begun, len(self.rank)) > 0
        return Asked(
            whole=int((self.is_shared & ~left).sum()),
            partly=int((self.is_shared & left & some).sum()),
            prompts=int(self.is_shared.sum()),
            unrated=int((~begun).sum()),
        )


def systems_of(
    space: ArmSpace,
    system: IntArray,
    names: Sequence[str],
    prompt: IntArray,
    prompts: Iterable[str],
    seed: int | None,
) -> Systems:
    """Return the systems; ``system`` and ``prompt`` of each pair are places in ``names`` and ``prompts``."""
    return Systems(space, names, system, prompt, random_places(seed, prompts))


def random_places(seed: int | None, names: Iterable[str]) -> IntArray:
    """Return the place of each name in the order of the SHA-256 of it and the seed.

    Another order of the data, a later session or another machine does not change it.
    """
    digests = b"".join(hashlib.sha256(f"{seed}\0{name}".encode()).digest() for name in names)
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)
    return places_of(np.lexsort(words.T[::-1]).astype(np.int64))


def places_of(order: IntArray) -> IntArray:
    """Return the place of each number in ``order``, a permutation of the numbers from 0."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places
