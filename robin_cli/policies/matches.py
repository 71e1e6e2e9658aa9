"""The comparisons of a pairwise run: their responses, systems and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.space import ArmSpace
from robin_cli.policies.systems import places_of, random_places
from robin_cli.policies.task import members_of


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
        """Every two systems that are compared, the lower number first, shape (matchups, 2), and each comparison's matchup."""
        both = np.sort(self.system, axis=1)
        matchups, which = np.unique(both, axis=0, return_inverse=True)
        return matchups, which.reshape(-1)

    @cached_property
    def by_opponents(self) -> tuple[IntArray, IntArray]:
        """The comparisons grouped by matchup, in random order within it, and where each matchup begins."""
        matchup = self.opponents[1]
        order = np.lexsort((self.rank, matchup))
        return order, np.searchsorted(matchup[order], np.arange(len(self.opponents[0])))

    @cached_property
    def place(self) -> IntArray:
        """Position of each comparison in the random order of its matchup, shape (comparisons,)."""
        order, starts = self.by_opponents
        place = np.empty(len(self), dtype=np.int64)
        place[order] = np.arange(len(self)) - starts[self.opponents[1][order]]
        return place

    @cached_property
    def turn(self) -> IntArray:
        """Place of each arm in the order of the first calls, shape (K,).

        Matchups take turns. Comparisons are drawn at random, each in both orders and by all judges before the next.
        """
        order = np.lexsort((self.rank, self.place))
        arms = self.space.by_pair(np.arange(len(self.space)))
        return places_of(arms[order].ravel())

    @cached_property
    def rivals(self) -> Rivals:
        """The comparisons of each prompt side by side, for the best response to each."""
        return Rivals(self)

    def compared(self, arms: Arms) -> ComparedPairs:
        """Count the comparisons that are asked in full and in part."""
        rated = self.space.by_pair(arms.n > 0)
        whole = rated.all(axis=1)
        return ComparedPairs(int(whole.sum()), int((rated.any(axis=1) & ~whole).sum()), len(self))


class Rivals:
    """The comparisons of each prompt of a run side by side.

    Attributes:
        matches: the comparisons.
        members: arms, shape (prompts, comparisons, arms of one); −1 if a prompt has fewer comparisons.
        side: which response of the prompt is A, and B, shape (prompts, comparisons, 2); −1 without a comparison.
        prompt: the prompt of each comparison, shape (all comparisons,).
        rows: the comparisons by number, shape (prompts, comparisons); −1 likewise.
        responses: the responses of each prompt, as in :attr:`Matches.response`, shape (prompts, responses); −1 if it has fewer.
        missing: how many others of its prompt each response is not compared with, shape (prompts, responses); inf without a
            response.
    """

    def __init__(self, matches: Matches) -> None:
        self.matches = matches
        prompts, self.prompt = np.unique(matches.prompt, return_inverse=True)
        prompt, response = np.repeat(self.prompt, 2), matches.response.ravel()
        first = np.full(len(prompts), len(response))  # those of a prompt have consecutive numbers
        np.minimum.at(first, prompt, response)
        place = response - first[prompt]
        self.rows = members_of(self.prompt)
        is_there = self.rows[..., None] >= 0
        arms = matches.space.by_pair(np.arange(len(matches.space)))
        self.members = np.where(is_there, arms[self.rows], -1)
        self.side = np.where(is_there, place.reshape(-1, 2)[self.rows], -1)
        shape = (len(prompts), place.max(initial=0) + 1)
        self.responses: IntArray = np.full(shape, -1, dtype=np.int64)
        self.responses[prompt, place] = response
        compared = np.zeros(shape)
        np.add.at(compared, (prompt, place), 1.0)
        others = np.maximum(self.count[:, None] - 1.0 - compared, 0.0)
        self.missing = np.where(self.responses >= 0, others, np.inf)

    @property
    def count(self) -> IntArray:
        """Responses to each prompt, shape (prompts,)."""
        return np.asarray((self.responses >= 0).sum(axis=1))

    def leaders(self, preference: FloatArray, prompts: IntArray) -> IntArray:
        """Return the place of the response with the most wins over losses, then points; shape (N,).

        Args:
            preference: for A in each comparison of some prompts, shape (N, comparisons); nan without one.
            prompts: their numbers, shape (N,).
        """
        side, known = self.side[prompts], np.asarray(~np.isnan(preference))
        places = np.arange(self.responses.shape[1])
        wins, points = (np.zeros((len(prompts), len(places))) for _ in range(2))
        for which, of_side in enumerate((preference - 0.5, 0.5 - preference)):
            is_of_place = (side[..., which, None] == places) & known[..., None]
            ahead = np.where(known, of_side, 0.0)
            wins += np.where(is_of_place, np.sign(ahead)[..., None], 0.0).sum(axis=1)
            points += np.where(is_of_place, ahead[..., None], 0.0).sum(axis=1)
        is_there = self.responses[prompts] >= 0
        return np.asarray(
            np.where(is_there, wins + points / (2.0 * len(places)), -np.inf).argmax(axis=1)
        )


def matches_of(
    space: ArmSpace,
    prompt: IntArray,
    text: IntArray,
    system: IntArray | None,
    names: Sequence[str],
    seed: int | None,
    *,
    wants_best: bool = False,
) -> Matches:
    """Return the comparisons of two texts each.

    Args:
        prompt: numbers, shape (comparisons,).
        text: numbers of A and B, shape (comparisons, 2); for another prompt the same text is another response.
        system: of A and B, by their places in ``names``, of the same shape; None if the data does not name them.
        seed: of the run; with the ids it gives the random order, see :func:`random_places`.
    """
    if system is None:
        system = np.full(text.shape, -1, dtype=np.int64)
    _, first, which = np.unique(text, return_index=True, return_inverse=True)
    # by first appearance, whatever the numbering
    text = np.argsort(np.argsort(first))[which].reshape(text.shape)
    _, response = np.unique(prompt[:, None] * (text.max(initial=0) + 1) + text, return_inverse=True)
    rank = random_places(seed, space.pair_ids)
    return Matches(space, names, system, prompt, response.reshape(text.shape), rank, wants_best)
