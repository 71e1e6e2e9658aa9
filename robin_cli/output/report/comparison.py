"""The report of two runs side by side, over the pairs and attributes that both have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.errors import InputError
from robin_cli.output.report import pictures
from robin_cli.output.report.page import Column, Page, View
from robin_cli.output.report.pictures import Picture, picture
from robin_cli.output.report.rows import Judged, texts_of
from robin_cli.output.scores import Scores, score
from robin_cli.output.status import facts_of, lines_of
from robin_cli.output.table import judged_by
from robin_cli.records import Scale, number_of
from robin_cli.runs.reading import RunData
from robin_cli.statistics.agreement import FEWEST_PAIRS, agreement
from robin_cli.statistics.intervals import ALPHA

_MOST_ROWS = 20_000
_BINS = 24


def comparison_of(a: RunData, b: RunData, *, working: tuple[bool, bool]) -> Page:
    """What the report of two runs shows: A, B, and B − A.

    Raises:
        InputError: they have no pair and attribute in common, or rate on different scales.
    """
    scales = dict(zip(b.manifest.attributes, b.manifest.scales, strict=True))
    for attribute, scale in zip(a.manifest.attributes, a.manifest.scales, strict=True):
        if attribute in scales and scales[attribute] != scale:
            raise InputError(
                f"{a.path} and {b.path} rate {attribute} on different scales ({scale} and {scales[attribute]}): their scores "
                "cannot be compared"
            )
    both = _Common.of(a, b)
    if not len(both.rows):
        raise InputError(
            f"{a.path} and {b.path} have no pair and attribute in common; compare runs over the same pairs"
        )
    shown, left_out = both.shown()
    pairs = sorted({both.scores.pair(int(both.rows[row])) for row in shown})
    columns, rows = _table(a, both, shown, {pair: number for number, pair in enumerate(pairs)})
    facts = [facts_of(run, score(run), working=at_work) for run, at_work in zip((a, b), working, strict=True)]
    return Page(
        title="Two runs, pair by pair",
        subtitle=f"A: {a.path}, {judged_by(a.manifest)} · B: {b.path}, {judged_by(b.manifest)}",
        headline=[line for each in both.by_attribute() for line in _headline(each)],
        warnings=_warnings(a, b, facts, both),
        pictures=[drawn for each in both.by_attribute() for drawn in _pictures(each, scales[each.attribute])],
        facts={"Run A": lines_of(facts[0]), "Run B": lines_of(facts[1])},
        columns=columns,
        rows=rows,
        texts=texts_of([a.pairs[pair] for pair in pairs], _Both(a, b, pairs)),
        views=[
            View("differ beyond noise", "differ", "is", "yes"),
            View("B higher", "B − A", "above", 0),
            View("B lower", "B − A", "below", 0),
        ],
        left_out=left_out,
    )


@dataclass(frozen=True, slots=True)
class _Common:
    """What both runs say of what both rate: shape (rows,) each, in A's order; ``low`` to ``high`` is for B − A.

    ``scores`` are all of A's, of which ``rows`` are in both; ``alone`` counts those that only A, and only B, has.
    ``attribute``: which one it is about, and ``suffix`` the same for titles where there are several; '' for all together.
    """

    scores: Scores
    rows: IntArray
    alone: tuple[int, int]
    a: FloatArray
    b: FloatArray
    n_a: FloatArray
    n_b: FloatArray
    low: FloatArray
    high: FloatArray
    attribute: str = ""
    suffix: str = ""

    @classmethod
    def of(cls, a: RunData, b: RunData) -> _Common:
        scores_a, scores_b = (
            score(run, alpha=ALPHA / 2) for run in (a, b)
        )  # so that the intervals of both hold together
        rows_a, rows_b = _common_rows(scores_a, scores_b)
        (mean_a, low_a, high_a, n_a), (mean_b, low_b, high_b, n_b) = (
            _estimates(scores_a, rows_a),
            _estimates(scores_b, rows_b),
        )
        return cls(
            scores_a,
            rows_a,
            (len(scores_a) - len(rows_a), len(scores_b) - len(rows_b)),
            mean_a,
            mean_b,
            n_a,
            n_b,
            low_b - high_a,
            high_b - low_a,
        )

    def by_attribute(self) -> list[_Common]:
        """Each attribute by itself: a mean over attributes, perhaps of different scales, says nothing."""
        names = np.array(self.scores.columns["attribute"])[self.rows]
        found = list(dict.fromkeys(names.tolist()))
        arrays = ("rows", "a", "b", "n_a", "n_b", "low", "high")
        return [
            replace(
                self,
                attribute=name,
                suffix=f" · {name}" if len(found) > 1 else "",
                **{each: getattr(self, each)[names == name] for each in arrays},
            )
            for name in found
        ]

    @property
    def difference(self) -> FloatArray:
        return self.b - self.a

    @property
    def apart(self) -> NDArray[np.bool_]:
        return (self.low > 0) | (self.high < 0)

    def shown(self) -> tuple[list[int], str]:
        """The rows that the table has, and what to say of the others."""
        if len(self.rows) <= _MOST_ROWS:
            return list(range(len(self.rows))), ""
        most = np.argsort(-np.abs(np.nan_to_num(self.difference)), kind="stable")[:_MOST_ROWS]
        said = f"Of {len(self.rows):,} rows these are the {_MOST_ROWS:,} that differ most."
        return sorted(most.tolist()), said


def _table(
    a: RunData, both: _Common, shown: Sequence[int], place: Mapping[int, int]
) -> tuple[list[Column], list[list[Any]]]:
    several = len(a.index.attributes) > 1
    columns = [Column("pair", "id", "The pair's id; opens its texts.")]
    if several:
        columns.append(Column("attribute", "text", "What was rated."))
    columns += [
        Column("A", "score", "Mean rating in run A."),
        Column("B", "score", "Mean rating in run B."),
        Column("B − A", "difference", "Difference of the mean ratings."),
        Column("from", "interval", "Lower end of the 95 % interval for the difference of the judges' means."),
        Column("to", "interval", "Upper end of the 95 % interval for the difference of the judges' means."),
        Column("ratings A", "number", "Ratings in run A."),
        Column("ratings B", "number", "Ratings in run B."),
        Column("differ", "text", "yes, where the interval does not contain 0."),
    ]
    rows = []
    for row in shown:
        mine = int(both.rows[row])
        named = [both.scores.columns[name][mine] for name in ("pair_id", *(["attribute"] if several else []))]
        numbers = [_number(each[row]) for each in (both.a, both.b, both.difference, both.low, both.high)]
        counts = [int(both.n_a[row]), int(both.n_b[row])]
        rows.append([*named, *numbers, *counts, "yes" if both.apart[row] else "", place[both.scores.pair(mine)]])
    return columns, rows


def _pictures(both: _Common, scale: Scale) -> list[Picture]:
    width = scale.high - scale.low
    return [
        picture(
            f"A against B{both.suffix}",
            "Each mark is a pair; on the dashed line both runs score it alike.",
            pictures.against(both.a, both.b, ("score in A", "score in B"), scale),
        ),
        picture(
            f"Differences{both.suffix}",
            "How many pairs B scores higher (right of 0) or lower than A, and by how much.",
            pictures.histogram(both.difference, "B − A", np.linspace(-width, width, 2 * _BINS + 1)),
        ),
    ]


class _Both:
    """The answers of both runs to the pairs of the page, each with the letter of its run."""

    def __init__(self, a: RunData, b: RunData, pairs: Sequence[int]) -> None:
        other = {pair.pair_id: number for number, pair in enumerate(b.pairs)}
        self._pairs = [(pair, other.get(a.pairs[pair].pair_id)) for pair in pairs]
        self._judged = (Judged(a), Judged(b))

    def __call__(self, number: int, longest: int | None, most: int | None) -> list[Any]:
        found = []
        for letter, judged, pair in zip("AB", self._judged, self._pairs[number], strict=True):
            if pair is not None:
                found += [[*answer, letter] for answer in judged.of(pair, longest, most)]
        return found


def _by_name(scores: Scores) -> dict[tuple[str, str], int]:
    names = zip(scores.columns["pair_id"], scores.columns["attribute"], strict=True)
    return {(str(pair), str(attribute)): row for row, (pair, attribute) in enumerate(names)}


def _common_rows(a: Scores, b: Scores) -> tuple[IntArray, IntArray]:
    known = _by_name(b)
    both = [(row, known[name]) for name, row in _by_name(a).items() if name in known]
    found = np.array(both, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _estimates(scores: Scores, rows: IntArray) -> Iterator[FloatArray]:
    """Mean, ends of the interval and number of ratings of each of ``rows``."""
    for name in ("score", "ci_low", "ci_high", "n"):
        yield np.asarray(scores.columns[name], dtype=np.float64)[rows]


def _headline(common: _Common) -> list[tuple[str, str, str]]:
    mean_a, mean_b, apart = common.a, common.b, common.apart
    both = ~(np.isnan(mean_a) | np.isnan(mean_b))
    difference = common.difference[both]
    count = len(difference)
    error = difference.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    lines = [
        (
            f"mean of A{common.suffix}",
            f"{mean_a[both].mean():.3f}" if count else "–",
            f"over {number_of(count, 'score')} that both runs have",
        ),
        (f"mean of B{common.suffix}", f"{mean_b[both].mean():.3f}" if count else "–", "over the same"),
        (
            f"B − A{common.suffix}",
            f"{difference.mean():+.3f}" if count else "–",
            f"± {1.96 * error:.3f}: 95 %, over pairs like these (normal approximation)" if count > 1 else "",
        ),
        (
            f"differ beyond noise{common.suffix}",
            f"{int(apart.sum()):,}",
            f"of {len(apart):,}: their 95 % intervals of B − A leave 0 out, each for itself",
        ),
    ]
    if count:
        each = agreement(mean_a[both], mean_b[both])[1]
        value = "–" if np.isnan(each.value) else f"{each.value:.2f}"
        ends = (
            f"told from {FEWEST_PAIRS} pairs up" * (each.n < FEWEST_PAIRS)
            if np.isnan(each.ci_low)
            else f"95 % interval [{each.ci_low:.2f}, {each.ci_high:.2f}], bootstrap over pairs"
        )
        lines.append((f"Spearman ρ of A and B{common.suffix}", value, ends))
    return lines


def _warnings(a: RunData, b: RunData, facts: list[dict[str, Any]], both: _Common) -> list[str]:
    found = [
        f"Run {letter} is {each['state']}: {each['spent']:,} of {each['budget']:,} calls are spent."
        for letter, each in zip("AB", facts, strict=True)
        if each["state"] != "finished"
    ]
    if any(both.alone):
        found.append(
            f"{len(both.rows):,} scores are in both; {both.alone[0]:,} are in A alone and {both.alone[1]:,} in B alone."
        )
    texts = {pair.pair_id: (pair.prompt, pair.response) for pair in a.pairs}
    changed = sum(
        texts.get(pair.pair_id, (pair.prompt, pair.response)) != (pair.prompt, pair.response) for pair in b.pairs
    )
    if changed:
        found.append(f"{number_of(changed, 'pair')} of one id have other texts in B than in A.")
    return found


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
