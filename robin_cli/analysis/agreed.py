"""Decisions that people would agree with, as many as some labels can promise.

The decisions are ordered, the surest first. The labelled ones among the m surest show how often people disagree with these. The
exact binomial tail tests whether they disagree with more than 1 − P, for few decisions first, then for more. The first test
that fails ends it. So the ones before hold with confidence C, and many tests need no correction (fixed-sequence testing, as in
Jung, Brahman and Choi, "Trust or Escalate", arXiv:2407.18370). The steps depend on the order, and on which decisions are
labelled; on the labels' values only as far as those of one prompt are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.proportions import chance_of_so_few, design_effect
from robin_cli.analysis.stances import Stances
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of

CONFIDENCE = 0.9
"""The default confidence of the promise."""

FEWEST = 25
"""Labelled decisions that a promise needs."""

_STEPS = 50
"""The most tests: each takes a fiftieth of the decisions more."""

_MOST_LABELS = 100_000


@dataclass(frozen=True, slots=True)
class Agreed:
    """The decisions that people agree with.

    Attributes:
        promise: P, the least share of the agreed decisions that people agree with.
        confidence: C, with which that holds.
        agreed: whether each decision is one of them, shape (decisions,).
        labelled: decisions with a label.
        disagreed: labelled decisions among them that people decide otherwise.
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

    Args:
        promise: in (0, 1), ends left out.
        confidence: likewise.
    """
    known, most = stances.labelled, 1.0 - promise
    found, labelled = np.zeros(len(known), dtype=np.bool_), int(known.sum())

    def none(why: str) -> Agreed:
        return Agreed(promise, confidence, found, labelled, 0, why)

    if labelled < FEWEST:
        return none(f"{number_of(labelled, 'decision')} with a label, {FEWEST} are needed")
    order = np.argsort(stances.doubt, kind="stable")  # nan comes last
    order = order[: len(known) - int(np.isnan(stances.doubt).sum())]
    effect = design_effect(stances.agrees[known] > 0.5, np.ones(labelled), stances.prompt[known])
    against = np.where(known, 1.0 - np.nan_to_num(stances.agrees, nan=1.0), 0.0)
    steps = np.unique(np.ceil(len(order) * np.arange(1, _STEPS + 1) / _STEPS).astype(np.int64))
    count, wrong = (each[order].cumsum()[steps - 1] for each in (known, against))
    n, share = count / effect, np.divide(wrong, count, out=np.zeros(len(steps)), where=count > 0)
    can_pass = chance_of_so_few(np.zeros(len(steps)), n, most) <= 1.0 - confidence
    passes = chance_of_so_few(share * n, n, most) <= 1.0 - confidence
    failed = np.flatnonzero(can_pass & ~passes)
    passed = np.flatnonzero(can_pass[: failed[0] if len(failed) else None])
    if not len(passed):
        return none(_too_few(n, share, most, confidence, labelled, len(known)))
    found[order[: steps[passed[-1]]]] = True
    return Agreed(promise, confidence, found, labelled, round(float(against[found & known].sum())))


def _too_few(
    n: FloatArray, share: FloatArray, most: float, confidence: float, labelled: int, decisions: int
) -> str:
    """Say how many labels a promise might take: at the rates so far, with one more disagreement at each step."""
    times = np.geomspace(1.1, _MOST_LABELS / labelled, 200)
    one_more = np.minimum((share * n + 1.0) / (n + 1.0), 1.0)
    then = np.outer(times, n)
    enough = np.flatnonzero(
        (chance_of_so_few(then * one_more, then, most) <= 1.0 - confidence).any(axis=1)
    )
    if not len(enough):
        return "people disagree too often even with the surest; ask for less, or take a better judge or rubric"
    takes = math.ceil(times[enough[0]] * labelled)
    said = f"{number_of(labelled, 'label')} cannot carry the promise; about {takes:,} might"
    return (
        said
        if takes <= decisions
        else f"{said}, more than there are decisions: ask for less, or judge more prompts"
    )
