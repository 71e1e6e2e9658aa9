"""From a configuration, or a run directory, to a run that is open for work."""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from robin_cli.analysis.agreement import off_scale
from robin_cli.datasets.comparisons import load_comparisons
from robin_cli.datasets.fields import NOT_READ, RESPONSES
from robin_cli.datasets.pair_table import PairTable
from robin_cli.datasets.pairs import Dataset, load_pairs
from robin_cli.files.remote import scheme_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.decision import MARGIN, decision_of
from robin_cli.model.errors import InputError, RunError, StorageError, did_you_mean, shown
from robin_cli.model.groups import check_groups, numbered
from robin_cli.model.matches import Matches
from robin_cli.model.records import (
    COMPARE,
    SYSTEM_COLUMN,
    SYSTEM_COLUMNS,
    Pair,
    Scale,
    as_text,
    shared_scale,
    things_rated,
)
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import FEWEST_PROMPTS, Systems, check_systems, systems_of
from robin_cli.model.task import Task, task_of
from robin_cli.policies.base import DEFAULT_MARGIN, Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import chosen, policy_named, traits_of
from robin_cli.prompts.rubrics import PromptSet, known_templates, load_prompts
from robin_cli.runner.connection import with_prices_of
from robin_cli.runner.money import paid_for
from robin_cli.runner.pairwise import check_comparisons, check_pairwise, reach, wanted_matches
from robin_cli.runner.variances import earlier_variances
from robin_cli.scheduling.eligibility import ratings_a_request
from robin_cli.settings.addresses import judge_name, judges_of
from robin_cli.settings.reading import checked
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import IN_PYTHON, TABLE, Settings, recorded
from robin_cli.settings.trust import OPENAI_URL, Source, is_loopback, named_in
from robin_cli.storage.manifest import FILE, FORMAT, Manifest, differences, ends_of, read_manifest
from robin_cli.storage.store import RunStore

Notify = Callable[[str], None]

_COLUMNS_SHOWN = 12


def open_run(
    settings: Settings, notify: Notify, dataset: Dataset | None = None, *, meant: int | None = None
) -> RunStore:
    """Make the run that ``settings`` asks for, or go on with the one in its ``run`` directory if it is the same.

    Args:
        dataset: the pairs, where they were read already; None to read what ``settings`` names.
        meant: the budget that the run is to have in the end, by which a scheduler is chosen; that of ``settings`` if None.

    Raises:
        InputError: bad data or settings, or a run directory made with other settings.
        RunError, StorageError: the directory cannot be used.
    """
    if settings.budget is None and settings.budget_usd is None:
        raise InputError(
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, or US dollars, --budget-usd 20"
        )
    said_nothing = settings.objective is None
    settings = replace(settings, objective=settings.wanted_objective)
    check_together(settings)
    prompts = prompts_of(settings)
    dataset = dataset or pairs_of(settings, prompts, notify)
    prompts.check_references(dataset.pairs)
    dataset = replace(dataset, pairs=dataset.pairs.with_ratings(prompts.renamed_ratings))
    check_target(settings, prompts.scales)
    _check_human(dataset, prompts, notify)
    judges = tuple(judge.name for judge in judges_of(settings))
    space = ArmSpace(dataset.pairs.ids, prompts.attributes, judges, prompts.scales, settings.pairwise)
    matches = wanted_matches(settings, space, dataset.pairs)
    task = wanted_task(settings, space, dataset.pairs, notify)
    systems = wanted_systems(settings, space, dataset.pairs, notify)
    budget = settings.budget or paid_for(settings, space, dataset.pairs, prompts, None).calls
    if task is not None:
        settings = replace(settings, decide=str(task.decision), margin=_told_margin(task))
    choice = chosen(settings.scheduler, _setup_of(settings, space, task, meant or budget, systems, matches))
    asked, settings = settings.scheduler, settings if choice is None else replace(settings, scheduler=choice.name)
    if settings.variances and policy_named(settings.scheduler).whole:
        notify(
            f"--variances: --scheduler {settings.scheduler} learns from this run alone how ratings vary; they are left out"
        )
        settings = replace(settings, variances=None)
    wanted = manifest_of(replace(settings, budget=budget), dataset, prompts, systems, matches)
    if settings.run and scheme_of(settings.run):
        raise InputError(
            f"--run {settings.run}: a run is a folder on this machine; its scores may go to an address, with -o"
        )
    path = (
        Path(settings.run)
        if settings.run
        else _unused(
            Path("runs") / _run_name(("pairwise", *settings.attributes) if settings.pairwise else prompts.attributes)
        )
    )
    if (path / FILE).exists() and (store := _continued(path, wanted, policy_named(asked).among)) is not None:
        if choice is not None:
            notify(f"--scheduler {asked}: {store.manifest.settings['scheduler']}, as the run has it")
        return store  # with the variances that it began with: the earlier run may be gone
    variances = None
    if settings.variances:
        variances = earlier_variances(settings.variances, space, settings.scheduler, notify)
    policy_of(
        wanted, space, variances, task, systems, matches
    )  # refuses settings that cannot work, before anything is written
    if choice is not None:
        notify(f"--scheduler {asked}: {choice.name}; {choice.why}")
        wanted = wanted.with_data(scheduler_asked=asked)  # by which shards with different ones are of one kind
    if said_nothing and settings.objective == "mean-error":
        notify(
            "--budget-usd: --objective mean-error, for which calls go where a dollar brings most; with worst-case they go "
            "where ratings vary most, whatever a call costs"
        )
    return RunStore.create(path, wanted, dataset.pairs, variances)


def check_together(settings: Settings) -> None:
    """InputError for settings that do not go together, or say how another is meant that is not given: they would do nothing."""
    check_pairwise(settings)
    if settings.tier_fallback and settings.service_tier is None:
        raise InputError(
            "--tier-fallback: says what to do where a --service-tier has no room, and none is given; give one"
        )
    if settings.rounds != TABLE["rounds"].default and not settings.in_rounds:
        raise InputError(
            "--rounds: says in how many --batch or --batch-files asks; give one of the two, or leave it out"
        )


def wanted_task(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Task | None:
    """What ``settings`` want decided of ``pairs``; None where nothing is.

    Args:
        notify: is told of groups in which there is nothing to choose.

    Raises:
        InputError: what cannot be decided.
    """
    if settings.decide is None or settings.pairwise:
        return None
    decision = decision_of(
        settings.decide, space.attributes, space.scales, margin=settings.margin, error_rate=settings.error_rate
    )
    if settings.group is not None and not decision.is_best:
        raise InputError("--group: is for --decide best; thresholds are for each pair by itself")
    task = task_of(decision, space, lambda: PairTable.of(pairs).groups[0])
    if task is not None and task.group is not None:
        if said := check_groups(task.group, settings.group):
            notify(f"{said}: they are asked no more than twice")
        _ = task.contests  # refuses groups that are too large
    return task


def wanted_systems(settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Notify) -> Systems | None:
    """The systems that ``settings`` want compared; None where nothing is.

    Args:
        notify: is told of prompts that one system alone answered.

    Raises:
        InputError: what cannot be compared, or not so.
    """
    if settings.objective != COMPARE:
        return None
    compare = f"--objective {COMPARE}"
    if settings.target_error is not None:
        raise InputError(
            f"{compare}: not with {TABLE['target_error'].flag}, at which calls go where a score is least certain; leave one of "
            "the two out"
        )
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"{compare}: not with --mode {settings.mode}, whose guarantee is that of scores; leave one of the two out"
        )
    table = PairTable.of(pairs)
    found = table.systems
    if unsaid := [pair_id for pair_id, value in zip(table.ids, found, strict=True) if value is None]:
        raise InputError(_without_system(compare, pairs, unsaid))
    system, names = numbered(as_text(value) for value in found if value is not None)
    prompt, prompts = numbered(text or "" for text in table.texts("prompt"))
    systems = systems_of(space, system, names, prompt, prompts, settings.seed)
    if said := check_systems(systems):
        notify(f"{compare}: {said}")
    return systems


def _without_system(compare: str, pairs: Sequence[Pair], unsaid: Sequence[str]) -> str:
    """What is said where some pairs, or all, do not say which system answered."""
    if len(unsaid) < len(pairs):
        return (
            f"{compare}: {len(unsaid):,} of {len(pairs):,} pairs do not say which system answered, the first is "
            f'{shown(unsaid[0])}; give them a "{SYSTEM_COLUMN}", or leave them out'
        )
    known = sorted({name for pair in pairs for name in pair.columns})
    listed = ", ".join(map(shown, known[:_COLUMNS_SHOWN])) + ", …" * (len(known) > _COLUMNS_SHOWN)
    there = f"it also has {listed}" if known else "it has no further columns"
    return (
        f"{compare}: the data does not say which system answered ({there}); name the column that does: --columns "
        f"{SYSTEM_COLUMN}=NAME"
    )


def _told_margin(task: Task) -> float | None:
    """The margin as it is recorded: None for what it is if nothing is said."""
    margins = task.decision.margins
    usual = [MARGIN * (scale.high - scale.low) for scale in task.space.scales]
    return None if np.allclose(margins, usual, rtol=1e-9, atol=0.0) else margins[0]


def _setup_of(
    settings: Settings,
    space: ArmSpace,
    task: Task | None,
    budget: int,
    systems: Systems | None,
    matches: Matches | None,
) -> Setup:
    """What a policy that chooses among others is told of a run."""
    return Setup(
        arms=len(space),
        budget=budget,
        scale=space.scales[0],
        delta=settings.delta,
        mode=settings.mode,
        objective=settings.wanted_objective,
        by_money=settings.budget_usd is not None,
        task=task,
        to_target=settings.target_error is not None,
        systems=systems,
        matches=matches,
        margin=DEFAULT_MARGIN if settings.margin is None else settings.margin,
        rounds=settings.rounds if settings.in_rounds else None,
    )


def _check_human(dataset: Dataset, prompts: PromptSet, notify: Notify) -> None:
    """Say of what the human ratings are on another scale: after the run it would be too late to name another field."""
    for name, scale in zip(prompts.attributes, prompts.scales, strict=True):
        if why := off_scale(dataset.pairs.human(name), scale):
            notify(
                f"{name}: {why}, so no agreement with them will be told; the field that holds them on that scale is named with "
                f"--columns {shlex.quote(name)}=NAME"
            )


def prompts_of(settings: Settings) -> PromptSet:
    """The template and rubrics that ``settings`` names. InputError as :func:`load_prompts`."""
    return load_prompts(
        settings.attributes,
        settings.rubric,
        settings.template,
        settings.answer_format,
        pairwise=settings.pairwise,
        ties=not settings.no_ties,
    )


def recorded_prompts(manifest: Manifest) -> PromptSet:
    """The prompts of a run, by its own copy."""
    if "template" in manifest.prompt:
        return PromptSet.from_record(manifest.prompt)
    return load_prompts(manifest.attributes)  # a run from before there was one


def pairs_of(
    settings: Settings, prompts: PromptSet, notify: Notify, read: Callable[..., Dataset] | None = None
) -> Dataset:
    """The pairs that ``settings`` names, with the human ratings of what ``prompts`` ask for; or the comparisons.

    Args:
        read: takes the options of :func:`load_pairs` and has the pairs, where they are not in the files of ``settings``; in a
            pairwise run those of :func:`load_comparisons`.

    Raises:
        InputError: it names none, or they cannot be read.
    """
    if read is None and not settings.data:
        raise InputError(
            "no data: name a file of prompt-response pairs, robin judge PAIRS.jsonl, or set data in robin.toml"
        )
    dataset = _read_data(settings, prompts, read)
    for said in dataset.notes:
        notify(said)
    of_two_names = (*RESPONSES, *SYSTEM_COLUMNS) if settings.pairwise else ()
    ours = ("prompt", "response", "id", "reference", SYSTEM_COLUMN, *of_two_names, *prompts.human_ratings)
    for name in (name for name, theirs in settings.columns.items() if name not in ours and theirs != NOT_READ):
        if near := did_you_mean(name, ours):
            notify(f'--columns {name}=…: "{name}" is taken for an attribute with human ratings{near}')
    if dataset.skipped:
        of = dataset.skipped + dataset.merged + len(dataset.pairs)
        rows = f"{dataset.skipped:,} bad row{'s' * (dataset.skipped != 1)} of {of:,}"
        why = ", ".join(f"{count:,} {reason}" for reason, count in dataset.left_out.items())
        notify(
            f"{dataset.source}: {rows} left out (--skip-bad-rows): {why}. The scores are of the rows that are left: where what "
            "is left out is refused or broken answers, their mean is too high"
        )
        for said in dataset.first_left_out:
            notify(f"left out: {said}")
    for said in dataset.columns_left_out:
        notify(f"{dataset.source}: {said}")
    if empty := dataset.pairs.empty:
        things = "comparisons have an empty response, and" if settings.pairwise else "responses are empty;"
        notify(
            f"{dataset.source}: {empty:,} of {len(dataset.pairs):,} {things} they are judged as they are. If "
            "they are missing, remove these rows"
        )
    if dataset.merged:
        notify(
            f"{dataset.source}: {dataset.merged} rows merged with earlier ones, further workers' ratings of the same "
            "summaries; the human ratings are the workers' means"
        )
    return dataset


def _read_data(settings: Settings, prompts: PromptSet, read: Callable[..., Dataset] | None) -> Dataset:
    options: dict[str, Any] = {
        "columns": settings.columns or None,
        "skip_bad_rows": settings.skip_bad_rows,
        "limit": settings.limit,
    }
    if settings.pairwise:
        options |= {"reference": settings.reference, "wants_best": settings.decide is not None}
        return (read or partial(load_comparisons, settings.data))(**options)
    options |= {"ratings": prompts.human_ratings, "group": settings.group}
    return (read or partial(load_pairs, settings.data))(**options)


def sources_of(manifest: Manifest) -> list[tuple[str, str]]:
    """The files that the pairs of a run were read from, each with its SHA-256 then."""
    files = manifest.data.get("files") or [(manifest.data["source"], manifest.data["sha256"])]
    return [(str(name), str(recorded)) for name, recorded in files]


def reopen_run(path: Path, *, budget: int | None, budget_usd: float | None = None) -> RunStore:
    """Open the run at ``path`` to go on with it as it was made, with a larger budget if one is given.

    Raises:
        InputError: a smaller budget, or one of calls for a run by money, or the other way round.
        RunError, StorageError: data or prompts that changed since, or a directory that cannot be used.
    """
    store = RunStore.open(path)
    try:
        _check_unchanged(store.manifest)
        if budget is not None or budget_usd is not None:
            _set_budget(store, budget, budget_usd)
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.close()
        raise
    return store


def resumed(run: Path, given: Mapping[str, Any], *, in_python: bool = False) -> Settings:
    """The settings of a further session of the run at ``run``: its own, and the last session's but for what is ``given``.

    A ``model`` in ``given`` moves a judge to the address behind its name; a judge that is named without one, or not at all,
    stays where it was. Variables and prices for each judge go by the order in which ``given`` names them, never by chance.

    Raises:
        InputError: other judges than the run's; variables or prices that cannot be told apart; as :func:`check_target`.
        RunError: no run, or one whose last session recorded what is no address and no variable.
    """
    manifest = read_manifest(run)
    try:  # it may be another's, and decides where keys go
        before = checked(manifest.last_session, "its last session")
    except InputError as error:
        raise RunError(f"{run / FILE}: damaged ({error}); restore the file from a copy") from None
    own = manifest.own_settings
    _check_unit(manifest, given.get("budget"), given.get("budget_usd"))
    if given.get("target_error") is not None:
        _check_ends_at_error(own)
    if (judge := given.get("judge", own["judge"])) != own["judge"]:
        raise InputError(
            f"--judge: this run is judged by {own['judge']}, now {judge}; for another judge start a new run"
        )
    if judge.startswith(IN_PYTHON) and "judge" not in given:
        function = judge.removeprefix(IN_PYTHON)
        last = function.rpartition(".")[2]
        raise InputError(
            f"{run}: its judge is {function}, a function in Python, which has to be handed over again: "
            f"open_run({str(run)!r}).resume(judge={last if last.isidentifier() else '…'})"
        )
    names = tuple(map(judge_name, before["model"]))
    order = [judge_name(model) for model in given.get("model", ())] or list(names)
    if twice := next((name for name in order if order.count(name) > 1), None):
        raise InputError(f'--model: "{twice}" is named twice; name it once, and each of its addresses with --base-url')
    if not set(order) <= set(names):
        raise InputError(
            f"--model: this run is judged by {', '.join(names)}, now {', '.join(order)}; only their addresses may change "
            "(NAME@https://…). For other judges start a new run"
        )
    moved = {name: model for name, model in zip(order, given.get("model", ()), strict=False) if model != name}
    settings = {"budget_usd": manifest.budget_usd, **own, **before, **_without_the_other_way(given)}
    settings["model"] = tuple(moved.get(judge_name(model), model) for model in before["model"])
    for name in ("api_key_env", "price_in", "price_out", "price_cached"):
        values = given.get(name, ())
        if len(values) > 1:
            if len(values) != len(order) or set(order) != set(names):
                raise InputError(
                    f"{TABLE[name].flag}: {len(values)} for {len(names)} judges; give one for each, and each judge's --model "
                    "in the same order"
                )
            settings[name] = tuple(dict(zip(order, values, strict=True))[judge] for judge in names)
    found = Settings(**settings, source=Source(str(run), "run", named_in(given), in_python=in_python))
    check_target(found, manifest.scales)
    # Prices that were given before were for the tier of then; those given now are for that of now.
    return found if given.get("price_in") else with_prices_of(found, Settings(**{**own, **before}).tier)


def _without_the_other_way(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, and what it rules out of how the last session asked: by a batch service, by files, or one call at a time."""
    ruled_out: dict[str, Any] = {}
    if given.get("batch") is not None:
        ruled_out["batch_files"] = None
    if given.get("batch_files") is not None:
        ruled_out["batch"] = False
    if given.get("batch") or given.get("batch_files") is not None:
        ruled_out |= {"service_tier": None, "tier_fallback": False}
    return {**ruled_out, **given}


def _check_ends_at_error(own: Mapping[str, Any]) -> None:
    """InputError where a run with these settings of its own is for something else than small errors of scores."""
    if own["decide"] is not None:
        raise InputError(
            f"--target-error: this run ends when it has decided {own['decide']}, not at an error; leave it out, or start a new "
            "run"
        )
    if own["objective"] == COMPARE:
        raise InputError(
            "--target-error: this run compares systems, and asks where a difference is least certain, not a score; leave it "
            "out, or start a new run"
        )


def manifest_of(
    settings: Settings,
    dataset: Dataset,
    prompts: PromptSet,
    systems: Systems | None = None,
    matches: Matches | None = None,
) -> Manifest:
    """The manifest of a new run.

    Args:
        systems: that are to be compared.
        matches: what the comparisons of a pairwise run are of.

    Raises:
        InputError: no model, or a budget that does not reach far enough, see :func:`check_reach`.
    """
    judges = judges_of(settings)
    own = {
        "base_url": list(settings.base_url or (OPENAI_URL,) * settings.sends) if settings.at_endpoints else [],
        "model": settings.model[0] if len(judges) == 1 else list(settings.model),
        **recorded(settings, Scope.RUN),
    }
    sampling: dict[str, Any] = {"temperature": settings.temperature, "top_p": settings.top_p, **settings.extra_body}
    if settings.scoring == "logprobs" and (sampling["temperature"], sampling["top_p"]) != (1, 1):
        raise InputError(
            f"--scoring logprobs: needs --temperature 1 and --top-p 1, not {sampling['temperature']} and {sampling['top_p']}: "
            "endpoints tell probabilities from before these change them, so the scores would be those of another judge"
        )
    if matches is not None:
        check_comparisons(settings.budget or 0, matches)
    else:
        check_reach(settings.budget or 0, len(dataset.pairs), prompts.attributes, len(judges), systems)
    is_new = settings.budget_usd is not None or settings.pairwise
    return Manifest(
        settings=own,
        budget=settings.budget or 0,
        attributes=prompts.attributes,
        budget_usd=settings.budget_usd,
        **ends_of(prompts.attributes, prompts.scales) | ({"format": FORMAT} if is_new else {}),
        data={
            "source": dataset.source,
            "sha256": dataset.sha256,
            "pairs": len(dataset.pairs),
            "skipped": dataset.skipped,
            **(
                {"left_out": dict(dataset.left_out), "first_left_out": list(dataset.first_left_out)}
                if dataset.skipped
                else {}
            ),
            "columns": dict(settings.columns),
            **({"systems": len(matches.names)} if matches is not None and matches.names else {}),
            **({"files": [list(file) for file in dataset.files]} if len(dataset.files) > 1 else {}),
        },
        prompt={
            "sha256": prompts.sha256,
            "rubric_files": list(settings.rubric),
            "template_file": settings.template,
            **prompts.record,
        },
        seed=settings.seed,
    )


def check_target(settings: Settings, scales: Sequence[Scale]) -> None:
    """InputError where the error to stop at is none that there can be on ``scales``, or there is none to be guaranteed."""
    if settings.target_error is not None:
        check_error("--target-error", settings.target_error, scales)
    elif settings.guaranteed:
        raise InputError("--guaranteed: says how --target-error is meant, and there is none; give one, or leave it out")


def check_error(flag: str, error: float, scales: Sequence[Scale]) -> None:
    """InputError, naming ``flag``, for an ``error`` that no score on these scales could be off by, or that all are within."""
    scale = shared_scale(scales)
    width = 1 if scale is None else scale.high - scale.low
    if not 0 < error < width:
        unit = (
            "a share of each attribute's scale, for there are several"
            if scale is None
            else f"in points of the scale {scale}"
        )
        raise InputError(f"{flag} {error:g}: is {unit}, so above 0 and below {width}")


def check_reach(
    budget: int, pairs: int, attributes: Sequence[str], judges: int, systems: Systems | None = None
) -> None:
    """InputError if ``budget`` does not reach every arm once, or, where systems are compared, prompts enough."""
    if systems is not None:
        if budget < (least := systems.calls_for(FEWEST_PROMPTS)):
            raise InputError(
                f"--budget {budget}: does not reach all responses to {FEWEST_PROMPTS} prompts, the fewest that systems are "
                f"compared on; raise it to {least} or more"
            )
        return
    arms_per_pair = len(attributes) * judges
    arms = pairs * arms_per_pair
    if budget < arms:
        what = things_rated(arms, len(attributes), judges)
        raise InputError(
            f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {arms} or more, or take fewer pairs "
            f"with --limit {max(1, budget // arms_per_pair)}"
        )


def policy_of(
    manifest: Manifest,
    space: ArmSpace,
    variances: FloatArray | None,
    task: Task | None,
    systems: Systems | None = None,
    matches: Matches | None = None,
) -> Policy:
    """The policy that ``manifest`` names, begun with ``variances`` where it can use them; InputError if it does not fit."""
    settings = manifest.settings
    setup = Setup(
        arms=len(space),
        budget=manifest.budget,
        scale=space.scales[0],
        delta=settings["delta"],
        mode=settings["mode"],
        objective=settings["objective"],
        variances=variances,
        task=task,
        systems=systems,
        matches=matches,
        margin=manifest.own_settings["margin"] or DEFAULT_MARGIN,
        by_money=manifest.budget_usd is not None,
    )
    return policy_by_scale(settings["scheduler"], setup, variances, space.by_scale())


def ratings_together(policy: Policy | None, calls: float, samples: int) -> float:
    """Ratings that a request asks for on average, with ``calls`` an arm: a policy that looks at each asks for few at a time.

    None: an even spread.
    """
    return ratings_a_request(calls, round(calls) + 1 if policy is None else policy.warm_up, samples)


def cautions(
    manifest: Manifest,
    space: ArmSpace,
    variances: FloatArray | None,
    samples: int,
    keyed_urls: Iterable[str],
    *,
    to_target: bool = False,
    task: Task | None = None,
    systems: Systems | None = None,
    matches: Matches | None = None,
) -> Iterable[str]:
    """What a user should know before money is spent on this run.

    Args:
        to_target: it stops at an error.
        samples: ratings wanted of a request.
        keyed_urls: where a key goes.
        task: what is to be decided.
        systems: what is to be compared.
        matches: what the comparisons of a pairwise run are of.
    """
    policy, arms = policy_of(manifest, space, variances, task, systems, matches), len(space)
    if matches is not None:
        if said := reach(manifest.budget, matches):
            yield said
    elif systems is not None and manifest.budget < arms:
        reached, there = systems.prompts_within(manifest.budget), int(systems.is_shared.sum())
        yield (
            f"the budget of {manifest.budget:,} asks about {reached:,} of the {there:,} prompts that systems are compared on, "
            "drawn at random, with all responses to each; the other pairs get no score"
        )
    elif not policy.evenly and manifest.budget < arms * policy.warm_up:
        what = things_rated(arms, len(manifest.attributes), len(manifest.judges))
        scheduler = manifest.settings["scheduler"].upper()
        yield (
            f"the budget of {manifest.budget:,} is below {scheduler}'s warm-up of {policy.warm_up} calls for each of "
            f"{what}: the calls will be spread evenly, as --scheduler uniform does. It adapts from {arms * policy.warm_up:,} "
            "up"
            + "; --scheduler two-priors adapts from the second call a pair on, and is the better choice here"
            * (task is None)
        )
    together, evenly = (ratings_together(each, manifest.budget / arms, samples) for each in (policy, None))
    if together <= evenly / 2 and systems is None and matches is None:
        scheduler = manifest.settings["scheduler"]
        yield (
            f"--samples-per-request {samples}: --scheduler {scheduler} looks at ratings before it asks on, so a request "
            f"will ask for about {together:.1f}, and each pays the prompt; --scheduler uniform would ask for {evenly:.1f}"
        )
    if to_target and traits_of(manifest.settings["scheduler"]).starves:
        yield (
            f"--target-error: --scheduler {manifest.settings['scheduler']}, which this run has, may never ask a pair again "
            "whose first ratings agreed, so the worst error may stay above the target until the whole budget is spent; a new "
            "run with --scheduler two-priors comes down to it"
        )
    if manifest.settings["temperature"] == 0:
        yield "at --temperature 0 a judge hardly varies: repeated calls will tell little; 1 is usual here"
    for url in map(urlsplit, keyed_urls):
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield f"the key goes unencrypted to {url.hostname}: use https"


def _continued(path: Path, wanted: Manifest, among: Sequence[str]) -> RunStore | None:
    """The run at ``path``, open to go on with; None if it was made with other settings, has no answers, and made way.

    ``among``: schedulers of which any will do, where the choice was left to robin: it keeps to the one that the run has.
    """
    store = RunStore.open(path)
    try:
        if (scheduler := store.manifest.settings["scheduler"]) in among:
            wanted = replace(wanted, settings={**wanted.settings, "scheduler": scheduler})
        if store.has_answers:
            _check_unit(store.manifest, wanted.budget if wanted.budget_usd is None else None, wanted.budget_usd)
        differing = differences(store.manifest, wanted)
        if differing and not store.has_answers:
            store.make_way()
            return None
        if differing:
            raise InputError(
                f"{path}: holds a run made with other settings ({'; '.join(differing)}). "
                f"Go on with its own settings, robin resume {path}, or name another --run"
            )
        _set_budget(store, wanted.budget if wanted.budget_usd is None else None, wanted.budget_usd)
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.close()
        raise
    return store


def _check_unit(manifest: Manifest, budget: int | None, budget_usd: float | None) -> None:
    """InputError for a budget of calls where the run has one of money, or the other way round."""
    own = manifest.budget_usd
    if own is not None and budget is not None:
        raise InputError(f"--budget {budget}: this run has a budget of money, ${own:g}; raise that: --budget-usd MORE")
    if own is None and budget_usd is not None:
        raise InputError(
            f"--budget-usd {budget_usd:g}: this run has a budget of {manifest.budget:,} calls; raise that: --budget MORE. "
            "(What it may cost at most is --max-cost)"
        )


def _set_budget(store: RunStore, budget: int | None, budget_usd: float | None) -> None:
    recorded, recorded_usd = store.manifest.budget, store.manifest.budget_usd
    _check_unit(store.manifest, budget, budget_usd)
    if budget_usd is not None and recorded_usd is not None:
        if budget_usd < recorded_usd:
            raise InputError(
                f"--budget-usd {budget_usd:g}: the run {store.path} has a budget of ${recorded_usd:g}; it can be raised, not "
                "lowered"
            )
        if budget_usd > recorded_usd:
            calls = min(10**9, round(recorded * budget_usd / recorded_usd))
            store.set_manifest(replace(store.manifest, budget=calls, budget_usd=budget_usd))
        return
    assert budget is not None  # noqa: S101  # it is one of the two
    if budget < recorded:
        raise InputError(
            f"--budget {budget}: the run {store.path} has a budget of {recorded}; it can be raised, not lowered"
        )
    if budget > recorded:
        store.set_manifest(replace(store.manifest, budget=budget))


def _check_unchanged(manifest: Manifest) -> None:
    if recorded_prompts(manifest).sha256 != manifest.prompt["sha256"]:  # another question would be asked under its name
        raise RunError(
            f"{FILE}: its template and rubrics are not those that the run was made with (their SHA-256 differs); restore the "
            "file from a copy, or start a new run"
        )
    if _prompts_now(manifest) != manifest.prompt["sha256"]:
        raise RunError(
            f"the prompts changed since this run was made (by robin {manifest.versions.get('robin')}): going on would mix two "
            "experiments; restore the rubric and template files, use the robin that made it, or start a new run"
        )
    for name, digest in sources_of(manifest):
        _check_file(Path(name), digest)


def _check_file(source: Path, recorded: str) -> None:
    if source.is_file():
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != recorded:
            raise RunError(
                f"{source}: changed since this run was made; restore it, or start a new run with another --run. "
                "(The run keeps its own copy of the pairs: moving the changed file away lets it go on with that)"
            )


def _prompts_now(manifest: Manifest) -> str:
    """What the prompts that a run was made with hash to today; its own copy's hash where a file of them is not there."""
    files, template = manifest.prompt.get("rubric_files", ()), manifest.prompt.get("template_file")
    own = [*files, *([template] if template and template not in known_templates() else [])]
    if not all(Path(file).is_file() for file in own):
        return recorded_prompts(manifest).sha256
    return load_prompts(
        manifest.criteria if manifest.is_pairwise else manifest.attributes,
        files,
        template,
        manifest.answer_format,
        pairwise=manifest.is_pairwise,
        ties=not manifest.own_settings["no_ties"],
    ).sha256


def _unused(path: Path) -> Path:
    """``path``, or with a number behind it: two runs may begin in one second, and clocks go backwards."""
    numbers = (path if number == 1 else path.with_name(f"{path.name}-{number}") for number in itertools.count(1))
    return next(each for each in numbers if not each.exists())


def _run_name(attributes: tuple[str, ...]) -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(attributes)}"
