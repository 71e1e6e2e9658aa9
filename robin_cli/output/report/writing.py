"""Where a report goes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from robin_cli.errors import InputError, StorageError
from robin_cli.output.report.page import html
from robin_cli.runs.reading import is_locked, read_run

_MOST_RUNS = 2


def write_report(runs: Sequence[Path], output: str | None) -> Path | None:
    """Write the report of one run, or of two, to ``output``: None for RUN/report.html (report.html here for two), - for stdout.

    Returns:
        The file that was written, if any.

    Raises:
        InputError: more than two runs, or two that cannot be compared. RunError, StorageError: a run cannot be read, or the
            file not be written.
    """
    if len(runs) > _MOST_RUNS:
        raise InputError(f"robin report takes one run, or two to compare; {len(runs)} were given")
    working = [is_locked(run) for run in runs]
    data = [read_run(run) for run in runs]
    if len(data) == 1:
        from robin_cli.output.report.single import page_of

        page = page_of(data[0], working=working[0])
    else:
        from robin_cli.output.report.comparison import comparison_of

        page = comparison_of(data[0], data[1], working=(working[0], working[1]))
    text = html(page)
    if output == "-":
        sys.stdout.buffer.write(text.encode())
        return None
    path = Path(output) if output else (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.touch(mode=0o600)  # it holds prompts
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"{path}: could not be written ({error.strerror}); name another file with -o") from error
    return path
