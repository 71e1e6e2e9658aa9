"""The tree of errors that a user can meet. An error is a fact, a place and a next step, and has an exit code.

RobinError            1
├── InputError        2  bad data, a bad flag, settings that do not fit together
├── RunError          2  a run directory that cannot be used in this way
│   └── StorageError  1  the disk refuses to write or read
├── EndpointError     3  the endpoint cannot be used: key refused, model unknown, every call failing
│   ├── ClusterLost   3  the machines that make the calls are out of reach
│   └── Unrated       3  no answer has a rating
└── LimitReached      4  a limit other than the budget stopped the run
"""

from __future__ import annotations

import difflib
import errno
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RobinError(Exception):
    """The root. The CLI prints it and exits with ``exit_code``."""

    exit_code = 1


class InputError(RobinError):
    exit_code = 2


class Damaged(InputError):
    """A file whose bytes have changed since they were written. ``fact`` leaves out the next step, which differs for a run."""

    def __init__(self, fact: str) -> None:
        super().__init__(f"{fact}. Write or download it again.")
        self.fact = fact


class RunError(RobinError):
    exit_code = 2


class StorageError(RunError):
    exit_code = 1


class DiskFull(StorageError):
    """The disk takes no more at the moment. ``fact`` leaves out the next step: the caller may try again."""

    def __init__(self, fact: str, step: str) -> None:
        super().__init__(fact + step)
        self.fact = fact


class ReadAs(UserWarning):
    """A file was read in an unusual way. It is a warning, as another reading is possible."""


class EndpointError(RobinError):
    exit_code = 3


class Unrated(EndpointError):
    """No call was answered with a rating."""


class ClusterLost(EndpointError):
    """The process leaves at once: the client of the cluster would soon end it in its own way."""


class LimitReached(RobinError):
    exit_code = 4


@contextmanager
def writing(place: object, step: str = "") -> Iterator[None]:
    """Turn an OSError of the body into a StorageError: ``place`` could not be written, the reason, and the next ``step``."""
    try:
        yield
    except OSError as error:
        raise unwritten(place, error, step) from error


def unwritten(place: object, error: OSError, step: str) -> StorageError:
    """Return the error for a ``place`` that could not be written, with the next ``step``."""
    fact = f"{place}: could not be written ({error.strerror})"
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    return DiskFull(fact, step) if is_full else StorageError(fact + step)


def size(count: int) -> str:
    """Return a number of bytes as errors show it: 32 MiB, 1.5 GiB."""
    from humanize import naturalsize

    return naturalsize(count, binary=True, format="%.4g")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown ``name``: '; did you mean "x"?', or "" if none of ``known`` is near."""
    near = nearest(name.lower(), known)
    return f'; did you mean "{near}"?' if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of ``known`` names that ``name`` is a misspelling of; None if none is, or if two are as near."""
    near = difflib.get_close_matches(name, list(known), n=2, cutoff=0.75)
    ratios = [difflib.SequenceMatcher(None, each, name).ratio() for each in near]
    return near[0] if near and ratios[0] > max(ratios[1:], default=0) else None


READ_WITH: dict[str, str] = {}
"""The flags that the files of scores of this command need, by their names."""


def typed(value: object) -> str:
    """Return a path as words of a command to copy: quoted for a shell, and never an option; - stays as it is.

    A file of scores is followed by the flags that it was read with.
    """
    word = str(value)
    path = shlex.quote(f"./{word}" if word.startswith("-") and word != "-" else word)
    return " ".join(filter(None, [path, READ_WITH.get(word)]))


def option(flag: str, value: object) -> str:
    """Return an option and its value as words of a command to copy; a value with a leading - stays a value."""
    word = str(value)
    return shlex.quote(f"{flag}={word}") if word.startswith("-") else f"{flag} {shlex.quote(word)}"


def abridged(text: str, limit: int = 40) -> str:
    """Return ``text`` cut in its middle to ``limit`` characters: names often differ at their ends."""
    if len(text) <= limit:
        return text
    return f"{text[: (limit - 1) // 2]}…{text[-(limit // 2) :]}"


def shown(value: object, limit: int = 40) -> str:
    """Return ``value`` as errors show it: at most ``limit`` characters, and none that could steer a terminal."""
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
