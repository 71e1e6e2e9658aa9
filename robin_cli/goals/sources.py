"""What goals are made from: settings and pairs before there is a run, and a run as it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from robin_cli.datasets.pair_table import PairTable
from robin_cli.model.arms import IntArray
from robin_cli.model.decision import Decision, decision_of
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import check_groups, numbered
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, Pair, as_text
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, check_systems, systems_of
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.pair_files import read_groups, read_matches, read_systems

_COLUMNS_SHOWN = 12


class Source(Protocol):
    """What goals are made from: the settings of a run, its arms, and what its data say, which is read where a goal asks.

    Attributes:
        own: the run's own settings, by name.
    """

    @property
    def own(self) -> Mapping[str, Any]: ...
    @property
    def space(self) -> ArmSpace: ...
    @property
    def is_pairwise(self) -> bool:
        """Whether calls compare two responses."""

    @property
    def decision(self) -> Decision | None:
        """What is to be decided; None where nothing is."""

    @property
    def groups(self) -> IntArray:
        """Which group each pair is of, shape (pairs,)."""

    @property
    def systems(self) -> Systems:
        """Which system answered each pair."""

    @property
    def matches(self) -> Matches:
        """What the comparisons of a pairwise run are of."""


@dataclass(frozen=True)
class Kept:
    """A run on disk. StorageError where what is asked for cannot be read."""

    path: Path
    manifest: Manifest
    space: ArmSpace

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """The run's own settings, by name."""
        return self.manifest.own_settings

    @property
    def is_pairwise(self) -> bool:
        """Whether calls compare two responses."""
        return self.manifest.is_pairwise

    @property
    def decision(self) -> Decision | None:
        """What is to be decided; None where nothing is."""
        return self.manifest.decision

    @property
    def groups(self) -> IntArray:
        """Which group each pair is of, shape (pairs,)."""
        return read_groups(self.path)

    @property
    def systems(self) -> Systems:
        """Which system answered each pair."""
        return read_systems(self.path, self.manifest, self.space)

    @cached_property
    def matches(self) -> Matches:
        """What the comparisons of a pairwise run are of."""
        return read_matches(self.path, self.manifest, self.space)


@dataclass(frozen=True)
class Wanted:
    """What settings ask for of pairs. InputError for what cannot be decided or compared with them.

    Attributes:
        notify: is told what a user should know of the data: prompts that one system alone answered, groups of one.
    """

    settings: Settings
    space: ArmSpace
    pairs: Sequence[Pair]
    notify: Callable[[str], None]

    @property
    def own(self) -> Mapping[str, Any]:
        """The settings by name, and the objective as it is meant."""
        return {name: getattr(self.settings, name) for name in TABLE} | {"objective": self.settings.wanted_objective}

    @property
    def is_pairwise(self) -> bool:
        """Whether calls compare two responses."""
        return self.settings.pairwise

    @cached_property
    def decision(self) -> Decision | None:
        """What is to be decided; None where nothing is."""
        settings, space = self.settings, self.space
        if settings.decide is None:
            return None
        found = decision_of(
            settings.decide, space.attributes, space.scales, margin=settings.margin, error_rate=settings.error_rate
        )
        if settings.group is not None and not found.is_best:
            raise InputError("--group: is for --decide best; thresholds are for each pair by itself")
        return found

    @cached_property
    def groups(self) -> IntArray:
        """Which group each pair is of, shape (pairs,)."""
        found = PairTable.of(self.pairs).groups
        if said := check_groups(found, self.settings.group):
            self.notify(f"{said}: they are asked no more than twice")
        return found

    @cached_property
    def matches(self) -> Matches:
        """What the comparisons are of."""
        settings = self.settings
        return matches_of(self.space, self.pairs, settings.seed, wants_best=settings.decide is not None)

    @cached_property
    def systems(self) -> Systems:
        """Which system answered each pair."""
        settings, compare = self.settings, f"--objective {COMPARE}"
        if settings.target_error is not None:
            raise InputError(
                f"{compare}: not with {TABLE['target_error'].flag}, at which calls go where a score is least certain; leave "
                "one of the two out"
            )
        if settings.mode != TABLE["mode"].default:
            raise InputError(
                f"{compare}: not with --mode {settings.mode}, whose guarantee is that of scores; leave one of the two out"
            )
        table = PairTable.of(self.pairs)
        found = table.systems
        if unsaid := [pair_id for pair_id, value in zip(table.ids, found, strict=True) if value is None]:
            raise InputError(_without_system(compare, self.pairs, unsaid))
        system, names = numbered(as_text(value) for value in found if value is not None)
        systems = systems_of(self.space, system, names, *table.prompts, settings.seed)
        if said := check_systems(systems):
            self.notify(f"{compare}: {said}")
        return systems


def _without_system(compare: str, pairs: Sequence[Pair], unsaid: Sequence[str]) -> str:
    """What is said where some pairs, or all, do not say which system answered."""
    if len(unsaid) < len(pairs):
        return (
            f"{compare}: {len(unsaid):,} of {len(pairs):,} pairs do not say which system answered, the first is "
            f'{shown(unsaid[0])}; give them a "{SYSTEM_COLUMN}", or leave them out'
        )
    known = sorted({name for pair in pairs for name in pair.columns})
    listed = ", ".join(map(shown, known[:_COLUMNS_SHOWN])) + ", …" * (len(known) > _COLUMNS_SHOWN)
    there = f"it also has {listed}" if known else "it has no further columns"
    return (
        f"{compare}: the data does not say which system answered ({there}); name the column that does: --columns "
        f"{SYSTEM_COLUMN}=NAME"
    )
