"""robin merge: shards of one data set into one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robin_cli.model.errors import typed

app = typer.Typer()


@app.command(epilog="Example: robin merge runs/part-1 runs/part-2 runs/part-3 -o runs/all")
def merge(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run directories, made with the same settings on different pairs, or a quoted glob. They stay as they are.",
            metavar="RUN...",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The run directory to make; there must be none.", metavar="RUN", show_default=False
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
) -> None:
    """Make one run of shards: runs that were made apart, with the same settings, on different pairs.

    All that reads a run reads the merged one: status, export, report, compare, gate, simulate. Its budget is the sum of theirs,
    and robin resume goes on with what is left of it.
    """
    from dataclasses import asdict

    from rich.console import Console

    from robin_cli.model.records import number_of
    from robin_cli.render.json import print_json
    from robin_cli.runner.merging import merge_runs
    from robin_cli.views.messages import Messages

    messages = Messages(Console(stderr=True, highlight=False), quiet=False)
    with messages.busy(f"merging {number_of(len(runs), 'run')}"):
        made = merge_runs(runs, output)
    for note in made.notes:
        messages.note(note)
    if json:
        facts = {**asdict(made), "path": str(made.path), "runs": [str(each) for each in made.runs]}
        print_json({"run": facts.pop("path"), **facts})
        return
    budget = f"{made.spent:,} of {made.budget:,} calls" if made.budget_usd is None else f"{made.spent:,} calls"
    messages.note(
        f"merged {number_of(len(made.runs), 'run')} into {made.path}: {number_of(made.pairs, 'pair')}, {budget} spent; next: "
        f"robin status {typed(made.path)}"
    )
