"""What robin leaves on a machine: a run directory that only its owner reads, and nothing else; the key nowhere."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.conftest import ROOT, has, robin, write_pairs
from tests.judges.wire import Answer, Wire, completion, error, serving

KEY = "sk-planted/4f1c9a7e55d2+8b=="

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


def echo(number: int, body: dict[str, Any]) -> Answer:
    """A judge that repeats the key wherever it can, in answers and in errors."""
    told: list[Answer] = [
        completion(f"Feedback: you sent {KEY}.\nRating: {number % 5}", id=f"{KEY}-{number}", model=KEY),
        error(429, f"{KEY} asks too often", headers={"Retry-After": "0"}),
        error(500, f"cannot look up {KEY}"),
        web.Response(status=502, text=f"<p>{KEY}</p>", content_type="text/html"),
        {"error": {"message": f"no upstream for {KEY}"}},
        error(400, f"content filtered for {KEY}", code="content_filter"),
    ]
    return told[0 if number % 3 else number // 3 % len(told)]


@contextmanager
def echoing() -> Iterator[Wire]:
    with serving(echo) as wire:
        yield wire


def run(url: str, cwd: Path, *more: str, **env: str) -> Any:
    write_pairs(cwd / "pairs.jsonl", 8)
    command = ("judge", "pairs.jsonl", "-b", "60", "-a", "helpfulness", "--base-url", url, "--model", "judge", *more)
    return robin(*command, "--run", "r", cwd=cwd, OPENAI_API_KEY=KEY, **env)


def test_writes_and_says_the_key_nowhere(tmp_path: Path) -> None:
    logging = {"OPENAI_LOG": "debug", "PYTHONASYNCIODEBUG": "1"}  # which say more than any other
    with echoing() as wire:
        said = [run(wire.url, tmp_path, "--debug-http", "http.jsonl", **logging)]
        assert said[0].returncode == 0, said[0].stderr
        said.append(robin("resume", "r", "-b", "70", cwd=tmp_path, OPENAI_API_KEY=KEY, **logging))
        commands = (("status", "r"), ("status", "r", "--json"), ("export", "r"), ("report", "r"))
        said += [robin(*command, cwd=tmp_path, OPENAI_API_KEY=KEY) for command in commands]
        for suffix in ("csv", "jsonl", "parquet", "xlsx"):
            target = f"judgments.{suffix}"
            said.append(robin("export", "r", "--what", "judgments", "-o", target, cwd=tmp_path, OPENAI_API_KEY=KEY))
        said.append(robin("check", "--base-url", wire.url, "--model", "judge", cwd=tmp_path, OPENAI_API_KEY=KEY))
    assert any(KEY in headers["Authorization"] for headers in wire.headers)  # it was sent
    for each in said:
        assert KEY not in each.stdout + each.stderr
        assert KEY[:15] not in each.stdout + each.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"manifest.json", "journal.jsonl", "00001.parquet", "http.jsonl", "report.html"} <= {
        path.name for path in files
    }
    escaped = json.dumps(KEY)[1:-1].replace("/", "\\/")
    assert not [path for path in files for key in (KEY, escaped) if key.encode() in path.read_bytes()]
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    packed = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    unpacked = "".join(gzip.decompress(base64.b64decode(text)).decode() for text in [packed["rows"], *packed["texts"]])
    assert "you sent [key]." in unpacked
    assert KEY not in unpacked
    answered = robin("export", "r", "--what", "judgments", "--format", "jsonl", cwd=tmp_path).stdout
    assert "you sent [key]." in answered


def test_leaves_nothing_outside_its_run_and_talks_to_nobody_but_the_judge(tmp_path: Path) -> None:
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    places = {
        name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    work = tmp_path / "work"
    for folder in (*places.values(), work):
        folder.mkdir()
    log = tmp_path / "watched"
    with serving(lambda number, body: completion(f"Rating: {number % 5}")) as wire:
        done = run(
            wire.url, work, WATCH_LOG=str(log), PYTHONPATH=f"{tmp_path / 'watch'}:{ROOT}",
            PYTHONDONTWRITEBYTECODE="1", **{name: str(path) for name, path in places.items()},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path for folder in places.values() for path in folder.rglob("*")] == []
    assert {path.name for path in work.iterdir()} == {"pairs.jsonl", "r"}
    for path in (work / "r", *(work / "r").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    seen = log.read_text(encoding="utf-8").splitlines()
    address = wire.url.removeprefix("http://").removesuffix("/v1")
    has(seen, f"connect {address}", f"write {work / 'r' / 'journal.jsonl'}")
    mine = (
        *(f"connect {address}", f"write {work / 'r'}", f"os.mkdir {work / 'r'}", "os.mkdir r", "os.rename r/"),
        "write /dev/null",
    )
    sdk = ("subprocess.Popen uname ",)  # the openai SDK names the machine's kind in its headers
    assert [line for line in seen if not line.startswith((*mine, *sdk))] == []
