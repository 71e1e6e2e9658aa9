"""The quality of a judge at a decision that people also made, and the true share, corrected for both of its errors.

Bounds of shares for n labels drawn evenly and independently are those of Clopper and Pearson (Biometrika 26, 1934). Labels of
one prompt, and labels drawn with unequal probabilities, count as n/D, D being the design effect. The bounds are then those of
Korn and Graubard ("Confidence intervals for proportions with small expected number of positive counts estimated from survey
data", Survey Methodology 24, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.intervals import ALPHA
from robin_cli.stats.labelled import corrected


@dataclass(frozen=True, slots=True)
class Share:
    """A share, 0 to 1, with the ends of its interval; nan for a share of nothing."""

    value: float
    low: float
    high: float

    def by(self, rising: Callable[[float], float]) -> Share:
        """Return the share that a rising function makes of it."""
        return Share(rising(self.value), rising(self.low), rising(self.high))


def design_effect(is_so: NDArray[np.bool_], weight: FloatArray, prompt: IntArray) -> float:
    """Return the number of labels that count as one, at least 1.

    It is V n / (p (1 − p)), V being the variance of the weighted share p by linearization over prompts. If p is 0 or 1, the
    labels do not show how alike those of a prompt are; all of one prompt then count as one. ``weight``: 1/π, π being the
    probability with which each was drawn.
    """
    prompts, of = np.unique(prompt, return_inverse=True)
    if len(prompts) < 2 or (len(prompts) == len(is_so) and np.ptp(weight) == 0):
        return float(max(1, len(is_so) - len(prompts) + 1))
    share = float(weight @ is_so / weight.sum())
    by_prompt = (
        np.bincount(of, weight * (is_so - share)) if 0 < share < 1 else np.bincount(of, weight)
    )
    of_sum = float((by_prompt**2).sum()) * len(prompts) / (len(prompts) - 1)
    variance = of_sum / weight.sum() ** 2 / (share * (1 - share) if 0 < share < 1 else 1.0)
    return max(1.0, float(variance) * len(is_so))


def share_bounds(share: float, n: float, *, alpha: float = ALPHA) -> Share:
    """Return a share of n labels with its exact binomial interval at 1 − α; ``n``: the number they count as."""
    from scipy.special import betaincinv

    if not n > 0:
        return Share(np.nan, np.nan, np.nan)
    those = share * n
    low = betaincinv(those, n - those + 1, alpha / 2) if those > 0 else 0.0
    high = betaincinv(those + 1, n - those, 1 - alpha / 2) if those < n else 1.0
    return Share(share, float(low), float(high))


def chance_of_so_few(those: FloatArray, n: FloatArray, share: float) -> FloatArray:
    """Return P(X ≤ those) for X binomial (n, share), elementwise; 1 if n is 0. Both may be fractional, see above."""
    from scipy.special import betainc

    rest = np.maximum(n - those, 0.0)
    return np.where(rest > 0, betainc(np.maximum(rest, 1e-300), those + 1, 1 - share), 1.0)


FEWEST_FOR_SHARE = 50
"""Labels that a corrected share needs, unless all things have one: with fewer its interval says nothing."""

_UNKNOWN = Share(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """Agreement of a judge's yes and no with people's. Intervals are 1 − α, by prompt.

    Attributes:
        both, judge_alone, people_alone, neither: labelled things with a yes of both, of one of them, or of none.
        tpr, tnr: the share of people's yes (no) that is the judge's, too; ``precision``: that of the judge's yes.
        f1: the harmonic mean of precision and tpr; from the share of ``both`` among all with a yes of either.
        kappa: Cohen's κ; its ends are those of the accuracy at the same chance agreement (Cohen, 1960).
        share: the share of all things, labelled or not, with the judge's yes.
        corrected: the share of all things with people's yes: of labels alone if all have one, else of the judge's yes corrected
            by them (:func:`~robin_cli.stats.labelled.corrected`); nan below 50 labels.
    """

    both: int
    judge_alone: int
    people_alone: int
    neither: int
    accuracy: Share
    tpr: Share
    tnr: Share
    precision: Share
    f1: Share
    kappa: Share
    share: float
    corrected: Share

    @property
    def labelled(self) -> int:
        return self.both + self.judge_alone + self.people_alone + self.neither

    @classmethod
    def from_answers(
        cls,
        judge: NDArray[np.bool_],
        people: FloatArray,
        weight: FloatArray,
        prompt: IntArray,
    ) -> Self:
        """Return it for a judge's answers on all things, and people's on some. Shape (N,) each.

        Args:
            judge: whether the judge says yes.
            people: 1 for yes, 0 for no, nan without a label.
            weight: 1/π, π being the probability with which each was drawn to be labelled.
            prompt: number of each one's prompt.
        """
        known = ~np.isnan(people)
        by_judge, by_people = judge[known], people[known] > 0.5
        weights, prompts = weight[known], prompt[known]
        everything, same = np.ones(len(by_judge), dtype=np.bool_), by_judge == by_people

        def share(is_so: NDArray[np.bool_], among: NDArray[np.bool_]) -> Share:
            if not among.any():
                return _UNKNOWN
            w, hits = weights[among], is_so[among]
            n = len(w) / design_effect(hits, w, prompts[among])
            return share_bounds(float(w @ hits / w.sum()), n)

        accuracy, kappa, corrected_share = share(same, everything), _UNKNOWN, _UNKNOWN
        if len(by_judge):
            ours, theirs = (float(weights @ each / weights.sum()) for each in (by_judge, by_people))
            chance = ours * theirs + (1 - ours) * (1 - theirs)
            if chance < 1.0:
                kappa = accuracy.by(lambda value: (value - chance) / (1 - chance))
        if known.all():
            corrected_share = share(by_people, everything)
        elif len(by_judge) >= FEWEST_FOR_SHARE:
            even = np.full(len(judge), 1.0 / len(judge))
            scores, ends = judge.astype(np.float64), (0.0, 1.0)
            found = corrected(scores, people, 1.0 / weight, prompt, even, ends=ends)
            corrected_share = Share(found.estimate, found.low, found.high).by(
                lambda end: min(1.0, max(0.0, end))
            )
        return cls(
            both=int((by_judge & by_people).sum()),
            judge_alone=int((by_judge & ~by_people).sum()),
            people_alone=int((~by_judge & by_people).sum()),
            neither=int((~by_judge & ~by_people).sum()),
            accuracy=accuracy,
            tpr=share(by_judge, by_people),
            tnr=share(~by_judge, ~by_people),
            precision=share(by_people, by_judge),
            f1=share(same, by_judge | by_people).by(lambda jaccard: 2 * jaccard / (1 + jaccard)),
            kappa=kappa,
            share=float(judge.mean()),
            corrected=corrected_share,
        )
