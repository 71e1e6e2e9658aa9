"""What people recognise a row by, beside its id: the beginning of its texts, and columns of the data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.datasets.images import named
from robin_cli.goals.checks import TEXTS_SHOWN
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import typed
from robin_cli.model.records import Pair
from robin_cli.results.tables import Beside
from robin_cli.storage.reader import RunData

_LENGTH = 60
"""Characters of a beginning."""
_MOST_COLUMNS = 12
"""That a report can look for."""
_HASHED = re.compile(r"[0-9a-f]{16}(~[0-9a-f]{16})?\Z")


def is_hashed(pair_id: str) -> bool:
    """Return whether an id looks like those that robin makes for data without ids, which nobody recognises."""
    return _HASHED.match(pair_id) is not None


def beginning(pair: Pair, *, is_shared: bool) -> str:
    """Return the beginning of a pair's prompt; ``is_shared``: other pairs have it too, so that of its response as well."""
    if not is_shared:
        return _cut(pair.prompt, _LENGTH)
    return f"{_cut(pair.prompt, _LENGTH // 2)} → {_cut(pair.response, _LENGTH // 2)}"


def beside(run: RunData, pair: NDArray[np.integer[Any]], show: Sequence[str] = ()) -> Beside:
    """Return what reads the texts that people see beside rows.

    Args:
        pair: of each row, shape (rows,).
        show: columns of the data, also prompt and response; without prompt it is shown where ids are hashes.
    """

    def read(rows: IntArray) -> Mapping[str, Sequence[str]]:
        pairs, place = np.unique(pair[rows], return_inverse=True)
        unnamed = [] if "prompt" in show else ["prompt"] * any(is_hashed(run.pair_ids[each]) for each in pairs.tolist())
        found: dict[str, Sequence[str]] = {}
        for name in dict.fromkeys([*unnamed, *show]):
            if name in TEXTS_SHOWN:
                found[name] = [_text(each, name, run, at) for each, at in zip(run.pairs.at(pairs), pairs, strict=True)]
            else:
                values = run.column(name)
                found[name] = [values[each] or "" for each in pairs.tolist()]
        return {name: [texts[at] for at in place.tolist()] for name, texts in found.items()}

    return read


def shown_by(show: Sequence[str]) -> str:
    """Return the flag that shows these columns; "" for none."""
    return f" --show {typed(','.join(show))}" if show else ""


def own_of(run: RunData, pair: NDArray[np.integer[Any]], but: Sequence[str]) -> Beside:
    """Return what reads the further columns of the data of each row, without ``but``, cut; the first of many."""
    names = [name for name in run.column_names if name not in but][:_MOST_COLUMNS]

    def read(rows: IntArray) -> Mapping[str, Sequence[str]]:
        places = pair[rows].tolist()
        columns = ((name, run.column(name)) for name in names)
        return {name: [_cut(values[at] or "", _LENGTH) for at in places] for name, values in columns}

    return read


def _text(pair: Pair, name: str, run: RunData, at: int) -> str:
    if name == "response":
        return _cut(pair.response, _LENGTH)
    is_told = run.manifest.is_pairwise and bool(run.matches.names)  # by the names of both systems
    return beginning(pair, is_shared=not is_told and bool(run.pairs.is_shared[at]))


def _cut(text: str, length: int) -> str:
    words = " ".join(named(text)[: 8 * length].split())
    return words if len(words) <= length else f"{words[: length - 1]}…"
