"""The best response to each prompt, by comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student_t

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.model.arms import WritableArms
from robin_cli.model.outcome import Unanswered
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import DEFAULT_MARGIN, Policy
from robin_cli.policies.matches import Matches, matches_of
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.pairwise_decisions import Best, DuelEvidence, best_responses
from tests.session.comparing import (
    VOTES,
    by_strength,
    comparisons,
    planner_of,
    play,
    policy_for,
    system_numbers,
)
from tests.session.played import work


def verdicts_of(matches: Matches, margin: float = DEFAULT_MARGIN) -> RunVerdicts:
    return RunVerdicts(DuelEvidence(matches.rivals, margin=margin), LevelCounts(matches.space))


def best_of(verdicts: RunVerdicts, arms: WritableArms) -> Best:
    evidence = verdicts.evidence
    assert isinstance(evidence, DuelEvidence)
    evidence.of_run(verdicts.counts, arms.columns)
    return best_responses(evidence.rivals, arms.columns, evidence.margin, evidence)


def test_ends_once_the_best_response_to_each_prompt_is_certain() -> None:
    matches = comparisons(4, 8, wants_best=True)
    arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches)
    rating = by_strength(matches, [0.0, 9.0, 0.5, 1.0], 1)
    list(play(matches, policy_for(matches, "auto"), arms, rating, 20_000, verdicts))
    best = best_of(verdicts, arms)
    numbers = system_numbers(matches)
    assert arms.columns.spent < 3_000
    assert verdicts.all_decided
    assert best.is_over
    assert best.certified is not None
    assert best.certified.all()
    assert best.likely_wrong.max() < 0.01
    assert best.prompt.tolist() == list(range(8))
    found = [
        numbers[comparison][side]
        for comparison, side in zip(best.comparison, best.side, strict=True)
    ]
    assert found == [1] * 8
    assert [
        matches.response[c, s] for c, s in zip(best.comparison, best.side, strict=True)
    ] == best.leader.tolist()
    whole = matches.space.by_pair(arms.columns.n > 0).all(axis=1)
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
        assert best.certified is not None
        certain += best.certified.sum()
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
    assert best.certified is not None
    assert best.certified.tolist() == [True, False, True]
    assert best.is_over
    assert best.leader[1] == -1
    assert np.isnan(best.likely_wrong).tolist() == [False, True, False]
    assert arms.columns.spent < 1_000


def test_calls_none_the_best_that_was_not_compared_with_all_others() -> None:
    space = ArmSpace(["ab", "bc"], (PREFERENCE,), ["j"], (VOTES,), ORDERS)
    text = np.array([[0, 1], [1, 2]])
    matches = matches_of(space, np.zeros(2, np.int64), text, None, [], 0, wants_best=True)
    arms, verdicts = WritableArms(len(space)), verdicts_of(matches)
    for _ in range(200):
        for arm in range(4):
            rating = 2.0 if arm < 2 else 1.0
            arms.add_rating(arm, rating)
            verdicts.add(arm, (rating,))
    verdicts.look(arms.columns, Policy())
    best = best_of(verdicts, arms)
    assert best.leader.tolist() == [0]
    assert best.certified is not None
    assert not best.certified.any()
    assert best.is_over
    assert best.likely_wrong == pytest.approx([0.5], abs=1e-6), "the third response was not met"
    assert verdicts.all_decided


def test_takes_the_orders_effect_out_of_who_is_best() -> None:
    matches = comparisons(2, 1, wants_best=True)
    arms, verdicts = WritableArms(len(matches.space)), verdicts_of(matches, margin=0.0)
    for _ in range(300):
        for arm in range(2):
            rating = 2.0 if arm == 0 else 0.0  # A in first place, B in first place
            arms.add_rating(arm, rating)
            verdicts.add(arm, (rating,))
    verdicts.look(arms.columns, Policy())
    best = best_of(verdicts, arms)
    assert best.certified is not None
    assert not best.certified.any()
    assert not verdicts.all_decided


def test_a_best_is_wrong_by_the_tails_of_its_own_comparisons() -> None:
    matches = comparisons(3, 1, wants_best=True)
    arms = WritableArms(len(matches.space))
    for arm, ratings in enumerate([[2, 2, 1], [2, 1], [2, 2], [2, 0, 1], [], []]):
        for rating in ratings:
            arms.add_rating(arm, float(rating))
    margin = 0.05
    best = best_responses(matches.rivals, arms.columns, margin)

    met = [k for k in range(3) if best.leader[0] in matches.response[k]]
    squares = [2 / 3, 0.5, 0.0, 2.0]
    pooled = [(2 / 3 + 2 / 3) / (3 + 1), (2.5 + 2 / 3) / (3 + 1)]  # of each order
    right = 1.0
    for comparison in met:
        which = [2 * comparison, 2 * comparison + 1]
        if arms.columns.n[which].min() == 0:
            right *= 0.5
            continue
        n = arms.columns.n[which]
        variance = [
            (squares[arm] + 4 * pooled[arm % 2]) / (arms.columns.n[arm] + 3) for arm in which
        ]
        # of points from 0 to 1, and of the mean of two orders
        errors = np.array(variance) / n / 4 / 4
        mean = (arms.columns.total[which] / n / 2).mean()
        ahead = mean if best.leader[0] == matches.response[comparison][0] else 1 - mean
        degrees = errors.sum() ** 2 / (errors**2 / (n + 3)).sum()
        right *= student_t.cdf((ahead - 0.5 + margin) / np.sqrt(errors.sum()), degrees)
    assert len(met) == 2
    assert best.likely_wrong[0] == pytest.approx(1 - right)


def test_as_many_bests_are_wrong_as_a_run_says() -> None:
    """Of noisy verdicts, asked evenly, with the truth known."""
    rng, stated, wrong = np.random.default_rng(3), [], []
    matches = comparisons(3, 400, wants_best=True)
    responses = matches.response
    strength = rng.normal(0.0, 1.2, responses.max() + 1)
    chance = 1 / (1 + np.exp(strength[responses[:, 1]] - strength[responses[:, 0]]))
    for calls in (2, 4):
        arms = WritableArms(len(matches.space))
        for arm in range(len(matches.space)):
            for won in rng.random(calls) < chance[arm // 2]:
                arms.add_rating(arm, 2.0 * won)
        best = best_responses(matches.rivals, arms.columns, 0.025)
        for prompt, leader in zip(best.prompt, best.leader, strict=True):
            met = (matches.prompt == prompt) & (responses == leader).any(axis=1)
            of_leader = np.where(responses[met, 0] == leader, chance[met], 1 - chance[met])
            wrong.append((of_leader < 0.5 - 0.025).any())
        stated += best.likely_wrong.tolist()
    assert 0.7 < np.mean(stated) / np.mean(wrong) < 1.6
