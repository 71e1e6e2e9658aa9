"""The pools of the paper, read once where a test needs them: they have 240,000 ratings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from robin_cli.data.pools import Pool, load_pools
from tests.conftest import ROOT


@cache
def paper_pools() -> Mapping[str, Pool]:
    """The ratings of each judge and attribute, by their name."""
    return load_pools(ROOT / "configs" / "pools" / "paper_digitised.parquet")
