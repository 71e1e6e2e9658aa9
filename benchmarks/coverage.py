"""Do the intervals hold? Simulated coverage on a pool of recorded ratings, over all pairs and many runs.

    python benchmarks/coverage.py

A run of each scheduler stops at its budget; an interval covers if the pair's true mean (of its recorded ratings) lies in
it. "ever missed" looks at the same runs at ten budgets on the way: the share of pairs whose interval missed at any of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from robin_cli.analysis.intervals import mean_intervals
from robin_cli.datasets.pools import load_pools
from robin_cli.model.arms import Arms
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.scheduling.scheduler import HeapScheduler, Ticket

POOL = Path(__file__).parent.parent / "configs" / "pools" / "paper_digitised.parquet"
SETS = ("gpt-4.1-nano/helpfulness", "llama-3-1-8b/verbosity")
PAIRS, RUNS, CALLS = 400, 10, 50
SCALE = Scale(0, 4)


def one_run(name: str, ratings: list[list[int]], rng: np.random.Generator) -> tuple[float, float, float]:
    """Coverage at the end, share ever missed, mean width at the end."""
    arms = Arms(len(ratings))
    policy = make_policy(name, Setup(len(ratings), CALLS * len(ratings), SCALE))
    scheduler = HeapScheduler(arms, policy)
    counts = np.zeros((len(ratings), SCALE.levels), dtype=np.int64)
    means = np.array([np.mean(each) for each in ratings])
    ever = np.zeros(len(ratings), dtype=bool)
    low = high = means
    for call in range(1, CALLS * len(ratings) + 1):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)  # noqa: S101  # no arm can be retired here
        arm = ticket.arm
        rating = ratings[arm][rng.integers(len(ratings[arm]))]
        counts[arm, rating] += 1
        scheduler.tell(ticket, (rating,))
        if call % (CALLS * len(ratings) // 10) == 0:
            low, high = mean_intervals(counts, SCALE.low, SCALE.high)
            ever |= (means < low - 1e-9) | (means > high + 1e-9)
    covered = (low - 1e-9 <= means) & (means <= high + 1e-9)
    return float(covered.mean()), float(ever.mean()), float((high - low).mean())


def main() -> None:
    """Print the table."""
    pools = load_pools(POOL)
    print(f"simulated: {PAIRS} pairs, {RUNS} runs each, {CALLS} calls a pair; nominal 95 %; width in points of 0-4")
    for name in SETS:
        ratings = [each.tolist() for each in pools[name].ratings[:PAIRS]]
        for scheduler in ("uniform", "robin-hood", "two-priors"):
            found = np.array([one_run(scheduler, ratings, np.random.default_rng([3, run])) for run in range(RUNS)])
            covered, ever, width = found.mean(axis=0)
            print(f"{name:26} {scheduler:11} covered {covered:.4f}  ever missed {ever:.4f}  mean width {width:.2f}")


if __name__ == "__main__":
    main()
