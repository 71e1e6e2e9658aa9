"""The main job against real servers that other people wrote, with their own keys, limits and faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import GRAMMAR, llama_server, robin, write_pairs
from tests.servers_running import faults_made, faulty, litellm_proxy

pytestmark = [pytest.mark.external, pytest.mark.slow]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server, which the others here stand in front of."""
    with llama_server(tmp_path_factory.mktemp("llama") / "server.log") as url:
        yield url


@pytest.fixture(scope="module")
def litellm(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The LiteLLM proxy."""
    with litellm_proxy(tmp_path_factory.mktemp("litellm") / "server.log", llama) as url:
        yield url


def judge(url: str, model: str, data: Path, budget: int, *more: str | Path) -> list[str | Path]:
    command: list[str | Path] = ["judge", data, "--budget", str(budget), "-a", "helpfulness", "--base-url", url]
    return [*command, "--model", model, "--extra-body", json.dumps(GRAMMAR), "--run", "r", *more]


def test_names_the_key_that_litellm_refuses(tmp_path: Path, litellm: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)

    done = robin(*judge(litellm, "judge", data, 10), cwd=tmp_path, OPENAI_API_KEY="sk-wrong-0a1b2c3d")

    assert done.returncode == 3, done.stderr
    assert "key was refused" in done.stderr
    assert "0a1b2c3d" not in done.stdout + done.stderr


def test_judges_through_litellm(tmp_path: Path, litellm: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)

    done = robin(*judge(litellm, "judge", data, 20, "--concurrency", "4"), cwd=tmp_path, OPENAI_API_KEY="sk-ok")

    assert done.returncode == 0, done.stderr
    assert list(pd.read_parquet(tmp_path / "r" / "judgments")["status"]) == ["ok"] * 20


def test_spends_exactly_the_budget_where_a_third_of_the_calls_fail(tmp_path: Path, llama: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)

    with faulty(tmp_path / "aimock.log", llama, tmp_path / "none", ratelimit=0.2, drop=0.1, malformed=0.1) as url:
        done = robin(*judge(url, "tiny-judge", data, 100, "--concurrency", "8"), cwd=tmp_path, OPENAI_API_KEY="sk-any")
        made = faults_made(url)

    assert done.returncode == 0, done.stderr
    assert set(made) == {"passed", "rateLimit", "drop", "malformed"}
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    answered = judgments[judgments["status"] != "failed"]
    assert len(answered) == 100
    assert answered["request_id"].nunique() == 100
    assert made["passed"] == 100, "answers were paid for and not kept"
