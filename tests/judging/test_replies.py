"""How long an endpoint asks to wait, and bodies of any kind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judging.replies import (
    Completion,
    Refused,
    Retry,
    Stop,
    Unsupported,
    classify,
    duration_s,
    read_completion,
    retry_after_s,
)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 2015 07:29:00 GMT"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "500ms"}, 0.5),
        ({"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_reads_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m30s", 90.0), ("1h", 3600.0), ("20", 20.0), ("1m x", None), ("", None), ("-3", 0)]
)
def test_reads_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


names = [
    "retry-after",
    "retry-after-ms",
    "date",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "location",
]
headers_of_any_kind = st.dictionaries(st.sampled_from(names), st.text(max_size=30))
json_of_any_kind = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "choices", "message", "code"]), inner)
    ),
    max_leaves=12,
)


@given(headers_of_any_kind)
def test_never_waits_less_than_nothing(headers: dict[str, str]) -> None:
    waited = retry_after_s(headers, now=0.0)
    assert waited is None or waited >= 0


@given(
    st.integers(100, 599),
    st.binary(max_size=60) | json_of_any_kind.map(lambda value: repr(value).encode()),
    headers_of_any_kind,
)
def test_makes_something_of_any_error(status: int, body: bytes, headers: dict[str, str]) -> None:
    assert isinstance(classify(status, body, headers), Retry | Refused | Unsupported | Stop)


@given(json_of_any_kind)
def test_makes_something_of_any_200(content: object) -> None:
    body = json.dumps(content).encode()
    assert isinstance(read_completion(body, {}), Completion | Retry | Refused | Unsupported | Stop)
