"""The charts of a run of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from robin_cli.goals.decided import things
from robin_cli.goals.found import Found
from robin_cli.goals.people import People, agreement_line
from robin_cli.goals.rating import Rated
from robin_cli.model.records import Scale
from robin_cli.run.reader import RunData
from robin_cli.show import charts
from robin_cli.show.charts import Axis, Chart, Panel, Series, chart
from robin_cli.show.report.page import Tile, coefficient_tile
from robin_cli.show.words import WORST_ERROR, share_text
from robin_cli.stats.agreement import Level, bins_of
from robin_cli.stats.curve import error_curve, likely_wrong_curve
from robin_cli.stats.decided import Decided
from robin_cli.stats.run_agreement import Subject, subjects

_EVEN = "Dashed: an even spread of as many ratings, projected from this run's ratings."


def rated_charts(found: Rated) -> Iterator[Chart]:
    """Yield the charts of a run of ratings."""
    run, scores = found.run, found.scores
    by_attribute = dict(subjects(run, [scores]))
    by_label = dict(subjects(run, [found.each])) if found.is_panel else by_attribute
    varied = bool(run.fold.arms.n.max(initial=0) >= 2)
    if scores.decided is not None:
        yield from _decisions_over_calls(run, scores.decided)
    yield _histograms("How do the scores spread?", "How many pairs have which score.", by_attribute)
    if varied:
        yield _allocation(run, by_label)
    if scores.decided is None:  # else calls are not spent to lower it
        yield from _course(found)
    if found.is_panel:
        says = "How many pairs have which score, by judge."
        yield _histograms("Is one judge harsher?", says, by_label)
    yield from human_charts(found)


def _widest(by_label: Mapping[str, Subject], scale: Scale) -> float:
    """Return the largest variance of all scores on ``scale``."""
    mine = [each.column("variance") for each in by_label.values() if each.scale == scale]
    return float(np.nanmax(np.concatenate(mine), initial=0.25))


def _allocation(run: RunData, by_label: Mapping[str, Subject]) -> Chart:
    evenly = run.fold.arms.n.sum() / max(1, len(run.space))
    most = max(1.0, evenly, *(each.column("n").max(initial=0.0) for each in by_label.values()))

    def panel(mine: Subject) -> Panel:
        variances, n, widest = (
            mine.column("variance"),
            mine.column("n"),
            _widest(by_label, mine.scale),
        )
        there = ~np.isnan(variances)
        texts = charts.named(mine.pair_ids, there, {"variance": variances, "ratings": n})
        return Panel(
            [Series("points", variances[there], n[there], texts=texts)],
            Axis("variance of a pair's ratings", (-0.03 * widest, 1.03 * widest)),
            Axis("ratings", (0.0, 1.05 * most), rule=evenly),
        )

    each_got = f"{evenly:.1f}" if evenly >= 1 else f"{evenly:.2g}"
    a_judge = " and a judge" * (len(run.space.judges) > 1)
    says = f"Each mark is a pair{a_judge}. An even spread would have given each {each_got} ratings (dashed)."
    return Chart(
        "Where did the calls go?", says, {name: panel(each) for name, each in by_label.items()}
    )


def _histograms(title: str, says: str, split: Mapping[str, Subject]) -> Chart:
    panels = {
        name: charts.histogram(each.scores, "score", (each.scale.low, each.scale.high))
        for name, each in split.items()
    }
    return Chart(title, says, panels)


def human_charts(found: Found) -> Iterator[Chart]:
    """Yield scores against human ratings, a panel for each attribute and judge; and human ratings by score."""
    people, split = found.people, dict(subjects(found.run, found.all_scores, found.given))
    by_attribute = found.run.space.attributes
    shown = {name: each for name, each in split.items() if name in people.agreement}
    if shown:
        panels = {
            name: charts.against(
                each.human,
                each.scores,
                ("human rating", "score"),
                each.scale,
                each.pair_ids,
                jitter=0.03,
            )
            for name, each in shown.items()
        }
        lines = [
            f"{name}: " * (len(shown) > 1) + agreement_line(people.agreement[name])
            for name in by_attribute
            if name in shown
        ]
        marks = f"{charts.marks_of(panels)} Pairs are spread sideways a little; on the dashed line both agree."
        yield Chart(
            "Do scores agree with people?", f"{'; '.join(lines)}. {marks}", panels, a_line=2
        )
    for attribute, told in people.calibration.items():
        if told.levels and attribute in by_attribute:
            mine = split[attribute]
            yield chart(
                f"How do people rate {attribute} at each score?",
                f"Mean human rating of the pairs whose scores are nearest to one {_step(mine)}, at their mean score, with "
                "its 95 % interval over prompts, and how many pairs these are. On the dashed line the judge is right on "
                "average.",
                _calibration(told.levels, attribute, mine.scale),
            )


def _calibration(levels: Sequence[Level], attribute: str, scale: Scale) -> Panel:
    score, human, low, high, count = (
        np.array([getattr(each, name) for each in levels], dtype=np.float64)
        for name in ("mean_score", "mean_human", "ci_low", "ci_high", "n")
    )
    series = charts.beside_numbers(score, human, (low, high), count.astype(np.int64))
    return Panel(
        [series],
        Axis(f"score of {attribute}"),
        Axis(f"human {attribute}"),
        diagonal=(scale.low, scale.high),
    )


def _step(mine: Subject) -> str:
    """Return a group of :func:`~robin_cli.stats.agreement.calibration`, in words."""
    starts, scale = bins_of(mine.scale), mine.scale
    if mine.of_two:
        return "quarter"
    return (
        "level"
        if len(starts) == scale.levels
        else f"bin of levels ({starts[1]} to {starts[2] - 1}, say)"
    )


def _course(found: Rated) -> Iterator[Chart]:
    curve = error_curve(found.run)
    if len(curve.calls) < 2:
        return
    single = " of single judges" if found.is_panel else ""
    own, even = (found.error_text(float(each[-1])) for each in (curve.run, curve.even))
    yield chart(
        "How sure is the least certain score?",
        f"The {WORST_ERROR}, over all scores{single}. {_EVEN} At the end {own} against {even}.",
        charts.course(curve.calls, curve.run, curve.even, WORST_ERROR),
    )


def _decisions_over_calls(run: RunData, decided: Decided) -> Iterator[Chart]:
    curve = likely_wrong_curve(run, decided.task)
    if len(curve.calls) < 2:
        return
    ran, even = (share_text(float(each[-1])) for each in (curve.run, curve.even))
    is_worse = ran != even and curve.run[-1] > curve.even[-1]
    worse = " This run ends above the even spread, which may have decided better." * bool(is_worse)
    yield chart(
        "How many decisions are likely wrong?",
        f"The share of {things(decided.task)} whose decision is likely wrong, by an estimate. {_EVEN} At the end {ran} "
        f"against {even}.{worse}",
        charts.course(curve.calls, 100 * curve.run, 100 * curve.even, "likely wrong, %"),
    )


def agreement_tiles(people: People) -> Iterator[Tile]:
    """Yield Krippendorff's α of judge and people, among people and among judges."""
    for about, several in (("with human", people.agreement), ("among", people.among)):
        for name, (alpha, *_) in several.items():
            yield coefficient_tile(f"α {about} {name}", alpha)
