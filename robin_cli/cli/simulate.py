"""robin simulate: the paper's experiment on recorded ratings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_of_rows, settings_of_rows, show

app = typer.Typer()


@app.command(
    cls=opt.taking(is_of_rows, simulation=True),
    epilog="Example: robin simulate ratings.csv --budget 50000,100000 --schedulers uniform,robin-hood",
)
def simulate(
    ctx: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            help="TOML file, or one that ships: paper_table, rewardbench2.", metavar="FILE"
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")
    ] = False,
) -> None:
    """Simulate schedulers on recorded ratings.

    It prints their worst-case errors, or wrong decisions, as CSV. A simulated judge draws from a pair's recorded ratings;
    the error is the largest over all pairs. With --decide it is the share of decisions that the mean ratings get wrong, and
    with --pairwise that of systems in the wrong order.
    """
    from robin_cli.show import simulated
    from robin_cli.show.messages import messages_for
    from robin_cli.show.progress import simulation_shown
    from robin_cli.simulate.settings import SIMULATION, load_simulation

    given = settings_of_rows(ctx, by_flags_alone=True)
    settings = load_simulation(
        {name: value for name, value in ctx.obj.items() if name in SIMULATION}, config
    )
    messages = messages_for(quiet=quiet)
    with simulation_shown(messages) as progress:
        subjects, rows = simulated.experiment(settings, progress)
    table = simulated.table_of(rows, settings)
    if given.format is None and given.output is None:
        simulated.print_csv(table, sys.stdout)
    else:
        show([table], given, messages.note, for_people=given.format == "table")
    for note in simulated.notes(subjects, rows, settings):
        messages.note(note)
    if settings.plot:
        simulated.draw(rows, subjects, Path(settings.plot))
