"""Plug-ins: the entry points of installed packages, found by group and name, and loaded when one is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from robin_cli.model.errors import InputError, RobinError, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Plugin(NamedTuple):
    """The entry points with one name; using it is an error if there are two."""

    name: str
    entries: tuple[EntryPoint, ...]

    def package(self, place: str, verb: str = "add") -> str:
        """Return the name of its package; InputError, naming ``place``, if there are two."""
        packages = sorted({each.dist.name if each.dist else each.module for each in self.entries})
        if len(self.entries) > 1:
            raise InputError(
                f"{place}: {' and '.join(packages)} both {verb} {self.name}. Uninstall one of them."
            )
        return packages[0]

    @contextmanager
    def loaded(
        self, place: str, verb: str = "add", passing: type[Exception] = RobinError
    ) -> Iterator[Any]:
        """Load the entry point. Errors in the body become an InputError that names ``place`` and the package.

        Errors of robin's own and of type ``passing`` go through unchanged.
        """
        package = self.package(place, verb)
        try:
            yield self.entries[0].load()
        except (RobinError, passing):
            raise
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            raise InputError(
                f"{place}: the package {package}, which {verb}s {self.name}, failed: {type(error).__name__}: "
                f"{shown(error, 200)}. Update it, or uninstall it: pip uninstall {package}"
            ) from error


def install(extra: str) -> str:
    """Return the command that installs an extra of robin's. It needs the checkout: robin is in no registry yet."""
    return f"pip install '.[{extra}]' in robin's checkout"


@cache
def plugins(group: str) -> Mapping[str, Plugin]:
    """Return the plug-ins of a group of entry points in order of their names; none is imported."""
    from importlib.metadata import entry_points

    found: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name.lower()):
        found[entry.name] = Plugin(
            entry.name, (*found[entry.name].entries, entry) if entry.name in found else (entry,)
        )
    return found
