"""Which arm is asked next."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.budget import Budget
from robin_cli.allocation.policies import (
    Policy,
    PooledPolicy,
    Robin,
    RobinHood,
    Setup,
    Uniform,
    make_policy,
    practice_constant,
    robin_hood,
    smallest_theory_budget,
    theory_warm_up,
)
from robin_cli.allocation.scheduler import HeapScheduler, Nothing, last_refit, next_refit
from robin_cli.errors import InputError
from robin_cli.records import RETIRE_AFTER, Scale

SCALE = Scale(0, 4)


def play(policy: Policy, ratings: list[list[int]], calls: int, arms: Arms | None = None) -> list[int]:
    """The arms asked, one call after another; arm i's k-th answer is ratings[i][k], around and around."""
    arms = Arms(len(ratings)) if arms is None else arms
    scheduler = HeapScheduler(arms, policy)
    asked = []
    for _ in range(calls):
        arm = scheduler.ask()
        assert isinstance(arm, int)
        asked.append(arm)
        arms.add_rating(arm, ratings[arm][arms.n[arm] % len(ratings[arm])])
        scheduler.tell(arm)
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


some_ratings = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=30), min_size=1, max_size=8)


@given(some_ratings, st.sampled_from([0.007, 0.07, 0.3]))
@settings(max_examples=60, deadline=None)
def test_makes_the_choices_of_the_papers_algorithm(ratings: list[list[int]], delta: float) -> None:
    policy = robin_hood(Setup(len(ratings), 1000, SCALE, delta=delta))
    calls = policy.warm_up * len(ratings) + 150

    assert play(policy, ratings, calls) == paper(ratings, calls, practice_constant(delta))


def test_warms_up_for_20_whole_rounds_at_the_papers_delta() -> None:
    asked = play(robin_hood(Setup(3, 100, SCALE)), [[0, 4], [2], [3]], 61)
    assert asked[:60] == [0, 1, 2] * 20
    assert asked[60] == 0


@given(some_ratings, st.integers(1, 60))
@settings(deadline=None)
def test_goes_round_robin_when_uniform(ratings: list[list[int]], calls: int) -> None:
    assert play(Uniform(), ratings, calls) == [call % len(ratings) for call in range(calls)]


@given(st.lists(st.floats(0, 4), min_size=1, max_size=40), st.integers(1, 600))
@settings(deadline=None)
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
@settings(max_examples=60, deadline=None)
def test_gives_every_arm_a_third_of_its_share_while_the_bounds_hold(ratings: list[list[int]], extra: int) -> None:
    policy = robin_hood(Setup(len(ratings), 1000, SCALE, delta=0.3))
    budget = policy.warm_up * len(ratings) + extra
    arms = Arms(len(ratings))
    scheduler = HeapScheduler(arms, policy)
    true = np.array([np.var(each) for each in ratings])
    holds = np.ones(len(ratings), dtype=bool)
    for _ in range(budget):
        arm = scheduler.ask()
        assert isinstance(arm, int)
        arms.add_rating(arm, ratings[arm][arms.n[arm] % len(ratings[arm])])
        scheduler.tell(arm)
        n = arms.n[arm]
        if n >= policy.warm_up:
            bound = policy.priority(float(n), 0.0, arms.total[arm], arms.total_sq[arm], arm) * n
            holds[arm] &= true[arm] - 1e-9 <= bound <= 3 * true[arm] + 1e-9
    if holds.all() and true.sum() > 0:
        assert np.all(arms.counts >= true / true.sum() * (budget - len(ratings) * policy.warm_up) / 3 - 1e-6)


@pytest.mark.parametrize("name", ["robin-hood", "dirichlet", "two-priors", "uniform"])
def test_computes_the_same_key_for_one_arm_as_for_all_at_once(name: str) -> None:
    # bit for bit: or else a run that goes on after an interruption could break ties in another way
    rng = np.random.default_rng(5)
    arms = Arms(500)
    for arm in range(500):
        for rating in rng.integers(0, 5, rng.integers(0, 40)):
            arms.add_rating(arm, int(rating))
        arms.pending[arm] = int(rng.integers(0, 3))
    policy = make_policy(name, Setup(500, 50_000, SCALE))
    if isinstance(policy, PooledPolicy):
        policy = policy.fitted(arms.counts.astype(float), arms.totals, arms.totals_sq)
    scheduler = HeapScheduler(arms, policy)
    assert scheduler._key == [scheduler._key_of(arm) for arm in range(500)]


@pytest.mark.parametrize("name", ["dirichlet", "two-priors"])
@pytest.mark.parametrize("objective", ["worst-case", "mean-error"])
def test_starves_no_pair(name: str, objective: str) -> None:
    policy = make_policy(name, Setup(3, 1000, SCALE, objective=objective))
    n = np.bincount(play(policy, [[0, 4], [2], [3, 3, 3, 3, 4]], 600))
    assert n.min() >= 20
    assert n[0] == n.max()


def test_fits_a_pooled_policy_at_the_same_numbers_after_an_interruption() -> None:
    points = [rated for rated in range(1, 400) if last_refit(rated, 10) == rated]
    assert points[0] == 10
    assert all(next_refit(before, 10) == after for before, after in itertools.pairwise(points))


def test_spreads_what_is_left_when_nothing_varies() -> None:
    asked = play(robin_hood(Setup(4, 200, SCALE)), [[1], [2], [3], [4]], 200)
    assert np.bincount(asked).tolist() == [50, 50, 50, 50]


def test_counts_calls_under_way() -> None:
    arms = Arms(2)
    for rating in (0, 4) * 20:
        arms.add_rating(0, rating)
    for rating in (1, 3) * 20:
        arms.add_rating(1, rating)
    scheduler = HeapScheduler(arms, robin_hood(Setup(2, 1000, SCALE)))
    asked = [scheduler.ask() for _ in range(21)]
    assert asked == [0] * 10 + [1] * 10 + [Nothing.NOW]  # a quarter of its ratings each, the more urgent arm first


def test_keeps_the_budget_for_arms_whose_warm_up_answers_are_still_to_come() -> None:
    # 12 alike arms, everything asked at once: nobody may take much more than a share of what is left after the warm-up
    rng = np.random.default_rng(2)
    arms = Arms(12)
    scheduler = HeapScheduler(arms, robin_hood(Setup(12, 500, SCALE)))
    under_way: list[int] = []
    for _ in range(500):
        while len(under_way) < 256 and isinstance(arm := scheduler.ask(), int):
            under_way.append(arm)
        done = under_way.pop(int(rng.integers(len(under_way))))
        arms.add_rating(done, int(rng.choice([1, 2, 2, 3])))
        scheduler.tell(done)
    assert arms.counts.max() < 2.5 * 500 / 12


@pytest.mark.parametrize("policy", [Uniform(), RobinHood(c=19.85, warm_up=20)])
def test_spreads_evenly_what_the_warm_up_does_not_suffice_for(policy: Policy) -> None:
    # everything asked at once, answers in any order: the first arm to be answered must not run away
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arms = Arms(3)
        budget = Budget(30)
        scheduler = HeapScheduler(arms, policy, budget=30)
        under_way: list[int] = []
        while not budget.exhausted:
            while budget.available and isinstance(arm := scheduler.ask(), int):
                budget.reserve(1)
                under_way.append(arm)
            done = under_way.pop(int(rng.integers(len(under_way))))
            arms.add_rating(done, 3)
            scheduler.tell(done)
            budget.settle(1, 1)
        assert arms.counts.tolist() == [10, 10, 10]


@pytest.mark.parametrize("mode", ["theory", "practice"])
def test_keeps_the_whole_warm_up_for_an_arm_whose_answers_are_slow(mode: str) -> None:
    # as many calls as the warm-ups take, and arm 0 takes ten times as long to answer
    arms, count = Arms(10), 10
    budget = 2650 if mode == "theory" else 200
    policy = robin_hood(Setup(count, budget, SCALE, mode=mode))
    scheduler = HeapScheduler(arms, policy, budget=budget)
    left, now = budget, 0.0
    under_way: list[tuple[float, int]] = []
    while left or under_way:
        while left and len(under_way) < 64 and isinstance(arm := scheduler.ask(), int):
            heapq.heappush(under_way, (now + (10.0 if arm == 0 else 1.0), arm))
            left -= 1
        now, done = heapq.heappop(under_way)
        arms.add_rating(done, 3 if done == 0 else int(now) % 5)
        scheduler.tell(done)
    assert arms.counts.min() >= policy.warm_up


@pytest.mark.parametrize(("budget", "samples"), [(60, 5), (90, 5), (300, 7)])
def test_several_ratings_a_request_are_spread_as_evenly_as_one(budget: int, samples: int) -> None:
    arms = Arms(60)
    scheduler = HeapScheduler(arms, robin_hood(Setup(60, budget, SCALE)), budget=budget)
    left = budget
    while left:
        chosen = scheduler.ask_several(min(samples, left))
        assert not isinstance(chosen, Nothing)
        arm, calls = chosen
        left -= calls
        for _ in range(calls):
            arms.add_rating(arm, 2)
        scheduler.tell(arm, calls)
    assert arms.counts.max() - arms.counts.min() <= 1


def test_goes_on_at_full_breadth_after_arms_were_given_up() -> None:
    arms = Arms(2)
    scheduler = HeapScheduler(arms, Uniform(), budget=4000)
    left, rounds = 4000, 0
    while left > 0:
        asked: list[int] = []
        while len(asked) < min(64, left) and isinstance(arm := scheduler.ask(), int):
            asked.append(arm)
        assert asked
        rounds += 1
        for arm in asked:
            (arms.add_unparsed if arm == 0 else lambda each: arms.add_rating(each, 3))(arm)
            scheduler.tell(arm)
        left -= len(asked)
    assert rounds < 100  # 64 at a time, after a slow start


def test_spreads_the_share_of_an_arm_given_up_over_the_others() -> None:
    arms = Arms(3)
    scheduler = HeapScheduler(arms, Uniform(), budget=30)
    for _ in range(30):
        arm = scheduler.ask()
        assert isinstance(arm, int)
        if arm == 0:
            arms.add_unparsed(arm)
        else:
            arms.add_rating(arm, 3)
        scheduler.tell(arm)
    assert arms.counts.tolist() == [0, 13, 12]


def test_waits_for_a_warm_up_that_is_all_under_way() -> None:
    arms = Arms(1)
    for rating in (0, 4) * 8:
        arms.add_rating(0, rating)
    scheduler = HeapScheduler(arms, RobinHood(c=19.85, warm_up=20))
    assert [scheduler.ask() for _ in range(5)] == [0, 0, 0, 0, Nothing.NOW]


def test_gives_an_arm_that_nobody_can_rate_a_few_calls_only() -> None:
    arms = Arms(2)
    scheduler = HeapScheduler(arms, Uniform())
    asked = [scheduler.ask() for _ in range(50)]
    assert asked.count(0) == asked.count(1) == RETIRE_AFTER  # nothing is known yet of either
    for _ in range(RETIRE_AFTER):
        arms.add_unparsed(0)
        scheduler.tell(0)
        arms.add_rating(1, 3)
        scheduler.tell(1)
    assert {scheduler.ask() for _ in range(20)} == {1, Nothing.NOW}


def test_asks_others_before_an_arm_that_failed() -> None:
    arms = Arms(2)
    scheduler = HeapScheduler(arms, Uniform())
    assert scheduler.ask() == 0
    scheduler.defer(0)
    assert scheduler.ask() == 1
    assert scheduler.ask() == 1
    arms.add_rating(1, 2)
    scheduler.tell(1)
    assert scheduler.ask() == 0


def test_asks_a_failed_arm_again_when_there_is_no_other() -> None:
    scheduler = HeapScheduler(Arms(1), Uniform())
    assert scheduler.ask() == 0
    scheduler.defer(0)
    assert scheduler.ask() == 0


@given(some_ratings, st.integers(0, 120), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_goes_on_after_a_rebuild_as_if_never_stopped(ratings: list[list[int]], before: int, after: int) -> None:
    policy = robin_hood(Setup(len(ratings), 1000, SCALE, delta=0.3))
    whole = play(policy, ratings, before + after)
    arms = Arms(len(ratings))
    for arm in whole[:before]:
        arms.add_rating(arm, ratings[arm][arms.n[arm] % len(ratings[arm])])
    scheduler = HeapScheduler(arms, policy)
    resumed = []
    for _ in range(after):
        asked = scheduler.ask()
        assert isinstance(asked, int)
        resumed.append(asked)
        arms.add_rating(asked, ratings[asked][arms.n[asked] % len(ratings[asked])])
        scheduler.tell(asked)
    assert resumed == whole[before:]


class AnyOrder(RuleBasedStateMachine):
    """Calls are asked for, answered, unparsed and given up in any order."""

    @initialize(
        pairs=st.integers(1, 6),
        kind=st.sampled_from(["uniform", "robin-hood", "dirichlet", "two-priors"]),
        judges=st.sampled_from([1, 1, 2, 3]),
    )
    def begin(self, pairs: int, kind: str, judges: int) -> None:
        count = pairs * judges
        self.arms = Arms(count)
        policy = make_policy(kind, Setup(count, 1000, SCALE, delta=0.5))
        self.scheduler = HeapScheduler(self.arms, policy, judges=judges)
        self.under_way: list[int] = []

    @rule()
    def ask(self) -> None:
        arm = self.scheduler.ask()
        if arm is Nothing.NOW:
            assert self.under_way
        elif arm is Nothing.LEFT:
            assert not self.under_way
            assert self.arms.retired_mask.all()
        else:
            assert isinstance(arm, int)
            assert not self.arms.retired(arm)
            self.under_way.append(arm)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), outcome=st.sampled_from(["rated", "rated", "unparsed", "refused", "failed", "away"]))
    def tell(self, data: st.DataObject, outcome: str) -> None:
        arm = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        if outcome == "rated":
            self.arms.add_rating(arm, data.draw(st.integers(0, 4)))
        elif outcome == "unparsed":
            self.arms.add_unparsed(arm)
        elif outcome in {"refused", "failed"}:
            self.arms.add_failure(arm, permanent=outcome == "refused")
        (self.scheduler.defer if outcome in {"failed", "away"} else self.scheduler.tell)(arm)

    @invariant()
    def books_are_right(self) -> None:
        if hasattr(self, "arms"):
            assert sum(self.arms.pending) == len(self.under_way)
            assert len(self.scheduler._heap) <= 4 * len(self.arms) + 65


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


@pytest.mark.parametrize("kind", ["uniform", "robin-hood", "dirichlet", "two-priors"])
def test_a_quick_judge_does_not_take_what_belongs_to_a_slow_one(kind: str) -> None:
    pairs, budget, slower, places = 12, 1200, 30, 16
    rng = np.random.default_rng(3)
    arms = Arms(2 * pairs)
    scheduler = HeapScheduler(arms, make_policy(kind, Setup(2 * pairs, budget, SCALE)), budget=budget, judges=2)
    under_way: list[tuple[float, int]] = []
    now, asked = 0.0, 0
    while asked < budget or under_way:
        arm = scheduler.ask() if asked < budget and len(under_way) < places else Nothing.NOW
        if isinstance(arm, int):
            asked += 1
            heapq.heappush(under_way, (now + rng.random() * (slower if arm % 2 else 1), arm))
            continue
        now, told = heapq.heappop(under_way)
        arms.add_rating(told, float(rng.integers(0, 5)))
        scheduler.tell(told)

    calls = arms.counts.reshape(pairs, 2).sum(axis=0)
    assert calls.sum() == budget
    assert calls[1] > 0.85 * calls[0]  # both judges' arms vary alike: half of the calls each, give or take


def test_states_the_smallest_budget_for_the_theory_and_means_it() -> None:
    with pytest.raises(InputError) as refused:
        robin_hood(Setup(1016, 50_000, SCALE, mode="theory"))
    smallest = smallest_theory_budget(1016, 0.007)
    assert str(smallest) in str(refused.value)
    assert robin_hood(Setup(1016, smallest, SCALE, mode="theory")).warm_up == theory_warm_up(1016, smallest, 0.007)
    with pytest.raises(InputError):
        robin_hood(Setup(1016, smallest - 1, SCALE, mode="theory"))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("robbin", {}, "known schedulers are robin-hood, robin, uniform"),
        ("robin", {}, "--variances RUN"),
        ("robin-hood", {"delta": 1.5}, "at most at 1"),
        ("robin-hood", {"mode": "practise"}, "practice, theory"),
        ("uniform", {"objective": "mean"}, "worst-case, mean-error"),
    ],
)
def test_names_what_is_known(name: str, change: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_policy(name, Setup(10, 1000, SCALE, **change))  # type: ignore[arg-type]


def test_shares_calls_by_the_deviation_for_the_mean_error() -> None:
    asked = play(Robin(np.array([1.0, 4.0]), "mean-error"), [[0], [0]], 300)
    assert np.bincount(asked).tolist() == [100, 200]  # Neyman: n ∝ σ


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=60))
def test_never_spends_more_than_the_budget(total: int, calls: list[tuple[int, int]]) -> None:
    budget = Budget(total)
    for reserve, spend in calls:
        if reserve <= budget.available:
            budget.reserve(reserve)
            budget.settle(reserve, min(spend, reserve))
        else:
            with pytest.raises(ValueError, match="cannot reserve"):
                budget.reserve(reserve)
        assert 0 <= budget.spent + budget.reserved <= total


def test_goes_on_at_full_breadth_after_arms_failed_for_good() -> None:
    arms = Arms(20)
    scheduler = HeapScheduler(arms, robin_hood(Setup(20, 800, SCALE)), budget=800)
    bad, most = set(range(0, 20, 4)), 0
    under_way: list[int] = []
    left = 800
    while left or under_way:
        arm = scheduler.ask() if left and len(under_way) < 8 else Nothing.NOW
        if isinstance(arm, int):
            left -= 1
            under_way.append(arm)
            most = max(most, len(under_way)) if left < 200 else 0
            continue
        assert under_way, arm
        told = under_way.pop(0)
        if told in bad:
            left += 1
            arms.add_failure(told, permanent=False)
            scheduler.defer(told)
        else:
            arms.add_rating(told, float(left % 5))
            scheduler.tell(told)

    assert arms.spent == 800
    assert most == 8


def test_leaves_a_failed_arm_alone_when_another_of_its_calls_is_not_made() -> None:
    arms = Arms(2)
    scheduler = HeapScheduler(arms, Uniform())
    assert [scheduler.ask() for _ in range(4)] == [0, 1, 0, 1]
    scheduler.defer(0)
    scheduler.withdraw(0)
    assert scheduler.ask() == 1
