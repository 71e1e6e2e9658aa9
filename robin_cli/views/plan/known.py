"""Make the planned run from settings: its goal, and prior knowledge of its judges from earlier ratings or a prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.making import wanted_goal
from robin_cli.model.errors import InputError
from robin_cli.model.space import ArmSpace
from robin_cli.policies.registry import make_policy, policy_named
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.money import paid_for
from robin_cli.runner.variances import earlier_variances, known_counts
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.simulation.forecast import Known
from robin_cli.storage.manifest import FILE
from robin_cli.storage.reader import read_run
from robin_cli.views.plan.asked import SEED, Asked
from robin_cli.views.plan.calls import TAKEN


def asked_of(
    config: Settings, dataset: Dataset, notify: Callable[[str], None], pilot: Path | None
) -> Asked:
    """Return the planned run, without the parts that depend on a budget.

    Args:
        notify: called with notes on ``--variances`` and on the data, unless a pilot's run printed them.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a budget that the pilot has spent already.
    """
    prompts = prompts_of(config)
    prompts.check_references(dataset.pairs)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    space = ArmSpace(
        dataset.pairs.ids, prompts.attributes, judges, prompts.scales, prompts.kind.variants
    )
    told_by = pilot or config.variances
    run = read_run(Path(told_by), TAKEN) if told_by and (Path(told_by) / FILE).is_file() else None
    heard = notify if pilot is None else lambda _: None
    goal = wanted_goal(config, space, dataset.pairs, heard)
    paid = None
    if config.budget is None and config.max_cost is not None:
        length = (
            None
            if run is None
            else float(pc.mean(run.judgments["completion_tokens"]).as_py() or 0.0)
        )
        paid = paid_for(config, goal, dataset.pairs, prompts, length)
        config = replace(config, budget=paid.calls)
    spent = 0 if run is None or pilot is None else run.fold.arms.spent
    if config.budget is not None:
        goal.check_reach(config.budget)
    if config.budget is not None and config.budget < spent:
        raise InputError(
            f"--budget {config.budget}: the pilot {pilot} has spent {spent:,} calls already; plan for more"
        )
    asked = Asked(*(config, dataset, prompts, space, told_by, pilot, run, paid, goal))
    if policy_named(config.scheduler).needs_variances and not config.variances:
        make_policy(config.scheduler, asked.setup(asked.budget))  # which refuses to begin with none
    if config.pairwise:
        return asked
    known = [] if run is not None and not goal.asks_all else _known(told_by, space)
    return _begun(replace(asked, known=known), notify)


def _known(told_by: str | Path | None, space: ArmSpace) -> list[Known]:
    """Return the knowledge about each attribute and judge."""
    if told_by is not None:
        rng = np.random.default_rng(SEED)
        return [Known.of(counts, rng) for counts in known_counts(told_by, space)]
    arms, pairs = space.arms_of_pair(0), len(space.pair_ids)
    return [Known.nothing(pairs, space.scale_of(arm), space.attribute_of(arm)) for arm in arms]


def _begun(asked: Asked, notify: Callable[[str], None]) -> Asked:
    """Return a copy with the scheduler's known variances."""
    config, space = asked.config, asked.space
    if not config.variances or not asked.goal.asks_all:
        return asked
    if not policy_named(asked.scheduler).needs_variances:
        return asked
    variances = earlier_variances(config.variances, space, notify)
    of_each = zip(asked.known, space.by_pair(variances).T, strict=True)
    return replace(asked, known=[replace(each, variances=mine) for each, mine in of_each])
