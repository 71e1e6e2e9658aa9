"""What a pairwise run says: preferences, the order's effect, the ranking of its systems, the best response to each prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.order_effect import OrderEffect, order_effects
from robin_cli.analysis.pairwise import Ranked, order_means, pairwise_scores, ranked_systems
from robin_cli.analysis.pairwise_decisions import Best, run_best
from robin_cli.analysis.scores import Scores
from robin_cli.goals.found import Found, View
from robin_cli.goals.judges import asked_of, cost_of
from robin_cli.goals.tables.ranking import ranking_of
from robin_cli.model.errors import typed
from robin_cli.model.matches import Compared, Matches
from robin_cli.model.records import GivenLabels, counted, number_of
from robin_cli.render.text import one_line
from robin_cli.results.tables import Table
from robin_cli.results.words import compared_text, finite

_MOST_SHOWN = 20
_NOT_ASKED, _IN_PART, _IN_VAIN, _GIVEN_UP = "not asked", "asked in part", "asked in vain", "given up"


class Preferences(Found):
    """What a pairwise run says; intervals hold with 95 %, each for itself."""

    @cached_property
    def matches(self) -> Matches:
        """What its comparisons are of."""
        return self.run.matches

    @cached_property
    def scores(self) -> Scores:
        """The preference of each comparison."""
        return pairwise_scores(self.run)

    @cached_property
    def compared(self) -> Compared:
        """How many comparisons were asked."""
        return self.matches.compared(self.run.fold.arms)

    @cached_property
    def order_effects(self) -> Sequence[OrderEffect]:
        """Of each judge, in the order of the run's judges."""
        return order_effects(order_means(self.run), self.matches.prompt)

    @cached_property
    def ranked(self) -> Ranked:
        """The systems."""
        return ranked_systems(self.run)

    @cached_property
    def best(self) -> Best | None:
        """The best response to each prompt, where the run looks for it."""
        return run_best(self.run) if self.matches.wants_best else None

    @property
    def error_rate(self) -> float:
        """Of what is certified this share is wrong at most, on average."""
        return float(self.run.manifest.settings.get("error_rate") or ALPHA)

    @property
    def is_over(self) -> bool:
        """Whether the best response is certain wherever it can be."""
        return self.best is not None and self.best.is_over

    def facts(self, given: GivenLabels | None = None) -> dict[str, Any]:
        """Return what ``robin status --json`` has of the results."""
        del given
        run, told, compared, ranked = self.run, self.scores.columns, self.compared, self.ranked
        ranking, criteria = ranked.ranking, run.manifest.criteria
        effects = zip(run.space.judges, self.order_effects, strict=True)
        return {
            "comparisons": compared.comparisons,
            "comparisons_asked": compared.whole,
            "comparisons_in_part": compared.partly,
            "comparisons_without_preference": int(np.isnan(self.scores.numbers("preference")).sum()),
            "no_preference_because": self._why_none(),
            "comparisons_certified": int(np.asarray(told["certified"]).sum()),
            "best": self._best_facts(),
            "error_rate": self.error_rate,
            "ties": int(np.asarray(told["n_ties"]).sum()),
            "criterion": criteria[0] if criteria else None,
            "order_effects": [_order_effect(judge, each) for judge, each in effects],
            "systems": list(ranked.names),
            "ranking": ranking_of(ranked).records(),
            "ranking_comparisons": 0 if ranking is None else ranking.n_comparisons,
            "ranking_prompts": 0 if ranking is None else ranking.n_prompts,
            "ranking_is_bounded": None if ranking is None else ranking.is_bounded,
            "not_ranked_because": f"{ranked.why}; {ranked.step}" if ranked.why else None,
            "not_connected": [list(part) for part in ranked.parts],
            "decide": run.manifest.own_settings["decide"],
            "judges": [asked_of(run, judge) for judge in run.space.judges],
        }

    def lines(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return ``facts`` in words, by name."""
        judges = facts["judges"] if len(facts["judges"]) > 1 else []
        return {**_result_lines(facts), **{f"judge {place}": _judge_line(each) for place, each in enumerate(judges, 1)}}

    def delivered(self, view: View) -> list[Table]:
        """Return the comparisons, and the ranking where there is one."""
        there = ["scores", *(["ranking"] if self.ranked.ranking is not None else [])]
        return [self.table(what, view) for what in there]

    def _why_none(self) -> dict[str, int]:
        """Comparisons without a preference, counted by why; nothing where all have one."""
        scores, arms, space = self.scores, self.run.fold.arms, self.run.space
        retired, lacks = scores.retired, np.isnan(scores.numbers("preference"))
        in_vain = space.by_pair((arms.counts == 0) & ((arms.unparsed > 0) | (arms.failed > 0))).any(axis=1) & ~retired
        is_new = (scores.numbers("n") == 0) & ~in_vain & ~retired
        counts = {
            _NOT_ASKED: int((lacks & is_new).sum()),
            _IN_PART: int((lacks & ~is_new & ~in_vain & ~retired).sum()),
            _IN_VAIN: int((lacks & in_vain).sum()),
            _GIVEN_UP: int((lacks & retired).sum()),
        }
        return {why: count for why, count in counts.items() if count}

    def _best_facts(self) -> dict[str, int] | None:
        """How many prompts have a best response, and of how many that is certain; None where none is looked for."""
        if (best := self.best) is None:
            return None
        return {
            "of": len(best.prompt),
            "certified": best.decided,
            "leading": int((best.leader >= 0).sum()),
            "stuck": int(best.stuck.sum()),
        }


def _judge_line(each: Mapping[str, Any]) -> str:
    money = "" if each["cost_usd_at_least"] is None else f", {cost_of(each)}"
    return f"{each['judge']}: {number_of(each['spent'], 'call')}, {number_of(each['ratings'], 'verdict')}{money}"


def best_text(found: Mapping[str, int], error_rate: float) -> str:
    """The best responses in words."""
    certain, open_ = found["certified"], found["of"] - found["certified"]
    promise = f" (no other is better beyond the margin; at most {100 * error_rate:g} % of these wrong on average)"
    promise = promise if certain else ""
    line = f"certain for {certain:,} of {number_of(found['of'], 'prompt')}{promise}"
    if not open_:
        return line
    leading = found["leading"] - certain
    stuck = f", {found['stuck']:,} that no call can settle" if found["stuck"] else ""
    return f"{line}; {open_:,} open, in {leading:,} of them a response leads{stuck}"


def _order_effect(judge: str, each: OrderEffect) -> dict[str, Any]:
    numbers = {"effect": each.effect, "ci_low": each.ci_low, "ci_high": each.ci_high}
    told = {name: finite(value) for name, value in numbers.items()}
    return {"judge": judge, **told, "n": each.n, "n_prompts": each.n_prompts}


def _result_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    asked = Compared(facts["comparisons_asked"], facts["comparisons_in_part"], facts["comparisons"])
    without, sure = facts["comparisons_without_preference"], facts["comparisons_certified"]
    several = len(facts["order_effects"]) > 1
    effects = {
        f"order effect {number}" if several else "order effect": (f"{each['judge']}: " if several else "")
        + order_effect_text(each)
        for number, each in enumerate(facts["order_effects"], 1)
    }
    return {
        "comparisons": compared_text(asked),
        "without a preference": f"{without:,} ({counted(facts['no_preference_because'])})" if without else "none",
        "certified": f"{number_of(sure, 'comparison')} (at most {100 * facts['error_rate']:g} % of these wrong on average)"
        if sure
        else "none",
        **({} if facts["best"] is None else {"best response": best_text(facts["best"], facts["error_rate"])}),
        "ties": f"{facts['ties']:,}",
        **effects,
        **_ranking_lines(facts),
    }


def order_effect_text(each: Mapping[str, Any]) -> str:
    """The order's effect on a judge in words."""
    if each["effect"] is None:
        return "not known: no comparison has verdicts in both orders"
    over = f"{number_of(each['n'], 'comparison')} of {number_of(each['n_prompts'], 'prompt')}"
    place = "the first" if each["effect"] >= 0 else "the second"
    between = f"{place} response is preferred in {100 * (0.5 + abs(each['effect'])):.0f} %"
    if each["ci_low"] is not None and each["ci_low"] <= 0.0 <= each["ci_high"]:
        between = (
            f"there may be none; {between}" if f"{each['effect']:.2f}" not in {"0.00", "-0.00"} else "there may be none"
        )
    ends = f"[{each['ci_low']:+.2f}, {each['ci_high']:+.2f}]"
    return f"{each['effect']:+.2f} {ends} (95 %, over {over}): {between}; taken out of all preferences"


def _ranking_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    if not facts["ranking"] and not facts["systems"] and facts["best"] is not None:
        return {}  # nobody asked for one
    if not facts["ranking"]:
        return {"ranking": f"none: {facts['not_ranked_because']}"}
    by = f"{number_of(facts['ranking_comparisons'], 'comparison')} of {number_of(facts['ranking_prompts'], 'prompt')}"
    prior = "" if facts["ranking_is_bounded"] else "; with half a tie for every two, as some won or lost all"
    count = len(facts["ranking"])
    lines = {"ranking": f"{number_of(count, 'system')} by {by} (95 % intervals){prior}"}
    lines |= {f"system {place}": _system_text(each) for place, each in enumerate(facts["ranking"][:_MOST_SHOWN], 1)}
    if count > _MOST_SHOWN:
        lines["further systems"] = f"{count - _MOST_SHOWN:,}; all: robin export {typed(facts['run'])} --what ranking"
    return lines


def _system_text(each: Mapping[str, Any]) -> str:
    strength = f"strength {each['strength']:+.2f}{_ends(each, 'ci', '{:+.2f}')}"
    wins = f"preferred in {100 * each['win_rate']:.0f} %{_ends(each, 'win', '{:.0f}', 100)}"
    return f"{one_line(each['system'])}: rank {ranks_text(each)}, {strength}, {wins}, {number_of(each['n_votes'], 'verdict')}"


def ranks_text(each: Mapping[str, Any]) -> str:
    """The rank of a system, and in brackets those that are not ruled out where they are several."""
    low, high = each["rank_low"], each["rank_high"]
    return f"{each['rank']}" if low == high else f"{each['rank']} ({low} – {high})"


def _ends(each: Mapping[str, Any], name: str, form: str, times: float = 1.0) -> str:
    low, high = each[f"{name}_low"], each[f"{name}_high"]
    return "" if low is None or high is None else f" [{form.format(times * low)}, {form.format(times * high)}]"


def headlines(facts: Mapping[str, Any]) -> list[str]:
    several = len(facts["order_effects"]) > 1
    lines = [
        f"order effect{' of ' + each['judge'] if several else ''}: {order_effect_text(each)}"
        for each in facts["order_effects"]
        if each["effect"] is not None
    ]
    if facts["best"] is not None:
        return [*lines, f"best response {best_text(facts['best'], facts['error_rate'])}"]
    if not facts["ranking"]:
        if facts["systems"]:
            lines.append(f"no ranking of systems: {facts['not_ranked_because']}")
        if sure := facts["comparisons_certified"]:
            rate = f"at most {100 * facts['error_rate']:g} % wrong on average"
            lines.append(f"in {number_of(sure, 'comparison')} a response is certified to be better ({rate})")
        return lines
    first, *others = facts["ranking"]
    if len(others) == 1:
        share = f"{100 * first['win_rate']:.0f} %{_ends(first, 'win', '{:.0f}', 100)}"
        verdict = "told apart" if first["rank_low"] == first["rank_high"] else "not told apart"
        of = number_of(facts["ranking_comparisons"], "comparison")
        lines.append(
            f"{one_line(first['system'])} is preferred to {one_line(others[0]['system'])} in {share} of {of}: {verdict} at 95 %"
        )
    else:
        open_ = [each["system"] for each in others if each["rank_low"] == 1]
        # Each range of ranks is for itself: where no other can be ahead of the first, the others' own may still begin at 1.
        is_open = open_ and first["rank_high"] > 1
        rivals = f"; {number_of(len(open_), 'other')} may be as good" if is_open else ""
        lines.append(
            f"{one_line(first['system'])} leads {number_of(len(others) + 1, 'system')}, rank {ranks_text(first)}{rivals}"
        )
    return lines
