"""Preferences: scores of the comparisons of a pairwise run, the ranking of systems, and the order effect.

The preference of a comparison is its score: the mean over both orders and all judges of the points of A, as a share of the
scale, 0 to 1. Orders and judges have equal weight however often each was asked, so the order effect cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.data.groups import MOST_SYSTEMS
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.errors import shown
from robin_cli.policies.bradley_terry import NotConnected
from robin_cli.policies.circles import Circle, circle
from robin_cli.policies.registry import DEFAULT
from robin_cli.run.reader import RunReader
from robin_cli.stats.intervals import ALPHA
from robin_cli.stats.ranking import Ranking, effects_of, ranking
from robin_cli.stats.scores import Columns, Scores, score, texts_at


def pairwise_scores(run: RunReader, *, by_judge: bool = False, alpha: float = ALPHA) -> Scores:
    """Return the preference of each comparison of ``run`` as it stands: its score, and the columns of comparisons.

    ``by_judge``, ``alpha``: as for :func:`~robin_cli.stats.scores.score`.
    """
    scores, matches = score(run, by_judge=by_judge, alpha=alpha), run.matches
    comparison, effects = run.space.pair[scores.arm], effects_of(order_means(run))
    preference = scores.numbers("score")
    sides: list[Sequence[str]] = [[""] * len(scores)] * 2
    if matches.names:
        sides = [texts_at(matches.names, system) for system in matches.system[comparison].T]
    columns: Columns = {
        **scores.columns,
        "preference": preference,
        "system_a": sides[0],
        "system_b": sides[1],
        "n_ties": _ties(run)[scores.arms].sum(axis=1),
        "order_effect": effects.ravel() if by_judge else effects.mean(axis=1),
    }
    return replace(scores, columns=columns)


def preferences_of(run: RunReader) -> FloatArray:
    """Return the preference of each comparison alone, shape (C,); nan for none."""
    return np.asarray(order_means(run).mean(axis=(1, 2)))


def order_means(run: RunReader) -> FloatArray:
    """Return the mean points of A, 0 to 1, by order and judge, shape (C, 2, J); nan without a rating."""
    space, arms, scale = run.space, run.fold.arms, run.space.scales[0]
    return space.by_variant((mean(arms.n, arms.total) - scale.low) / (scale.high - scale.low))


def _ties(run: RunReader) -> IntArray:
    """Return the number of ties of each arm, shape (K,); with log probabilities those in the texts."""
    low, high = run.space.ends
    # nan without a rating
    ratings = np.asarray(run.judgments["rating"].to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.bincount(run.arm[ratings == (0.5 * (low + high))[run.arm]], minlength=len(run.space))


_NAMED = 3
"""The most parts, and systems of each, that are named."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The systems of a pairwise run, with their ranking or the reason that there is none.

    Attributes:
        names: of the systems; empty if the data does not name them.
        n_votes: answers with a verdict in which each took part, shape (systems,).
        parts: names of the systems of each part that no comparison with a preference connects with the others; empty if all
            are connected.
        why, step: the reason that there is no ranking, and the next step toward it; '' with one.
        circle: systems that no ranking can order; None without any, or without a ranking.
        were_chosen: whether earlier verdicts chose what was compared.
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
        """The systems by number, the best first, equal ones in the order of the data; empty without a ranking."""
        strength = np.empty(0) if self.ranking is None else self.ranking.strength
        order: list[int] = np.argsort(-strength, kind="stable").tolist()
        return order

    @property
    def circle_text(self) -> str:
        if self.circle is None:
            return ""
        names = [shown(self.names[system]) for system in self.circle.systems]
        behind = zip(names, [*names[1:], *names[:1]], self.circle.rates, strict=True)
        beats = ", ".join(
            f"{name} is preferred to {other} in {100 * rate:.0f} %" for name, other, rate in behind
        )
        what = f"in a circle: {beats}"
        if not names:
            what = "the systems' strengths do not explain the preferences between them"
        evenly = "; every two systems are asked equally often as long as this shows"
        evenly = evenly if self.were_chosen else ""
        return f"{what}. No ranking is right about all pairs of systems, and strengths depend on which were asked{evenly}"


def ranked_systems(run: RunReader) -> Ranked:
    """Rank the systems of the pairwise run ``run``, or return the reason that there is no ranking."""
    matches = run.matches
    names, between = matches.names, matches.system[:, 0] != matches.system[:, 1]
    answers = run.space.by_pair(run.fold.arms.n).sum(axis=1)[between]
    taking_part = matches.system[between].ravel()
    votes = np.bincount(taking_part, np.repeat(answers, 2), len(names)).astype(np.int64)
    why = step = ""
    if not names:
        why, votes = "the data does not say which system wrote what", votes[:0]
        step = "judge data with columns system_a and system_b"
    elif not between.any():
        why = f"all responses are of one system, {shown(names[0])}"
        step = "judge responses of another beside them"
    elif len(names) > MOST_SYSTEMS:
        why = f"{len(names):,} systems are too many, {MOST_SYSTEMS:,} are the most"
        step = "judge fewer of them in one run"
    if why:
        return Ranked(names, votes, why=why, step=step)
    # earlier verdicts chose what was compared: errors of a ranking are then larger than they look
    were_chosen = run.manifest.settings["scheduler"] == DEFAULT and matches.ranks_systems
    known = preferences_of(run), matches.system
    try:
        found = ranking(*known, matches.prompt, len(names), were_chosen=were_chosen)
    except NotConnected as apart:
        parts = [[names[each] for each in part] for part in apart.parts]
        why = f"no chain of comparisons with a preference connects {_in_words(parts)}"
        if all(len(part) == 1 for part in parts):
            why = "no comparison of two systems has a preference: a verdict of every judge in both orders"
        return Ranked(names, votes, parts=parts, why=why, step="more calls ask more comparisons")
    no_strengths = circle(*known, len(names))
    return Ranked(names, votes, found, circle=no_strengths, were_chosen=were_chosen)


def _in_words(parts: Sequence[Sequence[str]]) -> str:
    """Return the parts of the systems in words: "a, b | c, d and 5 more | e"."""
    listed = []
    for part in parts[:_NAMED]:
        more = f" and {len(part) - _NAMED:,} more" if len(part) > _NAMED else ""
        listed.append(", ".join(shown(name) for name in part[:_NAMED]) + more)
    further = [f"{len(parts) - _NAMED:,} parts more"] if len(parts) > _NAMED else []
    return " | ".join([*listed, *further])
