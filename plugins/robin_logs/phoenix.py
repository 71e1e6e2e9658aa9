"""Read calls of models from spans exported by Arize's Phoenix: a table, Parquet or CSV, or JSON.

Tables are those of ``Client().spans.get_spans_dataframe()``
(https://arize.com/docs/phoenix/tracing/how-to-tracing/importing-and-exporting-traces/exporting-annotated-spans), with
attributes by https://arize-ai.github.io/openinference/spec/semantic_conventions.html; JSON is as the Span of
https://arize.com/docs/phoenix/sdk-api-reference/rest-api, also with annotations as its list_span_annotations has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.datasets.logs import Log
from robin_cli.datasets.rows import Row
from robin_cli.model.errors import shown
from robin_logs.base import as_object, joined, name_of
from robin_logs.messages import numbers, parsed
from robin_logs.otlp import call_of

_ATTRIBUTES = "attributes."


def _is_sample(row: Row) -> bool:
    is_one = (
        "context.span_id" in row
        or "context.trace_id" in row
        or isinstance(row.get("context"), dict)
    )
    return is_one and "span_kind" in row


def _rows(sample: Row) -> Iterator[Row]:
    context = as_object(sample.get("context"))
    trace, own = (
        name_of(sample.get(f"context.{name}") or context.get(name))
        for name in ("trace_id", "span_id")
    )
    attributes = _flat(as_object(sample.get("attributes")))
    attributes |= {
        name.removeprefix(_ATTRIBUTES): parsed(value) if name.endswith("_messages") else value
        for name, value in sample.items()
        if name.startswith(_ATTRIBUTES) and value is not None
    }
    attributes["openinference.span.kind"] = (
        sample["span_kind"] or attributes.get("openinference.span.kind") or "UNKNOWN"
    )
    more = {"trace": trace, "span": name_of(sample.get("name"))}
    for row in call_of(attributes, [], f"span {shown(own)}", joined(trace, own)):
        yield {**row, **{name: value for name, value in more.items() if value}, **_scores(sample)}


def _flat(found: Row) -> Row:
    """Flatten nested objects to values by dotted names; lists stay."""
    flat: Row = {}
    left = list(found.items())
    while left:
        name, value = left.pop()
        if isinstance(value, dict) and len(name) < 200:
            left += [(f"{name}.{inner}", each) for inner, each in value.items()]
        else:
            flat[name] = value
    return flat


def _scores(sample: Row) -> Row:
    """Return the numbers of evaluations (columns eval.NAME.score) and of annotations from any annotator."""
    found: list[tuple[object, object]] = [
        (name.removeprefix("eval.").removesuffix(".score"), value)
        for name, value in sample.items()
        if name.startswith("eval.") and name.endswith(".score")
    ]
    annotations = parsed(sample.get("annotations"))
    given = map(as_object, annotations if isinstance(annotations, list) else [])
    found += [
        (each.get("name"), as_object(each.get("result")).get("score", each.get("score")))
        for each in given
    ]
    return numbers("score", found)


LOG = Log(_is_sample, lambda _place: _rows)
