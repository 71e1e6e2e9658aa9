"""Starts of the robin command that cost a fork: most of what a start costs is imports, and there are hundreds of starts.

The first start in a test process also starts a helper, this file as a program, which imports what robin's commands import
and then waits. `Robin` has it fork, and what comes of that is a process like any other: a child of the test's own process,
with arguments, folder, environment and three open files of its own, that is killed and waited for by its number, and ends
as the interpreter ends. Where a start could differ, because of a variable that is read while modules load, and on systems
other than Linux, `Robin` starts the interpreter. tests/test_starting.py holds the two ways side by side.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import importlib.util
import io
import os
import pickle
import pkgutil
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

COMMAND = [sys.executable, "-m", "robin_cli"]
# Read when they are needed, not while modules load. pytest and bash set the last ones.
READ_AT_WORK = {
    "COLUMNS", "NO_COLOR", "TERM", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "OTHER_KEY", "JUDGE_URL", "BATCHES_URL",
    "PAIRWISE_URL", "KEY_ONE", "KEY_TWO", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "CHECKOUT", "RUN", "REQUIRE",
    "UNSETTLED", "RUNNER_TEMP", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "XDG_STATE_HOME", "PYTEST_CURRENT_TEST", "PATH", "PWD",
    "OLDPWD", "SHLVL", "_",
}  # fmt: skip
# What scikit-learn, polars and Ray set when tests import them, for libraries that robin has not.
READ_AT_WORK |= {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "_RJEM_MALLOC_CONF", "RAY_CLIENT_MODE"}
LATE = (
    "genai_prices.data", "pyarrow.dataset", "xlsxwriter", "openai", "truststore",
    "scipy.optimize", "httpcore2", "anyio.streams.tls", "matplotlib.figure", "matplotlib.patches",
    "matplotlib.backends.backend_svg",
)  # fmt: skip
"""What robin, or what it imports, imports where it is needed."""
HERE = {
    name: value for name, value in os.environ.items() if not name.startswith(("ROBIN_", "OPENAI_"))
}
PR_SET_CHILD_SUBREAPER = 36


class Robin(subprocess.Popen[Any]):
    """`subprocess.Popen` of the robin command with ``args``; ``afresh`` starts an interpreter for it in any case."""

    def __init__(
        self,
        args: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str],
        afresh: bool = False,
        **named: Any,
    ) -> None:
        assert named.keys() <= {"stdin", "stdout", "stderr", "text", "encoding"}
        self.is_forked = sys.platform == "linux" and not afresh and _differs_at_work_alone(env)
        super().__init__([*COMMAND, *map(str, args)], cwd=cwd, env=env, **named)

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        """What Popen starts its child with: of ``rest``, the open files stand where Popen puts them."""
        if not self.is_forked:
            return super()._execute_child(args, *rest)  # type: ignore[misc,no-any-return]
        cwd, env = rest[4:6]
        stdin, stdin_ours, stdout_ours, stdout, stderr_ours, stderr = rest[9:15]
        files = [given if given != -1 else own for own, given in enumerate((stdin, stdout, stderr))]
        with _one_at_a_time:
            helper = _helper()
            socket.send_fds(
                helper, [pickle.dumps((args[len(COMMAND) :], str(cwd), dict(env)))], files
            )
            self.pid = int(helper.recv(32))
        self._child_created = True
        self._close_pipe_fds(stdin, stdin_ours, stdout_ours, stdout, stderr_ours, stderr)  # type: ignore[attr-defined]
        return None


def _differs_at_work_alone(env: Mapping[str, str]) -> bool:
    changed = {name for name, _ in env.items() ^ HERE.items()}
    return all(name in READ_AT_WORK or name.startswith("ROBIN_") for name in changed)


class _TooLong(BaseException):
    """A command that does not end: no error that robin would take for one of its own."""


def run_here(
    args: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], stdin: bytes | None = None
) -> tuple[int, bytes, bytes] | None:
    """Run the robin command in this process: its exit status and what it wrote; None where only another process can.

    What a process has once is as the command expects it meanwhile, and as it was afterwards: folder, variables, the three
    open files and Python's names for them, signals, warnings, the limit of open files.
    """
    is_alone = (
        threading.current_thread() is threading.main_thread()
        and asyncio._get_running_loop() is None
    )
    if (
        sys.platform != "linux"
        or not is_alone
        or not _differs_at_work_alone(env)
        or "--ray" in args
    ):
        return None
    from robin_cli.cli.app import main

    make_commands_once()
    streams = sys.stdin, sys.stdout, sys.stderr
    before = (Path.cwd(), dict(os.environ), sys.argv, sys.modules["__main__"], streams)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin or b"")
        files[0].seek(0)
        stack.enter_context(warnings.catch_warnings())
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGPIPE,
            signal.SIGALRM,
        ):
            stack.callback(signal.signal, number, signal.getsignal(number))
        for own, file in enumerate(files):
            stack.callback(os.close, kept := os.dup(own))
            stack.callback(os.dup2, kept, own)
            os.dup2(file.fileno(), own)
        stack.callback(_put_back, *before)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        warnings.resetwarnings()
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        spec = importlib.util.find_spec("robin_cli.__main__")
        assert spec is not None
        assert spec.origin is not None
        sys.argv = [spec.origin, *map(str, args)]
        # that of what is run with -m
        sys.modules["__main__"] = importlib.util.module_from_spec(spec)
        signal.signal(signal.SIGALRM, _end)
        signal.alarm(300)
        status: object = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        except Exception:  # noqa: BLE001  # as the interpreter ends
            traceback.print_exc()
            status = 1
        finally:
            signal.alarm(0)
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        return int(status) if isinstance(status, int) else 1, *(_whole(file) for file in files[1:])  # type: ignore[return-value]


def _end(*_: object) -> NoReturn:
    raise _TooLong


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _put_back(
    folder: Path, variables: dict[str, str], args: list[str], main: Any, streams: Any
) -> None:

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv, sys.modules["__main__"] = args, main
    sys.stdin, sys.stdout, sys.stderr = streams


@functools.cache
def make_commands_once() -> None:
    """Have Typer make its commands, a tenth of most runs' time, once for all that this process runs."""
    import typer

    from robin_cli.cli.app import app

    made, command = typer.main.get_command, typer.main.get_command(app)
    for each in vars(command)["commands"].values():
        getattr(each, "options", None)  # made once they are asked for
    typer.main.get_command = lambda typer_instance: (
        command if typer_instance is app else made(typer_instance)
    )


def load_robin() -> None:
    """Import what robin's commands import, before forks that then need not."""
    import robin_cli
    from robin_cli.model.plugins import plugins

    for module in pkgutil.walk_packages(robin_cli.__path__, "robin_cli."):
        if module.name != "robin_cli.__main__":
            importlib.import_module(module.name)
    for late in LATE:
        importlib.import_module(late)
    for group in ("robin.datasets", "robin.judges", "robin.policies"):
        plugins(group)  # looks through all that is installed
    make_commands_once()
    gc.collect()
    gc.freeze()  # else each child touches all of it once more as it looks for garbage


_one_at_a_time = threading.Lock()


@functools.cache
def _helper() -> socket.socket:
    """The connection to this process's helper, which ends when it is closed."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=HERE
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork for each request; returns in the child that is to become robin."""
    while True:
        message, files, *_ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            sys.exit()
        told, tell = os.pipe()
        if between := _fork():
            # robin then is the test process's child: that one adopts the orphans below it
            os.waitpid(between, 0)
            requests.send(os.read(told, 32))
            for file in (told, tell, *files):
                os.close(file)
        elif robin := _fork():
            os.write(tell, str(robin).encode())
            os._exit(0)
        else:
            for file in (told, tell, requests.detach()):
                os.close(file)
            args, cwd, env = pickle.loads(message)  # noqa: S301  # of the test process
            _become(args, cwd, env, files)
            return


def _fork() -> int:
    with warnings.catch_warnings():  # numpy's threads wait for work and hold nothing
        warnings.simplefilter("ignore")
        return os.fork()


def _become(args: list[str], cwd: str, env: dict[str, str], files: list[int]) -> None:
    """Make this process what an interpreter is before it runs its program."""
    import multiprocessing.process

    for own, file in enumerate(files):
        os.dup2(file, own)
        os.close(file)
    for own, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, name)
        binary = open(own, f"{mode}b", closefd=False)  # noqa: SIM115
        at_lines = own == 2 or os.isatty(own)
        new = io.TextIOWrapper(binary, old.encoding, old.errors, line_buffering=at_lines)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.argv[1:] = args
    multiprocessing.process.ORIGINAL_DIR = cwd  # type: ignore[attr-defined]


def run_to_its_end() -> NoReturn:
    """Run the program and end as an interpreter does, but for taking its modules apart.

    That touches, and so copies, all that the helper has loaded: a tenth of a second, most of what a start costs.
    """
    status: object = 0
    try:
        runpy.run_module("robin_cli", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    if not isinstance(status, int):
        sys.exit(status)  # type: ignore[arg-type]  # which prints it
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what was left open is said
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)  # which says so
    os._exit(status & 0xFF)


if __name__ == "__main__":
    load_robin()
    try:
        _serve(socket.socket(fileno=int(sys.argv.pop())))
    except KeyboardInterrupt:  # Ctrl-C reaches the tests and all that they started
        sys.exit()
    run_to_its_end()
