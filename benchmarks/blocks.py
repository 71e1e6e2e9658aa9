"""What blocks cost in error, and several ratings a request: python -m benchmarks.blocks [POOL …].

First, of each policy, its worst error in blocks of a sixty-fourth of the pairs over that of one by one. Then its worst and its
mean error with so many ratings a request over those with one, and the requests over those with one. Means over the sets of
ratings of the pools ± their standard errors, and the worst set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.records import Scale
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.simulation.runs import Ratings, simulate

PAIRS, RUNS = 1_016, 60
OWN = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"
CALLS = {"two-priors": (5, 20, 50), "robin-hood": (30, 50)}
SAMPLES, SAMPLED_RUNS = (2, 5, 10), 20
SAMPLED_CALLS = {"two-priors": (5, 10, 20, 50), "robin-hood": (50,), "uniform": (10,)}
_UNDER_WAY = 32


def scale_of(pool: Pool) -> Scale:
    """Return the scale from the pool's lowest rating to its highest."""
    low, high = (int(end(end(each) for each in pool.ratings)) for end in (min, max))
    return Scale(low, high)


def policy_for(pool: Pool, name: str, pairs: int, a_pair: int) -> Policy:
    """The policy for so many calls a pair of a pool."""
    return make_policy(name, Setup(pairs, a_pair * pairs, scale_of(pool)))


def print_ratios(what: str, pools: Sequence[Pool], errors: FloatArray, others: FloatArray) -> None:
    """Print how the means of ``errors`` compare with those of ``others``, shape (pools, runs) each."""
    ratio = errors.mean(axis=1) / others.mean(axis=1)
    noise = [
        each.std(axis=1, ddof=1) / each.shape[1] ** 0.5 / each.mean(axis=1)
        for each in (errors, others)
    ]
    sem = np.sqrt((ratio**2 * (noise[0] ** 2 + noise[1] ** 2)).sum()) / len(pools)
    print(
        f"{what}: {ratio.mean():.3f} ± {sem:.3f} (worst {ratio.max():.3f} {pools[ratio.argmax()].name})",
        flush=True,
    )


def in_blocks(pools: Sequence[Pool], name: str, a_pair: int) -> None:
    """Compare blocks with one by one."""
    found = []
    for pool in pools:
        ratings = Ratings.of(pool.ratings[:PAIRS])
        pairs = len(ratings.sizes)
        policy, budgets = policy_for(pool, name, pairs, a_pair), [a_pair * pairs]
        made = [
            simulate(ratings, policy, budgets, RUNS, np.random.default_rng(a_pair), block=each)
            for each in (1, None)
        ]
        found.append([each[0].wce for each in made])
    one, blocks = np.array(found).swapaxes(0, 1)
    print_ratios(
        f"{name}, {a_pair} calls a pair, worst error in blocks over one by one", pools, blocks, one
    )


def sampled(
    pool: Pool, name: str, a_pair: int, samples: int, seed: int
) -> tuple[float, float, int]:
    """The worst and the mean error of a run with so many ratings a request, and how many requests it makes."""
    ratings, rng = Ratings.of(pool.ratings[:PAIRS]), np.random.default_rng(seed)
    pairs = len(ratings.sizes)
    arms = WritableArms(pairs)
    planner = Planner(arms, policy_for(pool, name, pairs, a_pair), budget=a_pair * pairs)
    under_way: list[Ticket] = []
    requests = 0
    while not planner.budget.exhausted:
        under_way += planner.plan(_UNDER_WAY - len(under_way), samples)
        told = under_way.pop(int(rng.integers(len(under_way))))
        requests += 1
        planner.tell(told, ratings.draw(np.full(told.calls, told.arm), rng).tolist())
    errors = np.abs(arms.totals / arms.counts - ratings.means)
    return float(errors.max()), float(errors.mean()), requests


def by_samples(pools: Sequence[Pool], name: str, a_pair: int) -> None:
    """Compare several ratings a request with one."""
    found = {
        each: np.array(
            [
                [sampled(pool, name, a_pair, each, seed) for seed in range(SAMPLED_RUNS)]
                for pool in pools
            ]
        )
        for each in (1, *SAMPLES)
    }
    for each in SAMPLES:
        part = found[each][..., 2].mean() / found[1][..., 2].mean()
        for number, which in enumerate(("worst", "mean")):
            what = f"{name}, {a_pair} calls a pair, {each} a request, {part:.2f} of the requests, {which} error"
            print_ratios(what, pools, found[each][..., number], found[1][..., number])


def main(paths: list[Path]) -> None:
    """Print the tables."""
    pools = [pool for path in paths for pool in load_pools(path).values()]
    print(
        f"{len(pools)} sets of up to {PAIRS} pairs; {RUNS} runs in blocks, {SAMPLED_RUNS} with several ratings a request"
    )
    for name, calls in CALLS.items():
        for a_pair in calls:
            in_blocks(pools, name, a_pair)
    for name, calls in SAMPLED_CALLS.items():
        for a_pair in calls:
            by_samples(pools, name, a_pair)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or [OWN])
