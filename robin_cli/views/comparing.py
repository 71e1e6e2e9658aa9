"""Comparisons of systems as a table for files, as JSON, and as lines for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.analysis.labelled import Corrected
from robin_cli.analysis.paired import MORE_CALLS, Difference
from robin_cli.analysis.run_compare import Compared, compared
from robin_cli.model.records import number_of
from robin_cli.model.systems import FEWEST_PROMPTS
from robin_cli.storage.reader import read_run
from robin_cli.views.pairwise import check_of_ratings
from robin_cli.views.summary import LabelsFile, given_labels
from robin_cli.views.text import finite, one_line

COLUMNS = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("attribute", pa.string()),
        ("n_prompts", pa.int64()),
        ("mean_a", pa.float64()),
        ("mean_b", pa.float64()),
        ("difference", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("p_adjusted", pa.float64()),
        ("noise_share", pa.float64()),
        ("prompts_needed", pa.int64()),
    ]
)
LABEL_COLUMNS = pa.schema(
    [
        *((name, pa.float64()) for name in ("corrected_difference", "corrected_low", "corrected_high")),
        ("n_labels", pa.int64()),
    ]
)
"""Behind COLUMNS where people labelled some of the responses."""

_DASH = "–"
_ONE_LOOK = (
    "The intervals hold for one look. Who looks again while prompts come in, and stops once 0 is left out, is wrong in up to a "
    "third of cases: add --anytime, whose intervals are 1.6 times as wide and hold however often one looks"
)
_ANYTIME = "The intervals hold however often one looks while prompts come in (an asymptotic confidence sequence)"


def comparison_of(
    paths: Sequence[Path],
    notify: Callable[[str], None],
    *,
    by: str | None = None,
    match: str | None = None,
    anytime: bool = False,
    labels: LabelsFile = None,
) -> Compared:
    """Return what the runs at ``paths`` say of which system is better; see :func:`run_compare.compared`.

    Args:
        labels: a file of people's labels, in place of the human ratings of the data.

    Raises:
        InputError: options that do not go together, or runs that cannot be compared.
    """
    runs = [read_run(path) for path in paths]
    for run in runs:
        check_of_ratings(run, "robin compare")
    given = given_labels(labels, *runs)
    return compared(runs, notify, by=by, match=match, anytime=anytime, given=given)


def table_of(found: Compared) -> pa.Table:
    """Return a row for every two systems and attribute."""
    is_known = any(each is not None for listed in found.corrected.values() for each in listed)
    schema = pa.unify_schemas([COLUMNS, LABEL_COLUMNS]) if is_known or found.has_labels else COLUMNS
    return pa.Table.from_pylist(rows_of(found), schema=schema)


def print_comparison(console: Console, found: Compared) -> None:
    """Print who is compared, a table of all pairs, and what the numbers say."""
    letters = letters_of(found.systems)
    for name, letter in letters.items():
        console.print(Text(f"{letter}  {one_line(name)}"), soft_wrap=True)
    for title, header, rows in _system_tables(found, letters):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in header:
            table.add_column(name, justify="left" if name in _LEFT else "right")
        for row in rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        console.print()
        if title:
            console.print(Text(one_line(title)))
        console.print(table)
    console.print()
    for line in notes_of(found, letters):
        console.print(Text(one_line(line)), soft_wrap=not console.is_terminal)


_Printed = tuple[str, list[str], list[list[str]]]
"""A table: what is above it, its header and its rows."""


_LEFT = frozenset({"", "better"})


def rows_of(found: Compared) -> list[dict[str, Any]]:
    """A row for every two systems and attribute, as COLUMNS and LABEL_COLUMNS have them; None where there is no value."""
    return [
        {
            "a": found.systems[one.a],
            "b": found.systems[one.b],
            "attribute": attribute,
            "n_prompts": one.n_prompts,
            **{name: finite(getattr(one, name)) for name in COLUMNS.names[4:-1]},
            "prompts_needed": None if math.isnan(one.prompts_needed) else math.ceil(one.prompts_needed),
            **_label_cells(people),
        }
        for attribute, listed in found.differences.items()
        for one, people in zip(listed, found.corrected[attribute], strict=True)
    ]


def _label_cells(people: Corrected | None) -> dict[str, Any]:
    if people is None:
        return {**dict.fromkeys(LABEL_COLUMNS.names), "n_labels": 0}
    values = (people.estimate, people.low, people.high)
    return {**dict(zip(LABEL_COLUMNS.names, map(finite, values), strict=False)), "n_labels": people.n_labels}


def facts_of(found: Compared) -> dict[str, Any]:
    """Return all of it, every value JSON."""
    return {
        "runs": [str(run.path) for run in found.runs],
        "by": found.by,
        "match": found.match,
        "interval": "anytime" if found.anytime else "one look",
        "first_ratings": list(found.by_first),
        "unrated": found.unrated,
        "comparisons": [
            {
                **row,
                "p": finite(one.p),
                "shorter_by_five_calls": finite(one.shorter),
                "settled": one.is_settled,
                "better": _name(verdict(one, (row["a"], row["b"]))),
                "better_by_labels": None
                if people is None or people.why
                else _name(by_people(people, (row["a"], row["b"]))),
                "judge_relied_on": None if people is None else finite(people.lam),
                "labels_why": None if people is None else people.why,
            }
            for row, one, people in zip(
                rows_of(found), chain(*found.differences.values()), chain(*found.corrected.values()), strict=True
            )
        ],
    }


def _name(verdict: str) -> str | None:
    return None if verdict == "not settled" else verdict


def _system_tables(found: Compared, letters: Mapping[str, str]) -> list[_Printed]:
    """A table for each attribute; with people's labels a second line for every two systems."""
    tables = []
    for attribute, listed in found.differences.items():
        rows = []
        for one, people in zip(listed, found.corrected[attribute], strict=True):
            sides = _sides(found, one, letters)
            rows.append(_cells(one, sides))
            if people is not None and not people.why:
                ends = f"{people.low:+.2f} to {people.high:+.2f}"
                says = by_people(people, sides)
                rows.append(
                    ["  by people", f"{people.n_labels:,} labels", "", f"{people.estimate:+.2f}", ends, "", says]
                )
        header = ["", "prompts", "means", "difference", "95 % interval", "p", "better"]
        tables.append((attribute if len(found.differences) > 1 else "", header, rows))
    return tables


def _sides(found: Compared, one: Difference, letters: Mapping[str, str]) -> tuple[str, str]:
    return letters[found.systems[one.a]], letters[found.systems[one.b]]


def _cells(one: Difference, sides: tuple[str, str]) -> list[str]:
    a, b = sides
    if math.isnan(one.p):
        return [f"{a} − {b}", f"{one.n_prompts:,}", _DASH, _DASH, f"fewer than {FEWEST_PROMPTS} prompts", _DASH, _DASH]
    digits = _digits(one)
    return [
        f"{a} − {b}",
        f"{one.n_prompts:,}",
        f"{one.mean_a:.{digits}f}, {one.mean_b:.{digits}f}",
        f"{one.difference:+z.{digits}f}",
        f"{one.ci_low:+z.{digits}f} to {one.ci_high:+z.{digits}f}",
        p_text(one.p_adjusted),
        verdict(one, sides),
    ]


def _digits(one: Difference) -> int:
    """Two, or as many as show on which side of 0 the interval's ends lie."""
    ends = (one.ci_low, one.ci_high)
    return next((d for d in range(2, 6) if all(math.copysign(1, end) * round(end, d) > 0 for end in ends)), 6)


def p_text(p: float) -> str:
    """A probability as papers have it."""
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def verdict(one: Difference, sides: tuple[str, str]) -> str:
    """Which of the two ``sides`` is better, or that it is not settled."""
    return sides[one.difference < 0] if one.is_settled else "not settled"


def by_people(people: Corrected, sides: tuple[str, str]) -> str:
    """The same by people's labels."""
    return sides[people.estimate < 0] if people.low * people.high > 0 else "not settled"


def notes_of(found: Compared, letters: Mapping[str, str]) -> list[str]:
    """What the numbers say, and what they do not, a line each."""
    known = [
        (name, one, people)
        for name, listed in found.differences.items()
        for one, people in zip(listed, found.corrected[name], strict=True)
        if not math.isnan(one.p)
    ]
    several = len(found.differences) > 1
    lines = []
    many = len(known) > _FEW
    for name, one, people in known[:_MOST_TOLD]:
        about = f"{name}, " if several else ""
        which = f"{about}{' − '.join(_sides(found, one, letters))}: "
        said = [*_settling(one), *([] if many else [_noise(one)])]
        if said:
            lines.append(which + "; ".join(said))
        if people is not None:
            lines.append(which + _by_people(one, people, _sides(found, one, letters)))
    if len(known) > _MOST_TOLD:
        lines.append(
            f"{len(known) - _MOST_TOLD} more pairs are told in the table; --json and CSV have everything of them"
        )
    if many:
        lines.append(_noise_of_all([one for _, one, _ in known]))
    pairs = max(map(len, found.differences.values()))
    if pairs > 1:
        lines.append(
            f"p is corrected for {pairs} differences{' an attribute' * several} (Holm); each interval is by itself"
        )
    if some := sorted({each for each in found.by_first if each is not None}):
        lines.append(
            f"Scores here are of the first {' or '.join(map(str, some))} ratings of each response: later ones were asked "
            "because of these, and a mean of all would be biased"
        )
    lines.append(_ANYTIME if found.anytime else _ONE_LOOK)
    return lines


_FEW = 3
"""Differences that are told one by one, with all there is to say of each."""

_MOST_TOLD = 6
_MOST_PROMPTS = 10_000
_WORTH_CALLS = 0.2
"""By what share calls have to shorten an interval to be worth a word beside prompts."""


def _settling(one: Difference) -> Iterator[str]:
    if one.is_settled:
        return
    if math.isnan(one.prompts_needed):
        yield "no number of prompts like these would settle a difference of 0"
    elif one.prompts_needed > max(_MOST_PROMPTS, 10 * one.n_prompts):
        yield f"more than {_MOST_PROMPTS:,} prompts would be needed to settle so small a difference"
    else:
        yield f"about {_about(one.prompts_needed):,} prompts in all would settle it, were the difference as large as it looks"


_UNKNOWN = "the judge's share of the doubt is not known, for hardly a response was rated twice"


def _noise(one: Difference) -> str:
    if math.isnan(one.noise_share):
        return _UNKNOWN
    if one.shorter == 0:
        return f"{_percent(one.noise_share)} of the doubt is the judge's noise; later calls take none away: they do not count"
    helps = "; more prompts are what helps" if one.shorter < _WORTH_CALLS else ""
    return (
        f"{_percent(one.noise_share)} of the doubt is the judge's noise: {MORE_CALLS} calls more a response would shorten "
        f"this interval by at most {_percent(one.shorter)}{helps}"
    )


def _noise_of_all(known: Sequence[Difference]) -> str:
    told = [one for one in known if not math.isnan(one.noise_share)]
    if not told:
        return _UNKNOWN[0].upper() + _UNKNOWN[1:]
    least, most = (_percent(end(one.noise_share for one in told)) for end in (min, max))
    return (
        f"{least} to {most} of the doubt is the judge's noise: {MORE_CALLS} calls more a response would shorten no interval by "
        f"more than {_percent(max(one.shorter for one in told))}"
    )


def _by_people(one: Difference, people: Corrected, sides: tuple[str, str]) -> str:
    labels = number_of(people.n_labels, "label")
    if people.why:
        return f"{labels} of people correct nothing: {people.why}"
    judge, labelled = verdict(one, sides), by_people(people, sides)
    bear_out = "bear that out" if judge == labelled else f"do not bear that out: {labelled} is better"
    if labelled == "not settled":
        bear_out = "settle neither" if judge == labelled else "do not bear that out: their interval holds 0"
    says = "The judge finds neither better" if judge == "not settled" else f"The judge prefers {judge}"
    return (
        f"{says}; {labels} of people {bear_out}. They correct the difference to {people.estimate:+.2f} (95 % interval "
        f"{people.low:+.2f} to {people.high:+.2f}, for one look): the judge is {abs(one.difference - people.estimate):.2f} too "
        f"kind to {sides[one.difference < people.estimate]}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "1 %"


def _about(number: float) -> int:
    """The next whole number above with two significant digits."""
    whole = math.ceil(number)
    unit = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // unit) * unit


def letters_of(names: Sequence[str]) -> dict[str, str]:
    """A letter for each name."""
    return dict(zip(names, _letters(), strict=False))


def _letters() -> Iterator[str]:
    yield from "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    yield from (f"S{number}" for number in count(27))
