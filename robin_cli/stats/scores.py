"""Scores: the mean ratings of each pair, with their errors and intervals.

A score is the mean over its raters: every variant of the question by every judge. They have equal weight, however often each
was asked. Its noise is that of the raters' means, Σ A_j / J², A_j being the error variances. Without a rating of each rater
there is none. Judges of a decision are pooled instead, see :mod:`robin_cli.policies.second_opinion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.texts import Texts
from robin_cli.model.arms import FloatArray, IntArray, mean, sample_variance
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.reader import RunReader
from robin_cli.stats.decided import Decided, decide
from robin_cli.stats.intervals import ALPHA, Part, mean_intervals, sum_intervals
from robin_cli.stats.level_counts import LevelCounts, counts_by_scale
from robin_cli.stats.moderated import likely_intervals, skewed
from robin_cli.stats.row_scores import row_scores


def between_judges(means: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the variance between the judges' true means of each row, unbiased, so below 0 if noise explains more than all.

    It is the method-of-moments estimate of a one-way random-effects model with unequal noise: the sample variance of the J
    means less the mean of their error variances, S²(x̄_1 … x̄_J) − Σ (s_j²/n_j) / J; both of shape (rows, J), J ≥ 2.
    """
    return np.asarray(means.var(axis=1, ddof=1) - noise.mean(axis=1))


def spread_between(between: FloatArray) -> float:
    """Return the standard deviation between judges over all rows, √max(0, mean of ``between``); nan if none is known."""
    known = between[~np.isnan(between)]
    return float(np.sqrt(max(0.0, known.mean()))) if len(known) else np.nan


DECISION_COLUMNS = ("decision", "likely_wrong", "certified")

Counted = tuple[Scale, IntArray, FloatArray]
"""A scale, its arms, and the number of times each got each rating."""

Column = Sequence[str] | FloatArray | IntArray | NDArray[np.bool_]
Columns = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows in the order of the data: one for each pair and attribute, or one for each pair, attribute and judge.

    Attributes:
        columns: by name, of :data:`~robin_cli.show.columns.SCORES` or COMPARISONS. ``score``, ``variance``, ``std_error``,
            ``judge_spread`` and ``human`` are nan for none: too few ratings, or no human rating in the data. ``ci_low``,
            ``ci_high`` hold with about 1 − α on average, ``guaranteed_low``, ``guaranteed_high`` with at least 1 − α each.
            ``given_up``: why an arm is given up (``context_length``, ``truncated``, …), '' if it is not.
        arms: the arms whose mean each row is, shape (rows, raters).
        facets: the rows of one pair, in words.
        retired: whether each row has an arm that was given up, shape (rows,).
        between: variance between the judges beyond noise, shape (rows,), see :func:`between_judges`, in the same
            unit, squared; None for one judge.
        decided: the decisions; None without any, or for the scores of each judge.
    """

    columns: Columns
    arms: IntArray
    facets: Sequence[str]
    retired: NDArray[np.bool_]
    between: FloatArray | None = None
    decided: Decided | None = None

    def __len__(self) -> int:
        return len(self.arms)

    @property
    def arm(self) -> IntArray:
        """The first arm of each row, shape (rows,)."""
        return self.arms[:, 0]

    def numbers(self, name: str) -> FloatArray:
        return np.asarray(self.columns[name], dtype=np.float64)

    def of_attribute(self, space: ArmSpace, attribute: str) -> NDArray[np.bool_]:
        """Return whether each row is of an attribute of ``space``, shape (rows,)."""
        return np.asarray(space.attribute[self.arm] == space.attributes.index(attribute))


def score(run: RunReader, *, by_judge: bool = False, alpha: float = ALPHA) -> Scores:
    """Return the scores of ``run`` as it stands, a row for each pair and attribute, on the scales that people see.

    ``by_judge``: a row for each pair, attribute and judge: the mean over the variants of the question alone. ``alpha``: the
    intervals hold with at least 1 − alpha, each for itself.
    """
    space, totals = run.space, run.fold.arms
    arms = space.by_judge if by_judge else space.by_rater(np.arange(len(space)))
    first, raters = arms[:, 0], arms.shape[1]
    pooling = None if by_judge else run.task
    found = row_scores(space, pooling, totals.sums, arms=arms)
    n, variances = totals.n[arms], sample_variance(*totals.sums)[arms]
    is_pooled = pooling is not None and raters > 1
    skew, guaranteed = _skew_and_guaranteed(run, found.parts, arms, alpha, is_pooled=is_pooled)
    low, high = likely_intervals(
        found.score, found.error, found.freedom, skew, guaranteed, alpha=alpha
    )
    retired = totals.is_retired[arms]
    unrated = np.full(len(run.pair_ids), np.nan)
    human = np.stack([run.human.get(name, unrated) for name in space.attributes])
    judge = {"judge": texts_at(space.judges, space.judge[first])} if by_judge else {}
    columns: dict[str, Column] = {
        "pair_id": texts_at(space.pair_ids, space.pair[first]),
        "attribute": texts_at(space.attributes, space.attribute[first]),
        **judge,
        "score": found.score,
        "n": n.sum(axis=1),
        "variance": variances.mean(axis=1),
        "std_error": np.sqrt(found.error),
        "ci_low": low,
        "ci_high": high,
        "guaranteed_low": guaranteed[0],
        "guaranteed_high": guaranteed[1],
        "n_unparsed": totals.n_unparsed[arms].sum(axis=1),
        "human": human[space.attribute[first], space.pair[first]],
        "given_up": _given_up(run, arms, retired),
    }
    facets, between, decided = space.attributes, None, None
    if by_judge:
        facets = _told_apart([f"{name}_{judge}" for name in facets for judge in space.judges])
    else:
        if space.raters > len(space.variants):
            between = _between(run, variances / np.where(n > 0, n, np.nan))
            columns["judges"] = (n > 0).sum(axis=1)
            columns["judge_spread"] = np.sqrt(np.maximum(between, 0.0))
            between = between / space.units[first] ** 2
        if (task := run.task) is not None:
            decided = decide(task, lambda: LevelCounts.from_run(run), totals)
            columns |= _decision_columns(run, decided, first)
    _as_shown(run, columns)
    return Scores(columns, arms, facets, np.asarray(retired.any(axis=1)), between, decided)


def _between(run: RunReader, noise: FloatArray) -> FloatArray:
    """Return the variance between the judges of each row; ``noise``: that of each arm's mean, shape (rows, raters)."""
    space, arms = run.space, run.fold.arms
    of_judges = space.by_variant(mean(arms.n, arms.total)).mean(axis=1)
    variants = len(space.variants)
    return between_judges(of_judges, space.by_variant(noise).sum(axis=1) / variants**2)


def texts_at(names: Sequence[str], places: NDArray[np.integer[Any]]) -> Texts:
    """Return the names at these places; without a copy if these are all of them in order."""
    column = Texts.from_texts(names).column
    if len(places) == len(column) and np.array_equal(places, np.arange(len(column))):
        return Texts(column)
    return Texts(column.take(pa.array(places)))


def _decision_columns(run: RunReader, decided: Decided, first: IntArray) -> dict[str, Column]:
    columns: dict[str, Column] = {
        "decision": decided.decision.tolist(),
        "likely_wrong": decided.of_rows(decided.likely_wrong, other=np.nan),
    }
    if decided.certified is not None:
        columns["certified"] = decided.of_rows(decided.certified, other=False)
    if (group := decided.task.group) is not None:
        columns["group"] = texts_at(run.pairs.group_names, group[run.space.pair[first]])
    return columns


def _as_shown(run: RunReader, columns: dict[str, Any]) -> None:
    """Turn ratings into points of the scales that people see: preferences go from 0 to 1."""
    if any(run.manifest.expected):  # expectations are kept in steps of 2⁻²⁰: 2.7 is 2.7 again
        columns["score"] = columns["score"].round(6)
    if run.manifest.score_scales == run.manifest.scales:
        return
    (scale,), (seen,) = run.manifest.scales, run.manifest.score_scales
    unit = (seen.high - seen.low) / (scale.high - scale.low)
    for name in ("score", "ci_low", "ci_high", "guaranteed_low", "guaranteed_high"):
        columns[name] = seen.low + unit * (columns[name] - scale.low)
    for name in {"std_error", "judge_spread"} & columns.keys():
        columns[name] = unit * columns[name]
    columns["variance"] = unit**2 * columns["variance"]


def _skew_and_guaranteed(
    run: RunReader, noise: FloatArray, arms: IntArray, alpha: float, *, is_pooled: bool
) -> tuple[FloatArray, FloatArray]:
    """Return by how much likely intervals are wider than by t, and the guaranteed intervals, shape (2, rows) each.

    Pooled scores have no guarantee but the scale; without a known scale there is none. ``noise``: each rater's part in the
    error variance of its row, shape (rows, raters); its factor counts by that.
    """
    space, attribute = run.space, run.space.attribute[arms[:, 0]]
    factors, guaranteed = np.ones((2, len(space))), np.full((2, len(arms)), np.nan)
    counted = list(counts_by_scale(space, run.arm, run.judgments))
    for scale, of_scale, counts in counted:
        for kind in np.unique(space.kind[of_scale]):
            alike = space.kind[of_scale] == kind
            of_kind = counts if alike.all() else counts[alike]  # a copy may take 40 MB
            factors[:, of_scale[alike]] = skewed(of_kind, scale, alpha=alpha)
    for rows, parts in _parts(space, counted, arms) if not is_pooled else ():
        # of one rater its own bets are narrower
        alone = parts[0]
        guaranteed[:, rows] = (
            sum_intervals(parts, alpha=alpha)
            if len(parts) > 1
            else mean_intervals(alone.counts, alone.low, alone.high, alpha=alpha)
        )
    if is_pooled:
        guaranteed = np.array(space.ends)[:, arms[:, 0]]
    else:
        are_known = np.array([each.are_known for each in run.manifest.known_ends])
        guaranteed[:, ~are_known[attribute]] = np.nan
    total = noise.sum(axis=1)
    skew = [np.sqrt((each[arms] ** 2 * noise).sum(axis=1) / total) for each in factors]
    return np.stack(skew), guaranteed


def _given_up(run: RunReader, arms: IntArray, retired: NDArray[np.bool_]) -> list[str]:
    """Return why arms of each row are given up; with several raters each with its name."""
    space, found = run.space, [""] * len(arms)
    for row in np.flatnonzero(retired.any(axis=1)):
        gone = arms[row][retired[row]].tolist()
        named = space.judge_of if len(space.variants) == 1 else space.label
        whys = ((named(arm), run.fold.reasons.get(arm, "")) for arm in gone)
        found[row] = "; ".join(
            why if arms.shape[1] == 1 else f"{name}: {why}" for name, why in whys
        )
    return found


def interval_widths(scores: Scores, space: ArmSpace) -> FloatArray:
    """Return the width of each interval, as a share of its scale; inf without one. Shape (rows,)."""
    width = scores.numbers("ci_high") - scores.numbers("ci_low")
    return np.nan_to_num(width / space.units[scores.arm], nan=np.inf)


def rated_parts(run: RunReader) -> Iterator[tuple[IntArray, list[Part]]]:
    """Yield the rows of :func:`score` on each scale, rising, and each rater's part in their scores, in that order."""
    space, ends = run.space, dict(zip(run.manifest.scales, run.manifest.score_scales, strict=True))
    counted = (
        (ends[scale], arms, counts)
        for scale, arms, counts in counts_by_scale(space, run.arm, run.judgments)
    )
    return _parts(space, counted, space.by_rater(np.arange(len(space))))


def _parts(
    space: ArmSpace, counted: Iterable[Counted], arms_of_row: IntArray
) -> Iterator[tuple[IntArray, list[Part]]]:
    """Yield the same from counted ratings of ``arms_of_row``, shape (rows, raters)."""
    place, share = np.empty(len(space), dtype=np.int64), 1 / arms_of_row.shape[1]
    for scale, of_scale, counts in counted:
        if arms_of_row.size == len(space) == len(of_scale) and arms_of_row.shape[1] == 1:
            yield np.arange(len(space)), [Part(counts, scale.low, scale.high, share)]
            continue
        place[of_scale] = np.arange(len(of_scale))
        rows = np.flatnonzero(np.isin(arms_of_row[:, 0], of_scale, assume_unique=True))
        of_raters = place[arms_of_row[rows]].T
        yield rows, [Part(counts[each], scale.low, scale.high, share) for each in of_raters]


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names, equal ones with their place behind them: "a_b" and "c" make the same as "a" and "b_c"."""
    return [
        name if names.count(name) == 1 else f"{name}_{place}" for place, name in enumerate(names, 1)
    ]
