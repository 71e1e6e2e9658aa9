"""The main job against real servers that other people wrote, with their own keys, limits and faults."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Notices
from robin_cli.judges.limiter import Limiter, Permit
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.retrying import Retrying
from robin_cli.judges.transport import Endpoint
from robin_cli.model.exchange import Question
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from tests.conftest import (
    GRAMMAR,
    environment,
    llama_server,
    robin,
    short_prompt,
    wait_until,
    write_pairs,
)
from tests.servers_running import faults_made, faulty, litellm_proxy
from tests.starting import Robin

pytestmark = [pytest.mark.external, pytest.mark.slow]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server, which the others here stand in front of."""
    with llama_server(tmp_path_factory.mktemp("llama") / "server.log") as url:
        yield url


def judge(url: str, model: str, data: Path, budget: int, *more: str | Path) -> list[str | Path]:
    command: list[str | Path] = [
        *("judge", data, "--budget", str(budget), "-a", "helpfulness", "--base-url", url)
    ]
    command += [
        "--model",
        model,
        "--extra-body",
        json.dumps(GRAMMAR),
        "--template",
        short_prompt(data.parent),
    ]
    return [*command, "--run", "r", *more]


def test_judges_through_litellm_and_holds_still_when_it_names_a_time(
    tmp_path: Path, llama: str
) -> None:
    with litellm_proxy(tmp_path / "server.log", llama) as litellm:
        check_litellm(tmp_path, litellm)


def check_litellm(tmp_path: Path, litellm: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    refused = robin(
        *judge(litellm, "judge", data, 10),
        cwd=tmp_path,
        OPENAI_API_KEY="sk-wrong-0a1b2c3d",
        exits=3,
    )
    assert "key was refused" in refused.stderr
    assert "0a1b2c3d" not in refused.stdout + refused.stderr
    shutil.rmtree(tmp_path / "r", ignore_errors=True)

    robin(
        *judge(litellm, "judge", data, 12, "--concurrency", "4"),
        cwd=tmp_path,
        OPENAI_API_KEY="sk-ok",
        exits=0,
    )
    assert list(pd.read_parquet(tmp_path / "r" / "judgments")["status"]) == ["ok"] * 12
    shutil.rmtree(tmp_path / "r")

    command = judge(litellm, "judge", data, 100, "--concurrency", "4", "--samples-per-request", "1")
    env = environment(OPENAI_API_KEY="sk-rpm-10")
    with Robin(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        said = ""
        while "asks to wait 60 s" not in said:  # litellm's Retry-After
            line = run.stderr.readline()
            assert line, said
            said += line
        # one call may be told so while the answers to others are still under way
        wait_until(lambda: len(read_run(tmp_path / "r").judgments) == 10, run)
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        said += run.stderr.read()
    assert run.returncode == 130
    assert "too many requests" in said
    assert hashlib.sha256(b"sk-rpm-10").hexdigest() not in said
    judgments = read_run(tmp_path / "r", JUDGMENTS.names).judgments
    assert len(judgments) == 10


def test_finds_out_what_llama_server_supports_and_takes_several_ratings_a_request(
    tmp_path: Path,
) -> None:
    with llama_server(tmp_path / "server.log", "--api-key", "sk-right-5f2e") as guarded:
        check_support(tmp_path, guarded)
        check_several(tmp_path, guarded)


def check_support(tmp_path: Path, guarded: str) -> None:
    command = (
        *("check", "--base-url", guarded, "--model", "tiny-judge", "--extra-body"),
        json.dumps(GRAMMAR),
        "--json",
    )
    done = robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-right-5f2e", exits=0)
    seen = json.loads(done.stdout)
    assert seen["rating"] in range(5)
    assert (seen["choices_of_4"], seen["logprobs"], seen["seed"]) == (4, True, "honoured")
    assert (seen["usage"], seen["usage_of_several"], seen["system_role"]) == (True, False, True)
    said = robin(*command[:-1], cwd=tmp_path, OPENAI_API_KEY="sk-right-5f2e", COLUMNS="200")
    assert "does not count all tokens" in said.stderr
    assert "for one rating a request; of several some are missing" in said.stdout

    refused = robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-wrong-5f2e", exits=3)
    assert "--api-key-env" in refused.stderr


def check_several(tmp_path: Path, guarded: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    command = judge(
        *(guarded, "tiny-judge", data, 83, "--samples-per-request", "16", "--seed", "3"),
        *("--scheduler", "uniform"),
    )
    robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-right-5f2e", exits=0)
    frame = pd.read_parquet(tmp_path / "r" / "judgments")
    assert list(frame["status"]) == ["ok"] * 83
    # how many exactly depends on what is under way together
    assert frame["request_id"].nunique() < 83 / 2
    # a seed of its own for every request; the tiny judge knows few sentences
    assert frame["text"].nunique() > 5
    assert frame["usage_estimated"].any()  # it counts one choice of several


def test_has_no_more_prompts_under_way_than_llama_server_has_slots(llama: str) -> None:
    endpoint = Endpoint(model="tiny-judge", base_url=llama, api_key="none", max_tokens=8)
    question = Question([{"role": "user", "content": "Rate."}], samples=2)

    async def most_open() -> int:
        limiter = Limiter(16, ceiling=16, clock=time.monotonic)
        chain = Retrying(OpenAIJudge(endpoint, notify=print), limiter, Notices("m", print))
        judge = Failover([chain])
        try:
            while math.isinf(limiter.slots):  # it asks the server, and calls go on meanwhile
                await judge.ask(question)
            return sum(isinstance(judge.take(), Permit) for _ in range(16))
        finally:
            await judge.aclose()

    assert asyncio.run(most_open()) == 8 / 2  # as each request takes two slots


def test_keeps_exactly_60_ratings_where_four_calls_in_ten_fail(tmp_path: Path, llama: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 12)

    with faulty(
        tmp_path / "aimock.log",
        llama,
        tmp_path / "none",
        ratelimit=0.2,
        disconnect=0.1,
        malformed=0.1,
    ) as url:
        command = judge(url, "tiny-judge", data, 60, "--concurrency", "16", "--max-retries", "20")
        robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-any", exits=0)
        made = faults_made(url)

    assert set(made) == {"passed", "rateLimit", "disconnect", "malformed"}
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    kept = judgments[judgments["status"] == "ok"]
    assert not kept.duplicated(["pair_id", "draw"]).any()
    unparsed = judgments[judgments["status"] == "unparsed"]
    assert set(unparsed["reason"]) == {"unreadable"}  # a whole reply that is no JSON is paid
    assert len(kept) + len(unparsed) == 60
