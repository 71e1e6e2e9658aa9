"""What robin leaves on a machine: a run directory that only its owner reads, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import ROOT, has, robin, write_pairs
from tests.judges.wire import completion, serving

WATCH = """
import os, sys

def watch(event, args):
    if event == "socket.connect":
        address = args[1]
        line = f"connect {address[0]}:{address[1]}" if isinstance(address, tuple) else f"connect {address}"
    elif event == "open" and isinstance(args[0], str) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        line = f"write {os.path.abspath(args[0])}"
    elif event in {"socket.getaddrinfo", "os.mkdir", "os.rename", "subprocess.Popen"}:
        line = f"{event} {args[0]} {args[1]}"
    else:
        return
    descriptor = os.open(os.environ["WATCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (line + "\\n").encode())
    os.close(descriptor)

class Guard:
    busy = False

def guarded(event, args):
    if not Guard.busy:
        Guard.busy = True
        try:
            watch(event, args)
        finally:
            Guard.busy = False

sys.addaudithook(guarded)
"""


def run(url: str, cwd: Path, *more: str, **env: str) -> Any:
    write_pairs(cwd / "pairs.jsonl", 8)
    command = (
        *("judge", "pairs.jsonl", "-b", "60", "-a", "helpfulness", "--base-url", url, "--model"),
        "judge",
        *more,
    )
    return robin(
        *command, "--run", "r", cwd=cwd, OPENAI_API_KEY="sk-planted/4f1c9a7e55d2+8b==", **env
    )


def test_leaves_nothing_outside_its_run_and_talks_to_nobody_but_the_judge(tmp_path: Path) -> None:
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    places = {
        name: tmp_path / name
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    state, work = tmp_path / "state", tmp_path / "work"
    for folder in (*places.values(), work):
        folder.mkdir()
    log = tmp_path / "watched"
    with serving(lambda number, body: completion(f"Rating: {number % 5}")) as wire:
        done = run(
            wire.url, work, WATCH_LOG=str(log), PYTHONPATH=f"{tmp_path / 'watch'}:{ROOT}",
            PYTHONDONTWRITEBYTECODE="1", XDG_STATE_HOME=str(state), **{name: str(path) for name, path in places.items()},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path for folder in places.values() for path in folder.rglob("*")] == []
    assert [path.relative_to(state).as_posix() for path in state.rglob("*")] == [
        "robin",
        "robin/runs",
    ]
    assert {path.name for path in work.iterdir()} == {"pairs.jsonl", "r"}
    for path in (work / "r", *(work / "r").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    seen = log.read_text(encoding="utf-8").splitlines()
    address = wire.url.removeprefix("http://").removesuffix("/v1")
    has(seen, f"connect {address}", f"write {work / 'r' / 'lock'}")
    mine = (
        *(
            f"connect {address}",
            f"write {work / 'r'}",
            f"os.mkdir {work / 'r'}",
            "os.mkdir r",
            "os.rename r/",
        ),
        "write /dev/null",
        f"write {state}",
        f"os.mkdir {state}",
    )
    sdk = ("subprocess.Popen uname ",)  # the openai SDK names the machine's kind in its headers
    assert [line for line in seen if not line.startswith((*mine, *sdk))] == []
