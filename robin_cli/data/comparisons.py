"""Comparisons from data: rows of two responses, or rows of one that are compared with one another."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice
from typing import Any

from robin_cli.data.checking import pair_id_of
from robin_cli.data.fields import RESPONSES, Fields, fields_of
from robin_cli.data.groups import MOST_SYSTEMS
from robin_cli.data.hints import list_names
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset, Gathering, Names
from robin_cli.model.errors import InputError, shown
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
_LISTED = 6

LeftOut = Counter[tuple[str, str]]
"""Counts of what was left out, by what it is and why."""

_REPEATED = ("row", "the same as an earlier one")
_EQUAL = ("comparison", "the two responses are the same")
_OF_ITSELF = ("comparison", "both responses are of the same system")
_AGAIN = ("comparison", "of the same two responses as another")
_ALONE = ("prompt", "one response only")


def load_comparisons(
    names: Names,
    *,
    called: str = "",
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    wants_best: bool = False,
    **options: Any,
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
        options: skip_bad_rows, encoding and strip_thinking, as for load_pairs.

    Raises:
        InputError: as load_pairs; no comparison, or too many; systems that no chain of comparisons connects, or without a
            name in some comparisons.
    """
    columns = columns or {}
    of_one, of_two = ([name for name in known if name in columns] for known in (_OF_ONE, _OF_TWO))
    if of_two and of_one:
        raise InputError(
            f"--columns {of_two[0]}=…: is for rows that hold two responses, and {of_one[0]} for rows of one; "
            "leave one of them out"
        )
    fields_of_two = _unrated(fields_of(columns, of_two=True))
    fields = fields_of_two if of_two else _unrated(fields_of(columns))
    may_be_two = None if of_two or of_one else fields_of_two
    gathering = Gathering(fields, may_be_two, may_repeat=True, **options)
    return comparisons_of(gathering.read(names, called), limit=limit, wants_best=wants_best)


def _unrated(fields: Fields) -> Fields:
    """Return the fields without ratings that nobody mapped: these are of single responses."""
    return fields._replace(ratings=tuple(rated for rated in fields.ratings if rated.mapped))


def comparisons_of(
    dataset: Dataset, *, limit: int | None = None, wants_best: bool = False
) -> Dataset:
    """Return the comparisons that the pairs of a data set make, those of two responses unchanged; the rest as above."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit}: at least one prompt is needed. Use --limit 1 or more.")
    twos = sum(pair.other is not None for pair in dataset.pairs)
    if 0 < twos < len(dataset.pairs):
        raise InputError(
            f"{dataset.source}: {twos:,} of {len(dataset.pairs):,} rows hold two responses, response_a and response_b, and "
            "the others one; give all of them the same shape, or make a run of each"
        )
    _check_names(dataset, is_two=bool(twos), wants_best=wants_best)
    left_out = LeftOut(dict.fromkeys((_REPEATED, _EQUAL, _OF_ITSELF, _AGAIN, _ALONE), 0))
    left_out[_REPEATED] = dataset.repeated
    made = iter(dataset.pairs) if twos else _every_two(dataset, left_out, limit)
    pairs = list(_different(made, left_out, limit, wants_best=wants_best))
    notes = [
        f"{number_of(count, noun)} left out: {why}"
        for (noun, why), count in left_out.items()
        if count
    ]
    if not pairs:
        raise InputError(
            f"{dataset.source}: nothing to compare: {'; '.join(notes)}. A comparison needs two different responses to "
            "one prompt: a row with response_a and response_b, or two rows with the same prompt, a response each, and another "
            "system"
        )
    unused = [] if wants_best else _unused_systems(pairs, dataset)
    if unused:
        notes.append(f"in no comparison, and not ranked: {list_names(unused, _LISTED)}")
    lines = (f"{dataset.source}: {note}" for note in notes)
    return replace(
        dataset, pairs=PairTable.from_pairs(_with_unique_ids(pairs)), notes=(*dataset.notes, *lines)
    )


def _check_names(dataset: Dataset, *, is_two: bool, wants_best: bool) -> None:
    """Raise InputError if some rows name their systems and others do not, or none does and the goal needs them."""
    needed = SYSTEM_COLUMNS if is_two else (SYSTEM_COLUMN,)
    names = [sum(name in pair.columns for name in needed) for pair in dataset.pairs]
    if min(names) == len(needed) or (wants_best and not is_two) or (is_two and not any(names)):
        return
    unnamed = [at for at, count in enumerate(names) if count < len(needed)]
    if any(names):
        whose, give = "the system that answered", f'a "{SYSTEM_COLUMN}"'
        if is_two:
            whose, give = "the systems of both responses", "system_a and system_b"
        raise InputError(
            f"{dataset.source}: {len(unnamed):,} of {len(names):,} rows do not name {whose}, the first is "
            f"{shown(dataset.pairs[unnamed[0]].pair_id)}; give them {give}, or leave them out"
        )
    known = {name for pair in islice(dataset.pairs, 1000) for name in pair.columns}
    known -= {*PLACE_COLUMNS.values()}
    listed = list_names(sorted(known), _LISTED) if known else "no further columns"
    listed = "; ".join([listed, *dataset.columns_left_out])  # chosen and rejected may be lists
    raise InputError(
        f"{dataset.source}: the rows hold one response each, and do not name its system (there are: "
        f"{listed}). Name the column of systems: --columns {SYSTEM_COLUMN}=NAME; or "
        "the columns of two responses: --columns response_a=NAME,response_b=NAME; or find the best response to each prompt: "
        "--decide best"
    )


def _every_two(dataset: Dataset, left_out: LeftOut, limit: int | None) -> Iterator[Pair]:
    """Return a comparison of every two responses to a prompt."""
    by_prompt: dict[str, list[Pair]] = {}
    for pair in dataset.pairs:
        by_prompt.setdefault(pair.prompt, []).append(pair)
    counts = [len(pairs) * (len(pairs) - 1) // 2 for pairs in by_prompt.values() if len(pairs) > 1]
    if (count := sum(counts[:limit])) > MOST_COMPARISONS:
        raise InputError(
            f"{dataset.source}: every two responses to a prompt make {count:,} comparisons; at most {MOST_COMPARISONS:,} are "
            "possible. Take fewer prompts with --limit"
        )
    left_out[_ALONE] = len(by_prompt) - len(counts)
    return (_compare(*two) for pairs in by_prompt.values() for two in combinations(pairs, 2))


def _compare(first: Pair, second: Pair) -> Pair:
    """Return the comparison of two responses, with the values that both rows share.

    A hash of their texts decides which is A.
    """

    def key(pair: Pair) -> tuple[str, str, str]:
        return pair.response, str(pair.columns.get(SYSTEM_COLUMN)), pair.pair_id

    a, b = sorted((first, second), key=key)
    texts = (a.prompt, *key(a)[:2], *key(b)[:2])
    if hashlib.sha256("\0".join(texts).encode()).digest()[0] & 1:
        a, b = b, a
    columns: dict[str, Value] = {
        name: value
        for name, value in a.columns.items()
        if name not in (SYSTEM_COLUMN, *SYSTEM_COLUMNS)
        and (type(value), value) == (type(b.columns.get(name)), b.columns.get(name))
    }
    for name, pair in zip(SYSTEM_COLUMNS, (a, b), strict=True):
        if (system := pair.columns.get(SYSTEM_COLUMN)) is not None:
            columns[name] = as_text(system)
    pair_id = f"{a.pair_id}~{b.pair_id}"
    reference = a.reference if a.reference == b.reference else None
    return Pair(pair_id, a.prompt, a.response, {}, reference, None, columns, b.response)


def _different(
    pairs: Iterable[Pair], left_out: LeftOut, limit: int | None, *, wants_best: bool
) -> Iterator[Pair]:
    """Yield the comparisons of different texts and systems of the first ``limit`` prompts that have one.

    For the best response, without repetitions.
    """
    seen: set[bytes] = set()
    prompts: set[str] = set()
    for pair in pairs:
        system_a, system_b = (pair.columns.get(name) for name in SYSTEM_COLUMNS)
        texts = sorted((pair.response.strip(), (pair.other or "").strip()))
        key = (
            hashlib.sha256("\0".join((pair.prompt, *texts)).encode()).digest()
            if wants_best
            else b""
        )
        if texts[0] == texts[1]:
            left_out[_EQUAL] += 1
        elif key in seen:
            left_out[_AGAIN] += 1
        elif system_a is not None and system_a == system_b and not wants_best:
            left_out[_OF_ITSELF] += 1
        else:
            seen |= {key} if key else set()
            if limit is None or pair.prompt in prompts or len(prompts) < limit:
                prompts.add(pair.prompt)
                yield pair


def _unused_systems(pairs: Sequence[Pair], dataset: Dataset) -> list[str]:
    """Return the systems of the data that are in no comparison; none if the comparisons do not name systems.

    Raises:
        InputError: no chain of comparisons connects some systems with others, so nothing tells which is better; or there are
            more systems than can be ranked.
    """
    if any(name not in pairs[0].columns for name in SYSTEM_COLUMNS):
        return []
    edges = dict.fromkeys(
        tuple(as_text(pair.columns[name]) for name in SYSTEM_COLUMNS) for pair in pairs
    )
    compared = dict.fromkeys(chain.from_iterable(edges))
    if len(compared) > MOST_SYSTEMS:
        raise InputError(
            f"{dataset.source}: has {len(compared):,} systems; at most {MOST_SYSTEMS:,} can be ranked. Compare fewer in one run"
        )
    parts: list[dict[str, None]] = []
    for edge in edges:
        touched = [part for part in parts if not part.keys().isdisjoint(edge)]
        if len(touched) != 1 or not touched[0].keys() >= {*edge}:
            apart = [part for part in parts if part.keys().isdisjoint(edge)]
            parts = [*apart, dict.fromkeys(chain(*touched, edge))]
    if len(parts) > 1:
        listed = [list_names(list(part), _LISTED) for part in parts]
        raise InputError(
            f"{dataset.source}: its {len(compared)} systems fall into {len(parts)} parts that no comparison connects: "
            f"{' | '.join(listed[:_LISTED])}{' | …' * (len(listed) > _LISTED)}. Add responses of both parts to the same "
            "prompts, or make a run of each"
        )
    names = (SYSTEM_COLUMN, *SYSTEM_COLUMNS)
    systems = (pair.columns.get(name) for pair in dataset.pairs for name in names)
    named = dict.fromkeys(as_text(system) for system in systems if system is not None)
    return [system for system in named if system not in compared]


def _with_unique_ids(pairs: list[Pair]) -> Iterator[Pair]:
    """Yield the comparisons with unique ids: two ids that hold the mark between them may join to the same."""
    seen = Counter(pair.pair_id for pair in pairs)
    for pair in pairs:
        if seen[pair.pair_id] > 1:
            both = f"{len(pair.response)}\0{pair.response}{pair.other}"
            pair = replace(pair, pair_id=pair_id_of(pair.prompt, both))  # noqa: PLW2901
        yield pair
