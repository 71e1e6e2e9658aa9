"""Decisions that people would agree with, as many as some labels can promise.

The decisions are ordered by how likely they are wrong. Five exact binomial tests, each at a fifth of 1 − C (Bonferroni), ask of
the labelled ones among the surest 20, 40, 60, 80 and 100 % whether people disagree with more than 1 − P; the largest part that
passes is agreed. So one disagreement among the surest does not end it. The parts depend on the order, and on which decisions
are labelled; on the labels' values only as far as those of one prompt are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.stats.judge_quality import chance_of_so_few, design_effect
from robin_cli.stats.stances import Stances

CONFIDENCE = 0.9
"""The default confidence of the promise."""

FEWEST = 25
"""Labelled decisions that a promise needs."""

_PARTS = 5
"""Tests: of the surest fifth of the decisions, of two fifths, and so on to all."""

_MOST_LABELS = 100_000


@dataclass(frozen=True, slots=True)
class Agreed:
    """The decisions that people agree with.

    Attributes:
        agreed: whether each decision is one of them, shape (decisions,).
        labelled, disagreed: decisions with a label, and those among the agreed ones that people decide otherwise.
        why: the reason that nothing is promised; "" with a promise.
    """

    promise: float
    confidence: float
    agreed: NDArray[np.bool_]
    labelled: int
    disagreed: int
    why: str = ""


def agreed(stances: Stances, promise: float, confidence: float = CONFIDENCE) -> Agreed:
    """Return the decisions that people agree with, at least a share ``promise`` of them with probability ``confidence``.

    Both are in (0, 1), ends left out.
    """
    known, most = stances.labelled, 1.0 - promise
    found, labelled = np.zeros(len(known), dtype=np.bool_), int(known.sum())

    def none(why: str) -> Agreed:
        return Agreed(promise, confidence, found, labelled, 0, why)

    if labelled < FEWEST:
        return none(f"{number_of(labelled, 'decision')} with a label, {FEWEST} are needed")
    order = np.argsort(stances.likely_wrong, kind="stable")  # nan comes last
    order = order[: len(known) - int(np.isnan(stances.likely_wrong).sum())]
    effect = design_effect(stances.agrees[known] > 0.5, np.ones(labelled), stances.prompt[known])
    against = np.where(known, 1.0 - np.nan_to_num(stances.agrees, nan=1.0), 0.0)
    ends = np.ceil(len(order) * np.arange(1, _PARTS + 1) / _PARTS).astype(np.int64)
    count, wrong = (each[order].cumsum()[ends - 1] for each in (known, against))
    n, share = count / effect, np.divide(wrong, count, out=np.zeros(_PARTS), where=count > 0)
    level = (1.0 - confidence) / _PARTS
    passed = np.flatnonzero(chance_of_so_few(share * n, n, most) <= level)
    if not len(passed):
        return none(_too_few(n, share, most, level, labelled, len(known)))
    found[order[: ends[passed[-1]]]] = True
    return Agreed(promise, confidence, found, labelled, round(float(against[found & known].sum())))


def _too_few(
    n: FloatArray, share: FloatArray, most: float, level: float, labelled: int, decisions: int
) -> str:
    """Say how many more labels a promise might take, if people go on to disagree as often as in the labels so far."""
    times = np.geomspace(1.0, _MOST_LABELS / labelled, 2_000)
    then = np.outer(times, n)
    enough = np.flatnonzero((chance_of_so_few(then * share, then, most) <= level).any(axis=1))
    if not len(enough):
        return "people disagree too often even with the surest; ask for less, or take a better judge or rubric"
    more = math.ceil((times[enough[0]] - 1.0) * labelled)
    few = f"{number_of(labelled, 'label')} cannot carry the promise; about {more:,} more might"
    if labelled + more <= decisions:
        return few
    return f"{few}, more than there are decisions: ask for less, or judge more prompts"
