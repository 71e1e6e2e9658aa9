"""robin gate: whether a run meets a build's requirements, by exit code."""

from __future__ import annotations

import sys

import typer

from robin_cli.cli.options import OF_ROWS, OF_SCORES, Invocation, command
from robin_cli.cli.output import output_of, show
from robin_cli.model.errors import InputError


@command(
    "gate runs/20261120T101500Z-helpfulness --require 'mean(helpfulness)>=3'",
    "run require error_rate margin by junit summary json",
    OF_ROWS | OF_SCORES,
    words={"by": "Column that says which system answered, for compare. (default: system)"},
)
def gate(call: Invocation) -> None:
    """Pass or fail a build by what a run must meet.

    Exit 0: it passes. 5: it fails. 6: the ratings do not settle it.
    """
    from robin_cli.goals.gate import check_requirements
    from robin_cli.run.manifest import files_read_by
    from robin_cli.show import gate as views
    from robin_cli.show.files import write_text
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.outputs import check_outputs
    from robin_cli.show.text import fitted

    flags, output = call.flags, output_of(call)
    if not flags.require:
        raise InputError("--require is missing: say what to meet, as --require 'mean(score)>=3'")
    has_rows = bool(output.format or output.output)
    rows = {"-o" if output.output else "--format": output.output or "-"} if has_rows else {}
    (run,) = call.scored_runs()
    pages = {"--junit": flags.junit, "--summary": flags.summary}
    json = {"--json": "-" if flags.json else None}
    check_outputs({**pages, **rows, **json}, files_read_by(run))
    verdicts = check_requirements(
        run, flags.require, margin=flags.margin, error_rate=flags.error_rate, by=flags.by
    )
    note = messages_for().note
    for line in verdicts.notes:
        note(line)
    for (flag, name), make in zip(pages.items(), (views.junit_of, views.markdown_of), strict=True):
        if name is not None:
            write_text(flag, name, make(verdicts))
    if flags.json:
        print_json(views.facts_of(verdicts))
    elif rows:
        show(views.requirement_table(verdicts), output, note)
    is_file = output.output not in {None, "-"}
    if is_file or not (flags.json or rows or "-" in pages.values()):
        lines = fitted("\n".join(views.lines_of(verdicts)), sys.stderr if is_file else sys.stdout)
        typer.echo(lines, err=is_file)
        for line in views.ends_with(verdicts):
            note(line)
    raise typer.Exit(views.EXIT_CODES[verdicts.state])
