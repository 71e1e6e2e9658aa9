"""What a run is to find, as an experiment measures it: what it gets wrong, what holds, and what is known then in words.

Each goal says for itself what it measures of simulated runs; :func:`goal_of` is the one place that knows which goals there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from robin_cli.analysis.court import Verdict
from robin_cli.analysis.order_effect import effects_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, fit, wins_of
from robin_cli.model.matches import Matches
from robin_cli.model.records import ORDERS, number_of
from robin_cli.model.rivals import Rivals
from robin_cli.model.systems import Systems
from robin_cli.model.task import Task
from robin_cli.simulation.runs import Snapshot

Figures = Mapping[str, Any]
"""A row of a forecast: figures by name, None where nothing is known."""

Words = Callable[[float], str]
"""Writes an error in the unit of the run's errors."""

_EQUAL = 1e-9


class Goal:
    """What a run is to find. A new one is a subclass, and a line of ``_KINDS``.

    Attributes:
        ends: whether a run ends by itself, before its budget is spent.
        columns: what ``robin simulate`` prints of each scheduler and budget: measures with _mean, _std or _sem.
        what: may be wrong, in words, where ``columns`` have it.
    """

    ends: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ()
    what: str = ""

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return what each run gets wrong, by measure, shape (runs,) each; what else is measured may have other shapes.

        Args:
            truth: the true means of all arms, shape (runs, K).
        """
        return {}

    def certified(self, found: Snapshot) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return which share each run certifies, and how much of that is wrong; nothing where nothing is certified."""
        return {}

    def known_then(self, row: Figures, words: Words) -> str:
        """Return in words what is known when a budget is spent; "" where that is not forecast."""
        raise NotImplementedError


class Estimate(Goal):
    """Scores of every arm; wrong by their distance from the judge's own means, in the unit of the errors."""

    columns = ("wce_mean", "wce_std", "wce_sem")

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:  # noqa: ARG002
        return {"wce": found.wce, "mean": found.mean_error}

    def known_then(self, row: Figures, words: Words) -> str:
        if row["worst_error"] is None:
            return ""
        return f"the worst score is off by about {words(row['worst_error'])}, the average one by {words(row['mean_error'])}"


@dataclass(frozen=True)
class Decide(Goal):
    """Thresholds that pairs pass or fail, or the best response of each group; wrong by more than the margin."""

    task: Task
    ends = True
    columns = ("wrong_mean", "wrong_sem", "certified_mean", "certified_wrong_mean", "calls_mean")

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:  # noqa: ARG002
        verdict = _verdict(found)
        return {"wrong": verdict.wrong, "calls": np.asarray(verdict.calls, np.float64)}

    def certified(self, found: Snapshot) -> dict[str, FloatArray]:
        verdict = _verdict(found)
        return {"certified": verdict.certified, "certified_wrong": verdict.certified_wrong}

    def known_then(self, row: Figures, words: Words) -> str:  # noqa: ARG002
        if row["wrong"] is None:
            return ""
        return (
            f"{share_text(row['wrong'])} of the decisions are wrong, and {share_text(row['certified'])} are certified"
        )


def _verdict(found: Snapshot) -> Verdict:
    assert found.verdict is not None  # noqa: S101  # there is something to decide
    return found.verdict


@dataclass(frozen=True)
class Compare(Goal):
    """Differences of systems' mean scores.

    No answer changes who is asked first, so :func:`robin_cli.analysis.paired.difference_shown` stands for the experiment.
    """

    systems: Systems

    def known_then(self, row: Figures, words: Words) -> str:
        prompts = number_of(row["prompts"], "prompt")
        if row["shows"] is None:
            return f"which difference shows over {prompts} is not known"
        return f"a difference of {words(row['shows'])} between two systems shows, over {prompts}"


@dataclass(frozen=True)
class Rank(Goal):
    """The order of systems, the best response to each prompt, or which of two responses is better, by verdicts.

    What is not known counts as half wrong; of what is equal in truth, nothing is wrong.
    """

    matches: Matches
    columns = ("what", "asked_mean", "calls_mean", "wrong_mean", "wrong_sem", "any_mean", "order_effect_mean")

    @property
    def what(self) -> str:  # type: ignore[override]
        """Systems in the wrong order, prompts with another best response, or comparisons with the other response better."""
        if self.matches.wants_best:
            return "prompts"
        return "couples of systems" if self.matches.ranks_systems else "comparisons"

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the share that is wrong, whether any is, and of the comparisons how many were asked, and how often each."""
        runs = len(found.n)
        scale = self.matches.space.scales[0]
        by_order = (runs, len(self.matches), len(ORDERS), len(self.matches.space.judges))
        points, true = (
            (each.reshape(by_order) - scale.low) / (scale.high - scale.low) for each in (found.estimates, truth)
        )
        preference, in_truth = points.mean(axis=(2, 3)), true.mean(axis=(2, 3))
        is_whole = ~np.isnan(preference)
        wrong = np.array([self._wrong(*each) for each in zip(in_truth, preference, strict=True)])
        effects = effects_of(points.reshape(-1, *by_order[2:])).reshape(runs, -1)
        return {
            "wrong": wrong,
            "any": (wrong > 0).astype(np.float64),
            "asked": is_whole.mean(axis=1),
            "calls": np.array([found.budget * runs / max(int(is_whole.sum()), 1)]),
            "order_effect": effects,
        }

    def known_then(self, row: Figures, words: Words) -> str:  # noqa: ARG002
        known = []
        if row["win_rate_half_width"] is not None:
            known.append(f"each system's win rate is known to ± {100 * row['win_rate_half_width']:.0f} %")
        if row["wrong"] is not None:
            what = "best responses" if self.matches.wants_best else self.what
            known.append(f"{share_text(row['wrong'])} of the {what} are wrong")
        if not known:
            known.append(f"one preference is known to ± {100 * row['preference_half_width']:.0f} %")
        return ", and ".join(known)

    @cached_property
    def _rivals(self) -> Rivals:
        return Rivals(self.matches)

    def _wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share that is wrong in one run."""
        if self.matches.wants_best:
            return float((self._best(preference) != self._best(truth)).mean())
        if not self.matches.ranks_systems:
            return _share_wrong(truth - 0.5, np.nan_to_num(preference, nan=0.5) - 0.5)
        i, j = np.triu_indices(len(self.matches.names), 1)
        real, mine = (self._strengths(each) for each in (truth, preference))
        return _share_wrong(real[i] - real[j], mine[i] - mine[j])

    def _strengths(self, preference: FloatArray) -> FloatArray:
        """Return strengths by the comparisons with a preference, and half a tie of every two systems: not all are compared."""
        there = ~np.isnan(preference)
        wins = wins_of(preference[there], self.matches.system[there], len(self.matches.names)) + 0.5 * PRIOR
        np.fill_diagonal(wins, 0.0)
        return fit(wins).values

    def _best(self, preference: FloatArray) -> IntArray:
        """Return the place of the response to each prompt that leads; −1 where nothing is known of any."""
        rows = self._rivals.rows
        of_prompts = np.where(rows >= 0, preference[rows], np.nan)
        leader = self._rivals.leaders(of_prompts, np.arange(len(of_prompts)))
        return np.where(np.isnan(of_prompts).all(axis=1), -1, leader)


def _share_wrong(truth: FloatArray, found: FloatArray) -> float:
    side, mine = (np.where(np.abs(each) <= _EQUAL, 0.0, np.sign(each)) for each in (truth, found))
    differs = side != 0
    return float((0.5 * (1.0 - side[differs] * mine[differs])).mean()) if differs.any() else 0.0


def share_text(share: float) -> str:
    """Write a share as people read it: 12 %, 0.6 %, and none as such."""
    percent = 100.0 * share
    return "none" if not share else f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


_KINDS: Mapping[str, Callable[[Any], Goal]] = {"matches": Rank, "task": Decide, "systems": Compare}
"""Goals by what they are about, of which a run has one at most."""


def goal_of(*, matches: Matches | None = None, task: Task | None = None, systems: Systems | None = None) -> Goal:
    """Return the goal of a run with these; scores where there is nothing else to find."""
    given = {"matches": matches, "task": task, "systems": systems}
    return next((kind(given[name]) for name, kind in _KINDS.items() if given[name] is not None), Estimate())
