"""Fit a table to the width of a terminal: which texts are cut, and which columns are left out, so that numbers stay whole."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from os.path import commonprefix

from rich.cells import cell_len

_CUT = "…"
_READABLE = 16
"""Cells of a text below which columns are left out rather than more of it."""
_SHORTEST = 8
"""Cells that a text keeps whatever the width: what ``#1234567`` takes, the last way to tell two apart."""
_ENDLESS = 10**9


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of cells as it is wanted.

    Attributes:
        name: its header, never cut.
        cells: one a row, without characters that a terminal acts on.
        rank: columns are left out from the highest rank down, all of one rank together; those of rank 0 stay.
        numbers: of each cell a number that tells it from others that look the same, equal for what is the same, for texts
            that may be cut; None for cells that are never cut.
        group: what columns side by side have in common, a line above their names that may be cut; '' for none.
        is_left: its cells stand at its left end.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    numbers: Sequence[int] | None = None
    group: str = ""
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class Fitted:
    """Columns, their texts cut, that take ``sum(widths)`` cells and a gap between each two.

    Attributes:
        groups: a name, cut to its room, for each run of columns of one group, and the cells that they take together.
        left_out: names of columns that found no room.
        whole: cells that everything would take, nothing cut or left out.
        all_columns: cells that all columns would take, texts cut as far as they may be before a column is left out.
    """

    columns: Sequence[Cells]
    widths: Sequence[int]
    groups: Sequence[tuple[str, int]]
    left_out: Sequence[str]
    whole: int
    all_columns: int


def fit(columns: Sequence[Cells], width: int, gap: int) -> Fitted:
    """Cut texts, and leave columns out, until ``columns`` with ``gap`` cells between take ``width`` cells at most.

    Columns are left out where texts would be cut below 16 cells; where only those of rank 0 are left, texts are cut further,
    to 8. Numbers are never cut: what is wider even so is returned as wide as it must be.
    """
    natural = [_natural(column) for column in columns]

    def least(kept: Sequence[int], text: int) -> list[int]:
        chosen = [columns[at] for at in kept]
        widths = [_least(columns[at], min(text, natural[at])) for at in kept]
        return _under_groups(chosen, widths, gap, min(_SHORTEST, max(cell_len(each.group) for each in columns)))

    def wanted(kept: Sequence[int]) -> list[int]:
        return _under_groups([columns[at] for at in kept], [natural[at] for at in kept], gap)

    kept = list(range(len(columns)))
    whole, all_columns = _taken(wanted(kept), gap), _taken(least(kept, _READABLE), gap)
    while _taken(least(kept, _READABLE), gap) > width and (worst := max(columns[at].rank for at in kept)) > 0:
        kept = [at for at in kept if columns[at].rank < worst]
    shortest = least(kept, _SHORTEST)
    widths = _grown(shortest, wanted(kept), width - _taken(shortest, gap))
    shown = [columns[at] for at in kept]
    out = [columns[at] for at in range(len(columns)) if at not in kept]
    return Fitted(
        [_cut(column, taken) for column, taken in zip(shown, widths, strict=True)],
        widths,
        _named_spans(shown, widths, gap),
        list(dict.fromkeys(_left_out_name(column, shown) for column in out)),
        whole,
        all_columns,
    )


def _taken(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _left_out_name(column: Cells, kept: Iterable[Cells]) -> str:
    """A column's name; with its group where columns of that name, but of other groups, are shown."""
    return f"{column.group} {column.name}" if any(each.name == column.name for each in kept) else column.name


def _natural(column: Cells) -> int:
    cells = column.cells if column.numbers is None else told_apart(column.cells, column.numbers, _ENDLESS)
    return max(map(cell_len, (column.name, *cells)))


def _least(column: Cells, text: int) -> int:
    if column.numbers is None:
        return max(map(cell_len, (column.name, *column.cells)))
    return max(cell_len(column.name), text)


def _under_groups(columns: Sequence[Cells], widths: Sequence[int], gap: int, least: int = 0) -> list[int]:
    """``widths``, the first of each group wider where its columns are narrower than ``least`` cells, 0 for the group's name."""
    stretched = list(widths)
    for name, first, last in _groups(columns):
        if name:
            stretched[first] += max(0, (least or cell_len(name)) - _taken(stretched[first:last], gap))
    return stretched


def _groups(columns: Sequence[Cells]) -> Iterator[tuple[str, int, int]]:
    """Each run of columns of one group: its name, its first column, and the one behind its last."""
    first = 0
    for name, run in groupby(columns, key=lambda column: column.group):
        last = first + sum(1 for _ in run)
        yield name, first, last
        first = last


def _named_spans(columns: Sequence[Cells], widths: Sequence[int], gap: int) -> list[tuple[str, int]]:
    spans = [(name, _taken(widths[first:last], gap)) for name, first, last in _groups(columns)]
    names = [name for name, _ in spans if name]
    numbers = [names.index(name) for name in names]
    shown = told_apart(names, numbers, _ENDLESS)
    rooms = [span for name, span in spans if name]
    if any(cell_len(name) > room for name, room in zip(shown, rooms, strict=True)):
        shown = told_apart(names, numbers, min(rooms))
    cut = dict(zip(names, shown, strict=True))
    return [(cut.get(name, ""), span) for name, span in spans]


def _grown(widths: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """``widths`` with ``room`` cells given out one by one, each to the narrowest that wants more."""
    grown = list(widths)
    for _ in range(room):
        short = [at for at, want in enumerate(wanted) if grown[at] < want]
        if not short:
            break
        grown[min(short, key=grown.__getitem__)] += 1
    return grown


def _cut(column: Cells, width: int) -> Cells:
    return column if column.numbers is None else replace(column, cells=told_apart(column.cells, column.numbers, width))


def told_apart(texts: Sequence[str], numbers: Sequence[int], width: int) -> list[str]:
    """``texts``, each in ``width`` cells at most, so that no two of different numbers look the same.

    What is too long is cut in the middle; where that makes several look the same, what differs is kept; where that is not
    enough (also where they differ in nothing that can be seen) each ends in its number.

    Args:
        numbers: of each text, equal for equal ones; ``#`` and a number must fit ``width``.
    """
    whole = dict(zip(numbers, texts, strict=True))
    shown = {number: _middle_cut(text, width) for number, text in whole.items()}
    for alike in _alike(shown):
        shown |= _differences({number: whole[number] for number in alike}, width)
    for alike in _alike(shown):
        shown |= {number: _numbered(whole[number], number, width) for number in alike}
    if _alike(shown):
        shown = {number: _numbered(text, number, width) for number, text in whole.items()}
    return [shown[number] for number in numbers]


def _alike(shown: Mapping[int, str]) -> list[list[int]]:
    """The numbers of texts that look the same, those of each look together."""
    looks = defaultdict(list)
    for number, text in shown.items():
        looks[_look(text)].append(number)
    return [numbers for numbers in looks.values() if len(numbers) > 1]


def _look(text: str) -> str:
    """What is left of a text for the eye: composed, without what takes no room, spaces alike."""
    seen = "".join(char for char in unicodedata.normalize("NFKC", text) if cell_len(char))
    return " ".join(seen.split())


def _middle_cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    head = _start(text, (width - cell_len(_CUT) + 1) // 2)
    return head + _CUT + _end(text, width - cell_len(head) - cell_len(_CUT))


def _differences(texts: Mapping[int, str], width: int) -> dict[int, str]:
    """Each text as its head, what comes from where the texts differ first, and its tail."""
    same = len(commonprefix(list(texts.values())))  # noqa: RUF071  # of texts, not of paths
    third = (width - 2) // 3
    shown = {}
    for number, text in texts.items():
        head = _start(text, third)
        room = width - cell_len(head) - 1
        if cell_len(text) <= width:
            shown[number] = text
        elif cell_len(other := _own(text, len(text) - same)) <= room:
            shown[number] = head + _CUT + _end(text, room)
        else:
            tail = _end(text, third)
            shown[number] = head + _CUT + _start(other, room - 1 - cell_len(tail)) + _CUT + tail
    return shown


def _numbered(text: str, number: int, width: int) -> str:
    mark = f"#{number}"
    if cell_len(text + mark) <= width:
        return text + mark
    room = width - len(mark) - cell_len(_CUT)
    return _start(text, room) + _CUT + mark if room > 0 else mark


def _start(text: str, width: int) -> str:
    """As many characters from the front as ``width`` cells take."""
    fits = bisect_right(range(len(text) + 1), width, key=lambda count: cell_len(text[:count])) - 1
    return text[:fits].rstrip("\u200d")


def _end(text: str, width: int) -> str:
    """As many characters from the back as ``width`` cells take."""
    return _own(text, bisect_right(range(len(text) + 1), width, key=lambda count: cell_len(_own(text, count))) - 1)


def _own(text: str, count: int) -> str:
    """The last ``count`` characters, without an accent, or the second half of a joined sign, of what was cut off."""
    end = text[len(text) - count :]
    while end and not cell_len(end[0]):
        end = end[1:]
    return end
