"""Wrong and certified decisions of apt and lucb beside an even spread: python -m benchmarks.decisions [POOL …].

Every set of ratings of the pools is decided twice: by a threshold (3 on scales up to 4, else 6) and for the best of four pairs
in a row, or of the groups that the pool names. Two tables: shares in %, means over the sets, and the worst of them.

Pools that say which response of a group is right have tables of their own, "The first call": how often the best by the mean
ratings is the right one, and how often a pair is on the wrong side of a threshold, from one call a response up.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.records import Scale
from robin_cli.settings.table import SimulationSettings
from robin_cli.simulation.experiment import Row, conduct
from robin_cli.simulation.pools import subject_of
from robin_cli.simulation.runs import Ratings

PAIRS, RUNS, CALLS = 1_000, 20, (3, 5, 10, 20, 40)
THRESHOLD, FIRST, SEEDS = "score>=6", (1.0, 1.2, 1.5, 2.0, 3.0, 8.0), 5
OWN = [
    Path(__file__).parent.parent / "configs" / "pools" / f"{name}.parquet"
    for name in ("rewardbench2", "paper_digitised")
]


def grouped(pool: Pool) -> Pool:
    """A pool in groups of four pairs where it has none."""
    return pool if pool.groups is not None else replace(pool, groups=np.arange(len(pool.ratings)) // 4)


def scale_of(pool: Pool) -> Scale:
    """The scale of all its ratings."""
    low, high = (int(end(end(each) for each in pool.ratings)) for end in (min, max))
    return Scale(low, high)


def decided(pool: Pool, decide: str, policy: str) -> list[Row]:
    """The rows of an even spread and of ``policy`` over the first PAIRS pairs, CALLS times as many calls as pairs."""
    budgets = tuple(calls * min(PAIRS, len(pool.ratings)) for calls in CALLS)
    settings = SimulationSettings(schedulers=("uniform", policy), budget=budgets, runs=RUNS, decide=decide, limit=PAIRS)
    return conduct([subject_of(pool, settings, scale_of(pool))], settings, lambda *_: None)


def first_calls(pools: list[Pool]) -> None:
    """Print what is right among the bests, and wrong among the sides of a threshold, of pools that say what is right."""
    for decide, policy, measure in (("best", "lucb", "right"), (THRESHOLD, "apt", "wrong")):
        print(f"\nThe first call, {decide}: {measure} %, {SEEDS} runs, ± one standard error of the draws, simulated")
        print(f"judge  calls a response  even  {policy}  {'less all recorded' if measure == 'right' else 'ratio'}")
        for pool in pools:
            budgets = tuple(round(calls * len(pool.ratings)) for calls in FIRST)
            settings = SimulationSettings(schedulers=("uniform", policy), budget=budgets, runs=SEEDS, decide=decide)
            subject = subject_of(pool, settings, scale_of(pool))
            rows = conduct([subject], settings, lambda *_: None)
            known = [each.item() for each in subject.found_right(Ratings.of(pool.ratings).means[None]).values()]
            for calls, *both in zip(FIRST, rows, rows[len(FIRST) :], strict=False):
                (even, its), (own, sem) = (
                    [100 * each.figure(f"{measure}_{part}") for part in ("mean", "sem")] for each in both
                )
                ratio = f"{own / even:.2f} ± {own / even * np.hypot(its / even, sem / own):.2f}" if own else "0"
                beside = f"{own - 100 * known[0]:+.1f} ± {sem:.1f}" if known else ratio
                print(
                    pool.name, calls, f"{even:.2f} ± {its:.2f}", f"{own:.2f} ± {sem:.2f}", beside, sep="  ", flush=True
                )


def main(pools: list[Path]) -> None:
    """Print the tables of all sets of the pools."""
    there = [pool for path in pools for pool in load_pools(path).values()]
    first_calls([pool for pool in there if pool.right is not None])
    pools_there = [grouped(pool) for pool in there if pool.right is None]
    if not pools_there:
        return
    for what, policy in (("threshold", "apt"), ("best", "lucb")):
        found = []
        for pool in pools_there:
            decide = "best" if what == "best" else f"score>={3 if scale_of(pool).high <= 4 else 6}"
            rows = decided(pool, decide, policy)
            evenly, mine = rows[: len(CALLS)], rows[len(CALLS) :]
            found.append(
                [
                    (
                        *(
                            each.figure(f"{measure}_mean")
                            for measure in ("wrong", "certified", "certified_wrong")
                            for each in (one, other)
                        ),
                        other.figure("calls_mean") / min(PAIRS, len(pool.ratings)),
                    )
                    for one, other in zip(evenly, mine, strict=True)
                ]
            )
            print(what, pool.name, *(f"{100 * each[0]:.2f}/{100 * each[1]:.2f}" for each in found[-1]), flush=True)
        mean = np.mean(found, axis=0)
        worst = np.max([[each[1] / each[0] if each[0] else 0.0 for each in rows] for rows in found], axis=0)
        print(f"\n{what}: {len(pools_there)} sets, {RUNS} runs each, simulated")
        print(
            "calls  uniform wrong  own  ratio (worst set)  certified uniform  own  certified wrong uniform  own  calls spent"
        )
        for calls, each, largest in zip(CALLS, mean, worst, strict=True):
            shares = [f"{100 * share:.2f}" for share in each[:6]]
            print(
                calls, *shares[:2], f"{each[1] / each[0]:.2f} ({largest:.2f})", *shares[2:], f"{each[6]:.1f}", sep="  "
            )


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or OWN)
