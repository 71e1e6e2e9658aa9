"""What blocks and visits cost in error, and the ratings per prompt: python -m benchmarks.blocks [POOL …].

Of each policy, the worst error in blocks of a sixty-fourth of the pairs over that of one by one, and the same with visits.
Means over the sets of ratings of the pools ± their standard errors, and the worst set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robin_cli.data.pools import Pool, load_pools
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.simulate.runs import DrawnRatings, simulate

PAIRS, RUNS = 1_016, 60
OWN = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"
CALLS = {"two-priors": (5, 10, 20, 50), "robin-hood": (30, 50)}


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


WAYS = (
    ("one by one", {"block": 1, "longest_visit": 1}),
    ("blocks", {"longest_visit": 1}),
    ("blocks and visits", {"first_visit": 2}),
)


def in_blocks(pools: Sequence[Pool], name: str, a_pair: int) -> None:
    """Compare blocks, and visits, with one by one."""
    errors, per_prompt = [], []
    for pool in pools:
        ratings = DrawnRatings.from_ratings(pool.ratings[:PAIRS])
        pairs = len(ratings.sizes)
        policy, budget = policy_for(pool, name, pairs, a_pair), a_pair * pairs
        made = [
            simulate(ratings, policy, [budget], RUNS, np.random.default_rng(a_pair), **how)[0]
            for _, how in WAYS
        ]
        errors.append([each.wce for each in made])
        per_prompt.append(budget / made[-1].visits.mean())
    one, *others = np.array(errors).swapaxes(0, 1)
    for (way, _), each in zip(WAYS[1:], others, strict=True):
        what = f"{name}, {a_pair} calls a pair, worst error in {way} over one by one"
        print_ratios(what, pools, each, one)
    print(f"ratings per prompt: {np.mean(per_prompt):.2f} (least {min(per_prompt):.2f})")


def main(paths: list[Path]) -> None:
    """Print the tables."""
    pools = [pool for path in paths for pool in load_pools(path).values()]
    print(f"{len(pools)} sets of up to {PAIRS} pairs; {RUNS} runs each")
    for name, calls in CALLS.items():
        for a_pair in calls:
            in_blocks(pools, name, a_pair)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or [OWN])
