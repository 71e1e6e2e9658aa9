"""Makes configs/pools/rewardbench2.parquet: python scripts/part_of_rewardbench2.py RATINGS [PROMPTS].

RATINGS is a table attribute, group, response, rating of composo-ai/llm-judge-criteria-ensembling, eight ratings of each
response, of which response 0 of a group is the right one. PROMPTS of the prompts that every judge rated in full are drawn, by
a seed that was set before any result of them was seen. Prompts, and the responses of each, are put in a random order.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JUDGES = (
    "gpt-5.4 base",
    "gpt-5.4 criteria",
    "gpt-5.4-mini base",
    "gpt-5.4-mini criteria",
    "gpt-5.4-nano base",
)
PROMPTS, RESPONSES, RATINGS, SEED = 1000, 4, 8, 1
TARGET = Path(__file__).parent.parent / "configs" / "pools" / "rewardbench2.parquet"


def main(source: str, prompts: int = PROMPTS, target: Path = TARGET) -> None:
    """Draw the part and write it."""
    names = ("attribute", "group", "response", "rating")
    attribute, group, response, rating = (
        np.asarray(pq.read_table(source)[name].to_pylist()) for name in names
    )
    order = np.lexsort((response, group))
    of_judges = []
    for judge in JUDGES:
        rows = order[attribute[order] == judge]
        ids, count = np.unique(group[rows], return_counts=True)
        whole = ids[count == RESPONSES * RATINGS]
        rows = rows[np.isin(group[rows], whole)]
        of_judges.append(
            dict(zip(whole.tolist(), rating[rows].reshape(-1, RESPONSES, RATINGS), strict=True))
        )
    rng = np.random.default_rng(SEED)
    everyones = sorted(set.intersection(*map(set, of_judges)))
    chosen = rng.permutation(everyones)[:prompts].tolist()
    orders = [rng.permutation(RESPONSES) for _ in chosen]
    pair_ids = [f"{each}/{number}" for each in chosen for number in range(RESPONSES)]
    columns = {
        "attribute": np.repeat(JUDGES, len(pair_ids) * RATINGS),
        "pair_id": np.tile(np.repeat(pair_ids, RATINGS), len(JUDGES)),
        "group": np.tile(np.repeat(chosen, RESPONSES * RATINGS), len(JUDGES)),
        "right": np.tile(np.repeat(np.concatenate(orders) == 0, RATINGS), len(JUDGES)).astype(
            np.int8
        ),
        "rating": np.concatenate(
            [
                np.sort(of[each][order]).ravel()
                for of in of_judges
                for each, order in zip(chosen, orders, strict=True)
            ]
        ).astype(np.int8),
    }
    pq.write_table(pa.table(columns), target, compression="zstd", compression_level=19)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else PROMPTS)
