"""What people say of pairs: labels, by attribute and pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """What people say of a pair, the probability with which it was drawn (None: not told), and where that stands."""

    value: float
    probability: float | None
    place: str


@dataclass(frozen=True, slots=True)
class GivenLabels:
    """Labels by attribute and pair id; every attribute is there, also without labels.

    Attributes:
        source: what errors call it.
    """

    source: str
    by_attribute: Mapping[str, Mapping[str, Label]]

    def __len__(self) -> int:
        return sum(map(len, self.by_attribute.values()))
