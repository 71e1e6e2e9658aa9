"""Verdicts on requirements of a run: met, not met, or not settled by these ratings; and what would settle it.

A mean has the interval over prompts of ``robin status``, a difference of two systems that of ``robin compare``. A share counts
the scores that meet the threshold; its bounds, those of a mean of zeros and ones, hold for prompts like these, rated by this
judge with as many calls. They do not hold for the share of *true* means: noise puts some scores on the wrong side.

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
from robin_cli.stats.clustered import Clusters, bounds_over_prompts, clusters_of, mean_bounds
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.intervals import Part, log_sum_evidence
from robin_cli.stats.paired import prompts_needed, times_needed
from robin_cli.stats.requirement import Kind, Requirement
from robin_cli.stats.run_compare import Compared
from robin_cli.stats.scores import Scores, rated_parts
from robin_cli.stats.summaries import PairMeans, pair_means

State = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Measured:
    """The scores of one attribute, of K pairs; for a comparison the differences of K prompts. Shape (K,) each.

    Attributes:
        scores, error_variances: nan without a rating.
        parts: counts of each judge's ratings, and its weight in the score; for requirements of all pairs.
        is_asked: whether more ratings are possible: not for a pair that was given up.
        low, high: the ends of the scale.
        calls: spent on them.
        first: number of ratings of each pair in the scores, if not all.
        raters: those whose ratings a score needs.
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
    raters: int = 1

    @property
    def is_rated(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.scores)


@dataclass(frozen=True, slots=True)
class Settling:
    """About how much more would settle it: calls in all, or prompts of pairs like these; None if no number would.

    ``is_open``: for all pairs, whether those that are open can be asked again.
    """

    calls: float | None = None
    prompts: float | None = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one requirement.

    Attributes:
        estimate: the mean of the scores, or the share of them that meet the criterion; nan without a score.
        low, high: 1 − δ interval of the required value; nan for all pairs, which are no sample.
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
    if settle and verdict.state == "inconclusive" and (verdict.pairs or requirement.kind == "all"):
        verdict = replace(verdict, settling=what_settles(verdict, measured, error_rate))
    return verdict


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
    plain, low, high = _plain(requirement, measured), measured.low, measured.high
    if not plain.pairs:
        return replace(plain, low=low, high=high)
    low, high = bounds_over_prompts(_clusters(measured), low, high, alpha=error_rate)
    state = _state(requirement.criterion.relation, requirement.criterion.threshold, low, high)
    return replace(plain, state=state, low=low, high=high)


def _clusters(measured: Measured) -> Clusters:
    is_rated = measured.is_rated
    return clusters_of(measured.scores[is_rated], measured.prompt[is_rated])


def _settling_mean(verdict: Verdict, measured: Measured, error_rate: float) -> Settling:
    """Return the calls of :func:`~robin_cli.stats.paired.times_needed`, if they are enough; else the prompts."""
    if verdict.prompts < 2:
        return Settling()
    clusters, threshold = _clusters(measured), verdict.requirement.criterion.threshold
    noise = float(np.nansum(measured.error_variances)) / verdict.pairs**2
    share = min(1.0, noise / clusters.variance) if clusters.variance > 0 else 1.0
    # of each prompt, with as much weight as it has pairs
    residuals = clusters.residuals * verdict.prompts / verdict.pairs
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
        return Settling(calls=float(unknown.sum()) * measured.raters)
    _, which, size = np.unique(measured.prompt, return_inverse=True, return_counts=True)
    by_prompt = np.bincount(which, meets) / size - bar
    if len(size) < 2:
        return Settling()
    needed = prompts_needed(by_prompt, -bar, 1.0 - bar, error_rate, is_robust=True)
    return Settling() if math.isnan(needed) else Settling(prompts=needed - len(size))


def _all(requirement: Requirement, measured: Measured, error_rate: float) -> Verdict:
    plain = _plain(requirement, measured)
    of, against_it = log_evidence_for(measured.parts, requirement.criterion, requirement.margin)
    is_sure = of >= -math.log(error_rate)
    is_against = against_it >= math.log(len(measured.scores)) - math.log(error_rate)
    open_ = np.flatnonzero(~is_sure & ~is_against).tolist()
    against = np.flatnonzero(is_against).tolist()
    state: State = "fail" if against else "inconclusive" if open_ else "pass"
    return replace(plain, state=state, open=open_, against=against)


def _settling_all(verdict: Verdict, measured: Measured, _error_rate: float) -> Settling:
    return Settling(is_open=bool(measured.is_asked[list(verdict.open)].all()))


_OF_KIND = {
    "mean": (_mean, _settling_mean),
    "compare": (_mean, _settling_mean),
    "share": (_share, _settling_share),
    "all": (_all, _settling_all),
}


def measured(run: RunReader, scores: Scores, attribute: str, kind: Kind) -> Measured:
    """Return the scores of ``run`` on ``attribute``, in the order of the data, for a requirement of this kind."""
    chosen = np.flatnonzero(scores.of_attribute(run.space, attribute))
    ends = dict(zip(run.manifest.attributes, run.manifest.known_ends, strict=True))[attribute]
    known = (
        pair_means(run, scores, attribute)
        if kind == "mean"
        else PairMeans.of_scores(scores, chosen)
    )
    parts: Sequence[Part] = ()
    if kind == "all":
        rows, parts = next(each for each in rated_parts(run) if np.isin(chosen, each[0]).all())
        places = np.searchsorted(rows, chosen)
        parts = [replace(each, counts=each.counts[places]) for each in parts]
    arms = run.fold.arms
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
        raters=run.space.raters,
    )


def measured_difference(comparison: Compared, attribute: str) -> Measured:
    """Return the differences of the two systems in ``comparison``, prompt by prompt."""
    one, responses = comparison.differences[attribute][0], comparison.responses[attribute]
    reach = responses.reach
    used = np.isin(responses.prompt, one.prompts)
    return Measured(
        scores=one.by_prompt,
        error_variances=np.zeros_like(one.noise_by_prompt)
        if comparison.is_final
        else one.noise_by_prompt,
        prompt=one.prompts,
        parts=(),
        is_asked=np.ones(one.n_prompts, dtype=np.bool_),
        low=-reach,
        high=reach,
        calls=int(responses.ratings[used].sum()) * len(comparison.runs[0].space.judges),
        first=min(filter(None, comparison.by_first), default=None),
    )
