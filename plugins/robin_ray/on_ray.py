"""Workers as Ray actors. The only file that imports Ray.

Keys go to an actor as arguments of a call, once it is there: such arguments go from process to process. What an actor is made
of would be kept by the cluster, variables of its environment are shown by it, and large arguments lie in the files of its
object store.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import logging
import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from robin_cli import __version__
from robin_cli.data.local import temporary_folder
from robin_cli.model.errors import EndpointError, InputError
from robin_cli.model.plugins import install
from robin_cli.session.targets import Target
from robin_ray.crew import STARTING_S, Lost, Node, Remote, Unfit
from robin_ray.worker import RemoteRequest, RemoteResult

LOCAL = "local"
ANSWERS_WITHIN_S = 10.0
"""The time limit for an address to answer with gRPC."""

_JOINS_WITHIN_S = 40.0
_SAYS_WITHIN_S = 5.0
_LEAVES_WITHIN_S = 10.0
_STORE_BYTES = 128 * 2**20
"""Memory for the object store of robin's own Ray, for long prompts and answers."""

_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
_SETTINGS = 4

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_prestart_worker_first_driver": "0",
}
"""Variables against usage reports, uploads, hints, and a worker for each core before any is asked for."""

_MOST_PRINTED = 64 * 1024
_BECAUSE = "refused: "
_TAKE_PART = f"""
import logging, sys
import ray, ray.job_config
logging.getLogger("ray").setLevel(logging.CRITICAL)
quiet = dict(log_to_driver=False, configure_logging=False, logging_level=logging.CRITICAL)
job = ray.job_config.JobConfig()
job._py_driver_sys_path = type("NoPaths", (list,), {{"extend": lambda *_: None}})()
try:
    ray.init(address=sys.argv[1], job_config=job, **quiet)
except Exception as error:
    print("{_BECAUSE}" + str(error))
    sys.exit(1)
"""

Returned = TypeVar("Returned")


def check(address: str, secret: Sequence[str]) -> None:
    """Raise InputError unless Ray is installed, EndpointError unless this process can join its cluster at ``address``.

    Args:
        secret: names of variables with secret values.
    """
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:  # a folder of that name is no package
        raise InputError(
            f"--ray: Ray is not installed here; {install('ray')} brings it, and every machine of the cluster needs it"
        )
    if address == LOCAL:
        return
    host, _, port = address.rpartition(":")
    _check_answers(host.strip("[]"), int(port), address)
    _check_takes_part(address, secret)


def _check_answers(host: str, port: int, address: str) -> None:
    """Check that the address speaks gRPC; Ray's own client would wait long for it."""
    try:
        with socket.create_connection((host, port), timeout=ANSWERS_WITHIN_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in {"", "0"}:
                return
            connection.sendall(_HTTP2)
            with connection.makefile("rb") as file:
                received = file.read(4)
    except OSError as error:
        why = (
            f"no answer within {ANSWERS_WITHIN_S:g} s"
            if isinstance(error, TimeoutError)
            else error.strerror or error
        )
        raise EndpointError(
            f"--ray {address}: {why}; is the cluster running, and this the address that ray start --head printed (port 6379)?"
        ) from error
    if len(received) < 4 or received[3] != _SETTINGS:
        raise EndpointError(
            f"--ray {address}: what answers there is not Ray; give the address that ray start --head printed (port 6379)"
        )


def _check_takes_part(address: str, secret: Sequence[str]) -> None:
    """Check in a separate process, which can be killed: a Ray that is refused keeps trying, prints freely, and may hang."""
    env = {name: value for name, value in os.environ.items() if name not in secret} | _QUIET
    command = [sys.executable, "-P", "-c", _TAKE_PART, address]
    status = None
    with tempfile.TemporaryFile() as printed:
        with suppress(subprocess.TimeoutExpired):
            status = subprocess.run(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=env,
                timeout=_JOINS_WITHIN_S,
                check=False,
            ).returncode
        text = os.pread(printed.fileno(), _MOST_PRINTED, 0).decode(errors="replace")
    if status != 0:
        how = f"it ended with {status}" if status else f"not ready within {_JOINS_WITHIN_S:g} s"
        why = text.rpartition(_BECAUSE)[2] or how
        # Some reasons stand only in what Ray itself printed.
        refused = _refused("\n".join((why, text)))
        raise EndpointError(f"--ray {address}: {refused}")


class OnRay:
    """Ray's nodes: those of the cluster at ``address``, or of a local one for this session.

    Args:
        secret: names of variables with secret values.
    """

    def __init__(self, address: str, secret: Sequence[str]) -> None:
        self._address, self._secret = address, secret
        self._folder = ExitStack()
        self._workers_folder = ""
        self._is_ours = False
        self._raylet = 0  # its process; 0 where that is not known
        self._workers: list[_Actor] = []
        self._thread = _Thread()

    async def connect(self) -> None:
        try:
            await self._thread.run(self._connect, STARTING_S)
        except TimeoutError:
            raise EndpointError(
                f"--ray {self._address}: Ray did not get ready within {STARTING_S:g} s; is the cluster in order (ray status)?"
            ) from None
        _take_signals_back()

    def _connect(self) -> None:
        is_local = self._address == LOCAL
        with (
            _environment(self._secret, own_token=is_local and "ray" not in sys.modules),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            import ray  # which looks at these variables as it is imported

            _silence()
            if ray.is_initialized():
                return
            options: dict[str, Any] = {
                "address": self._address,
                "job_config": _job_without_folders(),
            }
            if is_local:
                folder = self._folder.enter_context(temporary_folder(_short_folder()))
                (workers := folder / "w").mkdir()
                self._workers_folder = str(workers)
                options |= {
                    "include_dashboard": False,
                    "object_store_memory": _STORE_BYTES,
                    # Ray lets everybody write there, so it is not the private folder itself
                    "_temp_dir": str(folder / "r"),
                }
            self._is_ours = True
            try:
                ray.init(
                    **options,
                    log_to_driver=False,
                    configure_logging=False,
                    logging_level=logging.CRITICAL,
                )
            except Exception as error:  # whatever Ray has
                raise EndpointError(f"--ray {self._address}: {_refused(str(error))}") from error
            self._raylet = _raylet_here()

    async def nodes(self) -> Sequence[Node]:
        import ray

        if self._raylet and not _is_alive(
            self._raylet
        ):  # with it Ray ends this process, too, in a few seconds
            raise Lost("Ray's own process on this machine has ended", for_good=True)
        try:
            listed = await self._thread.run(ray.nodes, _SAYS_WITHIN_S)
        except Exception as error:
            why = (
                f"no answer within {_SAYS_WITHIN_S:g} s"
                if isinstance(error, TimeoutError)
                else _one_line(error)
            )
            raise Lost(why) from error
        return [
            Node(
                node["NodeID"],
                node["NodeManagerAddress"],
                int(node.get("Resources", {}).get("CPU", 0)),
            )
            for node in listed
            if node["Alive"]
        ]

    async def start(self, node: Node, targets: Sequence[Target], keys: Sequence[str]) -> Remote:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from robin_ray.worker import Worker

        actor: Any = (
            ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(Worker)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False))
            .remote(self._workers_folder)
        )
        worker = _Actor(actor)
        self._workers.append(worker)
        try:
            version = await actor.version.remote()
            if version != __version__:
                why = f"has robin {version}, and this is {__version__}; install the same on both"
                raise Unfit(why)
            await actor.set_up.remote(targets, keys)
        except BaseException as error:
            worker.dismiss()
            if not isinstance(error, RayError | RuntimeError):
                raise
            if "failed to import" not in str(error):
                raise Lost(_one_line(error)) from error
            why = str(error).strip().splitlines()[-1]
            step = f"install robin-judge {__version__} on it, for Ray's Python"
            raise Unfit(f"robin cannot be imported there ({why}); {step}") from error
        return worker

    async def close(self, *, is_lost: bool) -> None:
        if self._is_ours:
            import ray

            try:
                if not is_lost:
                    await self._thread.run(ray.shutdown, _LEAVES_WITHIN_S)
            except TimeoutError:
                is_lost = True
            if is_lost:  # as this process ends, it would be waited for once more
                atexit.unregister(ray.shutdown)
        else:
            for worker in self._workers:
                worker.dismiss()
        await asyncio.to_thread(self._folder.close)
        self._thread.end()


class _Actor:
    """A worker that is an actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def take(self, requests: Sequence[RemoteRequest]) -> None:
        with _losing():
            await self._actor.take.remote(requests)

    async def results(self) -> tuple[list[RemoteResult], list[str]]:
        with _losing():
            came: tuple[list[RemoteResult], list[str]] = await self._actor.results.remote()
        return came

    def dismiss(self) -> None:
        import ray

        def kill() -> None:
            with suppress(Exception):
                if ray.is_initialized():  # else a Ray would be begun for it
                    ray.kill(self._actor)

        threading.Thread(target=kill, daemon=True).start()


@contextmanager
def _losing() -> Iterator[None]:
    """Raise Lost for errors of Ray."""
    from ray.exceptions import RayError

    try:
        yield
    except (RayError, RuntimeError) as error:
        raise Lost(_one_line(error)) from error


def _job_without_folders() -> Any:
    """Return a Ray job whose workers import only packages installed on their machines.

    Ray would have them look into the working folder of this process, and the folder of its script, before all else. A
    stranger's ``numpy.py`` there would be imported. Ray has no setting against it.
    """
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = type("NoPaths", (list,), {"extend": lambda *_: None})()  # noqa: SLF001
    return job


def _refused(message: str) -> str:
    """Turn an error of Ray's into one with the reason and the next step."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = (lines or ["nothing"])[0][:300].rstrip(":. ")
    if "Version mismatch" in message:
        return f"{' '.join(lines[:6])[:300]}; install the same Ray and Python here and there"
    steps = {
        "Unauthenticated|token|Token": "the cluster wants Ray's token, and this is not it; set RAY_AUTH_TOKEN, or "
        "RAY_AUTH_TOKEN_PATH, to the one that its machines have",
        "cluster ID|Unimplemented|UNIMPLEMENTED": f"what answers there is no head of Ray's ({first}); give the address that "
        "ray start --head printed (port 6379)",
        "raylet|node_ip_address": f"this machine is no node of that cluster ({first}); make it one: ray start --address=…",
    }
    refusals = (step for words, step in steps.items() if re.search(words, message))
    return next(refusals, f"{first}; is the cluster in order (ray status)?")


def _one_line(error: BaseException) -> str:
    """Return the message of a Ray error, without headings and traces."""
    cause = getattr(error, "cause", None)
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()]
    line = (lines[-1] if cause is not None else lines[0]) if lines else ""
    return line[:300].rstrip(".") or type(error).__name__


def _raylet_here() -> int:
    """Return the id of the Ray process through which this one reaches the cluster; 0 if unknown."""
    import ray

    with suppress(AttributeError, OSError), socket.socket(socket.AF_UNIX) as at:
        node: Any = ray._private.worker.global_worker.node  # noqa: SLF001
        at.connect(node.raylet_socket_name)
        return int(
            struct.unpack(
                "3i", at.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            )[0]
        )
    return 0


def _is_alive(process: int) -> bool:
    try:
        state = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        )
    except (OSError, IndexError):
        return False
    return state not in {"Z", "X"}


def _take_signals_back() -> None:
    """Restore the signal handlers from before Ray, which prints a trace when a signal comes."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                signal.signal(number, handler)


def _silence() -> None:
    """Stop Ray from printing between robin's lines; robin reports what matters."""
    import ray

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    # Errors of its machines it prints to standard output, where scores may go; its own debugger turns them off like this.
    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = False  # noqa: SLF001


class _Thread:
    """A thread for slow calls to Ray. Processes that it starts live as long as the thread, so there is only one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._work, daemon=True, name="robin-ray").start()

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def run(self, work: Callable[[], Returned], seconds: float) -> Returned:
        """Wait for ``work`` up to a time limit. TimeoutError after that; the work is left to itself."""

        async def do() -> Returned:
            return work()

        future = asyncio.run_coroutine_threadsafe(do(), self._loop)
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)

    def end(self) -> None:
        """Let the thread end after its current work."""
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextmanager
def _environment(secret: Sequence[str], *, own_token: bool) -> Iterator[None]:
    """Set variables while Ray starts: it passes on no keys, reports no usage, and uploads nothing.

    With ``own_token`` robin's own Ray accepts only this session's calls, and leaves no token behind, unless set otherwise.
    """
    variables = dict(_QUIET)
    if own_token and "RAY_AUTH_MODE" not in os.environ:
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    names = {*secret, *variables}
    before = {name: os.environ.pop(name) for name in names & set(os.environ)}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def _short_folder() -> str | None:
    """Return the parent of Ray's folder; socket names in it have at most 107 characters."""
    return None if len(tempfile.gettempdir()) < 22 else "/tmp"  # noqa: S108  # of a folder that is made private
