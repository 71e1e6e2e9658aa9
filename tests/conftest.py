"""Servers and a runner of the robin command, for tests that work as a user does."""

from __future__ import annotations

import gc
import json
import os
import pty
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec
from unittest import mock

import fsspec
import pytest
from hypothesis import HealthCheck, settings

import robin_cli.stats.agreement
from robin_cli.data import remote
from robin_cli.run.manifest import CHECKSUM, sealed
from robin_cli.show import drawing
from tests.starting import Robin, run_here

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "configs" / "demo"
REPLAY_MODEL = "replay:gpt-4.1-nano/helpfulness"
SHORT_PROMPT = "{% block user %}{{ instruction }} {{ response }} {{ low }} to {{ high }}: {{ rubric[:20] }}{% endblock %}"
"""A template for real servers, where it is not the prompt that a test is about: reading the paper's is most of their work."""
GRAMMAR = {"grammar": r'root ::= "Feedback: " [a-z ]{5,40} "." "\n" "Rating: " [0-4]'}


# A shell has its background jobs ignore Ctrl-C, and what they start would, too: tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Several tests run at a time, and nothing here is about time: a slow draw is a busy machine.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: a check of a change fails because of that change, never by the luck of a draw. New examples are
# what `make test-all` looks for.
settings.register_profile("robin", settings.get_profile("whole"), max_examples=12, derandomize=True)
settings.load_profile("robin")

gc.disable()  # a second of what each test process takes to import its tests, in which nothing is garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where robin keeps which runs were made here, in place of the user's own folder."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def few_resamples() -> Iterator[None]:
    """Intervals of agreement by 100 resamples, not 1,000: half of the work of a page, and not what it is tested for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robin_cli.stats.agreement, "resamples_for", lambda _: 100)
        yield


def leaving_out_pictures() -> Any:
    """Draw no picture, most of a report's time: the words of a page have none of it."""
    # these would keep what stands in for drawing, if they were imported meanwhile
    import robin_cli.show.report.writing
    import robin_cli.show.simulated  # noqa: F401

    empty = b'<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"/>'
    return mock.patch.object(drawing, "drawn", return_value=empty)


@pytest.fixture(scope="module")
def no_pictures() -> Iterator[None]:
    with leaving_out_pictures():
        yield


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A file system at memory://, as those of s3:// and gs:// are, of which this process alone knows."""
    monkeypatch.setitem(remote.LIBRARIES, "memory", "fsspec")
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


def change_manifest(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest as its author can: the content, without a trace."""
    file = run / "manifest.json"
    content = json.loads(file.read_bytes())
    del content[CHECKSUM]
    change(content)
    file.write_bytes(sealed(content))


def environment(**extra: str) -> dict[str, str]:
    """The environment without anything that configures robin, and with ``extra``."""
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROBIN_", "OPENAI_"))
    }
    return mine | {"COLUMNS": "100", "NO_COLOR": "1"} | extra


Done = subprocess.CompletedProcess[str]
P = ParamSpec("P")


def robin(
    *args: str | Path, cwd: Path, stdin: str | None = None, exits: object = None, **env: str
) -> Done:
    """Run the robin command in ``cwd`` to its end, which is to be with status ``exits`` where that is given."""
    here = run_here(
        args, cwd=cwd, env=environment(**env), stdin=None if stdin is None else stdin.encode()
    )
    if here is None:
        done = robin_apart(*args, cwd=cwd, stdin=stdin, **env)
    else:
        status, *said = here
        done = subprocess.CompletedProcess(
            list(map(str, args)), status, *(_as_text(each) for each in said)
        )
    return ended(done, exits)


def ended(done: Done, exits: object) -> Done:
    """The command that ended, after a check of its exit status."""
    assert exits is None or exits == done.returncode, (
        f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr}"
    )
    return done


def has(said: Container[Any], *parts: object) -> None:
    """Check that each of the parts is in what was said."""
    missing = [part for part in parts if part not in said]
    assert not missing, f"{missing} not in\n{said}"


def refuses(
    error: type[Exception], said: str, call: Callable[P, object], *args: P.args, **named: P.kwargs
) -> None:
    """Check that a call raises ``error``, with words that match ``said``."""
    with pytest.raises(error, match=said):
        call(*args, **named)


def robin_apart(*args: str | Path, cwd: Path, stdin: str | None = None, **env: str) -> Done:
    """As `robin`, in a process of its own."""
    return _to_its_end(args, cwd, stdin, environment(**env), afresh=False)


def _as_text(said: bytes) -> str:
    return said.decode().replace("\r\n", "\n")


def robin_afresh(*args: str | Path, cwd: Path, exits: object = None, **env: str) -> Done:
    """As `robin`, in an interpreter that is started for it."""
    return ended(_to_its_end(args, cwd, None, environment(**env), afresh=True), exits)


def _to_its_end(
    args: tuple[str | Path, ...], cwd: Path, stdin: str | None, env: dict[str, str], *, afresh: bool
) -> Done:
    pipe = subprocess.PIPE
    files = {"stdin": None if stdin is None else pipe, "stdout": pipe, "stderr": pipe}
    with Robin(args, cwd=cwd, env=env, afresh=afresh, encoding="utf-8", **files) as process:
        try:
            out, err = process.communicate(stdin, timeout=300)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def judging(url: str, data: str | Path, budget: int, *more: str | Path) -> list[str]:
    """The command that spends ``budget`` calls of the replay judge at ``url`` on ``data``, each answered alike every time."""
    judge = ("--base-url", url, "--model", REPLAY_MODEL, "--seed", "3")
    return [
        *("judge", str(data), "--budget", str(budget), "-a", "helpfulness"),
        *judge,
        *map(str, more),
    ]


def missing(what: str, script: str = "install_test_servers.sh") -> None:
    """Skip for want of an external part; where everything is required, fail."""
    if os.environ.get("ROBIN_REQUIRE_EXTERNAL") == "1":
        pytest.fail(f"{what} is required (ROBIN_REQUIRE_EXTERNAL=1)")
    pytest.skip(f"{what} is not installed: scripts/{script} installs it")


def free_port() -> int:
    """A port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that other users of this machine can look into; those of pytest they cannot."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wait_until(
    met: Callable[[], bool], process: subprocess.Popen[Any], seconds: float = 120
) -> None:
    """Wait for what ``process`` is to bring about; fail where it ends before that, or takes too long."""
    deadline = time.monotonic() + seconds
    while not met():
        if process.poll() is not None:
            pytest.fail(f"it ended before that, with exit status {process.returncode}")
        if time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"it did not come to pass within {seconds:g} s")
        time.sleep(0.002)


def lines_of(path: Path) -> int:
    """Whole lines that a file has by now; 0 where there is none."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


@contextmanager
def replaying(pool: Path, *args: str) -> Iterator[str]:
    """A replay judge over ``pool``; yields its base URL."""
    command: list[str | Path] = ["serve", pool, "--port", "0", *args]
    with Robin(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def at_a_terminal(*args: str, cwd: Path, typed: str = "", **env: str) -> tuple[int, str]:
    """Exit status and output of a command whose streams are all a terminal, at which ``typed`` is typed."""
    leader, follower = pty.openpty()
    process = Robin(
        args, cwd=cwd, env=environment(**env), stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.write(leader, f"{typed}\n".encode() if typed else b"")
    shown = b""
    try:
        while part := os.read(leader, 65536):
            shown += part
    except OSError:  # Linux's way to say that the other end is closed
        pass
    os.close(leader)
    return process.wait(timeout=60), shown.decode("utf-8", "replace").replace("\r\n", "\n")


@pytest.fixture(scope="session")
def replay_url() -> Iterator[str]:
    """The demo's judge."""
    with replaying(DEMO / "ratings.parquet") as url:
        yield url


@contextmanager
def llama_server(log: Path, *args: str) -> Iterator[str]:
    """llama.cpp's own server with the tiny judge; yields its base URL. Its log goes to ``log``."""
    folder = Path(os.environ.get("ROBIN_TEST_SERVERS", ROOT / ".test-servers"))
    program = folder / "llama-server"
    if not program.is_file():
        missing("llama-server")
    port = free_port()
    model = ROOT / "tests" / "servers" / "tiny-judge.gguf"
    # 8 slots of 2,048 tokens, the model's limit: the paper's prompt takes some 1,800 of this tokenizer's
    command = [
        *(program, "-m", model, "--host", "127.0.0.1", "--port", port, "-t", 1, "--offline", "-c"),
        *(16384, "-np", 8),
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*map(str, command), "--alias", "tiny-judge", *args], stdout=out, stderr=out
        ) as server,
    ):
        try:
            _wait_until_healthy(f"http://127.0.0.1:{port}/health", server, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"the server ended at once: {log.read_text(errors='replace')[-500:]}")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  # loopback
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the server did not get ready: {log.read_text(errors='replace')[-500:]}")


def reopen(run: Path, state: str, was_in: str = "done") -> None:
    """Have the first batch of a run be as it was before it was put down as ``was_in``."""
    file = run / "batches" / "00001.json"
    was = json.loads(file.read_text(encoding="utf-8"))
    assert was["state"] == was_in
    file.write_text(
        json.dumps(
            {**was, "state": state, "answered": None}
            | ({"batch_id": None} if state == "creating" else {})
        ),
        encoding="utf-8",
    )


def short_prompt(folder: Path) -> Path:
    """The file of SHORT_PROMPT, made in ``folder``."""
    path = folder / "short.jinja"
    path.write_text(SHORT_PROMPT, encoding="utf-8")
    return path


def plant(folder: Path, *names: str) -> Path:
    """Put modules of these names into ``folder``; returns the file that is there once one of them was imported."""
    for name in names:
        (folder / f"{name}.py").write_text(
            "import os\nos.mkdir(os.path.join(os.path.dirname(__file__), 'IMPORTED'))\n"
        )
    return folder / "IMPORTED"


def write_pairs(path: Path, count: int) -> Path:
    """``count`` short pairs as JSON lines, without human ratings."""
    rows = [
        {"id": f"p{k}", "prompt": f"Name {k} colours.", "response": f"Blue, and {k} more."}
        for k in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, or one test process is left with it while the others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
