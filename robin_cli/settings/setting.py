"""The description of a setting, and tables of settings from classes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum, auto
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Check = tuple[Callable[[Any], bool], str]
"""A test of a value, and its description for errors."""


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

    @property
    def said_in_file(self) -> str:
        """The help for the file that ``robin init`` writes."""
        default = f"(default: {self.default_said})" if self.example and self.default_said else ""
        return " ".join(
            filter(None, [self.help.replace("{again}", "as a list"), self.note, default])
        )

    @property
    def said(self) -> str:
        """The help of the flag, with the default."""
        default = self.default[0] if self.default and self.several else self.default
        if isinstance(default, bool) or not isinstance(default, int | float | str):
            default = ""
        default = self.default_said or (f"{default:g}" if isinstance(default, float) else default)
        return self.help.replace("{again}", "given again") + (
            f" (default: {default})" if default != "" else ""
        )


def with_known(said: str, known: Callable[[], Iterable[str]]) -> str:
    """Return a help text with the known names instead of ``{known}``."""
    return said.replace("{known}", ", ".join(known())) if "{known}" in said else said


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
