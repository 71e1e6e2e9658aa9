"""Preferences: what a pairwise run says of each comparison, with how sure it is, of the systems, and of the order's effect.

The preference of a comparison is its score, the mean over both orders and all judges of the points of A, as a share of the
scale: from 0 to 1. Orders and judges count alike however often each was asked, so that the order's effect is in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.analysis.evidence import certified
from robin_cli.analysis.intervals import ALPHA, log_sum_evidence
from robin_cli.analysis.order_effect import effects_of
from robin_cli.analysis.ranking import Ranking, ranking
from robin_cli.analysis.scores import Columns, Scores, rated_parts, told_scores
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.bradley_terry import NotConnected
from robin_cli.model.circles import Circle, circle
from robin_cli.model.errors import shown
from robin_cli.model.matches import MOST_SYSTEMS
from robin_cli.model.records import OTHER_COLUMN
from robin_cli.policies.registry import traits_of
from robin_cli.storage.named import Named
from robin_cli.storage.reader import RunData


def pairwise_scores(
    run: RunData, *, by_judge: bool = False, alpha: float = ALPHA, error_rate: float | None = None
) -> Scores:
    """The preference of each comparison of ``run`` as it stands: its score, and what only comparisons have.

    Args:
        by_judge, alpha: as for :func:`~robin_cli.analysis.scores.score`.
        error_rate: of those that are certified this share is wrong at most, on average; None for the run's own.
    """
    scores, matches = told_scores(run, by_judge=by_judge, alpha=alpha), run.matches
    rate = error_rate or run.manifest.error_rate
    comparison, effects = run.space.pair[scores.arm], effects_of(order_means(run))
    preference = scores.numbers("score")
    columns: Columns = {
        **scores.columns,
        "preference": preference,
        "system_a": Named(matches.names, matches.system[comparison, 0]) if matches.names else [""] * len(scores),
        "system_b": Named(matches.names, matches.system[comparison, 1]) if matches.names else [""] * len(scores),
        "n_ties": _ties(run)[scores.arms].sum(axis=1),
        "order_effect": effects.ravel() if by_judge else effects.mean(axis=1),
        "certified": certified(_log_evidence(run, scores.arms, preference, rate), rate),
    }
    return replace(scores, columns=columns)


def preferences_of(run: RunData) -> FloatArray:
    """The preference of each comparison alone, shape (C,); nan where there is none."""
    return np.asarray(order_means(run).mean(axis=(1, 2)))


def order_means(run: RunData) -> FloatArray:
    """Mean points of A from 0 to 1 by order and judge, shape (C, 2, J); nan without a rating."""
    space, arms, scale = run.space, run.fold.arms, run.space.scales[0]
    return space.by_variant((mean(arms.counts, arms.totals) - scale.low) / (scale.high - scale.low))


def run_ranking(run: RunData, *, by_length: bool = False) -> Ranking:
    """The ranking of the systems of ``run``, of which there must be names.

    Args:
        by_length: takes out what goes by the lengths of the responses.

    Raises:
        NotConnected: no chain of comparisons that have a preference leads from some systems to others.
    """
    matches = run.matches
    lengths = lengths_of(run) if by_length else None
    return ranking(
        preferences_of(run),
        matches.system,
        matches.prompt,
        len(matches.names),
        lengths=lengths,
        were_chosen=_were_chosen(run),
    )


def _were_chosen(run: RunData) -> bool:
    return traits_of(str(run.manifest.settings["scheduler"])).chooses


def lengths_of(run: RunData) -> FloatArray:
    """Of responses A and B in characters, shape (C, 2)."""
    table = run.pairs.table
    lengths = [[len(text) for text in table[name].to_pylist()] for name in ("response", OTHER_COLUMN)]
    return np.array(lengths, dtype=np.float64).reshape(2, -1).T


def _log_evidence(run: RunData, arms: IntArray, preference: FloatArray, error_rate: float) -> FloatArray:
    """ln of the bets that the response of each row that leads is better; 0 or less where none leads."""
    scale, for_b = run.space.scales[0], (preference < 0.5)[:, None]
    ((_, parts),) = rated_parts(run, arms)
    of_leader = [replace(part, counts=np.where(for_b, part.counts[:, ::-1], part.counts)) for part in parts]
    # Below 1/δ nothing can be certified, of however many rows.
    found = log_sum_evidence(of_leader, 0.5 * (scale.low + scale.high), enough=-np.log(error_rate))
    return np.where(np.isnan(preference) | (preference == 0.5), 0.0, found)


def _ties(run: RunData) -> IntArray:
    """How many ratings of each arm are of neither response, shape (K,); with log probabilities those that were written."""
    low, high = run.space.ends
    said = np.asarray(
        run.judgments["rating"].to_numpy(zero_copy_only=False), dtype=np.float64
    )  # nan where there is none
    return np.bincount(run.arm[said == (0.5 * (low + high))[run.arm]], minlength=len(run.space))


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
        circle: systems that no ranking is right about; None where there are none, or no ranking.
        were_chosen: what was compared was chosen by earlier verdicts.
    """

    names: Sequence[str]
    n_votes: IntArray
    ranking: Ranking | None = None
    parts: Sequence[Sequence[str]] = ()
    why: str = ""
    step: str = ""
    circle: Circle | None = None
    were_chosen: bool = False

    @property
    def order(self) -> list[int]:
        """The systems by number, the best first, equal ones in the order of the data; none without a ranking."""
        return [] if self.ranking is None else np.argsort(-self.ranking.strength, kind="stable").tolist()

    @property
    def circle_text(self) -> str:
        """The systems that go in a circle in words; '' where none do."""
        if self.circle is None:
            return ""
        names = [shown(self.names[system]) for system in self.circle.systems]
        behind = zip(names, [*names[1:], *names[:1]], self.circle.rates, strict=True)
        beats = ", ".join(f"{name} is preferred to {other} in {100 * rate:.0f} %" for name, other, rate in behind)
        what = f"in a circle: {beats}" if names else "the systems' strengths do not explain who is preferred to whom"
        evenly = "; every two systems are asked equally often as long as this shows" if self.were_chosen else ""
        return f"{what}. No ranking is right about all couples, and strengths depend on which were asked{evenly}"


def ranked_systems(run: RunData, *, by_length: bool = False) -> Ranked:
    """Rank the systems of the pairwise run ``run``, or say why that cannot be.

    Args:
        by_length: take out of strengths and win rates what preferences go by length.
    """
    matches = run.matches
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
        found = run_ranking(run, by_length=by_length)
    except NotConnected as apart:
        parts = [[names[each] for each in part] for part in apart.parts]
        why = f"no chain of comparisons with a preference connects {_in_words(parts)}"
        if all(len(part) == 1 for part in parts):
            why = "no comparison of two systems has a preference: a verdict of every judge in both orders"
        return Ranked(names, votes, parts=parts, why=why, step="more calls ask more comparisons")
    no_strengths = circle(preferences_of(run), matches.system, len(names))
    return Ranked(names, votes, found, circle=no_strengths, were_chosen=_were_chosen(run))


def _in_words(parts: Sequence[Sequence[str]]) -> str:
    """The parts of the systems: "a, b | c, d and 5 more | e"."""
    told = []
    for part in parts[:_NAMED]:
        more = f" and {len(part) - _NAMED:,} more" if len(part) > _NAMED else ""
        told.append(", ".join(shown(name) for name in part[:_NAMED]) + more)
    further = [f"{len(parts) - _NAMED:,} parts more"] if len(parts) > _NAMED else []
    return " | ".join([*told, *further])
