"""Read test runs of DeepEval (https://deepeval.com): files of DEEPEVAL_RESULTS_FOLDER and .deepeval."""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.data.logs import Log
from robin_cli.data.rows import BadRow, Row
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_object, as_text, joined, name_of, scalars

_HEAD = "hyperparameters"


def _is_case(row: Row) -> bool:
    return row.keys() >= {"name", "input", "success", "order"}


def _rows(case: Row) -> Iterator[Row]:
    name = joined(case["name"], case["order"])
    answer = case.get("actualOutput")
    if not isinstance(answer, str):
        raise BadRow(
            f"test case {shown(name)}: has no output. Run it again{OR_SKIP}", "no response"
        )
    (row,) = _scored(case)
    yield {"id": joined(row.get("system"), name), **row, "response": answer}


def _scored(case: Row) -> Iterator[Row]:
    """Return a case's scores; without an id, so that the same input names the same sample."""
    metrics = case.get("metricsData")
    scores = {
        name_of(metric.get("name")): metric.get("score")
        for metric in map(as_object, metrics if isinstance(metrics, list) else [])
    }
    row: Row = {
        "prompt": as_text(case["input"], f"the input of test case {shown(case['name'])}"),
        "response": name_of(case.get("actualOutput")),
        "system": name_of(as_object(case.get(_HEAD)).get("model")),
        "reference": name_of(case.get("expectedOutput")),
    }
    metadata = case.get("metadata") or case.get("additionalMetadata")  # before version 4
    further = scalars("score", scores) | scalars("metadata", metadata)
    yield {name: value for name, value in row.items() if value != ""} | further


LOG = Log(_is_case, lambda _place: _rows, "testCases", _HEAD, scores=lambda _place: _scored)
