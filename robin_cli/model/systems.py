"""Systems that answered the same prompts, and what a run that compares them asks first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN
from robin_cli.model.space import ArmSpace

FEWEST_PROMPTS = 5
"""Prompts that two systems answered, below which nothing is compared."""

_SHOWN = 60


class Asked(NamedTuple):
    """How far a run that compares came: prompts that systems are compared on, and those that one system alone answered."""

    whole: int
    """All of whose responses were asked about."""
    partly: int
    prompts: int
    unrated: int
    """Pairs, of all prompts; they have no score."""


@dataclass(frozen=True)
class Systems:
    """Which system answered each pair, and to which prompt.

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
    def cell(self) -> IntArray:
        """Prompt and system of each pair as one number, shape (pairs,)."""
        return self.prompt * len(self.names) + self.system

    @cached_property
    def is_shared(self) -> NDArray[np.bool_]:
        """Which prompts two systems or more answered, shape (prompts,)."""
        return np.bincount(np.unique(self.cell) // len(self.names), minlength=len(self.rank)) > 1

    @cached_property
    def turn(self) -> IntArray:
        """Place of each arm in the order in which all are asked once, shape (K,).

        Prompt by prompt, in random order, each with all that is to be asked of it, so that what was asked is always a sample of
        whole prompts. Those that one system alone answered come last.
        """
        pairs = np.lexsort((self.rank[self.prompt], ~self.is_shared[self.prompt]))
        return _places(self.space.by_pair(np.arange(len(self.space)))[pairs].ravel())

    @cached_property
    def weight(self) -> FloatArray:
        """How much the mean of each arm counts in the mean of its system at its prompt, in units; shape (K,).

        0 where no other system answered the prompt.
        """
        _, which, responses = np.unique(self.cell, return_inverse=True, return_counts=True)
        of_pair = np.where(self.is_shared[self.prompt], 1.0 / responses[which], 0.0)
        return np.asarray(of_pair[self.space.pair] / self.space.raters / self.space.units)

    @cached_property
    def _calls_to(self) -> IntArray:
        """Calls that it takes to ask each prompt that is compared on in full, and all in turn before it."""
        pairs = np.bincount(self.prompt, minlength=len(self.rank))[np.argsort(self.rank)]
        return np.asarray(np.cumsum(pairs[self.is_shared[np.argsort(self.rank)]]) * self.space.arms_per_pair)

    def calls_for(self, prompts: int) -> int:
        """Calls that it takes to ask the first so many prompts in full; at least 1, and no more than are compared on."""
        return int(self._calls_to[prompts - 1])

    def prompts_within(self, calls: int) -> int:
        """How many prompts so many calls ask in full."""
        return int(np.searchsorted(self._calls_to, calls, side="right"))

    def asked(self, arms: Arms) -> Asked:
        """How far a run came; an arm that was given up is asked about as far as it goes."""
        is_rated = arms.counts > 0
        done, begun = (
            self.space.by_pair(is_rated | arms.retired_mask).all(axis=1),
            self.space.by_pair(is_rated).any(axis=1),
        )
        left, some = (np.bincount(self.prompt, each, len(self.rank)) > 0 for each in (~done, begun))
        return Asked(
            whole=int((self.is_shared & ~left).sum()),
            partly=int((self.is_shared & left & some).sum()),
            prompts=int(self.is_shared.sum()),
            unrated=int((~begun).sum()),
        )


def systems_of(
    space: ArmSpace, system: IntArray, names: Sequence[str], prompt: IntArray, prompts: Iterable[str], seed: int | None
) -> Systems:
    """The systems over the arms of ``space``.

    Args:
        system, prompt: of each pair, shape (pairs,): places in ``names`` and ``prompts``.
        prompts: what they are called, see :func:`~robin_cli.model.groups.name_of`.
        seed: of the run. The order of the prompts is that of the SHA-256 of it and their texts: no other order of the data, no
            later session and no other machine changes it.
    """
    digests = b"".join(hashlib.sha256(f"{seed}\0{name}".encode()).digest() for name in prompts)
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)
    rank = _places(np.lexsort(words.T[::-1]).astype(np.int64))
    return Systems(space, names, system, prompt, rank)


def _places(order: IntArray) -> IntArray:
    """The place that each number has in ``order``, which has all from 0 on."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def check_systems(systems: Systems) -> str:
    """What a user should know of systems that are to be compared; "" for nothing.

    Raises:
        InputError: one system only, or too few prompts that two answered.
    """
    names = systems.names
    if len(names) == 1:
        raise InputError(
            f'--objective {COMPARE}: all pairs are of one system, "{shown(names[0], _SHOWN)}"; put the responses of another to '
            f"the same prompts beside them, or name the column that tells systems apart: --columns {SYSTEM_COLUMN}=NAME"
        )
    shared, prompts = int(systems.is_shared.sum()), len(systems.rank)
    if shared < FEWEST_PROMPTS:
        raise InputError(
            f"--objective {COMPARE}: two systems or more answered {shared} of {prompts:,} prompts, and at least "
            f"{FEWEST_PROMPTS} such are needed; systems are compared on the same prompts, to the letter"
        )
    if alone := prompts - shared:
        return f"one system alone answered {alone:,} of {prompts:,} prompts: they tell of no difference, and are asked last"
    return ""
