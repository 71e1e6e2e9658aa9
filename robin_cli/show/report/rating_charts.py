"""The charts of a run of ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from robin_cli.goals.deciding import things
from robin_cli.goals.people import agreement_line
from robin_cli.goals.rated import Rated
from robin_cli.goals.result import Result
from robin_cli.model.records import Scale
from robin_cli.show import charts
from robin_cli.show.charts import Axis, Chart, Panel, Series, chart
from robin_cli.show.words import WORST_ERROR, share_text
from robin_cli.stats.agreement import bins_of
from robin_cli.stats.curve import error_curve, likely_wrong_curve
from robin_cli.stats.decided import Decided
from robin_cli.stats.run_agreement import Subject, subjects

_EVEN = "Dashed: an even spread of as many ratings, projected from this run's ratings."


def has_variances(result: Rated) -> bool:
    """Return whether a pair has two ratings, so that they may vary."""
    return bool(result.run.fold.arms.n.max(initial=0) >= 2)


def charts_of(result: Rated) -> Iterator[Chart]:
    """Yield the charts of a run of ratings."""
    run, scores = result.run, result.scores
    by_attribute = dict(subjects(run, [scores]))
    by_label = dict(subjects(run, [result.by_judge])) if result.is_panel else by_attribute
    if scores.decided is not None:
        yield from _decisions_over_calls(result, scores.decided)
    spread = ", ".join(
        f"{np.nanstd(each.scores, ddof=1):.2f}{f' of {name}' * (len(by_attribute) > 1)}"
        for name, each in by_attribute.items()
        if np.count_nonzero(~np.isnan(each.scores)) > 1
    )
    says = "How many pairs have which score." + f" Standard deviation {spread}." * bool(spread)
    yield _histograms("How do the scores spread?", says, by_attribute)
    if has_variances(result):
        yield _allocation(result, by_label)
    if scores.decided is None:  # else calls are not spent to lower it
        yield from _error_over_calls(result)
    if result.is_panel:
        says = "How many pairs have which score, by judge."
        yield _histograms("Is one judge harsher?", says, by_label)
    yield from human_charts(result)


def _allocation(result: Rated, by_label: Mapping[str, Subject]) -> Chart:
    evenly = result.run.fold.arms.n.sum() / max(1, len(result.run.space))
    most = max(1.0, evenly, *(each.column("n").max(initial=0.0) for each in by_label.values()))
    widest: dict[Scale, float] = {}
    for each in by_label.values():
        variance = float(np.nanmax(each.column("variance"), initial=0.25))
        widest[each.scale] = max(variance, widest.get(each.scale, 0.0))
    panels = {}
    for name, each in by_label.items():
        variances, n, end = each.column("variance"), each.column("n"), widest[each.scale]
        known = ~np.isnan(variances)
        texts = charts.named(each.pair_ids, known, {"variance": variances, "ratings": n})
        panels[name] = Panel(
            [Series("points", variances[known], n[known], texts=texts)],
            Axis("variance of a pair's ratings", (-0.03 * end, 1.03 * end)),
            Axis("ratings", (0.0, 1.05 * most), rule=evenly),
        )
    each_got = f"{evenly:.1f}" if evenly >= 1 else f"{evenly:.2g}"
    a_judge = " and a judge" * (len(result.run.space.judges) > 1)
    says = f"Each mark is a pair{a_judge}. An even spread would have given each {each_got} ratings"
    return Chart("Where did the calls go?", f"{says} (dashed).", panels)


def _histograms(title: str, says: str, split: Mapping[str, Subject]) -> Chart:
    panels = {
        name: charts.histogram(each.scores, "score", (each.scale.low, each.scale.high))
        for name, each in split.items()
    }
    return Chart(title, says, panels)


def _error_over_calls(result: Rated) -> Iterator[Chart]:
    curve = error_curve(result.run)
    if len(curve.calls) < 2:
        return
    single = " of single judges" if result.is_panel else ""
    ran, even = (result.error_text(float(each[-1])) for each in (curve.run, curve.even))
    yield chart(
        "How sure is the least certain score?",
        f"The {WORST_ERROR}, over all scores{single}. {_EVEN} At the end {ran} against {even}.",
        charts.course(curve.calls, curve.run, curve.even, WORST_ERROR),
    )


def _decisions_over_calls(result: Rated, decided: Decided) -> Iterator[Chart]:
    curve = likely_wrong_curve(result.run, decided.task)
    if len(curve.calls) < 2:
        return
    ran, even = (share_text(float(each[-1])) for each in (curve.run, curve.even))
    is_worse = ran != even and curve.run[-1] > curve.even[-1]
    worse = " This run ends above the even spread, which may have decided better." * bool(is_worse)
    yield chart(
        "How many decisions are likely wrong?",
        f"The share of {things(decided.task)} whose decision is likely wrong, by an estimate. "
        f"{_EVEN} At the end {ran} against {even}.{worse}",
        charts.course(curve.calls, 100 * curve.run, 100 * curve.even, "likely wrong, %"),
    )


def human_charts(result: Result) -> Iterator[Chart]:
    """Yield scores against human ratings, and human ratings by score."""
    people, split = result.people, dict(subjects(result.run, result.all_scores, result.labels))
    names = result.run.space.attributes
    compared = {name: each for name, each in split.items() if name in people.agreement}
    axes = ("human rating", "score")
    panels = {
        name: charts.against(each.human, each.scores, axes, each.scale, each.pair_ids, jitter=0.03)
        for name, each in compared.items()
    }
    if panels:
        lines = [
            f"{name}: " * (len(compared) > 1) + agreement_line(people.agreement[name])
            for name in names
            if name in compared
        ]
        marks = f"{charts.marks_of(panels)} Pairs are spread sideways a little;"
        says = f"{'; '.join(lines)}. {marks} on the dashed line both agree."
        yield Chart("Do scores agree with people?", says, panels, a_line=2)
    for name, known in people.calibration.items():
        if not known.levels or name not in names:
            continue
        score, human, low, high, count = (
            np.array([getattr(level, figure) for level in known.levels], dtype=np.float64)
            for figure in ("mean_score", "mean_human", "ci_low", "ci_high", "n")
        )
        series = charts.beside_numbers(score, human, (low, high), count.astype(np.int64))
        scale = split[name].scale
        diagonal = (float(scale.low), float(scale.high))
        yield chart(
            f"How do people rate {name} at each score?",
            "Mean human rating of the pairs whose scores are nearest to one "
            f"{_step(split[name])}, at their mean score, with its 95 % interval over prompts, and "
            "how many pairs these are. On the dashed line the judge is right on average.",
            Panel([series], Axis(f"score of {name}"), Axis(f"human {name}"), diagonal),
        )


def _step(subject: Subject) -> str:
    """Return a group of :func:`~robin_cli.stats.agreement.calibration`, in words."""
    starts: Sequence[int] = bins_of(subject.scale)
    if subject.of_two:
        return "quarter"
    if len(starts) == subject.scale.levels:
        return "level"
    return f"bin of levels ({starts[1]} to {starts[2] - 1}, say)"
