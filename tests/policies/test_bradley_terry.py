"""Strengths by Bradley and Terry: against another package's, by their equations, and where votes alone would make none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from robin_cli.policies.bradley_terry import (
    NotConnected,
    fit,
    information,
    win_chances,
    wins_of,
    with_prior,
)


def drawn(
    systems: int, votes: int, seed: int
) -> tuple[list[int], list[int], list[Any], list[float]]:
    """Votes with ties, of weights."""
    import evalica

    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 0.8, systems)
    a = rng.integers(0, systems, votes)
    b = (a + rng.integers(1, systems, votes)) % systems
    is_a = rng.random(votes) < expit(strength[a] - strength[b])
    winners = [
        evalica.Winner.Draw if tied else evalica.Winner.X if first else evalica.Winner.Y
        for tied, first in zip(rng.random(votes) < 0.3, is_a, strict=True)
    ]
    return a.tolist(), b.tolist(), winners, rng.uniform(0.2, 3.0, votes).tolist()


def test_finds_the_strengths_that_evalica_does() -> None:
    import evalica

    for has_ties in (True, False):
        for has_weights in (True, False):
            for systems, votes in ((2, 60), (5, 300), (20, 4000)):
                a, b, winners, weights = drawn(systems, votes, systems)
                if not has_ties:
                    winners = [
                        evalica.Winner.X if each is evalica.Winner.Draw else each
                        for each in winners
                    ]
                points = [
                    1.0 if each is evalica.Winner.X else 0.5 if each is evalica.Winner.Draw else 0.0
                    for each in winners
                ]
                weight = np.array(weights) if has_weights else np.ones(votes)
                theirs = evalica.bradley_terry(
                    a, b, winners, weights=weight.tolist(), tolerance=1e-13, limit=100_000
                )
                scores = np.log(theirs.scores.sort_index().to_numpy())
                wins = np.zeros((systems, systems))
                np.add.at(wins, (a, b), weight * points)
                np.add.at(wins, (b, a), weight * (1 - np.array(points)))
                found = fit(wins)
                assert found.is_bounded, (has_ties, has_weights, systems)
                assert found.values == pytest.approx(scores - scores.mean(), abs=1e-6), (
                    has_ties,
                    has_weights,
                    systems,
                )


def test_counts_comparisons_as_votes_of_which_each_side_has_its_part() -> None:
    wins = wins_of(np.array([0.25, 1.0, 0.5]), np.array([[0, 1], [1, 0], [2, 1]]), 3)
    assert wins.tolist() == [[0, 0.25, 0], [1.75, 0, 0.5], [0, 0.5, 0]]


@given(st.integers(2, 9), st.integers(0, 10_000), st.floats(0.5, 1e5))
def test_expects_of_each_system_as_many_wins_as_it_has(
    systems: int, seed: int, votes: float
) -> None:
    rng = np.random.default_rng(seed)
    wins = (
        votes
        * rng.uniform(0.0, 1.0, (systems, systems)) ** 3
        * (rng.random((systems, systems)) < 0.8)
    )
    wins += np.diag(np.ones(systems - 1), 1) + np.diag(np.ones(systems - 1), -1)
    found = fit(wins)
    np.fill_diagonal(wins, 0.0)
    expected = ((wins + wins.T) * expit(found.values[:, None] - found.values)).sum(axis=1)
    assert found.is_bounded
    assert abs(found.values.mean()) < 1e-9
    assert expected == pytest.approx(wins.sum(axis=1), rel=1e-7, abs=1e-7)


def test_takes_half_a_tie_for_each_side_where_a_system_never_lost_and_says_so() -> None:
    wins = np.array([[0.0, 4.0, 5.0], [0.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    found = fit(wins)
    assert not found.is_bounded
    with_ties = np.array([[0, 4.25, 5.25], [0.25, 0, 3.25], [0.25, 2.25, 0]])
    assert with_prior(wins) == pytest.approx(with_ties)
    assert found.values == pytest.approx(fit(with_ties).values)


def test_asks_for_no_prior_where_wins_go_round() -> None:
    wins = np.roll(np.eye(4), 1, axis=1)
    assert fit(wins).is_bounded
    assert fit(wins).values == pytest.approx(np.zeros(4))


def test_says_which_systems_no_chain_of_comparisons_connects() -> None:
    wins = np.zeros((5, 5))
    wins[0, 3] = wins[1, 2] = 1.0
    with pytest.raises(NotConnected) as caught:
        fit(wins)
    assert caught.value.parts == [[0, 3], [1, 2], [4]]


def test_finds_strengths_that_are_far_apart_and_of_millions_of_votes() -> None:
    wins = np.zeros((6, 6))
    for each in range(5):
        wins[each, each + 1], wins[each + 1, each] = 1e6, 1.0
    assert -np.diff(fit(wins).values) == pytest.approx(np.full(5, np.log(1e6)), rel=1e-9)


def test_knows_as_much_of_strengths_as_the_likelihood_bends() -> None:
    rng = np.random.default_rng(0)
    wins, at = rng.uniform(1, 5, (3, 3)), np.array([0.4, -0.1, -0.3])
    votes = wins + wins.T

    def slope(
        strength: np.ndarray[tuple[int], np.dtype[np.float64]],
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        each = wins - votes * win_chances(strength)
        np.fill_diagonal(each, 0.0)
        return np.asarray(each.sum(axis=1))

    bends = [(slope(at - 1e-5 * unit) - slope(at + 1e-5 * unit)) / 2e-5 for unit in np.eye(3)]
    assert information(votes, win_chances(at)) == pytest.approx(np.array(bends), abs=1e-6)
