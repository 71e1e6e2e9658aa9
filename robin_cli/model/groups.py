"""Groups of pairs, each with one best response."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np

from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError

_Name = TypeVar("_Name", bound=Hashable)


def numbered(names: Iterable[_Name]) -> tuple[IntArray, list[_Name]]:
    """Return each name's number in order of first appearance, and the distinct names."""
    places: dict[_Name, int] = {}
    numbers = [places.setdefault(name, len(places)) for name in names]
    return np.array(numbers, dtype=np.int64), list(places)


def name_of(prompt: str) -> str:
    """Return the name of a prompt's group on every machine: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(prompt.encode("utf-8")).hexdigest()[:16]


def check_groups(groups: IntArray, column: str | None) -> str:
    """Return a warning about groups with one response; "" if there are none.

    Args:
        groups: the group of each pair, numbered from 0.
        column: the column of the data that names them; None for groups by prompt.

    Raises:
        InputError: no group has two responses.
    """
    sizes = np.bincount(groups)
    alone = int((sizes == 1).sum())
    if alone < len(sizes):
        return (
            f"{alone:,} of {len(sizes):,} groups have one response only and nothing to choose"
            if alone
            else ""
        )
    of = "prompts" if column is None else f"groups by {column}"
    step = "name the column" if column is None else "name another column"
    raise InputError(
        f"--decide best: {alone:,} of {len(sizes):,} {of} have one response only, so there is nothing to choose; {step} that "
        "says which responses belong together with --group"
    )
