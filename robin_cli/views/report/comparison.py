"""Two runs or systems side by side: how far their scores are apart, and the report of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.agreement import FEWEST_PROMPTS, agreement
from robin_cli.analysis.intervals import sum_intervals
from robin_cli.analysis.paired import by_prompt
from robin_cli.analysis.run_compare import Compared, as_they_are, differing_in
from robin_cli.analysis.scores import Scores, rated_parts, score
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.groups import name_of
from robin_cli.model.records import Pair, Scale, number_of
from robin_cli.render.html import PageColumn, cells
from robin_cli.storage.pair_files import read_numbers
from robin_cli.storage.reader import RunData
from robin_cli.views.report import pictures
from robin_cli.views.report.page import Bar, Order, Page, View, first_rows
from robin_cli.views.report.pictures import Picture, picture
from robin_cli.views.report.rows import Answers, Judged, texts_of
from robin_cli.views.report.systems import headline_of, pictures_of
from robin_cli.views.scores import judged_by
from robin_cli.views.status import facts_of, lines_of, spent_of_budget


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs, A and B, say of what both rate: shape (rows,) each, in A's order.

    Attributes:
        scores: all of A's, of which ``rows`` are in both.
        alone: how many scores only A, and only B, has.
        a, b, n_a, n_b: the scores and how many ratings each has.
        low, high: the ends of the interval for A − B, at least 95 %, each row for itself.
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

    @property
    def difference(self) -> FloatArray:
        """A − B."""
        return self.a - self.b

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Where the interval does not contain 0."""
        return (self.low > 0) | (self.high < 0)

    def by_attribute(self) -> dict[str, Comparison]:
        """Each attribute by itself: a mean over attributes, perhaps of different scales, says nothing."""
        names = np.array(self.scores.columns["attribute"])[self.rows]
        arrays = ("rows", "a", "b", "n_a", "n_b", "low", "high")
        return {
            str(name): replace(self, **{each: getattr(self, each)[names == name] for each in arrays})
            for name in dict.fromkeys(names.tolist())
        }


def compare(a: RunData, b: RunData) -> Comparison:
    """The scores that both runs have, by pair and attribute."""
    mine, theirs = score(a), score(b)
    known = _by_name(theirs)
    both = [(row, known[name]) for name, row in _by_name(mine).items() if name in known]
    rows_a, rows_b = np.array(both, dtype=np.int64).reshape(-1, 2).T
    (mean_a, n_a), (mean_b, n_b) = (
        [np.asarray(scores.columns[name], dtype=np.float64)[rows] for name in ("score", "n")]
        for scores, rows in ((mine, rows_a), (theirs, rows_b))
    )
    alone = (len(mine) - len(both), len(theirs) - len(both))
    low, high = _row_differences(a, b, rows_a, rows_b)
    return Comparison(mine, rows_a, alone, mean_a, mean_b, n_a, n_b, low, high)


def _row_differences(a: RunData, b: RunData, rows_a: IntArray, rows_b: IntArray) -> tuple[FloatArray, FloatArray]:
    """The intervals of A − B for these rows of each; rows of one scale at a time."""
    low, high = np.empty(len(rows_a)), np.empty(len(rows_a))
    of_b = list(rated_parts(b))
    for theirs, positive in rated_parts(a):
        for others, negative in of_b:
            both = np.flatnonzero(np.isin(rows_a, theirs) & np.isin(rows_b, others))
            if len(both):
                at_a, at_b = np.searchsorted(theirs, rows_a[both]), np.searchsorted(others, rows_b[both])
                parts = [replace(each, counts=each.counts[at_a]) for each in positive]
                parts += [replace(each, counts=each.counts[at_b], weight=-each.weight) for each in negative]
                low[both], high[both] = sum_intervals(parts)
    return low, high


def _by_name(scores: Scores) -> dict[tuple[str, str], int]:
    names = zip(scores.columns["pair_id"], scores.columns["attribute"], strict=True)
    return {(str(pair), str(attribute)): row for row, (pair, attribute) in enumerate(names)}


_BINS = 24
_LETTERS = ("A", "B")


def comparison_of(a: RunData, b: RunData, *, working: tuple[bool, bool]) -> Page:
    """What the report of two runs shows: A, B, and A − B.

    Raises:
        InputError: they have no pair and no prompt in common, or rate on different scales; or other responses by other judges.
    """
    scales = dict(zip(b.manifest.attributes, b.manifest.scales, strict=True))
    for attribute, scale in zip(a.manifest.attributes, a.manifest.scales, strict=True):
        if attribute in scales and scales[attribute] != scale:
            raise InputError(
                f"{a.path} and {b.path} rate {attribute} on different scales ({scale} and {scales[attribute]}): their scores "
                "cannot be compared"
            )
    if not set(scales) & set(a.manifest.attributes):
        raise InputError(
            f"{a.path} and {b.path} have no pair and attribute in common; compare runs over the same pairs"
        )
    both, differing = compare(a, b), differing_in(a.manifest, b.manifest)
    if not len(both.rows) and differing:
        raise InputError(
            f"{a.path} and {b.path} have no pair and attribute in common, and their systems cannot be compared, for they were "
            f"not judged in the same way: {'; '.join(differing)}"
        )
    if not len(both.rows) and not _shares_a_prompt(a, b):
        raise InputError(
            f"{a.path} and {b.path} have no pair and attribute in common, and no prompt either; compare runs over the same "
            "pairs, or over the same prompts"
        )
    left_out: list[str] = []
    found = as_they_are([a, b], left_out.append)
    facts = [facts_of(run, score(run), working=at_work) for run, at_work in zip((a, b), working, strict=True)]
    parts = _by_pair(a, b, both, scales) if len(both.rows) else _by_prompt(a, b, found, scales)
    return Page(
        title="Two runs, pair by pair" if len(both.rows) else "Two systems, prompt by prompt",
        subtitle=f"A: {a.path}, {judged_by(a.manifest)} · B: {b.path}, {judged_by(b.manifest)}",
        headline=[*headline_of(found), *parts.pop("headline")],
        warnings=[
            *_unfinished(facts),
            *([f"A and B were not judged in the same way: {'; '.join(differing)}."] if differing else []),
            *left_out,
            *parts.pop("warnings"),
        ],
        pictures=[*pictures_of(found), *parts.pop("pictures")],
        facts={"Run A": lines_of(facts[0]), "Run B": lines_of(facts[1])},
        **parts,
    )


def _by_pair(a: RunData, b: RunData, both: Comparison, scales: Mapping[str, Scale]) -> dict[str, Any]:
    """What is particular to runs over the same pairs."""
    shown = first_rows(np.abs(both.difference))
    pairs, place = np.unique(a.space.pair[both.scores.arm[both.rows[shown]]], return_inverse=True)
    each = both.by_attribute()
    about = {name: f" · {name}" if len(each) > 1 else "" for name in each}
    return {
        "headline": [
            line for name, mine in each.items() for line in _pair_headline(a, mine, scales[name], about[name])
        ],
        "warnings": _changed(a, b, both),
        "pictures": [drawn for name, mine in each.items() for drawn in _pictures(mine, scales[name], about[name])],
        "columns": _columns(both, shown, scales, several=len(a.space.attributes) > 1),
        "pairs": place.tolist(),
        "texts": texts_of(len(pairs), a.pairs_at(pairs).__getitem__, _answers_of_both(a, b, pairs.tolist())),
        "bar": Bar(
            "A bar has 0 in its middle and ends where A would be lower or higher by the whole scale: the line is the interval, "
            "the stroke the difference.",
            *("A − B", "", "interval", ""),
            scales=_reaches(scales),
        ),
        "orders": _orders("order of the data"),
        "views": [View("differ beyond noise", "differ", "is", "yes"), *_VIEWS],
        "left_out": ""
        if len(shown) == len(both.rows)
        else f"Of {len(both.rows):,} rows these are {len(shown):,}: those that differ most, and a random sample.",
    }


_VIEWS = (View("A higher", "A − B", "above", 0), View("B higher", "A − B", "below", 0))


def _orders(first: str) -> list[Order]:
    return [Order(first), Order("largest A − B", ["A − B"], power=1), Order("largest difference", ["A", "B"], power=1)]


def _reaches(scales: Mapping[str, Scale]) -> list[tuple[int, int]]:
    return [(scale.low - scale.high, scale.high - scale.low) for scale in scales.values()]


def _columns(both: Comparison, shown: IntArray, scales: Mapping[str, Scale], *, several: bool) -> list[PageColumn]:
    named = {name: np.array(both.scores.columns[name], dtype=object)[both.rows] for name in ("pair_id", "attribute")}
    apart = np.where(both.apart, "yes", "")
    place = {name: number for number, name in enumerate(scales)}
    scale_of = np.array([place[name] for name in named["attribute"]])
    table = [
        ("pair", "id", "The pair's id; opens its texts.", named["pair_id"]),
        *([("attribute", "text", "What was rated.", named["attribute"])] if several else []),
        ("difference", "bar", "The difference and its interval; sorts by how wide that is.", scale_of),
        ("A", "score", "Mean rating in run A.", both.a),
        ("B", "score", "Mean rating in run B.", both.b),
        ("A − B", "difference", "Difference of the mean ratings.", both.difference),
        (
            "interval",
            "range",
            "95 % interval for the difference of the judges' means.",
            np.column_stack([both.low, both.high]),
        ),
        ("ratings A", "number", "Ratings in run A.", both.n_a.astype(np.int64)),
        ("ratings B", "number", "Ratings in run B.", both.n_b.astype(np.int64)),
        ("differ", "text", "yes, where the interval does not contain 0.", apart),
    ]
    return [PageColumn(name, kind, says, cells(values[shown])) for name, kind, says, values in table]


def _pictures(both: Comparison, scale: Scale, about: str) -> list[Picture]:
    return [
        picture(
            f"A against B{about}",
            f"{pictures.marks_of({'': pictures.is_dense(both.a, both.b)})} On the dashed line both runs score them alike.",
            pictures.against(both.a, both.b, ("score in A", "score in B"), scale),
        ),
        _differences(both.difference, scale, about, "pairs"),
    ]


def _differences(values: FloatArray, scale: Scale, about: str, things: str) -> Picture:
    width = scale.high - scale.low
    return picture(
        f"Differences{about}",
        f"How many {things} A scores higher (right of 0) or lower than B, and by how much.",
        pictures.histogram(values, "A − B", np.linspace(-width, width, 2 * _BINS + 1), things),
    )


def _answers_of_both(a: RunData, b: RunData, pairs: Sequence[int]) -> Answers:
    """The answers of both runs to the pairs of the page, each with the letter of its run."""
    other = {pair_id: number for number, pair_id in enumerate(b.pair_ids)}
    places = [([pair], [other[a.pair_ids[pair]]]) for pair in pairs]
    return _answers(a, b, places)


def _answers(a: RunData, b: RunData, places: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Answers:
    judged = [Judged(run, [pair for each in places for pair in each[side]]) for side, run in enumerate((a, b))]

    def answers(number: int, longest: int | None, most: int | None) -> list[Any]:
        runs = zip(_LETTERS, judged, places[number], strict=True)
        return [
            [*answer, letter] for letter, run, pairs in runs for pair in pairs for answer in run.of(pair, longest, most)
        ]

    return answers


def _pair_headline(a: RunData, both: Comparison, scale: Scale, about: str) -> list[tuple[str, str, str]]:
    rated = ~(np.isnan(both.a) | np.isnan(both.b))
    apart = f"of {len(both.apart):,}: their 95 % intervals of A − B leave 0 out, each for itself"
    lines = [("pairs that differ beyond noise", f"{int(both.apart.sum()):,}", apart)]
    if rated.any():
        prompt = a.prompts[a.space.pair[both.scores.arm[both.rows]]]
        each = next(told for told in agreement(both.a, both.b, prompt, scale) if told.coefficient == "spearman")
        value = "–" if np.isnan(each.value) else f"{each.value:.2f}"
        ends = f"95 % interval [{each.ci_low:.2f}, {each.ci_high:.2f}], bootstrap over {number_of(each.n_prompts, 'prompt')}"
        untold = f"told from {FEWEST_PROMPTS} prompts up" if each.n_prompts < FEWEST_PROMPTS else ""
        lines.append(("Spearman ρ of A and B", value, untold if np.isnan(each.ci_low) else ends))
    return [(f"{name}{about}", value, note) for name, value, note in lines]


def _unfinished(facts: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"Run {letter} is {each['state']}: {' are '.join(spent_of_budget(each))}."
        for letter, each in zip(_LETTERS, facts, strict=True)
        if each["state"] != "finished"
    ]


def _changed(a: RunData, b: RunData, both: Comparison) -> list[str]:
    found = []
    if any(both.alone):
        found.append(
            f"{len(both.rows):,} scores are in both; {both.alone[0]:,} are in A alone and {both.alone[1]:,} in B alone."
        )
    ids, *texts = (read_numbers([a.path, b.path], name) for name in ("pair_id", "prompt", "response"))
    of_b = np.flatnonzero(ids < len(a.pair_ids))[len(a.pair_ids) :]  # those that A has: its own are numbered first
    changed = int(np.any([each[of_b] != each[ids[of_b]] for each in texts], axis=0).sum())
    if changed:
        found.append(f"{number_of(changed, 'pair')} of one id have other texts in B than in A.")
    return found


def _by_prompt(a: RunData, b: RunData, found: Compared, scales: Mapping[str, Scale]) -> dict[str, Any]:
    """What is particular to runs over other responses to the same prompts."""
    rows = []
    for name, (one,) in found.differences.items():
        sides = [by_prompt(found.responses[name], side).at(one.prompts).score for side in range(2)]
        each = zip(one.prompts.tolist(), *sides, one.by_prompt, strict=True)
        rows += [(name, prompt, of_a, of_b, difference) for prompt, of_a, of_b, difference in each]
    shown = [rows[at] for at in first_rows(np.abs([row[-1] for row in rows]))]
    prompts = list(dict.fromkeys(prompt for _, prompt, *_ in shown))
    place = {prompt: at for at, prompt in enumerate(prompts)}
    of_each = np.split(found.prompt, [len(a.pair_ids)])
    answering = list(zip(*(_answering(prompt, prompts) for prompt in of_each), strict=True))

    def both(at: int) -> Pair:
        """A prompt of the page with the responses of both runs to it."""
        responses = (
            f"{letter}: {run.pairs[pair].response}"
            for letter, run, mine in zip(_LETTERS, (a, b), answering[at], strict=True)
            for pair in mine
        )
        return Pair("", found.prompts[prompts[at]], "\n\n".join(responses))

    number, several = {name: at for at, name in enumerate(scales)}, len(found.differences) > 1
    table = [
        (
            "prompt",
            "id",
            "Opens the prompt and both answers.",
            [name_of(found.prompts[row[1]]) for row in shown],
        ),
        *([("attribute", "text", "What was rated.", [row[0] for row in shown])] if several else []),
        ("difference", "bar", "The difference.", [number[row[0]] for row in shown]),
        ("A", "score", "Mean score of A's responses.", [row[2] for row in shown]),
        ("B", "score", "Mean score of B's responses.", [row[3] for row in shown]),
        ("A − B", "difference", "Difference of these.", [row[4] for row in shown]),
    ]
    return {
        "headline": [],
        "warnings": [],
        "pictures": [
            _differences(one.by_prompt, scales[name], f" · {name}" if several else "", "prompts")
            for name, (one,) in found.differences.items()
        ],
        "columns": [PageColumn(name, kind, says, cells(np.array(values))) for name, kind, says, values in table],
        "pairs": [place[row[1]] for row in shown],
        "texts": texts_of(len(prompts), both, _answers(a, b, answering)),
        "bar": Bar(
            "A bar has 0 in its middle and ends where A would be lower or higher by the whole scale; its stroke is the "
            "difference.",
            *("A − B", "", "", ""),
            scales=_reaches(scales),
        ),
        "orders": _orders("order of the data"),
        "views": list(_VIEWS),
        "left_out": ""
        if len(shown) == len(rows)
        else f"Of {len(rows):,} prompts these are {len(shown):,}: those that differ most, and a random sample.",
    }


def _answering(prompt: IntArray, prompts: Sequence[int]) -> list[list[int]]:
    """The pairs of a run that answer each of ``prompts``; ``prompt``: which one each of its pairs answers."""
    pairs = np.argsort(prompt, kind="stable")
    first, behind = (np.searchsorted(prompt[pairs], prompts, side) for side in ("left", "right"))
    return [pairs[start:end].tolist() for start, end in zip(first, behind, strict=True)]


def _shares_a_prompt(a: RunData, b: RunData) -> bool:
    of_a, of_b = np.split(read_numbers([a.path, b.path], "prompt"), [len(a.pair_ids)])
    return bool(np.isin(of_b, of_a).any())
