"""Makes configs/demo/responses.jsonl and configs/demo/votes.parquet: verdicts of a simulated judge, by Bradley and Terry.

Run from the repository's root: python scripts/simulate_votes.py. Same machine or not, the verdicts are the same.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STRENGTHS = {"amber": 1.0, "birch": 0.7, "cedar": 0.2, "dune": 0.0, "ember": -0.6, "fjord": -1.3}
PROMPTS, VOTES = 40, 4
OF_PROMPTS, TIES = 0.8, 0.35
"""The standard deviation of how well a system does on a prompt, and the log odds within which half of the verdicts are ties."""


def main() -> None:
    """Write both files."""
    rng = np.random.default_rng(19)
    folder = Path("configs/demo")
    prompts = [
        f"Simulated prompt {number:02d}: say something about the number {number}."
        for number in range(PROMPTS)
    ]
    responses = {
        (system, prompt): f"Simulated response of {system} to prompt {number:02d}"
        + ", and so on" * int(rng.integers(6))
        + "."
        for number, prompt in enumerate(prompts)
        for system in STRENGTHS
    }
    does = {key: STRENGTHS[key[0]] + OF_PROMPTS * rng.normal() for key in responses}
    with (folder / "responses.jsonl").open("w") as file:
        for (system, prompt), response in responses.items():
            file.write(
                json.dumps({"prompt": prompt, "response": response, "system": system}) + "\n"
            )
    rows: dict[str, list[str]] = {
        name: []
        for name in (
            "prompt",
            "response_a",
            "response_b",
            "system_a",
            "system_b",
            "order",
            "verdict",
        )
    }
    for prompt in prompts:
        for a, b in combinations(STRENGTHS, 2):
            ahead = does[a, prompt] - does[b, prompt]
            for order in ("a-first", "b-first"):
                for noise in rng.logistic(size=VOTES):
                    said = ahead + noise
                    verdict = "tie" if abs(said) < TIES else "A" if said > 0 else "B"
                    row = (prompt, responses[a, prompt], responses[b, prompt], a, b, order, verdict)
                    for name, value in zip(rows, row, strict=True):
                        rows[name].append(value)
    table = pa.table({name: pa.array(values) for name, values in rows.items()})
    pq.write_table(table, folder / "votes.parquet", compression="zstd")


if __name__ == "__main__":
    main()
