"""robin compare: is one system better than another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt

app = typer.Typer()


@app.command(
    cls=opt.taking(lambda each: each.name in {"format", "output", "raw"}),
    epilog="Example: robin compare runs/20261120T101500Z-helpfulness runs/20261121T090000Z-helpfulness",
)
def compare(
    ctx: typer.Context,
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run directories: two or more on the same prompts, or one with --by.",
            metavar="RUN...",
            show_default=False,
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(help="Column of the data that says which system answered.", metavar="COLUMN", show_default=False),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            help="Column that says which responses answer the same prompt. (default: the prompt's text)",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    anytime: Annotated[
        bool, typer.Option("--anytime", help="Intervals that hold however often one looks; 1.6 times as wide.")
    ] = False,
    labels: opt.Labels = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Say which system is better: differences of mean scores, paired by prompt, and what would settle them."""
    from rich.console import Console

    from robin_cli.settings.reading import checked
    from robin_cli.settings.table import Settings
    from robin_cli.views.comparing import comparison_of, facts_of, print_comparison, table_of
    from robin_cli.views.export import Results, check_output, export
    from robin_cli.views.messages import Messages, print_json

    given = Settings(**checked(ctx.obj))
    check_output(given.format, given.output, [] if labels is None else [labels])
    notify = Messages(Console(stderr=True, highlight=False), quiet=False).note
    found = comparison_of(runs, notify, by=by, match=match, anytime=anytime, labels=labels)
    if json:
        print_json(facts_of(found))
    elif given.format == "table" or (given.format is None and given.output is None and sys.stdout.isatty()):
        print_comparison(Console(), found)
    else:
        export(Results.of(table_of(found)), {}, fmt=given.format, output=given.output, raw=given.raw, notify=notify)
