"""The quality of a judge at a decision that people also made, and the true share, corrected for both of its errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.proportions import Share, design_effect, share_bounds
from robin_cli.model.arms import FloatArray, IntArray

_UNKNOWN = Share(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """Agreement of a judge's yes and no with people's. Intervals are 1 − α, by prompt.

    Attributes:
        both, judge_alone, people_alone, neither: labelled things with a yes of both, of one of them, or of none.
        accuracy: the share with the same answer.
        tpr, tnr: the share of people's yes (no) that is the judge's, too.
        precision: the share of the judge's yes that is people's, too.
        f1: the harmonic mean of precision and tpr; from the share of ``both`` among all with a yes of either.
        kappa: Cohen's κ; its ends are those of the accuracy at the same chance agreement (Cohen, "A coefficient of agreement
            for nominal scales", 1960).
        said: the share of all things, labelled or not, with the judge's yes.
        corrected: the share with people's yes (Rogan and Gladen, "Estimating prevalence from the results of a screening test",
            1978), with the interval of Lang and Reiczigel (Prev. Vet. Med. 113, 2014), 0 to 1.
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
    said: float
    corrected: Share

    @property
    def labelled(self) -> int:
        """Number of things with a label."""
        return self.both + self.judge_alone + self.people_alone + self.neither

    @classmethod
    def of(
        cls,
        judge: NDArray[np.bool_],
        people: FloatArray,
        weight: FloatArray,
        prompt: IntArray,
        *,
        alpha: float = ALPHA,
    ) -> Self:
        """Return it for a judge's answers on all things, and people's on some.

        Args:
            judge: whether the judge says yes, shape (N,).
            people: 1 for yes, 0 for no, nan without a label, shape (N,).
            weight: 1/π, π being the probability with which each was drawn to be labelled, shape (N,).
            prompt: number of each one's prompt, shape (N,).
        """
        known = ~np.isnan(people)
        mine, theirs, weights, prompts = (
            judge[known],
            people[known] > 0.5,
            weight[known],
            prompt[known],
        )

        def share(is_so: NDArray[np.bool_], among: NDArray[np.bool_]) -> tuple[Share, float]:
            if not among.any():
                return _UNKNOWN, 0.0
            w, hits = weights[among], is_so[among]
            n = len(w) / design_effect(hits, w, prompts[among])
            return share_bounds(float(w @ hits / w.sum()), n, alpha=alpha), n

        everything = np.ones(len(mine), dtype=np.bool_)
        same = mine == theirs
        accuracy, _ = share(same, everything)
        tpr, positives = share(mine, theirs)
        tnr, negatives = share(~mine, ~theirs)
        of_either, _ = share(same, mine | theirs)
        said, n = (
            float(judge.mean()),
            len(judge) / design_effect(judge, np.ones(len(judge)), prompt),
        )
        return cls(
            both=int((mine & theirs).sum()),
            judge_alone=int((mine & ~theirs).sum()),
            people_alone=int((~mine & theirs).sum()),
            neither=int((~mine & ~theirs).sum()),
            accuracy=accuracy,
            tpr=tpr,
            tnr=tnr,
            precision=share(theirs, mine)[0],
            f1=_each(of_either, lambda jaccard: 2 * jaccard / (1 + jaccard)),
            kappa=_kappa(accuracy, mine, theirs, weights),
            said=said,
            corrected=_corrected((said, n), (tpr.value, positives), (tnr.value, negatives), alpha),
        )


def _each(share: Share, rising: Callable[[float], float]) -> Share:
    return Share(*(rising(end) for end in (share.value, share.low, share.high)))


def _kappa(
    accuracy: Share, mine: NDArray[np.bool_], theirs: NDArray[np.bool_], weight: FloatArray
) -> Share:
    if not len(mine):
        return _UNKNOWN
    ours, people = (float(weight @ each / weight.sum()) for each in (mine, theirs))
    chance = ours * people + (1 - ours) * (1 - people)
    return (
        _UNKNOWN
        if chance == 1.0
        else _each(accuracy, lambda share: (share - chance) / (1 - chance))
    )


def _corrected(
    said: tuple[float, float],
    sensitivity: tuple[float, float],
    specificity: tuple[float, float],
    alpha: float,
) -> Share:
    """Return Rogan and Gladen's share, with Lang and Reiczigel's interval; each argument is a share and its number of things.

    Nan for a share of nothing, or if the judge's yes is uninformative: sensitivity + specificity at most 1.
    """
    from scipy.special import ndtri

    (q, n), (se, n_se), (sp, n_sp) = said, sensitivity, specificity
    if not min(n, n_se, n_sp) > 0 or not se + sp > 1:
        return _UNKNOWN
    z = float(ndtri(1 - alpha / 2))
    q_, se_, sp_ = (
        (n * q + z * z / 2) / (n + z * z),
        (n_se * se + 1) / (n_se + 2),
        (n_sp * sp + 1) / (n_sp + 2),
    )
    n_, n_se_, n_sp_ = n + z * z, n_se + 2, n_sp + 2
    gain = se_ + sp_ - 1
    if not gain > 0:
        return _UNKNOWN
    share = min(1.0, max(0.0, (q_ + sp_ - 1) / gain))
    moved = share + 2 * z * z * (
        share * se_ * (1 - se_) / n_se_ - (1 - share) * sp_ * (1 - sp_) / n_sp_
    )
    variance = (
        q_ * (1 - q_) / n_
        + share**2 * se_ * (1 - se_) / n_se_
        + (1 - share) ** 2 * sp_ * (1 - sp_) / n_sp_
    )
    half = z * math.sqrt(variance) / gain
    value = min(1.0, max(0.0, (q + sp - 1) / (se + sp - 1)))
    return Share(value, max(0.0, min(value, moved - half)), min(1.0, max(value, moved + half)))
