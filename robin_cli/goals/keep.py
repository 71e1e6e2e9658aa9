"""Goals: on which side of thresholds each pair lies, and which response of each group is best, by ratings of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals import deciding
from robin_cli.goals.base import Words
from robin_cli.goals.deciding import WithDecisions
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.rated import Rated
from robin_cli.goals.scores import RatingGoal
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.decision import MARGIN, UNDECIDED
from robin_cli.policies.task import Task, sampled_of
from robin_cli.run.inquiry import Inquiry
from robin_cli.stats.court import Court, DecisionCourt, Snapshot
from robin_cli.stats.decided import Decided, decide, decisions_by, differing, tally_of
from robin_cli.stats.decisions import Evidence, RunVerdicts
from robin_cli.stats.likely_wrong import is_enough_asked, likely_wrong, share_to_test
from robin_cli.stats.row_scores import row_scores


class Decisions(Rated):
    """The results of a run that decides by ratings."""

    @property
    def decided(self) -> Decided:
        assert self.scores.decided is not None  # noqa: S101  # for the types
        return self.scores.decided

    def headline(self) -> Sequence[Fact]:
        """Return what is decided and how much is likely wrong; the calls of several judges; the winners; how much is certified.

        If the run asked whether people agree, that comes first.
        """
        head, *sure = deciding.decided_lines(self.decided)
        winners = [self._winners()] if self.decided.task.decision.is_best else []
        lines = [head, *self._opinions(), *winners, *sure]
        return [*self.agreed, *(line("", text) for text in lines)]

    def _opinions(self) -> list[str]:
        if not self.is_panel:
            return []
        first, *others = (f"{use.judge} {use.spent:,}" for use in self.judges)
        differ = [
            f"{other} (differs in {count:,} of {sampled:,} sampled decisions)"
            for other, (count, sampled) in zip(
                others, differing(self.decided.task, self.run.fold.arms), strict=True
            )
        ]
        return [f"calls: {', '.join([first, *differ])}"]

    def _winners(self) -> str:
        decided, run, rows = self.decided, self.run, self.decided.first
        pairs = run.space.pair[self.scores.arm[rows]].astype(np.int64)
        is_open = decided.decision[rows[: deciding.SHOWN]] == UNDECIDED
        names = np.where(
            is_open, UNDECIDED, deciding.names_of(run, pairs[: deciding.SHOWN])
        ).tolist()
        return deciding.winners_text(run, pairs, names, run.pairs.grouped_by)

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Whether each arm is to have a rating: a second judge is not asked about all."""
        return self.decided.task.starts | (self.run.fold.arms.n > 0)

    @property
    def is_over(self) -> bool:
        decided, arms = self.decided, self.run.fold.arms
        if self.target and decided.share_wrong <= self.target:
            return is_enough_asked(decided.task, arms.n, arms.is_retired)
        return decided.is_over

    @property
    def is_open(self) -> bool:
        return not self.is_over

    def details(self) -> Sequence[Fact]:
        decided = self.decided
        text = "; ".join([*deciding.decided_lines(decided), deciding.margin_text(decided.task)])
        target = deciding.target_lines(decided.share_wrong, self.target)
        return [line("decided", text), *target, *super().details(), self.average_line()]


@dataclass(frozen=True)
class DecisionsGoal(WithDecisions, RatingGoal):
    """Decisions by the judges' mean ratings; a wrong one is off by more than the margin."""

    result_class = Decisions
    flag = "--decide"
    columns = tuple(
        f"{name}_{part}" for name in ("wrong", "likely_wrong", "calls") for part in ("mean", "sem")
    )
    figures: ClassVar[Mapping[str, str]] = {
        "calls": "calls_mean",
        "wrong": "wrong_mean",
        "likely_wrong": "likely_wrong_mean",
        "decisions": "decisions_sum",
    }
    wants_scores = False

    task: Task

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run decides on pairs or groups. InputError for groups that are too large."""
        if (task := source.task) is None:
            return None
        _ = task.contests  # refuses groups that are too large
        return cls(source.space, task, target_wrong=source.target_wrong)

    @property
    def ends(self) -> bool:
        return bool(self.target_wrong) or self.task.decision.error_rate is not None

    @property
    def least_calls(self) -> int:
        return int(self.task.starts.sum())

    def pairs_within(self, budget: int) -> int:
        """Return how many pairs ``budget`` calls reach, each once by the first judge, and the sample by the others."""
        space = self.space
        others, attributes = len(space.judges) - 1, len(space.attributes)
        pairs = range(1, min(budget, len(space.pair_ids)) + 1)
        within = (n for n in pairs if attributes * (n + others * sampled_of(n)) <= budget)
        return max(within, default=1)

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The decision in full; no margin if it is the default."""
        margins: Sequence[float] = self.task.decision.margins
        usual = [MARGIN * (scale.high - scale.low) for scale in self.space.scales]
        is_usual = np.allclose(margins, usual, rtol=1e-9, atol=0.0)
        return {"decide": str(self.task.decision), "margin": None if is_usual else margins[0]}

    @property
    def things(self) -> str:
        return deciding.things(self.task)

    @property
    def first_test(self) -> int:
        return self.space.first_fit

    def evidence(self) -> Evidence | None:
        return None if self.task.decision.error_rate is None else Evidence(self.task)

    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        task, sums = self.task, arms.copied_sums()
        tally = tally_of(task, decisions_by(task, row_scores(task.space, task, sums).score))
        return deciding.kept_text(task, tally), likely_wrong(task, sums, arms.is_retired)

    def is_good_enough(self, arms: Arms, target: float) -> bool:
        return share_to_test(self.task, arms.copied_sums(), arms.is_retired, target) <= target

    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        return decide(self.task, lambda: verdicts.counts, arms).is_over

    def court(self, runs: int) -> Court:
        return DecisionCourt(self.task, runs, self.target_wrong)

    def loss(self, snapshot: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        del truth
        return {
            **snapshot.measured,
            "decisions": np.full(len(snapshot.n), float(self.task.decisions)),
        }

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        del words
        return deciding.wrong_then(row["wrong"], row["decisions"])
