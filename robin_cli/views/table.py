"""The scores and the state of a run, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.analysis.scores import Scores, likely_widths
from robin_cli.goals.decided import OPEN, cells_of, decision_facts, promise
from robin_cli.model.errors import typed
from robin_cli.model.records import MODEL_PREFIX, number_of
from robin_cli.settings.table import TABLE
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData
from robin_cli.views.fitting import Column, Fitted, fit
from robin_cli.views.text import one_line, plain

GAP = 2
"""Cells between two columns."""
DASH = "–"
"""What stands where there is no value."""
ALL_ROWS = "all rows:"
"""What a note with the command that shows all begins with."""

_BAR = 12
_SHORTEST_BAR = 4
_OPTIONAL = ("human", "n_unparsed")
_LEAVES = (
    "group",
    "n_unparsed",
    "variance",
    "judges ±",
    "ratings",
    "human",
    "given up",
    "guaranteed",
    "likely",
    "decision",
)
"""Columns by what goes first where there is no room for all."""
_SORTED_BY = {
    "width": "widest likely interval first",
    "score": "highest score first",
    "variance": "largest variance first",
    "data": "in the order of the data",
}
_SHOWN_FOR = {"width": "likely", "variance": "variance"}


@dataclass(frozen=True, slots=True)
class View:
    """How the table shows the scores.

    Attributes:
        sort: what comes first, one of SORTS; rows that are equal in it stay in the order of the data.
        top: rows shown.
        wide: a row a pair, in which each attribute has columns of its own.
    """

    sort: str = TABLE["sort"].default
    top: int = TABLE["top"].default
    wide: bool = False


def print_scores(console: Console, scores: Scores, run: RunData, view: View) -> None:
    """Print the rows of ``scores`` that come first as a table; under it what is not shown, how to see it, and who judged."""
    every = np.arange(len(scores))
    lines = run.space.by_pair(every) if view.wide else every[:, None]
    rows = lines[_order(scores, run, view.sort, lines)[: view.top]]
    columns = _facet_columns(scores, run, rows, view) if view.wide else _row_columns(scores, run, rows[:, 0], view)
    fitted = fit(columns, console.width, GAP)
    counts = np.asarray(scores.columns["n"])
    dim = np.asarray(scores.retired[rows].any(axis=1))
    print_fitted(console, fitted, counts[rows].sum(axis=1) / max(1, counts[lines].sum(axis=1).max()), dim)
    print_notes(console, _notes(scores, run, fitted, view, console.width, len(lines)))


def print_notes(console: Console, notes: Sequence[str]) -> None:
    """Print what stands under a table."""
    for note in notes:
        copied = not console.is_terminal or note.startswith(ALL_ROWS)  # a command is broken by the terminal alone
        console.print(Text(plain(note)), soft_wrap=copied)


def _order(scores: Scores, run: RunData, sort: str, lines: NDArray[np.intp]) -> NDArray[np.intp]:
    """The ``lines`` of the table by what comes first; one of several rows stands where the first of them would.

    Where attributes have scales of their own, shares of the scales are compared.
    """
    score, variance = (np.asarray(scores.columns[name], dtype=np.float64) for name in ("score", "variance"))
    unit, lowest = run.space.units[scores.arm], run.space.ends[0][scores.arm]
    key = {
        "width": likely_widths(scores, run.space),
        "score": (score - lowest) / unit,
        "variance": variance / unit**2,
        "data": -np.arange(float(len(scores))),
    }[sort]
    return np.argsort(np.nan_to_num(-key, nan=np.inf, posinf=np.inf)[lines].min(axis=1), kind="stable")


def _row_columns(scores: Scores, run: RunData, rows: NDArray[np.intp], view: View) -> list[Column]:
    columns = [_pairs(scores, run, rows)]
    for name in ("attribute", "judge"):
        if name in scores.columns and (name == "judge" or len(run.manifest.attributes) > 1):
            columns += [_names(name, scores, rows)]
    if "group" in scores.columns:
        columns.append(_names("group", scores, rows))
    columns += _decisions(scores, rows)
    values = _values(scores, rows, view.sort)
    columns += [Column(name, cells, _rank(name, view.sort)) for name, cells in values.items()]
    if any(scores.columns["given_up"]):
        columns.insert(-1, _names("given_up", scores, rows))
    return columns


def _facet_columns(scores: Scores, run: RunData, rows: NDArray[np.intp], view: View) -> list[Column]:
    columns = [_pairs(scores, run, rows[:, 0])]
    last = len(scores.facets) - 1
    if "group" in scores.columns:
        columns.append(_names("group", scores, rows[:, 0]))
    if not (by_facet := "group" in scores.columns):  # one decision a pair, whatever its attributes
        columns += _decisions(scores, rows[:, 0])
    for place, (facet, mine) in enumerate(zip(map(one_line, scores.facets), rows.T, strict=True)):
        if by_facet:
            columns += [replace(each, rank=last + each.rank, group=facet) for each in _decisions(scores, mine)]
        for name, cells in _values(scores, mine, view.sort).items():
            rank = place if name == "score" else last + _rank(name, view.sort)
            columns.append(Column(name, cells, rank, group=facet))
        if any(scores.columns["given_up"]):
            given_up = _names("given_up", scores, mine)
            columns.insert(-1, replace(given_up, rank=last + given_up.rank, group=facet))
    return columns


def _pairs(scores: Scores, run: RunData, rows: NDArray[np.intp]) -> Column:
    cells = [one_line(scores.columns["pair_id"][row]) for row in rows]
    return Column("pair", cells, numbers=(run.space.pair[scores.arm[rows]] + 1).tolist())


def _names(column: str, scores: Scores, rows: NDArray[np.intp]) -> Column:
    """A column of few names, each many times."""
    shown = column.replace("_", " ")
    return names_column(shown, [scores.columns[column][row] for row in rows], _rank(shown, ""))


def _decisions(scores: Scores, rows: NDArray[np.intp]) -> list[Column]:
    if scores.decided is None:
        return []
    cells = cells_of(scores.decided)
    return [Column("decision", [cells[row] or DASH for row in rows], _rank("decision", ""))]


def _rank(name: str, sort: str) -> int:
    if name not in _LEAVES:
        return 0
    return 1 if name == _SHOWN_FOR.get(sort) else len(_LEAVES) + 1 - _LEAVES.index(name)


def _values(scores: Scores, rows: NDArray[np.intp], sort: str) -> dict[str, list[str]]:
    """The cells of ``rows`` by column, as text, without those that say which row it is."""
    columns = scores.columns

    def numbers(name: str) -> list[str]:
        return [number_text(columns[name][row]) for row in rows]

    shown = {"score": numbers("score")}
    for name, low, high in (("likely", "likely_low", "likely_high"), ("guaranteed", "ci_low", "ci_high")):
        ends = zip(numbers(low), numbers(high), strict=True)
        shown[name] = [DASH if bottom == DASH else f"{bottom} – {top}" for bottom, top in ends]
    if "judge_spread" in columns:
        shown["judges ±"] = numbers("judge_spread")
    if "judge_spread" not in columns or sort == "variance":
        shown["variance"] = numbers("variance")
    for name in _OPTIONAL:  # only where there are any
        values = np.asarray(columns[name], dtype=np.float64)
        if np.any(values > 0) or (name == "human" and not np.all(np.isnan(values))):
            shown[name] = numbers(name)
    shown["ratings"] = [f"{columns['n'][row]:,}" for row in rows]
    return shown


def print_fitted(console: Console, fitted: Fitted, shares: NDArray[np.float64], dim: NDArray[np.bool_]) -> None:
    """Print ``fitted``, with bars of ``shares``, one a row, where there is room for them; rows that are ``dim`` less bright."""
    taken = sum(fitted.widths) + GAP * (len(fitted.widths) - 1)
    bar = min(_BAR, console.width - fitted.whole - GAP)
    has_bar = bar >= _SHORTEST_BAR
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, GAP - 1, 0, 0),
        width=taken + (bar + GAP) * has_bar,
    )
    for column, width in zip(fitted.columns, fitted.widths, strict=True):
        table.add_column(
            Text(column.name), justify="right" if column.numbers is None else "left", no_wrap=True, width=width
        )
    if has_bar:
        table.add_column("", no_wrap=True, width=bar)
    for row, share in enumerate(shares):
        cells = [Text(column.cells[row]) for column in fitted.columns]
        bars = [Text("█" * round(bar * share))] if has_bar else []
        table.add_row(*cells, *bars, style="dim" if dim[row] else "")
    if any(name for name, _ in fitted.groups):
        console.print(Text(" " * GAP).join(_over(name, span) for name, span in fitted.groups), soft_wrap=True)
    console.print(table, crop=False)


def _over(group: str, span: int) -> Text:
    """The name of a group over its columns."""
    head = Text(f" {group} " if cell_len(group) + 2 <= span else group, style="bold")
    head.align("center", span, "─" if group else " ")
    return head


def left_out_notes(fitted: Fitted, width: int) -> list[str]:
    """Which columns found no room, and how to see them."""
    if not fitted.left_out:
        return []
    names = ", ".join(map(one_line, fitted.left_out))
    return [f"left out at {width} columns: {names}; wider: -o FILE, or COLUMNS={fitted.all_columns}"]


def numbered_notes(fitted: Fitted) -> list[str]:
    """What the number behind an id is, where there is one."""
    pairs = fitted.columns[0]
    is_told = any(cell.endswith(f"#{number}") for cell, number in zip(pairs.cells, pairs.numbers or (), strict=True))
    return ["#N: the Nth pair of the data, where ids look the same"] if is_told else []


def names_column(name: str, values: Sequence[object], rank: int = 0) -> Column:
    """A column of few names, each many times."""
    place = {value: number for number, value in enumerate(dict.fromkeys(values), 1)}
    return Column(name, [one_line(value) for value in values], rank, [place[value] for value in values])


def _notes(scores: Scores, run: RunData, fitted: Fitted, view: View, width: int, lines: int) -> list[str]:
    """What is not in the table and how to see it, and who judged."""
    notes = []
    notes += left_out_notes(fitted, width)
    notes.append("95 % intervals: likely, on average over the pairs; guaranteed, for each of them")
    if (decided := scores.decided) is not None:
        facts = decision_facts(decided)
        unsure = f"; {OPEN}: by the mean alone, not certified" if facts["open"] else ""
        notes.append(f"decisions ({decided.task.decision}): {promise(facts, 'the certified')}{unsure}")
    notes += numbered_notes(fitted)
    order = "" if view.sort == TABLE["sort"].default else f" --sort {view.sort}"
    what = " --what judge-scores" if "judge" in scores.columns and len(run.space.judges) > 1 else ""
    others = "|".join(name for name in _SORTED_BY if name != view.sort)
    shown = min(view.top, lines)
    rest = f"{shown:,} of {number_of(lines, 'row')}, " if shown < lines else ""
    notes.append(f"{rest}{_SORTED_BY[view.sort]} (another order: --sort {others})")
    if shown < lines:
        table = f"--format table{' --wide' * view.wide}{order} --top {lines}"
        notes.append(f"{ALL_ROWS} robin export {typed(run.path)}{what} {table}")
    return [*notes, f"judge: {judged_by(run.manifest)}"]


def judged_by(manifest: Manifest) -> str:
    """Who gave the ratings; says it where nobody read the responses."""
    replay = " (recorded ratings, replayed: no model read these responses)"
    replays = [judge.startswith(MODEL_PREFIX) for judge in manifest.judges]
    if all(replays):
        judges = ", ".join(manifest.judges) + replay
    else:
        judges = ", ".join(judge + replay * is_one for judge, is_one in zip(manifest.judges, replays, strict=True))
    settings = manifest.settings
    return f"{judges}, {settings['scheduler']}, temperature {settings['temperature']:g}"


def print_facts(console: Console, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(plain(name), style="bold"), Text(plain(str(value))))
    console.print(grid)


def number_text(value: object) -> str:
    """A number of a table; a dash for nan."""
    number = float(str(value))
    if math.isnan(number):
        return DASH
    return f"{number:.0f}" if number.is_integer() else f"{number:.2f}"
