"""robin status and runs: the state of one run, and of all."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from robin_cli.cli.options import OF_ROWS, OF_SCORES, Invocation, command
from robin_cli.cli.output import is_for_people, output_of, show


@command("status runs/20261120T101500Z-helpfulness --json", "run labels details json", OF_SCORES)
def status(call: Invocation) -> None:
    """Show a run's progress, its failures and the answer so far."""
    from robin_cli.show.json import print_json
    from robin_cli.show.status import status_of
    from robin_cli.show.terminal import print_facts, stdout_console
    from robin_cli.show.text import fitted, one_line

    flags = call.flags
    state = status_of(*call.scored_runs(), labels=flags.labels)
    if flags.json:
        print_json(state.facts, indent=True)
        return
    lines = state.lines if flags.details else state.first_lines
    print_facts(stdout_console(soft_wrap=True), lines, a_line_each=not flags.details)
    ends = [*state.result.answer, f"next: {state.next_step}"]
    typer.echo(fitted("\n".join(["", *map(one_line, ends)]), sys.stdout))


@command("runs", "folder json", OF_ROWS)
def runs(call: Invocation) -> None:
    """List the runs here and the state of each, the oldest first."""
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.run_list import run_table, runs_in

    folder, note = Path(call.flags.folder), messages_for().note
    output, facts = output_of(call), runs_in(folder)
    if call.flags.json:
        print_json(*facts)
    elif facts or not is_for_people(output, by_default=True):
        show(run_table(facts), output, note, for_people=True, most=len(facts))
    else:
        note(f"no runs in {folder}; robin judge makes them")
