"""A report as one HTML file: it reads offline, from the answer down, with no script but its own."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.charts import Chart
from robin_cli.show.drawing import picture
from robin_cli.show.report.texts import ReportTexts, packed
from robin_cli.show.tables import Beside, Column, Table
from robin_cli.show.terminal import MOST_ROWS as MOST_AT_TERMINAL
from robin_cli.show.terminal import cells_of, rows_in_order
from robin_cli.show.text import plain
from robin_cli.stats.scores import Scores

MOST_ROWS = 10_000
_FEW_VALUES = 12  # of a column of the data, by which rows can be chosen
_HERE = Path(__file__).parent
_KINDS = {"id": "id", "count": "number", "number": "score", "signed": "difference"}
_OF_DATA = "From the data."
_RATED_BY = "rated by {}"

Test = tuple[str, Callable[[Any, Any], Any], Any]
"""A choice of rows: a column, a comparison of pyarrow, and what the column is compared with."""


class PageWords(NamedTuple):
    """The words about a page's rows: their heading, and what can be looked for and opened."""

    name: str
    find: str
    opens: str


WORDS = {
    "rate": PageWords(
        "Pairs",
        "a pair’s id, an attribute",
        "its prompt, the responses to it beside each other, and the feedbacks",
    ),
    "prefer": PageWords(
        "Comparisons",
        "a comparison’s id, a system",
        "its prompt, both responses and the feedbacks; where B came first the judge calls it "
        "response A",
    ),
    "prompts": PageWords("Prompts", "a prompt", "both responses and the feedbacks"),
}
"""By the kind of question that the answers are to; of two runs, by what they have in common."""


_MARKS = {"thick": "ci_low", "thin": "guaranteed_low", "ring": "human"}
"""What a bar draws beside its stroke: intervals as lines and a value as a ring, if their columns are shown."""


@dataclass(frozen=True, slots=True)
class Bar:
    """How each row's interval is drawn.

    Attributes:
        heading: the name of the bars' column.
        help: what its header says.
        says: what a bar shows, in a sentence.
        tick: the column of the value that is a stroke.
        scales: the ends of each scale.
        scale: the scale of each row, by number, shape (rows,).
    """

    heading: str
    help: str
    says: str
    tick: str
    scales: Sequence[tuple[float, float]]
    scale: Sequence[int] | NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Rows:
    """The table of a page, whose rows open to show their texts.

    Attributes:
        table: all rows.
        orders: by name the key of every row: the largest comes first, nan last; None for the order
            of the data. The page opens with the first.
        views: choices of rows, by name.
        texts: returns for some rows the place of each among the texts, and these.
        further: columns of the data, which can be looked for and are not shown.
        judged: by judge, if there are several, whether it answered about each row.
        prompt: the number of each row's prompt: responses to one open beside each other.
    """

    table: Table
    bar: Bar
    orders: Mapping[str, FloatArray | None]
    views: Mapping[str, Test]
    texts: Callable[[IntArray], tuple[IntArray, ReportTexts]]
    words: PageWords
    further: Beside = lambda _rows: {}
    judged: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    prompt: IntArray | None = None

    def first(self) -> IntArray:
        """Return the rows that fit in a page, in the first order."""
        keys = [key for key in self.orders.values() if key is not None]
        rows = first_rows(len(self.table), *keys)
        return rows[_order(next(iter(self.orders.values())), rows)]

    def left_out(self, shown: int) -> str:
        """Return a note on rows of which only some are ``shown``; "" if all are."""
        rows = len(self.table)
        if shown == rows:
            return ""
        names = ", ".join(f"“{name}”" for name, key in self.orders.items() if key is not None)
        return (
            f"Of {rows:,} rows the table has {shown:,}: as many as fit of those that come first by "
            f"{names}, and of a random sample. All that is said and drawn above is of all rows. "
            f"The other {rows - shown:,} are left out; robin export has all."
        )


class Labelled(NamedTuple):
    """The judge's accuracy, by people's labels.

    Attributes:
        quality: its table; none if it is unknown, ``why`` for a reason.
        apart: what judge and people differ on: its name, both judgments, and its texts by heading.
    """

    quality: Sequence[Table]
    why: str
    apart: Sequence[tuple[str, str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report, from top to bottom; the first chart stands beside the answer.

    Attributes:
        title, subtitle: the data, and its judge.
        answer: the answer in lines, the most important first.
        sure: how sure that is.
        cost: what the run cost.
        warnings: notes that a reader needs before the figures.
        rows: the table.
        tables: figures on other questions.
        facts: everything else about the run, by heading and name.
        labelled: the judge's accuracy, if people labelled something.
    """

    title: str
    subtitle: str
    answer: Sequence[str]
    cost: str
    warnings: Sequence[str]
    rows: Rows
    tables: Sequence[Table]
    charts: Sequence[Chart]
    facts: Mapping[str, Mapping[str, str]]
    sure: Sequence[str] = ()
    labelled: Labelled | None = None


def judged_by_each(run: RunReader, scores: Scores) -> dict[str, NDArray[np.bool_]]:
    """Return :attr:`Rows.judged` of the rows of ``scores``."""
    judges, arms = run.space.judges, scores.arms
    is_asked = run.fold.arms.n[arms] + run.fold.arms.n_unparsed[arms] > 0
    return {
        name: (is_asked & (run.space.judge[arms] == judge)).any(axis=1)
        for judge, name in enumerate(judges)
        if len(judges) > 1
    }


def first_rows(count: int, *keys: FloatArray, most: int = MOST_ROWS) -> IntArray:
    """Return the numbers of ``most`` of ``count`` rows, rising: the largest of each key and a sample.

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


def _order(key: FloatArray | None, rows: IntArray) -> IntArray:
    return np.argsort(rows if key is None else -key[rows], kind="stable")


class Figures(NamedTuple):
    """A table that stands as it is: its heads and rows in words, and lines below."""

    title: str
    heads: Sequence[Column]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def figures_of(table: Table) -> Figures:
    """Return the first rows of ``table`` as people see them at a terminal."""
    heads, rows = table.shown(table.terminal), rows_in_order(table)[:MOST_AT_TERMINAL]
    data = table.data.take(pa.array(rows))
    rest = [f"{len(rows)} of {number_of(len(table), table.noun)}"] * (len(rows) < len(table))
    cells = zip(*(cells_of(data, head) for head in heads), strict=True)
    title = table.says.partition(":")[0]
    return Figures(title, heads, list(cells), [*table.notes, *rest])


class PageColumn(NamedTuple):
    """A column of the page's table, with a value for each row.

    Attributes:
        name: its header.
        kind: id, text, number, score, difference, range (low and high) or bar (a scale's number).
        says: its description.
        column: its name in the table; "" for a column of the data.
    """

    name: str
    kind: str
    says: str
    values: Sequence[Any]
    column: str = ""


def page_columns(table: Table, rows: IntArray, bar: Bar) -> list[PageColumn]:
    """Return the columns of ``rows``, with the bars before the values that they mark."""
    data = table.data.take(pa.array(rows))
    columns = [_page_column(data, column) for column in table.shown(table.terminal)]
    taken = {each.name for each in columns}
    beside = [
        PageColumn(_distinct(name, taken), "text", _OF_DATA, texts)
        for name, texts in table.beside(rows).items()
    ]
    drawn = PageColumn(bar.heading, "bar", bar.help, np.asarray(bar.scale)[rows].tolist())
    place = next(at for at, column in enumerate(columns) if column.column == bar.tick)
    return [columns[0], *beside, *columns[1:place], drawn, *columns[place:]]


def _distinct(name: str, taken: set[str]) -> str:
    return f"data.{name}" if name in taken else name


def _page_column(data: pa.Table, column: Column) -> PageColumn:
    name, kind, says = column.header, _KINDS.get(column.form, "text"), column.help
    values: list[Any] = [_rounded(value) for value in data[column.name].to_pylist()]
    if column.high:
        ends = zip(values, map(_rounded, data[column.high].to_pylist()), strict=True)
        values = [None if None in both else both for both in ends]
        kind, says = "range", f"{says} Sorts by how wide it is."
    elif column.form == "flag":
        values = ["yes" if value else "" for value in values]
    elif column.form == "id":
        says = f"{says.removesuffix('.')}; opens its texts."
    return PageColumn(name, kind, says, values, column.name)


def _rounded(value: Any) -> Any:
    """Return ``value`` with four digits, or two if the fourth would round the second another way."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    few = round(value, 4)
    return round(value, 2) if round(abs(few) * 10_000) % 100 == 50 else few


def html(page: Page) -> str:
    """Return the page as HTML.

    Text from data and models is made harmless and escaped by the template, or it is passed as JSON
    to the page's script, which writes it as text.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        (_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    rows = page.rows.first()
    columns = page_columns(page.rows.table, rows, page.rows.bar)
    place, texts = page.rows.texts(rows)
    return environment.get_template("report.html.jinja").render(
        page=page,
        pictures=[(chart, picture(chart, number)) for number, chart in enumerate(page.charts)],
        tables=[figures_of(table) for table in page.tables],
        quality=[figures_of(table) for table in page.labelled.quality] if page.labelled else [],
        columns=columns,
        texts=texts,
        left_out=page.rows.left_out(len(rows)),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_data(page.rows, rows, columns, place, texts),
    )


def _data(
    listed: Rows, rows: IntArray, columns: Sequence[PageColumn], place: IntArray, texts: ReportTexts
) -> str:
    """Return what the page's script needs, as JSON.

    Of each row these are its cells, its rank in each order, the numbers of the views that it is in,
    the place of its texts, its prompt, and the text in which a reader can look for something.
    """
    further = listed.further(rows)
    views = _views(listed, rows, columns, further)
    number = {column.column: at for at, column in enumerate(columns) if column.column}
    cells = zip(*(column.values for column in columns), strict=True)
    ranks = [np.argsort(_order(key, rows)) for key in listed.orders.values()]
    chosen = np.array(list(views.values()), dtype=np.bool_).reshape(len(views), len(rows))
    words = [each.values for each in columns if each.kind in {"id", "text"}]
    words_of_rows = zip(*words, *further.values(), strict=True)
    marks = {"tick": listed.bar.tick, **_MARKS}
    data = {
        "columns": [{"name": each.name, "kind": each.kind} for each in columns],
        "attribute": number.get("attribute"),
        "bar": {mark: number.get(name) for mark, name in marks.items()},
        "scales": listed.bar.scales,
        "orders": list(listed.orders),
        "views": list(views),
        "judges": {_RATED_BY.format(name): name for name in listed.judged},
        "rows": packed(
            [
                (*row, " ".join(str(text) for text in each if text).lower())
                for *row, each in zip(
                    cells,
                    np.transpose(ranks).tolist(),
                    [np.flatnonzero(each).tolist() for each in chosen.T],
                    place.tolist(),
                    [-1] * len(rows) if listed.prompt is None else listed.prompt[rows].tolist(),
                    words_of_rows,
                    strict=True,
                )
            ]
        ),
        "texts": texts.blocks,
        "block": texts.block,
    }
    return orjson.dumps(data).decode().replace("<", "\\u003c")


def _views(
    listed: Rows,
    rows: IntArray,
    columns: Sequence[PageColumn],
    further: Mapping[str, Sequence[str]],
) -> dict[str, Sequence[bool]]:
    """Return the choices of ``rows`` that choose some, by name, also by the data's few values."""
    data, views = listed.table.data.take(pa.array(rows)), dict[str, Sequence[bool]]()
    views |= {_RATED_BY.format(name): mask[rows].tolist() for name, mask in listed.judged.items()}
    for name, (column, compare, value) in listed.views.items():
        if column in data.column_names:
            mask = pc.fill_null(compare(data[column], value), fill_value=False).to_pylist()
            views |= {name: mask} if any(mask) else {}
    taken = {column.name for column in columns}
    of_data = {column.name: column.values for column in columns if not column.column}
    of_data |= {_distinct(name, taken): values for name, values in further.items()}
    for name, values in of_data.items():
        known = sorted({str(value) for value in values if value not in {"", None}})
        if 1 < len(known) <= _FEW_VALUES:
            views |= {f"{name}: {each}": [value == each for value in values] for each in known}
    return views


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
