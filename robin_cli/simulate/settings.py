"""The settings of ``robin simulate``, and how they are read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from robin_cli.model.errors import InputError
from robin_cli.settings.reading import (
    SIMULATE,
    checked,
    find_config,
    from_folder_of,
    together,
    toml_content,
)
from robin_cli.settings.setting import Scope, positive, setting, share, table_of, within
from robin_cli.settings.table import AUTO, SAMPLES, TABLE, as_text

_simulated = partial(
    setting, panel="Settings; also in the table simulate of a TOML file", scope=Scope.OUTPUT
)
_COUNT = within(1, math.inf, "a whole number, at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """The settings of ``robin simulate``, named as its flags; ``budget`` in rising order."""

    # fmt: off
    pool: str | None = _simulated(
        "Recorded ratings: a table pair_id, rating[, attribute, group], or a run.",
        argument=True, metavar="pool", file="read")
    budget: tuple[int, ...] = _simulated("Calls in all; several by commas.",
        (), by_commas=True,
        check=(lambda value: min(value, default=0) > 0, "a whole number, at least 1, or several by commas"),
        tidy=lambda value, _: tuple(sorted(set(value))))
    pairwise: bool = _simulated("The pool is a run of judge --pairwise. Rankings are simulated.",
        default=False)
    schedulers: tuple[str, ...] = _simulated("By commas.",
        (), by_commas=True,
        default_said="uniform,two-priors,robin-hood,robin; with --decide or --pairwise uniform,auto")
    decide: str | None = _simulated("Simulate decisions in place of errors: a threshold, as 'score>=3', or best.",
        metavar="WHAT")
    group: str | None = _simulated("Column of the pool that says which pairs are of one group, for --decide best.",
        metavar="COLUMN", default_said="group, prompt, or the ids up to their last /")
    margin: float | None = _simulated("With --decide: differences that do not matter.",
        metavar="E", default_said="1/40 of the scale", check=positive("points of the scale, above 0"))
    target_wrong: float | None = _simulated("With --decide: end once this share of the decisions is likely wrong; 0: never.",
        metavar="X", default_said="0.01; with --certify: never",
        check=(lambda value: 0 <= value < 0.5, "a share from 0 to below 0.5, as 0.05"))
    certify: bool = _simulated("With --decide: certify decisions.", default=False)
    error_rate: float = _simulated("With --certify: share of the certified decisions that may be wrong.",
        0.05, check=share("a share above 0 and below 1, for example 0.05"))
    runs: int = _simulated("Repetitions.", 50, check=_COUNT)
    samples_per_request: str = _simulated("As in judge; 1 is the paper's choice, call by call.",
        AUTO, accept=as_text, check=SAMPLES)
    seed: int = _simulated("The same gives the same table.", 0, check=within(0, math.inf, "a whole number, at least 0"))
    attribute: tuple[str, ...] = _simulated("Sets of the pool to take, by commas.",
        (), by_commas=True, default_said="all")
    model: tuple[str, ...] = _simulated("With --decide: a set of the pool that is a judge; {again}, a second opinion.",
        metavar="NAME")
    limit: int | None = _simulated("Take the first K pairs of each.", metavar="K", check=_COUNT)
    scale: str | None = _simulated("As 0-4.", default_said="from the ratings")
    delta: float = _simulated("ROBIN-HOOD's.", 0.007)
    mode: str = _simulated("ROBIN-HOOD's: practice or theory.", "practice")
    plot: str | None = _simulated("Draw a .png, .svg or .pdf file.", metavar="FILE", file="written")
    # fmt: on


SIMULATION = table_of(SimulationSettings, variables=False)
SCALE = replace(
    SIMULATION["scale"],
    help="Scale of the scores in a file, for example 0-4.",
    panel=TABLE["columns"].panel,
)
"""The setting of commands that read files of scores."""


def load_simulation(flags: Mapping[str, Any], file: str | None) -> SimulationSettings:
    """Return the settings of ``robin simulate``: flags, else the table [simulate] of a TOML file.

    Raises:
        InputError: there is no pool or budget, an unknown name, or a wrong value.
    """
    in_file = {}
    if file:
        path = find_config(file)
        content = toml_content(path).get(SIMULATE, {})
        if not isinstance(content, dict):
            raise InputError(
                f"{path}: {SIMULATE} must be a table, [{SIMULATE}] with the settings under it"
            )
        if unknown := sorted(content.keys() - SIMULATION.keys()):
            raise InputError(f'{path}: [{SIMULATE}] has no setting "{unknown[0]}"')
        in_file = from_folder_of(path, checked(content, str(path), SIMULATION), SIMULATION)
    settings = SimulationSettings(**together(checked(flags, table=SIMULATION), in_file, SIMULATION))
    for name, example in (("pool", "ratings.parquet"), ("budget", "--budget 50000,100000")):
        if not getattr(settings, name):
            raise InputError(f"no {name}: give one, for example robin simulate {example}")
    return settings
