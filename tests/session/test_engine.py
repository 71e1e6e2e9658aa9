"""The loop of a run, with a judge that answers from memory."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.retrying import Retrying
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.errors import EndpointError, InputError, LimitReached, RunError, StorageError
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.outcome import outcome_of
from robin_cli.model.records import RETIRE_AFTER, Judgment, Usage
from robin_cli.policies.base import Columns, Policy
from robin_cli.policies.uniform import Uniform
from robin_cli.session import health
from robin_cli.session import stop as stopping
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.desk import RunDesk
from robin_cli.session.engine import Engine
from robin_cli.session.ledger import Ledger
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.stop import Stop
from tests.conftest import refuses
from tests.judges.virtual import run
from tests.run.test_store import judgment
from tests.session.played import work

Outcome = Reply | Failure
GOOD = Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)


class MemoryJudge(Judge):
    """Answers as ``respond`` says, after a tiny while; the question's seed is its arm."""

    most_samples = 128
    price = 0.0

    def __init__(self, respond: Callable[[int, int], Outcome], *, delay_s: float = 0.001) -> None:
        self._respond = respond
        self._delay_s = delay_s
        self._random = random.Random(1)
        self.asked: list[int] = []
        self.samples: list[int] = []
        self.under_way = 0
        self.most = 0

    def most_cost(self, question: Question) -> float:
        return self.price * question.samples

    async def ask(self, question: Question) -> Outcome:
        assert question.seed is not None
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self._random.random() * self._delay_s)
        finally:
            self.under_way -= 1
        self.asked.append(question.seed)
        self.samples.append(question.samples)
        return self._respond(question.seed, len(self.asked))


def limited(judge: Judge, at_a_time: int) -> Failover:
    """A judge that is asked so many questions at a time, and each once."""
    limiter = Limiter(at_a_time, ceiling=at_a_time, clock=lambda: 0.0)
    chain = Retrying(judge, limiter, Notices("m", lambda _: None))
    return Failover([chain])


class Desk(RunDesk):
    """An engine with all that it needs, and what it wrote."""

    def __init__(
        self, judge: MemoryJudge, *, arms: int = 5, budget: int = 200, concurrency: int = 8
    ) -> None:
        self.judge = judge
        self.judges: Sequence[MemoryJudge] = [judge]
        self.names = [""]
        self.arms = WritableArms(arms)
        self.planner = Planner(self.arms, Uniform(), budget=budget)
        self.budget = self.planner.budget
        self.money = MoneyBudget(None)
        self.samples = 1
        self.kept: list[Judgment] = []
        self._concurrency = concurrency
        self.stop: Stop | None = None

    def run(self, during: Callable[[Desk], None] | None = None) -> None:
        asyncio.run(asyncio.wait_for(self._run(during), 60))

    async def _run(self, during: Callable[[Desk], None] | None) -> None:
        self.stop = Stop()
        ledger = Ledger(self, self.planner, self.money, self.stop, longest=self.samples)
        working = Engine(ledger, [limited(judge, self._concurrency) for judge in self.judges])
        self.stats = ledger.stats
        if during is not None:
            asyncio.get_running_loop().call_later(0.05, during, self)
        await working.run()

    def record_under_way(self, calls: int) -> None:
        """Nothing is on disk."""

    def judge_of(self, arm: int) -> int:
        return 0

    def pair_of(self, arm: int) -> int:
        return arm

    def question(self, ticket: Ticket, *others: Ticket) -> Question:
        return Question([], ticket.calls, ticket.arm)

    def write(self, judgments: Sequence[Judgment]) -> None:
        self.kept.extend(judgments)

    def sync(self) -> None:
        """Written is written."""

    def look(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Nobody looks."""

    def unread(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        return [judgment(3 * ticket.draw, status="unparsed", pair=ticket.arm)]

    def judgments(self, ticket: Ticket, outcome: Outcome) -> list[Judgment]:
        arm, draw, _ = ticket
        if isinstance(outcome, Failure):
            return [judgment(3 * draw, status="failed", reason=outcome.reason, pair=arm)]
        return [
            replace(
                judgment(3 * (draw + number), status="ok" if answer.text else "unparsed", pair=arm),
                cost_usd=outcome.usage.cost_usd if number == 0 else 0.0,
            )
            for number, answer in enumerate(outcome.answers)
        ]


def good(arm: int, number: int) -> Outcome:
    return GOOD


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(("budget", "concurrency"), [(5, 1), (5, 512), (133, 1), (133, 64)])
def test_spends_exactly_the_budget_with_answers_of_every_kind(
    concurrency: int, budget: int, samples: int
) -> None:
    def any_kind(arm: int, number: int) -> Outcome:
        if number % 9 == 0:
            return Failure("http_500", "oops", 0.0)
        text, count = "" if number % 7 == 0 else "Rating: 3", min(judge.samples[-1], 1 + number % 4)
        return Reply((Answer(text),) * count, "m", Usage(), None, 0.0)

    judge = MemoryJudge(any_kind)
    desk = Desk(judge, budget=budget, concurrency=concurrency)
    desk.samples = samples
    desk.run()

    assert sum(each.counts for each in desk.kept) == budget == desk.budget.spent
    assert desk.budget.reserved == 0
    assert desk.judge.most <= concurrency
    assert max(judge.samples) <= samples
    assert sum(desk.arms.pending) == 0


def test_ends_when_no_arm_is_left_that_can_be_rated() -> None:
    desk = Desk(
        MemoryJudge(lambda arm, _: Failure("context_length", "too long", 0.0)), concurrency=1
    )
    desk.run()
    assert (desk.budget.spent, len(desk.kept)) == (0, 5)


def test_gives_one_bad_arm_a_few_calls_and_the_others_the_rest() -> None:
    desk = Desk(MemoryJudge(lambda arm, _: Failure("http_500", "oops", 0.0) if arm == 2 else GOOD))
    desk.run()
    assert desk.budget.spent == 200
    assert 1 <= sum(each.pair_id == "p2" for each in desk.kept) <= RETIRE_AFTER
    assert desk.arms.retired(2)
    assert not any(desk.arms.retired(arm) for arm in (0, 1, 3, 4))


def test_retires_nobody_in_an_outage_for_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONGEST_PAUSE_S", 0.002)

    def away(arm: int, number: int) -> Outcome:
        return Failure("connection", "away", 0.0) if 60 <= number < 160 else GOOD

    desk = Desk(MemoryJudge(away), arms=40)
    desk.run()
    assert desk.budget.spent == 200
    assert not desk.arms.columns.is_retired.any()


def test_stops_soon_when_nothing_was_ever_answered() -> None:
    desk = Desk(MemoryJudge(lambda *_: Failure("connection", "refused", 0.0)))
    refuses(EndpointError, "not answered a single call", desk.run)
    assert len(desk.judge.asked) <= 3 + 8


def test_keeps_what_came_before_an_error_that_ends_it() -> None:
    def expire(arm: int, number: int) -> Outcome:
        if number > 50:
            raise EndpointError("the key expired")
        return GOOD

    desk = Desk(MemoryJudge(expire))
    refuses(EndpointError, "expired", desk.run)
    assert len(desk.kept) == 50 == desk.budget.spent


def test_lets_calls_under_way_finish_when_asked_to_stop() -> None:
    def once(desk: Desk) -> None:
        assert desk.stop is not None
        desk.stop.request()

    desk = Desk(MemoryJudge(good, delay_s=0.03), budget=100_000)
    desk.run(once)
    assert 0 < len(desk.kept) == len(desk.judge.asked)
    assert desk.stats.dropped == 0


def test_drops_calls_under_way_when_asked_twice_and_keeps_what_was_answered() -> None:
    def twice(desk: Desk) -> None:
        assert desk.stop is not None
        desk.stop.request()
        desk.stop.request()

    desk = Desk(MemoryJudge(good, delay_s=5.0), budget=100_000)
    desk.run(twice)
    assert desk.stats.dropped > 0
    assert len(desk.kept) == len(desk.judge.asked)


def test_passes_on_that_answers_cannot_be_kept() -> None:
    class Full(Desk):
        def write(self, judgments: Sequence[Judgment]) -> None:
            if len(self.kept) > 20:
                raise StorageError("the disk is full")
            super().write(judgments)

    desk = Full(MemoryJudge(good))
    refuses(StorageError, "full", desk.run)
    assert desk.budget.spent == len(desk.kept)


def test_keeps_an_answer_also_if_the_next_call_of_its_visit_cannot_be_asked() -> None:
    class Strange(Desk):
        def question(self, ticket: Ticket, *others: Ticket) -> Question:
            if ticket.draw:
                raise RunError("no such pair")
            return super().question(ticket)

    judge = MemoryJudge(good)
    desk = Strange(judge, budget=40, concurrency=1)
    desk.samples = 4
    refuses(RunError, "no such pair", desk.run)
    assert len(desk.kept) == len(judge.asked) == 1


def several(count: int, cost_usd: float = 0.0) -> Outcome:
    """A reply with so many ratings."""
    return Reply((Answer("Rating: 3"),) * count, "m", Usage(cost_usd=cost_usd), None, 0.0)


def test_asks_for_no_more_ratings_than_an_arm_or_the_budget_has_room_for() -> None:
    judge = MemoryJudge(lambda arm, _: several(judge.samples[-1]))
    desk = Desk(judge, arms=4, budget=4 * 11, concurrency=1)
    desk.samples = 8
    desk.run()
    assert list(desk.arms.n) == [11] * 4
    # not more before it is known that the arm can be rated
    assert judge.samples[:4] == [RETIRE_AFTER] * 4
    assert sorted(judge.samples[4:]) == [6] * 4


@pytest.mark.parametrize("concurrency", [1, 8])
def test_asks_the_rest_of_a_visit_right_after_its_first_call_where_a_request_brings_one_rating(
    concurrency: int,
) -> None:
    class Single(MemoryJudge):
        """Ignores that several were asked for, and shows it with its first answer."""

        def __init__(self) -> None:
            super().__init__(lambda *_: GOOD)
            self.answered: Counter[int] = Counter()
            self.begun: list[tuple[int, int]] = []

        async def ask(self, question: Question) -> Outcome:
            assert question.seed is not None
            self.begun.append((question.seed, self.answered[question.seed]))
            reply = await super().ask(question)
            self.answered[question.seed] += 1
            self.most_samples = 1
            return reply

    judge = Single()
    desk = Desk(judge, arms=40, budget=40 * 5, concurrency=concurrency)
    desk.samples = 16
    desk.run()
    assert list(desk.arms.n) == [5] * 40
    first = {arm: place for place, (arm, _) in reversed(list(enumerate(judge.begun)))}
    second = {
        arm: min(
            place for place, (which, before) in enumerate(judge.begun) if which == arm and before
        )
        for arm in range(40)
    }
    # until its first call is answered, an arm's prompt is sent once
    assert sum(before == 0 for _, before in judge.begun) == 40
    # and few other prompts are sent before it is sent again
    assert max(second[arm] - first[arm] for arm in range(40)) <= 5 * concurrency


def test_withdraws_the_rest_of_a_visit_whose_first_call_fails_or_for_which_there_is_no_money() -> (
    None
):
    judge = MemoryJudge(lambda arm, _: Failure("filtered", "no") if arm == 1 else GOOD)
    judge.most_samples = 1
    desk = Desk(judge, budget=50)
    desk.samples = 16
    desk.run()
    assert judge.asked.count(1) == 1
    assert desk.budget.spent == 50
    assert not desk.arms.pending[1]
    dear = MemoryJudge(lambda *_: several(1, cost_usd=1.0))
    dear.most_samples, dear.price = 1, 1.0
    desk = Desk(dear, budget=50)
    desk.samples, desk.money = 16, MoneyBudget(7.0)
    with pytest.raises(LimitReached):
        desk.run()
    assert len(dear.asked) == 7
    assert not any(desk.arms.pending)


def test_takes_what_an_endpoint_gives_at_most() -> None:
    judge = MemoryJudge(lambda arm, _: several(judge.samples[-1]))
    judge.most_samples = 2
    desk = Desk(judge, budget=40)
    desk.samples = 4
    desk.run()
    assert set(judge.samples) <= {1, 2}
    assert desk.budget.spent == 40


@pytest.mark.parametrize("concurrency", [1, 64])
@pytest.mark.parametrize("samples", [1, 3])
def test_never_spends_more_than_the_money_there_is(concurrency: int, samples: int) -> None:
    random_cost = random.Random(4)
    judge = MemoryJudge(
        lambda arm, _: several(
            judge.samples[-1], cost_usd=judge.samples[-1] * random_cost.uniform(0.1, 1.0)
        )
    )
    judge.price = 1.0  # the most that a rating costs; mostly it is less
    desk = Desk(judge, budget=10_000, concurrency=concurrency)
    desk.samples = samples
    desk.money = MoneyBudget(50.0, spent=7.5)

    refuses(LimitReached, "--max-cost", desk.run)

    spent = 7.5 + sum(each.cost_usd or 0.0 for each in desk.kept)
    assert 50.0 - samples < spent <= 50.0
    assert desk.money.spent == pytest.approx(spent)
    assert desk.money.reserved == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("price", [0.01, 0.0])
def test_stops_in_time_where_an_endpoint_charges_more_than_its_price(price: float) -> None:
    judge = MemoryJudge(lambda arm, _: several(1, cost_usd=0.5), delay_s=1.0)
    judge.price = price
    desk = Desk(judge, budget=10_000, concurrency=64)
    desk.money = MoneyBudget(3.0)

    refuses(LimitReached, "--max-cost", desk.run)

    assert desk.money.spent == 3.0


def test_gives_the_calls_back_whose_question_cannot_be_made() -> None:
    class Untold(Desk):
        def question(self, ticket: Ticket, *others: Ticket) -> Question:
            if ticket.draw == 3:
                raise ValueError("no such field")
            return super().question(ticket)

    desk = Untold(MemoryJudge(good))
    refuses(ValueError, "no such field", desk.run)
    assert desk.budget.reserved == 0 == sum(desk.arms.pending)
    assert desk.budget.spent == len(desk.kept) == len(desk.judge.asked)


def test_leaks_no_permit_and_no_call_when_asked_to_stop_while_it_waits_for_one() -> None:
    async def scene() -> tuple[int, int, int]:
        desk = Desk(MemoryJudge(good, delay_s=5.0), budget=100_000)
        judge = limited(desk.judge, 3)
        desk.stop = Stop()
        ledger = Ledger(desk, desk.planner, desk.money, desk.stop)
        working = asyncio.create_task(Engine(ledger, [judge]).run())
        await asyncio.sleep(1.0)  # three calls are under way, and the next waits for its permit
        assert judge.under_way == 3
        desk.stop.request()
        desk.stop.request()
        await working
        return judge.under_way, desk.budget.reserved, sum(desk.arms.pending)

    assert run(scene()) == (0, 0, 0)


def test_asks_nothing_when_not_even_one_call_can_be_paid() -> None:
    judge = MemoryJudge(good)
    judge.price = 2.0
    desk = Desk(judge)
    desk.money = MoneyBudget(1.0)
    with pytest.raises(LimitReached):
        desk.run()
    assert not judge.asked


def test_keeps_a_reply_that_it_cannot_read_and_says_why() -> None:
    class Unreadable(Desk):
        def judgments(self, ticket: Ticket, outcome: Outcome) -> list[Judgment]:
            raise ZeroDivisionError("a number of its tokens")

    desk = Unreadable(MemoryJudge(good), concurrency=1)
    with pytest.raises(ZeroDivisionError):
        desk.run()
    assert [each.status for each in desk.kept] == ["unparsed"]
    assert (desk.budget.spent, desk.budget.reserved) == (1, 0)


@pytest.mark.parametrize("answers_at_last", [True, False])
def test_ends_although_a_judge_cannot_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, *, answers_at_last: bool
) -> None:
    class Unwilling(MemoryJudge):
        async def ask(self, question: Question) -> Outcome:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    if answers_at_last:
                        return GOOD

    def stop(desk: Desk) -> None:
        assert desk.stop is not None
        desk.stop.request()
        desk.stop.request()

    monkeypatch.setattr(stopping, "UNWILLING_S", 0.01)
    desk = Desk(Unwilling(good))
    desk.run(stop)
    assert len(desk.kept) == desk.budget.spent == (desk.stats.dropped if answers_at_last else 0)
    assert desk.stats.dropped == 8


def test_gives_back_what_it_reserved_where_a_judge_cannot_say_how_much_it_takes() -> None:
    class Unsure(MemoryJudge):
        @property
        def most_samples(self) -> int:  # type: ignore[override]
            raise EndpointError("its most_samples failed")

    desk = Desk(Unsure(good))
    with pytest.raises(EndpointError):
        desk.run()
    assert desk.budget.reserved == 0


@dataclass(frozen=True)
class Learning(Policy):
    """Asks by what the last fit made of all ratings; ``during`` is done in each, and ``threads`` is where."""

    during: Callable[[], None]
    threads: list[int]
    weight: FloatArray
    warm_up: int = 1

    @property
    def fits_long(self) -> bool:
        return True

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:
        self.threads.append(threading.get_ident())
        self.during()
        return replace(self, weight=1.0 + (7.0 * total + 3.0 * n + np.arange(len(n))) % 5.0)

    def priority(self, arms: Columns) -> FloatArray:
        return self.weight[arms.arm] / arms.made


def learning(during: Callable[[], None] = lambda: None) -> Learning:
    return Learning(during, [], np.ones(5))


def test_fits_beside_the_event_loop_and_asks_one_at_a_time_as_if_it_waited() -> None:
    desk, policy = Desk(MemoryJudge(good), concurrency=1), learning()
    desk.planner = Planner(desk.arms, policy, budget=200)
    desk.run()

    at_once = Desk(MemoryJudge(good))
    planner = Planner(at_once.arms, learning(), budget=200)
    planner.block = 1
    asked = [
        ticket.arm
        for ticket in work(planner, lambda each: outcome_of(at_once.judgments(each, GOOD)))
    ]
    assert desk.judge.asked == asked
    assert len(policy.threads) > 20
    assert threading.get_ident() not in policy.threads


def test_goes_on_asking_while_it_fits() -> None:
    answered, is_ahead = [0], threading.Event()

    def respond(arm: int, number: int) -> Outcome:
        answered[0] = number
        if number == 60:
            is_ahead.set()
        return GOOD

    waited = []
    desk = Desk(MemoryJudge(respond), budget=100)
    policy = learning(lambda: waited.append((answered[0], is_ahead.wait(20.0))))
    desk.planner = Planner(desk.arms, policy, budget=100)
    desk.run()
    first, came = waited[0]
    assert (first < 60, came) == (True, True)
    assert int(desk.arms.columns.n.sum()) == 100


def test_ends_by_what_goes_wrong_in_a_fit_and_keeps_what_came() -> None:
    def fail() -> None:
        raise InputError("no")

    desk = Desk(MemoryJudge(good))
    desk.planner = Planner(desk.arms, learning(fail), budget=200)
    refuses(InputError, "no", desk.run)
    assert 5 <= len(desk.kept) < 200
