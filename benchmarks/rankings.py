"""How often do strengths, ranks, win rates and the order's effect hold the truth? All tournaments here are simulated.

    python -m benchmarks.rankings [--runs 400]

Each response has a quality of its own, normal about its system's strength, so that prompts differ; a comparison is voted on in
both orders. The truth is what infinitely many prompts would come to. An error of a coverage p is √(p(1 − p)/runs), or less
where it is a mean over systems.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import NotConnected, chance, fit
from robin_cli.stats.clustered import clusters_of
from robin_cli.stats.moderated import likely_half_widths
from robin_cli.stats.ranking import effects_of, order_effects, ranking

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


@dataclass(frozen=True)
class World:
    """A tournament: strengths of its systems, how responses differ from prompt to prompt, and which comparisons are asked.

    ``per_prompt``: how many pairs of systems each prompt is asked of, in turns; None for all.
    ``ties``: of the votes that the quality decides, the share that becomes a tie. ``effect``: of the order.
    """

    name: str
    strength: FloatArray
    prompts: int
    per_prompt: int | None = None
    differs: float = 0.7
    ties: float = 0.2
    effect: float = 0.0

    @property
    def chances(self) -> FloatArray:
        """Mean preference of each system against each, shape (m, m); the order's effect is in none."""
        apart = self.strength[:, None] - self.strength
        each = (
            chance(apart[..., None] + np.sqrt(2.0) * self.differs * NODES) @ WEIGHTS / WEIGHTS.sum()
        )
        return np.asarray(0.5 + (1.0 - 2.0 * abs(self.effect)) * (1.0 - self.ties) * (each - 0.5))

    def drawn(self, rng: np.random.Generator) -> tuple[FloatArray, IntArray, IntArray]:
        """Points of A in both orders, shape (C, 2); systems; prompts."""
        m = len(self.strength)
        matchups = np.array([(i, j) for i in range(m) for j in range(i)])
        each = self.per_prompt or len(matchups)
        wanted = self.prompts * each
        turns = np.concatenate(
            [rng.permutation(len(matchups)) for _ in range(wanted // len(matchups) + 1)]
        )[:wanted]
        prompt, system = (
            np.repeat(np.arange(self.prompts), each),
            rng.permuted(matchups[turns], axis=1),
        )
        quality = self.strength + rng.normal(0.0, self.differs, (self.prompts, m))
        p = chance(quality[prompt, system[:, 0]] - quality[prompt, system[:, 1]])[:, None]
        points = (rng.random((wanted, 2)) < p).astype(np.float64)
        points[rng.random((wanted, 2)) < self.ties] = 0.5
        by_place = rng.random((wanted, 2)) < 2.0 * abs(self.effect)
        of_place = np.array([1.0, 0.0]) if self.effect > 0 else np.array([0.0, 1.0])
        return np.where(by_place, of_place, points), system, prompt


def even(systems: int, top: float) -> FloatArray:
    """Strengths evenly spaced."""
    return np.linspace(top, -top, systems)


WORLDS = (
    World("2 systems", even(2, 0.3), 10),
    World("2 equal systems", np.zeros(2), 50),
    World("3 systems", even(3, 0.6), 10),
    World("3 systems, far apart", even(3, 2.5), 20, ties=0.0, differs=0.0),
    World("4 equal systems, a matchup a prompt", np.zeros(4), 20, 1),
    World("4 systems", even(4, 0.6), 200),
    World("4 systems, order +0.3", even(4, 0.8), 50, effect=0.3),
    World(
        "8 systems, a close top", np.array([0.65, 0.6, 0.6, 0.0, -0.2, -0.4, -0.6, -0.65]), 50, 4
    ),
    World("8 systems, few prompts", even(8, 1.0), 10, 6),
    World("8 systems, far apart", even(8, 2.0), 20, 8),
    World("20 equal systems, sparse", np.zeros(20), 50, 4),
    World("20 systems, sparse", even(20, 1.0), 50, 4),
    World("20 systems, a matchup a prompt", even(20, 1.0), 200, 1),
    World("12 systems", even(12, 1.0), 200, 10),
)


def of_rankings(runs: int) -> None:
    """Coverage of what a ranking says, means over systems and matchups."""
    print(
        "Coverage of 95 %: strengths, their differences, win rates, rates of matchups, ranks (all of a range); half a"
    )
    print(
        "difference's interval; width of ranges of ranks; error of a strength over its standard deviation; not bounded\n"
    )
    for number, world in enumerate(WORLDS):
        rng = np.random.default_rng([7, number])
        chances = world.chances
        others = np.where(np.eye(len(chances), dtype=np.bool_), 0.0, chances)
        truth, rate = fit(others).values, others.sum(axis=1) / (len(chances) - 1)
        upper = np.triu_indices(len(truth), 1)
        best = 1 + (truth > truth[:, None] + 1e-9).sum(axis=1)
        worst = len(truth) - (truth < truth[:, None] - 1e-9).sum(axis=1)
        held: list[list[float]] = []
        strengths, unbounded = [], 0
        for _ in range(runs):
            points, system, prompt = world.drawn(rng)
            try:
                found = ranking(points.mean(axis=1), system, prompt, len(truth))
            except NotConnected:
                continue
            half = likely_half_widths(
                found.difference_error[upper] ** 2, found.freedom[upper], alpha=0.05
            )
            error = (found.strength[:, None] - found.strength - truth[:, None] + truth)[upper]
            rates = found.rates(range(len(truth)))
            known = rates.n[upper] > 0
            inside = (rates.ci_low <= chances) & (chances <= rates.ci_high)
            held.append(
                [
                    ((found.ci_low <= truth) & (truth <= found.ci_high)).mean(),
                    (np.abs(error) <= half).mean(),
                    ((found.win_low <= rate) & (rate <= found.win_high)).mean(),
                    inside[upper][known].mean(),
                    ((found.rank_low <= best) & (worst <= found.rank_high)).mean(),
                    float(np.median(half)),
                    (found.rank_high - found.rank_low).mean(),
                ]
            )
            strengths.append(found.strength)
            unbounded += not found.is_bounded
        bias = np.abs(
            (np.mean(strengths, axis=0) - truth) / np.std(strengths, axis=0, ddof=1)
        ).max()
        told = "  ".join(
            f"{name} {each:.3f}"
            for name, each in zip(
                ("str", "diff", "win", "matchup", "rank"), np.mean(held, 0), strict=False
            )
        )
        half, wide = np.mean(held, axis=0)[5:]
        print(
            f"{world.name:36} {world.prompts:4} prompts: {told}  ± {half:.2f}  ranks {wide:.1f}  bias {bias:.2f}  "
            f"{100 * unbounded / len(held):.0f} % of {len(held)}",
            flush=True,
        )


def of_order_effects(runs: int) -> None:
    """Coverage of the interval of the order's effect, and of Student's t instead."""
    print("\nThe order's effect: coverage of 95 %, and of Student's t; widths")
    for prompts, each in ((5, 1), (20, 1), (20, 5), (50, 1), (200, 1)):
        for effect in (0.0, 0.05, 0.3, -0.3, 0.45):
            rng = np.random.default_rng([9, prompts, each])
            world = World("", np.zeros(each + 1), prompts, each, ties=0.0, effect=effect)
            inside, by_t, widths = [], [], []
            for _ in range(runs):
                points, _, prompt = world.drawn(rng)
                (found,) = order_effects(points[:, :, None], prompt)
                clusters = clusters_of(effects_of(points[:, :, None])[:, 0], prompt)
                half = student.ppf(0.975, prompts - 1) * np.sqrt(clusters.variance)
                inside.append(found.ci_low <= effect <= found.ci_high)
                by_t.append(abs(clusters.mean - effect) <= half)
                widths.append((found.ci_high - found.ci_low, 2 * half))
            wide, wide_t = np.mean(widths, axis=0)
            print(
                f"{effect:+.2f}  {prompts:4} prompts × {each}: {np.mean(inside):.3f}, t {np.mean(by_t):.3f}; "
                f"{wide:.3f}, t {wide_t:.3f}",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    of_rankings(runs)
    of_order_effects(runs)


if __name__ == "__main__":
    main()
