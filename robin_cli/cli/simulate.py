"""robin simulate: the paper's experiment on recorded ratings."""

from __future__ import annotations

import sys
from pathlib import Path

from robin_cli.cli.options import OF_ROWS, Invocation, command
from robin_cli.cli.output import output_of, show


@command(
    "simulate ratings.csv --budget 50000,100000 --schedulers uniform,robin-hood",
    "config",
    OF_ROWS | {"quiet"},
    words={"config": "TOML file, or one that ships: paper_table, rewardbench2."},
    simulation=True,
)
def simulate(call: Invocation) -> None:
    """Simulate schedulers on recorded ratings.

    It prints their worst-case errors, or wrong decisions, as CSV. A simulated judge draws from a pair's recorded ratings;
    the error is the largest over all pairs. With --decide it is the share of decisions that the mean ratings get wrong, and
    with --pairwise that of systems in the wrong order.
    """
    from robin_cli.show import simulated
    from robin_cli.show.messages import messages_for
    from robin_cli.show.progress import simulation_shown
    from robin_cli.simulate.settings import SIMULATION, load_simulation

    output = output_of(call)
    flags = {name: value for name, value in call.settings.items() if name in SIMULATION}
    settings = load_simulation(flags, call.flags.config)
    messages = messages_for(quiet=call.settings.get("quiet", False))
    with simulation_shown(messages) as progress:
        subjects, rows = simulated.experiment(settings, progress)
    table = simulated.table_of(rows, settings)
    if output.format is None and output.output is None:
        simulated.print_csv(table, sys.stdout)
    else:
        show(table, output, messages.note)
    for note in simulated.notes(subjects, rows, settings):
        messages.note(note)
    if settings.plot:
        simulated.draw(rows, subjects, Path(settings.plot))
