"""The report of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.calibration import bins_of
from robin_cli.analysis.curve import Curve, DecisionCurve, curve_of, decision_curve_of
from robin_cli.analysis.decisions import SETTLED
from robin_cli.analysis.scores import Scores, likely_widths, score
from robin_cli.goals.decided import OPEN, decided_text, things, wrong_text
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import MODEL_PREFIX, Scale, counted, in_words, number_of
from robin_cli.render.html import PageColumn, cells, page_columns
from robin_cli.results.words import WORST, dollars
from robin_cli.storage.reader import RunData
from robin_cli.views.report import pictures
from robin_cli.views.report.page import Bar, Order, Page, View, first_rows
from robin_cli.views.report.pictures import Draw, Picture, picture
from robin_cli.views.report.rows import Judged, texts_of
from robin_cli.views.report.systems import headline_of, pictures_of, systems_in
from robin_cli.views.scores import judged_by, score_table
from robin_cli.views.status import (
    agreement_line,
    cost_of,
    error_of,
    facts_of,
    levels_line,
    lines_of,
    paper_line,
    range_of,
    spent_of_budget,
    spread_over,
    tokens_of,
    whose,
    worst_of,
)

_BINS = 20
_MOST_UNRATED = 0.5
"""Rows without a rating come first, as the least certain, unless so many are that of the others none would be seen."""

_NONE_HAS_TWO = "No pair has two ratings, so nothing is drawn of how they vary."


def page_of(run: RunData, *, working: bool) -> Page:
    """What the report of ``run`` shows; ``working``: a process is at work on it."""
    scores = score(run)
    facts = facts_of(run, scores, working=working)
    curve = curve_of(run)
    decisions = None if run.task is None else decision_curve_of(run, run.task)
    systems, left_out = systems_in(run)
    orders = _orders(run, scores)
    shown = first_rows(*orders.values())
    columns = _columns(run, scores, shown)
    pairs, place = np.unique(run.space.pair[scores.arm[shown]], return_inverse=True)
    judged = Judged(run, pairs)
    packed = texts_of(
        len(pairs), run.pairs_at(pairs).__getitem__, lambda k, longest, most: judged.of(pairs[k], longest, most)
    )
    attributes = ", ".join(facts["attributes"])
    return Page(
        title=f"{attributes} of {number_of(facts['pairs'], 'pair')}",
        subtitle=f"judged by {judged_by(run.manifest)} · {facts['data']} · {facts['created_at']}",
        headline=[*(headline_of(systems) if systems else ()), *_headline(facts, scores)],
        warnings=[*warnings_of(facts), *left_out, *([] if _has_two(run) else [_NONE_HAS_TWO])],
        pictures=[
            *(pictures_of(systems) if systems else ()),
            *_decisions_over_calls(facts, decisions),
            *_pictures(run, scores, facts, curve),
        ],
        facts={"About this run": {**lines_of(facts), "paper's bound": paper_line(facts)}},
        columns=columns,
        pairs=place.tolist(),
        texts=packed,
        bar=_bar(run, columns),
        orders=[*orders, Order("order of the data")],
        views=_views(columns),
        left_out=left_out_of(len(scores), len(shown), orders),
    )


def left_out_of(rows: int, shown: int, orders: Iterable[Order]) -> str:
    """What a table of ``rows`` of which it has ``shown`` does not have; "" where it has all."""
    if shown == rows:
        return ""
    names = ", ".join(f"“{order.name}”" for order in orders)
    return (
        f"Of {rows:,} rows the table has {shown:,}: as many as fit of those that come first by {names}, and of a "
        "random sample. All that is said and drawn above is of all rows. The other "
        f"{rows - shown:,} are left out; robin export has all."
    )


def _headline(facts: dict[str, Any], scores: Scores) -> list[tuple[str, str, str]]:
    count = len(facts["attributes"])  # rows go pair by pair, one of each
    means = {name: _column(scores, "score")[place::count] for place, name in enumerate(facts["attributes"])}
    single = " of single judges" if len(facts["judges"]) > 1 else ""  # as in the picture
    budget = f"{facts['budget']:,}" if facts["budget_usd"] is None else dollars(facts["budget_usd"])
    lines = [
        *(_mean_line(f"mean {name}" if len(means) > 1 else "mean score", mine) for name, mine in means.items()),
        *_decided_line(facts),
        ("calls spent", f"{facts['spent']:,}", f"of a budget of {budget}; {facts['state']}"),
        (WORST, *worst_of(facts)),
        (
            "error bound",
            f"± {error_of(facts, facts['error_bound'])}",
            f"no score{single} is further from {whose(facts)} mean, with 95 % confidence for all at once",
        ),
        (
            "answers without a rating",
            f"{sum(facts['unparsed'].values()):,}",
            f"and {sum(facts['failed'].values()):,} failed calls kept",
        ),
        ("cost", cost_of(facts), tokens_of(facts)),
    ]
    if facts["judge_spread"] is not None:
        apart = f"standard deviation of the judges' means of one pair, noise taken out; {spread_over(facts)}"
        lines.append(("between judges", error_of(facts, facts["judge_spread"]), apart))
    for attribute, found in facts["agreement"].items():
        each = found["spearman"]
        value = "–" if each["value"] is None else f"{each['value']:z.2f}"
        over = f"95 % interval {range_of(each)}, bootstrap over {number_of(each['n_prompts'], 'prompt')}"
        lines.append((f"Spearman ρ with human {attribute}", value, each["why"] or over))
    return lines


def _decided_line(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = facts["decisions"]
    return [] if found is None else [("decided", f"{found['certified']:,} of {found['of']:,}", decided_text(found))]


def _mean_line(name: str, scores: FloatArray) -> tuple[str, str, str]:
    rated = scores[~np.isnan(scores)]
    mean = f"{rated.mean():.2f}" if len(rated) else "–"
    spread = f"{rated.std(ddof=1):.2f}" if len(rated) > 1 else "–"
    return name, mean, f"over {number_of(len(rated), 'score')}; how they differ: standard deviation {spread}"


def warnings_of(facts: dict[str, Any]) -> list[str]:
    """What a reader must know of a run before believing its figures."""
    found = []
    judges = [judge["judge"] for judge in facts["judges"]]
    replays = [judge for judge in judges if judge.startswith(MODEL_PREFIX)]
    if replays and len(replays) == len(judges):
        found.append(
            "These are recorded ratings, replayed: no model read the responses, and the scores say nothing about them."
        )
    elif replays:
        found.append(
            f"The ratings of {', '.join(replays)} are recorded ones, replayed: no model read the responses for them, and "
            "scores that they are part of say that much less."
        )
    if facts["state"] != "finished":
        under_way = sum(each["requests"] for each in facts["under_way"])
        batches = f" {number_of(under_way, 'request')} are under way in batches; robin resume takes them in." * bool(
            under_way
        )
        found.append(f"This run is {facts['state']}: {' are '.join(spent_of_budget(facts))}.{batches}")
    if facts["arms_retired"]:
        reasons = counted(facts["retired_reasons"])
        found.append(f"{facts['arms_retired']:,} of {facts['arms']:,} could not be rated and were given up: {reasons}.")
    return found


def _pictures(run: RunData, scores: Scores, facts: dict[str, Any], curve: Curve) -> list[Picture]:
    several = len(run.space.judges) > 1
    each = score(run, by_judge=True) if several else scores
    labels = [run.space.label(arm) for arm in run.space.arms_of_pair(0)]
    by_label = _Split.of(run, each, labels, each.arm % len(labels))
    evenly = facts["ratings"] / max(1, facts["arms"])
    most = max(1.0, evenly, _column(each, "n").max(initial=0.0))
    drawn = []
    varied = _has_two(run)
    if varied:
        each_got = f"{evenly:.1f}" if evenly >= 1 else f"{evenly:.2g}"
        drawn.append(
            picture(
                "Where the budget went",
                f"Each mark is a pair{' and a judge' * several}. An even spread would have given each {each_got} ratings "
                "(dashed).",
                by_label.drawn(
                    lambda mine, scale: pictures.allocation(
                        mine["n"], mine["variance"], evenly, (by_label.widest(scale), most)
                    )
                ),
            )
        )
    if len(curve.calls) > 1 and scores.decided is None:  # whose calls are spent to lower neither
        drawn += _courses(curve, facts, several=several)
    by_attribute = _Split.of(run, scores, run.space.attributes, run.space.attribute[scores.arm])
    drawn.append(picture("Scores", "How many pairs have which score.", by_attribute.drawn(_score_histogram)))
    if varied:
        drawn.append(
            picture(
                "Variances",
                "How much the judge's ratings of one pair vary, from two ratings up. Zero: it always said the same.",
                by_label.drawn(
                    lambda mine, scale: pictures.histogram(
                        mine["variance"],
                        "variance of a pair's ratings",
                        np.linspace(0, by_label.widest(scale), _BINS + 1),
                    )
                ),
            )
        )
    if several:
        told = "How many pairs have which score, by judge: where one is harsher than another, it shows here."
        drawn.append(picture("Scores of each judge", told, by_label.drawn(_score_histogram)))
    if facts["agreement"]:
        shown = [by_attribute]
        if several:
            of_judge = [" · ".join(names) for names in product(run.space.attributes, run.space.judges)]
            shown.append(_Split.of(run, each, of_judge, each.arm % len(of_judge)))
        drawn.append(_against_human(facts["agreement"], shown))
    drawn += [
        picture(
            f"Human {attribute} by score",
            f"Mean human rating of the pairs whose scores are nearest to one {_step(by_attribute.scales[attribute])}, at their "
            "mean score, with its 95 % interval over prompts, and how many pairs these are. On the dashed line the judge is "
            "right on average. "
            f"By levels: {levels_line(facts['agreement'][attribute])}.",
            pictures.calibration(
                levels, (f"score of {attribute}", f"human {attribute}"), by_attribute.scales[attribute]
            ),
        )
        for attribute, levels in facts["calibration"].items()
        if levels and attribute in by_attribute.scales
    ]
    troubles = {in_words(name): count for name, count in facts["unparsed"].items()}
    troubles |= {f"{in_words(name)} (failed)": count for name, count in facts["failed"].items()}
    if troubles:
        drawn.append(
            picture(
                "What brought no rating",
                "Answers without a rating are paid for and count; failed calls do not.",
                pictures.bars(troubles, "calls"),
            )
        )
    return drawn


def _has_two(run: RunData) -> bool:
    """Whether any arm has two ratings, so that there is a variance to draw."""
    return bool(run.fold.arms.counts.max(initial=0) >= 2)


@dataclass(frozen=True, slots=True)
class _Split:
    """The columns of scores by what their rows are of, an attribute or an attribute and a judge, and the scale of each."""

    columns: Mapping[str, Mapping[str, FloatArray]]
    scales: Mapping[str, Scale]

    @classmethod
    def of(cls, run: RunData, scores: Scores, names: Sequence[str], place: NDArray[np.integer[Any]]) -> _Split:
        """``place``: which of ``names`` each row is of, shape (rows,); the first rows are of one each."""
        rows = {name: place == number for number, name in enumerate(names)}
        numbers = {each: _column(scores, each) for each in ("score", "variance", "n", "human")}
        return cls(
            {
                name: {each: values if mine.all() else values[mine] for each, values in numbers.items()}
                for name, mine in rows.items()
            },
            {name: run.space.scale_of(int(scores.arm[np.argmax(mine)])) for name, mine in rows.items()},
        )

    def drawn(self, draw: Callable[[Mapping[str, FloatArray], Scale], Draw]) -> Draw | dict[str, Draw]:
        """A panel of each: laid over one another they could not be told apart."""
        return pictures.small_multiples(self.columns, lambda name: draw(self.columns[name], self.scales[name]))

    def widest(self, scale: Scale) -> float:
        """The largest variance of all that are on ``scale``."""
        mine = [columns["variance"] for name, columns in self.columns.items() if self.scales[name] == scale]
        return float(np.nanmax(np.concatenate(mine), initial=0.25))


def _against_human(agreement: Mapping[str, Any], splits: Sequence[_Split]) -> Picture:
    """A panel for each attribute with human ratings, and for each of its judges where there are several."""
    shown = {name: split for split in splits for name in split.columns if name in agreement}
    dense = {
        name: pictures.is_dense(split.columns[name]["human"], split.columns[name]["score"])
        for name, split in shown.items()
    }

    def draw(name: str) -> Draw:
        mine, scale = shown[name].columns[name], shown[name].scales[name]
        return pictures.against(mine["human"], mine["score"], ("human rating", "score"), scale, jitter=0.03)

    lines = [
        f"{name}: {agreement_line(agreement[name])}" if len(shown) > 1 else agreement_line(agreement[name])
        for name in shown
        if name in splits[0].columns
    ]
    return picture(
        "Scores against human ratings",
        f"{'; '.join(lines)}. {pictures.marks_of(dense)} Pairs are spread sideways a little; on the dashed line both agree.",
        pictures.small_multiples(shown, draw),
        square=True,
    )


def _step(scale: Scale) -> str:
    """What :func:`~robin_cli.analysis.calibration.calibration` takes together, in words."""
    starts = bins_of(scale)
    return "level" if len(starts) == scale.levels else f"bin of levels ({starts[1]} to {starts[2] - 1}, say)"


def _score_histogram(mine: Mapping[str, FloatArray], scale: Scale) -> Draw:
    return pictures.histogram(mine["score"], "score", np.linspace(scale.low, scale.high, _BINS + 1))


def _courses(curve: Curve, facts: dict[str, Any], *, several: bool) -> list[Picture]:
    def told(measure: FloatArray) -> str:
        return error_of(facts, float(measure[-1]))

    single = " of single judges" if several else ""
    even = "Dashed: an even spread of as many ratings, projected from this run's ratings."
    return [
        picture(
            "Largest standard error",
            f"The least certain of {curve.arms:,} scores{single}, by the spread of its ratings: an estimate, and what the "
            f"calls are spent to lower. {even} At the end {told(curve.error)} against {told(curve.even_error)}.",
            pictures.course(curve.calls, curve.error, curve.even_error, "largest standard error"),
        ),
        picture(
            "Guaranteed bound",
            f"With 95 % confidence none of {curve.arms:,} scores{single} is further off, whenever one looks. It also covers "
            f"what ratings have not shown yet, so the pairs with the fewest set it. {even} At the end {told(curve.bound)} "
            f"against {told(curve.even_bound)}.",
            pictures.course(curve.calls, curve.bound, curve.even_bound, "error bound of all scores"),
        ),
    ]


def _decisions_over_calls(facts: dict[str, Any], curve: DecisionCurve | None) -> list[Picture]:
    if curve is None or len(curve.calls) < 2:
        return []
    found = facts["decisions"]
    at_end = found["certified"] / max(1, found["of"])
    own, even = (wrong_text(float(each[-1])) for each in (curve.doubt, curve.even_doubt))
    return [
        picture(
            "Decided over calls",
            f"Above, which share of {things(found)} is certified; below, which share of the leanings, what the means alone "
            "say, is likely wrong, by an estimate. Dashed: an even spread of as many ratings, projected from this run's "
            "ratings. Dotted: decisions with the evidence that one alone needs. They are asked no more, and certified together "
            f"once about {100 / SETTLED:.0f} % have it; so before its end a run may have fewer certified than an even spread, "
            f"which goes on asking what is clear. At the end {100 * at_end:.0f} % are certified, "
            f"against {100 * curve.even_certified[-1]:.0f} %, and {own} of the leanings likely wrong, against {even}.",
            {
                "certified": pictures.course(
                    curve.calls,
                    100 * curve.certified,
                    100 * curve.even_certified,
                    "certified, %",
                    also=("evidence enough for one", 100 * curve.settled),
                ),
                "leanings likely wrong": pictures.course(
                    curve.calls, 100 * curve.doubt, 100 * curve.even_doubt, "likely wrong, %"
                ),
            },
        )
    ]


def _columns(run: RunData, scores: Scores, shown: IntArray) -> list[PageColumn]:
    """The columns that say something of this run."""
    says = "Score and intervals on the scale. Sorts by how wide the likely interval is."
    bar = PageColumn("interval", "bar", says, cells(run.space.attribute[scores.arm][shown]))
    return page_columns(score_table(scores, run, sort="width"), shown, bar)


def _bar(run: RunData, columns: list[PageColumn]) -> Bar:
    scales = run.manifest.scales
    has_human = any(column.name == "human" for column in columns)
    along = f", {scales[0].low} to {scales[0].high}" if len(set(scales)) == 1 else ""
    ring = ", the ring the human rating" if has_human else ""
    return Bar(
        f"A bar goes along the scale{along}: the thick line is the likely interval, the thin one the guaranteed, "
        f"the stroke the score{ring}.",
        *("score", "likely", "guaranteed", "human" if has_human else ""),
        scales=[(scale.low, scale.high) for scale in scales],
    )


def _orders(run: RunData, scores: Scores) -> dict[Order, FloatArray]:
    """What the table can be sorted by, and of each row how soon it comes: the larger, the sooner; nan: last."""
    unit, widths = run.space.units[scores.arm], likely_widths(scores, run.space)
    unfinished = bool(np.isinf(widths).mean() > _MOST_UNRATED)
    if unfinished:
        widths = np.where(np.isinf(widths), np.nan, widths)
    orders = {
        Order("widest likely interval", ("likely",), 1, unknown_last=unfinished): widths,
        Order("largest variance", ("variance",), 2): _column(scores, "variance") / unit**2,
    }
    apart = np.abs(_column(scores, "score") - _column(scores, "human")) / unit
    if not np.isnan(apart).all():
        orders[Order("furthest from human", ("score", "human"), 1)] = apart
    return orders


def _views(columns: list[PageColumn]) -> list[View]:
    views = [
        View("variance above 1", "variance", "above", 1),
        View("variance 0", "variance", "is", 0),
        View("with unparsed answers", "unparsed", "above", 0),
        View("without a rating", "ratings", "is", 0),
    ]
    if any(column.name == "decision" for column in columns):
        views.insert(0, View("open decisions", "decision", "ends", OPEN))
    if any(column.name == "given up" for column in columns):
        views.append(View("given up", "given up", "isnt", ""))
    return views


def _column(scores: Scores, name: str) -> FloatArray:
    return np.asarray(scores.columns[name], dtype=np.float64)
