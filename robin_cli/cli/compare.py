"""robin compare: is one system better than another."""

from __future__ import annotations

from functools import partial

from robin_cli.cli.options import OF_ROWS, OF_SCORES, Invocation, command
from robin_cli.cli.output import output_of, show


@command(
    "compare runs/20261120T101500Z-helpfulness runs/20261121T090000Z-helpfulness",
    "runs by match labels robust details json",
    OF_ROWS | OF_SCORES,
)
def compare(call: Invocation) -> None:
    """Say which system is better, and how sure that is.

    Differences of mean scores are paired by prompt. For those that are not settled it says what would settle them.
    """
    from robin_cli.goals.differences import comparison_of, table_of
    from robin_cli.run.manifest import files_read_by
    from robin_cli.show.comparing import facts_of, print_comparison
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.terminal import stdout_console

    flags, runs = call.flags, call.scored_runs()
    reads = [name for run in runs for name in files_read_by(run)]
    output = output_of(call, [*reads, *filter(None, [flags.labels])])
    note = messages_for().note
    comparison = comparison_of(
        runs,
        note,
        by=flags.by,
        match=flags.match,
        labels=flags.labels,
        is_robust=flags.robust,
    )
    table = table_of(comparison, has_details=flags.details)
    if flags.json:
        print_json(facts_of(comparison, table))
        return
    page = partial(print_comparison, stdout_console(), comparison, table)
    show(table, output, note, page=page)
