"""Read MLflow's tables of evaluations (https://mlflow.org), saved as CSV or Parquet.

Those of ``mlflow.genai.evaluate`` have ``request`` and ``response``, and ``NAME/value`` of scorers
and expectations; those of ``mlflow.models.evaluate`` have ``inputs``, ``predictions`` or
``outputs``, and ``NAME/score``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from robin_cli.data.logs import Log
from robin_cli.data.rows import BadRow, Row
from robin_logs.base import OR_SKIP, as_json, as_object, as_text, name_of, scalars

_PROMPTS, _RESPONSES = ("request", "inputs"), ("response", "predictions", "outputs")
_SCORES = ("/value", "/score")
_EXPECTED = "expected_"
_ANSWERS = {"yes": 1, "no": 0}
"""The words of MLflow's judges, as scores."""


def _is_row(row: Row) -> bool:
    has_texts = not row.keys().isdisjoint(_PROMPTS) and not row.keys().isdisjoint(_RESPONSES)
    return has_texts and any(name.endswith(_SCORES) for name in row)


def _rows(entry: Row) -> Iterator[Row]:
    (row,) = _scored(entry)
    if not row["response"]:
        raise BadRow(f"the row has no response. Run the evaluation again{OR_SKIP}", "no response")
    yield {**row, "id": name_of(entry.get("trace_id"))} if entry.get("trace_id") else row


def _scored(entry: Row) -> Iterator[Row]:
    """Return a row's scores; without an id, so that the same prompt names the same sample."""
    prompt, response = _prompt(_first(entry, _PROMPTS)), _answer(_first(entry, _RESPONSES))
    values = {
        name.rpartition("/")[0]: value for name, value in entry.items() if name.endswith(_SCORES)
    }
    reference = name_of(values.get(f"{_EXPECTED}response") or entry.get("ground_truth"))
    scores = {
        name: _ANSWERS.get(str(value), value)
        for name, value in values.items()
        if value != "" and not name.startswith(_EXPECTED)
    }
    row: Row = {"prompt": prompt, "response": response}
    yield row | ({"reference": reference} if reference else {}) | scalars("score", scores)


def _first(entry: Row, names: tuple[str, ...]) -> object:
    """Return the first of these cells that has a value."""
    return next((entry[name] for name in names if entry.get(name) is not None), "")


def _object_in(cell: object) -> object:
    """Return the object or the conversation in a cell: CSV holds them as Python writes them."""
    if isinstance(cell, str) and cell.startswith(("{", "[{")):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(cell)
    return cell


def _prompt(asked: object) -> str:
    """Return a text, a conversation, the only input, or several inputs by name, a line for each."""
    inputs = as_object(_object_in(asked))
    inputs = {name: value for name, value in inputs.items() if value is not None}
    if len(inputs) > 1 and "messages" not in inputs:
        return "\n".join(f"{name}: {as_json(value)}" for name, value in inputs.items())
    only = inputs.get("messages") or next(iter(inputs.values()), _object_in(asked))
    return as_text(only, "the request")


def _answer(answer: object) -> str:
    """Return the text of a chat completion; any other answer as it is."""
    choices = as_object(_object_in(answer)).get("choices")
    first = as_object(choices[0]) if isinstance(choices, list) and choices else {}
    return as_json(as_object(first.get("message")).get("content") or answer)


LOG = Log(_is_row, lambda _place: _rows, scores=lambda _place: _scored)
