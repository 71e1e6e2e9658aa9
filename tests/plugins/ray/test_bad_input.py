"""What a user may get wrong with --ray: said before money is spent, and what to do."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import robin_cli
from robin_cli.model.errors import EndpointError, InputError
from robin_ray import on_ray
from robin_ray.crew import Node, Unfit
from tests.conftest import write_pairs
from tests.plugins.ray.judge import judge

INSTALL = f"install robin-judge {robin_cli.__version__} on it, for Ray's Python"


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


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        (
            "0.0.1",
            f"has robin 0.0.1, and this is {robin_cli.__version__}; install the same on both",
        ),
        (
            "The actor with name Worker failed to import on the worker.\nModuleNotFoundError: No robin",
            f"robin cannot be imported there (ModuleNotFoundError: No robin); {INSTALL}",
        ),
    ],
)
def test_says_what_a_node_lacks(monkeypatch: pytest.MonkeyPatch, version: str, lacks: str) -> None:
    """Ray, as far as an actor is made of it, which knows its version or fails."""

    async def answer() -> str:
        if "fail" in version:
            raise RuntimeError(version)
        return version

    actor: Any = MagicMock()
    actor.version.remote = answer
    fake = MagicMock(**{"is_initialized.return_value": True})
    fake.remote.return_value.return_value.options.return_value.remote.return_value = actor
    monkeypatch.setitem(sys.modules, "ray", fake)
    for name in ("ray.exceptions", "ray.util", "ray.util.scheduling_strategies"):
        monkeypatch.setitem(sys.modules, name, MagicMock(RayError=ConnectionError))
    nodes = on_ray.OnRay("local", [])
    with pytest.raises(Unfit) as unfit:
        asyncio.run(nodes.start(Node("one", "one", 1), [], []))
    nodes._thread.end()
    assert str(unfit.value) == lacks
