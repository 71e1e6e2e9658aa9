"""What can go wrong for a user, as a tree. An error is a fact, a place and a next step, and has an exit code.

RobinError            1
├── InputError        2  bad data, a bad flag, settings that do not fit together
├── RunError          2  a run directory that cannot be used as asked
│   └── StorageError  1  the disk would not take or give back what it should
├── EndpointError     3  the endpoint cannot be used: key refused, model unknown, every call failing
│   └── ClusterLost   3  the machines that make the calls are out of reach
└── LimitReached      4  a limit other than the budget stopped the run
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RobinError(Exception):
    """The root: one ``except RobinError`` in the CLI prints it and leaves with ``exit_code``."""

    exit_code = 1


class InputError(RobinError):
    exit_code = 2


class Damaged(InputError):
    """A file whose bytes are not those that were written. ``fact`` says so without the next step, which differs for a run."""

    def __init__(self, fact: str) -> None:
        super().__init__(f"{fact}. Write or download it again.")
        self.fact = fact


class RunError(RobinError):
    exit_code = 2


class StorageError(RunError):
    exit_code = 1


class RepeatedJudgments(UserWarning):
    """A run holds several judgments of a call, of which the first one counts. It is a warning: all else can be read."""


class LostJudgments(UserWarning):
    """A run goes on without some of its judgments, as its owner said. It is a warning: all else can be read."""


class ReadAs(UserWarning):
    """A file is not written as most are: how it was read. It is a warning, for what it says might be taken otherwise."""


class EndpointError(RobinError):
    exit_code = 3


class ClusterLost(EndpointError):
    """Left at once: what speaks to the cluster would end this process in its own way, and soon."""


class LimitReached(RobinError):
    exit_code = 4


@contextmanager
def writing(place: object, step: str = "") -> Iterator[None]:
    """Make an OSError of the body a StorageError: ``place`` could not be written, why, and the next ``step``."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{place}: could not be written ({error.strerror}){step}") from error


def size(count: int) -> str:
    """So many bytes, as an error tells them: 32 MiB, 1.5 GiB."""
    from humanize import naturalsize

    return naturalsize(count, binary=True, format="%.4g")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown ``name``: '; did you mean "x"?', or nothing if none of ``known`` is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


def typed(value: object) -> str:
    """Return a path as a word of a command to copy: quoted for a shell, and never an option; - stays what it is."""
    word = str(value)
    return shlex.quote(f"./{word}" if word.startswith("-") and word != "-" else word)


def option(flag: str, value: object) -> str:
    """Return an option with its value as words of a command to copy; what the value begins with makes no option of it."""
    word = str(value)
    return shlex.quote(f"{flag}={word}") if word.startswith("-") else f"{flag} {shlex.quote(word)}"


def shown(value: object, limit: int = 40) -> str:
    """The value as an error may show it: short, and with nothing in it that could steer a terminal."""
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
