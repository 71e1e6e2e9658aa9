"""Means of a run by attribute and column, with people's labels, and the next pairs to label, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels, Label, opaque_id
from robin_cli.data.pair_table import REFERENCE
from robin_cli.model.errors import InputError, option, shown, typed
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMN, first_text, number_of
from robin_cli.run.labels import kept_labels
from robin_cli.run.reader import RunReader, StoredRun
from robin_cli.show.columns import INTERVALS, LABELS_WANTED, SUMMARY
from robin_cli.show.tables import Column, Table
from robin_cli.show.text import one_line
from robin_cli.stats.labelled import FEWEST_LABELLED
from robin_cli.stats.run_labels import labels_of, wanted_labels
from robin_cli.stats.scores import Scores
from robin_cli.stats.summaries import (
    FEWEST_PROMPTS,
    Summary,
    first_ratings,
    pair_means,
    summaries,
)

if TYPE_CHECKING:
    from robin_cli.goals.found import Found, View

WANTED = 50
"""The default number of pairs to label."""

_NAMED = 3

Notify = Callable[[str], None]
LabelsFile = str | Path | BytesIO | None
"""The source of people's labels: a file, an address, a Parquet table in memory, or none."""


def given_labels(labels: LabelsFile, *runs: StoredRun) -> GivenLabels | None:
    """Return the labels in a file, or without one those that ``runs`` keep; None for none.

    InputError if they cannot be read, or if none is of a pair of ``runs``.
    """
    if labels is None:
        kept = [path for run in runs if (path := kept_labels(run.path)) is not None]
        return _joined([each for path in kept if (each := given_labels(path, *runs)) is not None])
    from robin_cli.data.labels import load_labels  # brings all formats of files

    _check_apart(runs)
    scales = {
        name: scale
        for run in runs
        for name, scale in zip(run.manifest.attributes, run.manifest.score_scales, strict=True)
    }
    verdicts = {
        name for run in runs if run.manifest.is_pairwise for name in run.manifest.attributes
    }
    ids = frozenset().union(*(run.space.pair_ids for run in runs))
    prefixes = [each for run in runs for each in run.manifest.data.get("id_prefixes", ())]
    return load_labels(labels, ids, scales, called="labels", verdicts=verdicts, prefixes=prefixes)


def _joined(parts: Sequence[GivenLabels]) -> GivenLabels | None:
    """Return the labels of several runs; None for none. InputError if two differ on one pair."""
    if len(parts) < 2:
        return parts[0] if parts else None
    joined: dict[str, dict[str, Label]] = {}
    for part in parts:
        for name, labels in part.by_attribute.items():
            for pair_id, label in labels.items():
                before = joined.setdefault(name, {}).setdefault(pair_id, label)
                if before.value != label.value:
                    raise InputError(
                        f'{label.place}: the pair "{shown(pair_id)}" has the label {label.value:g}, and {before.value:g} by '
                        f"{before.place}; give the labels that count with --labels FILE"
                    )
            joined.setdefault(name, {})
    source, best = (
        " and ".join(part.source for part in parts),
        [each for part in parts for each in part.best],
    )
    return GivenLabels(source, joined, best=best)


def _check_apart(runs: Sequence[StoredRun]) -> None:
    """Raise InputError if one id names different pairs of two runs, so that its label is ambiguous."""
    texts: dict[str, tuple[object, StoredRun]] = {}
    for run in runs if len(runs) > 1 else ():
        pairs = run.pairs.table
        names = [
            name
            for name in ("pair_id", "prompt", "response", OTHER_COLUMN)
            if name in pairs.column_names
        ]
        for pair_id, *text in zip(*(pairs[name].to_pylist() for name in names), strict=True):
            said, first = texts.setdefault(pair_id, (text, run))
            if said != text:
                raise InputError(
                    f'--labels: the id "{shown(pair_id)}" names other texts in {run.name} than in {first.name}, so its '
                    "label is ambiguous; judge both with ids of their own, or with ids made from the texts "
                    "(--columns id=-)"
                )


def summary_table(ran: Found, view: View) -> Table:
    """Return a row for each attribute, or attribute and group: the mean of its scores with an interval over prompts.

    Raises:
        InputError: there is no such column, or the threshold is off a scale.
    """
    run, scores, notify, by, threshold = ran.run, ran.scores, view.notify, view.by, view.threshold
    given = given_labels(view.labels, run)
    _check_column(by)
    if threshold is not None:
        _check_threshold(threshold, run)
    groups = None if by is None else _groups(run, by, notify)
    found = summaries(run, scores, labels_of(run, given), groups=groups, threshold=threshold)
    _say(found, run, scores, given, notify)
    left_out: tuple[str, ...] = () if threshold is not None else ("share",)
    if given is None and not any(each.corrected for each in found):
        left_out += ("corrected", "n_labels")
    names = [
        *([] if by is None else [by]),
        *(name for name in SUMMARY.columns if not name.startswith(left_out)),
    ]
    rows = [_row(each, by) for each in found]
    more = [] if by is None else [Column(by, form="name")]
    values = {name: [row[name] for row in rows] for name in names}
    terminal = [*names[: len(more)], *SUMMARY.terminal]
    kinds = INTERVALS + "; PPI++ for corrected means" * ("corrected_mean" in names)
    return SUMMARY.of(values, *more, terminal=terminal, notes=[kinds])


def _check_column(by: str | None) -> None:
    if by in SUMMARY.columns:
        raise InputError(
            f"--by {by}: the table has a column of its own with that name; judge with the data's under another name: "
            f"--columns NAME={by}"
        )


def _check_threshold(threshold: float, run: RunReader) -> None:
    for attribute, scale in zip(run.manifest.attributes, run.manifest.known_ends, strict=True):
        if not scale.low <= threshold <= scale.high:  # nor nan
            raise InputError(
                f"--threshold {threshold:g}: is off the scale of {attribute}, {scale}; name a number on it"
            )


def _groups(run: RunReader, by: str, notify: Notify) -> Sequence[str | None]:
    groups: list[str | None] = run.column(by)
    if without := groups.count(None):
        notify(f"{number_of(without, 'pair')} without a value of {one_line(by)} left out")
    return groups


def _row(each: Summary, by: str | None) -> dict[str | None, Any]:
    mean, share, told = each.mean, each.share, each.corrected
    return {
        by: each.group,
        "attribute": each.attribute,
        "n_prompts": each.prompts,
        "n_pairs": each.pairs,
        "mean": mean.value,
        "ci_low": mean.low,
        "ci_high": mean.high,
        "share": share and share.value,
        "share_low": share and share.low,
        "share_high": share and share.high,
        "corrected_mean": told and told.estimate,
        "corrected_low": told and told.low,
        "corrected_high": told and told.high,
        "n_labels": told.n_labels if told else 0,
    }


def _say(
    found: Sequence[Summary],
    run: RunReader,
    scores: Scores,
    given: GivenLabels | None,
    notify: Notify,
) -> None:
    """Report the means of first ratings only, missing intervals, and missing corrections."""
    if scores.decided is not None:
        first = first_text(first_ratings(run), is_panel=len(run.space.judges) > 1)
        notify(
            f"means are of {first} of each pair: a run that decides asks later ones because of these"
        )
    for attribute in run.manifest.attributes:
        even = pair_means(run, scores, attribute)
        if not even.is_final and even.first is not None:
            notify(
                f"{one_line(attribute)}: means of all ratings are a little biased if a pair's own decide its calls; "
                f"by the first {even.first} of each, which robin compare and robin gate use, the mean of all pairs is "
                f"{np.nanmean(even.scores):.3f}"
            )
        own = next((each.labels for each in found if each.attribute == attribute), None)
        if own is not None and own.why:
            notify(f"{one_line(attribute)}: {own.why}, so they correct no mean")
    few = [_name(each) for each in found if each.prompts < FEWEST_PROMPTS]
    if few:
        notify(f"no interval with fewer than {FEWEST_PROMPTS} prompts: {_some(few)}")
    said: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if (people := each.corrected) is not None and (people.why or people.caution):
            about = (
                ("not corrected by labels: ", people.why) if people.why else ("", people.caution)
            )
            said.setdefault(about, []).append(_name(each))
    for (what, why), names in said.items():
        notify(f"{what}{_some(names)}: {why}")
    if given is not None and not given:
        notify(f"{given.source}: holds no label yet, so no mean is corrected")


def _name(each: Summary) -> str:
    return " · ".join(one_line(part) for part in (each.group, each.attribute) if part is not None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (
        f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    )


def labelled_texts(run: RunReader, pair: NDArray[np.int64]) -> dict[str, pa.ChunkedArray]:
    """Return the texts that labellers see: ``pair_id`` and the texts of some pairs, by column, in this order."""
    table = run.pairs.table.take(pa.array(pair))
    of_two = {"response_a": "response", "response_b": OTHER_COLUMN}
    texts = {"pair_id": "pair_id", "prompt": "prompt", REFERENCE: REFERENCE}
    texts |= of_two if OTHER_COLUMN in table.column_names else {"response": "response"}
    return {name: table[column] for name, column in texts.items() if column in table.column_names}


def labels_wanted_table(ran: Found, view: View) -> Table:
    """Return the next pairs to label, in order: a row for each pair and attribute, the labelled ones first.

    Human ratings in the data, and given ones, are all included. For differences by a column, and for the best of each group,
    whole prompts or groups are drawn.

    Raises:
        InputError: as :func:`~robin_cli.stats.run_labels.wanted_labels`; there is no such column.
    """
    run, scores, notify, by = ran.run, ran.scores, view.notify, view.by
    systems = {*run.column(SYSTEM_COLUMN)} - {None} if SYSTEM_COLUMN in run.column_names else set()
    several = len(systems) > 1
    is_blind = several and view.blind
    n, labels = WANTED if view.n is None else view.n, labels_of(run, given_labels(view.labels, run))
    if n < 1:
        raise InputError(f"--n {n}: at least one pair is needed, such as --n 50")
    values = {name: pair_means(run, scores, name).scores for name in labels}
    if by is not None:
        has_none = np.array([group is None for group in _groups(run, by, notify)])
        values = {name: np.where(has_none, np.nan, each) for name, each in values.items()}
    whole = by is not None or several or run.wants_best
    found = wanted_labels(run, values, labels, n, whole=whole)
    names, texts = (
        np.array(run.manifest.attributes, dtype=object)[found.attribute],
        labelled_texts(run, found.pair),
    )
    ids = texts.pop("pair_id")
    columns: dict[str, Any] = {
        "pair_id": [opaque_id(each) for each in ids.to_pylist()] if is_blind else ids,
        "attribute": pa.array(names.tolist(), pa.string()),
        "probability": pa.array(found.probability),
        "label": pa.array(found.label, from_pandas=True),
        **texts,
    }
    is_open = np.isnan(found.label)
    wanted = number_of(len(np.unique(found.pair[is_open])), "pair")
    path = typed(run.name)
    step = (
        f"robin export {path} --what summary"
        if by is None
        else f"robin compare {path} {option('--by', by)}"
    )
    those = "" if is_open.all() else "; with those that are labelled"
    notify(
        f"{wanted} to label{those}, of {number_of(found.prompts, 'prompt')}. Fill in the column label from the top, and give "
        f"the file to --labels: {step} {option('--labels', view.output or 'FILE')}"
    )
    if is_blind:
        notify(
            "blind: whole prompts, with ids that do not name the systems and that --labels recognises"
        )
    if found.prompts < FEWEST_LABELLED:
        there = len(np.unique(run.prompts))
        step = "draw more: a larger --n" if there > found.prompts else f"this run has only {there}"
        notify(f"a mean needs {FEWEST_LABELLED} labelled prompts to be corrected; {step}")
    return LABELS_WANTED.of(columns)
