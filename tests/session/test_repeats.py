"""Judges that repeat themselves: when they are found, and which calls are still made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import WritableArms
from robin_cli.model.outcome import Final, Outcome, Unanswered
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.session.planner import Planner, Ticket
from robin_cli.stats.repeats import FEWEST, Repeats
from tests.session.played import SCALE, Watching, work


def space_of(pairs: int, *judges: str, attributes: tuple[str, ...] = ("a",)) -> ArmSpace:
    scales = [SCALE] * len(attributes)
    return ArmSpace([str(number) for number in range(pairs)], attributes, judges or ("j",), scales)


def calls_made(
    space: ArmSpace,
    budget: int,
    answer: Callable[[Ticket], Outcome],
    *,
    expected: bool = False,
    at_once: int = 1,
    seed: int = 0,
    samples: int = 1,
) -> WritableArms:
    """The arms after a run of ``budget`` calls, ``at_once`` under way."""
    arms = WritableArms(len(space))
    repeats = Repeats(space, [expected] * len(space.judges), asks_all=True)
    policy = make_policy("two-priors", Setup(len(space), budget, SCALE))
    planner = Planner(
        arms, policy, budget=budget, judge=space.judge, watch=Watching(repeats=repeats)
    )
    luck = np.random.default_rng(seed)
    for _ in work(planner, answer, at_once=at_once, luck=luck, samples=samples):
        pass
    return arms


def same(ticket: Ticket) -> list[float]:
    return [float(ticket.arm % 5)] * ticket.calls


@pytest.mark.parametrize(
    ("pairs", "expected", "most"),
    [
        (1000, False, 2000),
        (1000, True, 1060),
        (200, True, 260),
        (59, False, 118),
        (30, False, 90),
        (30, True, 90),
        (1, False, 61),
    ],
)
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_judge_that_repeats_itself_is_asked_until_that_is_certain(
    pairs: int, expected: bool, most: int, at_once: int
) -> None:
    arms = calls_made(space_of(pairs), 5000, same, expected=expected, at_once=at_once)
    assert pairs + FEWEST <= arms.columns.spent <= most
    assert arms.columns.n.min() >= (1 if expected else min(2, 1 + FEWEST // pairs))


@pytest.mark.parametrize("samples", [4, 16])
def test_requests_for_several_ratings_ask_no_third_before_every_second(samples: int) -> None:
    assert calls_made(space_of(100), 5000, same, samples=samples).columns.n.tolist() == [2] * 100


@given(st.integers(60, 90), st.integers(1, 30), st.integers(0, 100))
def test_no_third_rating_before_every_second_while_all_agree(
    pairs: int, at_once: int, seed: int
) -> None:
    space, luck = space_of(pairs), np.random.default_rng(seed)
    differing = int(luck.integers(2 * pairs))
    answered, third_at = 0, []

    def answer(ticket: Ticket) -> list[float]:
        nonlocal answered
        answered += 1
        if ticket.draw >= 2:
            third_at.append(answered)
        return [float(answered == differing)]

    arms = calls_made(space, 5 * pairs, answer, at_once=at_once, seed=seed)
    differs = arms.columns.n * arms.columns.total_sq > arms.columns.total**2
    assert arms.columns.spent == (5 * pairs if differs.any() else 2 * pairs)
    assert not third_at or min(third_at) > differing - 1


def test_a_judge_that_differs_now_and_then_is_rarely_stopped() -> None:
    def stops(seed: int) -> bool:
        luck = np.random.default_rng([seed, 1])
        arms = calls_made(
            space_of(70),
            140,
            lambda _: [float(luck.random() < 0.1)],
            expected=True,
            at_once=8,
            seed=seed,
        )
        return arms.columns.spent < 140

    assert sum(stops(seed) for seed in range(200)) <= 2


@pytest.mark.parametrize(("apart", "ends"), [(0.019, True), (0.021, False)])
def test_expectations_agree_within_half_a_percent_of_the_scale(apart: float, ends: bool) -> None:
    arms = calls_made(
        space_of(100), 400, lambda ticket: [1.0 + apart * (ticket.draw % 2)], expected=True
    )
    assert (arms.columns.spent < 400) == ends


def test_one_judge_that_repeats_itself_leaves_the_calls_to_the_other() -> None:
    space, luck = space_of(80, "same", "noisy"), np.random.default_rng(3)

    def answer(ticket: Ticket) -> list[float]:
        return same(ticket) if ticket.arm % 2 == 0 else [float(luck.integers(5))]

    arms = calls_made(space, 800, answer)
    assert arms.columns.spent == 800
    assert arms.columns.n[::2].tolist() == [2] * 80


def test_each_attribute_counts_alone() -> None:
    space, luck = space_of(80, attributes=("same", "noisy")), np.random.default_rng(3)

    def answer(ticket: Ticket) -> list[float]:
        return same(ticket) if ticket.arm % 2 == 0 else [float(luck.integers(5))]

    assert calls_made(space, 800, answer).columns.n[::2].tolist() == [2] * 80


def test_pairs_that_were_given_up_do_not_count() -> None:
    def answer(ticket: Ticket) -> Outcome:
        return Unanswered.PERMANENT if ticket.arm < 5 else same(ticket)

    assert calls_made(space_of(100), 900, answer).columns.n.tolist() == [0] * 5 + [2] * 95


def test_what_a_decision_model_declines_is_asked_once_however_many_calls_are_under_way() -> None:
    def answer(ticket: Ticket) -> Outcome:
        return Final([None]) if ticket.arm < 5 else same(ticket)

    arms = calls_made(space_of(20), 900, answer, expected=True, at_once=40)
    assert arms.columns.n_unparsed.tolist() == [1] * 5 + [0] * 15
    assert arms.columns.spent <= 20 + 60


def test_a_resumed_run_finds_the_same() -> None:
    space = space_of(100)
    whole = calls_made(space, 1000, same)
    repeats = Repeats(space, [False], asks_all=True)
    assert repeats.end_the_run(whole.columns)
    whole.add(7, [4.0])  # an answer that was under way
    assert not repeats.end_the_run(whole.columns)


def test_a_judge_that_gave_up_every_pair_of_an_attribute_ends_the_run_too() -> None:
    space = space_of(80, attributes=("same", "refused"))

    def answer(ticket: Ticket) -> Outcome:
        return same(ticket) if ticket.arm % 2 == 0 else Unanswered.PERMANENT

    arms = calls_made(space, 800, answer)
    assert arms.columns.spent == 160
    assert Repeats(space, [False], asks_all=True).end_the_run(arms.columns)


def test_a_comparison_is_given_up_with_either_of_its_orders() -> None:
    space = ArmSpace([str(k) for k in range(70)], ["p"], ["j"], [SCALE], ("ab", "ba"))
    arms = WritableArms(len(space))
    for arm in range(2, len(space)):
        arms.add(arm, [3.0, 3.0])
    repeats = Repeats(space, [False], asks_all=False)
    assert not repeats.end_the_run(arms.columns)
    arms.add(0, Unanswered.PERMANENT)  # so that the other order is never asked
    assert repeats.end_the_run(arms.columns)
