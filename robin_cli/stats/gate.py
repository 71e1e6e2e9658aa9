"""Verdicts on requirements of a run: met, not met, or not settled by these ratings; and what would settle it.

A mean is that of the scores, with the interval over prompts of ``robin status`` (``summaries.py``). A difference of two systems
is the mean of the prompts' differences, with the interval of ``robin compare`` (``paired.py``).

A share counts the scores that meet the threshold. Its bounds hold for prompts like these, rated by this judge with as many
calls. They are the bounds of a mean of zeros and ones; with one pair per prompt they are those of Clopper and Pearson. They do
not hold for the share of *true* means: noise puts some scores on the wrong side.

All pairs, of the run itself: met if each pair's own evidence is 1/δ, as then none of them can be wrong (an intersection-union
test: Berger, Technometrics 24, 1982); not met if the evidence against one of K is K/δ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import RELATIONS, Criterion
from robin_cli.run.reader import RunReader
from robin_cli.stats.clustered import (
    bounds_over_prompts,
    clusters_of,
    mean_bounds,
)
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.intervals import Part, distinct_rows, log_sum_evidence
from robin_cli.stats.paired import prompts_needed, times_needed
from robin_cli.stats.requirement import Requirement
from robin_cli.stats.run_compare import Compared
from robin_cli.stats.scores import Scores, rated_parts
from robin_cli.stats.summaries import PairMeans, pair_means

State = Literal["pass", "fail", "inconclusive"]

_MOST_RATINGS = 2**13
"""The most further ratings of each pair and judge that are considered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The scores of one attribute, of K pairs; for a comparison the differences of K prompts. Shape (K,) each.

    Attributes:
        scores, error_variances: nan without a rating.
        parts: counts of each judge's ratings, and its weight in the score.
        is_asked: whether more ratings are possible: not for a pair that was given up.
        low, high: the ends of the scale.
        calls: spent on them.
        first: number of ratings of each pair in the scores, if not all.
    """

    scores: FloatArray
    error_variances: FloatArray
    prompt: IntArray
    parts: Sequence[Part]
    is_asked: NDArray[np.bool_]
    low: float
    high: float
    calls: int
    first: int | None = None

    @property
    def is_rated(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.scores)

    def calls_for(self, ratings: float) -> float:
        """Return the calls for so many ratings by each judge, as many for each as so far."""
        got = sum(float(np.asarray(each.counts).sum()) for each in self.parts)
        return ratings * len(self.parts) * (max(1.0, self.calls / got) if got else 1.0)


@dataclass(frozen=True, slots=True)
class Settling:
    """About how much more would settle it: calls in all, or prompts of pairs like these; None if no number would."""

    calls: float | None = None
    prompts: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one requirement.

    Attributes:
        estimate: the mean of the scores, or the share of them that meet the criterion; nan without a score.
        low, high: 1 − δ interval of the required value; nan for all pairs, which are no sample.
        pairs, prompts: numbers of those with a score; ``unrated``: pairs without one.
        open, against: for all pairs, those not certified, and those certified not to meet the criterion, by position.
        settling: what would settle an inconclusive one.
        first: number of ratings of each pair in the estimate, if not all.
    """

    requirement: Requirement
    state: State
    estimate: float
    low: float
    high: float
    pairs: int
    prompts: int
    unrated: int
    open: Sequence[int] = ()
    against: Sequence[int] = ()
    settling: Settling | None = None
    first: int | None = None


def judged(
    requirement: Requirement, measured: Measured, *, error_rate: float, settle: bool = False
) -> Verdict:
    """Return the verdict on ``requirement``; wrong, by more than the margin, with probability at most ``error_rate``.

    ``settle``: if it is inconclusive, compute what would settle it.
    """
    decide, what_settles = _OF_KIND[requirement.kind]
    verdict = decide(requirement, measured, error_rate)
    if (
        not settle
        or verdict.state != "inconclusive"
        or (not verdict.pairs and requirement.kind != "all")
    ):
        return verdict
    return replace(verdict, settling=what_settles(verdict, measured, error_rate))


def together(states: Sequence[State]) -> State:
    """Return failed if any has, else inconclusive if any is, else passed."""
    gravest: tuple[State, ...] = ("fail", "inconclusive")
    return next((state for state in gravest if state in states), "pass")


def _state(relation: str, x: float, low: float, high: float) -> State:
    """Return whether all of an interval meets a requirement, none of it does, or some."""
    ends = [RELATIONS[relation](end, x) for end in (low, high)]
    return "pass" if all(ends) else "inconclusive" if any(ends) else "fail"


def _plain(requirement: Requirement, measured: Measured) -> Verdict:
    """Return a verdict without an interval: the numbers of pairs and the estimate."""
    is_rated = measured.is_rated
    values, criterion = measured.scores[is_rated], requirement.criterion
    if requirement.kind not in {"mean", "compare"}:
        values = RELATIONS[criterion.relation](values, criterion.threshold)
    return Verdict(
        requirement,
        "inconclusive",
        *(float(values.mean()) if len(values) else math.nan, math.nan, math.nan),
        pairs=len(values),
        prompts=len(np.unique(measured.prompt[is_rated])),
        unrated=int((~is_rated).sum()),
        first=measured.first,
    )


def _mean(requirement: Requirement, measured: Measured, error_rate: float) -> Verdict:
    plain, is_rated = _plain(requirement, measured), measured.is_rated
    if not plain.pairs:
        return replace(plain, low=measured.low, high=measured.high)
    scores = measured.scores[is_rated]
    clusters, ends = clusters_of(scores, measured.prompt[is_rated]), (measured.low, measured.high)
    low, high = bounds_over_prompts(clusters, *ends, alpha=error_rate)
    state = _state(requirement.criterion.relation, requirement.criterion.threshold, low, high)
    return replace(plain, state=state, low=low, high=high)


def _settling_mean(verdict: Verdict, measured: Measured, error_rate: float) -> Settling:
    """Return the calls of :func:`~robin_cli.stats.paired.times_needed`, if they are enough; else the prompts."""
    is_rated, threshold = measured.is_rated, verdict.requirement.criterion.threshold
    clusters = clusters_of(measured.scores[is_rated], measured.prompt[is_rated])
    if verdict.prompts < 2:
        return Settling()
    noise = float(measured.error_variances[is_rated].sum()) / verdict.pairs**2
    share = min(1.0, noise / clusters.variance) if clusters.variance > 0 else 1.0
    # of each prompt, with as much weight as it has pairs
    residuals = (clusters.totals - clusters.mean * clusters.sizes) * verdict.prompts / verdict.pairs
    values = np.repeat(clusters.mean - threshold + residuals, clusters.times.astype(int))
    low = min(measured.low - threshold, values.min())
    high = max(measured.high - threshold, values.max())
    enough = partial(prompts_needed, low=low, high=high, alpha=error_rate)
    times = times_needed(values, share, enough) if measured.high < math.inf else math.inf
    if times < math.inf:
        return Settling(calls=(times - 1.0) * measured.calls)
    needed = enough(values)
    return Settling() if math.isnan(needed) else Settling(prompts=needed - verdict.prompts)


def log_evidence_for(
    parts: Sequence[Part], criterion: Criterion, margin: float
) -> tuple[FloatArray, FloatArray]:
    """Return ln of the evidence that each pair's mean rating, of all judges, meets ``criterion``, and does not; shape (K,)."""
    at = criterion.threshold
    if len(parts) == 1:
        above, below = log_evidence(parts[0].counts, parts[0].low, parts[0].high, at, margin)
    else:
        turned = [replace(each, weight=-each.weight) for each in parts]
        above, below = log_sum_evidence(parts, at - margin), log_sum_evidence(turned, -at - margin)
    return (above, below) if criterion.above else (below, above)


def _ratings_needed(
    requirement: Requirement, measured: Measured, levels: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the further ratings of each pair until the evidence for it, or against, reaches its level; inf if it never does.

    Ratings go on like each pair's so far, with one rating's weight of all pairs' distribution.
    """
    more = np.concatenate([[0.0], 2.0 ** np.arange(math.log2(_MOST_RATINGS) + 1)])
    # many pairs with few ratings have few different counts
    counts = np.column_stack([*(each.counts for each in measured.parts), measured.is_asked])
    distinct, kind = distinct_rows(counts.astype(np.float64))
    splits = np.cumsum([np.shape(each.counts)[1] for each in measured.parts])
    *by_part, is_asked = np.split(distinct, splits, axis=1)
    growth = [
        _frequencies(counts, np.asarray(each.counts).sum(axis=0)) * is_asked
        for each, counts in zip(measured.parts, by_part, strict=True)
    ]
    logs = []
    for count in more:
        parts = [
            replace(each, counts=counts + count * grown)
            for each, counts, grown in zip(measured.parts, by_part, growth, strict=True)
        ]
        logs.append(log_evidence_for(parts, requirement.criterion, requirement.margin))
    of, against = (
        _crossing(more, np.stack(side), level)[kind]
        for side, level in zip(zip(*logs, strict=True), levels, strict=True)
    )
    return of, against


def _crossing(more: FloatArray, logs: FloatArray, level: float) -> FloatArray:
    """Return how many ``more`` take each column of ``logs``, shape (len(more), kinds), to ``level``."""
    found = np.where(logs[0] >= level, 0.0, np.inf)
    for before, after, start, end in zip(logs, logs[1:], more, more[1:], strict=False):
        now = np.isinf(found) & (after >= level)
        found[now] = start + (end - start) * (level - before[now]) / (after[now] - before[now])
    return found


def _frequencies(counts: FloatArray, pooled: FloatArray) -> FloatArray:
    """Return the frequencies of each level in each pair's next ratings, shape (K, levels)."""
    pooled = pooled / pooled.sum() if pooled.any() else np.full(len(pooled), 1 / len(pooled))
    return np.asarray((counts + pooled) / (counts.sum(axis=1, keepdims=True) + 1.0))


def _share(requirement: Requirement, measured: Measured, error_rate: float) -> Verdict:
    """Return the verdict by the exact bounds of the share; a pair without a score counts against either side."""
    low, high = (
        mean_bounds(clusters_of(meets, measured.prompt), 0.0, 1.0, alpha=error_rate)[side]
        for side, meets in enumerate(_who_meet(requirement, measured))
    )
    state = _state(requirement.relation, requirement.share, low, high)
    return replace(_plain(requirement, measured), state=state, low=low, high=high)


def _who_meet(requirement: Requirement, measured: Measured) -> tuple[FloatArray, FloatArray]:
    """Return 1 for each pair whose score meets the criterion, else 0; pairs without a score do not, and do."""
    criterion, is_rated = requirement.criterion, measured.is_rated
    meets = RELATIONS[criterion.relation](measured.scores, criterion.threshold)
    return np.where(is_rated, meets, 0.0), np.where(is_rated, meets, 1.0)


def _settling_share(verdict: Verdict, measured: Measured, error_rate: float) -> Settling:
    """Return the calls for pairs without a score, if they settle it as the others are; else the prompts.

    More calls for a pair with a score do not help: they may move a share, and do not narrow its interval.
    """
    requirement, bar = verdict.requirement, verdict.requirement.share
    unknown = measured.is_asked & ~measured.is_rated
    meets = _who_meet(requirement, measured)[verdict.estimate < bar]
    meets[unknown] = verdict.estimate
    clusters = clusters_of(meets, measured.prompt)
    ends = mean_bounds(clusters, 0.0, 1.0, alpha=error_rate)
    if unknown.any() and _state(requirement.relation, bar, *ends) != "inconclusive":
        return Settling(calls=measured.calls_for(int(unknown.sum())))
    _, which, size = np.unique(measured.prompt, return_inverse=True, return_counts=True)
    by_prompt = np.bincount(which, meets) / size - bar
    if len(size) < 2:
        return Settling()
    needed = prompts_needed(by_prompt, -bar, 1.0 - bar, error_rate, is_robust=True)
    return Settling() if math.isnan(needed) else Settling(prompts=needed - len(size))


def _all(requirement: Requirement, measured: Measured, error_rate: float) -> Verdict:
    plain = _plain(requirement, measured)
    now = log_evidence_for(measured.parts, requirement.criterion, requirement.margin)
    levels = _levels_of_all(measured, error_rate)
    is_sure, is_against = (logs >= level for logs, level in zip(now, levels, strict=True))
    open_ = np.flatnonzero(~is_sure & ~is_against).tolist()
    against = np.flatnonzero(is_against).tolist()
    state: State = "fail" if against else "inconclusive" if open_ else "pass"
    return replace(plain, state=state, open=open_, against=against)


def _levels_of_all(measured: Measured, error_rate: float) -> tuple[float, float]:
    """Return ln of the evidence that certifies a pair, and of that which certifies that one of all does not meet it."""
    return -math.log(error_rate), math.log(len(measured.scores)) - math.log(error_rate)


def _settling_all(verdict: Verdict, measured: Measured, error_rate: float) -> Settling:
    """Return the calls until every open pair is certified, or until one is certified against it: the fewer."""
    levels, is_asked = _levels_of_all(measured, error_rate), measured.is_asked
    of, contrary = _ratings_needed(verdict.requirement, measured, levels)
    ratings = float(contrary[is_asked].min(initial=math.inf))
    if is_asked[list(verdict.open)].all():
        ratings = min(ratings, float(of[is_asked].sum()))
    return Settling(calls=measured.calls_for(ratings)) if math.isfinite(ratings) else Settling()


_OF_KIND = {
    "mean": (_mean, _settling_mean),
    "compare": (_mean, _settling_mean),
    "share": (_share, _settling_share),
    "all": (_all, _settling_all),
}


def measured(run: RunReader, scores: Scores, attribute: str, *, for_mean: bool = False) -> Measured:
    """Return the scores of ``run`` on ``attribute`` with their parts, in the order of the data.

    ``for_mean``: take the scores of :func:`~robin_cli.stats.summaries.pair_means`, not those of the run as they are.
    """
    chosen = np.flatnonzero(scores.of_attribute(run.space, attribute))
    ends = dict(zip(run.manifest.attributes, run.manifest.known_ends, strict=True))[attribute]
    rows, parts = next(each for each in rated_parts(run) if np.isin(chosen, each[0]).all())
    parts = [replace(each, counts=each.counts[np.searchsorted(rows, chosen)]) for each in parts]
    arms = run.fold.arms
    known = PairMeans(scores.numbers("score")[chosen], scores.numbers("std_error")[chosen] ** 2)
    if for_mean:
        known = pair_means(run, scores, attribute)
    return Measured(
        scores=known.scores,
        error_variances=np.zeros_like(known.scores) if known.is_final else known.error_variances,
        prompt=run.prompts[run.space.pair[scores.arm[chosen]]],
        parts=parts,
        is_asked=~scores.retired[chosen],
        low=ends.low,
        high=ends.high,
        calls=int(run.space.by_rater(arms.n + arms.n_unparsed)[chosen].sum()),
        first=known.first,
    )


def measured_difference(found: Compared, attribute: str) -> Measured:
    """Return the differences of the two systems in ``found``, prompt by prompt."""
    one, responses = found.differences[attribute][0], found.responses[attribute]
    reach = responses.reach
    used = np.isin(responses.prompt, one.prompts)
    return Measured(
        scores=one.by_prompt,
        error_variances=np.zeros_like(one.noise_by_prompt)
        if found.is_final
        else one.noise_by_prompt,
        prompt=one.prompts,
        parts=(),
        is_asked=np.ones(one.n_prompts, dtype=np.bool_),
        low=-reach,
        high=reach,
        calls=int(responses.ratings[used].sum()) * len(found.runs[0].space.judges),
        first=min(filter(None, found.by_first), default=None),
    )
