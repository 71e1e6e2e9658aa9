"""The facts of a plan: what a budget, its parts and its multiples would reach, and what they would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.analysis.forecast import RUNS, Expected, Known, Measure, budget_for, calls_for, forecast, most_calls
from robin_cli.analysis.rating_model import draw_distributions, fit_mixture
from robin_cli.datasets.pairs import Dataset
from robin_cli.datasets.pools import load_pools
from robin_cli.files.local import shipped
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import BASELINE, chosen, make_policy, policy_named
from robin_cli.runner.opening import check_error, check_reach, check_target, prompts_of, ratings_together
from robin_cli.runner.variances import earlier_variances, known_counts
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.storage.fold import COUNTED
from robin_cli.storage.manifest import FILE, read_manifest
from robin_cli.storage.reader import RunData, read_run
from robin_cli.views.plan.calls import Calls, calls_of

_MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_SHOWN_FROM = 0.5
_TARGETS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""

_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")
_FIT_ROWS = 20_000
_SEED = 0


@dataclass(frozen=True, slots=True)
class _Prospect:
    """What the schedulers are tried on."""

    config: Settings
    space: ArmSpace
    known: Sequence[Known]

    @property
    def arms(self) -> int:
        """How many there are."""
        return len(self.space)

    @property
    def width(self) -> float:
        """The largest error there is, in the unit of the errors."""
        scale = self.space.scales[0]
        return 1.0 if self.space.has_several_scales else float(scale.high - scale.low)

    @property
    def warm(self) -> bool:
        """Whether the scheduler begins with variances of an earlier run."""
        return self.known[0].variances is not None

    def setup(self, budget: int) -> Setup:
        """What a policy is told of a run with ``budget``."""
        config = self.config
        return Setup(
            arms=self.arms,
            budget=budget,
            scale=self.space.scales[0],
            delta=config.delta,
            mode=config.mode,
            objective=config.objective,
            to_target=config.target_error is not None,
        )

    def scheduler_at(self, budget: int) -> str:
        """The name of the scheduler that a run with ``budget`` would have."""
        try:
            choice = chosen(self.config.scheduler, self.setup(budget))
        except InputError:  # which does not take so small a part of the budget
            choice = None
        return self.config.scheduler if choice is None else choice.name

    def policy(
        self,
        name: str,
        budget: int,
        variances: FloatArray | None,
        groups: Sequence[tuple[Scale, IntArray]] | None = None,
    ) -> Policy | None:
        """The policy for ``budget``; None where theory mode refuses a part of the budget that is planned for.

        ``variances``: those it begins with, where it begins with any. ``groups``: the arms of each scale, where a part of all
        is simulated.
        """
        groups = self.space.by_scale() if groups is None else groups
        setup = self.setup(budget)
        part = replace(setup, arms=sum(len(arms) for _, arms in groups), variances=variances)
        try:
            choice = chosen(name, setup)  # by all of the arms, which have all of the budget
            named = name if choice is None else choice.name
            return policy_by_scale(named, part, variances if self.warm else None, groups)
        except InputError:
            if self.config.budget is not None and budget >= self.config.budget:
                raise
            return None

    def expected(self, name: str, budgets: Sequence[int]) -> Mapping[int, Expected]:
        """What the scheduler ``name`` reaches with each of ``budgets``; the same for the same prospect."""
        rng = np.random.default_rng(_SEED)
        return forecast(self.known, lambda b, variances, groups: self.policy(name, b, variances, groups), budgets, rng)


def plan_of(
    config: Settings,
    dataset: Dataset,
    notify: Callable[[str], None],
    *,
    pilot: Path | None = None,
    for_error: float | None = None,
) -> dict[str, Any]:
    """What ``config`` would do with its budget, as JSON values; asks nobody.

    Errors are forecast by simulating the scheduler, and an even spread, on pairs that vary like these: as the ratings of
    ``pilot`` or ``--variances`` say, see :mod:`robin_cli.analysis.rating_model`; else as the pairs of the paper did.

    Args:
        notify: is told what to know of ``--variances``.
        pilot: a run on the same pairs by the same judge; its answers also tell tokens, money and time.
        for_error: find the budget that brings the error to this: the largest, or the average with ``--objective mean-error``.
            It is the budget where none is given. None: the largest error at which ``config`` would stop, if there is one.

    Raises:
        InputError: bad settings, as ``robin judge`` would say; a budget that the pilot has spent already.
    """
    prompts = prompts_of(config)
    check_asked(config, for_error, prompts.scales)
    prompts.check_references(dataset.pairs)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    space = ArmSpace([pair.pair_id for pair in dataset.pairs], prompts.attributes, judges, prompts.scales)
    if config.budget is not None:
        check_reach(config.budget, len(dataset.pairs), prompts.attributes, len(judges))
    told_by = pilot or config.variances
    run = read_run(Path(told_by), COUNTED) if told_by and (Path(told_by) / FILE).is_file() else None
    spent = _spent_by(run if pilot else None, config)
    if policy_named(config.scheduler).needs_variances and not config.variances:
        make_policy(
            config.scheduler, Setup(len(space), config.budget or len(space), prompts.scales[0])
        )  # says what it needs
    known = _begun(_known(told_by, space), config, space, notify)
    prospect = _Prospect(config, space, known)
    if kept := _kept(config, pilot):
        prospect = replace(prospect, config=replace(config, scheduler=kept))
    least = max(len(space), spent)
    target = _target(prospect, for_error, least)
    if config.budget is None and target is not None:
        prospect = replace(prospect, config=replace(prospect.config, budget=max(least, target["calls"])))
    scheduler = prospect.config.scheduler
    choice = chosen(scheduler, prospect.setup(prospect.config.budget or least))
    calls = calls_of(
        config, dataset, prompts, a_request=_a_request(prospect, least), pilot=run if pilot else None, earlier=run
    )
    return {
        "pairs": len(dataset.pairs),
        "attributes": list(prompts.attributes),
        "judges": list(config.model),
        "arms": len(space),
        "errors_are": "shares of the scale" if space.has_several_scales else "points",
        "scheduler": scheduler if choice is None else choice.name,
        "scheduler_asked": config.scheduler,
        "scheduler_because": None if choice is None else choice.why,
        "pilot": None if pilot is None or run is None else {"run": str(pilot), "spent": spent},
        "variances_from": config.variances if prospect.warm else None,
        "ratings_vary_as": _vary_as(told_by, pilot, prompts.attributes),
        "tokens_from": calls.source,
        "price": calls.price,
        "simulated_runs": RUNS,
        "by_text": config.scoring == "text" and (run is None or run.manifest.scoring == "text"),
        "for_error": target,
        "target_error": config.target_error,
        "target_guaranteed": config.guaranteed,
        **_outlook(prospect, calls, least),
    }


def _kept(config: Settings, pilot: Path | None) -> str | None:
    """The scheduler that a run made before keeps, where the choice is left to robin; None where nothing is settled yet."""
    run = pilot or (Path(config.run) if config.run else None)
    if run is None or not (run / FILE).is_file():
        return None
    scheduler = str(read_manifest(run).settings["scheduler"])
    return scheduler if scheduler in policy_named(config.scheduler).among else None


def check_asked(config: Settings, for_error: float | None, scales: Sequence[Scale]) -> None:
    """InputError unless there is a budget, or an error to find one for."""
    check_target(config, scales)
    if for_error is None and config.target_error is None and config.budget is None:
        raise InputError(
            "--budget is missing: say what budget to plan for, for example --budget 50000, or --for-error 0.2 to find one"
        )
    if for_error is not None:
        check_error("--for-error", for_error, scales)


def _spent_by(pilot: RunData | None, config: Settings) -> int:
    """Calls that the pilot spent; InputError if there are more than the budget."""
    spent = 0 if pilot is None else pilot.fold.arms.spent
    if pilot is not None and config.budget is not None and config.budget < spent:
        raise InputError(
            f"--budget {config.budget}: the pilot {pilot.path} has spent {spent:,} calls already; plan for more"
        )
    return spent


def _outlook(prospect: _Prospect, calls: Calls, least: int) -> dict[str, Any]:
    """What the budget and its multiples take and reach; at no fewer calls than ``least``."""
    config = prospect.config
    budget = config.budget or least
    bought = (None, None) if config.max_cost is None else calls.bought(config.max_cost)
    stops = {bought[0]} if bought[0] is not None and bought[0] == bought[1] else set()
    multiples = {max(least, round(budget * each)) for each in _MULTIPLES}
    budgets = sorted(multiples | {each for each in stops if least <= each <= max(multiples)})
    expected = {name: prospect.expected(name, budgets) for name in dict.fromkeys((config.scheduler, BASELINE))}
    rows = []
    for each in (each for each in budgets if each >= _SHOWN_FROM * budget or each in stops):
        low, high = calls.dollars(each)
        money = {"cost_usd_at_least": low, "cost_usd_at_most": high, "within_max_cost": _within(each, bought, config)}
        rows.append({"budget": each, **money, "seconds": calls.time(each), **_errors(prospect, each, expected)})
    tokens = calls.tokens(budget)
    return {
        "budget": budget,
        "calls_an_arm": budget / prospect.arms,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "completion_tokens_at_most": config.max_tokens * budget,
        "max_cost_usd": config.max_cost,
        "max_cost_calls_at_least": bought[0],
        "max_cost_calls_at_most": bought[1],
        "below_warm_up": _warm_up(prospect) * prospect.arms > budget,
        "forecast": rows,
        "calls_for": [_needed(share, prospect, expected) for share in _TARGETS],
    }


def _within(budget: int, bought: tuple[int | None, int | None], config: Settings) -> bool | None:
    """Whether ``--max-cost`` pays for ``budget`` calls; None where there is none, or where it depends on the answers."""
    least, most = bought
    if config.max_cost is None or least is None or budget <= least:
        return None if config.max_cost is None else True
    return None if most is None or budget <= most else False


def _target(prospect: _Prospect, for_error: float | None, least: int) -> dict[str, Any] | None:
    """The budget for an error, and that of an even spread; of the largest error where the run would stop at it."""
    error = prospect.config.target_error if for_error is None else for_error
    if error is None:
        return None
    average = for_error is not None and prospect.config.objective == "mean-error"
    measure: Measure = "mean" if average else "worst"
    unsaid = replace(prospect, config=replace(prospect.config, budget=None))
    found = {}
    for name in dict.fromkeys((prospect.config.scheduler, BASELINE)):
        rng = np.random.default_rng(_SEED)
        found[name] = budget_for(
            error,
            prospect.known,
            lambda budget, variances, groups, name=name: unsaid.policy(name, budget, variances, groups),  # type: ignore[misc]
            rng,
            least=least,
            measure=measure,
            cheap=policy_named(name).evenly,
        )
    chosen, evenly = found[prospect.config.scheduler], found[BASELINE]
    return {
        "error": error,
        "of": measure,
        "calls": chosen.needed.calls,
        "calls_are": chosen.needed.relation,
        "calls_low": chosen.low.calls,
        "calls_high": None if chosen.high.relation == "more than" else chosen.high.calls,
        "even_calls": evenly.needed.calls,
        "even_calls_are": evenly.needed.relation,
        "searched_to": max(least, most_calls(prospect.arms)),
    }


def _known(told_by: str | Path | None, space: ArmSpace) -> list[Known]:
    scales = [space.scale_of(place) for place in space.arms_of_pair(0)]
    if told_by is not None:
        rng = np.random.default_rng(_SEED)
        counted = zip(known_counts(told_by, space), scales, strict=True)
        return [Known(counts, fit_mixture(rng.permutation(counts)[:_FIT_ROWS]), scale) for counts, scale in counted]
    nothing = [np.zeros((len(space.pair_ids), scale.levels), dtype=np.int64) for scale in scales]
    mixtures = [_assumed_mixture(attribute) for attribute in space.attributes for _ in space.judges]
    return [Known(*each) for each in zip(nothing, mixtures, scales, strict=True)]


def _begun(known: Sequence[Known], config: Settings, space: ArmSpace, notify: Callable[[str], None]) -> Sequence[Known]:
    """``known`` with the variances that the scheduler would begin with.

    In theory mode there are none, and robin judge refuses them; but a plan may still be made by the ratings there.
    """
    policy = policy_named(config.scheduler)
    if not config.variances or policy.evenly:
        return known
    if policy.takes_prior and policy.theorem(config.mode) is not None:
        notify("--variances: only planned by; leave it out of robin judge, where theory mode refuses it")
        return known
    variances = earlier_variances(config.variances, space, config.scheduler, notify)
    assert variances is not None  # noqa: S101  # it asks not evenly, so it has a use for them
    return [
        replace(
            each,
            variances=variances[space.arm_at(np.arange(len(each.counts)), space.attribute[place], space.judge[place])],
        )
        for place, each in enumerate(known)
    ]


def _assumed_mixture(attribute: str) -> FloatArray:
    """How the pairs of the paper varied at this attribute; at all of its attributes, where it is none of them."""
    pools = load_pools(shipped("configs") / "pools" / "paper_digitised.parquet").values()
    alike = [pool for pool in pools if pool.name.endswith(f"/{attribute}")] or list(pools)
    return fit_mixture(np.array([np.bincount(ratings, minlength=5) for pool in alike for ratings in pool.ratings]))


def _vary_as(told_by: str | Path | None, pilot: str | Path | None, attributes: Sequence[str]) -> str:
    if told_by is None:
        rated = [attribute for attribute in attributes if attribute in _PAPER_RATED]
        where = ", ".join(rated) if len(rated) == len(attributes) else f"all of {', '.join(_PAPER_RATED)}"
        return f"assumed: as with the two judges of the paper, at {where}"
    return f"as in the {'pilot' if pilot else 'ratings of'} {told_by}"


def _errors(prospect: _Prospect, budget: int, expected: Mapping[str, Mapping[int, Expected]]) -> dict[str, Any]:
    mine, evenly = expected[prospect.config.scheduler].get(budget), expected[BASELINE][budget]
    return {
        "calls_an_arm": budget / prospect.arms,
        "scheduler": prospect.scheduler_at(budget),
        "worst_error": mine and mine.worst,
        "worst_error_sem": mine and mine.worst_sem,
        "mean_error": mine and mine.mean,
        "even_worst_error": evenly.worst,
        "even_worst_error_sem": evenly.worst_sem,
        "even_mean_error": evenly.mean,
        **_paper_bound(prospect, budget),
    }


def _needed(share: float, prospect: _Prospect, expected: Mapping[str, Mapping[int, Expected]]) -> dict[str, Any]:
    target = float(f"{share * prospect.width:.1g}")
    chosen = expected[prospect.config.scheduler]
    calls, evenly = calls_for(target, chosen), calls_for(target, expected[BASELINE])
    return {
        "worst_error": target,
        "calls": calls.calls,
        "calls_are": calls.relation,
        "even_calls": evenly.calls,
        "even_calls_are": evenly.relation,
    }


def _warm_up(prospect: _Prospect) -> int:
    """Calls an arm before the scheduler adapts; 0 if it never does, or there is no telling."""
    policy = prospect.policy(prospect.config.scheduler, prospect.config.budget or 0, np.ones(prospect.arms))
    return 0 if policy is None or policy.evenly else policy.warm_up


def _a_request(prospect: _Prospect, least: int) -> float:
    """Ratings that a request asks for on average: a scheduler that looks at each rating asks for few at a time."""
    budget = prospect.config.budget or least
    policy = prospect.policy(prospect.config.scheduler, budget, np.ones(prospect.arms))
    samples = prospect.config.samples_per_request
    return float(samples) if policy is None else ratings_together(policy, budget / prospect.arms, samples)


def _paper_bound(prospect: _Prospect, budget: int) -> dict[str, Any]:
    """The paper's bound, for the schedulers that its theorems cover, with variances drawn from what is known."""
    config = prospect.config
    nothing = {"bound": None, "assumes": None}
    theorem = policy_named(config.scheduler).theorem(config.mode)
    if theorem is None:
        return nothing
    rng = np.random.default_rng(_SEED)
    variances = np.concatenate([_drawn_variances(each, rng) for each in prospect.known])
    if prospect.space.has_several_scales:
        variances /= np.concatenate([np.full(len(k.counts), (k.scale.high - k.scale.low) ** 2) for k in prospect.known])
    warm_up = 0
    if theorem > 1:
        policy = prospect.policy(config.scheduler, budget, None)
        if policy is None:
            return nothing
        warm_up = policy.warm_up
    bound, assumes = theorem_bound(theorem, variances, budget, config.delta, warm_up)
    return {"bound": bound, "assumes": assumes}


def _drawn_variances(known: Known, rng: np.random.Generator) -> FloatArray:
    """Variances of arms drawn from what is known of them, shape (arms,), in squared points."""
    drawn = draw_distributions(known.counts, known.weights, rng)
    levels = np.arange(known.scale.low, known.scale.high + 1, dtype=np.float64)
    return np.asarray(drawn @ levels**2 - (drawn @ levels) ** 2)
