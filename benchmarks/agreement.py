"""Do the intervals of agreement hold? Simulated coverage with four responses a prompt, over prompts and over pairs.

    python -m benchmarks.agreement [simulations]

Half of the variance of a response's quality is its prompt's. The human rates the quality, and the judge's mean follows it, on
the scale 0 to 4, both with noise; a score is the mean of ten ratings. The true value of a coefficient is that of a million
pairs. Calibration is covered if the interval of a level holds the mean human rating of that level.

Reliability besides with fewer ratings, and on pools of recorded ratings under schedulers that ask more where ratings differ:
there the truth is what the scores of two runs of the same pairs correlate with.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.coverage import POOLS, Rated, played, sets_of
from robin_cli.model.arms import FloatArray, IntArray, sample_variance
from robin_cli.model.records import Scale
from robin_cli.stats.agreement import COEFFICIENTS, SELF, agreement, calibration, reliability

SCALE, ENDS = Scale(0, 4), (0, 4)
RESPONSES, RATINGS, RESAMPLES = 4, 10, 400
PROMPTS = (20, 25, 50, 200)
SOME_TWICE = (0.0, 0.05, 0.075, 0.1, 0.2, 0.5)
"""Shares of pairs that are asked twice, the others once."""
ADAPTIVE, CALLS, PAIRS = ("two-priors", "auto"), (5, 10, 20, 50), 200


def drawn(
    prompts: int, rng: np.random.Generator, ratings: int = RATINGS, twice: float = 0.0
) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, IntArray]:
    """Scores, how many ratings they are of and their variances, human ratings and prompts; ``twice``: a share has one more."""
    prompt = np.repeat(np.arange(prompts), RESPONSES)
    pairs = len(prompt)
    quality = 2 + 0.7 * (rng.normal(size=prompts)[prompt] + rng.normal(size=pairs))
    human = np.clip(np.round(quality + 0.5 * rng.normal(size=pairs)), *ENDS)
    mean = 2.4 + 0.7 * (quality - 2) + 0.3 * rng.normal(size=pairs)
    given = np.clip(np.round(mean[:, None] + 0.8 * rng.normal(size=(pairs, ratings + 1))), *ENDS)
    n = ratings + (rng.permutation(pairs) < round(twice * pairs)).astype(np.int64)
    given[np.arange(ratings + 1) >= n[:, None]] = 0.0
    total, total_sq = given.sum(axis=1), (given**2).sum(axis=1)
    return total / n, n[:, None], sample_variance(n, total, total_sq)[:, None], human, prompt


def of_agreement(simulations: int) -> None:
    """A row for each number of prompts."""
    scores, n, variances, human, prompt = drawn(250_000, np.random.default_rng(0))
    everything = np.arange(250_000 * RESPONSES)
    found = [
        *agreement(scores, human, prompt, SCALE, resamples=0),
        *reliability(scores, n, variances, prompt, resamples=0),
    ]
    true = {each.coefficient: each.value for each in found}
    level = {each.level: each.mean_human for each in calibration(scores, human, everything, SCALE)}
    print("truth:", ", ".join(f"{name} {value:.3f}" for name, value in true.items()))
    names = (*COEFFICIENTS, *SELF, "calibration")
    print(f"{'prompts':>8} {'over':>8} " + " ".join(f"{name:>11}" for name in names))
    for prompts in PROMPTS:
        for over in ("prompts", "pairs"):
            held: dict[str, list[bool]] = defaultdict(list)
            for number in range(simulations):
                scores, n, variances, human, prompt = drawn(
                    prompts, np.random.default_rng([1, prompts, number])
                )
                units = prompt if over == "prompts" else np.arange(len(prompt))
                for each in (
                    *agreement(scores, human, units, SCALE, resamples=RESAMPLES),
                    *reliability(scores, n, variances, units, resamples=RESAMPLES),
                ):
                    held[each.coefficient].append(
                        each.ci_low <= true[each.coefficient] <= each.ci_high
                    )
                for told in calibration(scores, human, units, SCALE):
                    if not np.isnan(told.ci_low):
                        held["calibration"].append(told.ci_low <= level[told.level] <= told.ci_high)
            print(
                f"{prompts:>8} {over:>8} "
                + " ".join(f"{np.mean(held[name]):>11.3f}" for name in names),
                flush=True,
            )


def of_few_ratings(simulations: int) -> None:
    """The reliability where pairs have few ratings: told, true, covered, of those that were told."""
    print(
        "\nReliability by ratings a pair: truth; told, its width, covered, for each number of prompts (share told)"
    )
    for ratings, twice in (
        *((1, share) for share in SOME_TWICE),
        *((each, 0.0) for each in (2, 3, 5, 10)),
    ):
        mean = np.random.default_rng(0)
        first, *_ = drawn(250_000, mean, 40)
        noise = drawn(250_000, mean, 40)[2].mean()
        pairs = first.var() - noise / 40
        truth = pairs / (pairs + noise * ((1 - twice) / ratings + twice / (ratings + 1)))
        cells = []
        for prompts in (25, 50, 100):
            found = []
            for number in range(simulations):
                scores, n, variances, _, prompt = drawn(
                    prompts, np.random.default_rng([2, prompts, number]), ratings, twice
                )
                found.append(reliability(scores, n, variances, prompt, resamples=RESAMPLES)[0])
            told = [each for each in found if np.isfinite(each.value)]
            if told:
                width = np.mean([each.ci_high - each.ci_low for each in told])
                covered = 100 * np.mean([each.ci_low <= truth <= each.ci_high for each in told])
                value = np.mean([each.value for each in told])
                cells.append(
                    f"{prompts}: {value:.3f}, {width:.2f}, {covered:.0f} % ({len(told) / len(found):.0%} told)"
                )
            else:
                cells.append(f"{prompts}: none told")
        print(f"{ratings + twice:>6g} a pair: {truth:.3f}; " + "; ".join(cells), flush=True)


def of_pools_asked_twice(sets: Sequence[Rated], simulations: int, rng: np.random.Generator) -> None:
    """The reliability of judges whose noise differs from pair to pair, where few of 400 pairs are asked twice."""
    print(
        "\nOn pools, 400 pairs, so many of them asked twice: truth; told less truth; covered, mean and least of a set"
    )
    for twice in (30, 60, 120, 400):
        rows = []
        for rated in sets:
            noise, told = (rated.deviations**2).mean(), []
            truth = rated.means.var() / (rated.means.var() + noise * (1 - twice / 400 / 2))
            n = np.where(np.arange(400) < twice, 2, 1)
            for _ in range(simulations):
                counts = rng.multinomial(n, rated.shares[rng.integers(len(rated.shares), size=400)])
                total, squares = counts @ rated.levels, counts @ rated.levels**2
                variances = sample_variance(n, total, squares)[:, None]
                (each, *_) = reliability(
                    total / n,
                    n[:, None],
                    variances,
                    np.arange(400),
                    resamples=RESAMPLES,
                )
                told.append((each.value, each.ci_low <= truth <= each.ci_high))
            value, held = np.array(told).mean(axis=0)
            rows.append((truth, value - truth, held))
        truths, off, covered = np.array(rows).T
        print(
            f"{twice:4}  {truths.mean():.3f}; {off.mean():+.3f}; {covered.mean():.1%}, {covered.min():.1%}",
            flush=True,
        )


def pooled_and_own(scores: FloatArray, n: FloatArray, variances: FloatArray) -> tuple[float, float]:
    """The reliability by one variance pooled over all ratings, and by each pair's own."""
    pooled = ((n - 1) * variances).sum() / (n - 1).sum()
    total = scores.var(ddof=1)
    return 1 - pooled * (1 / n).mean() / total, 1 - (variances / n).mean() / total


def while_adapting(sets: Sequence[Rated], simulations: int, rng: np.random.Generator) -> None:
    """The reliability of runs whose ratings say where the next ones go, against that of another run of the same pairs."""
    print(
        f"\nUnder a scheduler, {PAIRS} pairs, {len(sets)} sets: retest; told less retest, by the moderated variances, by one"
    )
    print("pooled over all ratings, by each pair's own; covered, mean and least of a set")
    for name in ADAPTIVE:
        for calls in CALLS:
            rows = []
            for rated in sets:
                moments, told = np.zeros(2), []
                for _ in range(simulations):
                    mine = replace(
                        rated, shares=rated.shares[rng.integers(len(rated.shares), size=PAIRS)]
                    )
                    runs = []
                    for _ in range(2):
                        counts = next(played(name, mine, (calls,), rng))
                        n, total, squares = (
                            counts.sum(axis=1),
                            counts @ rated.levels,
                            counts @ rated.levels**2,
                        )
                        runs.append((total / n, n, sample_variance(n, total, squares)))
                    (scores, n, variances), (again, *_) = runs
                    together = np.cov(scores, again)
                    moments += together[0, 1], np.trace(together) / 2
                    each = reliability(
                        scores,
                        n[:, None],
                        variances[:, None],
                        np.arange(PAIRS),
                        resamples=RESAMPLES,
                    )[0]
                    told.append(
                        (
                            each.value,
                            *pooled_and_own(scores, n, variances),
                            each.ci_low,
                            each.ci_high,
                        )
                    )
                truth, values = moments[0] / moments[1], np.array(told)
                held = (values[:, 3] <= truth) & (truth <= values[:, 4])
                rows.append((truth, *(values[:, :3].mean(axis=0) - truth), held.mean()))
            truth, *off, held = np.array(rows).T
            by = ", ".join(f"{each.mean():+.3f}" for each in off)
            print(
                f"{name:11} {calls:3}  {truth.mean():.3f}; {by}; {held.mean():.1%}, {held.min():.1%}",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    of_agreement(simulations)
    of_few_ratings(simulations)
    sets = sets_of(POOLS, 10**6)
    of_pools_asked_twice(sets, max(2, simulations // 3), np.random.default_rng(4))
    while_adapting(sets, max(2, simulations // 3), np.random.default_rng(3))


if __name__ == "__main__":
    main()
