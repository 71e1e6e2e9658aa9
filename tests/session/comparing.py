"""Comparisons for the tests of pairwise schedulers, and a run of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.data.groups import numbered
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.matches import Matches, matches_of
from robin_cli.policies.registry import make_policy
from robin_cli.session.planner import Planner
from robin_cli.stats.decisions import RunVerdicts
from tests.session.played import Watching, work

VOTES = Scale(0, 2)
POLICIES = {"ranking": ("auto", False), "best": ("auto", True), "even": ("uniform", False)}
"""Those for comparisons by what is wanted: the name, and whether the best response of each prompt is looked for."""


def comparisons(
    systems: int, prompts: int, judges: int = 1, *, wants_best: bool = False, named: bool = True
) -> Matches:
    """Every two systems on every prompt; the lower is A on even prompts."""
    matchups = [(i, j) for i in range(systems) for j in range(i)]
    rows = [
        (prompt, pair[:: 1 if prompt % 2 else -1]) for prompt in range(prompts) for pair in matchups
    ]
    ids = [f"c{number}" for number in range(len(rows))]
    space = ArmSpace(ids, (PREFERENCE,), [f"j{each}" for each in range(judges)], (VOTES,), ORDERS)
    system, names = numbered(f"s{number}" for _, both in rows for number in both)
    prompt, text = (np.array(each) for each in zip(*rows, strict=True))
    both = system.reshape(-1, 2) if named else None
    names = names if named else []
    return matches_of(space, prompt, text, both, names, 0, wants_best=wants_best)


def policy_for(matches: Matches, name: str, budget: int = 1000) -> Policy:
    return make_policy(name, Setup(len(matches.space), budget, VOTES, matches=matches))


def planner_of(
    matches: Matches,
    policy: Policy,
    arms: WritableArms,
    budget: int | None = None,
    verdicts: RunVerdicts | None = None,
) -> Planner:
    space = matches.space
    return Planner(
        arms,
        policy,
        budget=budget,
        judge=space.judge,
        first_fit=space.first_fit,
        watch=Watching(verdicts),
        together=space.together,
    )


def system_numbers(matches: Matches) -> list[tuple[int, int]]:
    """Which system A and B of each comparison are, as :func:`comparisons` numbers them."""
    return [
        (int(matches.names[a][1:]), int(matches.names[b][1:])) for a, b in matches.system.tolist()
    ]


def by_strength(
    matches: Matches, strength: list[float], seed: int, effect: float = 0.0
) -> Callable[[int], float]:
    """A judge by Bradley and Terry, for which the first place adds ``effect`` to the log odds."""
    numbers, rng, space = system_numbers(matches), np.random.default_rng(seed), matches.space

    def rating(arm: int) -> float:
        a, b = numbers[space.pair[arm]]
        odds = strength[a] - strength[b] + (effect if space.attribute[arm] == 0 else -effect)
        return 2.0 * float(rng.random() < 1 / (1 + np.exp(-odds)))

    return rating


def play(
    matches: Matches,
    policy: Policy,
    arms: WritableArms,
    rating: Callable[[int], float],
    budget: int,
    verdicts: RunVerdicts | None = None,
) -> Iterator[int]:
    """The arms asked, one call after another, until the run is over; those of an earlier part are in ``arms``."""
    planner = planner_of(matches, policy, arms, budget, verdicts)
    planner.block = 1
    yield from (ticket.arm for ticket in work(planner, lambda ticket: (rating(ticket.arm),)))


def played(
    matches: Matches, name: str, rating: Callable[[int], float], budget: int
) -> WritableArms:
    """The arms after a run by the policy called ``name``."""
    arms = WritableArms(len(matches.space))
    list(play(matches, policy_for(matches, name), arms, rating, budget))
    return arms
