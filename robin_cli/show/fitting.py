"""Fit a table to the width of a terminal: wrap headers, cut texts, leave columns out. Numbers stay whole."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from os.path import commonprefix

from rich.cells import cell_len

CUT = "…"
"""The mark at the end of a text that is cut."""
_READABLE = (32, 16)
"""Cells of an id below which columns are left out rather than more of it: those of high ranks, and the others."""
_EXPENDABLE = 4
"""The lowest of the high ranks."""
_PROSE = 20
"""Cells in which texts of several words are read well."""
_LINES = 4
"""Of a text of several words are shown, about."""
_SHORTEST = 8
"""Cells that a text keeps whatever the width: what ``#1234567`` takes, the last way to tell two apart."""
_ENDLESS = 10**9


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of cells before it is fitted.

    Attributes:
        name: its header, never cut; it may wrap between words.
        cells: one a row, without characters that a terminal acts on.
        rank: columns are left out from the highest rank down, all of one rank together; those of rank 0 stay.
        numbers: of each cell a number that tells it from others that look the same, equal for what is the same, for texts
            that may wrap between words and be cut; None for cells that stay in one line and whole.
        group: what columns side by side have in common, a line above their names that may be cut; '' for none.
        is_left: its cells are left-aligned.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    numbers: Sequence[int] | None = None
    group: str = ""
    is_left: bool = False

    @property
    def has_words(self) -> bool:
        """Return whether a cell may wrap into several lines."""
        return self.numbers is not None and any(" " in cell for cell in self.cells)


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Columns, with texts cut but not yet wrapped, ``sum(widths)`` cells wide plus the gaps.

    Attributes:
        groups: a name, cut to its room, for each run of columns of one group, and the cells that they take together.
        left_out: names of columns that found no room.
        is_cut: some text is.
        whole: cells that everything would take, nothing wrapped, cut or left out.
        all_columns: cells that all columns would take, texts cut as far as they may be before a column is left out.
    """

    columns: Sequence[Cells]
    widths: Sequence[int]
    groups: Sequence[tuple[str, int]]
    left_out: Sequence[str]
    is_cut: bool
    whole: int
    all_columns: int


def fit(columns: Sequence[Cells], width: int, gap: int) -> FittedTable:
    """Wrap and cut texts, and leave columns out, until ``columns`` with ``gap`` cells between fit into ``width`` cells.

    First headers, and texts of several words, wrap. Then columns are left out, highest rank first: those of rank 4 and
    above rather than an id is cut below 32 cells, the others rather than below 16. If only columns of rank 0 are left,
    ids are cut further, to 8. Numbers are never cut: what is wider even so is returned as wide as it must be.
    """
    natural = [_natural(column) for column in columns]
    bounds = [_bounds(column, cells) for column, cells in zip(columns, natural, strict=True)]

    def least(kept: Sequence[int], text: int) -> list[int]:
        chosen = [columns[at] for at in kept]
        widths = [max(bounds[at][0], min(text, bounds[at][1])) for at in kept]
        return _under_groups(
            chosen, widths, gap, min(_SHORTEST, max(cell_len(each.group) for each in columns))
        )

    def readable(kept: Sequence[int]) -> int:
        worst = max(columns[at].rank for at in kept)
        return _taken(least(kept, _READABLE[worst < _EXPENDABLE]), gap)

    def wanted(kept: Sequence[int]) -> list[int]:
        return _under_groups([columns[at] for at in kept], [natural[at] for at in kept], gap)

    kept = list(range(len(columns)))
    whole, all_columns = _taken(wanted(kept), gap), readable(kept)
    while readable(kept) > width and (worst := max(columns[at].rank for at in kept)) > 0:
        kept = [at for at in kept if columns[at].rank < worst]
    room = (
        text
        for text in range(_READABLE[0], _SHORTEST, -1)
        if _taken(least(kept, text), gap) <= width
    )
    widths = least(kept, next(room, _SHORTEST))
    shown = [columns[at] for at in kept]
    share = [1 + column.has_words for column in shown]
    widths = _grown(widths, wanted(kept), width - _taken(widths, gap), share)
    out = [columns[at] for at in range(len(columns)) if at not in kept]
    cut = [_cut(column, taken) for column, taken in zip(shown, widths, strict=True)]
    return FittedTable(
        cut,
        widths,
        _named_spans(shown, widths, gap),
        list(dict.fromkeys(_left_out_name(column, shown) for column in out)),
        any(column.cells != each.cells for column, each in zip(shown, cut, strict=True)),
        whole,
        all_columns,
    )


def _taken(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _left_out_name(column: Cells, kept: Iterable[Cells]) -> str:
    """Return a column's name, with its group if another group has a column of that name."""
    return (
        f"{column.group} {column.name}"
        if any(each.name == column.name for each in kept)
        else column.name
    )


def _natural(column: Cells) -> int:
    cells = (
        column.cells
        if column.numbers is None
        else told_apart(column.cells, column.numbers, _ENDLESS)
    )
    return max(map(cell_len, (column.name, *cells)))


def _bounds(column: Cells, natural: int) -> tuple[int, int]:
    """Return a column's minimum width, and a comfortable width."""
    header = _longest_word(column.name.replace(" %", "%%"))  # which stay together
    if column.numbers is None:
        return max([header, *map(cell_len, column.cells)]), 0
    return header, min(
        natural, max(_PROSE, *map(_longest_word, column.cells))
    ) if column.has_words else natural


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _under_groups(
    columns: Sequence[Cells], widths: Sequence[int], gap: int, least: int = 0
) -> list[int]:
    """Widen the first column of each group in ``widths`` if the group is narrower than ``least`` for its name."""
    stretched = list(widths)
    for name, first, last in _groups(columns):
        if name:
            stretched[first] += max(
                0, (least or cell_len(name)) - _taken(stretched[first:last], gap)
            )
    return stretched


def _groups(columns: Sequence[Cells]) -> Iterator[tuple[str, int, int]]:
    """Return each run of columns of one group: its name, its first column, and the one behind its last."""
    first = 0
    for name, run in groupby(columns, key=lambda column: column.group):
        last = first + sum(1 for _ in run)
        yield name, first, last
        first = last


def _named_spans(
    columns: Sequence[Cells], widths: Sequence[int], gap: int
) -> list[tuple[str, int]]:
    spans = [(name, _taken(widths[first:last], gap)) for name, first, last in _groups(columns)]
    names = [name for name, _ in spans if name]
    numbers = [names.index(name) for name in names]
    shown = told_apart(names, numbers, _ENDLESS)
    rooms = [span for name, span in spans if name]
    if any(cell_len(name) > room for name, room in zip(shown, rooms, strict=True)):
        shown = told_apart(names, numbers, min(rooms))
    cut = dict(zip(names, shown, strict=True))
    return [(cut.get(name, ""), span) for name, span in spans]


def _grown(
    widths: Sequence[int], wanted: Sequence[int], room: int, share: Sequence[int]
) -> list[int]:
    """Distribute ``room`` cells over ``widths``, one by one, each to the column narrowest for its ``share``."""
    grown = list(widths)
    for _ in range(room):
        short = [at for at, want in enumerate(wanted) if grown[at] < want]
        if not short:
            break
        grown[min(short, key=lambda at: grown[at] / share[at])] += 1
    return grown


def _cut(column: Cells, width: int) -> Cells:
    if column.numbers is None:
        return column
    room = _LINES * width - width // 2 if column.has_words else width  # lines end where words do
    return replace(column, cells=told_apart(column.cells, column.numbers, room))


def told_apart(texts: Sequence[str], numbers: Sequence[int], width: int) -> list[str]:
    """Shorten ``texts`` to ``width`` cells so that no two with different numbers look the same.

    What is too long is cut at its end, between words if it has some; where that makes several look the same, what differs
    is kept; where that is not enough (also where they differ in nothing that can be seen) each ends in its number.

    Args:
        numbers: of each text, equal for equal ones; ``#`` and a number must fit ``width``.
    """
    whole = dict(zip(numbers, texts, strict=True))
    shown = {number: shortened(text, width) for number, text in whole.items()}
    for alike in _alike(shown):
        shown |= _differences({number: whole[number] for number in alike}, width)
    for alike in _alike(shown):
        shown |= {number: _numbered(whole[number], number, width) for number in alike}
    if _alike(shown):
        shown = {number: _numbered(text, number, width) for number, text in whole.items()}
    return [shown[number] for number in numbers]


def _alike(shown: Mapping[int, str]) -> list[list[int]]:
    """Return the numbers of texts that look the same, grouped by look."""
    looks = defaultdict(list)
    for number, text in shown.items():
        looks[_look(text)].append(number)
    return [numbers for numbers in looks.values() if len(numbers) > 1]


def _look(text: str) -> str:
    """Return a text's visible form: composed, without zero-width characters, all spaces alike."""
    seen = "".join(char for char in unicodedata.normalize("NFKC", text) if cell_len(char))
    return " ".join(seen.split())


def shortened(text: str, width: int) -> str:
    """Shorten ``text`` to ``width`` cells; it is cut at its end, between words if that loses little."""
    if cell_len(text) <= width:
        return text
    start = _start(text, width - cell_len(CUT))
    words = start if text[len(start)] == " " else start.rpartition(" ")[0]
    return (words if cell_len(words) * 2 > width else start).rstrip() + CUT


def _differences(texts: Mapping[int, str], width: int) -> dict[int, str]:
    """Split each text into a head, and the part from the first difference between the texts."""
    same = len(commonprefix(list(texts.values())))  # noqa: RUF071  # of texts, not of paths
    shown = {}
    for number, text in texts.items():
        head = _start(text, (width - 2) // 3) + CUT
        room = width - cell_len(head)
        rest = _last(text, len(text) - same)
        shown[number] = head + (
            _end(text, room) if cell_len(rest) <= room else shortened(rest, room)
        )
        if cell_len(text) <= width:
            shown[number] = text
    return shown


def _numbered(text: str, number: int, width: int) -> str:
    mark = f"#{number}"
    if cell_len(text + mark) <= width:
        return text + mark
    room = width - len(mark)
    return shortened(text, room) + mark if room > cell_len(CUT) else mark


def _start(text: str, width: int) -> str:
    """Return the longest start of a text that fits into ``width`` cells."""
    fits = bisect_right(range(len(text) + 1), width, key=lambda count: cell_len(text[:count])) - 1
    return text[:fits].rstrip("\u200d")


def _end(text: str, width: int) -> str:
    """Return the longest end of a text that fits into ``width`` cells."""
    return _last(
        text,
        bisect_right(range(len(text) + 1), width, key=lambda count: cell_len(_last(text, count)))
        - 1,
    )


def _last(text: str, count: int) -> str:
    """Return the last ``count`` characters, without a leading accent or the second half of a joined sign."""
    end = text[len(text) - count :]
    while end and not cell_len(end[0]):
        end = end[1:]
    return end
