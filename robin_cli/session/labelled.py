"""People's labels at the start of a session: checked before the first call, and kept in the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robin_cli.goals.agreeing import few_text, labelled_decisions
from robin_cli.goals.summary import given_labels
from robin_cli.model.errors import InputError
from robin_cli.model.records import GivenLabels
from robin_cli.run.labels import add_labels, kept_labels
from robin_cli.run.store import RunStore
from robin_cli.settings.resolve import Resolved
from robin_cli.stats.agreed import FEWEST


def labels_at_start(store: RunStore, resolved: Resolved) -> GivenLabels | None:
    """Return the labels that the run keeps, or those of --labels.

    Raises:
        InputError: they cannot be read, are of other pairs, differ from the run's own, or are too few for --agree.
    """
    own, named = (
        given_labels(None, store),
        given_labels(resolved.labels, store) if resolved.labels else None,
    )
    if own is not None and named is not None and not _pairs(named) <= _pairs(own):
        raise InputError(
            f"--labels {resolved.labels}: the run has labels of its own in {kept_labels(store.path)}; add yours to these, or "
            "leave it out"
        )
    given = own or named
    if resolved.agree is not None and (count := labelled_decisions(store, given)) < FEWEST:
        few = few_text(store, resolved.agree, count, given)
        raise InputError(
            f"{few}; give more with --labels FILE, or leave --agree out and label the run later"
        )
    return given


def keep_labels(store: RunStore, given: GivenLabels | None) -> None:
    """Store the labels in the run, if it has none yet. StorageError if the disk refuses."""
    if given is not None and kept_labels(store.path) is None:
        add_labels(store.path, _rows(given))


def _pairs(given: GivenLabels) -> set[tuple[str, str]]:
    """Return the labelled pairs by attribute; ("", id) for a best response."""
    rated = {(name, pair_id) for name, labels in given.by_attribute.items() for pair_id in labels}
    return rated | {("", named.pair_id) for named in given.best}


def _rows(given: GivenLabels) -> Iterator[dict[str, Any]]:
    """Yield the rows of labels.csv; a probability that is the same for all is left out."""
    for attribute, labels in given.by_labeller.items():
        each = [label for of_pair in labels.values() for label in of_pair.values()]
        differ = len({label.probability for label in each}) > 1
        for pair_id, of_pair in labels.items():
            for labeller, label in of_pair.items():
                row = {
                    "pair_id": pair_id,
                    "attribute": attribute,
                    "rating": f"{label.value:.12g}",
                    "labeller": labeller,
                }
                yield row | ({"probability": label.probability} if differ else {})
    for named in given.best:
        yield {"pair_id": named.pair_id, "rating": "best"}
