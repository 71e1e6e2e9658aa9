"""From settings, or a run's manifest, to the pairs that are judged and the words they are asked with; and to the manifest."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from robin_cli.analysis.agreement import off_scale
from robin_cli.datasets.comparisons import load_comparisons
from robin_cli.datasets.fields import NOT_READ, RESPONSES
from robin_cli.datasets.formats import sheets
from robin_cli.datasets.pairs import Dataset, load_pairs
from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_shown, check_target
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.questions.rubrics import PromptSet, load_prompts
from robin_cli.settings.addresses import judges_of, shared_addresses
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import Settings, recorded
from robin_cli.storage.manifest import FORMAT, Manifest, ends_of, read_manifest

Notify = Callable[[str], None]


def space_of(settings: Settings, prompts: PromptSet, pair_ids: Sequence[str]) -> ArmSpace:
    """Which arm is which pair, variant, attribute and judge."""
    judges = tuple(judge.name for judge in judges_of(settings))
    settles = settings.settle is not None
    return ArmSpace(pair_ids, prompts.attributes, judges, prompts.scales, prompts.kind.variants, settles)


def checked_data(dataset: Dataset, settings: Settings, prompts: PromptSet, notify: Notify) -> Dataset:
    """Return ``dataset`` with human ratings by attribute; InputError where it does not go with ``settings``."""
    prompts.images = dataset.images
    prompts.check_references(dataset.pairs)
    dataset = replace(dataset, pairs=dataset.pairs.with_ratings(prompts.renamed_ratings))
    check_target(settings, prompts.scales)
    check_human(dataset, prompts, notify)
    return dataset


def check_human(dataset: Dataset, prompts: PromptSet, notify: Notify) -> None:
    """Say of what the human ratings are on another scale: after the run it would be too late to name another field."""
    for name, scale in zip(prompts.attributes, prompts.scales, strict=True):
        if why := off_scale(dataset.pairs.human(name), prompts.kind.score_scale or scale):
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
        return PromptSet.from_record(manifest.prompt, pairwise=manifest.is_pairwise)
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
    check_shown(settings.show, lambda: dataset.pairs.columns.column_names)
    of_two_names = (*RESPONSES, *SYSTEM_COLUMNS) if settings.pairwise else ()
    ours = ("prompt", "response", "id", "reference", "image", SYSTEM_COLUMN, *of_two_names, *prompts.human_ratings)
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
        among = number_of(len(dataset.pairs), "comparison" if settings.pairwise else "pair")
        notify(
            f"{dataset.source}: empty responses in {empty:,} of {among}, judged as they are. If they are missing, remove "
            "these rows"
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
    return [(sheets.file_of(str(name)), str(recorded)) for name, recorded in files]


def files_read_by(run: Path) -> list[str]:
    """Return the files that the pairs of ``run`` were read from, which no output may replace. RunError where no run is.

    A relative name may have been given in any folder around the run, for commands now may be given elsewhere.
    """
    names = [name for name, _ in sources_of(read_manifest(run))]
    return [*names, *(str(folder / name) for folder in run.absolute().parents for name in names if "://" not in name)]


def manifest_of(settings: Settings, dataset: Dataset, prompts: PromptSet, goal: Goal) -> Manifest:
    """The manifest of a new run.

    Raises:
        InputError: no model, or a budget that does not reach far enough, see :meth:`Goal.check_reach`.
    """
    judges = judges_of(settings)
    own = {
        "base_url": list(settings.base_url or shared_addresses(settings) * settings.sends)
        if settings.at_endpoints
        else [],
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
    is_new = settings.budget_usd is not None or settings.pairwise or bool(dataset.images) or settings.settle is not None
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
