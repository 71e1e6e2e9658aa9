"""Agreement with people, people's ratings by score, and means, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.label_tables import (
    disagreements_table,
    judge_quality_table,
    labels_wanted_table,
)
from robin_cli.goals.labels import groups_of, read_labels
from robin_cli.goals.people import mean_row
from robin_cli.goals.result import Builder, Result, View
from robin_cli.model.errors import InputError
from robin_cli.model.records import first_text
from robin_cli.show.columns import (
    AGREEMENT,
    CALIBRATION,
    INTERVALS,
    SUMMARY,
)
from robin_cli.show.tables import Column, Table
from robin_cli.show.text import one_line
from robin_cli.stats import run_agreement
from robin_cli.stats.run_labels import labels_of
from robin_cli.stats.summaries import (
    FEWEST_PROMPTS,
    Summary,
    first_ratings,
    pair_means,
    summaries,
)

_NAMED = 3


def agreement_table(result: Result, view: View) -> Table:
    """Return a row for each attribute and coefficient: of judge and people, of each among themselves, of the judge alone."""
    run, tables = result.run, result.all_scores
    labels, rounds = read_labels(view.labels, run), view.round
    with_people = run_agreement.agreements(run, *tables, labels=labels, rounds=rounds)
    for name, (alpha, *_) in with_people.items():
        if math.isnan(alpha.value):
            view.notify(f"{name}: agreement with people not computed: {alpha.why}")
    rows: dict[str, Sequence[Any]] = {
        name: (*with_people.get(name, ()), *alone)
        for name, alone in run_agreement.reliabilities(run, *tables).items()
    }
    rows |= run_agreement.agreements_among(run, *tables, given_labels=labels, rounds=rounds)
    return _by_attribute(AGREEMENT, rows)


def calibration_table(result: Result, view: View) -> Table:
    """Return a row for each attribute and level: people's ratings of the pairs with such a score. InputError if none is."""
    run, table = result.run, CALIBRATION
    by_people = read_labels(view.labels, run)
    known = run_agreement.calibrations(run, *result.all_scores, labels=by_people)
    whys = {name: of_attribute.why for name, of_attribute in known.items()}
    run_agreement.check_comparable(whys, run, view.notify)
    quarters = [replace(table.columns[name], form="number") for name in ("level", "to_level")]
    rows = {name: of_attribute.levels for name, of_attribute in known.items()}
    return _by_attribute(table, rows, *(quarters if run.manifest.is_pairwise else ()))


def _by_attribute(table: Table, listed: Mapping[str, Sequence[Any]], *more: Column) -> Table:
    """Return a row for each record, its attributes as columns behind the name; ``more``: columns in place of the table's."""
    rows = [(name, record) for name, records in listed.items() for record in records]
    values: dict[str, Any] = {"attribute": [name for name, _ in rows]}
    for column in table.columns:
        if column != "attribute":
            values[column] = [getattr(record, column) for _, record in rows]
    return table.with_values(values, *more)


def summary_table(result: Result, view: View) -> Table:
    """Return a row for each attribute, or attribute and group: the mean of its scores with an interval over prompts.

    InputError: there is no such column, or the threshold is off a scale.
    """
    run, by, threshold, table = result.run, view.by, view.threshold, SUMMARY
    by_people = read_labels(view.labels, run)
    if by in table.columns:
        raise InputError(
            f"--by {by}: the table has a column of its own with that name; judge with the data's under another name: "
            f"--columns NAME={by}"
        )
    for name, scale in zip(run.manifest.attributes, run.manifest.known_ends, strict=True):
        if threshold is not None and not scale.low <= threshold <= scale.high:  # nor nan
            raise InputError(
                f"--threshold {threshold:g}: is off the scale of {name}, {scale}; name a number on it"
            )
    groups = None if by is None else groups_of(run, by, view.notify)
    labels = labels_of(run, by_people)
    listed = summaries(run, result.scores, labels, groups=groups, threshold=threshold)
    _notify_of(listed, result, by_people, view)
    left_out: tuple[str, ...] = () if threshold is not None else ("share",)
    if by_people is None and not any(mean.corrected for mean in listed):
        left_out += ("corrected", "n_labels")
    names = [name for name in table.columns if not name.startswith(left_out)]
    values: dict[str, Any] = {} if by is None else {by: [mean.group for mean in listed]}
    rows = [
        {
            "attribute": mean.attribute,
            **mean_row(mean),
            "share": mean.share and mean.share.value,
            "share_low": mean.share and mean.share.low,
            "share_high": mean.share and mean.share.high,
        }
        for mean in listed
    ]
    values |= {name: [row[name] for row in rows] for name in names}
    kinds = INTERVALS + "; PPI++ for corrected means" * ("corrected_mean" in names)
    first = [] if by is None else [by]
    more = [Column(name, form="name") for name in first]
    return table.with_values(values, *more, terminal=[*first, *table.terminal], notes=[kinds])


def _notify_of(
    listed: Sequence[Summary], result: Result, by_people: GivenLabels | None, view: View
) -> None:
    run, scores, notify = result.run, result.scores, view.notify
    if scores.decided is not None:
        first = first_text(first_ratings(run), is_panel=result.is_panel)
        notify(
            f"means are of {first} of each pair: a run that decides asks later ones because of these"
        )
    for attribute in run.manifest.attributes:
        even = pair_means(run, scores, attribute)
        if not even.is_final and even.first is not None:
            notify(
                f"{one_line(attribute)}: this mean is a little biased, as a pair's ratings decide how often it is asked; "
                f"by the first {even.first} of each, which robin compare and robin gate use, the mean of all pairs is "
                f"{np.nanmean(even.scores):.3f}"
            )
        labels = next((mean.labels for mean in listed if mean.attribute == attribute), None)
        if labels is not None and labels.why:
            notify(f"{one_line(attribute)}: {labels.why}, so they correct no mean")
    if few := [_name(mean) for mean in listed if mean.prompts < FEWEST_PROMPTS]:
        notify(f"no interval with fewer than {FEWEST_PROMPTS} prompts: {_some(few)}")
    reasons: dict[tuple[str, str], list[str]] = {}
    for mean in listed:
        if (people := mean.corrected) is not None and (people.why or people.caution):
            what = "not corrected by labels: " if people.why else ""
            reasons.setdefault((what, people.why or people.caution), []).append(_name(mean))
    for (what, why), names in reasons.items():
        notify(f"{what}{_some(names)}: {why}")
    if by_people is not None and not by_people:
        notify(f"{by_people.source}: holds no label yet, so no mean is corrected")


def _name(mean: Summary) -> str:
    return " · ".join(one_line(part) for part in (mean.group, mean.attribute) if part is not None)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


OF_PEOPLE: Mapping[str, Builder] = {
    "agreement": agreement_table,
    "calibration": calibration_table,
    "summary": summary_table,
    "labels-wanted": labels_wanted_table,
    "judge-quality": judge_quality_table,
    "disagreements": disagreements_table,
}
"""The tables of people's labels that every run has, by name."""
