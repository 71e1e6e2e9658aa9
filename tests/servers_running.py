"""Real servers beside llama.cpp's, for the external tests: a proxy with keys and limits, one that makes faults, and batches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT, _wait_until_healthy, environment, free_port, missing


def _program(name: str) -> Path:
    program = Path(os.environ.get("ROBIN_TEST_SERVERS", ROOT / ".test-servers")) / name
    if not program.is_file():
        missing(name)
    return program


@contextmanager
def _running(command: list[str], health: str, log: Path, **env: str) -> Iterator[None]:
    """Run ``command`` as a process group of its own, from when ``health`` answers; all of it has ended afterwards."""
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment(**env),
            start_new_session=True,
        ) as server,
    ):
        try:
            _wait_until_healthy(health, server, log)
            yield
        finally:
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Ask the group to end, and kill what of it is left when its leader has ended or 10 seconds have passed."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, how)
        except ProcessLookupError:
            break
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    server.wait()


@contextmanager
def litellm_proxy(log: Path, upstream: str) -> Iterator[str]:
    """The LiteLLM proxy in front of ``upstream`` (a base URL that ends in /v1); yields its own base URL.

    Its model `judge` is the one behind it; the others, and the keys it takes, are in tests/servers/litellm.
    """
    port = free_port()
    config = ROOT / "tests" / "servers" / "litellm" / "litellm.yaml"
    command = [
        _program("litellm"),
        *("--config", config, "--host", "127.0.0.1", "--port", port, "--telemetry", "False"),
    ]
    env = {"ROBIN_TEST_UPSTREAM": upstream, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with _running([*map(str, command)], f"http://127.0.0.1:{port}/health/liveliness", log, **env):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def batch_service(log: Path, upstream: str, folder: Path) -> Iterator[str]:
    """OGX's files and batches, worked off at ``upstream`` (a base URL that ends in /v1); yields its own base URL.

    Its model `llama/tiny-judge` is the one there. What it knows lies in ``folder``, and is there again where it was before.
    """
    port = free_port()
    config = ROOT / "tests" / "servers" / "ogx" / "ogx.yaml"
    command = [_program("ogx"), "run", config, "--port", port, "--insecure"]
    folder.mkdir(exist_ok=True)
    env = {
        "ROBIN_TEST_UPSTREAM": upstream,
        "ROBIN_TEST_FOLDER": str(folder),
        "OGX_CONFIG_DIR": str(folder / "config"),
    }
    with _running([*map(str, command)], f"http://127.0.0.1:{port}/v1/health", log, **env):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def faulty(
    log: Path,
    upstream: str,
    fixtures: Path,
    *,
    ratelimit: float = 0,
    drop: float = 0,
    malformed: float = 0,
    disconnect: float = 0,
) -> Iterator[str]:
    """aimock in front of ``upstream`` (a base URL that ends in /v1); yields its own base URL.

    Of the calls, these shares get no real answer: a 429 with Retry-After (``ratelimit``), a 500 (``drop``), a 200 whose
    body is no JSON (``malformed``), a connection that is closed without a word (``disconnect``). ``fixtures`` is a folder
    without canned answers, made where there is none, so every other call is passed on.
    """
    fixtures.mkdir(exist_ok=True)
    port = free_port()
    command = [_program("llmock"), "--port", port, "--fixtures", fixtures, "--proxy-only"]
    command += ["--provider-openai", upstream.removesuffix("/v1")]
    command += ["--chaos-ratelimit", ratelimit, "--chaos-drop", drop]
    command += ["--chaos-malformed", malformed, "--chaos-disconnect", disconnect]
    with _running([*map(str, command)], f"http://127.0.0.1:{port}/health", log):
        yield f"http://127.0.0.1:{port}/v1"


def faults_made(url: str) -> Counter[str]:
    """What aimock at ``url`` did with its calls so far (the last 1,000): how many it `passed` on, how often which fault."""
    with urllib.request.urlopen(  # noqa: S310
        url.removesuffix("/v1") + "/__aimock/journal", timeout=10
    ) as answer:
        calls = json.load(answer)
    return Counter(call["response"].get("chaosAction") or "passed" for call in calls)
