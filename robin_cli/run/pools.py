"""Recorded ratings to draw from, of a run or of files, and the verdicts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data import pools, remote
from robin_cli.data.pools import Pool, pools_of, with_groups
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.run.manifest import read_manifest
from robin_cli.run.pair_files import StoredPairs, read_pair_batches, read_pair_names
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import read_judgments

_COLUMNS = ("pair_id", "attribute", "rating", "judge")

Points = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VerdictPool:
    """The verdicts of one judge in a run, comparison by comparison.

    Attributes:
        name: the judge's.
        pairs: K comparisons in the order of the run's data.
        points: for each of ORDERS the verdicts on each comparison, shape (at least 1,): 2 if A was better, 1 for a tie, 0 if
            B was, whichever the judge read first.
    """

    name: str
    pairs: tuple[Pair, ...]
    points: tuple[tuple[Points, ...], tuple[Points, ...]]


def load_pools(
    name: str | Path, group: str | None = None, *, grouped: bool = True
) -> Mapping[str, Pool]:
    """Return the pools of a run directory, or of files as :func:`robin_cli.data.pools.load_pools`.

    Args:
        group, grouped: as there; a run's pairs have the run's groups. Grouping reads prompts, which may be gigabytes.

    Raises:
        InputError: the run has no ratings, or as there. RunError, StorageError: the folder is not a run, or is damaged.
    """
    run = Path(name)
    if not _is_run(name):
        return pools.load_pools(name, group, grouped=grouped)
    if _has_verdicts(run):
        raise InputError(
            f"{run}: holds verdicts on two responses, and no ratings; name a run of ratings, "
            "or simulate this one with --pairwise"
        )
    if group:
        raise InputError(
            f"--group {group}: {run} is a run, whose pairs have the groups it was made with; leave it out"
        )
    found = {pool: _with_human(each, run) for pool, each in pools_of(_ratings(run), run).items()}
    if not grouped:
        return found
    ids = pa.concat_arrays(
        [batch["pair_id"] for batch in read_pair_batches(run, lambda each: each == "pair_id")]
    )
    return with_groups(
        found, dict(zip(ids.to_pylist(), StoredPairs(run).groups.tolist(), strict=True))
    )


def load_verdicts(name: str) -> Mapping[str, VerdictPool]:
    """Return the verdicts of a run by judge, of its comparisons with verdicts in both orders.

    Raises:
        InputError: not a run of verdicts; it has no such comparison, or its verdicts are probabilities.
        RunError, StorageError: the folder is not a run, or is damaged.
    """
    if not _is_run(name) or not _has_verdicts(Path(name)):
        raise InputError(
            f"{name}: holds no verdicts; name a run of robin judge --pairwise, or leave --pairwise out"
        )
    run = read_run(Path(name))
    low, high = run.space.ends
    points = np.asarray(run.judgments["rating"].to_numpy(zero_copy_only=False), np.float64)
    there = ~np.isnan(points)
    points, arm = (
        2 * (points[there] - low[run.arm[there]]) / (high - low)[run.arm[there]],
        run.arm[there],
    )
    if (points != np.rint(points)).any():
        raise InputError(
            f"{name}: its verdicts are probabilities, and a simulation draws whole verdicts; name another run"
        )
    order = np.argsort(arm, kind="stable")
    counts = np.bincount(arm, minlength=len(run.space))
    of_arms = np.split(points[order].astype(np.int64), np.cumsum(counts)[:-1])
    found = {}
    for judge, model in enumerate(run.space.judges):
        arms = np.flatnonzero(run.space.judge == judge).reshape(len(run.pair_ids), -1)
        whole = np.asarray((counts[arms] > 0).all(axis=1))
        by_order = [tuple(of_arms[each] for each in column) for column in arms[whole].T]
        if whole.any():
            found[model] = VerdictPool(
                model,
                tuple(run.pairs[at] for at in np.flatnonzero(whole).tolist()),
                (by_order[0], by_order[1]),
            )
    if not found:
        raise InputError(
            f"{name}: holds no comparison with verdicts in both orders; judge more of it, or name another run"
        )
    return found


def _is_run(name: str | Path) -> bool:
    return not remote.scheme_of(str(name)) and Path(name).is_dir()


def _has_verdicts(run: Path) -> bool:
    return len(read_manifest(run).kind.variants) > 1


def _ratings(run: Path) -> pa.Table:
    """Return pair_id, attribute and rating of a run's judgments; with several judges, attributes become JUDGE/ATTRIBUTE."""
    schema = pa.schema([JUDGMENTS.field(name) for name in _COLUMNS])
    table = pa.concat_tables([schema.empty_table(), *read_judgments(run, _COLUMNS)])
    table = table.filter(pc.is_valid(table["rating"]))
    if not table.num_rows:
        raise InputError(f"{run}: holds no ratings; judge more of it, or name another run or file")
    if len(table["judge"].unique()) < 2:
        return table
    names = pc.binary_join_element_wise(table["judge"], table["attribute"], "/")
    return table.set_column(table.column_names.index("attribute"), "attribute", names)


def _with_human(pool: Pool, run: Path) -> Pool:
    """Return the pool of a run with the human ratings of its attribute, if there are any."""
    there = read_pair_names(run)
    attribute = next(
        (name for name in (pool.name, pool.name.rpartition("/")[2]) if name in there), None
    )
    if attribute is None:
        return pool
    known: dict[str, float | None] = {}
    for batch in read_pair_batches(run, {"pair_id", attribute}.__contains__):
        known |= zip(batch["pair_id"].to_pylist(), batch[attribute].to_pylist(), strict=True)
    human = [known.get(pair_id) for pair_id in pool.pair_ids]
    return replace(
        pool,
        human=np.array([np.nan if value is None else value for value in human], dtype=np.float64),
    )
