"""Scores: what a run says of each pair, with how sure it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.allocation.arms import FloatArray, IntArray, mean, sample_variance
from robin_cli.errors import InputError
from robin_cli.runs.fold import counts_by_scale, retirement_reasons
from robin_cli.runs.reading import RunData
from robin_cli.statistics.agreement import Agreement, agreement, off_scale, refused
from robin_cli.statistics.intervals import ALPHA, largest_reach, mean_intervals
from robin_cli.statistics.panel import panel_score

COLUMNS = (
    "pair_id",
    "attribute",
    "score",
    "n",
    "variance",
    "std_error",
    "ci_low",
    "ci_high",
    "n_unparsed",
    "human",
    "given_up",
)
PANEL_COLUMNS = (*COLUMNS, "judges", "judge_spread")
JUDGE_COLUMNS = ("pair_id", "attribute", "judge", *COLUMNS[2:])

Columns = Mapping[str, list[str] | FloatArray | IntArray]


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows pair by pair, in the order of the data: one an attribute, or one an attribute and judge.

    Attributes:
        columns: by name, those of COLUMNS (PANEL_COLUMNS for several judges together, JUDGE_COLUMNS for each by itself);
            ``score``, ``variance``, ``std_error``, ``judge_spread`` and ``human`` are nan where there is none: too few
            ratings, no human rating in the data. ``given_up``: why an arm is asked no more (``context_length``, ``truncated``,
            …), '' for those that are.
        facets: what the rows of one pair are, in words.
        retired: rows with an arm that was given up, shape (rows,).
        error_bound: with probability at least 1 − ALPHA no score of any judge is further than this from the judge's mean
            rating, all scores at once, at whatever time one looks; in points of the scale, or shares of it where there are
            several. What was given up without a rating has no score. It is never estimated from a spread that a few equal
            ratings make look small.
        between: variance between the judges beyond noise, shape (rows,), see :mod:`robin_cli.statistics.panel`, in the same
            unit, squared; None for one judge.
    """

    columns: Columns
    facets: Sequence[str]
    retired: NDArray[np.bool_]
    error_bound: float
    between: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.columns["pair_id"])

    def pair(self, row: int) -> int:
        """Position in the data of the row's pair."""
        return row // len(self.facets)


def score(run: RunData, *, alpha: float = ALPHA) -> Scores:
    """The scores of ``run`` as it stands, a row a pair and attribute; several judges count alike, however often each was asked.

    Args:
        alpha: the intervals hold with at least 1 − alpha, each for itself.
    """
    judges = len(run.index.judges)
    each = judge_scores(run, alpha=alpha / judges)
    if judges == 1:
        return replace(each, columns={name: each.columns[name] for name in COLUMNS}, facets=run.index.attributes)
    rows = len(each) // judges
    means, variance, n, low, high, unparsed = (
        np.asarray(each.columns[name]).reshape(rows, judges)
        for name in ("score", "variance", "n", "ci_low", "ci_high", "n_unparsed")
    )
    panel = panel_score(means, variance, n)
    reasons = np.array(each.columns["given_up"], dtype=object).reshape(rows, judges)
    columns: Columns = {
        **{name: each.columns[name][::judges] for name in ("pair_id", "attribute")},
        "score": panel.score,
        "n": n.sum(axis=1),
        "variance": panel.variance,
        "std_error": panel.std_error,
        # Each judge's interval holds with 1 − α/J, so all J do with 1 − α, and the mean lies between the means of their ends.
        "ci_low": low.mean(axis=1),
        "ci_high": high.mean(axis=1),
        "n_unparsed": unparsed.sum(axis=1),
        "human": each.columns["human"][::judges],
        "given_up": [
            "; ".join(f"{judge}: {why}" for judge, why in zip(run.index.judges, row, strict=True) if why)
            for row in reasons
        ],
        "judges": (n > 0).sum(axis=1),
        "judge_spread": np.sqrt(np.maximum(panel.between, 0.0)),
    }
    retired = np.asarray(each.retired.reshape(rows, judges).any(axis=1))
    between = panel.between / run.index.units[::judges] ** 2
    return Scores(columns, run.index.attributes, retired, each.error_bound, between)


def judge_scores(run: RunData, *, alpha: float = ALPHA) -> Scores:
    """The scores of ``run``, a row a pair, attribute and judge.

    Args:
        alpha: as for :func:`score`.
    """
    index = run.index
    arm = index.arms_of(run.judgments)
    arms = run.fold()
    is_score = (arms.counts > 0) | ~arms.retired_mask  # an arm that was given up unrated has none to be off
    is_score |= not is_score.any()  # then nothing is known
    low, high, bound = np.empty(len(index)), np.empty(len(index)), 0.0
    for scale, mine, counts in counts_by_scale(index, arm, run.judgments):
        low[mine], high[mine] = mean_intervals(counts, scale.low, scale.high, alpha=alpha)
        # Of all arms at once: each scale's share of them has that share of what may fail.
        there = is_score[mine]
        if there.any():
            reach = largest_reach(counts[there], scale.low, scale.high, alpha=ALPHA * there.sum() / is_score.sum())
            bound = max(bound, float(reach / index.units[mine[0]]))
    reasons = retirement_reasons(arm, run.judgments, arms)
    n = arms.counts.copy()
    means = mean(n, arms.totals)
    variance = sample_variance(n, arms.totals, arms.totals_sq)
    with np.errstate(invalid="ignore", divide="ignore"):
        std_error = np.sqrt(variance / n)
    every = range(len(index))
    pairs = [run.pairs[index.pair(each)] for each in every]
    attributes = [index.attribute(each) for each in every]
    human = np.array(
        [pair.human.get(name, np.nan) for pair, name in zip(pairs, attributes, strict=True)], dtype=np.float64
    )
    columns: Columns = {
        "pair_id": [pair.pair_id for pair in pairs],
        "attribute": attributes,
        "judge": [index.judges[index.judge(each)] for each in every],
        "score": means,
        "n": n,
        "variance": variance,
        "std_error": std_error,
        "ci_low": low,
        "ci_high": high,
        "n_unparsed": arms.unparsed.copy(),
        "human": human,
        "given_up": [reasons.get(each, "") for each in every],
    }
    facets = _told_apart([f"{attribute}_{judge}" for attribute in index.attributes for judge in index.judges])
    return Scores(columns, facets, arms.retired_mask, bound)


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, those that are equal with their place behind them: "a_b" and "c" make the same as "a" and "b_c"."""
    return [name if names.count(name) == 1 else f"{name}_{place}" for place, name in enumerate(names, 1)]


def all_agreements(run: RunData) -> dict[str, list[Agreement]]:
    """Correlations of the run's scores with the human ratings, by attribute; of a panel also those of each judge."""
    panel = agreements(score(run), run)
    return panel if len(run.index.judges) == 1 else panel | agreements(judge_scores(run), run)


def agreements(scores: Scores, run: RunData) -> dict[str, list[Agreement]]:
    """Correlations of the scores with the human ratings, by attribute (and judge); only where there are human ratings."""
    named = [np.array(scores.columns[name]) for name in ("attribute", "judge") if name in scores.columns]
    means, human = (np.asarray(scores.columns[name], dtype=np.float64) for name in ("score", "human"))
    scale_of = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))
    found = {}
    for key in dict.fromkeys(zip(*(each.tolist() for each in named), strict=True)):
        mine = np.all([each == name for each, name in zip(named, key, strict=True)], axis=0)
        if np.isnan(human[mine]).all():
            continue
        if why := off_scale(human[mine], scale_of[key[0]]):
            both = ~(np.isnan(human[mine]) | np.isnan(means[mine]))
            found[" · ".join(key)] = refused(why, int(both.sum()))
        else:
            found[" · ".join(key)] = agreement(means[mine], human[mine])
    return found


def check_comparable(found: Mapping[str, Sequence[Agreement]], run: RunData, notify: Callable[[str], None]) -> None:
    """Say of what there is no correlation, and why.

    Raises:
        InputError: there is none of anything, for want of human ratings or because all are off the scale.
    """
    named = ",".join(f"{attribute}=NAME" for attribute in run.manifest.attributes)
    if not found:
        raise InputError(
            f"{run.path}: its data has no human ratings of {', '.join(run.manifest.attributes)}, so there is no agreement to "
            f"tell; judge data that has them, in a field of that name or with --columns {shlex.quote(named)}"
        )
    refused_of = {name: listed[0].why for name, listed in found.items() if np.isnan(listed[0].value)}
    if len(refused_of) == len(found) and all("off the scale" in why for why in refused_of.values()):
        each = "; ".join(f"{name}: {why}" for name, why in refused_of.items())
        raise InputError(
            f"{run.path}: {each}. Judge with the field that holds them on that scale, --columns {shlex.quote(named)}, or with "
            "a rubric of theirs"
        )
    for name, why in refused_of.items():
        notify(f"{name}: no agreement is told: {why}")
