"""What people's labels give: python -m benchmarks.people [POOL …]; docs/evidence/people.md has the tables. Simulated.

First, of pools that say which response is right, how many bests are certified as agreed, and how often the promise is broken.

Then which labels to ask for next: labels drawn in proportion to the judge's error, as the first 25 let it be fitted to the
score, beside an even draw: the width of the corrected mean, for biases of five kinds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robin_cli.data.pools import Pool
from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.records import Scale
from robin_cli.policies.registry import make_policy
from robin_cli.run.pools import load_pools
from robin_cli.simulate.pools import subject_of
from robin_cli.simulate.runs import DrawnRatings, simulate
from robin_cli.simulate.settings import SimulationSettings
from robin_cli.stats.agreed import agreed
from robin_cli.stats.decided import decisions_by, first_rows
from robin_cli.stats.labelled import Corrected, corrected
from robin_cli.stats.likely_wrong import likely_wrong
from robin_cli.stats.stances import Stances

PAIRS, LABELS, FIRST, RUNS = 1_000, 100, 25, 120
CALLS, PROMISE = 1.5, 0.9
OWN = Path(__file__).parent.parent / "configs" / "pools" / "rewardbench2.parquet"
_EVEN = 0.3
"""Of the probability, what every pair has alike."""

Bias = Callable[[FloatArray, np.random.Generator], FloatArray]
BIASES: dict[str, Bias] = {
    "0.5 everywhere": lambda quality, rng: 0.5 + rng.normal(0, 0.5, len(quality)),
    "kinder to bad responses": lambda quality, rng: (
        (4 - quality) * 0.35 + rng.normal(0, 0.5, len(quality))
    ),
    "1 for one of two systems": lambda quality, rng: (
        np.arange(len(quality)) % 2 + rng.normal(0, 0.5, len(quality))
    ),
    "2 for a tenth of the pairs": lambda quality, rng: (
        2.0 * (rng.random(len(quality)) < 0.1) + rng.normal(0, 0.5, len(quality))
    ),
    "noisy for bad responses": lambda quality, rng: (
        0.3 + rng.normal(0, np.where(quality < 1.5, 1.2, 0.15))
    ),
}


def even(scores: FloatArray, people: FloatArray, rng: np.random.Generator) -> tuple[Corrected, int]:
    """The mean corrected by labels that are drawn evenly, and how many they are."""
    labels = np.full(PAIRS, np.nan)
    drawn = rng.choice(PAIRS, LABELS, replace=False)
    labels[drawn] = people[drawn]
    return _mean(scores, labels, np.ones(PAIRS)), LABELS


def by_error(
    scores: FloatArray, people: FloatArray, rng: np.random.Generator
) -> tuple[Corrected, int]:
    """The same by labels that are drawn where the judge's error is large, as far as the first of them show it."""
    labels = np.full(PAIRS, np.nan)
    first = rng.choice(PAIRS, FIRST, replace=False)
    residual = people[first] - scores[first]
    squared = (residual - residual.mean()) ** 2
    near = np.exp(-0.5 * ((scores[:, None] - scores[first]) / 0.5) ** 2)
    size = np.sqrt((near @ squared + 3 * squared.mean()) / (near.sum(axis=1) + 3))
    drawn = np.minimum(1.0, (LABELS - FIRST) * (_EVEN / PAIRS + (1 - _EVEN) * size / size.sum()))
    labels[first] = people[first]
    more = rng.random(PAIRS) < drawn
    labels[more] = people[more]
    probability = 1 - (1 - FIRST / PAIRS) * (1 - drawn)
    return _mean(scores, labels, probability), int((~np.isnan(labels)).sum())


def _mean(scores: FloatArray, labels: FloatArray, probability: FloatArray) -> Corrected:
    return corrected(
        scores, labels, probability, np.arange(PAIRS), np.full(PAIRS, 1 / PAIRS), ends=(0.0, 4.0)
    )


def promises(pool: Pool, seeds: int = 5) -> None:
    """Print what is certified by so many labels, how much of it is wrong, and how often more than the promise is."""
    settings = SimulationSettings(decide="best")
    subject = subject_of(
        pool, settings, Scale(*(int(end(map(end, pool.ratings))) for end in (min, max)))
    )
    goal, arms, rng = subject.goal, len(pool.ratings), np.random.default_rng(1)
    assert goal.task is not None  # noqa: S101  # for the types
    assert subject.right is not None  # noqa: S101
    own = {name: getattr(settings, name) for name in ("delta", "mode", "margin")}
    truth = DrawnRatings.from_ratings(pool.ratings)
    policy = make_policy("auto", goal.setup(own, budget := round(CALLS * arms)))
    found = {labels: np.zeros((0, 3)) for labels in (100, 200)}
    for _ in range(seeds):
        (spent,) = simulate(truth, policy, [budget], 1, rng, court=goal.court)
        n, means = spent.n[0].astype(np.int64), spent.estimates[0]
        # A mean says what its arm's ratings were together; how they differed is drawn anew, with the arm's own variance.
        squares = n * means**2 + truth.variances * np.maximum(n - 1, 0)
        sums = Sums(n.astype(np.float64), n * means, squares)
        decision = decisions_by(goal.task, means)
        first = first_rows(goal.task, decision)
        chances = likely_wrong(goal.task, sums, np.zeros(arms, dtype=np.bool_))
        right, every = subject.right[first], np.arange(len(first))
        for labels, before in found.items():
            rows = [before]
            for _ in range(40):
                said = np.full(len(first), np.nan)
                drawn = rng.choice(len(first), labels, replace=False)
                said[drawn] = right[drawn]
                sure = agreed(Stances(chances, said, every), PROMISE).agreed
                wrong = float((~right[sure]).mean()) if sure.any() else 0.0
                rows.append(np.array([[sure.mean(), wrong, wrong > 1 - PROMISE]]))
            found[labels] = np.vstack(rows)
    for labels, each in found.items():
        certified, missed, broken = (f"{100 * value:.1f} %" for value in each.mean(axis=0))
        print(
            f"{pool.name}, {labels} labels: agreed {certified}, wrong {missed}, broken {broken}",
            flush=True,
        )


def main(pools: list[Path]) -> None:
    """Print the tables."""
    for pool in (pool for path in pools for pool in load_pools(path).values()):
        promises(pool)
    rng = np.random.default_rng(0)
    print(
        "planted bias: labels needed for the same width, squared error, over those of an even draw; simulated"
    )
    for name, bias in BIASES.items():
        found: dict[str, list[tuple[float, float, int]]] = {"even": [], "by error": []}
        for _ in range(RUNS):
            quality = np.clip(rng.normal(2.2, 1.0, PAIRS), 0, 4)
            people = np.clip(np.round(quality + rng.normal(0, 0.4, PAIRS)), 0, 4)
            scores = np.clip(quality + bias(quality, rng), 0, 4)
            for how, draw in (("even", even), ("by error", by_error)):
                mean, labels = draw(scores, people, rng)
                found[how].append(
                    (mean.high - mean.low, (mean.estimate - people.mean()) ** 2, labels)
                )
        (width, error, labels), (its, own, n) = (np.mean(each, axis=0) for each in found.values())
        print(
            f"{name}: {(its / width) ** 2 * n / labels:.2f}, {own / error * n / labels:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]] or [OWN])
