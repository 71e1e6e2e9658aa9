"""JSON objects for scripts."""

from __future__ import annotations

import sys

import orjson


def print_json(*values: object, indent: bool = False) -> None:
    """Print each of ``values`` as JSON on standard output, one per line, or an ``indent``ed block."""
    lines = (
        orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None) + b"\n"
        for value in values
    )
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()
