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
        prompt, response = np.repeat(self.of, 2), matches.response.ravel()
        first = np.full(len(prompts), len(response))  # those of a prompt have consecutive numbers
        np.minimum.at(first, prompt, response)
        place = response - first[prompt]
        self.rows = members_of(self.of)
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
