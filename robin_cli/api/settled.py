"""Decide in process, while another tool makes the calls: which ids need no further rating."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock

import numpy as np

from robin_cli.model.arms import Sums, mean
from robin_cli.model.decision import SCORE, decision_of, named_in
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task
from robin_cli.stats.decided import decisions_by, tally_of
from robin_cli.stats.likely_wrong import likely_wrong, share_of
from robin_cli.stats.moderated import likely_half_widths, moderated
from robin_cli.stats.repeats import FEWEST
from robin_cli.stats.worst_error import worst_error


class Settled:
    """Collects ratings of any ids, and says which ids need no more. Threads may share it.

    An id is settled after two ratings, once its decision is wrong with at most the chance ``wrong``,
    or the expected error of its score is at most ``goal``. After one, if 59 repeats never differed.

    Args:
        goal: a threshold, such as ``"score>=3"``; or a number, the expected error of each score.
            A text that is not one threshold inside the scale is an InputError.
        scale: the lowest and the highest rating, whole numbers; ratings may be fractions.
    """

    def __init__(self, goal: str | float, scale: tuple[int, int], *, wrong: float = 0.05) -> None:
        self._scale, self._goal, self._wrong = Scale(int(scale[0]), int(scale[1])), goal, wrong
        if isinstance(goal, str):
            if len(names := named_in(goal)) != 1:
                raise InputError(f'goal="{goal}": give one threshold, such as "score>=3"')
            self._decision = decision_of(goal, names, [self._scale], margin=None, error_rate=None)
        self._first: dict[Hashable, tuple[int, float]] = {}
        self._place, self._rating = list[int](), list[float]()
        self._varies, self._lock = False, Lock()
        self._by_id: dict[Hashable, tuple[bool, str]] = {}
        self._summary: dict[str, float] = {"ids": 0, "settled": 0, "ratings": 0}

    def add(self, pair_id: Hashable, rating: float) -> None:
        """Count a rating. InputError if it is outside the scale."""
        if not self._scale.low <= rating <= self._scale.high:  # nan is not
            raise InputError(f"{pair_id}: the rating {rating} is outside the scale {self._scale}")
        with self._lock:
            place, first = self._first.setdefault(pair_id, (len(self._first), rating))
            self._varies = self._varies or rating != first
            self._place.append(place)
            self._rating.append(rating)

    def is_settled(self, pair_id: Hashable) -> bool:
        return self._current()[0].get(pair_id, (False, ""))[0]

    def decision(self, pair_id: Hashable) -> str:
        """Return keep or drop, by the mean so far; "" without a rating or a threshold."""
        return self._current()[0].get(pair_id, (False, ""))[1]

    def summary(self) -> dict[str, float]:
        """Return the numbers of ids, settled ids and ratings; of decisions, and how sure all is."""
        return dict(self._current()[1])

    def _current(self) -> tuple[dict[Hashable, tuple[bool, str]], dict[str, float]]:
        """Return what holds for each id, and the summary: one fit after any number of ratings."""
        with self._lock:
            if self._summary["ratings"] < len(self._rating):
                self._fit()
            return self._by_id, self._summary

    def _fit(self) -> None:
        place, rating = np.array(self._place), np.array(self._rating, dtype=np.float64)
        sums = Sums(*(np.bincount(place, rating**power).astype(np.float64) for power in range(3)))
        space = ArmSpace([""] * len(sums.n), [SCORE], [""], [self._scale])
        decisions, kept = [""] * len(sums.n), sums.n > 0
        if isinstance(self._goal, str):
            task, most = Task(self._decision, space), self._wrong
            risk = likely_wrong(task, sums, ~kept)
            by_mean = decisions_by(task, mean(sums.n, sums.total))
            figures = {**tally_of(task, by_mean), "likely_wrong": share_of(risk)}
            decisions = by_mean.tolist()
        else:
            noise, most = moderated(space, sums), self._goal
            risk = likely_half_widths(noise.error_variance, noise.freedom, alpha=0.5)
            figures = {"worst_error": worst_error(space, sums, kept)}
        is_repeating = not self._varies and len(rating) - len(sums.n) >= FEWEST
        settled = is_repeating | ((sums.n >= 2) & (risk <= most))
        of_ids = zip(settled.tolist(), decisions, strict=True)
        self._by_id = dict(zip(self._first, of_ids, strict=True))
        counts = {"ids": len(sums.n), "settled": int(settled.sum()), "ratings": len(rating)}
        self._summary = {**counts, **figures}
