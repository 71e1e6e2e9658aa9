"""What a user may get wrong with --ray: said before money is spent, and what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, robin, write_pairs
from tests.plugins.ray.conftest import judging_on, ray_nodes
from tests.plugins.ray.judge import judge

ASKING = ("-a", "helpfulness", "--budget", "20", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.jsonl", 5)


def test_says_how_to_install_ray_where_there_is_none(data: Path) -> None:
    without = "import sys; sys.modules['ray'] = None; from robin_cli.cli.app import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", without, "judge", str(data), *ASKING, "--ray", "local"],
        cwd=data.parent,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 2
    assert "pip install 'robin-judge[ray]'" in said.stderr
    assert not (data.parent / "runs").exists()


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_waits_ten_seconds_for_an_address_and_no_longer(data: Path, silent: str) -> None:
    said = robin("judge", data, *ASKING, "--ray", silent, cwd=data.parent)
    assert said.returncode == 3
    assert f"--ray {silent}: no answer within 10 s" in said.stderr
    assert not (data.parent / "runs").exists()


def test_says_that_nothing_is_at_an_address(data: Path) -> None:
    said = robin("judge", data, *ASKING, "--ray", "127.0.0.1:9", cwd=data.parent)
    assert said.returncode == 3
    assert "--ray 127.0.0.1:9: Connection refused; is the cluster running" in said.stderr


def test_says_that_something_else_is_at_an_address(data: Path) -> None:
    with judge() as asked:
        address = asked.url.removeprefix("http://").removesuffix("/v1")
        said = robin("judge", data, *ASKING, "--ray", address, cwd=data.parent)
    assert said.returncode == 3
    assert "what answers there is not Ray" in said.stderr


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "cluster", "127.0.0.1", "127.0.0.1:0", "", ":6379"])
def test_refuses_what_is_no_address(data: Path, address: str) -> None:
    said = robin("judge", data, *ASKING, "--ray", address, cwd=data.parent)
    assert said.returncode == 2
    assert "local, or the HOST:PORT that ray start --head told" in said.stderr


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--batch",), "--batch in rounds"),
        (("--batch-files", "requests"), "--batch-files in rounds"),
        (("--debug-http", "log"), "--debug-http: requests are not made here with --ray"),
    ],
)
def test_refuses_what_does_not_go_with_workers_elsewhere(data: Path, more: tuple[str, ...], why: str) -> None:
    said = robin("judge", data, *ASKING, "--ray", "local", *more, cwd=data.parent)
    assert said.returncode == 2
    assert why in said.stderr


def other_robin(folder: Path, source: str) -> dict[str, str]:
    """The environment of a machine on which robin is something else."""
    package = folder / "robin_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.external
@pytest.mark.slow
def test_says_what_machines_of_the_cluster_lack_before_anything_is_paid_for(data: Path, tmp_path: Path) -> None:
    with ray_nodes() as nodes, judge() as asked:
        command = judging_on(nodes, asked, data, 20)

        def said(status: int) -> str:
            told = robin(*command, cwd=tmp_path, **nodes.env)
            assert told.returncode == status, told.stderr
            assert not asked.arrivals
            return told.stderr

        nodes.say("say_versions", python_version="3.8.1")
        assert "Python: 3.8.1" in said(3)
        nodes.say("say_versions", ray_version="2.9.0")
        assert "install the same Ray and Python here and there" in said(3)
        nodes.say("say_versions")
        nodes.add(env=other_robin(tmp_path / "older", "__version__ = '0.0.1'"))
        nodes.add(env=other_robin(tmp_path / "broken", "raise ModuleNotFoundError('no robin_cli here')"))
        told = said(2)
        assert "has robin 0.0.1, and this is" in told
        assert "robin cannot be imported there (ModuleNotFoundError: no robin_cli here)" in told
        assert f"--ray: node {nodes.address.partition(':')[0]}:" in told
        token = {**nodes.env, "RAY_AUTH_TOKEN": "0" * 64}
        refused = robin(*command, cwd=tmp_path, **token)
        assert refused.returncode == 3
        assert not asked.arrivals
