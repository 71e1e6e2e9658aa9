"""The cells of a sheet as lines of JSON. A program of its own: a stranger's workbook may take all memory that a process has.

``python cells.py SHEET BYTES SYS_PATH...`` reads the workbook that is its standard input, in so much memory at most. The
first lines are objects: what the file unpacks to, which sheets there are, what is wrong. Then comes each row of SHEET, which
is the first where it is "", as a list.
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
"""What robin's own sheet is called; those behind it, "results 2" and so on, are more of its rows."""


def _limit(most: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # where the system knows no such limits
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
        yield {"error": "is read by python-calamine, which is not installed. Install it: pip install python-calamine"}
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
        further = [f"{_OURS} {number}" for number in range(2, 1 + len(book.sheet_names))] if sheet.name == _OURS else []
        for name in filter(book.sheet_names.__contains__, further):
            for number, row in enumerate(book.get_sheet_by_name(name).iter_rows()):
                yield list(map(_cell, row)) if number else []  # each begins with the names of the columns


def _cell(value: object) -> object:
    """What a cell holds: text, a number, true or false, a time as text; None where it is empty."""
    if value == "":
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _WHOLE else value
    return str(value) if isinstance(value, timedelta) else value


def main() -> None:
    """Write the lines."""
    wanted, most, *sys.path[:] = sys.argv[1:]
    _limit(int(most))
    import orjson

    for line in _lines(wanted):
        sys.stdout.buffer.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
