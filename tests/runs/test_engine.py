"""The loop of a run, with a judge that answers from memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.budget import Budget
from robin_cli.allocation.policies import Uniform
from robin_cli.allocation.scheduler import HeapScheduler
from robin_cli.errors import EndpointError, StorageError
from robin_cli.judging.judge import Answer, Failure, Question, Reply
from robin_cli.judging.pacing import Pacer
from robin_cli.records import RETIRE_AFTER, Judgment, Usage
from robin_cli.runs.engine import Engine, Stop
from tests.runs.test_store import judgment

Outcome = Reply | Failure
GOOD = Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)


class MemoryJudge:
    """Answers as ``respond`` says, after a tiny while; the question's seed is its arm."""

    def __init__(self, respond: Callable[[int, int], Outcome], *, delay_s: float = 0.001) -> None:
        self._respond = respond
        self._delay_s = delay_s
        self._random = random.Random(1)
        self.asked: list[int] = []
        self.under_way = 0
        self.most = 0

    async def ask(self, question: Question) -> Outcome:
        assert question.seed is not None
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self._random.random() * self._delay_s)
        finally:
            self.under_way -= 1
        self.asked.append(question.seed)
        return self._respond(question.seed, len(self.asked))

    async def aclose(self) -> None:
        """Nothing to close."""


class Desk:
    """An engine with all that it needs, and what it wrote."""

    def __init__(self, judge: MemoryJudge, *, arms: int = 5, budget: int = 200, concurrency: int = 8) -> None:
        self.judge = judge
        self.arms = Arms(arms)
        self.budget = Budget(budget)
        self.kept: list[Judgment] = []
        self._concurrency = concurrency
        self.stop: Stop | None = None
        self.write: Callable[[Sequence[Judgment]], None] = self.kept.extend

    def run(self, during: Callable[[Desk], None] | None = None) -> None:
        asyncio.run(self._run(during))

    async def _run(self, during: Callable[[Desk], None] | None) -> None:
        self.stop = Stop()
        engine = Engine(
            arms=self.arms,
            scheduler=HeapScheduler(self.arms, Uniform()),
            budget=self.budget,
            judge=self.judge,
            pacer=Pacer(self._concurrency, ceiling=self._concurrency, clock=lambda: 0.0),
            question=lambda arm, draw, samples: Question([], samples, arm),
            read=self._read,
            write=self._write,
            stop=self.stop,
        )
        self.stats = engine.stats
        if during is not None:
            asyncio.get_running_loop().call_later(0.05, during, self)
        await engine.run()

    def _write(self, judgments: Sequence[Judgment]) -> None:
        self.write(judgments)

    @staticmethod
    def _read(arm: int, draw: int, outcome: Outcome) -> list[Judgment]:
        if isinstance(outcome, Failure):
            return [judgment(3 * draw, status="failed", reason=outcome.reason, pair=arm)]
        if outcome.answers[0].text:
            return [judgment(3 * draw, pair=arm)]
        return [judgment(3 * draw, status="unparsed", pair=arm)]


def good(arm: int, number: int) -> Outcome:
    return GOOD


@pytest.mark.parametrize("concurrency", [1, 7, 64, 512])
@pytest.mark.parametrize("budget", [5, 333])
def test_spends_exactly_the_budget_with_answers_of_every_kind(concurrency: int, budget: int) -> None:
    def any_kind(arm: int, number: int) -> Outcome:
        if number % 9 == 0:
            return Failure("http_500", "oops", 0.0)
        return Reply((Answer("" if number % 7 == 0 else "Rating: 3"),), "m", Usage(), None, 0.0)

    desk = Desk(MemoryJudge(any_kind), budget=budget, concurrency=concurrency)
    desk.run()

    assert sum(each.counts for each in desk.kept) == budget == desk.budget.spent
    assert desk.budget.reserved == 0
    assert desk.judge.most <= concurrency
    assert sum(desk.arms.pending) == 0


def test_ends_when_no_arm_is_left_that_can_be_rated() -> None:
    desk = Desk(MemoryJudge(lambda arm, _: Failure("context_length", "too long", 0.0)), concurrency=1)
    desk.run()
    assert (desk.budget.spent, len(desk.kept)) == (0, 5)


def test_gives_one_bad_arm_a_few_calls_and_the_others_the_rest() -> None:
    desk = Desk(MemoryJudge(lambda arm, _: Failure("http_500", "oops", 0.0) if arm == 2 else GOOD))
    desk.run()
    assert desk.budget.spent == 200
    assert 1 <= sum(each.pair_id == "p2" for each in desk.kept) <= RETIRE_AFTER
    assert desk.arms.retired(2)
    assert not any(desk.arms.retired(arm) for arm in (0, 1, 3, 4))


def test_retires_nobody_in_an_outage_for_everyone() -> None:
    def away(arm: int, number: int) -> Outcome:
        return Failure("connection", "away", 0.0) if 60 <= number < 160 else GOOD

    desk = Desk(MemoryJudge(away), arms=40)
    desk.run()
    assert desk.budget.spent == 200
    assert not desk.arms.retired_mask.any()


def test_stops_soon_when_nothing_was_ever_answered() -> None:
    desk = Desk(MemoryJudge(lambda *_: Failure("connection", "refused", 0.0)))
    with pytest.raises(EndpointError, match="not answered a single call"):
        desk.run()
    assert len(desk.judge.asked) <= 3 + 8


def test_keeps_what_came_before_an_error_that_ends_it() -> None:
    def expire(arm: int, number: int) -> Outcome:
        if number > 50:
            raise EndpointError("the key expired")
        return GOOD

    desk = Desk(MemoryJudge(expire))
    with pytest.raises(EndpointError, match="expired"):
        desk.run()
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
    desk = Desk(MemoryJudge(good))

    def full(judgments: Sequence[Judgment]) -> None:
        if len(desk.kept) > 20:
            raise StorageError("the disk is full")
        desk.kept.extend(judgments)

    desk.write = full
    with pytest.raises(StorageError, match="full"):
        desk.run()
    assert desk.budget.spent == len(desk.kept)
