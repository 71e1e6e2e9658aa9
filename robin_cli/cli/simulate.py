"""robin simulate: the paper's experiment on recorded ratings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from robin_cli.output.simulated import SimulateConfig

_SETTINGS = "Settings; also in the table simulate of a TOML file"


def register(app: typer.Typer) -> None:
    """Add the command of this file to ``app``."""
    app.command(epilog="Example: robin simulate ratings.csv --budget 50000,100000 --schedulers uniform,robin-hood")(
        simulate
    )


def simulate(
    pool: Annotated[
        str | None,
        typer.Argument(
            help="Recorded ratings: a table pair_id, rating[, attribute], a run, or data that several people rated.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Calls in all; several by commas.", rich_help_panel=_SETTINGS)
    ] = None,
    schedulers: Annotated[
        str | None, typer.Option(help="By commas. (default: uniform,robin-hood,robin)", rich_help_panel=_SETTINGS)
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Repetitions. (default: 50)", rich_help_panel=_SETTINGS)] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same gives the same table. (default: 0)", rich_help_panel=_SETTINGS)
    ] = None,
    attribute: Annotated[
        str | None, typer.Option(help="Sets of the pool to take, by commas. (default: all)", rich_help_panel=_SETTINGS)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Take the first K pairs of each.", metavar="K", rich_help_panel=_SETTINGS)
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="As 0-4. (default: from the ratings)", rich_help_panel=_SETTINGS)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="ROBIN-HOOD's. (default: 0.007)", rich_help_panel=_SETTINGS)
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="ROBIN-HOOD's: practice or theory.", rich_help_panel=_SETTINGS)
    ] = None,
    objective: Annotated[str | None, typer.Option(help="worst-case or mean-error.", rich_help_panel=_SETTINGS)] = None,
    plot: Annotated[
        str | None, typer.Option(help="Draw a .png, .svg or .html file.", metavar="FILE", rich_help_panel=_SETTINGS)
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="TOML file, or paper_table for the paper's table.", metavar="FILE")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False,
) -> None:
    """Simulate schedulers on recorded ratings, and print their worst-case errors as CSV.

    A simulated judge draws from a pair's recorded ratings; the error is the largest over all pairs.
    """
    given = {name: value for name, value in locals().items() if name not in {"config", "quiet"} and value is not None}
    _simulate(given, config, quiet)


def _simulate(given: dict[str, Any], config: str | None, quiet: bool) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from robin_cli.output.simulated import draw_curves, experiment, load, print_csv, say_constant, say_savings

    settings: SimulateConfig = load(given, config)
    console = Console(stderr=True, quiet=quiet, highlight=False)
    with Progress(console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("simulating")
        subjects, rows = experiment(settings, lambda done, of: progress.update(task, completed=done, total=of))
    print_csv(rows, settings, sys.stdout)
    say_constant(subjects, console)
    say_savings(rows, settings, console)
    if settings.plot:
        draw_curves(rows, subjects, Path(settings.plot))
