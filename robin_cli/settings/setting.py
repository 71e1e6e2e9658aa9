"""The description of a setting, and tables of settings from classes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum, auto
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Check = tuple[Callable[[Any], object], str]
"""A test of a value, and its description for errors."""


def within(low: float, high: float, wanted: str) -> Check:
    """Return the test of a number from ``low`` to ``high``."""
    return lambda value: low <= value <= high, wanted


def positive(wanted: str, most: float = math.inf) -> Check:
    """Return the test of a finite number above 0, at most ``most``."""
    return lambda value: 0 < value < math.inf and value <= most, wanted


def share(wanted: str) -> Check:
    """Return the test of a number above 0 and below 1."""
    return lambda value: 0 < value < 1, wanted


def like(pattern: str, wanted: str) -> Check:
    """Return the test of a text that matches a regular expression."""
    return re.compile(pattern, re.ASCII).fullmatch, wanted


class Scope(Enum):
    """The scope of a setting: when it may change, and where it is recorded."""

    RUN = auto()
    """Part of a run's identity: recorded with the run, and the same in all sessions."""
    INPUT = auto()
    """Part of a run's identity too, but its result is recorded instead: data, prompt, attributes, budget, seed."""
    SESSION = auto()
    """The judges' addresses and limits of a session: recorded with each session, and may differ."""
    OUTPUT = auto()
    """The output at the end: not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The description of a setting. Its name, type and default come from the field of the class.

    Attributes:
        help: ``{again}`` stands for the way to give several values, as repeated flags or as a list in a file; ``{known}`` for
            the known names, which the caller adds.
        default_said: the default in words, if it cannot be written as a value.
        note: more help, for the file that ``robin init`` writes.
        example: a value for ``robin init``, as TOML, if the default is None.
        always: recorded with a run even at its default. Others are not, so that older runs without the setting compare equal.
        kept: taken over by the next session.
        of_question: a single question depends on it, so ``robin check`` takes it.
        in_python: a keyword of robin_cli.judge; others have another place in Python.
        file: it names files to be read or written; paths in a TOML file are relative to its folder.
        secret: errors must not repeat its value, which may be a key by mistake.
        by_commas: several values are one text, separated by commas.
        accept: converts other forms of a value to its type.
        tidy: checks and normalizes a value of its type; raises InputError.
    """

    help: str
    panel: str
    scope: Scope
    name: str = ""
    type: Any = None
    default: Any = None
    short: str = ""
    metavar: str = ""
    variables: tuple[str, ...] = ()
    argument: bool = False
    default_said: str = ""
    note: str = ""
    example: str = ""
    always: bool = False
    kept: bool = True
    of_question: bool = False
    in_python: bool = True
    file: Literal["", "read", "written"] = ""
    secret: bool = False
    by_commas: bool = False
    check: Check | None = None
    accept: Callable[[Any, str], Any] | None = None
    tidy: Callable[[Any, str], Any] | None = None

    @property
    def flag(self) -> str:
        """The flag; DATA for the argument."""
        return self.metavar if self.argument else f"--{self.name.replace('_', '-')}"

    @property
    def several(self) -> bool:
        """Whether it may have several values."""
        return get_origin(self.type) is tuple

    @property
    def kind(self) -> Any:
        """The type of one value: bool, int, float, str or Mapping."""
        kind = get_args(self.type)[0] if self.several else self.type
        return str if get_origin(kind) is Literal else get_origin(kind) or kind

    @property
    def choices(self) -> tuple[str, ...]:
        """All possible values, if they are listed."""
        kind = get_args(self.type)[0] if self.several else self.type
        return get_args(kind) if get_origin(kind) is Literal else ()


def setting(help: str, default: Any = None, **more: Any) -> Any:  # noqa: A002
    """Return a field of a class of settings; the arguments are those of :class:`Setting`."""
    entry = {"setting": Setting(help=help, **more)}
    return (
        field(default_factory=dict, metadata=entry)
        if default == {}
        else field(default=default, metadata=entry)
    )


def table_of(settings: type, *, variables: bool = True) -> Mapping[str, Setting]:
    """Return the settings that are fields of a class, by name and in order.

    Args:
        variables: whether each has a ROBIN_* variable of its name.
    """
    hints = get_type_hints(settings)
    return {
        each.name: replace(
            entry,
            name=each.name,
            type=_without_none(hints[each.name]),
            default=each.default_factory() if each.default_factory is not MISSING else each.default,
            variables=(f"ROBIN_{each.name.upper()}", *entry.variables) if variables else (),
        )
        for each in fields(settings)
        if (entry := each.metadata.get("setting"))
    }


def _without_none(kind: Any) -> Any:
    return (
        next(each for each in get_args(kind) if each is not type(None))
        if get_origin(kind) in {UnionType, Union}
        else kind
    )
