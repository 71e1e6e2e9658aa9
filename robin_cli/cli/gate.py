"""robin gate: whether a run meets a build's requirements, by exit code."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_of_rows, settings_of_rows, show

app = typer.Typer()

_option = partial(typer.Option, show_default=False)
Require = Annotated[
    list[str],
    _option(
        help="mean(A)>=N, share(A>=N)>=SHARE, all(A>=N) or compare(X,Y)>=N; repeat the flag.",
        metavar="REQUIREMENT",
    ),
]
ErrorRate = Annotated[
    float, typer.Option(help="How often a verdict on a requirement may be wrong.", metavar="D")
]
Margin = Annotated[
    float | None,
    _option(
        help="In all: a pair whose mean is so near its threshold counts either way. (default: 1/40 of the scale)",
        metavar="E",
    ),
]
By = Annotated[
    str | None,
    _option(
        help="Column that says which system answered, for compare. (default: system)",
        metavar="COLUMN",
    ),
]
Junit = Annotated[
    str | None, _option(help="Write JUnit XML, one test case per requirement.", metavar="FILE")
]
Summary = Annotated[
    str | None,
    _option(
        help="Write Markdown for a build's summary page; - for standard output.", metavar="FILE"
    ),
]


@app.command(
    cls=opt.taking(lambda each: is_of_rows(each) or opt.is_of_scores(each)),
    epilog="Example: robin gate runs/20261120T101500Z-helpfulness --require 'mean(helpfulness)>=3'",
)
def gate(
    ctx: typer.Context,
    require: Require,
    run: opt.RunOrScores = None,
    error_rate: ErrorRate = 0.05,
    margin: Margin = None,
    by: By = None,
    junit: Junit = None,
    summary: Summary = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Pass or fail a build by what a run must meet.

    Exit 0: it passes. 5: it fails. 6: the ratings do not settle it.
    """
    import math

    from robin_cli.goals.gate import gated
    from robin_cli.model.errors import InputError
    from robin_cli.session.inputs import files_read_by
    from robin_cli.show import gate as views
    from robin_cli.show.files import write_text
    from robin_cli.show.json import print_json
    from robin_cli.show.outputs import check_outputs
    from robin_cli.show.text import fitted, one_line

    if not 0.0 < error_rate < 1.0:
        raise InputError(f"--error-rate {error_rate:g}: lies between 0 and 1, as 0.05")
    if margin is not None and not (margin >= 0.0 and math.isfinite(margin)):
        raise InputError(f"--margin {margin:g}: is a number of points, 0 or more")
    given = settings_of_rows(ctx, by_flags_alone=True)
    rows = (
        {"-o" if given.output else "--format": given.output or "-"}
        if given.format or given.output
        else {}
    )
    (run,) = opt.scored(ctx, [run] if run else [], by)
    outputs = {"--junit": junit, "--summary": summary, **rows}
    check_outputs(outputs, files_read_by(run))
    found = gated(run, require, margin=margin, error_rate=error_rate, by=by)
    say: Any = partial(typer.echo, err=True)
    for line in found.notes:
        say(one_line(line))
    for flag, name, made in (
        ("--junit", junit, views.junit_of),
        ("--summary", summary, views.markdown_of),
    ):
        if name is not None:
            write_text(flag, name, made(found))
    if json:
        print_json(views.facts_of(found))
    elif rows:
        show([views.requirement_table(found)], given, say, for_people=given.format == "table")
    is_file = given.output not in {None, "-"}
    if is_file or not (json or rows or "-" in {junit, summary}):
        verdicts = fitted("\n".join(views.lines_of(found)), sys.stderr if is_file else sys.stdout)
        typer.echo(verdicts, err=is_file)
        say("\n".join(views.ends_with(found)))
    raise typer.Exit(views.EXIT_CODES[found.state])
