"""A report as one HTML file: it opens offline, asks no network, and runs nothing but the script it brings along."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.render.html import PageColumn
from robin_cli.render.text import plain
from robin_cli.views.report.pictures import Picture
from robin_cli.views.report.rows import Texts, packed

MOST_ROWS = 10_000
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class View:
    """A choice of rows: those whose value in ``column`` is ``test`` (above, below, is, isnt, ends) ``value``."""

    name: str
    column: str
    test: str
    value: Any


@dataclass(frozen=True, slots=True)
class Order:
    """A choice of what comes first: the largest in a column, of a range the widest, of two columns those furthest apart.

    Where rows have scales of their own, shares of the scale to this ``power`` are compared. No columns: the order of the data.
    ``unknown_last``: rows without a range, which are as wide as can be, are not what is looked for.
    """

    name: str
    columns: Sequence[str] = ()
    power: int = 0
    unknown_last: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """What the column of kind bar draws of a row, by the names of other columns; '' for what there is not.

    Attributes:
        says: what is drawn, in words.
        tick, ring: values that are marked.
        thick, thin: ranges that are drawn as lines.
        scales: from where to where each scale goes.
    """

    says: str
    tick: str
    thick: str
    thin: str
    ring: str
    scales: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of the table are, in words.

    Attributes:
        name: their heading.
        find: what can be looked for.
        opens: what a row opens to.
        texts: the headings of the texts there.
    """

    name: str
    find: str
    opens: str
    texts: Sequence[str]


PAIRS = Rows("Pairs", "a pair’s id, an attribute", "its prompt, response and feedbacks", ("Prompt", "Response"))


@dataclass(frozen=True, slots=True)
class Page:
    """What a report shows, from top to bottom.

    Attributes:
        title, subtitle: what was judged, and by whom.
        headline: the few figures that matter most: name, value, a note.
        warnings: what a reader must know before believing the figures.
        facts: everything else about the run, by name.
        columns: the table, and ``pairs``: of each of its rows the pair's position in ``texts``.
        bar: how its bars are drawn.
        orders: the orders to choose from, the first the one that it opens with.
        views: choices of rows, beside all.
        left_out: rows that the table does not have, for they were too many.
        rows: what they are.
    """

    title: str
    subtitle: str
    headline: Sequence[tuple[str, str, str]]
    warnings: Sequence[str]
    pictures: Sequence[Picture]
    facts: Mapping[str, Mapping[str, str]]
    columns: Sequence[PageColumn]
    pairs: Sequence[int]
    texts: Texts
    bar: Bar
    orders: Sequence[Order]
    views: Sequence[View] = field(default_factory=tuple)
    left_out: str = ""
    rows: Rows = PAIRS


def first_rows(*keys: FloatArray, most: int = MOST_ROWS) -> IntArray:
    """The rows that a table has, in their order: all, or ``most``, as many as fit with the largest of each key and of a sample.

    The sample is random, and the same for as many rows, so two reports of one run have the same.
    """
    count = len(keys[0])
    if count <= most:
        return np.arange(count)
    best = np.full(count, count)
    sample = np.random.default_rng(count).permutation(count).astype(np.float64)
    for key in (*keys, sample):
        known = np.flatnonzero(~np.isnan(key))
        place = known[np.argsort(-key[known], kind="stable")]
        best[place] = np.minimum(best[place], np.arange(len(place)))
    return np.sort(np.argsort(best, kind="stable")[:most])


def html(page: Page) -> str:
    """The page as HTML. All that comes from data and models is escaped, or reaches the page as text through its script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    data = {
        "columns": [{"name": each.name, "kind": each.kind} for each in page.columns],
        "bar": asdict(page.bar),
        "orders": [asdict(each) for each in page.orders],
        "views": [asdict(each) for each in page.views],
        "rows": packed(list(zip(*(each.values for each in page.columns), page.pairs, strict=True))),
        "texts": page.texts.blocks,
        "block": page.texts.block,
        "headings": page.rows.texts,
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
