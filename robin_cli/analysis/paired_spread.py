"""How a difference of two systems varies over prompts, and how much of that is the judge's noise: what a plan goes by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from robin_cli.analysis.paired import Responses, differences
from robin_cli.model.systems import FEWEST_PROMPTS


@dataclass(frozen=True, slots=True)
class PairedSpread:
    """How the difference of two systems varies over the prompts that both answered, in squared units.

    Attributes:
        prompts: that it is known from.
        difference: their mean difference.
        total: the sample variance of the differences, as they were rated.
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
        return self.total if math.isnan(self.noise) else max(0.0, self.total - self.noise_then)

    def noise_at(self, calls: float) -> float:
        """The judge's noise at so many calls of each judge for each response; nan where there is no telling."""
        if math.isnan(self.noise):
            return 0.0 if calls == 1 else math.nan
        return self.noise / calls


def paired_spreads(
    attribute: str, systems: Sequence[str], responses: Responses, *, unit: float = 1.0
) -> list[PairedSpread]:
    """The spread of every two of ``systems`` that share prompts enough; differences are in ``unit`` points."""
    # The error variance of a mean of n ratings is n times smaller than that of one.
    at_one_call = replace(responses, noise=responses.noise * responses.ratings)
    as_rated, once = (differences(each, len(systems)) for each in (responses, at_one_call))
    spreads = []
    for now, then in zip(as_rated, once, strict=True):
        if now.n_prompts < FEWEST_PROMPTS:
            continue
        is_known = not math.isnan(now.noise_share)
        noises = (float(each.noise_by_prompt.mean()) / unit**2 if is_known else math.nan for each in (now, then))
        total = float(now.by_prompt.var(ddof=1)) / unit**2
        a, b = systems[now.a], systems[now.b]
        spreads.append(PairedSpread(attribute, a, b, now.n_prompts, now.difference / unit, total, *noises))
    return spreads
