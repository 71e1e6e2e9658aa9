"""robin status and runs: the state of one run, and of all."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_of_rows, settings_of_rows, show

app = typer.Typer()


@app.command(
    cls=opt.taking(opt.is_of_scores),
    epilog="Example: robin status runs/20261120T101500Z-helpfulness --json",
)
def status(
    ctx: typer.Context,
    run: opt.RunOrScores = None,
    labels: opt.Labels = None,
    details: Annotated[
        bool, typer.Option("--details", help="All that is known of the run, on more than a page.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Show a run's progress, its failures and the answer so far."""
    from robin_cli.show.json import print_json
    from robin_cli.show.status import status_of
    from robin_cli.show.terminal import print_facts, stdout_console
    from robin_cli.show.text import fitted, one_line

    found = status_of(*opt.scored(ctx, [run] if run else []), labels=labels)
    if json:
        print_json(found.facts, indent=True)
        return
    lines = found.lines if details else found.first_lines
    print_facts(stdout_console(soft_wrap=True), lines, a_line_each=not details)
    ends = [*found.found.answer, f"next: {found.next_step}"]
    typer.echo(fitted("\n".join(["", *map(one_line, ends)]), sys.stdout))


@app.command(cls=opt.taking(is_of_rows), epilog="Example: robin runs")
def runs(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder that holds them.")] = Path("runs"),
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, for scripts.")
    ] = False,
) -> None:
    """List the runs here and the state of each, the oldest first."""
    from robin_cli.show.json import print_json
    from robin_cli.show.run_list import run_table, runs_in

    given = settings_of_rows(ctx, by_flags_alone=True)
    found = runs_in(folder)
    for_people = given.format in {None, "table"} and given.output is None
    if json:
        print_json(*found)
    elif found or not for_people:
        say = partial(typer.echo, err=True)
        show([run_table(found)], given, say, for_people=for_people, most=len(found))
    else:
        typer.echo(f"no runs in {folder}; robin judge makes them", err=True)
