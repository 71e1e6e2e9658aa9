"""robin report: pictures and a table of a run, or of two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path

import typer

from robin_cli.cli.options import OF_SCORES, Invocation, command


@command(
    "report runs/20261120T101500Z-helpfulness -o report.html",
    "runs output figures",
    OF_SCORES | {"show", "guaranteed"},
)
def report(call: Invocation) -> None:
    """Write one HTML file: the answer, charts, and every row.

    It holds all texts, and opens offline.
    """
    from robin_cli.goals.result import View
    from robin_cli.show.messages import messages_for
    from robin_cli.show.report.writing import write_report

    rows = {name: value for name, value in call.settings.items() if name not in OF_SCORES}
    output, figures = call.flags.output, call.flags.figures and Path(call.flags.figures)
    note = messages_for().note
    path = write_report(call.scored_runs(), output, View(**rows), figures or None, note)
    if path is not None:
        typer.echo(f"wrote {output or path}", err=True)
