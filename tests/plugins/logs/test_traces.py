"""Traces in the formats that OpenTelemetry, Langfuse and Phoenix publish; which pages say so stands in plugins/robin_logs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.datasets.pairs import Dataset, load_pairs
from robin_cli.datasets.rows import BadRow
from robin_cli.model.records import Pair
from robin_logs import langfuse, otlp, phoenix
from tests.datasets.writing import as_array, as_csv, as_lines, as_parquet, complaint, written

Row = dict[str, Any]
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JOKE = "Why did the developer bring OpenTelemetry to the party? It knows how to trace the fun!"
ASKED = "System: You are a helpful bot\n\nUser: Tell me a joke about OpenTelemetry"
PASSED = "left out: {} spans that are no call of a model"


def only(data: Dataset) -> Pair:
    (pair,) = data.pairs
    return pair


def wrapped(value: object) -> Row:
    """A value as OTLP JSON has it."""
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(wrapped, value))}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def attributes(found: Row) -> list[Row]:
    return [{"key": name, "value": wrapped(value)} for name, value in found.items()]


def span(found: Row, *events: tuple[str, Row], own: str = SPAN) -> Row:
    return {
        "traceId": TRACE, "spanId": own, "parentSpanId": "", "name": "chat gpt-4", "kind": 3,
        "startTimeUnixNano": "1581452772000000321", "endTimeUnixNano": "1581452773000000789",
        "attributes": attributes(found),
        "events": [{"timeUnixNano": "1581452772000000321", "name": name, "attributes": attributes(of)} for name, of in events],
        "status": {},
    }  # fmt: skip


def traces(*spans: Row) -> Row:
    of = {"resource": {"attributes": attributes({"service.name": "bot"})}}
    return {
        "resourceSpans": [
            {**of, "scopeSpans": [{"scope": {"name": "openai"}, "spans": list(spans)}]}
        ]
    }


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4",
}
TOOL = span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}, own="01")


def texts(role: str, *said: str) -> Row:
    return {"role": role, "parts": [{"type": "text", "content": each} for each in said]}


INPUT = [
    texts("system", "You are a helpful bot"),
    texts("user", "Tell me a joke about OpenTelemetry"),
]
THOUGHT = {"type": "reasoning", "content": "Hmm, traces …"}
OUTPUT = [
    {"role": "assistant", "parts": [THOUGHT, *texts("", JOKE)["parts"]], "finish_reason": "stop"}
]
OF_OPENLLMETRY = {
    "gen_ai.system": "openai", "llm.request.type": "chat", "gen_ai.request.model": "gpt-4",
    "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "You are a helpful bot",
    "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "Tell me a joke about OpenTelemetry",
    "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": JOKE,
    "gen_ai.completion.0.finish_reason": "stop", "gen_ai.usage.completion_tokens": 47,
}  # fmt: skip
OPENINFERENCE = {
    "openinference.span.kind": "LLM", "llm.model_name": "gpt-4", "input.value": "{}", "output.value": "{}",
    "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "You are a helpful bot",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Tell me a joke about OpenTelemetry",
    "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": JOKE,
}  # fmt: skip
SPANS = {
    "messages": span({**CHAT, "gen_ai.input.messages": INPUT, "gen_ai.output.messages": OUTPUT}),
    "messages as JSON": span(
        {**CHAT, "gen_ai.input.messages": json.dumps(INPUT), "gen_ai.output.messages": json.dumps(OUTPUT)}
    ),
    "instructions beside": span(
        {
            **CHAT, "gen_ai.system_instructions": INPUT[0]["parts"], "gen_ai.input.messages": INPUT[1:],
            "gen_ai.output.messages": OUTPUT,
        }
    ),
    "numbered": span(OF_OPENLLMETRY),
    "events": span(
        CHAT,
        ("gen_ai.system.message", {"gen_ai.system": "openai", "content": "You are a helpful bot"}),
        ("gen_ai.user.message", {"gen_ai.system": "openai", "content": "Tell me a joke about OpenTelemetry"}),
        ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps({"role": "assistant", "content": JOKE})}),
    ),
    "an event of details": span(
        CHAT,
        ("gen_ai.client.inference.operation.details", {"gen_ai.input.messages": INPUT, "gen_ai.output.messages": OUTPUT}),
    ),
    "OpenInference": span(OPENINFERENCE),
}  # fmt: skip


@pytest.mark.parametrize("found", SPANS.values(), ids=SPANS)
def test_reads_calls_in_otlp_traces(tmp_path: Path, found: Row) -> None:
    data = load_pairs(
        written(tmp_path, "traces.jsonl", as_lines([traces(TOOL), traces(TOOL, found)]))
    )

    assert only(data) == Pair(
        f"{TRACE}/{SPAN}",
        ASKED,
        JOKE,
        {},
        columns={"system": "gpt-4", "trace": TRACE, "span": "chat gpt-4"},
    )
    assert data.notes == (PASSED.format(2),)
    for name, content in (
        ("traces.json", json.dumps(traces(found), indent=1).encode()),
        ("line.json", as_lines([traces(found)])),
        ("spans.ndjson", as_lines([TOOL, found])),
        ("spans.json", as_array([found])),
    ):
        assert list(load_pairs(written(tmp_path, name, content)).pairs) == list(data.pairs)


def test_keeps_the_tools_that_were_called(tmp_path: Path) -> None:
    call = {
        "type": "tool_call",
        "id": "c",
        "name": "get_weather",
        "arguments": {"location": "Paris"},
    }
    asked = [
        texts("user", "Weather in Paris?"),
        {"role": "assistant", "parts": [call]},
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c", "response": "rainy, 57°F"}],
        },
    ]
    first = span(
        {**CHAT, "gen_ai.input.messages": asked[:1], "gen_ai.output.messages": asked[1:2]}, own="a"
    )
    last = span(
        {
            **CHAT,
            "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [texts("assistant", "Rainy.")],
        },
        own="b",
    )
    numbered = {
        name: value for name, value in OF_OPENLLMETRY.items() if "completion" not in name
    } | {
        "gen_ai.completion.0.tool_calls.0.name": "get_weather",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"location":"Paris"}',
    }
    called = '[calls get_weather({"location":"Paris"})]'

    pairs = load_pairs(
        written(tmp_path, "t.jsonl", as_lines([traces(first, last, span(numbered, own="c"))]))
    ).pairs

    assert [pair.response for pair in pairs] == [called, "Rainy.", called]
    assert pairs[1].prompt == f"User: Weather in Paris?\n\nAssistant: {called}\n\nTool: rainy, 57°F"


def test_takes_each_choice_and_the_scores_of_a_span(tmp_path: Path) -> None:
    found = {
        **CHAT,
        "gen_ai.input.messages": INPUT[1:],
        "gen_ai.output.messages": [texts("assistant", "A"), texts("assistant", "B")],
    }
    result = {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 4.0,
        "gen_ai.evaluation.score.label": "good",
    }
    annotated = {"annotations.0.annotation.name": "tone", "annotations.0.annotation.score": 2}
    path = written(
        tmp_path,
        "t.jsonl",
        as_lines([traces(span({**found, **annotated}, ("gen_ai.evaluation.result", result)))]),
    )

    pairs = load_pairs(path, columns={"helpfulness": "score.relevance"}).pairs

    assert [(pair.pair_id, pair.response) for pair in pairs] == [
        (f"{TRACE}/{SPAN}/1", "A"),
        (f"{TRACE}/{SPAN}/2", "B"),
    ]
    assert (pairs[0].human, pairs[0].columns["score.tone"]) == ({"helpfulness": 4.0}, 2)


OBSERVATION: Row = {
    "id": "gen-1", "trace_id": "trace-1", "project_id": "p", "type": "GENERATION", "parent_observation_id": "",
    "start_time": "2024-05-29 13:46:19.963000", "name": "answer", "level": "DEFAULT",
    "input": json.dumps([{"role": each["role"], "content": each["parts"][0]["content"]} for each in INPUT]),
    "output": json.dumps({"role": "assistant", "content": JOKE}),
    "provided_model_name": "gpt-4", "model_parameters": '{"temperature":0.7}', "total_cost": 0.01,
}  # fmt: skip
OTHER = {
    **OBSERVATION,
    "id": "span-1",
    "type": "SPAN",
    "provided_model_name": "",
    "input": "",
    "output": "",
}
OF_UI = {
    "traceId": "trace-1", "model": "gpt-4", "startTime": "2024-05-29T13:46:19.963Z",
    **{name: OBSERVATION[name] for name in ("id", "type", "name", "output")},
    "input": {"messages": json.loads(OBSERVATION["input"])}, "quality": [4, 5], "tone": ["warm"],
}  # fmt: skip
LANGFUSE = Pair(
    "trace-1/gen-1",
    ASKED,
    JOKE,
    {},
    columns={"system": "gpt-4", "trace": "trace-1", "span": "answer"},
)


@pytest.mark.parametrize(
    ("name", "write"),
    [("o.jsonl", as_lines), ("o.json", as_array), ("o.csv", as_csv), ("o.parquet", as_parquet)],
)
def test_reads_generations_of_langfuse(tmp_path: Path, name: str, write: Any) -> None:
    data = load_pairs(written(tmp_path, name, write([OTHER, OBSERVATION])))

    assert only(data) == LANGFUSE
    assert data.notes == (PASSED.format(1),)
    hour = written(tmp_path, f"an-hour-without-{name}", write([OTHER]))  # as its storage is written
    assert list(load_pairs([hour, tmp_path / name]).pairs) == [LANGFUSE]
    assert "not one row can be used (1 read)" in complaint(hour)


def test_reads_what_langfuse_s_pages_and_api_give_out(tmp_path: Path) -> None:
    scored = {**LANGFUSE.columns, "score.quality": 4.5}
    score = {"name": "quality", "value": 4.5, "dataType": "NUMERIC", "observationId": "gen-1"}
    others = [
        {**score, "observationId": "x", "value": 1},
        {**score, "name": "tone", "value": 0, "dataType": "CATEGORICAL"},
    ]
    trace = {
        "id": "trace-1",
        "timestamp": "2024-05-29T13:46:19.963Z",
        "projectId": "p",
        "input": "q",
        "output": "a",
    }
    nested = {key: value for key, value in OF_UI.items() if key not in {"quality", "tone"}}
    observations = [{**OTHER, "traceId": "trace-1"}, nested]
    in_cells = {
        **OF_UI,
        "input": json.dumps(OF_UI["input"]),
        "quality": "[4,5]",
        "tone": '["warm"]',
    }

    for name, content in (
        ("ui.json", as_array([OF_UI])),
        ("ui.csv", as_csv([in_cells])),
        (
            "api.jsonl",
            as_lines([{**trace, "observations": observations, "scores": [score, *others]}]),
        ),
        (
            "download.json",
            json.dumps(
                {"trace": {**trace, "scores": [score, *others]}, "observations": observations}
            ).encode(),
        ),
    ):
        pair = only(load_pairs(written(tmp_path, name, content)))
        assert (pair.pair_id, pair.prompt, pair.response, pair.columns) == (
            LANGFUSE.pair_id,
            ASKED,
            JOKE,
            scored,
        ), name
    alone = only(
        load_pairs(
            written(tmp_path, "traces.jsonl", as_lines([{**trace, "observations": ["gen-1"]}]))
        )
    )
    assert (alone.pair_id, alone.prompt, alone.response) == ("trace-1", "q", "a")


def phoenix_row(own: str, of: str, **more: object) -> Row:
    columns: Row = {
        "name": "llm",
        "span_kind": of,
        "parent_id": None,
        "status_code": "OK",
        "status_message": "",
        "events": [],
    }
    return {
        **columns,
        "context.span_id": own,
        "context.trace_id": "t",
        **{f"attributes.{name}": value for name, value in more.items()},
    }


IN_PHOENIX = [
    {"message.role": "system", "message.content": "You are a helpful bot"},
    {"message.role": "user", "message.content": "Tell me a joke about OpenTelemetry"},
]
CALL = {"tool_call.function.name": "multiply", "tool_call.function.arguments": '{"a": 23}'}
PHOENIX = [
    phoenix_row("c", "CHAIN", **{"input.value": "q", "output.value": "a"}),
    phoenix_row("l", "LLM", **{
        "llm.input_messages": IN_PHOENIX, "llm.model_name": "gpt-4", "output.value": "{}",
        "llm.output_messages": [{"message.role": "assistant", "message.content": JOKE, "message.tool_calls": [CALL]}],
    }) | {"eval.helpfulness.score": 0.5, "eval.helpfulness.label": "so-so"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "write"), [("p.parquet", as_parquet), ("p.jsonl", as_lines), ("p.json", as_array)]
)
def test_reads_spans_of_phoenix(tmp_path: Path, name: str, write: Any) -> None:
    data = load_pairs(written(tmp_path, name, write(PHOENIX)))

    assert only(data) == Pair(
        *("t/l", ASKED, f'{JOKE}\n[calls multiply({{"a": 23}})]', {}),
        columns={"system": "gpt-4", "trace": "t", "span": "llm", "score.helpfulness": 0.5},
    )
    assert data.notes == (PASSED.format(1),)


def test_reads_phoenix_s_frames_and_its_json(tmp_path: Path) -> None:
    from robin_cli import load_pairs as from_python

    frame = pd.DataFrame(PHOENIX).set_index("context.span_id")
    (pair,) = from_python(frame)
    assert (pair.prompt, pair.columns["system"]) == (ASKED, "gpt-4")

    flat = {"llm.model_name": "gpt-4", "input.value": "Hi?", "output.value": "Ho."}
    nested = {"llm": {"model_name": "gpt-4"}, "input": {"value": "Hi?"}, "output": {"value": "Ho."}}
    for number, each in enumerate((flat, nested)):
        row = {
            "id": "U3Bh",
            "name": "llm",
            "context": {"trace_id": "t", "span_id": "s"},
            "span_kind": "LLM",
            "attributes": each,
        }
        note = {"name": "tone", "annotator_kind": "HUMAN", "result": {"score": 1, "label": "warm"}}
        found = only(
            load_pairs(
                written(tmp_path, f"{number}.jsonl", as_lines([{**row, "annotations": [note]}]))
            )
        )
        assert (found.pair_id, found.prompt, found.response, found.columns["score.tone"]) == (
            "t/s",
            "Hi?",
            "Ho.",
            1,
        )


def test_says_where_a_trace_cannot_be_judged(tmp_path: Path) -> None:
    silent, good = span(CHAT, own="a"), SPANS["numbered"]
    path = written(tmp_path, "t.jsonl", as_lines([traces(TOOL), traces(silent, good)]))
    assert complaint(path).startswith("t.jsonl:2: the prompt of span a is null")
    data = load_pairs(path, skip_bad_rows=True)
    assert (only(data).response, data.skipped, data.notes) == (JOKE, 1, (PASSED.format(1),))

    for number, (row, said) in enumerate([
        (traces(TOOL), "t.jsonl: not one row can be used (1 read). The first: t.jsonl:1: span 01: execute_tool, no call of a"),
        ({"resourceSpans": 7}, "t.jsonl:1: resourceSpans: holds a number, and should be a list of objects."),
        ({"resourceSpans": [7]}, "t.jsonl:1: resourceSpans: holds a number"),
        (traces({**good, "attributes": {"a": 1}}), f"t.jsonl:1: the attributes of span {SPAN}: holds an object"),
        (traces(span({**CHAT, "gen_ai.input.messages": INPUT})), f"t.jsonl:1: the answer of span {SPAN} is not in the trace."),
        (traces(span({**CHAT, "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "uri", "uri": "x"}]}]})),
         f"t.jsonl:1: part 1 of message 1 of the prompt of span {SPAN} is not text (uri)"),
        ({**OBSERVATION, "output": ""}, "t.jsonl:1: the output of generation gen-1 is not there."),
        ({**OBSERVATION, "input": ""}, "t.jsonl:1: the input of generation gen-1 is null"),
    ]):  # fmt: skip
        assert complaint(written(tmp_path, "t.jsonl", as_lines([row]))).startswith(said), number


def test_refuses_what_is_nested_without_end(tmp_path: Path) -> None:
    value: Row = {"stringValue": "x"}
    for _ in range(300):
        value = {"arrayValue": {"values": [value]}}
    deep = {**span({}), "attributes": [{"key": "gen_ai.prompt.0.content", "value": value}]}
    assert "an attribute is nested too deeply" in complaint(
        written(tmp_path, "t.jsonl", as_lines([traces(deep)]))
    )
    bottom: Any = "x"
    for _ in range(300):
        bottom = {"a": bottom}
    for row in (
        {
            "name": "llm",
            "context": {},
            "span_kind": "LLM",
            "attributes": {"llm": bottom, "input": {"value": "q"}},
        },
        {**OBSERVATION, "input": bottom, "output": ""},
    ):
        assert "t.jsonl:1: " in complaint(written(tmp_path, "t.jsonl", as_lines([row])))


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from(["[{}]", '{"messages":[]}', "LLM"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
        "role", "content", "parts", "message", "tool_calls", "type", "text", "key", "value", "stringValue", "arrayValue",
        "values", "messages", "choices", "message.role", "tool_call", "function", "toolUse", "name", "score", "result",
        "contents",
    ]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
SHAPES = [
    (otlp.LOG, ["resourceSpans", "scopeSpans", "traceId", "spanId", "attributes", "events"]),
    (phoenix.LOG, ["context", "context.span_id", "span_kind", "attributes", "annotations", "attributes.llm.input_messages",
                   "attributes.llm.output_messages", "attributes.input.value", "attributes.output.value", "eval.x.score"]),
    (langfuse.LOG, ["id", "trace_id", "type", "input", "output", "timestamp", "observations", "scores", "trace", "model", "x"]),
]  # fmt: skip


@pytest.mark.parametrize(("log", "names"), SHAPES, ids=["otlp", "phoenix", "langfuse"])
@given(data=st.data())
def test_reads_or_refuses_whatever_stands_in_a_trace(
    log: Any, names: list[str], data: st.DataObject
) -> None:
    row = data.draw(st.dictionaries(st.sampled_from(names), JSON))
    if data.draw(st.booleans()) and log is otlp.LOG:
        row = traces(
            {
                **span(
                    data.draw(
                        st.dictionaries(
                            st.sampled_from(
                                [*OF_OPENLLMETRY, *OPENINFERENCE, "gen_ai.input.messages"]
                            ),
                            st.text() | st.integers(),
                        )
                    )
                ),
                "x": 1,
            }
        )
    row = {"span_kind": "LLM", "context.span_id": "s", **row} if log is phoenix.LOG else row
    if not log.is_sample(row):
        return
    with suppress(BadRow):
        for each in log.reading("")(row):
            assert isinstance(each, BadRow) or {"prompt", "response"} <= each.keys()
