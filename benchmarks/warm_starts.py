"""What a warm start is worth, and what a misleading one costs: errors with a prior over errors without, simulated.

    python benchmarks/warm_starts.py [JUDGES.parquet SCALE]

On two digitised pools the prior is made of earlier ratings of the same judge, 5 or 20 a pair, drawn anew for each run;
"shuffled" gives each pair the prior of another. JUDGES.parquet holds ratings of the same pairs by several judges (columns
pair_id, attribute, rating; the judge in ``attribute``), SCALE is like 1-10: there the prior is made of all ratings of the
next judge in the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.prior import prior_variances, warm_policy
from robin_cli.simulation.runs import Ratings, simulate

POOL = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"
SETS = ("gpt-4.1-nano/helpfulness", "llama-3-1-8b/verbosity")
SCHEDULERS = ("robin-hood", "two-priors", "dirichlet")
CALLS = (3, 5, 10, 20, 50, 100)
PAIRS, RUNS = 300, 50


@dataclass(frozen=True, slots=True)
class Case:
    """A pool, and for each kind of prior its variances, shape (RUNS, PAIRS)."""

    name: str
    ratings: Ratings
    scale: Scale
    priors: dict[str, FloatArray]


def earlier(ratings: Ratings, times: int, rng: np.random.Generator) -> FloatArray:
    """The prior that ``times`` ratings of each pair make, drawn anew for each run, shape (RUNS, pairs)."""
    pairs = np.broadcast_to(
        np.arange(len(ratings.sizes))[:, None], (RUNS, len(ratings.sizes), times)
    )
    drawn = ratings.draw(pairs, rng)
    return prior_variances(
        np.full(pairs.shape[:2], float(times)), drawn.sum(axis=2), (drawn**2).sum(axis=2)
    )


def shuffled(prior: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same variances over other pairs, in another way for each run."""
    return rng.permuted(prior, axis=1)


def same_judge(rng: np.random.Generator) -> Iterator[Case]:
    """Priors from earlier ratings of the same judge."""
    pools = load_pools(POOL)
    for name in SETS:
        chosen = rng.permutation(len(pools[name].ratings))[:PAIRS]
        ratings = Ratings.of([pools[name].ratings[pair] for pair in chosen])
        priors = {f"same judge, {times} ratings": earlier(ratings, times, rng) for times in (5, 20)}
        priors["shuffled"] = shuffled(priors["same judge, 20 ratings"], rng)
        yield Case(name, ratings, Scale(0, 4), priors)


def other_judge(path: Path, scale: Scale, rng: np.random.Generator) -> Iterator[Case]:
    """Priors from all ratings that the next judge gave the same pairs."""
    pools = list(load_pools(path).values())
    common = sorted(set.intersection(*(set(pool.pair_ids) for pool in pools)))
    chosen = [common[place] for place in rng.permutation(len(common))[:PAIRS]]
    laid = [Ratings.of(_of(pool, chosen)) for pool in pools]
    for place, pool in enumerate(pools):
        n = (there := laid[(place + 1) % len(laid)]).sizes.astype(np.float64)
        total = there.means * n
        prior = np.tile(
            prior_variances(n, total, (there.variances + there.means**2) * n), (RUNS, 1)
        )
        priors = {
            "another judge, 8 ratings": prior,
            "another judge, shuffled": shuffled(prior, rng),
        }
        yield Case(pool.name, laid[place], scale, priors)


def _of(pool: Pool, pair_ids: list[str]) -> list[IntArray]:
    known = dict(zip(pool.pair_ids, pool.ratings, strict=True))
    return [known[pair_id] for pair_id in pair_ids]


def errors(case: Case, scheduler: str, prior: FloatArray | None, seed: int) -> FloatArray:
    """Largest and mean error of each run, shape (2, calls, RUNS)."""
    setup = Setup(PAIRS, PAIRS * CALLS[-1], case.scale)
    policy = warm_policy(scheduler, setup, None if prior is None else prior.ravel())
    ratings = case.ratings
    tiled = Ratings(np.tile(ratings.values, (RUNS, 1)), np.tile(ratings.sizes, RUNS))
    budgets = [PAIRS * calls for calls in CALLS]
    seen = simulate(tiled, policy, budgets, RUNS, np.random.default_rng(seed), worlds=RUNS)
    return np.array([[each.wce for each in seen], [each.mean_error for each in seen]])


def compare(cases: list[Case], scheduler: str) -> None:
    """Print, for each kind of prior, the errors over those without: the mean of the pools' ratios and its standard error."""
    cold = [errors(case, scheduler, None, 1) for case in cases]
    for kind in cases[0].priors:
        ratios, variances = [], []
        for case, before in zip(cases, cold, strict=True):
            after = errors(case, scheduler, case.priors[kind], 2)
            means = after.mean(axis=2), before.mean(axis=2)
            sems = after.std(axis=2, ddof=1) / RUNS**0.5, before.std(axis=2, ddof=1) / RUNS**0.5
            ratios.append(means[0] / means[1])
            variances.append(
                ratios[-1] ** 2 * ((sems[0] / means[0]) ** 2 + (sems[1] / means[1]) ** 2)
            )
        mean, sem = np.mean(ratios, axis=0), np.sqrt(np.sum(variances, axis=0)) / len(cases)
        for row, what in enumerate(("largest", "mean")):
            cells = "  ".join(
                f"{m:.2f} ± {s:.2f}" for m, s in zip(mean[row], sem[row], strict=True)
            )
            print(f"{scheduler:11} {kind:26} {what:8} {cells}", flush=True)


def main() -> None:
    """Print the table."""
    print(
        f"{PAIRS} pairs a pool, {RUNS} runs; error with the prior over error without, at {CALLS} calls a pair"
    )
    groups = [list(same_judge(np.random.default_rng(7)))]
    if len(sys.argv) > 2:
        low, high = map(int, sys.argv[2].split("-"))
        groups.append(
            list(other_judge(Path(sys.argv[1]), Scale(low, high), np.random.default_rng(8)))
        )
    for cases in groups:
        for scheduler in SCHEDULERS:
            compare(cases, scheduler)


if __name__ == "__main__":
    main()
