"""Makes configs/demo/responses.jsonl: responses of six systems that there are not.

Run from the repository's root: python scripts/simulate_responses.py. Same machine or not, the responses are the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

SYSTEMS = ("amber", "birch", "cedar", "dune", "ember", "fjord")
PROMPTS = 40


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(19)
    with Path("configs/demo/responses.jsonl").open("w") as file:
        for number in range(PROMPTS):
            for system in SYSTEMS:
                row = {
                    "prompt": f"Simulated prompt {number:02d}: say something about the number {number}.",
                    "response": f"Simulated response of {system} to prompt {number:02d}"
                    + ", and so on" * int(rng.integers(6))
                    + ".",
                    "system": system,
                }
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
