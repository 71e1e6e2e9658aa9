"""Which texts of a long column are alike, to the letter: each is a number, and none of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from robin_cli.datasets.texts import Texts, give_back
from robin_cli.model.arms import IntArray


def numbers_of(parts: Iterable[pa.Array]) -> IntArray:
    """The place of each text among the different ones, as they first appear, shape (texts,); one that is not there is "".

    They are known again by Python's hashes, of 64 bits and foreseen by nobody: among ten million there are two of one hash in
    one of 400,000 columns, and then two texts count as one.

    Args:
        parts: of the column, one behind the other.
    """
    hashes = [np.fromiter((hash(text or "") for text in part.to_pylist()), np.int64, len(part)) for part in parts]
    give_back()
    return _places(np.concatenate([np.empty(0, dtype=np.int64), *hashes]))


def numbered_texts(parts: Callable[[], Iterable[pa.Array]], name: Callable[[str], str]) -> tuple[IntArray, Texts]:
    """Both :func:`numbers_of` and :func:`names_of` a column, whose parts are read twice."""
    numbers = numbers_of(parts())
    return numbers, names_of(parts(), numbers, name)


def names_of(parts: Iterable[pa.Array], numbers: IntArray, name: Callable[[str], str]) -> Texts:
    """What ``name`` calls each of the different texts, in the order of their numbers.

    Args:
        parts: of the column, as they were numbered.
    """
    found, start, highest = [], 0, -1
    for part in parts:
        here = numbers[start : start + len(part)]
        start += len(part)
        before = np.maximum.accumulate(np.append(highest, here))
        highest = before[-1]
        new = part.filter(pa.array(here > before[:-1]))
        found.append(pa.array([name(text or "") for text in new.to_pylist()], pa.large_string()))
    return Texts(pa.chunked_array(found, pa.large_string()))


def _places(hashes: IntArray) -> IntArray:
    """The place of each among the different ones, as they first appear; in little more memory than that takes."""
    order = np.argsort(hashes, kind="stable")
    is_new = np.append(True, np.diff(hashes[order]) != 0)[: len(order)]  # numpy's
    first = order[is_new]
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = place[np.cumsum(is_new) - 1]
    return found
