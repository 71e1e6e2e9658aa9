"""Ray's own cluster of several nodes, begun once for all tests, and what runs on it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, environment
from tests.plugins.ray.judge import Asked

WITHIN_S = 180
"""Ray takes a second or two for what is waited for here."""


@dataclass
class Nodes:
    """Ray's cluster; commands as :mod:`tests.plugins.ray.nodes` has them.

    Attributes:
        env: what a process needs that goes there.
        folder: where Ray keeps what it keeps.
    """

    process: subprocess.Popen[str]
    folder: Path
    env: dict[str, str]
    address: str = ""
    raylets: dict[int, int] = field(default_factory=dict)

    def say(self, name: str, **given: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()
        return self.heard()

    def heard(self) -> Any:
        """The next line that the cluster says, for which nobody waits without end."""
        watch = threading.Timer(WITHIN_S, self.process.kill)
        watch.start()
        try:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        assert line, f"the cluster ended, with exit status {self.process.wait(10)}"
        return json.loads(line)

    def add(self, **given: Any) -> int:
        """Begin a node."""
        told = self.say("add", **given)
        self.raylets[told["node"]] = told["raylet"]
        return int(told["node"])


def processes() -> Iterator[tuple[int, int, str]]:
    """Each process of this machine, the process that began it, and its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except (OSError, IndexError):  # it has ended meanwhile
                continue
            yield int(entry.name), parent, command


def workers_of(raylet: int) -> list[int]:
    return [
        pid
        for pid, parent, name in processes()
        if parent == raylet and name.startswith("ray::Worker")
    ]


def places_with(text: str, folder: Path, raylets: Collection[int]) -> Iterator[str]:
    """Where ``text`` stands: in Ray's files and shared memory, and in command lines and variables of its processes."""
    wanted = text.encode()
    for file in folder.rglob("*"):
        with suppress(OSError):  # it is gone meanwhile
            if stat.S_ISREG(file.lstat().st_mode) and wanted in file.read_bytes():
                yield str(file)
    for pid, _, command in processes():
        if text in command:
            yield f"the command line of {pid}"
        if "ray" not in command or "robin_cli" in command:
            continue
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes():
                yield f"the environment of {command}"
    for raylet in raylets:
        for file in Path(f"/proc/{raylet}/fd").iterdir():
            with suppress(OSError):
                if "plasma" in str(file.readlink()) and wanted in file.read_bytes():
                    yield "the object store"


@contextmanager
def ray_nodes() -> Iterator[Nodes]:
    """A cluster with a head alone, which runs no workers."""
    folder = Path(tempfile.mkdtemp(prefix="rr", dir="/tmp"))  # names of sockets are short
    env = {
        "RAY_TMPDIR": str(folder),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "plugins" / "ray" / "nodes.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(**env),
        start_new_session=True,
    ) as process:
        nodes = Nodes(process, folder, env)
        try:
            nodes.address = nodes.heard()
            yield nodes
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=WITHIN_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def nodes() -> Iterator[Nodes]:
    """A cluster with two nodes that run workers."""
    with ray_nodes() as cluster:
        cluster.add()
        cluster.add()
        yield cluster


def judging_on(nodes: Nodes, asked: Asked, data: Path, budget: int, *more: str | Path) -> list[str]:
    """The command that spends ``budget`` calls of a judge by workers on ``nodes``."""
    judge = ("--base-url", asked.url, "--model", "judge", "--ray", nodes.address)
    return [
        *("judge", str(data), "--budget", str(budget), "-a", "helpfulness"),
        *judge,
        *map(str, more),
    ]
