"""Output of a command's rows: a table on a terminal, or a file in any format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from robin_cli.goals.found import Found, View
    from robin_cli.settings.setting import Setting
    from robin_cli.settings.table import Settings
    from robin_cli.show.tables import Table

_OF_ROWS = frozenset({"format", "output", "raw"})
OF_SCORES = frozenset({"with_text", "wide", "show", "guaranteed"})


def is_of_rows(setting: Setting) -> bool:
    """Return whether every command that shows rows has this setting."""
    return setting.name in _OF_ROWS


def settings_of_rows(
    ctx: typer.Context,
    reads: Iterable[str] = (),
    *,
    by_flags_alone: bool = False,
    known: Sequence[str] | None = None,
) -> Settings:
    """Return how to show rows.

    Args:
        reads: files that the command reads, which none of its own may replace.
        known: the formats; None for those of rows.
        by_flags_alone: variables say nothing: ``ROBIN_OUTPUT`` names a file for scores, not for what this command shows.

    Raises:
        InputError: an output that could not be written.
    """
    from robin_cli.settings.reading import checked
    from robin_cli.settings.table import Settings
    from robin_cli.show.outputs import FORMATS, check_output

    given = {name: value for name, value in ctx.obj.items() if name in _OF_ROWS | OF_SCORES}
    for name in list(given) if by_flags_alone else ():
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "ENVIRONMENT":
            del given[name]
    settings = Settings(**checked(given))
    check_output(settings.format, settings.output, reads, known or FORMATS)
    return settings


def is_for_people(given: Settings) -> bool:
    """Return whether rows go to people at a terminal, because no other output was requested."""
    return given.format == "table" or (
        given.output is None and given.format is None and sys.stdout.isatty()
    )


def show(
    tables: Sequence[Table],
    given: Settings,
    notify: Callable[[str], None],
    *,
    for_people: bool,
    run: Path | None = None,
    most: int | None = None,
) -> None:
    """Print ``tables``, or write the first to a file, as set in ``given``.

    Args:
        notify: called if an id or a name in a file was changed.
        for_people: print them.
        run: their run, whose settings are written in formats that have a place for them.
        most: print so many rows; None for as many as a terminal shows.
    """
    if for_people:
        from robin_cli.show.terminal import MOST_ROWS, print_table, stdout_console

        console = stdout_console()
        for number, table in enumerate(tables):
            if number:
                console.print()
            print_table(console, table, most or MOST_ROWS)
        return
    from robin_cli.show.files import export
    from robin_cli.show.outputs import format_named

    made_with: dict[str, Any] = {}
    if run is not None and format_named(given.format, given.output) == "xlsx":
        from robin_cli.show.methods import settings_sheet

        made_with = dict(settings_sheet(run))
    how: dict[str, Any] = {"fmt": given.format, "output": given.output, "raw": given.raw}
    export(tables[0].rows(), made_with, notify=notify, **how)
    if given.output not in {None, "-"}:
        notify(f"wrote {given.output}")


def _return_workbook(
    found: Found, view: View, settings: Settings, notify: Callable[[str], None]
) -> bool:
    """Write the workbook that was judged, with the scores; return False if the output is to have results alone."""
    from robin_cli.show.files import write_to
    from robin_cli.show.outputs import format_named
    from robin_cli.show.sent_workbook import NotReturned, sent_workbook

    output = settings.output or "-"
    if output == "-" or format_named(settings.format, output) != "xlsx":
        return False
    try:
        workbook = sent_workbook(found, view)
    except NotReturned as reason:
        if str(reason):
            notify(f"{output} has the results alone: {reason}")
        return False
    write_to("-o", output, lambda file: file.write(workbook))
    notify(f"wrote {output}")
    return True


def deliver(
    run: Path,
    settings: Settings,
    facts: Iterable[str] = (),
    most: int | None = None,
    *,
    goes_on: bool = True,
) -> None:
    """Print or write a run's scores as set in ``settings``, then its answer and the next command.

    The first line of the answer stands above rows that people see, too; ``facts`` stand before the answer. ``most``:
    the rows that people see; ``goes_on``: print the next command, which an interrupted session has printed already.
    """
    from robin_cli.goals.found import View
    from robin_cli.goals.registry import goal_of_run
    from robin_cli.model.errors import StorageError, typed
    from robin_cli.run.reader import read_run
    from robin_cli.show.messages import messages_for
    from robin_cli.show.text import fitted, one_line

    data, for_people = read_run(run), is_for_people(settings)
    messages = messages_for(quiet=settings.quiet)
    try:
        view = View(**{name: getattr(settings, name) for name in OF_SCORES})
        found = goal_of_run(data).found(data)
        tables = found.delivered(view) if for_people else [found.table("scores", view)]
        if for_people:
            typer.echo(fitted(f"{one_line(found.answer[0])}\n", sys.stdout))
        if for_people or not _return_workbook(found, view, settings, messages.note):
            show(tables, settings, messages.note, for_people=for_people, run=run, most=most)
    except StorageError as error:
        raise StorageError(
            f"{error}. All ratings are kept: robin export {typed(run)} -o FILE"
        ) from error
    if settings.quiet:
        return
    ends = found.ends_with() if goes_on else found.answer
    if settings.output and ends[-1].startswith("next: robin resume"):
        ends = [*ends[:-1], f"{ends[-1]} -o {typed(settings.output)}"]
    for line in (*facts, *found.asides, f"run: {run}", *ends):
        messages.note(line)
