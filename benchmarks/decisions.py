"""Wrong and certified decisions beside an even spread: python -m benchmarks.decisions [POOL …].

Every set of ratings of the pools is decided twice: by a threshold (3 on scales up to 4, else 6) and for the best of four pairs
in a row, or of the groups that the pool names: wrong and certified decisions in %, means over the sets. A table before these
has the worst error of mean ratings over that of who knows the variances.

Pools that say which response of a group is right have tables of their own, "The first call": how often the best by the mean
ratings is the right one, and how often a pair is on the wrong side of a threshold, from one call a response up.

Of the other pools, last, how often everything is decided within the calls that a plan says, by a pilot of some calls a pair.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy
from robin_cli.policies.registry import BASELINE, make_policy
from robin_cli.settings.table import SimulationSettings
from robin_cli.simulation.experiment import Row, World, conduct
from robin_cli.simulation.forecast import (
    SHARE_WITHIN,
    Known,
    Needed,
    RatingsBelief,
    calls_to_the_end,
    foresee,
)
from robin_cli.simulation.pools import subject_of
from robin_cli.simulation.runs import Ratings, simulate

PAIRS, RUNS, CALLS = 1_000, 5, (3, 5, 10, 15, 20, 40)
ESTIMATED, ESTIMATES = 300, (3, 5, 10, 20, 50, 100)
THRESHOLD, FIRST, SEEDS = "score>=6", (1.0, 1.2, 1.5, 2.0, 3.0, 8.0), 5
PILOTS, ENDS = 3, 8
ENDED = (
    ("threshold", 200, 0),
    ("threshold", 200, 3),
    ("threshold", 200, 10),
    ("threshold", 1_000, 3),
    ("best", 80, 3),
)
"""What is decided, of how many pairs, with pilots of how many calls a pair."""
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


def decided(pool: Pool, decide: str, policy: str) -> list[Row]:
    """The rows of ``policy`` over the first PAIRS pairs, CALLS times as many calls as pairs."""
    budgets = tuple(calls * min(PAIRS, len(pool.ratings)) for calls in CALLS)
    settings = SimulationSettings(
        schedulers=(policy,), budget=budgets, runs=RUNS, decide=decide, limit=PAIRS
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
                schedulers=("uniform", "auto"), budget=budgets, runs=SEEDS, decide=decide
            )
            subject = subject_of(pool, settings, scale_of(pool))
            rows = conduct([subject], settings, lambda *_: None)
            known = [
                each.item()
                for each in subject.found_right(Ratings.of(pool.ratings).means[None]).values()
            ]
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


def wrong_and_certified(pools: list[Pool], what: str, policy: str) -> None:
    """Print what is wrong, and what is certified, by an even spread and by ``policy``."""
    figures = np.array(
        [_figures_of(pool, what, policy) for pool in pools]
    )  # (sets, ways, budgets, mean or error, measure)
    means = 100 * figures[..., 0, :].mean(axis=0)
    errors = 100 * np.sqrt((figures[..., 1, :] ** 2).sum(axis=0)) / len(pools)
    worst = 100 * figures[:, :, :, 0, 2].max(axis=(0, 1))
    print(
        f"\n{what}: {len(pools)} sets, {RUNS} runs each, ± one standard error of the draws, %, simulated"
    )
    print(f"calls  wrong even  {policy}  certified even  {policy}  wrong of these (worst set)")
    for place, calls in enumerate(CALLS):
        cells = [
            f"{means[way, place, each]:.3f} ± {errors[way, place, each]:.3f}"
            for each in (0, 1)
            for way in range(2)
        ]
        print(
            calls,
            *cells,
            f"{means[:, place, 2].max():.3f} ({worst[place]:.3f})",
            sep="  ",
            flush=True,
        )


def _figures_of(pool: Pool, what: str, policy: str) -> list[list[list[list[float]]]]:
    """Means and standard errors of each way at each budget, see :func:`wrong_and_certified`."""
    ways = [decided(pool, _decide(pool, what), name) for name in (BASELINE, policy)]
    return [
        [
            [
                [row.figure(f"{each}_{part}") for each in ("wrong", "certified", "certified_wrong")]
                for part in ("mean", "sem")
            ]
            for row in rows
        ]
        for rows in ways
    ]


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


def ends(pools: list[Pool]) -> None:
    """Print in how many runs everything is decided within the calls to the end that are forecast by a pilot."""
    print(
        f"\nTo the end: runs within the calls that are forecast (nominal {SHARE_WITHIN:g}), forecast over true, simulated"
    )
    for what, pairs, pilot in ENDED:
        held, ratio, beyond = [], [], 0
        for pool in pools:
            for seed in range(PILOTS):
                forecast, true = _to_the_end(pool, what, pairs, pilot, np.random.default_rng(seed))
                if forecast is None or forecast.relation != "about":
                    beyond += 1
                    continue
                held.append(float((true <= forecast.calls).mean()))
                ratio.append(forecast.calls / float(true.mean()))
        (within, error), (over, its) = (
            (np.mean(each), np.std(each) / len(each) ** 0.5) for each in (held, ratio)
        )
        print(
            f"{what}, pilot of {pilot}: {within:.3f} ± {error:.3f}, {over:.2f} ± {its:.2f}; {len(held)} pilots of "
            f"{pairs} pairs, and {beyond} with no end in sight",
            flush=True,
        )


def _to_the_end(
    pool: Pool, what: str, pairs: int, pilot: int, rng: np.random.Generator
) -> tuple[Needed | None, FloatArray]:
    """The calls to the end that a pilot of some of the pairs lets forecast, and those of runs of the same pairs."""
    scale, group = scale_of(pool), np.arange(len(pool.ratings))
    if what == "best" and pool.groups is not None:
        group = pool.groups
    sizes = np.bincount(group)
    order = rng.permutation(len(sizes))
    kept = np.flatnonzero(
        np.isin(group, order[: np.searchsorted(sizes[order].cumsum(), pairs) + 1])
    )
    part = replace(
        pool,
        ratings=tuple(pool.ratings[each] for each in kept),
        groups=np.unique(group[kept], return_inverse=True)[1],
    )
    settings = SimulationSettings(decide=_decide(pool, what))
    goal, truth, arms = subject_of(part, settings, scale).goal, Ratings.of(part.ratings), len(kept)
    own = {each: getattr(settings, each) for each in ("delta", "mode", "objective", "margin")}
    drawn = truth.draw(np.repeat(np.arange(arms)[:, None], pilot, axis=1), rng)
    counts = np.stack(
        [(drawn == level).sum(axis=1) for level in range(scale.low, scale.high + 1)], axis=1
    )
    attribute = pool.name.rpartition("/")[2]
    belief = RatingsBelief(
        [Known.of(counts, rng) if pilot else Known.nothing(arms, scale, attribute)], goal
    )

    def policy_at(budget: int, _: object, goal: Goal) -> Policy:
        return make_policy("auto", goal.setup(own, budget))

    forecast = foresee(
        belief, policy_at, [max(1, pilot) * arms], rng, end_spread=belief.end_spread
    ).end
    most = calls_to_the_end(arms)
    (whole,) = simulate(truth, policy_at(most, None, goal), [most], ENDS, rng, court=goal.court)
    return forecast, World(truth, goal).measured(whole)["calls"]


def _decide(pool: Pool, what: str) -> str:
    return "best" if what == "best" else f"score>={3 if scale_of(pool).high <= 4 else 6}"


def main(pools: list[Path]) -> None:
    """Print the tables of all sets of the pools."""
    there = [pool for path in pools for pool in load_pools(path).values()]
    first_calls([pool for pool in there if pool.right is not None])
    pools_there = [grouped(pool) for pool in there if pool.right is None]
    if not pools_there:
        return
    worst_errors(pools_there)
    for what in ("threshold", "best"):
        wrong_and_certified(pools_there, what, "auto")
    ends(pools_there)


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or OWN)
