"""Fairness between judges, which are not equally quick: the quick must not spend what belongs to the slow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robin_cli.model.space import Coordinates
from robin_cli.scheduling.eligibility import KNOWN_FOR_EACH_PENDING
from robin_cli.scheduling.keys import NEVER, is_warm_up


class Fairness:
    """Remembers which arms wait for answers, and says who would overtake them.

    Args:
        judge: which judge each arm is asked of, shape (K,).
    """

    def __init__(self, judge: Coordinates) -> None:
        self._judge_of_all = judge
        self._judge = judge.data  # single entries of it are read several times faster
        self.waiting: dict[int, float] = {}
        """Arms that wait for calls under way or failed, and the keys they would have otherwise."""

    def overtakes(self, arm: int, key: float, calls: int) -> bool:
        """Whether asking ``arm``, of which there are ``calls``, would take calls from arms that wait for another judge.

        It may run ahead of a more urgent arm by a quarter of its calls; none may begin to adapt while an arm of another judge
        waits in its warm-up.
        """
        if is_warm_up(key):
            return False
        judge = self._judge[arm]
        foremost = min((at for other, at in self.waiting.items() if self._judge[other] != judge), default=NEVER)
        if not calls:  # without a warm-up: not while one of another judge is twice as urgent
            return is_warm_up(foremost) or key > foremost / 2
        lead = max(1, calls // KNOWN_FOR_EACH_PENDING)
        return is_warm_up(foremost) or key * calls > foremost * (calls - lead)

    def most_urgent_beside_failed(self, arm: int, keys: Sequence[float]) -> int:
        """The most urgent arm of the judge that ``arm`` would overtake: whether it is answered tells whose fault it was."""
        failed = (other for other in self.waiting if self._judge[other] != self._judge[arm])
        judge = self._judge[min(failed, key=self.waiting.__getitem__)]
        return min(np.flatnonzero(self._judge_of_all == judge).tolist(), key=keys.__getitem__)
