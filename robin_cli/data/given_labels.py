"""The labels that people gave to pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Label:
    """People's rating of a pair, the probability with which it was drawn (None if unknown), and its place."""

    value: float
    probability: float | None
    place: str


@dataclass(frozen=True, slots=True)
class NamedBest:
    """The response that people name as the best of its group (None if unnamed), and its place."""

    pair_id: str
    group: str | None
    place: str


@dataclass(frozen=True, slots=True)
class GivenLabels:
    """Labels by attribute and pair id, with an entry for every attribute.

    Attributes:
        source: its name in errors.
        by_labeller: labels of each person, by attribute, pair id and name.
        best: the best responses of groups.
    """

    source: str
    by_attribute: Mapping[str, Mapping[str, Label]]
    by_labeller: Mapping[str, Mapping[str, Mapping[str, Label]]] = field(default_factory=dict)
    best: Sequence[NamedBest] = ()

    def __len__(self) -> int:
        return sum(map(len, self.by_attribute.values())) + len(self.best)


def opaque_id(pair_id: str) -> str:
    """Return the id to show to people who label: it does not reveal the system."""
    return "L" + hashlib.sha256(f"label\0{pair_id}".encode()).hexdigest()[:12]
