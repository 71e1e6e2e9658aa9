"""What a goal is made from before there is a run: settings and pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from robin_cli.model.arms import IntArray
from robin_cli.model.decision import Decision
from robin_cli.model.errors import InputError, shown
from robin_cli.model.groups import check_groups
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, Pair
from robin_cli.model.systems import Systems, check_systems
from robin_cli.questions.inquiry import Inquiry
from robin_cli.settings.table import TABLE, Settings

_COLUMNS_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Wanted(Inquiry):
    """What settings ask for of pairs. InputError for what cannot be decided or compared with them.

    Attributes:
        notify: is told what a user should know of the data: prompts that one system alone answered, groups of one.
    """

    settings: Settings
    notify: Callable[[str], None]

    @cached_property
    def decision(self) -> Decision | None:
        """What is to be decided; None where nothing is."""
        found = super().decision
        if found is not None and self.settings.group is not None and not found.is_best:
            raise InputError("--group: is for --decide best; thresholds are for each pair by itself")
        return found

    @cached_property
    def groups(self) -> IntArray:
        """Which group each pair is of, shape (pairs,)."""
        found = super().groups
        if said := check_groups(found, self.settings.group):
            self.notify(f"{said}: they are asked no more than twice")
        return found

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
        pairs = self.table
        if unsaid := [pair_id for pair_id, value in zip(pairs.ids, pairs.systems, strict=True) if value is None]:
            raise InputError(_without_system(compare, pairs, unsaid))
        found = super().systems
        if said := check_systems(found):
            self.notify(f"{compare}: {said}")
        return found


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
