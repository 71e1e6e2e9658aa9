"""Several starts of robin in surroundings of their own, for the imports of one: the interpreter forks for each.

`tests.starting` forks only where nothing could differ while modules load. Here they load in those surroundings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT, environment

PROGRAM = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
from tests.starting import load_robin, run_to_its_end
load_robin()
for line in sys.stdin:
    args, folder, env, said = json.loads(line)
    robin = os.fork()
    if not robin:
        os.chdir(folder)
        os.environ.update(env)
        sys.argv = ["robin", *args]
        for number, path in enumerate(said, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if args[0] == "-c":
            exec(args[1])
            sys.exit()
        run_to_its_end()
    print(os.waitstatus_to_exitcode(os.waitpid(robin, 0)[1]), flush=True)
"""


class Starts:
    """Starts robin; what it says goes through files in ``folder``."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._said = [folder / "out", folder / "err"]

    def robin(self, *args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the robin command, or Python's `-c` with code, in ``cwd`` to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps([[*map(str, args)], str(cwd), env, [*map(str, self._said)]])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in self._said)
        return subprocess.CompletedProcess(args, status, out, err)


@contextmanager
def starts(
    folder: Path, *modules: str, env: Mapping[str, str] | None = None, path: Path | None = None
) -> Iterator[Starts]:
    """An interpreter with ``env`` that has imported ``modules`` and robin, from ``path`` where it is there."""
    given = {**(env or {}), "PYTHONPATH": ":".join(map(str, [path, ROOT] if path else [ROOT]))}
    command = [sys.executable, "-c", PROGRAM, *modules]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment(**given), stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield Starts(process, folder)
