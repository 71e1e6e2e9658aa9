"""The facts of a plan: what a budget, its parts and its multiples would reach, and what they would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robin_cli.analysis.bounds import theorem_bound
from robin_cli.analysis.forecast import RUNS, Expected, Known, Measure, budget_for, calls_for, most_calls
from robin_cli.analysis.rating_model import draw_distributions, fit_mixture
from robin_cli.datasets.pairs import Dataset
from robin_cli.files.local import shipped
from robin_cli.goals.checks import check_error, check_target
from robin_cli.goals.making import wanted_goal
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import COMPARE, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import BASELINE, chosen, make_policy, policy_named
from robin_cli.runner.inputs import prompts_of
from robin_cli.runner.money import paid_for
from robin_cli.runner.opening import ratings_together
from robin_cli.runner.variances import earlier_variances, known_counts
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.table import Settings
from robin_cli.storage.manifest import FILE, read_manifest
from robin_cli.storage.reader import RunData, read_run
from robin_cli.views.plan.calls import TAKEN, Calls, calls_of, ways_of
from robin_cli.views.plan.prospect import (
    SEED,
    Prospect,
    calls_to_end,
    decided_of,
    decision_calls_for,
    decision_row,
    expected_calls,
    outlooks_of,
)

_MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_SHOWN_FROM = 0.5
_TARGETS = (0.125, 0.075, 0.05, 0.025)
"""Errors to find the budget for, as shares of the scale's width: 0.5, 0.3, 0.2 and 0.1 on 0 to 4."""

_PAPER_RATED = ("helpfulness", "correctness", "complexity", "verbosity")
_FIT_ROWS = 20_000


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
    config = replace(config, objective=config.wanted_objective)
    prompts = prompts_of(config)
    check_asked(config, for_error, prompts.scales)
    prompts.check_references(dataset.pairs)
    judges = [judge_name(model) for model in config.model] or ["judge"]
    space = ArmSpace(dataset.pairs.ids, prompts.attributes, judges, prompts.scales)
    told_by = pilot or config.variances
    run = read_run(Path(told_by), TAKEN) if told_by and (Path(told_by) / FILE).is_file() else None
    goal = wanted_goal(config, space, dataset.pairs, notify if pilot is None else _unheard)
    paid = None
    if config.budget_usd is not None:
        paid = paid_for(config, goal, dataset.pairs, prompts, length_of_answers(run))
        config = replace(config, budget=paid.calls)
    if config.budget is not None:
        goal.check_reach(config.budget)
    spent = _spent_by(run if pilot else None, config)
    if policy_named(config.scheduler).needs_variances and not config.variances:
        make_policy(
            config.scheduler, Setup(len(space), config.budget or len(space), prompts.scales[0])
        )  # says what it needs
    task = goal.task
    prospect = Prospect(config, space, _known(told_by, space), task)
    least = max(len(space), spent)
    prospect = replace(prospect, known=_begun(prospect, least, notify))
    if kept := _kept(config, pilot):
        prospect = replace(prospect, config=replace(config, scheduler=kept))
    target = _target(prospect, for_error, least)
    if config.budget is None and target is not None:
        prospect = replace(prospect, config=replace(prospect.config, budget=max(least, target["calls"])))
    if config.budget is None and task is not None:
        prospect = replace(prospect, config=replace(prospect.config, budget=calls_to_end(prospect, least)))
    scheduler = prospect.config.scheduler
    choice = chosen(scheduler, prospect.setup(prospect.config.budget or least))
    calls = calls_of(
        config, dataset, prompts, a_request=_a_request(prospect, least), pilot=run if pilot else None, earlier=run
    )
    if paid is not None:
        known = paid.least == paid.most
        calls = replace(calls, cost=paid.usually if known else None, least=paid.least, most=paid.most)
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
        "ratings_known": told_by is not None,
        "ratings_vary_as": _vary_as(told_by, pilot, prompts.attributes),
        "tokens_from": calls.source,
        "price": calls.price,
        "service_tier": config.tier,
        "budget_usd": config.budget_usd,
        "simulated_runs": RUNS,
        "by_text": config.scoring == "text" and (run is None or run.manifest.scoring == "text"),
        "for_error": target,
        "target_error": config.target_error,
        "target_guaranteed": config.guaranteed,
        **(
            _outlook(prospect, calls, least)
            if task is None
            else _decisions(prospect, calls, least, run if pilot else None)
        ),
    }


def length_of_answers(run: RunData | None) -> float | None:
    """Tokens of an answer in ``run``, on average; None where there is no run."""
    return None if run is None else float(pc.mean(run.judgments["completion_tokens"]).as_py() or 0.0)


def _unheard(_: str) -> None:
    """For what the pilot's run has said already."""


def _kept(config: Settings, pilot: Path | None) -> str | None:
    """The scheduler that a run made before keeps, where the choice is left to robin; None where nothing is settled yet."""
    run = pilot or (Path(config.run) if config.run else None)
    if run is None or not (run / FILE).is_file():
        return None
    scheduler = str(read_manifest(run).settings["scheduler"])
    return scheduler if scheduler in policy_named(config.scheduler).among else None


def check_asked(config: Settings, for_error: float | None, scales: Sequence[Scale]) -> None:
    """InputError unless there is a budget, or an error or decisions to find one for."""
    check_target(config, scales)
    if config.objective == COMPARE:
        raise InputError(
            f"--objective {COMPARE}: a plan of scores' errors says nothing of differences; say the one that is to show, "
            "--compare 0.1"
        )
    if for_error is not None and config.decide is not None:
        raise InputError(
            "--for-error: not with --decide, whose calls go where a decision is open, whatever the errors of the scores are; "
            "leave one of the two out. A plan with --decide says how many calls it takes until everything is decided"
        )
    if (
        for_error is None
        and config.target_error is None
        and config.decide is None
        and not (config.budget or config.budget_usd)
    ):
        raise InputError(
            "--budget is missing: say what budget to plan for, for example --budget 50000, or --for-error 0.2 to find one"
        )
    if for_error is not None and config.budget_usd is not None:
        raise InputError(
            "--for-error: finds the calls that an error takes, and --budget-usd says them; leave one of the two out"
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


def _outlook(prospect: Prospect, calls: Calls, least: int) -> dict[str, Any]:
    """What the budget and its multiples take and reach; at no fewer calls than ``least``."""
    config = prospect.config
    shown, multiples = _budgets(prospect, calls, least)
    budgets = sorted({*shown, *multiples})
    expected = {name: prospect.expected(name, budgets) for name in dict.fromkeys((config.scheduler, BASELINE))}
    rows = [
        {"budget": each, **taken(config, calls, each), **_errors(prospect, each, expected)}
        for each in budgets
        if each in shown
    ]
    return {
        **_all(prospect, calls, config.budget or least),
        "decide": None,
        "forecast": rows,
        "calls_for": [_needed(share, prospect, expected) for share in _TARGETS],
        "ways": ways_of(prospect, calls, config.budget or least, expected[config.scheduler]),
    }


def _decisions(prospect: Prospect, calls: Calls, least: int, pilot: RunData | None) -> dict[str, Any]:
    """The same where something is to be decided; what it takes is that of the calls until everything is."""
    config = prospect.config
    shown, _ = _budgets(prospect, calls, least)
    outlooks = outlooks_of(prospect, shown, least)
    spent = {each: max(least, expected_calls(outlooks[config.scheduler], each)) for each in shown}
    rows = [
        {"budget": each, **taken(config, calls, spent[each]), **decision_row(prospect, each, outlooks)}
        for each in shown
    ]
    return {
        **_all(prospect, calls, spent[config.budget or least]),
        "decide": decided_of(prospect, least, outlooks, pilot),
        "forecast": rows,
        "calls_for": decision_calls_for(prospect, outlooks),
        "ways": [],
    }


def _budgets(prospect: Prospect, calls: Calls, least: int) -> tuple[list[int], list[int]]:
    """The budgets to show, rising, and all multiples of the budget, at no fewer calls than ``least``."""
    config = prospect.config
    budget = config.budget or least
    bought = _bought(config, calls)
    multiples = {max(least, round(budget * each)) for each in _MULTIPLES}
    stops = {each for each in bought[:1] if each is not None and bought[0] == bought[1]}
    shown = {each for each in multiples if each >= _SHOWN_FROM * budget}
    return sorted(shown | {each for each in stops if least <= each <= max(multiples)}), sorted(multiples)


def _bought(config: Settings, calls: Calls) -> tuple[int | None, int | None]:
    """The least and the most calls that ``--max-cost`` pays for."""
    return (None, None) if config.max_cost is None else calls.bought(config.max_cost)


def taken(config: Settings, calls: Calls, spent: int) -> dict[str, Any]:
    """Money and time for so many calls."""
    low, high = calls.dollars(spent)
    within = _within(spent, _bought(config, calls), config)
    return {
        "cost_usd_at_least": low,
        "cost_usd_at_most": high,
        "within_max_cost": within,
        "seconds": None if config.in_rounds else calls.time(spent),
    }


def _all(prospect: Prospect, calls: Calls, spent: int) -> dict[str, Any]:
    """What the budget takes, of which ``spent`` calls are spent."""
    config = prospect.config
    budget = config.budget or spent
    tokens, bought = calls.tokens(spent), _bought(config, calls)
    return {
        "budget": budget,
        "calls_an_arm": budget / prospect.arms,
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "completion_tokens_at_most": config.max_tokens * spent,
        "max_cost_usd": config.max_cost,
        "max_cost_calls_at_least": bought[0],
        "max_cost_calls_at_most": bought[1],
        "below_warm_up": _warm_up(prospect) * prospect.arms > budget,
    }


def _within(budget: int, bought: tuple[int | None, int | None], config: Settings) -> bool | None:
    """Whether ``--max-cost`` pays for ``budget`` calls; None where there is none, or where it depends on the answers."""
    least, most = bought
    if config.max_cost is None or least is None or budget <= least:
        return None if config.max_cost is None else True
    return None if most is None or budget <= most else False


def _target(prospect: Prospect, for_error: float | None, least: int) -> dict[str, Any] | None:
    """The budget for an error, and that of an even spread; of the largest error where the run would stop at it."""
    error = prospect.config.target_error if for_error is None else for_error
    if error is None:
        return None
    average = for_error is not None and prospect.config.wanted_objective == "mean-error"
    measure: Measure = "mean" if average else "worst"
    unsaid = replace(prospect, config=replace(prospect.config, budget=None))
    found = {}
    for name in dict.fromkeys((prospect.config.scheduler, BASELINE)):
        rng = np.random.default_rng(SEED)
        found[name] = budget_for(
            error,
            prospect.known,
            lambda budget, variances, groups, name=name: unsaid.policy(name, budget, variances, groups),  # type: ignore[misc]
            rng,
            least=least,
            measure=measure,
            cheap=policy_named(name).evenly,
            rounds=prospect.rounds,
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
        rng = np.random.default_rng(SEED)
        counted = zip(known_counts(told_by, space), scales, strict=True)
        return [Known(counts, fit_mixture(rng.permutation(counts)[:_FIT_ROWS]), scale) for counts, scale in counted]
    nothing = [np.zeros((len(space.pair_ids), scale.levels), dtype=np.int64) for scale in scales]
    mixtures = [_assumed_mixture(attribute) for attribute in space.attributes for _ in space.judges]
    return [Known(*each) for each in zip(nothing, mixtures, scales, strict=True)]


def _begun(prospect: Prospect, least: int, notify: Callable[[str], None]) -> Sequence[Known]:
    """What is known, with the variances that the scheduler would begin with.

    In theory mode there are none, and robin judge refuses them; but a plan may still be made by the ratings there.
    """
    known, config, space = prospect.known, prospect.config, prospect.space
    scheduler = config.scheduler if prospect.task is None else prospect.scheduler_at(config.budget or least)
    policy = policy_named(scheduler)
    if not config.variances or policy.evenly:
        return known
    if policy.whole:
        notify(f"--variances: only planned by; --scheduler {scheduler} begins with none")
        return known
    if policy.takes_prior and policy.theorem(config.mode) is not None:
        notify("--variances: only planned by; leave it out of robin judge, where theory mode refuses it")
        return known
    variances = earlier_variances(config.variances, space, scheduler, notify)
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


def _vary_as(told_by: str | Path | None, pilot: str | Path | None, attributes: Sequence[str]) -> str:
    if told_by is None:
        rated = [attribute for attribute in attributes if attribute in _PAPER_RATED]
        where = ", ".join(rated) if len(rated) == len(attributes) else f"all of {', '.join(_PAPER_RATED)}"
        return f"assumed: as with the two judges of the paper, at {where}"
    return f"as in the {'pilot' if pilot else 'ratings of'} {told_by}"


def _errors(prospect: Prospect, budget: int, expected: Mapping[str, Mapping[int, Expected]]) -> dict[str, Any]:
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


def _needed(share: float, prospect: Prospect, expected: Mapping[str, Mapping[int, Expected]]) -> dict[str, Any]:
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


def _warm_up(prospect: Prospect) -> int:
    """Calls an arm before the scheduler adapts; 0 if it never does, or there is no telling."""
    policy = prospect.policy(prospect.config.scheduler, prospect.config.budget or 0, np.ones(prospect.arms))
    return 0 if policy is None or policy.evenly else policy.warm_up


def _a_request(prospect: Prospect, least: int) -> float:
    """Ratings that a request asks for on average: a scheduler that looks at each rating asks for few at a time."""
    budget = prospect.config.budget or least
    policy = prospect.policy(prospect.config.scheduler, budget, np.ones(prospect.arms))
    samples = prospect.config.samples_per_request
    return float(samples) if policy is None else ratings_together(policy, budget / prospect.arms, samples)


def _paper_bound(prospect: Prospect, budget: int) -> dict[str, Any]:
    """The paper's bound, for the schedulers that its theorems cover, with variances drawn from what is known."""
    config = prospect.config
    nothing = {"bound": None, "assumes": None}
    theorem = policy_named(config.scheduler).theorem(config.mode)
    if theorem is None:
        return nothing
    rng = np.random.default_rng(SEED)
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
