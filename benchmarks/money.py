"""What a budget in money is worth: squared errors of scores at equal dollars, calls chosen by the dollar over calls by number.

    python benchmarks/money.py [RUNS [PAIRS]]

Two judges of the paper's pairs, replayed, a call of one costing 20 times a call of the other, either way round; and one judge
whose prompts differ in length. Each run draws its pairs and its ratings anew; a score is the mean of the judges' means, and its
error is that from the means of the recorded ratings. "theory" is what the true variances make of the same: with J judges and
calls that cost c, spent by the dollar Σ V/n is (Σ σ √c)² / M for M dollars, by number of calls (Σ σ)(Σ σ c) / M under
mean-error, K (Σ σ² c) / M under worst-case, (Σ σ²)(Σ c) / M spread evenly, all sums over the arms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robin_cli.datasets.pools import load_pools
from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.records import Scale
from robin_cli.planning.costs import Costs, Per
from robin_cli.planning.planner import Planner
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy

POOL = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"
ONE, OTHER = "gpt-4.1-nano", "llama-3-1-8b"
CALLS = (5, 10, 20, 50)
ATTRIBUTES = ("helpfulness", "complexity")
KINDS = ("first dear", "second dear", "lengths")
DEAR = 20.0
OTHERWISE: dict[str, tuple[str, str, Callable[[FloatArray, FloatArray], float]]] = {
    "mean-error": ("two-priors", "mean-error", lambda sd, c: sd.sum() * (sd * c).sum()),
    "worst-case": ("two-priors", "worst-case", lambda sd, c: len(sd) * (sd**2 * c).sum()),
    "evenly": ("uniform", "mean-error", lambda sd, c: (sd**2).sum() * c.sum()),
}


def spent(
    ratings: IntArray,
    judge: IntArray,
    each: FloatArray,
    dollars: float,
    rng: np.random.Generator,
    *,
    name: str = "two-priors",
    objective: str = "mean-error",
    by_money: bool = False,
) -> float:
    """The mean squared error of the scores once ``dollars`` are spent, a call of arm i costing each[i].

    Args:
        ratings: recorded ones of each arm, shape (K, recorded); pair by pair, and in a pair judge by judge.
        judge: of each arm.
    """
    arms, judges = WritableArms(len(each)), int(judge.max()) + 1
    policy = make_policy(name, Setup(len(each), 10**6, Scale(0, 4), objective=objective))
    costs = None
    if by_money:
        prices = np.tile([1.0, 0.0], (judges, 1))
        costs = Costs(each, judge.astype(np.int32), prices, tokens=(1.0, 0.0), per=Per.ARM)
    planner = Planner(arms, policy, judge=judge.astype(np.int32), costs=costs)
    while True:
        (ticket,) = planner.plan()
        arm = ticket.arm
        dollars -= each[arm]
        if dollars < 0:
            break
        if costs is not None:
            costs.add(judge.item(arm), each[arm], 0, each[arm])
        planner.tell(ticket, (float(ratings[arm, rng.integers(ratings.shape[1])]),))
    off = arms.totals / arms.counts - ratings.mean(axis=1)
    return float((off.reshape(-1, judges).mean(axis=1) ** 2).mean())


def case(
    attribute: str, kind: str, pairs: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """The ratings, judges and costs of the arms of some pairs."""
    pools = load_pools(POOL)
    names = [ONE] if kind == "lengths" else [ONE, OTHER]
    chosen = rng.permutation(len(pools[f"{ONE}/{attribute}"].ratings))[:pairs]
    of_judges = [
        np.array([pools[f"{name}/{attribute}"].ratings[k] for k in chosen]) for name in names
    ]
    ratings = np.stack(of_judges, axis=1).reshape(pairs * len(names), -1)
    judge = np.tile(np.arange(len(names)), pairs)
    if kind == "lengths":
        return ratings, judge, rng.lognormal(0.0, 1.0, pairs)
    return ratings, judge, np.where(judge == (0 if kind == "first dear" else 1), DEAR, 1.0)


def main(runs: int, pairs: int) -> None:
    """Print the ratios."""
    print(
        f"{pairs} pairs, {runs} runs; mean squared error by the dollar over that by calls, ± one standard error"
    )
    for attribute in ATTRIBUTES:
        for kind in KINDS:
            for calls in CALLS:
                found = np.array([one(attribute, kind, pairs, calls, run) for run in range(runs)])
                told = []
                for place, name in enumerate(OTHERWISE):
                    mine, best = found[:, 0], found[:, 1]
                    other, by_calls = found[:, 2 + 2 * place], found[:, 3 + 2 * place]
                    ratio = mine.mean() / other.mean()
                    sem = (mine - ratio * other).std(ddof=1) / np.sqrt(runs) / other.mean()
                    told.append(
                        f"{name} {ratio:.3f} ± {sem:.3f} (theory {best.mean() / by_calls.mean():.3f})"
                    )
                print(
                    f"{attribute:<12} {kind:<12} {calls:>3} a score: {'; '.join(told)}", flush=True
                )


def one(attribute: str, kind: str, pairs: int, calls: int, number: int) -> list[float]:
    """One run: the error by the dollar and what theory makes of it, and the same of each of OTHERWISE."""
    rng = np.random.default_rng([number, calls])
    ratings, judge, each = case(attribute, kind, pairs, rng)
    dollars, sd = calls * float(each.sum()), ratings.std(axis=1)
    found = [
        spent(ratings, judge, each, dollars, rng, by_money=True),
        float((sd * np.sqrt(each)).sum() ** 2),
    ]
    for name, objective, spread in OTHERWISE.values():
        found += [
            spent(ratings, judge, each, dollars, rng, name=name, objective=objective),
            spread(sd, each),
        ]
    return found


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:], *("20", "100")[len(sys.argv) - 1 :])))
