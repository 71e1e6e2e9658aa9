"""Do means and differences that labels correct hold what they say, and what draw of the labels makes them narrow?

    python -m benchmarks.labels [POOL…] [--runs 1000]

Made-up worlds on the scale 0 to 4. Half of the variance of a response's quality is its prompt's; people rate the quality with
some noise, in whole levels. The judge's mean rating is half a point too high, errs besides by prompt and by pair, and where
it errs more its ratings differ more; it rates a pair 1, 2, 3 or 5 times. Errors of a rate p are √(p(1 − p)/runs).

POOL: ratings of pairs by several judges, whose first response of each prompt (the last part of the pair's id is 0) is the
right one. There one judge is corrected by another's single ratings, or by which responses are right.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from robin_cli.data.pools import load_pools
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.clustered import clusters_of
from robin_cli.stats.labelled import FEWEST_LABELLED, Corrected, corrected
from robin_cli.stats.run_labels import drawing_order

RESPONSES, BIAS, MOST = 4, 0.5, 5
LABELS, PROMPTS = (25, 50, 100, 400), (200, 1500)


@dataclass(frozen=True, slots=True)
class World:
    """What there is: scores of the judge, what people would say, the prompt and the system of each, and the judge's noise."""

    scores: FloatArray
    human: FloatArray
    prompt: IntArray
    system: IntArray
    noise: FloatArray


Kind = Callable[[int, np.random.Generator], World]


def world(
    prompts: int,
    rng: np.random.Generator,
    *,
    center: float = 2.0,
    biases: tuple[float, ...] = (BIAS,),
    better: float = 0.0,
    sizes: tuple[int, ...] = (RESPONSES,),
    levels: int = 5,
    follows: float = 1.0,
) -> World:
    """Prompts, each with as many responses of each system as one of ``sizes`` says.

    Args:
        biases: of the judge, by system.
        better: how much better the first system is.
        levels: of the people's scale, which is as long as the judge's.
        follows: the judge's errors by pair over what they usually are.
    """
    systems = len(biases)
    each = rng.choice(sizes, prompts) * systems
    prompt = np.repeat(np.arange(prompts), each)
    pairs = len(prompt)
    system = (np.arange(pairs) - np.repeat(np.cumsum(each) - each, each)) % systems
    quality = (
        center
        + 0.7 * (rng.normal(size=prompts)[prompt] + rng.normal(size=pairs))
        + better * (system == 0)
    )
    step = 4 / (levels - 1)
    human = np.clip(np.round((quality + 0.5 * rng.normal(size=pairs)) / step) * step, 0, 4)
    noise = 0.3 + 0.9 * rng.random(pairs) ** 2
    off = 0.25 * rng.normal(size=prompts)[prompt] + 0.5 * follows * noise * rng.normal(size=pairs)
    mean = quality + np.array(biases)[system] + off
    given = np.clip(np.round(mean[:, None] + noise[:, None] * rng.normal(size=(pairs, MOST))), 0, 4)
    n = rng.choice([1, 2, 3, 5], pairs)
    is_given = np.arange(MOST) < n[:, None]
    return World((given * is_given).sum(axis=1) / n, human, prompt, system, noise)


def unseen(prompts: int, rng: np.random.Generator, *, share: float) -> World:
    """A pair a prompt, near the top; people rate this ``share`` with 0, and the judge does not see it."""
    human, seen = (np.clip(np.round(rng.normal(3.4, 0.6, prompts)), 0, 4) for _ in range(2))
    is_bad, noise = rng.random(prompts) < share, 0.3 + 0.4 * rng.random(prompts)
    scores = np.clip(np.where(is_bad, seen, human) + noise * rng.normal(size=prompts), 0, 4)
    return World(
        scores,
        np.where(is_bad, 0.0, human),
        np.arange(prompts),
        np.zeros(prompts, dtype=np.int64),
        noise,
    )


RARE = (0.02, 0.05, 0.08)

KINDS: dict[str, Kind] = {
    "middling": world,
    "most near the top": lambda prompts, rng: world(prompts, rng, center=3.3),
    "good or bad, 0 or 4": lambda prompts, rng: world(prompts, rng, center=3.0, levels=2),
    "1 to 8 responses": lambda prompts, rng: world(prompts, rng, sizes=(1, 2, 4, 8)),
    "a judge that guesses": lambda prompts, rng: world(prompts, rng, follows=6.0),
}


def spread(each: World, labels: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Which pairs robin draws for a mean, and with what probabilities."""
    order = drawing_order(
        each.prompt, rng.random(each.prompt[-1] + 1), rng.random(len(each.prompt)), whole=False
    )
    return order[:labels], np.ones(len(each.prompt))


def whole(each: World, labels: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Which pairs robin draws for a difference: all of as many prompts as have about so many pairs."""
    order = drawing_order(
        each.prompt, rng.random(each.prompt[-1] + 1), rng.random(len(each.prompt)), whole=True
    )
    return of_first_prompts(order, each.prompt, labels), np.ones(len(each.prompt))


def of_first_prompts(order: IntArray, prompt: IntArray, labels: int) -> IntArray:
    count = math.ceil(labels * (prompt[-1] + 1) / len(prompt))
    return order[np.isin(prompt[order], list(dict.fromkeys(prompt[order].tolist()))[:count])]


def plain(each: World, labels: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Pairs, each by itself."""
    return rng.permutation(len(each.prompt))[:labels], np.ones(len(each.prompt))


def sized(
    each: World, labels: int, rng: np.random.Generator, sizes: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Pairs with probabilities proportional to ``sizes``: the least u/size, the next one's as the bound (priority sampling)."""
    rank = rng.random(len(each.prompt)) / sizes
    order = np.argsort(rank)
    bound = rank[order[labels]] if labels < len(order) else np.inf
    return order[:labels], np.minimum(1.0, sizes * bound)


def by_noise(each: World, labels: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Half of it evenly, half by the judge's true noise, which no run knows so well."""
    return sized(each, labels, rng, 0.5 + 0.5 * each.noise / each.noise.mean())


def anyhow(each: World, labels: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Probabilities that go from one to ten times the least for no reason."""
    return sized(each, labels, rng, 10 ** rng.random(len(each.prompt)))


DRAWS = {
    "spread": spread,
    "whole prompts": whole,
    "plain": plain,
    "by noise": by_noise,
    "anyhow": anyhow,
}


def weights_of(each: World) -> FloatArray:
    """Those of the mean, or of the difference of two systems."""
    systems = [each.system == system for system in np.unique(each.system)]
    return np.stack(
        [mine / mine.sum() * sign for mine, sign in zip(systems, (1.0, -1.0), strict=False)]
    )


def naive(each: World) -> tuple[float, float]:
    """The judge's own estimate, and half its interval: t over prompts."""
    weights = weights_of(each)
    clusters = [clusters_of(each.scores[row != 0], each.prompt[row != 0]) for row in weights]
    prompts = int(each.prompt[-1]) + 1
    if len(clusters) == 1:
        error = float(np.sqrt(clusters[0].variance))
    else:
        by_prompt = np.bincount(each.prompt, weights.sum(axis=0) * each.scores)
        error = float(np.sqrt(prompts) * by_prompt.std(ddof=1))
    return float((weights @ each.scores).sum()), float(student.ppf(0.975, prompts - 1)) * error


def truth_of(kind: Kind) -> float:
    rng = np.random.default_rng(99)
    found = [
        world.human @ weights_of(world).sum(axis=0)
        for world in (kind(20_000, rng) for _ in range(10))
    ]
    return float(np.mean(found))


def simulated(
    kind: Kind, draw: str, labels: int, prompts: int, runs: int
) -> Iterator[tuple[World, Corrected, Corrected]]:
    """Worlds, what labels make of them, and what these make alone, of draws that are not refused."""
    for run in range(runs):
        rng = np.random.default_rng([run, labels, prompts])
        each = kind(prompts, rng)
        drawn, probability = DRAWS[draw](each, labels, rng)
        known = np.full(len(each.scores), np.nan)
        known[drawn] = each.human[drawn]
        args = (known, probability, each.prompt, weights_of(each))
        if not (found := corrected(each.scores, *args, ends=(0.0, 4.0))).why:
            yield each, found, corrected(np.zeros(len(each.scores)), *args)


def row(
    name: str, kind: Kind, truth: float, draw: str, labels: int, prompts: int, runs: int
) -> None:
    found = list(simulated(kind, draw, labels, prompts, runs))
    if len(found) < runs / 10:
        print(
            f"{name:20} {draw:14} {labels:5} {prompts:6}  refused in {1 - len(found) / runs:.0%}",
            flush=True,
        )
        return
    covered = np.mean([each.low <= truth <= each.high for _, each, _ in found])
    alone = np.mean([each.low <= truth <= each.high for *_, each in found])
    by_judge = np.mean(
        [abs(naive(world)[0] - truth) <= naive(world)[1] for world, *_ in found[:300]]
    )
    widths = np.mean(
        [[each.high - each.low, other.high - other.low] for _, each, other in found], axis=0
    )
    lam, n = np.mean([[each.lam, each.n_labels] for _, each, _ in found], axis=0)
    print(
        f"{name:20} {draw:14} {n:5.0f} {prompts:6} {covered:8.3f} {by_judge:8.3f} {alone:8.3f} {widths[0]:7.3f} "
        f"{widths[0] / widths[1]:7.2f} {lam:5.2f}   refused {1 - len(found) / runs:.0%}",
        flush=True,
    )


HEAD = f"{'world':20} {'draw':14} labels prompts  covered  judge's   labels   width   /labels  λ"


def of_means(runs: int) -> None:
    """Coverage of corrected means, of the judge's own and of the labels', and widths."""
    print(f"\nMeans\n{HEAD}")
    for name, kind in KINDS.items():
        truth = truth_of(kind)
        for draw in DRAWS:
            for labels in LABELS:
                for prompts in (
                    PROMPTS if draw in {"spread", "by noise"} or name == "middling" else PROMPTS[:1]
                ):
                    row(name, kind, truth, draw, labels, prompts, runs)


def of_unseen(runs: int) -> None:
    """Where errors are rare and unseen, and where they are not: coverage and width, without and with what may be unseen."""
    print("\nCoverage by t alone, as shipped; width over t's")
    worlds: dict[str, Kind] = {
        f"{share:.0%} unseen zeros": partial(unseen, share=share) for share in RARE
    }
    for name, kind in {**worlds, **KINDS}.items():
        truth, cells = truth_of(kind), []
        for labels in (25, 50, 100):
            held, widths = [], []
            for run in range(runs):
                rng = np.random.default_rng([run, labels, 9])
                each = kind(400, rng)
                drawn, probability = spread(each, labels, rng)
                known = np.full(len(each.scores), np.nan)
                known[drawn] = each.human[drawn]
                args = (each.scores, known, probability, each.prompt, weights_of(each))
                both = [corrected(*args), corrected(*args, ends=(0.0, 4.0))]
                if not both[0].why:
                    held.append([one.low <= truth <= one.high for one in both])
                    widths.append((both[1].high - both[1].low) / (both[0].high - both[0].low))
            by_t, ours = np.mean(held, axis=0)
            cells.append(f"{labels}: {by_t:.3f} {ours:.3f} {np.mean(widths):.2f}")
        print(f"{name:20} " + "   ".join(cells), flush=True)


def of_differences(runs: int) -> None:
    """The same of the difference of two systems, the worse of which the judge likes by half a point."""
    print(f"\nDifferences, the first better by 0.3, the judge for the second by 0.5\n{HEAD}")
    for sizes in ((1,), (2,)):

        def kind(prompts: int, rng: np.random.Generator, sizes: tuple[int, ...] = sizes) -> World:
            return world(prompts, rng, biases=(0.0, BIAS), better=0.3, sizes=sizes)

        truth = truth_of(kind)
        for draw in DRAWS:
            for labels in (50, 100, 200):
                for prompts in PROMPTS:
                    row(f"{sizes[0]} a system", kind, truth, draw, labels, prompts, runs)


def of_data(runs: int) -> None:
    """Ratings that came with the data: of all pairs of some prompts, of every pair, of one response a prompt."""
    print("\nHuman ratings of the data, 200 prompts: covered")
    truth = truth_of(world)
    for name, which in {
        "all pairs": lambda each, _rng: np.arange(len(each.prompt)),
        "all of 50 prompts": lambda each, rng: np.flatnonzero(
            np.isin(each.prompt, rng.permutation(200)[:50])
        ),
        "a response a prompt": lambda each, _rng: np.arange(0, len(each.prompt), RESPONSES),
        "all but a pair": lambda each, _rng: np.arange(1, len(each.prompt)),
    }.items():
        held = []
        for run in range(runs):
            rng = np.random.default_rng(run)
            each = world(200, rng)
            known = np.full(len(each.scores), np.nan)
            known[which(each, rng)] = each.human[which(each, np.random.default_rng(run))]
            found = corrected(each.scores, known, 1.0, each.prompt, weights_of(each))
            held.append(found.low <= truth <= found.high)
        print(f"{name:20} {np.mean(held):.3f}", flush=True)


def of_draws(runs: int) -> None:
    """Whether each pair is drawn with one probability, where prompts have 1 to 8 responses."""
    print(
        "\nHow often a pair is drawn, over labels/pairs, by the responses of its prompt (1, 2, 4, 8); and prompts a label"
    )
    for prompts, labels in ((40, 25), (40, 100), (200, 25), (200, 100), (200, 400)):
        sizes = np.tile([1, 2, 4, 8], prompts // 4)
        prompt = np.repeat(np.arange(prompts), sizes)
        for name in (False, True):
            times, distinct, rng = np.zeros(len(prompt)), 0, np.random.default_rng(1)
            drawn = 0
            for _ in range(10 * runs):
                order = drawing_order(
                    prompt, rng.random(prompts), rng.random(len(prompt)), whole=name
                )
                pairs = of_first_prompts(order, prompt, labels) if name else order[:labels]
                times[pairs] += 1
                drawn += len(pairs)
                distinct += len(np.unique(prompt[pairs]))
            share = times / (drawn / len(prompt))
            by_size = " ".join(
                f"{share[sizes[prompt] == size].mean():.3f}" for size in (1, 2, 4, 8)
            )
            kind = "whole" if name else "spread"
            print(
                f"{prompts:5} prompts {labels:4} labels {kind:7} {by_size}   {distinct / drawn:.2f}",
                flush=True,
            )


def of_sizes(pools: list[Path]) -> None:
    """The variance of the correction where probabilities grow with the spread of a pair's ratings, over an even draw's."""
    for path in pools:
        rated = {
            name: {
                pair: np.asarray(given, dtype=np.float64)
                for pair, given in zip(pool.pair_ids, pool.ratings, strict=True)
            }
            for name, pool in load_pools(path).items()
        }
        names = sorted(set.intersection(*(set(each) for each in rated.values())))
        names = [name for name in names if all(len(each[name]) == 8 for each in rated.values())]
        print(
            f"\n{path.name}: variance, drawn half evenly and half by the spread of r ratings, over that of an even draw"
        )
        is_right = np.array([name.endswith("/0") for name in names])
        for judge, own in rated.items():
            ratings = np.stack([own[name] for name in names])
            grades = {
                name: np.array([each[pair][k % 8] for k, pair in enumerate(names)])
                for name, each in rated.items()
                if name != judge
            }
            for grader, grade in {**grades, "right or not": np.where(is_right, 10.0, 1.0)}.items():
                cells = []
                for r in (2, 3, 5, 8):
                    f = ratings[:, :r].mean(axis=1)
                    squares = ratings[:, :r].var(axis=1) * r
                    spread_of = np.sqrt(
                        (squares + 4 * squares.sum() / ((r - 1) * len(f))) / (r + 3)
                    )
                    lam = np.cov(grade, f)[0, 1] / f.var(ddof=1)
                    rest = (grade - grade.mean() - lam * (f - f.mean())) ** 2
                    size = 0.5 + 0.5 * spread_of / spread_of.mean()
                    cells.append(f"r={r}: {(rest / size).mean() / rest.mean():.3f}")
                print(f"{judge:20} by {grader:20} {'  '.join(cells)}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pools", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=["unseen"])
    args = parser.parse_args()
    of_unseen(args.runs)
    if args.only:
        return
    print(f"refused below {FEWEST_LABELLED} labelled prompts; {args.runs} runs")
    of_sizes(args.pools)
    of_draws(args.runs)
    of_data(args.runs)
    of_differences(args.runs)
    of_means(args.runs)


if __name__ == "__main__":
    main()
