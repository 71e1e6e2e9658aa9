"""The loop of a run in rounds, with a carrier that loses, repeats and mixes up whatever it likes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_batch import rounds as in_rounds
from robin_batch.folder import Batches
from robin_batch.rounds import Rounds
from robin_batch.sending import Sender
from robin_cli.ask.asking import Interview
from robin_cli.ask.prompts import load_prompts
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.transport import Endpoint
from robin_cli.model.arms import WritableArms
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.two_priors import TwoPriors
from robin_cli.run.batches import Submission, read_batches
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.desk import RunDesk
from robin_cli.session.ledger import Ledger
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.round_sizes import first_depth
from robin_cli.session.stop import Stop

PAIRS = 4
RATE = load_prompts(["helpfulness"])
RUN_ID = "0123456789abcdef"


class Desk(RunDesk):
    """A run in memory, whose judgments outlive sessions."""

    def __init__(self, kept: list[Judgment], may_go_out: Callable[[], None]) -> None:
        self.kept = kept
        self.names = [""]
        self._may_go_out = may_go_out
        self.space = ArmSpace(
            [f"p{n}" for n in range(PAIRS)], ["helpfulness"], ["m"], [Scale(0, 4)]
        )
        self._reader = Interview(RATE, self.space, answers=["text"], notify=lambda _: None)

    def record_under_way(self, calls: int) -> None:
        """Nothing is on disk."""

    def judge_of(self, _arm: int) -> int:
        return 0

    def question(self, ticket: Ticket, *others: Ticket) -> Question:
        return Question(
            [{"role": "user", "content": f"pair {ticket.arm}"}],
            samples=ticket.calls,
            seed=ticket.draw,
        )

    def judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        return self._reader.judgments(ticket.arm, ticket.draw, outcome)

    def unread(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        return self._reader.unread(ticket.arm, ticket.draw, reply)

    def write(self, judgments: Sequence[Judgment]) -> None:
        self.kept += judgments

    def sync(self) -> None:
        self._may_go_out()

    def look(self, _arm: int, _judgments: Sequence[Judgment]) -> None:
        self._may_go_out()


class Power(Exception):
    """The machine goes out."""


def answer(line: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    said = f"Feedback: fine.\\nRating: {rng.integers(5)}".replace("\\n", "\n")
    choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
    body = {
        "id": "x",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5},
    }
    return {
        "custom_id": line["custom_id"],
        "response": {"status_code": 200, "body": body},
        "error": None,
    }


class Chaos(Sender):
    """Answers some lines, fails others, gives some twice or in other files, and sometimes the power goes."""

    def __init__(self, rng: np.random.Generator, *, chaos: float, power: float) -> None:
        super().__init__({}, RUN_ID, lambda _: None)
        self.most_requests = 7
        self._rng, self._chaos, self._power = rng, chaos, power
        self.given: Counter[str] = Counter()

    async def carry(self) -> None:
        rounds = self.rounds
        for submission in rounds.batches.open:
            if submission.state == "written" and self._rng.random() < self._chaos / 8:
                rounds.withdraw(submission)
                continue
            if submission.state == "written":
                file, _ = rounds.batches.answers(submission)
                lines = rounds.batches.requests(submission).read_bytes().splitlines()
                file.write_bytes(b"".join(self._lines([orjson.loads(line) for line in lines])))
                rounds.batches.set(submission.now("answered"))
            self.may_go_out()
            await rounds.take_in(rounds.batches.by_number[submission.number])
            self.may_go_out()

    def may_go_out(self) -> None:
        if self._rng.random() < self._power:
            raise Power

    def _lines(self, asked: list[dict[str, Any]]) -> list[bytes]:
        found = []
        for line in asked:
            fate = self._rng.random() / self._chaos if self._chaos else 1.0
            if fate < 0.2:
                continue
            if fate < 0.4:
                expired = {"code": "batch_expired", "message": "not executed"}
                found.append({"custom_id": line["custom_id"], "response": None, "error": expired})
                continue
            if fate < 0.5:
                found.append(
                    {
                        "custom_id": line["custom_id"],
                        "response": {"status_code": 0, "body": {}},
                        "error": None,
                    }
                )
                continue
            self.given[line["custom_id"]] += 1
            found.append(answer(line, self._rng))
            if fate < 0.7:
                found.append(found[-1])
        if self._rng.random() < self._chaos:
            found.append(answer({"custom_id": "of-another-1-2"}, self._rng))
        return [orjson.dumps(found[at]) + b"\n" for at in self._rng.permutation(len(found))]


class Written(Batches):
    """A run's batches, before each of which the power may go."""

    def __init__(self, run: Path, carrier: Chaos) -> None:
        super().__init__(run, RUN_ID, PAIRS)
        self._carrier = carrier

    def add(self, batch: Submission, tickets: Sequence[Ticket], lines: Iterable[bytes]) -> None:
        self._carrier.may_go_out()
        super().add(batch, tickets, lines)


def session(
    kept: list[Judgment], run: Path, carrier: Chaos, budget: int, number: int, samples: int
) -> Rounds:
    """A session of a run, as the one before left it."""
    desk, arms = Desk(kept, carrier.may_go_out), WritableArms(PAIRS)
    for judgment in kept:
        arm = desk.space.pair_ids.index(judgment.pair_id)
        if judgment.status == "failed":
            arms.add_failure(arm, permanent=False)
        elif judgment.rating is None:
            arms.add_unparsed(arm)
        else:
            arms.add_rating(arm, judgment.rating)
        arms.next_draw[arm] = max(arms.next_draw[arm], judgment.draw + 1)
    judged = {(desk.space.pair_ids.index(each.pair_id), each.draw) for each in kept}
    endpoint = Endpoint(model="m", base_url="http://localhost:1/v1", api_key="none")
    scheduler = Planner(
        arms,
        TwoPriors.from_setup(Setup(PAIRS, budget, Scale(0, 4))),
        budget=budget,
        round_depth=first_depth(budget, PAIRS, number),
    )
    money = MoneyBudget(None, first_alone=False)
    return Rounds(
        Ledger(desk, scheduler, money, Stop(), longest=samples),
        {"m": OpenAIJudge(endpoint, notify=lambda _: None)},
        Written(run, carrier),
        carrier,
        is_judged=lambda arm, draw: (arm, draw) in judged,
        calls=budget,
        least=1,
        rounds=number,
        notify=lambda _: None,
    )


@settings(max_examples=4)
@given(
    seed=st.integers(0, 2**32 - 1),
    budget=st.integers(PAIRS, 60),
    number=st.integers(1, 6),
    samples=st.integers(1, 3),
    chaos=st.sampled_from([0.0, 0.3, 0.8]),
    power=st.sampled_from([0.0, 0.05, 0.2]),
)
def test_spends_the_budget_exactly_whatever_is_lost_repeated_or_interrupted(
    seed: int, budget: int, number: int, samples: int, chaos: float, power: float
) -> None:
    rng = np.random.default_rng(seed)
    kept: list[Judgment] = []
    with TemporaryDirectory() as name:
        run = Path(name)
        carrier = Chaos(rng, chaos=chaos, power=power)
        while True:
            work = session(kept, run, carrier, budget, number, samples)
            try:
                asyncio.run(work.run())
                break
            except (Power, EndpointError):  # a whole round brought nothing
                carrier._chaos *= 0.9  # it gets better
                carrier._power *= 0.9
        counted = [each for each in kept if each.counts]
        draws = Counter((each.pair_id, each.draw) for each in kept)
        assert max(draws.values()) == 1
        assert len(counted) <= budget
        over = work.ledger.planner
        assert over.budget.reserved == 0
        assert len(counted) == over.budget.spent
        assert len(counted) == budget or all(over.arms.is_retired)
        if samples == 1:  # no answer was thrown away
            assert sum(carrier.given.values()) == len(counted)
        assert not any(each.is_open for each in read_batches(run).values())


def test_chooses_and_fits_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[threading.Thread] = []
    begin = Planner._begin_round

    def watched(self: Planner) -> None:
        begun.append(threading.current_thread())
        begin(self)

    monkeypatch.setattr(Planner, "_begin_round", watched)
    kept: list[Judgment] = []
    carrier = Chaos(np.random.default_rng(0), chaos=0.0, power=0.0)
    asyncio.run(session(kept, tmp_path, carrier, 40, 2, 1).run())
    assert len(kept) == 40
    assert len(begun) >= 2
    assert threading.main_thread() not in begun


def test_makes_a_file_no_longer_than_a_service_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_rounds, "MOST_BYTES", 700)
    kept: list[Judgment] = []
    carrier = Chaos(np.random.default_rng(0), chaos=0.0, power=0.0)
    carrier.most_requests = 50_000
    sizes: list[int] = []
    taken = Rounds.take_in

    async def watched(self: Rounds, submission: Submission) -> Submission:
        sizes.append(self.batches.requests(submission).stat().st_size)
        return await taken(self, submission)

    monkeypatch.setattr(Rounds, "take_in", watched)
    asyncio.run(session(kept, tmp_path, carrier, 40, 2, 1).run())
    assert len(kept) == 40
    assert len(sizes) > 8
    assert max(sizes) <= 700


@settings(max_examples=12)
@given(
    st.lists(
        st.builds(Ticket, st.integers(0, 4), st.integers(0, 1000), st.integers(1, 128)),
        min_size=1,
        max_size=50,
    )
)
def test_the_calls_of_a_batch_are_read_as_they_were_written(tickets: list[Ticket]) -> None:
    with TemporaryDirectory() as name:
        batch = Submission(1, "m", 1, len(tickets))
        Batches(Path(name), RUN_ID, 5).add(batch, tickets, [b"{}\n"] * len(tickets))
        again = Batches(Path(name), RUN_ID, 5)
        assert again.open == [batch]
        assert again.tickets(batch) == tickets
        draws = [
            max([draw + calls for arm, draw, calls in tickets if arm == each] or [0])
            for each in range(5)
        ]
        assert again.next_draws().tolist() == draws
