"""The inputs of a run, from settings or a manifest: pairs and prompts; and the manifest of a new run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from robin_cli.ask.prompts import PromptSet
from robin_cli.data.comparisons import load_comparisons
from robin_cli.data.fields import NOT_READ, RESPONSES
from robin_cli.data.pairs import Dataset, load_pairs
from robin_cli.goals.base import Goal
from robin_cli.goals.checks import check_answers, check_shown, check_target
from robin_cli.model.errors import RunError, did_you_mean
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.run.manifest import FILE, Manifest, ends_of
from robin_cli.settings.addresses import OPENAI_URL
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import Settings, recorded
from robin_cli.stats.agreement import off_scale

Notify = Callable[[str], None]


def space_of(judges: Sequence[str], prompts: PromptSet, pair_ids: Sequence[str]) -> ArmSpace:
    """Return the arms by pair, variant, attribute and judge, which is a name."""
    return ArmSpace(
        pair_ids, prompts.attributes, tuple(judges), prompts.scales, prompts.kind.variants
    )


def checked_data(
    dataset: Dataset, settings: Settings, prompts: PromptSet, notify: Notify
) -> Dataset:
    """Return ``dataset`` with human ratings by attribute. InputError if it does not fit ``settings``."""
    prompts.images = dataset.images
    prompts.check_references(dataset.pairs)
    dataset = replace(dataset, pairs=dataset.pairs.with_ratings(prompts.renamed_ratings))
    check_target(settings, prompts.scales)
    check_answers(settings, prompts)
    # Human ratings on another scale: after the run it is too late to name another field.
    for name, scale in zip(prompts.attributes, prompts.scales, strict=True):
        if why := off_scale(dataset.pairs.human(name), prompts.kind.score_scale or scale):
            notify(
                f"{name}: {why}, so agreement with them will not be reported; name the field with ratings on that "
                f"scale: --columns {shlex.quote(name)}=NAME"
            )
    return dataset


def recorded_prompts(manifest: Manifest) -> PromptSet:
    """Return the prompts of a run, from its own copy. RunError if it has none."""
    if "template" not in manifest.prompt:
        raise RunError(
            f"{FILE}: has no template and rubrics; restore the file from a copy, or start a new run"
        )
    return PromptSet.from_record(manifest.prompt, pairwise=manifest.is_pairwise)


def pairs_of(
    settings: Settings,
    prompts: PromptSet,
    notify: Notify,
    read: Callable[..., Dataset] | None = None,
) -> Dataset:
    """Load the pairs that ``settings`` name, or the comparisons, with human ratings for the attributes of ``prompts``.

    Args:
        read: loads pairs that are not in files, with the options of :func:`load_pairs`, or of :func:`load_comparisons` in a
            pairwise run.

    Raises:
        InputError: there are none, or they cannot be read.
    """
    dataset = _read_data(settings, prompts, read)
    check_shown(settings.show, lambda: dataset.pairs.columns.column_names)
    for note in _notes_on(dataset, settings, prompts):
        notify(note)
    return dataset


def _notes_on(dataset: Dataset, settings: Settings, prompts: PromptSet) -> Iterator[str]:
    """Yield what the user should know about the data before it is judged."""
    yield from dataset.notes
    source, pairs = dataset.source, len(dataset.pairs)
    ours = ["prompt", "response", "id", "reference", "image", SYSTEM_COLUMN, *prompts.human_ratings]
    ours += (*RESPONSES, *SYSTEM_COLUMNS) if settings.pairwise else ()
    for name, column in settings.columns.items():
        is_attribute = name not in ours and column != NOT_READ
        if is_attribute and (near := did_you_mean(name, ours)):
            yield f'--columns {name}=…: "{name}" is taken for an attribute with human ratings{near}'
    if dataset.skipped:
        rows = number_of(dataset.skipped, "bad row")
        why = ", ".join(f"{count:,} {reason}" for reason, count in dataset.left_out.items())
        yield (
            f"{source}: {rows} of {dataset.skipped + dataset.merged + pairs:,} left out (--skip-bad-rows): {why}. The scores "
            "are of the other rows: if those left out are refused or broken answers, the mean is too high"
        )
        yield from (f"left out: {row}" for row in dataset.first_left_out)
    yield from (f"{source}: {line}" for line in dataset.columns_left_out)
    if empty := dataset.pairs.empty:
        among = number_of(pairs, "comparison" if settings.pairwise else "pair")
        yield (
            f"{source}: empty responses in {empty:,} of {among}, judged as they are. If they are missing, remove these rows"
        )
    if dataset.merged:
        yield (
            f"{source}: {dataset.merged} rows merged with earlier ones, further people's ratings of the same responses; the "
            "human ratings are their means"
        )


def _read_data(
    settings: Settings, prompts: PromptSet, read: Callable[..., Dataset] | None
) -> Dataset:
    options: dict[str, Any] = {
        "columns": settings.columns or None,
        "skip_bad_rows": settings.skip_bad_rows,
        "limit": settings.limit,
        "encoding": settings.encoding or "",
        "strip_thinking": settings.strip_thinking,
    }
    if settings.pairwise:
        options |= {"wants_best": settings.decide is not None}
        return (read or partial(load_comparisons, settings.data))(**options)
    options |= {"ratings": prompts.human_ratings, "group": settings.group}
    return (read or partial(load_pairs, settings.data))(**options)


def manifest_of(
    settings: Settings,
    dataset: Dataset,
    prompts: PromptSet,
    goal: Goal,
    budget_usd: float | None = None,
) -> Manifest:
    """Return the manifest of a new run.

    Args:
        budget_usd: the budget if it is of money; the ``budget`` of ``settings`` is then about the calls that it pays for.

    Raises:
        InputError: there is no model, or the budget is too small, see :meth:`Goal.check_reach`.
    """
    settings_of_run = {
        "base_url": list(settings.base_url or (OPENAI_URL,)) if settings.at_endpoints else [],
        "model": settings.model[0] if len(settings.model) == 1 else list(settings.model),
        **recorded(settings, Scope.RUN),
    }
    goal.check_reach(settings.budget or 0)
    left_out = {"left_out": dict(dataset.left_out), "first_left_out": list(dataset.first_left_out)}
    return Manifest(
        settings=settings_of_run,
        budget=settings.budget or 0,
        attributes=prompts.attributes,
        budget_usd=budget_usd,
        scale=ends_of(prompts.attributes, prompts.scales),
        data={
            "source": dataset.source,
            "sha256": dataset.sha256,
            "pairs": len(dataset.pairs),
            "skipped": dataset.skipped,
            **(left_out if dataset.skipped else {}),
            "columns": dict(settings.columns),
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
