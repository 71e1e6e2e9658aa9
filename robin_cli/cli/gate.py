"""robin gate: does a run meet what a build requires of it; the exit code says."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_of_rows, settings_of_rows, show

app = typer.Typer()


@app.command(
    cls=opt.taking(is_of_rows),
    epilog="Example: robin gate runs/20261120T101500Z-helpfulness --require 'mean(helpfulness)>=3'",
)
def gate(
    ctx: typer.Context,
    run: opt.Run,
    require: Annotated[
        list[str],
        typer.Option(
            help="mean(NAME)>=NUMBER, share(NAME>=NUMBER)>=SHARE, all(NAME>=NUMBER) or compare(A,B)>=NUMBER, A and B being "
            "systems of the run or two runs; also with >, <=, <; may be given again.",
            metavar="REQUIREMENT",
            show_default=False,
        ),
    ],
    error_rate: Annotated[
        float, typer.Option(help="How often a verdict on a requirement may be wrong.", metavar="D")
    ] = 0.05,
    margin: Annotated[
        float | None,
        typer.Option(
            help="In share and all: a pair whose mean is so near its threshold counts either way. (default: 1/40 of the scale)",
            metavar="E",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Column that says which system answered, for compare. (default: system)",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    junit: Annotated[
        str | None, typer.Option(help="Write JUnit XML, a test case a requirement.", metavar="FILE", show_default=False)
    ] = None,
    summary: Annotated[
        str | None,
        typer.Option(
            help="Write Markdown for a build's summary page; - for standard output.", metavar="FILE", show_default=False
        ),
    ] = None,
    json: opt.Json = False,
) -> None:
    """Say whether a run meets requirements: pass (exit 0), fail (5), or not settled by its ratings (6)."""
    import math

    from robin_cli.model.errors import InputError
    from robin_cli.render.files import check_output, write_text
    from robin_cli.render.json import print_json
    from robin_cli.render.text import one_line
    from robin_cli.views.gate import (
        EXIT_CODES,
        check_outputs,
        facts_of,
        gated,
        junit_of,
        lines_of,
        markdown_of,
        requirement_table,
    )

    if not 0.0 < error_rate < 1.0:
        raise InputError(f"--error-rate {error_rate:g}: lies between 0 and 1, as 0.05")
    if margin is not None and not (margin >= 0.0 and math.isfinite(margin)):
        raise InputError(f"--margin {margin:g}: is a number of points, 0 or more")
    given = settings_of_rows(ctx, by_flags_alone=True)
    check_output(given.format, given.output)
    is_plain = given.format is None and given.output is None
    rows = {} if is_plain else {"-o" if given.output else "--format": given.output or "-"}
    check_outputs({"--junit": junit, "--summary": summary, **rows}, as_json=json)
    found = gated(run, require, margin=margin, error_rate=error_rate, by=by)
    for line in found.notes:
        typer.echo(one_line(line), err=True)
    if junit is not None:
        write_text("--junit", junit, junit_of(found))
    if summary is not None:
        write_text("--summary", summary, markdown_of(found))
    if json:
        print_json(facts_of(found))
    elif not is_plain:
        show([requirement_table(found)], given, {}, partial(typer.echo, err=True), for_people=given.format == "table")
    elif "-" not in {junit, summary}:
        typer.echo("\n".join(lines_of(found)))
    raise typer.Exit(EXIT_CODES[found.state])
