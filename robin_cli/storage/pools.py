"""Recorded ratings to draw from, out of a run or out of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.datasets import pools
from robin_cli.datasets.pools import Pool, pools_of, with_groups
from robin_cli.files import remote
from robin_cli.model.errors import InputError
from robin_cli.storage.pair_files import read_groups, read_pair_batches, read_pair_names
from robin_cli.storage.reader import distinct_judgments
from robin_cli.storage.schema import JUDGMENTS

_COLUMNS = ("pair_id", "attribute", "rating", "judge")


def load_pools(name: str | Path, group: str | None = None, *, grouped: bool = True) -> Mapping[str, Pool]:
    """The pools of a run directory, or of files as :func:`robin_cli.datasets.pools.load_pools` has them.

    Args:
        group, grouped: as there; a run's pairs have the run's groups, and its prompts may be gigabytes.

    Raises:
        InputError: a run without ratings, or as there. RunError, StorageError: a folder that is none, or a damaged run.
    """
    run = Path(name)
    if remote.scheme_of(str(name)) or not run.is_dir():
        return pools.load_pools(name, group, grouped=grouped)
    if group:
        raise InputError(f"--group {group}: {run} is a run, whose pairs have the groups it was made with; leave it out")
    found = {pool: _with_human(each, run) for pool, each in pools_of(_ratings(run), run).items()}
    if not grouped:
        return found
    ids = pa.concat_arrays([batch["pair_id"] for batch in read_pair_batches(run, lambda each: each == "pair_id")])
    return with_groups(found, dict(zip(ids.to_pylist(), read_groups(run).tolist(), strict=True)))


def _ratings(run: Path) -> pa.Table:
    """Pair, attribute and rating of the judgments of a run; of several judges, attributes have the judge in front."""
    schema = pa.schema([JUDGMENTS.field(name) for name in _COLUMNS])
    table = pa.concat_tables([schema.empty_table(), *distinct_judgments(run, _COLUMNS)])
    table = table.filter(pc.is_valid(table["rating"]))
    if not table.num_rows:
        raise InputError(f"{run}: holds no ratings; judge more of it, or name another run or file")
    # Judgments without the judge's name are from before there could be several.
    if table["judge"].null_count or len(table["judge"].unique()) < 2:
        return table
    names = pc.binary_join_element_wise(table["judge"], table["attribute"], "/")
    return table.set_column(table.column_names.index("attribute"), "attribute", names)


def _with_human(pool: Pool, run: Path) -> Pool:
    """The pool of a run with the human ratings of its pairs, where they have any of this attribute."""
    there = read_pair_names(run)
    attribute = next((name for name in (pool.name, pool.name.rpartition("/")[2]) if name in there), None)
    if attribute is None:
        return pool
    known: dict[str, float | None] = {}
    for batch in read_pair_batches(run, {"pair_id", attribute}.__contains__):
        known |= zip(batch["pair_id"].to_pylist(), batch[attribute].to_pylist(), strict=True)
    human = [known.get(pair_id) for pair_id in pool.pair_ids]
    return replace(pool, human=np.array([np.nan if value is None else value for value in human], dtype=np.float64))
