"""Goal: the response to each prompt that is preferred to all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals import deciding
from robin_cli.goals.deciding import WithDecisions
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.preferences import Preferences
from robin_cli.goals.ranking import PairwiseGoal
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.records import number_of
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.run.inquiry import Inquiry
from robin_cli.stats.court import Court, DuelCourt, Snapshot
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.pairwise_decisions import Best, DuelEvidence, best_responses, run_best
from robin_cli.stats.stances import Stances, stances_of_best

_ROUNDING = 1e-9


class BestResponses(Preferences):
    @cached_property
    def best(self) -> Best:
        return run_best(self.run)

    def stances(self, labels: GivenLabels | None) -> Stances:
        return stances_of_best(self.run, self.best, labels)

    @property
    def is_over(self) -> bool:
        return self.best.is_over or (self.target > 0 and self.best.share_wrong <= self.target)

    @property
    def is_open(self) -> bool:
        return not self.is_over

    def headline(self) -> Sequence[Fact]:
        lines = [self._decided, self._winners(), *self._certified]
        return [*self.agreed, *(line("", text) for text in lines)]

    @property
    def _decided(self) -> str:
        return f"{deciding.best_text(self.best)}; {deciding.wrong_text(self.best.likely_wrong)}"

    @property
    def _certified(self) -> list[str]:
        prompts = number_of(len(self.best.prompt), "prompt")
        return deciding.certified_lines(self.best.certified, prompts, self.run.manifest.error_rate)

    def details(self) -> Sequence[Fact]:
        certified = [line("certified", text) for text in self._certified]
        target = deciding.target_lines(self.best.share_wrong, self.target)
        return [line("decided", self._decided), *certified, *target, *super().details()]

    def _winners(self) -> str:
        matches, best, names = self.matches, self.best, []
        prompts, place = np.unique(matches.prompt, return_index=True)
        for at in range(min(deciding.SHOWN, len(best.prompt))):
            comparison, side = int(best.comparison[at]), int(best.side[at])
            system = int(matches.system[comparison, side]) if matches.names else -1
            name = f"{'AB'[side]} of {self.run.pair_ids[comparison]}"
            name = matches.names[system] if system >= 0 else name
            names.append("–" if best.leader[at] < 0 else name)
        return deciding.winners_text(
            self.run, place[np.searchsorted(prompts, best.prompt)], names, "prompt"
        )


@dataclass(frozen=True)
class BestGoal(WithDecisions, PairwiseGoal):
    """The response to each prompt that is preferred to all others.

    Attributes:
        margin: a probability by which it may fall short of ½.
        error_rate: of certified ones; None without any.
    """

    result_class = BestResponses
    what = "prompts"
    asks_each = False
    columns = (
        *PairwiseGoal.columns,
        *("likely_wrong_mean", "likely_wrong_sem", "calls_sem"),
    )

    margin: float = field(default=DEFAULT_MARGIN, kw_only=True)
    error_rate: float | None = field(default=None, kw_only=True)

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        settings = source.run_settings
        if not source.is_pairwise or settings["decide"] is None:
            return None
        return cls(
            source.space,
            source.matches,
            target_wrong=source.target_wrong,
            margin=settings["margin"] or DEFAULT_MARGIN,
            error_rate=settings["error_rate"] if settings.get("certify") else None,
        )

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of prompts, with one comparison each."""
        return int(np.unique(self.matches.prompt).size), "a comparison for each prompt"

    @property
    def things(self) -> str:
        return number_of(len(self.matches.rivals.rows), "prompt")

    @property
    def first_test(self) -> int:
        return len(self.matches.rivals.rows) * self.space.arms_per_pair

    def evidence(self) -> DuelEvidence | None:
        if self.error_rate is None:
            return None
        return DuelEvidence(self.matches.rivals, error_rate=self.error_rate, margin=self.margin)

    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        best = best_responses(self.matches.rivals, arms, self.margin)
        return deciding.best_text(best), best.likely_wrong

    def is_good_enough(self, arms: Arms, target: float) -> bool:
        return best_responses(self.matches.rivals, arms, self.margin).share_wrong <= target

    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        evidence = self.evidence()
        if evidence is None:
            return False
        known = evidence.of_run(verdicts.counts, arms)
        return best_responses(self.matches.rivals, arms, self.margin, known).is_over

    def court(self, runs: int) -> Court:
        return DuelCourt(self.matches.rivals, self.margin, runs, self.target_wrong)

    def loss(self, snapshot: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return also the share likely wrong, and the calls spent until the run ended."""
        return {**super().loss(snapshot, truth), **snapshot.measured}

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of prompts with no leader, or with a response preferred to it by more than the margin."""
        rows, side = self.matches.rivals.rows, self.matches.rivals.side
        of_prompts = np.where(rows >= 0, preference[rows], np.nan)
        leader = self.matches.rivals.leaders(of_prompts, np.arange(len(rows)))[:, None]
        ahead = np.where(side[..., 0] == leader, 0.5 - truth[rows], -np.inf)
        ahead = np.where(side[..., 1] == leader, truth[rows] - 0.5, ahead)
        is_behind = (np.where(rows >= 0, ahead, -np.inf) > self.margin + _ROUNDING).any(axis=1)
        return float((is_behind | np.isnan(of_prompts).all(axis=1)).mean())
