"""Which arm is asked next where arms are rated on several scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Columns, Setup
from robin_cli.policies.by_scale import ByScale
from robin_cli.policies.registry import make_policy
from tests.session.played import play

SHORT, LONG = Scale(0, 4), Scale(10, 18)


def mixed(arms: int) -> list[tuple[Scale, IntArray]]:
    """Every other arm on the long scale."""
    return [(SHORT, np.arange(0, arms, 2)), (LONG, np.arange(1, arms, 2))]


@given(
    ratings=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=30), min_size=2, max_size=8)
)
def test_asks_as_it_would_on_one_scale_where_ratings_are_the_same_shares(
    ratings: list[list[int]],
) -> None:
    setup = Setup(len(ratings), 1000, SHORT, delta=0.3)
    stretched = [
        [2 * each + 10 for each in mine] if arm % 2 else mine for arm, mine in enumerate(ratings)
    ]

    one = play(make_policy("robin-hood", setup), ratings, 150)
    several = play(
        make_policy("robin-hood", replace(setup, by_scale=mixed(len(ratings)))), stretched, 150
    )

    assert several == one


def test_fits_each_scale_to_its_own_arms_and_weighs_it_by_its_width() -> None:
    rng = np.random.default_rng(7)
    n = np.full(40, 25.0)
    ratings = np.where(
        np.arange(40) % 2, rng.integers(10, 19, (25, 40)), rng.integers(0, 5, (25, 40))
    )
    total, total_sq = ratings.sum(axis=0).astype(float), (ratings**2).sum(axis=0).astype(float)
    setup = Setup(40, 4000, SHORT)
    policy = make_policy("two-priors", replace(setup, by_scale=mixed(40)))
    assert isinstance(policy, ByScale)

    keys = policy.fitted(n, total, total_sq).priority(
        Columns(n, np.zeros(40), total, total_sq, np.arange(40))
    )

    for (scale, mine), width in zip(mixed(40), (4, 8), strict=True):
        own = make_policy("two-priors", replace(setup, arms=20, scale=scale, evidence=8.0))
        assert own.refits
        known = own.fitted(n[mine], total[mine], total_sq[mine])
        by_itself = known.priority(
            Columns(n[mine], np.zeros(20), total[mine], total_sq[mine], np.arange(20))
        )
        np.testing.assert_allclose(keys[mine], by_itself / width**2, rtol=1e-14)


def test_starves_no_scale_whose_first_ratings_agree() -> None:
    # two ratings of each arm of the long scale agree; the arms of the short one have 25 each, and vary
    n = np.where(np.arange(40) % 2, 2.0, 25.0)
    total = np.where(np.arange(40) % 2, 28.0, 50.0)
    total_sq = np.where(np.arange(40) % 2, 392.0, 112.5)
    few = n.copy()
    few[3::2] = 1.0  # but one of them, all are asked once
    policy = make_policy("two-priors", Setup(40, 4000, SHORT, by_scale=mixed(40)))
    assert isinstance(policy, ByScale)

    def keys(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        return policy.fitted(n, total, total_sq).priority(
            Columns(n, np.zeros(40), total, total_sq, np.arange(40))
        )

    once = np.where(few == 1.0, 0.5, 1.0)
    told = keys(few, total * once, total_sq * once)

    # one pair of equal ratings proves nothing of nineteen others
    assert told[3::2].min() > 5 * told[::2].max()
    assert keys(n, total, total_sq)[1::2].max() < told[3::2].min() / 2  # twenty do


def test_knows_each_worlds_own_variances_in_simulation() -> None:
    # three worlds of four arms, as simulate lays them out: arm k of world w is row 4 w + k
    variances = np.arange(1.0, 13.0)
    policy = make_policy("robin", Setup(4, 1000, SHORT, variances=variances, by_scale=mixed(4)))
    rows = np.arange(12).reshape(3, 4)
    ones = np.ones((3, 4))

    keys = policy.priority(Columns(ones, 0 * ones, ones, ones, rows))

    widths = np.array([4.0, 8.0, 4.0, 8.0])
    np.testing.assert_allclose(keys, variances.reshape(3, 4) / widths**2, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "by_scale"), [("two-priors", [(SHORT, np.arange(4))]), ("uniform", mixed(4))]
)
def test_one_scale_and_an_even_spread_need_no_weighing(
    name: str, by_scale: list[tuple[Scale, IntArray]]
) -> None:
    assert not isinstance(make_policy(name, Setup(4, 100, SHORT, by_scale=by_scale)), ByScale)
