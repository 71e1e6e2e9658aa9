"""People's labels of the pairs of a run: those that correct its means, and those wanted next.

A hash of its texts gives every pair a number u, as if drawn evenly from 0 to 1: the same at every draw, and for every run on
the same data. People label the pairs with u up to some bound, so each pair has the same probability. To label more raises the
bound, and earlier labels stay a part of one sample (permanent random numbers: Ohlsson, "Coordination of samples using permanent
random numbers", 1995). So probabilities never depend on the judge's ratings; some that grow with their variance (Zrnic and
Candès, "Active statistical inference", arXiv:2403.03208) were measured, and rejected: benchmarks/labels.py.

For a mean u = (k + U)/m: U of the prompt, m its responses, k this one's place among them in an order of their own, from 0. So
no prompt has a second pair labelled before every other has its first, as responses to one prompt are alike and add less
together. For a difference of systems u = U: all responses to a prompt are labelled together, as their difference leaves out
what they share.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.run.reader import RunReader, StoredRun
from robin_cli.stats.agreement import off_scale


def evenly(texts: Iterable[str]) -> FloatArray:
    """Return a number for each text as if drawn evenly from [0, 1): always the same, and independent of other texts."""
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts)
    return np.asarray(
        (np.frombuffer(digests, dtype=">u8") >> np.uint64(11)) * 2.0**-53, dtype=np.float64
    )


def drawing_order(
    prompt: IntArray, of_prompt: FloatArray, of_pair: FloatArray, *, whole: bool
) -> IntArray:
    """Return the pairs in order of u.

    Args:
        prompt: number of each pair's prompt, 0 to prompts − 1, shape (K,).
        of_prompt: U of each prompt, shape (prompts,).
        of_pair: a number of each pair's own that orders those of one prompt, shape (K,).
        whole: whether all pairs of a prompt come together.
    """
    by_prompt = np.lexsort((of_pair, prompt))
    sizes = np.bincount(prompt, minlength=len(of_prompt))
    starts = np.cumsum(sizes) - sizes
    place = np.empty(len(prompt))
    place[by_prompt] = np.arange(len(prompt)) - starts[prompt[by_prompt]]
    u = of_prompt[prompt] if whole else (place + of_prompt[prompt]) / sizes[prompt]
    return np.lexsort((of_pair, u))


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one attribute in the order of the data, shape (pairs,).

    Attributes:
        values: nan for none.
        probability: with which a pair was drawn to be labelled; 1 if unknown, as all are then equal.
        of_data: whether they are the human ratings in the data.
        why: the reason that those of the data are not used; '' if they are, or if there are none.
    """

    values: FloatArray
    probability: FloatArray
    of_data: bool
    why: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)


def labels_of(run: StoredRun, labels: GivenLabels | None) -> dict[str, Labels]:
    """Return the labels of each attribute of ``run``: the given ones, else the human ratings of its data, if on the scale."""
    found = {}
    for attribute, scale in zip(run.manifest.attributes, run.manifest.known_ends, strict=True):
        by_pair = labels.by_attribute[attribute] if labels else {}
        values, probability = people_of(run, attribute, labels), np.ones(len(run.space.pair_ids))
        if by_pair:
            drawn = map(by_pair.get, run.space.pair_ids)
            probability = np.array([each.probability or 1.0 if each else 1.0 for each in drawn])
        if why := off_scale(values, scale):
            values = np.full(len(values), np.nan)
        found[attribute] = Labels(values, probability, of_data=not by_pair, why=why)
    return found


def people_of(run: StoredRun, attribute: str, labels: GivenLabels | None = None) -> FloatArray:
    """Return people's rating of each pair of ``run``, shape (pairs,), nan for none: the given labels, else the data's own."""
    if by_pair := labels.by_attribute[attribute] if labels else {}:
        return np.array(
            [
                by_pair[pair_id].value if pair_id in by_pair else np.nan
                for pair_id in run.space.pair_ids
            ]
        )
    return run.pairs.human(attribute)


@dataclass(frozen=True, slots=True)
class WantedLabels:
    """Pairs for people to label, with their labels so far: rows, the labelled ones first, the others in drawing order.

    Attributes:
        pair, attribute: of each row, by position, shape (rows,).
        probability: with which each row's pair is among those of its attribute once all rows are labelled.
        label: nan for a pair to be labelled.
        prompts: number of different prompts of the rows, for the attribute with the fewest.
    """

    pair: IntArray
    attribute: IntArray
    probability: FloatArray
    label: FloatArray
    prompts: int


def wanted_labels(
    run: RunReader,
    scores: Mapping[str, FloatArray],
    labels: Mapping[str, Labels],
    n: int,
    *,
    whole: bool,
) -> WantedLabels:
    """Return the next ``n`` pairs for people to label on each attribute, after their labels so far.

    Args:
        scores: by attribute, shape (pairs,); nan for pairs that need no label.
        labels: those of :func:`labels_of`.
        whole: whether all pairs of a prompt are wanted together; then about ``n``.

    Raises:
        InputError: no pair has a score, all have a label, or those with one were drawn with different probabilities.
    """
    can_be = np.stack([~np.isnan(scores[name]) for name in labels], axis=1)
    known = np.stack([each.known for each in labels.values()], axis=1)
    if not can_be.any():
        raise InputError(
            f"{run.name}: no pair has a score, so there is nothing yet that labels could correct"
        )
    for name, each in labels.items():
        if len(different := np.unique(each.probability[each.known])) > 1:
            raise InputError(
                f"{name}: the labels there are were drawn with different probabilities, from {different[0]:g} to "
                f"{different[-1]:g}; robin draws all pairs alike, and adds to labels that were drawn so"
            )
    is_open = can_be & ~known
    if not is_open.any():
        raise InputError(f"{run.name}: every pair with a score has a label already")
    is_own = np.array([not each.of_data for each in labels.values()])
    asked = np.flatnonzero(np.logical_or(is_open.any(axis=0), is_own))
    order, of = labelling_order(run, whole=whole), _drawn_as_one(run)[0]
    drawn = order[is_open[order].any(axis=1)]
    if whole:  # prompts that have about n pairs: drawn until there are n, the last one would be a large one too often
        usable = of[can_be.any(axis=1)]
        prompts = list(dict.fromkeys(of[drawn].tolist()))
        count = math.ceil(n / (len(usable) / len(np.unique(usable))))
        drawn = drawn[np.isin(of[drawn], prompts[:count])]
    else:
        drawn = drawn[:n]
    pairs, attributes = [], []
    for rows, which in ((order, known), (drawn, is_open)):
        at, attribute = np.nonzero(which[np.ix_(rows, asked)])
        pairs.append(rows[at])
        attributes.append(asked[attribute])
    pair, attribute = np.concatenate(pairs), np.concatenate(attributes)
    counts = can_be[pair, attribute]
    share = np.bincount(attribute[counts], minlength=len(labels))
    share = share / np.maximum(1, can_be.sum(axis=0))
    values = np.stack([each.values for each in labels.values()], axis=1)
    fewest = min(len(np.unique(run.prompts[pair[counts & (attribute == each)]])) for each in asked)
    return WantedLabels(pair, attribute, share[attribute], values[pair, attribute], fewest)


def labelling_order(run: RunReader, *, whole: bool = True) -> IntArray:
    """Return the pairs of ``run`` in drawing order, by prompts' texts and ids: the same for other runs on the same data."""
    of, texts = _drawn_as_one(run)
    return drawing_order(of, evenly(texts), evenly(run.pair_ids), whole=whole)


def _drawn_as_one(run: RunReader) -> tuple[IntArray, Iterable[str]]:
    """Return the number of each pair's prompt, shape (pairs,), and their texts by number; groups if it decides among these."""
    if (groups := run.groups_by_name) is not None:
        return groups
    texts: Sequence[str] = run.pairs.table["prompt"].to_pylist()
    return run.prompts, dict(zip(run.prompts.tolist(), texts, strict=True)).values()
