"""A run with several judges, one of which is slow, away, or not to be had."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from robin_cli.model.errors import EndpointError, LimitReached
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import Scale, Usage
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.session import health
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.planner import Planner
from tests.conftest import refuses
from tests.session.test_engine import Desk, MemoryJudge, Outcome

PAIRS = 8


class Room(Desk):
    """An engine over several judges, and what it kept."""

    def __init__(
        self,
        judges: Sequence[MemoryJudge],
        *,
        budget: int = 400,
        samples: int = 1,
        concurrency: int = 8,
    ) -> None:
        super().__init__(
            judges[0], arms=PAIRS * len(judges), budget=budget, concurrency=concurrency
        )
        self.judges, self.samples = judges, samples
        self.names = names = [f"judge {number}" for number in range(len(judges))]
        space = ArmSpace([f"p{number}" for number in range(PAIRS)], ["a"], names, [Scale(0, 4)])
        policy = make_policy("two-priors", Setup(len(self.arms), budget, Scale(0, 4)))
        self.planner = Planner(self.arms, policy, budget=budget, judge=space.judge)
        self.budget = self.planner.budget

    def judge_of(self, arm: int) -> int:
        return arm % len(self.judges)

    def calls(self) -> list[int]:
        """Ratings that each judge gave."""
        found = Counter(
            int(each.pair_id[1:]) % len(self.judges) for each in self.kept if each.counts
        )
        return [found[number] for number in range(len(self.judges))]


def reply(samples: int = 1) -> Reply:
    return Reply((Answer("Rating: 3"),) * samples, "m", Usage(), None, 0.0)


def good(_arm: int, _number: int) -> Outcome:
    return reply()


def test_a_slow_judge_gets_its_share_and_the_budget_is_spent_exactly() -> None:
    room = Room([MemoryJudge(good, delay_s=0.001), MemoryJudge(good, delay_s=0.03)])
    room.run()

    quick, slow = room.calls()
    assert quick + slow == room.budget.spent == 400
    assert slow > 0.75 * quick, "a quick judge may be a quarter of its calls ahead"
    assert room.judges[0].most <= 8
    assert room.judges[1].most <= 8
    assert sum(room.arms.pending) == 0 == room.budget.reserved


def test_waits_for_a_judge_that_is_away_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.002)

    def away(_arm: int, number: int) -> Outcome:
        return Failure("connection", "away", 0.0) if 20 <= number < 120 else reply()

    room = Room([MemoryJudge(good), MemoryJudge(away)])
    room.run()

    first, second = room.calls()
    assert first + second == 400
    assert second > 0.8 * first  # the other did not spend its share meanwhile
    assert not room.arms.columns.is_retired.any()
    assert (
        room.arms.columns.n_failed.sum() <= 8
    )  # a first failure after an answer may be the arm's own fault
    assert room.stats.failed["connection"] >= 90


@pytest.mark.parametrize("others", [0, 1])
def test_asks_a_judge_that_is_away_now_and_then(
    monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.05)
    back: list[float] = []

    def away(_arm: int, number: int) -> Outcome:
        if number < 20:
            return reply()
        back[:] = back or [time.monotonic() + 0.5]
        return Failure("http_500", "oops", 0.0) if time.monotonic() < back[0] else reply()

    room = Room([MemoryJudge(away), *[MemoryJudge(good)] * others])
    room.run()

    assert room.budget.spent == 400
    assert room.stats.failed["http_500"] < 8 * 0.5 / 0.05 * 2  # eight at a time


@pytest.mark.parametrize("concurrency", [1, 8])
def test_gives_up_pairs_that_one_judge_fails_and_rates_others(
    monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.001)
    bad = {3, 7}  # of judge 1

    def some(arm: int, _number: int) -> Outcome:
        return Failure("http_500", "oops", 0.0) if arm in bad else reply()

    room = Room([MemoryJudge(some), MemoryJudge(some)], concurrency=concurrency)
    room.run()

    assert room.budget.spent == 400
    assert set(np.flatnonzero(room.arms.columns.is_retired).tolist()) == bad
    others = np.delete(room.arms.columns.n, sorted(bad))
    assert others.min() > 0.5 * others.max()


def test_says_which_judge_never_answers_and_keeps_what_the_other_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.001)
    room = Room(
        [MemoryJudge(good), MemoryJudge(lambda *_: Failure("connection", "nobody there", 0.0))]
    )
    refuses(
        EndpointError,
        r"judge 1: the endpoint has not answered a single call .*nobody there",
        room.run,
    )

    assert room.calls()[0] == room.budget.spent
    assert room.budget.reserved == 0


def test_stops_when_asked_to_while_calls_wait_for_their_judge() -> None:
    room = Room([MemoryJudge(good), MemoryJudge(good, delay_s=0.2)])
    room.run(lambda _: room.stop.request() if room.stop else None)

    assert 0 < room.budget.spent < 400
    assert sum(each.counts for each in room.kept) == room.budget.spent
    assert sum(room.arms.pending) == 0 == room.budget.reserved


def test_asks_for_no_more_ratings_a_request_than_the_judge_gives() -> None:
    class Single(MemoryJudge):
        most_samples = 1

    class Several(MemoryJudge):
        async def ask(self, question: Question) -> Outcome:
            await super().ask(question)
            return reply(question.samples)

    room = Room([Several(good), Single(good)], samples=3, budget=300)
    room.run()

    assert set(room.judges[1].samples) == {1}
    assert max(room.judges[0].samples) == 3
    assert sum(room.calls()) == 300


def test_stops_for_money_at_the_price_of_the_judge_that_is_next() -> None:
    class Dear(MemoryJudge):
        price = 10.0

    room = Room([MemoryJudge(good), Dear(good)])
    room.money = MoneyBudget(5.0)
    with pytest.raises(LimitReached):
        room.run()
    assert room.calls()[1] == 0
    assert sum(room.arms.pending) == 0 == room.budget.reserved
