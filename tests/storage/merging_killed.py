"""Merges that are killed at every step of writing, or every EVERYth: python merging_killed.py RUN RUN FOLDER EVERY.

A step is before a sync, a rename or a removal, before a table is written, and after the run took its
place. Printed is a JSON object a step: what is there then, and what is there once the same command was given again.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from robin_cli.runner.merging import merge_runs
from robin_cli.storage.reader import count_answers
from robin_cli.views.run_list import runs_in

RENAME = os.rename


def stepped(function: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def around(*args: Any, **named: Any) -> Any:
        step()
        result = function(*args, **named)
        if function is RENAME:
            step()
        return result

    return around


def killed_at(at: int, runs: Sequence[str], output: Path) -> bool:
    """Merge in a process that kills itself at a step; whether it came so far."""
    pid = os.fork()
    if not pid:
        count = itertools.count(1)

        def step() -> None:
            if next(count) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        for module, name in (
            (os, "fsync"),
            (os, "replace"),
            (os, "rename"),
            (pq.ParquetWriter, "write_table"),
            (shutil, "rmtree"),
        ):
            setattr(module, name, stepped(getattr(module, name), step))
        merge_runs(runs, output)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def main(runs: Sequence[str], folder: Path, every: int) -> None:
    """Print one line a step."""
    for at in itertools.count(1, every):
        output = folder / str(at) / "all"
        if not killed_at(at, runs, output):
            return
        there = (output / "manifest.json").exists()
        said: dict[str, Any] = {"there": there, "path": str(output), "runs": names(output.parent)}
        said["spent"] = count_answers(output)[0] if there else None
        if there:  # it is whole, and the next one of its name removes what else is left
            shutil.rmtree(output)
        merge_runs(runs, output)
        left = sorted(path.name for path in output.parent.iterdir())
        said["again"] = {
            "spent": count_answers(output)[0],
            "runs": names(output.parent),
            "left": left,
        }
        print(json.dumps(said), flush=True)


def names(folder: Path) -> list[str]:
    return [Path(each["run"]).name for each in runs_in(folder)]


if __name__ == "__main__":
    main(sys.argv[1:3], Path(sys.argv[3]), int(sys.argv[4]))
