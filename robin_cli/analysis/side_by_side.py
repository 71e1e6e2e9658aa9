"""Two runs side by side: how far their scores of the same pairs, or of the same prompts, are apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.intervals import sum_intervals
from robin_cli.analysis.paired import by_prompt
from robin_cli.analysis.run_compare import Compared
from robin_cli.analysis.scores import told_parts, told_scores
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.storage.pair_files import read_numbers
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What two runs, A and B, say of what both rate: shape (rows,) each, in A's order.

    Attributes:
        what: the pair by its place in A; of systems the prompt by its number.
        attribute: by its place in A.
        a, b, n_a, n_b: the scores and how many ratings each has; 0 where that is not known.
        low, high: the ends of the interval for A − B, at least 95 %, each row for itself; nan where there is none.
        alone: how many scores only A, and only B, has.
    """

    what: IntArray
    attribute: IntArray
    a: FloatArray
    b: FloatArray
    n_a: IntArray
    n_b: IntArray
    low: FloatArray
    high: FloatArray
    alone: tuple[int, int] = (0, 0)

    @property
    def difference(self) -> FloatArray:
        """A − B."""
        return self.a - self.b

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Where the interval does not contain 0."""
        return (self.low > 0) | (self.high < 0)

    def __len__(self) -> int:
        return len(self.what)

    def by_attribute(self) -> Iterator[tuple[int, SideBySide]]:
        """Yield each attribute by itself: a mean over attributes, perhaps of different scales, says nothing."""
        arrays = [each.name for each in fields(self) if each.name != "alone"]
        for attribute in np.unique(self.attribute).tolist():
            mine = self.attribute == attribute
            yield attribute, replace(self, **{name: getattr(self, name)[mine] for name in arrays})


def shared_pairs(a: RunData, b: RunData, name: str = "pair_id") -> tuple[IntArray, IntArray]:
    """Return the places in ``a``, rising, and in ``b`` of the pairs that both have, or of what ``name`` they have in common."""
    of_a, of_b = np.split(read_numbers([a.path, b.path], name), [len(a.pair_ids)])
    _, at_a, at_b = np.intersect1d(of_a, of_b, return_indices=True)
    order = np.argsort(at_a)
    return at_a[order], at_b[order]


def changed_pairs(a: RunData, b: RunData) -> int:
    """Return how many pairs of both have other texts in ``b`` than in ``a``."""
    at_a, at_b = shared_pairs(a, b)
    texts = [np.split(read_numbers([a.path, b.path], name), [len(a.pair_ids)]) for name in ("prompt", "response")]
    return int(np.any([of_a[at_a] != of_b[at_b] for of_a, of_b in texts], axis=0).sum())


def side_by_side(a: RunData, b: RunData) -> SideBySide:
    """Return the scores that both runs have, by pair and attribute."""
    mine, theirs = told_scores(a), told_scores(b)
    at_a, at_b = shared_pairs(a, b)
    names = [name for name in a.space.attributes if name in b.space.attributes]
    rows_a, rows_b = (
        run.space.by_pair(np.arange(len(scores)))[at][:, [run.space.attributes.index(name) for name in names]].ravel()
        for run, scores, at in ((a, mine, at_a), (b, theirs, at_b))
    )
    low, high = _intervals(a, b, rows_a, rows_b)
    return SideBySide(
        a.space.pair[mine.arm[rows_a]].astype(np.int64),
        a.space.attribute[mine.arm[rows_a]].astype(np.int64),
        mine.numbers("score")[rows_a],
        theirs.numbers("score")[rows_b],
        mine.numbers("n")[rows_a].astype(np.int64),
        theirs.numbers("n")[rows_b].astype(np.int64),
        low,
        high,
        (len(mine) - len(rows_a), len(theirs) - len(rows_b)),
    )


def _intervals(a: RunData, b: RunData, rows_a: IntArray, rows_b: IntArray) -> tuple[FloatArray, FloatArray]:
    """The intervals of A − B for these rows of each; rows of one scale at a time."""
    low, high = np.empty(len(rows_a)), np.empty(len(rows_a))
    of_b = list(told_parts(b))
    for theirs, positive in told_parts(a):
        for others, negative in of_b:
            both = np.flatnonzero(np.isin(rows_a, theirs) & np.isin(rows_b, others))
            if len(both):
                at_a, at_b = np.searchsorted(theirs, rows_a[both]), np.searchsorted(others, rows_b[both])
                parts = [replace(each, counts=each.counts[at_a]) for each in positive]
                parts += [replace(each, counts=each.counts[at_b], weight=-each.weight) for each in negative]
                low[both], high[both] = sum_intervals(parts)
    return low, high


def prompts_side_by_side(found: Compared) -> SideBySide:
    """Return the scores of two systems by prompt and attribute, of what both answered."""
    listed = []
    places = found.runs[0].space.attributes
    for name, (one,) in found.differences.items():
        sides = [by_prompt(found.responses[name], side).at(one.prompts).score for side in range(2)]
        none, nothing = np.full(one.n_prompts, np.nan), np.zeros(one.n_prompts, dtype=np.int64)
        place = np.full(one.n_prompts, places.index(name))
        listed.append((one.prompts, place, *sides, nothing, nothing, none, none))
    what, attribute, of_a, of_b, n_a, n_b, low, high = map(np.concatenate, zip(*listed, strict=True))
    return SideBySide(what, attribute, of_a, of_b, n_a, n_b, low, high)


_COMMON = "have no pair and attribute in common"


def shared_scales(a: RunData, b: RunData) -> dict[str, Scale]:
    """Return the scales of the attributes that both rate. InputError where there are none, or they differ."""
    of_a, of_b = (dict(zip(each.manifest.attributes, each.manifest.told_scales, strict=True)) for each in (a, b))
    shared = {name: scale for name, scale in of_a.items() if name in of_b}
    for name, scale in shared.items():
        if scale != of_b[name]:
            raise InputError(
                f"{a.path} and {b.path} rate {name} on different scales ({scale} and {of_b[name]}): their scores cannot be "
                "compared"
            )
    if not shared:
        raise InputError(f"{a.path} and {b.path} {_COMMON}; compare runs over the same pairs")
    return shared


def check_systems(a: RunData, b: RunData, differing: Sequence[str]) -> None:
    """InputError where two runs without a pair in common cannot be compared as systems either."""
    if differing:
        raise InputError(
            f"{a.path} and {b.path} {_COMMON}, and their systems cannot be compared, for they were not judged in the same way: "
            f"{'; '.join(differing)}"
        )
    if not len(shared_pairs(a, b, "prompt")[0]):
        raise InputError(
            f"{a.path} and {b.path} {_COMMON}, and no prompt either; compare runs over the same pairs, or over the same prompts"
        )
