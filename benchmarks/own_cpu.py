"""Run robin, and write what CPU this process alone took, in seconds: python own_cpu.py FILE judge …

What it starts (Ray's own processes, workers) is not in it.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path


def main() -> None:
    """Run robin with the arguments behind the file's name."""
    file = Path(sys.argv.pop(1))
    sys.argv[0] = "robin"
    try:
        runpy.run_module("robin_cli", run_name="__main__", alter_sys=True)
    finally:
        file.write_text(str(time.process_time()), encoding="utf-8")


if __name__ == "__main__":
    main()
