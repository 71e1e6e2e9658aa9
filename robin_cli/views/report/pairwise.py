"""The report of a pairwise run: who is better, how sure that is, what the order did, and each comparison with its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from robin_cli.analysis.order_effect import MOST
from robin_cli.analysis.pairwise import PairwiseResults, Ranked, order_means, pairwise_results
from robin_cli.analysis.ranking import Ranking
from robin_cli.goals.decided import OPEN
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR
from robin_cli.model.errors import InputError, typed
from robin_cli.model.errors import shown as cut
from robin_cli.model.matches import Compared
from robin_cli.model.records import SYSTEM_COLUMNS, in_words, number_of
from robin_cli.render.html import PageColumn, page_columns
from robin_cli.render.text import one_line
from robin_cli.results.words import dollars
from robin_cli.storage.reader import RunData
from robin_cli.views.pairwise import comparisons_of
from robin_cli.views.pairwise_facts import best_text
from robin_cli.views.report import pictures
from robin_cli.views.report.page import Bar, Order, Page, Rows, View, first_rows
from robin_cli.views.report.pictures import Picture, picture, title_of
from robin_cli.views.report.rows import Judged, texts_of
from robin_cli.views.report.single import left_out_of, warnings_of
from robin_cli.views.scores import judged_by
from robin_cli.views.status import cost_of, facts_of_comparisons, lines_of, tokens_of

_BINS = 20
_NAME = 32
_EVEN = 0.5
_LARGE = 0.25
"""An order's effect by which a response that would be preferred in half of all cases is so in three quarters."""

_ROWS = Rows(
    "Comparisons",
    "a comparison’s id, a system",
    "its prompt, both responses and the feedbacks; where B came first the judge calls it response A",
    ("Prompt", "Response A", "Response B"),
)


def page_of(run: RunData, *, working: bool) -> Page:
    """What the report of the pairwise ``run`` shows; ``working``: a process is at work on it."""
    found = pairwise_results(run)
    facts = facts_of_comparisons(run, found, working=working)
    of = {name: np.asarray(values) for name, values in found.scores.columns.items()}
    by_order = order_means(run).mean(axis=2)
    orders = {
        Order("least certain", ("likely",), 1, unknown_last=True): of["likely_high"] - of["likely_low"],
        Order("most swayed by the order", ("A first", "B first"), 1): np.abs(by_order[:, 0] - by_order[:, 1]),
    }
    # Those that were not asked, most of a large tournament, have the least to show.
    shown = first_rows(*orders.values())
    columns = _columns(run, found, by_order, shown)
    answers, (listed, place) = _Verdicts(run, shown), np.unique(shown, return_inverse=True)
    pairs = run.pairs_at(listed)
    return Page(
        title=_title(run, found),
        subtitle=f"judged by {judged_by(run.manifest)} · {facts['data']} · {facts['created_at']}",
        headline=_headline(run, found, facts),
        warnings=[*warnings_of(facts), *_warnings(found)],
        pictures=list(_pictures(run, found, facts, of["preference"])),
        facts={"About this run": lines_of(facts)},
        columns=columns,
        pairs=list(range(len(shown))),
        texts=texts_of(
            len(shown),
            lambda row: pairs[place.item(row)],
            lambda row, longest, most: answers.of(int(shown[row]), longest, most),
        ),
        bar=Bar(
            "A bar goes from B to A: the thick line is the likely interval, the thin one the guaranteed, the stroke the "
            "preference, the mean over both orders.",
            *("A preferred", "likely", "guaranteed", ""),
            scales=[(0.0, 1.0)],
        ),
        orders=[*orders, Order("order of the data")],
        views=_views(columns),
        left_out=left_out_of(len(found.scores), len(shown), orders),
        rows=_ROWS,
    )


def refuse_two(runs: Iterable[RunData]) -> None:
    """InputError if one of several runs is pairwise: a table of two runs shows differences of ratings."""
    listed = list(runs)
    for run in listed:
        if run.manifest.is_pairwise:
            each = ", ".join(f"robin report {typed(other.path)}" for other in listed)
            raise InputError(
                f"{run.path}: holds comparisons, and two runs are shown side by side by their ratings; make a report of each "
                f"({each}), or judge the systems of both in one run"
            )


def _title(run: RunData, found: PairwiseResults) -> str:
    by = f" by {run.manifest.criteria[0]}" if run.manifest.criteria else ""
    names = found.ranked.names
    prompts = number_of(int(np.unique(found.matches.prompt).size), "prompt")
    if len(names) == 2:
        return f"{cut(names[0], _NAME)} against {cut(names[1], _NAME)}{by}, {prompts}"
    if names:
        return f"{len(names):,} systems{by}, {prompts}"
    return f"{number_of(len(found.matches), 'comparison')}{by}, {prompts}"


def _headline(run: RunData, found: PairwiseResults, facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    budget = f"{facts['budget']:,}" if facts["budget_usd"] is None else dollars(facts["budget_usd"])
    asked = found.compared
    best, certain = facts["best"], []
    if best is not None:
        certain = [("best response", f"{best['certified']:,} of {best['of']:,}", best_text(best, facts["error_rate"]))]
    return [
        *certain,
        *_leaders(found.ranked),
        *_order_lines(run, found),
        ("compared", f"{asked.whole:,} of {asked.comparisons:,}", _compared(asked)),
        *_tie_line(found),
        ("calls spent", f"{facts['spent']:,}", f"of a budget of {budget}; {facts['state']}"),
        (
            "answers without a verdict",
            f"{sum(facts['unparsed'].values()):,}",
            f"and {sum(facts['failed'].values()):,} failed calls kept",
        ),
        ("cost", cost_of(facts), tokens_of(facts)),
    ]


def _compared(asked: Compared) -> str:
    partly = f"; {asked.partly:,} in part" if asked.partly else ""
    return f"asked in both orders{partly}"


def _leaders(ranked: Ranked) -> list[tuple[str, str, str]]:
    """Who leads, and how sure that is."""
    ranking = ranked.ranking
    if ranking is None:
        return [("leading", "–", ranked.why)]
    best, second = ranked.order[:2]
    names = [cut(ranked.names[system], _NAME) for system in (best, second)]
    over = number_of(ranking.n_prompts, "prompt")
    rate, low, high = (100 * float(each[best]) for each in (ranking.win_rate, ranking.win_low, ranking.win_high))
    who = "none" if ranking.rank[best] == ranking.rank[second] else names[0]
    interval = f"95 % interval {low:.1f} to {high:.1f} %" if not np.isnan(low) else f"{over} says nothing of others"
    if len(ranked.names) == 2:
        is_settled = int(ranking.rank_high[best]) == 1
        verdict = "it is better" if is_settled else "which of the two is better is not settled"
        return [
            ("leading", who, f"{verdict}; p {ranking.p[best, second]:.2g}"),
            (
                f"preferred to {names[1]}",
                f"{rate:.1f} %",
                f"{interval}, over {over}",
            ),
        ]
    candidates = 1 if ranking.rank_high[best] == 1 else int((ranking.rank_low == 1).sum())
    not_out = "it is the best" if candidates == 1 else f"{candidates:,} systems may be the best"
    return [
        ("leading", who, f"ranks not ruled out: {rank_text(ranking, best)}; {not_out}"),
        ("preferred to another system", f"{rate:.1f} %", f"{names[0]}; {interval}"),
    ]


def _order_lines(run: RunData, found: PairwiseResults) -> list[tuple[str, str, str]]:
    lines = []
    for judge, each in zip(run.manifest.judges, found.order_effects, strict=True):
        name = f"the order's effect · {cut(judge, _NAME)}" if len(found.order_effects) > 1 else "the order's effect"
        if not each.n:
            lines.append((name, "–", "no comparison has verdicts in both orders"))
            continue
        place = "the first place helps" if each.effect > 0 else "the second place helps"
        if each.ci_low <= 0 <= each.ci_high:
            place = "it cannot be told from 0"
        between = 100 * (_EVEN + each.effect)
        interval = f"95 % interval {each.ci_low:+.3f} to {each.ci_high:+.3f}"
        told = f"{place}; {interval}; on average the first is preferred in {between:.0f} %"
        lines.append((name, f"{each.effect:+.3f}", told))
    return lines


def _tie_line(found: PairwiseResults) -> list[tuple[str, str, str]]:
    ties, n = (int(np.sum(found.scores.columns[name])) for name in ("n_ties", "n"))
    return [("ties", f"{100 * ties / n:.0f} %", f"{ties:,} of {n:,} verdicts; each counts half")] if ties else []


def _warnings(found: PairwiseResults) -> list[str]:
    ranked, told = found.ranked, []
    if ranked.parts:
        told.append(f"There is no ranking: {ranked.why}.")
    if ranked.ranking is not None and not ranked.ranking.is_bounded:
        told.append(
            "Some systems won, or lost, every comparison with some others, so that no strength is large enough: strengths have "
            f"{PRIOR:g} ties more in them for every two systems that were compared, and are too close together."
        )
    return told


def _pictures(run: RunData, found: PairwiseResults, facts: dict[str, Any], preference: FloatArray) -> Iterable[Picture]:
    ranked = found.ranked
    if ranked.ranking is not None:
        yield from pictures_of(ranked.names, ranked.ranking, ranked.order)
    told = {
        name: (each.effect, each.ci_low, each.ci_high)
        for name, each in zip(labels_of(run.manifest.judges), found.order_effects, strict=True)
        if each.n
    }
    if told:
        yield picture(
            "What the order does",
            "By how much the place that the judge reads first raises the probability of being preferred, between equals, with "
            f"95 % intervals over prompts. Right of 0 the first place helps; {MOST:+g} is a judge that always prefers it. "
            "Each comparison is asked in both orders as often, so preferences, win rates and ranks are free of it.",
            pictures.intervals(told, "effect of the first place, in probability"),
            size=(5.2, max(2.2, 1.5 + 0.5 * len(told))),
        )
    known = preference[~np.isnan(preference)]
    if len(known):
        yield _clearness(found, preference)
    troubles = {in_words(name, "verdict"): count for name, count in facts["unparsed"].items()}
    troubles |= {f"{in_words(name)} (failed)": count for name, count in facts["failed"].items()}
    if troubles:
        yield picture(
            "What brought no verdict",
            "Answers without a verdict are paid for and count; failed calls do not.",
            pictures.bars(troubles, "calls"),
        )


def _clearness(found: PairwiseResults, preference: FloatArray) -> Picture:
    """The preferences: of two systems for the one that leads, else for the response that is preferred."""
    if len(found.ranked.order) == 2:
        best = found.ranked.order[0]
        values = np.where(found.matches.system[:, 0] == best, preference, 1.0 - preference)
        who, start = cut(found.ranked.names[best], _NAME), 0.0
        says = (
            f"How many comparisons prefer {who}, and how clearly: at 1 always, at 0 never, both orders taken together."
        )
    else:
        values, start = np.maximum(preference, 1.0 - preference), _EVEN
        says = (
            "How clearly comparisons prefer one response, both orders taken together: at 1 always the same, at 0.5 neither, "
            "or each response where it comes first."
        )
    return picture(
        "Preferences",
        says,
        pictures.histogram(values, "preference", np.linspace(start, 1.0, _BINS + 1), "comparisons"),
    )


def _columns(run: RunData, found: PairwiseResults, by_order: FloatArray, shown: IntArray) -> list[PageColumn]:
    """The columns that say something of this run."""
    table = comparisons_of(run, found.scores, found.best)
    names = {name: [cut(each, _NAME) for each in found.scores.columns[name]] for name in SYSTEM_COLUMNS}
    of = {name: table.data[name] for name in table.data.column_names}
    values = {**of, **names, "a_first": by_order[:, 0], "b_first": by_order[:, 1]}
    says = "Preference and intervals from 0, B is better, to 1, A is. Sorts by how wide the likely one is."
    return page_columns(table.of(values), shown, PageColumn("B … A", "bar", says, [0] * len(shown)))


def _views(columns: list[PageColumn]) -> list[View]:
    names = {column.name for column in columns}
    views = [
        View("with an open best", "best", "ends", OPEN),
        View("certified", "certified", "is", "yes"),
        View("A preferred", "A preferred", "above", _EVEN),
        View("B preferred", "A preferred", "below", _EVEN),
        View(f"order's effect above {_LARGE:g}", "order ±", "above", _LARGE),
        View(f"order's effect below -{_LARGE:g}", "order ±", "below", -_LARGE),
        View("with unparsed answers", "unparsed", "above", 0),
        View("without a verdict", "verdicts", "is", 0),
        View("given up", "given up", "isnt", ""),
    ]
    return [view for view in views if view.column in names]


class _Verdicts:
    """The answers of a run, by comparison: which order (and judge, if several), the verdict or its reason, the feedback."""

    def __init__(self, run: RunData, comparisons: IntArray) -> None:
        self._judged = Judged(run, comparisons)
        scale = run.space.scales[0]
        self._said = {float(scale.high): "A is better", float(scale.low): "B is better"}
        self._width, self._low = scale.high - scale.low, scale.low

    def of(self, comparison: int, longest: int | None, most: int | None) -> list[Any]:
        """At most ``most`` answers of each order and judge, as :meth:`Judged.of`."""
        return [
            ["", None, reason or self._verdict(rating), feedback, label[:1].upper() + label[1:].replace("-", " ", 1)]
            for label, rating, reason, feedback in self._judged.of(comparison, longest, most)
        ]

    def _verdict(self, points: float) -> str:
        if points in self._said:
            return self._said[points]
        return "tie" if isinstance(points, int) else f"A is better: {100 * (points - self._low) / self._width:.0f} %"


MOST_SYSTEMS = 20
"""Systems that are drawn; of more, the best."""
_FEW = 6
"""Systems of which a matrix is as wide as any other picture."""
_DRAWN = 24
_HEAD = 15
_WIDTH, _WIDE = 5.2, 9.5
_LINE = 0.3
"""Inches of a system's line in the ranking."""


def pictures_of(names: Sequence[str], ranking: Ranking, order: Sequence[int]) -> list[Picture]:
    """The matrix of win rates and the ranking, the best first.

    Args:
        names: of the systems, by number.
        order: the systems by number, the best first.
    """
    shown = list(order[:MOST_SYSTEMS])
    labels = labels_of([names[system] for system in shown])
    rest = f" Of {len(order):,} systems these are the best {MOST_SYSTEMS}." if len(order) > MOST_SYSTEMS else ""
    return [_rates_drawn(labels, ranking, shown, rest), _ranking_drawn(labels, ranking, shown, rest)]


def labels_of(names: Sequence[str]) -> list[str]:
    """Names as a picture has room for them, each another."""
    short = []
    for name in map(one_line, names):
        fits = len(name) <= _DRAWN
        short.append(name.strip() or "(no name)" if fits else f"{name[:_HEAD]}…{name[_HEAD + 1 - _DRAWN :]}")
    return [title_of(f"{label} ({at})" if short.count(label) > 1 else label) for at, label in enumerate(short, 1)]


def _rates_drawn(labels: Sequence[str], ranking: Ranking, shown: Sequence[int], rest: str) -> Picture:
    rates = ranking.rates(shown)
    rate, low, high = rates.rate, rates.ci_low, rates.ci_high
    is_wide = len(labels) > _FEW
    width = _WIDE if is_wide else _WIDTH
    height = max(2.2, min(9.0, 1.3 + 0.44 * len(labels)))
    empty = " An empty cell: no comparison of the two has a preference." if np.isnan(rate).sum() > len(labels) else ""
    return picture(
        "Who beats whom",
        "How often, in %, the system of the row is preferred to that of the column, each comparison once, a tie as half; "
        f"the best system is first. In bold where the 95 % interval over prompts leaves 50 out, each for itself.{empty}{rest}",
        pictures.matrix(labels, rate, (low > 0.5) | (high < 0.5), 10.0 if len(labels) <= 12 else 8.0),
        size=(width, height),
    )


def _ranking_drawn(labels: Sequence[str], ranking: Ranking, shown: Sequence[int], rest: str) -> Picture:
    values, low, high = (each[list(shown)] for each in (ranking.strength, ranking.ci_low, ranking.ci_high))
    ranks = [rank_text(ranking, system) for system in shown]
    controlled = "" if ranking.covariate is None else f", at equal {ranking.covariate.name}"

    return picture(
        "The ranking",
        f"Strengths by Bradley and Terry{controlled}, natural logarithms, 0 on average: a system that is 1 above another is "
        "preferred to it in 73 %, 2 above in 88 %. The lines are 95 % intervals over prompts, each for itself; on the right "
        "the ranks that are not ruled out, for each system with 95 %. From "
        f"{number_of(ranking.n_comparisons, 'comparison')} on {number_of(ranking.n_prompts, 'prompt')}.{rest}",
        pictures.whiskers(labels, (values, low, high), ranks, "strength"),
        size=(_WIDTH, max(2.4, 1.0 + _LINE * len(labels))),
    )


def rank_text(ranking: Ranking, system: int) -> str:
    """The ranks that are not ruled out: "1", or "2–4"."""
    low, high = int(ranking.rank_low[system]), int(ranking.rank_high[system])
    return f"{low}" if low == high else f"{low}–{high}"
