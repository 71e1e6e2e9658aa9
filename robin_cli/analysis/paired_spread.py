"""How a difference of two systems varies over prompts, and how much of that is the judge's noise: what a plan goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from robin_cli.analysis.moderated import moderated
from robin_cli.model.arms import Arms, FloatArray, IntArray, mean
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import FEWEST_PROMPTS

_REPEATED = 10
"""Responses that were asked about twice, below which they tell nothing of the judge's noise."""


@dataclass(frozen=True, slots=True)
class PairedSpread:
    """How the difference of two systems varies over the prompts that both answered, in squared units of the scale.

    Attributes:
        prompts: that it is known from.
        total: the sample variance of the differences as they were rated.
        noise_then: what of it was the judge's noise; nan where too little was asked twice.
        noise: the judge's noise with one call of each judge for each response; nan likewise.
    """

    attribute: str
    a: str
    b: str
    prompts: int
    difference: float
    total: float
    noise_then: float
    noise: float

    @property
    def between(self) -> float:
        """The variance of the true differences, at least 0; where the noise is not known, with it."""
        return self.total if np.isnan(self.noise) else max(0.0, self.total - self.noise_then)

    def noise_at(self, calls: float) -> float:
        """The judge's noise at so many calls of each judge for each response; nan where there is no telling."""
        if np.isnan(self.noise):
            return 0.0 if calls == 1 else np.nan
        return self.noise / calls


def paired_spreads(
    space: ArmSpace, arms: Arms, system: IntArray, names: Sequence[str], prompt: IntArray
) -> list[PairedSpread]:
    """The spread of each attribute and two systems that share prompts enough.

    Several responses of a system to a prompt, and several judges, count alike. A response counts that each judge rated.

    Args:
        system: of each pair, a place in ``names``; −1 for one that is not meant.
        prompt: of each pair, numbered from 0.
    """
    found = moderated(space, arms.counts, arms.totals, arms.totals_sq)
    judges, units = len(space.judges), space.units
    score = space.by_pair(space.by_judge(mean(arms.counts, arms.totals) / units).mean(axis=1))
    noise_then, noise = (
        space.by_pair(space.by_judge(each / units**2).sum(axis=1) / judges**2)
        for each in (found.error_variance, found.variance)
    )
    repeated = space.by_pair(space.by_judge(arms.counts > 1).any(axis=1))
    spreads = []
    for place, attribute in enumerate(space.attributes):
        rated = np.isfinite(score[:, place]) & (system >= 0)
        cells = prompt[rated] * len(names) + system[rated]
        shape = (int(prompt.max(initial=-1)) + 1, len(names))
        responses = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)

        def of_cells(values: FloatArray) -> FloatArray:
            return np.bincount(cells, values[rated, place], responses.size).reshape(shape).astype(np.float64)  # noqa: B023

        count = np.maximum(responses, 1)
        means, then, once = of_cells(score) / count, of_cells(noise_then) / count**2, of_cells(noise) / count**2
        for a, b in combinations(range(len(names)), 2):
            both = (responses[:, a] > 0) & (responses[:, b] > 0)
            if both.sum() < FEWEST_PROMPTS:
                continue
            apart = (means[:, a] - means[:, b])[both]
            is_known = repeated[rated & np.isin(system, (a, b)), place].sum() >= _REPEATED
            then_and_once = ((each[both, a] + each[both, b]).mean() if is_known else np.nan for each in (then, once))
            spreads.append(
                PairedSpread(
                    attribute,
                    names[a],
                    names[b],
                    len(apart),
                    float(apart.mean()),
                    float(apart.var(ddof=1)),
                    *map(float, then_and_once),
                )
            )
    return spreads
