"""People's labels of a run's pairs: read from a file or from the run, and the decisions that they agree with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels, Label
from robin_cli.data.pair_table import REFERENCE
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import OTHER_COLUMN, number_of
from robin_cli.run.labels import kept_labels
from robin_cli.run.reader import RunReader, StoredRun
from robin_cli.show.text import one_line
from robin_cli.stats.agreed import FEWEST, Agreed, agreed
from robin_cli.stats.run_labels import labels_of
from robin_cli.stats.stances import Stances

LabelsFile = str | Path | BytesIO | None
"""The source of people's labels: a file, an address, a Parquet table in memory, or none."""

HOW_TO_LABEL = (
    "give people's labels with --labels FILE; robin export --what labels-wanted draws what to label"
)


def read_labels(labels: LabelsFile, *runs: StoredRun) -> GivenLabels | None:
    """Return the labels in a file, or without one those that ``runs`` keep; None for none.

    InputError if they cannot be read, or if none is of a pair of ``runs``.
    """
    if labels is None:
        kept = [path for run in runs if (path := kept_labels(run.path)) is not None]
        return _joined([part for path in kept if (part := read_labels(path, *runs)) is not None])
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
    prefixes = [prefix for run in runs for prefix in run.manifest.data.get("id_prefixes", ())]
    return load_labels(labels, ids, scales, called="labels", verdicts=verdicts, prefixes=prefixes)


def _joined(parts: Sequence[GivenLabels]) -> GivenLabels | None:
    """Return the labels of several runs; None for none. InputError if two differ on one pair."""
    if len(parts) < 2:
        return parts[0] if parts else None
    joined: dict[str, dict[str, Label]] = {}
    for part in parts:
        for name, labels in part.by_attribute.items():
            of_attribute = joined.setdefault(name, {})
            for pair_id, label in labels.items():
                before = of_attribute.setdefault(pair_id, label)
                if before.value != label.value:
                    raise InputError(
                        f'{label.place}: the pair "{shown(pair_id)}" has the label {label.value:g}, and {before.value:g} by '
                        f"{before.place}; give the labels that count with --labels FILE"
                    )
    source = " and ".join(part.source for part in parts)
    return GivenLabels(source, joined, best=[best for part in parts for best in part.best])


def _check_apart(runs: Sequence[StoredRun]) -> None:
    """Raise InputError if one id names different pairs of two runs, so that its label is ambiguous."""
    seen: dict[str, tuple[object, StoredRun]] = {}
    for run in runs if len(runs) > 1 else ():
        pairs = run.pairs.table
        named = ("pair_id", "prompt", "response", OTHER_COLUMN)
        columns = [pairs[name].to_pylist() for name in named if name in pairs.column_names]
        for pair_id, *texts in zip(*columns, strict=True):
            before, first = seen.setdefault(pair_id, (texts, run))
            if before != texts:
                raise InputError(
                    f'--labels: the id "{shown(pair_id)}" names other texts in {run.name} than in {first.name}, so its '
                    "label is ambiguous; judge both with ids of their own, or with ids made from the texts "
                    "(--columns id=-)"
                )


def groups_of(run: RunReader, by: str, notify: Callable[[str], None]) -> Sequence[str | None]:
    """Return the value of a column of the data for each pair. InputError if there is no such column."""
    groups: list[str | None] = run.column(by)
    if without := groups.count(None):
        notify(f"{number_of(without, 'pair')} without a value of {one_line(by)} left out")
    return groups


def labelled_texts(run: RunReader, pair: NDArray[np.int64]) -> dict[str, pa.ChunkedArray]:
    """Return the texts that labellers see: ``pair_id`` and the texts of some pairs, by column, in this order."""
    table = run.pairs.table.take(pa.array(pair))
    of_two = {"response_a": "response", "response_b": OTHER_COLUMN}
    texts = {"pair_id": "pair_id", "prompt": "prompt", REFERENCE: REFERENCE}
    texts |= of_two if OTHER_COLUMN in table.column_names else {"response": "response"}
    return {name: table[column] for name, column in texts.items() if column in table.column_names}


def decided_together(run: StoredRun) -> IntArray | None:
    """Return the number of each pair's decision, shape (pairs,), if it takes several: a group, or a prompt's."""
    if run.manifest.is_pairwise:
        return np.unique(run.matches.prompt, return_inverse=True)[1]
    return None if run.task is None else run.task.group


def labelled_decisions(run: StoredRun, by_people: GivenLabels | None) -> int:
    """Return how many decisions of a run have all the labels they need, or a named best; ``by_people``: else the data's own."""
    decision = decided_together(run)
    known = np.stack([labels.known for labels in labels_of(run, by_people).values()], axis=1).all(
        axis=1
    )
    if decision is None:
        return int(known.sum())
    whole = np.bincount(decision, ~known) == 0
    if run.task is not None:
        whole &= np.bincount(decision) >= 2
    named = set() if by_people is None else {best.pair_id for best in by_people.best}
    is_named = np.bincount(decision, [pair_id in named for pair_id in run.space.pair_ids]) > 0
    return int((whole | is_named).sum())


def few_text(run: StoredRun, promise: float, labelled: int, by_people: GivenLabels | None) -> str:
    """Say that fewer decisions have people's labels than a promise needs, and when one counts."""
    task, counts = run.task, ""
    if task is None:
        counts = "; a prompt counts once all its comparisons have a label"
    elif task.group is not None:
        counts = "; a group counts once all its responses have a label, or its best is named"
    off = [labels.why for labels in labels_of(run, by_people).values() if labels.why]
    few = f"{number_of(labelled, 'decision')} with people's labels, at least {FEWEST} are needed"
    return "; ".join([f"--agree {promise:g}: {few}{counts}", *off])


def promised(
    run: RunReader,
    stances: Callable[[GivenLabels | None], Stances],
    by_people: GivenLabels | None,
    promise: float,
    confidence: float,
) -> Agreed:
    """Return the decisions that people agree with, as far as their labels can promise it.

    Args:
        stances: people's decisions beside the run's. InputError if it decides nothing.

    InputError: the labels are too few, of one side alone, or were not drawn alike.
    """
    for flag, value in (("--agree", promise), ("--confidence", confidence)):
        if not 0 < value < 1:
            raise InputError(
                f"{flag} {value:g}: must be a share above 0 and below 1, for example 0.9"
            )
    theirs, labels = stances(by_people), labels_of(run, by_people)
    if (labelled := int(theirs.labelled.sum())) < FEWEST:
        raise InputError(f"{few_text(run, promise, labelled, by_people)}; {HOW_TO_LABEL}")
    if theirs.one_side:
        raise InputError(
            f"--agree {promise:g}: people {theirs.one_side} all {labelled:,} labelled pairs, and {run.name} does not. Labels "
            "of one side say nothing of the other: label pairs that are drawn at random, as robin label draws them, or more"
        )
    for name, of_attribute in labels.items():
        if len(np.unique(of_attribute.probability[of_attribute.known])) > 1:
            raise InputError(
                f"--agree: the labels of {name} were drawn with different probabilities, and a promise takes labels that were "
                "drawn alike; give those of robin label or of robin export --what labels-wanted"
            )
    return agreed(theirs, promise, confidence)


def agreed_text(outcome: Agreed) -> str:
    """Return a sentence on how many decisions people agree with, and how many are left to a person."""
    decisions, sure = len(outcome.agreed), int(outcome.agreed.sum())
    if outcome.why:
        return f"agreed: none of {number_of(decisions, 'decision')}: {outcome.why}"
    by = f"{100 * outcome.confidence:g} % confidence, {outcome.labelled:,} labelled"
    rest = decisions - sure
    left = f"; the other {rest:,} are for a person, or a dearer judge" if rest else ""
    return (
        f"agreed: {sure:,} of {number_of(decisions, 'decision')}. People agree with at least {100 * outcome.promise:g} % of "
        f"them ({by}){left}"
    )
