"""How often do intervals of a difference between two systems hold the truth, and how often is a difference found?

    python -m benchmarks.differences POOL [--runs 500]

POOL has ratings of at least four responses a prompt, the response's number the last part of the pair's id: the first two are
one system's, the next two another's. Beside it are made-up judges. Prompts are drawn anew in every run, and the truth is the
difference over all prompts there are. An error of a coverage p is √(p(1 − p)/runs).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binom, ttest_1samp

from benchmarks.coverage import Rated, played
from robin_cli.data.pools import load_pools
from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.records import Scale
from robin_cli.stats.clustered import bounds_over_prompts, clusters_of, student_factor
from robin_cli.stats.moderated import moderated
from robin_cli.stats.paired import Difference, Responses, differences

PROMPTS = (10, 25, 50, 100, 400)
CALLS = (
    ("uniform", 1),
    ("uniform", 5),
    ("two-priors", 2),
    ("two-priors", 5),
    ("two-priors", 20),
    ("robin-hood", 30),
)
SYSTEM = np.array([0, 0, 1, 1])
SKEWED = ((0.02, -4.0), (0.05, -4.0), (0.05, 4.0), (0.1, -4.0), (0.05, -2.0))
"""Shares of prompts that differ by so much; the others differ a little the other way, so that the mean is 0."""
APART = ((20, 0.0), (20, 0.5), (40, 0.0), (40, 0.25), (40, 0.5), (100, 0.0), (100, 0.25))
"""Numbers of prompts, and differences in points of 0 to 4."""
ORDINAL = {"0 to 4": (4, 0.5), "0 to 4, high": (4, 0.85), "0 to 9": (9, 0.6), "0 or 1": (1, 0.7)}
"""Scales from 0 of whole ratings, and the mean as a share of them."""
LOOKS = np.unique(np.geomspace(20, 400, 60).astype(int))


@dataclass(frozen=True)
class World:
    """Prompts with four responses, two of each system: shares of each rating, shape (prompts, 4, levels)."""

    name: str
    scale: Scale
    shares: FloatArray

    @property
    def truth(self) -> float:
        """Mean of the first system's responses less that of the second's."""
        means = self.shares @ np.arange(self.scale.low, self.scale.high + 1.0)
        return float(means[:, :2].mean() - means[:, 2:].mean())


def worlds(path: Path, rng: np.random.Generator) -> Iterator[World]:
    """The judges of the pool, then made-up ones."""
    for name, pool in load_pools(path).items():
        prompt: dict[str, list[FloatArray]] = {}
        for pair, given in zip(pool.pair_ids, pool.ratings, strict=True):
            prompt.setdefault(pair.rpartition("/")[0], []).append(np.asarray(given, dtype=np.int64))
        scale = Scale(1, 10)
        low, high = scale.low, scale.high
        whole = [each[:4] for each in prompt.values() if len(each) >= 4]
        shares = [
            [np.bincount(some - low, minlength=high - low + 1) / len(some) for some in each]
            for each in whole
        ]
        yield World(name, scale, np.array(shares))
    for name, noise in (("quiet", 0.3), ("noisy", 1.2)):
        latent = (
            rng.normal(2.4, 0.8, (3000, 1)) + rng.normal(0, 0.5, (3000, 4)) + 0.3 * (1 - SYSTEM)
        )
        ends = np.clip(np.arange(5) + 0.5, None, 99.0)[None, None]
        below = 1 / (1 + np.exp(-1.7 * (ends - latent[..., None]) / noise))
        below[..., -1] = 1.0
        yield World(name, Scale(0, 4), np.diff(below, prepend=0.0, axis=-1))
    for name, likely in (("rare flips", 0.15), ("many flips", 0.4)):
        down = np.clip(rng.beta(0.5, 0.5 / likely, (3000, 4)) * (0.6 + 0.4 * SYSTEM), 0, 1)
        yield World(
            name, Scale(0, 4), np.stack([down, 0 * down, 0 * down, 0 * down, 1 - down], axis=-1)
        )


def judged(
    world: World, prompts: int, scheduler: str, calls: int, rng: np.random.Generator
) -> Responses:
    """So many prompts of the world, each response rated ``calls`` times on average."""
    chosen = rng.integers(0, len(world.shares), prompts)
    shares = world.shares[chosen].reshape(4 * prompts, -1)
    rated = Rated("", world.scale, shares)
    counts = (
        rng.multinomial(calls, shares)
        if scheduler == "uniform"
        else next(played(scheduler, rated, (calls,), rng))
    )
    n, total, total_sq = counts.sum(axis=1), counts @ rated.levels, counts @ rated.levels**2
    noise = moderated(rated.space, Sums(n.astype(np.float64), total, total_sq)).error_variance
    number = np.repeat(np.arange(prompts), 4)
    return Responses(
        total / n,
        noise,
        n.astype(np.float64),
        number,
        np.tile(SYSTEM, prompts),
        world.scale.low,
        world.scale.high,
    )


def naive(responses: Responses) -> dict[str, tuple[float, float]]:
    """Difference and half an interval by what is often done instead."""
    a, b = (responses.system == system for system in (0, 1))
    mean = float(responses.score[a].mean() - responses.score[b].mean())
    own = sum(float(responses.noise[mine].sum()) / mine.sum() ** 2 for mine in (a, b))
    apart = sum(float(responses.score[mine].var(ddof=1)) / mine.sum() for mine in (a, b))
    ratings = sum(
        float(responses.score[mine].var() + (responses.noise * responses.ratings)[mine].mean())
        / responses.ratings[mine].sum()
        for mine in (a, b)
    )
    named = {"own errors": own, "unpaired": apart, "all ratings": ratings}
    return {name: (mean, 1.96 * float(np.sqrt(each))) for name, each in named.items()}


def of_coverage(all_worlds: list[World], runs: int) -> None:
    """Coverage over the worlds: mean, and the smallest; the mean error of the difference over its standard error."""
    print(
        "Coverage of 95 % intervals of a difference: mean (least) over judges; bias: mean error over its standard deviation"
    )
    for scheduler, calls in CALLS:
        for prompts in PROMPTS:
            if scheduler != "uniform" and prompts > 100:
                continue
            held: dict[str, list[float]] = {}
            bias, noise, wide = [], [], []
            for number, world in enumerate(all_worlds):
                rng = np.random.default_rng([number, prompts, calls])
                inside: dict[str, list[bool]] = {}
                found: list[Difference] = []
                wider = []
                for _ in range(runs if scheduler == "uniform" else max(60, runs // 4)):
                    responses = judged(world, prompts, scheduler, calls, rng)
                    one = differences(responses, 2)[0]
                    found.append(one)
                    inside.setdefault("paired", []).append(one.ci_low <= world.truth <= one.ci_high)
                    half = student_factor(prompts, 0.05) * one.std_error + 1e-12
                    inside.setdefault("t", []).append(abs(one.difference - world.truth) <= half)
                    wider.append((one.ci_high - one.ci_low) / (2 * half))
                    for name, (mean, half) in naive(responses).items():
                        inside.setdefault(name, []).append(abs(mean - world.truth) <= half)
                for name, each in inside.items():
                    held.setdefault(name, []).append(float(np.mean(each)))
                each = np.array([one.difference for one in found])
                bias.append(float((each.mean() - world.truth) / each.std(ddof=1)))
                noise.append(float(np.mean([one.noise_share for one in found])))
                wide.append(float(np.median(wider)))
            told = "  ".join(
                f"{name} {np.mean(each):.3f} ({min(each):.3f})" for name, each in held.items()
            )
            spread = 1 / np.sqrt(runs if scheduler == "uniform" else max(60, runs // 4))
            print(
                f"{scheduler:10} {calls:2} {prompts:4}: {told}  bias {min(bias):+.2f} to {max(bias):+.2f} (± {spread:.2f})  "
                f"noise {100 * np.nanmean(noise):.0f} %  width over t's {min(wide):.2f} to {max(wide):.2f}",
                flush=True,
            )


def skewed(share: float, far: float, prompts: int, rng: np.random.Generator) -> FloatArray:
    """Differences that are ``far`` at this share of the prompts, and 0 on average."""
    return np.where(rng.random(prompts) < share, far, -far * share / (1 - share))


def of_skew() -> None:
    """Exact coverage of t, of robin's interval and of --robust where few prompts differ much: a sum over their number."""
    print(
        "\nFew prompts that differ much: exact coverage in % of t, of robin's interval, of --robust"
    )
    for share, far in SKEWED:
        others, cells = -far * share / (1 - share), []
        for prompts in (20, 50, 100, 200, 400):
            held = np.zeros(3)
            for count in range(prompts + 1):
                likely = float(binom.pmf(count, prompts, share))
                if likely < 1e-7:
                    continue
                each = np.repeat([far, others], [count, prompts - count])
                half, clusters = half_by_t(each), clusters_of(each)
                ends = [
                    (each.mean() - half, each.mean() + half),
                    bounds_over_prompts(clusters, -4.0, 4.0, alpha=0.05),
                    bounds_over_prompts(clusters, -4.0, 4.0, alpha=0.05, is_robust=True),
                ]
                held += [likely * (low <= 1e-9 and high >= -1e-9) for low, high in ends]
            cells.append(f"{prompts}: {' '.join(f'{100 * one:.1f}' for one in held)}")
        print(f"{share:.0%} by {far:+g}  " + "   ".join(cells), flush=True)


def of_size(runs: int) -> None:
    """How often t and robin find a difference, of normal differences (sd 1) and of whole ratings."""
    print("\nDifferences found in %, by t and by robin; 0: there is none")
    for name, (top, at) in {"normal": (4, 0.0), **ORDINAL}.items():
        cells = []
        for number, (prompts, points) in enumerate(APART):
            rng = np.random.default_rng([number, prompts, top])
            draws = rng.normal(points, 1.0, (runs, prompts))
            if name != "normal":
                apart = points * top / 8 * np.array([1.0, -1.0])[:, None, None]
                means = rng.normal(at * top, 0.2 * top, (runs, prompts)) + apart
                noisy = means + rng.normal(0, 0.15 * top, means.shape)
                a, b = np.clip(np.rint(noisy), 0, top)
                draws = a - b
            found = []
            for each in draws:
                low, high = bounds_over_prompts(clusters_of(each), -top, top, alpha=0.05)
                found.append(low > 0 or high < 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                by_t = 100 * np.mean(ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05)
            ours = 100 * np.mean(found)
            cells.append(f"{prompts}, {points:g}: {by_t:.1f} {ours:.1f}")
        print(f"{name:14} " + "   ".join(cells), flush=True)


def of_looks(all_worlds: list[World], runs: int) -> None:
    """Who looks after 20 to 400 prompts: how often the truth is ever left out by Student's interval."""
    print(
        f"\nEver missed in % at {len(LOOKS)} looks from {LOOKS[0]} to {LOOKS[-1]} prompts "
        f"(± {100 * np.sqrt(0.05 * 0.95 / runs):.1f} at 5)"
    )
    draws = {world.name: (world, world.truth) for world in all_worlds}
    draws |= {f"{share:.0%} by {far:+g}": ((share, far), 0.0) for share, far in SKEWED}
    for number, (name, (source, truth)) in enumerate(draws.items()):
        rng = np.random.default_rng([number, 7])
        ever = 0
        for _ in range(runs):
            each = drawn(source, rng)
            ever += any(abs(each[:g].mean() - truth) > half_by_t(each[:g]) for g in LOOKS)
        print(f"{name:24} {100 * ever / runs:5.1f}", flush=True)


def drawn(source: World | tuple[float, float], rng: np.random.Generator) -> FloatArray:
    """The differences of as many prompts as there are at the last look."""
    count = int(LOOKS[-1])
    if not isinstance(source, World):
        return skewed(*source, count, rng)
    return (
        np.where(SYSTEM == 0, 1, -1)
        @ judged(source, count, "uniform", 1, rng).score.reshape(-1, 4).T
        / 2
    )


def half_by_t(each: FloatArray) -> float:
    """Half of Student's interval, never quite 0."""
    return float(student_factor(len(each), 0.05) * each.std(ddof=1) / np.sqrt(len(each))) + 1e-12


def of_power(all_worlds: list[World], runs: int) -> None:
    """Were prompts_needed judged, how often would it be settled? Truth in place of the difference found."""
    print(
        "\nOf differences not settled at 50 prompts: settled after as many prompts as were said to be needed"
    )
    for number, world in enumerate(all_worlds):
        rng = np.random.default_rng([number, 11])
        settled, needed = [], []
        for _ in range(max(40, runs // 10)):
            one = differences(judged(world, 50, "uniform", 2, rng), 2)[0]
            if not one.is_settled and one.prompts_needed < 4000:
                more = differences(judged(world, int(one.prompts_needed), "uniform", 2, rng), 2)[0]
                settled.append(more.is_settled)
                needed.append(one.prompts_needed)
        if settled:
            low, high = (
                binom.interval(0.95, len(settled), np.mean(settled))
                if 0 < np.mean(settled) < 1
                else (0, 0)
            )
            print(
                f"{world.name:24} {np.mean(settled):.2f} ({low / len(settled):.2f}-{high / len(settled):.2f}) of "
                f"{len(settled)}, median needed {np.median(needed):.0f}",
                flush=True,
            )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pool", type=Path)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", choices=["coverage", "skew", "size", "looks", "power"])
    given = parser.parse_args()
    found = list(worlds(given.pool, np.random.default_rng(1)))
    print("truths:", ", ".join(f"{world.name} {world.truth:+.3f}" for world in found))
    tables = {
        "coverage": lambda: of_coverage(found, given.runs),
        "skew": of_skew,
        "size": lambda: of_size(given.runs),
        "looks": lambda: of_looks(found, given.runs),
        "power": lambda: of_power(found, given.runs),
    }
    for name in [given.only] if given.only else tables:
        tables[name]()


if __name__ == "__main__":
    main()
