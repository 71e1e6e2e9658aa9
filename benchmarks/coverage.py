"""Do the intervals hold, and how wide are they? Simulated on pools of recorded ratings, over all pairs and many runs.

    python -m benchmarks.coverage [POOL…] [--pairs 300] [--runs 4]

An interval covers if the pair's true mean (of its recorded ratings) lies in it: ``ci`` on average over pairs, ``guaranteed``
for each pair. Widths are told over 2 · 1.96 σ/√n, which who
knew σ and the normal distribution would need. Errors are standard errors over the sets of ratings (a judge and an attribute).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.pools import load_pools
from robin_cli.model.arms import FloatArray, IntArray, Sums, WritableArms
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.session.planner import Planner
from robin_cli.stats.intervals import Part, mean_intervals, sum_intervals
from robin_cli.stats.moderated import likely_intervals, moderated, skewed
from robin_cli.stats.worst_error import worst_error

POOLS = sorted((Path(__file__).parent.parent / "configs" / "pools").glob("*.parquet"))
SIZES = (3, 5, 10, 20, 50, 100)
TARGETS = (0.075, 0.15)
RARE, RARELY_SIZED, WORLDS = (0.02, 0.03, 0.05), (10, 20, 50, 100), 10
SCHEDULERS = ("uniform", "robin-hood", "two-priors", "auto")
EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Rated:
    """A set of ratings: shares of each level for each pair, shape (pairs, levels)."""

    name: str
    scale: Scale
    shares: FloatArray

    @property
    def levels(self) -> FloatArray:
        return np.arange(self.scale.low, self.scale.high + 1, dtype=np.float64)

    @property
    def means(self) -> FloatArray:
        return np.asarray(self.shares @ self.levels)

    @property
    def deviations(self) -> FloatArray:
        return np.sqrt(np.maximum(self.shares @ self.levels**2 - self.means**2, 0.0))

    @property
    def space(self) -> ArmSpace:
        return ArmSpace([str(k) for k in range(len(self.shares))], ["a"], ["j"], [self.scale])


def sets_of(paths: Sequence[Path], pairs: int) -> list[Rated]:
    """Every set of every pool, its first pairs."""
    found = []
    for path in paths:
        for pool in load_pools(path).values():
            every = np.concatenate(pool.ratings)
            scale = Scale(min(int(every.min()), 1), max(int(every.max()), 4))
            ratings = pool.ratings[:pairs]
            counts = [
                np.bincount(each - scale.low, minlength=scale.levels) / len(each)
                for each in ratings
            ]
            found.append(Rated(f"{path.stem}:{pool.name}", scale, np.array(counts)))
    return found


def normal_widths(rated: Rated, n: FloatArray | float) -> FloatArray:
    return np.asarray(2 * 1.96 * rated.deviations / np.sqrt(n))


def covers(low: FloatArray, high: FloatArray, truth: FloatArray) -> NDArray[np.bool_]:
    return (low - EPSILON <= truth) & (truth <= high + EPSILON)


def sums_of(rated: Rated, counts: IntArray) -> Sums:
    """The sums of ratings with these counts."""
    n = counts.sum(axis=1).astype(np.float64)
    return Sums(n, counts @ rated.levels, counts @ rated.levels**2)


def intervals(rated: Rated, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The intervals ``ci_low`` to ``ci_high`` of a run with these counts."""
    sums = sums_of(rated, counts)
    found = moderated(rated.space, sums)
    return likely_intervals(
        sums.total / sums.n,
        found.error_variance,
        found.freedom,
        skewed(counts, rated.scale, alpha=0.05),
        np.stack(mean_intervals(counts, rated.scale.low, rated.scale.high)),
        alpha=0.05,
    )


def told(values: Sequence[float], digits: int = 2) -> str:
    each = np.array(values)
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return f"{each.mean():.{digits}f} ± {error:.{digits}f}"


def at_fixed_sizes(sets: Sequence[Rated], rng: np.random.Generator) -> None:
    """Each pair rated equally often, and each interval by itself."""
    print(
        "\nEach pair rated n times: width, coverage (mean, smallest set), microseconds an interval"
    )
    for size in SIZES:
        rows: dict[str, list[tuple[float, float, float]]] = {"guaranteed": [], "ci": []}
        for rated in sets:
            counts = rng.multinomial(size, rated.shares)
            for kind, found in rows.items():
                began = time.perf_counter()
                low, high = (
                    intervals(rated, counts)
                    if kind == "ci"
                    else mean_intervals(counts, rated.scale.low, rated.scale.high)
                )
                took = (time.perf_counter() - began) / len(counts) * 1e6
                width = (high - low).mean() / normal_widths(rated, size).mean()
                found.append((width, covers(low, high, rated.means).mean(), took))
        for kind, found in rows.items():
            width, covered, took = np.array(found).T
            held = f"{100 * covered.mean():.1f} % ({100 * covered.min():.1f} %)"
            print(f"n {size:4}  {kind:10}  {told(width)}  {held}  {took.mean():.0f}")


def at_rare_flips(pairs: int, rng: np.random.Generator) -> None:
    """All pairs flip at one low rate from the top of the scale to its bottom: most have equal ratings alone."""
    print(
        f"\nMade-up worlds: every pair is rated 4, and 0 with probability p; {WORLDS} worlds: coverage of ci"
    )
    for rate in RARE:
        rated = Rated(
            "rare flips", Scale(0, 4), np.tile([rate, 0.0, 0.0, 0.0, 1.0 - rate], (pairs, 1))
        )
        for size in RARELY_SIZED:
            covered = [
                covers(*intervals(rated, rng.multinomial(size, rated.shares)), rated.means).mean()
                for _ in range(WORLDS)
            ]
            print(f"p {rate:g}  n {size:4}  {told(100 * np.array(covered), 1)} %", flush=True)


def of_two(sets: Sequence[Rated], rng: np.random.Generator) -> None:
    """Two judges of the same pairs: their mean, and their difference."""
    alike = [
        (a, b)
        for a, b in combinations(sets, 2)
        if a.scale == b.scale and len(a.shares) == len(b.shares)
    ]
    chosen = [alike[k] for k in rng.permutation(len(alike))[:8]]
    if not chosen:
        return
    print(
        "\nTwo judges, n ratings each: width over that of two intervals (95 % of both), coverage, microseconds a pair"
    )
    for size in SIZES[:-1]:
        for kind, weights in (("panel", (0.5, 0.5)), ("difference", (-1.0, 1.0))):
            ratios, covered, took = [], [], []
            for pair in chosen:
                counts = [rng.multinomial(size, each.shares) for each in pair]
                low, high = pair[0].scale.low, pair[0].scale.high
                began = time.perf_counter()
                below, above = sum_intervals(
                    [
                        Part(each, low, high, weight)
                        for each, weight in zip(counts, weights, strict=True)
                    ]
                )
                took.append((time.perf_counter() - began) / len(below) * 1e6)
                apart = [mean_intervals(each, low, high, alpha=0.025) for each in counts]
                summed = sum(
                    abs(w) * (b - a).mean() for w, (a, b) in zip(weights, apart, strict=True)
                )
                truth = weights[0] * pair[0].means + weights[1] * pair[1].means
                ratios.append((above - below).mean() / summed)
                covered.append(covers(below, above, truth).mean())
            print(
                f"n {size:4}  {kind:10}  {told(ratios)}  {100 * min(covered):.1f} %  {np.mean(took):.0f}"
            )


def played(
    name: str, rated: Rated, looks: Sequence[int], rng: np.random.Generator
) -> Iterator[IntArray]:
    """How often each pair got each rating, after so many calls."""
    pairs = len(rated.shares)
    arms, counts = WritableArms(pairs), np.zeros(rated.shares.shape, dtype=np.int64)
    planner = Planner(arms, make_policy(name, Setup(pairs, looks[-1], rated.scale)))
    ends = np.cumsum(rated.shares, axis=1)
    call = 0
    for look in looks:
        for uniform in rng.random(look - call):
            ticket = planner.plan()
            assert ticket is not None  # noqa: S101  # the budget has no end
            place = min(
                int(np.searchsorted(ends[ticket.arm], uniform, side="right")),
                rated.scale.levels - 1,
            )
            counts[ticket.arm, place] += 1
            planner.tell(ticket, (rated.scale.low + place,))
        call = look
        yield counts.copy()


def while_adapting(sets: Sequence[Rated], runs: int, rng: np.random.Generator) -> None:
    """Schedulers that look at the ratings; auto with each budget for itself."""
    print(
        "\nUnder a scheduler: guaranteed: coverage (smallest set), ever missed at any look up to there; ci: coverage"
    )
    print(
        "(smallest set), width; expected error of the worst score over the true one (least and most of a set)"
    )
    for name in SCHEDULERS:
        cells: dict[int, list[list[float]]] = {size: [] for size in SIZES}
        for rated in sets:
            sums = np.zeros((len(SIZES), 6))
            for _ in range(runs):
                looks = [size * len(rated.shares) for size in SIZES]
                if name == "auto":
                    every = [next(played(name, rated, (look,), rng)) for look in looks]
                else:
                    every = list(played(name, rated, looks, rng))
                ever = np.zeros(len(rated.shares), dtype=bool)
                for row, counts in enumerate(every):
                    sums[row] += _looked(rated, counts, ever, anew=name == "auto")
            for row, size in enumerate(SIZES):
                cells[size].append([*(sums[row, :4] / runs), sums[row, 4] / sums[row, 5]])
        for size, found in cells.items():
            covered, ever_missed, ci_covered, width, ratio = np.array(found).T
            held = f"{100 * covered.mean():.2f} % ({100 * covered.min():.1f} %), {100 * ever_missed.mean():.2f} %"
            print(
                f"{name:11} {size:4}  {held}  "
                f"{100 * ci_covered.mean():.1f} % ({100 * ci_covered.min():.1f} %), {told(width)}  "
                f"{ratio.min():.2f} to {ratio.max():.2f}",
                flush=True,
            )


def _looked(rated: Rated, counts: IntArray, ever: NDArray[np.bool_], *, anew: bool) -> FloatArray:
    """Of the guaranteed interval coverage and missed so far; of ci coverage and width; worst error expected, true."""
    low, high = mean_intervals(counts, rated.scale.low, rated.scale.high)
    covered = covers(low, high, rated.means)
    if anew:
        ever[:] = False
    ever |= ~covered
    sums, (ci_low, ci_high) = sums_of(rated, counts), intervals(rated, counts)
    width = (ci_high - ci_low).mean() / normal_widths(rated, sums.n).mean()
    expected = worst_error(rated.space, sums, sums.n >= 0)
    true = np.abs(sums.total / sums.n - rated.means).max()
    ci_covered = covers(ci_low, ci_high, rated.means).mean()
    return np.array([covered.mean(), ever.mean(), ci_covered, width, expected, true])


def at_targets(sets: Sequence[Rated], runs: int, rng: np.random.Generator) -> None:
    """Runs that end at an expected error of the worst score, looked at as the calls grow by 1 %."""
    print(
        "\nWith --target-error: true worst error over the target at the end (mean, 5 to 95 %), calls a pair, above it"
    )
    for share in TARGETS:
        ratios, calls = [], []
        for rated in sets:
            target = share * (rated.scale.high - rated.scale.low)
            for _ in range(runs):
                counts = until(target, rated, rng)
                n = counts.sum(axis=1)
                ratios.append(np.abs(counts @ rated.levels / n - rated.means).max() / target)
                calls.append(n.mean())
        low, high = np.quantile(ratios, [0.05, 0.95])
        drawn = np.quantile(rng.choice(ratios, (1_000, len(ratios))), [0.05, 0.95], axis=1).std(
            axis=1
        )
        ends = " to ".join(
            f"{end:.2f} ± {error:.2f}" for end, error in zip((low, high), drawn, strict=True)
        )
        above = np.mean(np.array(ratios) > 1)
        print(
            f"{share:g} of the scale, {len(ratios)} runs  {told(ratios)}, {ends}  {told(calls, 1)}  {100 * above:.0f} %",
            flush=True,
        )


def until(target: float, rated: Rated, rng: np.random.Generator) -> IntArray:
    """How often each pair of a run got each rating, when the expected error of its worst score came down to ``target``."""
    pairs = len(rated.shares)
    looks = [2 * pairs]
    while looks[-1] < 1_000 * pairs:
        looks.append(max(looks[-1] + 1, int(1.01 * looks[-1])))
    for counts in played("two-priors", rated, looks, rng):
        sums = sums_of(rated, counts)
        if worst_error(rated.space, sums, sums.n >= 0) <= target:
            return counts
    return counts


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pools", nargs="*", type=Path, default=POOLS)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--runs", type=int, default=4)
    asked = parser.parse_args()
    sets = sets_of(asked.pools, asked.pairs)
    print(
        f"simulated: {len(sets)} sets of ratings, {asked.pairs} pairs each; nominal 95 %; ± standard errors over sets"
    )
    at_fixed_sizes(sets, np.random.default_rng(1))
    at_rare_flips(asked.pairs, np.random.default_rng(5))
    of_two(sets, np.random.default_rng(2))
    at_targets(sets, asked.runs, np.random.default_rng(4))
    while_adapting(sets, asked.runs, np.random.default_rng(3))


if __name__ == "__main__":
    main()
