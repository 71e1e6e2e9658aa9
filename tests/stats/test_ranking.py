"""Rankings of systems: against other ways to the same numbers, and against the truth in simulated tournaments."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import NotConnected
from robin_cli.stats.clustered import clusters_of, mean_bounds
from robin_cli.stats.ranking import effects_of, order_effects, ranking


def tournament(
    strength: FloatArray,
    prompts: int,
    rng: np.random.Generator,
    *,
    per_prompt: int | None = None,
    votes: int = 2,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Preferences of responses whose quality differs by prompt, of all matchups or ``per_prompt`` drawn ones."""
    m = len(strength)
    matchups = np.array([(i, j) for i in range(m) for j in range(i)])
    chosen = [rng.permutation(len(matchups))[:per_prompt] for _ in range(prompts)]
    prompt = np.repeat(np.arange(prompts), [len(each) for each in chosen])
    system = rng.permuted(matchups[np.concatenate(chosen)], axis=1)
    quality = strength + rng.normal(0.0, 0.7, (prompts, m))
    p = expit(quality[prompt, system[:, 0]] - quality[prompt, system[:, 1]])
    return rng.binomial(votes, p) / votes, system, prompt


def design(system: IntArray, systems: int) -> FloatArray:
    """Differences from the last system."""
    rows = np.eye(systems)[system[:, 0]] - np.eye(systems)[system[:, 1]]
    return rows[:, :-1]


def test_finds_strengths_as_a_logistic_regression_does() -> None:
    rng = np.random.default_rng(0)
    y, system, prompt = tournament(np.linspace(1, -1, 5), 40, rng, per_prompt=4)
    rows = design(system, 5)

    def loss(at: FloatArray) -> float:
        return float((np.logaddexp(0.0, rows @ at) - y * (rows @ at)).sum())

    def slope(at: FloatArray) -> FloatArray:
        return np.asarray(rows.T @ (expit(rows @ at) - y))

    reached = optimize.minimize(
        loss, np.zeros(4), jac=slope, method="BFGS", options={"gtol": 1e-9}
    ).x
    strength = np.append(reached, 0.0)
    found = ranking(y, system, prompt, 5)
    assert found.strength == pytest.approx(strength - strength.mean(), abs=1e-7)
    assert found.is_bounded


def test_draws_strengths_together_where_verdicts_chose_who_was_compared_as_optimisation_and_integration_say() -> (
    None
):
    rng = np.random.default_rng(12)
    y, system, prompt = tournament(np.array([0.9, 0.1, -1.0]), 40, rng, per_prompt=2)
    plain, found = ranking(y, system, prompt, 3), ranking(y, system, prompt, 3, were_chosen=True)
    rows = np.eye(3)[system[:, 0]] - np.eye(3)[system[:, 1]]
    p = expit(rows @ plain.strength)
    known = (rows * (p * (1 - p))[:, None]).T @ rows
    apart = plain.difference_error**2
    centre = np.eye(3) - 1 / 3
    # from variances of differences to covariances
    phi = -0.5 * np.trace(known @ centre @ apart @ centre) / 2

    def log_posterior(at: FloatArray, tau: FloatArray) -> FloatArray:
        odds = at @ rows.T
        prior = -(np.log1p((at / tau[:, None]) ** 2) + np.log(tau[:, None])).sum(axis=1)
        return np.asarray((odds @ y - np.logaddexp(0.0, odds).sum(axis=1)) / phi + prior)

    evidence, modes, covariances = [], [], []
    taus = 0.05 * np.sqrt(2.0) ** np.arange(15)
    for tau in taus:

        def loss(at: FloatArray, tau: float = tau) -> float:
            return -float(log_posterior(at[None], np.array([tau]))[0])

        mode = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-6}).x
        p = expit(rows @ mode)
        curved = (rows * (p * (1 - p))[:, None]).T @ rows / phi
        slope = 2 / (tau**2 + mode**2)
        bends = np.maximum((tau**2 - mode**2) / (tau**2 + mode**2), 0.01)
        evidence.append(
            -loss(mode) - 0.5 * np.linalg.slogdet(curved + np.diag(slope))[1] + np.log(tau)
        )
        modes.append(centre @ mode)
        covariances.append(centre @ np.linalg.inv(curved + np.diag(slope * bends)) @ centre)
    weight = np.exp(np.array(evidence) - max(evidence))
    weight /= weight.sum()
    mean = weight @ np.array(modes)
    spread = [c + np.outer(b - mean, b - mean) for b, c in zip(modes, covariances, strict=True)]
    error = np.sqrt(np.diag(np.einsum("t,tij->ij", weight, spread)))
    assert found.strength == pytest.approx(mean, abs=2e-3)
    variance = np.einsum("t,tij->ij", weight, spread)
    of_difference = np.diag(variance)[:, None] + np.diag(variance) - 2 * variance
    assert found.difference_error == pytest.approx(np.sqrt(of_difference), rel=0.01)
    assert found.is_bounded

    draws = 40_000
    tau = rng.uniform(taus[0], taus[-1], draws)
    shape = 2.0 * np.einsum("t,tij->ij", weight, spread) + 0.3 * np.ones((3, 3)) + 0.02 * np.eye(3)
    chosen = stats.multivariate_t(mean, shape, df=4)
    at = chosen.rvs(draws, random_state=rng)
    odds = log_posterior(at, tau) - chosen.logpdf(at)
    share = np.exp(odds - odds.max())
    at = at - at.mean(axis=1, keepdims=True)
    middle = share @ at / share.sum()
    assert found.strength == pytest.approx(middle, abs=0.25 * error.max())
    assert error == pytest.approx(np.sqrt(share @ (at - middle) ** 2 / share.sum()), rel=0.2)


@pytest.mark.parametrize("matchups", [12, 1])
def test_takes_as_errors_what_leaving_out_each_prompt_changes_by_all_equations_at_once(
    matchups: int,
) -> None:
    rng, prompts = np.random.default_rng(5), 60 if matchups > 1 else 300
    y, system, prompt = tournament(np.linspace(0.5, -0.5, 7), prompts, rng, per_prompt=matchups)
    if matchups > 1:  # of some prompts one or two
        kept = rng.random(len(y)) < np.array([1.0, 0.3, 0.1])[prompt % 3]
        y, system, prompt = y[kept], system[kept], prompt[kept]
    found = ranking(y, system, prompt, 7)
    rows, values = np.eye(7)[system[:, 0]] - np.eye(7)[system[:, 1]], found.strength
    p = expit(rows @ values)
    weight = p * (1 - p)
    known = (rows * weight[:, None]).T @ rows
    inverse, groups = np.linalg.pinv(known), np.unique(prompt)
    changes, shares = [], []
    for each in groups:
        mine = prompt == each
        part = (rows[mine] * weight[mine, None]).T @ rows[mine]
        changes.append(np.linalg.pinv(known - part) @ rows[mine].T @ (y - p)[mine])
        shares.append(inverse @ part @ inverse)
    count = len(groups)
    covariance = (count - 1) / count * np.array(changes).T @ np.array(changes) + inverse / count
    contrasts = np.eye(rows.shape[1])[:7, None] - np.eye(rows.shape[1])[None, :7]
    apart, by_two = (
        np.einsum("ijp,...pq,ijq->...ij", contrasts, each, contrasts)
        for each in (covariance, np.array(shares))
    )
    upper = np.triu_indices(7, 1)
    assert found.difference_error[upper] == pytest.approx(np.sqrt(apart)[upper], rel=1e-7)
    freedom = by_two.sum(axis=0)[upper] ** 2 / (by_two**2).sum(axis=0)[upper] - 1
    assert found.freedom[upper] == pytest.approx(freedom, rel=1e-9)
    t = np.abs(np.subtract.outer(values, values)[upper]) / found.difference_error[upper]
    assert found.p[upper] == pytest.approx(2 * stats.t.sf(t, freedom))
    for number, contrast in enumerate(np.eye(7) - 1 / 7):
        parts = contrast @ np.array(shares) @ contrast
        half = stats.t.ppf(0.975, parts.sum() ** 2 / (parts**2).sum() - 1) * np.sqrt(
            contrast @ covariance @ contrast
        )
        ends = (found.ci_low[number], found.ci_high[number])
        assert ends == pytest.approx((values[number] - half, values[number] + half))


def test_needs_memory_for_every_two_systems_and_not_for_every_three() -> None:
    rng, first = np.random.default_rng(6), np.arange(4000) % 200
    system = np.stack([first, (first + rng.integers(1, 200, 4000)) % 200], axis=1)
    y = rng.integers(0, 3, 4000) / 2
    tracemalloc.start()
    try:
        found = ranking(y, system, np.arange(4000) % 20, 200)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.rank >= 1).all()
    assert most < 0.5 * 8 * 200**3


@pytest.mark.parametrize("systems", [2, 3])
def test_is_not_certain_that_systems_are_equal_because_the_judge_goes_by_the_order_alone(
    systems: int,
) -> None:
    matchups = np.array([(i, j) for i in range(systems) for j in range(i)])
    system, prompt = np.tile(matchups, (30, 1)), np.repeat(np.arange(30), len(matchups))
    found = ranking(np.full(len(system), 0.5), system, prompt, systems)
    assert found.strength == pytest.approx(np.zeros(systems), abs=1e-9)
    assert (found.ci_high - found.ci_low > 0.1).all()
    assert (found.win_low < 0.49).all()
    assert (found.win_high > 0.51).all()
    assert (found.rank_high - found.rank_low == systems - 1).all()


def test_takes_alike_verdicts_for_no_more_than_single_votes_where_one_system_wins_all() -> None:
    system = np.repeat([[0, 1], [1, 2], [0, 2]], 60, axis=0)
    found = ranking(np.ones(180), system, np.tile(np.arange(60), 3), 3, were_chosen=True)
    # The first wins 120 of 120: so it does in 26 of 1,000 runs if it wins 97 %.
    assert 0.8 < found.win_low[0] < 0.97
    assert found.win_high[2] == pytest.approx(1.0 - found.win_low[0])


def test_ranges_ranks_by_holms_test_over_the_other_systems() -> None:
    rng = np.random.default_rng(3)
    y, system, prompt = tournament(np.array([1.5, 1.4, 0.0, -1.0, -1.1]), 60, rng)
    found = ranking(y, system, prompt, 5)
    for i in range(5):
        others = [j for j in range(5) if j != i]
        falling = sorted(others, key=lambda j: found.p[i, j])
        better = worse = 0
        for place, j in enumerate(falling):
            if found.p[i, j] * (4 - place) >= 0.05:
                break
            better += found.strength[j] > found.strength[i]
            worse += found.strength[j] < found.strength[i]
        assert (found.rank_low[i], found.rank_high[i]) == (1 + better, 5 - worse)
        assert found.rank_low[i] <= found.rank[i] <= found.rank_high[i]
    assert found.rank_high[0] <= 2 < found.rank_low[2]
    assert sorted(found.rank) == [1, 2, 3, 4, 5]


def test_gives_systems_that_are_equal_the_better_rank() -> None:
    system = np.array([[0, 1], [0, 2], [1, 2]] * 6)
    y = np.tile([0.5, 0.75, 0.75], 6)
    y[:3] = [0.5, 0.25, 0.25]
    found = ranking(y, system, np.repeat(np.arange(6), 3), 3)
    assert found.rank.tolist() == [1, 1, 3]


def test_counts_win_rates_by_matchup_and_bounds_them_as_means_by_prompt() -> None:
    rng = np.random.default_rng(4)
    y, system, prompt = tournament(np.array([0.5, 0.0, -0.5]), 25, rng)
    found = ranking(y, system, prompt, 3)
    mine = (np.sort(system, axis=1) == [0, 2]).all(axis=1)
    for_first = np.where(system[mine, 0] == 0, y[mine], 1 - y[mine])
    low, high = mean_bounds(clusters_of(for_first, prompt[mine]), 0.0, 1.0, alpha=0.05)
    rates = found.rates(range(3))
    assert rates.rate[0, 2] == pytest.approx(for_first.mean())
    assert (rates.ci_low[0, 2], rates.ci_high[0, 2]) == pytest.approx((low, high))
    assert (rates.ci_low[2, 0], rates.ci_high[2, 0]) == pytest.approx((1 - high, 1 - low))
    assert rates.n[0, 2] == rates.n_prompts[2, 0] == 25
    assert np.isnan(np.diag(rates.rate)).all()


def test_gives_a_system_the_mean_of_its_chances_against_the_others() -> None:
    rng = np.random.default_rng(5)
    y, system, prompt = tournament(np.array([0.5, 0.0, -0.5]), 40, rng)
    found = ranking(y, system, prompt, 3)
    chances = expit(found.strength[:, None] - found.strength)
    assert found.win_rate == pytest.approx((chances.sum(axis=1) - 0.5) / 2)
    assert (found.win_low < found.win_rate).all()
    assert (found.win_rate < found.win_high).all()


def test_says_of_two_systems_what_their_votes_say() -> None:
    rng = np.random.default_rng(6)
    y, system, prompt = tournament(np.array([0.5, -0.5]), 30, rng)
    found = ranking(y, system, prompt, 2)
    for_first = np.where(system[:, 0] == 0, y, 1 - y)
    assert found.strength[0] - found.strength[1] == pytest.approx(
        np.log(for_first.mean() / (1 - for_first.mean()))
    )
    assert found.win_rate[0] == pytest.approx(for_first.mean())
    assert (found.win_low[0], found.win_high[0]) == pytest.approx(
        mean_bounds(clusters_of(for_first, prompt), 0.0, 1.0, alpha=0.05)
    )
    assert (found.rank_high[0] == 1) == (found.win_low[0] > 0.5)
    odds = np.log(np.array([found.win_low, found.win_high])) - np.log1p(
        -np.array([found.win_low, found.win_high])
    )
    assert np.array([found.ci_low, found.ci_high]) == pytest.approx(odds / 2)


def test_counts_and_leaves_out_what_has_no_preference_or_is_of_one_system() -> None:
    rng = np.random.default_rng(7)
    y, system, prompt = tournament(np.array([0.5, 0.0, -0.5]), 20, rng)
    more = ranking(
        np.append(y, [np.nan, np.nan, 1.0]),
        np.concatenate([system, [[0, 1], [1, 2], [2, 2]]]),
        np.append(prompt, [77, 78, 79]),
        3,
    )
    plain = ranking(y, system, prompt, 3)
    assert more.n_without == 2
    assert more.n_comparisons == plain.n_comparisons == 60
    assert more.n_prompts == 20
    assert more.strength == pytest.approx(plain.strength)
    assert more.ci_low == pytest.approx(plain.ci_low)


def test_does_not_change_where_a_and_b_are_called_the_other_way_round() -> None:
    rng = np.random.default_rng(8)
    y, system, prompt = tournament(np.array([0.5, 0.0, -0.5]), 20, rng, per_prompt=2)
    swap = rng.random(len(y)) < 0.5
    one = ranking(y, system, prompt, 3)
    other = ranking(
        np.where(swap, 1 - y, y), np.where(swap[:, None], system[:, ::-1], system), prompt, 3
    )
    assert one.strength == pytest.approx(other.strength)
    assert one.win_low == pytest.approx(other.win_low)


def test_says_which_systems_were_never_compared_with_which() -> None:
    system = np.array([[0, 1], [2, 3], [1, 0], [3, 2]])
    with pytest.raises(NotConnected) as caught:
        ranking(np.array([1.0, 0.5, 1.0, 0.0]), system, np.arange(4), 5)
    assert caught.value.parts == [[0, 1], [2, 3], [4]]


def test_is_not_sure_of_a_system_that_never_lost() -> None:
    system = np.array([[0, 1], [0, 2], [1, 2]] * 12)
    y = np.tile([1.0, 1.0, 0.5], 12)
    found = ranking(y, system, np.repeat(np.arange(12), 3), 3)
    assert not found.is_bounded
    assert np.isfinite(found.strength).all()
    assert found.ci_high[0] - found.ci_low[0] > 2.0
    assert found.rank.tolist() == [1, 2, 2]


@pytest.mark.parametrize("kind", ["one prompt", "a system of one comparison"])
def test_rules_out_nothing_by_a_single_prompt(kind: str) -> None:
    system = np.array([[0, 1], [0, 1], [1, 2], [0, 2]] * 5)
    y = np.tile([1.0, 0.75, 1.0, 1.0], 5)
    y[0] = 0.0
    prompt = np.zeros(20, dtype=np.int64)
    if kind != "one prompt":
        system, prompt = np.array([[0, 1]] * 19 + [[1, 2]]), np.arange(20)
        y = np.where(np.arange(20) % 4, 1.0, 0.0)
        y[-1] = 0.5
    found = ranking(y, system, prompt, 3)
    assert (found.rank_low[2], found.rank_high[2]) == (1, 3)
    assert not found.ci_high[2] - found.ci_low[2] < 3.0


@pytest.mark.parametrize(("systems", "prompts", "per_prompt"), [(3, 15, None), (4, 20, 2)])
def test_holds_the_truth_as_often_as_it_says(
    systems: int, prompts: int, per_prompt: int | None
) -> None:
    rng, runs = np.random.default_rng(systems), 150
    strength = np.zeros(systems)  # equal in truth, by whatever model
    held = ranks = 0.0
    for _ in range(runs):
        found = ranking(*tournament(strength, prompts, rng, per_prompt=per_prompt), systems)
        held += ((found.ci_low <= 0) & (found.ci_high >= 0)).mean()
        ranks += (found.rank_low == 1).mean()
    room = 2.5 * np.sqrt(0.05 * 0.95 / runs)
    assert held / runs > 0.95 - room
    assert ranks / runs > 0.95 - room


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
