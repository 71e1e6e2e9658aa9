"""People's labels at the start of a session: checked before the first call, and kept in the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.labels import few_text, labelled_decisions, read_labels
from robin_cli.model.errors import InputError
from robin_cli.run.labels import add_labels, kept_labels
from robin_cli.run.writer import RunWriter
from robin_cli.settings.resolve import Resolved
from robin_cli.stats.agreed import FEWEST


def labels_at_start(store: RunWriter, resolved: Resolved) -> GivenLabels | None:
    """Return the labels that the run keeps, or those of --labels.

    Raises:
        InputError: they cannot be read, are of other pairs, differ from the run's own, or are too few for --agree.
    """
    recorded, named = (
        read_labels(None, store),
        read_labels(resolved.labels, store) if resolved.labels else None,
    )
    if recorded is not None and named is not None and not _pairs(named) <= _pairs(recorded):
        raise InputError(
            f"--labels {resolved.labels}: the run has labels of its own in {kept_labels(store.path)}; add yours to these, or "
            "leave it out"
        )
    labels = recorded or named
    if resolved.agree is not None and (count := labelled_decisions(store, labels)) < FEWEST:
        few = few_text(store, resolved.agree, count, labels)
        raise InputError(
            f"{few}; give more with --labels FILE, or leave --agree out and label the run later"
        )
    return labels


def keep_labels(store: RunWriter, labels: GivenLabels | None) -> None:
    """Store the labels in the run, if it has none yet. StorageError if the disk refuses."""
    if labels is not None and kept_labels(store.path) is None:
        add_labels(store.path, _rows(labels))


def _pairs(labels: GivenLabels) -> set[tuple[str, str]]:
    """Return the labelled pairs by attribute; ("", id) for a best response."""
    rated = {(name, pair_id) for name, rated in labels.by_attribute.items() for pair_id in rated}
    return rated | {("", named.pair_id) for named in labels.best}


def _rows(labels: GivenLabels) -> Iterator[dict[str, Any]]:
    """Yield the rows of labels.csv; a probability that is the same for all is left out."""
    for attribute, by_pair in labels.by_labeller.items():
        probabilities = {label.probability for pair in by_pair.values() for label in pair.values()}
        differ = len(probabilities) > 1
        for pair_id, of_pair in by_pair.items():
            for labeller, label in of_pair.items():
                row = {
                    "pair_id": pair_id,
                    "attribute": attribute,
                    "rating": f"{label.value:.12g}",
                    "labeller": labeller,
                }
                yield row | ({"probability": label.probability} if differ else {})
    for named in labels.best:
        yield {"pair_id": named.pair_id, "rating": "best"}
