"""The comparisons of a pairwise run: what is known of them, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.goals.checks import check_view
from robin_cli.goals.deciding import promise
from robin_cli.goals.result import Result, View, judged_by, larger_budget
from robin_cli.goals.rows import with_data
from robin_cli.goals.tables import filled
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.policies.matches import ComparedPairs, Matches
from robin_cli.show.columns import COMPARISONS, RANKING
from robin_cli.show.tables import Sort, Table
from robin_cli.stats.pairwise import Ranked, order_means, pairwise_scores, ranked_systems
from robin_cli.stats.pairwise_decisions import Best
from robin_cli.stats.ranking import OrderEffect, Ranking, order_effects
from robin_cli.stats.scores import Scores

_TEXTS = {"prompt": "prompt", "response_a": "response", "response_b": OTHER_COLUMN}
"""Columns of the texts of a comparison, and their names in pairs.parquet."""
_OF_SYSTEMS = (
    "95 % intervals, of each system by itself; ranks: those that are not ruled out; wins: against each other system "
    "with equal weight"
)


class PairwiseResult(Result):
    """The comparisons of a run, its systems and its best responses."""

    @property
    def matches(self) -> Matches:
        return self.run.matches

    @cached_property
    def scores(self) -> Scores:
        return pairwise_scores(self.run)

    @cached_property
    def compared(self) -> ComparedPairs:
        return self.matches.compared(self.run.fold.arms)

    @cached_property
    def order_effects(self) -> Sequence[OrderEffect]:
        """The order effect on each judge, in the order of the run's judges."""
        return order_effects(order_means(self.run), self.matches.prompt)

    @cached_property
    def ranked(self) -> Ranked:
        return ranked_systems(self.run)

    @property
    def best(self) -> Best | None:
        """The best response to each prompt, if the run looks for it."""
        return None


def comparison_table(result: PairwiseResult, view: View, *, by_judge: bool = False) -> Table:
    """Return the comparisons of a run; ``by_judge``: a row for each comparison and judge."""
    check_view(wide=view.wide)
    run = result.run
    scores = pairwise_scores(run, by_judge=True) if by_judge else result.scores
    agreed = None if by_judge else result.agreed_in(view)
    table = comparisons_of(result, scores, by_judge=by_judge, agreed=agreed, view=view)
    rows = run.space.pair[scores.arm] if by_judge else None

    def for_files() -> pa.RecordBatchReader:
        columns, text = table.arrow(), view.with_text
        return with_data(columns, run, rows, with_text=text, texts=_TEXTS, without=SYSTEM_COLUMNS)

    return table.having(for_files)


def comparisons_of(
    result: PairwiseResult,
    scores: Scores,
    *,
    by_judge: bool = False,
    agreed: NDArray[np.bool_] | None = None,
    view: View,
) -> Table:
    run, matches, best = result.run, result.matches, result.best
    pair, is_named = run.space.pair[scores.arm], bool(matches.names)
    values: dict[str, Any] = {
        name: scores.columns[name] for name in COMPARISONS.columns if name in scores.columns
    }
    if not is_named:  # the data may name the systems of some responses alone
        for name in SYSTEM_COLUMNS:
            names = run.column(name) if name in run.column_names else [None] * len(run.pair_ids)
            values[name] = pa.array(names, pa.large_string()).take(pa.array(pair))
    preference, low, high = (
        np.asarray(scores.columns[name]) for name in ("preference", "ci_low", "ci_high")
    )
    sort = Sort("widest interval first", lambda: high - low)
    notes = [
        "order ±: how much more a response is preferred if it comes first, taken out of the preference"
    ]
    if best is not None:
        is_best = np.isin(matches.response, best.leader)
        of_prompt = np.searchsorted(best.prompt, matches.prompt)
        which = np.select([is_best[:, 0], is_best[:, 1]], ["A", "B"], "").astype(object)
        values["best"] = which[pair]
        values["likely_wrong"] = best.likely_wrong[of_prompt][pair]
        if best.certified is not None:
            values["certified"] = best.certified[of_prompt][pair]
            notes.append(f"certified: {promise(run.manifest.error_rate)}")
        if agreed is not None:
            values["agreed"] = np.isin(matches.prompt, best.prompt[agreed])[pair]
        chance = np.nan_to_num(values["likely_wrong"], nan=-1.0) + (values["best"] != "") * 1e-9
        sort = Sort("the most uncertain prompt first", lambda: chance)
    if without := int(np.isnan(preference).sum()):
        notes.append(f"{without:,} without a preference: no verdict of every judge in both orders")
    hidden = () if is_named else SYSTEM_COLUMNS
    return filled(COMPARISONS, values, run, scores, view, hidden, sort, notes, of_judges=by_judge)


def ranking_table(result: PairwiseResult, view: View) -> Table:
    """Return the ranking of the systems of a run. InputError if there is none, with the reason and the next step."""
    run, ranked = result.run, result.ranked
    if ranked.ranking is None:
        step = f": robin resume {typed(run.name)} {larger_budget(run.manifest)}"
        step = f"{ranked.step}{step if ranked.parts else ''}"
        raise InputError(f"{run.name}: has no ranking of systems: {ranked.why}; {step}")
    for note in _notes_on(ranked, ranked.ranking):
        view.notify(note)
    return replace(
        ranking_of(ranked),
        footer=[f"judge: {judged_by(run.manifest)}"],
        command=f"robin export {typed(run.name)} --what ranking",
    )


def ranking_of(ranked: Ranked) -> Table:
    """Return the systems, the best first; no rows without a ranking."""
    ranking, order = ranked.ranking, ranked.order
    if ranking is None:
        return RANKING.with_values({"system": []})
    values: dict[str, Any] = {"system": [ranked.names[system] for system in order]}
    for name in RANKING.columns:
        column = ranked.n_votes if name == "n_votes" else getattr(ranking, name, None)
        if isinstance(column, np.ndarray):
            values[name] = column[order]
    notes = [*_notes_on(ranked, ranking), _OF_SYSTEMS]
    return RANKING.with_values(values, noun="system", bar=ranked.n_votes[order], notes=notes)


def _notes_on(ranked: Ranked, ranking: Ranking) -> list[str]:
    by = f"{number_of(ranking.n_comparisons, 'comparison')} of {number_of(ranking.n_prompts, 'prompt')}"
    without = f"; {ranking.n_without:,} without a preference left out" if ranking.n_without else ""
    notes = [f"{number_of(len(ranked.names), 'system')} by {by}{without}"]
    if not ranking.is_bounded:
        notes.append(
            "some systems won, or lost, against all others: half a tie is added for every two that were compared, or their "
            "strengths would have no end"
        )
    return [*notes, *filter(None, [ranked.circle_text])]
