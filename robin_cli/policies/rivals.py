"""The responses to each prompt side by side, for the best response to each."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.matches import Matches
from robin_cli.policies.task import members_of


class Rivals:
    """The comparisons of each prompt of a run side by side.

    Attributes:
        matches: the comparisons.
        members: arms, shape (prompts, comparisons, arms of one); −1 if a prompt has fewer comparisons.
        side: which response of the prompt is A, and B, shape (prompts, comparisons, 2); −1 without a comparison.
        of: the prompt of each comparison, shape (all comparisons,).
        rows: the comparisons by number, shape (prompts, comparisons); −1 likewise.
        responses: the responses of each prompt, as in :attr:`Matches.response`, shape (prompts, responses); −1 if it has fewer.
        missing: how many others of its prompt each response is not compared with, shape (prompts, responses); inf without a
            response.
    """

    def __init__(self, matches: Matches) -> None:
        self.matches = matches
        prompts, self.of = np.unique(matches.prompt, return_inverse=True)
        arms = matches.space.by_pair(np.arange(len(matches.space)))
        _, first = np.unique(matches.response, return_index=True)
        place = _numbers_within(np.repeat(self.of, 2), matches.response.ravel()).reshape(-1, 2)
        self.rows = members_of(self.of)
        is_there = self.rows[..., None] >= 0
        self.members = np.where(is_there, arms[self.rows], -1)
        self.side = np.where(is_there, place[self.rows], -1)
        responses = place.max(initial=0) + 1
        count = np.bincount(np.repeat(self.of, 2)[first], minlength=len(prompts))
        has_response = np.arange(responses) < count[:, None]
        self.responses: IntArray = np.full(has_response.shape, -1, dtype=np.int64)
        self.responses[np.repeat(self.of, 2), place.ravel()] = matches.response.ravel()
        compared = np.zeros((len(prompts), responses))
        np.add.at(compared, (np.repeat(self.of, 2), place.ravel()), 1.0)
        self.missing = np.where(
            has_response, np.maximum(count[:, None] - 1.0 - compared, 0.0), np.inf
        )

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


def _numbers_within(group: IntArray, value: IntArray) -> IntArray:
    """Return the place of each value among the different ones of its group."""
    values, which = np.unique(value, return_inverse=True)
    of = np.zeros(len(values), dtype=np.int64)
    of[which] = group
    order = np.argsort(of, kind="stable")
    sizes = np.bincount(of)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(place[which])
