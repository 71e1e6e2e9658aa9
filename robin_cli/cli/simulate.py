"""robin simulate: the paper's experiment on recorded ratings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt


def register(app: typer.Typer) -> None:
    """Add the command of this file to ``app``."""
    app.command(
        cls=opt.taking(lambda _: True, simulation=True),
        epilog="Example: robin simulate ratings.csv --budget 50000,100000 --schedulers uniform,robin-hood",
    )(simulate)


def simulate(
    ctx: typer.Context,
    config: Annotated[
        str | None, typer.Option(help="TOML file, or paper_table for the paper's table.", metavar="FILE")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
) -> None:
    """Simulate schedulers on recorded ratings, and print their worst-case errors, or wrong decisions, as CSV.

    A simulated judge draws from a pair's recorded ratings; the error is the largest over all pairs. With --decide it is the
    share of decisions that the mean ratings get wrong, and with --pairwise that of systems in the wrong order.
    """
    from rich.console import Console

    from robin_cli.settings.reading import load_simulation
    from robin_cli.views.messages import Messages
    from robin_cli.views.pairwise_simulated import pairwise_experiment, print_pairwise_csv, say_pairwise
    from robin_cli.views.progress import simulation_shown
    from robin_cli.views.simulated import (
        draw_curves,
        experiment,
        print_csv,
        say_constant,
        say_decisions,
        say_savings,
    )

    settings = load_simulation(ctx.obj, config)
    messages = Messages(Console(stderr=True, highlight=False), quiet=quiet)
    if settings.pairwise:
        with simulation_shown(messages) as progress:
            found = pairwise_experiment(settings, progress)
        print_pairwise_csv(found, sys.stdout)
        say_pairwise(found, messages.note)
        return
    with simulation_shown(messages) as progress:
        subjects, rows = experiment(settings, progress)
    print_csv(rows, settings, sys.stdout)
    say_constant(subjects, messages.note)
    say_savings(rows, settings, messages.note)
    say_decisions(rows, settings, messages.note)
    if settings.plot:
        draw_curves(rows, subjects, Path(settings.plot))
