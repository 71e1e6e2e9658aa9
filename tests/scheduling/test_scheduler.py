"""Which arm is asked next."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from robin_cli.model.arms import WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.refits import last_refit, next_refit
from robin_cli.model.space import ArmSpace, Coordinates
from robin_cli.model.systems import Systems, systems_of
from robin_cli.policies.base import Arm, Number, Policy, Setup
from robin_cli.policies.own.robin import Robin
from robin_cli.policies.own.robin_hood import RobinHood, practice_constant, smallest_theory_budget, theory_warm_up
from robin_cli.policies.own.uniform import Uniform
from robin_cli.policies.registry import make_policy
from robin_cli.scheduling.scheduler import HeapScheduler, Idle, Ticket

SCALE = Scale(0, 4)


def arm_of(asked: Ticket | Idle) -> int | Idle:
    return asked.arm if isinstance(asked, Ticket) else asked


def play(policy: Policy, ratings: list[list[int]], calls: int, arms: WritableArms | None = None) -> list[int]:
    """The arms asked, one call after another; arm i's k-th answer is ratings[i][k], around and around."""
    arms = WritableArms(len(ratings)) if arms is None else arms
    scheduler = HeapScheduler(arms, policy)
    asked = []
    for _ in range(calls):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        arm = ticket.arm
        asked.append(arm)
        scheduler.tell(ticket, (ratings[arm][arms.n[arm] % len(ratings[arm])],))
    return asked


def paper(ratings: list[list[int]], calls: int, c: float) -> list[int]:
    """Algorithm 2 as the paper writes it: an argmax over all arms for every call."""
    seen: list[list[int]] = [[] for _ in ratings]
    warm_up = math.floor(c) + 1
    asked = []
    for call in range(calls):
        if call < warm_up * len(ratings):
            arm = call % len(ratings)
        else:
            bounds = []
            for each in seen:
                n, total, squares = len(each), sum(each), sum(x * x for x in each)
                bound = (n * squares - total * total) / (n * n) / (1 - math.sqrt(c / n))
                bounds.append(bound / n + 1e-300 / n)  # never-varying arms: the one with the fewest calls
            arm = int(np.argmax(bounds))
        seen[arm].append(ratings[arm][len(seen[arm]) % len(ratings[arm])])
        asked.append(arm)
    return asked


def next_ticket(scheduler: HeapScheduler, *, arm: int, calls: int = 1) -> Ticket:
    ticket = scheduler.ask(calls)
    assert isinstance(ticket, Ticket)
    assert (ticket.arm, ticket.calls) == (arm, calls)
    return ticket


def beside(pairs: int, judges: int) -> Coordinates:
    """Which judge each arm is asked of."""
    return ArmSpace(["p"] * pairs, ["a"], ["j"] * judges, [SCALE]).judge


def by_two(pairs: int, judges: int) -> Systems:
    """Two systems that answered a prompt after the other."""
    space = ArmSpace(
        [str(number) for number in range(pairs)], ["a"], [str(number) for number in range(judges)], [SCALE]
    )
    prompt, system = np.divmod(np.arange(pairs), 2)
    return systems_of(space, system, ["one", "other"], prompt, [str(number) for number in range(-(-pairs // 2))], 1)


def assert_places_each_arm_as_all(scheduler: HeapScheduler) -> None:
    together = list(scheduler._queue.key)
    for arm in range(len(together)):
        scheduler._place(arm)
    assert list(scheduler._queue.key) == together


FAILURES = pytest.mark.parametrize("failure", [Unanswered.TRANSIENT, Unanswered.UNREACHED])
some_ratings = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=30), min_size=1, max_size=8)


@given(some_ratings, st.sampled_from([0.007, 0.07, 0.3]))
@settings(max_examples=40, deadline=None)
def test_makes_the_choices_of_the_papers_algorithm(ratings: list[list[int]], delta: float) -> None:
    policy = RobinHood.of(Setup(len(ratings), 1000, SCALE, delta=delta))
    calls = policy.warm_up * len(ratings) + 150

    assert play(policy, ratings, calls) == paper(ratings, calls, practice_constant(delta))


def test_warms_up_for_20_whole_rounds_at_the_papers_delta() -> None:
    asked = play(RobinHood.of(Setup(3, 100, SCALE)), [[0, 4], [2], [3]], 61)
    assert asked[:60] == [0, 1, 2] * 20
    assert asked[60] == 0


@given(some_ratings, st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_goes_round_robin_when_uniform(ratings: list[list[int]], calls: int) -> None:
    assert play(Uniform(), ratings, calls) == [call % len(ratings) for call in range(calls)]


@given(st.lists(st.floats(0, 4), min_size=1, max_size=40), st.integers(1, 600))
@settings(max_examples=60, deadline=None)
def test_gives_every_arm_its_share_with_known_variances(variances: list[float], extra: int) -> None:
    # what holds of the paper's allocation lemma: λ_i (B − K) ≤ n_i ≤ ⌈λ_i B⌉, where the upper end spares the first call
    known = np.array(variances)
    budget = len(variances) + extra
    asked = play(Robin(known), [[0]] * len(variances), budget)
    n = np.bincount(asked, minlength=len(variances))
    if known.sum() > 1e-200:
        share = known / known.sum()
        assert np.all(n >= share * (budget - len(variances)) - 1e-6)
        assert np.all(n <= np.maximum(1, np.ceil(share * budget + 1e-6)))
    assert n.min() >= 1


@given(some_ratings, st.integers(0, 200))
@settings(max_examples=40, deadline=None)
def test_gives_every_arm_a_third_of_its_share_while_the_bounds_hold(ratings: list[list[int]], extra: int) -> None:
    policy = RobinHood.of(Setup(len(ratings), 1000, SCALE, delta=0.3))
    budget = policy.warm_up * len(ratings) + extra
    arms = WritableArms(len(ratings))
    scheduler = HeapScheduler(arms, policy)
    true = np.array([np.var(each) for each in ratings])
    holds = np.ones(len(ratings), dtype=bool)
    for _ in range(budget):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        arm = ticket.arm
        scheduler.tell(ticket, (ratings[arm][arms.n[arm] % len(ratings[arm])],))
        n = arms.n[arm]
        if n >= policy.warm_up:
            bound = policy.priority(float(n), 0.0, arms.total[arm], arms.total_sq[arm], arm) * n
            holds[arm] &= true[arm] - 1e-9 <= bound <= 3 * true[arm] + 1e-9
    if holds.all() and true.sum() > 0:
        assert np.all(arms.counts >= true / true.sum() * (budget - len(ratings) * policy.warm_up) / 3 - 1e-6)


@pytest.mark.parametrize("name", ["robin-hood", "dirichlet", "two-priors", "uniform", "paired"])
def test_computes_the_same_key_for_one_arm_as_for_all_at_once(name: str) -> None:
    # bit for bit: or else a run that goes on after an interruption could break ties in another way
    rng = np.random.default_rng(5)
    arms = WritableArms(500)
    for arm in range(500):
        for rating in rng.integers(0, 5, rng.integers(0, 40)):
            arms.add_rating(arm, int(rating))
        arms.pending[arm] = int(rng.integers(0, 3))
    setup = Setup(500, 50_000, SCALE)
    if name == "paired":
        setup = replace(setup, objective="compare", systems=by_two(500, 1))
    policy = make_policy(name, setup)
    if policy.refits:
        policy = policy.fitted(arms.counts.astype(float), arms.totals, arms.totals_sq)
    scheduler = HeapScheduler(arms, policy)
    assert_places_each_arm_as_all(scheduler)


def test_starves_no_pair() -> None:
    for name in ("dirichlet", "two-priors"):
        for objective in ("worst-case", "mean-error"):
            policy = make_policy(name, Setup(3, 1000, SCALE, objective=objective))
            n = np.bincount(play(policy, [[0, 4], [2], [3, 3, 3, 3, 4]], 600))
            assert n.min() >= 20, (name, objective)
            assert n[0] == n.max(), (name, objective)


def test_fits_a_pooled_policy_at_the_same_numbers_after_an_interruption() -> None:
    points = [rated for rated in range(1, 400) if last_refit(rated, 10) == rated]
    assert points[0] == 10
    assert all(next_refit(before, 10) == after for before, after in itertools.pairwise(points))


def test_spreads_what_is_left_when_nothing_varies() -> None:
    asked = play(RobinHood.of(Setup(4, 200, SCALE)), [[1], [2], [3], [4]], 200)
    assert np.bincount(asked).tolist() == [50, 50, 50, 50]


def test_counts_calls_under_way() -> None:
    arms = WritableArms(2)
    for rating in (0, 4) * 20:
        arms.add_rating(0, rating)
    for rating in (1, 3) * 20:
        arms.add_rating(1, rating)
    scheduler = HeapScheduler(arms, RobinHood.of(Setup(2, 1000, SCALE)))
    asked = [arm_of(scheduler.ask()) for _ in range(21)]
    assert asked == [0] * 10 + [1] * 10 + [Idle.WAIT]  # a quarter of its ratings each, the more urgent arm first


def test_keeps_the_budget_for_arms_whose_warm_up_answers_are_still_to_come() -> None:
    # 12 alike arms, everything asked at once: nobody may take much more than a share of what is left after the warm-up
    rng = np.random.default_rng(2)
    arms = WritableArms(12)
    scheduler = HeapScheduler(arms, RobinHood.of(Setup(12, 500, SCALE)))
    under_way: list[Ticket] = []
    for _ in range(500):
        while len(under_way) < 256 and isinstance(ticket := scheduler.ask(), Ticket):
            under_way.append(ticket)
        scheduler.tell(under_way.pop(int(rng.integers(len(under_way)))), (float(rng.choice([1, 2, 2, 3])),))
    assert arms.counts.max() < 2.5 * 500 / 12


@pytest.mark.parametrize("policy", [Uniform(), RobinHood(c=19.85, warm_up=20)])
def test_spreads_evenly_what_the_warm_up_does_not_suffice_for(policy: Policy) -> None:
    # everything asked at once, answers in any order: the first arm to be answered must not run away
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arms = WritableArms(3)
        scheduler = HeapScheduler(arms, policy, budget=30)
        under_way: list[Ticket] = []
        while not scheduler.budget.exhausted:
            while isinstance(ticket := scheduler.ask(), Ticket):
                under_way.append(ticket)
            scheduler.tell(under_way.pop(int(rng.integers(len(under_way)))), (3.0,))
        assert arms.counts.tolist() == [10, 10, 10]


def totals(
    policy: Policy, count: int, budget: int, judges: int, seed: int, given_up: int, *, closely: bool
) -> list[int]:
    """Ratings of each arm after ``budget`` calls that are answered in any order, up to 200 at a time."""
    rng = np.random.default_rng(seed)
    arms, judge = WritableArms(count * judges), beside(count, judges)
    scheduler = HeapScheduler(arms, policy, budget=budget, judge=judge, closely=closely)
    under_way: list[Ticket] = []
    while not scheduler.budget.exhausted:
        while len(under_way) < 200 and isinstance(ticket := scheduler.ask(), Ticket):
            under_way.append(ticket)
        if not under_way:
            break
        ticket = under_way.pop(int(rng.integers(len(under_way))))
        scheduler.tell(ticket, (None if ticket.arm < given_up else 3.0,))
    return [int(n) for n in arms.counts]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(0, 2500), st.integers(1, 2), st.integers(0, 99), st.booleans())
@example(129, 1420, 1, 0, False)  # the last window has one arm, and one call is left over
@example(129, 1420, 1, 1, False)
def test_gives_every_arm_as_many_calls_whether_they_follow_closely_or_not(
    count: int, budget: int, judges: int, seed: int, endless: bool
) -> None:
    policy: Policy = Uniform() if endless else RobinHood(c=19.85, warm_up=-(-budget // (count * judges)) + 1)
    closely, evenly = (totals(policy, count, budget, judges, seed, 0, closely=each) for each in (True, False))
    assert closely == evenly


def test_spreads_what_is_left_evenly_where_calls_follow_closely() -> None:
    for given_up in (1, 130, 299):
        counts = totals(Uniform(), 300, 3000, 1, 5, given_up, closely=True)[given_up:]
        assert max(counts) - min(counts) <= 1, given_up
        assert sum(counts) > 3000 - 6 * given_up, given_up


@pytest.mark.parametrize("resumed", [False, True])
def test_shares_out_evenly_what_is_readable_where_calls_follow_closely(*, resumed: bool) -> None:
    rolls, arms = np.random.default_rng(3), WritableArms(512)
    scheduler = HeapScheduler(arms, Uniform(), budget=5120, closely=True)
    while isinstance(ticket := scheduler.ask(), Ticket):
        scheduler.tell(ticket, [None if rolls.random() < 0.05 else 3.0])
        if resumed and scheduler.budget.spent == 2000:
            scheduler = HeapScheduler(arms, Uniform(), budget=5120, closely=True)
    assert scheduler.budget.spent == 5120
    assert min(arms.counts) >= 9


def test_has_the_calls_of_an_arm_follow_each_other_closely_after_the_first_of_each() -> None:
    arms = WritableArms(1000)
    scheduler = HeapScheduler(arms, Uniform(), budget=10_500, closely=True)
    order: list[int] = []
    while isinstance(ticket := scheduler.ask(), Ticket):
        order.append(ticket.arm)
        scheduler.tell(ticket, (float(ticket.draw % 5),))
    assert order[:1000] == list(range(1000)), "each arm has its first rating as early as may be"
    places = np.array([np.flatnonzero(np.array(order) == arm)[1:9] for arm in range(1000)])
    assert np.diff(places, axis=1).max() <= 128
    assert sorted(np.bincount(order).tolist()) == [10] * 500 + [11] * 500


def test_goes_on_closely_with_more_calls_where_it_left_off() -> None:
    arms = WritableArms(300)
    for budget in (1000, 2500):
        scheduler = HeapScheduler(arms, Uniform(), budget=budget, closely=True)
        while isinstance(ticket := scheduler.ask(), Ticket):
            scheduler.tell(ticket, (3.0,))
        assert arms.counts.sum() == budget
        assert arms.counts.max() - arms.counts.min() <= 1


@pytest.mark.parametrize("mode", ["theory", "practice"])
def test_keeps_the_whole_warm_up_for_an_arm_whose_answers_are_slow(mode: str) -> None:
    # as many calls as the warm-ups take, and arm 0 takes ten times as long to answer
    arms, count = WritableArms(10), 10
    budget = 2650 if mode == "theory" else 200
    policy = RobinHood.of(Setup(count, budget, SCALE, mode=mode))
    scheduler = HeapScheduler(arms, policy, budget=budget)
    now = 0.0
    under_way: list[tuple[float, Ticket]] = []
    while not scheduler.budget.exhausted:
        while len(under_way) < 64 and isinstance(ticket := scheduler.ask(), Ticket):
            heapq.heappush(under_way, (now + (10.0 if ticket.arm == 0 else 1.0), ticket))
        now, done = heapq.heappop(under_way)
        scheduler.tell(done, (3.0 if done.arm == 0 else float(int(now) % 5),))
    assert arms.counts.min() >= policy.warm_up


def test_several_ratings_a_request_are_spread_as_evenly_as_one() -> None:
    for budget, samples in ((60, 5), (90, 5), (300, 7)):
        arms = WritableArms(60)
        scheduler = HeapScheduler(arms, RobinHood.of(Setup(60, budget, SCALE)), budget=budget)
        while isinstance(ticket := scheduler.ask(samples), Ticket):
            assert 1 <= ticket.calls <= samples, (budget, samples)
            scheduler.tell(ticket, (2.0,) * ticket.calls)
        assert arms.spent == budget, (budget, samples)
        assert arms.counts.max() - arms.counts.min() <= 1, (budget, samples)


def test_goes_on_at_full_breadth_after_arms_were_given_up() -> None:
    arms = WritableArms(2)
    scheduler = HeapScheduler(arms, Uniform(), budget=4000)
    rounds = 0
    while not scheduler.budget.exhausted:
        asked: list[Ticket] = []
        while len(asked) < 64 and isinstance(ticket := scheduler.ask(), Ticket):
            asked.append(ticket)
        assert asked
        rounds += 1
        for each in asked:
            scheduler.tell(each, (None if each.arm == 0 else 3.0,))
    assert rounds < 100  # 64 at a time, after a slow start


def test_spreads_the_share_of_an_arm_given_up_over_the_others() -> None:
    arms = WritableArms(3)
    scheduler = HeapScheduler(arms, Uniform(), budget=30)
    while isinstance(ticket := scheduler.ask(), Ticket):
        scheduler.tell(ticket, (None if ticket.arm == 0 else 3.0,))
    assert arms.counts.tolist() == [0, 13, 12]


def test_waits_for_a_warm_up_that_is_all_under_way() -> None:
    arms = WritableArms(1)
    for rating in (0, 4) * 8:
        arms.add_rating(0, rating)
    scheduler = HeapScheduler(arms, RobinHood(c=19.85, warm_up=20))
    assert [arm_of(scheduler.ask()) for _ in range(5)] == [0, 0, 0, 0, Idle.WAIT]


def test_gives_an_arm_that_nobody_can_rate_a_few_calls_only() -> None:
    arms = WritableArms(2)
    scheduler = HeapScheduler(arms, Uniform())
    tickets = [each for each in (scheduler.ask() for _ in range(50)) if isinstance(each, Ticket)]
    assert [each.arm for each in tickets] == [0, 1] * RETIRE_AFTER  # nothing is known yet of either
    for each in tickets:
        scheduler.tell(each, (None if each.arm == 0 else 3.0,))
    assert {arm_of(scheduler.ask()) for _ in range(20)} == {1, Idle.WAIT}


@FAILURES
def test_asks_others_before_an_arm_that_failed(failure: Unanswered) -> None:
    arms = WritableArms(2)
    scheduler = HeapScheduler(arms, Uniform())
    failed = next_ticket(scheduler, arm=0)
    scheduler.tell(failed, failure)
    answered = next_ticket(scheduler, arm=1)
    next_ticket(scheduler, arm=1)
    scheduler.tell(answered, (2.0,))
    next_ticket(scheduler, arm=0)


@FAILURES
def test_asks_a_failed_arm_again_when_there_is_no_other(failure: Unanswered) -> None:
    scheduler = HeapScheduler(WritableArms(1), Uniform())
    scheduler.tell(next_ticket(scheduler, arm=0), failure)
    next_ticket(scheduler, arm=0)


@given(some_ratings, st.integers(0, 120), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_goes_on_after_a_rebuild_as_if_never_stopped(ratings: list[list[int]], before: int, after: int) -> None:
    policy = RobinHood.of(Setup(len(ratings), 1000, SCALE, delta=0.3))
    whole = play(policy, ratings, before + after)
    arms = WritableArms(len(ratings))
    for arm in whole[:before]:
        arms.add_rating(arm, ratings[arm][arms.n[arm] % len(ratings[arm])])
    scheduler = HeapScheduler(arms, policy)
    resumed = []
    for _ in range(after):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        arm = ticket.arm
        resumed.append(arm)
        scheduler.tell(ticket, (ratings[arm][arms.n[arm] % len(ratings[arm])],))
    assert resumed == whole[before:]


class AnyOrder(RuleBasedStateMachine):
    """Calls are asked for, answered, unparsed and given up in any order."""

    @initialize(
        pairs=st.integers(1, 6),
        kind=st.sampled_from(["uniform", "robin-hood", "dirichlet", "two-priors", "paired"]),
        judges=st.sampled_from([1, 1, 2, 3]),
    )
    def begin(self, pairs: int, kind: str, judges: int) -> None:
        count = pairs * judges
        self.arms = WritableArms(count)
        setup = Setup(count, 1000, SCALE, delta=0.5)
        if kind == "paired":
            setup = replace(setup, objective="compare", systems=by_two(pairs, judges))
        policy = make_policy(kind, setup)
        self.scheduler = HeapScheduler(self.arms, policy, judge=beside(pairs, judges))
        self.under_way: list[Ticket] = []

    @rule(at_most=st.sampled_from([1, 1, 3]))
    def ask(self, at_most: int) -> None:
        ticket = self.scheduler.ask(at_most)
        if ticket is Idle.WAIT:
            assert self.under_way
        elif ticket is Idle.EXHAUSTED:
            assert not self.under_way
            assert self.arms.retired_mask.all()
        else:
            assert isinstance(ticket, Ticket)
            assert 1 <= ticket.calls <= at_most
            assert not self.arms.retired(ticket.arm)
            self.under_way.append(ticket)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), failure=st.none() | st.none() | st.sampled_from(Unanswered))
    def tell(self, data: st.DataObject, failure: Unanswered | None) -> None:
        ticket = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        answers = st.lists(st.none() | st.integers(0, 4).map(float), max_size=ticket.calls)
        self.scheduler.tell(ticket, failure or data.draw(answers))

    @invariant()
    def books_are_right(self) -> None:
        if hasattr(self, "arms"):
            reserved = sum(each.calls for each in self.under_way)
            assert sum(self.arms.pending) == reserved == self.scheduler.budget.reserved
            assert self.arms.spent == self.scheduler.budget.spent
            draws = [(each.arm, each.draw + k) for each in self.under_way for k in range(each.calls)]
            assert len(set(draws)) == len(draws)
            assert len(self.scheduler._queue) <= 4 * len(self.arms) + 65


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


@pytest.mark.parametrize(
    ("kind", "pairs", "budget", "closely"),
    [
        ("uniform", 12, 1200, False),
        ("robin-hood", 12, 1200, True),
        ("dirichlet", 12, 1200, False),
        ("two-priors", 12, 1200, True),
        ("uniform", 200, 12_000, True),
        ("robin-hood", 200, 12_000, False),
        ("two-priors", 200, 12_000, False),
    ],
)
def test_a_quick_judge_does_not_take_what_belongs_to_a_slow_one(
    kind: str, pairs: int, budget: int, *, closely: bool
) -> None:
    slower, places = 30, 16
    rng = np.random.default_rng(3)
    arms = WritableArms(2 * pairs)
    judge = beside(pairs, 2)
    policy = make_policy(kind, Setup(2 * pairs, budget, SCALE))
    scheduler = HeapScheduler(arms, policy, budget=budget, judge=judge, closely=closely)
    under_way: list[tuple[float, Ticket]] = []
    now = 0.0
    while not scheduler.budget.exhausted:
        ticket = scheduler.ask() if len(under_way) < places else Idle.WAIT
        if isinstance(ticket, Ticket):
            heapq.heappush(under_way, (now + rng.random() * (slower if judge[ticket.arm] else 1), ticket))
            continue
        now, told = heapq.heappop(under_way)
        scheduler.tell(told, (float(rng.integers(0, 5)),))

    calls = np.bincount(judge, weights=arms.counts)
    assert calls.sum() == budget
    assert calls[1] > 0.85 * calls[0]  # both judges' arms vary alike: half of the calls each, give or take


def rated(*of_each: list[int]) -> WritableArms:
    arms = WritableArms(len(of_each))
    for arm, ratings in enumerate(of_each):
        arms.add(arm, ratings)
    return arms


def test_asks_another_arm_of_the_judge_whose_arm_failed_before_others_run_ahead() -> None:
    # arms 0 and 2 are one judge's; of the other's, arm 1 varies most and arm 3 never
    arms = rated([1, 3] * 10, [0, 4] * 10, [1, 3] * 10, [2] * 20)
    scheduler = HeapScheduler(arms, make_policy("dirichlet", Setup(4, 1000, SCALE)), budget=1000, judge=beside(2, 2))

    scheduler.tell(next_ticket(scheduler, arm=1), Unanswered.TRANSIENT)
    scheduler.tell(next_ticket(scheduler, arm=3), Unanswered.TRANSIENT)  # whose fault was it?
    scheduler.tell(next_ticket(scheduler, arm=1), (4.0,))  # nobody else could tell: it is asked again


def test_may_run_ahead_of_another_judges_arm_by_a_quarter_of_its_calls_with_those_under_way() -> None:
    # Two of arm 0's ten calls are under way: 9 - 9 // 4 = 7 calls ago it was as urgent as 1/7, which is more than 0.6778/5.
    arms = rated([2] * 8, [2] * 4)
    scheduler = HeapScheduler(arms, Robin(np.array([1.0, 0.6778])), budget=1000, judge=beside(1, 2))

    next_ticket(scheduler, arm=1)
    next_ticket(scheduler, arm=0)
    next_ticket(scheduler, arm=0)
    assert scheduler.ask() is Idle.WAIT


def test_states_the_smallest_budget_for_the_theory_and_means_it() -> None:
    with pytest.raises(InputError) as refused:
        RobinHood.of(Setup(1016, 50_000, SCALE, mode="theory"))
    smallest = smallest_theory_budget(1016, 0.007)
    assert str(smallest) in str(refused.value)
    assert RobinHood.of(Setup(1016, smallest, SCALE, mode="theory")).warm_up == theory_warm_up(1016, smallest, 0.007)
    with pytest.raises(InputError):
        RobinHood.of(Setup(1016, smallest - 1, SCALE, mode="theory"))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "robbin",
            {},
            "known schedulers are apt, auto, dirichlet, duels, lucb, paired, preferences, robin, robin-hood, tournament",
        ),
        ("robin", {}, "--variances RUN"),
        ("robin-hood", {"delta": 1.5}, "at most at 1"),
        ("robin-hood", {"mode": "practise"}, "practice, theory"),
        ("uniform", {"objective": "mean"}, "worst-case, mean-error, compare"),
    ],
)
def test_names_what_is_known(name: str, change: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_policy(name, Setup(10, 1000, SCALE, **change))  # type: ignore[arg-type]


def test_shares_calls_by_the_deviation_for_the_mean_error() -> None:
    asked = play(Robin(np.array([1.0, 4.0]), "mean-error"), [[0], [0]], 300)
    assert np.bincount(asked).tolist() == [100, 200]  # Neyman: n ∝ σ


def test_goes_on_at_full_breadth_after_arms_failed_for_good() -> None:
    arms = WritableArms(20)
    scheduler = HeapScheduler(arms, RobinHood.of(Setup(20, 800, SCALE)), budget=800)
    bad, most = set(range(0, 20, 4)), 0
    under_way: list[Ticket] = []
    while not scheduler.budget.exhausted:
        ticket = scheduler.ask() if len(under_way) < 8 else Idle.WAIT
        left = scheduler.budget.available
        if isinstance(ticket, Ticket):
            under_way.append(ticket)
            most = max(most, len(under_way)) if left < 200 else 0
            continue
        assert under_way, ticket
        told = under_way.pop(0)
        scheduler.tell(told, Unanswered.TRANSIENT if told.arm in bad else (float(left % 5),))

    assert arms.spent == 800
    assert most == 8


@FAILURES
def test_leaves_a_failed_arm_alone_when_another_of_its_calls_is_not_made(failure: Unanswered) -> None:
    arms = WritableArms(2)
    scheduler = HeapScheduler(arms, Uniform())
    tickets = [next_ticket(scheduler, arm=arm) for arm in (0, 1, 0, 1)]
    scheduler.tell(tickets[0], failure)
    scheduler.tell(tickets[2], Unanswered.WITHDRAWN)
    next_ticket(scheduler, arm=1)


def test_numbers_the_draws_of_an_arm_without_gap_when_calls_are_not_made() -> None:
    arms = WritableArms(1)
    scheduler = HeapScheduler(arms, Uniform())
    first = scheduler.shorten(next_ticket(scheduler, arm=0, calls=3), 2)
    assert (first.draw, first.calls) == (0, 2)
    second = next_ticket(scheduler, arm=0)
    assert second.draw == 2
    scheduler.tell(second, Unanswered.WITHDRAWN)
    scheduler.tell(first, (1.0, None))
    assert next_ticket(scheduler, arm=0).draw == 2
    assert (arms.spent, scheduler.budget.reserved) == (2, 1)


def test_refuses_to_be_told_twice_of_one_ticket() -> None:
    scheduler = HeapScheduler(WritableArms(1), Uniform())
    ticket = next_ticket(scheduler, arm=0)
    scheduler.tell(ticket, (1.0,))
    with pytest.raises(ValueError, match="under way"):
        scheduler.tell(ticket, (1.0,))


class Odd(Policy):
    """Knows no priority, or an endless one, of an arm with two ratings."""

    warm_up = 1

    def __init__(self, odd: float) -> None:
        self.odd = odd

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:
        return cast("Number", np.where(np.asarray(n) == 2, self.odd, 1.0 / (n + pending))[()])


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_names_the_policy_that_gives_an_arm_no_finite_priority(odd: float) -> None:
    arms = WritableArms(3)
    said = f"Odd gives arm 0 the priority {odd}, which is to be a finite number"
    with pytest.raises(InputError, match=said):
        play(Odd(odd), [[0]] * 3, 20, arms)
    assert arms.spent == 4  # what was told before counts
    with pytest.raises(InputError, match=said):
        HeapScheduler(arms, Odd(odd))
