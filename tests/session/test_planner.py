"""Which arm is asked next, and how the books are kept."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.goals.stopping import reached
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.space import ArmSpace, Coordinates
from robin_cli.policies.base import Columns, Policy, Setup, rounded
from robin_cli.policies.milestones import fits_from
from robin_cli.policies.registry import make_policy
from robin_cli.policies.robin import Robin
from robin_cli.policies.robin_hood import RobinHood
from robin_cli.policies.systems import Systems, systems_of
from robin_cli.policies.uniform import Uniform
from robin_cli.session import planner as planner_module
from robin_cli.session.asking import block_of
from robin_cli.session.planner import Planner, Ticket
from robin_cli.simulate.runs import DrawnRatings, simulate
from tests.session.played import SCALE, Watching, by_turns, next_of, plans, play, rated, work

some_ratings = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=30), min_size=1, max_size=8
)


def three(_: Ticket) -> list[float]:
    return [3.0]


def beside(pairs: int, judges: int) -> Coordinates:
    """Which judge each arm is asked of."""
    return ArmSpace(["p"] * pairs, ["a"], ["j"] * judges, [SCALE]).judge


def by_two(pairs: int, judges: int) -> Systems:
    """Two systems that answered a prompt after the other."""
    names = [[str(number) for number in range(each)] for each in (pairs, judges, -(-pairs // 2))]
    prompt, system = np.divmod(np.arange(pairs), 2)
    return systems_of(
        ArmSpace(names[0], ["a"], names[1], [SCALE]), system, ["one", "other"], prompt, names[2], 1
    )


# ── the paper's choices ───────────────────────────────────────────────────────────────────────────────────────────────


def scanned(
    ratings: Sequence[Sequence[int]],
    calls: int,
    warm_up: int,
    worth: Callable[[int, list[int]], float],
) -> list[int]:
    """The paper's algorithms as it writes them: whole rounds, then an argmax over all arms for every call."""
    seen: list[list[int]] = [[] for _ in ratings]
    asked = []
    for call in range(calls):
        arm = call % len(ratings)
        if call >= warm_up * len(ratings):  # arms that never vary: the one with the fewest calls
            values = [worth(each, mine) + 1e-300 / len(mine) for each, mine in enumerate(seen)]
            arm = int(rounded(np.array(values)).argmax())
        seen[arm].append(ratings[arm][len(seen[arm]) % len(ratings[arm])])
        asked.append(arm)
    return asked


def worth_to_robin_hood(delta: float) -> Callable[[int, list[int]], float]:
    """What a call is worth by the paper's formula, in whole numbers as far as possible."""

    def worth(_: int, seen: list[int]) -> float:
        n, total, squares = len(seen), sum(seen), sum(x * x for x in seen)
        width = 1 - math.sqrt(4 * math.log(1 / delta) / n)
        return (n * squares - total * total) / (n * n) / width / n

    return worth


@given(some_ratings, st.sampled_from([0.007, 0.07, 0.3]))
def test_makes_the_choices_of_the_papers_robin_hood(ratings: list[list[int]], delta: float) -> None:
    policy = RobinHood.from_setup(Setup(len(ratings), 1000, SCALE, delta=delta))

    calls = policy.warm_up * len(ratings) + 150
    assert play(policy, ratings, calls) == scanned(
        ratings, calls, math.floor(4 * math.log(1 / delta)) + 1, worth_to_robin_hood(delta)
    )


@given(some_ratings, st.integers(1, 200), st.data())
def test_makes_the_choices_of_the_papers_robin_and_of_an_even_spread(
    ratings: list[list[int]], calls: int, data: st.DataObject
) -> None:
    variances = data.draw(st.lists(st.floats(0, 4), min_size=len(ratings), max_size=len(ratings)))
    by_variance = scanned(ratings, calls, 1, lambda arm, seen: variances[arm] / len(seen))
    assert play(Robin(np.array(variances)), ratings, calls) == by_variance
    assert play(Uniform(), ratings, calls) == [call % len(ratings) for call in range(calls)]


def test_makes_the_choices_of_the_papers_robin_hood_among_64_pairs() -> None:
    rng = np.random.default_rng(6)
    ratings = rng.integers(0, rng.integers(1, 6, 64)[:, None], (64, 40)).tolist()

    policy = RobinHood.from_setup(Setup(64, 3_000, SCALE, delta=0.007))
    planner = Planner(WritableArms(64), policy, budget=3_000)
    asked = [ticket.arm for ticket in work(planner, by_turns(ratings))]
    assert asked == scanned(ratings, 3_000, 20, worth_to_robin_hood(0.007))


def test_spreads_what_is_left_when_nothing_varies() -> None:
    asked = play(RobinHood.from_setup(Setup(4, 200, SCALE)), [[1], [2], [3], [4]], 200)
    assert np.bincount(asked).tolist() == [50, 50, 50, 50]


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_chooses_a_sixty_fourth_of_the_arms_at_once_the_most_urgent_and_each_once() -> None:
    assert [block_of(arms) for arms in (1, 64, 65, 1_000, 10_000_000)] == [1, 1, 2, 16, 156_250]
    variances = np.random.default_rng(1).random(640)
    planner = Planner(WritableArms(640), Robin(variances))
    for ticket in plans(planner, 640):
        planner.tell(ticket, [3.0])
    assert [each.arm for each in plans(planner, 10)] == np.argsort(-variances)[:10].tolist()
    assert next_of(planner).arm == np.argsort(-variances)[10], (
        "those of the first block are under way"
    )


def test_has_the_error_of_one_by_one_in_blocks() -> None:
    # all shared pools, at three budgets: benchmarks/blocks.py
    rng = np.random.default_rng(3)
    spread = rng.integers(0, 3, 640)
    ratings = DrawnRatings.from_ratings(
        [rng.integers(2 - each, 3 + each, 40) for each in spread.tolist()]
    )
    policy = make_policy("two-priors", Setup(640, 8 * 640, SCALE))
    (one,), (blocks,) = (
        simulate(ratings, policy, [8 * 640], 40, np.random.default_rng(4), block=each)
        for each in (1, None)
    )
    assert blocks.wce.mean() == pytest.approx(one.wce.mean(), rel=0.05)
    assert blocks.mean_error.mean() == pytest.approx(one.mean_error.mean(), rel=0.01)


def test_passes_over_an_arm_of_a_block_that_was_given_up_or_failed_meanwhile() -> None:
    planner = Planner(WritableArms(256), Uniform())  # blocks of four
    first = plans(planner, 2)
    planner.tell(first[0], Unanswered.TRANSIENT)
    for arm in (2, 3):
        planner.tell(next_of(planner), Unanswered.PERMANENT if arm == 2 else [3.0])
    assert [each.arm for each in plans(planner, 4)] == [0, 4, 5, 6], (
        "0 failed, and others were rated since"
    )
    assert planner.arms.is_retired[2]


def test_chooses_and_fits_elsewhere_where_there_are_many_arms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner_module, "FEW_ARMS", 0)
    planner = Planner(WritableArms(6), make_policy("two-priors", Setup(6, 200, SCALE)), budget=200)
    begun: list[Callable[[], None]] = []
    planner.elsewhere = lambda work, then: begun.append(lambda: then(work()))
    rng, under_way, works = np.random.default_rng(0), list[Ticket](), 0
    while not planner.is_over:
        if (planned := planner.plan()) is not None:
            under_way.append(planned)
        if begun and (rng.random() < 0.3 or not under_way):
            begun.pop(0)()
            works += 1
        elif len(under_way) > 4 or (under_way and not begun):
            told = under_way.pop(int(rng.integers(len(under_way))))
            planner.tell(
                told, Unanswered.WITHDRAWN if rng.random() < 0.1 else [float(rng.integers(0, 5))]
            )
    assert works > 200
    assert planner.budget.spent == 200
    assert planner.arms.n.min() > 15


# ── calls under way ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_counts_calls_under_way() -> None:
    planner = Planner(rated([0, 4] * 20, [1, 3] * 20), RobinHood.from_setup(Setup(2, 1000, SCALE)))
    asked = [each.arm for each in plans(planner, 21)]
    assert asked == [0] * 10 + [1] * 10  # a quarter of its ratings each, the more urgent arm first
    assert not planner.is_over


def test_keeps_the_budget_for_arms_whose_warm_up_answers_are_still_to_come() -> None:
    # 12 alike arms, everything asked at once: nobody may take much more than a share of what is left after the warm-up
    rng, arms = np.random.default_rng(2), WritableArms(12)
    planner = Planner(arms, RobinHood.from_setup(Setup(12, 500, SCALE)), budget=500)
    list(work(planner, lambda _: [float(rng.choice([1, 2, 2, 3]))], at_once=256, luck=rng))
    assert arms.columns.n.max() < 2.5 * 500 / 12


@pytest.mark.parametrize("policy", [Uniform(), RobinHood(c=19.85, warm_up=20)])
def test_spreads_evenly_what_the_warm_up_does_not_suffice_for(policy: Policy) -> None:
    # everything asked at once, answers in any order: the first arm to be answered must not run away
    for seed in range(8):
        arms = WritableArms(3)
        list(
            work(
                Planner(arms, policy, budget=30),
                three,
                at_once=99,
                luck=np.random.default_rng(seed),
            )
        )
        assert arms.columns.n.tolist() == [10, 10, 10]


def by_the_clock(
    planner: Planner, took: Callable[[Ticket], float], places: int, rng: np.random.Generator
) -> None:
    """Spend the budget, each call taking its time, and as many as ``places`` under way."""
    now, under_way = 0.0, list[tuple[float, Ticket]]()
    while not planner.budget.exhausted:
        while len(under_way) < places and (planned := planner.plan()):
            heapq.heappush(under_way, (now + took(planned), planned))
        now, told = heapq.heappop(under_way)
        planner.tell(told, [float(rng.integers(0, 5))])


@pytest.mark.parametrize("mode", ["theory", "practice"])
def test_keeps_the_whole_warm_up_for_an_arm_whose_answers_are_slow(mode: str) -> None:
    # as many calls as the warm-ups take, and arm 0 takes ten times as long to answer
    arms, budget = WritableArms(10), 2650 if mode == "theory" else 200
    policy = RobinHood.from_setup(Setup(10, budget, SCALE, mode=mode))
    slow: Callable[[Ticket], float] = lambda ticket: 10.0 if ticket.arm == 0 else 1.0  # noqa: E731
    by_the_clock(Planner(arms, policy, budget=budget), slow, 64, np.random.default_rng(0))
    assert arms.columns.n.min() >= policy.warm_up


@pytest.mark.parametrize("name", ["two-priors", "robin-hood", "uniform"])
def test_keeps_an_even_share_for_arms_whose_first_answers_are_slow(name: str) -> None:
    # three first calls take as long as three hundred others
    arms = WritableArms(120)
    planner = Planner(arms, make_policy(name, Setup(120, 300, SCALE)), budget=300)
    slow: Callable[[Ticket], float] = lambda ticket: (  # noqa: E731
        300.0 if ticket.arm < 3 and not ticket.draw else 1.0
    )
    by_the_clock(planner, slow, 32, np.random.default_rng(0))
    assert arms.columns.spent == 300
    assert arms.columns.n.min() >= 1
    assert arms.columns.n[:3].min() >= 2 or name != "uniform"
    assert arms.columns.n[:3].sum() >= 3 * 2  # two and a half each is an even share


def test_waits_for_a_warm_up_that_is_all_under_way() -> None:
    planner = Planner(rated([0, 4] * 8), RobinHood(c=19.85, warm_up=20))
    assert [each.arm for each in plans(planner, 5)] == [0] * 4


def test_gives_an_arm_that_nobody_can_rate_a_few_calls_only() -> None:
    planner = Planner(WritableArms(2), Uniform())
    tickets = plans(planner, 50)
    assert [each.arm for each in tickets] == [0, 1] * RETIRE_AFTER  # nothing is known yet of either
    for each in tickets:
        planner.tell(each, [None if each.arm == 0 else 3.0])
    assert {each.arm for each in plans(planner, 20)} == {1}


def test_spreads_the_share_of_an_arm_given_up_over_the_others() -> None:
    arms = WritableArms(3)
    list(work(Planner(arms, Uniform(), budget=30), lambda each: [None if each.arm == 0 else 3.0]))
    assert arms.columns.n.tolist() == [0, 13, 12]


@pytest.mark.parametrize(
    ("policy", "arms", "bad", "answer", "places"),
    [
        (Uniform(), 2, {0}, [None], 64),
        (
            RobinHood.from_setup(Setup(20, 800, SCALE)),
            20,
            set(range(0, 20, 4)),
            Unanswered.TRANSIENT,
            8,
        ),
    ],
)
def test_goes_on_at_full_breadth_after_arms_were_given_up(
    policy: Policy, arms: int, bad: set[int], answer: list[None] | Unanswered, places: int
) -> None:
    planner = Planner(WritableArms(arms), policy, budget=800)
    most = 0
    for ticket in work(
        planner, lambda each: answer if each.arm in bad else [float(each.draw % 5)], at_once=places
    ):
        assert ticket
        most = max(most, planner.budget.reserved) if planner.budget.available < 200 else 0
    assert planner.budget.spent == 800
    assert most == places


@pytest.mark.parametrize("failure", [Unanswered.TRANSIENT, Unanswered.UNREACHED])
def test_leaves_a_failed_arm_alone_until_another_is_rated_or_there_is_no_other(
    failure: Unanswered,
) -> None:
    planner = Planner(WritableArms(2), Uniform())
    tickets = [next_of(planner, arm=arm) for arm in (0, 1, 0, 1)]
    planner.tell(tickets[0], failure)
    planner.tell(tickets[2], Unanswered.WITHDRAWN)
    planner.tell(tickets[1], [None])
    planner.tell(next_of(planner, arm=1), [3.0])
    next_of(planner, arm=0)
    alone = Planner(WritableArms(1), Uniform())
    alone.tell(next_of(alone, arm=0), failure)
    next_of(alone, arm=0)


# ── visits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("a_pair", [0.4, 1, 1.3, 2, 3.7, 7])
def test_visits_spread_a_warm_up_as_evenly_as_single_calls(a_pair: float) -> None:
    budget = round(60 * a_pair)
    for policy in (Uniform(), RobinHood.from_setup(Setup(60, budget, SCALE))):
        for longest, at_once in ((16, 1), (16, 9), (3, 200)):
            arms = WritableArms(60)
            planner = Planner(arms, policy, budget=budget, first_visit=2)
            answered = work(
                planner, lambda each: [2.0] * each.calls, at_once=at_once, samples=longest
            )
            assert max(each.calls for each in answered) <= longest
            assert arms.columns.spent == budget
            assert arms.columns.n.max() - arms.columns.n.min() <= 1


def test_asks_an_arm_for_a_quarter_of_its_ratings_at_a_time_and_first_for_two() -> None:
    arms, rng = WritableArms(100), np.random.default_rng(0)
    policy = make_policy("two-priors", Setup(100, 2000, SCALE))
    planner = Planner(arms, policy, budget=2000, first_visit=2)
    visits = list(
        work(planner, lambda each: rng.integers(0, 5, each.calls).tolist(), at_once=8, samples=16)
    )
    assert arms.columns.spent == 2000
    assert {ticket.calls for ticket in visits[:100]} == {2}
    assert all(each.calls in (-(-each.draw // 4), 2 - each.draw) for each in visits[:-1])
    assert len(visits) <= 2000 / 2


def test_many_calls_together_among_few_arms_go_where_they_are_worth_most() -> None:
    def noisy_calls(longest: int) -> float:
        arms, rng, order = WritableArms(40), np.random.default_rng(0), np.random.default_rng(1)
        policy = make_policy("two-priors", Setup(40, 800, SCALE))
        planner = Planner(arms, policy, budget=800, first_visit=min(2, longest))

        def answer(ticket: Ticket) -> list[float]:
            levels = [0.0, 4.0] if ticket.arm < 10 else [2.0]
            return [float(rng.choice(levels)) for _ in range(ticket.calls)]

        list(work(planner, answer, at_once=32, luck=order, samples=longest))
        return float(arms.columns.n[:10].mean())

    assert noisy_calls(16) > 0.9 * noisy_calls(1) > 30


def test_an_even_spread_gives_an_arm_its_share_in_few_visits() -> None:
    arms = WritableArms(10)
    planner = Planner(arms, Uniform(), budget=240)
    visits = [each.calls for each in work(planner, lambda each: [2.0] * each.calls, samples=16)]
    # the first is short, as an arm may be one that nobody can rate
    assert visits == [RETIRE_AFTER] * 10 + [16] * 10 + [3] * 10


def test_numbers_the_draws_of_an_arm_without_gap_when_calls_are_not_made() -> None:
    arms = WritableArms(1)
    planner = Planner(arms, Uniform(), budget=20)
    whole = next_of(planner, arm=0, calls=5)
    planner.tell(Ticket(0, 2, 3), Unanswered.WITHDRAWN)
    first = Ticket(0, whole.draw, 2)
    assert (arms.pending[0], planner.budget.available) == (2, 18)
    second = next_of(planner, arm=0)
    assert second.draw == 2
    planner.tell(second, Unanswered.WITHDRAWN)
    planner.tell(first, [1.0, None])
    assert (arms.n[0], arms.n_unparsed[0], arms.columns.spent) == (1, 1, 2)
    third = next_of(planner, arm=0)
    assert third.draw == 2
    with pytest.raises(ValueError, match="arm 0 has 1 calls under way, not 2"):
        planner.tell(Ticket(0, 2, 2), [1.0, 2.0])
    planner.tell(third, [1.0])
    with pytest.raises(ValueError, match="under way"):
        planner.tell(third, [1.0])


def test_counts_calls_that_were_planned_before_as_under_way() -> None:
    arms = WritableArms(2)
    planner = Planner(arms, Uniform(), budget=6)
    planner.take_up([Ticket(0, 0, 3)], np.array([0, 7]))
    assert [(each.arm, each.draw) for each in plans(planner, 9)] == [(1, 7), (1, 8), (1, 9)]
    with pytest.raises(ValueError, match="cannot reserve"):
        planner.take_up([Ticket(0, 9, 1)])


# ── several judges ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "pairs", "budget"),
    [("uniform", 100, 3_000), ("robin-hood", 12, 600), ("two-priors", 100, 3_000)],
)
def test_a_quick_judge_does_not_take_what_belongs_to_a_slow_one(
    kind: str, pairs: int, budget: int
) -> None:
    rng, judge, arms = np.random.default_rng(3), beside(pairs, 2), WritableArms(2 * pairs)
    policy = make_policy(kind, Setup(2 * pairs, budget, SCALE))
    planner = Planner(arms, policy, budget=budget, judge=judge)
    by_the_clock(planner, lambda ticket: rng.random() * (30 if judge[ticket.arm] else 1), 16, rng)

    calls = np.bincount(judge, weights=arms.columns.n)
    assert calls.sum() == budget
    # both judges' arms vary alike: half of the calls each, give or take
    assert calls[1] > 0.85 * calls[0]


def test_judges_take_turns_and_wait_for_one_whose_arms_all_wait_for_answers() -> None:
    policy = Robin(np.array([9.0, 1.0, 9.0, 1.0]))  # the first judge's ratings vary most
    planner = Planner(rated(*[[2.0] * 8] * 4), policy, judge=beside(2, 2))
    first = plans(planner, 20)
    assert [ticket.arm % 2 for ticket in first] == [0, 1] * 4  # a quarter of each arm's ratings
    for ticket in first:
        if ticket.arm % 2:
            planner.tell(ticket, [2.0])
    ahead = plans(planner, 20)
    assert {ticket.arm % 2 for ticket in ahead} == {1}
    assert len(ahead) == 4, "the other judge has 20 calls, and answers to come"


def test_calls_taken_up_belong_to_their_judges_turns() -> None:
    planner = Planner(WritableArms(8), Uniform(), budget=40, judge=beside(4, 2), round_depth=5)
    before = [Ticket(arm, 0, 4) for arm in (0, 2)]  # of the first judge
    planner.take_up(before)
    assert {ticket.arm % 2 for ticket in plans(planner, 8)} == {1}
    for ticket in before:
        planner.tell(ticket, [2.0] * 4)
    assert planner._calls == [8, 8]
    assert planner._pending == [0, 8]


def test_a_judge_without_an_arm_to_ask_does_not_have_each_call_chosen_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = Planner(WritableArms(1280), Uniform(), judge=beside(640, 2))
    for arm in range(0, 1280, 2):
        planner._arms.add_unparsed(arm, final=True)
    blocks, choose = [0], planner._block

    def counted(*of_block: Any) -> Any:
        blocks[0] += 1
        return choose(*of_block)

    monkeypatch.setattr(planner, "_block", counted)
    for _ in range(300):
        planner.tell(next_of(planner), [2.0])
    assert blocks[0] <= 300 / 10 + 2


def test_a_judge_that_is_away_gets_its_turn_again_before_the_other_runs_ahead() -> None:
    arms = rated(*[[1.0, 3.0] * 10] * 4)
    planner = Planner(arms, make_policy("two-priors", Setup(4, 1000, SCALE)), judge=beside(2, 2))
    for _ in range(50):
        ticket = next_of(planner)
        planner.tell(ticket, [2.0] if ticket.arm % 2 else Unanswered.UNREACHED)
    first, second = arms.columns.n[::2].sum(), arms.columns.n[1::2].sum()
    assert (first, second <= 1.25 * first + 1) == (40, True)


# ── the end, and what a policy may do ─────────────────────────────────────────────────────────────────────────────────


def test_stops_a_run_by_a_rule_of_its_own() -> None:
    planner = Planner(
        WritableArms(2),
        Robin(np.ones(2)),
        budget=50,
        watch=Watching(stop=lambda at: at.budget.spent >= 7),
    )
    assert len(list(work(planner, three))) == 7


def test_asks_nothing_and_is_not_over_while_calls_under_way_may_undo_what_is_reached() -> None:
    stop = reached(lambda each: sum(each.total) == 6.0)
    planner = Planner(WritableArms(4), Robin(np.ones(4)), budget=50, watch=Watching(stop=stop))
    first, second, third, fourth = plans(planner, 4)
    planner.tell(first, [3.0])
    planner.tell(second, [3.0])
    for told, outcome in ((third, Unanswered.TRANSIENT), (fourth, [1.0])):
        assert not planner.plan()
        assert not planner.is_over
        planner.tell(told, outcome)
    planner.tell(next_of(planner), [-1.0])  # 7 is not 6: it goes on
    assert not planner.plan()
    assert planner.is_over


class Learning(Robin):
    """Known variances; keeps how many ratings there were whenever it was fitted."""

    __slots__ = ("seen",)
    seen: list[int]

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:
        self.seen.append(int(n.sum()))
        return self


@pytest.mark.parametrize("before", [0, 23])
def test_fits_a_policy_whenever_the_ratings_have_grown_by_a_tenth(before: int) -> None:
    arms = rated(*([2.0] * len(range(arm, before, 4)) for arm in range(4)))
    policy = Learning(np.ones(4))
    object.__setattr__(policy, "seen", [])
    numbers = itertools.count()
    planner = Planner(arms, policy)
    list(
        itertools.islice(work(planner, lambda _: [None] if next(numbers) % 7 == 3 else [1.0]), 151)
    )
    points = {
        fits_from(4).until(rated) for rated in range(before + 1, int(arms.columns.n.sum()) + 1)
    }
    assert policy.seen == sorted(points - {0, fits_from(4).until(before)})


class Odd(Policy):
    """Knows no priority, or an endless one, of an arm with two ratings."""

    warm_up = 1

    def __init__(self, odd: float) -> None:
        self.odd = odd

    def priority(self, arms: Columns) -> FloatArray:
        return np.where(arms.n == 2, self.odd, 1.0 / arms.made)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_names_the_policy_that_gives_an_arm_no_finite_priority(odd: float) -> None:
    arms = WritableArms(3)
    said = f"Odd gives arm 0 the priority {odd}, which is not a finite number"
    with pytest.raises(InputError, match=said):
        play(Odd(odd), [[0]] * 3, 20, arms)
    assert arms.columns.spent == 4  # what was told before counts
    with pytest.raises(InputError, match=said):
        Planner(arms, Odd(odd)).plan()


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 60),
    st.integers(1, 6),
    st.integers(1, 16),
    st.integers(0, 999),
)
def test_asks_arms_along_within_the_budget_and_never_the_same_call_twice(
    pairs: int, attributes: int, budget: int, at_once: int, longest: int, seed: int
) -> None:
    luck = np.random.default_rng(seed)
    arms = WritableArms(pairs * attributes)
    policy = RobinHood.from_setup(Setup(len(arms), max(budget, len(arms)), SCALE))
    planner = Planner(arms, policy, budget=budget)
    under_way: list[list[Ticket]] = []
    asked: list[tuple[int, int]] = []
    while True:
        while len(under_way) < at_once and (planned := planner.plan(longest)):
            first = planned.arm - planned.arm % attributes
            tickets = planner.along(planned, range(first, first + attributes))
            assert planned in tickets
            assert max(each.calls for each in tickets) == planned.calls
            assert [each.arm for each in tickets] == sorted({each.arm for each in tickets})
            under_way.append(tickets)
            assert planner.budget.spent + planner.budget.reserved <= budget
        if not under_way:
            break
        tickets = under_way.pop(int(luck.integers(len(under_way))))
        is_lost = luck.random() < 0.1
        for ticket in tickets:
            if is_lost:
                planner.tell(ticket, Unanswered.UNREACHED)
            else:
                asked += [(ticket.arm, ticket.draw + call) for call in range(ticket.calls)]
                planner.tell(
                    ticket,
                    [float(luck.integers(5)) if luck.random() < 0.8 else None] * ticket.calls,
                )
    assert planner.is_over
    assert len(asked) == len(set(asked)) == planner.budget.spent <= budget
    assert planner.budget.spent == budget or planner.arms.is_retired.all()
    assert (planner.budget.reserved, int(planner.arms.pending.sum())) == (0, 0)
