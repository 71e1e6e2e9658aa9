"""A program that prints the cells of a sheet as JSON lines, in a process whose memory is limited: a workbook may be hostile.

``python cells.py SHEET BYTES SYS_PATH...`` reads a workbook from standard input and takes at most BYTES of memory. The first
lines are objects: the unpacked size, the names of the sheets, an error. Each row of SHEET (the first sheet if it is "") follows
as a list.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

_MOST_SECONDS = 300
_WHOLE = 2.0**53
_OURS = "results"
"""The sheet that robin writes; sheets "results 2" and so on hold more of its rows."""


def _limit(most: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # not every system has such limits
        import resource

        for name, value in (("RLIMIT_AS", most), ("RLIMIT_CPU", _MOST_SECONDS), ("RLIMIT_CORE", 0)):
            soft, hard = resource.getrlimit(getattr(resource, name))
            lower = value if soft == resource.RLIM_INFINITY else min(value, soft)
            resource.setrlimit(getattr(resource, name), (lower, hard))


def _lines(wanted: str) -> Iterator[object]:
    stream = sys.stdin.buffer
    if zipfile.is_zipfile(stream):
        yield {"unpacked": sum(each.file_size for each in zipfile.ZipFile(stream).infolist())}
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError:
        yield {
            "error": "is read by python-calamine, which is not installed. Install it: pip install python-calamine"
        }
        return
    stream.seek(0)
    try:
        book = CalamineWorkbook.from_filelike(stream)
        yield {"sheets": book.sheet_names}
        sheet = book.get_sheet_by_name(wanted or book.sheet_names[0])
    except PasswordError:
        yield {"error": "is protected by a password. Save a copy without one."}
    except (CalamineError, IndexError, OSError) as error:
        yield {"damaged": str(error) or type(error).__name__}
    else:
        for row in sheet.iter_rows():
            yield list(map(_cell, row))
        further = (
            [f"{_OURS} {number}" for number in range(2, 1 + len(book.sheet_names))]
            if sheet.name == _OURS
            else []
        )
        for name in filter(book.sheet_names.__contains__, further):
            for number, row in enumerate(book.get_sheet_by_name(name).iter_rows()):
                yield (
                    list(map(_cell, row)) if number else []
                )  # each begins with the names of the columns


def _cell(value: object) -> object:
    """Return a cell's value as JSON has it: text, a number, a boolean, a time as text, or None for an empty cell."""
    if value == "":
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _WHOLE else value
    return str(value) if isinstance(value, timedelta) else value


def main() -> None:
    """Write the lines to standard output."""
    wanted, most, *sys.path[:] = sys.argv[1:]
    _limit(int(most))
    import orjson

    for line in _lines(wanted):
        sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
