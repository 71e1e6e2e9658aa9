"""Comparisons from data: rows of two responses, or rows of one that are compared with one another."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from robin_cli.data.checking import pair_id_of
from robin_cli.data.fields import RESPONSES, Fields, fields_of, fields_of_two
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset, gathered
from robin_cli.model.errors import InputError, shown
from robin_cli.model.matches import MOST_SYSTEMS
from robin_cli.model.records import (
    PLACE_COLUMNS,
    SYSTEM_COLUMN,
    SYSTEM_COLUMNS,
    Pair,
    Value,
    as_text,
    number_of,
)

MOST_COMPARISONS = 2_000_000

_OF_ONE, _OF_TWO = ("response", SYSTEM_COLUMN), (*RESPONSES, *SYSTEM_COLUMNS)
_SHOWN = 6

_SAME = "the two responses are the same"
_OF_ITSELF = "both responses are of the same system"
_AGAIN = "of the same two responses as another"
_ALONE = "one response only"


def load_comparisons(
    names: str | Path | BytesIO | Sequence[str | Path],
    *,
    called: str = "",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    wants_best: bool = False,
    **reading: Any,
) -> Dataset:
    """Return the comparisons in one or more files; :func:`robin_cli.data.pairs.load_pairs` says what can be read.

    A row has a prompt and two responses, ``response_a`` and ``response_b``, perhaps with ``system_a`` and ``system_b``. Or it
    has one response and its ``system``: then every two responses to a prompt are compared. A hash of their texts decides which
    is A, so it is the same on every machine and in any order of the rows.

    Comparisons of equal responses (but for white space around them) or of a system with itself are left out and counted, as
    are prompts without anything to compare.

    Args:
        columns: as for load_pairs, and response_a, response_b, system_a and system_b.
        limit: the number of prompts, the first ones that have a comparison.
        wants_best: the goal is the best response to each prompt; its system need not be known.
        reading: encoding and strip_thinking, as for load_pairs.

    Raises:
        InputError: as load_pairs; no comparison, or too many; systems that no chain of comparisons connects, or without a
            name in some comparisons.
    """
    found = _gathered(
        names, dict(columns or {}), called=called, skip_bad_rows=skip_bad_rows, **reading
    )
    return comparisons_of(found, limit=limit, wants_best=wants_best)


def comparisons_of(
    found: Dataset, *, limit: int | None = None, wants_best: bool = False
) -> Dataset:
    """Return the comparisons that the pairs ``found`` make, those of two responses unchanged; the rest as above."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: at least one prompt is needed. Use --limit 1 or more.")
    twos = sum(pair.other is not None for pair in found.pairs)
    if 0 < twos < len(found.pairs):
        raise InputError(
            f"{found.source}: {twos:,} of {len(found.pairs):,} rows hold two responses, response_a and response_b, and "
            "the others one; give all of them the same shape, or make a run of each"
        )
    left = _LeftOut()
    if found.pairs[0].other is not None:
        made = _as_they_are(found)
    else:
        _check_named(found, wants_best=wants_best)
        made = _every_two(found, left, limit)
    left.rows["the same as an earlier one"] = found.repeated
    pairs = list(_first(_different(made, left, wants_best=wants_best), limit))
    if not pairs:
        raise InputError(f"{found.source}: nothing to compare: {left}. {_WANTED}")
    unused = [] if wants_best else _check_systems(pairs, found)
    return replace(
        _with_own_ids(found, pairs), notes=(*found.notes, *left.notes(found.source), *unused)
    )


_WANTED = (
    "A comparison needs two different responses to one prompt: a row with response_a and response_b, or two rows with the same "
    "prompt, a response each, and another system"
)


def _gathered(
    names: str | Path | BytesIO | Sequence[str | Path],
    columns: Mapping[str, str],
    *,
    called: str,
    skip_bad_rows: bool,
    **reading: Any,
) -> Dataset:
    """Return the rows of the data as pairs, which hold both responses if the rows do."""
    one, two = ([name for name in known if name in columns] for known in (_OF_ONE, _OF_TWO))
    if two and one:
        raise InputError(
            f"--columns {two[0]}=…: is for rows that hold two responses, and {one[0]} for rows of one; leave one of them out"
        )
    fields = _unrated(fields_of({name: path for name, path in columns.items() if name not in two}))
    of_two = _unrated(fields_of_two(columns))
    return gathered(
        names,
        of_two if two else fields,
        of_two=None if two or one else of_two,
        may_repeat=True,
        called=called,
        skip_bad_rows=skip_bad_rows,
        **reading,
    )


def _unrated(fields: Fields) -> Fields:
    """Return the fields without ratings that nobody mapped: these are of single responses."""
    return fields._replace(ratings=tuple(each for each in fields.ratings if each.mapped))


@dataclass
class _LeftOut:
    """Counts of rows, comparisons and prompts that were left out, by reason."""

    comparisons: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)

    def _said(self) -> Iterator[str]:
        for counts, noun in (
            (self.rows, "row"),
            (self.comparisons, "comparison"),
            (self.prompts, "prompt"),
        ):
            yield from (
                f"{number_of(count, noun)} left out: {why}"
                for why, count in counts.items()
                if count
            )

    def notes(self, source: str) -> Iterator[str]:
        yield from (f"{source}: {said}" for said in self._said())

    def __str__(self) -> str:
        return "; ".join(self._said())


def _as_they_are(found: Dataset) -> Iterator[Pair]:
    """Return the comparisons of rows that hold two responses. InputError if some rows name their systems and others do not."""
    named = [sum(name in pair.columns for name in SYSTEM_COLUMNS) for pair in found.pairs]
    if any(named) and min(named) < 2:
        unnamed = [
            pair.pair_id for pair, count in zip(found.pairs, named, strict=True) if count < 2
        ]
        raise InputError(
            f"{found.source}: {len(unnamed):,} of {len(found.pairs):,} rows do not name the systems of both responses, the "
            f"first is {shown(unnamed[0])}; give them system_a and system_b, or leave them out"
        )
    return iter(found.pairs)


def _check_named(found: Dataset, *, wants_best: bool) -> None:
    """Raise InputError if rows do not name their systems and the goal needs them."""
    unnamed = [pair for pair in found.pairs if SYSTEM_COLUMN not in pair.columns]
    if wants_best or not unnamed:
        return
    if len(unnamed) < len(found.pairs):
        raise InputError(
            f"{found.source}: {len(unnamed):,} of {len(found.pairs):,} rows do not name the system that answered, the first is "
            f'{shown(unnamed[0].pair_id)}; give them a "{SYSTEM_COLUMN}", or leave them out'
        )
    names = {name for pair in islice(found.pairs, 1000) for name in pair.columns}
    known = sorted(names - {*PLACE_COLUMNS.values()})
    there = (
        ", ".join(map(shown, known[:_SHOWN])) + ", …" * (len(known) > _SHOWN)
        if known
        else "no further columns"
    )
    raise InputError(
        f"{found.source}: the rows hold one response each, and do not name its system (there are: {there}). Name the column of "
        f"systems: --columns {SYSTEM_COLUMN}=NAME; or the columns of two responses: --columns "
        "response_a=NAME,response_b=NAME; or find the best response to each prompt: --decide best"
    )


def _by_prompt(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.prompt, []).append(pair)
    return found


def _every_two(found: Dataset, left: _LeftOut, limit: int | None) -> Iterator[Pair]:
    """Return a comparison of every two responses to a prompt."""
    by_prompt = _by_prompt(found.pairs)
    counts = [len(each) * (len(each) - 1) // 2 for each in by_prompt.values() if len(each) > 1]
    if (count := sum(counts[:limit])) > MOST_COMPARISONS:
        raise InputError(
            f"{found.source}: every two responses to a prompt make {count:,} comparisons; at most {MOST_COMPARISONS:,} are "
            "possible. Take fewer prompts with --limit"
        )
    left.prompts[_ALONE] = sum(len(each) == 1 for each in by_prompt.values())
    return (_sided(*two) for responses in by_prompt.values() for two in combinations(responses, 2))


def _sided(one: Pair, two: Pair) -> Pair:
    """Return the comparison of two responses; a hash of their texts decides which is A."""
    first, second = sorted(
        (one, two),
        key=lambda pair: (pair.response, str(pair.columns.get(SYSTEM_COLUMN)), pair.pair_id),
    )
    text = "\0".join(
        (
            first.prompt,
            *(f"{each.response}\0{each.columns.get(SYSTEM_COLUMN)}" for each in (first, second)),
        )
    )
    is_turned = hashlib.sha256(text.encode()).digest()[0] & 1
    return _comparison(second, first) if is_turned else _comparison(first, second)


def _comparison(a: Pair, b: Pair) -> Pair:
    """Return the comparison of response ``a`` with ``b``, with the values that both rows share."""
    columns: dict[str, Value] = {
        name: value
        for name, value in a.columns.items()
        if name != SYSTEM_COLUMN
        and b.columns.get(name) == value
        and type(b.columns.get(name)) is type(value)
    }
    for name, pair in zip(SYSTEM_COLUMNS, (a, b), strict=True):
        columns.pop(name, None)
        if SYSTEM_COLUMN in pair.columns:
            columns[name] = as_text(pair.columns[SYSTEM_COLUMN])
    reference = a.reference if a.reference == b.reference else None
    return Pair(
        f"{a.pair_id}~{b.pair_id}", a.prompt, a.response, {}, reference, None, columns, b.response
    )


def _different(pairs: Iterable[Pair], left: _LeftOut, *, wants_best: bool) -> Iterator[Pair]:
    """Yield the comparisons of different texts and systems; for the best response, without repetitions."""
    seen: set[bytes] = set()
    for pair in pairs:
        system_a, system_b = (pair.columns.get(name) for name in SYSTEM_COLUMNS)
        texts = sorted((pair.response.strip(), (pair.other or "").strip()))
        key = (
            hashlib.sha256("\0".join((pair.prompt, *texts)).encode()).digest()
            if wants_best
            else b""
        )
        if texts[0] == texts[1]:
            left.comparisons[_SAME] += 1
        elif wants_best and key in seen:
            left.comparisons[_AGAIN] += 1
        elif system_a is not None and system_a == system_b and not wants_best:
            left.comparisons[_OF_ITSELF] += 1
        else:
            seen.add(key)
            yield pair


def _first(pairs: Iterable[Pair], limit: int | None) -> Iterator[Pair]:
    """Yield the comparisons of the first ``limit`` prompts."""
    prompts: set[str] = set()
    for pair in pairs:
        if limit is None or pair.prompt in prompts or len(prompts) < limit:
            prompts.add(pair.prompt)
            yield pair


def _check_systems(pairs: Sequence[Pair], found: Dataset) -> list[str]:
    """Return the systems of the data that are in no comparison, as one line at most.

    Raises:
        InputError: no chain of comparisons connects some systems with others, so nothing tells which is better; or there are
            more systems than can be ranked.
    """
    if any(name not in pairs[0].columns for name in SYSTEM_COLUMNS):
        return []
    leader: dict[str, str] = {}

    def part(system: str) -> str:
        while leader.setdefault(system, system) != system:
            leader[system] = leader[leader[system]]
            system = leader[system]
        return system

    for pair in pairs:
        a, b = (part(as_text(pair.columns[name])) for name in SYSTEM_COLUMNS)
        leader[a] = b
    if len(leader) > MOST_SYSTEMS:
        raise InputError(
            f"{found.source}: has {len(leader):,} systems; at most {MOST_SYSTEMS:,} can be ranked. Compare fewer in one run"
        )
    parts: dict[str, list[str]] = {}
    for system in leader:
        parts.setdefault(part(system), []).append(system)
    if len(parts) > 1:
        listed = [
            ", ".join(map(shown, each[:_SHOWN])) + ", …" * (len(each) > _SHOWN)
            for each in parts.values()
        ]
        raise InputError(
            f"{found.source}: its {len(leader)} systems fall into {len(parts)} parts that no comparison connects: "
            f"{' | '.join(listed[:_SHOWN])}{' | …' * (len(listed) > _SHOWN)}. Add responses of both parts to the same "
            "prompts, or make a run of each"
        )
    named = (
        pair.columns.get(name) for pair in found.pairs for name in (SYSTEM_COLUMN, *SYSTEM_COLUMNS)
    )
    unused = [
        each
        for each in dict.fromkeys(as_text(value) for value in named if value is not None)
        if each not in leader
    ]
    if unused:
        there = ", ".join(map(shown, unused[:_SHOWN])) + ", …" * (len(unused) > _SHOWN)
        return [f"{found.source}: in no comparison, and not ranked: {there}"]
    return []


def _with_own_ids(found: Dataset, pairs: list[Pair]) -> Dataset:
    """Return the data set of the comparisons, with unique ids."""
    seen = Counter(pair.pair_id for pair in pairs)
    for at, pair in enumerate(pairs):
        if seen[pair.pair_id] > 1:  # two ids that hold the mark between them may join to the same
            pairs[at] = replace(
                pair,
                pair_id=pair_id_of(
                    pair.prompt, f"{len(pair.response)}\0{pair.response}{pair.other}"
                ),
            )
    return replace(found, pairs=PairTable.of(pairs))
