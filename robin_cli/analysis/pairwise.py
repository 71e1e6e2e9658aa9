"""Preferences: what a pairwise run says of each comparison, with how sure it is, of the systems, and of the order's effect.

The preference of a comparison is the mean over judges and both orders of the mean points of A, from 0 to 1: orders and judges
count alike however often each was asked, so that the order's effect is in none. Without a rating in both orders of every judge
there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.evidence import certified
from robin_cli.analysis.intervals import ALPHA, Part, log_sum_evidence, sum_intervals
from robin_cli.analysis.moderated import freedom_of_sum, likely_half_widths, moderated
from robin_cli.analysis.order_effect import OrderEffect, effects_of, order_effects
from robin_cli.analysis.pairwise_decisions import Best, run_best
from robin_cli.analysis.ranking import Ranking, ranking
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.bradley_terry import NotConnected
from robin_cli.model.errors import shown
from robin_cli.model.matches import MOST_SYSTEMS, Compared, Matches
from robin_cli.model.records import ORDERS, OTHER_COLUMN
from robin_cli.policies.registry import traits_of
from robin_cli.storage.fold import counts_by_scale
from robin_cli.storage.reader import RunData

Columns = Mapping[str, list[str] | FloatArray | IntArray | NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class PairwiseScores:
    """Rows in the order of the data: one a comparison, or one a comparison and judge.

    Attributes:
        columns: by name, of those of :data:`~robin_cli.results.columns.COMPARISONS`; ``preference`` is nan where there is
            none; ``ci_low``, ``ci_high`` hold with at least 1 − α, ``likely_low``, ``likely_high`` with about 1 − α on average.
        comparison: the comparison of each row, shape (rows,).
        retired: rows with an arm that was given up, shape (rows,).
    """

    columns: Columns
    comparison: IntArray
    retired: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.columns["pair_id"])


def pairwise_scores(run: RunData, *, alpha: float = ALPHA, error_rate: float | None = None) -> PairwiseScores:
    """The preference of each comparison of ``run`` as it stands, all judges together.

    Args:
        alpha: the intervals hold with 1 − alpha, each for itself.
        error_rate: of those that are certified this share is wrong at most, on average; None for the run's own.
    """
    return _scores(run, _by_order(run)[:, :, None, :], alpha, error_rate)


def judge_preferences(run: RunData, *, alpha: float = ALPHA) -> PairwiseScores:
    """The same of each judge by itself, judge by judge within a comparison; certified are all rows together."""
    return _scores(run, _by_order(run)[:, :, :, None], alpha, None)


def preferences_of(run: RunData) -> FloatArray:
    """The preference of each comparison alone, shape (C,); nan where there is none."""
    return np.asarray(order_means(run).mean(axis=(1, 2)))


def order_means(run: RunData) -> FloatArray:
    """Mean points of A from 0 to 1 by order and judge, shape (C, 2, J); nan without a rating."""
    low, high = run.space.ends
    arms = run.fold.arms
    return np.asarray(((mean(arms.counts, arms.totals) - low) / (high - low))[_by_order(run)])


def run_ranking(run: RunData, *, by_length: bool = False) -> Ranking:
    """The ranking of the systems of ``run``, of which there must be names.

    Args:
        by_length: takes out what goes by the lengths of the responses.

    Raises:
        NotConnected: no chain of comparisons that have a preference leads from some systems to others.
    """
    matches = matches_of_run(run)
    lengths = lengths_of(run) if by_length else None
    return ranking(
        preferences_of(run),
        matches.system,
        matches.prompt,
        len(matches.names),
        lengths=lengths,
        were_chosen=traits_of(str(run.manifest.settings["scheduler"])).chooses,
    )


def lengths_of(run: RunData) -> FloatArray:
    """Of responses A and B in characters, shape (C, 2)."""
    table = run.pairs.table
    lengths = [[len(text) for text in table[name].to_pylist()] for name in ("response", OTHER_COLUMN)]
    return np.array(lengths, dtype=np.float64).reshape(2, -1).T


def matches_of_run(run: RunData) -> Matches:
    """What the comparisons of a pairwise run are of."""
    if run.matches is None:
        raise ValueError(f"{run.path} is no pairwise run")
    return run.matches


def _by_order(run: RunData) -> IntArray:
    """The arms of each comparison by order and judge, shape (C, 2, J)."""
    space = run.space
    return space.by_rater(np.arange(len(space))).reshape(len(space.pair_ids), len(space.variants), -1)


def _scores(run: RunData, groups: IntArray, alpha: float, error_rate: float | None) -> PairwiseScores:
    """Rows of which each is of the arms ``groups``, shape (C, 2, rows of a comparison, judges of a row)."""
    space, arms, matches = run.space, run.fold.arms, matches_of_run(run)
    each = np.moveaxis(groups, 2, 1)
    count, rows_of_each = each.shape[:2]
    each = each.reshape(count * rows_of_each, len(ORDERS), -1)
    flat = each.reshape(len(each), -1)
    comparison = np.repeat(np.arange(count), rows_of_each)
    ((scale, _, counts),) = counts_by_scale(space, run.arm, run.judgments)
    width = scale.high - scale.low
    means = (mean(arms.counts, arms.totals)[each] - scale.low) / width
    preference = means.mean(axis=(1, 2))
    parts = [Part(counts[mine], 0.0, 1.0, 1.0 / flat.shape[1]) for mine in flat.T]
    low, high = sum_intervals(parts, alpha=alpha)
    found = moderated(space, arms.counts, arms.totals, arms.totals_sq)
    noise = found.error_variance[flat] / (width * flat.shape[1]) ** 2
    half = likely_half_widths(noise.sum(axis=1), freedom_of_sum(noise, found.freedom[flat]), alpha=alpha)
    rate = error_rate or run.manifest.settings.get("error_rate") or ALPHA
    retired = arms.retired_mask[flat]
    columns: dict[str, list[str] | FloatArray | IntArray | NDArray[np.bool_]] = {
        "pair_id": _named(space.pair_ids, comparison),
        "system_a": _system(matches, comparison, 0),
        "system_b": _system(matches, comparison, 1),
        "preference": preference,
        "n": arms.counts[flat].sum(axis=1),
        "n_ties": _ties(run)[flat].sum(axis=1),
        "ci_low": low,
        "ci_high": high,
        "likely_low": np.maximum(preference - half, 0.0),
        "likely_high": np.minimum(preference + half, 1.0),
        "order_effect": effects_of(means).mean(axis=1),
        "n_unparsed": arms.unparsed[flat].sum(axis=1),
        "certified": certified(_log_evidence(parts, preference, rate), rate),
        "given_up": _given_up(run, flat, retired),
    }
    if rows_of_each == len(space.judges) and each.shape[2] == 1:
        columns["judge"] = _named(space.judges, space.judge[flat[:, 0]])
    return PairwiseScores(columns, comparison, np.asarray(retired.any(axis=1)))


def _log_evidence(parts: Sequence[Part], preference: FloatArray, error_rate: float) -> FloatArray:
    """ln of the bets that the response of each row that leads is better; 0 or less where none leads."""
    for_b = (preference < 0.5)[:, None]
    of_leader = [Part(np.where(for_b, part.counts[:, ::-1], part.counts), 0.0, 1.0, part.weight) for part in parts]
    # Below 1/δ nothing can be certified, of however many rows.
    found = log_sum_evidence(of_leader, 0.5, enough=-np.log(error_rate))
    return np.where(np.isnan(preference) | (preference == 0.5), 0.0, found)


def _ties(run: RunData) -> IntArray:
    """How many ratings of each arm are of neither response, shape (K,); with log probabilities those that were written."""
    low, high = run.space.ends
    said = np.asarray(
        run.judgments["rating"].to_numpy(zero_copy_only=False), dtype=np.float64
    )  # nan where there is none
    return np.bincount(run.arm[said == (0.5 * (low + high))[run.arm]], minlength=len(run.space))


def _given_up(run: RunData, flat: IntArray, retired: NDArray[np.bool_]) -> list[str]:
    """Why arms of each row are asked no more, each with which it is."""
    found = [""] * len(flat)
    for row in np.flatnonzero(retired.any(axis=1)):
        arms = flat[row][retired[row]].tolist()
        found[row] = "; ".join(f"{run.space.label(arm)}: {run.fold.reasons.get(arm, '')}" for arm in arms)
    return found


def _system(matches: Matches, comparison: IntArray, side: int) -> list[str]:
    if not len(matches.names):
        return [""] * len(comparison)
    return _named(matches.names, matches.system[comparison, side])


def _named(names: Sequence[str], places: IntArray | NDArray[np.int32]) -> list[str]:
    listed: list[str] = np.array(names, dtype=object)[places].tolist()
    return listed


_NAMED = 3
"""Parts, and systems of each, that are named where there are many."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The systems of a pairwise run and what it says of them.

    Attributes:
        names: of the systems; none where the data does not say which system wrote what.
        n_votes: answers with a verdict in which each took part, shape (systems,).
        ranking: None where there is none, and ``why``.
        parts: names of systems, a part each that no comparison with a preference connects with the others; empty where all
            are connected.
        why: there is no ranking; '' where there is one.
        step: what would make one; '' where there is one.
    """

    names: Sequence[str]
    n_votes: IntArray
    ranking: Ranking | None = None
    parts: Sequence[Sequence[str]] = ()
    why: str = ""
    step: str = ""

    @property
    def order(self) -> list[int]:
        """The systems by number, the best first, equal ones in the order of the data; none without a ranking."""
        return [] if self.ranking is None else np.argsort(-self.ranking.strength, kind="stable").tolist()


@dataclass(frozen=True, slots=True)
class PairwiseResults:
    """What a pairwise run says.

    Attributes:
        scores: of each comparison.
        matches: what the comparisons are of.
        compared: how many comparisons were asked.
        order_effects: of each judge, in the order of the run's judges.
        ranked: the systems.
        best: the best response to each prompt, where the run looks for it; else None.
    """

    scores: PairwiseScores
    matches: Matches
    compared: Compared
    order_effects: Sequence[OrderEffect]
    ranked: Ranked
    best: Best | None = None


def pairwise_results(run: RunData) -> PairwiseResults:
    """All results of the pairwise run ``run`` as it stands; intervals hold with 95 %, each for itself."""
    matches = matches_of_run(run)
    return PairwiseResults(
        pairwise_scores(run),
        matches,
        matches.compared(run.fold.arms),
        order_effects(order_means(run), matches.prompt),
        ranked_systems(run),
        run_best(run) if matches.wants_best else None,
    )


def ranked_systems(run: RunData, *, by_length: bool = False) -> Ranked:
    """Rank the systems of the pairwise run ``run``, or say why that cannot be.

    Args:
        by_length: take out of strengths and win rates what preferences go by length.
    """
    matches = matches_of_run(run)
    names, between = matches.names, matches.system[:, 0] != matches.system[:, 1]
    answers = run.space.by_pair(run.fold.arms.counts).sum(axis=1)[between]
    votes = np.bincount(matches.system[between].ravel(), np.repeat(answers, 2), len(names)).astype(np.int64)
    if not names:
        lacks = "the data does not say which system wrote what"
        return Ranked(names, votes[:0], why=lacks, step="judge data with columns system_a and system_b")
    if not between.any():
        alone = f"all responses are of one system, {shown(names[0])}"
        return Ranked(names, votes, why=alone, step="judge responses of another beside them")
    if len(names) > MOST_SYSTEMS:
        many = f"{len(names):,} systems are too many, {MOST_SYSTEMS:,} are the most"
        return Ranked(names, votes, why=many, step="judge fewer of them in one run")
    try:
        return Ranked(names, votes, run_ranking(run, by_length=by_length))
    except NotConnected as apart:
        parts = [[names[each] for each in part] for part in apart.parts]
        why = f"no chain of comparisons with a preference connects {_in_words(parts)}"
        if all(len(part) == 1 for part in parts):
            why = "no comparison of two systems has a preference: a verdict of every judge in both orders"
        return Ranked(names, votes, parts=parts, why=why, step="more calls ask more comparisons")


def _in_words(parts: Sequence[Sequence[str]]) -> str:
    """The parts of the systems: "a, b | c, d and 5 more | e"."""
    told = []
    for part in parts[:_NAMED]:
        more = f" and {len(part) - _NAMED:,} more" if len(part) > _NAMED else ""
        told.append(", ".join(shown(name) for name in part[:_NAMED]) + more)
    further = [f"{len(parts) - _NAMED:,} parts more"] if len(parts) > _NAMED else []
    return " | ".join([*told, *further])
