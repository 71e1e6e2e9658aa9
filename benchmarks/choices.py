"""How fast the next call is chosen: choices a second from 1,000 to 1,000,000 arms, and how the cost of one grows.

    python benchmarks/choices.py

One choice is one ask() and one tell() with a rating, as a run at concurrency 1 makes them, in CPU time. The last column
is the cost of a choice over that at 1,000 arms; a scan of all arms would make it 1,000 at 1,000,000.
"""

from __future__ import annotations

import time

import numpy as np

from robin_cli.model.arms import Arms
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.scheduling.scheduler import HeapScheduler, Ticket

CHOICES = 200_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def warmed_up(count: int, rng: np.random.Generator) -> Arms:
    """Arms with 25 ratings each, of very different variances."""
    arms = Arms(count)
    top = rng.binomial(25, rng.random(count) ** 3).astype(np.float64)
    arms.counts[:] = 25
    arms.totals[:] = 4 * top
    arms.totals_sq[:] = 16 * top
    return arms


def seconds_a_choice(name: str, count: int) -> float:
    """Mean over CHOICES choices of the time of one."""
    rng = np.random.default_rng(1)
    arms = warmed_up(count, rng)
    scheduler = HeapScheduler(arms, make_policy(name, Setup(count, 100 * count, Scale(0, 4))))
    ratings = rng.choice([0.0, 4.0], CHOICES).tolist()
    started = time.process_time()
    for rating in ratings:
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)  # noqa: S101  # no arm can be retired here
        scheduler.tell(ticket, (rating,))
    return (time.process_time() - started) / CHOICES


def main() -> None:
    """Print the table."""
    print(f"{'scheduler':12} {'arms':>10} {'choices/s':>12} {'µs each':>8} {'× 1,000':>8}")
    for name in ("uniform", "robin-hood", "dirichlet", "two-priors"):
        first = 0.0
        for count in SIZES:
            cost = seconds_a_choice(name, count)
            first = first or cost
            print(f"{name:12} {count:10,} {1 / cost:12,.0f} {1e6 * cost:8.2f} {cost / first:8.2f}")


if __name__ == "__main__":
    main()
