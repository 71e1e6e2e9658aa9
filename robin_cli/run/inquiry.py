"""What a run asks besides scores: decisions, a comparison of systems, or preferences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from robin_cli.data.groups import numbered
from robin_cli.data.pair_table import PairTable
from robin_cli.data.texts import Texts, numbers_of
from robin_cli.model.arms import IntArray
from robin_cli.model.decision import BEST, Decision, decision_by, target_wrong_of
from robin_cli.model.records import GROUP_COLUMN, OTHER_COLUMN, SYSTEM_COLUMNS, Pair, as_text
from robin_cli.model.space import ArmSpace
from robin_cli.policies.matches import Matches, matches_of
from robin_cli.policies.systems import Systems, systems_of
from robin_cli.policies.task import Task


@dataclass(eq=False)
class Inquiry:
    """The settings of a run, and its pairs as the goals need them, read on first use.

    StorageError if the pairs cannot be read.

    Attributes:
        run_settings: the run's own settings, by name.
        seed: of the run; it gives the random order of prompts and comparisons.
    """

    run_settings: Mapping[str, Any]
    space: ArmSpace
    pairs: Iterable[Pair]
    seed: int | None

    @cached_property
    def table(self) -> PairTable:
        """The pairs in columns."""
        return PairTable.from_pairs(self.pairs)

    @property
    def is_pairwise(self) -> bool:
        """Whether calls compare two responses."""
        return bool(self.run_settings["pairwise"])

    @cached_property
    def decision(self) -> Decision | None:
        """The run's decision; None without one."""
        return decision_by(self.run_settings, self.space.attributes, self.space.scales)

    @property
    def target_wrong(self) -> float:
        """The share of likely wrong decisions at which the run ends; 0: never."""
        return target_wrong_of(self.run_settings)

    @property
    def groups(self) -> IntArray:
        """Group of each pair, shape (pairs,)."""
        return self.table.groups

    @cached_property
    def task(self) -> Task | None:
        """The decision by ratings; None without one."""
        if self.is_pairwise or self.decision is None:
            return None
        return Task(self.decision, self.space, self.groups if self.decision.is_best else None)

    @property
    def wants_best(self) -> bool:
        """Whether the run looks for the best response to each prompt, or of each group."""
        return bool(self.run_settings["decide"] == BEST)

    @property
    def groups_by_name(self) -> tuple[IntArray, Texts] | None:
        """Groups that the data names and whose best is looked for: that of each pair, shape (pairs,), and their names."""
        is_named = (
            self.wants_best and not self.is_pairwise and self.table.grouped_by == GROUP_COLUMN
        )
        return (self.groups, self.table.group_names) if is_named else None

    @cached_property
    def systems(self) -> Systems:
        """The system of each pair; every pair must name one."""
        system, names = numbered(
            as_text(value) for value in self.table.systems if value is not None
        )
        return systems_of(self.space, system, names, *self.table.prompts, self.seed)

    @cached_property
    def matches(self) -> Matches:
        """The comparisons of a pairwise run."""
        table = self.table
        responses = chain(table.texts("response"), table.texts(OTHER_COLUMN))
        both = zip(*map(table.column, SYSTEM_COLUMNS), strict=True)
        system, names = numbered(
            None if value is None else as_text(value) for value in chain(*both)
        )
        is_named = None not in names
        return matches_of(
            self.space,
            numbers_of(table.texts("prompt")),
            numbers_of(responses).reshape(2, -1).T,
            system.reshape(-1, 2) if is_named else None,
            [name for name in names if name is not None] if is_named else [],
            self.seed,
            wants_best=self.run_settings["decide"] is not None,
        )
