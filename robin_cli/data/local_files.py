"""Files on this machine that DATA names, and what is there instead of one that cannot be read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from robin_cli.data import registry, remote
from robin_cli.data.rows import Format
from robin_cli.data.workbooks import file_of
from robin_cli.model.errors import InputError, nearest, shown

_MOST_NAMES = 10_000


def local_matches(name: str) -> list[str]:
    """Return the files that a glob matches, sorted; the name of an existing file is that file."""
    if not glob.has_magic(name) or os.path.lexists(name):
        return [name]
    found = glob.glob(name, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute pattern
    matches = sorted(each for each in found if not Path(each).is_dir())
    if not matches:
        pattern = shown(name, 200)
        raise InputError(f"{pattern}: matches no file. Check the pattern: ls {pattern}")
    return matches


def local_file(name: str) -> tuple[Path, str, tuple[Format, str]]:
    """Return the path of a local file, its name in errors, and its format and compression.

    Raises:
        InputError: it cannot be read.
    """
    source = name.encode("utf-8", "backslashreplace").decode()  # a name on disk may be no UTF-8
    with reading(source):
        path = Path(name if os.path.lexists(name) else file_of(name))
        if path.is_dir():
            inside = _readable_in(path)
            holds = f" It holds {', '.join(inside)}." if inside else ""
            step = "Name a file, or several by a glob in quotes."
            raise InputError(f"{source}: a folder, not a file.{holds} {step}")
        if not path.exists():
            raise InputError(f"{source}: {_missing(path)}")
        if not path.is_file():
            raise InputError(
                f"{source}: not a regular file, and it is read twice. Save the data to a file first."
            )
        kind = registry.format_of(path.name)
        if kind is None:
            raise InputError(f"{source}: {registry.unread(path.name)}")
        return path, source, kind


def _missing(path: Path) -> str:
    """Return why a file is not there, and the next step."""
    if path.is_symlink():
        return "a link to a file that is not there. Name the file itself, or make the link anew."
    if not path.parent.is_dir():
        return f"no such file, and no folder {shown(str(path.parent), 200)}. Check the path."
    if close := nearest(path.name, _names_in(path.parent)):
        return f"no such file. Did you mean {shown(close, 200)}?"
    inside = ", ".join(_readable_in(path.parent))
    step = f"The folder has {inside}." if inside else "Check the path."
    return f"no such file. {step}"


def _names_in(folder: Path) -> list[str]:
    with suppress(OSError):  # a folder may be entered without the right to list it
        return [each.name for each in islice(folder.iterdir(), _MOST_NAMES)]
    return []


def _readable_in(folder: Path) -> list[str]:
    """Return the first few files in a folder that robin may read."""
    names = sorted(name for name in _names_in(folder) if registry.format_of(name))
    return [shown(name, 200) for name in names[:3]]


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Raise the errors of the system and the network as InputError."""
    try:
        yield
    except remote.RemoteError as error:
        raise InputError(f"{source}: {error.strerror}. {error.step}.") from None
    except PermissionError:
        raise InputError(
            f"{source}: you may not read it. Ask for the right to, or copy it (ls -l shows whose it "
            "is)."
        ) from None
    except OSError as error:
        fact = error.strerror or shown(error, 80)
        raise InputError(
            f"{source}: cannot be read: {fact}. Check the path and the disk."
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: begins as UTF-16, and is cut short or damaged ({error.reason}). Save it as "
            "UTF-8."
        ) from None
