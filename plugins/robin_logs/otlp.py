"""Read calls of models from OpenTelemetry traces: OTLP JSON, one object per line or per file, or one span per line.

Files are as https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/ has them, attributes and events as
https://opentelemetry.io/docs/specs/semconv/gen-ai/ (messages in attributes, and the events of 1.36 and before), OpenLLMetry
(gen_ai.prompt.0.content) and https://arize-ai.github.io/openinference/spec/ (llm.input_messages.0.message.content).
"""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.datasets.logs import Log
from robin_cli.datasets.rows import BadRow, Passed, Row, kind
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_object, joined, name_of
from robin_logs.messages import (
    NO_CALL,
    answered,
    asked,
    messages_in,
    numbered,
    numbers,
    parsed,
    said,
)

_DEEPEST = 32
_GENERATES = {"chat", "text_completion", "generate_content", "completion"}
_CONTENT = (
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.choice",
)
_WITH_MESSAGES = {
    "gen_ai.client.inference.operation.details",
    "gen_ai.content.prompt",
    "gen_ai.content.completion",
}
"""Events whose data other versions store as attributes of the span."""

Events = list[tuple[str, Row]]


def _is_sample(row: Row) -> bool:
    return (
        "resourceSpans" in row
        or "scopeSpans" in row
        or row.keys() >= {"traceId", "spanId", "attributes"}
    )


def _rows(sample: Row) -> Iterator[Row | BadRow]:
    for span in _spans(sample):
        trace, own = name_of(span.get("traceId")), name_of(span.get("spanId"))
        called = f"span {shown(own)}"
        try:
            attributes = _attributes(span.get("attributes"), called)
            events = [
                (name_of(each.get("name")), _attributes(each.get("attributes"), called))
                for each in _objects(span.get("events"), f"the events of {called}")
            ]
            for row in call_of(attributes, events, called, joined(trace, own)):
                more = {"trace": trace, "span": name_of(span.get("name"))}
                yield {**row, **{name: value for name, value in more.items() if value}}
        except BadRow as bad:  # the line's other spans may be usable
            yield bad


def _spans(sample: Row) -> Iterator[Row]:
    if "spanId" in sample:
        yield sample
        return
    for resource in (
        _objects(sample["resourceSpans"], "resourceSpans")
        if "resourceSpans" in sample
        else [sample]
    ):
        for scope in _objects(resource.get("scopeSpans"), "scopeSpans"):
            yield from _objects(scope.get("spans"), "spans")


def call_of(attributes: Row, events: Events, called: str, own_id: str) -> Iterator[Row]:
    """Return the pairs of one call, one for each answer. Passed for a span that calls no model, BadRow if it has no texts.

    Args:
        attributes: the span's, by dotted names; messages may also be in lists.
        events: the span's, with their attributes.
    """
    for name, more in events:
        if name in _WITH_MESSAGES:
            attributes = {**more, **attributes}
    _check_call(attributes, events, called)
    prompt = asked(_prompt(attributes, events), f"the prompt of {called}")
    model = map(
        name_of,
        map(attributes.get, ("gen_ai.request.model", "llm.model_name", "gen_ai.response.model")),
    )
    row: Row = {"prompt": prompt, **_scores(attributes, events)}
    if system := next(filter(None, model), ""):
        row["system"] = system
    answers = _answers(attributes, events, f"the answer of {called}")
    for number, answer in enumerate(answers, 1):
        of_several = number if len(answers) > 1 else ""
        yield {**({"id": joined(own_id, of_several)} if own_id else {}), **row, "response": answer}


def _check_call(attributes: Row, events: Events, called: str) -> None:
    of = name_of(attributes.get("openinference.span.kind")).lower()
    operation = name_of(
        attributes.get("gen_ai.operation.name") or attributes.get("llm.request.type")
    )
    names = (*attributes, *(name for name, _ in events))
    if of or operation:
        is_call = of == "llm" if of else operation in _GENERATES
    else:
        is_call = any(name.startswith(_CONTENT) for name in names)
    if not is_call:
        raise Passed(
            f"{called}: {shown(of or operation) or 'another span'}, no call of a model", NO_CALL
        )


def _prompt(attributes: Row, events: Events) -> object:
    sources = (
        attributes.get("gen_ai.input.messages"),
        numbered(attributes, "gen_ai.prompt"),
        attributes.get("llm.input_messages"),
        numbered(attributes, "llm.input_messages"),
        [
            {
                "role": name.split(".")[1],
                **as_object(parsed(more.get("gen_ai.event.content"))),
                **more,
            }
            for name, more in events
            if name.startswith("gen_ai.") and name.endswith(".message")
        ],
        attributes.get("gen_ai.prompt"),
        attributes.get("input.value"),
    )
    found = next(filter(None, sources), None)
    messages = messages_in(found, "user", known=isinstance(found, list))
    told = parsed(attributes.get("gen_ai.system_instructions"))
    if messages and told:
        messages.insert(
            0, {"role": "system", "parts" if isinstance(told, list) else "content": told}
        )
    return messages or found


def _answers(attributes: Row, events: Events, called: str) -> list[str]:
    """Return the answers, several if there are several choices. OpenInference has the messages of one."""
    choices = (
        attributes.get("gen_ai.output.messages"),
        numbered(attributes, "gen_ai.completion"),
        [more for name, more in events if name == "gen_ai.choice"],
    )
    if messages := messages_in(next(filter(None, choices), None), "assistant", known=True):
        return [said([each], called) for each in messages]
    one = (
        attributes.get("llm.output_messages"),
        numbered(attributes, "llm.output_messages"),
        attributes.get("gen_ai.completion"),
        attributes.get("output.value"),
    )
    found = next(filter(None, one), None)
    if found is None:
        raise BadRow(
            f"{called} is not in the trace. Have contents recorded: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
            f"{OR_SKIP}",
            "no response",
        )
    return [answered(found, called)]


def _scores(attributes: Row, events: Events) -> Row:
    """Return the numbers of evaluations attached to the span."""
    found = [
        (each.get(f"{of}.name"), each.get(f"{of}.score"))
        for of in ("annotation", "evaluation")
        for each in numbered(attributes, f"{of}s")
    ]
    results = [more for name, more in events if name == "gen_ai.evaluation.result"]
    found += [
        (more.get("gen_ai.evaluation.name"), more.get("gen_ai.evaluation.score.value"))
        for more in results
    ]
    return numbers("score", found)


def _attributes(found: object, called: str) -> Row:
    named = _objects(found, f"the attributes of {called}")
    return {name_of(each.get("key")): _value(each.get("value"), called) for each in named}


def _value(found: object, called: str, depth: int = 0) -> object:
    """Return the value in OTLP JSON's wrapper; whole numbers are texts there."""
    if depth > _DEEPEST:
        raise BadRow(
            f"{called}: an attribute is nested too deeply. Correct it{OR_SKIP}", "nested too deeply"
        )
    for name, value in as_object(found).items():
        if name == "arrayValue":
            return [
                _value(each, called, depth + 1)
                for each in _objects(as_object(value).get("values"), "an arrayValue")
            ]
        if name == "kvlistValue":
            pairs = _objects(as_object(value).get("values"), "a kvlistValue")
            return {
                name_of(each.get("key")): _value(each.get("value"), called, depth + 1)
                for each in pairs
            }
        if (
            name == "intValue"
            and isinstance(value, str)
            and len(value) < 20
            and value.removeprefix("-").isdecimal()
        ):
            return int(value)
        return value
    return None


def _objects(found: object, called: str) -> list[Row]:
    """Return a list of objects, empty for None. BadRow for any other value."""
    if found is None:
        return []
    wrong = (
        found
        if not isinstance(found, list)
        else next((each for each in found if not isinstance(each, dict)), found)
    )
    if wrong is not found or not isinstance(found, list):
        raise BadRow(
            f"{called}: holds {kind(wrong)}, and should be a list of objects. Correct it{OR_SKIP}",
            "no span",
        )
    return found


LOG = Log(_is_sample, lambda _place: _rows, "resourceSpans")
