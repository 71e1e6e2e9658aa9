"""What several judges say together, against what is true of judges that are made up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.stats.scores import between_judges, spread_between


@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_tells_the_spread_between_judges_from_the_noise_within_one(spread: float) -> None:
    rng = np.random.default_rng(5)
    rows, judges = 20_000, 3
    n = np.array([[4, 9, 25]] * rows)
    true = rng.normal(2.0, spread, (rows, judges))
    noise = np.array([0.5, 1.0, 2.0])
    means = true + rng.normal(0.0, 1.0, (rows, judges)) * np.sqrt(noise / n)
    variances = noise * rng.chisquare(n - 1) / (n - 1)

    between = between_judges(means, variances / n)

    error = between.std(ddof=1) / math.sqrt(rows)
    assert abs(between.mean() - spread**2) < 4 * error
    assert abs(spread_between(between) - spread) < 0.03


@given(
    st.lists(
        st.tuples(st.floats(0, 4), st.floats(0, 4), st.integers(2, 50)), min_size=2, max_size=6
    ),
    st.randoms(),
)
def test_does_not_depend_on_the_order_of_the_judges(
    judges: list[tuple[float, float, int]], random: object
) -> None:
    def scored(listed: list[tuple[float, float, int]]) -> float:
        means, variances, n = (np.array([column]) for column in zip(*listed, strict=True))
        return float(between_judges(means, variances / n)[0])

    shuffled = list(judges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert scored(judges) == pytest.approx(scored(shuffled), abs=1e-9)


def test_does_not_know_the_spread_where_a_judge_has_no_rating() -> None:
    assert math.isnan(
        spread_between(between_judges(np.array([[1.0, np.nan]]), np.array([[0.05, np.nan]])))
    )
