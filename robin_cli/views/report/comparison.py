"""The report of two runs side by side, over the pairs and attributes that both have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robin_cli.analysis.agreement import FEWEST_PROMPTS, agreement
from robin_cli.analysis.comparison import Comparison, compare
from robin_cli.analysis.scores import score
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale, number_of
from robin_cli.storage.reader import RunData
from robin_cli.views.report import pictures
from robin_cli.views.report.page import Bar, Column, Order, Page, View, cells, first_rows
from robin_cli.views.report.pictures import Picture, picture
from robin_cli.views.report.rows import Answers, Judged, texts_of
from robin_cli.views.status import facts_of, lines_of
from robin_cli.views.table import judged_by

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
    both = compare(a, b)
    if not len(both.rows):
        raise InputError(
            f"{a.path} and {b.path} have no pair and attribute in common; compare runs over the same pairs"
        )
    shown = first_rows(np.abs(both.difference))
    pairs, place = np.unique(a.space.pair[both.scores.arm[both.rows[shown]]], return_inverse=True)
    facts = [facts_of(run, score(run), working=at_work) for run, at_work in zip((a, b), working, strict=True)]
    each = both.by_attribute()
    about = {name: f" · {name}" if len(each) > 1 else "" for name in each}
    return Page(
        title="Two runs, pair by pair",
        subtitle=f"A: {a.path}, {judged_by(a.manifest)} · B: {b.path}, {judged_by(b.manifest)}",
        headline=[line for name, mine in each.items() for line in _headline(a, mine, scales[name], about[name])],
        warnings=_warnings(a, b, facts, both),
        pictures=[drawn for name, mine in each.items() for drawn in _pictures(mine, scales[name], about[name])],
        facts={"Run A": lines_of(facts[0]), "Run B": lines_of(facts[1])},
        columns=_columns(both, shown, scales, several=len(a.space.attributes) > 1),
        pairs=place.tolist(),
        texts=texts_of([a.pairs[pair] for pair in pairs.tolist()], _answers_of_both(a, b, pairs.tolist())),
        bar=Bar(
            "A bar has 0 in its middle and ends where B would be lower or higher by the whole scale: the line is the interval, "
            "the stroke the difference.",
            *("B − A", "", "interval", ""),
            scales=[(scale.low - scale.high, scale.high - scale.low) for scale in scales.values()],
        ),
        orders=[
            Order("order of the data"),
            Order("largest B − A", ["B − A"], power=1),
            Order("largest difference", ["A", "B"], power=1),
        ],
        views=[
            View("differ beyond noise", "differ", "is", "yes"),
            View("B higher", "B − A", "above", 0),
            View("B lower", "B − A", "below", 0),
        ],
        left_out=""
        if len(shown) == len(both.rows)
        else f"Of {len(both.rows):,} rows these are the {len(shown):,} that differ most.",
    )


def _columns(both: Comparison, shown: IntArray, scales: Mapping[str, Scale], *, several: bool) -> list[Column]:
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
        ("B − A", "difference", "Difference of the mean ratings.", both.difference),
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
    return [Column(name, kind, says, cells(values[shown])) for name, kind, says, values in table]


def _pictures(both: Comparison, scale: Scale, about: str) -> list[Picture]:
    width = scale.high - scale.low
    return [
        picture(
            f"A against B{about}",
            f"{pictures.marks_of({'': pictures.is_dense(both.a, both.b)})} On the dashed line both runs score them alike.",
            pictures.against(both.a, both.b, ("score in A", "score in B"), scale),
        ),
        picture(
            f"Differences{about}",
            "How many pairs B scores higher (right of 0) or lower than A, and by how much.",
            pictures.histogram(both.difference, "B − A", np.linspace(-width, width, 2 * _BINS + 1)),
        ),
    ]


def _answers_of_both(a: RunData, b: RunData, pairs: Sequence[int]) -> Answers:
    """The answers of both runs to the pairs of the page, each with the letter of its run."""
    other = {pair_id: number for number, pair_id in enumerate(b.pair_ids)}
    places = [(pair, other[a.pair_ids[pair]]) for pair in pairs]
    judged = (Judged(a), Judged(b))

    def answers(number: int, longest: int | None, most: int | None) -> list[Any]:
        runs = zip("AB", judged, places[number], strict=True)
        return [[*answer, letter] for letter, run, pair in runs for answer in run.of(pair, longest, most)]

    return answers


def _headline(a: RunData, both: Comparison, scale: Scale, about: str) -> list[tuple[str, str, str]]:
    rated = ~(np.isnan(both.a) | np.isnan(both.b))
    mean_a, mean_b, difference = both.a[rated], both.b[rated], both.difference[rated]
    count = len(difference)
    error = difference.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    over = f"± {1.96 * error:.3f}: 95 %, over pairs like these (normal approximation)" if count > 1 else ""
    apart = f"of {len(both.apart):,}: their 95 % intervals of B − A leave 0 out, each for itself"
    lines = [
        (
            "mean of A",
            f"{mean_a.mean():.3f}" if count else "–",
            f"over {number_of(count, 'score')} that both runs have",
        ),
        ("mean of B", f"{mean_b.mean():.3f}" if count else "–", "over the same"),
        ("B − A", f"{difference.mean():+.3f}" if count else "–", over),
        ("differ beyond noise", f"{int(both.apart.sum()):,}", apart),
    ]
    if count:
        prompt = a.prompts[a.space.pair[both.scores.arm[both.rows]]]
        each = next(told for told in agreement(both.a, both.b, prompt, scale) if told.coefficient == "spearman")
        value = "–" if np.isnan(each.value) else f"{each.value:.2f}"
        ends = f"95 % interval [{each.ci_low:.2f}, {each.ci_high:.2f}], bootstrap over {number_of(each.n_prompts, 'prompt')}"
        untold = f"told from {FEWEST_PROMPTS} prompts up" if each.n_prompts < FEWEST_PROMPTS else ""
        lines.append(("Spearman ρ of A and B", value, untold if np.isnan(each.ci_low) else ends))
    return [(f"{name}{about}", value, note) for name, value, note in lines]


def _warnings(a: RunData, b: RunData, facts: Sequence[dict[str, Any]], both: Comparison) -> list[str]:
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
    changed = sum(texts.get(pair.pair_id) not in {None, (pair.prompt, pair.response)} for pair in b.pairs)
    if changed:
        found.append(f"{number_of(changed, 'pair')} of one id have other texts in B than in A.")
    return found
