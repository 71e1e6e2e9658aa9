"""What a run finds out about its pairs beside their scores: decisions, a comparison of systems, or preferences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from robin_cli.datasets.pair_table import PairTable
from robin_cli.datasets.texts import numbers_of
from robin_cli.model.decision import decision_of
from robin_cli.model.errors import StorageError
from robin_cli.model.groups import numbered
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import COMPARE, OTHER_COLUMN, SYSTEM_COLUMNS, Pair, as_text
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, systems_of
from robin_cli.model.task import Task


@dataclass(frozen=True)
class Inquiry:
    """The objects that the goal of a run is made of, each when it is asked for. A run has one of them at most.

    Attributes:
        own: settings by name, ``pairwise``, ``objective``, ``decide``, ``margin`` and ``error_rate`` among them.
        seed: of the run; the random order of prompts and comparisons is made of it.
        named: how many systems comparisons are of, where a manifest says it.
    """

    space: ArmSpace
    pairs: PairTable
    own: Mapping[str, Any]
    seed: int | None
    named: int | None = None

    @cached_property
    def task(self) -> Task | None:
        """What is to be decided by ratings; None where nothing is. InputError for what cannot be decided."""
        own = self.own
        if own["decide"] is None or own["pairwise"]:
            return None
        decision = decision_of(
            own["decide"], self.space.attributes, self.space.scales, margin=own["margin"], error_rate=own["error_rate"]
        )
        return Task(decision, self.space, self.pairs.groups if decision.is_best else None)

    @cached_property
    def systems(self) -> Systems | None:
        """The systems that ratings compare; None where they compare none. Every pair must name its system."""
        if self.own["objective"] != COMPARE:
            return None
        system, names = numbered(as_text(value) for value in self.pairs.systems if value is not None)
        return systems_of(self.space, system, names, *self.pairs.prompts, self.seed)

    @cached_property
    def matches(self) -> Matches | None:
        """What the comparisons of a pairwise run are of; None for another run."""
        if not self.own["pairwise"]:
            return None
        found = matches_among(self.space, self.pairs, self.seed, wants_best=self.own["decide"] is not None)
        if self.named not in {None, len(found.names)}:
            raise StorageError(
                f"columns.parquet names {len(found.names)} systems, and the run compares {self.named}; restore it from a copy"
            )
        return found


def asks_all(own: Mapping[str, Any]) -> bool:
    """Return whether a run with these settings asks about every pair, by name; comparisons may leave some out."""
    return own["objective"] != COMPARE and not own["pairwise"]


def matches_among(space: ArmSpace, pairs: Iterable[Pair], seed: int | None, *, wants_best: bool) -> Matches:
    """Return the comparisons that ``pairs`` are."""
    table = PairTable.of(pairs)
    prompt = numbers_of(table.texts("prompt"))
    text = numbers_of(chain(table.texts("response"), table.texts(OTHER_COLUMN))).reshape(2, -1).T
    named = list(zip(*map(table.column, SYSTEM_COLUMNS), strict=True))
    return matches_of(space, prompt, np.ascontiguousarray(text), named, seed, wants_best=wants_best)
