"""Do the intervals of agreement hold? Simulated coverage with four responses a prompt, over prompts and over pairs.

    python benchmarks/agreement.py [simulations]

Half of the variance of a response's quality is its prompt's. The human rates the quality, and the judge's mean follows it, on
the scale 0 to 4, both with noise; a score is the mean of ten ratings. The true value of a coefficient is that of a million
pairs. Calibration is covered if the interval of a level holds the mean human rating of that level.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np

from robin_cli.analysis.agreement import COEFFICIENTS, agreement
from robin_cli.analysis.calibration import calibration
from robin_cli.analysis.reliability import SELF, reliability
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale

SCALE, ENDS = Scale(0, 4), (0, 4)
RESPONSES, RATINGS, RESAMPLES = 4, 10, 400
PROMPTS = (20, 25, 50, 200)


def drawn(prompts: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Scores, their error variances, human ratings and prompts."""
    prompt = np.repeat(np.arange(prompts), RESPONSES)
    pairs = len(prompt)
    quality = 2 + 0.7 * (rng.normal(size=prompts)[prompt] + rng.normal(size=pairs))
    human = np.clip(np.round(quality + 0.5 * rng.normal(size=pairs)), *ENDS)
    mean = 2.4 + 0.7 * (quality - 2) + 0.3 * rng.normal(size=pairs)
    ratings = np.clip(np.round(mean[:, None] + 0.8 * rng.normal(size=(pairs, RATINGS))), *ENDS)
    return ratings.mean(axis=1), ratings.var(axis=1, ddof=1) / RATINGS, human, prompt


def main() -> None:
    """Print a row for each number of prompts."""
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    scores, errors, human, prompt = drawn(250_000, np.random.default_rng(0))
    everything = np.arange(250_000 * RESPONSES)
    found = [
        *agreement(scores, human, prompt, SCALE, resamples=0),
        *reliability(scores, errors, prompt, np.full(len(scores), RATINGS), resamples=0),
    ]
    true = {each.coefficient: each.value for each in found}
    level = {each.level: each.mean_human for each in calibration(scores, human, everything, ENDS)}
    print("truth:", ", ".join(f"{name} {value:.3f}" for name, value in true.items()))
    names = (*COEFFICIENTS, *SELF, "calibration")
    print(f"{'prompts':>8} {'over':>8} " + " ".join(f"{name:>11}" for name in names))
    for prompts in PROMPTS:
        for over in ("prompts", "pairs"):
            held: dict[str, list[bool]] = defaultdict(list)
            for number in range(simulations):
                scores, errors, human, prompt = drawn(prompts, np.random.default_rng([1, prompts, number]))
                units = prompt if over == "prompts" else np.arange(len(prompt))
                counts = np.full(len(scores), RATINGS)
                for each in (
                    *agreement(scores, human, units, SCALE, resamples=RESAMPLES),
                    *reliability(scores, errors, units, counts, resamples=RESAMPLES),
                ):
                    held[each.coefficient].append(each.ci_low <= true[each.coefficient] <= each.ci_high)
                for told in calibration(scores, human, units, ENDS):
                    if not np.isnan(told.ci_low):
                        held["calibration"].append(told.ci_low <= level[told.level] <= told.ci_high)
            print(f"{prompts:>8} {over:>8} " + " ".join(f"{np.mean(held[name]):>11.3f}" for name in names), flush=True)


if __name__ == "__main__":
    main()
