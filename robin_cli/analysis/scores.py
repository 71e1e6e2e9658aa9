"""Scores: what a run says of each pair, with how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import Decided, decide
from robin_cli.analysis.intervals import ALPHA, Part, mean_intervals, sum_intervals
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import freedom_of_sum, likely_half_widths, likely_intervals, moderated
from robin_cli.analysis.worst_error import error_bound
from robin_cli.model.arms import FloatArray, IntArray, mean, sample_variance
from robin_cli.model.space import ArmSpace
from robin_cli.storage.fold import counts_by_scale
from robin_cli.storage.named import Named
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class PanelScore:
    """Of each row, shape (rows,); nan where a judge has not enough ratings for it.

    Attributes:
        score: mean of the judges' mean ratings; every judge needs one.
        variance: mean of the judges' variances, the noise within one judge; every judge needs two ratings.
        std_error: √(Σ A_j) / J, A_j the error variances: the noise of ``score``.
        between: variance between the judges' true means, unbiased, so below 0 where noise explains more than all of it.
    """

    score: FloatArray
    variance: FloatArray
    std_error: FloatArray
    between: FloatArray


def panel_score(means: FloatArray, variances: FloatArray, n: IntArray, error_variances: FloatArray) -> PanelScore:
    """The judges' ratings of each row together: of these judges, no sample of others, each with the same weight.

    ``between`` is the method-of-moments estimate of a one-way random-effects model with unequal noise: the sample variance of
    the J means less the mean of their error variances, S²(x̄_1 … x̄_J) − Σ (s_j²/n_j) / J.

    Args:
        means: each judge's mean rating, shape (rows, J) for J ≥ 2; nan without a rating.
        variances: each judge's sample variance (1/(n − 1)), shape (rows, J); nan below two ratings.
        n: ratings, shape (rows, J).
        error_variances: of the means, shape (rows, J), see :mod:`robin_cli.analysis.moderated`; nan without a rating.
    """
    judges = means.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        noise = variances / n
    return PanelScore(
        score=means.mean(axis=1),
        variance=variances.mean(axis=1),
        std_error=np.sqrt(error_variances.sum(axis=1)) / judges,
        between=means.var(axis=1, ddof=1) - noise.mean(axis=1),
    )


def spread_between(between: FloatArray) -> float:
    """The standard deviation between judges over all rows, √max(0, mean of ``between``); nan where none is known."""
    known = between[~np.isnan(between)]
    return float(np.sqrt(max(0.0, known.mean()))) if len(known) else np.nan


DECISION_COLUMNS = ("decision", "leaning", "certified")

Columns = Mapping[str, Sequence[str] | FloatArray | IntArray | NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows pair by pair, in the order of the data: one an attribute, or one an attribute and judge.

    Attributes:
        columns: by name, of those of :data:`~robin_cli.results.columns.SCORES`;
            ``score``, ``variance``, ``std_error``, ``judge_spread`` and ``human`` are nan where there is none: too few
            ratings, no human rating in the data. ``given_up``: why an arm is asked no more (``context_length``, ``truncated``,
            …), '' for those that are.
        arm: the arm of each row, of several judges together the first one's, shape (rows,).
        facets: what the rows of one pair are, in words.
        retired: rows with an arm that was given up, shape (rows,).
        error_bound: with probability at least 1 − ALPHA no score of any judge is further than this from the judge's mean
            rating, all scores at once, at whatever time one looks; in points of the scale, or shares of it where there are
            several. What was given up without a rating has no score. It is never estimated from a spread that a few equal
            ratings make look small.
        between: variance between the judges beyond noise, shape (rows,), see :class:`PanelScore`, in the same
            unit, squared; None for one judge.
        decided: what was to be decided; None where nothing was, or for the scores of each judge.
    """

    columns: Columns
    arm: IntArray
    facets: Sequence[str]
    retired: NDArray[np.bool_]
    error_bound: float
    between: FloatArray | None = None
    decided: Decided | None = None

    def __len__(self) -> int:
        return len(self.columns["pair_id"])

    def of_attribute(self, space: ArmSpace, attribute: str) -> NDArray[np.bool_]:
        """Which rows are of an attribute of ``space``, shape (rows,)."""
        return np.asarray(space.attribute[self.arm] == space.attributes.index(attribute))


def score(run: RunData, *, alpha: float = ALPHA) -> Scores:
    """The scores of ``run`` as it stands, a row a pair and attribute; several judges count alike, however often each was asked.

    Args:
        alpha: the intervals hold with at least 1 − alpha, each for itself.
    """
    space = run.space
    judges = len(space.judges)
    each = judge_scores(run, alpha=alpha)
    if judges == 1:
        alone = replace(
            each,
            columns={name: column for name, column in each.columns.items() if name != "judge"},
            facets=space.attributes,
        )
        return _with_decisions(alone, run)
    means, variance, n, unparsed = (
        space.by_rater(each.columns[name]) for name in ("score", "variance", "n", "n_unparsed")
    )
    arms = run.fold.arms
    found = moderated(space, arms.counts, arms.totals, arms.totals_sq)
    noise = space.by_rater(found.error_variance)
    panel = panel_score(means, variance, n, noise)
    first = np.flatnonzero(space.judge == 0)
    half = likely_half_widths(panel.std_error**2, freedom_of_sum(noise, space.by_rater(found.freedom)), alpha=alpha)
    bottom, top = (ends[first] for ends in space.ends)
    low, high = np.empty(len(first)), np.empty(len(first))
    for rows, parts in rated_parts(run):
        low[rows], high[rows] = sum_intervals(parts, alpha=alpha)
    retired = np.asarray(space.by_rater(each.retired).any(axis=1))
    given_up = [""] * len(first)
    reasons = space.by_rater(np.array(each.columns["given_up"], dtype=object))
    for row in np.flatnonzero(retired):
        whys = zip(space.judges, reasons[row], strict=True)
        given_up[row] = "; ".join(f"{judge}: {why}" for judge, why in whys if why)
    columns: Columns = {
        "pair_id": Named(space.pair_ids, space.pair[first]),
        "attribute": Named(space.attributes, space.attribute[first]),
        "score": panel.score,
        "n": n.sum(axis=1),
        "variance": panel.variance,
        "std_error": panel.std_error,
        "ci_low": low,
        "ci_high": high,
        "likely_low": np.maximum(panel.score - half, bottom),
        "likely_high": np.minimum(panel.score + half, top),
        "n_unparsed": unparsed.sum(axis=1),
        "human": np.asarray(each.columns["human"])[first],
        "given_up": given_up,
        "judges": (n > 0).sum(axis=1),
        "judge_spread": np.sqrt(np.maximum(panel.between, 0.0)),
    }
    between = panel.between / space.units[first] ** 2
    return _with_decisions(Scores(columns, first, space.attributes, retired, each.error_bound, between), run)


def _with_decisions(scores: Scores, run: RunData) -> Scores:
    """The scores with what was decided of them, where something was to be."""
    if (task := run.task) is None:
        return scores
    means = np.asarray(scores.columns["score"], dtype=np.float64)
    decided = decide(task, means, LevelCounts.of(run), run.fold.arms)
    columns: dict[str, Sequence[str] | FloatArray | IntArray | NDArray[np.bool_]] = {
        **scores.columns,
        "decision": decided.decision.tolist(),
        "leaning": decided.leaning.tolist(),
        "certified": decided.certified,
    }
    if task.group is not None:
        columns["group"] = Named(run.pairs.group_names, task.group[run.space.pair[scores.arm]])
    return replace(scores, columns=columns, decided=decided)


def judge_scores(run: RunData, *, alpha: float = ALPHA) -> Scores:
    """The scores of ``run``, a row a pair, attribute and judge.

    Args:
        alpha: as for :func:`score`.
    """
    space = run.space
    arms = run.fold.arms
    low, high = np.empty(len(space)), np.empty(len(space))
    by_scale = list(counts_by_scale(space, run.arm, run.judgments))
    for scale, mine, counts in by_scale:
        low[mine], high[mine] = mean_intervals(counts, scale.low, scale.high, alpha=alpha)
    bound = error_bound(space, arms, by_scale)
    n = arms.counts
    means = mean(n, arms.totals)
    variance = sample_variance(n, arms.totals, arms.totals_sq)
    found = moderated(space, n, arms.totals, arms.totals_sq)
    likely_low, likely_high = likely_intervals(space, n, arms.totals, found, alpha=alpha)
    unrated = np.full(len(run.pair_ids), np.nan)
    human = np.stack([run.human.get(name, unrated) for name in space.attributes])
    given_up = [""] * len(space)
    for arm, why in run.fold.reasons.items():
        given_up[arm] = why
    columns: Columns = {
        "pair_id": Named(space.pair_ids, space.pair),
        "attribute": Named(space.attributes, space.attribute),
        "judge": Named(space.judges, space.judge),
        "score": means,
        "n": n,
        "variance": variance,
        "std_error": np.sqrt(found.error_variance),
        "ci_low": low,
        "ci_high": high,
        "likely_low": likely_low,
        "likely_high": likely_high,
        "n_unparsed": arms.unparsed,
        "human": human[space.attribute, space.pair],
        "given_up": given_up,
    }
    facets = _told_apart([f"{attribute}_{judge}" for attribute in space.attributes for judge in space.judges])
    return Scores(columns, np.arange(len(space)), facets, arms.retired_mask, bound)


def likely_widths(scores: Scores, space: ArmSpace) -> FloatArray:
    """How wide each likely interval is, as a share of its scale; inf where there is none. Shape (rows,)."""
    low, high = (np.asarray(scores.columns[name], dtype=np.float64) for name in ("likely_low", "likely_high"))
    return np.nan_to_num((high - low) / space.units[scores.arm], nan=np.inf)


def rated_parts(run: RunData) -> Iterator[tuple[IntArray, list[Part]]]:
    """The rows that :func:`score` has on each scale, rising, and what each judge adds to their scores, in that order."""
    space = run.space
    arms_of_row = space.by_rater(np.arange(len(space)))
    place = np.empty(len(space), dtype=np.int64)
    for scale, mine, counts in counts_by_scale(space, run.arm, run.judgments):
        place[mine] = np.arange(len(mine))
        rows = np.flatnonzero(np.isin(arms_of_row[:, 0], mine, assume_unique=True))
        yield (
            rows,
            [Part(counts[place[arms]], scale.low, scale.high, 1 / space.raters) for arms in arms_of_row[rows].T],
        )


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, those that are equal with their place behind them: "a_b" and "c" make the same as "a" and "b_c"."""
    return [name if names.count(name) == 1 else f"{name}_{place}" for place, name in enumerate(names, 1)]
