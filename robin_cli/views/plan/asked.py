"""A run that is planned: what it is to find, what is known before it, and the policies that it would have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robin_cli.analysis.experiment import World
from robin_cli.analysis.forecast import Expected, Known, PolicyAt, RatingsBelief
from robin_cli.analysis.rating_model import fit_mixture
from robin_cli.datasets.pairs import Dataset
from robin_cli.files.local import shipped
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems
from robin_cli.model.task import Task
from robin_cli.policies.base import DEFAULT_MARGIN, Choice, Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import chosen, make_policy, policy_named
from robin_cli.prompts.rubrics import PromptSet
from robin_cli.runner.aims import check_reach, wanted_systems, wanted_task
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.money import Paid, paid_for
from robin_cli.runner.opening import ratings_together
from robin_cli.runner.pairwise import wanted_matches
from robin_cli.runner.variances import earlier_variances, known_counts
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.storage.manifest import FILE, read_manifest
from robin_cli.storage.reader import RunData, read_run
from robin_cli.views.plan.calls import TAKEN, Calls, calls_of

SEED = 0
"""The same plan says the same."""

_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")
_FIT_ROWS = 20_000


@dataclass(frozen=True)
class Asked:
    """A run that is planned.

    Attributes:
        config: with the budget that is planned for, as soon as there is one.
        told_by: the run, or pool, whose ratings say how these vary; None where a prior is taken.
        pilot: the run that is its beginning.
        run: the one of ``told_by``, if it is one.
        paid: what a budget of money pays for.
        task, systems, matches: what it is to decide, compare or rank: one of them, or none.
        known: of the ratings of each attribute and judge; nothing for verdicts.
    """

    config: Settings
    dataset: Dataset
    prompts: PromptSet
    space: ArmSpace
    told_by: str | Path | None
    pilot: Path | None
    run: RunData | None
    paid: Paid | None
    task: Task | None = None
    systems: Systems | None = None
    matches: Matches | None = None
    known: Sequence[Known] = ()

    @property
    def least(self) -> int:
        """The fewest calls that are planned: one an arm where all are rated, and what the pilot spent."""
        spent = 0 if self.run is None or self.pilot is None else self.run.fold.arms.spent
        return max(len(self.space) if self.systems is None and self.matches is None else 0, spent)

    @property
    def budget(self) -> int:
        """The calls that are planned for."""
        return self.config.budget or self.least

    @property
    def belief(self) -> RatingsBelief:
        """What is known of the judge."""
        return RatingsBelief(self.known, self.space, self.task)

    @property
    def is_warm(self) -> bool:
        """Whether the scheduler begins with variances of an earlier run."""
        return bool(self.known) and self.known[0].variances is not None

    @property
    def rounds(self) -> int | None:
        """In which the calls go out; None where they are made one at a time."""
        return self.config.rounds if self.config.in_rounds else None

    def setup(self, budget: int) -> Setup:
        """What a policy is told of a run with ``budget``."""
        config = self.config
        return Setup(
            arms=len(self.space),
            budget=budget,
            scale=self.space.scales[0],
            delta=config.delta,
            mode=config.mode,
            objective=config.wanted_objective,
            by_money=config.budget_usd is not None,
            task=self.task,
            systems=self.systems,
            matches=self.matches,
            margin=DEFAULT_MARGIN if self.matches is None or config.margin is None else config.margin,
            to_target=config.target_error is not None,
            rounds=self.rounds,
        )

    def choice(self, budget: int) -> Choice | None:
        """The scheduler that a run with ``budget`` would get, where the one asked for only chooses; InputError if it cannot."""
        return chosen(self.config.scheduler, self.setup(budget))

    def scheduler_at(self, budget: int) -> str:
        """The name of the scheduler that a run with ``budget`` would have."""
        try:
            choice = self.choice(budget)
        except InputError:  # which does not take so small a part of the budget
            choice = None
        return self.config.scheduler if choice is None else choice.name

    def policy_at(self, name: str) -> PolicyAt:
        """The policy called ``name`` for each budget; None where theory mode refuses a part of the budget planned for."""

        def policy(budget: int, variances: FloatArray | None, world: World | None = None) -> Policy | None:
            setup = self.setup(budget)
            space = self.space if world is None else world.space
            task = self.task if world is None else world.task
            part = replace(setup, arms=len(space), variances=variances, task=task)
            try:
                choice = chosen(name, setup)  # by all of the arms, which have all of the budget
                named = name if choice is None else choice.name
                return policy_by_scale(named, part, variances if self.is_warm else None, space.by_scale())
            except InputError:
                if self.config.budget is not None and budget >= self.config.budget:
                    raise
                return None

        return policy

    def policy(self, budget: int, variances: FloatArray | None) -> Policy | None:
        """The policy of the run itself, which may know ``variances``."""
        return self.policy_at(self.config.scheduler)(budget, variances, None)  # type: ignore[arg-type]

    def calls(self) -> Calls:
        """What a call takes. InputError as :func:`~robin_cli.views.plan.calls.calls_of`."""
        together = 1.0
        if self.systems is None and self.matches is None:
            # A scheduler that looks at each rating asks for few at a time.
            policy, samples = self.policy(self.budget, np.ones(len(self.space))), self.config.samples_per_request
            an_arm = self.budget / len(self.space)
            together = float(samples) if policy is None else ratings_together(policy, an_arm, samples)
        return calls_of(
            *(self.config, self.dataset, self.prompts),
            a_request=together,
            pilot=self.run if self.pilot else None,
            earlier=self.run,
            paid=self.paid,
        )

    def with_budget(self, budget: int) -> Asked:
        """The same with ``budget``."""
        return replace(self, config=replace(self.config, budget=budget))

    @property
    def prior(self) -> str:
        """What is taken for granted of how the ratings vary, in words."""
        alike = ", the responses of a prompt no more alike than others"
        if self.told_by is not None:
            return f"as in the {'pilot' if self.pilot else 'ratings of'} {self.told_by}{alike * (self.systems is not None)}"
        rated = [attribute for attribute in self.space.attributes if attribute in _PAPER_RATED]
        where = ", ".join(rated if len(rated) == len(self.space.attributes) else _PAPER_RATED)
        of_prompts = self.systems is not None or (self.task is not None and self.task.group is not None)
        return f"assumed: as with the two judges of the paper, at {where}{alike * of_prompts}"


def asked_of(config: Settings, dataset: Dataset, notify: Callable[[str], None], pilot: Path | None) -> Asked:
    """What is planned, as far as that hangs on no budget.

    Args:
        notify: is told what to know of ``--variances`` and of the data, where no pilot's run has said it already.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a budget that the pilot has spent already.
    """
    prompts = prompts_of(config)
    prompts.check_references(dataset.pairs)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    space = ArmSpace(dataset.pairs.ids, prompts.attributes, judges, prompts.scales, is_pairwise=config.pairwise)
    told_by = pilot or config.variances
    run = read_run(Path(told_by), TAKEN) if told_by and (Path(told_by) / FILE).is_file() else None
    paid = None
    if config.budget_usd is not None:
        length = None if run is None else float(pc.mean(run.judgments["completion_tokens"]).as_py() or 0.0)
        paid = paid_for(config, space, dataset.pairs, prompts, length)
        config = replace(config, budget=paid.calls)
    spent = 0 if run is None or pilot is None else run.fold.arms.spent
    heard = notify if pilot is None else lambda _: None
    systems = wanted_systems(config, space, dataset.pairs, heard)
    if config.budget is not None and not config.pairwise:
        check_reach(config.budget, len(dataset.pairs), prompts.attributes, len(judges), systems)
    if config.budget is not None and config.budget < spent:
        raise InputError(
            f"--budget {config.budget}: the pilot {pilot} has spent {spent:,} calls already; plan for more"
        )
    if policy_named(config.scheduler).needs_variances and not config.variances:
        make_policy(
            config.scheduler, Setup(len(space), config.budget or len(space), prompts.scales[0])
        )  # says its need
    asked = Asked(
        *(config, dataset, prompts, space, told_by, pilot, run, paid),
        task=wanted_task(config, space, dataset.pairs, heard),
        systems=systems,
        matches=wanted_matches(config, space, dataset.pairs),
    )
    if config.pairwise:
        return asked
    asked = _begun(
        replace(asked, known=[] if systems is not None and run is not None else _known(told_by, space)), notify
    )
    return replace(asked, config=replace(config, scheduler=_kept(config, pilot) or config.scheduler))


def _known(told_by: str | Path | None, space: ArmSpace) -> list[Known]:
    """What is known of each attribute and judge."""
    if told_by is not None:
        rng = np.random.default_rng(SEED)
        return [
            Known(counts, fit_mixture(rng.permutation(counts)[:_FIT_ROWS])) for counts in known_counts(told_by, space)
        ]
    scales = [space.scale_of(place) for place in space.arms_of_pair(0)]
    mixtures = [_assumed_mixture(attribute) for attribute in space.attributes for _ in space.judges]
    nothing = (np.zeros((len(space.pair_ids), scale.levels), dtype=np.int64) for scale in scales)
    return [Known(*each) for each in zip(nothing, mixtures, strict=True)]


def _begun(asked: Asked, notify: Callable[[str], None]) -> Asked:
    """The same with the variances that the scheduler would begin with.

    In theory mode there are none, and robin judge refuses them; but a plan may still be made by the ratings there.
    """
    config, space = asked.config, asked.space
    if not config.variances or asked.systems is not None:
        return asked
    scheduler = config.scheduler if asked.task is None else asked.scheduler_at(asked.budget)
    policy = policy_named(scheduler)
    if policy.evenly:
        return asked
    if policy.whole:
        notify(f"--variances: only planned by; --scheduler {scheduler} begins with none")
        return asked
    if policy.takes_prior and policy.theorem(config.mode) is not None:
        notify("--variances: only planned by; leave it out of robin judge, where theory mode refuses it")
        return asked
    variances = earlier_variances(config.variances, space, scheduler, notify)
    assert variances is not None  # noqa: S101  # it asks not evenly, so it has a use for them
    of_each = zip(asked.known, space.by_pair(variances).T, strict=True)
    return replace(asked, known=[replace(each, variances=mine) for each, mine in of_each])


def _assumed_mixture(attribute: str) -> FloatArray:
    """How the pairs of the paper varied at this attribute; at all of its attributes, where it is none of them."""
    # robin's own file: no row of it needs to be looked at by itself, as those of load_pools are
    table = pq.ParquetFile(shipped("configs") / "pools" / "paper_digitised.parquet").read()
    alike = table.filter(pc.ends_with(table["attribute"], pattern=f"/{attribute}"))
    table = alike if len(alike) else table
    pair, pool = (table[name].combine_chunks().dictionary_encode() for name in ("pair_id", "attribute"))
    place = pool.indices.to_numpy().astype(np.int64) * len(pair.dictionary) + pair.indices.to_numpy()
    counts = np.bincount(
        5 * place + table["rating"].to_numpy(), minlength=5 * len(pool.dictionary) * len(pair.dictionary)
    )
    return fit_mixture(counts.reshape(-1, 5))


def _kept(config: Settings, pilot: Path | None) -> str | None:
    """The scheduler that a run made before keeps, where the choice is left to robin; None where nothing is settled yet."""
    run = pilot or (Path(config.run) if config.run else None)
    if run is None or not (run / FILE).is_file():
        return None
    scheduler = str(read_manifest(run).settings["scheduler"])
    return scheduler if scheduler in policy_named(config.scheduler).among else None


def figures(expected: Expected | None, fields: Mapping[str, tuple[str, str]], prefix: str = "") -> dict[str, Any]:
    """Figures of a forecast by their names: ``fields`` has of each the measure, and whether its mean or its sem is meant."""
    return {
        f"{prefix}{name}": None if expected is None else getattr(expected, statistic)(measure)
        for name, (measure, statistic) in fields.items()
    }
