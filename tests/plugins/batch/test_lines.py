"""Lines of a batch's files, as services and vLLM write them, and as nobody should."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_batch.lines import Line, line_of, read_lines
from robin_cli.judges.problems import Fatal, Unread
from robin_cli.judges.replies import Completion
from robin_cli.model.exchange import Failure

LIMIT = 2**20
CHOICE = {"message": {"content": "Rating: 3"}, "finish_reason": "stop"}
BODY = {
    "id": "c",
    "model": "m",
    "choices": [CHOICE],
    "usage": {"prompt_tokens": 90, "completion_tokens": 7},
}


def line(custom_id: object = "a", response: object = None, error: object = None) -> bytes:
    return (
        orjson.dumps(
            {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": error}
        )
        + b"\n"
    )


def response(status: object = 200, body: object = BODY) -> dict[str, object]:
    return {"status_code": status, "request_id": "req-1", "body": body}


def read(tmp_path: Path, *texts: bytes, limit: int = LIMIT) -> list[Line]:
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    return list(read_lines(paths, limit))


def outcome(tmp_path: Path, text: bytes) -> object:
    (one,) = read(tmp_path, text)
    assert one.custom_id == "a"
    return one.outcome


def test_a_request_is_one_line_with_its_id_and_body() -> None:
    text = line_of("r1-7", {"model": "m", "messages": [{"role": "user", "content": "two\nlines"}]})
    assert text.count(b"\n") == 1
    assert orjson.loads(text) == {
        "custom_id": "r1-7",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [{"role": "user", "content": "two\nlines"}]},
    }


@pytest.mark.parametrize(
    "body", [BODY, orjson.dumps(BODY).decode()], ids=["an object", "a string, as OGX gives it"]
)
def test_an_answer_is_read_with_what_it_cost(tmp_path: Path, body: object) -> None:
    got = outcome(tmp_path, line(response=response(body=body)))
    assert isinstance(got, Completion)
    assert got.answers[0].text == "Rating: 3"
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.request_id) == (
        90,
        7,
        "req-1",
    )


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_what_the_batch_did_not_get_to_was_not_asked(tmp_path: Path, code: str) -> None:
    text = line(
        error={
            "code": code,
            "message": "This request could not be executed before the window expired.",
        }
    )
    assert outcome(tmp_path, text) is None


QUOTA = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    "text",
    [
        line(response=response(429, QUOTA)),
        line(error=QUOTA["error"]),
        line(response=response(0, {}), error=QUOTA),
    ],
)
def test_a_quota_that_is_used_up_ends_the_run(tmp_path: Path, text: bytes) -> None:
    assert isinstance(outcome(tmp_path, text), Fatal)


def test_a_parameter_refused_in_a_line_is_learnt_from(tmp_path: Path) -> None:
    error = {
        "message": "Unsupported parameter: 'max_tokens'",
        "param": "max_tokens",
        "code": "unsupported_parameter",
    }
    got = outcome(tmp_path, line(response=response(400, {"error": error})))
    assert isinstance(got, Failure)
    assert got.parameter == "max_tokens"


def of_vllm(custom_id: str, status: int, body: object, error: object) -> bytes:
    """As BatchRequestOutput.model_dump_json() of vLLM."""
    given = {"status_code": status, "request_id": "vllm-batch-5f", "body": body}
    return (
        orjson.dumps({"id": "vllm-1c", "custom_id": custom_id, "response": given, "error": error})
        + b"\n"
    )


VLLM_MESSAGE: dict[str, object] = {
    "role": "assistant",
    "content": "Rating: 4",
    "refusal": None,
    "tool_calls": [],
}
VLLM_CHOICE = {
    "index": 0,
    "message": VLLM_MESSAGE,
    "logprobs": None,
    "finish_reason": "stop",
    "token_ids": None,
}
VLLM_USAGE = {
    "prompt_tokens": 30,
    "total_tokens": 34,
    "completion_tokens": 4,
    "prompt_tokens_details": None,
}
VLLM_BODY = {
    "id": "chatcmpl-9",
    "model": "org/model",
    "choices": [VLLM_CHOICE],
    "usage": VLLM_USAGE,
    "prompt_logprobs": None,
}
VLLM_SAID = "This model's maximum context length is 8192 tokens."
VLLM_ERROR = {"message": VLLM_SAID, "type": "BadRequestError", "param": None, "code": 400}
FLAGGED = {"error": {"message": "flagged by our content policy"}}
TOO_LONG = {"error": {"message": "context length exceeded", "code": "context_length_exceeded"}}

# A line, why it failed, and whether it may be asked again.
FAILED = [
    (line(response=response(500, {"error": {"message": "internal"}})), "http_500", True),
    (line(response=response(503, {"error": {"message": "busy"}})), "http_503", True),
    (
        line(response=response(429, {"error": {"message": "Rate limit reached"}})),
        "rate_limited",
        True,
    ),
    (line(response=response(400, TOO_LONG)), "context_length", False),
    (line(response=response(400, FLAGGED)), "filtered", False),
    (line(response=response(400, orjson.dumps(FLAGGED).decode())), "filtered", False),
    (line(response=response(400, "not JSON: flagged by our content policy")), "filtered", False),
    (line(error={"code": "request_timeout", "message": "took too long"}), "timeout", True),
    (of_vllm("a", 400, None, {"error": VLLM_ERROR}), "context_length", False),
    (of_vllm("a", 400, None, {"object": "error"} | VLLM_ERROR), "context_length", False),
    (of_vllm("a", 400, None, VLLM_SAID), "context_length", False),
    # the line of tidyverse/ellmer#830, and what else says that the service failed at it
    (line(response={"status_code": 0, "request_id": "", "body": {}}), "batch_error", True),
    (
        line(response={"status_code": 0, "body": None}, error={"code": "server_error"}),
        "batch_error",
        True,
    ),
    (line(response=response(None)), "batch_error", True),
    (line(response=response(200, None)), "batch_error", True),
    (line(), "batch_error", True),
    (line(error="gone"), "batch_error", True),
    (line(error=["gone"]), "batch_error", True),
    (line(response="what"), "batch_error", True),
]


@pytest.mark.parametrize(("text", "reason", "passes"), FAILED, ids=range(len(FAILED)))
def test_a_failed_line_is_read_as_its_status_is_a_call_s(
    tmp_path: Path, text: bytes, reason: str, passes: bool
) -> None:
    got = outcome(tmp_path, text)
    assert isinstance(got, Failure)
    assert (got.reason, got.transient) == (reason, passes)


def test_an_answer_of_vllm_is_read(tmp_path: Path) -> None:
    got = outcome(tmp_path, of_vllm("a", 200, VLLM_BODY, None))
    assert isinstance(got, Completion)
    assert (got.answers[0].text, got.model, got.usage.completion_tokens) == (
        "Rating: 4",
        "org/model",
        4,
    )


A, B = line("a", response()), line("b", response())


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        ((A + B[:-1],), "ab"),  # the last line without its end
        ((B + A, b"", line("a", response(500, {})) + line("z")), "baaz"),
        (
            (b"\xef\xbb\xbf" + A + b"\r\n\n   \n" + B.replace(b"\n", b"\r\n"),),
            "ab",
        ),  # a mark, and blank lines
    ],
)
def test_lines_keep_their_order_and_come_as_often_as_they_do(
    tmp_path: Path, texts: tuple[bytes, ...], ids: str
) -> None:
    assert [each.custom_id for each in read(tmp_path, *texts)] == list(ids)


def test_a_file_cut_within_a_line_gives_all_whole_lines(tmp_path: Path) -> None:
    whole = b"".join(of_vllm(f"r{number}", 200, VLLM_BODY, None) for number in range(20))
    lines = read(tmp_path, whole[:-40])
    assert [each.custom_id for each in lines] == [*(f"r{number}" for number in range(19)), None]


BROKEN = [
    b"not JSON", b"[1, 2]", b"null", b'{"custom_id": "half', line(custom_id=7, response=response()),
    line(custom_id="", response=response()), line(custom_id="x" * 500, response=response()), b'{"response": {}}',
    b"\x00" * 5000, b"\xff\xfe{", b"[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_line_is_told_and_the_next_is_read(tmp_path: Path, text: bytes) -> None:
    broken, fine = read(tmp_path, text.rstrip(b"\n") + b"\n" + line("b", response()))
    assert (broken.custom_id, broken.outcome) == (None, None)
    assert fine.custom_id == "b"
    assert isinstance(fine.outcome, Completion)


@pytest.mark.parametrize("damage", [b"caf\xe9", b"\xff\xfe\x00", b"\xed\xa0\x80", b"\xf0\x9f"])
def test_an_answer_with_bytes_that_are_no_utf_8_is_read_all_the_same(
    tmp_path: Path, damage: bytes
) -> None:
    body = BODY | {"choices": [{"message": {"content": "Feedback: XX.\nRating: 3"}}]}
    damaged, fine = read(
        tmp_path, line(response=response(body=body)).replace(b"XX", damage) + line("b", response())
    )
    assert isinstance(damaged.outcome, Completion)
    text = damaged.outcome.answers[0].text
    assert text.startswith("Feedback: ")
    assert text.endswith(".\nRating: 3")
    assert damaged.outcome.usage.completion_tokens == 7
    assert (damaged.custom_id, damaged.is_damaged, fine.is_damaged) == ("a", True, False)


def test_of_a_line_that_is_too_long_it_is_read_whose_it_is(tmp_path: Path) -> None:
    long = line("long", response(body=BODY | {"padding": "x" * 3000}))
    lines = read(tmp_path, long + line("b", response()) + b"y" * 5000, limit=1000)
    assert [each.custom_id for each in lines] == ["long", "b", None]
    assert [isinstance(each.outcome, Unread) for each in lines] == [True, False, True]
    (costly,) = read(tmp_path, line(response=response(body=BODY | {"more": [[]] * 60_000})))
    assert isinstance(costly.outcome, Unread)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "code", "message"]), inner)
    ),
    max_leaves=6,
)


@given(status=JSON, body=JSON, error=JSON, whole=st.booleans())
def test_whatever_a_line_holds_reading_it_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    status: object,
    body: object,
    error: object,
    whole: bool,
) -> None:
    given_ = {"status_code": status, "request_id": body, "body": body} if whole else body
    path = tmp_path_factory.getbasetemp() / "line.jsonl"
    path.write_text(json.dumps({"custom_id": "a", "response": given_, "error": error}))
    (one,) = read_lines([path], LIMIT)
    assert one.custom_id == "a"
