"""People's labels that a session begins with: read and checked before the first call, and kept in the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from robin_cli.analysis.agreed import FEWEST
from robin_cli.goals.summary import given_labels
from robin_cli.model.errors import InputError
from robin_cli.model.records import GivenLabels, number_of
from robin_cli.settings.table import Settings
from robin_cli.storage.labels import add_labels, kept_labels
from robin_cli.storage.store import RunStore


def labels_at_start(store: RunStore, settings: Settings) -> GivenLabels | None:
    """Return the labels of --labels, or those that the run keeps.

    Raises:
        InputError: they cannot be read or are of other pairs, the run has labels of its own, or --agree has too few.
    """
    own, named = given_labels(None, store), given_labels(settings.labels, store) if settings.labels else None
    if own is not None and named is not None and _values(own) != _values(named):
        raise InputError(
            f"--labels {settings.labels}: the run has labels of its own in {kept_labels(store.path)}; add yours to these, or "
            "leave it out"
        )
    given = named or own
    if settings.agree is not None and (count := len(given) if given else sum(_human(store))) < FEWEST:
        raise InputError(
            f"--agree {settings.agree:g}: {number_of(count, 'label')} by people, and at least {FEWEST} are needed; give more "
            "with --labels FILE, or leave it out and label the run later"
        )
    return given


def keep_labels(store: RunStore, given: GivenLabels | None) -> None:
    """Keep the labels in the run, if it has none yet. StorageError if the disk refuses."""
    if given is not None and kept_labels(store.path) is None:
        add_labels(store.path, _rows(given))


def _values(given: GivenLabels) -> tuple[Any, ...]:
    """What the labels say, wherever it stands."""
    of_each = {name: {of: each.value for of, each in labels.items()} for name, labels in given.by_attribute.items()}
    return of_each, {group: named.pair_id for group, named in given.best.items()}


def _human(store: RunStore) -> Iterator[int]:
    for attribute in store.manifest.attributes:
        yield int((~np.isnan(store.pairs.human(attribute))).sum())


def _rows(given: GivenLabels) -> Iterator[dict[str, Any]]:
    for attribute, labels in given.by_attribute.items():
        for pair_id, label in labels.items():
            probability = "" if label.probability is None else label.probability
            yield {"pair_id": pair_id, "attribute": attribute, "rating": label.value, "probability": probability}
    for group, named in given.best.items():
        yield {"group": group, "best": named.pair_id}
