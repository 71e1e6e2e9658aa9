"""People's labels of the pairs of a run, those that correct its means and those that are wanted next.

Every pair gets a number u, as if drawn evenly from 0 to 1, made of its texts by a hash: the same at every draw, and for every
run on the same data. Labelled are those with u up to some bound, which each pair is with one probability; to label more is to
raise the bound, and what was labelled before stays a part of one sample (permanent random numbers: Ohlsson, "Coordination of
samples using permanent random numbers", 1995). So probabilities depend on nothing that the judge said, however many ratings
come later.

For a mean u = (k + U)/m: U of the prompt, m its responses, k this one's place among them in an order of their own, from 0.
Then no prompt has a second pair labelled before every other (of as many responses) has its first: responses to one prompt are
alike, and tell less together. For a difference of systems u = U: all responses to a prompt are labelled together, since their
difference leaves out what they share.

Probabilities that grow with what the judge's ratings differ by (Zrnic and Candès, "Active statistical inference",
arXiv:2403.03208) were measured, and left out: benchmarks/labels.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.agreement import off_scale
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import GivenLabels
from robin_cli.storage.reader import RunData


def evenly(texts: Iterable[str]) -> FloatArray:
    """A number for each text as if drawn evenly from [0, 1): always the same, and of another text independent."""
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts)
    return np.asarray((np.frombuffer(digests, dtype=">u8") >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def drawing_order(prompt: IntArray, of_prompt: FloatArray, of_pair: FloatArray, *, whole: bool) -> IntArray:
    """The pairs by u, the least first.

    Args:
        prompt: which prompt each pair has, 0 to prompts − 1, shape (K,).
        of_prompt: U of each prompt, shape (prompts,).
        of_pair: a number of each pair's own, by which those of one prompt are put in order, shape (K,).
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
    """Those of one attribute, pair by pair in the order of the data, shape (pairs,).

    Attributes:
        values: nan where there is none.
        probability: with which a pair was drawn to be labelled; 1 where that is not told, as all are alike then.
        of_data: whether they are the human ratings that came with the data.
        why: those of the data are not used; '' where they are, or where there are none.
    """

    values: FloatArray
    probability: FloatArray
    of_data: bool
    why: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which pairs have one."""
        return ~np.isnan(self.values)


def labels_of(run: RunData, given: GivenLabels | None) -> dict[str, Labels]:
    """The labels of each attribute of ``run``: those that were given, else the human ratings of its data, if on the scale."""
    found = {}
    for attribute, scale in zip(run.manifest.attributes, run.manifest.told_scales, strict=True):
        own, values = given.by_attribute[attribute] if given else {}, said_by_people(run, attribute, given)
        drawn = (own.get(pair_id) for pair_id in run.pair_ids if own)
        probability = np.array([1.0 if each is None else each.probability or 1.0 for each in drawn])
        why = off_scale(values, scale)
        found[attribute] = Labels(
            np.full(len(values), np.nan) if why else values,
            probability if own else np.ones(len(values)),
            of_data=not own,
            why=why,
        )
    return found


def said_by_people(run: RunData, attribute: str, given: GivenLabels | None = None) -> FloatArray:
    """What people say of each pair of ``run``, shape (pairs,), nan for nothing: labels that were given, else its data's own."""
    absent = np.full(len(run.pair_ids), np.nan)
    if own := given.by_attribute[attribute] if given else {}:
        return np.array([own[pair_id].value if pair_id in own else np.nan for pair_id in run.pair_ids])
    return np.asarray(run.human.get(attribute, absent), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What people are to label, with what they have labelled: rows, the labelled ones first, the others as they were drawn.

    Attributes:
        pair, attribute: of each row, by position, shape (rows,).
        probability: with which each row's pair is among those of its attribute, all rows labelled, shape (rows,).
        label: nan for what is to be labelled, shape (rows,).
        prompts: how many different ones the rows have, of the attribute that has fewest.
    """

    pair: IntArray
    attribute: IntArray
    probability: FloatArray
    label: FloatArray
    prompts: int


def wanted_labels(
    run: RunData, scores: Mapping[str, FloatArray], labels: Mapping[str, Labels], n: int, *, whole: bool
) -> Wanted:
    """The next ``n`` pairs that people should label on each attribute, and what they have labelled so far.

    Args:
        scores: by attribute, shape (pairs,); nan for pairs that are not to be labelled.
        labels: those of :func:`labels_of`.
        whole: whether all pairs of a prompt are wanted together; then about ``n``.

    Raises:
        InputError: no pair has a score, all have a label, or those that have one were drawn with different probabilities.
    """
    can_be = np.stack([~np.isnan(scores[name]) for name in labels], axis=1)
    known = np.stack([each.known for each in labels.values()], axis=1)
    if not can_be.any():
        raise InputError(f"{run.name}: no pair has a score, so there is nothing yet that labels could correct")
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
    order = labelling_order(run, whole=whole)
    drawn = order[is_open[order].any(axis=1)]
    drawn = _whole(drawn, _drawn_as_one(run)[0], np.flatnonzero(can_be.any(axis=1)), n) if whole else drawn[:n]
    pairs, attributes = [], []
    for rows, which in ((order, known), (drawn, is_open)):
        at, attribute = np.nonzero(which[np.ix_(rows, asked)])
        pairs.append(rows[at])
        attributes.append(asked[attribute])
    pair, attribute = np.concatenate(pairs), np.concatenate(attributes)
    counts = can_be[pair, attribute]
    share = np.bincount(attribute[counts], minlength=len(labels)) / np.maximum(1, can_be.sum(axis=0))
    values = np.stack([each.values for each in labels.values()], axis=1)
    prompts = min(len(np.unique(run.prompts[pair[counts & (attribute == each)]])) for each in asked)
    return Wanted(pair, attribute, share[attribute], values[pair, attribute], prompts)


def labelling_order(run: RunData, *, whole: bool = True) -> IntArray:
    """The pairs of ``run`` as they are drawn, by their prompts' texts and their ids: of other runs on the same data, too."""
    of, texts = _drawn_as_one(run)
    return drawing_order(of, evenly(texts), evenly(run.pair_ids), whole=whole)


def _drawn_as_one(run: RunData) -> tuple[IntArray, Iterable[str]]:
    """The number of each pair's prompt, shape (pairs,), and their texts by number; groups where a run decides among these."""
    if (groups := run.inquiry.groups_by_name) is not None:
        return groups
    texts: Sequence[str] = run.pairs.table["prompt"].to_pylist()
    return run.prompts, dict(zip(run.prompts.tolist(), texts, strict=True)).values()


def _whole(order: IntArray, prompt: IntArray, pairs: IntArray, n: int) -> IntArray:
    """Those of ``order`` that are of its first prompts, as many as have about ``n`` of ``pairs``.

    Were prompts drawn until there are ``n`` pairs, the last one would be a large one more often than not.
    """
    a_prompt = len(pairs) / len(np.unique(prompt[pairs]))
    prompts = list(dict.fromkeys(prompt[order].tolist()))[: math.ceil(n / a_prompt)]
    return order[np.isin(prompt[order], prompts)]
