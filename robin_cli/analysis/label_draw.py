"""In which order people should label pairs, so that as many as they come to are a fair sample.

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
from collections.abc import Iterable

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray


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
