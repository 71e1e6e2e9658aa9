"""Judges on a cluster: llama.cpp's server behind Ray Serve on Ray's own cluster of two nodes, by the docs and files for it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.conftest import (
    GRAMMAR,
    ROOT,
    environment,
    free_port,
    lines_of,
    missing,
    wait_until,
    write_pairs,
)
from tests.plugins.ray.conftest import processes
from tests.starting import Robin
from tests.test_docs import blocks, write_program

pytestmark = [pytest.mark.external, pytest.mark.slow]


class Served:
    """A cluster of two nodes, on which one server is at /second and two are behind the other address.

    Attributes:
        folder: with the docs' files, as they are but for the port, the model and the size of things.
        url: the address of the two servers, that of the one is `second`.
        env: in which the docs' commands mean this cluster.
    """

    def __init__(self, folder: Path, place: Path, port: int) -> None:
        self.folder, self.place = folder, place
        self.url, self.second = (f"http://127.0.0.1:{port}{path}/v1" for path in ("", "/second"))
        programs = f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        code = str(folder / "configs" / "cluster")
        self.env = environment(
            RAY_TMPDIR=str(
                place
            ),  # for sockets, whose paths may have 107 bytes, and the address of the latest cluster
            RAY_USAGE_STATS_ENABLED="0",
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
            PYTHONPATH=code,
            PATH=programs,
        )

    def run(self, script: str) -> None:
        """Run a block of the docs."""
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    def processes(self, named: str = "") -> list[int]:
        """Processes of the cluster whose command begins so."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                of_ours = f"RAY_TMPDIR={self.place}".encode() in (
                    folder / "environ"
                ).read_bytes().split(b"\0")
                if of_ours and (folder / "cmdline").read_bytes().startswith(named.encode()):
                    found.append(int(folder.name))
            except OSError:
                continue  # it has ended
        return found

    def answers(self, url: str) -> bool:
        """Whether there is a judge at ``url``."""
        try:
            with urllib.request.urlopen(f"{url}/models", timeout=5) as answer:  # noqa: S310  # loopback
                return bool(answer.status == 200)
        except OSError:
            return False


def measured(url: str, name: str) -> float:
    """What llama.cpp's server behind ``url`` says of itself under ``name``."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics", timeout=5) as answer:  # noqa: S310  # loopback
        (said,) = re.findall(rb"^llamacpp:%s (\S+)$" % name.encode(), answer.read(), re.MULTILINE)
    return float(said)


def are_at_work(replicas: Collection[int]) -> bool:
    """Whether calls are under way at the servers of ``replicas``, which are asked themselves: Serve lets all wait in turn."""
    commands = [command for _, parent, command in processes() if parent in replicas]
    ports = re.findall(r" --port ([0-9]+)", " ".join(commands))
    return any(measured(f"http://127.0.0.1:{port}/v1", "requests_processing") > 2 for port in ports)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The cluster, with what the docs deploy there, and a second judge."""
    with deployed(tmp_path_factory.mktemp("served"), has_second=True) as cluster:
        yield cluster


@contextmanager
def deployed(folder: Path, *, has_second: bool) -> Iterator[Served]:
    """A cluster, with what the docs deploy there; without a second judge, one node with one server."""
    llama_server = (
        Path(os.environ.get("ROBIN_TEST_SERVERS", ROOT / ".test-servers")) / "llama-server"
    )
    if not llama_server.is_file():
        missing("llama-server")
    with tempfile.TemporaryDirectory() as place:
        cluster = Served(folder, Path(place), free_port())
        adapt_files(folder, llama_server.resolve(), cluster, has_second=has_second)
        (Path(place) / "ray").mkdir()
        log = folder / "cluster.log"
        command = [
            sys.executable,
            str(ROOT / "tests" / "ray_serve" / "nodes.py"),
            str(1 + has_second),
        ]
        with (
            log.open("wb") as out,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, env=cluster.env
            ) as nodes,
        ):
            try:
                wait_until(
                    lambda: (
                        re.search(r"^dashboard: \S+$", log.read_text(), re.MULTILINE) is not None
                    ),
                    nodes,
                )
                at = re.findall(r"^dashboard: (\S+)$", log.read_text(), re.MULTILINE)
                cluster.env["RAY_DASHBOARD_ADDRESS"] = f"http://{at[0]}"
                cluster.run(block("serve deploy"))
                urls = [cluster.url, cluster.second][: 1 + has_second]
                wait_until(lambda: all(map(cluster.answers, urls)), nodes)
                yield cluster
            finally:
                assert nodes.stdin is not None
                nodes.stdin.close()
                try:
                    nodes.wait(timeout=30)
                finally:
                    for left in cluster.processes():
                        os.kill(left, signal.SIGKILL)


def adapt_files(folder: Path, llama_server: Path, cluster: Served, *, has_second: bool) -> None:
    """Copy the files of the docs into ``folder``, for a small judge and a small cluster."""
    shutil.copytree(ROOT / "configs" / "cluster", folder / "configs" / "cluster")
    config = folder / "configs" / "cluster" / "llama-cpp.yaml"
    wanted = yaml.safe_load(config.read_text(encoding="utf-8"))
    wanted["http_options"] |= {
        "host": "127.0.0.1",
        "port": int(cluster.url.split(":")[2].split("/")[0]),
    }
    (judge,) = wanted["applications"]
    program, *flags = judge["args"]["command"]
    assert (program, flags[:4]) == ("llama-server", ["-m", "judge.gguf", "-c", "65536"])
    model = ROOT / "tests" / "servers" / "tiny-judge.gguf"
    command = [
        *(llama_server, "-m", model, "-c", 16384, *flags[4:], "-t", 1, "--offline"),
        *("--metrics", "--alias", "tiny-judge"),
    ]
    judge["args"]["command"] = [*map(str, command)]
    judge["deployments"][0]["ray_actor_options"]["num_cpus"] = (
        0.6  # one on each node, and room for the second
    )
    judge["deployments"][0]["num_replicas"] = 1 + has_second
    if has_second:
        second = json.loads(json.dumps(judge)) | {"name": "second", "route_prefix": "/second"}
        second["deployments"][0] |= {
            "num_replicas": 1,
            "max_queued_requests": 4,
            "ray_actor_options": {"num_cpus": 0.4},
        }
        wanted["applications"].append(second)
    config.write_text(yaml.safe_dump(wanted), encoding="utf-8")
    for name, urls in {
        "one-address": [cluster.url],
        "several-addresses": [cluster.url, cluster.second],
    }.items():
        settings = folder / "configs" / "cluster" / f"{name}.toml"
        text = re.sub(
            r"(?s)^base_url = (\[.*?\n]|\".*?\")",
            f"base_url = {urls}",
            settings.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
        settings.write_text(f"{text}\nextra_body = '{json.dumps(GRAMMAR)}'\n", encoding="utf-8")
    (folder / "bin").mkdir()
    write_program(
        folder / "bin" / "ray", "#!/bin/sh\n"
    )  # the nodes are there, and are not this machine's alone to stop


def block(holds: str) -> str:
    """The block of docs/scale.md that ``holds`` this."""
    (found,) = [each for each in blocks(ROOT / "docs" / "scale.md", "sh") if holds in each]
    return found


def kept(run: Path) -> pd.DataFrame:
    """The answers of ``run`` that count."""
    judgments = pd.read_parquet(run / "judgments")
    return judgments[judgments["status"] == "ok"]


def spend_by_the_docs(cluster: Served, name: str) -> None:
    """Run the docs' command that makes the run ``name``, with a small budget, which is spent exactly."""
    write_pairs(cluster.folder / "pairs.jsonl", 8)
    cluster.run(block(f"--run runs/{name}\n").replace("--budget 3000", "--budget 24"))
    assert len(kept(cluster.folder / "runs" / name)) == 24


def test_spends_a_budget_exactly_by_the_commands_of_the_docs(tmp_path: Path) -> None:
    with deployed(tmp_path, has_second=False) as cluster:
        spend_by_the_docs(cluster, "one-address")


def judge(urls: Sequence[str], data: Path, budget: int, *more: str) -> list[str]:
    command = [
        "judge",
        str(data),
        "--budget",
        str(budget),
        "-a",
        "helpfulness",
        "--model",
        "tiny-judge",
        "--run",
        "r",
    ]
    return [
        *command,
        *(f"--base-url={url}" for url in urls),
        "--extra-body",
        json.dumps(GRAMMAR),
        *more,
    ]


@pytest.mark.whole
def test_ends_with_an_exact_budget_where_the_replicas_of_an_address_are_killed_in_the_middle(
    tmp_path: Path, served: Served
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    replicas = served.processes("ray::ServeReplica:second:")
    command = judge([served.url, served.second], data, 80, "--concurrency", "16")

    with Robin(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as run:
        wait_until(
            lambda: lines_of(tmp_path / "r" / "journal.jsonl") > 10 and are_at_work(replicas), run
        )
        for replica in replicas:
            os.kill(replica, signal.SIGKILL)
        _, said = run.communicate(timeout=120)

    assert run.returncode == 0, said
    assert "500: Internal Server Error; trying again" in said  # Serve's word for what they were at
    assert len(kept(tmp_path / "r")) == 80
    assert kept(tmp_path / "r")["request_id"].nunique() == 80


@pytest.mark.whole
def test_goes_on_with_the_run_where_the_job_is_tried_again(tmp_path: Path, served: Served) -> None:
    _, settings, _ = yaml.safe_load_all(
        (ROOT / "configs" / "cluster" / "ray-job.yaml").read_text(encoding="utf-8")
    )
    write_pairs(tmp_path / "pairs.jsonl", 5)
    for name, text in settings["data"].items():
        here = text.replace("/robin/", f"{tmp_path}/").replace("/runs/", f"{tmp_path}/")
        here = here.replace("http://judge-serve-svc:8000/v1", served.url).replace(
            "budget = 50000", "budget = 40"
        )
        (tmp_path / name).write_text(here, encoding="utf-8")
    with (tmp_path / "robin.toml").open("a", encoding="utf-8") as file:
        file.write(f"extra_body = '{json.dumps(GRAMMAR)}'\n")

    for _ in range(2):
        served.run(
            f"{Path(sys.executable).parent / 'ray'} job submit -- sh {tmp_path / 'run.sh'}"
        )  # as KubeRay does

    assert len(kept(tmp_path / "helpfulness")) == 40
