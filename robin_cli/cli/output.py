"""Output of a command's rows: a table for people, or a file in any format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from robin_cli.cli.options import OF_ROWS, OF_VIEWS, Invocation

if TYPE_CHECKING:
    from pathlib import Path

    from robin_cli.goals.result import Result, View
    from robin_cli.settings.table import Settings
    from robin_cli.show.tables import Table


def output_of(
    call: Invocation, reads: Iterable[str] = (), formats: Sequence[str] | None = None
) -> Settings:
    """Return how to show rows, by flags alone: ``ROBIN_OUTPUT`` names a file for robin judge's scores.

    Args:
        reads: files that the command reads, which none of its own may replace.
        formats: those that it writes; None for those of rows.

    Raises:
        InputError: an output that could not be written.
    """
    from robin_cli.settings.table import Settings
    from robin_cli.show.outputs import FORMATS, check_output

    flags = {name: value for name, value in call.settings.items() if name in OF_ROWS | OF_VIEWS}
    settings = Settings(**flags)
    check_output(settings.format, settings.output, reads, formats or FORMATS)
    return settings


def is_for_people(settings: Settings, *, by_default: bool | None = None) -> bool:
    """Return whether rows are for people; ``by_default``: without a format or file; None: at a terminal."""
    if settings.format is None and settings.output is None:
        return sys.stdout.isatty() if by_default is None else by_default
    return settings.format == "table"


def show(
    table: Table | Sequence[Table],
    settings: Settings,
    notify: Callable[[str], None],
    *,
    for_people: bool,
    run: Path | None = None,
    most: int | None = None,
) -> None:
    """Print tables for people, or write the first to the file that ``settings`` name.

    Args:
        notify: called if an id or a name in a file was changed.
        run: their run, whose settings are written in formats that have a place for them.
        most: print so many rows; None for as many as a terminal shows.
    """
    tables = table if isinstance(table, Sequence) else [table]
    if for_people:
        from robin_cli.show.terminal import MOST_ROWS, print_table, stdout_console

        console = stdout_console()
        for number, each in enumerate(tables):
            if number:
                console.print()
            print_table(console, each, most or MOST_ROWS)
        return
    from robin_cli.show.files import export
    from robin_cli.show.methods import settings_sheet
    from robin_cli.show.outputs import format_named

    is_workbook = format_named(settings.format, settings.output) == "xlsx"
    made_with = dict(settings_sheet(run)) if run is not None and is_workbook else {}
    how: dict[str, Any] = {name: getattr(settings, name) for name in ("output", "raw")}
    export(tables[0].rows(), made_with, fmt=settings.format, notify=notify, **how)
    if settings.output not in {None, "-"}:
        notify(f"wrote {settings.output}")


def view_of(settings: Settings, **more: Any) -> View:
    """Return the view of tables that ``settings`` and further options want."""
    from robin_cli.goals.result import View

    return View(**{name: getattr(settings, name) for name in OF_VIEWS}, **more)


def _return_workbook(
    results: Result, view: View, settings: Settings, note: Callable[[str], None]
) -> bool:
    """Write the workbook that was judged, with the scores. Return False if the output is to have results alone."""
    from robin_cli.show.files import write_to
    from robin_cli.show.outputs import format_named
    from robin_cli.show.sent_workbook import NotReturned, sent_workbook

    output = settings.output or "-"
    if output == "-" or format_named(settings.format, output) != "xlsx":
        return False
    try:
        workbook = sent_workbook(results, view)
    except NotReturned as reason:
        if str(reason):
            note(f"{output} has the results alone: {reason}")
        return False
    write_to("-o", output, lambda file: file.write(workbook))
    note(f"wrote {output}")
    return True


def deliver(
    run: Path,
    settings: Settings,
    facts: Iterable[str] = (),
    most: int | None = None,
    *,
    goes_on: bool = True,
) -> None:
    """Print or write a run's scores as ``settings`` say, then its answer and the next command.

    Args:
        facts: lines before the answer.
        most: the rows that people see.
        goes_on: print the next command, which an interrupted session has printed already.
    """
    from robin_cli.goals.registry import goal_of_run
    from robin_cli.model.errors import StorageError, typed
    from robin_cli.run.reader import read_run
    from robin_cli.show.messages import messages_for
    from robin_cli.show.text import fitted, one_line

    data, for_people = read_run(run), is_for_people(settings)
    note = messages_for(quiet=settings.quiet).note
    try:
        view = view_of(settings)
        results = goal_of_run(data).result(data)
        if for_people:
            typer.echo(fitted(f"{one_line(results.answer[0])}\n", sys.stdout))
            show(results.delivered(view), settings, note, for_people=True, run=run, most=most)
        elif not _return_workbook(results, view, settings, note):
            show(results.table("scores", view), settings, note, for_people=False, run=run)
    except StorageError as error:
        raise StorageError(
            f"{error}. All ratings are kept: robin export {typed(run)} -o FILE"
        ) from error
    if settings.quiet:
        return
    ends = results.ends_with() if goes_on else results.answer
    if settings.output and ends[-1].startswith("next: robin resume"):
        ends = [*ends[:-1], f"{ends[-1]} -o {typed(settings.output)}"]
    for line in (*facts, *results.asides, f"run: {run}", *ends):
        note(line)
