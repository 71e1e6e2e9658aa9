"""The order's effect by value, and how often its interval holds it."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.model.arms import FloatArray
from robin_cli.stats.clustered import clusters_of, mean_bounds
from robin_cli.stats.ranking import effects_of, order_effects

NAN = np.nan


def test_is_half_of_what_a_wins_more_where_it_comes_first() -> None:
    means = np.array(
        [[[1.0, 0.5], [0.0, 0.5]], [[0.75, 0.0], [0.5, 1.0]], [[1.0, NAN], [NAN, 0.5]]]
    )
    assert effects_of(means) == pytest.approx(
        np.array([[0.5, 0.0], [0.125, -0.5], [NAN, NAN]]), nan_ok=True
    )


def test_counts_each_comparison_with_both_orders_once_and_bounds_the_mean_by_prompt() -> None:
    rng = np.random.default_rng(0)
    means = rng.integers(0, 3, (40, 2, 2)) / 2
    means[:4, 0, 1] = NAN
    prompt = rng.integers(0, 12, 40)
    first, second = order_effects(means, prompt, alpha=0.1)
    each = (means[:, 0] - means[:, 1]) / 2
    for found, values, prompts in ((first, each[:, 0], prompt), (second, each[4:, 1], prompt[4:])):
        assert found.effect == pytest.approx(values.mean())
        bounds = mean_bounds(clusters_of(values, prompts), -0.5, 0.5, alpha=0.1)
        assert (found.ci_low, found.ci_high) == pytest.approx(bounds)
        assert (found.n, found.n_prompts) == (len(values), len(set(prompts.tolist())))


def test_is_unknown_where_no_comparison_has_both_orders() -> None:
    (found,) = order_effects(np.array([[[1.0], [NAN]], [[NAN], [0.0]]]), np.arange(2))
    assert np.isnan([found.effect, found.ci_low, found.ci_high]).all()
    assert (found.n, found.n_prompts) == (0, 0)


def votes(effect: float, prompts: int, rng: np.random.Generator) -> FloatArray:
    """One vote in each order, of responses that differ, where the first place decides twice the effect of all votes."""
    p = rng.beta(1.0, 1.0, prompts)
    first, second = 2 * effect + (1 - 2 * effect) * p, (1 - 2 * effect) * p
    return np.stack([rng.random(prompts) < first, rng.random(prompts) < second], axis=1)[
        :, :, None
    ].astype(np.float64)


@pytest.mark.parametrize("effect", [0.0, 0.48])
def test_holds_a_planted_effect_as_often_as_it_says(effect: float) -> None:
    rng, runs = np.random.default_rng(1), 40
    found = [order_effects(votes(effect, 25, rng), np.arange(25))[0] for _ in range(runs)]
    held = np.mean([one.ci_low <= effect <= one.ci_high for one in found])
    assert held > 0.95 - 2.5 * np.sqrt(0.05 * 0.95 / runs)
    assert np.mean([one.effect for one in found]) == pytest.approx(effect, abs=0.025)
