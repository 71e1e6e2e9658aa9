"""robin report: pictures and a table of a run, or of two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt

app = typer.Typer()


@app.command(
    cls=opt.taking(lambda each: opt.is_of_scores(each) or each.name in {"show", "guaranteed"}),
    epilog="Example: robin report runs/20261120T101500Z-helpfulness -o report.html",
)
def report(
    ctx: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A run or a file of scores, or two to compare pair by pair. (default: the newest run)",
            show_default=False,
            metavar="RUN",
            callback=opt.check_runs,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="The HTML file, or - for standard output. (default: RUN/report.html)",
            metavar="FILE",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the pictures as SVG and PDF, for papers.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one HTML file: the answer, charts, and every row.

    It holds all texts, and opens offline.
    """
    from robin_cli.goals.found import View
    from robin_cli.settings.reading import checked
    from robin_cli.show.messages import messages_for
    from robin_cli.show.report.writing import write_report

    rows = {name: ctx.obj.pop(name) for name in ("show", "guaranteed") if name in ctx.obj}
    view = View(**checked(rows))
    path = write_report(opt.scored(ctx, runs or []), output, view, figures, messages_for().note)
    if path is not None:
        typer.echo(f"wrote {output or path}", err=True)
