"""A report as one HTML file, readable offline, with no network access and only its own script."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from robin_cli.goals.found import Found, View
from robin_cli.goals.people import range_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import number_of
from robin_cli.show.charts import Chart
from robin_cli.show.drawing import picture
from robin_cli.show.html import OF_DATA, PageColumn, own_columns, page_columns
from robin_cli.show.report.rows import Texts, packed
from robin_cli.show.status import Status
from robin_cli.show.tables import Beside, Table
from robin_cli.show.text import plain
from robin_cli.stats.agreement import Agreement

MOST_ROWS = 10_000
_FEW_VALUES = 12
"""Of a column of the data, by which rows can be chosen."""
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows, whose value in ``column`` is ``test`` (above, below, is, isnt, ends) ``value``."""

    name: str
    column: str
    test: str
    value: Any


@dataclass(frozen=True, slots=True)
class Order:
    """An order of rows: the largest value of a column first, the widest range, or the largest distance of two columns.

    Where rows have scales of their own, shares of the scale to this ``power`` are compared. No columns: the order in which
    :meth:`Listing.rows` has them, that of the data where there is no key.
    ``unknown_last``: rows without a range, which are as wide as can be, are not what is looked for.
    """

    name: str
    columns: Sequence[str] = ()
    power: int = 0
    unknown_last: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """The data of the column of kind bar, by the names of other columns; '' for missing parts.

    Attributes:
        says: a description of the bar.
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


def thin_line(view: View) -> str:
    """Return what the thin line of a bar is, in words."""
    return ", the thin one the guaranteed interval" * view.guaranteed


@dataclass(frozen=True, slots=True)
class Words:
    """The words about a table's rows.

    Attributes:
        name: their heading.
        find: the description of the search.
        opens: the description of an open row.
        texts: the headings of the texts there.
    """

    name: str
    find: str
    opens: str
    texts: Sequence[str]


WORDS = {
    "rate": Words(
        "Pairs",
        "a pair’s id, an attribute",
        "its prompt, response and feedbacks",
        ("Prompt", "Response"),
    ),
    "prefer": Words(
        "Comparisons",
        "a comparison’s id, a system",
        "its prompt, both responses and the feedbacks; where B came first the judge calls it response A",
        ("Prompt", "Response A", "Response B"),
    ),
}
"""By the kind of question that the answers are to."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The table of a page, whose rows open to show their texts.

    Attributes:
        table: all rows.
        orders: those to choose from, the first the one that it opens with; of each the key of every row: the larger, the sooner
            it comes, and nan: last. None for the order of the data.
        bar: how its bars are drawn, under this ``heading``, with what they say.
        scale: which of the bar's scales each row has, shape (rows,).
        views: choices of rows, beside all; those on columns that the table does not show are left out.
        texts: those of rows by number: of each its place among the texts, and these.
        own: columns of the data, which can be looked for.
    """

    table: Table
    orders: Mapping[Order, FloatArray | None]
    bar: Bar
    heading: tuple[str, str]
    scale: Sequence[int] | NDArray[np.integer[Any]]
    views: Sequence[Filter]
    texts: Callable[[IntArray], tuple[IntArray, Texts]]
    words: Words
    own: Beside = lambda _rows: {}

    def rows(self) -> IntArray:
        """Return the rows that fit in a page, in the order without columns."""
        keys = [key for key in self.orders.values() if key is not None]
        rows = first_rows(len(self.table), *keys)
        own = next((key for order, key in self.orders.items() if not order.columns), None)
        return rows if own is None else rows[np.argsort(-own[rows], kind="stable")]

    def columns(self, rows: IntArray) -> list[PageColumn]:
        """Return the page's data of ``rows``."""
        name, says = self.heading
        bar = PageColumn(name, "bar", says, np.asarray(self.scale)[rows].tolist())
        shown = page_columns(self.table, rows, bar)
        return [*shown, *own_columns(self.own(rows), shown, "hidden")]

    def choices(self, columns: Sequence[PageColumn]) -> list[Filter]:
        """Return the selections of rows among ``columns``; a data column with few values has one for each value."""
        there = {each.name for each in columns}
        found = [each for each in self.views if each.column in there]
        for each in columns:
            values = sorted({*each.values} - {""}) if each.says == OF_DATA else []
            if 1 < len(values) <= _FEW_VALUES:
                found += [
                    Filter(f"{each.name}: {value}", each.name, "is", value) for value in values
                ]
        return found

    def left_out(self, shown: int) -> str:
        """Return a note on rows of which only some are ``shown``; "" if all are."""
        rows = len(self.table)
        if shown == rows:
            return ""
        names = ", ".join(
            f"“{order.name}”" for order, key in self.orders.items() if key is not None
        )
        return (
            f"Of {rows:,} rows the table has {shown:,}: as many as fit of those that come first by {names}, and of a "
            "random sample. All that is said and drawn above is of all rows. The other "
            f"{rows - shown:,} are left out; robin export has all."
        )


Tile = tuple[str, str, str]
"""A figure: its name, its value, a note."""


class Quality(NamedTuple):
    """The judge's accuracy at a decision that people made, too.

    Attributes:
        name: the decision.
        sides: the possible decisions.
        counts: labelled things, a row for each side that the judge takes, a column for each that people take.
    """

    name: str
    tiles: Sequence[Tile]
    sides: tuple[str, str]
    counts: tuple[tuple[int, int], tuple[int, int]]


class Apart(NamedTuple):
    """A labelled thing on which the judge and people differ: its id, both judgments, its texts by heading."""

    name: str
    says: str
    texts: Mapping[str, str]


class Labelled(NamedTuple):
    """The judge's accuracy, by people's labels; ``why``: the reason if it is unknown."""

    quality: Sequence[Quality]
    why: str
    apart: Sequence[Apart]


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report, from top to bottom.

    Attributes:
        title, subtitle: the data, and its judge.
        answer: the answer in lines, the most important first.
        sure: how sure that is, a line each.
        cost: the run's cost.
        warnings: notes that a reader needs before the figures.
        charts: the first beside the answer, the others below.
        headline: figures on other questions.
        facts: everything else about the run, by name.
        listing: the rows.
        labelled: the judge's accuracy, if people labelled something.
    """

    title: str
    subtitle: str
    answer: Sequence[str]
    sure: Sequence[str]
    cost: str
    warnings: Sequence[str]
    charts: Sequence[Chart]
    headline: Sequence[Tile]
    facts: Mapping[str, Mapping[str, str]]
    listing: Listing
    labelled: Labelled | None = None


@dataclass(frozen=True, slots=True)
class Sections:
    """The parts of a page from one run's findings, beside those of all runs.

    Attributes:
        systems_first: whether the part about systems comes first.
    """

    title: str
    sure: Sequence[str]
    headline: Sequence[Tile]
    warnings: Sequence[str]
    charts: Sequence[Chart]
    listing: Listing
    systems_first: bool = False


@singledispatch
def sections_of(found: Found, view: View) -> Sections:
    """Return the page parts for the findings; ``view``: the options of its rows."""
    raise NotImplementedError(type(found).__name__)


def coefficient_tile(name: str, each: Agreement) -> Tile:
    """Return a coefficient, with its interval or why there is none."""
    ends = f"95 % interval {range_of(each.ci_low, each.ci_high)}"
    over = f"{ends}, bootstrap over {number_of(each.n_prompts, 'prompt')}"
    return name, "–" if math.isnan(each.value) else f"{each.value:z.2f}", each.why or over


def cost_text(status: Status) -> str:
    """Return the spending, and the part of it without results."""
    work, cost, noun = status.work, status.cost, status.found.goal.noun
    unparsed = (
        f"{number_of(sum(work.unparsed.values()), 'answer')} without a {noun}"
        if work.unparsed
        else ""
    )
    failed = (
        f"{number_of(sum(work.failed.values()), 'failed call')}, not counted" if work.failed else ""
    )
    return "; ".join(
        filter(None, [" ".join(status.spent), unparsed, failed, f"cost {cost.cost}", cost.tokens])
    )


def first_rows(count: int, *keys: FloatArray, most: int = MOST_ROWS) -> IntArray:
    """Return the indexes of a table's rows among ``count``, rising: ``most``, the largest of each key and a sample.

    The sample is random, and the same for as many rows, so two reports of one run have the same.
    """
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
    """Return the page as HTML. Text from data and models is escaped, or passed as text to the page's script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        (_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    listing, rows = page.listing, page.listing.rows()
    columns, (place, texts) = listing.columns(rows), listing.texts(rows)
    data = {
        "columns": [{"name": each.name, "kind": each.kind} for each in columns],
        "bar": asdict(listing.bar),
        "orders": [asdict(each) for each in listing.orders],
        "views": [asdict(each) for each in listing.choices(columns)],
        "rows": packed(list(zip(*(each.values for each in columns), place.tolist(), strict=True))),
        "texts": texts.blocks,
        "block": texts.block,
        "headings": listing.words.texts,
    }
    return environment.get_template("report.html.jinja").render(
        page=page,
        pictures=[picture(chart, number) for number, chart in enumerate(page.charts)],
        columns=columns,
        texts=texts,
        left_out=listing.left_out(len(rows)),
        plain=plain,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=orjson.dumps(data).decode().replace("<", "\\u003c"),
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
