"""How often does robin gate decide wrongly where a requirement is just true or just not, and how wide are its intervals?

    python -m benchmarks.gate POOL [--runs 1000]

POOL has ratings of several responses a prompt, the response's number the last part of the pair's id. Prompts are drawn from it
and from made-up populations that are hard on intervals. Errors of a rate p are √(p(1 − p)/runs).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from robin_cli.analysis.clustered import clusters_of, mean_bounds
from robin_cli.datasets.pools import load_pools
from robin_cli.model.arms import FloatArray, IntArray

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
        return np.take_along_axis(pairs, given, axis=1).mean(axis=1), np.repeat(np.arange(prompts), responses)

    return draw, float(ratings.mean())


def two_kinds(share: float, good: int, bad: int) -> tuple[Draw, float]:
    """A ``share`` of prompts, of ``bad`` pairs each, has scores of 0, the others, of ``good`` pairs each, of 4."""

    def draw(prompts: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        is_bad = rng.random(prompts) < share
        prompt = np.repeat(np.arange(prompts), np.where(is_bad, bad, good))
        return np.where(is_bad[prompt], 0.0, 4.0), prompt

    return draw, 4 * (1 - share) * good / ((1 - share) * good + share * bad)


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
            prompt.setdefault(pair.rpartition("/")[0], []).append(np.asarray(given, dtype=np.float64))
        whole = [each[:4] for each in prompt.values() if len(each) >= 4 and all(len(some) == 8 for some in each[:4])]
        ratings = np.array(whole)
        for responses in RESPONSES:
            for calls in (1, 5):
                yield f"{name} {responses} × {calls}", *of_a_pool(ratings, responses, calls), 1.0, 10.0
    for share in (0.3, 0.1, 0.03, 0.01):
        yield f"bad prompts {share:g}", *two_kinds(share, 1, 1), 0.0, 4.0
        yield f"bad prompts {share:g}, larger", *two_kinds(share, 1, 8), 0.0, 4.0
        yield f"bad prompts {share:g}, smaller", *two_kinds(share, 8, 1), 0.0, 4.0
    for spread in (0.1, 0.5, 1.0):
        yield f"skewed {spread:g}", *skewed(spread), 0.0, 4.0


def by_t(scores: FloatArray, prompt: IntArray) -> tuple[float, float]:
    """The interval by Student's t over prompts."""
    clusters = clusters_of(scores, prompt)
    half = student.ppf(1 - DELTA / 2, clusters.times.sum() - 1) * np.sqrt(clusters.variance)
    return clusters.mean - half, clusters.mean + half


def of_means(path: Path, runs: int) -> None:
    print("Wrong decisive verdicts on the mean in %, at its exact value: by t, by gate; width over that of t (median)")
    worst: dict[tuple[str, int], list[tuple[float, float, float, str]]] = {}
    for number, (name, draw, truth, low, high) in enumerate(populations(path)):
        cells = []
        for prompts in PROMPTS:
            rng = np.random.default_rng([number, prompts])
            ends = []
            for _ in range(runs):
                scores, prompt = draw(prompts, rng)
                ends.append((*by_t(scores, prompt), *mean_bounds(clusters_of(scores, prompt), low, high, alpha=DELTA)))
            t_low, t_high, ours_low, ours_high = np.array(ends).T
            slack = 1e-9 * (high - low)
            wrong_t, wrong = (
                100 * float(np.mean((a > truth + slack) | (b < truth - slack)))
                for a, b in ((t_low, t_high), (ours_low, ours_high))
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = float(np.median((ours_high - ours_low) / (t_high - t_low)))
            cells.append(f"{prompts}: {wrong_t:.1f} {wrong:.1f} {ratio:.2f}")
            kind = "pool" if high == 10 else "made up"
            worst.setdefault((kind, prompts), []).append((wrong_t, wrong, ratio, name))
        print(f"{name:28} " + "   ".join(cells), flush=True)
    for (kind, prompts), rows in worst.items():
        by_student, ours, ratios, names = zip(*rows, strict=True)
        print(
            f"{kind} {prompts}: t mean {np.mean(by_student):.1f} worst {max(by_student):.1f}; gate mean {np.mean(ours):.1f} "
            f"worst {max(ours):.1f} ({names[int(np.argmax(ours))]}); width mean {np.mean(ratios):.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    of_means(given.pool, given.runs)
