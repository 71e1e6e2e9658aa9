"""The order in which pairs are drawn to be labelled: fair to each, spread over prompts, or prompt by prompt."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from robin_cli.stats.run_labels import drawing_order, evenly


def test_makes_of_a_text_a_number_that_is_always_the_same_and_as_if_drawn_evenly() -> None:
    numbers = evenly(f"prompt {k}" for k in range(5000))
    by_hand = int.from_bytes(hashlib.sha256(b"prompt 7").digest()[:8], "big") / 2**64
    assert numbers[7] == pytest.approx(by_hand, abs=1e-15)
    assert stats.kstest(numbers, "uniform").pvalue > 0.01
    assert abs(stats.pearsonr(numbers[1:], numbers[:-1]).statistic) < 0.05
    assert 0 <= numbers.min() < numbers.max() < 1


def test_draws_no_second_response_to_a_prompt_before_the_first_of_every_other() -> None:
    rng = np.random.default_rng(0)
    prompt = rng.permutation(np.repeat(np.arange(30), 4))
    order = drawing_order(prompt, rng.random(30), rng.random(120), whole=False)
    assert sorted(order.tolist()) == list(range(120))
    for turn in range(4):
        assert set(prompt[order[30 * turn : 30 * (turn + 1)]].tolist()) == set(range(30))


def test_draws_all_responses_to_a_prompt_together_for_differences() -> None:
    rng = np.random.default_rng(0)
    prompt = rng.permutation(np.repeat(np.arange(30), rng.integers(1, 6, 30)))
    of_prompt = rng.random(30)
    drawn = prompt[drawing_order(prompt, of_prompt, rng.random(len(prompt)), whole=True)]
    assert list(dict.fromkeys(drawn.tolist())) == np.argsort(of_prompt).tolist()
    assert np.flatnonzero(np.diff(drawn)).size == 29


@pytest.mark.parametrize("labels", [25, 100, 200])
def test_draws_every_pair_with_one_probability_whatever_the_responses_of_its_prompt(
    labels: int,
) -> None:
    sizes = np.tile([1, 2, 4, 8], 20)
    prompt, rng = np.repeat(np.arange(80), sizes), np.random.default_rng(1)
    times: Counter[int] = Counter()
    for _ in range(4000):
        order = drawing_order(prompt, rng.random(80), rng.random(300), whole=False)
        times.update(order[:labels].tolist())
    share = np.array([times[pair] for pair in range(300)]) / (4000 * labels / 300)
    for size in (1, 2, 4, 8):
        mine = sizes[prompt] == size
        assert share[mine].mean() == pytest.approx(
            1, abs=0.015 + 4 / np.sqrt(4000 * labels * mine.mean())
        )
