"""Judgments as Arrow tables: the columns of the contract and their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from robin_cli.model.records import Judgment

JUDGMENTS = pa.schema(
    [
        pa.field("pair_id", pa.string(), nullable=False),
        pa.field("attribute", pa.string(), nullable=False),
        pa.field("rating", pa.int32()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("feedback", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("finish_reason", pa.string()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        pa.field("cost_usd", pa.float64()),
        pa.field("latency_s", pa.float64(), nullable=False),
        pa.field("request_id", pa.string()),
        pa.field("received_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("draw", pa.int64(), nullable=False),
        pa.field("usage_estimated", pa.bool_(), nullable=False),
        pa.field("judge", pa.string(), nullable=False),
        pa.field("scoring", pa.string(), nullable=False),
        pa.field("expected_rating", pa.float64()),
        pa.field("off_scale_mass", pa.float64()),
        pa.field("text_because", pa.string()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("reasoning_tokens", pa.int64()),
        pa.field("fingerprint", pa.string()),
        pa.field("probabilities", pa.string()),
    ]
)


def judgments_table(rows: Iterable[Judgment | Mapping[str, Any]]) -> pa.Table:
    """Return judgments, or rows of the journal, as a table with the columns of the contract.

    Raises:
        TypeError, ValueError, OverflowError: a value is missing, or of the wrong type.
    """
    names, fields = JUDGMENTS.names, attrgetter(*JUDGMENTS.names)
    listed = [
        tuple(map(row.get, names)) if isinstance(row, Mapping) else fields(row) for row in rows
    ]
    columns: dict[str, Sequence[Any]] = dict(
        zip(names, zip(*listed, strict=True) if listed else ((),) * len(names), strict=True)
    )
    columns["received_at"] = [round(seconds * 1e6) for seconds in columns["received_at"]]
    table = pa.table(columns, schema=JUDGMENTS)
    for field in JUDGMENTS:
        if not field.nullable and table[field.name].null_count:
            raise TypeError(f'a row has no "{field.name}"')
    return table
