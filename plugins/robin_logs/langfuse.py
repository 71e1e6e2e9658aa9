"""Read generations, and traces without any, from Langfuse's exports: JSON, CSV or Parquet, from storage, pages or API.

Fields are those of https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields (provided_model_name),
those of https://langfuse.com/docs/api-and-data-platform/features/export-from-ui and of the API (model, traceId; scores are
columns with lists there), and those of a trace that was downloaded as JSON, with its observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from robin_cli.datasets.logs import Log
from robin_cli.datasets.rows import BadRow, Passed, Row
from robin_cli.model.errors import shown
from robin_logs.base import as_object, joined, name_of
from robin_logs.messages import NO_CALL, answered, asked, numbers, parsed

_TRACES = {"project_id", "projectId", "session_id", "sessionId", "observations", "release"}
"""Every trace has one of these, beside its id, timestamp, input and output."""

_NUMBERS = re.compile(r"\[[-+.,\d\seE]{1,1000}\]")
"""A list of numbers in a cell of a CSV file."""


def _is_sample(row: Row) -> bool:
    is_one = row.keys() >= {"id", "input", "output"}
    of_trace = not {"trace_id", "traceId"}.isdisjoint(row) and "type" in row
    return is_one and (of_trace or ("timestamp" in row and not _TRACES.isdisjoint(row)))


def _rows(sample: Row) -> Iterator[Row | BadRow]:
    nested = sample.get("observations")
    inner = [each for each in nested if isinstance(each, dict)] if isinstance(nested, list) else []
    for each in inner or [sample]:
        try:
            yield _pair(each, sample if inner else as_object(sample.get("trace")))
        except BadRow as bad:  # the trace's other observations may be usable
            yield bad


def _pair(found: Row, trace: Row) -> Row:
    """Return the pair of an observation, whose trace may be given, or of a trace itself."""
    own, of = name_of(found.get("id")), found.get("type")
    called = f"{shown(name_of(of).lower()) or 'trace'} {shown(own)}"
    if of is not None and of != "GENERATION":
        raise Passed(f"{called}: no call of a model", NO_CALL)
    of_trace = name_of(found.get("trace_id") or found.get("traceId"))
    row: Row = {
        "id": joined(of_trace, own),
        "prompt": asked(found.get("input") or None, f"the input of {called}"),
        "response": answered(found.get("output"), f"the output of {called}"),
    }
    model = map(name_of, map(found.get, ("provided_model_name", "providedModelName", "model")))
    more = {
        "system": next(filter(None, model), ""),
        "trace": of_trace,
        "span": name_of(found.get("name")),
    }
    row |= {name: value for name, value in more.items() if value}
    return {**row, **_scores(found, trace, own)}


def _scores(found: Row, trace: Row, own: str) -> Row:
    """Return the numeric scores: from a list, those of this observation or its whole trace; or from columns with lists."""
    listed = [each for of in (trace, found) for each in _list(of.get("scores"))]
    own_or_all = [
        each for each in map(as_object, listed) if each.get("observationId") in (None, own)
    ]
    named: list[tuple[object, object]] = [
        (each.get("name"), each.get("value"))
        for each in own_or_all
        if each.get("dataType") in (None, "NUMERIC", "BOOLEAN")
    ]
    for name, value in found.items():
        several = parsed(value) if isinstance(value, str) and _NUMBERS.fullmatch(value) else value
        if (
            isinstance(several, list)
            and several
            and all(isinstance(each, (int, float)) for each in several)
        ):
            named.append((name, sum(several) / len(several)))
    return numbers("score", named)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


LOG = Log(_is_sample, lambda _place: _rows, "observations", "trace", frozenset({"id"}))
