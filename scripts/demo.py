"""make demo: robin's main job on bundled pairs, against a judge that replays recorded ratings on this machine."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "configs" / "demo"
BUDGET = "3000"

ABOUT = f"""
robin demo: {BUDGET} judge calls over the 60 pairs of configs/demo/pairs.jsonl.
The judge is a REPLAY: a real HTTP server on this machine, robin serve, that answers with recorded ratings; no model reads
the responses, so the scores say nothing about them. The ratings are digitised from plots of the paper "LLM-as-Judge on a
Budget" (its gpt-4.1-nano/helpfulness set; configs/demo/README.md).
"""


def main() -> int:
    """Run the demo; the exit status of the first part that fails, else 0."""
    print(ABOUT, flush=True)
    robin = [sys.executable, "-m", "robin_cli"]
    run = ROOT / "runs" / f"demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    csv = ROOT / "demo-scores.csv"
    server = subprocess.Popen(
        [*robin, "serve", str(DEMO / "ratings.parquet"), "--port", "0", "--latency-ms", "20"],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        assert server.stdout is not None  # noqa: S101  # it is a pipe
        url = server.stdout.readline().strip()
        if not url:
            return server.wait()
        judge = [
            "judge",
            "--config",
            "demo",
            "--base-url",
            url,
            "--budget",
            BUDGET,
            "--run",
            str(run),
            "--format",
            "table",
        ]
        for command in (judge, ["export", str(run), "-o", str(csv)]):
            if status := subprocess.run([*robin, *command], check=False, cwd=ROOT).returncode:
                return status
    finally:
        server.terminate()
        server.wait()
    print(f"\nThe ratings above are replayed ones. The run is in {run.relative_to(ROOT)}, the scores in {csv.name}.")
    print(f"Next: .venv/bin/robin status {run.relative_to(ROOT)}, or a judge of your own: README.md, First real run.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
