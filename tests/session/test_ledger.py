"""The promise of the ledger: what is spent and reserved is within the limits, and nothing counts before it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import WritableArms
from robin_cli.model.exchange import Answer, Question, Reply
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import Judgment, Usage
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.ledger import Call, Ledger
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.stop import Stop
from tests.session.played import SCALE
from tests.session.test_engine import Desk, MemoryJudge, good

PRICE = 0.01
ARMS = 6


class Disk(Desk):
    """A desk that knows how much was synced, and a ledger over it."""

    def __init__(self, calls: int, usd: float, before: WritableArms | None = None) -> None:
        super().__init__(MemoryJudge(good), arms=ARMS, budget=calls)
        self.judge.price = PRICE
        self.synced = 0
        if before is not None:
            self.arms = before
        policy = make_policy("two-priors", Setup(ARMS, calls, SCALE))
        self.planner = Planner(self.arms, policy, budget=calls)
        self.ledger = Ledger(self, self.planner, MoneyBudget(usd), Stop(), longest=4)
        self.ledger.judges = [self.judge]

    def sync(self) -> None:
        self.synced = len(self.kept)

    def look(self, arm: int, judgments: Sequence[Judgment]) -> None:
        assert self.planner.budget.spent <= self.synced

    async def answer(self, call: Call) -> None:
        """Record the answers of a call: as many as were asked for, at the price."""
        rating = 1.0 + (3 * call.ticket.arm + call.ticket.draw) % 4
        count, cost = call.ticket.calls, Usage(cost_usd=PRICE * call.ticket.calls)
        reply = Reply((Answer(f"Rating: {rating:g}"),) * count, "m", cost, None, 0.0)
        self.ledger.append([(call, self.ledger.judgments(call, reply))])
        await self.ledger.written()

    def question(self, ticket: Ticket, *others: Ticket) -> Question:
        return Question([], ticket.calls, ticket.arm)


steps = st.lists(
    st.sampled_from(["ask", "ask", "answer", "withdraw", "unreached", "lose"]), max_size=80
)


@given(calls=st.integers(1, 60), usd=st.floats(PRICE, 0.8), steps=steps)
def test_never_reserves_or_spends_more_than_the_limits(
    calls: int, usd: float, steps: list[str]
) -> None:
    async def play() -> None:
        disk, under_way = Disk(calls, usd), list[Call]()
        ledger, lost = disk.ledger, 0.0
        for step in steps:
            if step == "ask":
                call = ledger.choose(ledger.longest)
                if isinstance(call, Call):
                    ledger.begin()
                    under_way.append(call)
            elif under_way:
                call = under_way.pop(len(under_way) // 2)
                ledger.asked -= 1
                if step == "answer":
                    await disk.answer(call)
                elif step == "lose":
                    lost += call.money
                    ledger.lose(call)
                else:
                    ledger.withdraw(call, Unanswered(step.replace("withdraw", "withdrawn")))
            reserved = sum(call.ticket.calls for call in under_way)
            assert disk.planner.budget.reserved == reserved == sum(disk.arms.pending)
            assert disk.planner.budget.spent + reserved <= calls
            money = sum(call.money for call in under_way)
            assert ledger.money.spent + money + lost <= usd + 1e-9
            assert disk.planner.budget.spent == disk.synced == len(disk.kept)
        await ledger.close()

    asyncio.run(play())


def test_a_cut_answer_that_is_asked_for_again_counts_as_spent_money() -> None:
    async def play() -> None:
        disk = Disk(10, 1.0)
        call = disk.ledger.choose(1)
        assert isinstance(call, Call)
        cut = Judgment("p", "a", "m", 0, "failed", "m", 0.0, 0.0, reason="truncated", cost_usd=0.75)
        disk.ledger.append([(call, [cut])])
        await disk.ledger.written()
        assert disk.ledger.money.spent == 0.75
        assert disk.ledger.money.reserved == disk.planner.budget.spent == 0
        await disk.ledger.close()

    asyncio.run(play())


@given(calls=st.integers(ARMS, 60), stop_at=st.integers(0, 60))
def test_a_resumed_run_asks_what_one_that_never_stopped_asks(calls: int, stop_at: int) -> None:
    async def play(disk: Disk, most: int) -> list[tuple[int, int]]:
        asked: list[tuple[int, int]] = []
        while len(asked) < most and isinstance(call := disk.ledger.choose(1), Call):
            asked.append((call.ticket.arm, call.ticket.draw))
            await disk.answer(call)
        await disk.ledger.close()
        return asked

    async def both() -> None:
        whole = await play(Disk(calls, 99.0), calls)
        first = Disk(calls, 99.0)
        begun = await play(first, stop_at)
        again = Disk(calls, 99.0, first.arms)
        if first.planner._policy is not again.planner._policy:
            again.planner._policy = first.planner._policy  # the fold repeats the last fit
        assert begun + await play(again, calls) == whole

    asyncio.run(both())
