"""Two runs side by side: the differences of their scores of the same pairs, or of the same prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.run.pair_files import read_numbers
from robin_cli.run.reader import RunReader
from robin_cli.stats.intervals import sum_intervals
from robin_cli.stats.paired import scores_by_prompt
from robin_cli.stats.run_compare import Compared
from robin_cli.stats.scores import rated_parts, score


def _of_each(a: RunReader, b: RunReader, name: str) -> tuple[IntArray, IntArray]:
    """Return the number of each pair's ``name`` in both runs: equal names have equal numbers."""
    of_a, of_b = np.split(read_numbers([a.path, b.path], name), [len(a.pair_ids)])
    return of_a, of_b


def shared_pairs(a: RunReader, b: RunReader, name: str = "pair_id") -> tuple[IntArray, IntArray]:
    """Return the places in ``a``, rising, and in ``b`` of the pairs that both have, by ``name``."""
    _, at_a, at_b = np.intersect1d(*_of_each(a, b, name), return_indices=True)
    order = np.argsort(at_a)
    return at_a[order], at_b[order]


def changed_pairs(a: RunReader, b: RunReader) -> int:
    at_a, at_b = shared_pairs(a, b)
    texts = [_of_each(a, b, name) for name in ("prompt", "response")]
    return int(np.any([of_a[at_a] != of_b[at_b] for of_a, of_b in texts], axis=0).sum())


def side_by_side(a: RunReader, b: RunReader) -> pa.Table:
    """Return the scores that both runs have, a row for each pair and attribute in A's order.

    Columns are ``what``, the pair by its place in A; ``attribute``; ``a``, ``b``, ``n_a`` and ``n_b``, the scores and their
    numbers of ratings; ``difference``, A − B; ``ci_low`` and ``ci_high``, its interval, at least 95 %, each row for itself; and
    ``differ``: whether that leaves 0 out.
    """
    mine, theirs = score(a), score(b)
    at_a, at_b = shared_pairs(a, b)
    names = [name for name in a.space.attributes if name in b.space.attributes]
    rows_a, rows_b = (
        run.space.by_pair(np.arange(len(scores)))[at][
            :, [run.space.attributes.index(name) for name in names]
        ].ravel()
        for run, scores, at in ((a, mine, at_a), (b, theirs, at_b))
    )
    low, high = _intervals(a, b, rows_a, rows_b)
    of_a, of_b = mine.numbers("score")[rows_a], theirs.numbers("score")[rows_b]
    return pa.table(
        {
            "what": np.repeat(at_a, len(names)),
            "attribute": names * len(at_a),
            "a": of_a,
            "b": of_b,
            "difference": of_a - of_b,
            "ci_low": low,
            "ci_high": high,
            "n_a": mine.numbers("n")[rows_a].astype(np.int64),
            "n_b": theirs.numbers("n")[rows_b].astype(np.int64),
            "differ": (low > 0) | (high < 0),
        }
    )


def _intervals(
    a: RunReader, b: RunReader, rows_a: IntArray, rows_b: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the intervals of A − B for these rows of each; rows of one scale at a time."""
    low, high = np.empty(len(rows_a)), np.empty(len(rows_a))
    of_b = list(rated_parts(b))
    for theirs, positive in rated_parts(a):
        for others, negative in of_b:
            both = np.flatnonzero(np.isin(rows_a, theirs) & np.isin(rows_b, others))
            if not len(both):
                continue
            at_a = np.searchsorted(theirs, rows_a[both])
            at_b = np.searchsorted(others, rows_b[both])
            low[both], high[both] = sum_intervals(
                [replace(each, counts=each.counts[at_a]) for each in positive]
                + [
                    replace(each, counts=each.counts[at_b], weight=-each.weight)
                    for each in negative
                ]
            )
    return low, high


def prompts_side_by_side(comparison: Compared) -> pa.Table:
    """Return two systems' scores at common prompts, a row for each prompt, ``what`` by its number, and attribute."""
    tables = []
    for name, (one,) in comparison.differences.items():
        a, b = scores_by_prompt(comparison.responses[name], 2)[:, one.prompts]
        columns = {"what": one.prompts, "attribute": [name] * one.n_prompts, "a": a, "b": b}
        tables.append(pa.table({**columns, "difference": a - b}))
    return pa.concat_tables(tables)


_COMMON = "have no pair and attribute in common"


def shared_scales(a: RunReader, b: RunReader) -> dict[str, Scale]:
    """Return the scales of the attributes that both rate. InputError if there are none, or they differ."""
    of_a, of_b = (
        dict(zip(each.manifest.attributes, each.manifest.score_scales, strict=True))
        for each in (a, b)
    )
    shared = {name: scale for name, scale in of_a.items() if name in of_b}
    for name, scale in shared.items():
        if scale != of_b[name]:
            raise InputError(
                f"{a.name} and {b.name} rate {name} on different scales ({scale} and {of_b[name]}), so their scores cannot be "
                "compared"
            )
    if not shared:
        raise InputError(f"{a.name} and {b.name} {_COMMON}; compare runs over the same pairs")
    return shared


def check_systems(a: RunReader, b: RunReader, differing: Sequence[str]) -> None:
    """Raise InputError if two runs without a common pair cannot be compared as systems either."""
    if differing:
        raise InputError(
            f"{a.name} and {b.name} {_COMMON}, and their systems cannot be compared, as they were not judged in the same way: "
            f"{'; '.join(differing)}"
        )
    if not len(shared_pairs(a, b, "prompt")[0]):
        raise InputError(
            f"{a.name} and {b.name} {_COMMON}, and no prompt either; compare runs over the same pairs, or over the same prompts"
        )
