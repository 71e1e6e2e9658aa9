"""A planner at work: which calls it plans where a function answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from robin_cli.goals.stopping import StoppingRule
from robin_cli.goals.watch import Watch
from robin_cli.model.arms import FloatArray, IntArray, Sums, WritableArms
from robin_cli.model.outcome import Outcome
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy
from robin_cli.session.planner import Planner, Ticket
from robin_cli.simulate.runs import DrawnRatings, simulate
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.repeats import Repeats

SCALE = Scale(0, 4)


class Watching(Watch):
    """Watches for a planner alone."""

    def __init__(
        self,
        verdicts: RunVerdicts | None = None,
        *,
        stop: StoppingRule | None = None,
        repeats: Repeats | None = None,
        decides: bool = False,
    ) -> None:
        self.verdicts, self.stop, self.repeats = verdicts, stop, repeats
        self.decides = decides


def work(
    planner: Planner,
    answer: Callable[[Ticket], Outcome],
    *,
    at_once: int = 1,
    luck: np.random.Generator | None = None,
    samples: int = 1,
) -> Iterator[Ticket]:
    """Yield each ticket as it is planned, until the run is over; ``at_once`` are under way, answered in turn or by ``luck``."""
    under_way: list[Ticket] = []
    while True:
        while len(under_way) < at_once and (planned := planner.plan(samples)):
            under_way.append(planned)
            yield planned
        if not under_way:
            assert planner.is_over
            return
        told = under_way.pop(0 if luck is None else int(luck.integers(len(under_way))))
        planner.tell(told, answer(told))


def plans(planner: Planner, count: int) -> list[Ticket]:
    """The tickets of up to ``count`` single calls, none of them answered."""
    return list(islice(iter(planner.plan, None), count))


def by_turns(ratings: Sequence[Sequence[float]]) -> Callable[[Ticket], Outcome]:
    """Answer an arm's k-th call with ratings[arm][k], around and around."""
    return lambda ticket: [
        float(ratings[ticket.arm][(ticket.draw + each) % len(ratings[ticket.arm])])
        for each in range(ticket.calls)
    ]


def simulated(
    ratings: DrawnRatings, policy: Policy, budget: int, runs: int, **how: Any
) -> list[list[tuple[int, float]]]:
    """The arm and the rating of each call of ``runs`` simulated runs, each on a set of the ratings."""
    rows: list[IntArray] = []
    drawn: list[FloatArray] = []

    class Heard(DrawnRatings):
        def draw(self, pairs: IntArray, rng: np.random.Generator) -> FloatArray:
            rows.append(pairs)
            drawn.append(DrawnRatings.draw(self, pairs, rng))
            return drawn[-1]

    heard = Heard(ratings.values, ratings.sizes, ratings.units)
    simulate(heard, policy, [budget], runs, np.random.default_rng(3), worlds=runs, **how)
    run, arm = np.divmod(np.concatenate(rows), len(ratings.sizes) // runs)
    rating = np.concatenate(drawn)
    return [
        list(zip(arm[run == each].tolist(), rating[run == each].tolist(), strict=True))
        for each in range(runs)
    ]


def asked_by(planner: Planner, ratings: Iterable[float], samples: int = 1) -> list[int]:
    """The arm of each call that a planner plans, answered by one of ``ratings`` after the other."""
    coming = iter(ratings)
    tickets = work(planner, lambda each: list(islice(coming, each.calls)), samples=samples)
    return [ticket.arm for ticket in tickets for _ in range(ticket.calls)]


def play(
    policy: Policy, ratings: Sequence[Sequence[float]], calls: int, arms: WritableArms | None = None
) -> list[int]:
    """The arms asked, one call after another; the draws of ``arms`` that are there go on."""
    planner = Planner(WritableArms(len(ratings)) if arms is None else arms, policy)
    planner.block = 1
    return [ticket.arm for ticket in islice(work(planner, by_turns(ratings)), calls)]


def sums(of_each: Sequence[Sequence[float]]) -> Sums:
    """n, Σx and Σx² of each arm with these ratings."""
    return rated(*of_each).columns.sums


def rated(*of_each: Sequence[float]) -> WritableArms:
    """Arms with these ratings."""
    arms = WritableArms(len(of_each))
    for arm, ratings in enumerate(of_each):
        arms.add(arm, ratings)
        arms.next_draw[arm] = len(ratings)
    return arms


def next_of(planner: Planner, *, arm: int | None = None, calls: int = 1) -> Ticket:
    """The next ticket, which is to be of this arm."""
    ticket = planner.plan(calls)
    assert ticket is not None
    assert (ticket.arm, ticket.calls) == (ticket.arm if arm is None else arm, calls)
    return ticket
