"""The results of a pairwise run: preferences, order effects, the ranking of systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from robin_cli.goals.comparisons import PairwiseResult, comparison_table, ranking_of, ranking_table
from robin_cli.goals.deciding import SHOWN, best_facts
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.people_tables import OF_PEOPLE
from robin_cli.goals.result import Builder, View
from robin_cli.goals.training import preferred_table
from robin_cli.model.records import counted, number_of
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.show.words import compared_text, finite
from robin_cli.stats.ranking import OrderEffect


class Preferences(PairwiseResult):
    """The results of a pairwise run; intervals hold with 95 %, each for itself."""

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": comparison_table,
        "judge-scores": partial(comparison_table, by_judge=True),
        "ranking": ranking_table,
        "preferences": preferred_table,
        **OF_PEOPLE,
    }

    @property
    def is_open(self) -> bool:
        """Whether anything is left to ask that may settle more."""
        first = ranking_of(self.ranked).records()[:1]
        is_settled = bool(first) and first[0]["rank_low"] == first[0]["rank_high"]
        return not is_settled and self.compared.whole < self.compared.comparisons

    def headline(self) -> Sequence[Fact]:
        ranked = self.ranked
        if ranked.ranking is not None:
            lines = [self._leaders(ranked.ranking.n_comparisons), ranked.circle_text]
        elif ranked.names:
            lines = [f"no ranking of systems: {self._not_ranked}"]
        else:
            low, high = (self.scores.numbers(name) for name in ("ci_low", "ci_high"))
            clear = int(((low > 0.5) | (high < 0.5)).sum())
            comparisons = number_of(len(low), "comparison")
            lines = [f"in {clear:,} of {comparisons} a response is clearly preferred (95 %)"]
        return [line("", text) for text in lines]

    @property
    def asides(self) -> list[str]:
        effects = [f"{name}: {text}" for name, text in self._order_texts().items()]
        return [compared_text(self.compared), *effects, *self.repeat_lines]

    def delivered(self, view: View) -> list[Table]:
        is_ranked = self.ranked.ranking is not None and self.best is None
        return [self.table(what, view) for what in (*(["ranking"] * is_ranked), "scores")]

    def details(self) -> Sequence[Fact]:
        run, compared, people, best = self.run, self.compared, self.people, self.best
        manifest, ranked, why = run.manifest, self.ranked, self._why_none()
        ranking = ranked.ranking
        without = int(np.isnan(self.scores.numbers("preference")).sum())
        ties = int(np.asarray(self.scores.columns["n_ties"]).sum())
        target, rate = self.target, manifest.error_rate
        effects = zip(run.space.judges, self.order_effects, strict=True)
        is_labelled = any(mean.labels is not None for mean in people.means)
        return [
            Fact("comparisons", compared.comparisons, compared_text(compared), "comparisons"),
            Fact("comparisons_asked", compared.whole),
            Fact("comparisons_in_part", compared.partly),
            Fact(
                "comparisons_without_preference",
                without,
                f"{without:,} ({counted(why)})" if without else "none",
                "without a preference",
            ),
            Fact("no_preference_because", why),
            Fact("best", None if best is None else best_facts(best, target, rate)),
            *(Fact(fact.name, fact.value) for fact in self.agreed),
            Fact("ties", ties, f"{ties:,}", "ties"),
            Fact("criterion", manifest.criteria[0] if manifest.criteria else None),
            Fact("order_effects", [_effect_in_json(judge, effect) for judge, effect in effects]),
            *(line(name, text) for name, text in self._order_texts().items()),
            Fact("systems", list(ranked.names)),
            Fact("ranking", ranking_of(ranked).records(), self._ranking_text(), "ranking"),
            Fact("ranking_comparisons", 0 if ranking is None else ranking.n_comparisons),
            Fact("ranking_prompts", 0 if ranking is None else ranking.n_prompts),
            Fact("ranking_is_bounded", None if ranking is None else ranking.is_bounded),
            Fact("circle", self._circle(), ranked.circle_text, "circle"),
            Fact("not_ranked_because", self._not_ranked),
            Fact("not_connected", [list(part) for part in ranked.parts]),
            Fact("decide", manifest.own_settings["decide"]),
            *people.facts(),
            *([line("by labels", "; ".join(self.mean_lines()))] if is_labelled else []),
            *people.lines(run),
            Fact("judges", [use.facts() for use in self.judges]),
            *self._judge_lines(),
        ]

    def _judge_lines(self) -> Iterator[Fact]:
        for place, use in enumerate(self.judges if self.is_panel else (), 1):
            yield line(f"judge {place}", use.line("verdict"))

    def _order_texts(self) -> dict[str, str]:
        effects = zip(self.run.space.judges, self.order_effects, strict=True)
        return {
            f"order effect{f' of {judge}' * self.is_panel}": order_effect_text(effect)
            for judge, effect in effects
        }

    def _circle(self) -> dict[str, Any] | None:
        circle, names = self.ranked.circle, self.ranked.names
        if circle is None:
            return None
        return {**circle._asdict(), "systems": [names[system] for system in circle.systems]}

    @property
    def _not_ranked(self) -> str | None:
        return f"{self.ranked.why}; {self.ranked.step}" if self.ranked.why else None

    def _why_none(self) -> dict[str, int]:
        """Return the numbers of comparisons without a preference, by reason; empty if all have one."""
        scores, arms, space = self.scores, self.run.fold.arms, self.run.space
        retired, lacks = scores.retired, np.isnan(scores.numbers("preference"))
        is_tried = (arms.n == 0) & ((arms.n_unparsed > 0) | (arms.n_failed > 0))
        in_vain = space.by_pair(is_tried).any(axis=1) & ~retired
        is_new = (scores.numbers("n") == 0) & ~in_vain & ~retired
        reasons = {
            "not asked": is_new,
            "asked in part": ~is_new & ~in_vain & ~retired,
            "asked in vain": in_vain,
            "given up": retired,
        }
        counts = {why: int((lacks & of_reason).sum()) for why, of_reason in reasons.items()}
        return {why: count for why, count in counts.items() if count}

    def _ranking_text(self) -> str:
        ranking, ranked = self.ranked.ranking, self.ranked
        if ranking is None:
            is_asked = bool(ranked.names) or self.best is None
            return f"none: {self._not_ranked}" if is_asked else ""
        by = f"{number_of(ranking.n_comparisons, 'comparison')} of {number_of(ranking.n_prompts, 'prompt')}"
        prior = "; with half a tie for every two, as some won or lost all"
        prior = "" if ranking.is_bounded else prior
        return f"{number_of(len(ranked.order), 'system')} by {by} (95 % intervals){prior}"

    def _leaders(self, comparisons: int) -> str:
        first, *others = ranking_of(self.ranked).records()
        is_first_alone = first["rank_low"] == first["rank_high"]
        if len(others) == 1:
            low, high = first["win_low"], first["win_high"]
            ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
            verdict = "told apart" if is_first_alone else "not told apart"
            names = f"{one_line(first['system'])} is preferred to {one_line(others[0]['system'])}"
            share = f"{100 * first['win_rate']:.0f} %{ends}"
            return (
                f"{names} in {share} of {number_of(comparisons, 'comparison')}: {verdict} at 95 %"
            )
        leaders = [_rank_text(row) for row in (first, *others)[:SHOWN]]
        rivals, alone = sum(row["rank_low"] == 1 for row in others), ""
        # Each range of ranks is for itself: even if no other can be ahead of the first, the others' may begin at 1.
        if rivals and first["rank_high"] > 1:
            alone = f"; {number_of(rivals, 'other')} may be as good as the first"
        return f"ranking of {number_of(len(others) + 1, 'system')}: {', '.join(leaders)}{alone}"


def _rank_text(row: Mapping[str, Any]) -> str:
    """Return a system with its rank; those that are not ruled out in brackets, if there are several."""
    low, high = row["rank_low"], row["rank_high"]
    ranks = "" if low == high else f" ({low} – {high})"
    return f"{row['rank']} {one_line(row['system'])}{ranks}"


def _effect_in_json(judge: str, effect: OrderEffect) -> dict[str, Any]:
    return {
        "judge": judge,
        "effect": finite(effect.effect),
        "ci_low": finite(effect.ci_low),
        "ci_high": finite(effect.ci_high),
        "n": effect.n,
        "n_prompts": effect.n_prompts,
    }


def order_effect_text(effect: OrderEffect) -> str:
    if math.isnan(effect.effect):
        return "not known: no comparison has verdicts in both orders"
    over = f"{number_of(effect.n, 'comparison')} of {number_of(effect.n_prompts, 'prompt')}"
    place = "the first" if effect.effect >= 0 else "the second"
    between = f"{place} response is preferred in {100 * (0.5 + abs(effect.effect)):.0f} %"
    if effect.ci_low <= 0.0 <= effect.ci_high:
        is_none = f"{effect.effect:.2f}" in {"0.00", "-0.00"}
        between = "there may be none" if is_none else f"there may be none; {between}"
    ends = f"[{effect.ci_low:+.2f}, {effect.ci_high:+.2f}]"
    return (
        f"{effect.effect:+.2f} {ends} (95 %, over {over}): {between}; taken out of all preferences"
    )
