"""Write a report to its file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from robin_cli.data.local import check_whole_file, whole_file
from robin_cli.data.outputs import output_file
from robin_cli.goals.checks import check_shown
from robin_cli.goals.result import View
from robin_cli.model.errors import InputError, StorageError, shown, typed, writing
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import files_read_by, name_of
from robin_cli.run.reader import read_run
from robin_cli.show.charts import Chart
from robin_cli.show.drawing import drawn, letters_without_font
from robin_cli.show.outputs import check_not_read, check_writable
from robin_cli.show.report.page import html
from robin_cli.show.status import READ

_FILE = "report.html"
_MOST_RUNS = 2
_SHOWN = 12


def write_report(
    runs: Sequence[Path],
    output: str | None,
    view: View | None = None,
    figures: Path | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Path | None:
    """Write the report of one run, or of two, to ``output``: None for RUN/report.html (report.html here for two), - for stdout.

    Args:
        view: the options of the rows.
        figures: a folder that gets each picture as SVG and PDF, for papers.
        notify: gets a line about letters that no font has.

    Returns:
        The file that was written, if any.

    Raises:
        InputError: more than two runs, two that cannot be compared, or ``output`` is what one was made from. RunError,
            StorageError: a run cannot be read, or the file not be written.
    """
    if len(runs) > _MOST_RUNS:
        raise InputError(f"robin report takes one run, or two to compare; {len(runs)} were given")
    is_default = output is None  # a place that nobody named: a link there is not followed
    path = str(_place(runs)) if output is None else output
    if path != "-":
        _check(path, runs, is_default=is_default)
    from robin_cli.show.report.pages import page_of

    working = [is_locked(run) for run in runs]
    data = [read_run(run, READ) for run in runs]
    check_shown(() if view is None else view.show, lambda: data[0].column_names)
    page = page_of(data, working, view)
    if figures is not None:
        write_figures(page.charts, figures, notify)
    text = html(page).encode()
    if path == "-":
        sys.stdout.buffer.write(text)
        return None
    # it holds prompts
    opened = whole_file(Path(path)) if is_default else output_file(path, mode=0o600)
    with writing(path, "; name another file with -o"), opened as file:
        file.write(text)
    return Path(path)


def write_figures(charts: Sequence[Chart], folder: Path, notify: Callable[[str], None]) -> None:
    """Write each chart as SVG and PDF to ``folder``. StorageError if the disk refuses."""
    with writing(folder, "; name another folder with --figures"):
        folder.mkdir(parents=True, exist_ok=True)
    if boxes := "".join(map(letters_without_font, charts)):
        notify(
            f'no font of this machine has "{shown(boxes, _SHOWN)}": PDF shows boxes, and SVG the fonts of who reads it; for '
            "both install a font that has them, such as Noto Sans CJK"
        )
    for number, chart in enumerate(charts, 1):
        name = re.sub(r"\W+", "-", chart.title.lower()).strip("-")
        for form in ("svg", "pdf"):
            path = folder / f"{number:02}-{name}.{form}"
            with writing(path, "; name another folder with --figures"), whole_file(path) as file:
                file.write(drawn(chart, form))
    notify(f"{len(charts)} pictures as SVG and PDF in {folder}")


def _place(runs: Sequence[Path]) -> Path:
    is_of_scores = name_of(runs[0]) != str(runs[0])  # its folder goes with this process
    return Path(_FILE) if is_of_scores or len(runs) > 1 else runs[0] / _FILE


def _check(path: str, runs: Sequence[Path], *, is_default: bool) -> None:
    """Raise InputError, or StorageError, if ``path`` cannot be written, before the minutes a report may take."""
    for run in runs:
        check_not_read("-o", path, files_read_by(run))  # no run is the first thing to say
    if not is_default:
        check_writable("-o", path)
        return
    try:
        check_whole_file(Path(path))
    except OSError as error:
        names = [name_of(run) for run in runs]
        output = typed(f"{Path(names[0]).absolute().name}.html")
        command = " ".join(["robin report", *map(typed, names), "-o", output])
        raise StorageError(
            f"{path}: cannot be written ({error.strerror}); name another place: {command}"
        ) from error
