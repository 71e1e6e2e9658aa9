"""What is known of one setting, and how a class of settings becomes a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum, auto
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Check = tuple[Callable[[Any], bool], str]
"""What a value must hold, and the words for it."""


class Scope(Enum):
    """What a setting is part of: who may change it, and where it is recorded."""

    RUN = auto()
    """It makes a run what it is: recorded with the run, and the same whenever that goes on."""
    INPUT = auto()
    """So does it, but what came of it is recorded instead: the data, the prompt, the attributes, the budget, the seed."""
    SESSION = auto()
    """How a session reaches its judges, and what it may cost: recorded with each session, and may differ."""
    OUTPUT = auto()
    """What is shown and written at the end: recorded nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that is known of one setting; name, type and default come from the field that it stands at.

    Attributes:
        help: ``{again}`` stands for how more than one value is given: a flag that is repeated, or a list in a file; ``{known}``
            for the names there are, which only the one who shows it knows.
        default_said: the default in words, where it is none that could be written.
        note: more words, for the file that ``robin init`` writes.
        example: a value for ``robin init``, as TOML, where the default is none.
        always: recorded with a run also at its default; others are not, so that runs from before they came compare as equal.
        kept: taken over by the next session.
        of_question: a single question depends on it, so ``robin check`` takes it.
        in_python: a keyword there; others have another place in Python.
        file: it names files that are read or written, so those in a TOML file count from its folder.
        secret: an error must not repeat its value, which may be a key by mistake.
        by_commas: several values are one text, parted by commas.
        accept: makes of other forms that it may be given in the one of its type.
        tidy: the last look at a value of its type; raises InputError or returns what is kept.
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
        """Whether it may have more than one value."""
        return get_origin(self.type) is tuple

    @property
    def kind(self) -> Any:
        """The type of one value: bool, int, float, str or Mapping."""
        kind = get_args(self.type)[0] if self.several else self.type
        return str if get_origin(kind) is Literal else get_origin(kind) or kind

    @property
    def choices(self) -> tuple[str, ...]:
        """All values that there are, where they can be counted."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def said_in_file(self) -> str:
        """The help, as it stands beside a value in the file that ``robin init`` writes."""
        default = f"(default: {self.default_said})" if self.example and self.default_said else ""
        return " ".join(filter(None, [self.help.replace("{again}", "as a list"), self.note, default]))

    @property
    def said(self) -> str:
        """The help of the flag, with the default."""
        default = self.default[0] if self.default and self.several else self.default
        if isinstance(default, bool) or not isinstance(default, int | float | str):
            default = ""
        default = self.default_said or (f"{default:g}" if isinstance(default, float) else default)
        return self.help.replace("{again}", "given again") + (f" (default: {default})" if default != "" else "")


def with_known(said: str, known: Callable[[], Iterable[str]]) -> str:
    """A help with the names that there are in the place of ``{known}``."""
    return said.replace("{known}", ", ".join(known())) if "{known}" in said else said


def setting(help: str, default: Any = None, **more: Any) -> Any:  # noqa: A002
    """A field of a table of settings; the arguments are those of :class:`Setting`."""
    entry = {"setting": Setting(help=help, **more)}
    return field(default_factory=dict, metadata=entry) if default == {} else field(default=default, metadata=entry)


def table_of(settings: type, *, variables: bool = True) -> Mapping[str, Setting]:
    """The settings that are fields of a class, by name and in their order.

    Args:
        variables: each has a ROBIN_* variable of its name.
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
