"""A mean of scores, or a difference of two, corrected by people's labels of some of the pairs.

More calls and more pairs do not correct a judge that is too kind; labels do. The estimate is that of prediction-powered
inference with its power tuned (Angelopoulos, Duchi and Zrnic, "PPI++", arXiv:2311.01453). With scores f, labels y of the pairs
in L, and target weights w that sum to 1, it is
    θ = λ Σ w f + Σ_L d (y − λ f),   d ∝ w/π over L, summing to 1,
π being the probability with which a pair was drawn to be labelled (Zrnic and Candès, arXiv:2403.03208). For a difference it is
that of system a less that of b. θ is right for any λ; the one with the least variance is taken, near 0 if the judge says
nothing about people's labels: θ is then the mean of the labels.

Prompts are the sample. The variance is by linearization: the squares of
    ± (d (y − ȳ) − λ (d (f − f̄_L) − w (f − f̄))),
summed over each prompt and centred over labelled and over other prompts separately. Mean and slope are fitted to the labelled
prompts, so their squares count with n/(n − 2), and Student's t has n − 2; n is (Σ d)²/Σ d² with d summed by prompt.

Rare errors that the judge does not see may be in none of 25 labels. So each end is at least as far as the bounds for y − λ f as
a bounded value (``clustered.py``), at _LOOSER times α, which is as wide as t for ordinary errors; for a difference, which may
lie anywhere in twice the scale, only where few prompts carry the variance. benchmarks/labels.py measures the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import number_of
from robin_cli.stats.clustered import (
    MOST_DIFFERENT,
    Clusters,
    few_carry,
    mean_bounds,
    student_factor,
)
from robin_cli.stats.intervals import ALPHA

FEWEST_LABELLED = 25
"""Labelled prompts that a corrected mean needs, and each system for a difference."""

ENOUGH_LABELLED = 50
"""Below this number there is a warning."""

_WIDE = 0.25
"""Share of the scale. A wider interval says why it is so wide."""

_LITTLE = 0.2
"""Below this λ the mean is all but that of the labels."""

_LOOSER = 4.0
"""At α itself, bounds of bounded values would be 1.2 to 1.9 times as wide as t at 25 labels."""

_FEWEST_ALIKE = 10
"""Least number of prompts of equal weight to which unequal probabilities may amount."""

_NOTHING = 1e-9
"""A standard error of at most this part of the values is rounding."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean or a difference that labels correct; all of it nan if it is refused.

    Attributes:
        low, high: 1 − α interval.
        lam: PPI++'s λ, the weight of the judge: 0 (the mean of the labels alone) to 1.
        n_labels: labels that count.
        n_prompts: prompts with a label; for a difference, those of the system with fewer.
        why: the reason for a refusal; '' otherwise.
        ends: ends of the labels' scale; None if they are not known.
    """

    estimate: float
    low: float
    high: float
    std_error: float
    lam: float
    n_labels: int
    n_prompts: int
    why: str = ""
    ends: tuple[float, float] | None = None

    @property
    def caution(self) -> str:
        """The caution about few labels, or about a wide interval; '' if there is none."""
        cautions = []
        if self.ends is not None and self.high - self.low > _WIDE * (self.ends[1] - self.ends[0]):
            cause = (
                "scores say little of the labels"
                if self.lam < _LITTLE
                else "labels and scores differ much"
            )
            width = f"the interval is {self.high - self.low:.2f} points wide, because {cause}"
            cautions.append(f"{width}; four times as many labels halve it")
        if not self.why and self.n_prompts < ENOUGH_LABELLED:
            cautions.append(
                f"with fewer than {ENOUGH_LABELLED} labelled prompts the labels may miss rare errors"
            )
        return "; ".join([*cautions, "label more"]) if cautions else ""


def corrected(
    scores: FloatArray,
    labels: FloatArray,
    probability: ArrayLike,
    prompt: IntArray,
    weights: FloatArray,
    *,
    ends: tuple[float, float] | None = None,
    alpha: float = ALPHA,
) -> Corrected:
    """Return a mean of the scores, or a difference of two, corrected by labels.

    Args:
        scores: shape (K,), finite if a weight is not 0.
        labels: shape (K,), nan for none.
        probability: with which each labelled pair was drawn, shape (K,) or one number; any positive number if all are equal.
        prompt: number of each pair's prompt, shape (K,).
        weights: a mean: a row that sums to 1, shape (K,). A difference: two rows, which sum to 1 and to −1.
        ends: of the labels' scale; None without a scale: t alone then bounds the errors.
        alpha: the interval holds with about 1 − alpha.
    """
    rows = np.atleast_2d(weights)
    counts = (rows != 0).any(axis=0)
    if np.isnan(scores[counts]).any():
        raise ValueError("a pair without a score has a weight")
    drawn = np.broadcast_to(np.asarray(probability, dtype=np.float64), labels.shape)
    if not counts.all():
        scores, labels, drawn, prompt = (each[counts] for each in (scores, labels, drawn, prompt))
        rows = rows[:, counts]
    place = np.unique(prompt, return_inverse=True)[1]
    signs, share = np.sign(rows.sum(axis=1)), np.abs(rows)
    has_label = ~np.isnan(labels) & (share > 0)
    n_labels = int((~np.isnan(labels)).sum())
    n_prompts = min(len(np.unique(place[each])) for each in has_label)

    def refused(why: str) -> Corrected:
        return Corrected(nan, nan, nan, nan, nan, n_labels, n_prompts, why)

    if why := _refusal([labels[each] for each in has_label], n_prompts):
        return refused(why)
    # if all of them have a label, all pairs are in, whatever their probabilities
    is_whole = (has_label == (share > 0)).all(axis=1, keepdims=True)
    d = np.where(has_label, share / np.where(is_whole, 1.0, drawn), 0.0)
    d /= d.sum(axis=1, keepdims=True)
    alike = min(1.0 / float((_by_prompt(place, each) ** 2).sum()) for each in d)
    if alike < _FEWEST_ALIKE:
        count_as = f"{number_of(n_prompts, 'prompt')} count as {alike:.0f}"
        few = f"the labels' probabilities differ so much that {count_as}"
        return refused(f"{few}; {_FEWEST_ALIKE} are needed")
    off_labels = np.nan_to_num(labels) - (mean_label := d @ np.nan_to_num(labels))[:, None]
    off = scores - (d @ scores)[:, None]
    mean = share @ scores
    of_lam = d * off - share * (scores - mean[:, None])
    residuals = [_by_prompt(place, signs @ each) for each in (d * off_labels, of_lam)]
    is_labelled = np.bincount(place, ~np.isnan(labels)) > 0
    unlabelled = 1.0 - float((share * has_label).sum(axis=1).mean())
    is_all = unlabelled < _NOTHING
    freedom = alike - (1.0 if is_all else 2.0)  # the mean, and λ
    (of_labels, both), (_, of_scores) = _squares(np.stack(residuals), is_labelled, alike / freedom)
    is_flat = of_scores <= (_NOTHING * np.abs(scores).max()) ** 2
    lam = 0.0 if is_all or is_flat else float(np.clip(both / of_scores, 0.0, 1.0 / unlabelled))
    variance = max(0.0, of_labels - 2.0 * lam * both + lam**2 * of_scores)
    if variance <= (_NOTHING * np.nanmax(np.abs(labels))) ** 2:
        return refused("labels and scores agree without a residual, so the error is unknown")
    estimate = float(signs @ (mean_label - lam * (d @ scores - mean)))
    error = float(np.sqrt(variance))
    below, above = (side * student_factor(freedom + 1.0, alpha) * error for side in (-1.0, 1.0))
    if ends is not None and n_prompts <= MOST_DIFFERENT:
        # y − λ f as a bounded value, over labelled prompts
        totals = _by_prompt(place, signs @ (d * (off_labels - lam * off)))
        reach = np.stack(
            [
                ends[0] - mean_label - lam * off.max(axis=1),
                ends[1] - mean_label - lam * off.min(axis=1),
            ]
        )
        bounds = _bounds(totals, _by_prompt(place, d.mean(axis=0)), signs * reach, alpha)
        below, above = min(below, bounds[0]), max(above, bounds[1])
    low, high = estimate + below, estimate + above
    return Corrected(estimate, low, high, error, lam * unlabelled, n_labels, n_prompts, "", ends)


def _by_prompt(place: IntArray, values: FloatArray) -> FloatArray:
    return np.bincount(place, values).astype(np.float64)


def _refusal(of_systems: list[FloatArray], prompts: int) -> str:
    """Return the reason that labels like these are refused, in words; '' if they are not."""
    several = len(of_systems) > 1
    if prompts < FEWEST_LABELLED:
        few = f"{number_of(prompts, 'prompt')}{' of each system' * several} with a label"
        return f"{few}; {FEWEST_LABELLED} are needed"
    for each in of_systems:
        if np.ptp(each) == 0:
            labels = f"all labels{' of a system' * several}"
            return f"{labels} are {each[0]:g}, so the error of their mean is unknown"
    return ""


def _bounds(
    totals: FloatArray, sizes: FloatArray, reach: FloatArray, alpha: float
) -> tuple[float, float]:
    """Return bounds, less the estimate, of a mean whose values, of each system, ``reach`` so far; shape (2, systems)."""
    low, high = float(reach.min(axis=0).sum()), float(reach.max(axis=0).sum())
    count = int((sizes > 0).sum())
    clusters = Clusters(count * totals[sizes > 0], count * sizes[sizes > 0], np.ones(count))
    if reach.shape[1] > 1 and not few_carry(clusters, low, high):
        return 0.0, 0.0
    return mean_bounds(clusters, low, high, alpha=min(0.9, _LOOSER * alpha))


def _squares(residuals: FloatArray, is_labelled: NDArray[np.bool_], factor: float) -> FloatArray:
    """Return products of the residuals of prompts, shape (2, G), centred over labelled and other ones separately; shape (2, 2).

    ``factor``: of the products of labelled prompts; that of the others is G/(G − 1).
    """
    of_labels, others = residuals[:, is_labelled], residuals[:, ~is_labelled]
    of_labels -= of_labels.mean(axis=1, keepdims=True)
    found = factor * (of_labels @ of_labels.T)
    if (count := len(others.T)) > 1:
        others -= others.mean(axis=1, keepdims=True)
    return np.asarray(found + count / max(1, count - 1) * (others @ others.T))
