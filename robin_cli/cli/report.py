"""robin report: pictures and a table of a run, or of two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command(epilog="Example: robin report runs/20261120T101500Z-helpfulness -o report.html")
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="A run directory, or two to compare them pair by pair.", show_default=False, metavar="RUN [RUN]"
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="The HTML file, or - for standard output. (default: RUN/report.html)", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Write one HTML file with pictures first, then every pair with its texts; it opens offline."""
    from robin_cli.views.report.writing import write_report

    path = write_report(runs, output)
    if path is not None:
        typer.echo(f"wrote {output or path}", err=True)
