"""What rounds cost in error, against one call at a time: python -m benchmarks.rounds [POOL …].

Of each policy, its worst error in rounds over its own one call at a time; of auto, that of what it becomes in rounds over that
of what it becomes without. Below 30 calls a pair, both are two-priors. Then what deciding loses: wrong decisions in rounds and
one call at a time. Means over the sets of ratings of the pools ± their standard errors, and the worst set.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from robin_cli.analysis.court import Court, Snapshot
from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.arms import FloatArray
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.simulation.runs import Ratings, simulate

PAIRS, RUNS, ROUNDS = 1_016, 60, (2, 4, 6)
CALLS = {"auto": (5, 10, 20, 50, 100), "two-priors": (50, 100), "robin-hood": (50,)}
DECIDING = {"sides": (5, 10, 20), "best": (5, 10, 20)}
OWN = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"


def scale_of(pool: Pool) -> Scale:
    """From its lowest rating to its highest."""
    low, high = (int(end(end(each) for each in pool.ratings)) for end in (min, max))
    return Scale(low, high)


def task_of(policy: str, scale: Scale, pairs: int) -> Task:
    """A threshold in the middle of the scale, or the best of four pairs in a row."""
    space = ArmSpace([str(number) for number in range(pairs)], ("score",), ("judge",), (scale,))
    decide = "best" if policy == "best" else f"score>={3 if scale.high <= 4 else 6}"
    decision = decision_of(decide, ("score",), (scale,), margin=None, error_rate=0.05)
    return Task(decision, space, np.arange(pairs) // 4 if policy == "best" else None)


def errors_of(
    pool: Pool, policy: str, calls: Sequence[int], rounds: int | None
) -> list[FloatArray]:
    """The worst error of each run by calls a pair, or the wrong decisions of each in percent; spent to the end."""
    ratings, scale = Ratings.of(pool.ratings[:PAIRS]), scale_of(pool)
    pairs = len(ratings.sizes)
    task = task_of(policy, scale, pairs) if policy in DECIDING else None
    found = []
    for a_pair in calls:
        setup = Setup(pairs, a_pair * pairs, scale, task=task, rounds=rounds)
        rng = np.random.default_rng([a_pair, rounds or 0])
        made: list[Snapshot] = simulate(
            *(
                ratings,
                make_policy("auto" if policy in DECIDING else policy, setup),
                [a_pair * pairs],
                RUNS,
                rng,
            ),
            court=(lambda _: None) if task is None else partial(Court, task),
            rounds=rounds,
        )
        verdict = made[0].verdict
        found.append(made[0].wce if verdict is None else 100 * verdict.wrong)
    return found


def mean_of(
    pools: Sequence[Pool], policy: str, calls: Sequence[int], rounds: int | None
) -> tuple[FloatArray, FloatArray]:
    """The means over the runs and their standard errors, shape (pools, calls) each."""
    found = np.array([errors_of(pool, policy, calls, rounds) for pool in pools])
    return found.mean(axis=2), found.std(axis=2, ddof=1) / RUNS**0.5


def compare(pools: Sequence[Pool], policy: str, calls: Sequence[int]) -> None:
    """Print the errors of a policy in rounds over those of one call at a time."""
    alone, noise = mean_of(pools, policy, calls, None)
    for rounds in ROUNDS:
        error, sem = mean_of(pools, policy, calls, rounds)
        ratio = error / alone
        sems = np.sqrt((ratio**2 * ((sem / error) ** 2 + (noise / alone) ** 2)).sum(axis=0)) / len(
            pools
        )
        cells = (
            f"{a_pair}: {mean:.3f} ± {each:.3f} ({most:.2f} {pools[worst].name})"
            for a_pair, mean, each, most, worst in zip(
                calls,
                ratio.mean(axis=0),
                sems,
                ratio.max(axis=0),
                ratio.argmax(axis=0),
                strict=True,
            )
        )
        print(f"{policy}, {rounds} rounds  ", "  ".join(cells), flush=True)


def decide(pools: Sequence[Pool], policy: str, calls: Sequence[int]) -> None:
    """Print the wrong decisions of a policy in percent, in rounds and one call at a time."""
    for rounds in (*ROUNDS, None):
        wrong, sem = mean_of(pools, policy, calls, rounds)
        noise = np.sqrt((sem**2).sum(axis=0)) / len(pools)
        cells = (
            f"{each}: {at:.2f} ± {pm:.2f}"
            for each, at, pm in zip(calls, wrong.mean(axis=0), noise, strict=True)
        )
        print(f"{policy}, {rounds or 'no'} rounds, wrong in %  ", "  ".join(cells), flush=True)


def main(paths: list[Path]) -> None:
    """Print the tables."""
    pools = [pool for path in paths for pool in load_pools(path).values()]
    print(
        f"{len(pools)} sets of up to {PAIRS} pairs, {RUNS} runs each; error in rounds over one call at a time, by calls a pair"
    )
    for policy, calls in CALLS.items():
        compare(pools, policy, calls)
    for policy, calls in DECIDING.items():
        decide(pools, policy, calls)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or [OWN])
