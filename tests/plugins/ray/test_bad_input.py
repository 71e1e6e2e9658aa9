"""What a user may get wrong with --ray: said before money is spent, and what to do."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import robin_cli
from robin_cli.model.errors import EndpointError, InputError
from robin_ray import on_ray
from robin_ray.crew import Node
from tests.conftest import write_pairs
from tests.plugins.ray.judge import judge


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.jsonl", 5)


def test_says_how_to_install_ray_where_there_is_none(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install '.[ray]' in robin's checkout" in refused(data, "local")


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def refused(data: Path, address: str, **more: Any) -> str:
    """Why no run is begun on ``address``, which is said before anything is written."""
    given = {
        "attribute": "helpfulness",
        "budget": 20,
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        **more,
    }
    with pytest.raises((InputError, EndpointError)) as raised:
        robin_cli.judge(data, ray=address, run=data.parent / "r", quiet=True, **given)
    assert [path.name for path in data.parent.iterdir()] == ["pairs.jsonl"]
    return str(raised.value)


def test_waits_for_an_address_no_longer_than_it_says(
    data: Path, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_ray.ANSWERS_WITHIN_S == 10
    monkeypatch.setattr(on_ray, "ANSWERS_WITHIN_S", 0.2)
    assert f"--ray {silent}: no answer within 0.2 s" in refused(data, silent)


def test_says_that_nothing_is_at_an_address(data: Path) -> None:
    said = refused(data, "127.0.0.1:9")
    assert "--ray 127.0.0.1:9: Connection refused; is the cluster running" in said


def test_says_that_something_else_is_at_an_address(data: Path) -> None:
    with judge() as asked:
        address = asked.url.removeprefix("http://").removesuffix("/v1")
        assert "what answers there is not Ray" in refused(data, address)


@pytest.mark.parametrize(
    "address", ["ray://127.0.0.1:10001", "cluster", "127.0.0.1", "127.0.0.1:0", "", ":6379"]
)
def test_refuses_what_is_no_address(data: Path, address: str) -> None:
    assert "local, or the HOST:PORT that ray start --head printed" in refused(data, address)


def test_refuses_batches_beside_workers_elsewhere(data: Path) -> None:
    assert "--batch in rounds" in refused(data, "local", batch=True)


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (
            "Version mismatch: The cluster was started with:\n    Ray: 2.9.0\n",
            "install the same Ray and Python here",
        ),
        ("Unauthenticated: InvalidAuthToken", "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH"),
        ("Failed to get cluster ID", "give the address that ray start --head printed"),
        ("Can't find a `node_ip_address.json` file", "make it one: ray start --address="),
        ("", "is the cluster in order (ray status)?"),
    ],
)
def test_says_what_to_do_where_ray_refuses(said: str, step: str) -> None:
    assert step in on_ray._refused(said)


def ray_of(task: Callable[[], object]) -> Any:
    """Ray, as far as it is asked to do something at a node: it does ``task``."""

    async def done() -> object:
        return task()

    return SimpleNamespace(
        remote=lambda **_: (
            lambda _: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=done))
        )
    )


def test_says_what_a_node_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = SimpleNamespace(RayError=ConnectionError)
    monkeypatch.setitem(sys.modules, "ray", ray_of(on_ray._robin_here))
    monkeypatch.setattr(sys.modules["ray"], "exceptions", exceptions, raising=False)
    monkeypatch.setattr(on_ray, "_at", lambda _: None)
    monkeypatch.setattr(on_ray, "_by_value", lambda function: function)
    nodes = on_ray.OnRay.__new__(on_ray.OnRay)

    def lacks() -> str:
        return asyncio.run(nodes.check(Node("one", "one", 1)))

    assert lacks() == ""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "robin_ray.worker", None)
        assert "robin cannot be imported there (ModuleNotFoundError" in lacks()
    version = robin_cli.__version__
    monkeypatch.setattr(robin_cli, "__version__", "0.0.1")
    assert lacks() == f"has robin 0.0.1, and this is {version}; install the same on both"
