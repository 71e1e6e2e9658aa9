"""Starts of the robin command that cost a fork: most of what a start costs is imports, and there are hundreds of starts.

The first start in a test process also starts a helper, this file as a program, which imports what robin's commands import
and then waits. `Robin` has it fork, and what comes of that is a process like any other: a child of the test's own process,
with arguments, folder, environment and three open files of its own, that is killed and waited for by its number, and ends
as the interpreter ends. Where a start could differ, because of a variable that is read while modules load, and on systems
other than Linux, `Robin` starts the interpreter. tests/test_starting.py holds the two ways side by side.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import io
import os
import pickle
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

COMMAND = [sys.executable, "-m", "robin_cli"]
# Read when they are needed, not while modules load. pytest and bash set the last ones.
READ_AT_WORK = {
    "COLUMNS",
    "NO_COLOR",
    "TERM",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "OTHER_KEY",
    "JUDGE_URL",
    "BATCHES_URL",
    "VOTES_URL",
}
READ_AT_WORK |= {"XDG_CONFIG_HOME", "PYTEST_CURRENT_TEST", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
READ_AT_WORK |= {
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
}  # which scikit-learn sets, for a library that robin has not
LATE = (
    *(
        "genai_prices.data",
        "pyarrow.dataset",
        "xlsxwriter",
        "typer.rich_utils",
        "openai._vendor.httpx_aiohttp",
        "truststore",
    ),
    *("httpcore2", "anyio.streams.tls", "matplotlib.figure", "matplotlib.patches", "matplotlib.backends.backend_svg"),
)
"""What robin, or what it imports, imports where it is needed."""
HERE = {name: value for name, value in os.environ.items() if not name.startswith(("ROBIN_", "OPENAI_"))}
PR_SET_CHILD_SUBREAPER = 36


class Robin(subprocess.Popen[Any]):
    """`subprocess.Popen` of the robin command with ``args``; ``afresh`` starts an interpreter for it in any case."""

    def __init__(
        self, args: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], afresh: bool = False, **named: Any
    ) -> None:
        assert named.keys() <= {"stdin", "stdout", "stderr", "text", "encoding"}
        changed = {name for name, _ in env.items() ^ HERE.items()}
        self.is_forked = sys.platform == "linux" and not afresh and changed <= READ_AT_WORK
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
            socket.send_fds(helper, [pickle.dumps((args[len(COMMAND) :], str(cwd), dict(env)))], files)
            self.pid = int(helper.recv(32))
        self._child_created = True
        self._close_pipe_fds(stdin, stdin_ours, stdout_ours, stdout, stderr_ours, stderr)  # type: ignore[attr-defined]
        return None


def load_robin() -> None:
    """Import what robin's commands import, before forks that then need not."""
    import typer

    import robin_cli
    from robin_cli.cli.app import _WithoutPandas, app
    from robin_cli.model.plugins import plugins

    sys.meta_path.insert(0, _WithoutPandas())  # as robin does before it imports anything
    for module in pkgutil.walk_packages(robin_cli.__path__, "robin_cli."):
        if module.name != "robin_cli.__main__":
            importlib.import_module(module.name)
    for late in LATE:
        importlib.import_module(late)
    for group in ("robin.datasets", "robin.judges", "robin.policies"):
        plugins(group)  # looks through all that is installed
    made, command = typer.main.get_command, typer.main.get_command(app)
    for each in vars(command)["commands"].values():
        getattr(each, "settings", None)  # made once they are asked for
    typer.main.get_command = lambda typer_instance: command if typer_instance is app else made(typer_instance)
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
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=HERE)

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
            os.waitpid(between, 0)  # robin then is the test process's child: that one adopts the orphans below it
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


def _run() -> NoReturn:
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
    _run()
