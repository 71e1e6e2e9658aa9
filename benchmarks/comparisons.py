"""How well two systems are compared, by who chooses the calls: python -m benchmarks.comparisons [POOL …].

Systems A and B answered the same prompts, each run those of another sample; their difference is that of all prompts there are.
A pool's systems are the first two responses of each of its groups; worlds are made up of a prompt, a system, a prompt × system
and a judge's noise. "own" is paired by each arm's own variance, moderated as that of decisions, in place of its system's:
what is gained, and lost, by asking on where an arm's own ratings differ. Below a call a response all but paired ask at random.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import COMPARE, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, systems_of
from robin_cli.policies.base import Policy, Setup, flat_variance, per_arm, root
from robin_cli.policies.registry import make_policy
from robin_cli.simulation.forecast import QUANTILES, quantiles
from robin_cli.simulation.runs import Ratings, simulate

CALLS = (0.5, 1, 1.5, 2, 3, 5, 8)
POPULATION = 20_000
SCALE = Scale(0, 4)


@dataclass(frozen=True, slots=True)
class World:
    """Prompts that two systems answered.

    Attributes:
        shares: how often the judge gives each rating, shape (prompts, 2, levels).
    """

    name: str
    scale: Scale
    shares: FloatArray

    @property
    def levels(self) -> FloatArray:
        return np.arange(self.scale.low, self.scale.high + 1, dtype=np.float64)

    @property
    def means(self) -> FloatArray:
        """True means, shape (prompts, 2)."""
        return np.asarray(self.shares @ self.levels)

    @property
    def noise(self) -> float:
        """Variance of a prompt's difference by the judge alone, at one call a response."""
        return float((self.shares @ self.levels**2 - self.means**2).sum(axis=1).mean())

    @property
    def differences(self) -> FloatArray:
        return np.asarray(self.means @ np.array([1.0, -1.0]))


def rounded(means: FloatArray, spread: FloatArray | float) -> FloatArray:
    """Shares of normal variables rounded to SCALE."""
    ends = np.arange(SCALE.low, SCALE.high) + 0.5
    below = stats.norm.cdf(
        (ends - means[..., None]) / np.broadcast_to(spread, means.shape)[..., None]
    )
    zeros, ones = np.zeros((*means.shape, 1)), np.ones((*means.shape, 1))
    return np.asarray(np.diff(np.concatenate([zeros, below, ones], axis=-1), axis=-1))


def flipping(shares: FloatArray, chance: FloatArray | float) -> FloatArray:
    """The same, but with this chance the rating is the lowest."""
    often = np.broadcast_to(chance, shares.shape[:-1])[..., None]
    return np.asarray((1.0 - often) * shares + often * np.eye(shares.shape[-1])[0])


def made_up(rng: np.random.Generator) -> list[World]:
    """Worlds of rounded normal variables, even and uneven noise, at the top of the scale, and with flips to its end."""
    prompts = (POPULATION, 2)
    means = (
        2.6
        + rng.normal(0, 0.8, (POPULATION, 1))
        + rng.normal(0, 0.5, prompts)
        + np.array([0.1, -0.1])
    )
    steady = rounded(np.round(means + 0.6), 0.01)
    wide = np.exp(rng.normal(-0.7, 0.8, prompts))
    odd = np.where(rng.random(prompts) < np.array([0.25, 0.02]), 0.3, 0.0)
    coins = flipping(np.broadcast_to(np.eye(5)[4], (*prompts, 5)), rng.beta(1, 5, prompts))
    coins = np.stack([coins[:, 0], rounded(means, 0.5)[:, 1]], axis=1)
    worlds = {
        "quiet judge": rounded(means, 0.35),
        "noisy judge": rounded(means, 0.8),
        "uneven noise": rounded(means, wide),
        "top of the scale": rounded(means + 1.2, 1.0),
        "A flips rarely": flipping(steady, np.array([0.08, 0.0])),
        "a quarter of A flips": flipping(steady, odd),
        "A jumps between the ends": coins,
    }
    return [World(name, SCALE, shares) for name, shares in worlds.items()]


def of_pool(pool: Pool) -> World | None:
    """The first two responses of each group; None for a pool without groups."""
    if pool.groups is None:
        return None
    first: dict[int, list[int]] = {}
    for pair, group in enumerate(pool.groups.tolist()):
        first.setdefault(group, []).append(pair)
    pairs = np.array([each[:2] for each in first.values() if len(each) > 1])
    scale = Scale(*(int(end(end(each) for each in pool.ratings)) for end in (min, max)))
    counts = np.array(
        [np.bincount(each - scale.low, minlength=scale.levels) for each in pool.ratings]
    )
    return World(pool.name, scale, (counts / counts.sum(axis=1, keepdims=True))[pairs])


@dataclass(frozen=True, slots=True)
class Own(Policy):
    """As paired, by each arm's own variance."""

    paired: Policy
    scale: Scale
    pooled: float | FloatArray = 1.0
    warm_up: int = 1

    @property
    def turn(self) -> IntArray | None:
        return self.paired.turn

    def priority(
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        arm: IntArray,  # noqa: ARG002
    ) -> FloatArray:
        moderated = (total_sq - total * total / n + 4.0 * per_arm(self.pooled, n)) / (n + 3.0)
        variance = root(
            flat_variance(n, total, total_sq, self.scale.low, self.scale.high) * moderated
        )
        return variance / ((n + pending) * (n + pending + 1.0))

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Own:
        squares = total_sq - total * total / np.maximum(n, 1.0)
        even = (self.scale.levels**2 - 1) / 12
        pooled = (squares.sum(axis=-1) + even) / (np.maximum(n - 1.0, 0.0).sum(axis=-1) + 1.0)
        return Own(self.paired, self.scale, pooled)


def policies(systems: Systems, scale: Scale, budget: int) -> dict[str, Policy]:
    """Those compared, by name."""
    setup = Setup(len(systems.space), budget, scale)
    paired = make_policy(
        "auto", Setup(len(systems.space), budget, scale, objective=COMPARE, systems=systems)
    )
    return {
        "paired": paired,
        "uniform": make_policy("uniform", setup),
        "two-priors": make_policy("two-priors", setup),
        "own": Own(paired, scale),
    }


def estimated(scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The paired difference of each run, its standard error and degrees of freedom; ``scores``: (runs, prompts, 2)."""
    apart = scores @ np.array([1.0, -1.0])
    count = np.isfinite(apart).sum(axis=1)
    mean = np.nanmean(apart, axis=1)
    return mean, np.nanstd(apart, axis=1, ddof=1) / np.sqrt(count), count - 1


def allocated(world: World, prompts: int, runs: int) -> None:
    """Print what each policy makes of each budget."""
    rng = np.random.default_rng(1)
    truth, between = float(world.differences.mean()), float(world.differences.var())
    share = world.noise / (world.noise + between)
    print(
        f"\n{world.name}: difference {truth:+.3f}, {100 * share:.0f} % of its variance is the judge's at a call a response"
    )
    chosen = rng.integers(len(world.shares), size=(runs, prompts))
    drawn = world.shares[chosen].reshape(-1, world.scale.levels)
    ratings = Ratings(quantiles(drawn, world.scale), np.full(len(drawn), QUANTILES))
    space = ArmSpace([str(each) for each in range(2 * prompts)], ["a"], ["j"], [world.scale])
    prompt, system = np.divmod(np.arange(2 * prompts), 2)
    systems = systems_of(space, system, "AB", prompt, [str(each) for each in range(prompts)], None)
    budgets = [round(calls * len(space)) for calls in CALLS]
    rows: dict[str, dict[int, FloatArray]] = {}
    for name, policy in policies(systems, world.scale, budgets[-1]).items():
        reached = simulate(ratings, policy, budgets, runs, np.random.default_rng(2), worlds=runs)
        rows[name] = {each.budget: each.estimates.reshape(runs, prompts, 2) for each in reached}
    names = list(rows)
    print(
        f"{'calls a response':>16}  "
        + "  ".join(f"{name + ': error, bias, covers':>32}" for name in names)
    )
    for calls, budget in zip(CALLS, budgets, strict=True):
        cells = []
        for name in names:
            if calls < 1 and name != "paired":
                cells.append(_unpaired(ratings, budget, prompts, runs, truth))
                continue
            mean, error, freedom = estimated(rows[name][budget])
            covered = np.abs(mean - truth) <= stats.t.ppf(0.975, freedom) * error
            cells.append(_told(mean - truth, float(covered.mean())))
        print(f"{calls:16g}  " + "  ".join(f"{cell:>32}" for cell in cells), flush=True)


def _unpaired(ratings: Ratings, budget: int, prompts: int, runs: int, truth: float) -> str:
    """The difference of the means of responses asked about at random, and Welch's interval."""
    rng = np.random.default_rng(3)
    off, covered = [], []
    for run in range(runs):
        pairs = rng.permutation(2 * prompts)[:budget]
        values = ratings.draw(run * 2 * prompts + pairs, rng)
        a, b = values[pairs % 2 == 0], values[pairs % 2 == 1]
        parts = np.array([each.var(ddof=1) / len(each) for each in (a, b)])
        freedom = parts.sum() ** 2 / (parts**2 / (np.array([len(a), len(b)]) - 1)).sum()
        off.append(a.mean() - b.mean() - truth)
        covered.append(abs(off[-1]) <= stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum()))
    return _told(np.array(off), float(np.mean(covered)))


def _told(off: FloatArray, covered: float) -> str:
    """Root of the mean squared error, bias in standard errors with that of itself, and coverage."""
    spread = off.std(ddof=1)
    return f"{np.sqrt((off**2).mean()):.4f}, {off.mean() / spread:+.2f} ± {1 / np.sqrt(len(off)):.2f}, {100 * covered:.1f} %"


def _sampled(world: World, prompts: int, rng: np.random.Generator) -> FloatArray:
    return np.asarray(world.shares[rng.integers(len(world.shares), size=prompts)])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pools", nargs="*", type=Path)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--runs", type=int, default=400)
    asked = parser.parse_args()
    pools = [
        world
        for path in asked.pools
        for pool in load_pools(path).values()
        if (world := of_pool(pool))
    ]
    print(
        f"simulated: {asked.prompts} prompts, {asked.runs} runs; error: root of the mean squared one; bias in standard errors"
    )
    worlds = [*pools, *made_up(np.random.default_rng(0))]
    for world in worlds:
        allocated(world, asked.prompts, asked.runs)


if __name__ == "__main__":
    main()
