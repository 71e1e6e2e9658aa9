"""The best response to each prompt, by comparisons."""

from __future__ import annotations

import numpy as np

from robin_cli.analysis.decisions import RunVerdicts
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.pairwise_decisions import Best, DuelEvidence
from robin_cli.model.arms import WritableArms
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import ORDERS, PREFERENCE
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import DEFAULT_MARGIN, Policy
from tests.planning.comparing import (
    VOTES,
    by_strength,
    comparisons,
    planner_of,
    play,
    policy_for,
    system_numbers,
)
from tests.planning.played import work


def verdicts_of(matches: Matches, margin: float = DEFAULT_MARGIN) -> RunVerdicts:
    return RunVerdicts(DuelEvidence(matches, margin=margin), LevelCounts(matches.space))


def best_of(verdicts: RunVerdicts, arms: WritableArms) -> Best:
    assert isinstance(verdicts.evidence, DuelEvidence)
    return verdicts.evidence.outcome(arms, verdicts.counts)


def test_ends_once_the_best_response_to_each_prompt_is_certain() -> None:
    matches = comparisons(4, 8, wants_best=True)
    arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches)
    rating = by_strength(matches, [0.0, 9.0, 0.5, 1.0], 1)
    list(play(matches, policy_for(matches, "auto"), arms, rating, 20_000, verdicts))
    best = best_of(verdicts, arms)
    numbers = system_numbers(matches)
    assert arms.spent < 3_000
    assert verdicts.all_decided
    assert best.is_over
    assert best.decided == 8
    assert best.prompt.tolist() == list(range(8))
    found = [
        numbers[comparison][side]
        for comparison, side in zip(best.comparison, best.side, strict=True)
    ]
    assert found == [1] * 8
    assert [
        matches.response[c, s] for c, s in zip(best.comparison, best.side, strict=True)
    ] == best.leader.tolist()
    whole = matches.space.by_pair(arms.counts > 0).all(axis=1)
    assert whole.sum() < len(matches), "not every two responses had to meet"


def test_is_seldom_wrong_where_it_is_certain() -> None:
    wrong = certain = 0
    for seed in range(2):
        matches = comparisons(3, 6, wants_best=True)
        arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches)
        rating = by_strength(matches, [0.0, 0.6, 1.4], seed, effect=0.6)
        list(play(matches, policy_for(matches, "uniform"), arms, rating, 1_000, verdicts))
        best, numbers = best_of(verdicts, arms), system_numbers(matches)
        found = [
            numbers[comparison][side]
            for comparison, side in zip(best.comparison, best.side, strict=True)
        ]
        certain += best.decided
        wrong += sum(sure and each != 2 for sure, each in zip(best.certified, found, strict=True))
    assert certain > 0
    assert wrong <= 0.05 * certain


def test_spends_nothing_on_a_prompt_whose_best_cannot_be_found_any_more() -> None:
    matches = comparisons(2, 3, wants_best=True)
    arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches)
    planner = planner_of(matches, policy_for(matches, "auto"), arms, 5_000, verdicts)
    gone = matches.space.pair == 1
    list(work(planner, lambda ticket: Unanswered.PERMANENT if gone[ticket.arm] else (2.0,)))
    best = best_of(verdicts, arms)
    assert best.certified.tolist() == [True, False, True]
    assert best.stuck.tolist() == [False, True, False]
    assert best.leader[1] == -1
    assert np.isnan(best.margin[1])
    assert arms.spent < 1_000


def test_calls_none_the_best_that_was_not_compared_with_all_others() -> None:
    space = ArmSpace(["ab", "bc"], (PREFERENCE,), ["j"], (VOTES,), ORDERS)
    text = np.array([[0, 1], [1, 2]])
    matches = matches_of(space, np.zeros(2, np.int64), text, [(None, None)] * 2, 0, wants_best=True)
    arms, verdicts = WritableArms(len(space)), verdicts_of(matches)
    for _ in range(200):
        for arm in range(4):
            rating = 2.0 if arm < 2 else 1.0
            arms.add_rating(arm, rating)
            verdicts.add(arm, (rating,))
    verdicts.look(arms, Policy())
    best = best_of(verdicts, arms)
    assert best.leader.tolist() == [0]
    assert not best.certified.any()
    assert best.stuck.all()
    assert verdicts.all_decided


def test_takes_the_orders_effect_out_of_who_is_best() -> None:
    matches = comparisons(2, 1, wants_best=True)
    arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches, margin=0.0)
    for _ in range(300):
        for arm in range(2):
            rating = 2.0 if arm == 0 else 0.0  # A in first place, B in first place
            arms.add_rating(arm, rating)
            verdicts.add(arm, (rating,))
    verdicts.look(arms, Policy())
    assert not best_of(verdicts, arms).decided
    assert not verdicts.all_decided
