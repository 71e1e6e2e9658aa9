"""Wrong decisions beside an even spread, and beside what a run says: python -m benchmarks.decisions [POOL …].

Every set of ratings of the pools is decided twice: by a threshold (3 on scales up to 4, else 6) and for the best of four pairs
in a row, or of the groups that the pool names. First the share that is wrong and the share likely wrong, as a run states
it, for each number of calls; then the calls and the wrong decisions of runs that end once X of them are likely wrong. A table
before these has the worst error of mean ratings over that of who knows the variances.

Pools that say which response of a group is right have tables of their own, "The first call": how often the best by the mean
ratings is the right one, and how often a pair is on the wrong side of a threshold, from one call a response up.
Then every two of their sets decide together, one judge and a second opinion.

Of the other pools, last, how often everything is decided within the calls that a plan says, by a pilot of some calls a pair.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from robin_cli.data.pools import Pool, load_pools
from robin_cli.model.records import Scale
from robin_cli.policies.registry import BASELINE
from robin_cli.simulate.experiment import Row, conduct
from robin_cli.simulate.pools import subject_of
from robin_cli.simulate.settings import SimulationSettings

PAIRS, RUNS, CALLS = 1_000, 5, (1.25, 1.5, 2.0, 2.5, 5.0, 10.0)
OPINIONS = (1.25, 1.5, 2.0)
TARGETS, TARGET_RUNS = (0.05, 0.01), 10
ESTIMATED, ESTIMATES = 300, (3, 5, 10, 20, 50, 100)
THRESHOLD, FIRST, SEEDS = "score>=6", (1.0, 1.2, 1.5, 2.0, 3.0, 8.0), 5
OWN = [
    Path(__file__).parent.parent / "configs" / "pools" / f"{name}.parquet"
    for name in ("rewardbench2", "paper_digitised")
]


def grouped(pool: Pool) -> Pool:
    """A pool in groups of four pairs where it has none."""
    return (
        pool if pool.groups is not None else replace(pool, groups=np.arange(len(pool.ratings)) // 4)
    )


def scale_of(pool: Pool) -> Scale:
    """The scale of all its ratings."""
    low, high = (int(end(end(each) for each in pool.ratings)) for end in (min, max))
    return Scale(low, high)


def decided(
    pool: Pool, decide: str, policy: str, target: float = 0.0, runs: int = RUNS
) -> list[Row]:
    """The rows of ``policy`` over the first PAIRS pairs, CALLS times as many calls as pairs; with a target the last alone."""
    pairs = min(PAIRS, len(pool.ratings))
    settings = SimulationSettings(
        schedulers=(policy,),
        budget=tuple(round(calls * pairs) for calls in (CALLS[-1:] if target else CALLS)),
        runs=runs,
        decide=decide,
        limit=PAIRS,
        target_wrong=target,
    )
    return conduct([subject_of(pool, settings, scale_of(pool))], settings, lambda *_: None)


def first_calls(pools: list[Pool]) -> None:
    """Print what is right among the bests, and wrong among the sides of a threshold, of pools that say what is right."""
    for decide, measure in (("best", "right"), (THRESHOLD, "wrong")):
        print(
            f"\nThe first call, {decide}: {measure} %, {SEEDS} runs, ± one standard error of the draws, simulated"
        )
        print(
            f"judge  calls a response  even  auto  {'less all recorded' if measure == 'right' else 'ratio'}"
        )
        for pool in pools:
            budgets = tuple(round(calls * len(pool.ratings)) for calls in FIRST)
            settings = SimulationSettings(
                schedulers=("uniform", "auto"),
                budget=budgets,
                runs=SEEDS,
                decide=decide,
                target_wrong=0.0,
            )
            subject = subject_of(pool, settings, scale_of(pool))
            rows = conduct([subject], settings, lambda *_: None)
            known = [each.item() for each in subject.found_right(subject.recorded).values()]
            for calls, *both in zip(FIRST, rows, rows[len(FIRST) :], strict=False):
                (even, its), (own, sem) = (
                    [100 * each.figure(f"{measure}_{part}") for part in ("mean", "sem")]
                    for each in both
                )
                ratio = (
                    f"{own / even:.2f} ± {own / even * np.hypot(its / even, sem / own):.2f}"
                    if own
                    else "0"
                )
                beside = f"{own - 100 * known[0]:+.1f} ± {sem:.1f}" if known else ratio
                print(
                    pool.name,
                    calls,
                    f"{even:.2f} ± {its:.2f}",
                    f"{own:.2f} ± {sem:.2f}",
                    beside,
                    sep="  ",
                    flush=True,
                )


def second_opinions(pools: list[Pool]) -> None:
    """Print how often the best is the right one by one judge, and with a second opinion for as many calls."""
    print(
        f"\nA second opinion: right bests, %, {SEEDS} runs, ± one standard error of the draws, simulated\n"
        "first → second  calls a response  first alone  with the second  gain  wrong  likely wrong"
    )
    for first, second in permutations(pools, 2):
        settings = SimulationSettings(
            schedulers=("auto",), runs=SEEDS, decide="best", target_wrong=0.0
        )
        both = subject_of(first, settings, scale_of(first), [second])
        alone = subject_of(first, settings, scale_of(first))
        pairs = both.recorded.size
        settings = replace(settings, budget=tuple(round(each * pairs) for each in OPINIONS))
        rows = conduct([alone, both], settings, lambda *_: None)
        for calls, one, two in zip(OPINIONS, rows, rows[len(OPINIONS) :], strict=False):
            means, errors = (
                [100 * each.figure(f"right_{part}") for each in (one, two)]
                for part in ("mean", "sem")
            )
            cells = [f"{m:.1f} ± {e:.1f}" for m, e in zip(means, errors, strict=True)]
            gain = f"{means[1] - means[0]:+.1f} ± {np.hypot(*errors):.1f}"
            stated = [
                f"{100 * two.figure(f'{name}_mean'):.1f}" for name in ("wrong", "likely_wrong")
            ]
            matchup = f"{first.name} → {second.name}"
            print(matchup, calls, *cells, gain, *stated, sep="  ", flush=True)


def stated_and_true(pools: list[Pool], what: str, policy: str) -> None:
    """Print what is wrong, by an even spread and by ``policy``, and what a run by ``policy`` says about that."""
    print(
        f"\n{what}: {RUNS} runs each, ± one standard error of the draws, %, simulated\n"
        f"set  calls  wrong even  wrong {policy}  likely wrong  stated / true"
    )
    for pool in pools:
        even, ours = (decided(pool, _decide(pool, what), name) for name in (BASELINE, policy))
        for calls, beside, row in zip(CALLS, even, ours, strict=True):
            cells = [
                f"{100 * each.figure(f'{name}_mean'):.2f} ± {100 * each.figure(f'{name}_sem'):.2f}"
                for each, name in ((beside, "wrong"), (row, "wrong"), (row, "likely_wrong"))
            ]
            wrong = row.figure("wrong_mean")
            ratio = f"{row.figure('likely_wrong_mean') / wrong:.2f}" if wrong else "–"
            print(pool.name, calls, *cells, ratio, sep="  ", flush=True)


def ended(pools: list[Pool], what: str, policy: str) -> None:
    """Print the calls a pair, and the wrong decisions, of runs that end once few enough are likely wrong."""
    print(
        f"\n{what}: until X of the decisions are likely wrong, {TARGET_RUNS} runs each, within {CALLS[-1]:g} calls a pair\n"
        "set  X  calls a pair  wrong %"
    )
    for pool in pools:
        pairs = min(PAIRS, len(pool.ratings))
        for target in TARGETS:
            (row,) = decided(pool, _decide(pool, what), policy, target, TARGET_RUNS)
            cells = [
                f"{times * row.figure(f'{name}_mean'):.2f} ± {times * row.figure(f'{name}_sem'):.2f}"
                for name, times in (("calls", 1 / pairs), ("wrong", 100))
            ]
            print(pool.name, target, *cells, sep="  ", flush=True)


def worst_errors(pools: list[Pool]) -> None:
    """Print the worst error of mean ratings over that of a policy that knows the variances."""
    names = (BASELINE, "robin-hood", "two-priors", "robin")
    print(
        f"\nWorst error over the oracle's, geometric means of {len(pools)} sets, {RUNS} runs each, ± over sets, simulated"
    )
    print("calls", *names[:-1], sep="  ")
    found = []
    for pool in pools:
        pairs = min(ESTIMATED, len(pool.ratings))
        settings = SimulationSettings(
            schedulers=names,
            budget=tuple(calls * pairs for calls in ESTIMATES),
            runs=RUNS,
            limit=pairs,
        )
        rows = conduct([subject_of(pool, settings, scale_of(pool))], settings, lambda *_: None)
        found.append(np.log([each.figure("wce_mean") for each in rows]).reshape(len(names), -1))
    logs = np.array(found)
    logs = logs[:, :-1] - logs[:, -1:]
    means, errors = np.exp(logs.mean(axis=0)), logs.std(axis=0, ddof=1) / len(pools) ** 0.5
    for place, calls in enumerate(ESTIMATES):
        cells = [
            f"{m:.2f} ± {m * e:.2f}" for m, e in zip(means[:, place], errors[:, place], strict=True)
        ]
        print(calls, *cells, sep="  ", flush=True)


def _decide(pool: Pool, what: str) -> str:
    return "best" if what == "best" else f"score>={3 if scale_of(pool).high <= 4 else 6}"


def main(pools: list[Path]) -> None:
    """Print the tables of all sets of the pools."""
    there = [pool for path in pools for pool in load_pools(path).values()]
    with_right = [pool for pool in there if pool.right is not None]
    first_calls(with_right)
    second_opinions(with_right)
    pools_there = [grouped(pool) for pool in there if pool.right is None]
    if not pools_there:
        return
    worst_errors(pools_there)
    for what in ("threshold", "best"):
        stated_and_true(pools_there, what, "auto")
        ended(pools_there, what, "auto")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or OWN)
