"""How long an endpoint asks to wait, and bodies of any kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judges.problems import Problem, classify, duration_s, retry_after_s
from robin_cli.judges.replies import Completion, read_completion
from robin_cli.model.exchange import Failure
from robin_cli.model.records import Usage


def test_reads_how_long_to_wait() -> None:
    for headers, seconds in (
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT",
                "date": "Wed, 21 Oct 2015 07:29:00 GMT",
            },
            0.0,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "500ms"}, 0.5),
        ({"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"}, None),
        (
            {"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "1h2m3s"},
            3723.0,
        ),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1m30s",
            },
            90.0,
        ),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1" + "0" * 400}, None),
        (
            {"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"},
            None,
        ),  # nobody says what time it is there
        ({"retry-after": "Wed, 32 Oct 99999 07:28:30 GMT", "date": "x"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ):
        assert retry_after_s(headers) == seconds, (headers, seconds)


def test_reads_durations() -> None:
    for text, seconds in (
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("20", 20.0),
        ("1m x", None),
        ("", None),
        ("-3", 0),
    ):
        assert duration_s(text) == seconds, (text, seconds)


def refused(http_status: int, message: str, **fields: Any) -> object:
    body = json.dumps(
        {"error": {"message": message, "type": "error", "param": None, "code": None, **fields}}
    )
    return outcome(classify(http_status, body.encode(), {}))


def outcome(problem: object) -> object:
    """What it means, in short."""
    if isinstance(problem, Failure):
        refused = f"without {problem.parameter}" if problem.parameter else problem.reason
        return "throttled" if problem.throttled else refused
    return type(problem).__name__


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ([{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "3s"}]}}], 3.0),
        ({"error": {"message": "Rate limit of 3 requests. Please try again in 1.2s."}}, 1.2),
        ({"error": {"message": "Please try again in 20ms. See 5m."}}, 0.02),
        ({"error": {"message": "Please try again in 1m3s"}}, 63.0),
        ({"error": {"message": "Please retry in a while; 2 minutes of usage left today"}}, None),
        ({"error": {"message": "Retry after 2 minutes and see"}}, 120.0),
        ({"message": "Please wait 30 seconds"}, 30.0),
        ({"error": "slow down", "retry_after": 2}, 2.0),
        ({"error": {"message": "x", "metadata": {"retry_after_ms": "250"}}}, 0.25),
        ({"error": {"message": "limit: 60 requests per 60s, retry later"}}, None),
        ({"error": {"message": "x", "details": {"retryDelay": []}, "retry_after": None}}, None),
    ],
)
def test_reads_the_wait_that_a_body_asks_for_unless_a_header_does(
    body: object, seconds: float | None
) -> None:
    raw = json.dumps(body).encode()
    by_body, by_header = (classify(429, raw, headers) for headers in ({}, {"retry-after": "9s"}))
    assert isinstance(by_body, Failure)
    assert isinstance(by_header, Failure)
    assert by_body.retry_after_s == (None if seconds is None else pytest.approx(seconds))
    assert by_header.retry_after_s == 9.0


# fmt: off
def test_tells_the_key_the_model_the_pair_and_the_parameter_apart() -> None:
    for status, message, fields, meaning in (
        # the key and the account: every call would fail
        (400, "API key not valid. Please pass a valid API key.", {"code": 400}, "Fatal"),  # Gemini
        (400, "Your credit balance is too low to access the Anthropic API.", {}, "Fatal"),
        (429, "Limit 500 requests per min; credits refresh; 2,000 per day", {}, "throttled"),
        (429, "Rate limit reached for model x on tokens per day (TPD): Limit 5, Used 5", {}, "Fatal"),  # Groq
        (429, "Rate limit exceeded: free-models-per-day", {"code": 429}, "Fatal"),  # OpenRouter
        (429, "Rate limit reached on tokens per min (TPM): Limit 30000. Try again in 2s.", {}, "throttled"),
        (429, "Resource has been exhausted (e.g. check quota).", {"status": "RESOURCE_EXHAUSTED"}, "throttled"),
        # the model
        (400, "invalid model ID", {}, "Fatal"),
        (400, "x/y is not a valid model ID", {"code": 400}, "Fatal"),
        (400, "no", {"code": "model_not_found"}, "Fatal"),
        (400, "Invalid model name passed in model=x", {"code": "400"}, "Fatal"),  # litellm
        (403, "Project does not have access to model `x`", {}, "Fatal"),
        # one pair
        (403, "Your chosen model requires moderation and your input was flagged", {"code": 403}, "filtered"),
        (400, "The response was filtered due to Azure OpenAI's content management policy", {}, "filtered"),
        (400, "prompt is too long: 200001 tokens > 200000 maximum", {}, "context_length"),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", {}, "context_length"),
        (429, "Request too large for gpt-4 on tokens per min (TPM): Limit 10, Requested 12", {}, "context_length"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096", {}, "context_length"),
        (
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 100",
            {"param": "max_tokens"},
            "context_length",  # vLLM: this prompt leaves too little room, others may not
        ),
        (400, "max_tokens is too large: 9. This model supports at most 8", {"param": "max_tokens"}, "bad_request"),
        # one parameter
        (400, "Use 'max_completion_tokens' instead.", {"param": "max_tokens"}, "without max_tokens"),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model.", {}, "without max_tokens"),
        (400, "'n' : number must be at most 1", {}, "without n"),  # Groq
        (400, "n must be 1 when using greedy sampling, got 3.", {}, "without n"),  # vLLM
        (422, "seed: Extra inputs are not permitted", {}, "without seed"),
        (400, "`temperature` and `top_p` cannot both be specified", {}, "without temperature or top_p"),
        (400, "Multiple candidates is not enabled for this model", {}, "without n"),
        (400, "Developer instruction is not enabled for models/x", {}, "without system"),
        (400, "Provider x does not support 'system' with this model", {}, "without system"),
        (400, "Conversation roles must alternate user/assistant", {}, "without system"),
        (402, "more credits, or fewer max_tokens: can only afford 300", {}, "without max_tokens"),
        # what may have to do with the pair, or not
        (400, "The model has crashed without additional information", {}, "bad_request"),
        (412, "Account x is suspended", {}, "bad_request"),
        (423, "locked", {}, "bad_request"),
        (424, "model error", {}, "bad_request"),
        (426, "upgrade", {}, "bad_request"),
        (499, "The operation was cancelled.", {}, "bad_request"),
        # what may pass
        (529, "Overloaded", {}, "http_529"),
        (503, "The model is overloaded. Please try again later.", {}, "http_503"),
        (409, "conflict", {}, "http_409"),
    ):
        assert refused(status, message, **fields) == meaning, (status, message, fields)


# fmt: on
def test_takes_a_503_of_a_full_queue_for_one_request_too_many() -> None:
    for told, meaning in (
        (
            b"Request dropped due to backpressure (num_queued_requests=64, max_queued_requests=64).",
            "throttled",
        ),  # Ray Serve
        (
            b'{"object":"error","message":"The request queue is full.","code":503}',
            "throttled",
        ),  # SGLang
        (b"no healthy upstream", "http_503"),
    ):
        assert outcome(classify(503, told, {})) == meaning, (told, meaning)


def test_knows_geminis_daily_quota_from_the_one_a_minute() -> None:
    def body(quota: str) -> bytes:
        violation = {
            "violations": [{"quotaId": f"GenerateRequests{quota}PerProjectPerModel-FreeTier"}]
        }
        message = "You exceeded your current quota, please check your plan and billing details."
        return json.dumps(
            [{"error": {"code": 429, "message": message, "details": [violation]}}]
        ).encode()

    assert outcome(classify(429, body("PerDay"), {})) == "Fatal"
    assert outcome(classify(429, body("PerMinute"), {})) == "throttled"


def test_sees_the_error_in_a_200() -> None:
    for body, meaning in (
        ({"error": {"message": "busy", "code": 429}}, "throttled"),
        ({"error": {"message": "busy", "code": "429"}}, "throttled"),
        ({"error": {"message": "busy", "code": "rate_limit_exceeded"}}, "throttled"),
        ({"error": {"message": "x", "code": "insufficient_quota"}}, "Fatal"),
        ({"error": {"message": "x", "type": "insufficient_quota"}}, "Fatal"),
        ({"error": {"message": "x", "code": 401}}, "Fatal"),
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, "context_length"),
        ({"error": {"message": "Provider returned error", "code": 502}}, "http_502"),
        ({"error": "a string"}, "bad_request"),
        ({"error": {"code": 200}}, "bad_request"),
        ({"object": "error", "message": "flat", "code": 503}, "http_503"),
        (
            {"choices": [{"error": {"code": 502, "message": "up"}, "message": {"content": ""}}]},
            "http_502",
        ),
        ({"choices": "none"}, "Unread"),
        ({"choices": [None]}, "Unread"),
        ([{"error": {"code": 503}}], "http_503"),
        ("text", "Unread"),
        (None, "Unread"),
    ):
        assert outcome(read_completion(json.dumps(body).encode(), {})) == meaning, (body, meaning)


def test_keeps_the_choices_that_did_not_break() -> None:
    choices = [
        {"message": {"content": "Rating: 2"}},
        {"error": {"code": 502}, "message": {"content": "Rat"}},
    ]
    got = read_completion(json.dumps({"choices": choices}).encode(), {"x-request-id": "req-1"})
    assert isinstance(got, Completion)
    assert [answer.text for answer in got.answers] == ["Rating: 2"]
    assert (got.request_id, got.model, got.usage) == ("req-1", "", Usage())


@pytest.mark.parametrize(
    ("completion", "total", "reasoning", "paid", "estimated"),
    [
        (10, 110, None, 10, False),
        (500, 600, 400, 500, False),  # OpenAI's: reasoning is a part
        (10, 2110, 2000, 2010, False),  # xAI's: beside
        (10, 110, 2000, 2010, False),
        (10, 2110, None, 2010, False),  # Gemini's: in the total alone
        (None, 2110, None, 2010, False),
        (300, None, 200, 500, True),
        (0, 100, 0, 0, False),
    ],
)
def test_takes_the_largest_reading_of_usage_for_what_is_paid(
    completion: int | None, total: int | None, reasoning: int | None, paid: int, estimated: bool
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": completion, "total_tokens": total}
    for where in (
        {"completion_tokens_details": {"reasoning_tokens": reasoning}},
        {"reasoning_tokens": reasoning},
    ):
        body = {"choices": [{"message": {"content": "3"}}], "usage": usage | where}
        got = read_completion(json.dumps(body).encode(), {})
        assert isinstance(got, Completion)
        assert (got.usage.completion_tokens, got.usage.estimated) == (paid, estimated)


def test_takes_only_usage_that_is_a_number() -> None:
    for usage, prompt, completion in (
        ({"prompt_tokens": 12, "completion_tokens": 3}, 12, 3),
        ({"prompt_tokens": "12", "completion_tokens": "3.0"}, 12, 3),
        ({"prompt_tokens": -1, "completion_tokens": None}, None, None),
        ({"prompt_tokens": True, "completion_tokens": "many"}, None, None),
        ({"prompt_tokens": 10**400, "completion_tokens": 1e300}, None, None),
        ({"prompt_tokens": [1]}, None, None),
        ({}, None, None),
        (None, None, None),
        ("12", None, None),
    ):
        got = read_completion(json.dumps({"choices": [{}], "usage": usage}).encode(), {})
        assert isinstance(got, Completion), (usage, prompt, completion)
        assert got.usage == Usage(prompt, completion), (usage, prompt, completion)


def test_believes_no_cost_that_no_call_has() -> None:
    for told, believed in (
        *((value, value) for value in (0, 0.25, 1e12)),
        *(
            (value, None)
            for value in (
                1e400,
                -1,
                -1e-9,
                float("nan"),
                float("-inf"),
                10**400,
                "inf",
                True,
            )
        ),
    ):
        got = read_completion(
            json.dumps({"choices": [{}], "usage": {"prompt_tokens": 9, "cost": told}}).encode(), {}
        )
        assert isinstance(got, Completion), (told, believed)
        assert got.usage == Usage(9, None, cost_usd=believed), (told, believed)


def test_reads_an_answer_around_bytes_that_are_no_utf_8() -> None:
    got = read_completion(b'{"choices": [{"message": {"content": "caf\xe9\\nRating: 3"}}]}', {})
    assert isinstance(got, Completion)
    assert got.answers[0].text == "caf�\nRating: 3"


def test_says_an_error_in_one_line_that_steers_no_terminal() -> None:
    problem = classify(500, json.dumps({"error": {"message": "a\n\tb\x1b[31m\ud800"}}).encode(), {})
    assert isinstance(problem, Failure)
    assert problem.detail == "500: a b [31m?"


names = [
    *(
        "retry-after",
        "retry-after-ms",
        "date",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    "location",
]
text_of_any_kind = st.text(
    st.sampled_from("a0{}\n\x00\x1b\ud800\udfffé🐦"), max_size=10
) | st.sampled_from(
    [
        "rate limit",
        "context length",
        "max_tokens is not supported",
        "model not found",
        "insufficient_quota",
    ]
)
waits = st.from_regex(r"[-+]?[0-9]{0,400}(\.[0-9]*)?(ms|s|m|h|e)?([0-9]+(ms|s))?", fullmatch=True)
dates = st.from_regex(
    r"(Mon, )?[0-9]{1,3} (Jan|Feb|Xxx) [0-9]{1,6} [0-9]{1,3}:[0-9:]{0,6} ?(GMT|[-+]\d{4})?",
    fullmatch=True,
)
headers_of_any_kind = st.dictionaries(st.sampled_from(names), st.text(max_size=30) | waits | dates)
fields = [
    "error",
    "choices",
    "message",
    "content",
    "text",
    "code",
    "usage",
    "prompt_tokens",
    "model",
    "id",
    "object",
]
json_of_any_kind = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text_of_any_kind | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(fields), inner, max_size=4)
    ),
    max_leaves=12,
)
completions_of_any_kind = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.dictionaries(
                st.sampled_from(["message", "error", "finish_reason"]), json_of_any_kind
            )
        )
    },
    optional={"usage": json_of_any_kind, "model": json_of_any_kind, "id": json_of_any_kind},
)


@given(headers_of_any_kind)
def test_never_waits_less_than_nothing(headers: dict[str, str]) -> None:
    waited = retry_after_s(headers)
    assert waited is None or waited >= 0


@given(st.text(max_size=30) | waits)
def test_makes_no_negative_duration_of_any_text(text: str) -> None:
    seconds = duration_s(text)
    assert seconds is None or seconds >= 0


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_adds_up_the_parts_of_a_duration(
    hours: int, minutes: int, seconds: int, thousandths: int
) -> None:
    text = f"{hours}h{minutes}m{seconds}s{thousandths}ms"
    assert duration_s(text) == pytest.approx(
        hours * 3600 + minutes * 60 + seconds + thousandths / 1000
    )


@given(
    st.integers(100, 599),
    st.binary(max_size=60) | json_of_any_kind.map(lambda value: json.dumps(value).encode()),
    headers_of_any_kind,
)
def test_makes_something_of_any_error(status: int, body: bytes, headers: dict[str, str]) -> None:
    assert isinstance(classify(status, body, headers), Problem)


@given(json_of_any_kind | completions_of_any_kind)
def test_makes_something_of_any_200(content: object) -> None:
    got = read_completion(json.dumps(content).encode(), {})
    assert isinstance(got, Completion | Problem)
    if isinstance(got, Completion):  # then it can be stored
        texts = [got.model, got.request_id or "", *(answer.text for answer in got.answers)]
        "".join(texts).encode()
        assert all(
            tokens is None or 0 <= tokens < 2**63
            for tokens in (got.usage.prompt_tokens, got.usage.completion_tokens)
        )
