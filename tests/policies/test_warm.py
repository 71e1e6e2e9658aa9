"""Which arm is asked next where an earlier run says how much each varies."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.prior import Warm, prior_variances, warm_policy
from tests.planning.played import play

SCALE = Scale(0, 4)
NAMES = ["robin-hood", "dirichlet", "two-priors"]


@pytest.mark.parametrize("name", NAMES)
def test_learns_of_an_arm_that_the_prior_hid(name: str) -> None:
    # the prior has it the wrong way round: the arm that varies most was said not to vary at all
    steady = [[2], [3], [1, 2], [2, 2, 3], [4, 4, 4, 3]] * 4
    ratings = [[0, 4], *steady]
    prior = np.array([0.0, *(1.0 for _ in steady)])
    policy = warm_policy(name, Setup(len(ratings), 2100, SCALE), prior)
    arms = WritableArms(len(ratings))
    play(policy, ratings, 100 * len(ratings), arms)
    assert arms.counts.argmax() == 0


def test_asks_arms_that_vary_from_the_start() -> None:
    for name in NAMES:
        ratings = [[0, 4, 1, 3]] * 10 + [[2]] * 40
        prior = np.array([2.0] * 10 + [0.1] * 40)
        arms = WritableArms(50)
        play(warm_policy(name, Setup(50, 400, SCALE), prior), ratings, 400, arms)
        assert arms.counts[10:].max() <= 8, name
        assert arms.counts[:10].min() >= 15, name


def test_trusts_a_prior_as_far_as_the_ratings_bear_it_out() -> None:
    rng = np.random.default_rng(3)
    true = rng.gamma(1.0, 1.0, 2000)
    n = np.full(2000, 6.0)
    x = rng.normal(0.0, np.sqrt(3.0 * true)[:, None], (2000, 6))  # on the whole it varies three times as much
    setup = Setup(2000, 50_000, SCALE)

    def fit(prior: FloatArray) -> Warm:
        policy = warm_policy("two-priors", setup, prior)
        assert isinstance(policy, Warm)
        return policy.fitted(n, x.sum(axis=1), (x * x).sum(axis=1))

    assert fit(true).trust > 0.8
    assert 0.3 < float(fit(true + 2 * rng.permutation(true)).trust) < 0.8
    assert fit(rng.permutation(true)).trust < 0.15
    assert 2.5 < float(fit(true).level) < 3.5


def test_a_few_equal_ratings_do_not_say_that_an_arm_never_varies() -> None:
    n, total, total_sq = np.array([2.0, 40.0, 4.0]), np.array([4.0, 80.0, 8.0]), np.array([8.0, 160.0, 32.0])
    few, many, varied = prior_variances(n, total, total_sq)
    assert 0 < many < few < varied


@pytest.mark.parametrize("name", ["uniform", "robin"])
def test_leaves_alone_what_has_no_use_for_a_prior(name: str) -> None:
    setup = Setup(3, 100, SCALE, variances=np.ones(3))
    assert not isinstance(warm_policy(name, setup, np.ones(3)), Warm)


def test_refuses_to_mix_a_prior_with_the_theorem() -> None:
    with pytest.raises(InputError, match="use --mode practice"):
        warm_policy("robin-hood", Setup(3, 10_000, SCALE, mode="theory"), np.ones(3))
