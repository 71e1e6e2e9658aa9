"""The end of a run with --decide system and --target-wrong: every two systems clearly differ.

A difference is looked at over the first 20 prompts in random order, then over 40, 80, and so on, and over all; then whenever
the calls have doubled. X is split (Bonferroni): an equal share for each look at more prompts, and one for all looks at more
calls: half of it for the first of them, a quarter for the next, and so on.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from robin_cli.model.arms import Arms
from robin_cli.policies.systems import FEWEST_PROMPTS, Systems
from robin_cli.stats.paired import paired_p, sums_by_prompt
from robin_cli.stats.row_scores import row_scores

FIRST = 20
"""The fewest prompts that are looked at."""


def looks_of(systems: Systems) -> list[int]:
    """Return the numbers of prompts to look at, of those that systems are compared on; none if there are fewer than FIRST."""
    shared = int(systems.is_shared.sum())
    doubled = [FIRST << times for times in range(shared.bit_length()) if FIRST << times < shared]
    return [*doubled, shared] if shared >= FIRST else []


def last_look(systems: Systems, arms: Arms) -> int:
    """Return the largest of these numbers whose prompts were asked in full; 0 for none."""
    whole = systems.whole_in_order(arms)
    return max((look for look in looks_of(systems) if look <= whole), default=0)


def are_told_apart(systems: Systems, arms: Arms, target: float) -> bool:
    """Return whether the last look shows that every two systems differ, by each attribute; False before the first look.

    Each one-sided p of the paired test is at most this look's share of ``target``.
    """
    look = last_look(systems, arms)
    if not look or not target:
        return False
    space, scores = systems.space, row_scores(systems.space, None, arms.copied_sums()).score
    looks = looks_of(systems)
    calls_of_all = int((arms.n + arms.n_unparsed).sum()) // len(space)
    doublings = max(1, calls_of_all).bit_length() - 1 if look == looks[-1] else 0
    level = target / (len(looks) + 1) / 2**doublings
    is_near = np.isin(systems.prompt, systems.in_order[:look])
    for score, scale in zip(space.by_pair(scores).T, space.scales, strict=True):
        chosen = is_near & ~np.isnan(score)
        cells = systems.system[chosen], systems.prompt[chosen], len(systems.names)
        with np.errstate(invalid="ignore"):
            means = sums_by_prompt(score[chosen], *cells) / sums_by_prompt(
                np.ones(chosen.sum()), *cells
            )
        for a, b in combinations(means, 2):
            values = (a - b)[~np.isnan(a - b)]
            if len(values) < FEWEST_PROMPTS:
                return False
            if not paired_p(values, float(scale.high - scale.low)) / 2 <= level:
                return False
    return True
