"""Wrong rankings by the scheduler of rankings, and by an even spread of the same calls; the tournaments are planted.

    python -m benchmarks.tournaments [--runs 100] [--systems 4,8,20] [--spread 2,4,6]
    python -m benchmarks.tournaments --truth [--runs 200]
    python -m benchmarks.tournaments --circles [--runs 200]

Each response has a quality of its own, normal about its system's strength. A vote goes to the first response whatever it is
with twice the order's effect, else it is a tie in some cases, else by Bradley and Terry. ``wrong``: the share of two systems
that the strengths of the votes have in the wrong order, ``any``: the share of runs with such. Both ratios are over runs with
the same budget. ``possible``: the ratio that the best fixed shares of calls would come to, found with the truth known, by the
normal approximation: where that is near 1, no choice of the next comparison could be much better.

``--truth``: whether strengths and ranks hold the truth as well as after an even spread; --spread 0,0.3,1 is where that is hard.

``--circles``: matchups have effects of their own in log odds, beside the strengths. How often that is found by then (without
effects: falsely, over all looks), whether the three named systems are in a circle in truth, and wrong matchups by an even
spread, by the tournament, and by one that does not look. Strengths in truth are those of all matchups, each counted once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from unittest.mock import patch

import numpy as np

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.data.groups import numbered
from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies import tournament
from robin_cli.policies.base import Setup
from robin_cli.policies.bradley_terry import PRIOR, chance, fit, information, win_chances, wins_of
from robin_cli.policies.circles import circle
from robin_cli.policies.matches import Matches, matches_of
from robin_cli.policies.milestones import fits_from
from robin_cli.policies.registry import BASELINE, make_policy
from robin_cli.session.planner import Planner
from robin_cli.stats.ranking import order_effects, ranking

SHAPES = ("even", "normal", "close-top", "near-ties", "outlier")
VOTES = Scale(0, 2)


@dataclass(frozen=True)
class World:
    """A tournament: the shape of its strengths and what lies between the ends, its systems and prompts, and its judge."""

    shape: str
    systems: int
    spread: float
    prompts: int
    effect: float = 0.1
    differs: float = 0.5
    ties: float = 0.2
    circles: float = 0.0

    def effects(self, seed: int) -> FloatArray:
        """Of each matchup of systems, weaker first, beside their strengths; shape (systems, systems)."""
        drawn = np.random.default_rng([seed, 17]).normal(
            0.0, self.circles, (self.systems, self.systems)
        )
        return np.asarray(np.triu(drawn, 1) - np.triu(drawn, 1).T)

    def preferences(self, seed: int) -> FloatArray:
        """Of all prompts there may be, for each system against each, weaker first."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        apart = self.strength[:, None] - self.strength + self.effects(seed)
        each = (
            chance(apart[..., None] + math.sqrt(2.0) * self.differs * nodes)
            @ weights
            / weights.sum()
        )
        return np.asarray(0.5 + (1.0 - 2.0 * abs(self.effect)) * (1.0 - self.ties) * (each - 0.5))

    def truth(self, seed: int) -> FloatArray:
        """The strengths of all these preferences: the order's effect and ties leave less of them."""
        return fit(
            np.where(np.eye(self.systems, dtype=np.bool_), 0.0, self.preferences(seed))
        ).values

    @property
    def strength(self) -> FloatArray:
        """Of each system, the weakest first."""
        m = self.systems
        if self.shape == "normal":
            quantiles = np.array([NormalDist().inv_cdf((each + 0.5) / m) for each in range(m)])
            return np.asarray(quantiles / (quantiles[-1] - quantiles[0]) * self.spread)
        if self.shape == "close-top":
            top = max(2, m // 4)
            return (
                np.concatenate([np.linspace(0.0, 0.75, m - top), np.linspace(0.8, 1.0, top)])
                * self.spread
            )
        if self.shape == "outlier":
            return np.append(np.zeros(m - 1), self.spread)
        even = np.linspace(0.0, 1.0, m)
        if self.shape == "near-ties":  # every second is close to the next
            even[1::2] -= 0.8 / (m - 1)
        return even * self.spread


@cache
def matches_in(systems: int, prompts: int, seed: int) -> Matches:
    """Every two systems compared on each prompt, A by chance."""
    rng = np.random.default_rng(seed)
    a, b = np.triu_indices(systems, 1)
    matchups = np.tile(np.stack([a, b], axis=1), (prompts, 1))
    matchups = rng.permuted(matchups, axis=1)
    names = [f"s{each:02}" for each in range(systems)]
    space = ArmSpace(
        [str(each) for each in range(len(matchups))], (PREFERENCE,), ("judge",), (VOTES,), ORDERS
    )
    system, named = numbered(names[place] for place in matchups.ravel().tolist())
    prompt = np.repeat(np.arange(prompts), len(a))
    return matches_of(space, prompt, matchups, system.reshape(-1, 2), named, seed)


@dataclass(frozen=True)
class Played:
    """What a run came to: arms, the number of each system in the order of strength, and the preference of each comparison."""

    arms: WritableArms
    strength: FloatArray
    preference: FloatArray
    points: FloatArray


def played(world: World, name: str, budgets: list[int], seed: int) -> Iterator[Played]:
    """A run by the scheduler ``name``, as it stands after each of ``budgets`` calls."""
    matches = matches_in(world.systems, world.prompts, seed % 4)
    rng = np.random.default_rng(seed)
    space = matches.space
    number = numbers(matches)
    strength, effects = world.strength[number], world.effects(seed)[np.ix_(number, number)]
    quality = strength + rng.normal(0.0, world.differs, (world.prompts, world.systems))
    at = quality[matches.prompt[:, None], matches.system]
    p = chance(at[:, 0] - at[:, 1] + effects[tuple(matches.system.T)]).tolist()
    arms = WritableArms(len(space))
    policy = make_policy(name, Setup(len(space), budgets[-1], VOTES, matches=matches))
    planner = Planner(arms, policy, budget=budgets[-1], first_fit=space.first_fit)
    luck = rng.random((budgets[-1], 3)).tolist()
    for call, (by_place, tied, by_quality) in enumerate(luck, 1):
        if (ticket := planner.plan()) is None:
            break
        comparison, order = divmod(ticket.arm, 2)
        rating = 2.0 * (by_quality < p[comparison])
        if by_place < 2.0 * abs(world.effect):
            rating = 2.0 * ((order == 0) == (world.effect > 0))
        elif tied < world.ties:
            rating = 1.0
        planner.tell(ticket, (rating,))
        if call in budgets:
            with np.errstate(invalid="ignore"):
                points = space.by_pair(arms.columns.total / arms.columns.n) / 2.0
            yield Played(arms, strength, points.mean(axis=1), points)


def numbers(matches: Matches) -> IntArray:
    """Of the systems, the place of each in the order of strength."""
    return np.array([int(each[1:]) for each in matches.names])


def strengths(matches: Matches, preference: FloatArray) -> FloatArray:
    """By the comparisons that have a preference, with a tie's half for every two systems where few have."""
    there = ~np.isnan(preference)
    wins = wins_of(preference[there], matches.system[there], len(matches.names)) + 0.5 * PRIOR
    np.fill_diagonal(wins, 0.0)
    return fit(wins).values


def wrong_matchups(found: FloatArray, strength: FloatArray) -> float:
    """The share of every two systems in the wrong order; equal ones are half wrong."""
    i, j = np.triu_indices(len(strength), 1)
    agree = np.sign(found[i] - found[j]) * np.sign(strength[i] - strength[j])
    return float((0.5 * (1.0 - agree)).mean())


def possible(world: World, dispersion: float, comparisons: float) -> float:
    """The smallest ratio of wrong matchups that fixed shares of calls could come to, by the normal approximation."""
    i, j = np.triu_indices(world.systems, 1)
    strength = world.strength
    # What votes by the place and ties leave of it: a smaller difference in log odds.
    strength = strength * 4.0 * _slope(world)
    p = win_chances(strength)
    even = np.full(len(i), comparisons / len(i))
    n, least = even, math.inf
    first = 0.0
    for step in range(800):
        error, slope = _expected(strength, p, n, (i, j), dispersion)
        first, least = (error if step == 0 else first), min(least, error)
        n = n * (slope / max(float(n @ slope) / comparisons, 1e-300) + 1e-9) ** 0.3 + 1e-9
        n = n * comparisons / n.sum()
    return least / first if first > 0 else math.nan


def _slope(world: World) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    wide = math.sqrt(2.0) * world.differs
    each = chance(nodes * wide) * chance(-nodes * wide)
    return float(
        (1.0 - 2.0 * abs(world.effect)) * (1.0 - world.ties) * (each @ weights) / weights.sum()
    )


def _expected(
    strength: FloatArray,
    p: FloatArray,
    n: FloatArray,
    matchup: tuple[IntArray, IntArray],
    dispersion: float,
) -> tuple[float, FloatArray]:
    m = len(strength)
    votes = np.zeros((m, m))
    votes[matchup] = n
    inverse = np.linalg.inv(information(votes + votes.T, p) + 1.0 / m) - 1.0 / m
    own = np.diag(inverse)
    variance = dispersion * (own[:, None] + own - 2.0 * inverse) + np.eye(m)
    z = np.abs(strength[:, None] - strength) / np.sqrt(variance)
    slope = np.exp(-0.5 * z * z) * z / variance
    np.fill_diagonal(slope, 0.0)
    spread = inverse @ (np.diag(slope.sum(axis=1)) - slope) @ inverse
    own = np.diag(spread)
    gain = p * p.T * (own[:, None] + own - 2.0 * spread)
    error = np.mean([0.5 * math.erfc(each / math.sqrt(2.0)) for each in z[matchup]])
    return float(error), np.maximum(gain[matchup], 0.0)


def compare(world: World, calls: list[float], runs: int) -> None:
    """Print the ratios at so many calls a system."""
    most = world.prompts * world.systems * (world.systems - 1)
    budgets = sorted(
        {2 * round(each * world.systems / 2) for each in calls if each * world.systems <= 4 * most}
    )
    found: dict[str, list[list[float]]] = {}
    for name in (BASELINE, "auto"):
        of_runs = []
        for seed in range(runs):
            every = played(world, name, budgets, seed + 1)
            matches = matches_in(world.systems, world.prompts, (seed + 1) % 4)
            of_runs.append(
                [
                    wrong_matchups(strengths(matches, each.preference), each.strength)
                    for each in every
                ]
            )
        found[name] = of_runs
    even, ours = (np.array(found[name]) for name in (BASELINE, "auto"))
    for at, budget in enumerate(budgets):
        a, b = even[:, at], ours[:, at]
        ratio = b.mean() / a.mean() if a.any() else math.nan
        error = math.nan
        if a.any():
            error = math.sqrt(np.var(b - ratio * a, ddof=1) / runs) / a.mean()
        bound = possible(world, 0.6, budget / 2)
        print(
            f"{world.systems:3} {world.shape:10} spread {world.spread:g} effect {world.effect:.1f}  calls a system "
            f"{budget / world.systems:6.0f} (a comparison {budget / most * 2:.2f})  wrong {a.mean():.4f} → {b.mean():.4f}  "
            f"ratio {ratio:.2f} ± {error:.2f}  any {(a > 0).mean():.2f} → {(b > 0).mean():.2f}  possible {bound:.2f}",
            flush=True,
        )


def check_truth(world: World, calls: float, runs: int) -> None:
    """Print how well strengths, ranks and the order's effect hold the truth after either scheduler.

    Prompts do not differ and nobody is tied or preferred for the place but evenly, so that the model holds whoever is asked.
    """
    budget = 2 * round(calls * world.systems / 2)
    for name in (BASELINE, "auto"):
        found = np.empty((runs, 7))
        for seed in range(runs):
            matches = matches_in(world.systems, world.prompts, (seed + 1) % 4)
            (run,) = played(world, name, [budget], seed + 1)
            chosen = name != BASELINE
            result = ranking(
                run.preference, matches.system, matches.prompt, world.systems, were_chosen=chosen
            )
            truth = world.truth(seed + 1)[numbers(matches)]
            best = 1 + (truth > truth[:, None] + 1e-9).sum(axis=1)
            worst = len(truth) - (truth < truth[:, None] - 1e-9).sum(axis=1)
            (effect,) = order_effects(run.points[:, :, None], matches.prompt)
            found[seed] = (
                np.mean((result.ci_low <= truth) & (truth <= result.ci_high)),
                np.mean((result.rank_low <= best) & (worst <= result.rank_high)),
                (result.strength @ truth) / (truth @ truth) if world.spread else math.nan,
                np.mean((result.strength - truth) ** 2),
                np.mean(result.ci_high - result.ci_low),
                np.mean(result.rank_high - result.rank_low),
                effect.ci_low <= world.effect <= effect.ci_high,
            )
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(runs)
        rmse = math.sqrt(mean[3])
        print(
            f"{world.systems:3} {world.shape:10} spread {world.spread:g} effect {world.effect:.1f} calls a system {calls:g} "
            f"{name:10}  strengths covered {mean[0]:.3f} ± {error[0]:.3f}  ranks {mean[1]:.3f} ± {error[1]:.3f}  stretch "
            f"{mean[2]:.2f} ± {error[2]:.2f}  rmse {rmse:.3f} ± {error[3] / 2 / rmse:.3f}  width {mean[4]:.2f}  "
            f"ranks not ruled out {1 + mean[5]:.1f}  order effect covered {mean[6]:.3f}",
            flush=True,
        )


def check_circles(world: World, calls: list[float], runs: int) -> None:
    """Print how often circles are found, and what is wrong with and without looking for them."""
    m = world.systems
    marks = {2 * round(each * m / 2): at for at, each in enumerate(calls)}
    looks, at = [], float(matches_in(m, world.prompts, 0).space.first_fit)
    while at < max(marks):
        looks.append(int(at))
        at = fits_from(matches_in(m, world.prompts, 0).space.first_fit).after(at)
    budgets = sorted({*looks, *marks})
    ways = (BASELINE, "auto", "not looking")
    wrong, told = (
        np.empty((len(ways), runs, len(marks))),
        np.zeros((len(ways), runs, len(marks), 3)),
    )
    for way, name in enumerate(ways):
        for seed in range(1, runs + 1):
            matches, ever = matches_in(m, world.prompts, seed % 4), False
            number = numbers(matches)
            rates, truth = (
                world.preferences(seed)[np.ix_(number, number)],
                world.truth(seed)[number],
            )
            with patch.object(
                tournament, "circle", (lambda *_: None) if name == "not looking" else circle
            ):
                every = list(played(world, name if way < 2 else "auto", budgets, seed))
            for budget, run in zip(budgets, every, strict=True):
                found = circle(run.preference, matches.system, m)
                ever = ever or found is not None
                if budget in marks:
                    wrong[way, seed - 1, marks[budget]] = wrong_matchups(
                        strengths(matches, run.preference), truth
                    )
                    named = () if found is None else found.systems
                    is_one = bool(named) and all(
                        rates[i, j] > 0.5 for i, j in pairwise((*named, *named[:1]))
                    )
                    told[way, seed - 1, marks[budget]] = ever, bool(named), is_one
    for mark, each in enumerate(calls):
        shares = told[1, :, mark].mean(axis=0)
        errors = np.sqrt(shares * (1.0 - shares) / runs)
        columns = "  ".join(
            f"{name} {a:.3f} ± {b:.3f}"
            for name, a, b in zip(
                ("found by then", "named", "in truth"), shares, errors, strict=True
            )
        )
        wrongs = "  ".join(
            f"{name} {wrong[way, :, mark].mean():.3f} ± {wrong[way, :, mark].std(ddof=1) / math.sqrt(runs):.3f}"
            for way, name in enumerate(ways)
        )
        print(
            f"{m:3} {world.shape:7} spread {world.spread:g} effect {world.effect:.1f} ties {world.ties:.1f} prompts differ by "
            f"{world.differs:g}  circles {world.circles:g}  calls a system {each:3g}  {columns}  wrong: {wrongs}",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--systems", default="4,8,20")
    parser.add_argument("--spread", default="2,4,6")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--effect", type=float, default=0.1)
    parser.add_argument("--calls", default="20,50,120,300,700", help="a system")
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--circles", action="store_true")
    told = parser.parse_args()
    if told.circles:
        for effect, differs, ties in ((0.0, 0.0, 0.0), (told.effect, 0.5, 0.2)):
            for circles in (0.0, 0.7, 1.2):
                check_circles(
                    World("even", 8, 2.0, 100, effect, differs, ties, circles),
                    [60, 150, 300],
                    told.runs,
                )
        check_circles(World("even", 8, 6.0, 100, 0.3, 1.0, 0.2), [60, 150, 300], told.runs)
        return
    for systems in map(int, told.systems.split(",")):
        for spread in map(float, told.spread.split(",")):
            for shape in told.shapes.split(","):
                if told.truth:
                    for effect in (0.0, told.effect):
                        differs = ties = 0.0
                        world = World(shape, systems, spread, 100, effect, differs, ties)
                        check_truth(world, 60, told.runs)
                    continue
                world = World(
                    shape, systems, spread, {4: 200, 8: 100}.get(systems, 60), told.effect
                )
                compare(world, [float(each) for each in told.calls.split(",")], told.runs)


if __name__ == "__main__":
    main()
