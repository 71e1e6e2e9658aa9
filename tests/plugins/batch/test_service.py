"""The client of a batch service, over real connections to one of the tests' own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from robin_batch import files
from robin_batch import service as openai_batches
from robin_batch.lines import line_of, read_lines
from robin_batch.service import Batch, BatchRefused, OpenAIBatches, Unknown
from robin_cli.judges.bodies import MOST_REPLY_BYTES
from robin_cli.judges.replies import Completion
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from tests.batch_server import BatchServer, Fate, Fault, batch_server
from tests.conftest import refuses

KEY = "sk-planted-7d1e5c90ab42"
NAMED = {"robin": "run-1/0003"}
FILES, FILE, BATCHES, BATCH = "/files", "/files/[^/]+", "/batches", "/batches/[^/]+"
CONTENT, CANCEL = f"{FILE}/content", f"{BATCH}/cancel"

Made = TypeVar("Made")


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with batch_server(key=KEY) as one:
        yield one


@dataclass
class Talk:
    """A client, and what it told the user; in place of sleeping it does ``pause``."""

    server: BatchServer
    notices: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    pause: Callable[[], None] = lambda: None
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, what: Callable[[OpenAIBatches], Awaitable[Made]]) -> Made:
        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.to_thread(self.pause)

        async def talk() -> Made:
            options: dict[str, Any] = {
                "base_url": self.server.url,
                "api_key": KEY,
                "timeout_s": 20,
            } | self.options
            client = OpenAIBatches(
                Endpoint(model="m", **options), notify=self.notices.append, sleep=sleep
            )
            try:
                return await what(client)
            finally:
                await client.aclose()

        return asyncio.run(talk())


@pytest.fixture
def talk(server: BatchServer) -> Talk:
    return Talk(server)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    return requests(tmp_path / "asked.jsonl", 10)


def requests(path: Path, count: int) -> Path:
    bodies = [
        {"model": "m", "messages": [{"role": "user", "content": f"Rate {number}."}]}
        for number in range(count)
    ]
    path.write_bytes(b"".join(line_of(f"r{number}", body) for number, body in enumerate(bodies)))
    return path


def made(asked: Path) -> Callable[[OpenAIBatches], Awaitable[Batch]]:
    async def make(service: OpenAIBatches) -> Batch:
        return await service.create(await service.upload(asked), NAMED)

    return make


def at_its_end(asked: Path) -> Callable[[OpenAIBatches], Awaitable[Batch]]:
    async def wait(service: OpenAIBatches) -> Batch:
        batch = await made(asked)(service)
        while not batch.is_over:
            batch = await service.get(batch.id)
        return batch

    return wait


def test_a_batch_goes_up_and_its_answers_come_down(
    server: BatchServer, talk: Talk, asked: Path, tmp_path: Path
) -> None:
    server.fates.append(Fate(polls=2))
    to = tmp_path / "down" / "out.jsonl"
    to.parent.mkdir()

    async def whole(service: OpenAIBatches) -> tuple[Batch, Batch, Batch]:
        batch = await made(asked)(service)
        under_way, over = await service.get(batch.id), await service.get(batch.id)
        assert over.output_file is not None
        await service.download(over.output_file, to)
        return batch, under_way, over

    batch, under_way, over = talk(whole)
    assert server.files[batch.input_file or ""] == asked.read_bytes()
    assert (batch.status, batch.is_over, batch.metadata) == ("validating", False, NAMED)
    assert (under_way.status, under_way.is_over) == ("in_progress", False)
    assert (over.status, over.is_over, over.counts, over.error_file) == (
        "completed",
        True,
        (10, 10),
        None,
    )
    lines = list(read_lines([to], 2**20))
    assert sorted(each.custom_id or "" for each in lines) == sorted(server.billed)
    assert all(isinstance(each.outcome, Completion) for each in lines)
    assert [each.name for each in to.parent.iterdir()] == ["out.jsonl"]
    assert to.stat().st_mode & 0o777 == 0o600
    assert (talk.notices, talk.slept) == ([], [])


# a 503 with Retry-After, connections that end at every point, and good answers that are none
PASSING: list[tuple[int | str, dict[str, Any]]] = [
    (500, {}),
    (503, {"Retry_After": "7"}),
    (429, {}),
    (408, {}),
    ("drop", {}),
    ("lose", {}),
    ("html", {}),
    ("half", {}),
    ("nothing", {}),
]


@pytest.mark.parametrize(("how", "headers"), PASSING, ids=[str(how) for how, _ in PASSING])
def test_what_may_pass_is_waited_out_at_every_step_but_creation(
    server: BatchServer,
    talk: Talk,
    asked: Path,
    tmp_path: Path,
    how: int | str,
    headers: dict[str, Any],
) -> None:
    to = tmp_path / "out.jsonl"
    for method, path in (("POST", FILES), ("GET", BATCH), ("GET", BATCHES)):
        server.fail(method, path, how, **headers)
    if how not in {"html", "nothing"}:  # of a file's content nobody can tell
        server.fail("GET", CONTENT, how, **headers)

    async def whole(service: OpenAIBatches) -> Batch | None:
        batch = await at_its_end(asked)(service)
        assert batch.output_file is not None
        await service.download(batch.output_file, to)
        return await service.find(NAMED, None)

    found = talk(whole)
    assert found is not None
    assert found.id in server.batches
    assert not server.faults
    assert len(list(read_lines([to], 2**20))) == 10
    assert len(server.batches) == 1
    # some such requests are sent again at once
    assert len(talk.slept) >= (1 if how in {"drop", "lose"} else 3)
    assert all(each >= 7 for each in talk.slept) or not headers
    assert all(line.endswith("; trying again") for line in talk.notices)


@pytest.mark.parametrize(
    ("how", "is_made"),
    [("lose", 1), ("drop", 0), ("html", 1), ("nothing", 1), ("half", 1), (502, 0)],
)
def test_an_unknown_creation_is_not_sent_twice(
    server: BatchServer, talk: Talk, asked: Path, how: str, is_made: int
) -> None:
    server.fail("POST", BATCHES, how)
    with pytest.raises(Unknown):
        talk(made(asked))
    assert server.asked("POST", BATCHES) == 1
    assert len(server.batches) == is_made
    found = talk(lambda service: service.find(NAMED, None))
    assert (found is not None) == bool(is_made)


def test_a_creation_whose_answer_is_too_long_may_have_been_made(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.faults.append(
        Fault("POST", BATCHES, 200, body={"id": "batch-1", "more": "x" * MOST_REPLY_BYTES})
    )
    refuses(Unknown, "more than 4,194,304 bytes", talk, made(asked))


def test_a_creation_that_never_left_is_sent_again(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    with ExitStack() as stack:

        async def make(service: OpenAIBatches) -> Batch:
            file_id = await service.upload(asked)
            await asyncio.to_thread(stack.enter_context, server.away())
            return await service.create(file_id, NAMED)

        talk.pause = stack.close
        batch = talk(make)
    assert list(server.batches) == [batch.id]
    assert talk.notices == [f"{server.url}: no connection (Connection refused); trying again"]


def test_a_creation_that_was_one_request_too_many_is_sent_again(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.fail("POST", BATCHES, 429, times=2, code="rate_limit_exceeded", Retry_After="20")
    batch = talk(made(asked))
    assert list(server.batches) == [batch.id]
    assert [20 <= each <= 21 for each in talk.slept] == [True, True]


@pytest.mark.parametrize("keeps_metadata", [True, False])
def test_finds_a_batch_by_metadata_or_file(
    server: BatchServer, talk: Talk, asked: Path, keeps_metadata: bool
) -> None:
    server.keeps_metadata = keeps_metadata
    server.page = 3

    async def several(service: OpenAIBatches) -> tuple[list[Batch], list[Batch | None]]:
        files = [await service.upload(asked) for _ in range(8)]
        batches = [
            await service.create(each, {"robin": str(number)}) for number, each in enumerate(files)
        ]
        found = [
            await service.find({"robin": str(number)}, each) for number, each in enumerate(files)
        ]
        return batches, [
            *found,
            await service.find({"robin": "x"}, "file-x"),
            await service.find({}, None),
        ]

    batches, found = talk(several)
    assert [each and each.id for each in found] == [*(each.id for each in batches), None, None]


def test_of_two_batches_of_one_name_the_newest_is_found(talk: Talk, asked: Path) -> None:
    async def twice(service: OpenAIBatches) -> tuple[Batch, Batch | None]:
        await made(asked)(service)
        return await made(asked)(service), await service.find(NAMED, None)

    newest, found = talk(twice)
    assert found is not None
    assert found.id == newest.id


def test_a_list_that_never_ends_is_read_for_so_long_and_no_longer(
    server: BatchServer, talk: Talk
) -> None:
    page = {
        "data": [{"id": "b", "status": "completed"}, None, {"id": 7}],
        "has_more": True,
        "last_id": "b",
    }
    server.faults.append(Fault("GET", BATCHES, 200, times=10_000, body=page))
    assert talk(lambda service: service.find(NAMED, None)) is None
    assert server.asked("GET", BATCHES) == 2


@pytest.mark.parametrize("at", ["creation", "validation"])
def test_a_cap_on_what_is_enqueued_is_told_from_others(
    server: BatchServer, talk: Talk, asked: Path, at: str
) -> None:
    server.cap, server.cap_at = 15, at
    server.fates.append(Fate(polls=9))
    talk(made(asked))
    if at == "creation":
        with pytest.raises(BatchRefused, match="Enqueued") as refused:
            talk(made(asked))
        assert refused.value.is_full
        assert talk.slept == []
        return
    batch = talk(at_its_end(asked))
    assert (batch.status, batch.is_full) == ("failed", True)
    assert batch.errors == (
        "token_limit_exceeded: Enqueued token limit reached for m in organization org-1.",
    )


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_a_batch_refused_for_want_of_credit_says_so(
    server: BatchServer, talk: Talk, asked: Path, code: str
) -> None:
    server.fates.append(Fate(refused=code))
    batch = talk(at_its_end(asked))
    assert (batch.status, batch.is_full) == ("failed", False)


def test_a_batch_refused_at_validation_says_why_but_no_key(
    server: BatchServer, talk: Talk, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_bytes(requests(tmp_path / "fine", 2).read_bytes().replace(b'"r1"', b'""'))
    batch = talk(at_its_end(wrong))
    assert (batch.status, batch.is_over, batch.is_full) == ("failed", True, False)
    assert batch.errors == ("invalid_request: line 2: refused by the tests",)
    said = {
        "data": [
            {"code": "x", "message": f"key {KEY}\x1b[2J\nis wrong", "line": None},
            {"code": "y"},
            7,
            {},
        ]
    }
    server.faults.append(
        Fault("GET", BATCH, 200, body={"id": "b", "status": "failed", "errors": said})
    )
    batch = talk(lambda service: service.get("b"))
    assert batch.errors == ("x: key [key] [2J is wrong", "y")


def test_a_file_or_batch_that_a_service_will_not_have_is_refused(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    with pytest.raises(BatchRefused, match="no such input file") as refused:
        talk(lambda service: service.create("file-gone", NAMED))
    assert not refused.value.is_full
    server.faults.append(
        Fault("POST", BATCHES, 404, body={"error": {"message": "No such File object: file-gone"}})
    )
    refuses(BatchRefused, "file-gone", talk, lambda service: service.create("file-gone", NAMED))
    server.most_bytes = 10
    refuses(BatchRefused, "more than 10", talk, lambda service: service.upload(asked))
    assert talk.slept == []


PERMANENT = [
    (401, "invalid_api_key", "--api-key-env"),
    (402, "", "robin resume"),
    (403, "", "another key"),
    (404, "", "--batch"),
    (405, "", "--batch"),
    (429, "insufficient_quota", "used up"),
    (400, "billing_hard_limit_reached", "used up"),
    (307, "", "redirects"),
]


STEPS = [("POST", FILES), ("POST", BATCHES), ("GET", BATCHES)]


@pytest.mark.parametrize(
    ("status", "code", "step", "at"),
    [
        *((*each, STEPS[number % 3]) for number, each in enumerate(PERMANENT)),
        (*PERMANENT[0], STEPS[1]),
    ],
)
def test_what_will_not_pass_ends_the_run_at_once_with_a_next_step(
    server: BatchServer,
    talk: Talk,
    asked: Path,
    status: int,
    code: str,
    step: str,
    at: tuple[str, str],
) -> None:
    method, path = at
    body = {"error": {"message": f"No, {KEY}", "code": code}}
    server.faults.append(
        Fault(method, path, status, 100, body, {"Location": "http://127.0.0.1:9/v1"})
    )

    async def all_of_it(service: OpenAIBatches) -> None:
        await made(asked)(service)
        await service.find(NAMED, None)

    with pytest.raises(EndpointError, match=step) as raised:
        talk(all_of_it)
    assert str(raised.value).startswith(server.url)
    assert KEY not in str(raised.value)
    assert talk.slept == []
    assert server.asked(method, path) == 1


def test_without_a_batch_service_the_error_says_what_to_leave_out(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.serves = False
    refuses(EndpointError, r"no batch service .* leave --batch out", talk, made(asked))


def test_a_key_that_is_missing_is_asked_for(server: BatchServer, talk: Talk, asked: Path) -> None:
    talk.options = {"api_key": "none"}
    refuses(EndpointError, "OPENAI_API_KEY", talk, made(asked))


def test_a_batch_that_is_not_known_yet_is_asked_for_again(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.fail("GET", BATCH, 404, times=3)
    assert talk(at_its_end(asked)).status == "completed"
    assert len(talk.slept) == 3


def test_a_batch_that_is_never_known_ends_the_run(talk: Talk) -> None:
    refuses(
        EndpointError,
        r"not known there .*No batch found",
        talk,
        lambda service: service.get("batch-x"),
    )
    assert openai_batches.SHORTLY_S <= sum(talk.slept) < openai_batches.SHORTLY_S + 120


def test_a_night_without_network_is_waited_out_and_told_once(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    with ExitStack() as stack:

        async def overnight(service: OpenAIBatches) -> Batch:
            batch = await made(asked)(service)
            await asyncio.to_thread(stack.enter_context, server.away())
            return await service.get(batch.id)

        def morning() -> None:
            if sum(talk.slept) > 8 * 3600:
                stack.close()

        talk.pause = morning
        assert talk(overnight).status == "completed"
    assert talk.notices == [f"{server.url}: no connection (Connection refused); trying again"]
    assert max(talk.slept) <= 60


def test_an_address_that_never_answered_is_not_tried_for_long(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    with (
        server.away(),
        pytest.raises(EndpointError, match=r"Connection refused.*it never answered"),
    ):
        talk(made(asked))
    assert openai_batches.FIRST_S <= sum(talk.slept) < openai_batches.FIRST_S + 60  # the last wait


def test_a_batch_under_way_is_cancelled_and_one_over_is_left(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.fates.append(Fate(polls=5, done=4))
    batch = talk(made(asked))
    assert talk(lambda service: service.cancel(batch.id)).status == "cancelling"
    over = talk(lambda service: service.get(batch.id))
    assert (over.status, over.is_over, len(server.billed)) == ("cancelled", True, 4)
    server.fail("POST", CANCEL, 400)  # as some say it; OpenAI and OGX say 409
    for _ in range(2):
        again = talk(lambda service: service.cancel(batch.id))
        assert (again.status, again.output_file) == ("cancelled", over.output_file)
    assert talk.slept == []
    server.fail("POST", CANCEL, 500, times=1000)  # as LiteLLM's proxy says it
    assert talk(lambda service: service.cancel(batch.id)).status == "cancelled"


def test_a_cancel_does_not_keep_the_user_waiting(
    server: BatchServer, talk: Talk, asked: Path
) -> None:
    server.fates.append(Fate(polls=9))
    batch = talk(made(asked))
    server.fail("POST", CANCEL, 503, times=1000)
    refuses(EndpointError, "503", talk, lambda service: service.cancel(batch.id))
    assert sum(talk.slept) <= openai_batches.AT_ONCE_S + 60


@pytest.mark.parametrize("how", [404, 500, "drop"])
def test_a_file_that_cannot_be_deleted_is_left(
    server: BatchServer, talk: Talk, asked: Path, how: int | str
) -> None:
    file_id = talk(lambda service: service.upload(asked))
    server.fail("DELETE", FILE, how, times=1000)
    talk(lambda service: service.delete(file_id))
    assert file_id in server.files
    server.faults.clear()
    talk(lambda service: service.delete(file_id))
    talk(lambda service: service.delete(file_id))
    assert file_id not in server.files


def test_a_download_cut_short_leaves_the_file_that_was_there(
    server: BatchServer, talk: Talk, tmp_path: Path
) -> None:
    server.files["file-1"] = b"x" * 100_000
    to = tmp_path / "out.jsonl"
    to.write_bytes(b"as it was")
    server.fail("GET", CONTENT, "half", times=3)
    server.fail("GET", CONTENT, 401)
    refuses(EndpointError, "refused", talk, lambda service: service.download("file-1", to))
    assert len(talk.slept) == 3
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [
        ("out.jsonl", b"as it was")
    ]


def test_a_download_without_end_is_not_read_to_it(
    server: BatchServer, talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_DOWNLOADED", 50_000)
    server.files["file-1"] = b"x" * 100_000
    with pytest.raises(EndpointError, match="more than 50,000 bytes"):
        talk(lambda service: service.download("file-1", tmp_path / "out.jsonl"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_no_fault_of_the_connection(
    server: BatchServer, talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    server.files["file-1"] = b"x" * 100_000
    monkeypatch.setattr(files, "whole_file", lambda _: Path("/dev/full").open("wb", 0))  # noqa: SIM115
    to = tmp_path / "out.jsonl"
    refuses(OSError, "No space left", talk, lambda service: service.download("file-1", to))


def test_a_compressed_file_is_not_taken_for_lines(
    server: BatchServer, talk: Talk, tmp_path: Path
) -> None:
    server.faults.append(Fault("GET", CONTENT, 200, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(EndpointError, match='compressed as "gzip"'):
        talk(lambda service: service.download("file-1", tmp_path / "out.jsonl"))
    assert list(tmp_path.iterdir()) == []


ODD = [
    ({"id": "b", "status": "CANCELED"}, "cancelled", True),
    (
        {
            "id": "b",
            "status": "x" * 900,
            "request_counts": {"total": "7"},
            "errors": "gone",
            "metadata": [1],
        },
        "x" * 40,
        False,
    ),
    (
        {
            "id": "b",
            "status": "completed",
            "request_counts": 3,
            "created_at": "soon",
            "output_file_id": 7,
        },
        "completed",
        True,
    ),
    (
        {
            "id": "b",
            "status": "failed",
            "errors": [{"message": "no"}],
            "metadata": {"a": 1, "b": "c"},
        },
        "failed",
        True,
    ),
]


@pytest.mark.parametrize(("body", "status", "is_over"), ODD)
def test_odd_batches_are_read_as_far_as_they_go(
    server: BatchServer, talk: Talk, body: dict[str, Any], status: str, is_over: bool
) -> None:
    server.faults.append(Fault("GET", BATCH, 200, body=body))
    batch = talk(lambda service: service.get("b"))
    assert (batch.status, batch.is_over, batch.output_file) == (status, is_over, None)


def test_ids_of_a_service_stay_within_the_path(server: BatchServer, talk: Talk) -> None:
    server.fail("GET", ".*", 401)
    with pytest.raises(EndpointError):
        talk(lambda service: service.get("../models?x=/y"))
    ((method, path),) = server.requests
    assert (method, path) == ("GET", "/batches/../models?x=/y")


UPLOAD = """
import asyncio, sys, tracemalloc
from pathlib import Path
from robin_batch.service import OpenAIBatches
from robin_cli.judges.transport import Endpoint

async def main():
    client = OpenAIBatches(Endpoint(model="m", base_url=sys.argv[1], api_key=sys.argv[2]), notify=print)
    tracemalloc.start()
    file_id = await client.upload(Path(sys.argv[3]))
    await client.download(file_id, Path(sys.argv[3] + ".back"))
    print(tracemalloc.get_traced_memory()[1])
    await client.aclose()

asyncio.run(main())
"""


def test_large_files_go_up_and_down_without_being_held(server: BatchServer, tmp_path: Path) -> None:
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(32 * 2**20)
    command = [sys.executable, "-c", UPLOAD, server.url, KEY, str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 * 2**20
    assert (tmp_path / "large.jsonl.back").stat().st_size == 32 * 2**20


# what became of ten requests; how their lines are read; how many are billed
