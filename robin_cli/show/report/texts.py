"""The texts of a report's rows and the judge's answers, compressed to keep the file small.

Text is cut as far as it takes to fit; the report says how far.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.images import named
from robin_cli.model.arms import IntArray
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import read_judgments
from robin_cli.stats.run_compare import Compared
from robin_cli.stats.side_by_side import shared_pairs

_ROOM = 3_700_000  # bytes for all texts, packed: a report stays under 5 MB
_BLOCK = 64  # pairs that are unpacked at a time
_MOST_CHARACTERS = 2**25  # of a block before it is packed; cut texts are always less
# The longest text in characters, and the most answers of an arm: the first of both that fit.
_LONGEST = (None, 20_000, 8000, 4000, 2000, 1000, 700, 500, 350, 250, 180, 120, 60)
_MOST = (None, 40, 20, 10, 6, 4, 4, 3, 3, 2, 2, 1, 0)
_LETTERS = ("A", "B")
_JUDGED = {
    "rating": pa.int32(),
    "expected_rating": pa.float64(),
    "reason": pa.large_string(),  # two GB of text are more than a string column holds
    "feedback": pa.large_string(),
    "text": pa.large_string(),
}

Answers = Callable[[int, int | None, int | None], list[list[str]]]
"""Returns the answers about a pair, by its number, with texts of so many characters, and so many for each arm.

An answer is its attribute, its judge if there are several, the question if it has variants, the rating (or the reason that
there is none, or the verdict) in words, and the feedback.
"""


@dataclass(frozen=True, slots=True)
class ReportTexts:
    """Texts of pairs in blocks of ``block`` pairs, each compressed JSON.

    Attributes:
        longest, most_answers: how far they are cut; None if none is.
    """

    blocks: list[str]
    block: int
    longest: int | None
    most_answers: int | None


def packed(value: object) -> str:
    """Return ``value`` as JSON, compressed, in characters that need no escape in HTML."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0)).decode("ascii")


def texts_of(
    count: int, pair: Callable[[int], Pair], answers: Answers, *, room: int = _ROOM
) -> ReportTexts:
    """Return the texts of ``count`` pairs and their ``answers``, cut to fit; ``pair`` reads one."""

    def blocks_at(longest: int | None, most: int | None) -> list[str] | None:
        """Return the texts, cut so far; None if they do not fit."""
        blocks: list[str] = []
        for start in range(0, count, _BLOCK):
            texts, characters = [], 0
            for number in range(start, min(start + _BLOCK, count)):
                # no pair is held while the next one is read
                texts.append([cut(text, longest) for text in _texts(pair(number))])
                characters += sum(map(len, texts[-1]))
                if characters > _MOST_CHARACTERS:
                    return None
            answered = [[text, answers(k, longest, most)] for k, text in enumerate(texts, start)]
            blocks.append(packed(answered))
            if sum(map(len, blocks)) > room and most != 0:
                return None
        return blocks

    for longest, most in zip(_LONGEST, _MOST, strict=True):
        if (blocks := blocks_at(longest, most)) is not None:
            return ReportTexts(blocks, _BLOCK, longest, most)
    raise AssertionError("texts without answers always fit")


def _texts(pair: Pair) -> list[str]:
    """Return the texts of a pair; of a comparison both responses."""
    return [named(text) for text in (pair.prompt, pair.response, pair.other) if text is not None]


def cut(text: str, longest: int | None) -> str:
    """Return the beginning of a text longer than ``longest``; all of it for None."""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def answers_of(run: RunReader, pairs: Sequence[int] | NDArray[np.integer[Any]]) -> Answers:
    """Return the answers to some ``pairs`` of a run, by the pair's number; of an arm different ratings come first."""
    space, kind = run.space, run.manifest.kind
    is_wanted = np.zeros(len(run.pair_ids), dtype=np.bool_)
    is_wanted[pairs] = True
    is_read = is_wanted[space.pair[run.arm]]
    arms = run.arm[is_read]
    order = np.argsort(arms, kind="stable")
    starts = np.searchsorted(arms[order], np.arange(len(space) + 1))
    table = pa.concat_tables([JUDGMENTS.empty_table().select(_JUDGED), *_read(run, is_read)])
    columns = {name: pc.cast(table[name], kind).combine_chunks() for name, kind in _JUDGED.items()}

    def answers(pair: int, longest: int | None, most: int | None) -> list[list[str]]:
        found = []
        for arm in space.arms_of_pair(pair):
            judge = space.judge_of(arm) if len(space.judges) > 1 else ""
            name = space.asked_as(arm)
            for row in _varied(order[starts[arm] : starts[arm + 1]], columns["rating"], most):
                rating, expected, reason, feedback, text = (
                    column[row].as_py() for column in columns.values()
                )
                if len(kind.variants) > 1:
                    asked = name[:1].upper() + name[1:].replace("-", " ", 1)
                    of = ["", judge, asked, reason or kind.in_words(rating, space.scales[0])]
                else:
                    value = rating if expected is None else round(expected, 2)
                    of = [name, judge, "", reason or f"Rating {value}"]
                found.append([*of, cut(feedback or text, longest)])
        return found

    return answers


def _read(run: RunReader, is_read: NDArray[np.bool_]) -> Iterator[pa.Table]:
    """Yield the judgments that are read, shape (rows,); others may have come since."""
    start = 0
    for table in read_judgments(run.path, tuple(_JUDGED)):
        wanted = is_read[start : start + len(table)]
        start += len(table)
        yield table.slice(0, len(wanted)).filter(pa.array(wanted))


def _varied(rows: IntArray, ratings: Any, most: int | None) -> list[int]:
    """Return at most ``most`` rows, every rating before any repeats; in order of arrival."""
    numbers: list[int] = rows.tolist()
    if most is None or len(numbers) <= most:
        return numbers
    seen: dict[int | None, int] = {}
    ranked = []
    for row in numbers:
        rating = ratings[row].as_py()
        seen[rating] = seen.get(rating, 0) + 1
        ranked.append((seen[rating], row))
    return sorted(row for _, row in sorted(ranked)[:most])


def texts_of_pairs(run: RunReader, pair: NDArray[np.integer[Any]]) -> tuple[IntArray, ReportTexts]:
    """Return for each row the place of its ``pair``'s texts, and the texts."""
    pairs, place = np.unique(pair, return_inverse=True)
    read = run.pairs.at(pairs).__getitem__
    return place, _answered([run], read, [[[each]] for each in pairs.tolist()])


def texts_of_two(
    comparison: Compared, what: IntArray, *, of_pairs: bool
) -> tuple[IntArray, ReportTexts]:
    """Return that for ``what`` two runs have in common, with the responses and answers of both.

    ``what``: of each row the number of its pair in the first run, or of its prompt.
    """
    a, b = comparison.runs
    numbers, place = np.unique(what, return_inverse=True)
    if of_pairs:
        at_a, at_b = shared_pairs(a, b)
        in_b = at_b[np.searchsorted(at_a, numbers)]
        places = [
            ([one], [other]) for one, other in zip(numbers.tolist(), in_b.tolist(), strict=True)
        ]
    else:
        by_run = [
            _pairs_of(prompt, numbers)
            for prompt in np.split(comparison.who.prompt, [len(a.pair_ids)])
        ]
        places = list(zip(*by_run, strict=True))

    def pair(at: int) -> Pair:
        first: Pair = a.pairs[places[at][0][0]]
        if first.other is not None:  # a comparison has two responses of its own
            return first
        texts = [
            "\n\n".join(run.pairs[one].response for one in pairs)
            for run, pairs in zip(comparison.runs, places[at], strict=True)
        ]
        other = texts[1] if texts[0] != texts[1] else None
        return Pair("", first.prompt, texts[0], other=other)

    return place, _answered(comparison.runs, pair, places)


def _pairs_of(prompt: IntArray, numbers: IntArray) -> list[list[int]]:
    """Return a run's pairs for each of the prompts ``numbers``; ``prompt``: that of each pair."""
    pairs = np.argsort(prompt, kind="stable")
    first, end = (np.searchsorted(prompt[pairs], numbers, side) for side in ("left", "right"))
    return [pairs[slice(*ends)].tolist() for ends in zip(first, end, strict=True)]


def _answered(
    runs: Sequence[RunReader],
    pair: Callable[[int], Pair],
    places: Sequence[Sequence[Sequence[int]]],
) -> ReportTexts:
    """Return texts with the answers of ``runs``; ``places``: for each text the pairs of each run.

    Of two runs each answer has its run's letter.
    """
    by_run = [
        answers_of(run, [one for each in places for one in each[side]])
        for side, run in enumerate(runs)
    ]
    letters = _LETTERS if len(runs) > 1 else ("",)

    def answers(number: int, longest: int | None, most: int | None) -> list[list[str]]:
        return [
            [name, judge, " · ".join(filter(None, (letter, asked))), *said]
            for letter, of_run, pairs in zip(letters, by_run, places[number], strict=True)
            for one in pairs
            for name, judge, asked, *said in of_run(one, longest, most)
        ]

    return texts_of(len(places), pair, answers)
