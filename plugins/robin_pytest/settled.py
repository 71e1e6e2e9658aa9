"""The fixture ``robin_settled``, which rates until every decision is likely right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


@pytest.fixture
def robin_settled() -> Callable[..., dict[str, float]]:
    """``robin_settled(rate, ids, "score>=3", (1, 5))``: fail the test unless robin keeps each id.

    ``rate`` returns a rating of one id. Undecided ids are rated again, at most ``most`` times; one
    that stays undecided fails the test. The summary of :class:`robin_cli.Settled` is returned.
    """

    def settle(
        rate: Callable[[Any], float],
        ids: Iterable[Any],
        goal: str | float,
        scale: tuple[int, int],
        *,
        wrong: float = 0.05,
        most: int = 16,
    ) -> dict[str, float]:
        from robin_cli import Settled  # pytest starts without it where no test asks

        settled, every = Settled(goal, scale, wrong=wrong), list(ids)
        if not every:
            raise TypeError("robin_settled needs an id to rate")
        for _ in range(most):
            for pair_id in [pair_id for pair_id in every if not settled.is_settled(pair_id)]:
                settled.add(pair_id, rate(pair_id))
        unsettled = [pair_id for pair_id in every if not settled.is_settled(pair_id)]
        dropped = [pair_id for pair_id in every if settled.decision(pair_id) == "drop"]
        if dropped or unsettled:
            shown = {"dropped": dropped, f"not settled after {most} ratings": unsettled}
            lines = [f"{what}: {', '.join(map(str, some))}" for what, some in shown.items() if some]
            pytest.fail("\n".join([f"{goal}, {settled.summary()}", *lines]), pytrace=False)
        return settled.summary()

    return settle
