"""All results of a pairwise run: its comparisons, the order's effect on each judge, and the ranking of its systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.order_effect import OrderEffect
from robin_cli.analysis.pairwise import PairwiseScores, matches_of_run, pairwise_scores, run_order_effects, run_ranking
from robin_cli.analysis.pairwise_decisions import Best, run_best
from robin_cli.analysis.ranking import Ranking
from robin_cli.model.arms import IntArray
from robin_cli.model.bradley_terry import NotConnected
from robin_cli.model.errors import shown
from robin_cli.model.matches import MOST_SYSTEMS, Compared, Matches
from robin_cli.storage.reader import RunData

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


def pairwise_results(run: RunData, *, by_length: bool = False, alpha: float = ALPHA) -> PairwiseResults:
    """All results of the pairwise run ``run`` as it stands.

    Args:
        by_length: take out of strengths and win rates what preferences go by length.
        alpha: intervals hold with 1 − alpha, each for itself.
    """
    matches = matches_of_run(run)
    return PairwiseResults(
        pairwise_scores(run, alpha=alpha),
        matches,
        matches.compared(run.fold.arms),
        run_order_effects(run, alpha=alpha),
        ranked_systems(run, by_length=by_length, alpha=alpha),
        run_best(run) if matches.wants_best else None,
    )


def ranked_systems(run: RunData, *, by_length: bool = False, alpha: float = ALPHA) -> Ranked:
    """Rank the systems of the pairwise run ``run``, or say why that cannot be.

    Args:
        by_length, alpha: as for :func:`pairwise_results`.
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
        return Ranked(names, votes, run_ranking(run, by_length=by_length, alpha=alpha))
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
