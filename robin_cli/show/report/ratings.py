"""What the report of a run of ratings shows: figures and rows; its charts are a module."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from robin_cli.goals.rated import Rated
from robin_cli.goals.result import View
from robin_cli.goals.rows import further_columns
from robin_cli.goals.tables import most_uncertain_first, score_table
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.show.report.page import WORDS, Bar, Rows, Test, judged_by_each
from robin_cli.show.report.rating_charts import has_variances
from robin_cli.show.report.texts import texts_of_pairs
from robin_cli.stats.scores import interval_widths

_MOST_UNRATED = 0.5  # rows without a rating come first, as the least certain, up to this share
_VIEWS: dict[str, Test] = {
    "likely wrong above 5 %": ("likely_wrong", pc.greater, 0.05),
    "variance above 1": ("variance", pc.greater, 1.0),
    "variance 0": ("variance", pc.equal, 0.0),
    "with unparsed answers": ("n_unparsed", pc.greater, 0),
    "without a rating": ("n", pc.equal, 0),
    "given up": ("given_up", pc.not_equal, ""),
}


def title_of(result: Rated) -> str:
    """Return what was rated."""
    pairs = number_of(len(result.run.pair_ids), "pair")
    return f"{', '.join(result.run.space.attributes)} of {pairs}"


def sure_of(result: Rated) -> list[str]:
    """Return how sure the answer is."""
    error = ": ".join(result.worst_text()[:2])
    return [*result.asides, *([error] if result.scores.decided is None else [])]


def warnings_of(result: Rated) -> list[str]:
    """Return what is not drawn, and why."""
    if has_variances(result):
        return []
    return ["No pair has two ratings, so nothing is drawn of how they vary."]


def rows_of(result: Rated, view: View) -> Rows:
    """Return the scores; the page opens with the most uncertain ones."""
    run, scores = result.run, result.scores
    scales, pair = run.manifest.scales, run.space.pair[scores.arm]
    table = score_table(scores, run, view)
    along = f", {scales[0].low} to {scales[0].high}" if len(set(scales)) == 1 else ""
    thin = ", the thin one the guaranteed interval" * view.guaranteed
    ring = ", the ring the human rating" if table.shown(["human"]) else ""
    unit, widths = run.space.units[scores.arm], interval_widths(scores, run.space)
    if np.isinf(widths).mean() > _MOST_UNRATED:
        widths = np.where(np.isinf(widths), np.nan, widths)
    orders: dict[str, FloatArray | None] = {
        "widest interval": widths,
        "largest variance": scores.numbers("variance") / unit**2,
    }
    apart = np.abs(scores.numbers("score") - scores.numbers("human")) / unit
    if not np.isnan(apart).all():
        orders["furthest from human"] = apart
    if scores.decided is not None:
        orders = {"most uncertain decision": most_uncertain_first(scores), **orders}
    return Rows(
        table,
        Bar(
            heading="interval",
            help="Score and interval on the scale. Sorts by how wide the interval is.",
            says=f"A bar goes along the scale{along}: the thick line is the interval{thin}, "
            f"the stroke the score{ring}.",
            tick="score",
            scales=[(scale.low, scale.high) for scale in scales],
            scale=run.space.attribute[scores.arm],
        ),
        orders | {"order of the data": None},
        _VIEWS,
        lambda rows: texts_of_pairs(run, pair[rows]),
        WORDS["rate"],
        further_columns(run, pair, view.show),
        judged_by_each(run, scores),
        run.prompts[pair],
    )
