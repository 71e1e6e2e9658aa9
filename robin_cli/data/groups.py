"""Names and their numbers, and the groups of pairs with one prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np

from robin_cli.model.arms import IntArray

MOST_SYSTEMS = 2_000
"""The most systems that are ranked: strengths solve one equation for each, and differences are of every two."""

_Name = TypeVar("_Name", bound=Hashable)


def numbered(names: Iterable[_Name]) -> tuple[IntArray, list[_Name]]:
    """Return each name's number in order of first appearance, and the distinct names."""
    places: dict[_Name, int] = {}
    numbers = [places.setdefault(name, len(places)) for name in names]
    return np.array(numbers, dtype=np.int64), list(places)


def name_of(prompt: str) -> str:
    """Return the name of a prompt's group on every machine: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(prompt.encode("utf-8")).hexdigest()[:16]
