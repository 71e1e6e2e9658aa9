"""The results of a pairwise run: preferences, order effects, the ranking of systems, the best response to each prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from robin_cli.goals.answers import SHOWN, winners_text
from robin_cli.goals.bests import best_facts, best_lines
from robin_cli.goals.comparisons import comparison_table, ranking_of, ranking_table
from robin_cli.goals.found import Builder, Found, View
from robin_cli.goals.people_tables import OF_PEOPLE, stances_of_bests
from robin_cli.goals.training import preferred_table
from robin_cli.model.records import counted, number_of
from robin_cli.policies.matches import ComparedPairs, Matches
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.show.words import MOST_LINES, compared_text, finite
from robin_cli.stats.pairwise import Ranked, order_means, pairwise_scores, ranked_systems
from robin_cli.stats.pairwise_decisions import Best, run_best
from robin_cli.stats.ranking import OrderEffect, order_effects
from robin_cli.stats.scores import Scores

_NOT_ASKED, _IN_PART, _IN_VAIN, _GIVEN_UP = (
    "not asked",
    "asked in part",
    "asked in vain",
    "given up",
)


class Preferences(Found):
    """The results of a pairwise run; intervals hold with 95 %, each for itself."""

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": comparison_table,
        "judge-scores": partial(comparison_table, by_judge=True),
        "ranking": ranking_table,
        "preferences": preferred_table,
        **OF_PEOPLE,
    }

    @cached_property
    def matches(self) -> Matches:
        """The comparisons."""
        return self.run.matches

    @cached_property
    def scores(self) -> Scores:
        """The preference of each comparison."""
        return pairwise_scores(self.run)

    @cached_property
    def compared(self) -> ComparedPairs:
        """Numbers of comparisons asked."""
        return self.matches.compared(self.run.fold.arms)

    @cached_property
    def order_effects(self) -> Sequence[OrderEffect]:
        """The order effect on each judge, in the order of the run's judges."""
        return order_effects(order_means(self.run), self.matches.prompt)

    @cached_property
    def ranked(self) -> Ranked:
        """The systems with their ranking."""
        return ranked_systems(self.run)

    @cached_property
    def best(self) -> Best | None:
        """The best response to each prompt, if the run looks for it."""
        return run_best(self.run) if self.matches.wants_best else None

    stances = stances_of_bests

    @property
    def is_over(self) -> bool:
        """Whether few enough bests are likely wrong, or every one that can be certified is."""
        if self.best is None:
            return False
        target = self.run.manifest.target_wrong
        return self.best.is_over or (target > 0 and self.best.share_wrong <= target)

    def facts(self) -> dict[str, Any]:
        run, compared, ranked = self.run, self.compared, self.ranked
        ranking, criteria = ranked.ranking, run.manifest.criteria
        effects = zip(run.space.judges, self.order_effects, strict=True)
        return {
            "comparisons": compared.comparisons,
            "comparisons_asked": compared.whole,
            "comparisons_in_part": compared.partly,
            "comparisons_without_preference": self._without,
            "no_preference_because": self._why_none(),
            "best": None if self.best is None else best_facts(self.run, self.best),
            **self.agreed_facts(),
            "ties": self._sum("n_ties"),
            "criterion": criteria[0] if criteria else None,
            "order_effects": [_order_effect(judge, each) for judge, each in effects],
            "systems": list(ranked.names),
            "ranking": ranking_of(ranked).records(),
            "ranking_comparisons": 0 if ranking is None else ranking.n_comparisons,
            "ranking_prompts": 0 if ranking is None else ranking.n_prompts,
            "ranking_is_bounded": None if ranking is None else ranking.is_bounded,
            "circle": self._circle,
            "not_ranked_because": self._not_ranked,
            "not_connected": [list(part) for part in ranked.parts],
            "decide": run.manifest.own_settings["decide"],
            **self.people.facts(),
            "judges": [each.facts() for each in self.judges],
        }

    def lines(self) -> dict[str, str]:
        people, several, run = self.people, len(self.judges) > 1, self.run
        labelled = any(each.labels is not None for each in people.means)
        because = counted(self._why_none())
        return {
            **({} if self.best is None else best_lines(self.run, self.best)),
            "comparisons": compared_text(self.compared),
            "without a preference": f"{self._without:,} ({because})" if self._without else "none",
            "ties": f"{self._sum('n_ties'):,}",
            **self._order_lines(),
            **self._ranking_lines(),
            **({"by labels": "; ".join(self.mean_lines())} if labelled else {}),
            **people.human_lines(run),
            **people.own_lines(known=True),
            **(
                {
                    f"judge {place}": each.line("verdict")
                    for place, each in enumerate(self.judges, 1)
                }
                if several
                else {}
            ),
        }

    @property
    def answer(self) -> list[str]:
        """The best responses, the head of the ranking, or the number of comparisons whose responses are told apart."""
        if self.best is not None:
            lines = best_lines(self.run, self.best)
            further = [lines["certified"]] if "certified" in lines else []
            winners = self._winners(self.best)
            return [*self.agreed_lines(), lines["decided"], winners, *further][:MOST_LINES]
        if (ranking := self.ranked.ranking) is not None:
            return [self._leaders(ranking.n_comparisons), *filter(None, [self.ranked.circle_text])]
        if self.ranked.names:
            return [f"no ranking of systems: {self._not_ranked}"]
        low, high = (self.scores.numbers(name) for name in ("ci_low", "ci_high"))
        clear = int(((low > 0.5) | (high < 0.5)).sum())
        return [
            f"in {clear:,} of {number_of(len(low), 'comparison')} a response is clearly preferred (95 %)"
        ]

    @property
    def asides(self) -> list[str]:
        """The number of comparisons asked, and the order effect on each judge."""
        return [
            compared_text(self.compared),
            *(f"{name}: {line}" for name, line in self._order_lines().items()),
            *self.repeat_lines,
        ]

    def _order_lines(self) -> dict[str, str]:
        several = len(self.judges) > 1
        effects = zip(self.run.space.judges, self.order_effects, strict=True)
        return {
            f"order effect{f' of {judge}' * several}": order_effect_text(each)
            for judge, each in effects
        }

    @property
    def is_open(self) -> bool:
        """Whether anything is left to ask that may settle more."""
        if self.best is not None:
            return not self.is_over
        first = ranking_of(self.ranked).records()[:1]
        is_told = bool(first) and first[0]["rank_low"] == first[0]["rank_high"]
        return not is_told and self.compared.whole < self.compared.comparisons

    def delivered(self, view: View) -> list[Table]:
        """Return the ranking, if there is one, and the comparisons."""
        is_ranked = self.ranked.ranking is not None and self.best is None
        return [self.table(what, view) for what in (*(["ranking"] * is_ranked), "scores")]

    def _sum(self, name: str) -> int:
        return int(np.asarray(self.scores.columns[name]).sum())

    @property
    def _without(self) -> int:
        return int(np.isnan(self.scores.numbers("preference")).sum())

    @property
    def _circle(self) -> dict[str, Any] | None:
        found, names = self.ranked.circle, self.ranked.names
        if found is None:
            return None
        return {**found._asdict(), "systems": [names[system] for system in found.systems]}

    @property
    def _not_ranked(self) -> str | None:
        return f"{self.ranked.why}; {self.ranked.step}" if self.ranked.why else None

    def _why_none(self) -> dict[str, int]:
        """Return the numbers of comparisons without a preference, by reason; empty if all have one."""
        scores, arms, space = self.scores, self.run.fold.arms, self.run.space
        retired, lacks = scores.retired, np.isnan(scores.numbers("preference"))
        in_vain = (
            space.by_pair((arms.n == 0) & ((arms.n_unparsed > 0) | (arms.n_failed > 0))).any(axis=1)
            & ~retired
        )
        is_new = (scores.numbers("n") == 0) & ~in_vain & ~retired
        counts = {
            _NOT_ASKED: int((lacks & is_new).sum()),
            _IN_PART: int((lacks & ~is_new & ~in_vain & ~retired).sum()),
            _IN_VAIN: int((lacks & in_vain).sum()),
            _GIVEN_UP: int((lacks & retired).sum()),
        }
        return {why: count for why, count in counts.items() if count}

    def _ranking_lines(self) -> dict[str, str]:
        ranking = self.ranked.ranking
        if ranking is None:
            is_asked = bool(self.ranked.names) or self.best is None
            return {"ranking": f"none: {self._not_ranked}"} if is_asked else {}
        by = f"{number_of(ranking.n_comparisons, 'comparison')} of {number_of(ranking.n_prompts, 'prompt')}"
        prior = (
            "" if ranking.is_bounded else "; with half a tie for every two, as some won or lost all"
        )
        rows = ranking_of(self.ranked).records()
        lines = {"ranking": f"{number_of(len(rows), 'system')} by {by} (95 % intervals){prior}"}
        if told := self.ranked.circle_text:
            lines["circle"] = told
        return lines

    def _leaders(self, comparisons: int) -> str:
        """Return the leading system and the next ones, with their certainty."""
        first, *others = ranking_of(self.ranked).records()
        if len(others) == 1:
            share = f"{100 * first['win_rate']:.0f} %{_ends(first, 'win', '{:.0f}', 100)}"
            verdict = "told apart" if first["rank_low"] == first["rank_high"] else "not told apart"
            preferred = (
                f"{one_line(first['system'])} is preferred to {one_line(others[0]['system'])}"
            )
            return f"{preferred} in {share} of {number_of(comparisons, 'comparison')}: {verdict} at 95 %"
        leaders = [
            f"{each['rank']} {one_line(each['system'])}{_rank_range(each)}"
            for each in (first, *others)[:SHOWN]
        ]
        rivals = sum(each["rank_low"] == 1 for each in others)
        # Each range of ranks is for itself: even if no other can be ahead of the first, the others' may begin at 1.
        alone = (
            f"; {number_of(rivals, 'other')} may be as good as the first"
            if rivals and first["rank_high"] > 1
            else ""
        )
        return f"ranking of {number_of(len(others) + 1, 'system')}: {', '.join(leaders)}{alone}"

    def _winners(self, best: Best) -> str:
        """Return the first leading responses, by their systems if these have names."""
        matches, names = self.matches, []
        prompts, place = np.unique(matches.prompt, return_index=True)
        for at in range(min(SHOWN, len(best.prompt))):
            comparison, side = int(best.comparison[at]), int(best.side[at])
            system = int(matches.system[comparison, side]) if matches.names else -1
            name = (
                matches.names[system]
                if system >= 0
                else f"{'AB'[side]} of {self.run.pair_ids[comparison]}"
            )
            names.append("–" if best.leader[at] < 0 else name)
        return winners_text(self.run, place[np.searchsorted(prompts, best.prompt)], names, "prompt")


def _order_effect(judge: str, each: OrderEffect) -> dict[str, Any]:
    numbers = {"effect": each.effect, "ci_low": each.ci_low, "ci_high": each.ci_high}
    told = {name: finite(value) for name, value in numbers.items()}
    return {"judge": judge, **told, "n": each.n, "n_prompts": each.n_prompts}


def order_effect_text(each: OrderEffect) -> str:
    """Return the order effect on a judge in words."""
    if math.isnan(each.effect):
        return "not known: no comparison has verdicts in both orders"
    over = f"{number_of(each.n, 'comparison')} of {number_of(each.n_prompts, 'prompt')}"
    place = "the first" if each.effect >= 0 else "the second"
    between = f"{place} response is preferred in {100 * (0.5 + abs(each.effect)):.0f} %"
    if each.ci_low <= 0.0 <= each.ci_high:
        is_none = f"{each.effect:.2f}" in {"0.00", "-0.00"}
        between = "there may be none" if is_none else f"there may be none; {between}"
    ends = f"[{each.ci_low:+.2f}, {each.ci_high:+.2f}]"
    return f"{each.effect:+.2f} {ends} (95 %, over {over}): {between}; taken out of all preferences"


def _rank_range(each: Mapping[str, Any]) -> str:
    """Return the ranks of a system that are not ruled out, in brackets if there are several."""
    low, high = each["rank_low"], each["rank_high"]
    return "" if low == high else f" ({low} – {high})"


def _ends(each: Mapping[str, Any], name: str, form: str, times: float = 1.0) -> str:
    low, high = each[f"{name}_low"], each[f"{name}_high"]
    return (
        ""
        if low is None or high is None
        else f" [{form.format(times * low)}, {form.format(times * high)}]"
    )
