"""From a configuration to a run that is open for work: a new one, or the one that is there already."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from robin_cli.datasets.pairs import Dataset
from robin_cli.files.remote import scheme_of
from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_target, check_together
from robin_cli.goals.making import wanted_goal
from robin_cli.model.errors import InputError
from robin_cli.model.records import things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Choice, Policy
from robin_cli.policies.registry import chosen, policy_named, traits_of
from robin_cli.questions.rubrics import PromptSet
from robin_cli.runner.inputs import check_human, pairs_of, prompts_of
from robin_cli.runner.money import paid_for
from robin_cli.runner.resuming import continued
from robin_cli.runner.variances import earlier_variances
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE, Settings, recorded
from robin_cli.settings.trust import OPENAI_URL, is_loopback
from robin_cli.storage.manifest import FILE, FORMAT, Manifest, ends_of
from robin_cli.storage.store import RunStore

Notify = Callable[[str], None]


def open_run(
    settings: Settings, notify: Notify, dataset: Dataset | None = None, *, meant: int | None = None
) -> RunStore:
    """Make the run that ``settings`` asks for, or go on with the one in its ``run`` directory if it is the same.

    The run is there with its first session, or not at all: whenever this process is killed, robin resume has its settings.

    Args:
        dataset: the pairs, where they were read already; None to read what ``settings`` names.
        meant: the budget that the run is to have in the end, by which a scheduler is chosen; that of ``settings`` if None.

    Raises:
        InputError: bad data or settings, or a run directory made with other settings.
        RunError, StorageError: the directory cannot be used.
    """
    _check(settings)
    said_nothing = settings.objective is None
    settings = replace(settings, objective=settings.wanted_objective)
    check_together(settings)
    prompts = prompts_of(settings)
    dataset = _checked_data(dataset or pairs_of(settings, prompts, notify), settings, prompts, notify)
    judges = tuple(judge.name for judge in judges_of(settings))
    space = ArmSpace(dataset.pairs.ids, prompts.attributes, judges, prompts.scales, prompts.kind.variants)
    goal = wanted_goal(settings, space, dataset.pairs, notify)
    budget = settings.budget or paid_for(settings, goal, dataset.pairs, prompts, None).calls
    settings = replace(settings, **goal.recorded)
    asked = settings.scheduler
    settings, choice = _with_scheduler(settings, goal, meant or budget, notify)
    wanted = manifest_of(replace(settings, budget=budget), dataset, prompts, goal)
    path = _path_of(settings, prompts)
    session = recorded(settings, Scope.SESSION)
    if (path / FILE).exists() and (store := continued(path, wanted, policy_named(asked).among, session)) is not None:
        if choice is not None:
            notify(f"--scheduler {asked}: {store.manifest.settings['scheduler']}, as the run has it")
        return store  # with the variances that it began with: the earlier run may be gone
    variances = None
    if settings.variances:
        variances = earlier_variances(settings.variances, space, settings.scheduler, notify)
    goal.policy(wanted, variances)  # refuses settings that cannot work, before anything is written
    if choice is not None:
        notify(f"--scheduler {asked}: {choice.name}; {choice.why}")
        wanted = wanted.with_data(scheduler_asked=asked)  # by which shards with different ones are of one kind
    if said_nothing and settings.objective == "mean-error":
        notify(
            "--budget-usd: --objective mean-error, for which calls go where a dollar brings most; with worst-case they go "
            "where ratings vary most, whatever a call costs"
        )
    return RunStore.create(path, wanted, dataset.pairs, variances, session)


def _with_scheduler(settings: Settings, goal: Goal, budget: int, notify: Notify) -> tuple[Settings, Choice | None]:
    """Return ``settings`` with the scheduler that the run gets, and why it is that one, where the one named only chooses."""
    setup = goal.setup(
        {name: getattr(settings, name) for name, each in TABLE.items() if each.scope is Scope.RUN},
        budget,
        by_money=settings.budget_usd is not None,
        to_target=settings.target_error is not None,
        rounds=settings.rounds if settings.in_rounds else None,
    )
    choice = chosen(settings.scheduler, setup)
    settings = settings if choice is None else replace(settings, scheduler=choice.name)
    if settings.variances and policy_named(settings.scheduler).whole:
        notify(
            f"--variances: --scheduler {settings.scheduler} learns from this run alone how ratings vary; they are left out"
        )
        settings = replace(settings, variances=None)
    return settings, choice


def _check(settings: Settings) -> None:
    """InputError for settings without a budget, or with a run that is no folder of this machine."""
    if settings.budget is None and settings.budget_usd is None:
        raise InputError(
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, or US dollars, --budget-usd 20"
        )
    if settings.run and scheme_of(settings.run):
        raise InputError(
            f"--run {settings.run}: a run is a folder on this machine; its scores may go to an address, with -o"
        )


def _checked_data(dataset: Dataset, settings: Settings, prompts: PromptSet, notify: Notify) -> Dataset:
    """Return ``dataset`` with human ratings by attribute; InputError where it does not go with ``settings``."""
    prompts.check_references(dataset.pairs)
    dataset = replace(dataset, pairs=dataset.pairs.with_ratings(prompts.renamed_ratings))
    check_target(settings, prompts.scales)
    check_human(dataset, prompts, notify)
    return dataset


def manifest_of(settings: Settings, dataset: Dataset, prompts: PromptSet, goal: Goal) -> Manifest:
    """The manifest of a new run.

    Raises:
        InputError: no model, or a budget that does not reach far enough, see :meth:`Goal.check_reach`.
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
    goal.check_reach(settings.budget or 0)
    left_out = {"left_out": dict(dataset.left_out), "first_left_out": list(dataset.first_left_out)}
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
            **(left_out if dataset.skipped else {}),
            "columns": dict(settings.columns),
            **goal.data,
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


def cautions(
    manifest: Manifest, goal: Goal, policy: Policy, settings: Settings, keyed_urls: Iterable[str]
) -> Iterable[str]:
    """What a user should know before money is spent on this run.

    Args:
        policy: of the run.
        keyed_urls: where a key goes.
    """
    arms, scheduler = len(goal.space), manifest.settings["scheduler"]
    if said := goal.caution(manifest.budget):
        yield said
    elif goal.asks_all and not policy.evenly and manifest.budget < arms * policy.warm_up:
        what = things_rated(arms, len(manifest.attributes), len(manifest.judges))
        better = "; --scheduler two-priors adapts from the second call a pair on, and is the better choice here"
        yield (
            f"the budget of {manifest.budget:,} is below {scheduler.upper()}'s warm-up of {policy.warm_up} calls for each of "
            f"{what}: the calls will be spread evenly, as --scheduler uniform does. It adapts from {arms * policy.warm_up:,} "
            f"up{better if goal.task is None else ''}"
        )
    if settings.target_error is not None and traits_of(scheduler).starves:
        yield (
            f"--target-error: --scheduler {scheduler}, which this run has, may never ask a pair again "
            "whose first ratings agreed, so the worst error may stay above the target until the whole budget is spent; a new "
            "run with --scheduler two-priors comes down to it"
        )
    if manifest.settings["temperature"] == 0:
        yield "at --temperature 0 a judge hardly varies: repeated calls will tell little; 1 is usual here"
    for url in map(urlsplit, keyed_urls):
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield f"the key goes unencrypted to {url.hostname}: use https"


def _path_of(settings: Settings, prompts: PromptSet) -> Path:
    """The folder of a run: that which was named, or a new one under ``runs``."""
    if settings.run:
        return Path(settings.run)
    attributes = ("pairwise", *settings.attributes) if settings.pairwise else prompts.attributes
    return _unused(Path("runs") / _run_name(attributes))


def _unused(path: Path) -> Path:
    """``path``, or with a number behind it: two runs may begin in one second, and clocks go backwards."""
    numbers = (path if number == 1 else path.with_name(f"{path.name}-{number}") for number in itertools.count(1))
    return next(each for each in numbers if not each.exists())


def _run_name(attributes: tuple[str, ...]) -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(attributes)}"
