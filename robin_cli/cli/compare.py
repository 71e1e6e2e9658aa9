"""robin compare: is one system better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_for_people, is_of_rows, settings_of_rows, show

app = typer.Typer()


@app.command(
    cls=opt.taking(lambda each: is_of_rows(each) or opt.is_of_scores(each)),
    epilog="Example: robin compare runs/20261120T101500Z-helpfulness runs/20261121T090000Z-helpfulness",
)
def compare(
    ctx: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run directories or files of scores: two or more on the same prompts, or one with --by. "
            "(default: the newest run)",
            metavar="RUN",
            callback=opt.check_runs,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Column of the data that says which system answered.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            help="Column that says which responses answer the same prompt. (default: the prompt's text)",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    labels: opt.Labels = None,
    robust: Annotated[
        bool,
        typer.Option("--robust", help="Widen all intervals, as if few prompts carried them."),
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="All that a paper needs, also Wilcoxon's p.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Say which system is better, and how sure that is.

    Differences of mean scores are paired by prompt. For those that are not settled it says what would settle them.
    """
    from robin_cli.goals.differences import comparison_of, table_of
    from robin_cli.run.manifest import files_read_by
    from robin_cli.show.comparing import facts_of, print_comparison
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.terminal import stdout_console

    runs = opt.scored(ctx, runs or [], by)
    reads = [name for run in runs for name in files_read_by(run)]
    given = settings_of_rows(ctx, [*reads, *filter(None, [labels])])
    notify = messages_for().note
    found = comparison_of(runs, notify, by=by, match=match, labels=labels, is_robust=robust)
    table = table_of(found, has_details=details)
    if json:
        print_json(facts_of(found, table))
    elif is_for_people(given):
        print_comparison(stdout_console(), found, table)
    else:
        show([table], given, notify, for_people=False)
