"""The texts in a report's table: the numbers of every pair, and its texts, compressed to keep the file small.

Text is cut as far as it takes to fit; how far is said in the report.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.images import named
from robin_cli.model.arms import IntArray
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunData
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import read_judgments
from robin_cli.stats.run_compare import Compared
from robin_cli.stats.side_by_side import shared_pairs

_ROOM = 3_700_000
"""Bytes for all texts, packed: with everything else a report stays under 5 MB."""

_BLOCK = 64
"""Pairs that are unpacked at a time."""

_MOST_CHARACTERS = 2**25
"""Of a block before it is packed; cut texts are always less."""

_LONGEST = (None, 20_000, 8000, 4000, 2000, 1000, 700, 500, 350, 250, 180, 120, 60)
_MOST = (None, 40, 20, 10, 6, 4, 4, 3, 3, 2, 2, 1, 0)
"""Longest text in characters, and most answers of an arm, from everything down; the first of both that fit are taken."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of pairs in blocks of ``block`` pairs, each compressed JSON; with a note on cut ones, None if none is cut."""

    blocks: list[str]
    block: int
    longest: int | None
    most_answers: int | None

    @property
    def cut(self) -> bool:
        """Return whether any text is cut."""
        return self.longest is not None


_SAID = ("rating", "expected_rating", "reason", "feedback", "text")

Answers = Callable[[int, int | None, int | None], list[Any]]


def packed(value: object) -> str:
    """Return ``value`` as JSON, compressed, in characters that need no escape in HTML."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0)).decode("ascii")


def texts_of(
    count: int, pair: Callable[[int], Pair], answers: Answers, *, room: int = _ROOM
) -> Texts:
    """Return the texts of ``count`` pairs and their ``answers``, cut to fit into ``room``; ``pair`` reads one."""
    blocks: list[str] = []
    for longest, most in zip(_LONGEST, _MOST, strict=True):
        blocks = []
        for start in range(0, count, _BLOCK):
            part = range(start, min(start + _BLOCK, count))
            texts = _of_block(pair, part, longest)
            if texts is None:
                break
            blocks.append(
                packed(
                    [[text, answers(k, longest, most)] for k, text in zip(part, texts, strict=True)]
                )
            )
            if sum(map(len, blocks)) > room and most != 0:
                break
        else:
            break
    return Texts(blocks, _BLOCK, longest, most)


def _of_block(
    pair: Callable[[int], Pair], numbers: Iterable[int], longest: int | None
) -> list[list[str]] | None:
    """Return the texts of some pairs, cut; None if they exceed the memory limit."""
    texts, characters = [], 0
    for number in numbers:
        # no pair is held while the next one is read
        texts.append([cut(text, longest) for text in _of(pair(number))])
        characters += sum(map(len, texts[-1]))
        if characters > _MOST_CHARACTERS:
            return None
    return texts


def _of(pair: Pair) -> list[str]:
    """Return the texts of a pair; of a comparison both responses."""
    return [named(text) for text in (pair.prompt, pair.response, pair.other) if text is not None]


class Judged:
    """Return the answers to ``pairs`` of a run: attribute (and judge), rating or None, its reason, feedback, label.

    Where an answer is shown in words, like a verdict, they replace the reason, and the label has the question.
    """

    def __init__(self, run: RunData, pairs: Sequence[int] | NDArray[np.integer[Any]]) -> None:
        space = self._space = run.space
        self._kind, self._scale = run.manifest.kind, space.scales[0]
        self._names = [space.label(arm) for arm in space.arms_of_pair(0)]
        is_shown = np.zeros(len(run.pair_ids), dtype=np.bool_)
        is_shown[pairs] = True
        mine = is_shown[space.pair[run.arm]]
        arm = run.arm[mine]
        self._order = np.argsort(arm, kind="stable")
        self._starts: IntArray = np.searchsorted(arm[self._order], np.arange(len(space) + 1))
        found = pa.concat_tables([JUDGMENTS.empty_table().select(_SAID), *_some(run.path, mine)])
        self._columns = {
            # large: two GB of text are more than a string column holds
            name: pc.cast(found[name], kind).combine_chunks()
            for name, kind in zip(
                _SAID,
                (pa.int32(), pa.float64(), *[pa.large_string()] * (len(_SAID) - 2)),
                strict=True,
            )
        }

    def of(self, pair: int, longest: int | None, most: int | None) -> list[Any]:
        """Return at most ``most`` answers for each attribute, different ones first, texts up to ``longest`` characters."""
        found = []
        for arm, name in zip(self._space.arms_of_pair(pair), self._names, strict=True):
            rows = self._order[self._starts[arm] : self._starts[arm + 1]]
            shown = _varied(rows, self._columns["rating"], most)
            for row in shown:
                rating, expected, reason, feedback, text = (
                    each[int(row)].as_py() for each in self._columns.values()
                )
                rating = rating if expected is None else round(expected, 2)
                answer = [name, rating, reason or "", cut(feedback or text, longest), ""]
                if len(self._kind.variants) > 1:
                    asked = name[:1].upper() + name[1:].replace("-", " ", 1)
                    words = reason or self._kind.in_words(rating, self._scale)
                    answer = ["", None, words, answer[3], asked]
                found.append(answer)
        return found


def _some(path: Path, mine: NDArray[np.bool_]) -> Iterator[pa.Table]:
    """Return the answers for the judgments ``mine``, shape (rows,); others may have come since."""
    start = 0
    for table in read_judgments(path, _SAID):
        there = mine[start : start + len(table)]
        start += len(table)
        yield table.slice(0, len(there)).filter(pa.array(there))


def _varied(rows: IntArray, ratings: Any, most: int | None) -> list[int]:
    """Return at most ``most`` of ``rows``, with every rating among them before any repeats; in order of arrival."""
    if most is None or len(rows) <= most:
        return [int(row) for row in rows]
    seen: dict[int | None, int] = {}
    ranked = []
    for row in rows.tolist():
        rating = ratings[row].as_py()
        seen[rating] = seen.get(rating, 0) + 1
        ranked.append((seen[rating], row))
    return sorted(row for _, row in sorted(ranked)[:most])


def cut(text: str, longest: int | None) -> str:
    """Return the first part of a text longer than ``longest``; all of it for None."""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def texts_of_pairs(run: RunData, pair: NDArray[np.integer[Any]]) -> tuple[IntArray, Texts]:
    """Return for each row the index of its ``pair``'s texts, and the texts."""
    pairs, place = np.unique(pair, return_inverse=True)
    return place, _texts(
        [run], run.pairs.at(pairs).__getitem__, [[[each]] for each in pairs.tolist()]
    )


def texts_of_shared(a: RunData, b: RunData, pair: IntArray) -> tuple[IntArray, Texts]:
    """Return that for pairs in both runs, by their indexes in A, with the answers of both."""
    pairs, place = np.unique(pair, return_inverse=True)
    at_a, at_b = shared_pairs(a, b)
    others = at_b[np.searchsorted(at_a, pairs)].tolist()
    places = [[[mine], [other]] for mine, other in zip(pairs.tolist(), others, strict=True)]
    return place, _texts([a, b], a.pairs.at(pairs).__getitem__, places)


def texts_of_prompts(found: Compared, what: IntArray) -> tuple[IntArray, Texts]:
    """Return that for prompts, by number, each with both runs' responses to it and their answers."""
    prompts, place = np.unique(what, return_inverse=True)
    of_each = np.split(found.who.prompt, [len(found.runs[0].pair_ids)])
    places = list(zip(*(_answering(each, prompts) for each in of_each), strict=True))

    def pair(at: int) -> Pair:
        responses = [
            f"{letter}: {run.pairs[one].response}"
            for letter, run, mine in zip(_LETTERS, found.runs, places[at], strict=True)
            for one in mine
        ]
        return Pair("", found.who.prompts[prompts[at]], "\n\n".join(responses))

    return place, _texts(found.runs, pair, places)


def _answering(prompt: IntArray, prompts: IntArray) -> list[list[int]]:
    """Return the pairs of a run for each of ``prompts``; ``prompt``: the prompt of each of its pairs."""
    pairs = np.argsort(prompt, kind="stable")
    first, behind = (np.searchsorted(prompt[pairs], prompts, side) for side in ("left", "right"))
    return [pairs[start:end].tolist() for start, end in zip(first, behind, strict=True)]


_LETTERS = ("A", "B")


def _texts(
    runs: Sequence[RunData], pair: Callable[[int], Pair], places: Sequence[Sequence[Sequence[int]]]
) -> Texts:
    """Return texts with the answers of ``runs``, of two with the run's letter; ``places``: the pairs of each text."""
    judged = [
        Judged(run, [one for each in places for one in each[side]]) for side, run in enumerate(runs)
    ]
    letters = _LETTERS if len(runs) > 1 else ("",)

    def answers(number: int, longest: int | None, most: int | None) -> list[Any]:
        return [
            [*answer, " · ".join(filter(None, (letter, label)))]
            for letter, run, mine in zip(letters, judged, places[number], strict=True)
            for one in mine
            for *answer, label in run.of(one, longest, most)
        ]

    return texts_of(len(places), pair, answers)
