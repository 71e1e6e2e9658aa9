"""Opening of a run from settings: a new one, or an existing one that goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from robin_cli.data.pairs import Dataset
from robin_cli.goals.checks import check_together
from robin_cli.goals.registry import wanted_goal
from robin_cli.model.errors import InputError
from robin_cli.policies.registry import chosen, policy_named
from robin_cli.run.variances import earlier_variances
from robin_cli.run.writer import RunWriter
from robin_cli.session.inputs import checked_data, manifest_of, pairs_of, space_of
from robin_cli.session.money import calls_paid_for, prices_of
from robin_cli.session.prompts import prompts_of
from robin_cli.session.resuming import continued
from robin_cli.settings.made_here import keep_sendings
from robin_cli.settings.reading import check_budget
from robin_cli.settings.resolve import Resolved
from robin_cli.settings.table import SESSION, TABLE, Settings, recorded

Notify = Callable[[str], None]


def open_run(
    settings: Settings, resolved: Resolved, notify: Notify, dataset: Dataset | None = None
) -> RunWriter:
    """Make the run of ``settings``, or open the one in its ``run`` directory if it is the same.

    A new run appears together with its first session: whenever this process is killed, robin resume finds its settings.

    Args:
        resolved: the values of ``settings``.
        dataset: the pairs, if they were read already; None to read the data of ``settings``.

    Raises:
        InputError: bad data or settings, or a run directory made with other settings.
        RunError, StorageError: the directory cannot be used.
    """
    check_budget(settings)
    check_together(settings)
    prompts = prompts_of(settings)
    dataset = checked_data(
        dataset or pairs_of(settings, prompts, notify), settings, prompts, notify
    )
    space = space_of([judge.name for judge in resolved.judges], prompts, dataset.pairs.ids)
    goal = wanted_goal(settings, space, dataset.pairs, notify)
    prices = [prices_of(judge, resolved)[0] for judge in resolved.judges]
    budget = settings.budget or calls_paid_for(
        settings.max_cost or 0.0, prices, settings.max_tokens, goal, dataset.pairs, prompts
    )
    settings = replace(settings, **goal.recorded)
    asked = settings.scheduler
    choice = chosen(asked, goal.setup({name: getattr(settings, name) for name in TABLE}, budget))
    settings = _with_scheduler(settings, asked if choice is None else choice.name)
    budget_usd = settings.max_cost if settings.budget is None else None
    wanted = manifest_of(replace(settings, budget=budget), dataset, prompts, goal, budget_usd)
    path = _path_of(settings, prompts.attributes)
    session = recorded(settings, SESSION)
    if (store := continued(path, wanted, session)) is not None:
        return store  # with its own variances: the earlier run may be gone
    variances = None
    if settings.variances:
        variances = earlier_variances(settings.variances, space, notify)
    goal.policy(
        wanted.own_settings, wanted.budget, variances
    )  # refuses settings that cannot work, before anything is written
    if choice is not None:
        notify(choice.text(asked))
    # Registered first: a run that is killed at once was made here, too.
    register = partial(keep_sendings, sendings=resolved.sendings)
    return RunWriter.create(path, wanted, dataset.pairs, variances, session, register)


def _with_scheduler(settings: Settings, name: str) -> Settings:
    """Return ``settings`` with the scheduler called ``name``. InputError for variances that it does not use."""
    if settings.variances and not policy_named(name).needs_variances:
        raise InputError(
            f"--variances {settings.variances}: --scheduler {name} learns the variances from the run itself; leave "
            "--variances out, or take --scheduler robin, which knows them beforehand (robin plan takes --variances with every "
            "scheduler)"
        )
    repeat_anyway = settings.repeat_anyway or policy_named(settings.scheduler).asks_on
    return replace(settings, scheduler=name, repeat_anyway=repeat_anyway)


def _path_of(settings: Settings, attributes: Sequence[str]) -> Path:
    """Return the folder of a run: the one in ``settings``, or a new one under ``runs``."""
    if settings.run:
        return Path(settings.run)
    if settings.pairwise:
        attributes = ("pairwise", *settings.attribute)
    path = Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(attributes)}"
    # Two runs may begin in the same second, and clocks go backwards.
    numbers = (
        path if number == 1 else path.with_name(f"{path.name}-{number}")
        for number in itertools.count(1)
    )
    return next(path for path in numbers if not path.exists())
