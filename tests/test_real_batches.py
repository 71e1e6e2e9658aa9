"""Batches at a service that other people wrote: OGX, in front of llama.cpp's server; its client, and whole runs."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pytest

from robin_batch.lines import Line, line_of, read_lines
from robin_batch.service import Batch, OpenAIBatches
from robin_cli.judges.replies import Completion
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure
from tests.conftest import GRAMMAR, environment, llama_server, robin, wait_until, write_pairs
from tests.servers_running import batch_service
from tests.starting import Robin

pytestmark = [pytest.mark.external, pytest.mark.slow]

NAMED = {"robin": "run-1/0001"}
Made = TypeVar("Made")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama") / "server.log") as url:
        yield url


def talk(url: str, what: Callable[[OpenAIBatches], Awaitable[Made]]) -> Made:
    async def talking() -> Made:
        client = OpenAIBatches(Endpoint(model="m", base_url=url, api_key="none"), notify=print)
        try:
            return await what(client)
        finally:
            await client.aclose()

    return asyncio.run(talking())


def requests(
    path: Path,
    count: int,
    *,
    model: str = "llama/tiny-judge",
    wrong: Mapping[int, dict[str, Any]] | None = None,
) -> Path:
    def body(number: int) -> dict[str, Any]:
        prompt = f"Criterion: clarity\nResponse: word {number}\nRate from 0 to 4."
        messages = [{"role": "user", "content": prompt}]
        asked = {
            "model": model,
            "messages": messages,
            "max_tokens": 64,
            "temperature": 1.0,
            "seed": number,
        }
        return asked | GRAMMAR | (wrong or {}).get(number, {})

    path.write_bytes(b"".join(line_of(f"r{number}", body(number)) for number in range(count)))
    return path


async def over(service: OpenAIBatches, batch: Batch) -> Batch:
    async with asyncio.timeout(120):
        while not batch.is_over:
            await asyncio.sleep(0.05)
            batch = await service.get(batch.id)
    return batch


async def lines(service: OpenAIBatches, batch: Batch, folder: Path) -> dict[str | None, Line]:
    files = [each for each in (batch.output_file, batch.error_file) if each is not None]
    paths = [folder / f"{number}.down" for number in range(len(files))]
    for file_id, path in zip(files, paths, strict=True):
        await service.download(file_id, path)
    return {line.custom_id: line for line in read_lines(paths, 2**22)}


def test_makes_batches_at_ogx_and_a_run_in_rounds_through_a_kill(
    tmp_path: Path, llama: str
) -> None:
    with batch_service(tmp_path / "server.log", llama, tmp_path / "data") as ogx:
        for number, check in enumerate(
            (
                comes_back_whole,
                is_refused_for_its_model,
                is_cancelled_for_good,
                is_not_made_of_a_deleted_file,
                judges,
            )
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            check(folder, ogx)


def comes_back_whole(tmp_path: Path, ogx: str) -> None:
    asked = requests(
        tmp_path / "asked.jsonl", 8, wrong={3: {"max_tokens": -5}, 7: {"grammar": "no grammar ::"}}
    )

    async def whole(service: OpenAIBatches) -> tuple[Batch, Batch | None, dict[str | None, Line]]:
        batch = await over(service, await service.create(await service.upload(asked), NAMED))
        return batch, await service.find(NAMED, None), await lines(service, batch, tmp_path)

    batch, found, came = talk(ogx, whole)
    assert (batch.status, batch.counts and batch.counts[1]) == ("completed", 8)
    assert found is not None
    assert found.id == batch.id
    assert set(came) == {f"r{number}" for number in range(8)}
    failed = {name for name, line in came.items() if isinstance(line.outcome, Failure)}
    assert failed == {"r3", "r7"}
    answered = [line.outcome for line in came.values() if isinstance(line.outcome, Completion)]
    assert all(
        "Rating: " in each.answers[0].text and each.usage.completion_tokens for each in answered
    )
    assert len(answered) == 6


def is_refused_for_its_model(tmp_path: Path, ogx: str) -> None:
    asked = requests(tmp_path / "asked.jsonl", 3, model="llama/none")

    async def whole(service: OpenAIBatches) -> Batch:
        return await over(
            service, await service.create(await service.upload(asked), {"robin": "refused"})
        )

    batch = talk(ogx, whole)
    assert (batch.status, batch.is_full, batch.output_file) == ("failed", False, None)
    assert (
        batch.errors[0]
        == "model_not_found: line 1: Model 'llama/none' does not exist or is not supported"
    )


def is_cancelled_for_good(tmp_path: Path, ogx: str) -> None:
    asked = requests(tmp_path / "asked.jsonl", 400)

    async def whole(service: OpenAIBatches) -> tuple[Batch, Batch]:
        batch = await service.create(await service.upload(asked), {"robin": "cancelled"})
        batch = await over(service, await service.cancel(batch.id))
        return batch, await service.cancel(batch.id)

    batch, again = talk(ogx, whole)
    assert (batch.status, again.status) == ("cancelled", "cancelled")


def is_not_made_of_a_deleted_file(tmp_path: Path, ogx: str) -> None:
    asked = requests(tmp_path / "asked.jsonl", 2)

    async def whole(service: OpenAIBatches) -> Batch:
        file_id = await service.upload(asked)
        await service.delete(file_id)
        await service.delete(file_id)
        return await over(service, await service.create(file_id, {"robin": "gone"}))

    batch = talk(ogx, whole)
    assert batch.status == "failed"


def test_a_server_without_batches_is_told_from_one_with_them(tmp_path: Path, llama: str) -> None:
    asked = requests(tmp_path / "asked.jsonl", 2)
    with pytest.raises(EndpointError, match=r"has no batch service .* leave --batch out"):
        talk(llama, lambda service: service.upload(asked))


def judges(tmp_path: Path, ogx: str) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 5)
    judge = [
        *("judge", "pairs.jsonl", "--budget", "20", "-a", "helpfulness", "--base-url", ogx),
        *("--run", "run", "-o", "s.csv"),
    ]
    asked = [
        *("--model", "llama/tiny-judge", "--max-tokens", "64", "--extra-body", json.dumps(GRAMMAR)),
        *("--batch", "--rounds", "2"),
    ]
    with Robin([*judge, *asked, "--quiet"], env=environment(), cwd=tmp_path) as process:
        ledger = tmp_path / "run" / "batches" / "00001.json"
        wait_until(
            lambda: (
                ledger.exists() and json.loads(ledger.read_text("utf-8"))["batch_id"] is not None
            ),
            process,
        )
        process.send_signal(signal.SIGKILL)
    robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
    kept = pd.read_parquet(tmp_path / "run" / "judgments")
    assert len(kept[kept["status"] != "failed"]) == 20
    assert not kept.duplicated(["pair_id", "draw"]).any()
    assert kept["prompt_tokens"].gt(0).sum() == kept["request_id"].nunique()
    assert pd.read_csv(tmp_path / "s.csv")["n"].sum() == 20
