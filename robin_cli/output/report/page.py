"""A report as one HTML file: it opens offline, asks no network, and runs nothing but the script it brings along."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from robin_cli.output.report.pictures import Picture
from robin_cli.output.report.rows import Texts, packed
from robin_cli.output.text import plain

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table. ``kind``: id, text, number, score, interval or count; ``says`` explains it in a few words."""

    name: str
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class View:
    """A choice of rows: those whose value in ``column`` is ``test`` (above, below, is, isnt) ``value``."""

    name: str
    column: str
    test: str
    value: Any


@dataclass(frozen=True, slots=True)
class Page:
    """What a report shows, from top to bottom.

    Attributes:
        title, subtitle: what was judged, and by whom.
        headline: the few figures that matter most: name, value, a note.
        warnings: what a reader must know before believing the figures.
        facts: everything else about the run, by name.
        columns, rows: the table, a list of values a row; the last value of a row is its pair's position in ``texts``.
        views: choices of rows, beside all.
        left_out: rows that the table does not have, for they were too many.
    """

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]
    warnings: Sequence[str]
    pictures: Sequence[Picture]
    facts: Mapping[str, Mapping[str, str]]
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    texts: Texts
    views: Sequence[View] = field(default_factory=tuple)
    left_out: str = ""


def html(page: Page) -> str:
    """The page as HTML. All that comes from data and models is escaped, or reaches the page as text through its script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    data = {
        "columns": [{"name": each.name, "kind": each.kind} for each in page.columns],
        "views": [
            {"name": each.name, "column": each.column, "test": each.test, "value": each.value} for each in page.views
        ],
        "rows": packed(page.rows),
        "texts": page.texts.blocks,
        "block": page.texts.block,
    }
    return environment.get_template("report.html.jinja").render(
        page=page,
        plain=plain,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=orjson.dumps(data).decode().replace("<", "\\u003c"),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
