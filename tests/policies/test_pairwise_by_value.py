"""robin chooses comparisons by the numbers that its formulas say: each against sums written out, one comparison at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from robin_cli.policies.base import Columns, Setup, flat_variance
from robin_cli.policies.bradley_terry import PRIOR, fit
from robin_cli.policies.duels import Duels
from robin_cli.policies.matches import Matches
from robin_cli.policies.tournament import Tournament
from tests.policies.test_matches import matches, tournament
from tests.session.played import sums

LEVELS, WIDTH = 3, 2.0
EVEN = (LEVELS**2 - 1) / 12


def asked(
    seed: int, *, systems: int, prompts: int, judges: int, wants_best: bool
) -> tuple[Matches, list[list[float]]]:
    """Comparisons, and the ratings of each of their arms; of some of them none."""
    found = matches(tournament(systems, prompts), judges=judges, wants_best=wants_best)
    rng = np.random.default_rng(seed)
    begun = rng.random(len(found)) < 0.7
    return found, [
        rng.integers(0, LEVELS, rng.integers(0 if rng.random() < 0.1 else 1, 5))
        .astype(float)
        .tolist()
        if begun[pair]
        else []
        for pair in found.space.pair
    ]


def squares(ratings: list[float]) -> float:
    return float(((np.array(ratings) - np.mean(ratings)) ** 2).sum())


def flat(ratings: list[float]) -> float:
    n, total, total_sq = (np.array([float(sum(x**power for x in ratings))]) for power in (0, 1, 2))
    return float(flat_variance(n, total, total_sq, 0, LEVELS - 1)[0])


@pytest.mark.parametrize("seed", range(6))
def test_asks_duels_of_the_likeliest_best_against_its_nearest_rival(seed: int) -> None:
    found, ratings = asked(seed, systems=4, prompts=4, judges=1 + seed % 2, wants_best=True)
    margin = 0.05
    setup = Setup(len(ratings), 100, found.space.scales[0], matches=found, margin=margin)
    policy = Duels.from_setup(setup).fitted(*sums(ratings))
    contests, nothing = policy.contests, np.zeros(len(ratings))

    n, total, total_sq = (np.where(contests >= 0, each[contests], 0.0) for each in sums(ratings))
    told = policy.priority(
        Columns(n, np.where(contests >= 0, nothing[contests], 0.0), total, total_sq, contests)
    )

    freedom = sum(len(each) - 1 for each in ratings if each)
    pooled = (sum(squares(each) for each in ratings if each) / WIDTH**2 + EVEN / WIDTH**2) / (
        freedom + 1
    )
    assert policy.pooled == pytest.approx(pooled * WIDTH**2)
    for prompt, members in enumerate(contests):
        comparisons = [arms for arms in members if arms[0] >= 0]
        mean, error, whole = [], [], []
        for arms in comparisons:
            of_arms = [ratings[arm] for arm in arms]
            rated = [each for each in of_arms if each]
            own = np.mean([flat(each) for each in rated]) / WIDTH**2 if rated else EVEN / WIDTH**2
            free = sum(len(each) - 1 for each in rated)
            variance = np.sqrt(
                own * (sum(map(squares, rated)) / WIDTH**2 + 4 * pooled) / (free + 4)
            )
            whole.append(len(rated) == len(arms))
            mean.append(
                np.mean([np.mean(each) / WIDTH for each in of_arms]) - 0.5 if whole[-1] else 0.0
            )
            each_error = [variance / max(len(each), 1) for each in of_arms]
            error.append(sum(each_error) / len(arms) ** 2 if rated else variance)
        sides = [
            policy.matches.rivals.side[prompt][place].tolist() for place in range(len(comparisons))
        ]
        chance = {response: 0.0 for side in sides for response in side}
        for (a, b), m, e in zip(sides, mean, error, strict=True):
            z = 1.702 * m / np.sqrt(e)
            chance[a] -= np.log1p(np.exp(-z))
            chance[b] -= np.log1p(np.exp(z))
        lead = max(chance, key=lambda response: (round(chance[response], 12), -response))
        for place, (arms, (a, b)) in enumerate(zip(comparisons, sides, strict=True)):
            made = [len(ratings[arm]) for arm in arms]
            if any(made) and not whole[place]:
                assert all(
                    told[prompt, place][k] > 1.0 for k, calls in enumerate(made) if not calls
                )
                continue
            ahead = max((mean[place] if a == lead else -mean[place]) + margin, 1e-3)
            doubt = error[place] / ahead**2 if lead in (a, b) else 0.0
            assert told[prompt, place] == pytest.approx([doubt / (1 + calls) for calls in made]), (
                prompt,
                place,
            )


@pytest.mark.parametrize("seed", range(4))
def test_asks_a_tournament_by_what_a_comparison_tells_of_every_two_systems(seed: int) -> None:
    found, ratings = asked(seed, systems=4, prompts=6, judges=1, wants_best=False)
    policy = Tournament.from_setup(
        Setup(len(ratings), 100, found.space.scales[0], matches=found)
    ).fitted(*sums(ratings))
    m, arms = len(found.names), found.space.by_pair(np.arange(len(ratings)))
    whole = [pair for pair in range(len(found)) if all(ratings[arm] for arm in arms[pair])]
    preference = {
        pair: np.mean([np.mean(ratings[arm]) / WIDTH for arm in arms[pair]]) for pair in whole
    }

    wins = np.full((m, m), 0.5 * PRIOR)
    np.fill_diagonal(wins, 0.0)
    for pair, share in preference.items():
        a, b = found.system[pair]
        wins[a, b] += share
        wins[b, a] += 1 - share
    strength = fit(wins).values
    p = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    known = np.zeros((m, m))
    for i, j in combinations(range(m), 2):
        e = np.eye(m)[i] - np.eye(m)[j]
        known += (wins[i, j] + wins[j, i]) * p[i, j] * p[j, i] * np.outer(e, e)
    inverse = np.linalg.pinv(known)
    expected = [p[tuple(found.system[pair])] for pair in whole]
    scatter = (
        sum((preference[pair] - e) ** 2 for pair, e in zip(whole, expected, strict=True))
        + 16 * 0.25 * 0.6
    )
    phi = scatter / (sum(e * (1 - e) for e in expected) + 16 * 0.25)

    def of_difference(i: int, j: int) -> float:
        return float(inverse[i, i] + inverse[j, j] - 2 * inverse[i, j])

    def gain(k: int, other: int) -> float:
        found_gain = 0.0
        for i, j in combinations(range(m), 2):
            s2 = phi * of_difference(i, j)
            h = 1 / (s2 * (1 + abs(strength[i] - strength[j]) / np.sqrt(s2)) ** 3)
            moves = inverse[i, k] - inverse[i, other] - inverse[j, k] + inverse[j, other]
            found_gain += h * float(moves) ** 2
        return float(phi * p[k, other] * p[other, k] * found_gain)

    again_squares = sum(squares(each) for each in ratings if len(each) > 1) / WIDTH**2
    v = (
        (again_squares + EVEN / WIDTH**2)
        / (sum(len(each) - 1 for each in ratings if len(each) > 1) + 1)
        / 2
    )
    order = sorted(range(len(found)), key=lambda pair: found.rank[pair])
    for pair in range(len(found)):
        k, other = sorted(found.system[pair])
        alike = [each for each in order if sorted(found.system[each]) == [k, other]]
        before = alike[: alike.index(pair)]
        falls = p[k, other] * p[other, k] * of_difference(k, other)
        noise = min(v / (phi * p[k, other] * p[other, k]), 1.0)
        turn = [1 - 1e-9 * found.turn[arm] / len(ratings) for arm in arms[pair]]
        left, done = (
            sum(each not in whole for each in before),
            sum(each in whole for each in before),
        )
        if pair in whole:
            all_left = sum(each not in whole for each in alike)
            wanted = gain(k, other) * noise / (1 + falls * (all_left + noise * done)) ** 2
            assert policy.again[arms[pair]] == pytest.approx([wanted * each for each in turn]), pair
        elif not any(ratings[arm] for arm in arms[pair]):
            assert policy.fresh[arms[pair]] == pytest.approx(
                [gain(k, other) / (1 + falls * left) ** 2 * each for each in turn]
            )


def test_asks_the_matchups_of_a_tournament_evenly_where_systems_go_in_a_circle() -> None:
    found = matches(tournament(4, 60))
    beats = {("s0", "s1"), ("s1", "s2"), ("s2", "s0"), ("s0", "s3"), ("s1", "s3"), ("s2", "s3")}
    matchups, matchup = found.opponents
    asked_of = np.array([10 + 5 * place for place in range(len(matchups))])
    ratings: list[list[float]] = [[] for _ in range(len(found.space))]
    for pair in range(len(found)):
        if found.place[pair] < asked_of[matchup[pair]]:
            a, b = (found.names[system] for system in found.system[pair])
            for arm in found.space.arms_of_pair(pair):
                ratings[arm] = [2.0 if (a, b) in beats else 0.0]
    setup = Setup(len(ratings), 100, found.space.scales[0], matches=found)
    fresh = Tournament.from_setup(setup).fitted(*sums(ratings)).fresh
    whole = np.array([bool(each) for each in ratings])
    first = np.argsort(-np.where(whole, -np.inf, fresh), kind="stable")[: 2 * 15]
    order = matchup[found.space.pair[first]][::2]
    # the matchup with the fewest comparisons is filled up to the next, and then they take turns
    assert order[:5].tolist() == [0] * 5
    assert sorted(order[5:7].tolist()) == [0, 1]
    assert np.bincount(order, minlength=2)[:2].tolist() == [10, 5]
