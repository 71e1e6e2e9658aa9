"""How often does robin gate decide wrongly where a requirement is just true or just not, and how wide are its intervals?

    python -m benchmarks.gate POOL [--runs 1000]

POOL has ratings of several responses a prompt, the response's number the last part of the pair's id. Prompts are drawn from it
and from made-up populations that are hard on intervals. Errors of a rate p are √(p(1 − p)/runs).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.coverage import Rated, played
from robin_cli.data.pools import load_pools
from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.decision import Criterion
from robin_cli.model.records import Scale
from robin_cli.stats.clustered import bounds_over_prompts, clusters_of
from robin_cli.stats.gate import Measured, judged
from robin_cli.stats.intervals import Part
from robin_cli.stats.moderated import moderated
from robin_cli.stats.requirement import Requirement

PROMPTS = (5, 10, 20, 50, 100, 200, 500)
RESPONSES = (1, 2, 4)
DELTA = 0.05

Draw = Callable[[int, np.random.Generator], tuple[FloatArray, IntArray]]
"""Scores of the pairs of so many prompts, and the prompt of each."""


def of_a_pool(ratings: FloatArray, responses: int, calls: int) -> tuple[Draw, float]:
    """Prompts of a pool, shape (prompts, responses, ratings), each pair rated ``calls`` times; and the true mean."""

    def draw(prompts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        chosen = rng.integers(0, len(ratings), prompts)
        which = np.argsort(rng.random((prompts, ratings.shape[1])), axis=1)[:, :responses]
        pairs = ratings[chosen[:, None], which].reshape(prompts * responses, -1)
        given = rng.integers(0, pairs.shape[1], (len(pairs), calls))
        return np.take_along_axis(pairs, given, axis=1).mean(axis=1), np.repeat(
            np.arange(prompts), responses
        )

    return draw, float(ratings.mean())


def two_kinds(share: float, good: tuple[int, int], bad: tuple[int, int]) -> tuple[Draw, float]:
    """A ``share`` of prompts has scores of 0, the others of 4; as many of each have the first number of pairs as the second."""

    def draw(prompts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        is_bad = rng.random(prompts) < share
        which = rng.integers(0, 2, prompts)
        prompt = np.repeat(
            np.arange(prompts), np.where(is_bad, np.array(bad)[which], np.array(good)[which])
        )
        return np.where(is_bad[prompt], 0.0, 4.0), prompt

    return draw, 4 * (1 - share) * sum(good) / ((1 - share) * sum(good) + share * sum(bad))


def skewed(spread: float) -> tuple[Draw, float]:
    """Means that are 4 less exponential variables, one response a prompt, cut off at 0."""

    def draw(prompts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        return np.maximum(4 - rng.exponential(spread, prompts), 0.0), np.arange(prompts)

    return draw, 4 - spread * (1 - np.exp(-4 / spread))


def populations(path: Path) -> Iterator[tuple[str, Draw, float, float, float]]:
    """Name, how to draw, true mean, and the ends of the scale."""
    for name, pool in load_pools(path).items():
        prompt: dict[str, list[FloatArray]] = {}
        for pair, given in zip(pool.pair_ids, pool.ratings, strict=True):
            prompt.setdefault(pair.rpartition("/")[0], []).append(
                np.asarray(given, dtype=np.float64)
            )
        whole = [
            each[:4]
            for each in prompt.values()
            if len(each) >= 4 and all(len(some) == 8 for some in each[:4])
        ]
        ratings = np.array(whole)
        for responses in RESPONSES:
            for calls in (1, 5):
                yield (
                    f"{name} {responses} × {calls}",
                    *of_a_pool(ratings, responses, calls),
                    1.0,
                    10.0,
                )
    for share in (0.3, 0.1, 0.03, 0.01):
        yield f"bad prompts {share:g}", *two_kinds(share, (1, 1), (1, 1)), 0.0, 4.0
        yield f"bad prompts {share:g}, larger", *two_kinds(share, (1, 8), (8, 8)), 0.0, 4.0
        yield f"bad prompts {share:g}, smaller", *two_kinds(share, (8, 8), (1, 1)), 0.0, 4.0
    for spread in (0.1, 0.5, 1.0):
        yield f"skewed {spread:g}", *skewed(spread), 0.0, 4.0


def by_t(scores: FloatArray, prompt: IntArray) -> tuple[float, float]:
    """The interval by Student's t over prompts."""
    clusters = clusters_of(scores, prompt)
    half = student.ppf(1 - DELTA / 2, clusters.times.sum() - 1) * np.sqrt(clusters.variance)
    return clusters.mean - half, clusters.mean + half


def of_means(path: Path, runs: int, kinds: Sequence[str]) -> None:
    print(
        "Wrong decisive verdicts on the mean in %, at its exact value: by t, by gate; width over that of t (median)"
    )
    worst: dict[tuple[str, int], list[tuple[float, float, float, str]]] = {}
    for number, (name, draw, truth, low, high) in enumerate(populations(path)):
        kind = "pool" if high == 10 else "made-up"
        if kind not in kinds:
            continue
        cells = []
        for prompts in PROMPTS:
            rng = np.random.default_rng([number, prompts])
            ends = []
            for _ in range(runs):
                scores, prompt = draw(prompts, rng)
                ends.append(
                    (
                        *by_t(scores, prompt),
                        *bounds_over_prompts(clusters_of(scores, prompt), low, high, alpha=DELTA),
                    )
                )
            t_low, t_high, ours_low, ours_high = np.array(ends).T
            slack = 1e-9 * (high - low)
            wrong_t, wrong = (
                100 * float(np.mean((a > truth + slack) | (b < truth - slack)))
                for a, b in ((t_low, t_high), (ours_low, ours_high))
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = float(np.median((ours_high - ours_low) / (t_high - t_low)))
            cells.append(f"{prompts}: {wrong_t:.1f} {wrong:.1f} {ratio:.2f}")
            worst.setdefault((kind, prompts), []).append((wrong_t, wrong, ratio, name))
        print(f"{name:28} " + "   ".join(cells), flush=True)
    for (kind, prompts), rows in worst.items():
        by_student, ours, ratios, names = zip(*rows, strict=True)
        print(
            f"{kind} {prompts}: t mean {np.mean(by_student):.1f} worst {max(by_student):.1f}; gate mean {np.mean(ours):.1f} "
            f"worst {max(ours):.1f} ({names[int(np.argmax(ours))]}); width mean {np.mean(ratios):.2f}"
        )


def pairs_of(
    shares: FloatArray,
    prompt: IntArray,
    calls: int,
    scheduler: str,
    rng: np.random.Generator,
    scale: Scale,
) -> Measured:
    """Pairs with these true shares of each level, rated ``calls`` times each on average."""
    rated = Rated("", scale, shares)
    counts = (
        rng.multinomial(calls, shares)
        if scheduler == "uniform"
        else next(played(scheduler, rated, (calls,), rng))
    )
    n, total, total_sq = counts.sum(axis=1), counts @ rated.levels, counts @ rated.levels**2
    error = moderated(rated.space, Sums(n.astype(np.float64), total, total_sq)).error_variance
    is_asked, parts = (
        np.ones(len(shares), dtype=np.bool_),
        [Part(counts, scale.low, scale.high, 1.0)],
    )
    return Measured(total / n, error, prompt, parts, is_asked, scale.low, scale.high, int(n.sum()))


def flips(mean: float) -> FloatArray:
    """The share of each level, for ratings of this mean that are 0 or 4."""
    return np.array([1 - mean / 4, 0, 0, 0, mean / 4])


def near(mean: float) -> FloatArray:
    """The same for ratings that are one of the two next to the mean."""
    found = np.zeros(5)
    found[int(mean)] = 1 - mean % 1
    found[int(mean) + 1] += mean % 1
    return found


TOP, BOTTOM = np.array([0.0, 0, 0, 0, 1]), np.array([1.0, 0, 0, 0, 0])
AT, MARGIN = 3.0, 0.1
NASTY = {"flips": flips, "near": near}


def of_all(runs: int) -> None:
    """One pair of 20 at the lower end of the margin, which must not pass; all at the upper, which must not fail."""
    print("\nWrong verdicts on all(score>=3) of 20 pairs in %")
    requirement = Requirement("all", Criterion("a", ">=", AT), MARGIN)
    for name, ratings in NASTY.items():
        for side in ("passes", "fails"):
            cells = []
            for calls, scheduler in (
                (5, "uniform"),
                (20, "uniform"),
                (100, "uniform"),
                (20, "two-priors"),
            ):
                rng = np.random.default_rng([calls, side == "fails"])
                levels = np.tile(TOP, (20, 1))
                if side == "passes":
                    levels[0] = ratings(AT - MARGIN)
                else:
                    levels[:] = ratings(AT + MARGIN)
                told = [
                    pairs_of(levels, np.arange(20), calls, scheduler, rng, Scale(0, 4))
                    for _ in range(runs)
                ]
                states = [judged(requirement, each, error_rate=DELTA).state for each in told]
                wrong = np.mean(
                    [state == {"fails": "fail", "passes": "pass"}[side] for state in states]
                )
                cells.append(f"{calls} {scheduler}: {100 * wrong:.1f}")
            print(f"{name:6} {side:6} " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=["pool", "made-up", "all"])
    given = parser.parse_args()
    if given.only in {None, "pool", "made-up"}:
        of_means(given.pool, given.runs, [given.only] if given.only else ["pool", "made-up"])
    if given.only in {None, "all"}:
        of_all(given.runs)
